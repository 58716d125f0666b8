// The clock of the world: system time, real waits, unguessable ids.
import { randomBytes, randomInt } from 'node:crypto';
import type { Clock } from '../../ports/clock.ts';

/** Longer timers overflow and fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;
const RANDOM_STEPS = 2 ** 47;

export class RealClock implements Clock {
  nowMs(): number {
    return Date.now();
  }

  async sleep(ms: number, signal?: AbortSignal, background = false): Promise<void> {
    let left = Math.max(0, ms);
    do {
      const part = Math.min(left, MAX_TIMER_MS);
      await sleepOnce(part, signal, background);
      left -= part;
    } while (left > 0);
  }

  random(): number {
    return randomInt(RANDOM_STEPS) / RANDOM_STEPS;
  }

  id(): string {
    return randomBytes(16).toString('hex');
  }
}

function sleepOnce(ms: number, signal: AbortSignal | undefined, background: boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    if (background) timer.unref();
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
