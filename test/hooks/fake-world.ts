// A world for hooks: services with counts, job containers that follow scripts, a journal that survives, and a process that can die at
// any call. Time is simulated; everything else is memory.
import { SimulatedClock } from '../../src/adapters/clock/simulated-clock.ts';
import { Fault } from '../../src/core/fault.ts';
import type { HookAction } from '../../src/core/hook/action.ts';
import { type JobSpec, jobOf } from '../../src/core/hook/job.ts';
import type { HookPhase } from '../../src/core/hook/phase.ts';
import { planActions } from '../../src/core/hook/plan-actions.ts';
import type { HookRun, HookState } from '../../src/core/hook/run-state.ts';
import type { Action as Declared } from '../../src/core/spec/hooks.ts';
import type { Job } from '../../src/core/spec/job.ts';
import { type HookHandle, type HookResult, resumeHooks, startHook } from '../../src/hooks/run.ts';
import type { HookDeps, HookLimits } from '../../src/hooks/session.ts';
import type { HookJournal, HookPorts, JobRequest, KeptLog, RanOnce } from '../../src/ports/hooks.ts';
import type { LogLine } from '../../src/ports/runtime.ts';
import { cluster } from '../../src/refs/cluster.ts';
import { dns } from '../../src/refs/dns.ts';
import { hook } from '../../src/refs/hook.ts';
import { node } from '../../src/refs/node.ts';
import { createRefs } from '../../src/refs/registry.ts';
import { stack } from '../../src/refs/stack.ts';

/** Not a Fault: what a process that is gone cannot catch. */
export class CrashError extends Error {
  override readonly name = 'CrashError';
}

export interface JobScript {
  readonly lines?: readonly string[] | Iterable<string>;
  readonly exitCode?: number;
  readonly durationMs?: number;
  /** What it prints when it is told to end. */
  readonly lastWords?: readonly string[];
  /** A kill has no effect. */
  readonly unkillable?: boolean;
  /** What it does to the world when it ends. */
  readonly effect?: (world: FakeWorld) => void;
}

interface FakeContainer {
  readonly name: string;
  readonly owner: string;
  readonly job: string;
  readonly script: JobScript;
  readonly environment: Readonly<Record<string, string>>;
  state: 'created' | 'running' | 'ended';
  exitCode: number;
  endsAtMs: number;
}

export const at = (text: string): LogLine => ({ stream: 'stdout', text });

export class FakeWorld {
  readonly clock = new SimulatedClock({ seed: 1 });
  /** What survives a crash of the controller. */
  readonly counts = new Map<string, number>();
  /** Containers there are, running or not. */
  readonly there = new Map<string, number>();
  readonly containers = new Map<string, FakeContainer>();
  readonly runs = new Map<string, string>();
  readonly ran = new Map<string, RanOnce>();
  readonly logs = new Map<string, KeptLog>();
  /** What happened to the world, in order. */
  readonly story: string[] = [];
  readonly scripts = new Map<string, JobScript | ((world: FakeWorld, request: JobRequest) => JobScript)>();
  reachable = true;
  unhealthy: string[] = [];
  /** Answers instead of an effect. */
  scaleFault: ((service: string, count: number) => Fault | null) | null = null;
  removeFault: ((service: string) => Fault | null) | null = null;
  exec: (command: readonly string[], signal: AbortSignal) => Promise<number> | number = () => 0;
  httpStatus = 200;
  /** Runs at each call, before its effect: people, outages. */
  onCall: (name: string) => void = () => {};
  calls = 0;
  /** That was planned last. */
  phase: HookPhase = 'post_install';
  process = new FakeProcess(this, null);

  constructor(counts: Readonly<Record<string, number>> = {}) {
    for (const [service, count] of Object.entries(counts)) {
      this.counts.set(service, count);
      this.there.set(service, count);
    }
  }

  /** The process is gone, a new one begins; it dies at the `crashAt`-th of its calls, before or after the effect. */
  restart(crash: { readonly at: number; readonly when: 'before' | 'after' } | null = null): FakeProcess {
    this.process.dead = true;
    this.process = new FakeProcess(this, crash);
    return this.process;
  }

  settle(): void {
    for (const one of this.containers.values())
      if (one.state === 'running' && one.endsAtMs <= this.clock.nowMs()) {
        one.state = 'ended';
        one.exitCode = one.script.exitCode ?? 0;
        this.story.push(`${one.job} ended ${one.exitCode}`);
        one.script.effect?.(this);
      }
  }

  running(): readonly string[] {
    this.settle();
    return [...this.containers.values()].filter((one) => one.state === 'running').map((one) => one.job);
  }

  journaled(): readonly HookState[] {
    return [...this.runs.values()].map((text) => JSON.parse(text) as HookState);
  }

