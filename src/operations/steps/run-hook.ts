// Run hook: the only door from operations to hook sequences. As a step it runs the phases that are due before and after a converge; for
// other operations one phase; and it takes up, before anything else touches a stack, what a dead controller left.

import { asFault, Fault } from '../../core/fault.ts';
import { describe, flattened } from '../../core/hook/action.ts';
import { type HookPhase, isPre } from '../../core/hook/phase.ts';
import type { HookRun, HookState } from '../../core/hook/run-state.ts';
import { describeChanged, runKey } from '../../core/hook/run-state.ts';
import { type OtherOperation, operationPhases } from '../../core/hook/situation.ts';
import type { SecretRef } from '../../core/render/context.ts';
import { findTokens, replaceTokens } from '../../core/render/token.ts';
import type { LoadedStack } from '../../core/spec/loaded.ts';
import type { Attempt } from '../../core/state/applied.ts';
import type { Model } from '../../core/state/desired.ts';
import type { HookRecord } from '../../core/status/event.ts';
import type { Step } from '../../engine/step.ts';
import { storeJournal } from '../../hooks/journal.ts';
import { hookPortsOn, sweepJobs } from '../../hooks/on-runtime.ts';
import { type HookDeps, type HookResult, resultOf, resumeHooks, startHook, type Verdict } from '../../hooks/run.ts';
import type { KeptLog } from '../../ports/hooks.ts';
import type { Store } from '../../ports/store.ts';
import { cluster } from '../../refs/cluster.ts';
import { dns } from '../../refs/dns.ts';
import { hook } from '../../refs/hook.ts';
import { node } from '../../refs/node.ts';
import { createRefs } from '../../refs/registry.ts';
import { stack as stackRefs } from '../../refs/stack.ts';
import { stacksAtRest, wake } from '../archive/quiesce.ts';
import { type DeployRun, type DeployTarget, judgedOf, setJudged } from '../deploy-run.ts';
import type { FleetAt } from '../fleet-at.ts';
import { everDeployed } from '../gone.ts';
import { isOneShot } from '../hook-check.ts';
import { type HookSubject, modelAt, stackAt } from '../hook-subject.ts';
import { actionsOf, dueOf } from '../hooks-of.ts';
import { isHeld } from '../leases.ts';
import { acceptedKey } from '../lineage.ts';
import { homeOf, InvalidStack, type Resolved, treeDirOf } from '../resolve.ts';
import { openSecrets } from '../secrets.ts';
import { holdOf } from '../survey.ts';
import type { Workbench } from '../workbench.ts';

export interface PhaseOptions {
  readonly signal: AbortSignal;
  /** Aborted when a newer revision takes the place of this one: a pre phase then ends after its current action. */
  readonly superseded?: AbortSignal;
  /** A person wants nothing to be done to the stack any more: a pre phase then ends as well. Asked after each action. */
  readonly isSuspended?: () => boolean;
  readonly note?: (line: string) => void;
}

/** Phases that an earlier try of the same operation has behind it. */
export interface CompletedPhases {
  has(phase: string): boolean;
  add(phase: string): void;
}

