// One-shot spec: which container a one-shot is: what it takes from its service in the resolved project, and what it brings itself.
// Pure. It never takes a service's ports, labels, aliases, healthcheck, restart policy or limits.
import { isAbsolute, join } from 'node:path';
import { Fault } from '../../core/fault.ts';
import { mountOf } from '../../core/hook/mount.ts';
import { readRaw, toJs } from '../../core/render/config-hash.ts';
import type { OneShotInput } from '../../ports/one-shots.ts';
import { composeLabel } from './reading.ts';

// biome-ignore lint/suspicious/noExplicitAny: a resolved project, as JSON
type Loose = any;

export const jobLabels = { owner: 'dev.windlass.job', ttl: 'dev.windlass.job.ttl' } as const;

/** Was it made for a project below `home`? By its folder, as for the project itself: the label outlives the state. */
export function isBelow(home: string, labels: Readonly<Record<string, string>> | null | undefined): boolean {
  return labels?.[composeLabel.workingDir]?.startsWith(`${home}/`) === true;
}

export interface OneShotMount {
  readonly kind: 'bind' | 'volume' | 'tmpfs';
  /** '' for an anonymous volume and tmpfs. */
  readonly source: string;
  readonly target: string;
  readonly readOnly: boolean;
  /** Key in the project of a volume that may have to be made; null otherwise. */
  readonly key: string | null;
  readonly createsHostPath: boolean;
}

export interface OneShotFile {
  readonly path: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly content: string;
}

export interface OneShotSpec {
  readonly name: string;
  readonly image: string;
  readonly entrypoint: readonly string[] | null;
  readonly command: readonly string[] | null;
  readonly user: string;
  readonly workingDir: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Keys in the project. */
  readonly networks: readonly string[];
  /** `host`, `none`, `service:NAME`; null = by `networks`. */
  readonly networkMode: string | null;
  readonly mounts: readonly OneShotMount[];
  /** Configs and secrets without a file on this host. */
  readonly files: readonly OneShotFile[];
  readonly labels: Readonly<Record<string, string>>;
  /** The service as resolved, for the rest that the engine's own fields are made of. */
  readonly service: Loose;
  /** The whole project as resolved. */
  readonly project: Loose;
}

/** Throws COMPOSE_INVALID where the job names something that the project does not have. */
export function oneShotSpec(input: OneShotInput): OneShotSpec {
  const { desired } = input;
  // What is printed doubles every dollar.
  const project: Loose = toJs(readRaw(input.model.text.replace(/\$\$/g, () => '$')));
  const refuse = (what: string): never => {
    throw new Fault('COMPOSE_INVALID', `the job container ${input.name}: ${what}`, { data: { stack: desired.stack } });
  };
  const service: Loose = input.service === null ? {} : (project.services?.[input.service] ?? null);
  if (service === null) refuse(`there is no service ${input.service}`);
  const image = input.image ?? desired.services.find((one) => one.name === input.service)?.image ?? service.image;
  if (!image) refuse('neither it nor its service has an image');
  const networkMode: string | null = input.networks === null ? (service.network_mode ?? null) : null;
  const networks = input.networks ?? (networkMode === null ? Object.keys(service.networks ?? {}) : []);
  for (const key of networks) if (!project.networks?.[key]) refuse(`the project has no network ${key}`);
  const { mounts, files } = contentsOf(input, project, service, refuse);
  return {
    name: input.name,
    image,
    entrypoint: input.entrypoint ?? service.entrypoint ?? null,
    // Another entrypoint does not want the service's arguments.
    command: input.command ?? (input.entrypoint === null ? (service.command ?? null) : null),
    user: input.user ?? service.user ?? '',
    workingDir: input.workingDir ?? service.working_dir ?? '',
    environment: { ...given(service.environment), ...input.environment },
    networks,
    networkMode,
    mounts,
    files,
    labels: {
      [composeLabel.project]: desired.project,
      [composeLabel.service]: input.service ?? 'windlass-job',
      [composeLabel.oneOff]: 'True',
      [composeLabel.workingDir]: desired.projectDir,
      [jobLabels.owner]: input.owner,
      ...(input.ttlMs === null ? {} : { [jobLabels.ttl]: String(input.ttlMs) }),
    },
    service,
    project,
  };
}

/** A variable without a value is one that Compose did not find either. */
function given(environment: Loose): Record<string, string> {
  return Object.fromEntries(
    Object.entries<Loose>(environment ?? {}).flatMap(([name, value]) =>
      value === null || value === undefined ? [] : [[name, String(value)]],
    ),
  );
}

function contentsOf(
  input: OneShotInput,
  project: Loose,
  service: Loose,
  refuse: (what: string) => never,
): { readonly mounts: readonly OneShotMount[]; readonly files: readonly OneShotFile[] } {
  const declared: Loose[] =
    input.volumes === null ? (service.volumes ?? []) : input.volumes.map((text) => shortVolume(text, input, refuse));
  const mounts: OneShotMount[] = declared.map((volume) => {
    const common = { target: String(volume.target), readOnly: volume.read_only === true };
    switch (volume.type) {
      case 'bind':
        return {
          ...common,
          kind: 'bind',
          source: String(volume.source),
          key: null,
          createsHostPath: volume.bind?.create_host_path === true,
        };
      case 'volume': {
        if (!volume.source) return { ...common, kind: 'volume', source: '', key: null, createsHostPath: false };
        const definition = project.volumes?.[volume.source] ?? refuse(`the project has no volume ${volume.source}`);
        const name = definition.name ?? `${input.desired.project}_${volume.source}`;
        return { ...common, kind: 'volume', source: name, key: volume.source, createsHostPath: false };
      }
      case 'tmpfs':
        return { ...common, kind: 'tmpfs', source: '', key: null, createsHostPath: false };
      default:
        return refuse(`a mount of type ${volume.type} cannot be taken over`);
    }
  });
  const files: OneShotFile[] = [];
  if (input.volumes === null)
    for (const kind of ['configs', 'secrets'] as const)
      for (const use of (service[kind] ?? []) as Loose[]) {
        const definition = project[kind]?.[use.source] ?? {};
        const path = use.target ?? (kind === 'secrets' ? `/run/secrets/${use.source}` : `/${use.source}`);
        const target = isAbsolute(path) ? path : join('/run/secrets', path);
        if (definition.file)
          mounts.push({
            kind: 'bind',
            source: definition.file,
            target,
            readOnly: true,
            key: null,
            createsHostPath: false,
          });
        else {
          const content = definition.content ?? input.model.environment?.[definition.environment ?? ''];
          if (content === undefined) refuse(`${kind.slice(0, -1)} ${use.source} has no content here`);
          // Printed as octal digits.
          const mode = Number.parseInt(use.mode ?? '444', 8);
          files.push({ path: target, mode, uid: Number(use.uid ?? 0), gid: Number(use.gid ?? 0), content });
        }
      }
  return { mounts, files };
}

function shortVolume(text: string, input: OneShotInput, refuse: (what: string) => never): Loose {
  const { kind, source, target, readOnly } = mountOf(text) ?? refuse(`not a mount: ${text}`);
  if (kind === 'volume') return { type: 'volume', source, target, read_only: readOnly };
  const path = isAbsolute(source) ? source : join(input.desired.projectDir, source);
  return { type: 'bind', source: path, target, read_only: readOnly, bind: { create_host_path: true } };
}
