// Situation: which hook phases an operation runs. The table of what fires and what does not, as pure functions.
// Primitives are not in it: they never fire hooks.
import type { Situation } from '../diff/change.ts';
import type { HookPhase } from './phase.ts';

export type DeployOperation = 'install' | 'update' | 'scale' | 'rollback' | 'restore';

export interface DeployFacts {
  /** What the diff says of the stack as a whole. */
  readonly situation: Situation;
  /** An older revision is put in place of one that was refused, and is not in place yet. */
  readonly isRollback: boolean;
  /** What a try at this very digest that has not ended well began as; null: there is no such try. `heal` runs no hooks. */
  readonly begun: DeployOperation | 'heal' | null;
  /** Of that try. */
  readonly completedPhases: readonly HookPhase[];
}

/** What a deploy is to the hooks; `heal` for repairing and for doing nothing: nothing fires. Ordered, first that holds. */
export function deployOperation({ situation, isRollback, begun }: DeployFacts): DeployOperation | 'heal' {
  // A try that has begun goes on as what it began as: half an install looks like an update, and a converged one like no change.
  if (begun) return begun;
  if (isRollback) return 'rollback';
  return situation === 'drift' || situation === 'same' ? 'heal' : situation;
}

export interface DuePhases {
  readonly before: readonly HookPhase[];
  readonly after: readonly HookPhase[];
}

export function deployPhases(facts: DeployFacts): DuePhases {
  const operation = deployOperation(facts);
  if (operation === 'heal') return { before: [], after: [] };
  const due = (phases: readonly HookPhase[]) => phases.filter((phase) => !facts.completedPhases.includes(phase));
  if (operation === 'restore') {
    const { before, after } = operationPhases('restore');
    return { before: due(before), after: due(after) };
  }
  const deploys = operation === 'install' || operation === 'update';
  return {
    before: due([`pre_${operation}`]),
    after: due(deploys ? [`post_${operation}`, 'post_deployed'] : [`post_${operation}`]),
  };
}

/** Operations other than a deploy. Clone and move: `before` on the source, `after` on the target. */
export type OtherOperation =
  | 'uninstall'
  | 'scale'
  | 'backup'
  | 'restore'
  | 'recover'
  | 'clone'
  | 'move'
  | 'rollback'
  | 'test';

export function operationPhases(operation: OtherOperation): DuePhases {
  switch (operation) {
    case 'restore':
      // Neither install nor update hooks: the data decides what there is to set up.
      return { before: ['pre_restore'], after: ['post_restore', 'post_deployed'] };
    case 'test':
      return { before: [], after: ['test'] };
    default:
      return { before: [`pre_${operation}`], after: [`post_${operation}`] };
  }
}
