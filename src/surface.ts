// Surface: the use cases that the CLI and a later API both offer. Words in, plain data out; it prints nothing and asks nobody.
import { Controller, FLEET } from './controller/controller.ts';
import { Nudges } from './controller/nudges.ts';
import type { StackDiff } from './core/diff/change.ts';
import { indexObserved } from './core/diff/index-observed.ts';
import { asFault, Fault } from './core/fault.ts';
import type { HookPhase } from './core/hook/phase.ts';
import { renderMistakes } from './core/render/hooks.ts';
import type { RequestSnapshot } from './core/request/life.ts';
import type { Diagnostic } from './core/spec/diagnostic.ts';
import type { Request as SignedRequest } from './core/spec/request.ts';
import { neverDeployed, unknownStack } from './core/spec/unknown-stack.ts';
import type { Applied, Attempt, Hold } from './core/state/applied.ts';
import type { Desired } from './core/state/desired.ts';
import type { RequestEvaluation } from './core/state/trust/evaluate-request.ts';
import type { Condition, ConditionType } from './core/status/condition.ts';
import type { HookRecord, RunRecord, StackEvent } from './core/status/event.ts';
import { type Outcome, settle } from './core/status/settle.ts';
import type { Observer } from './engine/observer.ts';
import { Archives } from './operations/archive/archives.ts';
import { archiveMaker, type BackedUp, backup } from './operations/archive/backup.ts';
import { type BackupStatus, backupStatusOf } from './operations/archive/backup-due.ts';
import { backupGroup, type GroupBackedUp } from './operations/archive/backup-group.ts';
import { globMistakes } from './operations/archive/data-holders.ts';
import { type Discard, formatDiscard, formatDiscarded } from './operations/archive/discards.ts';
import { drill } from './operations/archive/drill.ts';
import { type DrillStatus, drillStatusOf } from './operations/archive/drill-due.ts';
import type { LastDrill } from './operations/archive/drill-record.ts';
import { forgetMove, movedBy } from './operations/archive/quiesce.ts';
import {
  bringBack,
  type Copied,
  type ReplicaStatus,
  type Replicated,
  type ReplicateOptions,
  replicaNamed,
  replicaStatuses,
  replicateOnRecord,
} from './operations/archive/replicate.ts';
import { unfinishedRestores } from './operations/archive/restore.ts';
import { type ByHand, byHand } from './operations/by-hand.ts';
import { forgetByRequest, isOnItsWay, isUnrestored, livesByRequest } from './operations/by-request.ts';
import { type DeployOptions, type DeployOutcome, deploy, deployWhatCan, planDeploy } from './operations/deploy.ts';
import type { FleetAt } from './operations/fleet-at.ts';
import { forgetUndeclared } from './operations/forget-undeclared.ts';
import { everDeployed, type Gone, goneNamed, goneOf, isOnRecord, leftOf } from './operations/gone.ts';
import { awaitsArchive, holdNow, holdsShown, settleHolds } from './operations/hold-now.ts';
import { runByHand } from './operations/hook-by-hand.ts';
import { unfitNames } from './operations/hook-check.ts';
import { previewUninstall } from './operations/hook-subject.ts';
import { type HookPreview, previewHooks } from './operations/hooks-of.ts';
import type { House } from './operations/house.ts';
import { isHeld, leaseName } from './operations/leases.ts';
import { accept, brokenLineage } from './operations/lineage.ts';
import { maskModel } from './operations/mask-model.ts';
import { clashesOf, type Succession, successionsOf } from './operations/ports-claimed.ts';
import { previewRollback, type RollbackPreview } from './operations/preview-rollback.ts';
import { manualRollback } from './operations/rollback.ts';
import { type Scaled, scaleStack } from './operations/scale-stack.ts';
import { settleStack, untouchedOutcome } from './operations/settle-stack.ts';
import { describeLeft, hookLogs, notBack } from './operations/steps/run-hook.ts';
import { comingOf, type Judged, type Surveyed } from './operations/survey.ts';
import { formatTakenUp, stacksLeft, takeUp } from './operations/take-up.ts';
import type { TrustLook } from './operations/trust/look.ts';
import { type RecordedSignature, requestOf, signaturesOf } from './operations/trust/request-record.ts';
import { type Spoken, spokenOf } from './operations/trust/spoken.ts';
import { itemsOf, type WorkItem } from './operations/trust/work-items.ts';
import { type Orphan, orphans, uninstall, withoutHooks } from './operations/uninstall.ts';
import { unverified, verificationOf } from './operations/unverified.ts';
import { type SecretName, VaultDesk } from './operations/vault-desk.ts';
import { needsWork, Workbench } from './operations/workbench.ts';
import type { KeptLog } from './ports/hooks.ts';
import type { Receipt } from './ports/ledger.ts';

export interface PlanView {
  readonly at: FleetAt;
  readonly surveyed: readonly Surveyed[];
  /** Those that have something to do and may. */
  readonly work: readonly Judged[];
  /** Stacks that people or their own file hold: stack → why. */
  readonly held: ReadonlyMap<string, Hold>;
  /** Stack → what dead processes left of its hooks; it comes to its end before anything else. */
  readonly left: ReadonlyMap<string, readonly string[]>;
  /** HISTORY_REWRITTEN when the commit does not go on from what was accepted last, NOT_VERIFIED when its signature does not count: then
   * nothing may be applied. */
  readonly denied: Fault | null;
  readonly layers: readonly (readonly string[])[];
  /** Stack → the hook phases that its deploy runs, or its uninstall. */
  readonly hooks: ReadonlyMap<string, readonly HookPreview[]>;
  /** Stack → why its uninstall runs no hooks, although it had some. */
  readonly lostHooks: ReadonlyMap<string, string>;
  readonly gone: Gone;
  /** Those of `gone` that live by a request: git never declared them. */
  readonly byRequest: readonly string[];
  /** Those of `gone` whose port a stack takes over: they go right before it comes, and stay when it cannot. */
  readonly successions: readonly Succession[];
  /** '' when nothing is to be done. */
  readonly digest: string;
}

