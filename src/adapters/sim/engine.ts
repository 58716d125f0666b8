// Engine: the state of a simulated container engine and what its primitives do to it. Time passes by the injected clock only;
// ids come from a seed. It knows containers and nothing of Compose.
import { createHash } from 'node:crypto';
import { Fault } from '../../core/fault.ts';
import type { Resources } from '../../core/state/desired.ts';
import type { ContainerDetail, ContainerState, ObservedContainer } from '../../core/state/observed.ts';
import type { Clock } from '../../ports/clock.ts';
import type { LogLine } from '../../ports/runtime.ts';
import { composeLabel } from '../compose/reading.ts';
import { type Behaviour, readScript } from './behaviour.ts';

export interface SimPort {
  readonly hostIp: string;
  /** 0 = chosen at start. */
  readonly published: number;
  readonly target: number;
  readonly protocol: string;
}

export interface ContainerSpec {
  readonly name: string;
  readonly image: string;
  readonly imageId: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly command: readonly string[] | null;
  readonly networks: readonly { readonly name: string; readonly id: string; readonly aliases: readonly string[] }[];
  readonly mounts: ObservedContainer['mounts'];
  readonly ports: readonly SimPort[];
  readonly resources: Resources;
  readonly hasHealthcheck: boolean;
  readonly shares?: ContainerDetail['shares'];
}

interface Due {
  readonly atMs: number;
  readonly apply: () => void;
}

export interface SimContainer {
  readonly id: string;
  readonly spec: ContainerSpec;
  name: string;
  state: ContainerState;
  health: ObservedContainer['health'];
  exitCode: number | null;
  readonly createdAtMs: number;
  startedAtMs: number;
  /** Grows with every start on this engine: what started later than what. */
  startOrder: number;
  finishedAtMs: number;
  restartCount: number;
  error: string;
  resources: Resources;
  networks: { name: string; id: string; aliases: readonly string[] }[];
  ports: readonly SimPort[];
  due: Due[];
  readonly logs: { readonly atMs: number; readonly line: LogLine }[];
}

export interface SimNetwork {
  readonly id: string;
  readonly name: string;
  readonly internal: boolean;
  readonly labels: Readonly<Record<string, string>>;
}

export interface SimVolume {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  owner: { readonly mode: string; readonly uid: number; readonly gid: number } | null;
}

export interface SimImage {
  readonly id: string;
  readonly digests: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly behaviour: Behaviour | null;
}

export interface SimEvent {
  readonly kind: 'container' | 'network' | 'volume' | 'image';
  readonly action: string;
  readonly id: string;
  readonly containerId: string;
  readonly project: string;
  readonly service: string;
  readonly signal: string;
  readonly exitCode: number | null;
  readonly atMs: number;
}

const zeroTime = '0001-01-01T00:00:00Z';
const keptLogLines = 10_000;
const firstRestartMs = 100;
const longestRestartMs = 60_000;
const calmMs = 10_000;

export class SimEngine {
  readonly id: string;
  readonly containers = new Map<string, SimContainer>();
  readonly networks = new Map<string, SimNetwork>();
  readonly volumes = new Map<string, SimVolume>();
  readonly images = new Map<string, SimImage>();
  readonly tags = new Map<string, string>();
  /** Ports that some program outside of the engine listens on. */
  readonly foreignPorts = new Set<number>();
  /** By `project/service` or image name. */
  readonly behaviours = new Map<string, Behaviour>();
  readonly listeners = new Set<(event: SimEvent) => void>();
  readonly #clock: Clock;
  readonly #seed: string;
  readonly #waiting = new Set<SimContainer>();
  #counter = 0;
  #nextPort = 32768;
  #starts = 0;

  constructor(clock: Clock, seed: string) {
    this.#clock = clock;
    this.#seed = seed;
    this.id = this.nextId();
    for (const name of ['bridge', 'host', 'none']) this.addNetwork({ name, internal: false, labels: {} });
  }

  nextId(): string {
    this.#counter += 1;
    return createHash('sha256').update(`${this.#seed}/${this.#counter}`).digest('hex');
  }