/** As a step: `before` stands before converge, `after` behind settle. A phase that is done is on record before the next one begins. */
export function runHooks(run: DeployRun, when: 'before' | 'after'): Step<DeployTarget> {
  const { store } = run.house;
  const dueNow = async (ctx: Parameters<typeof judgedOf>[1], name: string) => {
    // What was observed does not matter here; what is on record does.
    const judged = await judgedOf(run, { cache: ctx.cache, fresh: false }, name);
    return { judged, phases: dueOf(judged, store.attempt(name))[when] };
  };
  /** Stack → what came of its phases. */
  const ran = new Map<string, string[]>();
  return {
    name: when === 'before' ? 'pre-hooks' : 'post-hooks',
    title: when === 'before' ? 'run the hooks before the change' : 'run the hooks after the change',
    touches: 'runtime',
    applicable: () => true,
    async check(ctx, { payload }) {
      const { judged, phases } = await dueNow(ctx, payload.stack);
      const lines = phases.flatMap((phase) =>
        actionsOf(judged.stack, judged.at, phase).actions.map((action) => `${phase}: ${describe(action)}`),
      );
      return { satisfied: lines.length === 0, ...(lines.length > 0 ? { note: lines.join('\n') } : {}) };
    },
    async execute(ctx, { payload }) {
      const name = payload.stack;
      const { judged, phases } = await dueNow(ctx, name);
      for (const phase of phases) {
        ctx.signal.throwIfAborted();
        const attempt = store.attempt(name);
        if (!attempt) throw new Error(`no attempt of ${name} is on record`);
        const result = await runPhase(
          run.bench,
          { ...judged, runs: when === 'before' ? 'deployed' : 'this' },
          { operation: operationOf(attempt), phase, attempt: attempt.count },
          {
            signal: ctx.signal,
            ...supersededOf(run, name),
            // A restore of a suspended stack is what its person asked for.
            isSuspended: () => attempt.operation !== 'restore' && isSuspended(run.bench, judged.stack),
            note: ctx.note,
          },
        );
        if (result) {
          run.hookEnded(name, recordOf(result.state));
          ran.set(name, [...(ran.get(name) ?? []), summaryOf(result.state)]);
        }
        if (result?.fault) {
          forget(run.bench, result);
          throw result.fault;
        }
        store.putAttempt({ ...attempt, completedPhases: [...attempt.completedPhases, phase] });
        if (result) forget(run.bench, result);
      }
      // A person may have changed a count meanwhile, which the sequence left as it is: the converge sees what is there now.
      if (when === 'before' && ran.has(name)) await judgedOf(run, { cache: ctx.cache, fresh: true }, name);
    },
    async verify(ctx, { payload }) {
      const { phases } = await dueNow(ctx, payload.stack);
      return { satisfied: phases.length === 0, note: (ran.get(payload.stack) ?? []).join('\n') };
    },
  };
}

/** What ran, not what might have. */
function summaryOf({ run, ended, records, actions }: HookState): string {
  const begun = records.filter((one) => one.tries > 0).map((one) => one.name);
  const all = flattened(actions).length;
  return [
    `${run.phase} ${ended?.outcome}`,
    ...(ended?.message ? [` (${ended.message})`] : []),
    begun.length === all ? '' : `, ${begun.length} of ${all} actions ran`,
    begun.length === 0 ? '' : `: ${begun.join(', ')}`,
  ].join('');
}

/** What is on record of a stack that nobody brought to its end, for people. */
export function describeLeft(bench: Workbench, stack: string): readonly string[] {
  const left = storeJournal(bench.house.store)
    .all()
    .filter(({ run }) => run.stack === stack);
  return [
    ...left.map(({ run, ended }) =>
      ended?.outcome === 'restoreFailed' ? `what ${run.phase} scaled is not back` : `${run.phase} was interrupted`,
    ),
    ...(stacksAtRest(bench).includes(stack) ? ['a backup was interrupted'] : []),
  ];
}

/** Stack → why services of it are not back: a dead backup left them at rest, or what its hooks scaled was tried in vain. */
export function notBack(bench: Workbench): ReadonlyMap<string, { readonly fault: Fault; readonly atMs: number }> {
  const { house } = bench;
  const found = new Map<string, { readonly fault: Fault; readonly atMs: number }>();
  for (const stack of stacksAtRest(bench)) {
    if (isHeld(house, stack)) continue;
    const run = house.store.runs({ stack }).find(({ operation }) => operation === 'backup');
    const message = 'a backup was interrupted, and what it had brought to rest is not back';
    found.set(stack, { fault: new Fault('RESTORE_FAILED', message), atMs: run?.startedAtMs ?? house.clock.nowMs() });
  }
  for (const state of storeJournal(house.store).all()) {
    if (state.ended?.outcome !== 'restoreFailed') continue;
    const { fault } = resultOf(state);
    if (fault) found.set(state.run.stack, { fault, atMs: state.ended.atMs });
  }
  return found;
}

/** As a step: whatever a dead controller left of the stack's hooks is brought to its end before anything else touches the stack. */
export function finishHooks(run: DeployRun): Step<DeployTarget> {
  return {
    name: 'finish-hooks',
    title: 'finish the hooks of an interrupted run',
    touches: 'runtime',
    applicable: (_ctx, { payload: { stack } }) =>
      describeLeft(run.bench, stack).length > 0 || run.cut?.has(stack) === true,
    check(_ctx, { payload }) {
      const lines = [...describeLeft(run.bench, payload.stack)];
      if (run.cut?.has(payload.stack)) lines.push('a hook phase failed when the controller died');
      return { satisfied: lines.length === 0, ...(lines.length === 0 ? {} : { note: lines.join('\n') }) };
    },
    async execute(ctx, { payload }) {
      const taken = await takeUpHooks(run.bench, [payload.stack], {
        signal: ctx.signal,
        note: ctx.note,
        ended: (stack, hook) => run.hookEnded(stack, hook),
        newest: () => run.judged.get(payload.stack)?.at ?? null,
      });
      await wake(run.bench, payload.stack, ctx.signal);
      // What was scaled is back: it is judged anew.
      setJudged(run, ctx, await judgedOf(run, { cache: ctx.cache, fresh: true }, payload.stack));
      // What failed by the crash ends this try as any failure does: its jobs need not bear being run once more.
      const attempt = run.house.store.attempt(payload.stack);
      const cut = attempt && taken.map((one) => cutOf(one, attempt.digest, operationOf(attempt))).find(Boolean);
      const fault = cut ?? run.cut?.get(payload.stack);
      if (fault) throw fault;
    },
  };
}

