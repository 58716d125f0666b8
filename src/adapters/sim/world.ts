// World: a simulated engine with a hand on it. Tests script images, drift, outages, faults and crashes here, and read which calls
// were made; the code under test only sees a Runtime (`openSimRuntime`), one a process.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Fault } from '../../core/fault.ts';
import type { Resources } from '../../core/state/desired.ts';
import type { Clock } from '../../ports/clock.ts';
import type { LogLine, Runtime } from '../../ports/runtime.ts';
import type { Behaviour } from './behaviour.ts';
import { type SimContainer, SimEngine } from './engine.ts';

/** The process "died": thrown by the call at which it did, and by every later one of the same runtime. Never a Fault. */
export class CrashError extends Error {
  override readonly name = 'CrashError';
}

export interface SimCall {
  /** 1-based over all calls of the world. */
  readonly number: number;
  readonly method: string;
  readonly mutating: boolean;
  /** What it was about: a project, service list, container id or image. */
  readonly target: string;
  readonly atMs: number;
  /** Null while under way. */
  outcome: 'done' | 'fault' | 'crash' | null;
}

export type Counting = 'all' | 'mutating';

export interface ExecAnswer {
  readonly exitCode: number;
  readonly lines?: readonly LogLine[];
  readonly durationMs?: number;
}

export interface SimOptions {
  readonly clock: Clock;
  readonly seed?: string;
  /** Tags that are there from the start; default: `windlass-test/busybox:1`, `:2`, `windlass-test/web:1`, `:2`. */
  readonly images?: readonly string[];
  /** How Compose files are read; default: from disk. Null = not there. */
  readonly readFile?: (path: string) => string | null;
  readonly composeVersion?: string;
}

interface Trap {
  readonly at: number;
  readonly counting: Counting;
  readonly effect:
    | { readonly kind: 'fault'; readonly fault: Fault }
    | { readonly kind: 'crash'; readonly when: 'before' | 'during' | 'after' };
}

export const testImages = [
  'windlass-test/busybox:1',
  'windlass-test/busybox:2',
  'windlass-test/web:1',
  'windlass-test/web:2',
];

export class SimWorld {
  readonly engine: SimEngine;
  readonly clock: Clock;
  readonly calls: SimCall[] = [];
  readonly readFile: (path: string) => string | null;
  readonly composeVersion: string;
  /** What a pull can bring: reference → image id. */
  readonly registry = new Map<string, string>();
  /** Answers to `exec`; undefined = the command is read as a script. */
  execAnswer: (container: SimContainer, command: readonly string[]) => ExecAnswer | undefined = () => undefined;
  readonly #traps: Trap[] = [];
  readonly #nextFaults: { method: string; fault: Fault; times: number }[] = [];
  readonly #outageListeners = new Set<() => void>();
  #isReachable = true;
  #allCalls = 0;
  #mutatingCalls = 0;

  constructor(options: SimOptions) {
    this.clock = options.clock;
    this.engine = new SimEngine(options.clock, options.seed ?? 'world');
    this.readFile = options.readFile ?? readFromDisk;
    this.composeVersion = options.composeVersion ?? '2.40.3';
    for (const tag of options.images ?? testImages) this.addImage(tag);
  }

  // --- images ---

  /** Ids are made of the reference and `version`: the same ones again are the same image. Returns the id. */
  addImage(
    reference: string,
    options: {
      readonly version?: string;
      readonly behaviour?: Behaviour;
      readonly labels?: Readonly<Record<string, string>>;
    } = {},
  ): string {
    const id = imageIdOf(reference, options.version ?? '1');
    this.engine.addImage(
      { id, digests: [], labels: options.labels ?? {}, behaviour: options.behaviour ?? null },
      reference,
    );
    return id;
  }

  /** The tag names another image from now on. */
  moveTag(reference: string, version: string): string {
    return this.addImage(reference, { version });
  }

  untag(reference: string): void {
    this.engine.untag(reference);
  }

  /** Makes an image pullable without having it. */
  publish(reference: string, version = '1'): void {
    this.registry.set(reference, imageIdOf(reference, version));
  }

  /** `key`: an image reference, or `project/service`, which wins. Holds from the next start. */
  behave(key: string, behaviour: Behaviour | null): void {
    if (behaviour === null) this.engine.behaviours.delete(key);
    else this.engine.behaviours.set(key, behaviour);
  }

  // --- what a person does to the engine behind our back; containers by id or name ---

  container(idOrName: string): SimContainer {
    this.engine.settle();
    return this.engine.container(idOrName);
  }

  containersOf(project: string): readonly SimContainer[] {
    this.engine.settle();
    return [...this.engine.containers.values()].filter(
      (container) => container.spec.labels['com.docker.compose.project'] === project,
    );
  }

  kill(idOrName: string): void {
    this.engine.kill(this.container(idOrName), 'KILL');
  }

  stop(idOrName: string): void {
    this.engine.stop(this.container(idOrName));
  }

  start(idOrName: string): void {
    this.engine.start(this.container(idOrName));
  }

  /** Ends by itself with `code`. */
  crash(idOrName: string, code = 1): void {
    this.engine.crash(this.container(idOrName), code);
  }

  remove(idOrName: string): void {
    this.engine.remove(this.container(idOrName));
  }

