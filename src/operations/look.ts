// Look: one observation of the engine shared by all who ask at the same moment. Who needs it fresh never gets one that began earlier.
import { indexObserved, type ObservedIndex } from '../core/diff/index-observed.ts';
import type { Runtime } from '../ports/runtime.ts';

export type Inspect = 'known' | 'all' | readonly string[];

export class Look {
  readonly #runtime: Runtime;
  /** An observation that has not begun yet: later callers join it. */
  #next: { promise: Promise<ObservedIndex>; inspect: Set<string> | 'all' | 'known' } | null = null;
  #running: Promise<unknown> = Promise.resolve();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  fresh(inspect: Inspect): Promise<ObservedIndex> {
    if (this.#next) {
      this.#next.inspect = widen(this.#next.inspect, inspect);
      return this.#next.promise;
    }
    const asked: { inspect: Set<string> | 'all' | 'known' } = { inspect: widen('known', inspect) };
    const promise = this.#running.then(async () => {
      this.#next = null;
      const wanted = asked.inspect;
      return indexObserved(await this.#runtime.observe({ inspect: wanted instanceof Set ? [...wanted] : wanted }));
    });
    this.#next = Object.assign(asked, { promise });
    this.#running = promise.catch(() => {});
    return promise;
  }
}

function widen(before: Set<string> | 'all' | 'known', more: Inspect): Set<string> | 'all' | 'known' {
  if (before === 'all' || more === 'all') return 'all';
  if (more === 'known') return before;
  return new Set([...(before instanceof Set ? before : []), ...more]);
}
