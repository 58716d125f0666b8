// Interrupted runs: history of a process that was killed still says `running`. Whoever knows that it is dead says so here.
import type { RunRecord } from '../core/status/event.ts';
import type { House } from './house.ts';
import { putEnd, unwrittenEnd } from './unwritten-ends.ts';

/** What holds the lease of its stack from before its record to after it. */
const UNDER_LEASE: ReadonlySet<string> = new Set([
  'deploy',
  'heal',
  'rollback',
  'uninstall',
  'scale',
  'hook',
  'test',
  'backup',
]);
// The work of a request begins before it has the lease.
const isUnderLease = ({ operation, trigger }: RunRecord): boolean =>
  UNDER_LEASE.has(operation) && !trigger.startsWith('request ');

/** With the lease of the stack just taken: whatever ran under it is over. */
export function endRunsUnderLease(house: Pick<House, 'store' | 'clock'>, stack: string): void {
  for (const run of house.store.runs({ stack, outcome: 'running' })) if (isUnderLease(run)) interrupt(house, run);
}

/** For a controller that begins: all, but what another process does now under its lease. */
export function endRunsOfTheDead(house: Pick<House, 'store' | 'clock'>, isHeld: (stack: string) => boolean): void {
  for (const run of house.store.runs({ outcome: 'running' }))
    if (!isUnderLease(run) || !isHeld(run.stack)) interrupt(house, run);
}

/** While others work: what ran under a lease that nobody holds any more. It is read again after the lease was looked at, since it may have
 * come to its own end before. */
export function endRunsLeft(house: Pick<House, 'store' | 'clock'>, isHeld: (stack: string) => boolean): void {
  for (const { id, stack } of house.store.runs({ outcome: 'running' }).filter(isUnderLease)) {
    if (isHeld(stack)) continue;
    const now = house.store.runs({ stack, outcome: 'running' }).find((run) => run.id === id);
    if (now) interrupt(house, now);
  }
}

function interrupt({ store, clock }: Pick<House, 'store' | 'clock'>, run: RunRecord): void {
  const known = unwrittenEnd(store, run.id);
  if (known) {
    putEnd(store, known);
    return;
  }
  const message = 'the process ended before the run did, or could not write down how it ended';
  store.putRun({ ...run, outcome: 'interrupted', endedAtMs: clock.nowMs(), message });
}
