// Converge: what `docker compose up` and `down` do to a simulated engine, with the same order, the same half-done states after a
// failure and the same blind spots. Rules measured on the real one.
import { Fault } from '../../core/fault.ts';
import { type Hashes, hashesOf, hashWithIds, readRaw, toJs } from '../../core/render/config-hash.ts';
import type { Resources } from '../../core/state/desired.ts';
import type { ContainerDetail } from '../../core/state/observed.ts';
import type { Clock } from '../../ports/clock.ts';
import type { UpInput } from '../../ports/runtime.ts';
import { composeLabel } from '../compose/reading.ts';
import { isAlive, type SimContainer, type SimEngine, type SimNetwork } from './engine.ts';
import { imageOfService } from './project.ts';

// biome-ignore lint/suspicious/noExplicitAny: a resolved model, as JSON
type Loose = any;

const imageLabel = 'com.docker.compose.image';
const dependencyPollMs = 500;

interface Project {
  readonly input: UpInput;
  readonly model: Loose;
  readonly hashes: Hashes;
  /** The chosen ones, dependencies first. */
  readonly order: readonly string[];
}

/** `half`: only the creating part, as a process that dies in between leaves it. */
export async function simulateUp(engine: SimEngine, clock: Clock, input: UpInput, half: boolean): Promise<void> {
  // What is printed doubles every dollar, what is read back halves it again.
  const text = input.model.text;
  const model: Loose = toJs(readRaw(text.replace(/\$\$/g, () => '$')));
  for (const name of input.services) {
    if (model.services?.[name] === undefined) throw new Fault('COMPOSE_FAILED', `no such service: ${name}`);
  }
  const project: Project = { input, model, hashes: hashesOf(text), order: dependencyOrder(model, input.services) };
  const networks = ensureNetworks(engine, project);
  const changed = ensureVolumes(engine, project);
  for (const name of project.order) ensureService(engine, project, name, networks);
  if (half) return;
  if (!input.noStart) for (const name of project.order) await startService(engine, clock, project, name);
  // Compose leaves such a volume as it is and goes on; only then we say so.
  if (changed !== null) {
    throw new Fault('VOLUME_CHANGED', `the definition of volume ${changed} changed; it is left as it is`, {
      data: { volume: changed },
    });
  }
}

export function simulateDown(engine: SimEngine, project: string): void {
  for (const container of [...engine.containers.values()]) {
    if (container.spec.labels[composeLabel.project] === project) engine.remove(container);
  }
  for (const network of [...engine.networks.values()]) {
    if (network.labels[composeLabel.project] === project) engine.removeNetwork(network.id);
  }
}

export function simulateStop(engine: SimEngine, project: string, services: readonly string[]): void {
  for (const service of services)
    for (const container of containersOf(engine, project, service)) engine.stop(container);
}

function dependencyOrder(model: Loose, chosen: readonly string[]): string[] {
  const order: string[] = [];
  const visit = (name: string, path: readonly string[]) => {
    if (path.includes(name))
      throw new Fault('COMPOSE_FAILED', `dependency cycle detected: ${[...path, name].join(' -> ')}`);
    for (const other of Object.keys(model.services[name]?.depends_on ?? {}).sort()) visit(other, [...path, name]);
    if (!order.includes(name)) order.push(name);
  };
  for (const name of [...chosen].sort()) visit(name, []);
  return order.filter((name) => chosen.includes(name));
}