  /** Lets time pass until the work ends, or nothing moves any more. */
  async run<T>(work: Promise<T>): Promise<T> {
    let ended = false;
    const end = () => {
      ended = true;
    };
    work.then(end, end);
    for (let turns = 0; ; turns++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (ended) return work;
      const next = this.clock.nextWakeMs();
      if (next === null && turns > 50) throw new Error('nothing moves any more');
      if (next !== null) {
        turns = 0;
        await this.clock.advance(Math.max(0, next - this.clock.nowMs()));
      }
    }
  }

  /** Like `run`, and stops when the process dies. Null when it did. */
  async runOrDie<T>(work: Promise<T>): Promise<T | null> {
    const { process } = this;
    const death = new Promise<null>((resolve) => {
      process.onDeath = () => resolve(null);
    });
    const alive = work.catch((error: unknown) => {
      if (error instanceof CrashError) return null;
      throw error;
    });
    return this.run(Promise.race([alive, death]));
  }

  jobs(declared: Readonly<Record<string, Partial<Job>>>): ReadonlyMap<string, JobSpec> {
    return new Map(
      Object.entries(declared).map(([name, job]) => [
        name,
        jobOf(name, { apiVersion: 'windlass/v1', kind: 'Job', service: 'app', ...job } as Job),
      ]),
    );
  }

  plan(phase: HookPhase, list: readonly Declared[], jobs: Readonly<Record<string, Partial<Job>>> = {}) {
    this.phase = phase;
    return planActions({ phase, lists: [list], jobs: this.jobs(jobs) });
  }

  start(actions: readonly HookAction[], options: StartOptions = {}): HookHandle {
    return startHook(this.process.deps(options.limits), {
      run: { ...RUN, phase: this.phase, ...options.run },
      revision: 'abc',
      actions,
      ...(options.signal ? { signal: options.signal } : {}),
    });
  }

  resume(): Promise<readonly HookResult[]> {
    return resumeHooks(this.process.journal, () => this.process.deps());
  }
}

export interface StartOptions {
  readonly run?: Partial<HookRun>;
  readonly signal?: AbortSignal;
  readonly limits?: Partial<HookLimits>;
}

export const RUN: HookRun = {
  stack: 'sso',
  project: 'sso',
  operation: 'install',
  phase: 'post_install',
  digest: 'd1',
  attempt: 1,
};

/** One life of the controller. */
export class FakeProcess {
  readonly world: FakeWorld;
  readonly crash: { readonly at: number; readonly when: 'before' | 'after' } | null;
  dead = false;
  calls = 0;
  onDeath: () => void = () => {};
  readonly notes: string[] = [];

  constructor(world: FakeWorld, crash: { readonly at: number; readonly when: 'before' | 'after' } | null) {
    this.world = world;
    this.crash = crash;
  }

  die(): void {
    this.dead = true;
    this.onDeath();
  }

