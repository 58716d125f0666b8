// Remote attempt: one call to a store on another machine: with a deadline, tried again a bounded number of times while what failed may pass.
// It never takes a failed call for an answer.
import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../core/fault.ts';
import { throwIfCancelled } from './archive-fault.ts';

/** It may work when it is tried again. The message says why it did not, without what it was. */
export class Passing extends Error {
  override readonly name = 'Passing';
}

export interface Patience {
  readonly tries: number;
  /** Of one try. */
  readonly deadlineMs: number;
  /** Before the second try; doubled before each further one. */
  readonly pauseMs: number;
  /** Since the first try began: no further one begins later. Default: twice the deadline. */
  readonly lastTryMs?: number;
}

export const PATIENCE: Patience = { tries: 5, deadlineMs: 60_000, pauseMs: 300 };
const MOST_PAUSE_MS = 10_000;

/** `work` stops when its signal says so, and throws Passing for what may pass. Throws ARCHIVE_UNREACHABLE after the last try. */
export async function attempt<T>(
  what: string,
  patience: Patience,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const beganMs = performance.now();
  const lastTryMs = patience.lastTryMs ?? 2 * patience.deadlineMs;
  for (let tried = 1; ; tried++) {
    throwIfCancelled(signal);
    try {
      return await withDeadline(patience.deadlineMs, signal, work);
    } catch (error) {
      throwIfCancelled(signal);
      if (!(error instanceof Passing)) throw error;
      // Whoever answers byte by byte would else take the deadline as often as there are tries.
      if (tried >= patience.tries || performance.now() - beganMs >= lastTryMs) throw unreachable(what, error, tried);
    }
    await pause(patience, tried, signal);
  }
}

export const unreachable = (what: string, why: Error, tries: number): Fault =>
  new Fault('ARCHIVE_UNREACHABLE', `${what}: ${why.message}${tries > 1 ? ` (tried ${tries} times)` : ''}`, {
    cause: why,
  });

export async function pause(patience: Patience, tried: number, signal: AbortSignal | undefined): Promise<void> {
  const pauseMs = Math.min(MOST_PAUSE_MS, patience.pauseMs * 2 ** (tried - 1)) * (0.75 + Math.random() / 2);
  await sleep(pauseMs, undefined, signal ? { signal } : {}).catch(() => throwIfCancelled(signal));
}

/** Ends when the time is over, also when `work` does not hear its signal. */
export async function withDeadline<T>(
  deadlineMs: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const own = new AbortController();
  let leave: (error: Error) => void = () => {};
  const left = new Promise<never>((_, reject) => {
    leave = reject;
  });
  const late = setTimeout(() => {
    const error = new Passing(`no answer within ${deadlineMs / 1000} s`);
    own.abort(error);
    leave(error);
  }, deadlineMs);
  const onAbort = (): void => {
    own.abort(signal?.reason);
    leave(new Fault('CANCELLED', 'the archive store was told to stop', { cause: signal?.reason }));
  };
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    const working = work(own.signal);
    working.catch(() => {});
    return await Promise.race([working, left]);
  } finally {
    clearTimeout(late);
    signal?.removeEventListener('abort', onAbort);
  }
}

/** At most `width` at once. The first error is thrown once none of the others is at work any more. */
export async function eachOf<T>(items: Iterable<T>, width: number, work: (item: T) => Promise<void>): Promise<void> {
  const iterator = items[Symbol.iterator]();
  let failed: { readonly error: unknown } | null = null;
  const walk = async (): Promise<void> => {
    for (let next = iterator.next(); !next.done && failed === null; next = iterator.next())
      try {
        await work(next.value);
      } catch (error) {
        failed ??= { error };
      }
  };
  await Promise.all(Array.from({ length: width }, walk));
  if (failed !== null) throw (failed as { readonly error: unknown }).error;
}