function ensureNetworks(engine: SimEngine, project: Project): Map<string, SimNetwork> {
  const { model, input, hashes } = project;
  const networks = new Map<string, SimNetwork>();
  const used = new Set(project.order.flatMap((name) => Object.keys(model.services[name].networks ?? {})));
  for (const key of used) {
    const definition = model.networks?.[key] ?? {};
    const name: string = definition.name ?? `${input.project}_${key}`;
    const found = engine.networkNamed(name);
    if (definition.external) {
      if (found === undefined)
        throw new Fault('COMPOSE_FAILED', `network ${name} declared as external, but could not be found`);
      networks.set(key, found);
      continue;
    }
    if (found !== undefined && found.labels[composeLabel.network] !== key) {
      const label = found.labels[composeLabel.network] ?? '';
      throw new Fault(
        'NETWORK_CONFLICT',
        `network ${name} was found but has incorrect label ${composeLabel.network} set to "${label}" (expected: "${key}")`,
        {
          data: { network: name },
        },
      );
    }
    const hash = hashes.networks.get(key) ?? '';
    const make = () =>
      engine.addNetwork({
        name,
        internal: Boolean(definition.internal),
        labels: {
          ...(definition.labels ?? {}),
          [composeLabel.project]: input.project,
          [composeLabel.network]: key,
          [composeLabel.configHash]: hash,
        },
      });
    if (found === undefined) {
      networks.set(key, make());
      input.note?.(`Network ${name} Created`);
    } else if (found.labels[composeLabel.configHash] !== hash) {
      networks.set(key, replaceNetwork(engine, found, make));
      input.note?.(`Network ${name} Recreated`);
    } else {
      networks.set(key, found);
    }
  }
  return networks;
}

// Users are reconnected without their aliases and started again, not recreated: their service names no longer resolve.
function replaceNetwork(engine: SimEngine, old: SimNetwork, make: () => SimNetwork): SimNetwork {
  const users = [...engine.containers.values()].filter((container) =>
    container.networks.some((attached) => attached.id === old.id),
  );
  const ran = users.filter(isAlive);
  for (const container of ran) engine.stop(container);
  for (const container of users) engine.disconnect(container, old.id);
  engine.removeNetwork(old.id);
  const network = make();
  for (const container of users) engine.connect(container, network, []);
  for (const container of ran) engine.start(container);
  return network;
}

function ensureVolumes(engine: SimEngine, { model, input, hashes, order }: Project): string | null {
  let changed: string | null = null;
  for (const service of order) {
    for (const mount of model.services[service].volumes ?? []) {
      if (mount.type !== 'volume' || !mount.source) continue;
      const definition = model.volumes?.[mount.source] ?? {};
      const name: string = definition.name ?? `${input.project}_${mount.source}`;
      const found = engine.volumes.get(name);
      if (definition.external) {
        if (found === undefined) throw new Fault('COMPOSE_FAILED', `external volume "${name}" not found`);
        continue;
      }
      const hash = hashes.volumes.get(mount.source) ?? '';
      if (found === undefined) {
        engine.addVolume(name, {
          ...(definition.labels ?? {}),
          [composeLabel.project]: input.project,
          [composeLabel.volume]: mount.source,
          [composeLabel.configHash]: hash,
        });
        input.note?.(`Volume ${name} Created`);
      } else if (
        found.labels[composeLabel.project] === input.project &&
        found.labels[composeLabel.configHash] !== hash
      ) {
        changed = name;
      }
    }
  }
  return changed;
}

function containersOf(engine: SimEngine, project: string, service: string): SimContainer[] {
  return [...engine.containers.values()].filter(
    ({ spec: { labels } }) =>
      labels[composeLabel.project] === project &&
      labels[composeLabel.service] === service &&
      // Compose does not see a container without it.
      labels[composeLabel.configHash] !== undefined &&
      labels[composeLabel.oneOff] !== 'True',
  );
}

function firstByName(containers: readonly SimContainer[]): SimContainer | undefined {
  return [...containers].sort((left, right) => (left.name < right.name ? -1 : 1))[0];
}

