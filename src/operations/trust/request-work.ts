// Request work: what each kind of request does, behind one shape. It asks nobody: whoever calls it has claimed the request.
import { Fault } from '../../core/fault.ts';
import type { Request } from '../../core/spec/request.ts';
import { backup } from '../archive/backup.ts';
import { type ClonePlan, clone, cloneDigest, cloneRecord, planClone } from '../archive/clone.ts';
import { planRestore, type RestorePlan, restoreDigest } from '../archive/plan-restore.ts';
import { planRecover, type RecoverPlan, recover, recoverDigest, recoverRecord, stepsOf } from '../archive/recover.ts';
import { type RestoreOptions, restore, restoreRecord, resumeRestore } from '../archive/restore.ts';
import type { Workbench } from '../workbench.ts';
import { type PurgePlan, planPurge, purge, purgeDigest } from './purge.ts';

/** Plain JSON without a secret: on record before the first change, so that it can be finished after a crash. */
export type RequestWork =
  | { readonly operation: 'purge'; readonly plan: PurgePlan }
  | { readonly operation: 'restore'; readonly plan: RestorePlan }
  | { readonly operation: 'recover'; readonly plan: RecoverPlan }
  | { readonly operation: 'clone' | 'move'; readonly plan: ClonePlan };

export type WorkPlan =
  | { readonly kind: 'plan'; readonly work: RequestWork }
  /** Nothing may be done now; the request is not spent. */
  | { readonly kind: 'wait'; readonly why: string };

/** Reads only. What stands in its way is a reason to wait: nothing is spent by it. */
export async function planWork(bench: Workbench, request: Request, signal: AbortSignal): Promise<WorkPlan> {
  try {
    switch (request.kind) {
      case 'Purge': {
        const facts = await planPurge(bench.house, bench.look, request, signal);
        return facts.kind === 'wait' ? facts : { kind: 'plan', work: { operation: 'purge', plan: facts.plan } };
      }
      case 'Restore': {
        const facts = await planRestore(bench, request, signal);
        return facts.kind === 'wait' ? facts : { kind: 'plan', work: { operation: 'restore', plan: facts.plan } };
      }
      case 'Recover': {
        const facts = await planRecover(bench, request, signal);
        return facts.kind === 'wait' ? facts : { kind: 'plan', work: { operation: 'recover', plan: facts.plan } };
      }
      default: {
        const facts = await planClone(bench, request, signal);
        if (facts.kind === 'wait') return facts;
        return { kind: 'plan', work: { operation: facts.plan.operation, plan: facts.plan } };
      }
    }
  } catch (error) {
    if (!(error instanceof Fault) || error.code === 'CANCELLED') throw error;
    return { kind: 'wait', why: bench.house.redact(error.message) };
  }
}

/** What approvers may pin in the request: of the work as it would be done now; 64 hex. */
export const workDigest = (work: RequestWork): string => digestOf(work).slice('sha256:'.length);

function digestOf(work: RequestWork): string {
  switch (work.operation) {
    case 'purge':
      return purgeDigest(work.plan);
    case 'restore':
      return restoreDigest(work.plan);
    case 'recover':
      return recoverDigest(work.plan);
    default:
      return cloneDigest(work.plan);
  }
}

/** The restore that is on record already under a name that the work of a request not yet begun would take: it would pass for its own, as done.
 * So it is with `recover` ID of a stack and a restore ID-STACK, and with an id that ran before the ledger was lost. */
export function takenBy({ house }: Workbench, id: string, work: RequestWork): string | null {
  if (work.operation === 'purge') return null;
  const isOver =
    (work.operation === 'recover' && recoverRecord(house, id) !== null) ||
    ((work.operation === 'clone' || work.operation === 'move') && cloneRecord(house, id) !== null);
  if (isOver) return id;
  const names = work.operation === 'restore' ? [id] : broughtBack(work).map((target) => `${id}-${target}`);
  return names.find((name) => restoreRecord(house, name) !== null) ?? null;
}

/** Under whose name it is told; of a recover, the first of them. */
export function stackOf(work: RequestWork): string {
  if (work.operation === 'purge') return work.plan.stack;
  if (work.operation === 'recover') return stepsOf(work.plan)[0]?.target ?? '@fleet';
  return work.plan.target;
}

/** Stacks that it is to bring back from an archive. */
export function broughtBack(work: RequestWork): readonly string[] {
  if (work.operation === 'purge') return [];
  return work.operation === 'recover' ? stepsOf(work.plan).map((one) => one.target) : [work.plan.target];
}

/** Stacks whose data or name it deals with. */
export const stacksOf = (work: RequestWork): readonly string[] =>
  work.operation === 'recover' ? broughtBack(work) : [work.plan.stack, ...broughtBack(work)];

/** Archives that it reads until it has ended. */
export function archivesOf(work: RequestWork): readonly string[] {
  if (work.operation === 'purge') return [];
  if (work.operation === 'recover') return [work.plan.archive, ...stepsOf(work.plan).map((one) => one.restore.archive)];
  return work.plan.archive === null ? [] : [work.plan.archive];
}

/** Leases that are to be held around it. Restores hold their own; so does a clone, whose backup shares its stack with nobody. */
export function leasesOf(work: RequestWork): readonly string[] {
  return work.operation === 'purge' ? [work.plan.stack] : [];
}

/** For the preview and the record of the run. */
export const changesOf = (work: RequestWork): readonly string[] =>
  work.operation === 'purge'
    ? work.plan.volumes.map((one) => `remove the volume ${one.name} and its data`)
    : work.plan.lines;

/** With the leases held. A second call with the same `id` finishes what the first left. What was done, in words. */
export async function doWork(
  bench: Workbench,
  id: string,
  work: RequestWork,
  options: Pick<RestoreOptions, 'signal' | 'note'>,
): Promise<string> {
  if (work.operation === 'purge') {
    const gone = await purge(bench.house, work.plan, options.signal);
    return gone.length === 0 ? 'there was nothing to remove' : `removed ${gone.join(', ')}`;
  }
  const trigger = `request ${id}`;
  const safely = restoreOptions(bench, options, trigger);
  if (work.operation === 'recover') return recover(bench, work.plan, { ...safely, id });
  if (work.operation !== 'restore') {
    const archiveLive = async (stack: string, move?: string) =>
      (await backup(bench, stack, { ...options, trigger, ...(move === undefined ? {} : { move }) })).archive;
    return clone(bench, work.plan, { ...safely, id, archiveLive });
  }
  if (restoreRecord(bench.house, id) === null) await restore(bench, work.plan, { ...safely, id });
  else await resumeRestore(bench, id, safely);
  const record = restoreRecord(bench.house, id);
  if (record?.phase !== 'done')
    throw new Fault(
      'RESTORE_FAILED',
      record?.fault?.message ?? 'the restore did not come to its end; the live data is back',
    );
  return `${work.plan.target} is what archive ${work.plan.archive.slice(0, 12)} holds`;
}

export const restoreOptions = (
  bench: Workbench,
  options: Pick<RestoreOptions, 'signal' | 'note'>,
  trigger: string,
): Omit<RestoreOptions, 'id'> => ({
  ...options,
  backup: async (stack, purpose) =>
    (await backup(bench, stack, { ...options, purpose, trigger, within: true })).archive,
});
