// What left the fleet: stacks that are on record but no longer declared, and whether they may be removed without asking. Pure.
import { createHash } from 'node:crypto';
import { Fault } from '../core/fault.ts';
import type { LoadedFleet } from '../core/spec/loaded.ts';
import type { Applied } from '../core/state/applied.ts';
import type { Store } from '../ports/store.ts';

export interface Gone {
  /** To be removed: containers and networks, volumes never. */
  readonly removable: readonly Applied[];
  /** Left alone because their own prune flag is false. */
  readonly kept: readonly Applied[];
  /** Why nothing is removed without a person's word; null = the guard is content. */
  readonly guard: string | null;
  /** Names the list, for `windlass prune --confirm`. */
  readonly digest: string;
}

const installingKey = (stack: string): string => `installing/${stack}`;

/** A first deploy that begins: should the stack leave the fleet before it ends well, what is there of it is still to be taken away. */
export const noteInstalling = (store: Store, about: Applied): void =>
  store.putValue(installingKey(about.stack), { ...about, hooks: '' });

export const forgetInstalling = (store: Store, stack: string): void => store.deleteValue(installingKey(stack));

/** What is deployed, and what was begun and never ended well. */
export function everDeployed(store: Store): readonly Applied[] {
  const applied = store.allApplied();
  const begun = [...store.values('installing/').values()] as readonly Applied[];
  return [...applied, ...begun.filter((one) => !applied.some((other) => other.stack === one.stack))];
}

/** Something of it may be there: it was deployed, or its first deploy has begun. */
export const isOnRecord = (store: Store, stack: string): boolean =>
  everDeployed(store).some((one) => one.stack === stack);

/** On record, and no longer declared. A document that cannot be read is never "gone": its stack is in `fleet.broken`. */
export const leftOf = (fleet: LoadedFleet, applied: readonly Applied[]): readonly Applied[] =>
  applied.filter((one) => !fleet.stacks.has(one.stack) && !fleet.broken.has(one.stack));

/** An error of the fleet as a whole freezes everything. */
export function goneOf(fleet: LoadedFleet, applied: readonly Applied[], pruneLimit: number): Gone {
  const left = leftOf(fleet, applied);
  const removable = left.filter((one) => one.prune);
  const kept = left.filter((one) => !one.prune);
  const allowed = Math.max(1, Math.floor(applied.length * pruneLimit));
  const error = fleet.diagnostics.find((one) => one.severity === 'error');
  const guard = error
    ? `the fleet cannot be read as a whole: ${error.summary}`
    : removable.length > allowed
      ? `${removable.length} of ${applied.length} stacks left the fleet at once; ${allowed} may go without asking`
      : null;
  return { removable, kept, guard, digest: digestOf(removable) };
}

/** Of what left the fleet those that a person names, also where they stay by themselves. Throws USAGE for what git declares, and NOT_FOUND. */
export function goneNamed(fleet: LoadedFleet, applied: readonly Applied[], names: readonly string[]): Gone {
  const left = leftOf(fleet, applied);
  const removable = [...new Set(names)].sort().map((name) => {
    const found = left.find((one) => one.stack === name);
    if (found) return found;
    if (fleet.stacks.has(name) || fleet.broken.has(name))
      throw new Fault('USAGE', `git declares stack ${name}: take it out of git, and it is removed`);
    throw new Fault('NOT_FOUND', `nothing is on record of a stack ${name} that git does not declare`);
  });
  return { removable, kept: [], guard: null, digest: digestOf(removable) };
}

const digestOf = (removable: readonly Applied[]): string =>
  createHash('sha256')
    .update(JSON.stringify(removable.map((one) => [one.stack, one.desired.digest]).sort()))
    .digest('hex')
    .slice(0, 16);
