// Settle: turns the outcome of one pass over one stack into its six conditions, the time to come back and at most one event.
// One ordered table decides: the first row that matches wins. Nothing here looks at the world.
//
// Revisions are kept apart. Ready, Reconciling and Stalled speak of the newest verified revision, Verified of the newest one seen,
// Healthy and Drifted of the one that is applied. Ready is True only if the stack converged and settled at the newest verified revision.
import { FAULTS, type FaultCode } from '../fault.ts';
import type { Diagnostic } from '../spec/diagnostic.ts';
import type { Condition, ConditionType, Reason } from './condition.ts';
import type { StackEvent } from './event.ts';
import { FAULT_REASONS } from './fault-reason.ts';
import { HEAL_WINDOW_MS, PERSISTENT_HEALS } from './heal.ts';

export type Outcome =
  /** Nothing differs. */
  | { readonly kind: 'in-sync' }
  /** A changed desired state was converged and settled. */
  | { readonly kind: 'deployed' }
  /** Drift was repaired and the stack settled. `healsInARow` counts those within the last hour, with this one. */
  | { readonly kind: 'healed'; readonly healsInARow: number; readonly changes: number }
  /** Drift is there and was left: by policy, or (`heal`) until `healAtMs` because it was healed too often. */
  | {
      readonly kind: 'drift-found';
      readonly policy: 'heal' | 'warn' | 'off';
      readonly changes: number;
      readonly healAtMs?: number;
    }
  /** Work on it begins. */
  | { readonly kind: 'progressing' }
  | { readonly kind: 'waiting'; readonly provider: string }
  | { readonly kind: 'outside-window'; readonly nextOpenMs: number }
  | { readonly kind: 'prune-guarded'; readonly message: string }
  | { readonly kind: 'superseded' }
  | HeldBack<'suspended'>
  | HeldBack<'stopped'>
  | HeldBack<'held'>
  | { readonly kind: 'invalid'; readonly diagnostics: readonly Diagnostic[] }
  | { readonly kind: 'failed'; readonly fault: FaultFacts }
  /** The world could not be looked at, so nothing is known and nothing was done. */
  | { readonly kind: 'unknown'; readonly fault: FaultFacts };

interface HeldBack<Kind> {
  readonly kind: Kind;
  readonly reason: string;
  /** Absent or 0 = until a person ends it. */
  readonly untilMs?: number;
}

/** What is read of a Fault. */
export interface FaultFacts {
  readonly code: FaultCode;
  readonly message: string;
}

export type Verification =
  /** `trust.deploy` is `none`. */
  | { readonly kind: 'disabled' }
  | { readonly kind: 'ok'; readonly signer?: string | null }
  /** The newest revision seen is not the one that runs. */
  | {
      readonly kind: 'refused';
      readonly reason: 'NotVerified' | 'HistoryRewritten' | 'PolicyDrift';
      readonly message: string;
      readonly revision: string;
    };

export interface SettleInput {
  readonly nowMs: number;
  readonly previous: readonly Condition[];
  /** The newest verified revision; '' when there was none yet. */
  readonly revision: string;
  /** What was last deployed; '' when nothing was. */
  readonly appliedRevision: string;
  /** The stack runs an older revision because the newest one failed: why. */
  readonly rolledBack: string | null;
  readonly verified: Verification;
  readonly outcome: Outcome;
  /** How it runs now; null when that was not looked at. */
  readonly health: { readonly state: 'healthy' | 'waiting' | 'failed'; readonly detail: string } | null;
  /** In how many things it differs now from what was deployed; absent when that was not looked at. */
  readonly drift?: number;
  /** Tries in a row that failed before this outcome. */
  readonly failures: number;
  /** Heals within the last hour, if the caller knows: a persistent drift then ends an hour after the last one. */
  readonly recentHeals?: number;
}

/** `never`: only a trigger brings it back. `interval`: with the regular look at everything. */
export type ComeBack = 'never' | 'interval' | 'backoff' | { readonly afterMs: number };

export interface SettleEvent {
  readonly level: StackEvent['level'];
  readonly reason: string;
  readonly message: string;
}

