// Controller: the loop. Watches only add keys; a sweep judges every stack from one look at the engine; a pass works on one stack.
// Level-triggered: what is done depends on the state alone, never on what woke us.

import type { ObservedIndex } from '../core/diff/index-observed.ts';
import { asFault, Fault } from '../core/fault.ts';
import type { LoadedStack } from '../core/spec/loaded.ts';
import type { Hold } from '../core/state/applied.ts';
import { backoffMs } from '../core/status/backoff.ts';
import type { Condition } from '../core/status/condition.ts';
import { FAULT_REASONS } from '../core/status/fault-reason.ts';
import { nextHealMs, recentHeals } from '../core/status/heal.ts';
import type { Outcome, Verification } from '../core/status/settle.ts';
import { inWindow } from '../core/status/window.ts';
import type { Observer } from '../engine/observer.ts';
import { archiveMaker } from '../operations/archive/backup.ts';
import { disownDrills } from '../operations/archive/drill.ts';
import { sweepKept } from '../operations/archive/generations.ts';
import { stacksAtRest } from '../operations/archive/quiesce.ts';
import { isRunningHere, type RestoreRecord, resumeRestore, unfinishedRestores } from '../operations/archive/restore.ts';
import { isAgainstGit, livesByRequest } from '../operations/by-request.ts';
import { deploy } from '../operations/deploy.ts';
import type { FleetAt } from '../operations/fleet-at.ts';
import { forgetUndeclared } from '../operations/forget-undeclared.ts';
import { everDeployed, goneOf, isOnRecord, leftOf } from '../operations/gone.ts';
import { type Awaited, awaitsArchive, holdNow, NONE_AWAITED, settleHolds } from '../operations/hold-now.ts';
import type { House } from '../operations/house.ts';
import { endRunsLeft, endRunsOfTheDead } from '../operations/interrupted-runs.ts';
import { isHeld, isShut } from '../operations/leases.ts';
import { accept, acceptedKey, brokenLineage } from '../operations/lineage.ts';
import { type Leaving, type Succession, successionsOf } from '../operations/ports-claimed.ts';
import { rollBack } from '../operations/rollback.ts';
import { healsOf, settleStack, untouchedOutcome } from '../operations/settle-stack.ts';
import { cutOf, sweepHookJobs, type TakenUp } from '../operations/steps/run-hook.ts';
import { comingOf, type Judged, type Surveyed } from '../operations/survey.ts';
import { formatTakenUp, stacksLeft, takeUp } from '../operations/take-up.ts';
import { uninstall } from '../operations/uninstall.ts';
import { unverified, verificationOf } from '../operations/unverified.ts';
import { needsWork, Workbench } from '../operations/workbench.ts';
import { BACKUP_LOOK_MS, BackupSchedule, type BackupScheduleOptions, DrillSchedule } from './backup-schedule.ts';
import { Nudges } from './nudges.ts';
import { type Answer, Queue } from './queue.ts';
import { REPLICA_LOOK_MS, Replication } from './replication.ts';
import { poll } from './watch/poll.ts';
import { gitDirOf, watchPushes } from './watch/push.ts';
import { watchRuntime } from './watch/runtime.ts';
import { WorkerSlots } from './worker-slots.ts';

export interface ControllerOptions {
  readonly house: House;
  readonly pollMs: number;
  /** Everything is compared this often, whatever events said. */
  readonly intervalMs: number;
  /** Progress of the deploys, for the log. */
  readonly progress?: (stack: string) => Observer;
  readonly log: (line: string) => void;
}

/** The pseudo stack that carries what is true of the fleet as a whole. */
export const FLEET = '@fleet';
/** A source that answers, and whose newest commit is not taken. */
const DENIED: Readonly<Record<string, 'HistoryRewritten' | 'NotVerified'>> = {
  HISTORY_REWRITTEN: 'HistoryRewritten',
  NOT_VERIFIED: 'NotVerified',
};
/** Stacks in flight at once, waiting ones included; only `concurrency` of them change the engine. */
const IN_FLIGHT = 64;
const NUDGE_POLL_MS = 200;
/** After trouble of our own the source is looked at again sooner than the poll would. */
const TROUBLE_MS = 5_000;
/** No further push for so long: then the newest takes the place of what is worked on. */
const QUIET_MS = 1_000;
/** The sign of life that other processes see; a controller that was killed is gone for them soon after. */
const BEAT_MS = 5_000;
/** What could not be brought back to work is left for so long before the next try. */
const REST_RETRY_MS = 60_000;

/** What has ended: not always that the source did not answer. */
function recovered({ reason, message }: Pick<Condition, 'reason' | 'message'>, tip: string): string {
  if (reason === 'NotVerified') return 'the newest commit is accepted';
  if (reason !== 'HistoryRewritten') return 'the source answers again';
  const denied = / is at ([0-9a-f]{12}),/.exec(message)?.[1];
  return denied !== undefined && tip.startsWith(denied)
    ? 'the rewritten history was accepted'
    : 'the newest commit goes on from an accepted one again';
}

