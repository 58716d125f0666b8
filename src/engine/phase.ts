// Phase: a matrix of targets and steps under construction, and the frozen form of it that probe and run walk.
import type { Barrier, Step, Target } from './step.ts';

export const DEFAULT_CONCURRENCY = 4;

/** Mutable until the plan is built. */
export class Phase<P = unknown> {
  readonly name: string;
  readonly targets: Target<P>[] = [];
  readonly steps: Step<P>[] = [];
  /** Targets in flight at most; an integer, at least 1. */
  concurrency: number = DEFAULT_CONCURRENCY;
  barrier: Barrier | undefined;

  constructor(name: string) {
    this.name = name;
  }

  addTargets(...targets: readonly Target<P>[]): this {
    this.targets.push(...targets);
    return this;
  }

  addStep(...steps: readonly Step<P>[]): this {
    this.steps.push(...steps);
    return this;
  }
}

export interface ExecutablePhase<P = unknown> {
  readonly name: string;
  readonly targets: readonly Target<P>[];
  readonly steps: readonly Step<P>[];
  readonly concurrency: number;
  readonly barrier: Barrier | undefined;
}
