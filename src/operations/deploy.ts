// Deploy: the one verb. Makes what runs equal to what is desired, for one stack or many, and never touches data.

import { createHash } from 'node:crypto';
import { asFault, Fault } from '../core/fault.ts';
import { formatChange } from '../core/plan/format.ts';
import type { Applied } from '../core/state/applied.ts';
import type { RunRecord } from '../core/status/event.ts';
import { planDigest } from '../engine/digest.ts';
import { CancelledError } from '../engine/fan-out.ts';
import { JournalError } from '../engine/journal.ts';
import { multiplex, type Observer } from '../engine/observer.ts';
import { DeclinedError, execWithConfirm } from '../engine/pipeline.ts';
import { Plan, type PlanData } from '../engine/plan.ts';
import { type DeployRun, type DeployTarget, supersededFault } from './deploy-run.ts';
import { isOnRecord, noteInstalling } from './gone.ts';
import { actionsOf, dueOf, operationOf } from './hooks-of.ts';
import { holdLeases } from './leases.ts';
import { successionsOf } from './ports-claimed.ts';
import { putFilesBack } from './put-back.ts';
import { appliedOf } from './steps/record.ts';
import { deploySteps } from './steps/registry.ts';
import type { Judged } from './survey.ts';
import { uninstall } from './uninstall.ts';
import { putEnd } from './unwritten-ends.ts';
import type { Workbench } from './workbench.ts';

export interface DeployPlan {
  readonly data: PlanData<DeployTarget>;
  /** Of desired, observed and steps: what a saved plan is refused by when it moved. */
  readonly digest: string;
}

export const DEPLOY_STEPS = [
  'finish-hooks',
  'mint-secrets',
  'pull-images',
  'materialize',
  'build-images',
  'pre-hooks',
  'converge',
  'settle',
  'post-hooks',
  'record',
] as const;

/** Pure: targets = stacks, phases = layers of the integration graph that hold any of them. */
export function planDeploy(
  judged: readonly Judged[],
  layers: readonly (readonly string[])[],
  concurrency: number,
): DeployPlan {
  const byName = new Map(judged.map((one) => [one.name, one]));
  const phases = layers
    .map((layer) => layer.filter((name) => byName.has(name)))
    .filter((layer) => layer.length > 0)
    .map((layer, index) => ({
      name: `layer ${index + 1}`,
      steps: [...DEPLOY_STEPS],
      concurrency,
      targets: layer.map((name) => {
        const one = byName.get(name)!;
        return {
          id: name,
          payload: {
            stack: name,
            revision: one.at.revision.commit,
            desired: one.resolved.planDigest,
            observed: one.diff.observedDigest,
            ...hooksDigest(one),
          },
        };
      }),
    }));
  const data: PlanData<DeployTarget> = { operation: 'deploy', phases };
  const payloads = phases.flatMap((phase) => phase.targets.map((target) => target.payload));
  return {
    data,
    digest: planDigest({
      plan: data,
      desired: payloads.map((payload) => payload.desired),
      observed: payloads.map((payload) => payload.observed),
    }),
  };
}

/** Hooks are no part of what is desired, but of what a plan does. */
function hooksDigest(judged: Judged): { hooks?: string } {
  const { before, after } = dueOf(judged, judged.attempt);
  const hooks = [...before, ...after].map((phase) => [phase, actionsOf(judged.stack, judged.at, phase).actions]);
  if (hooks.every(([, actions]) => actions?.length === 0)) return {};
  return { hooks: createHash('sha256').update(JSON.stringify(hooks)).digest('hex') };
}

export interface DeployOptions {
  readonly bench: Workbench;
  readonly judged: readonly Judged[];
  readonly layers: readonly (readonly string[])[];
  /** Who asked: `cli`, `push`, `drift`, `schedule`, … for the history. */
  readonly trigger: string;
  /** What the history calls it; its hooks are those of the attempt on record. Default: what the diff says. */
  readonly operation?: 'restore';
  readonly signal?: AbortSignal;
  /** Drains: running cells finish, nothing new starts. */
  readonly stop?: AbortSignal;
  readonly progress?: Observer;
  readonly confirm?: () => Promise<boolean> | boolean;
  readonly preview?: (text: string) => void;
  readonly dryRun?: boolean;
  readonly worker?: DeployRun['worker'];
  readonly superseded?: DeployRun['superseded'];
  readonly cut?: DeployRun['cut'];
  /** What leaves the fleet with this deploy: whoever of them has a port that a stack takes over is uninstalled right before that comes. */
  readonly leaving?: readonly Applied[];
}