  rename(idOrName: string, name: string): void {
    this.engine.rename(this.container(idOrName), name);
  }

  pause(idOrName: string): void {
    this.engine.pause(this.container(idOrName));
  }

  disconnect(idOrName: string, network: string): void {
    this.engine.disconnect(this.container(idOrName), network);
  }

  /** As by hand: without aliases unless they are named. */
  connect(idOrName: string, network: string, aliases: readonly string[] = []): void {
    this.engine.connect(this.container(idOrName), this.engine.network(network), aliases);
  }

  update(idOrName: string, resources: Partial<Resources>): void {
    const container = this.container(idOrName);
    this.engine.update(container, { ...container.resources, ...resources });
  }

  /** What a healthcheck would find from now on. */
  setHealth(idOrName: string, health: 'healthy' | 'unhealthy'): void {
    const container = this.container(idOrName);
    container.health = health;
    this.engine.emitOf(container, `health_status: ${health}`);
  }

  /** A container that no Compose project made. */
  addForeign(
    name: string,
    options: {
      readonly image?: string;
      readonly labels?: Readonly<Record<string, string>>;
      readonly publishedPort?: number;
      readonly network?: string;
    } = {},
  ): string {
    const image = options.image ?? testImages[0]!;
    const network = options.network === undefined ? [] : [this.engine.network(options.network)];
    const container = this.engine.create({
      name,
      image,
      imageId: this.engine.imageId(image) ?? '',
      labels: options.labels ?? {},
      command: null,
      networks: network.map(({ id, name: networkName }) => ({ id, name: networkName, aliases: [] })),
      mounts: [],
      ports:
        options.publishedPort === undefined
          ? []
          : [{ hostIp: '0.0.0.0', published: options.publishedPort, target: 80, protocol: 'tcp' }],
      resources: {
        memoryBytes: 0,
        memoryReservationBytes: 0,
        nanoCpus: 0,
        cpuShares: 0,
        cpuset: '',
        pidsLimit: 0,
        restart: 'no',
      },
      hasHealthcheck: false,
    });
    this.engine.start(container);
    return container.id;
  }

  /** Some program outside of the engine listens on it. */
  occupyPort(port: number): void {
    this.engine.foreignPorts.add(port);
  }

  freePort(port: number): void {
    this.engine.foreignPorts.delete(port);
  }

  // --- outages, faults, crashes ---

  get isReachable(): boolean {
    return this.#isReachable;
  }

  setReachable(isReachable: boolean): void {
    this.#isReachable = isReachable;
    if (!isReachable) for (const listener of [...this.#outageListeners]) listener();
  }

  onOutage(listener: () => void): () => void {
    this.#outageListeners.add(listener);
    return () => this.#outageListeners.delete(listener);
  }

  /** The `n`-th call from now on (1 = the next) fails before it has any effect. */
  failAt(n: number, fault = new Fault('ENGINE_REFUSED', 'injected fault'), counting: Counting = 'all'): void {
    this.#traps.push({ at: this.#count(counting) + n, counting, effect: { kind: 'fault', fault } });
  }

  /** The next `times` calls of this method fail before they have any effect. */
  failNext(method: keyof Runtime, fault = new Fault('ENGINE_REFUSED', 'injected fault'), times = 1): void {
    this.#nextFaults.push({ method, fault, times });
  }

  /** The process dies at the `n`-th call from now on; `during` (an `up` only): containers are made and none is started. */
  crashAt(n: number, when: 'before' | 'during' | 'after' = 'before', counting: Counting = 'all'): void {
    this.#traps.push({ at: this.#count(counting) + n, counting, effect: { kind: 'crash', when } });
  }

  /** How many calls there were, so that a test can crash at each of them. */
  count(counting: Counting = 'all'): number {
    return this.#count(counting);
  }

  mutatingCalls(): readonly SimCall[] {
    return this.calls.filter((call) => call.mutating);
  }

  clearCalls(): void {
    this.calls.length = 0;
  }

  /** For the runtime: writes the call down and says what was set for it. */
  enter(
    method: string,
    mutating: boolean,
    target: string,
  ): { readonly call: SimCall; readonly trap: Trap['effect'] | null } {
    this.engine.settle();
    this.#allCalls += 1;
    if (mutating) this.#mutatingCalls += 1;
    const call: SimCall = { number: this.#allCalls, method, mutating, target, atMs: this.clock.nowMs(), outcome: null };
    this.calls.push(call);
    const next = this.#nextFaults.find((entry) => entry.method === method && entry.times > 0);
    if (next !== undefined) {
      next.times -= 1;
      return { call, trap: { kind: 'fault', fault: next.fault } };
    }
    const index = this.#traps.findIndex(
      (trap) => (trap.counting === 'all' || mutating) && trap.at === this.#count(trap.counting),
    );
    const [trap] = index < 0 ? [] : this.#traps.splice(index, 1);
    return { call, trap: trap?.effect ?? null };
  }

  #count(counting: Counting): number {
    return counting === 'all' ? this.#allCalls : this.#mutatingCalls;
  }
}

export function imageIdOf(reference: string, version: string): string {
  return `sha256:${createHash('sha256').update(`${reference}\0${version}`).digest('hex')}`;
}

function readFromDisk(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
