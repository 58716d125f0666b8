// PlanCache: what one run has read of the world, shared by probe, execute and all cells; and what must be closed after it.
// Entries are reached by typed keys only, made once by `planKey`, so the key space stays stable.
import { asError } from './thrown.ts';

/** A typed place in the cache. Two keys are never the same place, even when their names are equal. */
export interface PlanKey<T> {
  readonly name: string;
  readonly id: string;
  /** The same kind of fact about one thing, for example a target. */
  at(part: string): PlanKey<T>;
  /** Carries T for the compiler; never set. */
  readonly holds?: (value: T) => T;
}

export type Closer = (() => unknown) | { close(): unknown };

let keysMade = 0;

export function planKey<T>(name: string): PlanKey<T> {
  return keyOf(name, String(++keysMade));
}

function keyOf<T>(name: string, id: string): PlanKey<T> {
  return { name, id, at: (part) => keyOf(`${name}/${part}`, id + JSON.stringify(part)) };
}

export class PlanCache {
  readonly #values = new Map<string, unknown>();
  readonly #loading = new Map<string, Promise<unknown>>();
  readonly #closers: Closer[] = [];
  #closing: Promise<Error[]> | undefined;

  set<T>(key: PlanKey<T>, value: T): void {
    this.#loading.delete(key.id);
    this.#values.set(key.id, value);
  }

  get<T>(key: PlanKey<T>): T | undefined {
    return this.#values.get(key.id) as T | undefined;
  }

  /** True, false, or undefined when nobody has looked yet. */
  bool(key: PlanKey<boolean>): boolean | undefined {
    return this.get(key);
  }

  forget<T>(key: PlanKey<T>): void {
    this.#loading.delete(key.id);
    this.#values.delete(key.id);
  }

  /** The cached value, or one load shared by all who ask meanwhile. A fresh context loads anew; a failed load is not kept. */
  async read<T>(key: PlanKey<T>, ctx: { readonly fresh: boolean }, load: () => T | Promise<T>): Promise<T> {
    if (ctx.fresh) this.forget(key);
    if (this.#values.has(key.id)) return this.#values.get(key.id) as T;
    const running = this.#loading.get(key.id);
    if (running) return running as Promise<T>;
    const loading = (async () => load())();
    this.#loading.set(key.id, loading);
    try {
      const value = await loading;
      if (this.#loading.get(key.id) === loading) this.set(key, value);
      return value;
    } finally {
      if (this.#loading.get(key.id) === loading) this.#loading.delete(key.id);
    }
  }

  /** Closed at the end of the run; at once when the run is already over, so that late work leaks nothing. */
  registerCloser(closer: Closer): void {
    if (this.#closing) void closeOne(closer);
    else this.#closers.push(closer);
  }

  /** Runs every closer once, last registered first, each even when another failed. Answers their errors; never rejects. */
  close(): Promise<Error[]> {
    this.#closing ??= this.#closeAll();
    return this.#closing;
  }

  async #closeAll(): Promise<Error[]> {
    const errors: Error[] = [];
    for (let closer = this.#closers.pop(); closer; closer = this.#closers.pop()) {
      const error = await closeOne(closer);
      if (error) errors.push(error);
    }
    return errors;
  }
}

async function closeOne(closer: Closer): Promise<Error | undefined> {
  try {
    await (typeof closer === 'function' ? closer() : closer.close());
    return undefined;
  } catch (thrown) {
    return asError(thrown);
  }
}
