// Hooks: what a hook sequence needs of the world, and where its runs are remembered. All of it is about one stack.
// Every call ends its work when its signal is aborted, and returns or throws only when the work has ended.
import type { ContainerJob, HttpCall } from '../core/hook/job.ts';
import type { HookRun, HookState } from '../core/hook/run-state.ts';
import type { LogLine } from './runtime.ts';

export interface JobRequest {
  /** Name of the container; a container of this name is this very try. */
  readonly name: string;
  /** The same for every try and run of the job in its phase: containers that bear it are removed before a new one is made. */
  readonly owner: string;
  /** Environment with runtime refs resolved and secrets still closed: the implementation opens them. */
  readonly job: ContainerJob;
}

export type JobState =
  | { readonly kind: 'absent' }
  /** Made, and not started or still running. */
  | { readonly kind: 'created' | 'running' }
  | { readonly kind: 'ended'; readonly exitCode: number };

export interface ExecRequest {
  readonly service: string;
  readonly command: readonly string[];
  readonly user: string | null;
  readonly environment: Readonly<Record<string, string>>;
  /** Put into the environment of the command, so that what a dead controller left behind can be found by `endExec`. */
  readonly mark: string;
}

export interface HttpAnswer {
  readonly status: number;
  /** At most 64 KiB of it. */
  readonly body: string;
}

export interface HookPorts {
  /** Containers of the service that run, or are to. */
  replicas(service: string, signal: AbortSignal): Promise<number>;
  /** Returns when so many containers have been started or stopped; health is not waited for. Fires no hooks. Idempotent. */
  scale(service: string, count: number, signal: AbortSignal): Promise<void>;
  /** Of its containers, whatever their state. */
  numbers(service: string, signal: AbortSignal): Promise<readonly number[]>;
  /** Removes what does not run and has none of these numbers. Idempotent. */
  removeOthers(service: string, numbers: readonly number[], signal: AbortSignal): Promise<void>;
  /** It runs to its end once and has done so: started again it would do its work again. */
  hasFinished(service: string, signal: AbortSignal): Promise<boolean>;
  /** Services that are not healthy (or not running, where they have no healthcheck); null = of all services. */
  unhealthy(services: readonly string[] | null, signal: AbortSignal): Promise<readonly string[]>;

  /** Removes what an earlier try or run left (and waits until it is gone), then creates and starts. Idempotent by name. */
  startJob(request: JobRequest, signal: AbortSignal): Promise<void>;
  /** The whole output from its beginning, then the exit code. Leaves the container running when aborted. */
  watchJob(name: string, onLine: (line: LogLine) => void, signal: AbortSignal): Promise<number>;
  findJob(name: string, signal: AbortSignal): Promise<JobState>;
  /** Returns when nothing of it runs any more, children included; nothing to do when it has ended or is absent. */
  killJob(name: string, signal: AbortSignal): Promise<void>;
  removeJob(name: string, signal: AbortSignal): Promise<void>;

  /** The exit code. An aborted command has been ended, children included, when this returns or throws. */
  exec(request: ExecRequest, onLine: (line: LogLine) => void, signal: AbortSignal): Promise<number>;
  /** Ends whatever bears the mark. */
  endExec(request: Pick<ExecRequest, 'service' | 'mark'>, signal: AbortSignal): Promise<void>;

  http(call: HttpCall, signal: AbortSignal): Promise<HttpAnswer>;
  /** Makes an archive of the stack, without firing backup hooks. */
  backup(reason: string, signal: AbortSignal): Promise<void>;
}

/** What `once` remembers of an action that ended well. */
export interface RanOnce {
  readonly digest: string;
  readonly halted: boolean;
  readonly outputs: Readonly<Record<string, string>>;
}

/** Each write is on disk (fsync) when its call returns. */
export interface HookJournal {
  load(runKey: string): HookState | null;
  save(runKey: string, state: HookState): void;
  clear(runKey: string): void;
  /** Runs that were not cleared: under way, interrupted, or ended and not yet told to anyone. */
  all(): readonly HookState[];
  ranOnce(actionKey: string): RanOnce | null;
  saveRanOnce(actionKey: string, ran: RanOnce): void;
  /** Kept after `clear`, until the phase runs again. */
  saveLog(run: HookRun, log: KeptLog): void;
  clearLogs(run: HookRun): void;
  /** Of the newest run of the phase, in the order of its actions. */
  logs(stack: string, phase: string): readonly KeptLog[];
}

/** The bounded, redacted log of one action. */
export interface KeptLog {
  /** Of the action: `3`, `3/then/1`. */
  readonly id: string;
  readonly name: string;
  readonly text: string;
}
