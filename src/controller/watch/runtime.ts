// Watch: the engine's events, as project names to look at. Reconnects for ever; every reconnect means "look at everything", since
// events were missed meanwhile.
import type { Clock } from '../../ports/clock.ts';
import type { Runtime } from '../../ports/runtime.ts';

export interface RuntimeWatch {
  /** '' = everything. */
  readonly look: (project: string, what: string) => void;
  readonly lost: (error: unknown) => void;
  readonly connected: () => void;
}

const RETRY_MS = 1_000;
const RETRY_CAP_MS = 15_000;

export async function watchRuntime(
  runtime: Runtime,
  clock: Clock,
  signal: AbortSignal,
  tell: RuntimeWatch,
): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    try {
      const stream = runtime.events(signal)[Symbol.asyncIterator]();
      let first = true;
      for (;;) {
        const pending = stream.next();
        if (first) {
          first = false;
          tell.connected();
        }
        const { done, value } = await pending;
        if (done) break;
        failures = 0;
        // Networks, volumes and images bear no project: whoever uses them is found by looking.
        tell.look(value.kind === 'container' ? value.project : '', `${value.kind} ${value.action}`);
      }
    } catch (error) {
      if (signal.aborted) return;
      tell.lost(error);
    }
    if (signal.aborted) return;
    failures++;
    try {
      await clock.sleep(Math.min(RETRY_CAP_MS, RETRY_MS * 2 ** Math.min(failures - 1, 4)), signal, true);
    } catch {
      return;
    }
  }
}
