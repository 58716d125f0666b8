// Quiesce: brings services to rest while their data is read, and back. What was touched is on record before it is touched, so that it comes
// back also after a crash: whoever works on the stack next brings it back first. What a move brought to rest only the move itself wakes.
import { projectContainers } from '../../core/diff/diff.ts';
import type { Quiesce } from '../../core/spec/backup.ts';
import type { Workbench } from '../workbench.ts';

interface Rested {
  readonly id: string;
  readonly how: 'stop' | 'pause';
}

const restKey = (stack: string): string => `quiesced/${stack}`;
/** The id of the move for whose sake it rests. */
const movingKey = (stack: string): string => `moving/${stack}`;

/** Stacks that a dead process left at rest. One that rests until a move of it is over is none. */
export const stacksAtRest = ({ house: { store } }: Workbench): readonly string[] =>
  [...store.values('quiesced/').keys()]
    .map((key) => key.slice('quiesced/'.length))
    .filter((stack) => store.value(movingKey(stack)) === undefined);

/** The id of the move that it rests for, or null. */
export const movedBy = ({ house: { store } }: Workbench, stack: string): string | null =>
  (store.value(movingKey(stack)) as string | undefined) ?? null;

/** Nobody goes on with the move: what rests for it is woken by whoever looks after what rests. */
export const forgetMove = ({ house: { store } }: Workbench, stack: string): void => store.deleteValue(movingKey(stack));

/** `how`: service → what is done with its running containers. `move`: they rest until that is over. */
export async function rest(
  bench: Workbench,
  stack: string,
  project: string,
  how: ReadonlyMap<string, Quiesce>,
  signal: AbortSignal,
  move?: string,
): Promise<void> {
  const { store, runtime } = bench.house;
  const running = projectContainers(await bench.look.fresh('known'), project).filter(
    (one) => one.state === 'running' || one.state === 'restarting',
  );
  const rested: Rested[] = [];
  for (const one of running) {
    const way = how.get(one.service) ?? 'none';
    // One that crashes and comes up again would write at its next start; it cannot be paused.
    if (way !== 'none') rested.push({ id: one.id, how: one.state === 'restarting' ? 'stop' : way });
  }
  // Taken up again, there are those that rest already.
  const before =
    move === undefined ? [] : restedOf(bench, stack).filter((one) => !rested.some(({ id }) => id === one.id));
  if (rested.length > 0) store.putValue(restKey(stack), [...before, ...rested]);
  if (move !== undefined) store.putValue(movingKey(stack), move);
  for (const one of rested) {
    signal.throwIfAborted();
    await runtime[one.how](one.id, signal);
  }
}

const restedOf = ({ house: { store } }: Workbench, stack: string): readonly Rested[] =>
  (store.value(restKey(stack)) as readonly Rested[] | undefined) ?? [];

/** Whatever is on record as brought to rest runs again, unless it rests for another move than `move`. Idempotent; a container that is gone
 * needs nothing. */
export async function wake(bench: Workbench, stack: string, signal: AbortSignal, move?: string): Promise<void> {
  const { store, runtime } = bench.house;
  const moving = store.value(movingKey(stack));
  if (moving !== undefined && moving !== move) return;
  const rested = restedOf(bench, stack);
  // First: from here on it may write, and whoever comes after a crash wakes the rest of it.
  if (moving !== undefined) store.deleteValue(movingKey(stack));
  if (rested.length === 0) return;
  const { containers } = (await bench.look.fresh('known')).observed;
  for (const { id } of rested) {
    const one = containers.find((container) => container.id === id);
    if (one?.state === 'paused') await runtime.unpause(id, signal);
    else if (one && one.state !== 'running') await runtime.start(id, signal);
  }
  store.deleteValue(restKey(stack));
}

/** What rests is not to run again: something else has taken its place. */
export function leaveAtRest({ house: { store } }: Workbench, stack: string): void {
  store.deleteValue(restKey(stack));
  store.deleteValue(movingKey(stack));
}
