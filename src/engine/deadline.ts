// Deadline of one cell: aborts the cell's own signal so that the work ends, then waits a bounded grace for it to return.
// It never leaves a timer or a listener behind once closed.
import type { Clock, Timer } from './clock.ts';

export class DeadlineError extends Error {
  override readonly name = 'DeadlineError';
  readonly step: string;
  readonly targetId: string;
  readonly deadlineMs: number;
  /** False: it did not return within the grace and may still be running. */
  readonly workEnded: boolean;
  constructor(step: string, targetId: string, deadlineMs: number, workEnded: boolean, cause?: unknown) {
    const state = workEnded ? 'its work has ended' : 'its work is not known to have ended';
    super(`${step} on ${targetId} passed its deadline of ${deadlineMs} ms; ${state}`, { cause });
    this.step = step;
    this.targetId = targetId;
    this.deadlineMs = deadlineMs;
    this.workEnded = workEnded;
  }
}

export interface Deadline {
  readonly signal: AbortSignal;
  /** Runs one method of the step; rejects with a DeadlineError when time is up before or while it runs. */
  call<T>(work: () => T | Promise<T>): Promise<T>;
  close(): void;
}

export const DEFAULT_GRACE_MS = 5_000;

export function openDeadline(
  step: { readonly name: string; readonly deadlineMs?: number },
  targetId: string,
  run: { readonly signal: AbortSignal; readonly clock: Clock; readonly graceMs: number },
): Deadline {
  const ms = step.deadlineMs;
  if (ms === undefined) return { signal: run.signal, call: async (work) => work(), close() {} };

  const own = new AbortController();
  const passOn = () => own.abort(run.signal.reason);
  if (run.signal.aborted) passOn();
  else run.signal.addEventListener('abort', passOn, { once: true });

  const late = (workEnded: boolean, cause?: unknown) => new DeadlineError(step.name, targetId, ms, workEnded, cause);
  let over = false;
  let giveUp: ((error: DeadlineError) => void) | undefined; // of the method that runs now
  let grace: Timer | undefined;
  const timer = run.clock.setTimeout(() => {
    over = true;
    if (giveUp) grace = run.clock.setTimeout(() => giveUp?.(late(false)), run.graceMs);
    own.abort(new DOMException(`deadline of ${ms} ms passed`, 'TimeoutError'));
  }, ms);

  return {
    signal: own.signal,
    async call(work) {
      if (over) throw late(true);
      try {
        return await new Promise((resolve, reject) => {
          giveUp = reject;
          (async () => work())().then(
            (value) => (over ? reject(late(true)) : resolve(value)),
            (thrown) => reject(over ? late(true, thrown) : thrown),
          );
        });
      } finally {
        giveUp = undefined;
        grace?.cancel();
      }
    },
    close() {
      timer.cancel();
      run.signal.removeEventListener('abort', passOn);
    },
  };
}
