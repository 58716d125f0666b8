// Recover: restores of the stacks of a group archive, providers before their consumers. All of it is planned, on what it will itself have
// deployed, before anything is touched. A stack that fails blocks only those that need it; what became of each is on record.
import { type ReadArchive, readManifest } from '../../core/archive/manifest.ts';
import { type RecoverEdge, type RecoverNode, recoverOrder } from '../../core/archive/recover-order.ts';
import { asFault, Fault } from '../../core/fault.ts';
import type { Recover } from '../../core/spec/request.ts';
import type { Hold } from '../../core/state/applied.ts';
import { canonicalJson, sha256 } from '../../engine/digest.ts';
import type { ArchiveHouse } from '../../ports/archive-house.ts';
import type { House } from '../house.ts';
import { Workbench } from '../workbench.ts';
import { ArchiveSource, commitIdOf, type MadeFile } from './archive-source.ts';
import { around } from './around.ts';
import { planRestore, type RestorePlan, readArchive, restoreDigest, toolsOf } from './plan-restore.ts';
import { type RestoreOptions, restoreRecord } from './restore.ts';
import { isPassing, restoreToEnd } from './restore-to-end.ts';
import { checkRoom } from './room.ts';
import { openVaultValues, vaultWith, vaultWrites } from './vault-values.ts';

export type RecoverRequest = Pick<Recover, 'stacks' | 'archive' | 'rename' | 'skipIntegration' | 'safety' | 'then'>;

export interface RecoverStep {
  readonly stack: string;
  readonly target: string;
  /** Targets that must have been recovered before it. */
  readonly needs: readonly string[];
  readonly restore: RestorePlan;
}

/** Plain JSON without secrets. */
export interface RecoverPlan {
  /** Of the group, or of a single stack. */
  readonly archive: string;
  readonly layers: readonly (readonly RecoverStep[])[];
  /** For people; not part of what the digest names. */
  readonly lines: readonly string[];
}

export type RecoverPlanned =
  | { readonly kind: 'plan'; readonly plan: RecoverPlan }
  /** Nothing is wrong; it can be done later. */
  | { readonly kind: 'wait'; readonly why: string };

export const recoverDigest = ({ archive, layers }: RecoverPlan): string =>
  sha256(
    canonicalJson({
      operation: 'recover',
      archive,
      layers: layers.map((layer) => layer.map((step) => ({ ...step, restore: restoreDigest(step.restore) }))),
    }),
  );

export const stepsOf = ({ layers }: RecoverPlan): readonly RecoverStep[] => layers.flat();

/** Throws ARCHIVE_* for what is not whole or not trusted, NOT_FOUND for a provider that is neither here, recovered nor left out, and the
 * Fault of whatever else stands in the way. Touches nothing. */
export async function planRecover(
  bench: Workbench,
  request: RecoverRequest,
  signal: AbortSignal,
): Promise<RecoverPlanned> {
  const { house } = bench;
  const { archives } = toolsOf(house);
  const { members, edges } = await groupOf(archives, request.archive);
  const read = new Map<string, ReadArchive>();
  for (const { stack, archive } of members)
    if (request.stacks.includes(stack)) read.set(stack, await readArchive(archives, archive));
  const order = recoverOrder({
    members,
    edges: [...read].flatMap(([stack, one]) => edgesOf(stack, one, edges)),
    stacks: request.stacks,
    ...(request.rename ? { rename: request.rename } : {}),
    ...(request.skipIntegration ? { skipIntegration: request.skipIntegration } : {}),
  });
  await checkRoom(
    bench,
    [...read].map(([stack, { manifest }]) => ({
      manifest,
      target: request.rename?.[stack] ?? stack,
      safety: request.safety !== 'none',
    })),
    signal,
  );

  const source = new ArchiveSource(house.source, house.store, archives.store);
  const beside = new Map<string, string>();
  const lent = new Map<string, MadeFile>();
  let { vault } = house;
  const layers: RecoverStep[][] = [];
  for (const layer of order) {
    const steps: RecoverStep[] = [];
    for (const node of layer) {
      const planned = await planOne(new Workbench({ ...house, source, vault }), node, request, beside, signal);
      if (planned.kind === 'wait') return { kind: 'wait', why: `${node.target}: ${planned.why}` };
      const plan = ownFiles(planned.plan, lent);
      steps.push({ stack: node.stack, target: node.target, needs: node.needs, restore: plan });
      for (const file of plan.made.files) if (file.blob || file.text !== undefined) lent.set(file.oid, file);
      beside.set(node.target, source.offer(plan.made, null));
      const manifest = read.get(node.stack)?.manifest;
      if (manifest && vault) {
        const values = await openVaultValues(house, manifest, signal);
        const behind = vault;
        const content = { values, stack: node.stack, target: node.target, group: manifest.group };
        const { writes } = await vaultWrites(content, (key, scope) => behind.find(key, [scope]));
        vault = vaultWith(behind, writes, house.clock);
      }
    }
    layers.push(steps);
  }
  const steps = layers.flat();
  const lines = [
    `recover ${steps.length} ${steps.length === 1 ? 'stack' : 'stacks'} from ${request.archive.slice(0, 12)}: ${layers.map((layer) => layer.map((one) => one.target).join(', ')).join('; then ')}`,
    ...steps.flatMap(({ target, restore: { lines: said } }) => said.map((line) => `${target}: ${line}`)),
  ];
  return { kind: 'plan', plan: { archive: request.archive, layers, lines } };
}

