// Clone and move: a stack under another name. A clone is a restore beside the original, from the archive that the request names or from one
// that is made first. A move is a clone with its secrets, after which, once the target is ready, the source is taken away; its volumes stay.
import { Fault } from '../../core/fault.ts';
import type { Clone } from '../../core/spec/request.ts';
import type { Hold } from '../../core/state/applied.ts';
import { canonicalJson, sha256 } from '../../engine/digest.ts';
import type { House } from '../house.ts';
import { uninstall } from '../uninstall.ts';
import type { Workbench } from '../workbench.ts';
import { around } from './around.ts';
import {
  liveFleet,
  planRestore,
  type RestorePlan,
  type RestoreRequest,
  restoreDigest,
  toolsOf,
} from './plan-restore.ts';
import type { RestoreOptions } from './restore.ts';
import { restoreToEnd } from './restore-to-end.ts';

export type CloneRequest = Pick<
  Clone,
  'stack' | 'archive' | 'node' | 'vars' | 'ports' | 'integrate' | 'skipIntegration'
> & { readonly kind: 'Clone' | 'Move'; readonly target?: string; readonly secrets?: Clone['secrets'] };

/** Plain JSON without secrets. */
export interface ClonePlan {
  readonly operation: 'clone' | 'move';
  readonly stack: string;
  readonly target: string;
  /** Null: of the live stack, made as part of the work. */
  readonly archive: string | null;
  readonly secrets: 'copy' | 'mint';
  readonly overrides: Omit<RestoreRequest, 'stack' | 'target' | 'archive' | 'secrets' | 'safety' | 'then'>;
  /** Digest of what is deployed as the source; null = nothing is. */
  readonly live: string | null;
  /** Null until there is an archive to plan from. */
  readonly restore: RestorePlan | null;
  /** For people; not part of what the digest names. */
  readonly lines: readonly string[];
}

export type ClonePlanned =
  | { readonly kind: 'plan'; readonly plan: ClonePlan }
  /** Nothing is wrong; it can be done later. */
  | { readonly kind: 'wait'; readonly why: string };

export const cloneDigest = ({ lines: _lines, restore: planned, ...content }: ClonePlan): string =>
  sha256(canonicalJson({ ...content, restore: planned && restoreDigest(planned) }));

/** Throws the Fault of what stands in the way. Touches nothing. */
export async function planClone(bench: Workbench, request: CloneRequest, signal: AbortSignal): Promise<ClonePlanned> {
  const { house } = bench;
  const { store } = house;
  toolsOf(house);
  const wait = (why: string): ClonePlanned => ({ kind: 'wait', why });
  const operation = request.kind === 'Move' ? 'move' : 'clone';
  const { stack, target, archive = null, vars, ports, integrate, skipIntegration } = request;
  if (request.node !== undefined && request.node !== 'local')
    return wait(`a ${operation} to the node ${request.node} is not carried out by this version`);
  if (target === undefined || target === stack)
    return wait(`the ${operation} names no other name for ${stack}: give one as \`target\``);
  const taken = await takenBy(bench, target);
  if (taken !== null) return wait(`there is something under the name ${target} already: ${taken}`);
  const applied = store.applied(stack);
  if (!applied && (archive === null || operation === 'move'))
    return wait(`the stack ${stack} is not deployed${archive === null ? ', and the request names no archive' : ''}`);
  if (operation === 'move') {
    const consumer = await consumerOf(bench, stack);
    if (consumer !== null) return wait(`the stack ${consumer} integrates ${stack}: let it go first`);
  }
  const overrides = {
    ...(vars ? { vars } : {}),
    ...(ports ? { ports } : {}),
    ...(integrate ? { integrate } : {}),
    ...(skipIntegration ? { skipIntegration } : {}),
  };
  const secrets = operation === 'move' ? 'copy' : (request.secrets ?? 'mint');
  let planned: RestorePlan | null = null;
  if (archive !== null) {
    const answer = await planRestore(bench, { ...overrides, stack, target, archive, secrets }, signal);
    if (answer.kind === 'wait') return answer;
    planned = answer.plan;
  } else {
    // An archive of what runs would only be found unfit after it was made.
    const port = applied?.desired.services
      .filter(({ name, replicas }) => replicas > 0 && !Object.hasOwn(ports ?? {}, name))
      .flatMap((service) => service.ports.filter((one) => one.published > 0).map((one) => ({ service, one })))[0];
    if (port)
      return wait(
        `${stack} publishes the port ${port.one.published} of ${port.service.name}, and both run side by side: name others for ${port.service.name} with \`ports\``,
      );
  }
  const plan: ClonePlan = {
    operation,
    stack,
    target,
    archive,
    secrets,
    overrides,
    live: applied?.desired.digest ?? null,
    restore: planned,
    lines: [],
  };
  return { kind: 'plan', plan: { ...plan, lines: words(plan) } };
}

