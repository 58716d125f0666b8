// The words of a plan as shapes: target, step, barrier, and the result of a cell. Holds no behaviour but NoopStep.
import type { PlanCache } from './cache.ts';

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json | undefined };

/** A concrete object that steps work on. */
export interface Target<P = unknown> {
  readonly id: string;
  readonly payload: P;
}

/** What a step may change. */
export type Touches = 'nothing' | 'runtime' | 'data' | 'vault';
export const TOUCHES: readonly Touches[] = ['nothing', 'runtime', 'data', 'vault'];

export interface Check {
  readonly satisfied: boolean;
  /** For people: shown in the preview, may have several lines. */
  readonly note?: string;
  /** For machines: goes along untouched. */
  readonly detail?: Json;
}

/** What a step is given beside its target. */
export interface StepContext {
  /** Aborted when the run is cancelled and when the cell's deadline passes; the work must then end. */
  readonly signal: AbortSignal;
  readonly cache: PlanCache;
  /** True after an execute: cached readings are stale, look again. */
  readonly fresh: boolean;
  readonly phase: string;
  /** The worker's row, in [0, concurrency); -1 for a barrier. */
  readonly slot: number;
  /** One line of progress for whoever watches. */
  note(line: string): void;
  /** Milliseconds since the epoch. */
  now(): number;
}

type Awaitable<T> = T | Promise<T>;

/** One thing that shall be true, for every target of its phase. Steps hold no order, retry or skipping. */
export interface Step<P = unknown> {
  readonly name: string;
  readonly title?: string;
  readonly touches: Touches;
  /** For the whole cell, from applicable to verify. */
  readonly deadlineMs?: number;
  /** Does it make sense for this target at all? No side effects. */
  applicable(ctx: StepContext, target: Target<P>): Awaitable<boolean>;
  /** Is the desired state in place? Reads only: it runs before anybody said yes. */
  check(ctx: StepContext, target: Target<P>): Awaitable<boolean | Check>;
  /** The only method that changes anything. */
  execute(ctx: StepContext, target: Target<P>): Awaitable<void>;
  /** Throws, or answers unsatisfied, when execute did not reach its end. Default: check again with `fresh`. */
  // biome-ignore lint/suspicious/noConfusingVoidType: a verify that only throws returns nothing
  verify?(ctx: StepContext, target: Target<P>): Awaitable<void | boolean | Check>;
}

/** An invariant over all cells of a phase; throws when it does not hold. */
export interface Barrier {
  readonly name: string;
  evaluate(ctx: StepContext, phaseName: string, results: readonly CellResult[]): Awaitable<void>;
}

/** How a cell ended: not applicable, already so, executed and verified, an error, or stopped before it changed anything. */
export type CellOutcome = 'skipped' | 'satisfied' | 'done' | 'failed' | 'cancelled';

export interface CellResult {
  readonly phase: string;
  readonly targetId: string;
  readonly step: string;
  readonly outcome: CellOutcome;
  readonly skipped: boolean;
  readonly satisfied: boolean;
  /** Execute was called, whatever came of it. */
  readonly executed: boolean;
  readonly error?: Error;
  readonly note?: string;
  readonly detail?: Json;
  readonly elapsedMs: number;
}

/** A step that is always satisfied: keeps a place in a phase that has no real step yet. */
export class NoopStep implements Step {
  readonly name: string;
  readonly touches = 'nothing';
  constructor(name: string) {
    this.name = name;
  }
  applicable() {
    return true;
  }
  check() {
    return true;
  }
  execute() {}
}

export const asCheck = (answer: boolean | Check): Check =>
  typeof answer === 'object' ? answer : { satisfied: answer === true };
