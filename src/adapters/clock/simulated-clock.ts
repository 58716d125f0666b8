// A clock that a test turns by hand: time stands still until `advance`, sleepers wake in order, ids and chance come
// from one seed. The same seed and the same calls give the same story.
import type { Clock } from '../../ports/clock.ts';

interface Sleeper {
  readonly atMs: number;
  /** Ties are broken by who slept first. */
  readonly order: number;
  readonly wake: () => void;
}

const DEFAULT_START_MS = Date.UTC(2026, 0, 1);
/** Rounds of the event loop in which what a sleeper woke may go to sleep again. */
const SETTLE_ROUNDS = 3;

export class SimulatedClock implements Clock {
  #nowMs: number;
  #order = 0;
  #sleepers: Sleeper[] = [];
  #state: number;
  #ids = 0;
  readonly #seed: number;

  constructor(options: { readonly startMs?: number; readonly seed?: number } = {}) {
    this.#nowMs = options.startMs ?? DEFAULT_START_MS;
    this.#seed = (options.seed ?? 1) >>> 0;
    this.#state = this.#seed;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const order = this.#order++;
      const onAbort = (): void => {
        this.#sleepers = this.#sleepers.filter((other) => other.order !== order);
        reject(signal?.reason);
      };
      const sleeper: Sleeper = {
        atMs: this.#nowMs + Math.max(0, ms),
        order,
        wake: () => {
          signal?.removeEventListener('abort', onAbort);
          resolve();
        },
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#sleepers.push(sleeper);
    });
  }

  /** Mulberry32: small, and the same everywhere. */
  random(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Seed and count: of its own sequence, so that drawing ids does not shift chance. */
  id(): string {
    this.#ids += 1;
    // Its beginning differs too: ids are shortened for people.
    return this.#ids.toString(16).padStart(8, '0') + this.#seed.toString(16).padStart(24, '0');
  }

  /** When the next sleeper wakes; null when nobody sleeps. */
  nextWakeMs(): number | null {
    return this.#next()?.atMs ?? null;
  }

  get sleeping(): number {
    return this.#sleepers.length;
  }

  /** Moves time on by `ms`, waking every sleeper at its own moment, also those that fall asleep on the way. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    await settle();
    for (let next = this.#next(); next !== undefined && next.atMs <= untilMs; next = this.#next()) {
      const due = next;
      this.#sleepers = this.#sleepers.filter((other) => other.order !== due.order);
      this.#nowMs = Math.max(this.#nowMs, due.atMs);
      due.wake();
      await settle();
    }
    this.#nowMs = untilMs;
  }

  /** Sets the wall clock, also backwards, without waking anybody: what a correction of the system time does. */
  jump(toMs: number): void {
    const by = toMs - this.#nowMs;
    this.#sleepers = this.#sleepers.map((sleeper) => ({ ...sleeper, atMs: sleeper.atMs + by }));
    this.#nowMs = toMs;
  }

  #next(): Sleeper | undefined {
    let first: Sleeper | undefined;
    for (const sleeper of this.#sleepers) {
      const isEarlier =
        first === undefined ||
        sleeper.atMs < first.atMs ||
        (sleeper.atMs === first.atMs && sleeper.order < first.order);
      if (isEarlier) first = sleeper;
    }
    return first;
  }
}

async function settle(): Promise<void> {
  for (let round = 0; round < SETTLE_ROUNDS; round += 1) await new Promise((resolve) => setImmediate(resolve));
}
