// Cell: one step on one target, applicable → check → execute → verify. Every branch about skipping, journalling and deadlines is here.
// It never throws: what went wrong is in the result.
import { contextFor, type Shared } from './context.ts';
import { DeadlineError, openDeadline } from './deadline.ts';
import { type Journal, type JournalOutcome, record } from './journal.ts';
import type { Observer } from './observer.ts';
import { asCheck, type CellOutcome, type CellResult, type Check, type Step, type Target } from './step.ts';
import { asError } from './thrown.ts';

/** Execute returned, and the desired state is still not there. */
export class VerifyError extends Error {
  override readonly name = 'VerifyError';
  constructor(step: string, targetId: string, note?: string) {
    super(`${step} on ${targetId} is not satisfied after its execute${note ? `: ${note}` : ''}`);
  }
}

/** What all cells of one run share. */
export interface Run extends Shared {
  readonly plan: string;
  readonly journal: Journal | undefined;
  readonly observer: Required<Observer>;
}

export async function runCell<P>(
  run: Run,
  phase: string,
  step: Step<P>,
  target: Target<P>,
  slot: number,
): Promise<CellResult> {
  const startedAt = run.clock.now();
  run.observer.onStepStart(phase, target.id, step.name, slot);
  const deadline = openDeadline(step, target.id, run);
  let open = true;
  let executed = false;
  let found: Check = { satisfied: false };
  const ctx = contextFor(run, {
    signal: deadline.signal,
    phase,
    slot,
    note: (line) => {
      if (open) run.observer.onNote(phase, target.id, step.name, slot, line);
    },
  });
  const journal = (event: 'start' | 'end', outcome: JournalOutcome, error?: Error) => {
    const entry = { plan: run.plan, phase, target: target.id, step: step.name, event, outcome, at: run.clock.now() };
    return record(run.journal, error ? { ...entry, error: error.message } : entry);
  };

  /** From here on the world may change: not after a stop, and not when the journal does not know. */
  const change = async (): Promise<CellOutcome> => {
    if (run.halted()) return 'cancelled';
    await deadline.call(() => {
      executed = true;
      return step.execute(ctx, target);
    });
    const fresh = { ...ctx, fresh: true };
    const answer = await deadline.call(() => (step.verify ? step.verify(fresh, target) : step.check(fresh, target)));
    const after = answer === undefined && step.verify ? { satisfied: true } : asCheck(answer as boolean | Check);
    if (!after.satisfied) throw new VerifyError(step.name, target.id, after.note);
    // What was done says more than what was to be done.
    if (step.verify && after.note) found = { ...found, note: after.note };
    return 'done';
  };

  const walk = async (): Promise<CellOutcome> => {
    if (!(await deadline.call(() => step.applicable(ctx, target)))) return 'skipped';
    found = asCheck(await deadline.call(() => step.check(ctx, target)));
    if (found.satisfied) return 'satisfied';
    if (run.halted()) return 'cancelled';
    await journal('start', 'started');
    let outcome: CellOutcome;
    try {
      outcome = await change();
    } catch (thrown) {
      const error = asError(thrown);
      const known = !(error instanceof DeadlineError) || error.workEnded;
      await journal('end', known ? 'failed' : 'unknown', error).catch(() => {}); // the work's own error says more
      throw error;
    }
    await journal('end', outcome === 'done' ? 'done' : 'cancelled');
    return outcome;
  };

  let outcome: CellOutcome;
  let error: Error | undefined;
  try {
    outcome = await walk();
  } catch (thrown) {
    outcome = 'failed';
    error = asError(thrown);
  }
  open = false;
  deadline.close();
  const result: CellResult = {
    phase,
    targetId: target.id,
    step: step.name,
    outcome,
    skipped: outcome === 'skipped',
    satisfied: outcome === 'satisfied',
    executed,
    ...(error && { error }),
    ...(found.note !== undefined && { note: found.note }),
    ...(found.detail !== undefined && { detail: found.detail }),
    elapsedMs: run.clock.now() - startedAt,
  };
  run.observer.onStepEnd(phase, target.id, step.name, slot, outcome, result);
  return result;
}
