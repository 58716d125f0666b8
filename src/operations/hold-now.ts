// Hold now: why a stack is left as it is, if it is: what people and its own file say, and a restore of it that is not finished.
import type { LoadedStack } from '../core/spec/loaded.ts';
import type { Hold } from '../core/state/applied.ts';
import { type RestoreRecord, unfinishedRestores } from './archive/restore.ts';
import type { House } from './house.ts';
import { holdOf } from './survey.ts';

/** `unfinished`: asked once by who looks at many stacks. */
export function holdNow(
  house: House,
  stack: LoadedStack,
  unfinished: readonly RestoreRecord[] = unfinishedRestores(house),
): Hold | null {
  const { store, clock } = house;
  const restoring = unfinished.find(({ plan }) => plan.target === stack.name);
  if (restoring)
    return {
      kind: 'held',
      reason: `the restore ${restoring.id} is not finished`,
      sinceMs: restoring.startedAtMs,
      untilMs: 0,
      service: '',
    };
  return holdOf(stack, store.holds(stack.name), clock.nowMs());
}