function words({ operation, stack, target, archive, secrets, restore: planned }: ClonePlan): readonly string[] {
  return [
    `${operation} ${stack} to ${target}`,
    ...(archive === null ? [`${stack} is backed up first, and ${target} is made from that archive`] : []),
    secrets === 'copy'
      ? `the secrets of ${stack} are taken along`
      : `the secrets of ${stack} are not taken along: what can be minted is minted anew, and what is made again from a dump is made with the new ones; data that is copied as it is keeps an old one that it holds, such as the password of a database's own user`,
    ...(planned?.lines ?? []),
    ...(operation === 'move'
      ? [
          `once ${target} is ready, ${stack} is uninstalled and held; its volumes stay and are listed as orphaned`,
          `what is written to ${stack} after its archive was made is in those volumes only`,
        ]
      : []),
  ];
}

/** What bears the name already, volumes too: data that somebody left there would be taken for the clone's. */
export async function takenBy(bench: Workbench, target: string): Promise<string | null> {
  const { store } = bench.house;
  if (store.applied(target)) return 'a stack is deployed';
  if (store.attempt(target)) return 'a deploy is under way';
  const { observed } = await bench.look.fresh('known');
  const container = observed.containers.find((one) => one.project === target);
  if (container) return `the container ${container.name}`;
  const volume = observed.volumes.find((one) => one.project === target);
  return volume ? `the volume ${volume.name}` : null;
}

/** Of what is declared, and of what is deployed. */
async function consumerOf(bench: Workbench, provider: string): Promise<string | null> {
  const uses = (one: { readonly integrate: Readonly<Record<string, string>> } | undefined): boolean =>
    one !== undefined && Object.values(one.integrate).includes(provider);
  const live = await liveFleet(bench);
  for (const one of live?.fleet.stacks.values() ?? []) if (uses(one)) return one.name;
  for (const { stack, revision } of bench.house.store.allApplied())
    if (stack !== provider && uses((await bench.reader.read(revision)).fleet.stacks.get(stack))) return stack;
  return null;
}

/** On disk as `clone/<id>`. */
export interface CloneRecord {
  readonly id: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /** When the backup was begun; null = none was. */
  readonly backupAtMs: number | null;
  readonly archive: string | null;
  readonly restore: RestorePlan | null;
  readonly phases: readonly string[];
}

export interface CloneOptions extends RestoreOptions {
  readonly id: string;
  /** Backs the live stack up as people do, with its hooks; gives the id of the archive. */
  readonly archiveLive: (stack: string) => Promise<string>;
}

const recordKey = (id: string): string => `clone/${id}`;

export const cloneRecord = (house: Pick<House, 'store'>, id: string): CloneRecord | null =>
  (house.store.value(recordKey(id)) as CloneRecord | undefined) ?? null;

/** A second call with the same `id` finishes what the first left. What was done, in words. Throws what made it fail; of a target that did
 * not become ready nothing stays, and the source is as it was. */
