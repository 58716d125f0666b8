// Situation: which hook phases an operation runs. The table of what fires and what does not, as pure functions.
// Primitives are not in it: they never fire hooks.
import type { Situation } from '../diff/change.ts';
import type { HookPhase } from './phase.ts';

export interface DeployFacts {
  /** What the diff says of the stack as a whole. */
  readonly situation: Situation;
  /** Of a try at this very digest that has not ended well; empty when there is none. A phase without actions counts too: it is
   * recorded before anything is changed, so a try of which nothing is recorded has changed nothing. */
  readonly completedPhases: readonly HookPhase[];
}

export type DeployOperation = 'install' | 'update' | 'scale';
const DEPLOY_OPERATIONS: readonly DeployOperation[] = ['install', 'update', 'scale'];

/** What a deploy is to the hooks; null: nothing fires, as for healing and for doing nothing. Ordered, first that holds. */
export function deployOperation({ situation, completedPhases }: DeployFacts): DeployOperation | null {
  // A try that has begun goes on as what it began as: half an install looks like an update, and a converged one like no change.
  const begun = DEPLOY_OPERATIONS.find((operation) => completedPhases.includes(`pre_${operation}`));
  if (begun) return begun;
  return situation === 'drift' || situation === 'same' ? null : situation;
}

export interface DuePhases {
  readonly before: readonly HookPhase[];
  readonly after: readonly HookPhase[];
}

const NONE: DuePhases = { before: [], after: [] };

export function deployPhases(facts: DeployFacts): DuePhases {
  const operation = deployOperation(facts);
  if (!operation) return NONE;
  const due = (phases: readonly HookPhase[]) => phases.filter((phase) => !facts.completedPhases.includes(phase));
  return {
    before: due([`pre_${operation}`]),
    after: due(operation === 'scale' ? ['post_scale'] : [`post_${operation}`, 'post_deployed']),
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
