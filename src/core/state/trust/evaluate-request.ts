// Evaluate request: may this file of this tip run now? Pure and total: facts go in, a standing with its reason comes out, and whatever
// goes wrong is a refusal. It decides nothing about the archive's bytes: whoever claims recomputes their hash and evaluates once more.
import type { Diagnostic } from '../../spec/diagnostic.ts';
import { MAX_TEXT_BYTES } from '../../spec/document.ts';
import { formatInstant, type Request } from '../../spec/request.ts';
import type { IgnoredCode, RequestRefusalCode, RequestStateCode, StatementRefusalCode } from './authority.ts';
import type { PolicyVersion } from './policy-file.ts';
import { delayMs, type HoldingRule } from './policy-rule.ts';
import { idOfPath, type RequestFile, readRequest } from './request-file.ts';
import { rulesFor } from './request-rules.ts';
import type { Statement, StatementReading } from './statement.ts';
import type { TrustAnchor } from './trust-anchor.ts';
import { inOneLine } from './unseen.ts';

/** About the tip that holds the request. */
export interface TipFacts {
  /** 40 hex. */
  readonly tip: string;
  readonly descendsFromGenesis: boolean;
  readonly descendsFromAccepted: boolean;
  /** The path is a regular blob of the tip, and the bytes are that blob's. */
  readonly isRegularBlob: boolean;
}

export interface SeenStatement {
  readonly reading: StatementReading;
  /** When a *proved* statement of this id was first seen, from the ledger; null when that is not recorded. */
  readonly firstSeenMs: number | null;
}

/** What claims have used up. */
export interface SpentFacts {
  readonly ids: ReadonlySet<string>;
  /** SHA-256 of request files. */
  readonly subjects: ReadonlySet<string>;
  readonly nonces: ReadonlySet<string>;
  /** From when on every claim is known; null: no memory yet. What was signed before may have run. */
  readonly sinceMs: number | null;
}

export interface EvaluateRequestInput {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly tip: TipFacts;
  readonly statements: readonly SeenStatement[];
  /** Null refuses. */
  readonly policy: PolicyVersion | null;
  readonly anchor: TrustAnchor;
  readonly spent: SpentFacts;
  /** Under which other id this content was claimed, in words; absent when that is not known. */
  readonly ran?: string | undefined;
  /** Paths of other requests of the tip that hold the very same bytes. Statements name bytes, not names: which one is meant nobody can tell. */
  readonly twins?: readonly string[];
  /** Of a file about which nothing is signed: which other words under this name were, for people. Absent when that is not known. */
  readonly earlier?: string | undefined;
  readonly nowMs: number;
}

/** A statement that counts. */
export interface Signature {
  readonly principal: string;
  readonly statementId: string;
  readonly oid: string;
  readonly nonce: string;
  readonly datedMs: number;
  readonly firstSeenMs: number;
}

export interface IgnoredStatement {
  readonly oid: string;
  readonly statementId: string | null;
  /** Null when the signature proved nobody. */
  readonly principal: string | null;
  readonly reason: IgnoredCode;
  readonly detail: string;
}

export type RequestStanding =
  | 'awaitingApprovals'
  | 'scheduled'
  | 'ready'
  | 'rejected'
  | 'expired'
  | 'withdrawn'
  | 'refused';

export interface RequestEvaluation {
  readonly state: RequestStanding;
  readonly reason: RequestStateCode | RequestRefusalCode;
  /** For people. */
  readonly detail: string;
  /** True when nothing that may still come can change it. */
  readonly isFinal: boolean;
  /** Of `scheduled`: when it may run. */
  readonly untilMs: number | null;
  readonly id: string | null;
  /** SHA-256 of the file; null when it was not read. */
  readonly subject: string | null;
  readonly request: Request | null;
  readonly diagnostics: readonly Diagnostic[];
  readonly requester: Signature | null;
  /** Approvals that count for a rule that holds. */
  readonly approvals: readonly Signature[];
  /** Principals whose approval would count and is not there. */
  readonly mayStillSign: readonly string[];
  /** How many approvals the rule that lacks most still lacks. */
  readonly missing: number;
  /** Places of the rules that hold, in the policy, from 0. */
  readonly rules: readonly number[];
  readonly ignored: readonly IgnoredStatement[];
  /** What a claim must spend: the nonces of the request and of the approvals that count. */
  readonly nonces: readonly string[];
}

/** Never throws. */
export function evaluateRequest(input: EvaluateRequestInput): RequestEvaluation {
  try {
    return new Evaluation(input).run();
  } catch (error) {
    return { ...BLANK, reason: 'authority-error', detail: error instanceof Error ? error.message : '' };
  }
}

