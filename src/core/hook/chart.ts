// Chart: the shape of a compiled sequence: a statechart as plain JSON, as xstate's `createMachine` reads it.

export const ENDINGS = ['succeeded', 'halted', 'failed', 'cancelled', 'superseded'] as const;
export type Ending = (typeof ENDINGS)[number];
/** How a run ends as a whole. */
export const OUTCOMES = [...ENDINGS, 'restoreFailed'] as const;
export type HookOutcome = (typeof OUTCOMES)[number];

export interface ChartTransition {
  readonly target?: string;
  readonly guard?: { readonly type: string; readonly params?: Readonly<Record<string, string>> };
  readonly actions?: readonly { readonly type: string; readonly params?: Readonly<Record<string, string>> }[];
}

export interface ChartState {
  readonly description: string;
  readonly type?: 'final';
  readonly invoke?: {
    readonly src: string;
    readonly id: string;
    readonly input: Readonly<Record<string, string>>;
    readonly onDone: readonly ChartTransition[];
    readonly onError: readonly ChartTransition[];
  };
}

export interface Statechart {
  readonly id: string;
  readonly description: string;
  readonly initial: string;
  /** `ending`: how the sequence ended, set on the way into `restoring`. `stop`: that it is to end after its current action. */
  readonly context: { readonly ending: Ending; readonly stop: '' | 'cancelled' | 'superseded' };
  readonly on: Readonly<Record<string, readonly ChartTransition[]>>;
  readonly states: Readonly<Record<string, ChartState>>;
}

/** The names that whoever drives a chart must know; xstate ignores an unknown action silently. */
export interface ChartNames {
  readonly actors: readonly string[];
  readonly guards: readonly string[];
  readonly actions: readonly string[];
}
