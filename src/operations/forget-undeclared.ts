// Forget undeclared: what is on record of names that git does not declare and that nothing was ever deployed under.
import type { LoadedFleet } from '../core/spec/loaded.ts';
import type { Hold } from '../core/state/applied.ts';
import type { Store } from '../ports/store.ts';
import { isAgainstGit, isUnrestored } from './by-request.ts';
import { everDeployed } from './gone.ts';

/** What is said of stacks that nobody declares any more and of which nothing was ever begun, as of a broken file that was taken out of git:
 * it is forgotten; of one whose data a request did not bring back all but that: whenever git declares it, it is not to come up empty.
 * Not while the fleet cannot be read as a whole, nor for one that a person holds or somebody works on. */
export function forgetUndeclared(store: Store, fleet: LoadedFleet, isBusy: (stack: string) => boolean): void {
  if (fleet.diagnostics.some((one) => one.severity === 'error')) return;
  const known = new Set(everDeployed(store).map((one) => one.stack));
  for (const stack of new Set([...store.allConditions().keys(), ...store.allHolds().keys()])) {
    const isDeclared = fleet.stacks.has(stack) || fleet.broken.has(stack);
    // The fleet itself, and whatever else is no stack, has a name that none can have.
    if (isDeclared || known.has(stack) || !/^[a-z0-9]/.test(stack) || store.attempt(stack) !== null) continue;
    if (!store.holds(stack).every(isOfRequest) || isBusy(stack)) continue;
    if (!store.holds(stack).some(isUnrestored)) store.forget(stack);
    else if (store.conditions(stack).length > 0) store.putConditions(stack, []);
  }
}

const isOfRequest = (hold: Hold): boolean =>
  isUnrestored(hold) || isAgainstGit(hold) || (hold.kind === 'held' && hold.whileDeclared !== undefined);
