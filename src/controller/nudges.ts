// Nudges: how another process asks the controller to look now, through the store; the asker waits for the stack's conditions to move on.
import type { Store } from '../ports/store.ts';

export interface Nudge {
  readonly id: string;
  /** '' = all. */
  readonly stack: string;
  readonly fetch: boolean;
  readonly atMs: number;
}

export class Nudges {
  readonly #store: Store;
  #seen = -1;

  constructor(store: Store) {
    this.#store = store;
  }

  add(nudge: Nudge): void {
    this.#store.putValue(`nudge/${nudge.id}`, nudge);
  }

  /** Those that wait; cheap when nobody wrote since the last call. */
  take(): readonly Nudge[] {
    const counter = this.#store.changeCounter();
    if (counter === this.#seen) return [];
    this.#seen = counter;
    return [...this.#store.values('nudge/').values()] as Nudge[];
  }

  /** The asker sees that it was heard. */
  done(nudge: Nudge, atMs: number): void {
    this.#store.deleteValue(`nudge/${nudge.id}`);
    this.#store.putValue(`nudged/${nudge.stack}`, { id: nudge.id, atMs });
  }

  heard(nudge: Nudge): boolean {
    return this.#store.value(`nudge/${nudge.id}`) === undefined;
  }
}