const BLANK: RequestEvaluation = {
  state: 'refused',
  reason: 'authority-error',
  detail: '',
  isFinal: false,
  untilMs: null,
  id: null,
  subject: null,
  request: null,
  diagnostics: [],
  requester: null,
  approvals: [],
  mayStillSign: [],
  missing: 0,
  rules: [],
  ignored: [],
  nonces: [],
};

/** One that is proved and seen, in the order in which it counts. */
interface Proved {
  readonly statement: Statement;
  readonly firstSeenMs: number;
}

/** Of one request. Each is judged at each look, and a rejection may be the last of them. */
export const MOST_STATEMENTS = 1_000;

/** It is enough to name some. */
const MOST_TWINS = 5;

/** What speaks of other files says nothing here, whatever is wrong with it. */
const concerns = (reading: StatementReading, subject: string): boolean =>
  reading.kind === 'statement'
    ? reading.statement.subject === subject
    : reading.kind === 'refused' && reading.mentions.includes(subject);

const isStop = ({ type }: Statement): boolean => type === 'reject' || type === 'withdraw';

const bySeen = (a: Proved, b: Proved): number =>
  a.firstSeenMs - b.firstSeenMs ||
  a.statement.datedMs - b.statement.datedMs ||
  (a.statement.id < b.statement.id ? -1 : 1);

const signatureOf = ({ statement, firstSeenMs }: Proved): Signature => ({
  principal: statement.principal,
  statementId: statement.id,
  oid: statement.oid,
  nonce: statement.nonce,
  datedMs: statement.datedMs,
  firstSeenMs,
});

class Evaluation {
  readonly #input: EvaluateRequestInput;
  readonly #ignored: IgnoredStatement[] = [];
  #known: Partial<RequestEvaluation> = {};

  constructor(input: EvaluateRequestInput) {
    this.#input = input;
  }

