// Queue: keys only. A key that is added while it is worked on is worked on once more afterwards; one run per key at a time; failures
// come back with backoff. What to do with a key is found by looking, never carried along.
import type { Clock } from '../ports/clock.ts';

export type Answer =
  /** Forget the failures. */
  | { readonly kind: 'done' }
  /** Come again after this time, failures forgotten. */
  | { readonly kind: 'after'; readonly ms: number }
  /** Come again with growing delays. */
  | { readonly kind: 'backoff' };

export interface QueueOptions {
  readonly clock: Clock;
  /** Keys in work at once. */
  readonly concurrency: number;
  readonly delayMs: (failures: number, random: number) => number;
  readonly work: (key: string, triggers: ReadonlySet<string>) => Promise<Answer>;
  readonly onError: (key: string, error: unknown) => void;
}

interface Waiting {
  readonly triggers: Set<string>;
  /** Only hinted at: a failure's pause is not cut short by it. */
  weak: boolean;
}

export class Queue {
  readonly #options: QueueOptions;
  /** Insertion order is the order of work; the value holds who asked, for the history only. */
  readonly #dirty = new Map<string, Waiting>();
  readonly #processing = new Set<string>();
  readonly #failures = new Map<string, number>();
  readonly #later = new Map<string, AbortController>();
  #idle: (() => void)[] = [];
  #closed = false;

  constructor(options: QueueOptions) {
    this.#options = options;
  }

  add(key: string, trigger: string): void {
    if (this.#closed) return;
    this.#later.get(key)?.abort();
    this.#later.delete(key);
    this.#enqueue(key, trigger, false);
  }

  /** Something moved. A key that pauses after a failure keeps its pause: what moved may be the failure itself. */
  hint(key: string, trigger: string): void {
    if (this.#closed || (this.failures(key) > 0 && !this.#processing.has(key))) return;
    this.#enqueue(key, trigger, true);
  }

  #enqueue(key: string, trigger: string, weak: boolean): void {
    const waiting = this.#dirty.get(key) ?? { triggers: new Set(), weak: true };
    waiting.triggers.add(trigger);
    waiting.weak &&= weak;
    this.#dirty.set(key, waiting);
    this.#pump();
  }

  addAfter(key: string, ms: number, trigger: string): void {
    if (this.#closed) return;
    this.#later.get(key)?.abort();
    const timer = new AbortController();
    this.#later.set(key, timer);
    this.#options.clock.sleep(ms, timer.signal, true).then(
      () => {
        if (this.#later.get(key) === timer) this.add(key, trigger);
      },
      () => {},
    );
  }

  /** A person or a new revision asks: try at once, and count failures anew. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  failures(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  busy(key: string): boolean {
    return this.#processing.has(key) || this.#dirty.has(key);
  }

  /** Resolves when nothing is in work and nothing waits to be (delayed keys do not count). */
  idle(): Promise<void> {
    if (this.#processing.size === 0 && (this.#dirty.size === 0 || this.#closed)) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** No new work starts; resolves when what runs has ended. */
  close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#later.values()) timer.abort();
    this.#later.clear();
    this.#dirty.clear();
    return this.idle();
  }

  #pump(): void {
    for (const [key, { triggers }] of this.#dirty) {
      if (this.#closed || this.#processing.size >= this.#options.concurrency) return;
      if (this.#processing.has(key)) continue;
      this.#dirty.delete(key);
      this.#processing.add(key);
      void this.#work(key, triggers);
    }
  }

  async #work(key: string, triggers: ReadonlySet<string>): Promise<void> {
    let answer: Answer;
    try {
      answer = await this.#options.work(key, triggers);
    } catch (error) {
      this.#options.onError(key, error);
      answer = { kind: 'backoff' };
    }
    this.#processing.delete(key);
    if (answer.kind === 'backoff') {
      const failures = this.failures(key) + 1;
      this.#failures.set(key, failures);
      if (this.#dirty.get(key)?.weak) this.#dirty.delete(key);
      if (!this.#dirty.has(key))
        this.addAfter(key, this.#options.delayMs(failures, this.#options.clock.random()), 'retry');
    } else {
      this.#failures.delete(key);
      if (answer.kind === 'after' && !this.#dirty.has(key)) this.addAfter(key, answer.ms, 'schedule');
    }
    this.#pump();
    if (this.#processing.size === 0 && (this.#dirty.size === 0 || this.#closed)) {
      for (const resolve of this.#idle) resolve();
      this.#idle = [];
    }
  }
}
