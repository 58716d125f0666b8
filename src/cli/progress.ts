// Progress of a plan: live rows on a terminal, plain lines elsewhere, NDJSON for machines.
import type { Observer } from '../engine/observer.ts';
import type { Io } from './io.ts';

/** Only what is shown is loaded. */
export async function progressOf(io: Io, form: 'people' | 'ndjson'): Promise<Observer> {
  if (form === 'ndjson') {
    const { ndjsonObserver } = await import('../engine/observers/ndjson.ts');
    return ndjsonObserver({ write: (line) => io.data(line.trimEnd()) });
  }
  if (io.screen) {
    const { liveObserver } = await import('../engine/observers/live.ts');
    return liveObserver({ stream: io.screen });
  }
  const { lineObserver } = await import('../engine/observers/line.ts');
  return lineObserver({ write: (line) => io.words(line.trimEnd()) });
}
