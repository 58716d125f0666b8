// Phase: what the name of a hook phase says: before or after its operation, and which job contexts can work in it.
// The closed list itself is `PHASES` in core/spec/hooks.ts.
import { type HookPhase, misplaced, OPERATIONS } from '../spec/hooks.ts';
import { CONTEXTS } from '../spec/job.ts';

export type { HookPhase } from '../spec/hooks.ts';
export { PHASES } from '../spec/hooks.ts';

export type HookOperation = (typeof OPERATIONS)[number];
export type JobContext = (typeof CONTEXTS)[number];

/** Nothing of the operation has happened yet: a newer revision may still take its place. */
export const isPre = (phase: HookPhase): boolean => phase.startsWith('pre_');

/** The operation that a phase belongs to; `post_deployed` and `test` stand by themselves. */
export function operationOf(phase: HookPhase): HookOperation | null {
  return OPERATIONS.find((operation) => phase === `pre_${operation}` || phase === `post_${operation}`) ?? null;
}

/** Nothing can exec into a stack that is not there. */
export function contextsOf(phase: HookPhase): readonly JobContext[] {
  return CONTEXTS.filter((context) => misplaced(phase, 'job', context) === null);
}