  /** Lets everything happen that is due by now, in order of time. */
  settle(): void {
    const nowMs = this.#clock.nowMs();
    for (;;) {
      let next: { container: SimContainer; due: Due } | null = null;
      for (const container of this.#waiting) {
        for (const due of container.due) {
          if (due.atMs <= nowMs && (next === null || due.atMs < next.due.atMs)) next = { container, due };
        }
      }
      if (next === null) return;
      const { container, due } = next;
      container.due = container.due.filter((other) => other !== due);
      if (container.due.length === 0) this.#waiting.delete(container);
      due.apply();
    }
  }

  container(id: string): SimContainer {
    const found = this.containers.get(id) ?? [...this.containers.values()].find((container) => container.name === id);
    if (found === undefined) throw new Fault('ENGINE_REFUSED', `No such container: ${id}`, { data: { status: 404 } });
    return found;
  }

  network(idOrName: string): SimNetwork {
    const found = this.networks.get(idOrName) ?? this.networkNamed(idOrName);
    if (found === undefined)
      throw new Fault('ENGINE_REFUSED', `network ${idOrName} not found`, { data: { status: 404 } });
    return found;
  }

  networkNamed(name: string): SimNetwork | undefined {
    for (const network of this.networks.values()) if (network.name === name) return network;
    return undefined;
  }