const operationOf = (attempt: Attempt): string => attempt.operation ?? 'deploy';

const NEWER = 'a newer revision arrived';
const SUSPENDED = 'the stack was suspended';

const isSuspended = ({ house: { store, clock } }: Workbench, stack: LoadedStack): boolean =>
  holdOf(stack, store.holds(stack.name), clock.nowMs())?.kind === 'suspended';

function supersededOf(run: DeployRun, name: string): { superseded?: AbortSignal } {
  const superseded = run.superseded?.get(name);
  return superseded ? { superseded } : {};
}

/** Null when the phase has no actions. The caller forgets the run once its outcome is on its own records. */
export async function runPhase(
  bench: Workbench,
  subject: HookSubject,
  which: Pick<HookRun, 'operation' | 'phase' | 'attempt'>,
  options: PhaseOptions,
): Promise<HookResult | null> {
  const { stack, at, resolved } = subject;
  const { actions, secrets } = actionsOf(stack, at, which.phase);
  if (actions.length === 0) return null;
  const stopIfSuspended = (): void => {
    if (options.isSuspended?.()) handle.supersede(SUSPENDED);
  };
  const deps = { ...depsOf(bench, subject, secrets, options.note), afterAction: stopIfSuspended };
  const handle = startHook(deps, {
    run: {
      stack: stack.name,
      project: resolved.desired.project,
      home: homeOf(bench.house.settings.stateDir),
      digest: resolved.desired.digest,
      ...which,
    },
    revision: at.revision.commit,
    actions,
    signal: options.signal,
  });
  stopIfSuspended();
  const supersede = (): void => void handle.supersede(NEWER);
  options.superseded?.addEventListener('abort', supersede, { once: true });
  if (options.superseded?.aborted) supersede();
  try {
    const result = await handle.result;
    tellChanged(bench, result.state);
    return result;
  } finally {
    options.superseded?.removeEventListener('abort', supersede);
  }
}

/** Runs the phases of an operation around its work. Throws the Fault of a phase that did not end well; then the rest is not done. */
export async function withHooks<T>(
  bench: Workbench,
  subject: HookSubject,
  operation: OtherOperation,
  options: PhaseOptions & {
    readonly attempt: number;
    readonly ended?: (hook: HookRecord) => void;
    readonly completed?: CompletedPhases;
  },
  work: () => Promise<T>,
): Promise<T> {
  const { before, after } = operationPhases(operation);
  const run = async (phases: readonly HookPhase[], runs: HookSubject['runs']): Promise<void> => {
    for (const phase of phases) {
      if (options.completed?.has(phase)) continue;
      const which = { operation, phase, attempt: options.attempt };
      const result = await runPhase(bench, { ...subject, runs }, which, options);
      if (!result) continue;
      options.ended?.(recordOf(result.state));
      if (!result.fault) options.completed?.add(phase);
      forget(bench, result);
      if (result.fault) throw result.fault;
    }
  };
  await run(before, 'deployed');
  const done = await work();
  await run(after, subject.runs);
  return done;
}

/** Of a run whose services are not back the record stays: it is what brings them back. */
export function forget(bench: Workbench, { outcome, state }: HookResult): void {
  if (outcome !== 'restoreFailed') storeJournal(bench.house.store).clear(runKey(state.run));
}

/** Stacks of which a hook is on record that did not end, or did not bring everything back. */
export const stacksWithHooksLeft = ({ house }: Workbench): readonly string[] => [
  ...new Set(
    storeJournal(house.store)
      .all()
      .map((state) => state.run.stack),
  ),
];

/** What came of a phase that a dead controller left. */
export interface TakenUp extends HookResult {
  /** It failed, and nobody was told so far: whoever took it up ends as failed, and does not begin the phase anew by itself. */
  readonly isCut: boolean;
}

