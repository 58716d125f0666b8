// By request: stacks that live although git declares none of that name, since a restore, clone, move or recover made them under it. What is
// wanted of them is the commit that was made of their archive. Of the engine nothing is changed here.
import type { LoadedFleet } from '../core/spec/loaded.ts';
import type { Applied, Hold } from '../core/state/applied.ts';
import type { Store } from '../ports/store.ts';
import { forgetMade, madeCommit, releaseMadePins } from './archive/archive-source.ts';
import { forgetVolumes } from './archive/generations.ts';
import { forgetInstalling, leftOf } from './gone.ts';

const held = (because: Hold['because'] & string, reason: string, sinceMs: number): Hold => ({
  kind: 'held',
  reason,
  sinceMs,
  untilMs: 0,
  service: '',
  because,
});

/** What a restore that has ended leaves on its stack. */
export const restoredHold = (archive: string, sinceMs: number): Hold =>
  held('restored', `restored from archive ${archive.slice(0, 12)}`, sinceMs);

/** It keeps what git declares from what was restored. Where git declares nothing, there is nothing to keep from. */
export const isAgainstGit = ({ because }: Hold): boolean => because === 'restored';

/** Nothing is made empty in the place of what was to come back until a person says so. */
export const unrestoredHold = (request: string, stack: string, sinceMs: number): Hold =>
  held(
    'unrestored',
    `the request ${request} did not bring it back from its archive; \`windlass resume ${stack}\` deploys it without that data`,
    sinceMs,
  );

export const isUnrestored = ({ because }: Hold): boolean => because === 'unrestored';

/** What a move leaves on its source, which has another name then. */
export const movingHold = (target: string, request: string, sinceMs: number): Hold =>
  held('moved', `it is being moved to ${target} by the request ${request}`, sinceMs);

export const movedHold = (target: string, cure: string, sinceMs: number): Hold =>
  held('moved', `it was moved to ${target}${cure === '' ? '' : `: ${cure}`}`, sinceMs);

export const isMoved = ({ because }: Hold): boolean => because === 'moved';

/** After the last of it was taken away: neither what it was made of nor where its data lay is needed by anybody. `isDataGone` false: its volumes
 * are still there, under names that a stack of this name is to find. */
export function forgetByRequest(store: Store, stack: string, isDataGone: boolean): void {
  if (isDataGone) forgetVolumes(store, stack);
  forgetMade(store, stack, new Set());
  releaseMadePins(store);
  for (const about of ['refused', 'previous']) store.deleteValue(`${about}/${stack}`);
  forgetInstalling(store, stack);
  store.forget(stack);
}

/** Deployed at a made commit, not declared, and not to be taken away for that. One that left git is not among them, be its volumes restored
 * ones; nor is a first boot or a drill, which belongs to who made it until that takes it away. */
export const livesByRequest = (store: Store, fleet: LoadedFleet): readonly Applied[] =>
  leftOf(fleet, store.allApplied()).filter((one) => wasMade(store, one));

/** The same but for what git declares by now. */
export const wasMade = (store: Store, one: Applied): boolean =>
  !one.prune && madeCommit(store, one.revision) !== null && !isOnItsWay(store, one);

/** A first boot or a drill. */
export function isOnItsWay(store: Store, { revision }: Applied): boolean {
  const made = madeCommit(store, revision);
  return made !== null && (made.isolated === true || made.enclosed !== undefined);
}