function ensureService(
  engine: SimEngine,
  project: Project,
  name: string,
  networks: ReadonlyMap<string, SimNetwork>,
): void {
  const { input, model } = project;
  const service = model.services[name];
  const expected: number = service.scale ?? service.deploy?.replicas ?? 1;
  const image = imageOfService(input.project, name, service);
  const imageId = engine.imageId(image);
  const hashed = project.hashes.services.get(name)!;
  const ids = new Map<string, string>();
  for (const parent of hashed.parents) {
    const first = firstByName(containersOf(engine, input.project, parent));
    if (first === undefined)
      throw new Fault('COMPOSE_FAILED', `cannot share namespace with service ${parent}: container missing`);
    ids.set(parent, first.id);
  }
  const hash = hashWithIds(hashed, ids) ?? hashed.hash;
  const isObsolete = (container: SimContainer): boolean => {
    if (input.noRecreate) return false;
    const { labels, mounts } = container.spec;
    if (input.forceRecreate || labels[composeLabel.configHash] !== hash) return true;
    if (imageId !== null && labels[imageLabel] !== imageId) return true;
    if (container.state === 'running') {
      for (const key of Object.keys(service.networks ?? {})) {
        if (!container.networks.some((attached) => attached.id === networks.get(key)?.id)) return true;
      }
    }
    return (service.volumes ?? []).some(
      (volume: Loose) =>
        volume.type === 'volume' &&
        volume.source &&
        !mounts.some(
          (mount) => mount.kind === 'volume' && mount.name === volumeName(model, input.project, volume.source),
        ),
    );
  };
  const numberOf = (container: SimContainer) => Number(container.spec.labels[composeLabel.number]) || 0;
  const present = containersOf(engine, input.project, name);
  // The obsolete ones and then the highest numbers go first when there are too many.
  const kept = [...present].sort(
    (left, right) => Number(isObsolete(left)) - Number(isObsolete(right)) || numberOf(left) - numberOf(right),
  );
  for (const container of kept.splice(expected)) {
    engine.remove(container);
    input.note?.(`Container ${container.name} Removed`);
  }
  const create = (number: number) => {
    if (imageId === null) throw new Fault('IMAGE_MISSING', `No such image: ${image}`, { data: { image } });
    const containerName = service.container_name ?? `${input.project}-${name}-${number}`;
    return engine.create({
      name: containerName,
      image,
      imageId,
      labels: {
        ...(engine.images.get(imageId)?.labels ?? {}),
        ...(service.labels ?? {}),
        [composeLabel.project]: input.project,
        [composeLabel.service]: name,
        [composeLabel.number]: String(number),
        [composeLabel.oneOff]: 'False',
        [composeLabel.configHash]: hash,
        [composeLabel.workingDir]: input.projectDir,
        [imageLabel]: imageId,
      },
      command: commandOf(service),
      networks: Object.entries<Loose>(service.networks ?? {}).map(([key, use]) => {
        const network = networks.get(key)!;
        return { name: network.name, id: network.id, aliases: [containerName, name, ...(use?.aliases ?? [])] };
      }),
      mounts: (service.volumes ?? []).map((volume: Loose) => ({
        kind: volume.type,
        name: volume.type === 'volume' && volume.source ? volumeName(model, input.project, volume.source) : '',
        source: volume.type === 'bind' ? volume.source : '',
        destination: volume.target,
      })),
      ports: (service.ports ?? []).map((port: Loose) => ({
        hostIp: port.host_ip ?? '0.0.0.0',
        published: Number(port.published) || 0,
        target: Number(port.target),
        protocol: port.protocol ?? 'tcp',
      })),
      resources: resourcesOf(service),
      hasHealthcheck: Boolean(service.healthcheck && !service.healthcheck.disable),
      shares: sharesOf(service, ids),
    });
  };
  for (const container of kept) {
    if (!isObsolete(container)) continue;
    // Before anything is removed: without an image the old one stays.
    if (imageId === null) throw new Fault('IMAGE_MISSING', `No such image: ${image}`, { data: { image } });
    for (const dependent of restartedWith(model, project.order, name)) {
      for (const theirs of containersOf(engine, input.project, dependent)) engine.stop(theirs);
    }
    engine.remove(container);
    create(numberOf(container));
    input.note?.(`Container ${container.name} Recreated`);
  }
  let next = Math.max(0, ...present.map(numberOf));
  for (let missing = expected - kept.length; missing > 0; missing -= 1) {
    next += 1;
    const container = create(next);
    input.note?.(`Container ${container.name} Created`);
  }
}