export interface Settled {
  /** All six, in the order of CONDITION_TYPES. */
  readonly conditions: readonly Condition[];
  readonly comeBack: ComeBack;
  /** Null when nothing changed that a person wants to be told. */
  readonly event: SettleEvent | null;
}

interface Verdict {
  readonly status: Condition['status'];
  readonly reason: Reason;
  readonly message: string;
}

/** What a row of the table answers. `working` is the reason of Reconciling while it is True, `stalled` tells that a person must act. */
interface Ruling {
  readonly ready: Verdict;
  readonly working: Reason | null;
  readonly stalled: boolean;
  readonly comeBack: ComeBack;
}

interface Facts extends SettleInput {
  readonly ready: Condition | undefined;
  /** A failure of this stack was told and its end was not. */
  readonly inTrouble: boolean;
}

interface Rule {
  readonly says: string;
  readonly when: (facts: Facts) => boolean;
  readonly gives: (facts: Facts) => Ruling;
}

type Kind = Outcome['kind'];
type OutcomeOf<K extends Kind> = Extract<Outcome, { readonly kind: K }>;

/** A row for outcomes of these kinds, so that the row sees their own fields. */
function on<K extends Kind>(
  kinds: readonly K[],
  row: {
    readonly says: string;
    readonly when?: (outcome: OutcomeOf<K>, facts: Facts) => boolean;
    readonly gives: (outcome: OutcomeOf<K>, facts: Facts) => Ruling;
  },
): Rule {
  const { says, when, gives } = row;
  const isOne = (outcome: Outcome): outcome is OutcomeOf<K> => (kinds as readonly Kind[]).includes(outcome.kind);
  return {
    says,
    when: (facts) => isOne(facts.outcome) && (when?.(facts.outcome, facts) ?? true),
    gives: (facts) => gives(facts.outcome as OutcomeOf<K>, facts),
  };
}

const MAX_MESSAGE = 2_000;
/** Health changes wake a stack by themselves; this is for engines whose event was missed. */
const LOOK_AGAIN_MS = 5_000;

const CONVERGED = ['in-sync', 'deployed', 'healed', 'drift-found'] as const;