  #die(): never {
    this.die();
    throw new CrashError('the process is dead');
  }

  enter(name: string): () => void {
    if (this.dead) throw new CrashError('the process is dead');
    this.calls++;
    this.world.calls++;
    this.world.settle();
    this.world.onCall(name);
    if (this.dead) throw new CrashError('the process is dead');
    const isHere = this.crash?.at === this.calls;
    if (isHere && this.crash?.when === 'before') this.#die();
    return () => {
      if (this.dead) throw new CrashError('the process is dead');
      if (isHere) this.#die();
    };
  }

  async #call<T>(name: string, signal: AbortSignal, effect: () => T | Promise<T>): Promise<T> {
    await Promise.resolve();
    const leave = this.enter(name);
    if (signal.aborted) throw new Fault('CANCELLED', 'cancelled', { cause: signal.reason });
    if (!this.world.reachable) throw new Fault('ENGINE_UNREACHABLE', 'the engine is away');
    const result = await effect();
    leave();
    return result;
  }

  readonly journal: HookJournal = {
    load: (key) => {
      const text = this.world.runs.get(key);
      return text === undefined ? null : (JSON.parse(text) as HookState);
    },
    save: (key, state) => {
      const leave = this.enter('save');
      this.world.runs.set(key, JSON.stringify(state));
      leave();
    },
    clear: (key) => void this.world.runs.delete(key),
    all: () => this.world.journaled(),
    ranOnce: (key) => this.world.ran.get(key) ?? null,
    saveRanOnce: (key, ran) => {
      const leave = this.enter('saveRanOnce');
      this.world.ran.set(key, ran);
      leave();
    },
    saveLog: (run, log) => {
      const leave = this.enter('saveLog');
      this.world.logs.set(`${run.phase}/${log.id}`, log);
      leave();
    },
    clearLogs: () => {
      const leave = this.enter('clearLogs');
      this.world.logs.clear();
      leave();
    },
    logs: () => [...this.world.logs.values()],
  };

  readonly ports: HookPorts = {
    hasFinished: (_service, signal) => this.#call('hasFinished', signal, () => false),
    replicas: (service, signal) => this.#call('replicas', signal, () => this.world.counts.get(service) ?? 0),
    scale: (service, count, signal) =>
      this.#call('scale', signal, () => {
        const fault = this.world.scaleFault?.(service, count);
        if (fault) throw fault;
        if (this.world.counts.get(service) !== count) this.world.story.push(`${service} ${count}`);
        this.world.counts.set(service, count);
        this.world.there.set(service, Math.max(count, this.world.there.get(service) ?? 0));
      }),
    numbers: (service, signal) =>
      this.#call('numbers', signal, () =>
        Array.from({ length: this.world.there.get(service) ?? 0 }, (_, at) => at + 1),
      ),
    removeOthers: (service, numbers, signal) =>
      this.#call('removeOthers', signal, () => {
        const fault = this.world.removeFault?.(service);
        if (fault) throw fault;
        this.world.there.set(service, Math.max(...numbers, this.world.counts.get(service) ?? 0));
      }),
    unhealthy: (_services, signal) => this.#call('unhealthy', signal, () => this.world.unhealthy),
    startJob: (request, signal) =>
      this.#call('startJob', signal, () => {
        const { containers, scripts, clock, story } = this.world;
        if (containers.has(request.name)) return;
        for (const [name, one] of containers) if (one.owner === request.owner) containers.delete(name);
        const told = scripts.get(request.job.name) ?? {};
        const script = typeof told === 'function' ? told(this.world, request) : told;
        story.push(`${request.job.name} started`);
        containers.set(request.name, {
          name: request.name,
          owner: request.owner,
          job: request.job.name,
          environment: request.job.environment,
          script,
          state: 'running',
          exitCode: 0,
          endsAtMs: clock.nowMs() + (script.durationMs ?? 100),
        });
      }),
    watchJob: (name, onLine, signal) =>
      this.#call('watchJob', signal, async () => {
        const found = this.world.containers.get(name);
        if (!found) throw new Fault('ENGINE_REFUSED', `no such container ${name}`);
        for (const line of found.script.lines ?? []) onLine(at(line));
        while (found.state !== 'ended') {
          await this.world.clock.sleep(Math.min(1_000, Math.max(1, found.endsAtMs - this.world.clock.nowMs())), signal);
          if (this.dead) throw new CrashError('the process is dead');
          if (!this.world.reachable) throw new Fault('ENGINE_UNREACHABLE', 'the engine is away');
          this.world.settle();
        }
        if (found.exitCode === 137) for (const line of found.script.lastWords ?? []) onLine(at(line));
        return found.exitCode;
      }),
    findJob: (name, signal) =>
      this.#call('findJob', signal, () => {
        const found = this.world.containers.get(name);
        if (!found) return { kind: 'absent' } as const;
        return found.state === 'ended'
          ? ({ kind: 'ended', exitCode: found.exitCode } as const)
          : ({ kind: found.state } as const);
      }),
    killJob: (name, signal) =>
      this.#call('killJob', signal, async () => {
        const found = this.world.containers.get(name);
        if (!found || found.state === 'ended') return;
        if (found.script.unkillable) {
          await this.world.clock.sleep(1_000, signal);
          throw new Fault('ENGINE_REFUSED', 'it does not end');
        }
        found.state = 'ended';
        found.exitCode = 137;
        this.world.story.push(`${found.job} killed`);
      }),
    removeJob: (name, signal) =>
      this.#call('removeJob', signal, () => {
        this.world.story.push(`${this.world.containers.get(name)?.job} removed`);
        this.world.containers.delete(name);
      }),
    exec: (request, onLine, signal) =>
      this.#call('exec', signal, async () => {
        this.world.story.push(`exec ${request.command.join(' ')}`);
        onLine(at('hello'));
        return this.world.exec(request.command, signal);
      }),
    endExec: ({ service }, signal) =>
      this.#call('endExec', signal, () => void this.world.story.push(`exec in ${service} ended`)),
    http: (call, signal) =>
      this.#call('http', signal, () => {
        this.world.story.push(`${call.method} ${call.url}`);
        return { status: this.world.httpStatus, body: 'answer' };
      }),
    backup: (_reason, signal) => this.#call('backup', signal, () => void this.world.story.push('backup')),
  };

  deps(limits: Partial<HookLimits> = {}): HookDeps {
    return {
      ports: this.ports,
      journal: this.journal,
      clock: this.world.clock,
      refs: createRefs({
        hook,
        node: node(() => ({ ip: '10.0.0.7' })),
        cluster: cluster(() => ({ 'node-count': 3 })),
        dns: dns(async () => ['10.0.0.9']),
        stack: stack({ knows: (name) => name === 'pg', revision: () => 'rev', containerId: () => null }),
      }),
      redact: (text) => text.replaceAll('hunter2', '[redacted]'),
      note: (line) => this.notes.push(line),
      limits: { restoreMs: 60_000, killMs: 10_000, ...limits },
    };
  }
}