export interface DeployOutcome {
  readonly digest: string;
  readonly runs: readonly RunRecord[];
  /** Stack → what went wrong. */
  readonly failures: ReadonlyMap<string, Fault>;
  /** After a stop, or a failure in an earlier layer. */
  readonly notBegun: readonly string[];
  /** Uninstalls of `leaving` that made room. */
  readonly removed: readonly RunRecord[];
}

/** Runs the deploy of `judged`. Throws DeclinedError, Fault LOCK_HELD; what fails or is cancelled per stack is in the outcome. */
export async function deploy(options: DeployOptions): Promise<DeployOutcome> {
  const { bench, judged } = options;
  const { house } = bench;
  const { store, clock } = house;
  const plan = planDeploy(judged, options.layers, house.settings.concurrency);
  const removed: RunRecord[] = [];
  const removing = new Map<string, Promise<void>>();
  const id = clock.id();
  const run: DeployRun = {
    id,
    house,
    bench,
    judged: new Map(judged.map((one) => [one.name, one])),
    worker: options.worker ?? null,
    ...(options.superseded ? { superseded: options.superseded } : {}),
    ...(options.cut ? { cut: options.cut } : {}),
    async makeRoom(one, ctx) {
      // Several may take over from the same one: it goes once.
      for (const { leaver, what } of successionsOf([one], one.index, options.leaving ?? [])) {
        let going = removing.get(leaver.stack);
        if (!going && isOnRecord(store, leaver.stack)) {
          ctx.note(`uninstall ${leaver.stack}, which left the fleet and has the ${what}`);
          going = uninstall(bench, leaver, options.trigger, ctx.signal).then((record) => void removed.push(record));
          removing.set(leaver.stack, going);
        }
        await going;
      }
    },
    hookEnded(stack, hook) {
      const record = store.runs({ stack, limit: 1 })[0] ?? runs.get(stack);
      if (!record) return;
      const after = { ...record, hooks: [...(record.hooks ?? []), hook] };
      runs.set(stack, after);
      store.putRun(after);
    },
  };
  const failures = new Map<string, Fault>();
  const runs = new Map<string, RunRecord>();
  const finish = (stack: string, outcome: RunRecord['outcome'], message: string): void => {
    const before = runs.get(stack);
    if (before?.endedAtMs !== 0) return;
    const digest = run.judged.get(stack)?.resolved.desired.digest ?? before.digest;
    const after = { ...before, digest, endedAtMs: clock.nowMs(), outcome, message };
    runs.set(stack, after);
    putEnd(store, after);
  };
  const ended = new Set<string>();
  let isCut = false;
  const watch: Observer = {
    onTargetEnd(_phase, stack, _slot, error) {
      ended.add(stack);
      if (!error) return finish(stack, 'succeeded', '');
      const failed = faultOf(error);
      const { data } = failed;
      const superseded = data['outcome'] === 'superseded';
      const cancelled =
        superseded || options.signal?.aborted || options.stop?.aborted || error instanceof CancelledError;
      const fault = cancelled
        ? superseded
          ? supersededFault(typeof data['why'] === 'string' ? data['why'] : undefined)
          : new Fault('CANCELLED', 'stopped before it was done', { cause: error })
        : failed;
      failures.set(stack, fault);
      const attempt = store.attempt(stack);
      const message = house.redact(fault.message);
      // A full disk may take one of them, or neither.
      try {
        if (attempt && !cancelled) store.putAttempt({ ...attempt, lastFault: { code: fault.code, message } });
      } finally {
        finish(stack, superseded ? 'superseded' : cancelled ? 'cancelled' : 'failed', message);
      }
    },
  };
  const leases = options.dryRun
    ? null
    : holdLeases(
        house,
        judged.map((one) => one.name),
        undefined,
        // Only a restore deploys inside of its own lease.
        { first: options.operation !== 'restore' },
      );
  try {
    await execWithConfirm(Plan.fromData(plan.data, { steps: deploySteps(run) }), {
      planId: id,
      dryRun: options.dryRun ?? false,
      ...(options.signal ? { signal: options.signal } : {}),
      ...(options.stop ? { stop: options.stop } : {}),
      ...(options.confirm ? { confirm: options.confirm } : {}),
      ...(options.preview ? { out: { write: options.preview } } : {}),
      progress: multiplex(watch, options.progress),
      journal: {
        record: (entry) => {
          // The attempt and the run are on disk before the first cell of a stack changes anything.
          const one = run.judged.get(entry.target);
          if (one && !runs.has(entry.target)) runs.set(entry.target, begin(run, one, options));
          store.journal({
            run: id,
            phase: entry.phase,
            target: entry.target,
            step: entry.step,
            event: entry.event,
            outcome: entry.outcome,
            atMs: entry.at,
          });
        },
      },
    });
  } catch (error) {
    // What failed per stack is told per stack; only what concerns the run as a whole goes up.
    isCut = error instanceof CancelledError && !options.dryRun;
    if (error instanceof DeclinedError || (failures.size === 0 && !isCut)) throw error;
  } finally {
    try {
      // A restore goes back by itself, to other folders.
      const isOver = options.dryRun || options.operation === 'restore';
      if (!isOver) for (const stack of failures.keys()) await putFilesBack(run, stack);
    } finally {
      leases?.release();
    }
  }
  const notBegun = options.dryRun ? [] : judged.map((one) => one.name).filter((name) => !ended.has(name));
  if (isCut) for (const name of notBegun) failures.set(name, new Fault('CANCELLED', 'stopped before it was begun'));
  return { digest: plan.digest, runs: [...runs.values()], failures, notBegun, removed };
}