  #say(
    state: RequestStanding,
    reason: RequestStateCode | RequestRefusalCode,
    more: Partial<RequestEvaluation> = {},
  ): RequestEvaluation {
    return { ...BLANK, ...this.#known, ...more, ignored: this.#ignored, state, reason };
  }

  #refuse(reason: RequestRefusalCode, detail = '', more: Partial<RequestEvaluation> = {}): RequestEvaluation {
    return this.#say('refused', reason, { detail, ...more });
  }

  run(): RequestEvaluation {
    const { path, bytes, tip, policy, anchor, spent, nowMs } = this.#input;
    const id = idOfPath(path);
    this.#known = { id };
    if (!Number.isFinite(nowMs)) return this.#refuse('clock-unusable');
    if (policy === null) return this.#refuse('policy-absent');
    if (policy.policy.fleet !== anchor.fleetId) return this.#refuse('fleet-mismatch', policy.policy.fleet);
    if (id === null) return this.#refuse('request-path', path);
    if (tip.isRegularBlob !== true) return this.#refuse('request-not-regular', path);
    if (bytes.length > MAX_TEXT_BYTES) return this.#refuse('request-too-large', `${bytes.length} bytes`);
    // What was claimed stays claimed, whatever has become of the tip and the file.
    if (spent.ids.has(id)) return this.#refuse('request-claimed', id, { isFinal: true });
    if (tip.descendsFromGenesis !== true) return this.#refuse('tip-not-from-genesis', tip.tip);
    if (tip.descendsFromAccepted !== true) return this.#refuse('history-rewritten', tip.tip);
    const { file, diagnostics } = readRequest(path, bytes);
    this.#known = { id, diagnostics };
    if (file === null) return this.#refuse('request-invalid', inOneLine(diagnostics[0]?.summary ?? ''));
    this.#known = { id, diagnostics, request: file.request, subject: file.sha256 };
    if (spent.subjects.has(file.sha256))
      return this.#refuse('request-replayed', this.#input.ran ?? file.sha256, { isFinal: true });
    if (nowMs >= file.expiresMs) return this.#say('expired', 'request-expired', { isFinal: true });
    const own = this.#input.statements.filter(({ reading }) => concerns(reading, file.sha256));
    if (own.length > MOST_STATEMENTS) return this.#refuse('too-many-statements', `more than ${MOST_STATEMENTS}`);
    return this.#alone(this.#judge(file, policy, own));
  }

  /** Two files of the same bytes are both held: whoever may push could otherwise give what others approved another name. */
  #alone(judged: RequestEvaluation): RequestEvaluation {
    const twins = this.#input.twins ?? [];
    const isOnItsWay = ['awaitingApprovals', 'scheduled', 'ready'].includes(judged.state);
    if (twins.length === 0 || !isOnItsWay) return judged;
    const named = twins.slice(0, MOST_TWINS).join(', ');
    const detail = `the same bytes as ${named}${twins.length > MOST_TWINS ? ` and ${twins.length - MOST_TWINS} more` : ''}`;
    return { ...judged, state: 'refused', reason: 'request-copied', detail, untilMs: null };
  }

  #judge(file: RequestFile, policy: PolicyVersion, own: readonly SeenStatement[]): RequestEvaluation {
    const about = this.#about(own, policy);
    const stops = about.filter(({ statement }) => isStop(statement));
    const going = this.#going(about, file, policy);
    const requests = going.filter(({ statement }) => statement.type === 'request');
    if (requests.length === 0) {
      for (const one of going) this.#ignore(one.statement, 'nobody-asks');
      return this.#unsigned(file);
    }

    const { holding: rules, without, mostMs } = rulesFor(file.request, policy, this.#input.anchor.maxLifetimeMs);
    if (without.length > 0 || rules.length === 0)
      return this.#refuse('rule-absent', without.join(', '), { requester: signatureOf(requests[0]!) });
    this.#known = { ...this.#known, rules: rules.map(({ index }) => index) };
    if (rules.some(({ rule }) => !isWhole(rule))) return this.#refuse('rule-empty');
    const allowed = (name: string) => rules.every(({ rule }) => rule.requesters.includes(name));
    const may = requests.filter(({ statement }) => allowed(statement.principal));
    const isBrief = ({ statement }: Proved): boolean => statement.expiresMs - statement.datedMs <= mostMs;
    const isNear = ({ statement }: Proved): boolean => file.expiresMs - statement.datedMs <= mostMs;
    // Who asked too early or for too long asks again.
    const asked = may.find((one) => isBrief(one) && isNear(one)) ?? may[0];
    if (asked === undefined)
      return this.#refuse(
        'requester-not-allowed',
        [...new Set(requests.map((one) => one.statement.principal))].join(', '),
        {
          requester: signatureOf(requests[0]!),
        },
      );
    const requester = signatureOf(asked);
    this.#known = { ...this.#known, requester };
    for (const other of requests) if (other !== asked) this.#ignore(other.statement, besides(asked, other, mostMs));

    const stopped = this.#stopped(stops, rules, requester.principal);
    if (stopped !== null) return stopped;
    if (!isNear(asked))
      return this.#refuse('lifetime-too-long', `at most ${mostMs / 1000} s from when it was asked for`);
    if (!isBrief(asked)) return this.#refuse('lifetime-too-long', `the statement lives longer than ${mostMs / 1000} s`);
    const askers = new Set(requests.map(({ statement }) => statement.principal));
    return this.#count(file, { rules, asked, askers, mostMs, going, stops });
  }

  /** Proved statements about this file, fleet, ref and environment, once each and in the order in which they were seen. */
  #about(own: readonly SeenStatement[], policy: PolicyVersion): readonly Proved[] {
    const { anchor, nowMs } = this.#input;
    const proved: Proved[] = [];
    for (const { reading, firstSeenMs } of own) {
      if (reading.kind === 'none') continue;
      if (reading.kind === 'refused') {
        const { oid, statementId, reason, detail } = reading;
        this.#ignored.push({ oid, statementId, principal: null, reason, detail });
        continue;
      }
      const { statement, judgedBy, judgedAtMs } = reading;
      const wrong = firstOf<StatementRefusalCode>([
        [judgedBy !== policy.sha256, 'judged-elsewhere'],
        [!(Math.abs(judgedAtMs - nowMs) <= anchor.clockSkewMs), 'judged-stale'],
        [!Object.hasOwn(policy.policy.principals, statement.principal), 'signer-unnamed'],
        [statement.type === 'policy', 'not-about-requests'],
        [statement.fleet !== anchor.fleetId, 'other-fleet'],
        [statement.ref !== anchor.ref, 'other-ref'],
        [statement.environment !== anchor.environment, 'other-environment'],
        [!isStop(statement) && (firstSeenMs === null || !Number.isFinite(firstSeenMs)), 'not-seen'],
      ]);
      if (wrong !== null) this.#ignore(statement, wrong);
      else proved.push({ statement, firstSeenMs: firstSeenMs ?? nowMs });
    }
    const once = new Map<string, Proved>();
    for (const one of proved.sort(bySeen))
      if (once.has(one.statement.id)) this.#ignore(one.statement, 'statement-repeated');
      else once.set(one.statement.id, one);
    return [...once.values()];
  }

  /** Those that push the request on, and may count now. Stops are asked for less: whoever says no is heard whatever else is wrong. */
  #going(about: readonly Proved[], file: RequestFile, policy: PolicyVersion): readonly Proved[] {
    const { anchor, nowMs, spent } = this.#input;
    const nonces = new Set<string>();
    return about.filter(({ statement, firstSeenMs }) => {
      const { nonce, expiresMs, datedMs } = statement;
      // A nonce is used up by whoever was seen with it first, counted or not.
      const isDuplicate = nonces.has(nonce);
      nonces.add(nonce);
      if (isStop(statement)) return false;
      const wrong = firstOf<StatementRefusalCode>([
        // By its signed date: the same words under another id, or from a branch that is pushed again, may have run as well. Before whatever
        // else is wrong with it now: what ran then may have run under another policy.
        [spent.sinceMs === null || !(datedMs >= spent.sinceMs), 'predates-ledger'],
        [statement.policy !== policy.sha256, 'other-policy'],
        [!(nowMs < expiresMs), 'statement-expired'],
        [!(firstSeenMs <= nowMs + anchor.clockSkewMs), 'seen-in-future'],
        [!(firstSeenMs < Math.min(expiresMs, file.expiresMs)), 'seen-too-late'],
        [!(datedMs <= firstSeenMs + anchor.clockSkewMs), 'dated-after-seen'],
        [spent.nonces.has(nonce), 'nonce-spent'],
        [isDuplicate, 'nonce-duplicated'],
      ]);
      if (wrong !== null) this.#ignore(statement, wrong);
      return wrong === null;
    });
  }

  /** Nobody asks: what was ignored may say why, as a commit that lost its signature in a squash. */
  #unsigned(file: RequestFile): RequestEvaluation {
    const asking = new Set<string>();
    for (const { reading } of this.#input.statements) {
      const { kind } = reading;
      const asks =
        kind === 'statement'
          ? reading.statement.type === 'request' && reading.statement.subject === file.sha256
          : kind === 'refused' &&
            reading.mentions.includes(file.sha256) &&
            (reading.claims?.type ?? 'request') === 'request';
      if (asks) asking.add(kind === 'statement' ? reading.statement.oid : reading.oid);
    }
    // Who approved it then knew of it then, whatever has become of the statement that asked: that it may have run is told before all else.
    const before = this.#ignored.filter(({ reason }) => reason === 'predates-ledger');
    const first = before.find(({ oid }) => asking.has(oid)) ?? before[0];
    if (first !== undefined) return this.#refuse('request-predates-ledger', first.oid);
    const asks = this.#ignored.filter(({ oid }) => asking.has(oid));
    const spent = asks.find(({ reason }) => reason === 'nonce-spent');
    if (spent !== undefined) return this.#refuse('nonce-replayed', spent.oid);
    const asked = asks[0];
    const { earlier } = this.#input;
    if (asked === undefined && earlier !== undefined) return this.#refuse('request-altered', earlier);
    return this.#refuse('request-unsigned', asked === undefined ? '' : `${asked.oid}: ${asked.reason}`);
  }

  /** A rejection by an approver, or the requester's own withdrawal. */
  #stopped(stops: readonly Proved[], rules: readonly HoldingRule[], requester: string): RequestEvaluation | null {
    const isApprover = (name: string) => rules.some(({ rule }) => (rule.approvers ?? []).includes(name));
    const rejection = stops.find(
      ({ statement }) => statement.type === 'reject' && isApprover(statement.principal),
    )?.statement;
    const withdrawal = stops.find(
      ({ statement }) => statement.type === 'withdraw' && statement.principal === requester,
    )?.statement;
    for (const { statement } of stops)
      if (statement.type === 'reject' && !isApprover(statement.principal)) this.#ignore(statement, 'not-an-approver');
    if (rejection) return this.#say('rejected', 'rejected-by-approver', { detail: rejection.principal, isFinal: true });
    if (withdrawal)
      return this.#say('withdrawn', 'withdrawn-by-requester', { detail: withdrawal.principal, isFinal: true });
    return null;
  }

  #count(
    file: RequestFile,
    facts: {
      readonly rules: readonly HoldingRule[];
      readonly asked: Proved;
      readonly askers: ReadonlySet<string>;
      readonly mostMs: number;
      readonly going: readonly Proved[];
      readonly stops: readonly Proved[];
    },
  ): RequestEvaluation {
    const { rules, asked, askers, mostMs, going, stops } = facts;
    const { anchor, nowMs } = this.#input;
    const withdrawals = stops.filter(({ statement }) => statement.type === 'withdraw');
    const approvals = new Map<string, Proved>();
    const may = ({ rule }: HoldingRule, name: string) =>
      (rule.approvers ?? []).includes(name) && (rule.requesterMayApprove === true || !askers.has(name));
    for (const one of going) {
      const { statement } = one;
      if (statement.type !== 'approve') continue;
      const { principal, datedMs, expiresMs } = statement;
      const wrong = firstOf<StatementRefusalCode>([
        [!rules.some(({ rule }) => (rule.approvers ?? []).includes(principal)), 'not-an-approver'],
        [!rules.some((rule) => may(rule, principal)), 'requester-may-not-approve'],
        // By their dates, which both are signed: in which order they arrive is for whoever carries them to choose.
        [
          withdrawals.some((stop) => stop.statement.principal === principal && stop.statement.datedMs >= datedMs),
          'approval-withdrawn',
        ],
        [datedMs + anchor.clockSkewMs < asked.statement.datedMs, 'dated-before-request'],
        [!(expiresMs - datedMs <= mostMs), 'statement-lifetime'],
        [approvals.has(principal), 'same-person'],
      ]);
      if (wrong === null) approvals.set(principal, one);
      else this.#ignore(statement, wrong);
    }
    const approvers = new Set(
      going.filter(({ statement }) => statement.type === 'approve').map((one) => one.statement.principal),
    );
    for (const { statement } of withdrawals)
      if (!approvers.has(statement.principal)) this.#ignore(statement, 'nothing-to-withdraw');

    const counted = [...approvals.values()].sort(bySeen);
    const counts = rules.map((holding) => {
      const threshold = holding.rule.threshold ?? Number.POSITIVE_INFINITY;
      const own = counted.filter(({ statement }) => may(holding, statement.principal));
      // The delay runs from the last approval that was needed; what comes on top does not start it anew.
      const last = own[threshold - 1];
      return {
        missing: Math.max(0, threshold - own.length),
        mayStillSign: (holding.rule.approvers ?? []).filter((name) => may(holding, name) && !approvals.has(name)),
        untilMs: last === undefined ? Number.POSITIVE_INFINITY : last.firstSeenMs + delayMs(holding.rule),
      };
    });
    const lacking = counts.filter(({ missing }) => missing > 0);
    const signed = counted.map(signatureOf);
    const known = {
      approvals: signed,
      missing: Math.max(0, ...lacking.map(({ missing }) => missing)),
      mayStillSign: [...new Set(lacking.flatMap(({ mayStillSign }) => mayStillSign))].sort(),
      nonces: [asked.statement.nonce, ...signed.map(({ nonce }) => nonce)],
    };
    if (lacking.length > 0)
      return this.#say('awaitingApprovals', 'approvals-missing', { ...known, detail: `${known.missing} more` });
    const delayedMs = Math.max(...counts.map(({ untilMs }) => untilMs));
    const untilMs = Math.max(delayedMs, file.notBeforeMs ?? Number.NEGATIVE_INFINITY);
    if (nowMs >= untilMs && counts.length > 0) return this.#say('ready', 'authorised', known);
    const detail = Number.isFinite(untilMs) ? `until ${formatInstant(Math.ceil(untilMs / 1000) * 1000)}` : '';
    return this.#say('scheduled', nowMs < delayedMs ? 'delay-running' : 'not-before', { ...known, untilMs, detail });
  }

  #ignore(statement: Statement, reason: IgnoredCode, detail = ''): void {
    const { oid, id, principal } = statement;
    this.#ignored.push({ oid, statementId: id, principal, reason, detail });
  }
}

/** Why a request statement does not count beside the one that asks. */
function besides(asked: Proved, { statement }: Proved, mostMs: number): StatementRefusalCode {
  if (statement.principal !== asked.statement.principal) return 'not-the-requester';
  return statement.expiresMs - statement.datedMs <= mostMs ? 'same-person' : 'statement-lifetime';
}

/** The policy's reader refuses rules that name nobody; they must not slip through here either. */
const isWhole = ({ requesters, approvers = [], threshold = 0 }: HoldingRule['rule']): boolean =>
  requesters.length > 0 && approvers.length > 0 && Number.isInteger(threshold) && threshold >= 1;

/** First match wins. */
function firstOf<T>(rows: readonly (readonly [boolean, T])[]): T | null {
  return rows.find(([holds]) => holds)?.[1] ?? null;
}
