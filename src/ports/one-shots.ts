// One-shots: containers that run one piece of work beside a stack and end. Found by name, never part of what is desired.
// Every call returns or throws only when its work has ended; every refusal is a Fault.
import type { Desired, Model } from '../core/state/desired.ts';
import type { JobState } from './hooks.ts';
import type { LogLine } from './runtime.ts';

export interface OneShotInput {
  readonly name: string;
  /** Containers of the project below `home` that bear the same owner are removed first. */
  readonly owner: string;
  /** The folder that holds the project folders of this controller: another one on the same engine has another. */
  readonly home: string;
  readonly desired: Desired;
  readonly model: Model;
  /** What is null below is taken from this service of the model; null = none. */
  readonly service: string | null;
  readonly image: string | null;
  /** Empty = none, not even that of the image. */
  readonly entrypoint: readonly string[] | null;
  readonly command: readonly string[] | null;
  readonly user: string | null;
  readonly workingDir: string | null;
  /** Over the service's; with secrets opened. */
  readonly environment: Readonly<Record<string, string>>;
  /** Keys of the model. */
  readonly networks: readonly string[] | null;
  /** Compose short syntax. */
  readonly volumes: readonly string[] | null;
  /** How long it is kept after its end; null = until the next of its owner. */
  readonly ttlMs: number | null;
}

export interface OneShots {
  /** Idempotent by name. Makes networks and volumes of the project that are not there yet, as Compose would. Throws IMAGE_MISSING. */
  start(input: OneShotInput, signal: AbortSignal): Promise<void>;
  /** The whole output from its beginning, then the exit code. Leaves it running when aborted. */
  watch(name: string, onLine: (line: LogLine) => void, signal: AbortSignal): Promise<number>;
  find(name: string, signal: AbortSignal): Promise<JobState>;
  /** A few seconds to end by itself, then by force; returns when nothing of it runs. */
  kill(name: string, signal: AbortSignal): Promise<void>;
  /** A container that is gone already is success. */
  remove(name: string, signal: AbortSignal): Promise<void>;
  /** Names of those of projects below `home` whose time after their end is over. */
  expired(home: string, nowMs: number, signal: AbortSignal): Promise<readonly string[]>;
  close(): void;
}
