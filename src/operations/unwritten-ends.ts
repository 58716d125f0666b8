// Unwritten ends: how runs ended that the disk did not take. Who knows it keeps it, and writes it down before anybody guesses.
import type { RunRecord } from '../core/status/event.ts';
import type { Store } from '../ports/store.ts';

const ends = new WeakMap<Pick<Store, 'putRun'>, Map<string, RunRecord>>();

/** Throws what the store throws; then the end is remembered. */
export function putEnd(store: Pick<Store, 'putRun'>, run: RunRecord): void {
  const unwritten = ends.get(store) ?? new Map<string, RunRecord>();
  ends.set(store, unwritten.set(run.id, run));
  store.putRun(run);
  unwritten.delete(run.id);
}

/** Null when this process knows nothing of its end. */
export const unwrittenEnd = (store: Pick<Store, 'putRun'>, id: string): RunRecord | null =>
  ends.get(store)?.get(id) ?? null;
