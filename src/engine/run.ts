// Run: walks the phases in order, fans each out over its targets, asks its barrier, stops hard at the first phase that failed.
// It holds the rules of order; what happens within a cell is the cell's.
import { type Run, runCell } from './cell.ts';
import { contextFor, sharedFrom } from './context.ts';
import { CancelledError, fanOut } from './fan-out.ts';
import { multiplex } from './observer.ts';
import { type ExecuteOptions, skippedPhases } from './options.ts';
import type { ExecutablePhase } from './phase.ts';
import { cellCount, type Preview } from './probe.ts';
import type { CellResult, Target } from './step.ts';
import { asError } from './thrown.ts';

export class BarrierError extends Error {
  override readonly name = 'BarrierError';
  readonly barrier: string;
  constructor(barrier: string, cause: Error) {
    super(`barrier ${JSON.stringify(barrier)}: ${cause.message}`, { cause });
    this.barrier = barrier;
  }
}

export interface RunOutcome {
  /** Every cell that started, in the plan's order. */
  readonly cells: readonly CellResult[];
  /** The first target error by time of completion, as it was thrown; or a BarrierError; or a CancelledError. */
  readonly error?: Error;
  /** What the probe saw, where there was one. */
  readonly preview?: Preview;
}

/** Never rejects. */
export async function runPhases<P>(
  operation: string,
  phases: readonly ExecutablePhase<P>[],
  options: ExecuteOptions = {},
): Promise<RunOutcome> {
  const run: Run = {
    ...sharedFrom(options),
    plan: options.planId ?? operation,
    journal: options.journal,
    observer: multiplex(options.progress),
  };
  const cells: CellResult[] = [];
  let error: Error | undefined;
  try {
    const skipped = skippedPhases(
      phases.map((phase) => phase.name),
      options.skipPhases,
    );
    run.observer.onRunStart(operation, phases.map(outline));
    for (const [index, phase] of phases.entries()) {
      if (skipped.has(phase.name)) continue;
      if (run.halted()) break;
      run.observer.onPhaseStart(index, phases.length, phase.name);
      error = await runPhase(run, phase, cells);
      run.observer.onPhaseEnd(index, phases.length, phase.name, error);
      if (error) break;
    }
    if (run.halted()) {
      const wanted = phases.filter((phase) => !skipped.has(phase.name));
      error = new CancelledError(cells, cellCount(wanted), error ?? run.reason());
    }
  } catch (thrown) {
    error = asError(thrown);
  }
  const unclosed = await run.cache.close();
  if (unclosed.length > 0) error ??= new AggregateError(unclosed, 'a resource of the plan could not be closed');
  run.observer.onRunEnd(error);
  return error ? { cells, error } : { cells };
}

const outline = <P>(phase: ExecutablePhase<P>) => ({
  name: phase.name,
  targets: phase.targets.length,
  steps: phase.steps.length,
  concurrency: phase.concurrency,
});

async function runPhase<P>(run: Run, phase: ExecutablePhase<P>, cells: CellResult[]): Promise<Error | undefined> {
  let first: Error | undefined;
  const rows = await fanOut(phase.targets, phase.concurrency, run.halted, async (target, slot) => {
    const row = await runTarget(run, phase, target, slot);
    first ??= row.at(-1)?.error;
    return row;
  });
  const results = rows.flat();
  cells.push(...results);
  if (first || run.halted() || !phase.barrier) return first;
  const { barrier } = phase;
  const ctx = contextFor(run, {
    signal: run.signal,
    fresh: results.some((result) => result.executed), // what the phase changed must not be judged by an old reading
    phase: phase.name,
    slot: -1,
    note: (line) => run.observer.onNote(phase.name, '*', barrier.name, -1, line),
  });
  try {
    await barrier.evaluate(ctx, phase.name, results);
    return undefined;
  } catch (thrown) {
    return new BarrierError(barrier.name, asError(thrown));
  }
}

async function runTarget<P>(run: Run, phase: ExecutablePhase<P>, target: Target<P>, slot: number) {
  const row: CellResult[] = [];
  run.observer.onTargetStart(phase.name, target.id, slot);
  for (const step of phase.steps) {
    if (run.halted()) break;
    const result = await runCell(run, phase.name, step, target, slot);
    row.push(result);
    if (result.outcome === 'failed') break;
  }
  const last = row.at(-1);
  const cut = row.length < phase.steps.length || last?.outcome === 'cancelled';
  run.observer.onTargetEnd(
    phase.name,
    target.id,
    slot,
    last?.error ?? (cut ? new CancelledError(row, phase.steps.length) : undefined),
  );
  return row;
}
