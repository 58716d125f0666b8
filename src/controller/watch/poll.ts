// Watch: asks the source on a schedule with jitter, and at once when told.
import type { Clock } from '../../ports/clock.ts';

export async function poll(
  clock: Clock,
  intervalMs: number,
  signal: AbortSignal,
  tick: () => Promise<void>,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await clock.sleep(Math.round(intervalMs * (0.9 + 0.2 * clock.random())), signal);
    } catch {
      return;
    }
    await tick();
  }
}