export const SETTLE_RULES: readonly Rule[] = [
  on(['failed'], {
    says: 'services that a hook scaled and nobody brought back stall the stack, and nothing else touches it',
    when: ({ fault }) => fault.code === 'RESTORE_FAILED',
    gives: ({ fault }) => stall('RestoreFailed', fault.message, 'never'),
  }),
  on(['unknown'], {
    says: 'where the world cannot be looked at nothing is known, and absence of evidence is not absence',
    gives: ({ fault }) => work({ status: 'Unknown', ...wordsOf(fault) }, reasonOf(fault), 'backoff'),
  }),
  {
    says: 'without any verified revision there is nothing to work on',
    when: ({ revision, verified }) => revision === '' && verified.kind === 'refused',
    gives: (facts) => stall(verifiedOf(facts).reason, verifiedOf(facts).message, 'never'),
  },
  on(['suspended'], {
    says: 'a suspended stack is not looked at, so whether it is ready is not known',
    gives: (hold, { nowMs }) => held(hold, nowMs, { status: 'Unknown', reason: 'Suspended', message: 'suspended' }),
  }),
  on(['stopped'], {
    says: 'a stack that a person stopped stays stopped',
    gives: (hold, { nowMs }) => held(hold, nowMs, { status: 'False', reason: 'Stopped', message: 'stopped by hand' }),
  }),
  on(['held'], {
    says: 'a held stack is left as it is: at what was restored, which need not be what the fleet asks for, or unmade until its data is there',
    gives: (hold, { nowMs }) => held(hold, nowMs, { status: 'False', reason: 'Held', message: 'held' }),
  }),
  on(['invalid'], {
    says: 'a wrong declaration stalls its stack until a new revision',
    gives: ({ diagnostics }) => stall(reasonOfDiagnostics(diagnostics), sentenceOf(diagnostics), 'never'),
  }),
  on(['prune-guarded'], {
    says: 'what the prune guard keeps waits for a person to confirm',
    gives: ({ message }) => stall('PruneGuarded', message, 'interval'),
  }),
  on(['waiting'], {
    says: 'a stack waits for its provider, which wakes it',
    gives: ({ provider }) => wait('DependencyNotReady', `waits for ${provider}`, 'interval'),
  }),
  on(['failed'], {
    says: 'a fault that names something to wait for is waited out, not retried',
    when: ({ fault }) => FAULTS[fault.code].retry === 'wait',
    gives: ({ fault }) => wait(reasonOf(fault), fault.message, 'interval'),
  }),
  on(['outside-window'], {
    says: 'a change waits until its window opens',
    when: ({ nextOpenMs }) => nextOpenMs > 0,
    gives: ({ nextOpenMs }, { nowMs }) =>
      wait('OutsideWindow', `waits until ${new Date(nextOpenMs).toISOString()}`, {
        afterMs: Math.max(0, nextOpenMs - nowMs),
      }),
  }),
  on(['outside-window'], {
    says: 'a change whose window never opens waits for a new revision',
    gives: () => wait('OutsideWindow', 'no window opens any more', 'never'),
  }),
  on(['superseded'], {
    says: 'what was overtaken by a newer revision starts anew at once',
    gives: (_, facts) =>
      work(verdictSoFar(facts, 'Superseded', 'a newer revision arrived'), 'Superseded', { afterMs: 0 }),
  }),
  on(['failed'], {
    says: 'what was cancelled, or held another plan than the world, starts anew from what is there',
    when: ({ fault }) => fault.code === 'CANCELLED' || fault.code === 'PLAN_STALE',
    gives: ({ fault }, facts) => work(verdictSoFar(facts, 'Superseded', fault.message), 'Superseded', 'backoff'),
  }),
  on(['failed'], {
    says: 'while another run holds the stack the verdict is that run’s',
    when: ({ fault }) => fault.code === 'LOCK_HELD',
    gives: ({ fault }, facts) => work(verdictSoFar(facts, 'Progressing', fault.message), 'Progressing', 'backoff'),
  }),
  on(['progressing'], {
    says: 'what is in work has no verdict yet, but a failure stays one until the next try has an end',
    gives: (_, facts) => work(verdictSoFar(facts, 'Progressing', 'in work'), 'Progressing', 'interval'),
  }),
  on(['failed'], {
    says: 'a fault that only a person can cure stalls the stack, and is looked at again with everything else',
    when: ({ fault }) => FAULTS[fault.code].retry === 'person',
    gives: ({ fault }) => stall(reasonOf(fault), fault.message, 'interval'),
  }),
  on(['failed'], {
    says: 'any other fault is tried again with growing delays',
    gives: ({ fault }) => work({ status: 'False', ...wordsOf(fault) }, 'Retrying', 'backoff'),
  }),
  on(CONVERGED, {
    says: 'a stack that was rolled back runs, but not what the fleet asks for',
    when: (_, { rolledBack }) => rolledBack !== null,
    gives: (_, { appliedRevision, rolledBack }) =>
      stall('RolledBack', `runs ${short(appliedRevision)} again: ${rolledBack}`, 'interval'),
  }),
  on(['drift-found'], {
    says: 'drift that was healed too often is healed later',
    when: ({ policy }) => policy === 'heal',
    gives: ({ healAtMs }, { nowMs }) =>
      wait('DriftDetected', 'drift came back and is healed later', {
        afterMs: Math.max(0, (healAtMs ?? nowMs) - nowMs),
      }),
  }),
  on(CONVERGED, {
    says: 'a converged stack whose services fail is not ready',
    when: (_, { health }) => health?.state === 'failed',
    gives: (_, { health }) => ({
      ready: { status: 'False', reason: 'Unhealthy', message: health?.detail ?? '' },
      working: null,
      stalled: false,
      comeBack: 'interval',
    }),
  }),
  on(CONVERGED, {
    says: 'a converged stack whose services still start is not ready yet',
    when: (_, { health }) => health?.state === 'waiting',
    gives: (_, facts) =>
      work(verdictSoFar(facts, 'Progressing', facts.health?.detail ?? ''), 'Progressing', { afterMs: LOOK_AGAIN_MS }),
  }),
  on(['in-sync', 'drift-found'], {
    says: 'a stack that looks the same but whose health was not seen is not called ready',
    when: (_, { health }) => health === null,
    gives: () => ({
      ready: { status: 'Unknown', reason: 'Unknown', message: 'its health was not seen' },
      working: null,
      stalled: false,
      comeBack: 'interval',
    }),
  }),
  on(CONVERGED, {
    says: 'a stack that converged and settled at the newest verified revision is ready, drift that policy tolerates included',
    gives: (_, { revision }) => ({
      ready: { status: 'True', reason: 'Succeeded', message: `runs what ${short(revision)} asks for` },
      working: null,
      stalled: false,
      comeBack: 'interval',
    }),
  }),
];

