// Quiesce: brings services to rest while their data is read, and back. What was touched is on record before it is touched, so that it comes
// back also after a crash: whoever works on the stack next brings it back first.
import { projectContainers } from '../../core/diff/diff.ts';
import type { Quiesce } from '../../core/spec/backup.ts';
import type { Workbench } from '../workbench.ts';

interface Rested {
  readonly id: string;
  readonly how: 'stop' | 'pause';
}

const restKey = (stack: string): string => `quiesced/${stack}`;

/** Stacks that a dead process left at rest. */
export const stacksAtRest = ({ house: { store } }: Workbench): readonly string[] =>
  [...store.values('quiesced/').keys()].map((key) => key.slice('quiesced/'.length));

/** `how`: service → what is done with its running containers. */
export async function rest(
  bench: Workbench,
  stack: string,
  project: string,
  how: ReadonlyMap<string, Quiesce>,
  signal: AbortSignal,
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
  if (rested.length === 0) return;
  store.putValue(restKey(stack), rested);
  for (const one of rested) {
    signal.throwIfAborted();
    await runtime[one.how](one.id, signal);
  }
}

/** Whatever is on record as brought to rest runs again. Idempotent; a container that is gone needs nothing. */
export async function wake(bench: Workbench, stack: string, signal: AbortSignal): Promise<void> {
  const { store, runtime } = bench.house;
  const rested = store.value(restKey(stack)) as readonly Rested[] | undefined;
  if (rested === undefined) return;
  const { containers } = (await bench.look.fresh('known')).observed;
  for (const { id } of rested) {
    const one = containers.find((container) => container.id === id);
    if (one?.state === 'paused') await runtime.unpause(id, signal);
    else if (one && one.state !== 'running') await runtime.start(id, signal);
  }
  store.deleteValue(restKey(stack));
}
