// Take up: what dead processes left of a stack, its hooks that did not end and its services at rest, is brought to its end before anything
// else is done to it. Decides nothing about what comes after that.

import { stacksAtRest, wake } from './archive/quiesce.ts';
import { holdLeases } from './leases.ts';
import { stacksWithHooksLeft, type TakenUp, takeUpHooks } from './steps/run-hook.ts';
import type { Workbench } from './workbench.ts';

/** Also those that somebody who lives is working on. */
export const stacksLeft = (bench: Workbench): readonly string[] => [
  ...new Set([...stacksWithHooksLeft(bench), ...stacksAtRest(bench)]),
];

type Options = Omit<Parameters<typeof takeUpHooks>[2], 'ended'>;

/** `told`: each phase that came to its end. Throws LOCK_HELD while somebody works on the stack, RESTORE_FAILED when its services are not
 * back. */
export async function takeUp(
  bench: Workbench,
  stack: string,
  { told, ...options }: Options & { readonly told: (one: TakenUp) => void },
): Promise<void> {
  const leases = holdLeases(bench.house, [stack], undefined, { first: true });
  try {
    for (const one of await takeUpHooks(bench, [stack], options)) told(one);
    await wake(bench, stack, options.signal);
  } finally {
    leases.release();
  }
}

export const formatTakenUp = ({ outcome, state }: TakenUp): string =>
  `${state.run.phase} was interrupted and is ${outcome} now`;
