// Reading: the engine's lists as Observed. Pure mapping; fields that an engine leaves out get their neutral value.
import type { Resources } from '../../core/state/desired.ts';
import type {
  ContainerDetail,
  ContainerState,
  ObservedContainer,
  ObservedImage,
  ObservedNetwork,
  ObservedVolume,
} from '../../core/state/observed.ts';

type Labels = Readonly<Record<string, string>>;

export interface ApiContainer {
  readonly Id: string;
  readonly Names: readonly string[] | null;
  readonly Image: string;
  readonly ImageID: string;
  readonly Created: number;
  readonly Labels: Labels | null;
  readonly State: string;
  readonly Status: string;
  readonly Ports: readonly { IP?: string; PublicPort?: number; PrivatePort: number; Type: string }[] | null;
  readonly NetworkSettings?: {
    readonly Networks?: Readonly<Record<string, { NetworkID?: string } | null>> | null;
  } | null;
  readonly Mounts?: readonly { Type: string; Name?: string; Source?: string; Destination: string }[] | null;
}

export interface ApiNetwork {
  readonly Id: string;
  readonly Name: string;
  readonly Internal?: boolean;
  readonly IPAM?: { readonly Config?: readonly { readonly Gateway?: string }[] | null } | null;
  readonly Labels?: Labels | null;
}

export interface ApiVolume {
  readonly Name: string;
  readonly Labels?: Labels | null;
}

export interface ApiImage {
  readonly Id: string;
  readonly RepoTags?: readonly string[] | null;
  readonly RepoDigests?: readonly string[] | null;
  readonly Labels?: Labels | null;
}

export interface ApiInspect {
  readonly Id: string;
  readonly RestartCount?: number;
  readonly State?: { StartedAt?: string; FinishedAt?: string; OOMKilled?: boolean; Error?: string; Status?: string };
  readonly Config?: { Tty?: boolean };
  readonly HostConfig?: {
    Memory?: number;
    MemoryReservation?: number;
    MemorySwap?: number;
    NanoCpus?: number;
    CpuShares?: number;
    CpusetCpus?: string;
    PidsLimit?: number | null;
    RestartPolicy?: { Name?: string; MaximumRetryCount?: number };
    NetworkMode?: string;
    PidMode?: string;
    IpcMode?: string;
    VolumesFrom?: readonly string[] | null;
  };
  readonly NetworkSettings?: {
    Networks?: Readonly<Record<string, { Aliases?: readonly string[] | null } | null>> | null;
  };
}

export const composeLabel = {
  project: 'com.docker.compose.project',
  service: 'com.docker.compose.service',
  number: 'com.docker.compose.container-number',
  oneOff: 'com.docker.compose.oneoff',
  configHash: 'com.docker.compose.config-hash',
  workingDir: 'com.docker.compose.project.working_dir',
  network: 'com.docker.compose.network',
  volume: 'com.docker.compose.volume',
} as const;

const states = new Set<string>(['created', 'running', 'paused', 'restarting', 'removing', 'exited', 'dead']);

export function containerOf(
  api: ApiContainer,
  stoppedByHand: boolean,
  detail: ContainerDetail | null,
  deafPorts: readonly number[] = [],
): ObservedContainer {
  const labels = api.Labels ?? {};
  const state = (states.has(api.State) ? api.State : 'dead') as ContainerState;
  return {
    id: api.Id,
    name: nameOf(api.Names ?? []),
    project: labels[composeLabel.project] ?? '',
    service: labels[composeLabel.service] ?? '',
    number: Number(labels[composeLabel.number]) || 0,
    oneOff: labels[composeLabel.oneOff]?.toLowerCase() === 'true',
    configHash: labels[composeLabel.configHash] ?? '',
    state,
    health: healthOf(api.Status),
    exitCode: exitCodeOf(api.Status),
    image: api.Image,
    imageId: api.ImageID,
    workingDir: labels[composeLabel.workingDir] ?? '',
    labels,
    networks: Object.entries(api.NetworkSettings?.Networks ?? {}).map(([name, network]) => ({
      name,
      id: network?.NetworkID ?? '',
    })),
    mounts: (api.Mounts ?? []).map((mount) => ({
      kind: mount.Type,
      name: mount.Name ?? '',
      source: mount.Source ?? '',
      destination: mount.Destination,
    })),
    createdAtMs: api.Created * 1000,
    ports: (api.Ports ?? []).map((port) => ({
      hostIp: port.IP ?? '',
      published: port.PublicPort ?? 0,
      target: port.PrivatePort,
      protocol: port.Type,
    })),
    deafPorts,
    stoppedByHand,
    detail,
  };
}

