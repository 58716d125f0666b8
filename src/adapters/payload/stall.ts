// Stall: how long a program, an engine or a folder may keep a payload waiting without a byte. A file system whose server is gone answers
// nothing and fails nothing: without this a backup would wait for ever, with its services at rest. What the other side of a stream takes
// its time for does not count.
import { Fault } from '../../core/fault.ts';

/** Long enough for one folder of millions of names to be sorted, or for attributes that are set at the end. */
export const STALL_MS = 15 * 60_000;
/** A process that waits for such a file system cannot be ended; nobody waits for it longer. */
const LEAVE_MS = 10_000;

/** When somebody is told of it, who may do something about it before it is given up. */
const TELL_MS = 60_000;

/** `words`: what it is and what it does not do, for the message. `onStill` hears once that it is waited for, and until when. Throws
 * PAYLOAD_STALLED. */
export async function within<T>(
  work: Promise<T>,
  stallMs: number,
  words: string,
  onStill: (words: string) => void = () => {},
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const tellMs = Math.min(TELL_MS, stallMs / 2);
  const until = new Date(Date.now() + stallMs).toISOString();
  const telling = setTimeout(
    () =>
      onStill(`${words} for ${tellMs / 1000} s: not a byte came; it is waited for until ${until}, and given up then`),
    tellMs,
  );
  const late = new Promise<never>((_, reject) => {
    const why = `${words} for ${stallMs / 1000} s and was given up`;
    timer = setTimeout(() => reject(new Fault('PAYLOAD_STALLED', why)), stallMs);
  });
  // After it was given up nobody waits for it any more.
  work.catch(() => {});
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    clearTimeout(telling);
  }
}

/** What `source` gives, as long as it gives something. Whoever started the source ends it. */
export async function* moving<T>(
  source: AsyncIterable<T>,
  stallMs: number,
  words: string,
  onStill?: (words: string) => void,
): AsyncGenerator<T> {
  const iterator = source[Symbol.asyncIterator]();
  let isStill = true;
  try {
    for (;;) {
      isStill = true;
      const step = await within(iterator.next(), stallMs, words, onStill);
      isStill = false;
      if (step.done) return;
      yield step.value;
    }
  } finally {
    // One that stands still would keep us here.
    const left = iterator.return?.();
    if (isStill) left?.catch(() => {});
    else await left;
  }
}

/** Until `ending` is done, or it is clear that it never will be. */
export async function leave(ending: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const given = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, LEAVE_MS);
  });
  await Promise.race([ending, given]).finally(() => clearTimeout(timer));
}