/** What that very operation failed with; null when it is another one, or did not fail. */
export const cutOf = ({ isCut, fault, state: { run } }: TakenUp, digest: string, operation: string): Fault | null =>
  isCut && run.digest === digest && run.operation === operation ? fault : null;

/** Takes up what dead controllers left of these stacks (default: of all), restores, and ends it. With the leases held, before anything
 * else touches them. Throws the RESTORE_FAILED of the first whose services are not back: nothing may touch that stack then. */
export async function takeUpHooks(
  bench: Workbench,
  stacks: readonly string[] | null,
  options: PhaseOptions & {
    readonly ended?: (stack: string, hook: HookRecord) => void;
    /** What the fleet asks for by now; asked when everything is restored. Default: the commit that was accepted last. */
    readonly newest?: () => FleetAt | null | Promise<FleetAt | null>;
  },
): Promise<readonly TakenUp[]> {
  const { house } = bench;
  const journal = storeJournal(house.store);
  const left = journal.all().filter((state) => stacks === null || stacks.includes(state.run.stack));
  if (left.length === 0) return [];
  /** Runs of which nothing is left but to bring back what they scaled. */
  const lost = new Map<string, Verdict>();
  const declared = new Map<string, LoadedStack>();
  const newest = options.newest ?? (() => acceptedFleet(bench));
  const decide = async (state: HookState): Promise<Verdict | null> => {
    const stack = declared.get(runKey(state.run));
    if (!stack || !isOvertakable(state.run)) return lost.get(runKey(state.run)) ?? null;
    if (isSuspended(bench, stack)) return { ending: 'superseded', why: SUSPENDED };
    return (await isOvertaken(bench, stack, await newest())) ? { ending: 'superseded', why: NEWER } : null;
  };
  const results = await resumeHooks(
    { ...journal, all: () => left },
    async (state) => {
      try {
        const { at, stack } = await stackAt(bench, state.revision, state.run.stack);
        const resolved = await bench.resolver.resolve(stack, at, options.signal);
        const runs = isPre(state.run.phase) ? 'deployed' : 'this';
        const { secrets } = actionsOf(stack, at, state.run.phase);
        declared.set(runKey(state.run), stack);
        return depsOf(bench, { stack, at, resolved, runs }, secrets, options.note);
      } catch (error) {
        if (options.signal.aborted || isPassing(error)) throw error;
        const why = `it cannot go on, only what it scaled was brought back: ${house.redact(asFault(error, 'NOT_FOUND').message)}`;
        lost.set(runKey(state.run), { ending: 'failed', why });
        return depsToRestore(bench, state, options.note);
      }
    },
    { signal: options.signal, decide },
  );
  // Of what is brought back late the failure was told before.
  const wasTold = new Set(left.filter(({ ended }) => ended?.outcome === 'restoreFailed').map(({ run }) => runKey(run)));
  const taken = results.map((result): TakenUp => {
    const isCut = result.outcome === 'failed' && !wasTold.has(runKey(result.state.run));
    return { ...result, isCut };
  });
  for (const result of taken) {
    settleLeft(bench, result);
    const { stack } = result.state.run;
    if (!isTold(bench, result.state)) {
      tellChanged(bench, result.state);
      (options.ended ?? toNewestRun(bench))(stack, recordOf(result.state));
    }
    forget(bench, result);
  }
  const down = results.find((one) => one.outcome === 'restoreFailed');
  if (down?.fault) throw down.fault;
  return taken;
}

/** Another revision takes the place of a deploy before it changes anything: SPEC 4. */
const OVERTAKABLE: ReadonlySet<string> = new Set(['deploy', 'install', 'update', 'scale', 'rollback']);
const isOvertakable = ({ phase, operation }: HookRun): boolean => isPre(phase) && OVERTAKABLE.has(operation);

/** As for a deploy that is under way: another declaration counts, an unreadable one does not. What a rollback puts back is overtaken when
 * what was refused is not asked for any more, and what was refused by the rollback. */
async function isOvertaken(bench: Workbench, stack: LoadedStack, newest: FleetAt | null): Promise<boolean> {
  if (!newest || newest.fleet.broken.has(stack.name)) return false;
  // While what was refused cannot be read, the newest declaration decides by itself.
  const at = await bench.effective(stack.name, newest).catch(() => newest);
  return at.fleet.stacks.get(stack.name)?.sourceDigest !== stack.sourceDigest;
}

