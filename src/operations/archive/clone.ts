// Clone and move: a stack under another name. A clone is a restore beside the original, from the archive that the request names or from one
// that is made first. A move is a clone with its secrets, during which the source is stopped; once the target is ready the source is taken
// away, and its volumes stay. Until then whatever fails starts it again.
import { projectContainers } from '../../core/diff/diff.ts';
import { asFault, Fault } from '../../core/fault.ts';
import { operationPhases } from '../../core/hook/situation.ts';
import type { LoadedStack } from '../../core/spec/loaded.ts';
import type { Clone } from '../../core/spec/request.ts';
import type { Applied, Hold } from '../../core/state/applied.ts';
import { canonicalJson, sha256 } from '../../engine/digest.ts';
import { movedHold, movingHold } from '../by-request.ts';
import { deployedSubject } from '../hook-subject.ts';
import type { House } from '../house.ts';
import { type HeldLeases, holdLeases } from '../leases.ts';
import { withHooks } from '../steps/run-hook.ts';
import { uninstall } from '../uninstall.ts';
import type { Workbench } from '../workbench.ts';
import { madeCommit } from './archive-source.ts';
import { around } from './around.ts';
import { allStopped } from './backup.ts';
import { refuseBarePorts } from './made-stack.ts';
import {
  liveFleet,
  planRestore,
  type RestorePlan,
  type RestoreRequest,
  restoreDigest,
  toolsOf,
} from './plan-restore.ts';
import { leaveAtRest, movedBy, rest, wake } from './quiesce.ts';
import { type RestoreOptions, unfinishedRestores } from './restore.ts';
import { isPassing, restoreToEnd } from './restore-to-end.ts';

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
  const { stack, target, archive = null, vars, integrate, skipIntegration } = request;
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
  // Those that the source was given in the place of what its files publish stand in no archive of it.
  const given = operation === 'move' && applied ? madeCommit(store, applied.revision)?.ports : undefined;
  const ports = given || request.ports ? { ...given, ...request.ports } : undefined;
  const overrides = {
    ...(vars ? { vars } : {}),
    ...(ports ? { ports } : {}),
    ...(integrate ? { integrate } : {}),
    ...(skipIntegration ? { skipIntegration } : {}),
  };
  const secrets = operation === 'move' ? 'copy' : (request.secrets ?? 'mint');
  let planned: RestorePlan | null = null;
  if (archive !== null) {
    // A move stops its source before the target comes, on its ports, and starts it again only after that is taken away.
    const stopped = operation === 'move' && applied ? [applied] : [];
    const asked = { ...overrides, stack, target, archive, secrets };
    const answer = await planRestore(bench, asked, signal, undefined, stopped);
    if (answer.kind === 'wait') return answer;
    planned = answer.plan;
  } else {
    // An archive of what runs would only be found unfit after it was made.
    refuseBarePorts(
      ports,
      (service) => applied?.desired.services.find(({ name }) => name === service)?.ports.length === 1,
    );
    const running = operation === 'move' ? null : applied;
    const port = running?.desired.services
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
  const declared = operation === 'move' ? (await liveFleet(bench))?.fleet.stacks.get(stack) : undefined;
  return { kind: 'plan', plan: { ...plan, lines: words(plan, declared) } };
}

