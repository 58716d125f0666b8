// Proof: what is on record of an archive having been found right: read as a whole, or rehearsed. Whatever finds it wrong takes that back and says
// so, so that retention never keeps it in the place of a good one.
import type { Store } from '../../ports/store.ts';
import { drilledKey } from './drill-record.ts';

/** On disk: when it was last read as a whole and found right. */
export const readKey = (id: string): string => `archive-verified/${id}`;

/** When it was last found wrong, and not found right or brought in anew since. */
export const damagedKey = (id: string): string => `archive-damaged/${id}`;

export function putRight(store: Store, id: string, atMs: number): void {
  store.putValue(readKey(id), atMs);
  store.deleteValue(damagedKey(id));
}

export function putWrong(store: Store, id: string, atMs: number): void {
  store.putValue(damagedKey(id), atMs);
  forgetProof(store, id);
}

export function forgetProof(store: Store, id: string): void {
  for (const key of [readKey(id), drilledKey(id)]) store.deleteValue(key);
}
