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
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  aborted.catch(() => {});
  const onAbort = () => reject(new Fault('CANCELLED', 'the archive store was told to stop', { cause: signal.reason }));
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  let isDone = false;
  try {
    for (;;) {
      const step = await Promise.race([iterator.next(), aborted]);
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