/** Null when there is none, or when it cannot be read now. */
async function acceptedFleet({ house, reader }: Workbench): Promise<FleetAt | null> {
  const commit = house.store.value(acceptedKey(house.source.spec.name));
  return typeof commit === 'string' ? reader.read(commit).catch(() => null) : null;
}

/** Trouble of the moment: whoever comes next can go on with the sequence. Anything else may stay, and a stack must not stay down with it. */
const PASSING: ReadonlySet<string> = new Set([
  'CANCELLED',
  'ENGINE_UNREACHABLE',
  'ENGINE_TIMEOUT',
  'COMPOSE_FAILED',
  'FILES_FAILED',
]);
const isPassing = (error: unknown): boolean =>
  error instanceof Fault ? PASSING.has(error.code) : !(error instanceof InvalidStack);

/** For a run whose commit cannot be read or resolved any more: services are counted, stopped and started; nothing is made from the
 * commit, and no job is begun. */
function depsToRestore(bench: Workbench, { run, captured }: HookState, note: PhaseOptions['note']): HookDeps {
  const { clock, store, runtime, oneShots, redact } = bench.house;
  const known = everDeployed(store).find((one) => one.stack === run.stack);
  const desired = known?.desired ?? {
    stack: run.stack,
    project: run.project,
    projectDir: treeDirOf(bench.house.settings.stateDir, run.stack),
    revision: '',
    inputDigest: '',
    digest: '',
    digestUnscaled: '',
    composeVersion: '',
    recipe: 0,
    services: [],
    networks: [],
    volumes: [],
    owners: [],
  };
  const model = async (signal: AbortSignal): Promise<Model> => {
    if (!known) throw new Fault('HOOK_FAILED', 'a container would have to be made, and how is not known any more');
    return modelAt(bench, known.revision, run.stack, signal);
  };
  return {
    clock,
    redact,
    journal: storeJournal(store),
    ports: hookPortsOn(
      { runtime, oneShots, http: () => Promise.reject(new Error('nothing is asked by a restore')) },
      {
        home: homeOf(bench.house.settings.stateDir),
        desired,
        model,
        jobs: { desired, model },
        others: Object.keys(captured),
        open: () => Promise.reject(new Error('nothing is opened by a restore')),
      },
    ),
    refs: { resolve: async (text) => text },
    ...(note ? { note } : {}),
  };
}

/** Phases of an uninstall that are done: a try that goes on after a crash does not run them again. */
export function uninstallPhases(store: Store, stack: string): CompletedPhases & { clear(): void } {
  const key = `uninstalling/${stack}`;
  const done = () => (store.value(key) ?? []) as readonly string[];
  return {
    has: (phase) => done().includes(phase),
    add: (phase) => store.putValue(key, [...new Set([...done(), phase])]),
    clear: () => store.deleteValue(key),
  };
}

/** A phase that came to its good end is done; one that did not is the attempt's last fault. What a person ran counts for neither. */
function settleLeft(bench: Workbench, result: HookResult): void {
  const { store, clock } = bench.house;
  const { run, revision } = result.state;
  const attempt = store.attempt(run.stack);
  if (run.operation === 'uninstall' && !result.fault) uninstallPhases(store, run.stack).add(run.phase);
  if (attempt?.digest === run.digest && operationOf(attempt) === run.operation)
    store.putAttempt(
      result.fault
        ? { ...attempt, lastFault: { code: result.fault.code, message: result.fault.message } }
        : { ...attempt, completedPhases: [...new Set([...attempt.completedPhases, run.phase])] },
    );
  store.appendEvent({
    atMs: clock.nowMs(),
    stack: run.stack,
    level: result.outcome === 'restoreFailed' ? 'error' : result.fault ? 'warning' : 'info',
    reason: 'HookResumed',
    message: `${run.phase}: taken up again, ${result.outcome}${result.fault ? `: ${result.fault.message}` : ''}`,
    revision,
  });
}

/** It died between telling the end and forgetting the run. */
const isTold = ({ house: { store } }: Workbench, { run, startedAtMs, ended }: HookState): boolean =>
  store
    .runs({ stack: run.stack, limit: 5 })
    .flatMap(({ hooks }) => hooks ?? [])
    .some((one) => one.phase === run.phase && one.startedAtMs === startedAtMs && one.endedAtMs === ended?.atMs);

