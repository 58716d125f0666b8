// Stall: somebody is told in time of what stands still, once, and until when it is waited for.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { moving, STALL_MS, within } from '../../../src/adapters/payload/stall.ts';

beforeEach(() => void vi.useFakeTimers({ now: Date.UTC(2026, 11, 1) }));
afterEach(() => void vi.useRealTimers());

it('tells after a minute what is waited for and until when, and gives it up no sooner than before', async () => {
  const told: string[] = [];
  const failed: string[] = [];
  const work = within(new Promise(() => {}), STALL_MS, 'the reading of the volume v stood still', (words) => {
    told.push(words);
  }).catch((error: Error) => void failed.push(error.message));
  await vi.advanceTimersByTimeAsync(59_999);
  expect(told).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(told).toEqual([
    'the reading of the volume v stood still for 60 s: not a byte came; it is waited for until 2026-12-01T00:15:00.000Z, and given up then',
  ]);
  await vi.advanceTimersByTimeAsync(839_999);
  expect([told.length, failed]).toEqual([1, []]);
  await vi.advanceTimersByTimeAsync(1);
  await work;
  expect(failed).toEqual(['the reading of the volume v stood still for 900 s and was given up']);
});

it('tells nothing of what moves', async () => {
  const told: string[] = [];
  async function* slow(): AsyncGenerator<number> {
    for (const count of [1, 2, 3]) {
      await new Promise((resolve) => setTimeout(resolve, 59_000));
      yield count;
    }
  }
  const all = (async () => {
    for await (const _ of moving(slow(), STALL_MS, 'it stood still', (words) => void told.push(words)));
  })();
  await vi.advanceTimersByTimeAsync(180_000);
  await all;
  await vi.advanceTimersByTimeAsync(STALL_MS);
  expect(told).toEqual([]);
});
