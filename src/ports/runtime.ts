// Runtime: what we need of a container engine. Every call has a deadline through its signal; every refusal is a Fault.
// Nothing here decides: callers have diffed first. Ids, not names, wherever an object exists already.
import type { Model, Resources } from '../core/state/desired.ts';
import type { EngineEvent, Observed } from '../core/state/observed.ts';

export interface EngineInfo {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly apiVersion: string;
  readonly composeVersion: string;
}

export interface ResolveInput {
  readonly project: string;
  /** Folder to run in and to resolve relative paths against, absolute. */
  readonly directory: string;
  /** Compose files in order, absolute; empty with `text`. */
  readonly files: readonly string[];
  /** A Compose file given on standard input instead of `files` (never written to disk). */
  readonly text?: string;
  /** Override files as JSON text, applied after the others. */
  readonly overrides?: readonly string[];
  readonly profiles: readonly string[];
  /** Variables for interpolation; the process environment is never passed on. */
  readonly environment: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export interface ObserveOptions {
  /** Which containers need `detail`: those of these projects, all, or only what is remembered. */
  readonly inspect: 'known' | 'all' | readonly string[];
  readonly signal?: AbortSignal;
}

export interface UpInput {
  readonly project: string;
  readonly projectDir: string;
  readonly model: Model;
  /** Only these services, without their dependencies. */
  readonly services: readonly string[];
  readonly forceRecreate: boolean;
  /** What is there is only started, also when it differs. */
  readonly noRecreate?: boolean;
  /** Create only: volumes get their owners before anything boots. */
  readonly noStart?: boolean;
  readonly signal: AbortSignal;
  /** One line of progress. */
  readonly note?: (line: string) => void;
}

export interface LogOptions {
  readonly tail: number;
  readonly sinceMs?: number;
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
}

export interface LogLine {
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
}

export interface RunResult {
  readonly exitCode: number;
  readonly timedOut: boolean;
}

export interface Runtime {
  info(signal?: AbortSignal): Promise<EngineInfo>;
  /** One look at the whole engine. Throws ENGINE_UNREACHABLE; never answers with less than there is. */
  observe(options: ObserveOptions): Promise<Observed>;
  /** Ends (throws) when the stream breaks; the caller reconnects and looks at everything again. */
  events(signal: AbortSignal): AsyncIterable<EngineEvent>;
  /** `docker compose config --format json`: the exact text. Throws COMPOSE_INVALID with Compose's own words. */
  resolve(input: ResolveInput): Promise<string>;

  up(input: UpInput): Promise<void>;
  /** Stops all containers of these services as Compose does: with what they declare to be run before. */
  stopServices(input: Omit<UpInput, 'forceRecreate' | 'noStart'>): Promise<void>;
  /** Removes all containers and networks of a project by label, volumes never. */
  down(project: string, signal: AbortSignal): Promise<void>;
  build(input: Omit<UpInput, 'forceRecreate'>): Promise<void>;
  /** Throws IMAGE_MISSING or IMAGE_PULL_FAILED. */
  pull(image: string, signal: AbortSignal): Promise<void>;

  start(id: string, signal: AbortSignal): Promise<void>;
  /** Stops within the container's own grace period. */
  stop(id: string, signal: AbortSignal): Promise<void>;
  restart(id: string, signal: AbortSignal): Promise<void>;
  kill(id: string, signalName: string, signal: AbortSignal): Promise<void>;
  pause(id: string, signal: AbortSignal): Promise<void>;
  unpause(id: string, signal: AbortSignal): Promise<void>;
  rename(id: string, name: string, signal: AbortSignal): Promise<void>;
  /** Stops and removes; a container that is gone already is success. */
  remove(id: string, signal: AbortSignal): Promise<void>;
  update(id: string, resources: Resources, signal: AbortSignal): Promise<void>;
  connect(id: string, network: string, aliases: readonly string[], signal: AbortSignal): Promise<void>;
  disconnect(id: string, network: string, signal: AbortSignal): Promise<void>;
  removeNetwork(id: string, signal: AbortSignal): Promise<void>;
  removeVolume(name: string, signal: AbortSignal): Promise<void>;
  /** Applies owner and mode to a named volume's root before its first use. */
  chownVolume(
    volume: string,
    owner: { readonly mode: string; readonly uid: number; readonly gid: number },
    image: string,
    signal: AbortSignal,
  ): Promise<void>;

  logs(id: string, options: LogOptions): AsyncIterable<LogLine>;
  exec(
    id: string,
    input: {
      readonly command: readonly string[];
      readonly user?: string;
      readonly environment?: Readonly<Record<string, string>>;
      readonly signal: AbortSignal;
      readonly onLine: (line: LogLine) => void;
    },
  ): Promise<RunResult>;
  /** Ends what runs in the container and has `mark` (`NAME=value`) in its environment, children included, and sees that it is gone. */
  endMarked(id: string, mark: string, signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}