export interface RequestView {
  readonly id: string;
  /** Null before a controller has seen it. */
  readonly snapshot: RequestSnapshot | null;
  /** Null when it is not in the newest commit. */
  readonly evaluation: RequestEvaluation | null;
  /** As it was claimed: what was asked, and who signed (only when one is asked for by its id). Null before that. */
  readonly claimed: {
    readonly request: SignedRequest | null;
    readonly signatures: readonly RecordedSignature[];
  } | null;
  /** Live data that it would take the place of or remove; once it is claimed, as that was then. Only when one is asked for by its id. Null when
   * that cannot be told, or is not on record. */
  readonly discards: readonly Discard[] | null;
  /** What its work did, once there is any. */
  readonly items: readonly WorkItem[];
  /** Reasons that people gave with what they signed; only when one is asked for by its id. */
  readonly said: readonly Spoken[];
}

/** What `plan --out` writes: what was seen, not what to do; apply makes the plan again and compares. */
export interface SavedPlan {
  readonly windlass: 'plan';
  readonly version: 1;
  readonly source: string;
  readonly revision: string;
  readonly stacks: readonly string[];
  readonly digest: string;
  /** Names the stacks that it uninstalls. */
  readonly prune: string;
  readonly madeAtMs: number;
}

export interface StackStatus {
  readonly name: string;
  readonly conditions: readonly Condition[];
  readonly applied: Applied | null;
  readonly attempt: Attempt | null;
  readonly holds: readonly Hold[];
  /** Only of one stack in full; null when it has neither archives nor a schedule. */
  readonly backup?: BackupStatus | null;
  /** Only of one stack in full; null when it is never rehearsed. */
  readonly drill?: DrillStatus | null;
}

export interface ReplicaRun {
  readonly name: string;
  readonly done: Replicated | null;
  readonly fault: Fault | null;
}

export interface Traced {
  readonly container: string;
  readonly service: string;
  readonly stack: string;
  readonly image: string;
  readonly revision: string;
  readonly subject: string;
  readonly author: string;
  readonly signer: string | null;
}

/** Without a sign of life for this long a controller on another host counts as gone. */
const BEAT_MS = 15_000;
/** For what is judged by the declarations alone. */
const NOTHING_OBSERVED = indexObserved({
  engineId: '',
  atMs: 0,
  containers: [],
  networks: [],
  volumes: [],
  images: [],
});

export class Surface {
  readonly house: House;
  readonly bench: Workbench;
  readonly vault: VaultDesk;

  constructor(house: House) {
    this.house = house;
    this.bench = new Workbench(house);
    this.bench.makeArchive = archiveMaker(this.bench);
    this.vault = new VaultDesk(house);
  }

  /** The declared fleet at the newest commit. */
  async fleet(): Promise<FleetAt> {
    return this.bench.reader.read(await this.house.source.fetch());
  }

  /** Every diagnostic of the newest commit, also of its requests and policies. Resolves every stack, so Compose's own complaints are among
   * them. */
  async validate(): Promise<{
    readonly at: FleetAt;
    readonly diagnostics: readonly Diagnostic[];
    readonly faults: readonly Fault[];
  }> {
    const { at, diagnostics: declared } = await this.declared();
    const diagnostics = [...declared];
    const faults: Fault[] = [];
    const claimants: { name: string; resolved: { desired: Desired } }[] = [];
    await Promise.all(
      [...at.fleet.stacks.values()].map(async (stack) => {
        try {
          const resolved = await this.bench.resolver.resolve(stack, at, undefined, { closed: true });
          const { desired } = resolved;
          claimants.push({ name: stack.name, resolved });
          diagnostics.push(...(await globMistakes(this.house, stack, at, resolved)));
          // What a plain project's documents name was held against its Compose file when they were loaded.
          const said = new Set(stack.warnings.map(({ code, place }) => JSON.stringify([code, place])));
          for (const one of await unfitNames(this.house, stack, at, desired, null))
            if (!said.has(JSON.stringify([one.code, one.place]))) diagnostics.push(one);
        } catch (error) {
          if (error instanceof Error && 'diagnostics' in error)
            diagnostics.push(...(error.diagnostics as Diagnostic[]));
          else faults.push(asFault(error, 'COMPOSE_FAILED'));
        }
      }),
    );
    for (const [name, { code, message, help, data }] of clashesOf(claimants, NOTHING_OBSERVED)) {
      const place = at.fleet.stacks.get(name)?.place;
      // Between two stacks the engine decides: one of them may rest.
      const severity = data['holder'] === `stack ${name}` ? 'error' : 'warning';
      diagnostics.push({ severity, code, summary: message, help, ...(place ? { place } : {}), stack: name });
    }
    return { at, diagnostics, faults };
  }

  /** The same as far as it can be told without Compose. */
  async declared(): Promise<{ readonly at: FleetAt; readonly diagnostics: readonly Diagnostic[] }> {
    const at = await this.fleet();
    const diagnostics: Diagnostic[] = [...at.fleet.diagnostics];
    for (const broken of at.fleet.broken.values()) diagnostics.push(...broken);
    for (const stack of at.fleet.stacks.values()) {
      diagnostics.push(...stack.warnings, ...renderMistakes(stack, at.fleet.stacks));
    }
    // Loaded for them alone: a fleet without such documents reads no keys.
    if (at.listing.entries.some(({ path }) => path.startsWith('requests/') || path.startsWith('trust/policy/'))) {
      const { checkTrustDocuments } = await import('./operations/trust/check-documents.ts');
      diagnostics.push(...(await checkTrustDocuments(this.house, at.listing.entries)));
    }
    return { at, diagnostics };
  }

  /** The resolved Compose project, secrets masked. */
  async render(name: string): Promise<unknown> {
    const newest = await this.fleet();
    const made = livesByRequest(this.house.store, newest.fleet).find((one) => one.stack === name);
    const at = made ? await this.bench.reader.read(made.revision) : newest;
    const stack = at.fleet.stacks.get(name);
    if (!stack) throw this.#unknown(name, at);
    const resolved = await this.bench.resolver.resolve(stack, at, undefined, { closed: true });
    return maskModel(await resolved.shown(), resolved.desired, this.house.redact);
  }