export function settle(input: SettleInput): Settled {
  const { outcome, previous } = input;
  const ready = previous.find((one) => one.type === 'Ready');
  const facts: Facts = { ...input, ready, inTrouble: wasInTrouble(previous) };
  const rule = SETTLE_RULES.find((one) => one.when(facts));
  if (rule === undefined) throw new Error(`no rule settles the outcome ${outcome.kind}`);
  const ruling = rule.gives(facts);
  const conditions = [
    condition(facts, 'Ready', ruling.ready, input.revision),
    condition(facts, 'Reconciling', reconcilingOf(facts, ruling), input.revision),
    condition(facts, 'Stalled', stalledOf(facts, ruling), input.revision),
    condition(facts, 'Healthy', healthyOf(facts, ruling), input.appliedRevision),
    condition(facts, 'Drifted', driftedOf(facts, ruling), input.appliedRevision),
    condition(facts, 'Verified', verifiedOf(facts), seenRevision(input)),
  ];
  return { conditions, comeBack: ruling.comeBack, event: eventOf(facts, conditions) };
}

// ─── the conditions beside Ready ───

/** Trouble that lasts through passes without a verdict is remembered in the reason: `Retrying`. */
function reconcilingOf(facts: Facts, { working, ready }: Ruling): Verdict {
  if (working === null) return { status: 'False', reason: 'Idle', message: '' };
  const isRetry = facts.inTrouble || working === 'Retrying';
  const tries =
    facts.failures > 0 && isRetry ? `failed ${facts.failures} times, is tried again by itself` : ready.message;
  return { status: 'True', reason: isRetry ? 'Retrying' : working, message: tries };
}

function stalledOf(facts: Facts, { stalled, ready }: Ruling): Verdict {
  const before = facts.previous.find((one) => one.type === 'Stalled');
  // Who has to act has to act still, while a verdict is kept or the engine is away.
  const isOpen = facts.outcome.kind === 'unknown' || (!stalled && ready === facts.ready);
  if (isOpen && before?.status === 'True') return before;
  return stalled
    ? { status: 'True', reason: ready.reason, message: ready.message }
    : { status: 'False', reason: 'Idle', message: '' };
}

const HEALTH_REASONS: ReadonlySet<Reason> = new Set(['Unhealthy', 'CrashLoop', 'OneShotFailed', 'SettleTimeout']);

function healthyOf({ outcome, health, appliedRevision }: Facts, { ready }: Ruling): Verdict {
  if (outcome.kind === 'unknown') return { status: 'Unknown', reason: ready.reason, message: ready.message };
  if (outcome.kind === 'stopped') return { status: 'False', reason: 'Stopped', message: ready.message };
  if (health?.state === 'healthy') return { status: 'True', reason: 'Settled', message: '' };
  if (health?.state === 'failed')
    return {
      status: 'False',
      reason: HEALTH_REASONS.has(ready.reason) ? ready.reason : 'Unhealthy',
      message: health.detail,
    };
  if (health?.state === 'waiting') return { status: 'Unknown', reason: 'Progressing', message: health.detail };
  // The settle step of the deploy has seen it.
  if (outcome.kind === 'deployed' || outcome.kind === 'healed')
    return { status: 'True', reason: 'Settled', message: '' };
  const message = appliedRevision === '' ? 'nothing is deployed yet' : 'it was not looked at';
  return { status: 'Unknown', reason: 'Unknown', message };
}

