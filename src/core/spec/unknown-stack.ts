// Unknown stack: what is said to a person who names a stack that a commit does not have, or one that was never deployed.
import { Fault } from '../fault.ts';
import { formatRevision, type Revision } from '../state/revision.ts';
import type { LoadedFleet } from './loaded.ts';
import { nearest } from './suggest.ts';

const MOST_TOLD = 10;

export function unknownStack(name: string, fleet: LoadedFleet, revision: Revision): Fault {
  const known = [...fleet.stacks.keys(), ...fleet.broken.keys()].sort();
  const meant = nearest(name, known) ?? known.find((one) => one.includes(name) || name.includes(one));
  return new Fault(
    'NOT_FOUND',
    `there is no stack ${name} at ${formatRevision(revision)}${meant === undefined ? '' : `; did you mean ${meant}?`}`,
    { data: { known: known.slice(0, MOST_TOLD) } },
  );
}

export const neverDeployed = (name: string): Fault =>
  new Fault('NOT_FOUND', `stack ${name} is not deployed: \`windlass apply --stack ${name}\` deploys it`);
