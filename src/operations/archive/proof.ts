// Proof: what is on record of an archive having been found right: read as a whole, or rehearsed. Whatever finds it wrong takes that back and says
// so, so that retention never keeps it in the place of a good one.
import { blobsOf, readManifest } from '../../core/archive/manifest.ts';
import { Fault } from '../../core/fault.ts';
import type { ArchiveStore, Verification } from '../../ports/archive.ts';
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

function putWrong(store: Store, id: string, atMs: number): void {
  store.putValue(damagedKey(id), atMs);
  forgetProof(store, id);
}

/** Archives share their blobs: whatever of `own` names a wrong one is no longer known to be right either, and none is pruned for its sake. Throws
 * what keeps one from being read: it may be among them. */
export async function putWrongWithOthers(
  store: Store,
  own: Pick<ArchiveStore, 'list' | 'manifest'>,
  id: string,
  wrong: Verification['wrong'],
  atMs: number,
): Promise<void> {
  // First: the others may not be told now.
  putWrong(store, id, atMs);
  const all = await own.list();
  // What is wrong in a replica alone says nothing of these.
  if (!all.some((one) => one.id === id)) return;
  const digests = new Set(wrong.map((one) => one.digest));
  const found: string[] = [];
  for (const one of all) {
    if (digests.has(one.id)) found.push(one.id);
    if (one.kind !== 'archive') continue;
    const read = await own.manifest(one.id).catch((error: unknown) => {
      // Removed meanwhile, or listed as damaged from now on.
      if (error instanceof Fault && (error.code === 'ARCHIVE_MISSING' || error.code === 'ARCHIVE_DAMAGED')) return null;
      throw error;
    });
    if (read !== null && blobsOf(readManifest(read.bytes)).some((blob) => digests.has(blob.digest))) found.push(one.id);
  }
  for (const spoilt of found) putWrong(store, spoilt, atMs);
}

export function forgetProof(store: Store, id: string): void {
  for (const key of [readKey(id), drilledKey(id)]) store.deleteValue(key);
}
