// Store rules: what every archive store decides alike, wherever its files lie: what a signed manifest is, what an archive names and must be
// there, what a listing says, what verifying finds. It opens no file and asks no server: whoever calls it says how.
import {
  archiveIdOf,
  type BlobRef,
  blobsOf,
  placeOf,
  type ReadArchive,
  type ReadGroup,
  readManifest,
} from '../../core/archive/manifest.ts';
import type { InRepository } from '../../core/archive/payload.ts';
import { asFault, Fault } from '../../core/fault.ts';
import type { Listed, StoredManifest, Verification } from '../../ports/archive.ts';
import { eachOf } from './remote-attempt.ts';

const DIGEST = /^[0-9a-f]{64}$/;
export const MAX_SIGNATURE_BYTES = 4 * 1024;
/** Looked for at once. */
const WIDTH = 8;

type Read = ReadArchive | ReadGroup;
type Wrong = Verification['wrong'][number];

export function checked(digest: string): string {
  if (!DIGEST.test(digest))
    throw new Fault('ARCHIVE_INVALID', 'an archive is named by all 64 hex digits of its id, and nothing shorter');
  return digest;
}

/** Before anything of it is stored. Throws ARCHIVE_INVALID. */
export function readSigned(bytes: Uint8Array, signature: string): Read {
  const read = readManifest(bytes);
  if (signature === '' || Buffer.byteLength(signature) > MAX_SIGNATURE_BYTES)
    throw new Fault('ARCHIVE_INVALID', 'an archive is only stored with its signature', { data: { archive: read.id } });
  return read;
}

/** What lies under the id; each null when nothing does. Throws ARCHIVE_MISSING, ARCHIVE_DAMAGED. */
export async function storedManifest(
  id: string,
  stored: {
    readonly manifest: () => Promise<Uint8Array | null>;
    readonly signature: () => Promise<Uint8Array | null>;
  },
): Promise<StoredManifest> {
  const missing = () => new Fault('ARCHIVE_MISSING', `there is no archive ${id}`, { data: { archive: id } });
  const bytes = await stored.manifest();
  if (bytes === null) throw missing();
  const signed = await stored.signature();
  // Whoever removes an archive takes the manifest first: one that went between the two reads is gone, not damaged.
  if (signed === null && (await stored.manifest()) === null) throw missing();
  if (archiveIdOf(bytes) !== id || signed === null)
    throw new Fault('ARCHIVE_DAMAGED', `the manifest of ${id} is not what it was`, { data: { archive: id } });
  return { id, bytes, signature: Buffer.from(signed).toString('utf8') };
}

export function summaryOf(read: Read): Listed {
  const { id } = read;
  if (read.kind === 'group') {
    const { group, madeAtMs, members } = read.manifest;
    return { kind: 'group', id, group, madeAtMs, members };
  }
  const { stack, group, purpose, madeAtMs } = read.manifest;
  const blobs = blobsOf(read);
  const sizeBytes = blobs.reduce((sum, blob) => sum + blob.sizeBytes, 0);
  return { kind: 'archive', id, stack, group, purpose, madeAtMs, sizeBytes, blobs: blobs.length };
}

/** What is damaged tells no time and comes last. */
export function newestFirst(listed: readonly Listed[]): readonly Listed[] {
  const atMs = (one: Listed): number => (one.kind === 'damaged' ? 0 : one.madeAtMs);
  return [...listed].sort((a, b) => atMs(b) - atMs(a) || (a.id < b.id ? -1 : 1));
}

/** Throws ARCHIVE_IN_USE when a group names it. */
export function refuseNamed(id: string, listed: readonly Listed[]): void {
  for (const other of listed)
    if (other.kind === 'group' && other.members.some((member) => member.archive === id))
      throw new Fault('ARCHIVE_IN_USE', `the group archive ${other.id} names ${id}`, {
        data: { archive: id, group: other.id },
      });
}

/** Everything that the manifest names must be there before it is. Throws ARCHIVE_MISSING, ARCHIVE_INVALID. */
export async function checkWhole(
  read: Read,
  store: {
    readonly isHere: (blob: BlobRef) => Promise<boolean>;
    readonly holdsElsewhere: (place: InRepository) => Promise<boolean>;
    readonly member: (id: string) => Promise<Read>;
  },
): Promise<void> {
  const missing = (digest: string, what: string) =>
    new Fault('ARCHIVE_MISSING', `the archive ${read.id} names ${what} that is not in the store: ${digest}`, {
      data: { archive: read.id, digest },
    });
  await eachOf(blobsOf(read), WIDTH, async (blob) => {
    if (await store.isHere(blob)) return;
    const place = placeOf(read, blob.digest);
    if (place === null || !(await store.holdsElsewhere(place))) throw missing(blob.digest, 'a blob');
  });
  for (const { stack, archive } of read.kind === 'group' ? read.manifest.members : []) {
    const member = await store.member(archive).catch((error: unknown) => {
      throw asFault(error, 'ARCHIVE_FAILED').code === 'ARCHIVE_MISSING' ? missing(archive, 'an archive') : error;
    });
    if (member.kind !== 'archive' || member.manifest.stack !== stack)
      throw new Fault('ARCHIVE_INVALID', `the archive ${archive} is none of the stack ${stack}`, {
        data: { archive: read.id, member: archive },
      });
  }
}

/** Reads everything again, of a group also its members. `judge` says what is wrong, or throws on what tells nothing of the blob. */
export async function verifyArchive(
  id: string,
  store: {
    readonly read: (id: string) => Promise<Read>;
    readonly readBlob: (digest: string) => AsyncIterable<Uint8Array>;
    readonly judge: (error: unknown) => Wrong['what'];
  },
): Promise<Verification> {
  const read = await store.read(id);
  const wrong: Wrong[] = [];
  const blobs = new Map(blobsOf(read).map((blob) => [blob.digest, blob]));
  for (const { archive } of read.kind === 'group' ? read.manifest.members : [])
    try {
      for (const blob of blobsOf(await store.read(archive))) blobs.set(blob.digest, blob);
    } catch (error) {
      wrong.push({ digest: archive, kind: 'manifest', what: store.judge(error) });
    }
  let sizeBytes = 0;
  for (const { digest, sizeBytes: expected } of blobs.values())
    try {
      let found = 0;
      for await (const chunk of store.readBlob(digest)) found += chunk.length;
      sizeBytes += found;
      if (found !== expected) wrong.push({ digest, kind: 'blob', what: 'damaged' });
    } catch (error) {
      wrong.push({ digest, kind: 'blob', what: store.judge(error) });
    }
  return { id, blobs: blobs.size, sizeBytes, wrong };
}

export const whatOf = (error: unknown): Wrong['what'] => {
  const fault = asFault(error, 'ARCHIVE_FAILED');
  if (fault.code === 'ARCHIVE_MISSING') return 'missing';
  // A disk that cannot be read and a changed bit are the same to a restore; a wish to stop is neither.
  if (fault.code === 'CANCELLED') throw fault;
  return 'damaged';
};
