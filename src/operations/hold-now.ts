// Hold now: why a stack is left as it is, if it is: what people and its own file say, a restore of it that is not finished, and
// data that a request has yet to bring.
import type { LoadedStack } from '../core/spec/loaded.ts';
import type { Hold } from '../core/state/applied.ts';
import { type RestoreRecord, unfinishedRestores } from './archive/restore.ts';
import { isAgainstGit, unrestoredHold, wasMade } from './by-request.ts';
import type { FleetAt } from './fleet-at.ts';
import type { House } from './house.ts';
import { acceptedKey } from './lineage.ts';
import { holdOf, isInTime } from './survey.ts';

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

/** Of an accepted fleet: a hold that a commit has ended is over for good, also when that commit is taken back. One of a stack that git did not
 * declare when it was restored lasts against the declaration that comes first: data that was brought back is no surprise's to overwrite. */
export function settleHolds({ store, source }: House, { fleet, revision }: FleetAt): void {
  // Against another than the accepted one nothing was held, and nothing has ended.
  if (store.value(acceptedKey(source.spec.name)) !== revision.commit) return;
  for (const [name, holds] of store.allHolds()) {
    const declared = fleet.stacks.get(name)?.sourceDigest;
    if (declared === undefined) continue;
    for (const hold of holds)
      if (hold.whileDeclared === undefined) {
        if (!isAgainstGit(hold)) continue;
        const reason = `${hold.reason}; a later commit to it or \`windlass resume ${name}\` deploys what git declares`;
        store.putHold(name, { ...hold, reason, whileDeclared: declared });
      } else if (hold.whileDeclared !== declared) store.deleteHold(name, hold.kind, hold.service);
  }
}

/** Those that still hold a stack, told from what is on record alone. */
export function holdsShown({ store, clock }: House, stack: string): readonly Hold[] {
  const applied = store.applied(stack);
  return store.holds(stack).filter(
    (hold) =>
      isInTime(hold, clock.nowMs()) &&
      // Where git declares nothing there is nothing to keep from.
      !(hold.whileDeclared === undefined && isAgainstGit(hold) && applied !== null && wasMade(store, applied)),
  );
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

/** Why a stack of which nothing is deployed yet is not made now; null = nothing speaks against it. */
export function awaitsArchive({ store, clock }: House, { stacks, lost, unknown }: Awaited, stack: string): Hold | null {
  if (store.applied(stack) !== null || store.attempt(stack) !== null) return null;
  const request = stacks.get(stack);
  const gone = lost.get(stack);
  if (request === undefined && gone === undefined && unknown === null) return null;
  if (request === undefined && gone !== undefined) return unrestoredHold(gone, stack, clock.nowMs());
  const reason =
    request !== undefined
      ? `the request ${request} brings it back from an archive first`
      : `whether a request brings it back from an archive first cannot be told: ${unknown}`;
  return { kind: 'held', reason, sinceMs: clock.nowMs(), untilMs: 0, service: '' };
}