  /** `withoutData`: also stacks whose data an authorised request has yet to bring. `prune` false: what left the fleet is to stay. */
  async plan(stacks: readonly string[] = [], { withoutData = false, prune = true } = {}): Promise<PlanView> {
    const at = await this.fleet();
    const all = [...at.fleet.stacks.keys(), ...at.fleet.broken.keys()];
    // On a tip that may not be taken, what it declares proves nothing: also not that there is no such stack.
    const denied = await this.#denied(at);
    for (const name of stacks) if (!all.includes(name)) throw denied ?? this.#unknown(name, at);
    const names = stacks.length > 0 ? stacks : all;
    // Containers of others are listed, never looked into: one that is stuck is no concern of ours.
    const index = await this.bench.look.fresh(all);
    const ever = everDeployed(this.house.store);
    const gone = goneOf(at.fleet, stacks.length > 0 ? [] : ever, this.house.settings.pruneLimit);
    const leaving = prune && gone.guard === null ? gone.removable : [];
    const surveyed = await this.bench.survey(names, at, index, { now: leaving, all: leftOf(at.fleet, ever) });
    const held = await this.#held(surveyed, at, withoutData);
    const work = surveyed.filter(
      (one): one is Judged => one.kind === 'judged' && needsWork(one) && !held.has(one.name),
    );
    const successions = successionsOf(comingOf(surveyed), index, leaving);
    const digest = work.length > 0 ? planDeploy(work, at.fleet.layers, this.house.settings.concurrency).digest : '';
    const around = await this.#aroundUninstalls(gone);
    const hooks = new Map([...work.map((one) => [one.name, previewHooks(one)] as const), ...around.hooks]);
    return {
      at,
      surveyed,
      work,
      held,
      left: this.#left(stacks),
      hooks,
      lostHooks: around.lost,
      denied,
      layers: at.fleet.layers,
      gone,
      byRequest: livesByRequest(this.house.store, at.fleet).map(({ stack }) => stack),
      successions,
      digest,
    };
  }