/** A journal that takes nothing, as on a full disk, is no engine that refuses: who mends it is told to look at the disk. */
function faultOf(error: unknown): Fault {
  if (!(error instanceof JournalError && error.cause instanceof Fault)) return asFault(error, 'ENGINE_REFUSED');
  const { code, data } = error.cause;
  return new Fault(code, error.message, { data, cause: error });
}

/**
 * As `deploy`, but only what builds on a stack that failed is left out: a layer that fails ends its plan, and those of later layers that do not
 * need it go on in one of their own.
 */
export async function deployWhatCan(options: DeployOptions): Promise<DeployOutcome> {
  let whole = await deploy(options);
  for (;;) {
    const able = whole.failures.size === 0 ? [] : notBlocked(options.judged, whole);
    if (able.length === 0 || options.stop?.aborted || options.signal?.aborted) return whole;
    const names = new Set(able.map((one) => one.name));
    let next: DeployOutcome;
    try {
      next = await deploy({ ...options, judged: able });
    } catch (error) {
      // What was done already is told all the same.
      const fault = faultOf(error);
      return { ...whole, failures: new Map([...whole.failures, ...able.map((one) => [one.name, fault] as const)]) };
    }
    whole = {
      digest: whole.digest,
      runs: [...whole.runs, ...next.runs],
      failures: new Map([...whole.failures, ...next.failures]),
      notBegun: [...whole.notBegun.filter((name) => !names.has(name)), ...next.notBegun],
      removed: [...whole.removed, ...next.removed],
    };
  }
}

/** Of what was not begun, what needs nothing that failed, and nothing that waits for that. */
function notBlocked(judged: readonly Judged[], { failures, notBegun }: DeployOutcome): readonly Judged[] {
  const blocked = new Set(failures.keys());
  const waiting = judged.filter((one) => notBegun.includes(one.name) && !blocked.has(one.name));
  // Each round adds at least one, so this many are enough.
  for (const _round of waiting)
    for (const one of waiting)
      if (Object.values(one.stack.integrate).some((name) => blocked.has(name))) blocked.add(one.name);
  return waiting.filter((one) => !blocked.has(one.name));
}

/** Intent is on disk before the first mutation. */
function begin(run: DeployRun, one: Judged, options: Pick<DeployOptions, 'trigger' | 'operation'>): RunRecord {
  const { store, clock } = run.house;
  const digest = one.resolved.desired.digest;
  const before = store.attempt(one.name);
  const same = before?.digest === digest;
  const operation = operationOf(one, before);
  if (one.applied === null) noteInstalling(store, appliedOf(run, one, {}));
  store.putAttempt({
    stack: one.name,
    digest,
    revision: one.at.revision.commit,
    count: same ? before.count + 1 : 1,
    startedAtMs: same ? before.startedAtMs : clock.nowMs(),
    operation,
    completedPhases: same ? before.completedPhases : [],
    converged: false,
    ...(before?.touched ? { touched: true } : {}),
    lastFault: null,
  });
  const record: RunRecord = {
    id: `${run.id.slice(0, 12)}-${one.name}`,
    stack: one.name,
    operation:
      options.operation ?? (operation === 'rollback' ? 'rollback' : one.diff.situation === 'drift' ? 'heal' : 'deploy'),
    trigger: options.trigger,
    revision: one.at.revision.commit,
    digest,
    startedAtMs: clock.nowMs(),
    endedAtMs: 0,
    outcome: 'running',
    message: '',
    changes: one.diff.changes.map((change) => run.house.redact(formatChange(change))),
  };
  store.putRun(record);
  return record;
}
