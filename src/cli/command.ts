// Command: one record a verb. The flags are declared once; help, completion and parsing come from them.
import { parseDuration } from '../core/spec/duration.ts';
import type { ReadOutcome } from '../core/state/trust/verify-revs.ts';
import type { Clone } from '../surface/clone-desk.ts';
import type { Surface } from '../surface.ts';
import type { Io } from './io.ts';

export interface Flag {
  readonly type: 'string' | 'boolean';
  readonly short?: string;
  readonly value?: string;
  readonly help: string;
  readonly multiple?: boolean;
}

export type Flags = Readonly<Record<string, string | boolean | readonly string[] | undefined>>;

/** Reads a rev of any repository on disk as raw bytes; never rejects. */
export type RawObjectSource = (gitDir: string, rev: string) => Promise<ReadOutcome>;

/**
 * What a command cannot do without. `source`: a named repository. `state`: only the state directory; without a named repository the one
 * that was last deployed from is taken. `scratch`: a repository, by default the clone around us, and a state directory of its own unless
 * --state names one.
 */
export type Needs = 'source' | 'state' | 'scratch';

export interface Opened {
  readonly surface: Surface;
  /** From windlass.yaml. */
  readonly pollMs?: number;
  readonly intervalMs?: number;
  close(): Promise<void>;
}

export interface CommandContext {
  readonly io: Io;
  readonly flags: Flags;
  readonly args: readonly string[];
  /** Json wanted with `-o json`. */
  readonly json: boolean;
  /** All commands, for those that speak of them. */
  readonly commands: readonly Command[];
  /** Opens state directory and source; made once, closed at the end. `instead` of what the user said. */
  open(needs?: Needs, instead?: Flags): Promise<Opened>;
  /** The same, for those who only want the use cases. */
  surface(needs?: Needs): Promise<Surface>;
  /** Opens no state directory; absent where no repository can be read. */
  readonly rawObjects?: () => Promise<RawObjectSource>;
  /** The work tree around us; absent where there is no person. Throws a CLONE_REFUSED Fault outside of one. */
  readonly clone?: () => Promise<Clone>;
  /** The catalog that comes with Windlass: path below `apps/` → text. */
  bundled(): Promise<Readonly<Record<string, string>>>;
  /** First signal: finish what runs. */
  readonly stop: AbortSignal;
  /** Second signal: leave at once. */
  readonly now: AbortSignal;
}

export interface Command {
  readonly words: readonly string[];
  readonly summary: string;
  /** After the words, for example `STACK [SERVICE]`. */
  readonly usage: string;
  readonly example: string;
  readonly flags?: Readonly<Record<string, Flag>>;
  /** Least and most positional arguments. */
  readonly arity: readonly [number, number];
  /** What `-o` takes; default `json`. */
  readonly outputs?: readonly string[];
  /** It changes things: a first signal lets running cells finish. Without it a first signal ends the command. */
  readonly drains?: boolean;
  /** Exit code. Throws Faults and UsageError. Heavy modules are imported inside. */
  run(context: CommandContext): Promise<number>;
}

/** The message may go on with lines of its own: `  help     …`. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** `10s`, `5m`, `1h30m` or plain seconds → milliseconds. */
export function durationFlag(flags: Flags, name: string, fallbackMs: number): number {
  const text = flags[name];
  if (typeof text !== 'string') return fallbackMs;
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1_000;
  const ms = parseDuration(text);
  if (ms === null) throw new UsageError(`--${name} takes a duration such as 10s, 5m or 1h30m, not ${text}`);
  return ms;
}

export function textFlag(flags: Flags, name: string): string | undefined {
  const value = flags[name];
  return typeof value === 'string' ? value : undefined;
}

export function listFlag(flags: Flags, name: string): readonly string[] {
  const value = flags[name];
  return Array.isArray(value) ? (value as readonly string[]) : [];
}

export function countFlag(flags: Flags, name: string, fallback: number): number {
  const text = textFlag(flags, name);
  if (text === undefined) return fallback;
  if (!/^\d{1,6}$/.test(text)) throw new UsageError(`--${name} takes a whole number, not ${text}`);
  return Number(text);
}
