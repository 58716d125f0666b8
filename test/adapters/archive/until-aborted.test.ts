import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { untilAborted } from '../../../src/adapters/archive/until-aborted.ts';

async function* chunks(count: number, sizeBytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < count; at++) {
    await setImmediate();
    yield Buffer.alloc(sizeBytes, at);
  }
}

describe('a stream that may be aborted', () => {
  it('keeps none of its chunks', async () => {
    // Long before the end most of what went through must be free again, without anybody asking for it.
    const { signal } = new AbortController();
    let most = 0;
    let sizeBytes = 0;
    for await (const chunk of untilAborted(chunks(1_000, 512 * 1024), signal)) {
      sizeBytes += chunk.length;
      most = Math.max(most, process.memoryUsage().arrayBuffers);
    }
    expect(sizeBytes).toBe(500 * 1024 * 1024);
    expect(most).toBeLessThan(300 * 1024 * 1024);
  });

  it.each([true, false])(
    'ends when the signal says so, although its source hangs (%s: already before)',
    async (before) => {
      const abort = new AbortController();
      if (before) abort.abort();
      const hangs: AsyncIterable<Uint8Array> = {
        [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}), return: () => new Promise(() => {}) }),
      };
      const reading = untilAborted(hangs, abort.signal).next();
      reading.catch(() => {});
      await setImmediate();
      abort.abort();
      await expect(reading).rejects.toMatchObject({ code: 'CANCELLED' });
    },
  );

  it('throws on what its source throws', async () => {
    const wrong = new Error('of the source');
    async function* fails(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('one');
      throw wrong;
    }
    const reading = untilAborted(fails(), new AbortController().signal);
    await reading.next();
    await expect(reading.next()).rejects.toBe(wrong);
  });
});
