// Hold now: why a stack is left as it is, if it is: what people and its own file say, a restore of it that is not finished, and
// data that a request has yet to bring.
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

/** Stacks that authorised requests are about to bring back from an archive. */
export interface Awaited {
  /** Stack → the request that waits for nothing but its turn, its time or its end. */
  readonly stacks: ReadonlyMap<string, string>;
  /** Stack → the request that was to bring it back and no longer will: it expired, was rejected, withdrawn, changed or taken out of git. */
  readonly lost: ReadonlyMap<string, string>;
  /** Why it cannot be told which they are; null = it can. */
  readonly unknown: string | null;
}

export const NONE_AWAITED: Awaited = { stacks: new Map(), lost: new Map(), unknown: null };

/** Nothing is made empty in the place of what was to come back until a person says so. */
export const unrestoredReason = (request: string, stack: string): string =>
  `the request ${request} did not bring it back from its archive; \`windlass resume ${stack}\` deploys it without that data`;

/** Why a stack of which nothing is deployed yet is not made now; null = nothing speaks against it. */
export function awaitsArchive({ store, clock }: House, { stacks, lost, unknown }: Awaited, stack: string): Hold | null {
  if (store.applied(stack) !== null || store.attempt(stack) !== null) return null;
  const request = stacks.get(stack);
  const gone = lost.get(stack);
  if (request === undefined && gone === undefined && unknown === null) return null;
  const reason =
    request !== undefined
      ? `the request ${request} brings it back from an archive first`
      : gone !== undefined
        ? unrestoredReason(gone, stack)
        : `whether a request brings it back from an archive first cannot be told: ${unknown}`;
  return { kind: 'held', reason, sinceMs: clock.nowMs(), untilMs: 0, service: '' };
}