export function networkOf(api: ApiNetwork): ObservedNetwork {
  const labels = api.Labels ?? {};
  return {
    id: api.Id,
    name: api.Name,
    project: labels[composeLabel.project] ?? '',
    key: labels[composeLabel.network] ?? '',
    configHash: labels[composeLabel.configHash] ?? '',
    internal: api.Internal ?? false,
  };
}

export function volumeOf(api: ApiVolume): ObservedVolume {
  const labels = api.Labels ?? {};
  return {
    name: api.Name,
    project: labels[composeLabel.project] ?? '',
    key: labels[composeLabel.volume] ?? '',
    configHash: labels[composeLabel.configHash] ?? '',
  };
}

export function imageOf(api: ApiImage): ObservedImage {
  return {
    id: api.Id,
    // Engines write placeholders for an image that has lost its name.
    tags: (api.RepoTags ?? []).filter((tag) => tag !== '<none>:<none>'),
    digests: (api.RepoDigests ?? []).filter((digest) => digest !== '<none>@<none>'),
    labels: api.Labels ?? {},
  };
}

export function detailOf(api: ApiInspect): ContainerDetail {
  const aliases: Record<string, readonly string[]> = {};
  for (const [name, network] of Object.entries(api.NetworkSettings?.Networks ?? {})) {
    aliases[name] = network?.Aliases ?? [];
  }
  return {
    resources: resourcesOf(api),
    aliases,
    shares: sharesOf(api),
    startedAt: api.State?.StartedAt ?? '',
    finishedAt: api.State?.FinishedAt ?? '',
    restartCount: api.RestartCount ?? 0,
    oomKilled: api.State?.OOMKilled ?? false,
    error: api.State?.Error ?? '',
  };
}

function sharesOf({ HostConfig: host = {} }: ApiInspect): ContainerDetail['shares'] {
  const namespaces = [
    { what: 'network', mode: host.NetworkMode },
    { what: 'pid', mode: host.PidMode },
    { what: 'ipc', mode: host.IpcMode },
  ] as const;
  return [
    ...namespaces.flatMap(({ what, mode }) =>
      mode?.startsWith('container:') ? [{ what, id: mode.slice('container:'.length) }] : [],
    ),
    ...(host.VolumesFrom ?? []).map((from) => ({ what: 'volumes' as const, id: from.split(':')[0] ?? '' })),
  ];
}

function resourcesOf(api: ApiInspect): Resources {
  const host = api.HostConfig ?? {};
  const policy = host.RestartPolicy?.Name || 'no';
  const tries = host.RestartPolicy?.MaximumRetryCount ?? 0;
  return {
    memoryBytes: host.Memory ?? 0,
    memoryReservationBytes: host.MemoryReservation ?? 0,
    nanoCpus: host.NanoCpus ?? 0,
    cpuShares: host.CpuShares ?? 0,
    cpuset: host.CpusetCpus ?? '',
    // The engine writes -1 or null for "no limit".
    pidsLimit: Math.max(0, host.PidsLimit ?? 0),
    restart: policy === 'on-failure' && tries > 0 ? `on-failure:${tries}` : policy,
  };
}

// A container that others link to has further names with two slashes.
function nameOf(names: readonly string[]): string {
  const own = names.find((name) => name.lastIndexOf('/') === 0) ?? names[0] ?? '';
  return own.replace(/^\//, '');
}

function healthOf(status: string): ObservedContainer['health'] {
  if (status.endsWith('(healthy)')) return 'healthy';
  if (status.endsWith('(unhealthy)')) return 'unhealthy';
  return status.endsWith('(health: starting)') ? 'starting' : 'none';
}

function exitCodeOf(status: string): number | null {
  const found = /^(?:Exited|Restarting) \((-?\d+)\)/.exec(status);
  return found === null ? null : Number(found[1]);
}
