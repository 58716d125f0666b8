// Life: the states of one request as a statechart in plain JSON, and the pure step from one to the next. Terminal states are never left,
// and nothing but `scheduled` leads to `claimed`. What an event means for the world is decided elsewhere.
import type { RequestStateCode } from '../state/trust/authority.ts';
import type { RequestEvaluation } from '../state/trust/evaluate-request.ts';

export const LIFE_STATES = [
  'observed',
  'verifying',
  'awaitingApprovals',
  'scheduled',
  'claimed',
  'executing',
  'succeeded',
  'failed',
  'rejected',
  'expired',
  'withdrawn',
  'refused',
  'indeterminate',
] as const;
export type LifeState = (typeof LIFE_STATES)[number];

export const LIFE_EVENTS = [
  /** Judge it, or judge it again. */
  'VERIFY',
  /** The file was changed: everything begins anew. */
  'AMEND',
  'AWAIT',
  'SCHEDULE',
  'CLAIM',
  'EXECUTE',
  'SUCCEED',
  'FAIL',
  'REJECT',
  'EXPIRE',
  'WITHDRAW',
  'REFUSE',
  /** Whether it happened can not be told: it is never run again by itself. */
  'DOUBT',
] as const;
export type LifeEvent = (typeof LIFE_EVENTS)[number];

interface LifeNode {
  readonly description: string;
  readonly type?: 'final';
  readonly on?: Readonly<Partial<Record<LifeEvent, { readonly target: LifeState }>>>;
}

const to = (target: LifeState) => ({ target });
/** Ways out that are open until it is claimed. */
const stops = {
  REJECT: to('rejected'),
  EXPIRE: to('expired'),
  WITHDRAW: to('withdrawn'),
  REFUSE: to('refused'),
} as const;
const final = (description: string): LifeNode => ({ description, type: 'final' });

export const LIFE_CHART = {
  id: 'request',
  description: 'the life of a request',
  initial: 'observed',
  states: {
    observed: { description: 'the file is there', on: { VERIFY: to('verifying'), AMEND: to('observed') } },
    verifying: {
      description: 'it is judged; it stays here while something other than an approval is lacking',
      on: {
        VERIFY: to('verifying'),
        AMEND: to('observed'),
        AWAIT: to('awaitingApprovals'),
        SCHEDULE: to('scheduled'),
        ...stops,
      },
    },
    awaitingApprovals: {
      description: 'approvals are missing',
      on: { VERIFY: to('verifying'), AMEND: to('observed'), ...stops },
    },
    scheduled: {
      description: 'it may run as soon as its time has come',
      on: { VERIFY: to('verifying'), AMEND: to('observed'), CLAIM: to('claimed'), ...stops },
    },
    claimed: {
      description: 'its id and nonces are spent; nothing is changed yet',
      on: { EXECUTE: to('executing'), REFUSE: to('refused'), FAIL: to('failed'), DOUBT: to('indeterminate') },
    },
    executing: {
      description: 'it runs',
      on: { SUCCEED: to('succeeded'), FAIL: to('failed'), DOUBT: to('indeterminate') },
    },
    succeeded: final('done'),
    failed: final('it failed'),
    rejected: final('an approver rejected it'),
    expired: final('its time has passed'),
    withdrawn: final('whoever asked has withdrawn it'),
    refused: final('it was refused for good'),
    indeterminate: final('it was interrupted, and whether it happened cannot be proved'),
  },
} as const satisfies {
  readonly id: string;
  readonly description: string;
  readonly initial: LifeState;
  readonly states: Readonly<Record<LifeState, LifeNode>>;
};

const nodeOf = (state: LifeState): LifeNode => {
  if (!Object.hasOwn(LIFE_CHART.states, state)) throw new Error(`a request has no state ${state}`);
  return LIFE_CHART.states[state];
};

export const isTerminal = (state: LifeState): boolean => nodeOf(state).type === 'final';

