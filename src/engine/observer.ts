// Observer: what can be seen of a run. Watching never changes it: a watcher that throws is ignored.
import type { CellOutcome, CellResult } from './step.ts';

export interface BuildObserver {
  /** Once per (phase, step) while the plan is built. */
  onPlanning(phase: string, step: string): void;
}

export interface PhaseOutline {
  readonly name: string;
  readonly targets: number;
  readonly steps: number;
  readonly concurrency: number;
}

/** Every event is optional. `index` counts from 0 over all phases, skipped ones included (they have no events). */
export interface Observer extends Partial<BuildObserver> {
  onRunStart?(operation: string, phases: readonly PhaseOutline[]): void;
  onPhaseStart?(index: number, total: number, phase: string): void;
  onTargetStart?(phase: string, targetId: string, slot: number): void;
  onStepStart?(phase: string, targetId: string, step: string, slot: number): void;
  /** A barrier's notes have the target `*` and the slot -1. */
  onNote?(phase: string, targetId: string, step: string, slot: number, line: string): void;
  onStepEnd?(
    phase: string,
    targetId: string,
    step: string,
    slot: number,
    outcome: CellOutcome,
    result: CellResult,
  ): void;
  onTargetEnd?(phase: string, targetId: string, slot: number, error?: Error): void;
  onPhaseEnd?(index: number, total: number, phase: string, error?: Error): void;
  /** Always the last event, also of a run that failed or was cancelled. */
  onRunEnd?(error?: Error): void;
}

const events = [
  'onPlanning',
  'onRunStart',
  'onPhaseStart',
  'onTargetStart',
  'onStepStart',
  'onNote',
  'onStepEnd',
  'onTargetEnd',
  'onPhaseEnd',
  'onRunEnd',
] as const satisfies readonly (keyof Observer)[];

/** One observer that tells all of them, each shielded from the others' errors, and the run from theirs. */
export function multiplex(...observers: readonly (Observer | undefined)[]): Required<Observer> {
  const all: Record<string, (...args: unknown[]) => void> = {};
  for (const event of events) {
    const heard = observers.filter((observer) => observer !== undefined && typeof observer[event] === 'function');
    all[event] = (...args) => {
      for (const observer of heard as Record<string, (...args: unknown[]) => unknown>[]) {
        try {
          const answer = observer[event]?.(...args);
          if (answer instanceof Promise) answer.catch(() => {});
        } catch {
          // a watcher's mistake is never the run's
        }
      }
    };
  }
  return all as unknown as Required<Observer>;
}