/** The group's own manifest, or that of one stack as a group of one. Throws ARCHIVE_UNTRUSTED for a signature that does not count here. */
export async function groupOf(archives: ArchiveHouse, id: string) {
  const { bytes, signature } = await archives.store.manifest(id);
  archives.check(bytes, signature);
  const read = readManifest(bytes);
  return read.kind === 'group'
    ? { members: read.manifest.members, edges: read.manifest.edges as readonly RecoverEdge[] }
    : { members: [{ stack: read.manifest.stack, archive: id }], edges: [] };
}

/** What the stack was rendered with; of an older archive, what the group says. */
function edgesOf(consumer: string, { manifest, derived }: ReadArchive, group: readonly RecoverEdge[]): RecoverEdge[] {
  if (derived.includes('integrate')) return group.filter((edge) => edge.consumer === consumer);
  return Object.entries(manifest.integrate).map(([plug, { provider }]) => ({ consumer, plug, provider }));
}

const planOne = (
  bench: Workbench,
  node: RecoverNode,
  { skipIntegration, safety, then }: RecoverRequest,
  beside: ReadonlyMap<string, string>,
  signal: AbortSignal,
) => {
  const request = {
    stack: node.stack,
    target: node.target,
    archive: node.archive,
    integrate: node.integrate,
    ...(skipIntegration ? { skipIntegration } : {}),
    ...(safety ? { safety } : {}),
    ...(then ? { then } : {}),
  };
  return planRestore(bench, request, signal, beside);
};

/** Files that a provider lends are held by whoever uses them, so that the provider may go on to another revision. */
function ownFiles(plan: RestorePlan, lent: ReadonlyMap<string, MadeFile>): RestorePlan {
  const files = plan.made.files.map((file) => {
    const found = file.blob || file.text !== undefined ? undefined : lent.get(file.oid);
    if (!found) return file;
    const { blob, text } = found;
    return { ...file, ...(blob ? { blob } : {}), ...(text === undefined ? {} : { text }) };
  });
  const made = { ...plan.made, files };
  return { ...plan, made, commit: commitIdOf(made) };
}

export interface RecoverOutcome {
  readonly state: 'waits' | 'done' | 'failed' | 'blocked';
  readonly message: string;
  readonly phases: readonly string[];
}

/** On disk as `recover/<id>`. */
export interface RecoverRecord {
  readonly id: string;
  readonly archive: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly holdsBefore: Readonly<Record<string, Hold | null>>;
  /** By target. */
  readonly outcomes: Readonly<Record<string, RecoverOutcome>>;
}

const restoreIdOf = (id: string, target: string): string => `${id}-${target}`;
const recordKey = (id: string): string => `recover/${id}`;

export const recoverRecord = (house: Pick<House, 'store'>, id: string): RecoverRecord | null =>
  (house.store.value(recordKey(id)) as RecoverRecord | undefined) ?? null;

/**
 * With the leases of all targets held. A second call with the same `id` finishes what the first left. What was done, in words. Throws
 * RESTORE_FAILED with what became of each when one of them failed; CANCELLED, ENGINE_UNREACHABLE or LOCK_HELD when it is to be gone on with.
 */