function driftedOf(facts: Facts, { ready }: Ruling): Verdict {
  const { outcome, nowMs, appliedRevision } = facts;
  const before = facts.previous.find((one) => one.type === 'Drifted');
  switch (outcome.kind) {
    case 'healed':
      if (outcome.healsInARow >= PERSISTENT_HEALS || lastsPersistently(facts, before)) return persistent();
      return { status: 'False', reason: 'DriftHealed', message: `${count(outcome.changes)} healed` };
    case 'drift-found':
      if (outcome.policy === 'off')
        return { status: 'True', reason: 'DriftIgnored', message: `${count(outcome.changes)} left: drift is off` };
      if (lastsPersistently(facts, before)) return persistent();
      return {
        status: 'True',
        reason: 'DriftDetected',
        message: outcome.policy === 'heal' ? `${count(outcome.changes)} wait to be healed` : count(outcome.changes),
      };
    case 'deployed':
      return { status: 'False', reason: 'InSync', message: '' };
    case 'in-sync':
      if (lastsPersistently(facts, before)) return persistent();
      // When it last drifted stays readable until the next deploy.
      if (before?.status === 'False' && before.reason === 'DriftHealed') return before;
      return { status: 'False', reason: 'InSync', message: '' };
    case 'unknown':
      // The reason stays: it says what was known when it was last looked at, so that the return of the engine is no news about drift.
      return { status: 'Unknown', reason: before?.reason ?? 'Unknown', message: ready.message };
    default:
      if (outcome.kind === 'failed' && facts.drift !== undefined && facts.drift > 0)
        return { status: 'True', reason: 'DriftDetected', message: `${count(facts.drift)} not healed` };
      if (before !== undefined) return before;
      return {
        status: 'Unknown',
        reason: 'Unknown',
        message: appliedRevision === '' ? 'nothing is deployed yet' : 'it was not looked at',
      };
  }

  function persistent(): Verdict {
    const message = `drift came back ${PERSISTENT_HEALS} times within an hour: something changes the stack beside Windlass`;
    const since = before?.reason === 'PersistentDrift' ? before.message : message;
    return { status: 'True', reason: 'PersistentDrift', message: since };
  }

  /** Drift that counted as persistent ends only after an hour without a heal, not with the first look between two of them. */
  function lastsPersistently({ recentHeals }: Facts, drifted: Condition | undefined): boolean {
    if (drifted?.reason !== 'PersistentDrift') return false;
    return recentHeals === undefined ? nowMs - drifted.sinceMs < HEAL_WINDOW_MS : recentHeals > 0;
  }
}

function verifiedOf({ verified, revision }: Facts): Verdict {
  switch (verified.kind) {
    case 'disabled':
      return { status: 'Unknown', reason: 'VerifyDisabled', message: 'deploys need no signature (trust.deploy: none)' };
    case 'ok':
      return { status: 'True', reason: 'Verified', message: verified.signer ? `signed by ${verified.signer}` : '' };
    case 'refused': {
      const stays = revision === '' ? '' : `; ${short(revision)} keeps running`;
      return { status: 'False', reason: verified.reason, message: `${verified.message}${stays}` };
    }
  }
}

function seenRevision({ verified, revision }: SettleInput): string {
  return verified.kind === 'refused' ? verified.revision : revision;
}

// ─── events: changes only, at most one a pass ───

/** Reasons under which a stack is not ready without anything being wrong. */
const CALM: ReadonlySet<Reason> = new Set<Reason>([
  'Suspended',
  'Stopped',
  'Held',
  'OutsideWindow',
  'DependencyNotReady',
  'Progressing',
  'Superseded',
  'DriftDetected',
]);
/** Calm reasons that people want to read about when they begin. */
const ANNOUNCED: ReadonlySet<Reason> = new Set<Reason>([
  'Suspended',
  'Stopped',
  'Held',
  'OutsideWindow',
  'DependencyNotReady',
]);
const BY_HAND: ReadonlySet<Reason> = new Set<Reason>(['Suspended', 'Stopped', 'Held']);

function isTrouble(ready: Condition | undefined): boolean {
  return ready?.status === 'False' && !CALM.has(ready.reason);
}

