import { describe, expect, it } from 'vitest';
import { ACTION_KINDS } from '../../../src/core/hook/action.ts';
import type { Statechart } from '../../../src/core/hook/chart.ts';
import { CHART_ACTIONS, CHART_GUARDS, checkChart, compile } from '../../../src/core/hook/compile.ts';
import { mermaidOf } from '../../../src/core/hook/mermaid.ts';
import { planActions } from '../../../src/core/hook/plan-actions.ts';
import type { Action } from '../../../src/core/spec/hooks.ts';

const chartOf = (list: Action[], actors: readonly string[] = ACTION_KINDS): Statechart =>
  compile({
    stack: 'sso',
    phase: 'post_install',
    actions: planActions({ phase: 'post_install', lists: [list], jobs: new Map() }),
    actors,
  });
const targets = (chart: Statechart, state: string) => [
  ...new Set(chart.states[state]?.invoke?.onDone.map((transition) => transition.target)),
];

describe('a compiled sequence', () => {
  const list: Action[] = [
    { sleep: '1s' },
    {
      if: { value: 'x', equals: 'x' },
      // biome-ignore lint/suspicious/noThenProperty: a word of the hook language
      then: [{ halt: true }, { sleep: '2s' }],
    },
    { scale: { app: 0 } },
  ];

  it('is plain JSON', () => {
    const chart = chartOf(list);
    expect(JSON.parse(JSON.stringify(chart))).toEqual(chart);
  });

  it('has one state an action, and every way out passes `restoring`', () => {
    const chart = chartOf(list);
    expect(Object.keys(chart.states)).toEqual([
      'a1',
      'a2',
      'a2_then_1',
      'a2_then_2',
      'a3',
      'restoring',
      'succeeded',
      'halted',
      'failed',
      'cancelled',
      'superseded',
      'restoreFailed',
    ]);
    expect(targets(chart, 'a1')).toEqual(['restoring', 'a2']);
    expect(targets(chart, 'a2')).toEqual(['restoring', 'a2_then_1', 'a3']);
    expect(targets(chart, 'a2_then_2')).toEqual(['restoring', 'a3']);
    expect(targets(chart, 'a3')).toEqual(['restoring']);
    for (const [name, state] of Object.entries(chart.states)) {
      const finals = [...(state.invoke?.onDone ?? []), ...(state.invoke?.onError ?? [])].filter(
        (transition) => chart.states[transition.target ?? '']?.type === 'final',
      );
      expect(finals.length > 0).toBe(name === 'restoring');
    }
  });

  it('of nothing goes straight to `restoring`', () => expect(chartOf([]).initial).toBe('restoring'));

  it('refuses an action that nobody registered: xstate would ignore it silently', () =>
    expect(() => chartOf(list, ['sleep', 'if', 'halt'])).toThrow('unknown actor scale at a3'));

  it.each<[string, (chart: Statechart) => unknown]>([
    ['unknown actor nobody', (chart) => ({ ...chart.states['a1']?.invoke, src: 'nobody' })],
    ['unknown state nowhere', (chart) => ({ ...chart.states['a1']?.invoke, onDone: [{ target: 'nowhere' }] })],
    ['unknown guard maybe', (chart) => ({ ...chart.states['a1']?.invoke, onDone: [{ guard: { type: 'maybe' } }] })],
    [
      'unknown action shout',
      (chart) => ({ ...chart.states['a1']?.invoke, onError: [{ actions: [{ type: 'shout' }] }] }),
    ],
  ])('is refused with an %s', (message, invokeOf) => {
    const chart = chartOf(list);
    const broken = { ...chart, states: { ...chart.states, a1: { description: '', invoke: invokeOf(chart) } } };
    expect(() =>
      checkChart(broken as Statechart, {
        actors: [...ACTION_KINDS, 'restore'],
        guards: CHART_GUARDS,
        actions: CHART_ACTIONS,
      }),
    ).toThrow(message);
  });

  it('is drawn as a Mermaid diagram', () => {
    expect(mermaidOf(chartOf([{ sleep: '1s', name: 'a: b; c', on_failure: 'continue' }, { halt: true }]))).toBe(
      `stateDiagram-v2
  [*] --> a1
  a1: 1 a#58; b#59; c
  a1 --> restoring: halted, cancelled, superseded
  a1 --> a2
  a2: 2 halt
  a2 --> restoring: failed, halted, cancelled, superseded, succeeded
  restoring: every captured service goes back to its count
  restoring --> restoreFailed
  restoring --> succeeded: succeeded
  restoring --> halted: halted
  restoring --> failed: failed
  restoring --> cancelled: cancelled
  restoring --> superseded: superseded
  succeeded --> [*]
  halted --> [*]
  failed --> [*]
  cancelled --> [*]
  superseded --> [*]
  restoreFailed: a service could not be brought back to its count
  restoreFailed --> [*]
`,
    );
  });
});