/** A person's count is told to whoever looks later, not only to who looks on. */
function tellChanged({ house: { store, clock } }: Workbench, { run, revision, changed }: HookState): void {
  for (const one of changed)
    store.appendEvent({
      atMs: clock.nowMs(),
      stack: run.stack,
      level: 'warning',
      reason: 'CountChanged',
      message: `${run.phase}: ${describeChanged(one)}`,
      revision,
    });
}

const toNewestRun =
  ({ house: { store } }: Workbench) =>
  (stack: string, hook: HookRecord): void => {
    const [newest] = store.runs({ stack, limit: 1 });
    if (newest) store.putRun({ ...newest, hooks: [...(newest.hooks ?? []), hook] });
  };

export function recordOf(state: HookState): HookRecord {
  return {
    phase: state.run.phase,
    outcome: state.ended?.outcome ?? 'running',
    message: state.ended?.message ?? '',
    startedAtMs: state.startedAtMs,
    endedAtMs: state.ended?.atMs ?? 0,
    ...(state.changed.length === 0 ? {} : { changed: state.changed.map(describeChanged) }),
    resumes: state.resumes,
    actions: state.records.map((one) => ({
      name: one.name,
      result: one.result,
      message: one.message,
      tries: one.tries,
      durationMs: one.endedAtMs - one.startedAtMs,
      tail: one.tail,
    })),
  };
}

export const hookLogs = ({ house }: Workbench, stack: string, phase: HookPhase): readonly KeptLog[] =>
  storeJournal(house.store).logs(stack, phase);

/** Removes job containers whose time after their end is over. */
export const sweepHookJobs = ({ house }: Workbench, signal: AbortSignal): Promise<readonly string[]> =>
  sweepJobs(house, homeOf(house.settings.stateDir), signal);

function depsOf(
  bench: Workbench,
  subject: HookSubject,
  secrets: readonly SecretRef[],
  note: ((line: string) => void) | undefined,
): HookDeps {
  const { house, look } = bench;
  const { clock, store, runtime, oneShots, net, settings, redact } = house;
  const { stack, at, resolved } = subject;
  const applied = store.applied(stack.name);
  // What is deployed is resolved again only if a container of it must be made.
  const running: Pick<Resolved, 'desired'> & { model(signal: AbortSignal): Promise<Model> } =
    subject.runs === 'deployed' && applied
      ? { desired: applied.desired, model: (signal) => modelAt(bench, applied.revision, stack.name, signal) }
      : resolved;
  return {
    clock,
    redact,
    journal: storeJournal(store),
    ports: hookPortsOn(
      { runtime, oneShots, http: (call, signal) => net.http(call, signal) },
      {
        home: homeOf(settings.stateDir),
        desired: running.desired,
        model: (signal) => running.model(signal),
        isOneShot: (service) => isOneShot(service, running.desired, applied),
        ...(bench.makeArchive
          ? { backup: (_reason: string, signal: AbortSignal) => bench.makeArchive!(stack.name, signal) }
          : {}),
        jobs: { desired: resolved.desired, model: (signal) => resolved.model(signal) },
        async open(values) {
          const wanted = new Set(Object.values(values).flatMap((value) => findTokens(value)));
          if (wanted.size === 0) return values;
          const asked = secrets.filter(({ ref }) => wanted.has(ref));
          const opened = (await openSecrets(house, at.listing, asked, { mint: true })).values;
          const open = (ref: string): string => {
            const value = opened.get(ref);
            if (value === undefined) throw new Fault('VAULT_SECRET_MISSING', `the secret ${ref} cannot be opened`);
            return value;
          };
          return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, replaceTokens(value, open)]));
        },
      },
    ),
    refs: createRefs({
      hook,
      node: node(() => settings.nodes[stack.node] ?? {}),
      cluster: cluster(() => ({
        'node-count': Math.max(1, Object.keys(settings.nodes).length),
        'leader-ip': settings.nodes['local']?.ip ?? '',
      })),
      dns: dns((name, kind) => net.lookup(name, kind)),
      stack: stackRefs({
        knows: (name) => at.fleet.stacks.has(name) || store.applied(name) !== null,
        revision: (name) => store.applied(name)?.revision ?? null,
        async containerId(name, service) {
          const project = store.applied(name)?.project ?? name;
          const { containers } = (await look.fresh('known')).observed;
          const running = containers.find(
            (one) => one.project === project && one.service === service && one.state === 'running' && !one.oneOff,
          );
          return running?.id ?? null;
        },
      }),
    }),
    ...(note ? { note } : {}),
  };
}