function wasInTrouble(previous: readonly Condition[]): boolean {
  const reconciling = previous.find((one) => one.type === 'Reconciling');
  return isTrouble(previous.find((one) => one.type === 'Ready')) || reconciling?.reason === 'Retrying';
}

/** The gravest news of the pass; what else is new is told in the same breath, so that a pass is one notification. */
function eventOf(facts: Facts, conditions: readonly Condition[]): SettleEvent | null {
  const now = (type: ConditionType) => conditions.find((one) => one.type === type)!;
  const before = (type: ConditionType) => facts.previous.find((one) => one.type === type);
  const news = [
    verifiedNews(before('Verified'), now('Verified')),
    readyNews(facts, now('Ready'), now('Stalled')),
    driftNews(facts, before('Drifted'), now('Drifted')),
  ].filter((one) => one !== null);
  const grave = (event: SettleEvent) => ['info', 'warning', 'error'].indexOf(event.level);
  const [first, ...others] = news.sort((a, b) => grave(b) - grave(a));
  if (first === undefined) return null;
  const words = [
    first.message,
    ...others.map((one) => (one.message === '' ? one.reason : `${one.reason}: ${one.message}`)),
  ];
  return { ...first, message: clip(words.filter((one) => one !== '').join('; ')) };
}

function readyNews(facts: Facts, now: Condition, stalled: Condition): SettleEvent | null {
  const { outcome, ready: before, inTrouble } = facts;
  if (isTrouble(now)) {
    const told = {
      level: stalled.status === 'True' ? 'error' : 'warning',
      reason: now.reason,
      message: now.message,
    } as const;
    if (!inTrouble) return told;
    // Another trouble in place of the first: told, but no new alarm unless it now needs a person.
    const wasStalled = facts.previous.find((one) => one.type === 'Stalled')?.status === 'True';
    if (stalled.status === 'True' && !wasStalled) return told;
    const isOther = before?.status === 'False' && before.reason !== now.reason;
    // A newer revision was tried and fails too. One that did not touch this stack fails in the same words, which is no news.
    const isNewer = before?.revision !== now.revision && before?.message !== now.message;
    const wasTried = before?.reason === 'Progressing';
    return isOther || isNewer || wasTried ? { ...told, level: 'info' } : null;
  }
  // Told once for the whole fleet, by who looks at the engine and the source.
  if (outcome.kind === 'unknown') {
    const isWhole = now.reason === 'EngineUnreachable' || now.reason === 'SourceUnreachable';
    if (isWhole || before?.reason === now.reason) return null;
    return { level: 'warning', reason: now.reason, message: now.message };
  }
  if (outcome.kind === 'deployed') return { level: 'info', reason: 'Deployed', message: now.message };
  if (now.status === 'True') {
    if (inTrouble) return { level: 'info', reason: 'Recovered', message: now.message };
    if (before !== undefined && BY_HAND.has(before.reason))
      return { level: 'info', reason: 'Resumed', message: now.message };
    // An outage of its own (not of the engine or source) was told, so its end is.
    const wasOutage = before?.status === 'Unknown' && !CALM.has(before.reason) && before.reason !== 'Unknown';
    if (wasOutage && before.reason !== 'EngineUnreachable' && before.reason !== 'SourceUnreachable')
      return { level: 'info', reason: 'Recovered', message: now.message };
    return null;
  }
  if (ANNOUNCED.has(now.reason) && before?.reason !== now.reason)
    return { level: 'info', reason: now.reason, message: now.message };
  return null;
}

function driftNews(facts: Facts, before: Condition | undefined, now: Condition): SettleEvent | null {
  const { outcome } = facts;
  if (now.status === 'Unknown') return null;
  if (now.reason === 'PersistentDrift')
    return before?.reason === 'PersistentDrift' ? null : { level: 'warning', reason: now.reason, message: now.message };
  if (outcome.kind === 'healed') return { level: 'info', reason: 'DriftHealed', message: now.message };
  if (outcome.kind === 'drift-found' && outcome.policy === 'warn')
    return before?.reason === 'DriftDetected' ? null : { level: 'warning', reason: now.reason, message: now.message };
  const hasEnded =
    now.status === 'False' && (before?.reason === 'DriftDetected' || before?.reason === 'PersistentDrift');
  // A deploy tells itself.
  if (hasEnded && outcome.kind === 'in-sync') return { level: 'info', reason: 'DriftEnded', message: 'drift is gone' };
  return null;
}

