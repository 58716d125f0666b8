// By hand: start, stop and restart of a whole stack by a person. Operations without hooks; the lease keeps the controller out meanwhile.

import { hasComposeHooks, inParentOrder, projectContainers } from '../core/diff/diff.ts';
import { Fault } from '../core/fault.ts';
import { neverDeployed } from '../core/spec/unknown-stack.ts';
import type { Applied } from '../core/state/applied.ts';
import type { ObservedContainer } from '../core/state/observed.ts';
import type { UpInput } from '../ports/runtime.ts';
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
    const index = await look.fresh('known');
    const containers = ordered(projectContainers(index, applied?.project ?? stack), applied, act);
    if (containers.length === 0) throw new Fault('NOT_FOUND', `stack ${stack} has no containers`);
    const compose = await composeOf(bench, applied, signal);
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
      const up = compose && { ...compose.up, services: [one.service] };
      if (!up || !compose.hooked.has(one.service)) await house.runtime[act](one.id, signal);
      else if (!compose.done.has(one.service)) {
        compose.done.add(one.service);
        if (act !== 'start') await house.runtime.stopServices(up);
        if (act !== 'stop') await house.runtime.up({ ...up, forceRecreate: false, noRecreate: true });
      }
      done.push(one.name);
    }
    if (act === 'start') house.store.deleteHold(stack, 'stopped', '');
    return done;
  } finally {
    leases.release();
  }
}

/** What shares the namespaces of another one can only start after it, and is stopped before it. */
function ordered(
  containers: readonly ObservedContainer[],
  applied: Applied | null,
  act: ByHand,
): readonly ObservedContainer[] {
  const names = inParentOrder(applied?.desired.services ?? []).map((service) => service.name);
  const sorted = [...containers].sort((a, b) => names.indexOf(a.service) - names.indexOf(b.service));
  return act === 'stop' ? sorted.reverse() : sorted;
}

/** For services in which Compose runs what they declare after a start and before a stop. Null when there are none, and when what was
 * deployed cannot be read any more: a person can stop and start a stack all the same, without that. */
async function composeOf(bench: Workbench, applied: Applied | null, signal: AbortSignal) {
  const hooked = new Set(applied?.desired.services.filter(hasComposeHooks).map((service) => service.name));
  if (!applied || hooked.size === 0) return null;
  try {
    const at = await bench.reader.read(applied.revision);
    const loaded = at.fleet.stacks.get(applied.stack);
    const resolved = loaded && (await bench.resolver.resolve(loaded, at, signal));
    if (resolved?.desired.digest !== applied.desired.digest) return null;
    const { project, projectDir } = resolved.desired;
    const up: Omit<UpInput, 'services' | 'forceRecreate'> = {
      project,
      projectDir,
      model: await resolved.model(signal),
      signal,
    };
    return { hooked, up, done: new Set<string>() };
  } catch {
    signal.throwIfAborted();
    return null;
  }
}

function concerns(act: ByHand, one: ObservedContainer, completed: boolean): boolean {
  if (act === 'start') return (one.state === 'exited' || one.state === 'created') && !completed;
  return one.state === 'running' || one.state === 'restarting';
}