/** The state after an event. Throws a plain error when the event is impossible there. */
export function step(state: LifeState, event: LifeEvent): LifeState {
  const on = nodeOf(state).on ?? {};
  const next = Object.hasOwn(on, event) ? on[event] : undefined;
  if (next === undefined) throw new Error(`a request that is ${state} cannot ${event}`);
  return next.target;
}

/** Whether some events lead from one state to another; a state is always reached from itself. */
export function isReachable(from: LifeState, target: LifeState): boolean {
  const seen = new Set<LifeState>([from]);
  for (const state of seen) for (const { target: next } of Object.values(nodeOf(state).on ?? {})) seen.add(next);
  return seen.has(target);
}

/** The reason of one that waits and whose file is no longer on the branch. It is judged again when the file comes back. */
export const LEFT_BRANCH = 'left-the-branch' satisfies RequestStateCode;

export interface LifeMark {
  readonly state: LifeState;
  readonly atMs: number;
  readonly reason: string;
}

/** What is kept of a request. */
export interface RequestSnapshot {
  /** The version of this format. */
  readonly chart: 1;
  readonly id: string;
  /** SHA-256 of the file that was judged; null while it could not be read. */
  readonly subject: string | null;
  readonly state: LifeState;
  /** A code: why it is there. */
  readonly reason: string;
  /** For people. */
  readonly detail: string;
  readonly sinceMs: number;
  /** The states it was in, the latest last. */
  readonly history: readonly LifeMark[];
}

const MOST_MARKS = 100;

export function observe(id: string, subject: string | null, atMs: number): RequestSnapshot {
  const state = LIFE_CHART.initial;
  return {
    chart: 1,
    id,
    subject,
    state,
    reason: '',
    detail: '',
    sinceMs: atMs,
    history: [{ state, atMs, reason: '' }],
  };
}

/** Through several events at one moment. Throws as `step` does. */
export function advance(
  snapshot: RequestSnapshot,
  events: readonly LifeEvent[],
  said: { readonly atMs: number; readonly reason: string; readonly detail?: string },
): RequestSnapshot {
  const state = events.reduce<LifeState>(step, snapshot.state);
  const { atMs, reason, detail = '' } = said;
  if (state === snapshot.state) return { ...snapshot, reason, detail };
  const history = [...snapshot.history, { state, atMs, reason }].slice(-MOST_MARKS);
  return { ...snapshot, state, reason, detail, sinceMs: atMs, history };
}

/** What an evaluation means for a request that is not claimed. `ready` is scheduled for now: whoever claims it adds CLAIM. */
export function eventsOf(evaluation: Pick<RequestEvaluation, 'state' | 'isFinal'>): readonly LifeEvent[] {
  switch (evaluation.state) {
    case 'awaitingApprovals':
      return ['VERIFY', 'AWAIT'];
    case 'scheduled':
    case 'ready':
      return ['VERIFY', 'SCHEDULE'];
    case 'rejected':
      return ['VERIFY', 'REJECT'];
    case 'expired':
      return ['VERIFY', 'EXPIRE'];
    case 'withdrawn':
      return ['VERIFY', 'WITHDRAW'];
    case 'refused':
      // What may still be mended keeps being judged.
      return evaluation.isFinal ? ['VERIFY', 'REFUSE'] : ['VERIFY'];
  }
}

/** The snapshot after an evaluation. One that is claimed or terminal stays as it is; a changed file begins anew. */
export function settle(snapshot: RequestSnapshot, evaluation: RequestEvaluation, atMs: number): RequestSnapshot {
  if (!isReachable(snapshot.state, 'scheduled')) return snapshot;
  const said = { atMs, reason: evaluation.reason, detail: evaluation.detail };
  if (evaluation.subject !== null && snapshot.subject !== null && evaluation.subject !== snapshot.subject) {
    const amended = advance(snapshot, ['AMEND'], { ...said, reason: 'amended' });
    return advance({ ...amended, subject: evaluation.subject }, eventsOf(evaluation), said);
  }
  return advance({ ...snapshot, subject: evaluation.subject ?? snapshot.subject }, eventsOf(evaluation), said);
}
