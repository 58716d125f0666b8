// Fan-out: works through a list with at most `width` workers, each with a stable slot, and keeps the order of results.
// Also the error of whoever stopped it.
import type { CellResult } from './step.ts';

/** The run was stopped from outside. What had ended is listed; nothing was started after the stop. */
export class CancelledError extends Error {
  override readonly name = 'CancelledError';
  /** Cells that ended well: satisfied, not applicable, or executed and verified. */
  readonly finished: readonly CellResult[];
  readonly failed: readonly CellResult[];
  /** How many cells were not started, or stopped before they changed anything. */
  readonly remaining: number;
  constructor(results: readonly CellResult[], total: number, cause?: unknown) {
    const failed = results.filter((result) => result.outcome === 'failed');
    const finished = results.filter((result) => result.outcome !== 'failed' && result.outcome !== 'cancelled');
    const remaining = total - finished.length - failed.length;
    super(`cancelled: ${finished.length} cells finished, ${failed.length} failed, ${remaining} not done`, { cause });
    this.finished = finished;
    this.failed = failed;
    this.remaining = remaining;
  }
}

export async function fanOut<T, R>(
  items: readonly T[],
  width: number,
  halted: () => boolean,
  work: (item: T, slot: number) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const done: boolean[] = [];
  let next = 0;
  const worker = async (slot: number) => {
    while (next < items.length && !halted()) {
      const at = next++;
      results[at] = await work(items[at] as T, slot);
      done[at] = true;
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, (_, slot) => worker(slot)));
  return results.filter((_, at) => done[at]);
}