export class Controller {
  readonly #options: ControllerOptions;
  readonly #house: House;
  readonly #bench: Workbench;
  readonly #queue: Queue;
  readonly #backups: BackupSchedule;
  readonly #replication: Replication;
  readonly #drills: DrillSchedule;
  readonly #slots: WorkerSlots;
  readonly #stop = new AbortController();
  /** Aborted by a second signal: running cells end too. */
  readonly #now = new AbortController();
  readonly #nudges: Nudges;
  #at: FleetAt | null = null;
  #fetching: Promise<void> | null = null;
  #fetchAgain = false;
  #sweeping: Promise<void> | null = null;
  #sweepAgain: string | null = null;
  #engineLost: Fault | null = null;
  /** Why the source could not be read at the last look; undefined before the first. */
  #sourceLost: Fault | null | undefined;
  /** The last look at the source saw it, and took what it saw. */
  #isSourceSeen = false;
  /** As of the last look. */
  #restoring: readonly RestoreRecord[] = [];
  /** Stack → the authorised request that brings it back: until then it is not deployed for the first time. */
  #awaited: Awaited = NONE_AWAITED;
  #verified: Verification = { kind: 'disabled' };
  readonly #refusedAtSweep = new Map<string, Fault>();
  /** What is worked on now: another declaration of it takes its place. */
  #superseding: AbortController | null = null;
  readonly #inWork = new Map<string, { readonly sourceDigest: string; readonly superseded: AbortController }>();
  /** Stacks whose interrupted hooks are being brought to their end: nothing else is done to them meanwhile. */
  readonly #finishing = new Map<string, Promise<void>>();
  /** Stack → the hook phase that the crash before made fail: its operation has failed, and is tried again when any failed one is. */
  readonly #cut = new Map<string, TakenUp>();
  /** Stacks that a dead process left at rest and that could not be woken → when it is tried again. */
  readonly #wakeAgain = new Map<string, number>();
  /** Resolved when the source was looked at for the first time, whatever came of it. */
  readonly #looked = Promise.withResolvers<void>();
  readonly #loops: Promise<unknown>[] = [];
  readonly #closers: (() => Promise<void>)[] = [];

