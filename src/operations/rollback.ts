// Rollback: go back to the last deployed revision's render and remember which desired state was refused, so that the loop does not try
// it again until it changes.
import { Fault } from '../core/fault.ts';
import type { Applied } from '../core/state/applied.ts';
import { isSilent } from '../core/status/fault-reason.ts';
import type { FleetAt } from './fleet-at.ts';
import { isLost, stackAt } from './hook-subject.ts';
import { InvalidStack } from './resolve.ts';
import type { Judged } from './survey.ts';
import { type Refused, refusedKey, type Workbench } from './workbench.ts';

/** False when there is nothing to go back to, or when the fault says nothing against the revision. */
export async function rollBack(bench: Workbench, judged: Judged, fault: Fault): Promise<boolean> {
  const { store, redact, clock } = bench.house;
  const { applied } = judged;
  if (isSilent(fault.code) || !applied || applied.desired.digest === judged.resolved.desired.digest) return false;
  const instead = await bench.reader.read(applied.revision);
  if (!instead.fleet.stacks.has(judged.name)) return false;
  store.putValue(refusedKey(judged.name), {
    digest: judged.resolved.desired.digest,
    revision: judged.at.revision.commit,
    instead: applied.revision,
    reason: redact(fault.message),
  } satisfies Refused);
  store.appendEvent({
    atMs: clock.nowMs(),
    stack: judged.name,
    level: 'warning',
    reason: 'RolledBack',
    message: `${judged.at.revision.commit.slice(0, 7)} failed; going back to ${applied.revision.slice(0, 7)}`,
    revision: judged.at.revision.commit,
  });
  return true;
}

/** Where a person goes back to who names no commit: to what was deployed last, where something else is asked for now that did not come
 * about; else to what was deployed before it. Undefined when there is no such commit. */
export async function rollbackTarget(bench: Workbench, stack: string, at: FleetAt): Promise<string | undefined> {
  const { store } = bench.house;
  const applied = store.applied(stack);
  if (applied && (await asksForOther(bench, stack, at, applied))) return applied.revision;
  return (store.value(`previous/${stack}`) as { readonly revision: string } | undefined)?.revision;
}

async function asksForOther(bench: Workbench, stack: string, at: FleetAt, applied: Applied): Promise<boolean> {
  // After a rollback that is what it went back to.
  const now = await bench.effective(stack, at);
  const wanted = now.fleet.stacks.get(stack);
  if (!wanted || now.revision.commit === applied.revision) return false;
  try {
    const before = (await bench.reader.read(applied.revision)).fleet.stacks.get(stack);
    if (before?.sourceDigest === wanted.sourceDigest) return false;
  } catch (error) {
    // Lost from the repository, as after a forced push: there is no way back to it.
    if (isLost(error)) return false;
    throw error;
  }
  try {
    return (await bench.resolver.resolve(wanted, now)).desired.digest !== applied.desired.digest;
  } catch (error) {
    if (error instanceof InvalidStack) return true;
    throw error;
  }
}

/** A person goes back: the present desired state is refused until it changes, and the stack is judged at `to` (default: `rollbackTarget`).
 * Throws NOT_FOUND when there is nothing to go back to. */
export async function manualRollback(
  bench: Workbench,
  stack: string,
  at: FleetAt,
  to: string | undefined,
): Promise<{ readonly from: string; readonly to: string }> {
  const { store, source, clock } = bench.house;
  const spec = at.fleet.stacks.get(stack);
  if (!spec) throw new Fault('NOT_FOUND', `there is no readable stack ${stack} in the fleet`);
  const target = to ?? (await rollbackTarget(bench, stack, at));
  if (target === undefined)
    throw new Fault('NOT_FOUND', `stack ${stack} was deployed only once; name a commit with --to`);
  const commit = (await source.commit(target)).id;
  // Where signatures count, a commit that the accepted one does not go back to was vouched for by nobody.
  const { trust } = bench.house;
  if (trust && trust.deploy !== 'none' && !(await source.descends(at.revision.commit, commit)))
    throw new Fault('NOT_VERIFIED', `commit ${commit.slice(0, 12)} is no part of what was accepted`);
  await stackAt(bench, commit, stack);
  const { desired } = await bench.resolver.resolve(spec, at);
  await source.pin(`stack-${stack}-instead`, commit);
  store.putValue(refusedKey(stack), {
    digest: desired.digest,
    revision: at.revision.commit,
    instead: commit,
    reason: 'rolled back by a person',
  } satisfies Refused);
  store.appendEvent({
    atMs: clock.nowMs(),
    stack,
    level: 'warning',
    reason: 'RolledBack',
    message: `a person went back to ${commit.slice(0, 7)}`,
    revision: at.revision.commit,
  });
  return { from: at.revision.commit, to: commit };
}
