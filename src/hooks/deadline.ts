// Deadline: work that is ended, not only no longer waited for, when its time is over; and calls that outlast an engine that is away.
import { Fault } from '../core/fault.ts';
import type { Clock } from '../ports/clock.ts';

/** The reason of a signal whose time is over. */
export class TimeOver extends Error {
  override readonly name = 'TimeoutError';
}

/** Work was told to end and is not known to have ended: nothing may be started beside it. */
export class NotEnded extends Fault {
  constructor(summary: string, cause?: unknown) {
    super('HOOK_FAILED', summary, cause === undefined ? {} : { cause });
  }
}

export interface DeadlineInput<T> {
  readonly clock: Clock;
  readonly ms: number;
  /** Ends the work early. */
  readonly signal: AbortSignal;
  /** How long the work may take to end once it is told to. */
  readonly graceMs: number;
  readonly work: (signal: AbortSignal) => Promise<T>;
}

/** Throws the signal's reason (TimeOver when the time was over) after the work has ended, or a Fault when it does not end. */
export async function withDeadline<T>(input: DeadlineInput<T>): Promise<T> {
  const { clock, signal, graceMs } = input;
  signal.throwIfAborted();
  const ends = new AbortController();
  const done = new AbortController();
  const onAbort = () => ends.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  clock.sleep(input.ms, done.signal).then(
    () => ends.abort(new TimeOver(`it took longer than ${formatMs(input.ms)}`)),
    () => {},
  );
  const stuck = new Promise<never>((_resolve, reject) => {
    ends.signal.addEventListener('abort', () => {
      clock.sleep(graceMs, done.signal).then(
        () => reject(new NotEnded(`it was told to end and did not within ${formatMs(graceMs)}`)),
        () => {},
      );
    });
  });
  stuck.catch(() => {});
  try {
    return await Promise.race([input.work(ends.signal), stuck]);
  } catch (error) {
    // Work that was told to end says so in many ways; what could not be ended is told as it is.
    if (!ends.signal.aborted || error instanceof NotEnded) throw error;
    const reason: unknown = ends.signal.reason;
    if (!(reason instanceof TimeOver)) throw reason;
    throw isOutage(error) && error.code === 'ENGINE_UNREACHABLE'
      ? new TimeOver(`${reason.message}: ${error.message}`)
      : reason;
  } finally {
    signal.removeEventListener('abort', onAbort);
    done.abort();
  }
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

/** Doubling pauses between tries. */
export const pauseMs = (tries: number): number => Math.min(FIRST_PAUSE_MS * 2 ** Math.min(tries, 10), LONGEST_PAUSE_MS);

export const isOutage = (error: unknown): error is Fault =>
  error instanceof Fault && (error.code === 'ENGINE_UNREACHABLE' || error.code === 'ENGINE_TIMEOUT');

/** Says once that the engine is away, and once that it is back, however many calls meet it. */
export class Outages {
  readonly #note: (line: string) => void;
  #isAway = false;

  constructor(note: (line: string) => void) {
    this.#note = note;
  }

  get isAway(): boolean {
    return this.#isAway;
  }

  away(error: Fault): void {
    if (!this.#isAway) this.#note(`the engine is away, it is waited for: ${error.message}`);
    this.#isAway = true;
  }

  back(): void {
    if (this.#isAway) this.#note('the engine is back');
    this.#isAway = false;
  }
}

export interface Patience {
  readonly clock: Clock;
  readonly outages: Outages;
}

/** Repeats an idempotent call while the engine is away, until the signal ends it; then the last outage is thrown. */
export async function outlast<T>(
  { clock, outages }: Patience,
  signal: AbortSignal,
  call: () => Promise<T>,
): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      const result = await call();
      outages.back();
      return result;
    } catch (error) {
      if (isOutage(error)) outages.away(error);
      if (!isOutage(error) || signal.aborted) throw error;
      await clock.sleep(pauseMs(tries), signal).catch(() => {
        throw error;
      });
    }
  }
}

export function formatMs(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  if (ms < 60_000) return `${ms / 1_000} s`;
  return `${Math.round(ms / 6_000) / 10} min`;
}
