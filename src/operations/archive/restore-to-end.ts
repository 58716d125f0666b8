// Restore to end: one restore as part of a larger work, however often that is taken up again. One that was begun is brought to its end; one
// that was called off, or lost its engine, left everything as it was and is begun again under a further id.
import { Fault } from '../../core/fault.ts';
import type { Workbench } from '../workbench.ts';
import type { RestorePlan } from './plan-restore.ts';
import { type RestoreOptions, restore, restoreRecord, resumeRestore } from './restore.ts';

export const isPassing = (code: string): boolean => code === 'CANCELLED' || code === 'ENGINE_UNREACHABLE';

/** Throws what made it fail; then what was there before is back. */
export async function restoreToEnd(
  bench: Workbench,
  plan: RestorePlan,
  options: RestoreOptions & { readonly id: string },
): Promise<void> {
  for (let count = 1; ; count++) {
    const id = count === 1 ? options.id : `${options.id}-${count}`;
    const known = restoreRecord(bench.house, id);
    if (known === null) {
      // What was brought back is what it was before, on the secrets that its providers have by now.
      const live = count > 1 && plan.live !== null ? bench.house.store.applied(plan.target)?.desired.digest : undefined;
      await restore(bench, live === undefined ? plan : { ...plan, live }, { ...options, id });
    }
    if (known?.endedAtMs === 0) await resumeRestore(bench, id, options);
    const record = restoreRecord(bench.house, id);
    if (record?.phase === 'done') return;
    const { code = 'RESTORE_FAILED', message = `${plan.target} could not be restored; what was there before is back` } =
      record?.fault ?? {};
    if (!isPassing(code)) throw new Fault('RESTORE_FAILED', message);
  }
}
