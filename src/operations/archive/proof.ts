// Proof: what is on record of an archive having been found right: read as a whole, or rehearsed. Whatever finds it wrong takes that back, so that
// retention never keeps it in the place of a good one.
import type { Store } from '../../ports/store.ts';
import { drilledKey } from './drill-record.ts';

/** On disk: when it was last read as a whole and found right. */
export const readKey = (id: string): string => `archive-verified/${id}`;

export function forgetProof(store: Store, id: string): void {
  for (const key of [readKey(id), drilledKey(id)]) store.deleteValue(key);
}