function verifiedNews(before: Condition | undefined, now: Condition): SettleEvent | null {
  if (now.status === 'False') {
    // Each refused commit is news to who pushed it; the same one is so only once.
    const isTold = before?.status === 'False' && before.reason === now.reason && before.revision === now.revision;
    return isTold ? null : { level: 'warning', reason: now.reason, message: now.message };
  }
  if (now.status === 'True' && before?.status === 'False')
    return { level: 'info', reason: 'Verified', message: now.message };
  return null;
}

// ─── words ───

function condition(facts: Facts, type: ConditionType, verdict: Verdict, revision: string): Condition {
  const before = facts.previous.find((one) => one.type === type);
  const isSame = before?.status === verdict.status && before.reason === verdict.reason;
  return {
    type,
    status: verdict.status,
    reason: verdict.reason,
    message: clip(verdict.message),
    revision,
    sinceMs: isSame ? before.sinceMs : facts.nowMs,
  };
}

function stall(reason: Reason, message: string, comeBack: ComeBack): Ruling {
  return { ready: { status: 'False', reason, message }, working: null, stalled: true, comeBack };
}

function work(ready: Verdict, working: Reason, comeBack: ComeBack): Ruling {
  return { ready, working, stalled: false, comeBack };
}

function wait(reason: Reason, message: string, comeBack: ComeBack): Ruling {
  return work({ status: 'False', reason, message }, reason, comeBack);
}

function held(hold: HeldBack<Kind>, nowMs: number, ready: Verdict): Ruling {
  const untilMs = hold.untilMs ?? 0;
  const message = hold.reason === '' ? ready.message : `${ready.message}: ${hold.reason}`;
  const comeBack = untilMs > nowMs ? { afterMs: untilMs - nowMs } : 'never';
  return { ready: { ...ready, message }, working: null, stalled: false, comeBack };
}

/** A failure at the same revision stays the verdict until there is a better one; else there is none yet. */
function verdictSoFar({ ready, inTrouble, revision }: Facts, reason: Reason, message: string): Verdict {
  if (inTrouble && ready !== undefined && ready.revision === revision && ready.status !== 'True') return ready;
  return { status: 'Unknown', reason, message };
}

function reasonOf(fault: FaultFacts): Reason {
  return FAULT_REASONS[fault.code];
}

function wordsOf(fault: FaultFacts): { readonly reason: Reason; readonly message: string } {
  return { reason: reasonOf(fault), message: fault.message };
}

function reasonOfDiagnostics(diagnostics: readonly Diagnostic[]): Reason {
  if (diagnostics.some((one) => /CYCLE/.test(one.code))) return 'DependencyCycle';
  if (diagnostics.some((one) => /^(RENDER|TEMPLATE)/.test(one.code))) return 'RenderFailed';
  return 'InvalidSpec';
}

/** The first error with its place, and how many more there are. */
function sentenceOf(diagnostics: readonly Diagnostic[]): string {
  const errors = diagnostics.filter((one) => one.severity === 'error');
  const [first, ...others] = errors.length > 0 ? errors : diagnostics;
  if (first === undefined) return 'the declaration is not valid';
  const { place } = first;
  const at = place === undefined ? '' : `${place.file}${place.line > 0 ? `:${place.line}:${place.column}` : ''}: `;
  return `${at}${first.summary}${others.length > 0 ? ` (and ${others.length} more)` : ''}`;
}

function short(revision: string): string {
  return revision === '' ? 'no revision' : revision.slice(0, 7);
}

function count(changes: number): string {
  return changes === 1 ? '1 change' : `${changes} changes`;
}

function clip(message: string): string {
  return message.length <= MAX_MESSAGE ? message : `${message.slice(0, MAX_MESSAGE - 1)}…`;
}