/** `declared`: the source of a move, where git declares it. */
function words(
  { operation, stack, target, archive, secrets, restore: planned }: ClonePlan,
  declared: LoadedStack | undefined,
): readonly string[] {
  return [
    `${operation} ${stack} to ${target}`,
    ...(operation === 'move'
      ? [
          archive === null
            ? `${stack} is stopped, archived as it is then with all of its volumes, and stays stopped; ${target} is made from that archive`
            : `${stack} is stopped, and ${target} is made from that archive: what was written to ${stack} since it was made is in the volumes of ${stack} only`,
          `if ${target} does not become ready, ${stack} is started again as it is`,
        ]
      : archive === null
        ? [`${stack} is backed up first, and ${target} is made from that archive; ${stack} itself runs on`]
        : []),
    secrets === 'copy'
      ? `the secrets of ${stack} are taken along`
      : `the secrets of ${stack} are not taken along: what can be minted is minted anew, and what is made again from a dump is made with the new ones; data that is copied as it is keeps an old one that it holds, such as the password of a database's own user`,
    ...(planned?.lines ?? []),
    ...(operation === 'move'
      ? [
          `once ${target} is ready, ${stack} is uninstalled and held; its volumes stay and are listed as orphaned`,
          ...(declared === undefined
            ? []
            : [
                `git declares ${stack} on: ${removalOf(declared)} then, for any change of it there brings ${stack} up again on those volumes, beside ${target}`,
              ]),
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
  /** Of a move: who held the source before. */
  readonly holdBefore?: Hold | null;
  /** Of a move: the target is ready, and the source never runs again. */
  readonly switchedAtMs?: number;
  /** Of a move: why it is not made, so that the source runs again. */
  readonly failed?: { readonly code: string; readonly message: string };
  /** Of a move, for people. */
  readonly source?: { readonly stack: string; readonly state: string };
}

export interface CloneOptions extends RestoreOptions {
  readonly id: string;
  /** Backs the live stack up as people do, with its hooks; gives the id of the archive. For a move it stays stopped. */
  readonly archiveLive: (stack: string, move?: string) => Promise<string>;
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
    const archived = async (move?: string): Promise<void> => {
      if (record.archive !== null) return;
      // One of a move counts while what it holds is still all there is.
      const mayCount = record.backupAtMs !== null && (move === undefined || movedBy(bench, stack) === move);
      const made = mayCount ? await madeSince(bench.house, stack, record.backupAtMs ?? 0) : null;
      if (made === null) save({ backupAtMs: clock.nowMs() });
      save({ archive: made ?? (await options.archiveLive(stack, move)) });
    };
    const restored = async (): Promise<void> => {
      // Retention leaves it alone for the sake of the record, until the restore pins it.
      if (record.restore === null) save({ restore: await planned(bench, plan, record.archive ?? '', options.signal) });
      if (record.restore === null) throw new Error('a clone is restored before it is planned');
      await restoreToEnd(bench, record.restore, { ...options, id: `${id}-${target}` });
    };
    await around(bench, operation, { from: stack, to: target }, { ...options, startedAtMs, memory }, async () => {
      if (operation === 'move')
        await moved(bench, plan, { ...options, record: () => record, save, archived, restored });
      else {
        await archived();
        await restored();
      }
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

interface Moving extends CloneOptions {
  readonly record: () => CloneRecord;
  readonly save: (change: Partial<CloneRecord>) => void;
  readonly archived: (move: string) => Promise<void>;
  readonly restored: () => Promise<void>;
}

const heldNow = ({ store }: House, stack: string): Hold | null =>
  store.holds(stack).find((one) => one.kind === 'held' && one.service === '') ?? null;

async function moved(bench: Workbench, plan: ClonePlan, moving: Moving): Promise<void> {
  const { house } = bench;
  const { store, clock } = house;
  const { id, signal, record, save } = moving;
  const { stack, target } = plan;
  if (record().switchedAtMs === undefined) {
    if (record().holdBefore === undefined) save({ holdBefore: heldNow(house, stack) });
    // Nobody starts it meanwhile, neither for git nor because it does not run.
    if (record().failed === undefined) store.putHold(stack, movingHold(target, id, clock.nowMs()));
    let leases: HeldLeases | null = null;
    const lease = () => holdLeases(house, [stack], undefined, { first: true });
    try {
      const { failed } = record();
      if (failed === undefined) {
        if (plan.archive === null && record().backupAtMs !== null && (await hasComeUp(bench, plan)))
          save({ archive: null, backupAtMs: null, restore: null });
        await moving.archived(id);
      }
      leases = lease();
      if (failed !== undefined) throw new Fault(failed.code as Fault['code'], failed.message);
      await stopped(bench, stack, id, signal);
      save({ source: { stack, state: `stopped until ${target} is ready` } });
      await moving.restored();
      if (!store.applied(target) || store.attempt(target))
        throw new Fault('RESTORE_FAILED', `${target} is not ready, so ${stack} stays`);
      save({ switchedAtMs: clock.nowMs() });
    } catch (error) {
      const fault = asFault(error, 'RESTORE_FAILED');
      // It is gone on with: until then what is archived is all there is.
      if (signal.aborted || isPassing(fault.code) || fault.code === 'LOCK_HELD') throw fault;
      save({ failed: { code: fault.code, message: house.redact(fault.message) } });
      await runAgain(bench, plan, moving);
      throw fault;
    } finally {
      leases?.release();
    }
  }
  await retire(bench, plan, moving);
}

/** A restart of the engine, or of the machine, starts also what was stopped, where its restart policy says so: it may have written since it was
 * archived. Once the target runs, or is about to, it is too late to take that along. */
async function hasComeUp(bench: Workbench, { stack, target }: ClonePlan): Promise<boolean> {
  const { store } = bench.house;
  const applied = store.applied(stack);
  if (!applied || store.applied(target)) return false;
  if (unfinishedRestores(bench.house).some((one) => one.plan.target === target)) return false;
  const names = new Set(applied.desired.services.map(({ name }) => name));
  return projectContainers(await bench.look.fresh('known'), applied.project).some(
    (one) => names.has(one.service) && !one.oneOff && (one.state === 'running' || one.state === 'restarting'),
  );
}

/** All of it, also what was started by others since. */
async function stopped(bench: Workbench, stack: string, move: string, signal: AbortSignal): Promise<void> {
  const applied = bench.house.store.applied(stack);
  if (!applied) throw new Fault('PLAN_STALE', `the stack ${stack} is not deployed any more`);
  await rest(bench, stack, applied.project, allStopped(applied.desired), signal, move);
}

/** The source as it was. What cannot be started now is woken by whoever looks after what rests. */
async function runAgain(bench: Workbench, { stack, archive }: ClonePlan, moving: Moving): Promise<void> {
  const { house } = bench;
  const { id, record, save, note = () => {} } = moving;
  const { signal } = new AbortController();
  let state = 'runs again as it did before';
  try {
    await wake(bench, stack, signal, id);
  } catch (error) {
    state = `rests yet: it could not be started again: ${house.redact(asFault(error, 'ENGINE_REFUSED').message)}`;
    note(`${stack} ${state}`);
  }
  const applied = house.store.applied(stack);
  // Of the backup that was made for it: what comes after one belongs to what runs.
  if (applied && archive === null && record().archive !== null)
    try {
      const { before } = operationPhases('backup');
      const completed = { has: (phase: string) => before.some((one) => one === phase), add() {} };
      const subject = { ...(await deployedSubject(bench, applied, signal)), runs: 'this' as const };
      const attempt = record().startedAtMs;
      await withHooks(bench, subject, 'backup', { signal, note, attempt, completed }, async () => {});
    } catch (error) {
      note(`the hooks after the backup of ${stack}: ${house.redact(asFault(error, 'HOOK_FAILED').message)}`);
    }
  const { holdBefore } = record();
  if (holdBefore) house.store.putHold(stack, holdBefore);
  else house.store.deleteHold(stack, 'held', '');
  save({ source: { stack, state } });
}

/** Only after the target is ready. What git still declares under the old name is held, so that it does not come up again beside it. */
async function retire(bench: Workbench, { stack, target }: ClonePlan, { id, signal, save }: Moving): Promise<void> {
  const { store, clock } = bench.house;
  leaveAtRest(bench, stack);
  const fleet = (await liveFleet(bench))?.fleet;
  const declared = fleet?.stacks.get(stack);
  // As soon as that can be read again it would come up.
  const isUnread = fleet?.broken.has(stack) || fleet?.diagnostics.some(({ severity }) => severity === 'error');
  const cure = declared
    ? `${removalOf(declared)}, or resume ${stack} to have it beside ${target}, on its old volumes; any change of it in git brings it up so too`
    : isUnread
      ? `take its declaration, which cannot be read now, out of git, or resume ${stack} to have it beside ${target}, on its old volumes`
      : '';
  const hold: Hold = {
    ...movedHold(target, cure, clock.nowMs()),
    ...(declared ? { whileDeclared: declared.sourceDigest } : {}),
  };
  const applied = store.applied(stack);
  if (applied) {
    store.putHold(stack, hold);
    await takenAway(bench, applied, `request ${id}`, signal);
  }
  if (cure === '') store.deleteHold(stack, 'held', '');
  // Whatever was on record of the stack went with it.
  else store.putHold(stack, hold);
  const state = `taken away; its volumes are orphaned${cure === '' ? '' : `, and git still declares it: ${cure}`}`;
  save({ source: { stack, state } });
}

/** A project needs no document of its own to be found. */
const removalOf = ({ layout, place }: LoadedStack): string =>
  layout.kind === 'compose' && layout.directory !== ''
    ? `\`git rm -r ${layout.directory}\``
    : `\`git rm ${place.file}\``;

/** It does not run any more: hooks that need it are not a reason to keep it. */
async function takenAway(bench: Workbench, applied: Applied, trigger: string, signal: AbortSignal): Promise<void> {
  try {
    await uninstall(bench, applied, trigger, signal);
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== 'HOOK_FAILED' || signal.aborted) throw error;
    const { hooks: _hooks, ...bare } = applied;
    await uninstall(bench, bare, trigger, signal);
  }
}
