// Preview of a rollback by a person: which commit it goes back to, and what that would change. Reads only.
import { Fault } from '../core/fault.ts';
import { neverDeployed } from '../core/spec/unknown-stack.ts';
import type { FleetAt } from './fleet-at.ts';
import { isOnRecord } from './gone.ts';
import { stackAt } from './hook-subject.ts';
import { type HookPreview, previewHooks } from './hooks-of.ts';
import { rollbackTarget } from './rollback.ts';
import type { Judged, Surveyed } from './survey.ts';
import type { Workbench } from './workbench.ts';

export interface RollbackPreview {
  /** The newest commit, that is refused from then on. */
  readonly from: FleetAt;
  /** What it asks for was not deployed: the stack stays what it was before. */
  readonly isUndeployed: boolean;
  readonly at: FleetAt;
  readonly one: Surveyed;
  /** What it runs around that. */
  readonly hooks: readonly HookPreview[];
}

/** Throws NOT_FOUND when there is nothing to go back to. */
export async function previewRollback(
  bench: Workbench,
  stack: string,
  to: string | undefined,
): Promise<RollbackPreview> {
  const { store, source } = bench.house;
  const from = await bench.reader.read(await source.fetch());
  const target = to ?? (await rollbackTarget(bench, stack, from));
  if (target === undefined && !isOnRecord(store, stack)) throw neverDeployed(stack);
  if (target === undefined)
    throw new Fault('NOT_FOUND', `stack ${stack} was deployed only once; name a commit with --to`);
  const { at } = await stackAt(bench, (await source.commit(target)).id, stack);
  const [one] = await bench.surveyor.survey([stack], at, await bench.look.fresh([stack]));
  if (!one) throw new Error(`no verdict on ${stack}`);
  const isUndeployed = at.revision.commit === store.applied(stack)?.revision;
  return { from, isUndeployed, at, one, hooks: one.kind === 'judged' ? hooksOf(one, from) : [] };
}

/** As it will be judged once what `from` asks for is refused. */
function hooksOf(one: Judged, from: FleetAt): readonly HookPreview[] {
  const { commit } = from.revision;
  const { sourceDigest } = from.fleet.stacks.get(one.name) ?? one.stack;
  return previewHooks({ ...one, insteadOf: { revision: commit, sourceDigest, reason: 'rolled back by a person' } });
}
