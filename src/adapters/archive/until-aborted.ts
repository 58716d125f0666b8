// Until aborted: a stream that is left when the signal says so, also when its source hangs.
import { Fault } from '../../core/fault.ts';

/** What the source throws is thrown on as it is. */
export async function* untilAborted(
  source: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  if (signal === undefined) {
    yield* source;
    return;
  }
  const iterator = source[Symbol.asyncIterator]();
  let leave: (() => void) | null = null;
  const onAbort = () => leave?.();
  signal.addEventListener('abort', onAbort, { once: true });
  let isDone = false;
  try {
    for (;;) {
      // One promise a step: a race against one that lives on would keep every chunk until the end.
      const step = await new Promise<IteratorResult<Uint8Array>>((resolve, reject) => {
        leave = () => reject(new Fault('CANCELLED', 'the archive store was told to stop', { cause: signal.reason }));
        if (signal.aborted) leave();
        else iterator.next().then(resolve, reject);
      });
      if (step.done) {
        isDone = true;
        return;
      }
      yield step.value;
    }
  } finally {
    signal.removeEventListener('abort', onAbort);
    // Not waited for: it may hang in the very call that was given up.
    if (!isDone) iterator.return?.()?.catch(() => {});
  }
}
