// The life of a request: a closed chart in which terminal states are never left and nothing runs that was not claimed.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  advance,
  eventsOf,
  isReachable,
  isTerminal,
  LIFE_CHART,
  LIFE_EVENTS,
  LIFE_STATES,
  type LifeEvent,
  type LifeState,
  observe,
  settle,
  step,
} from '../../../src/core/request/life.ts';
import type { RequestEvaluation } from '../../../src/core/state/trust/evaluate-request.ts';

const evaluation = (more: Partial<RequestEvaluation>): RequestEvaluation => ({
  state: 'refused',
  reason: 'request-unsigned',
  detail: '',
  isFinal: false,
  untilMs: null,
  id: 'orders',
  subject: 'a'.repeat(64),
  request: null,
  diagnostics: [],
  requester: null,
  approvals: [],
  mayStillSign: [],
  missing: 0,
  rules: [],
  ignored: [],
  nonces: [],
  ...more,
});

const next = (state: LifeState, event: LifeEvent): LifeState | null => {
  try {
    return step(state, event);
  } catch {
    return null;
  }
};

describe('the chart', () => {
  it('is plain data, and names each state and known targets only', () => {
    expect(JSON.parse(JSON.stringify(LIFE_CHART))).toEqual(LIFE_CHART);
    expect(Object.keys(LIFE_CHART.states).sort()).toEqual([...LIFE_STATES].sort());
  });

  it('reaches every state, by events that are all in use', () => {
    expect(LIFE_STATES.filter((state) => !isReachable('observed', state))).toEqual([]);
    expect(LIFE_EVENTS.filter((event) => LIFE_STATES.every((state) => next(state, event) === null))).toEqual([]);
  });

  it('goes the whole way of one that is approved', () => {
    const way: LifeEvent[] = ['VERIFY', 'AWAIT', 'VERIFY', 'SCHEDULE', 'CLAIM', 'EXECUTE', 'SUCCEED'];
    const states: LifeState[] = ['observed'];
    for (const event of way) states.push(step(states.at(-1)!, event));
    expect(states.join(' ')).toBe(
      'observed verifying awaitingApprovals verifying scheduled claimed executing succeeded',
    );
  });

  it('never leaves a terminal state', () => {
    const terminal = LIFE_STATES.filter(isTerminal);
    expect(terminal).toEqual(['succeeded', 'failed', 'rejected', 'expired', 'withdrawn', 'refused', 'indeterminate']);
    for (const state of terminal)
      for (const event of LIFE_EVENTS) expect(() => step(state, event)).toThrow(`a request that is ${state}`);
  });

  it('executes nothing that was not claimed, and claims nothing that is not scheduled', () => {
    const into = (target: LifeState) =>
      LIFE_STATES.filter((state) => LIFE_EVENTS.some((event) => next(state, event) === target));
    expect(into('executing')).toEqual(['claimed']);
    expect(into('claimed')).toEqual(['scheduled']);
    expect(into('succeeded')).toEqual(['executing']);
  });

  it('never goes back before a claim', () => {
    for (const state of ['claimed', 'executing'] as const)
      for (const before of [
        'observed',
        'verifying',
        'awaitingApprovals',
        'scheduled',
        'expired',
        'withdrawn',
        'rejected',
      ] as const)
        expect(isReachable(state, before)).toBe(false);
    expect(isReachable('executing', 'claimed')).toBe(false);
  });

  it('throws a plain error for what is no event or no state', () => {
    for (const event of ['CLAIM', 'toString', '__proto__', ''] as LifeEvent[])
      expect(() => step('observed', event)).toThrow('a request that is observed cannot');
    expect(() => step('constructor' as LifeState, 'VERIFY')).toThrow('a request has no state constructor');
  });

  it('is claimed at most once on any way', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...LIFE_EVENTS), { maxLength: 40 }), (events) => {
        let state: LifeState = 'observed';
        let claims = 0;
        let runs = 0;
        for (const event of events) {
          const to = next(state, event);
          if (to === null) continue;
          if (event === 'CLAIM') claims += 1;
          if (event === 'EXECUTE') runs += 1;
          state = to;
        }
        expect(claims).toBeLessThanOrEqual(1);
        expect(runs).toBeLessThanOrEqual(claims);
      }),
    );
  });
});

describe('a snapshot', () => {
  const fresh = observe('orders', 'a'.repeat(64), 1);

  it('tells the way that it went', () => {
    const waiting = settle(fresh, evaluation({ state: 'awaitingApprovals', reason: 'approvals-missing' }), 2);
    const scheduled = settle(waiting, evaluation({ state: 'ready', reason: 'authorised' }), 3);
    const claimed = advance(scheduled, ['CLAIM'], { atMs: 4, reason: 'authorised' });
    expect(claimed).toMatchObject({ chart: 1, id: 'orders', state: 'claimed', sinceMs: 4 });
    expect(claimed.history.map(({ state, atMs }) => `${atMs} ${state}`)).toEqual([
      '1 observed',
      '2 awaitingApprovals',
      '3 scheduled',
      '4 claimed',
    ]);
  });

  it('does not grow while nothing changes', () => {
    const once = settle(fresh, evaluation({}), 2);
    const again = settle(once, evaluation({ reason: 'rule-absent', detail: 'shop' }), 3);
    expect(again).toEqual({ ...once, reason: 'rule-absent', detail: 'shop' });
    let many = fresh;
    for (let at = 2; at < 500; at += 1)
      many = settle(many, evaluation({ state: at % 2 ? 'scheduled' : 'awaitingApprovals' }), at);
    expect(many.history).toHaveLength(100);
  });

  it('stays open for what may still be mended, and ends with what cannot', () => {
    expect(settle(fresh, evaluation({}), 2).state).toBe('verifying');
    expect(settle(fresh, evaluation({ reason: 'request-replayed', isFinal: true }), 2).state).toBe('refused');
    for (const state of ['rejected', 'expired', 'withdrawn'] as const)
      expect(settle(fresh, evaluation({ state, isFinal: true }), 2).state).toBe(state);
  });

  it('begins anew when the file was changed', () => {
    const scheduled = settle(fresh, evaluation({ state: 'scheduled' }), 2);
    const amended = settle(scheduled, evaluation({ state: 'awaitingApprovals', subject: 'b'.repeat(64) }), 3);
    expect(amended).toMatchObject({ state: 'awaitingApprovals', subject: 'b'.repeat(64) });
    expect(amended.history.map(({ state }) => state)).toEqual([
      'observed',
      'scheduled',
      'observed',
      'awaitingApprovals',
    ]);
  });

  it('that is claimed or terminal is not moved by any evaluation', () => {
    for (const state of LIFE_STATES.filter((one) => !isReachable(one, 'scheduled')))
      for (const standing of ['ready', 'refused', 'expired', 'withdrawn', 'rejected'] as const) {
        const kept = { ...fresh, state };
        expect(settle(kept, evaluation({ state: standing, isFinal: true, subject: 'b'.repeat(64) }), 9)).toBe(kept);
      }
  });

  it('has events for every standing that are possible wherever an evaluation may find it', () => {
    for (const standing of [
      'awaitingApprovals',
      'scheduled',
      'ready',
      'rejected',
      'expired',
      'withdrawn',
      'refused',
    ] as const)
      for (const isFinal of [true, false])
        for (const state of LIFE_STATES.filter((one) => isReachable(one, 'scheduled')))
          expect(() => eventsOf({ state: standing, isFinal }).reduce<LifeState>(step, state)).not.toThrow();
  });
});
