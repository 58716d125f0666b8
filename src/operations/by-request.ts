// By request: stacks that live although git declares none of that name, since a restore, clone, move or recover made them under it. What is
// wanted of them is the commit that was made of their archive. Of the engine nothing is changed here.
import type { LoadedFleet } from '../core/spec/loaded.ts';
import type { Applied, Hold } from '../core/state/applied.ts';
import type { Store } from '../ports/store.ts';
import { forgetMade, madeCommit, releaseMadePins } from './archive/archive-source.ts';
import { forgetVolumes } from './archive/generations.ts';
import { forgetInstalling, leftOf } from './gone.ts';

const RESTORED = 'restored from archive ';

/** What a restore that has ended says of its stack. */
export const restoredReason = (archive: string): string => `${RESTORED}${archive.slice(0, 12)}`;

/** It keeps what git declares from what was restored. Where git declares nothing, there is nothing to keep from. */
export const isAgainstGit = ({ kind, reason }: Hold): boolean => kind === 'held' && reason.startsWith(RESTORED);

/** Nothing is made empty in the place of what was to come back until a person says so. */
export const unrestoredReason = (request: string, stack: string): string =>
  `the request ${request} did not bring it back from its archive; \`windlass resume ${stack}\` deploys it without that data`;

export const isUnrestored = ({ kind, reason }: Hold): boolean =>
  kind === 'held' && / did not bring it back from its archive; /.test(reason);

/** What a move says of its source, and that it has another name now. */
export const movingReason = (target: string, request: string): string =>
  `it is being moved to ${target} by the request ${request}`;
export const movedReason = (target: string, cure: string): string =>
  `it was moved to ${target}${cure === '' ? '' : `: ${cure}`}`;
export const isMoved = ({ kind, reason }: Hold): boolean =>
  kind === 'held' && /^it (?:is being|was) moved to /.test(reason);

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