function sharesOf(service: Loose, ids: ReadonlyMap<string, string>): ContainerDetail['shares'] {
  const shares: { what: 'network' | 'pid' | 'ipc' | 'volumes'; id: string }[] = [];
  for (const [key, what] of [['network_mode', 'network'] as const, ['pid', 'pid'] as const, ['ipc', 'ipc'] as const]) {
    const id = ids.get(/^service:(.+)$/.exec(service[key] ?? '')?.[1] ?? '');
    if (id !== undefined) shares.push({ what, id });
  }
  for (const from of service.volumes_from ?? []) {
    const id = ids.get(String(from).split(':')[0]!);
    if (id !== undefined) shares.push({ what: 'volumes', id });
  }
  return shares;
}

/** The chosen ones that ask to be started anew when `name` is made anew; of others Compose is told nothing. */
function restartedWith(model: Loose, order: readonly string[], name: string): readonly string[] {
  return order.filter((other) => model.services[other].depends_on?.[name]?.restart === true);
}

async function startService(engine: SimEngine, clock: Clock, project: Project, name: string): Promise<void> {
  const { input, model, order } = project;
  for (const [other, rule] of Object.entries<Loose>(model.services[name].depends_on ?? {})) {
    // Only among the chosen ones; of the others Compose is told nothing.
    if (order.includes(other)) await waitFor(engine, clock, input, other, rule.condition);
  }
  for (const container of containersOf(engine, input.project, name)) {
    if (container.state === 'running') continue;
    engine.start(container);
    input.note?.(`Container ${container.name} Started`);
  }
}

async function waitFor(
  engine: SimEngine,
  clock: Clock,
  input: UpInput,
  service: string,
  condition: string,
): Promise<void> {
  if (condition !== 'service_healthy' && condition !== 'service_completed_successfully') return;
  for (;;) {
    engine.settle();
    input.signal.throwIfAborted();
    const containers = containersOf(engine, input.project, service);
    if (condition === 'service_healthy') {
      for (const container of containers) {
        if (container.health === 'unhealthy') {
          throw new Fault('SERVICE_UNHEALTHY', `dependency failed to start: container ${container.name} is unhealthy`, {
            data: { container: container.name },
          });
        }
        if (container.state === 'exited') {
          throw new Fault(
            'SERVICE_CRASHED',
            `dependency failed to start: container ${container.name} exited (${container.exitCode})`,
            {
              data: { container: container.name, exitCode: container.exitCode ?? -1 },
            },
          );
        }
      }
      if (containers.every((container) => container.health === 'healthy')) return;
    } else {
      for (const container of containers) {
        if (container.state === 'exited' && container.exitCode !== 0) {
          throw new Fault(
            'ONE_SHOT_FAILED',
            `service "${service}" didn't complete successfully: exit ${container.exitCode}`,
            {
              data: { service, exitCode: container.exitCode ?? -1 },
            },
          );
        }
      }
      if (containers.every((container) => container.state === 'exited')) return;
    }
    await clock.sleep(dependencyPollMs, input.signal);
  }
}

function commandOf(service: Loose): readonly string[] | null {
  if (service.entrypoint) return [...service.entrypoint, ...(service.command ?? [])];
  return service.command;
}

function volumeName(model: Loose, project: string, key: string): string {
  return model.volumes?.[key]?.name ?? `${project}_${key}`;
}

function resourcesOf(service: Loose): Resources {
  const limits = service.deploy?.resources?.limits ?? {};
  const reservations = service.deploy?.resources?.reservations ?? {};
  const policy = service.deploy?.restart_policy;
  const condition =
    policy === undefined
      ? (service.restart ?? 'no')
      : policy.condition === 'any'
        ? 'always'
        : (policy.condition ?? 'always');
  return {
    memoryBytes: Number(limits.memory ?? service.mem_limit ?? 0),
    memoryReservationBytes: Number(reservations.memory ?? service.mem_reservation ?? 0),
    nanoCpus: Math.round(Number(limits.cpus ?? service.cpus ?? 0) * 1e9),
    cpuShares: Number(service.cpu_shares ?? 0),
    cpuset: service.cpuset ?? '',
    pidsLimit: Math.max(0, Number(limits.pids ?? service.pids_limit ?? 0)),
    restart: condition === 'on-failure' && policy?.max_attempts ? `on-failure:${policy.max_attempts}` : condition,
  };
}