  addNetwork(network: Omit<SimNetwork, 'id'>): SimNetwork {
    const added = { ...network, id: this.nextId() };
    this.networks.set(added.id, added);
    this.#emit({
      kind: 'network',
      action: 'create',
      id: added.id,
      project: network.labels[composeLabel.project] ?? '',
    });
    return added;
  }

  removeNetwork(id: string): void {
    const network = this.networks.get(id) ?? this.networkNamed(id);
    if (network === undefined) return;
    for (const container of this.containers.values()) {
      if (isAlive(container) && container.networks.some((attached) => attached.id === network.id)) {
        throw new Fault(
          'ENGINE_REFUSED',
          `error while removing network: network ${network.name} has active endpoints`,
          { data: { status: 403 } },
        );
      }
    }
    this.networks.delete(network.id);
    this.#emit({
      kind: 'network',
      action: 'destroy',
      id: network.id,
      project: network.labels[composeLabel.project] ?? '',
    });
  }

  addVolume(name: string, labels: Readonly<Record<string, string>>): SimVolume {
    const volume: SimVolume = { name, labels, owner: null };
    this.volumes.set(name, volume);
    this.#emit({ kind: 'volume', action: 'create', id: name, project: labels[composeLabel.project] ?? '' });
    return volume;
  }

  removeVolume(name: string): void {
    const volume = this.volumes.get(name);
    if (volume === undefined) return;
    for (const container of this.containers.values()) {
      if (container.spec.mounts.some((mount) => mount.kind === 'volume' && mount.name === name)) {
        throw new Fault('ENGINE_REFUSED', `remove ${name}: volume is in use - [${container.id}]`, {
          data: { status: 409 },
        });
      }
    }
    this.volumes.delete(name);
    this.#emit({ kind: 'volume', action: 'destroy', id: name, project: volume.labels[composeLabel.project] ?? '' });
  }

  addImage(image: SimImage, tag: string | null): void {
    this.images.set(image.id, image);
    if (tag !== null) this.tags.set(tag, image.id);
    this.#emit({ kind: 'image', action: 'tag', id: image.id });
  }

  untag(tag: string): void {
    const id = this.tags.get(tag);
    if (id === undefined) return;
    this.tags.delete(tag);
    this.#emit({ kind: 'image', action: 'untag', id });
  }

  imageId(reference: string): string | null {
    return (
      this.tags.get(reference) ??
      this.tags.get(`${reference}:latest`) ??
      (this.images.has(reference) ? reference : null)
    );
  }

  create(spec: ContainerSpec): SimContainer {
    const taken = [...this.containers.values()].find((container) => container.name === spec.name);
    if (taken !== undefined) {
      throw new Fault(
        'ENGINE_REFUSED',
        `Conflict. The container name "/${spec.name}" is already in use by container "${taken.id}".`,
        {
          data: { status: 409, reason: 'name-taken', name: spec.name, container: taken.id },
        },
      );
    }
    const container: SimContainer = {
      id: this.nextId(),
      spec,
      name: spec.name,
      state: 'created',
      health: 'none',
      exitCode: null,
      createdAtMs: this.#clock.nowMs(),
      startedAtMs: 0,
      startOrder: 0,
      finishedAtMs: 0,
      restartCount: 0,
      error: '',
      resources: spec.resources,
      networks: spec.networks.map((network) => ({ ...network })),
      ports: spec.ports,
      due: [],
      logs: [],
    };
    this.containers.set(container.id, container);
    this.emitOf(container, 'create');
    return container;
  }

  /** Nothing when it runs already. */
  start(container: SimContainer): void {
    if (container.state === 'running') return;
    if (container.state === 'paused') {
      throw new Fault('ENGINE_REFUSED', 'cannot start a paused container, try unpause instead', {
        data: { status: 409, reason: 'paused' },
      });
    }
    const behaviour = this.#behaviourOf(container);
    const refuse = (fault: Fault): never => {
      container.error = fault.message;
      throw fault;
    };
    for (const attached of container.networks) {
      if (!this.networks.has(attached.id))
        refuse(new Fault('ENGINE_REFUSED', `network ${attached.id} not found`, { data: { status: 404 } }));
    }
    for (const { what, id } of container.spec.shares ?? []) {
      const other = this.containers.get(id);
      if (what === 'volumes' || (other && isAlive(other))) continue;
      const why = other
        ? `cannot join ${what} namespace of a non running container: ${id}`
        : `No such container: ${id}`;
      refuse(new Fault('ENGINE_REFUSED', why, { data: { status: 409 } }));
    }
    const ports = container.ports.map((port) => this.#bind(container, port, refuse));
    if (behaviour.kind === 'refuse') refuse(new Fault('ENGINE_REFUSED', behaviour.message, { data: { status: 400 } }));
    container.ports = ports;
    container.restartCount = 0;
    this.#run(container);
  }

  stop(container: SimContainer): void {
    this.settle();
    if (container.state !== 'running' && container.state !== 'paused' && container.state !== 'restarting') return;
    this.emitOf(container, 'kill', { signal: '15' });
    this.#end(container, 143, false);
    this.emitOf(container, 'stop');
  }

  kill(container: SimContainer, signalName: string): void {
    this.settle();
    if (container.state !== 'running' && container.state !== 'paused') {
      throw new Fault('ENGINE_REFUSED', `cannot kill container: ${container.id}: container is not running`, {
        data: { status: 409 },
      });
    }
    const name = signalName.replace(/^SIG/, '').toUpperCase();
    const number = { HUP: 1, INT: 2, QUIT: 3, KILL: 9, USR1: 10, USR2: 12, TERM: 15 }[name];
    if (number === undefined)
      throw new Fault('ENGINE_REFUSED', `Invalid signal: ${signalName}`, { data: { status: 400 } });
    this.emitOf(container, 'kill', { signal: String(number) });
    if ([2, 3, 9, 15].includes(number)) this.#end(container, 128 + number, false);
  }

  /** Ends by itself, as a crash does: its restart policy applies. */
  crash(container: SimContainer, code: number): void {
    if (container.state === 'running') this.#end(container, code, true);
  }

  pause(container: SimContainer): void {
    if (container.state !== 'running')
      throw new Fault('ENGINE_REFUSED', `container ${container.id} is not running`, { data: { status: 409 } });
    container.state = 'paused';
    this.emitOf(container, 'pause');
  }

  unpause(container: SimContainer): void {
    if (container.state !== 'paused')
      throw new Fault('ENGINE_REFUSED', `container ${container.id} is not paused`, { data: { status: 409 } });
    container.state = 'running';
    this.emitOf(container, 'unpause');
  }

  rename(container: SimContainer, name: string): void {
    if ([...this.containers.values()].some((other) => other.name === name)) {
      throw new Fault('ENGINE_REFUSED', `Conflict. The container name "/${name}" is already in use`, {
        data: { status: 409, reason: 'name-taken' },
      });
    }
    container.name = name;
    this.emitOf(container, 'rename');
  }

  remove(container: SimContainer): void {
    this.stop(container);
    this.#cancel(container);
    this.containers.delete(container.id);
    this.emitOf(container, 'destroy');
  }

  update(container: SimContainer, resources: Resources): void {
    container.resources = resources;
    this.emitOf(container, 'update');
  }

  connect(container: SimContainer, network: SimNetwork, aliases: readonly string[]): void {
    if (container.networks.some((attached) => attached.id === network.id)) {
      throw new Fault(
        'ENGINE_REFUSED',
        `endpoint with name ${container.name} already exists in network ${network.name}`,
        { data: { status: 403 } },
      );
    }
    container.networks.push({ name: network.name, id: network.id, aliases: [container.name, ...aliases] });
    this.#emitNetwork(container, network.id, 'connect');
  }

  disconnect(container: SimContainer, networkId: string): void {
    const before = container.networks.length;
    container.networks = container.networks.filter(
      (attached) => attached.id !== networkId && attached.name !== networkId,
    );
    if (container.networks.length === before) {
      throw new Fault('ENGINE_REFUSED', `container ${container.id} is not connected to network ${networkId}`, {
        data: { status: 403 },
      });
    }
    this.#emitNetwork(container, networkId, 'disconnect');
  }

  say(container: SimContainer, line: LogLine, atMs = this.#clock.nowMs()): void {
    container.logs.push({ atMs, line });
    if (container.logs.length > keptLogLines) container.logs.shift();
  }

  emitOf(
    container: SimContainer,
    action: string,
    extra: { signal?: string; exitCode?: number; atMs?: number } = {},
  ): void {
    this.#emit({
      kind: 'container',
      action,
      id: container.id,
      containerId: container.id,
      project: container.spec.labels[composeLabel.project] ?? '',
      service: container.spec.labels[composeLabel.service] ?? '',
      ...extra,
    });
  }

  observed(container: SimContainer, stoppedByHand: boolean, detail: ContainerDetail | null): ObservedContainer {
    const { labels } = container.spec;
    return {
      id: container.id,
      name: container.name,
      project: labels[composeLabel.project] ?? '',
      service: labels[composeLabel.service] ?? '',
      number: Number(labels[composeLabel.number]) || 0,
      oneOff: labels[composeLabel.oneOff] === 'True',
      configHash: labels[composeLabel.configHash] ?? '',
      state: container.state,
      health: container.state === 'running' ? container.health : 'none',
      exitCode: container.state === 'exited' || container.state === 'restarting' ? container.exitCode : null,
      // A name that means another image by now is no longer shown.
      image:
        this.imageId(container.spec.image) === container.spec.imageId ? container.spec.image : container.spec.imageId,
      imageId: container.spec.imageId,
      workingDir: labels[composeLabel.workingDir] ?? '',
      labels,
      networks: container.networks.map(({ name, id }) => ({ name, id })),
      mounts: container.spec.mounts,
      createdAtMs: container.createdAtMs,
      ports: isAlive(container) ? container.ports : [],
      deafPorts: [],
      stoppedByHand,
      detail,
    };
  }

  detail(container: SimContainer): ContainerDetail {
    const time = (ms: number) => (ms === 0 ? zeroTime : new Date(ms).toISOString());
    return {
      resources: container.resources,
      aliases: Object.fromEntries(container.networks.map(({ name, aliases }) => [name, aliases])),
      shares: container.spec.shares ?? [],
      // The real one counts in nanoseconds.
      startedAt: time(container.startedAtMs).replace(
        /(\.\d+)Z$/,
        `$1${String(container.startOrder).padStart(6, '0')}Z`,
      ),
      finishedAt: time(container.finishedAtMs),
      restartCount: container.restartCount,
      oomKilled: false,
      error: container.error,
    };
  }

  #behaviourOf(container: SimContainer): Behaviour {
    const { labels, image, imageId, command } = container.spec;
    const told =
      this.behaviours.get(`${labels[composeLabel.project] ?? ''}/${labels[composeLabel.service] ?? ''}`) ??
      this.behaviours.get(image) ??
      this.images.get(imageId)?.behaviour;
    if (told) return told;
    const { end } = readScript(command ?? []);
    return end === null ? { kind: 'serve' } : { kind: 'exit', code: end.code, afterMs: end.atMs };
  }

  #bind(container: SimContainer, port: SimPort, refuse: (fault: Fault) => never): SimPort {
    if (port.published === 0) {
      this.#nextPort += 1;
      return { ...port, published: this.#nextPort };
    }
    const isTaken =
      this.foreignPorts.has(port.published) ||
      [...this.containers.values()].some(
        (other) =>
          other !== container &&
          isAlive(other) &&
          other.ports.some(
            (theirs) =>
              theirs.published === port.published &&
              theirs.protocol === port.protocol &&
              overlap(theirs.hostIp, port.hostIp),
          ),
      );
    if (!isTaken) return port;
    return refuse(
      new Fault(
        'PORT_TAKEN',
        `Bind for ${port.hostIp || '0.0.0.0'}:${port.published} failed: port is already allocated`,
        {
          data: { port: port.published, hostIp: port.hostIp || '0.0.0.0' },
        },
      ),
    );
  }

  #run(container: SimContainer, atMs = this.#clock.nowMs()): void {
    this.#cancel(container);
    const behaviour = this.#behaviourOf(container);
    container.state = 'running';
    container.exitCode = null;
    container.error = '';
    container.startedAtMs = atMs;
    this.#starts += 1;
    container.startOrder = this.#starts;
    container.health = container.spec.hasHealthcheck ? 'starting' : 'none';
    this.emitOf(container, 'start', { atMs });
    for (const { atMs: afterMs, line } of readScript(container.spec.command ?? []).lines) {
      if (afterMs === 0) this.say(container, line, atMs);
      else this.#later(container, atMs + afterMs, () => this.say(container, line, atMs + afterMs));
    }
    const becomes = (health: 'healthy' | 'unhealthy', afterMs: number) => {
      if (!container.spec.hasHealthcheck) return;
      this.#later(container, atMs + afterMs, () => {
        container.health = health;
        this.emitOf(container, `health_status: ${health}`, { atMs: atMs + afterMs });
      });
    };
    switch (behaviour.kind) {
      case 'serve':
        becomes('healthy', behaviour.readyMs ?? 500);
        break;
      case 'unhealthy':
        becomes('unhealthy', behaviour.afterMs ?? 500);
        break;
      case 'exit': {
        const endMs = atMs + (behaviour.afterMs ?? 0);
        this.#later(container, endMs, () => this.#end(container, behaviour.code, true, endMs));
        break;
      }
      case 'refuse':
        break;
    }
  }

  #end(container: SimContainer, code: number, byItself: boolean, atMs = this.#clock.nowMs()): void {
    this.#cancel(container);
    const ranMs = atMs - container.startedAtMs;
    container.state = 'exited';
    container.exitCode = code;
    container.finishedAtMs = atMs;
    container.health = 'none';
    this.emitOf(container, 'die', { exitCode: code, atMs });
    // With the first process of its pid namespace every other one in it ends.
    for (const other of this.containers.values())
      if (isAlive(other) && other.spec.shares?.some(({ what, id }) => what === 'pid' && id === container.id))
        this.#end(other, 137, true, atMs);
    if (!byItself || !this.#restarts(container, code)) return;
    if (ranMs >= calmMs) container.restartCount = 0;
    container.state = 'restarting';
    const againMs = atMs + Math.min(firstRestartMs * 2 ** container.restartCount, longestRestartMs);
    container.restartCount += 1;
    this.#later(container, againMs, () => this.#run(container, againMs));
  }

  #restarts(container: SimContainer, code: number): boolean {
    const [policy = 'no', tries] = container.resources.restart.split(':');
    if (policy === 'always' || policy === 'unless-stopped') return true;
    return policy === 'on-failure' && code !== 0 && (tries === undefined || container.restartCount < Number(tries));
  }

  #later(container: SimContainer, atMs: number, apply: () => void): void {
    container.due.push({ atMs, apply });
    this.#waiting.add(container);
    // So that it also happens, and is told, when nobody asks.
    this.#clock.sleep(Math.max(0, atMs - this.#clock.nowMs()), undefined, true).then(
      () => this.settle(),
      () => {},
    );
  }

  #cancel(container: SimContainer): void {
    container.due = [];
    this.#waiting.delete(container);
  }

  #emitNetwork(container: SimContainer, networkId: string, action: string): void {
    this.#emit({
      kind: 'network',
      action,
      id: networkId,
      containerId: container.id,
      project: container.spec.labels[composeLabel.project] ?? '',
    });
  }

  #emit(event: Partial<SimEvent> & Pick<SimEvent, 'kind' | 'action' | 'id'>): void {
    const full: SimEvent = {
      containerId: '',
      project: '',
      service: '',
      signal: '',
      exitCode: null,
      atMs: this.#clock.nowMs(),
      ...event,
    };
    for (const listener of [...this.listeners]) listener(full);
  }
}

export function isAlive(container: SimContainer): boolean {
  return container.state === 'running' || container.state === 'paused' || container.state === 'restarting';
}

function overlap(left: string, right: string): boolean {
  const isAny = (ip: string) => ip === '' || ip === '0.0.0.0' || ip === '::';
  return isAny(left) || isAny(right) || left === right;
}
