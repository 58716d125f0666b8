// By hand: start, stop and restart of a whole stack by a person. Operations without hooks; the lease keeps the controller out meanwhile.

import { projectContainers } from '../core/diff/diff.ts';
import { Fault } from '../core/fault.ts';
import { neverDeployed } from '../core/spec/unknown-stack.ts';
import type { ObservedContainer } from '../core/state/observed.ts';
import { unfinishedRestores } from './archive/restore.ts';
import { isOnRecord } from './gone.ts';
import { holdLeases } from './leases.ts';
import { takeUpHooks } from './steps/run-hook.ts';
import type { Workbench } from './workbench.ts';

export type ByHand = 'start' | 'stop' | 'restart';

/** Names of the containers it acted on. One-shots that completed are not started again. A stop is remembered before its first container
 * stops, so that nothing heals it, and forgotten when all were started. */
export async function byHand(
  bench: Workbench,
  stack: string,
  act: ByHand,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { house, look } = bench;
  const restoring = unfinishedRestores(house).find(({ plan }) => plan.target === stack);
  if (restoring) throw new Fault('LOCK_HELD', `the restore ${restoring.id} of ${stack} is not finished`);
  // A project of that name may be somebody else's.
  if (!isOnRecord(house.store, stack)) throw neverDeployed(stack);
  const leases = holdLeases(house, [stack], undefined, { first: true });
  try {
    await takeUpHooks(bench, [stack], { signal });
    const applied = house.store.applied(stack);
    const containers = projectContainers(await look.fresh('known'), applied?.project ?? stack);
    if (containers.length === 0) throw new Fault('NOT_FOUND', `stack ${stack} has no containers`);
    if (act === 'stop')
      house.store.putHold(stack, {
        kind: 'stopped',
        reason: 'stopped by a person',
        sinceMs: house.clock.nowMs(),
        untilMs: 0,
        service: '',
      });
    const done: string[] = [];
    for (const one of containers) {
      if (!concerns(act, one, applied?.roles[one.service] === 'completed')) continue;
      signal.throwIfAborted();
      await house.runtime[act](one.id, signal);
      done.push(one.name);
    }
    if (act === 'start') house.store.deleteHold(stack, 'stopped', '');
    return done;
  } finally {
    leases.release();
  }
}

function concerns(act: ByHand, one: ObservedContainer, completed: boolean): boolean {
  if (act === 'start') return (one.state === 'exited' || one.state === 'created') && !completed;
  return one.state === 'running' || one.state === 'restarting';
}