  #left(asked: readonly string[]): ReadonlyMap<string, readonly string[]> {
    const left = stacksLeft(this.bench).filter(
      (name) => (asked.length === 0 || asked.includes(name)) && !isHeld(this.house, name),
    );
    return new Map(left.sort().map((name) => [name, describeLeft(this.bench, name)]));
  }

  /** Why the newest commit is not accepted: HISTORY_REWRITTEN or NOT_VERIFIED; null when it may be taken. Then nothing of it is carried out,
   * whatever its requests say. A fault of the repository is thrown: it decides nothing. */
  async deniedTip(): Promise<Fault | null> {
    const tip = await this.house.source.fetch();
    const broken = await brokenLineage(this.house, tip);
    if (broken || (this.house.trust?.deploy ?? 'none') === 'none') return broken;
    return unverified(this.bench, await this.bench.reader.read(tip));
  }

  async #denied(at: FleetAt): Promise<Fault | null> {
    return (await brokenLineage(this.house, at.revision.commit)) ?? (await unverified(this.bench, at));
  }

  async #aroundUninstalls({ removable }: Gone): Promise<{
    readonly hooks: ReadonlyMap<string, readonly HookPreview[]>;
    readonly lost: ReadonlyMap<string, string>;
  }> {
    const hooks = new Map<string, readonly HookPreview[]>();
    const lost = new Map<string, string>();
    for (const one of removable) {
      const preview = await previewUninstall(this.bench, one);
      hooks.set(one.stack, preview.hooks);
      if (preview.lost !== null) lost.set(one.stack, withoutHooks(preview.lost));
    }
    return { hooks, lost };
  }

  /** What the engine would do cell by cell, as text; nothing is done. */
  async steps(view: PlanView): Promise<string> {
    let text = '';
    if (view.work.length > 0)
      await deploy({
        ...this.#tools(view),
        judged: view.work,
        trigger: 'plan',
        dryRun: true,
        preview: (part) => {
          text += part;
        },
      });
    return text.trimEnd();
  }

  #tools(view: PlanView): Pick<DeployOptions, 'bench' | 'layers'> {
    return { bench: this.bench, layers: view.layers };
  }

  async #held(surveyed: readonly Surveyed[], at: FleetAt, withoutData: boolean): Promise<ReadonlyMap<string, Hold>> {
    const held = new Map<string, Hold>();
    const unfinished = unfinishedRestores(this.house);
    for (const one of surveyed) {
      if (one.kind !== 'judged') continue;
      const hold = holdNow(this.house, one.stack, unfinished);
      if (hold) held.set(one.name, hold);
    }
    const isNew = ({ name }: Surveyed): boolean => !held.has(name) && this.house.store.applied(name) === null;
    if (withoutData || !this.house.trust?.anchor || !surveyed.some(isNew)) return held;
    const { awaitedStacks } = await import('./operations/trust/awaited.ts');
    const awaited = await awaitedStacks(this.house, at.revision.commit);
    for (const one of surveyed) {
      const hold = isNew(one) ? awaitsArchive(this.house, awaited, one.name) : null;
      if (hold) held.set(one.name, hold);
    }
    return held;
  }

  savePlan(view: PlanView, stacks: readonly string[]): SavedPlan {
    return {
      windlass: 'plan',
      version: 1,
      source: this.house.source.spec.name,
      revision: view.at.revision.commit,
      stacks,
      digest: view.digest,
      prune: view.gone.digest,
      madeAtMs: this.house.clock.nowMs(),
    };
  }

  /** Makes a saved plan again. Throws PLAN_STALE when the repository or the engine moved since. */
  async again(
    saved: SavedPlan,
    options: { readonly withoutData?: boolean; readonly prune?: boolean } = {},
  ): Promise<PlanView> {
    const view = await this.plan(saved.stacks, options);
    if (view.digest !== saved.digest || view.gone.digest !== saved.prune)
      throw new Fault(
        'PLAN_STALE',
        `the plan was made at ${saved.revision.slice(0, 12)} and would be another one now`,
        {
          data: { saved: saved.digest || 'nothing to do', now: view.digest || 'nothing to do' },
        },
      );
    return view;
  }

  /** Executes a plan view: deploys, then removes what left the fleet unless the guard says no. Conditions are settled as by the controller.
   * Throws HISTORY_REWRITTEN, and LOCK_HELD before anything is touched; what fails per stack is in `failures`. */
  async apply(
    view: PlanView,
    {
      withoutData = false,
      note = () => {},
      ...options
    }: Pick<DeployOptions, 'signal' | 'stop' | 'progress' | 'trigger'> & {
      readonly prune: boolean;
      /** What becomes of hooks that dead processes left, where no deploy is made. */
      readonly note?: (line: string) => void;
      readonly withoutData?: boolean;
    },
  ): Promise<{
    readonly outcome: DeployOutcome | null;
    readonly removed: readonly RunRecord[];
    /** Left running, since who takes their port over was not deployed. */
    readonly kept: readonly Succession[];
    readonly failures: ReadonlyMap<string, Fault>;
  }> {
    if (view.denied) throw view.denied;
    await this.#accept(view.at);
    // Somebody may have suspended a stack since the plan was shown.
    const held = await this.#held(view.surveyed, view.at, withoutData);
    const work = view.work.filter((one) => !held.has(one.name));
    await this.#settleUntouched(view, work, held);
    const failures = new Map<string, Fault>();
    const leaving = options.prune && view.gone.guard === null ? view.gone.removable : [];
    // A deploy and an uninstall do it themselves, and end by what came of it.
    const own = new Set([...work.map((one) => one.name), ...leaving.map((one) => one.stack)]);
    const finish = async (names: readonly string[]): Promise<void> => {
      await Promise.all(names.map((name) => this.#takeUp(name, view, failures, note, options)));
    };
    await finish([...view.left.keys()].filter((name) => !own.has(name)));
    let outcome: DeployOutcome | null = null;
    if (work.length > 0) {
      outcome = await deployWhatCan({
        ...this.#tools(view),
        ...options,
        judged: work,
        leaving,
      });
      for (const [name, fault] of outcome.failures) failures.set(name, fault);
      for (const one of work) if (!outcome.notBegun.includes(one.name)) await this.#settle(one, failures.get(one.name));
    }
    await finish((outcome?.notBegun ?? []).filter((name) => view.left.has(name)));
    if (outcome) await this.#settleWaiting(view, outcome, failures);
    const kept: Succession[] = [];
    const removed: RunRecord[] = [...(outcome?.removed ?? [])];
    const done = new Set(outcome?.runs.filter((run) => run.outcome === 'succeeded').map((run) => run.stack));
    if (options.prune && view.gone.guard === null)
      for (const one of view.gone.removable)
        try {
          if (removed.some((run) => run.stack === one.stack)) continue;
          if (options.stop?.aborted || options.signal?.aborted) break;
          // What runs is not taken away for something that did not come.
          const after = view.successions.find(({ leaver, by }) => leaver.stack === one.stack && !done.has(by));
          if (after) {
            kept.push(after);
            if (view.left.has(one.stack)) await finish([one.stack]);
            continue;
          }
          removed.push(
            await uninstall(this.bench, one, options.trigger, options.signal ?? new AbortController().signal),
          );
        } catch (error) {
          failures.set(one.stack, asFault(error, 'ENGINE_REFUSED'));
        }
    return { outcome, removed, kept, failures };
  }

  /** Services go back to their counts also where nothing is to be deployed, as in a suspended stack. */
  async #takeUp(
    name: string,
    view: PlanView,
    failures: Map<string, Fault>,
    note: (line: string) => void,
    { signal = new AbortController().signal, stop }: Pick<DeployOptions, 'signal' | 'stop'>,
  ): Promise<void> {
    if (stop?.aborted || signal.aborted) return;
    const say = (line: string): void => note(`${name}: ${line}`);
    let fault: Fault | undefined;
    try {
      await takeUp(this.bench, name, {
        signal,
        note: say,
        newest: () => view.at,
        told: (one) => say(`${formatTakenUp(one)}${one.fault ? `: ${one.fault.message}` : ''}`),
      });
    } catch (error) {
      fault = asFault(error, 'HOOK_FAILED');
      // Somebody who lives works on it by now.
      if (fault.code === 'LOCK_HELD') return;
      failures.set(name, fault);
      if (fault.code === 'CANCELLED') return;
    }
    const one = view.surveyed.find((surveyed) => surveyed.name === name);
    if (one?.kind !== 'judged') return;
    try {
      const judged = await this.bench.surveyor.again(one, await this.bench.look.fresh('known'));
      const hold = view.held.get(name) ?? null;
      this.#settleAs(judged, view.at, fault ? { kind: 'failed', fault } : untouchedOutcome(judged, hold));
    } catch (error) {
      // That of its hooks is the one to be told; others are not held up by either.
      if (!fault) failures.set(name, asFault(error, 'ENGINE_REFUSED'));
    }
  }

  async #accept(at: FleetAt): Promise<void> {
    await accept(this.house, at.revision.commit);
    settleHolds(this.house, at);
  }

  /** A commit that asks for nothing to be deployed counts all the same from now on, as for what it says of backups. */
  async take(view: PlanView): Promise<void> {
    if (view.denied) throw view.denied;
    try {
      await this.#accept(view.at);
    } catch (error) {
      // Somebody took a newer one meanwhile.
      if (error instanceof Fault && (error.code === 'PLAN_STALE' || error.code === 'HISTORY_REWRITTEN')) return;
      throw error;
    }
    await this.#settleUntouched(view, [], view.held);
  }

  /** What is in sync or held is said to be, whatever was said of an earlier commit. Looked at again, since a person may have thought about the
   * plan for long. One that somebody works on is theirs to speak of. */
  async #settleUntouched(view: PlanView, work: readonly Judged[], held: ReadonlyMap<string, Hold>): Promise<void> {
    const names = new Set([...work.map((one) => one.name), ...view.left.keys()]);
    const untouched = view.surveyed.filter(
      (one): one is Judged => one.kind === 'judged' && !names.has(one.name) && !isHeld(this.house, one.name),
    );
    if (untouched.length === 0) return;
    const index = await this.bench.look.fresh(untouched.map((one) => one.name));
    for (const one of untouched) {
      // With secrets that are yet to be made it would be resolved anew, which the vault may refuse.
      const judged = one.resolved.unminted.length > 0 ? one : await this.bench.surveyor.again(one, index);
      this.#settleAs(judged, view.at, untouchedOutcome(judged, held.get(one.name) ?? null));
    }
  }

  /** What was not begun since its provider failed, or waits for such a one itself. */
  async #settleWaiting(
    view: PlanView,
    { notBegun }: DeployOutcome,
    failures: ReadonlyMap<string, Fault>,
  ): Promise<void> {
    const hasFailed = (name: string): boolean => (failures.get(name)?.code ?? 'CANCELLED') !== 'CANCELLED';
    const waiting = new Set<string>();
    // Layer by layer, so that a provider comes before those that build on it.
    for (const name of view.layers.flat()) {
      const one =
        notBegun.includes(name) && !hasFailed(name) ? view.work.find((work) => work.name === name) : undefined;
      const provider = Object.values(one?.stack.integrate ?? {}).find((by) => waiting.has(by) || hasFailed(by));
      if (!one || provider === undefined) continue;
      waiting.add(name);
      const judged = await this.bench.surveyor.again(one, await this.bench.look.fresh('known'));
      this.#settleAs(judged, one.at, { kind: 'waiting', provider });
    }
  }

  /** What could not even be tried is on record too: a broken declaration, a refusal. What was said of one that is declared no more is not. */
  settleLeftOut(view: PlanView): void {
    const newest = view.at.revision.commit;
    const restoring = unfinishedRestores(this.house);
    forgetUndeclared(
      this.house.store,
      view.at.fleet,
      (stack) => isHeld(this.house, stack) || restoring.some(({ plan }) => plan.target === stack),
    );
    for (const one of view.surveyed)
      if (one.kind === 'invalid')
        settleStack(this.house, one.name, {
          judged: null,
          newest,
          outcome: { kind: 'invalid', diagnostics: one.diagnostics },
          failures: 0,
        });
      else if (one.kind === 'refused' && one.stack !== null)
        settleStack(this.house, one.name, {
          judged: one.judged,
          newest,
          outcome: { kind: 'failed', fault: one.fault },
          failures: 0,
        });
  }

  async #settle(one: Judged, fault: Fault | undefined): Promise<void> {
    if (fault?.code === 'CANCELLED') return;
    const judged = await this.bench.surveyor.again(one, await this.bench.look.fresh('known'));
    const outcome: Outcome = fault
      ? { kind: 'failed', fault }
      : one.diff.situation === 'drift' && one.diff.changes.length > 0
        ? { kind: 'healed', healsInARow: 1, changes: one.diff.changes.length }
        : { kind: 'deployed' };
    this.#settleAs(judged, one.at, outcome);
  }

  #settleAs(judged: Judged, { revision }: FleetAt, outcome: Outcome): void {
    const verified = verificationOf(this.house, null, revision.commit);
    settleStack(this.house, judged.name, { judged, newest: revision.commit, verified, outcome, failures: 0 });
  }

  status(): readonly StackStatus[] {
    const { store } = this.house;
    const conditions = store.allConditions();
    const said = [...conditions].filter(([, list]) => list.length > 0).map(([name]) => name);
    // What a request did not bring back is a stack where git declares it; a pass has said so then.
    const held = [...store.allHolds()].filter(([, list]) => !list.every(isUnrestored)).map(([name]) => name);
    const down = notBack(this.bench);
    const names = new Set([...said, ...store.allApplied().map((one) => one.stack), ...held]);
    return [...names].sort().map((name) => ({
      name,
      conditions: this.#withDown(name, conditions.get(name) ?? [], down),
      applied: store.applied(name),
      attempt: store.attempt(name),
      holds: holdsShown(this.house, name),
    }));
  }

  /** Services that a hook scaled and nobody brought back: whatever was said of the stack before, or since, it is not ready. */
  #withDown(stack: string, previous: readonly Condition[], down: ReturnType<typeof notBack>): readonly Condition[] {
    const one = down.get(stack);
    if (!one) return previous;
    const { conditions } = settle({
      nowMs: one.atMs,
      previous,
      revision: previous.find(({ type }) => type === 'Ready')?.revision ?? '',
      appliedRevision: this.house.store.applied(stack)?.revision ?? '',
      rolledBack: null,
      verified: { kind: 'disabled' },
      outcome: { kind: 'failed', fault: { code: one.fault.code, message: this.house.redact(one.fault.message) } },
      health: null,
      failures: 0,
    });
    const isTold = ({ type }: Condition): boolean => type === 'Ready' || type === 'Reconciling' || type === 'Stalled';
    return conditions.map((told) => (isTold(told) ? told : (previous.find(({ type }) => type === told.type) ?? told)));
  }

  /** Throws NOT_FOUND for a name that neither the state nor the newest fetched commit knows. */
  async statusOf(name: string): Promise<StackStatus> {
    const known = this.status().find((one) => one.name === name);
    if (known) return { ...known, backup: backupStatusOf(this.bench, name), drill: drillStatusOf(this.bench, name) };
    await this.#mustKnow(name);
    return { name, conditions: [], applied: null, attempt: null, holds: [] };
  }

  /** The same without asking how it is. */
  async #mustKnow(name: string): Promise<void> {
    if (this.status().some((one) => one.name === name)) return;
    const at = await this.fleet();
    if (!at.fleet.stacks.has(name) && !at.fleet.broken.has(name)) throw this.#unknown(name, at);
  }

  /** Throws what keeps the newest commit from being deployed: what differs from that is nobody's wish. */
  async diff(name: string): Promise<Surveyed> {
    const at = await this.fleet();
    // It has no place in a plan for what git declares, and is held against what was made for it.
    if (livesByRequest(this.house.store, at.fleet).some(({ stack }) => stack === name))
      return this.#only(name, await this.bench.survey([name], at, await this.bench.look.fresh([name])));
    const { surveyed, denied } = await this.plan([name]);
    if (denied) throw denied;
    return this.#only(name, surveyed);
  }

  #only(name: string, [one]: readonly Surveyed[]): Surveyed {
    if (!one) throw new Fault('NOT_FOUND', `there is no stack ${name}`);
    return one;
  }

  /** The controller that runs on this state directory, if any. */
  controller(): { readonly owner: string; readonly sinceMs: number } | null {
    const known = this.house.store.value('controller') as
      | { owner: string; sinceMs: number; beatMs?: number }
      | undefined;
    if (!known || this.house.settings.hasEnded(known.owner)) return null;
    return this.house.clock.nowMs() - (known.beatMs ?? known.sinceMs) < BEAT_MS ? known : null;
  }

  /** Asks the running controller to look now; resolves when it heard. False when none runs. */
  async nudge(stack: string, fetch: boolean, timeoutMs: number): Promise<boolean> {
    if (!this.controller()) return false;
    const { store, clock } = this.house;
    const nudges = new Nudges(store);
    const nudge = { id: clock.id(), stack, fetch, atMs: clock.nowMs() };
    nudges.add(nudge);
    const end = clock.nowMs() + timeoutMs;
    while (!nudges.heard(nudge)) {
      if (clock.nowMs() > end)
        throw new Fault('ENGINE_TIMEOUT', `the controller did not answer within ${Math.round(timeoutMs / 1000)} s`);
      await clock.sleep(50);
    }
    return true;
  }

  /** Resolves to the condition when it is True (and, with a revision, speaks of it), or null at the end of the time: sooner for Ready of a
   * stack that is Stalled at that revision. */
  async wait(
    stack: string,
    type: ConditionType,
    timeoutMs: number,
    revision: string | null,
    signal?: AbortSignal,
  ): Promise<Condition | null> {
    const { store, clock } = this.house;
    const end = clock.nowMs() + timeoutMs;
    for (;;) {
      const conditions = this.#withDown(stack, store.conditions(stack), notBack(this.bench));
      const about = (one: Condition): boolean => revision === null || one.revision.startsWith(revision);
      const found = conditions.find((one) => one.type === type);
      if (found?.status === 'True' && about(found)) return found;
      // A stalled stack waits for a person; at a named revision that cannot be news of an older one.
      const stalled = revision === null ? undefined : conditions.find((one) => one.type === 'Stalled');
      if (type === 'Ready' && stalled?.status === 'True' && about(stalled)) return null;
      if (clock.nowMs() >= end) return null;
      await clock.sleep(100, signal);
    }
  }

  history(stack: string | undefined, limit: number): readonly RunRecord[] {
    return this.house.store.runs({ ...(stack === undefined ? {} : { stack }), limit });
  }

  events(filter: {
    readonly stack?: string;
    readonly afterSeq?: number;
    readonly limit?: number;
  }): readonly StackEvent[] {
    return this.house.store.events(filter);
  }

  /** A stack's containers, or one container by name or id: back to the commit that asked for it. */
  async trace(subject: string): Promise<readonly Traced[]> {
    const index = await this.bench.look.fresh('known');
    const found = index.observed.containers.filter(
      (one) => one.project === subject || one.name === subject || (subject.length >= 6 && one.id.startsWith(subject)),
    );
    if (found.length === 0)
      throw new Fault('NOT_FOUND', `no container is called ${subject}, and no stack of that name has any`);
    return Promise.all(
      found.map(async (one) => {
        const applied = this.house.store.allApplied().find((record) => record.project === one.project);
        const commit = applied ? await this.house.source.commit(applied.revision).catch(() => null) : null;
        return {
          container: one.name,
          service: one.service,
          stack: applied?.stack ?? '',
          image: one.image,
          revision: applied?.revision ?? '',
          subject: commit?.subject ?? '',
          author: commit?.author ?? '',
          signer: null,
        };
      }),
    );
  }

  /** Tells the running controller to look at a stack; false when there is none or it is busy. What was said holds in any case. */
  async tell(stack: string, fetch = false): Promise<boolean> {
    try {
      return await this.nudge(stack, fetch, 10_000);
    } catch (error) {
      if (error instanceof Fault && error.code === 'ENGINE_TIMEOUT') return false;
      throw error;
    }
  }

  /** What somebody is doing to a stack at this moment; null when nobody holds its lease. */
  underWay(stack: string): RunRecord | null {
    if (!isHeld(this.house, stack)) return null;
    return this.house.store.runs({ stack, outcome: 'running', limit: 1 })[0] ?? null;
  }

  hold(stack: string, hold: Omit<Hold, 'sinceMs' | 'service'>): void {
    this.house.store.putHold(stack, { ...hold, service: '', sinceMs: this.house.clock.nowMs() });
  }

  async byHand(stack: string, act: ByHand, signal: AbortSignal): Promise<readonly string[]> {
    await this.#mustKnow(stack);
    const done = await byHand(this.bench, stack, act, signal);
    await this.tell(stack);
    return done;
  }

  async logs(
    stack: string,
    service: string | undefined,
    options: { readonly tail: number; readonly follow: boolean; readonly signal: AbortSignal },
    say: (container: string, line: string) => void,
  ): Promise<void> {
    const index = await this.bench.look.fresh('known');
    const containers = (index.containers.get(stack) ?? []).filter(
      (one) => service === undefined || one.service === service,
    );
    if (containers.length === 0) {
      await this.#mustKnow(stack);
      if (!isOnRecord(this.house.store, stack)) throw neverDeployed(stack);
      throw new Fault('NOT_FOUND', `there is no container of ${service ? `service ${service} of ` : ''}stack ${stack}`);
    }
    await Promise.all(
      containers.map(async (one) => {
        try {
          for await (const line of this.house.runtime.logs(one.id, options))
            say(one.name, this.house.redact(line.text));
        } catch (error) {
          if (!options.signal.aborted) throw error;
        }
      }),
    );
  }

  /** Takes a tip that does not descend from the last accepted commit. */
  async accept(said: string): Promise<string> {
    const { source } = this.house;
    const tip = await source.fetch();
    if (!tip.startsWith(said)) throw new Fault('PLAN_STALE', `${source.spec.ref} is at ${tip}, not at ${said}`);
    await this.#vouched(tip);
    await accept(this.house, tip, { rewritten: true });
    await this.tell('', true);
    return tip;
  }

  /** A person may accept another history, but where signatures are asked for, not a tip that nobody signed. */
  async #vouched(tip: string): Promise<void> {
    const { trust } = this.house;
    if (!trust || trust.deploy === 'none') return;
    const { verifyDeploy } = await import('./operations/trust/deploy-gate.ts');
    await verifyDeploy({ ...this.house, trust: { ...trust, deploy: 'head' } }, await this.bench.reader.read(tip), null);
  }

  /** Where trust stands: anchor, policy in effect, what drifts. Throws USAGE without an anchor. */
  async trustStatus(): Promise<TrustLook> {
    const { lookAtTrust } = await import('./operations/trust/look.ts');
    return lookAtTrust(this.house, await this.house.source.fetch());
  }

  /** Requests of the newest commit, judged now, and those on record; by id. */
  async requests(only?: string): Promise<readonly RequestView[]> {
    const look = await this.trustStatus();
    const views = new Map<string, RequestView>();
    const add = async (id: string, evaluation: RequestEvaluation | null): Promise<void> => {
      const receipt = look.ledger.receipt(id);
      const claimed = receipt && {
        request: requestOf(receipt),
        signatures: only === undefined ? [] : await signaturesOf(receipt, look.anchor.clockSkewMs),
      };
      const said = only === undefined ? [] : await spokenOf(look, id);
      const items = itemsOf(this.house, id);
      const asks = only === undefined || claimed !== null ? null : (evaluation?.request ?? null);
      const discards = asks ? await this.#discardsOf(asks) : only === undefined ? null : await this.#discardsKept(id);
      views.set(id, { id, snapshot: look.ledger.snapshot(id), evaluation, claimed, discards, items, said });
    };
    const judged = new Map(look.requests.map(({ id, evaluation }) => [id, evaluation]));
    for (const id of new Set([...look.ledger.snapshots().map((one) => one.id), ...judged.keys()]))
      if (only === undefined || only === id) await add(id, judged.get(id) ?? null);
    for (const { id, evaluation } of look.misnamed)
      if (only === undefined || only === id)
        views.set(id, { id, snapshot: null, evaluation, claimed: null, discards: null, items: [], said: [] });
    return [...views.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  async #discardsOf(request: SignedRequest): Promise<readonly Discard[] | null> {
    const { discardsOf } = await import('./operations/trust/discards-of.ts');
    try {
      return await discardsOf(this.bench, request, new AbortController().signal);
    } catch (error) {
      if (error instanceof Fault) return null;
      throw error;
    }
  }

  async #discardsKept(id: string): Promise<readonly Discard[] | null> {
    const { keptDiscards } = await import('./operations/trust/discards-of.ts');
    return keptDiscards(this.house, id);
  }

  /** The evidence of one request that was claimed. Throws NOT_FOUND. */
  receipt(id: string): Receipt {
    const receipt = this.house.trust?.ledger?.receipt(id);
    if (!receipt) throw new Fault('NOT_FOUND', `there is no receipt of a request ${id}`);
    return receipt;
  }

  /** One archive of a deployed stack. */
  async backup(stack: string, signal: AbortSignal, note: (line: string) => void): Promise<BackedUp> {
    await this.#mustKnow(stack);
    if (!isOnRecord(this.house.store, stack)) throw neverDeployed(stack);
    return backup(this.bench, stack, { signal, note });
  }

  /** One archive of each stack of a group, and one that names them with their graph. */
  backupGroup(group: string, signal: AbortSignal, note: (line: string) => void): Promise<GroupBackedUp> {
    return backupGroup(this.bench, group, signal, note);
  }

  /** Rehearses a restore of the newest archive of a stack. */
  drill(stack: string, signal: AbortSignal, note: (line: string) => void): Promise<LastDrill> {
    return drill(this.bench, stack, { signal, note });
  }

  get archives(): Archives {
    return new Archives(this.house);
  }

  /** Of a replica, by its name. */
  archivesOf(replica: string | undefined): Archives {
    return new Archives(this.house, replica);
  }

  /** How the replicas stand, from what is on record. */
  replicas(): readonly ReplicaStatus[] {
    return replicaStatuses(this.house);
  }

  /** Copies what the replicas lack. One that fails does not stop the others. */
  async replicate({ to, ...options }: ReplicateOptions & { readonly to?: string }): Promise<readonly ReplicaRun[]> {
    const all = this.house.archives?.replicas ?? [];
    const runs: ReplicaRun[] = [];
    for (const replica of to === undefined ? all : [replicaNamed(this.house, to)])
      runs.push({ name: replica.name, ...(await replicateOnRecord(this.house, replica, options)) });
    return runs;
  }

  /** An archive of a replica into the store. `trust`: a key of another controller, from now on trusted. */
  bringBack(from: string, id: string, trust: string | undefined, signal: AbortSignal): Promise<Copied> {
    const replica = replicaNamed(this.house, from);
    return this.archives.trusting(trust, (also) => bringBack(this.house, replica, id, signal, also));
  }

  /** Which holds were lifted. Throws LOCK_HELD while a restore or a move of it is not finished. */
  release(stack: string): readonly Hold[] {
    const { store } = this.house;
    this.#refuseUnfinished(stack);
    const move = movedBy(this.bench, stack);
    if (move !== null) {
      const { trust } = this.house;
      const state = trust?.ledger?.snapshot(move)?.state;
      // Without the settings of its controller it cannot be told what became of it.
      if (!trust?.ledger || state === 'claimed' || state === 'executing')
        throw new Fault('LOCK_HELD', `the request ${move}, which moves ${stack}, is not finished`);
      forgetMove(this.bench, stack);
    }
    const lifted = store.holds(stack);
    for (const hold of lifted) store.deleteHold(stack, hold.kind, hold.service);
    store.deleteValue(`refused/${stack}`);
    return lifted;
  }

  #refuseUnfinished(stack: string): void {
    const restoring = unfinishedRestores(this.house).find(({ plan }) => plan.target === stack);
    if (restoring) throw new Fault('LOCK_HELD', `the restore ${restoring.id} of ${stack} is not finished`);
  }

  /** What going back would change. */
  async previewRollback(stack: string, to: string | undefined): Promise<RollbackPreview> {
    await this.#mustKnow(stack);
    return previewRollback(this.bench, stack, to);
  }

  async rollback(stack: string, to: string | undefined): Promise<{ readonly from: string; readonly to: string }> {
    const { at, denied } = await this.plan([stack]);
    if (denied) throw denied;
    return manualRollback(this.bench, stack, at, to);
  }

  /** `names`: these alone, also what stays by itself. `never` = why not even a person's word removes anything. Throws HISTORY_REWRITTEN or
   * NOT_VERIFIED: what such a tip lacks did not leave. */
  async prunable(names: readonly string[] = []): Promise<{
    readonly gone: Gone;
    /** Those of `gone` that live by a request: git never declared them. */
    readonly byRequest: readonly string[];
    readonly lostHooks: ReadonlyMap<string, string>;
    readonly orphans: readonly Orphan[];
    readonly never: Fault | null;
  }> {
    const at = await this.fleet();
    const denied = await this.#denied(at);
    if (denied) throw denied;
    const { store, settings } = this.house;
    const ever = everDeployed(store);
    const gone = names.length > 0 ? goneNamed(at.fleet, ever, names) : goneOf(at.fleet, ever, settings.pruneLimit);
    for (const name of names) this.#refuseUnfinished(name);
    for (const one of names.length > 0 ? gone.removable : [])
      if (isOnItsWay(store, one))
        throw new Fault('LOCK_HELD', `${one.stack} belongs to a restore or a drill, which takes it away itself`);
    const unreadable = at.fleet.diagnostics.find((one) => one.severity === 'error');
    return {
      gone,
      byRequest: livesByRequest(store, at.fleet).map(({ stack }) => stack),
      lostHooks: (await this.#aroundUninstalls(gone)).lost,
      orphans: orphans(this.house),
      never: unreadable ? new Fault('PRUNE_GUARD', `the fleet cannot be read as a whole: ${unreadable.summary}`) : null,
    };
  }

  /** `digest` names the list that a person saw. What fails does not stop the others. */
  async prune(
    digest: string,
    stop: AbortSignal,
    signal: AbortSignal,
    names: readonly string[] = [],
  ): Promise<{ readonly removed: readonly RunRecord[]; readonly failures: ReadonlyMap<string, Fault> }> {
    const { gone, byRequest, never } = await this.prunable(names);
    if (never) throw never;
    if (digest !== gone.digest) throw new Fault('PLAN_STALE', `the list is another one now: ${gone.digest}`);
    const removed: RunRecord[] = [];
    const failures = new Map<string, Fault>();
    for (const one of gone.removable) {
      if (stop.aborted) break;
      try {
        removed.push(await uninstall(this.bench, one, 'prune', signal));
        if (byRequest.includes(one.stack)) forgetByRequest(this.house.store, one.stack, false);
      } catch (error) {
        failures.set(one.stack, asFault(error, 'ENGINE_REFUSED'));
      }
    }
    return { removed, failures };
  }

  /** Runs one hook phase by hand, as the stack is deployed. Throws the Fault of one that does not end well; its record is in the history. */
  async runHooks(
    name: string,
    phase: HookPhase,
    signal: AbortSignal,
    note: (line: string) => void,
  ): Promise<HookRecord | null> {
    return runByHand(this.bench, await this.fleet(), name, phase, { signal, note });
  }

  /** What the actions of a phase printed when it last ran. */
  hookLogs(stack: string, phase: HookPhase): readonly KeptLog[] {
    return hookLogs(this.bench, stack, phase);
  }

  /** Another number of containers of a suspended stack's services. */
  async scale(stack: string, wanted: ReadonlyMap<string, number>, signal: AbortSignal): Promise<readonly Scaled[]> {
    const one = this.#only(stack, (await this.plan([stack])).surveyed);
    const judged = one.kind === 'judged' ? one : one.kind === 'refused' ? one.judged : null;
    if (judged) return scaleStack(this.bench, judged, wanted, signal);
    if (one.kind === 'refused') throw one.fault;
    throw new Fault('USAGE', `stack ${stack} cannot be read; \`windlass validate\` says why`);
  }

  /** Breaks the lease of a stack. Throws LOCK_HELD while its owner may still be at work, unless `force`. False when there was none. */
  unlock(stack: string, force: boolean): boolean {
    const { store, clock, settings } = this.house;
    const lease = store.leases().find((one) => one.name === leaseName(stack));
    if (!lease) return false;
    if (!force && lease.expiresAtMs > clock.nowMs() && !settings.hasEnded(lease.owner))
      throw new Fault('LOCK_HELD', `stack ${stack} is locked by ${lease.owner}, which may still be at work`, {
        data: { stack, owner: lease.owner, until: new Date(lease.expiresAtMs).toISOString() },
      });
    store.breakLease(lease.name);
    return true;
  }

  newController(options: {
    readonly pollMs: number;
    readonly intervalMs: number;
    readonly log: (line: string) => void;
    readonly progress?: (stack: string) => Observer;
  }): Controller {
    return new Controller({ house: this.house, ...options });
  }

  #unknown(name: string, at: FleetAt): Fault {
    if (livesByRequest(this.house.store, at.fleet).some(({ stack }) => stack === name))
      return new Fault(
        'NOT_FOUND',
        `git declares no stack ${name}, which lives by a request: \`windlass diff ${name}\` tells how it differs from what that made, \`windlass prune ${name}\` takes it away`,
      );
    return unknownStack(name, at.fleet, at.revision);
  }
}

export type { ListedArchive } from './operations/archive/archives.ts';
export type { SecretName, StackDiff, Succession };
export { FLEET, formatDiscard, formatDiscarded };