export async function clone(bench: Workbench, plan: ClonePlan, options: CloneOptions): Promise<string> {
  const { store, clock } = bench.house;
  const { id } = options;
  const { stack, target, operation } = plan;
  let record: CloneRecord = cloneRecord(bench.house, id) ?? {
    id,
    startedAtMs: clock.nowMs(),
    endedAtMs: 0,
    backupAtMs: null,
    archive: plan.archive,
    restore: plan.restore,
    phases: [],
  };
  const save = (change: Partial<CloneRecord>): void => {
    record = { ...record, ...change };
    store.putValue(recordKey(id), record);
  };
  save({});
  if (record.endedAtMs === 0) {
    const memory = {
      has: (phase: string) => record.phases.includes(phase),
      add: (phase: string) => save({ phases: [...record.phases, phase] }),
    };
    const { startedAtMs } = record;
    await around(bench, operation, { from: stack, to: target }, { ...options, startedAtMs, memory }, async () => {
      if (record.archive === null) {
        const made = record.backupAtMs === null ? null : await madeSince(bench.house, stack, record.backupAtMs);
        if (made === null) save({ backupAtMs: clock.nowMs() });
        save({ archive: made ?? (await options.archiveLive(stack)) });
      }
      // Retention leaves it alone for the sake of the record, until the restore pins it.
      if (record.restore === null) save({ restore: await planned(bench, plan, record.archive ?? '', options.signal) });
      if (record.restore === null) throw new Error('a clone is restored before it is planned');
      await restoreToEnd(bench, record.restore, { ...options, id: `${id}-${target}` });
      if (operation === 'move') await retire(bench, plan, id, options.signal);
    });
    save({ endedAtMs: clock.nowMs() });
  }
  const from = `from archive ${(record.archive ?? '').slice(0, 12)}`;
  return operation === 'move'
    ? `${stack} runs as ${target} ${from}; its volumes of before are orphaned`
    : `${target} is a clone of ${stack} ${from}`;
}

/** One that was made after the work had begun is one of the live stack: a second one would be the same again. */
async function madeSince({ archives }: House, stack: string, sinceMs: number): Promise<string | null> {
  for (const one of (await archives?.store.list()) ?? [])
    if (one.kind === 'archive' && one.stack === stack && one.purpose === 'backup' && one.madeAtMs >= sinceMs)
      return one.id;
  return null;
}

async function planned(
  bench: Workbench,
  { stack, target, secrets, overrides }: ClonePlan,
  archive: string,
  signal: AbortSignal,
): Promise<RestorePlan> {
  const taken = await takenBy(bench, target);
  if (taken !== null) throw new Fault('PLAN_STALE', `there is something under the name ${target} by now: ${taken}`);
  const answer = await planRestore(bench, { ...overrides, stack, target, archive, secrets }, signal);
  if (answer.kind === 'wait') throw new Fault('PLAN_STALE', `${target} cannot be made now: ${answer.why}`);
  return answer.plan;
}

/** Only after the target is ready. What git still declares under the old name is held, so that it does not come up again beside it. */
async function retire(bench: Workbench, { stack, target }: ClonePlan, id: string, signal: AbortSignal): Promise<void> {
  const { store, clock } = bench.house;
  if (!store.applied(target) || store.attempt(target))
    throw new Fault('RESTORE_FAILED', `${target} is not ready, so ${stack} stays`);
  const declared = (await liveFleet(bench))?.fleet.stacks.get(stack)?.sourceDigest;
  const hold: Hold = {
    kind: 'held',
    reason: `it was moved to ${target}`,
    sinceMs: clock.nowMs(),
    untilMs: 0,
    service: '',
    ...(declared === undefined ? {} : { whileDeclared: declared }),
  };
  const applied = store.applied(stack);
  if (applied) {
    store.putHold(stack, hold);
    await uninstall(bench, applied, `request ${id}`, signal);
  }
  if (declared === undefined) store.deleteHold(stack, 'held', '');
  // Whatever was on record of the stack went with it.
  else store.putHold(stack, hold);
}
