// Compile: a sequence of actions → a statechart in plain JSON: one state an action, and every way out passes `restoring`.
// Pure. Every name in the chart is checked here, because xstate says nothing about an unknown one.
import { flattened, type HookAction } from './action.ts';
import {
  type ChartNames,
  type ChartState,
  type ChartTransition,
  ENDINGS,
  type Ending,
  type Statechart,
} from './chart.ts';
import type { HookPhase } from './phase.ts';

/** The guards and actions that a driver of charts must bring. */
export const CHART_GUARDS = ['outcome', 'stopped', 'branch', 'restoreFailed', 'ending'] as const;
export const CHART_ACTIONS = ['setEnding', 'setStop'] as const;
export const RESTORE_ACTOR = 'restore';

export interface CompileInput {
  readonly stack: string;
  readonly phase: HookPhase;
  readonly actions: readonly HookAction[];
  /** Names of the registered actions. */
  readonly actors: readonly string[];
}

export const stateOf = (id: string): string => `a${id.replaceAll('/', '_')}`;

/** Throws a plain error when an action is not in the registry. */
export function compile(input: CompileInput): Statechart {
  const states: Record<string, ChartState> = {};
  layOut(states, input.actions, restoring('succeeded'));
  states['restoring'] = {
    description: 'every captured service goes back to its count',
    invoke: {
      src: RESTORE_ACTOR,
      id: 'restoring',
      input: {},
      onDone: [
        { target: 'restoreFailed', guard: { type: 'restoreFailed' } },
        ...ENDINGS.map((ending) => ({ target: ending, guard: { type: 'ending', params: { is: ending } } })),
      ],
      onError: [{ target: 'restoreFailed' }],
    },
  };
  for (const ending of ENDINGS) states[ending] = { description: ending, type: 'final' };
  states['restoreFailed'] = { description: 'a service could not be brought back to its count', type: 'final' };
  const [first] = input.actions;
  const chart: Statechart = {
    id: `${input.stack}:${input.phase}`,
    description: `${input.phase} of ${input.stack}`,
    initial: first ? stateOf(first.id) : 'restoring',
    context: { ending: 'succeeded', stop: '' },
    on: {
      CANCEL: [{ actions: [{ type: 'setStop', params: { as: 'cancelled' } }] }],
      SUPERSEDE: [{ actions: [{ type: 'setStop', params: { as: 'superseded' } }] }],
    },
    states,
  };
  const known = new Set(flattened(input.actions).map((action) => stateOf(action.id)));
  if (known.size !== flattened(input.actions).length) throw new Error('two actions have the same number');
  checkChart(chart, { actors: [...input.actors, RESTORE_ACTOR], guards: CHART_GUARDS, actions: CHART_ACTIONS });
  return chart;
}

/** The way into `restoring`, remembering how the sequence ended. */
function restoring(ending: Ending): ChartTransition {
  return { target: 'restoring', actions: [{ type: 'setEnding', params: { as: ending } }] };
}

const on = (outcome: string, ending: Ending): ChartTransition => ({
  ...restoring(ending),
  guard: { type: 'outcome', params: { is: outcome } },
});

function layOut(states: Record<string, ChartState>, actions: readonly HookAction[], after: ChartTransition): void {
  actions.forEach((action, index) => {
    const following = actions[index + 1];
    const next: ChartTransition = following ? { target: stateOf(following.id) } : after;
    states[stateOf(action.id)] = {
      description: `${action.id} ${action.name}`,
      invoke: {
        src: action.kind,
        id: stateOf(action.id),
        input: { id: action.id },
        // In this order: how the action ended by itself, then what was asked from outside, then going on.
        onDone: [
          ...(action.onFailure === 'abort' ? [on('failed', 'failed')] : []),
          on('halted', 'halted'),
          stopped('cancelled'),
          stopped('superseded'),
          on('cancelled', 'cancelled'),
          ...branches(action, next),
          next,
        ],
        onError: [restoring('failed')],
      },
    };
    if (action.kind === 'if') {
      layOut(states, action.yes, next);
      layOut(states, action.no, next);
    }
  });
}

function stopped(as: 'cancelled' | 'superseded'): ChartTransition {
  return { ...restoring(as), guard: { type: 'stopped', params: { as } } };
}

function branches(action: HookAction, next: ChartTransition): readonly ChartTransition[] {
  if (action.kind !== 'if') return [];
  return (['yes', 'no'] as const).map((branch) => {
    const [first] = action[branch];
    return {
      ...(first ? { target: stateOf(first.id) } : next),
      guard: { type: 'branch', params: { is: branch } },
    };
  });
}

/** Throws a plain error that names the first unknown target, actor, guard or action. */
export function checkChart(chart: Statechart, names: ChartNames): void {
  const states = new Set(Object.keys(chart.states));
  const wrong = (what: string, name: string, where: string): never => {
    throw new Error(`unknown ${what} ${name} at ${where} of ${chart.id}`);
  };
  const check = (transitions: readonly ChartTransition[], where: string): void => {
    for (const { target, guard, actions } of transitions) {
      if (target !== undefined && !states.has(target)) wrong('state', target, where);
      if (guard && !names.guards.includes(guard.type)) wrong('guard', guard.type, where);
      for (const { type } of actions ?? []) if (!names.actions.includes(type)) wrong('action', type, where);
    }
  };
  if (!states.has(chart.initial)) wrong('state', chart.initial, 'the start');
  for (const [event, transitions] of Object.entries(chart.on)) check(transitions, event);
  for (const [name, state] of Object.entries(chart.states)) {
    if (!state.invoke) continue;
    if (!names.actors.includes(state.invoke.src)) wrong('actor', state.invoke.src, name);
    check(state.invoke.onDone, name);
    check(state.invoke.onError, name);
  }
}