export async function recover(
  bench: Workbench,
  plan: RecoverPlan,
  options: RestoreOptions & { readonly id: string },
): Promise<string> {
  const { store, clock, redact } = bench.house;
  const { id, signal } = options;
  const steps = stepsOf(plan);
  let record = recoverRecord(bench.house, id) ?? begin(bench.house, id, plan);
  const save = (change: Partial<RecoverRecord>): void => {
    record = { ...record, ...change };
    store.putValue(recordKey(id), record);
  };
  const outcomeOf = (target: string): RecoverOutcome =>
    record.outcomes[target] ?? { state: 'waits', message: '', phases: [] };
  const say = (target: string, change: Partial<RecoverOutcome>): void => {
    save({ outcomes: { ...record.outcomes, [target]: { ...outcomeOf(target), ...change } } });
    if (change.state !== undefined)
      options.note?.(`${target}: ${change.state}${change.message ? `: ${change.message}` : ''}`);
  };

  if (record.endedAtMs === 0) {
    for (const { target } of steps) putHold(bench.house, id, target);
    for (const step of steps) {
      const { target } = step;
      if (outcomeOf(target).state !== 'waits') continue;
      signal.throwIfAborted();
      const lost = step.needs.find((name) => outcomeOf(name).state !== 'done');
      if (lost !== undefined) {
        say(target, { state: 'blocked', message: `it needs ${lost}, which was not recovered; nothing was changed` });
        continue;
      }
      const memory = {
        has: (phase: string) => outcomeOf(target).phases.includes(phase),
        add: (phase: string) => say(target, { phases: [...outcomeOf(target).phases, phase] }),
      };
      try {
        await around(
          bench,
          'recover',
          { from: target, to: target },
          { ...options, startedAtMs: record.startedAtMs, memory },
          () =>
            restoreToEnd(bench, step.restore, {
              ...options,
              id: restoreIdOf(id, target),
              note: (line) => options.note?.(`${target}: ${line}`),
            }),
        );
        say(target, { state: 'done', message: `is what archive ${step.restore.archive.slice(0, 12)} holds` });
      } catch (error) {
        const fault = asFault(error, 'RESTORE_FAILED');
        // Somebody else has the stack: nothing was begun, and its turn comes.
        if (signal.aborted || isPassing(fault.code) || fault.code === 'LOCK_HELD') throw fault;
        say(target, { state: 'failed', message: redact(fault.message) });
      }
    }
    for (const { target } of steps) takeHold(bench.house, record, target);
    save({ endedAtMs: clock.nowMs() });
  }
  const told = steps
    .map(({ target }) => `${target}: ${outcomeOf(target).state}${inBrackets(outcomeOf(target).message)}`)
    .join('; ');
  if (steps.every(({ target }) => outcomeOf(target).state === 'done')) return told;
  throw new Fault('RESTORE_FAILED', `not every stack was recovered: ${told}`, {
    data: { recover: id, done: steps.map((one) => one.target).filter((name) => outcomeOf(name).state === 'done') },
  });
}

const inBrackets = (message: string): string => (message === '' ? '' : ` (${message})`);

function begin(house: House, id: string, plan: RecoverPlan): RecoverRecord {
  const { store, clock } = house;
  const steps = stepsOf(plan);
  for (const { target, restore: one } of steps)
    if ((store.applied(target)?.desired.digest ?? null) !== one.live)
      throw new Fault('PLAN_STALE', `the stack ${target} was changed since the plan was made`);
  const record: RecoverRecord = {
    id,
    archive: plan.archive,
    startedAtMs: clock.nowMs(),
    endedAtMs: 0,
    holdsBefore: Object.fromEntries(steps.map(({ target }) => [target, heldAs(house, target)])),
    outcomes: {},
  };
  store.putValue(recordKey(id), record);
  return record;
}

const heldAs = ({ store }: House, target: string): Hold | null =>
  store.holds(target).find((one) => one.kind === 'held' && one.service === '') ?? null;

const reasonOf = (id: string): string => `the recover ${id} is under way`;

/** Nobody else deploys one of them meanwhile: its turn comes. A restore that was begun has put its own, or put this one back. */
function putHold(house: House, id: string, target: string): void {
  if (restoreRecord(house, restoreIdOf(id, target)) !== null) return;
  const { store, clock } = house;
  store.putHold(target, { kind: 'held', reason: reasonOf(id), sinceMs: clock.nowMs(), untilMs: 0, service: '' });
}

/** What a restore put in its place stays. */
function takeHold(house: House, { id, holdsBefore }: RecoverRecord, target: string): void {
  if (heldAs(house, target)?.reason !== reasonOf(id)) return;
  const before = holdsBefore[target];
  if (before) house.store.putHold(target, before);
  else house.store.deleteHold(target, 'held', '');
}