  constructor(options: ControllerOptions) {
    this.#options = options;
    this.#house = options.house;
    this.#bench = new Workbench(options.house);
    this.#bench.makeArchive = archiveMaker(this.#bench);
    this.#slots = new WorkerSlots(options.house.settings.concurrency);
    this.#nudges = new Nudges(options.house.store);
    this.#queue = new Queue({
      clock: options.house.clock,
      concurrency: IN_FLIGHT,
      delayMs: backoffMs,
      work: async (key, triggers) => {
        // Comes back when they are finished.
        if (this.#finishing.has(key)) return { kind: 'done' };
        const answer = await this.#pass(key, triggers);
        if (this.#at && !this.#engineLost) await this.#backups.take(this.#at, key);
        return answer;
      },
      onError: (key, error) => this.#options.log(`error ${key}: ${this.#house.redact(String(error))}`),
    });
    const scheduled = {
      bench: this.#bench,
      say: (...words: Parameters<BackupScheduleOptions['say']>) => this.#say(...words),
      log: options.log,
      signal: AbortSignal.any([this.#stop.signal, this.#now.signal]),
    };
    this.#replication = new Replication({
      house: options.house,
      say: (...words) => this.#say(FLEET, ...words),
      log: options.log,
      signal: AbortSignal.any([this.#stop.signal, this.#now.signal]),
    });
    this.#backups = new BackupSchedule({ ...scheduled, hint: (stack) => this.#queue.hint(stack, 'backup') });
    this.#drills = new DrillSchedule(scheduled);
  }

  /** Starts the watches and the first sweep; resolves when both are on. */
  async start(): Promise<void> {
    const { source, clock, runtime, store } = this.#house;
    // Their stacks are found by the sweep: an attempt is on record.
    endRunsOfTheDead(this.#house, (stack) => isHeld(this.#house, stack));
    disownDrills(this.#house);
    await this.#sweepHelpers();
    this.#finishHooks();
    await this.#finishRestores();
    await this.#drills.sweep();
    const gitDir = source.spec.url.startsWith('/') ? gitDirOf(source.spec.url) : null;
    if (gitDir) this.#closers.push(await watchPushes(gitDir, () => void this.refresh('push')));
    const signal = this.#stop.signal;
    this.#loops.push(
      poll(clock, this.#options.pollMs, signal, () => this.refresh('poll')),
      poll(clock, this.#options.intervalMs, signal, async () => {
        await this.sweep('schedule', true);
        if (this.#engineLost) return;
        await this.#sweepJobs().catch((error) => this.#lostEngine(error));
        await this.#sweepKept();
        await this.#finishRestores();
      }),
      watchRuntime(runtime, clock, signal, {
        look: (project, what) => {
          if (project !== '' && this.#knows(project)) this.#queue.hint(project, 'engine');
          else if (project === '' && this.#matters(what)) void this.sweep(what);
        },
        lost: (error) => this.#lostEngine(error),
        connected: () => void this.sweep('engine connected', true),
      }),
      this.#watchNudges(signal),
      poll(clock, BACKUP_LOOK_MS, signal, () => this.#backups.look(this.#engineLost ? null : this.#at)),
      ...((this.#house.archives?.replicas ?? []).length > 0
        ? [poll(clock, REPLICA_LOOK_MS, signal, () => this.#replication.look())]
        : []),
      poll(clock, BACKUP_LOOK_MS, signal, () => this.#drills.look(this.#engineLost ? null : this.#at)),
    );
    const sinceMs = clock.nowMs();
    const beat = (): void =>
      store.putValue('controller', { owner: this.#house.settings.owner, sinceMs, beatMs: clock.nowMs() });
    beat();
    this.#loops.push(
      poll(clock, BEAT_MS, signal, async () => {
        try {
          beat();
        } catch (error) {
          this.#troubled('the sign of life', error);
        }
        this.#afterTheDead();
      }),
    );
    await this.refresh('start');
  }

  /** Running cells finish, nothing new starts; `hurry` ends them too. Resolves when all is quiet. */
  async stop(): Promise<void> {
    this.#stop.abort(new Fault('CANCELLED', 'the controller stops'));
    this.#superseding?.abort();
    this.#looked.resolve();
    for (const close of this.#closers) await close();
    await this.#queue.close();
    await Promise.allSettled([...this.#loops, ...this.#finishing.values(), this.#fetching, this.#sweeping]);
    this.#house.store.deleteValue('controller');
  }

  hurry(): void {
    this.#now.abort(new Fault('CANCELLED', 'stopped at once'));
  }

  /** Fetches and, when the tip moved, loads and sweeps. Calls that come while one runs become one more. */
  refresh(trigger: string): Promise<void> {
    if (this.#fetching) {
      this.#fetchAgain = true;
      return this.#fetching;
    }
    this.#fetching = (async () => {
      try {
        do {
          this.#fetchAgain = false;
          await this.#fetch(trigger).finally(() => this.#looked.resolve());
          await this.#runRequests();
        } while (this.#fetchAgain && !this.#stop.signal.aborted);
      } catch (error) {
        this.#troubled('look at the source', error);
        this.#house.clock.sleep(TROUBLE_MS, this.#stop.signal, true).then(
          () => this.refresh('retry'),
          () => {},
        );
      } finally {
        this.#fetching = null;
      }
    })();
    return this.#fetching;
  }

  /** What is ours failed, as on a full disk: it is told, and the next look at the source or the schedule tries again. */
  #troubled(what: string, error: unknown): void {
    if (this.#stop.signal.aborted) return;
    this.#options.log(
      `error ${what} failed: ${this.#house.redact(asFault(error, 'FILES_FAILED').message)}; tried again later`,
    );
  }

  async #fetch(trigger: string): Promise<void> {
    const { source, store } = this.#house;
    this.#isSourceSeen = false;
    let tip: string | null;
    let isFetched = true;
    try {
      tip = await source.fetch(this.#stop.signal);
    } catch (error) {
      isFetched = false;
      if (this.#stop.signal.aborted) return;
      this.#settleFleet({ kind: 'source-unreachable', fault: asFault(error, 'GIT_UNREACHABLE') });
      // After a restart without network the last good tip is still known.
      tip = this.#at ? null : await source.tip();
      if (tip === null) return;
    }
    if (tip === this.#at?.revision.commit) {
      this.#isSourceSeen = isFetched;
      this.#settleFleet({ kind: 'ok' });
      return;
    }
    const accepted = store.value(acceptedKey(source.spec.name));
    let denied: Fault | null = null;
    try {
      denied = await brokenLineage(this.#house, tip);
      let at = denied ? null : await this.#bench.reader.read(tip);
      denied ??= at ? await unverified(this.#bench, at, this.#at) : null;
      this.#verified = verificationOf(this.#house, denied, tip);
      if (denied) {
        this.#settleFleet({ kind: 'source-unreachable', fault: denied });
        // What was verified last keeps running; after a restart it is known from the state.
        if (this.#at) return void (denied.code === 'NOT_VERIFIED' && (await this.sweep(trigger)));
        if (typeof accepted !== 'string') return;
        at = await this.#bench.reader.read(accepted);
      } else await accept(this.#house, tip);
      // Also where the newest commit is denied: what a request of the one that counts is to bring back is not made empty meanwhile.
      if (at) await this.#await(at.revision.commit);
      this.#at = at;
    } catch (error) {
      this.#settleFleet({ kind: 'source-unreachable', fault: asFault(error, 'GIT_OBJECT_MISSING') });
      return;
    }
    if (!this.#at) return;
    this.#isSourceSeen = isFetched && denied === null;
    if (denied === null) this.#settleFleet({ kind: 'ok' });
    this.#supersedeSoon();
    for (const name of this.#at.fleet.stacks.keys()) this.#queue.forget(name);
    await this.sweep(trigger);
  }

  /** Requests of the accepted commit: judged at each look at the source, since approvals, delays and revocations come without a push. */
  async #runRequests(): Promise<void> {
    const tip = this.#at?.revision.commit;
    // On a source that cannot be read, or a tip that is not accepted, a rejection may be waiting: nothing is carried out.
    if (tip === undefined || !this.#isSourceSeen || !this.#house.trust?.anchor || this.#stop.signal.aborted) return;
    try {
      const { runRequests } = await import('../operations/trust/run-requests.ts');
      const busy = (stack: string) => this.#inWork.has(stack) || this.#finishing.has(stack);
      const { ran } = await runRequests(this.#bench, tip, this.#now.signal, busy, this.#options.log);
      const before = this.#awaited;
      if (before.stacks.size > 0 || before.unknown !== null) await this.#await(tip);
      const { stacks, unknown } = this.#awaited;
      const isLess = stacks.size < before.stacks.size || (before.unknown !== null && unknown === null);
      if (ran.length > 0 || isLess) void this.sweep('request');
    } catch (error) {
      this.#options.log(`error requests: ${this.#house.redact(asFault(error, 'ENGINE_REFUSED').message)}`);
    }
  }

  async #await(tip: string): Promise<void> {
    if (!this.#house.trust?.anchor) return;
    const { awaitedStacks, settleAwaited } = await import('../operations/trust/awaited.ts');
    this.#awaited = await awaitedStacks(this.#house, tip);
    settleAwaited(this.#house, this.#awaited);
  }

  #holdOf(stack: LoadedStack): Hold | null {
    const hold = awaitsArchive(this.#house, this.#awaited, stack.name);
    if (hold !== null) return hold;
    const now = holdNow(this.#house, stack, this.#restoring);
    return now !== null && isAgainstGit(now) && this.#isByRequest(stack.name) ? null : now;
  }

  /** What lives although git does not declare it. */
  #byRequest(): readonly string[] {
    const fleet = this.#at?.fleet;
    return fleet ? livesByRequest(this.#house.store, fleet).map(({ stack }) => stack) : [];
  }

  /** Of one that is not on record nothing else is read: foreign projects make events too. */
  #isByRequest(stack: string): boolean {
    return this.#house.store.applied(stack) !== null && this.#byRequest().includes(stack);
  }

  /** Judges all stacks from one look and queues those that need work. `everything` also inspects each container. */
  sweep(trigger: string, everything = false): Promise<void> {
    if (this.#sweeping) {
      this.#sweepAgain = trigger;
      return this.#sweeping;
    }
    this.#sweeping = (async () => {
      let why: string | null = trigger;
      let all = everything;
      try {
        while (why !== null && !this.#stop.signal.aborted) {
          this.#sweepAgain = null;
          await this.#sweepOnce(why, all);
          why = this.#sweepAgain;
          all = false;
        }
      } catch (error) {
        this.#troubled('look at the stacks', error);
      } finally {
        this.#sweeping = null;
      }
    })();
    return this.#sweeping;
  }

  async #sweepOnce(trigger: string, everything: boolean): Promise<void> {
    const at = this.#at;
    if (!at) return;
    settleHolds(this.#house, at);
    this.#restoring = unfinishedRestores(this.#house);
    let surveyed: readonly Surveyed[];
    let successions: readonly Succession[];
    try {
      const byRequest = livesByRequest(this.#house.store, at.fleet).map(({ stack }) => stack);
      const index = await this.#bench.look.fresh(everything ? [...at.fleet.stacks.keys(), ...byRequest] : 'known');
      if (this.#engineLost) this.#foundEngine();
      const leaving = this.#leaving(at);
      const names = [...at.fleet.stacks.keys(), ...at.fleet.broken.keys(), ...byRequest];
      surveyed = await this.#bench.survey(names, at, index, leaving);
      successions = successionsOf(comingOf(surveyed), index, leaving.now);
    } catch (error) {
      this.#lostEngine(error);
      return;
    }
    this.#refusedAtSweep.clear();
    for (const one of surveyed) {
      if (this.#finishing.has(one.name)) continue;
      if (this.#queue.busy(one.name)) {
        // Its next pass is because of this, whatever the engine says meanwhile.
        const work = this.#inWork.get(one.name);
        if (work && one.kind === 'judged' && one.stack.sourceDigest !== work.sourceDigest)
          this.#queue.hint(one.name, trigger);
        continue;
      }
      if (one.kind === 'judged') {
        if (needsWork(one) && !this.#heldBack(one)) this.#queue.hint(one.name, trigger);
        else this.#settleJudged(one);
      } else if (one.kind === 'refused' && one.stack === null)
        this.#settle(one.name, null, { kind: 'failed', fault: one.fault });
      else {
        if (one.kind === 'refused') this.#refusedAtSweep.set(one.name, one.fault);
        this.#queue.hint(one.name, trigger);
      }
    }
    forgetUndeclared(this.#house.store, at.fleet, (stack) => this.#isAtWork(stack));
    await this.#prune(at, trigger, successions);
  }

  /** By whatever means: a restore's target need not be declared yet. */
  #isAtWork(stack: string): boolean {
    const isRestored = this.#restoring.some(({ plan }) => plan.target === stack);
    return isRestored || this.#queue.busy(stack) || this.#finishing.has(stack) || isHeld(this.#house, stack);
  }

  /** Held stacks are settled in the sweep: they need no pass. */
  #heldBack(one: Judged): boolean {
    return this.#holdOf(one.stack) !== null;
  }

  async #pass(name: string, triggers: ReadonlySet<string>): Promise<Answer> {
    const at = this.#at;
    if (!at || this.#stop.signal.aborted) return { kind: 'done' };
    const trigger = [...triggers].join(', ');
    this.#restoring = unfinishedRestores(this.#house);
    let one: Surveyed | undefined;
    let index: ObservedIndex;
    try {
      index = await this.#bench.look.fresh([name]);
      [one] = await this.#bench.survey([name], at, index, this.#leaving(at));
    } catch (error) {
      this.#lostEngine(error);
      return { kind: 'done' };
    }
    if (!one) return { kind: 'done' };
    const waits = (judged: Judged | null, outcome: Outcome) => this.#waits(name, index, judged, outcome, trigger);
    if (one.kind === 'invalid') return waits(null, { kind: 'invalid', diagnostics: one.diagnostics });
    const clash = this.#refusedAtSweep.get(name);
    if (one.kind === 'refused') {
      if (one.stack === null) {
        if (this.#isByRequest(name)) return this.#settle(name, null, { kind: 'failed', fault: one.fault });
        // It left the fleet while it was worked on.
        void this.sweep(trigger);
        return { kind: 'done' };
      }
      return waits(one.judged, { kind: 'failed', fault: one.fault });
    }
    if (
      (clash?.code === 'PORT_TAKEN' || clash?.code === 'NAME_TAKEN') &&
      one.diff.changes.some((change) => change.repair === 'create')
    )
      if (triggers.size === 1 && !triggers.has('retry')) return waits(one, { kind: 'failed', fault: clash });
    this.#refusedAtSweep.delete(name);
    return this.#work(one, trigger);
  }

  /** What is asked for cannot be deployed now. Meanwhile what runs is kept as it was deployed. */
  async #waits(
    name: string,
    index: ObservedIndex,
    judged: Judged | null,
    outcome: Outcome,
    trigger: string,
  ): Promise<Answer> {
    const drifted = await this.#bench.drifted(name, index);
    const healed = drifted && !this.#heldBack(drifted) ? await this.#work(drifted, trigger) : null;
    const answer = this.#settle(name, judged, outcome);
    return healed === null || healed.kind === 'done' ? answer : healed;
  }

  async #work(one: Judged, trigger: string): Promise<Answer> {
    const { clock } = this.#house;
    const now = clock.nowMs();
    const cut = this.#takeCut(one.name, one.resolved.desired.digest, one.attempt?.operation ?? 'deploy');
    const hold = this.#holdOf(one.stack);
    if (hold) return this.#settle(one.name, one, { kind: hold.kind, reason: hold.reason, untilMs: hold.untilMs });
    if (!needsWork(one)) return this.#settleJudged(one);
    const { situation } = one.diff;
    const healing = situation === 'drift';
    if (healing && one.attempt === null && one.stack.drift !== 'heal') return this.#settleJudged(one);
    if (healing && one.attempt === null) {
      // Somebody or something undoes our repairs: each further one waits longer.
      const healAtMs = nextHealMs(healsOf(this.#house, one.name), now);
      if (healAtMs > now)
        return this.#settle(one.name, one, {
          kind: 'drift-found',
          policy: 'heal',
          changes: one.diff.changes.length,
          healAtMs,
        });
    }
    const provider = this.#missingProvider(one.stack);
    const waits = (outcome: Outcome) => this.#waits(one.name, one.index, one, outcome, trigger);
    if (provider && !healing) return waits({ kind: 'waiting', provider });
    if (!healing) {
      const { windows } = one.stack;
      const window = inWindow(windows.length > 0 ? windows : this.#house.settings.windows, now);
      if (!window.open) return waits({ kind: 'outside-window', nextOpenMs: window.nextOpenMs ?? 0 });
    }
    if (isShut(this.#house, one.name)) {
      // What rests for a backup comes back with its end: it has not drifted, and nothing is begun that would only be refused.
      this.#settle(one.name, one, { kind: 'progressing' });
      return { kind: 'backoff' };
    }
    this.#settle(one.name, one, { kind: 'progressing' });
    this.#options.log(
      `${one.name}: ${situation === 'drift' ? 'heal' : 'deploy'} ${one.at.revision.commit.slice(0, 7)} (${trigger})`,
    );
    // Read again in the very moment in which the lease is taken: a restore of it may have begun.
    this.#restoring = unfinishedRestores(this.#house);
    if (this.#heldBack(one)) return this.#settleJudged(one);
    let fault: Fault | undefined;
    const superseded = new AbortController();
    // What is asked for, also while an older revision takes its place.
    this.#inWork.set(one.name, { sourceDigest: one.insteadOf?.sourceDigest ?? one.stack.sourceDigest, superseded });
    try {
      const outcome = await deploy({
        bench: this.#bench,
        judged: [one],
        layers: [[one.name]],
        trigger,
        stop: this.#stop.signal,
        signal: this.#now.signal,
        worker: this.#slots,
        superseded: new Map([[one.name, superseded.signal]]),
        ...(cut ? { cut: new Map([[one.name, cut]]) } : {}),
        // Of the newest commit, also where an older one counts for this stack: what came after that did not leave.
        leaving: this.#at ? this.#leaving(this.#at).now : [],
        ...(this.#options.progress ? { progress: this.#options.progress(one.name) } : {}),
      });
      fault = outcome.failures.get(one.name);
      for (const { stack } of outcome.removed) this.#uninstalled(stack);
    } catch (error) {
      if (this.#stop.signal.aborted) return { kind: 'done' };
      fault = asFault(error, 'ENGINE_REFUSED');
    } finally {
      this.#inWork.delete(one.name);
    }
    if (fault?.data['outcome'] === 'superseded') {
      const held = this.#holdOf(one.stack);
      if (held) return this.#settle(one.name, one, { kind: held.kind, reason: held.reason, untilMs: held.untilMs });
      return this.#settle(one.name, null, { kind: 'superseded' });
    }
    if (fault?.code === 'CANCELLED') return { kind: 'done' };
    const after = await this.#again(one);
    if (fault) {
      if (one.stack.onFailure === 'rollback' && !healing && (await rollBack(this.#bench, after ?? one, fault))) {
        this.#queue.add(one.name, 'rollback');
        return this.#settle(one.name, after, { kind: 'failed', fault });
      }
      return this.#settle(one.name, after, { kind: 'failed', fault });
    }
    const heals = healing && one.diff.changes.length > 0 ? this.#countHeal(one.name, now) : 0;
    const answer = this.#settle(
      one.name,
      after,
      healing && heals > 0
        ? { kind: 'healed', healsInARow: heals, changes: one.diff.changes.length }
        : { kind: 'deployed' },
    );
    for (const [name, stack] of one.at.fleet.stacks)
      if (Object.values(stack.integrate).includes(one.name)) this.#queue.add(name, `provider ${one.name} is ready`);
    return answer;
  }

  async #again(one: Judged): Promise<Judged | null> {
    try {
      return await this.#bench.surveyor.again(one, await this.#bench.look.fresh('known'));
    } catch {
      return null;
    }
  }

  #settleJudged(one: Judged): Answer {
    return this.#settle(one.name, one, untouchedOutcome(one, this.#holdOf(one.stack)));
  }

  #missingProvider(stack: LoadedStack): string | null {
    for (const provider of Object.values(stack.integrate)) {
      const ready = this.#house.store.conditions(provider).find((one) => one.type === 'Ready');
      if (ready?.status !== 'True') return provider;
    }
    return null;
  }

  #countHeal(name: string, now: number): number {
    const heals = recentHeals([...healsOf(this.#house, name), now], now);
    this.#house.store.putValue(`heals/${name}`, heals);
    return heals.length;
  }

  #settle(name: string, judged: Judged | null, outcome: Outcome): Answer {
    const { comeBack, event } = settleStack(this.#house, name, {
      judged,
      newest: this.#at?.revision.commit ?? '',
      verified: this.#verified,
      outcome,
      failures: this.#queue.failures(name),
    });
    if (event) this.#logEvent(name, event.level, event.reason, event.message);
    if (comeBack === 'backoff') return { kind: 'backoff' };
    if (typeof comeBack === 'object') return { kind: 'after', ms: comeBack.afterMs };
    return { kind: 'done' };
  }

  #say(stack: string, level: 'info' | 'warning' | 'error', reason: string, message: string): void {
    const { store, clock } = this.#house;
    store.appendEvent({
      atMs: clock.nowMs(),
      stack,
      level,
      reason,
      message,
      revision: this.#at?.revision.commit ?? '',
    });
    this.#logEvent(stack, level, reason, message);
  }

  #logEvent(stack: string, level: 'info' | 'warning' | 'error', reason: string, message: string): void {
    this.#options.log(`${level === 'info' ? '' : `${level} `}${stack}: ${reason}${message ? `: ${message}` : ''}`);
  }

  #settleFleet(state: { kind: 'ok' } | { kind: 'source-unreachable'; fault: Fault }): void {
    this.#sourceLost = state.kind === 'ok' ? null : state.fault;
    this.#putFleet();
  }

  /** A source that cannot be read comes before an engine that is away: somebody may have to decide about it. */
  #putFleet(): void {
    const { store, clock, redact } = this.#house;
    const before = store.conditions(FLEET).find((one) => one.type === 'Ready');
    // Before the source was asked, what was found out about it last holds.
    if (this.#sourceLost === undefined && before?.status === 'False') return;
    const lost = this.#sourceLost ?? this.#engineLost;
    const [status, reason] = this.#sourceLost
      ? (['False', DENIED[this.#sourceLost.code] ?? 'SourceUnreachable'] as const)
      : this.#engineLost
        ? (['Unknown', 'EngineUnreachable'] as const)
        : (['True', 'Succeeded'] as const);
    const message = lost ? redact(lost.message) : '';
    // Another commit that is denied is news; a source that answers in other words is not.
    const isNews = reason === 'NotVerified' && before?.message !== message;
    if (before?.status === status && before.reason === reason && !isNews) return;
    const condition: Condition = {
      type: 'Ready',
      status,
      reason,
      message,
      revision: this.#at?.revision.commit ?? '',
      sinceMs: clock.nowMs(),
    };
    store.putConditions(FLEET, [condition]);
    if (this.#sourceLost) this.#say(FLEET, 'error', reason, message);
    else if (before?.status === 'False')
      this.#say(FLEET, 'info', 'SourceRecovered', recovered(before, this.#at?.revision.commit ?? ''));
  }

  /** Each time, since a push may bring a stack while the engine is away. Before the source was looked at it is not known which there are. */
  #lostEngine(error: unknown): void {
    if (this.#stop.signal.aborted) return;
    const fault = asFault(error, 'ENGINE_UNREACHABLE');
    const wasLost = this.#engineLost !== null;
    this.#engineLost ??= fault;
    const { stacks = new Map(), broken = new Map() } = this.#at?.fleet ?? {};
    for (const name of [...stacks.keys(), ...broken.keys(), ...this.#byRequest()])
      if (!this.#isUnknown(name, fault)) this.#settle(name, null, { kind: 'unknown', fault });
    this.#putFleet();
    if (!wasLost) this.#say(FLEET, 'error', 'EngineUnreachable', this.#house.redact(fault.message));
  }

  /** Is that said of it already? What could never be deployed has no state in an engine. */
  #isUnknown(name: string, fault: Fault): boolean {
    const { store } = this.#house;
    if (this.#at?.fleet.broken.has(name) && !isOnRecord(store, name)) return true;
    const ready = store.conditions(name).find((one) => one.type === 'Ready');
    return (
      ready?.status === 'Unknown' &&
      ready.reason === FAULT_REASONS[fault.code] &&
      ready.revision === this.#at?.revision.commit
    );
  }

  #foundEngine(): void {
    this.#engineLost = null;
    this.#putFleet();
    this.#say(FLEET, 'info', 'EngineRecovered', 'the engine answers again');
  }

  #knows(project: string): boolean {
    const fleet = this.#at?.fleet;
    if (fleet === undefined) return false;
    return fleet.stacks.has(project) || fleet.broken.has(project) || this.#isByRequest(project);
  }

  /** Image and network events that can change a verdict; volumes are never repaired. */
  #matters(what: string): boolean {
    return /^(network (destroy|connect|disconnect|create)|image (tag|untag|delete|load|pull|import))/.test(what);
  }

  #leaving(at: FleetAt): Leaving {
    const { store, settings } = this.#house;
    const ever = everDeployed(store);
    const gone = goneOf(at.fleet, ever, settings.pruneLimit);
    return { now: gone.guard === null ? gone.removable : [], all: leftOf(at.fleet, ever) };
  }

  #uninstalled(stack: string): void {
    this.#say(stack, 'info', 'Uninstalled', 'it left the fleet; its volumes stay');
  }

  async #prune(at: FleetAt, trigger: string, successions: readonly Succession[]): Promise<void> {
    const { store, settings } = this.#house;
    const gone = goneOf(at.fleet, everDeployed(store), settings.pruneLimit);
    if (gone.removable.length === 0) return;
    if (gone.guard !== null) {
      for (const one of gone.removable)
        this.#settle(one.stack, null, {
          kind: 'prune-guarded',
          message: `${gone.guard}; windlass prune --confirm ${gone.digest}`,
        });
      return;
    }
    for (const one of gone.removable) {
      if (this.#stop.signal.aborted) return;
      // The deploy of who takes its port over takes it away; where that cannot come, what runs goes on.
      const after = successions.find(({ leaver }) => leaver.stack === one.stack);
      if (after) {
        const ready = store.conditions(after.by).find(({ type }) => type === 'Ready');
        const message = `it stays until stack ${after.by}, which takes its ${after.what} over, can be deployed; windlass prune --confirm ${gone.digest} takes it away before`;
        if (ready?.status === 'False') this.#settle(one.stack, null, { kind: 'prune-guarded', message });
        continue;
      }
      if (!isOnRecord(store, one.stack)) continue;
      // The pass after it comes back here.
      if (this.#finishing.has(one.stack)) continue;
      // Its run ends first, superseded as by a newer push; the pass after it comes back here.
      if (this.#inWork.has(one.stack)) {
        this.#queue.add(one.stack, trigger);
        continue;
      }
      try {
        const cut = this.#takeCut(one.stack, one.desired.digest, 'uninstall');
        if (cut) throw cut;
        await uninstall(this.#bench, one, trigger, this.#now.signal);
        this.#uninstalled(one.stack);
      } catch (error) {
        const fault = asFault(error, 'ENGINE_REFUSED');
        // Somebody else takes it away, or works on it: looked at again when that may be done.
        if (fault.code === 'LOCK_HELD') {
          this.#queue.addAfter(one.stack, TROUBLE_MS, trigger);
          continue;
        }
        this.#say(one.stack, 'error', 'UninstallFailed', this.#house.redact(fault.message));
      }
    }
  }

  /** A burst of pushes supersedes once, when it is over. */
  #supersedeSoon(): void {
    this.#superseding?.abort();
    const waiting = new AbortController();
    this.#superseding = waiting;
    this.#house.clock.sleep(QUIET_MS, waiting.signal, true).then(
      () => {
        const fleet = this.#at?.fleet;
        for (const [name, { sourceDigest, superseded }] of this.#inWork)
          if (fleet && !fleet.broken.has(name) && fleet.stacks.get(name)?.sourceDigest !== sourceDigest)
            if (!this.#isByRequest(name)) superseded.abort();
      },
      () => {},
    );
  }

  /** Before anything else touches a stack, and each by itself: a long job of one holds up no other. What cannot be brought to its end now
   * is tried again by whatever works on the stack next. */
  #finishHooks(): void {
    for (const stack of stacksLeft(this.#bench)) this.#finishSoon(stack);
  }

  /** Of a process that died while this one lives: what it was about is over, and what it brought to rest works again. */
  #afterTheDead(): void {
    const isBusy = (stack: string): boolean => isHeld(this.#house, stack) || this.#finishing.has(stack);
    try {
      endRunsLeft(this.#house, isBusy);
      const nowMs = this.#house.clock.nowMs();
      const atRest = this.#engineLost ? [] : stacksAtRest(this.#bench);
      for (const stack of this.#wakeAgain.keys()) if (!atRest.includes(stack)) this.#wakeAgain.delete(stack);
      for (const stack of atRest) {
        if (isBusy(stack) || (this.#wakeAgain.get(stack) ?? 0) > nowMs) continue;
        this.#wakeAgain.set(stack, nowMs + REST_RETRY_MS);
        this.#finishSoon(stack);
      }
    } catch (error) {
      this.#troubled('looking after what ended', error);
    }
  }

  #finishSoon(stack: string): void {
    const finished = this.#finishHooksOf(stack)
      .catch((error: unknown) => this.#troubled(`finishing the hooks of ${stack}`, error))
      .finally(async () => {
        this.#finishing.delete(stack);
        if (this.#stop.signal.aborted) return;
        this.#queue.add(stack, 'hooks finished');
        if (unfinishedRestores(this.#house).some(({ plan }) => plan.target === stack)) await this.#finishRestores();
      });
    this.#finishing.set(stack, finished);
  }

  /** Once: whoever comes after that tries again. */
  #takeCut(stack: string, digest: string, operation: string): Fault | null {
    const cut = this.#cut.get(stack);
    this.#cut.delete(stack);
    return cut ? cutOf(cut, digest, operation) : null;
  }

  async #finishHooksOf(stack: string): Promise<void> {
    const note = (line: string): void => this.#options.log(`${stack}: ${line}`);
    try {
      await takeUp(this.#bench, stack, {
        signal: this.#stop.signal,
        note,
        // A newer revision is known only when the source was asked.
        newest: () => this.#looked.promise.then(() => this.#at),
        told: (taken) => {
          note(formatTakenUp(taken));
          if (taken.isCut) this.#cut.set(stack, taken);
        },
      });
    } catch (error) {
      const fault = asFault(error, 'HOOK_FAILED');
      this.#options.log(`error ${stack}: ${this.#house.redact(fault.message)}`);
      if (fault.code === 'RESTORE_FAILED') this.#settle(stack, null, { kind: 'failed', fault });
    }
  }

  /** Before anything is deployed over half of one. One that cannot be finished now keeps its stack held back. */
  async #finishRestores(): Promise<void> {
    const left = unfinishedRestores(this.#house);
    if (left.length === 0) return;
    const { restoreOptions } = await import('../operations/trust/request-work.ts');
    const { signal } = this.#now;
    for (const { id, plan } of left.filter(
      (one) => !isRunningHere(this.#house, one.id) && !this.#finishing.has(one.plan.target),
    ))
      try {
        this.#options.log(`${plan.target}: the interrupted restore ${id} is taken up`);
        await resumeRestore(this.#bench, id, restoreOptions(this.#bench, { signal }, `restore ${id}`));
      } catch (error) {
        const fault = asFault(error, 'RESTORE_FAILED');
        this.#options.log(`error ${plan.target}: ${this.#house.redact(fault.message)}`);
      }
  }

  /** Before anything is staged anew or taken away: a helper keeps its volume in use. */
  async #sweepHelpers(): Promise<void> {
    const { payloads, settings } = this.#house;
    try {
      for (const name of (await payloads?.sweepHelpers(settings.hasEnded, this.#stop.signal)) ?? [])
        this.#options.log(`removed the helper ${name} of a process that is gone`);
    } catch (error) {
      this.#troubled('removing helpers', error);
    }
  }

  async #sweepKept(): Promise<void> {
    try {
      for (const name of await sweepKept(this.#bench, this.#stop.signal))
        this.#say(FLEET, 'info', 'KeptDataRemoved', `${name}: what was live before a restore was kept long enough`);
    } catch (error) {
      this.#troubled('removing data of before a restore', error);
    }
  }

  async #sweepJobs(): Promise<void> {
    const signal = this.#stop.signal;
    for (const name of await sweepHookJobs(this.#bench, signal)) this.#options.log(`removed the job container ${name}`);
  }

  async #watchNudges(signal: AbortSignal): Promise<void> {
    const { clock } = this.#house;
    while (!signal.aborted) {
      try {
        await clock.sleep(NUDGE_POLL_MS, signal, true);
      } catch {
        return;
      }
      let nudges: ReturnType<Nudges['take']> = [];
      try {
        nudges = this.#nudges.take();
      } catch (error) {
        this.#troubled('hearing people', error);
      }
      for (const nudge of nudges) {
        if (nudge.fetch) await this.refresh('nudge');
        const all = [...(this.#at?.fleet.stacks.keys() ?? []), ...this.#byRequest()];
        for (const name of nudge.stack === '' ? all : [nudge.stack]) {
          this.#queue.forget(name);
          this.#queue.add(name, 'nudge');
        }
        this.#nudges.done(nudge, clock.nowMs());
      }
    }
  }
}
