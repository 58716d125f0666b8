// Bak: one archive (.bak) or the archives of a group (.bkg) as one portable tar, and back. The manifests come first, so that nothing is
// taken in that they do not name; nothing is listed before every digest was right. Signatures travel along; whose they are is asked of
// the caller before any blob is read.
import {
  type BlobRef,
  blobsOf,
  MAX_MANIFEST_BYTES,
  type ReadArchive,
  type ReadGroup,
  readManifest,
} from '../../core/archive/manifest.ts';
import { Fault } from '../../core/fault.ts';
import type { ArchiveStore, StoredManifest } from '../../ports/archive.ts';
import { MAX_SIGNATURE_BYTES } from './store-rules.ts';
import { type EnvelopeFile, readEnvelope, writeEnvelope } from './tar-envelope.ts';
import { untilAborted } from './until-aborted.ts';

/** Of all manifests of a group: they are held in memory until the blobs are in. */
const MAX_MANIFESTS_BYTES = 128 * 1024 * 1024;

export interface ImportOptions {
  readonly signal?: AbortSignal;
  /** Refuses by throwing; asked for each manifest before any blob is stored. */
  readonly check?: (bytes: Uint8Array, signature: string) => void;
  /** Refused when the file holds anything else: what a request pins. */
  readonly expectedId?: string;
}

export interface Imported {
  readonly kind: 'archive' | 'group';
  readonly id: string;
  /** Ids of the archives: of a .bak its own, of a .bkg those of the members. */
  readonly archives: readonly string[];
  readonly blobs: number;
  readonly sizeBytes: number;
}

/** The usual ending of its name. */
export const endingOf = (kind: 'archive' | 'group'): '.bak' | '.bkg' => (kind === 'group' ? '.bkg' : '.bak');

/**
 * The bytes of a .bak, or of a .bkg when `id` is a group's; the same archive gives the same bytes. Faults: ARCHIVE_MISSING, ARCHIVE_DAMAGED
 * (then what was given so far is no archive: its end is missing).
 */
export async function* exportArchive(
  store: ArchiveStore,
  id: string,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  yield* writeEnvelope(filesOf(store, id, signal));
}

async function* filesOf(
  store: ArchiveStore,
  id: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<EnvelopeFile> {
  const stored = await store.manifest(id);
  const read = readManifest(stored.bytes);
  const blobs = new Map<string, BlobRef>();
  const note = (one: ReadArchive | ReadGroup) => {
    for (const blob of blobsOf(one)) blobs.set(blob.digest, blob);
  };
  note(read);
  yield* manifestFiles(read.kind === 'group' ? 'group' : 'manifest', stored);
  for (const { archive } of read.kind === 'group' ? read.manifest.members : []) {
    const member = await store.manifest(archive);
    note(readManifest(member.bytes));
    yield* manifestFiles(`archives/${archive}`, member);
  }
  for (const { digest, sizeBytes } of [...blobs.values()].sort((a, b) => (a.digest < b.digest ? -1 : 1)))
    yield { name: `blobs/${digest}`, sizeBytes, content: store.readBlob(digest, signal) };
}

function* manifestFiles(name: string, { bytes, signature }: StoredManifest): Generator<EnvelopeFile> {
  const text = Buffer.from(signature, 'utf8');
  yield { name: `${name}.json`, sizeBytes: bytes.length, content: once(bytes) };
  yield { name: `${name}.sig`, sizeBytes: text.length, content: once(text) };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

interface Held {
  readonly read: ReadArchive | ReadGroup;
  readonly bytes: Uint8Array;
  readonly signature: string;
}

/**
 * Takes a .bak or .bkg in. What it brings is stored anew even when it is there, which mends a damaged copy. Faults: ARCHIVE_INVALID for what
 * is none or not whole, ARCHIVE_DAMAGED when a digest is wrong, ARCHIVE_HOSTILE for what no export writes, those of `check` and of the store.
 */
export async function importArchive(
  store: ArchiveStore,
  source: AsyncIterable<Uint8Array>,
  options: ImportOptions = {},
): Promise<Imported> {
  const put: string[] = [];
  const files = readEnvelope(untilAborted(source, options.signal));
  try {
    const { first, members } = await readManifests(files, options);
    const blobs = new Map<string, BlobRef>();
    for (const { read } of [first, ...members]) noteBlobs(blobs, read);
    let sizeBytes = 0;
    for (let left = blobs.size; left > 0; left--) {
      const file = await nextFile(files);
      const digest = /^blobs\/([0-9a-f]{64})$/.exec(file.name)?.[1];
      const blob = digest === undefined ? undefined : blobs.get(digest);
      if (blob === undefined) throw hostile(`holds ${file.name}, which no manifest of it names`);
      if (file.sizeBytes !== blob.sizeBytes)
        throw hostile(`holds ${file.name} with another size than its manifest says`);
      put.push(blob.digest);
      await store.putBlob(file.content, options.signal, blob);
      sizeBytes += blob.sizeBytes;
    }
    const more = await files.next();
    if (!more.done) throw hostile(`holds ${more.value.name}, which no manifest of it names`);
    // A group after its members, so that it never names what is not there.
    for (const { bytes, signature } of [...members, first]) await store.putManifest(bytes, signature);
    return {
      kind: first.read.kind,
      id: first.read.id,
      archives: first.read.kind === 'group' ? members.map(({ read }) => read.id) : [first.read.id],
      blobs: blobs.size,
      sizeBytes,
    };
  } catch (error) {
    // Nobody names what it brought. What stands in the way of taking that away is not worth hiding the mistake.
    if (put.length > 0)
      await store
        .release(put)
        .then(() => store.collect())
        .catch(() => {});
    throw error;
  } finally {
    // Not waited for: the source may hang, and what it says now is of no use.
    files.return(undefined).catch(() => {});
  }
}

async function readManifests(
  files: AsyncIterator<EnvelopeFile>,
  options: ImportOptions,
): Promise<{ readonly first: Held; readonly members: readonly Held[] }> {
  const file = await nextFile(files);
  if (file.name !== 'manifest.json' && file.name !== 'group.json')
    throw new Fault('ARCHIVE_INVALID', `this is no archive of Windlass: it begins with ${file.name}`);
  const kind = file.name === 'group.json' ? 'group' : 'archive';
  const first = await readHeld(file, files, options);
  if (first.read.kind !== kind) throw hostile(`has the manifest of ${first.read.kind} as ${file.name}`);
  if (options.expectedId !== undefined && first.read.id !== options.expectedId)
    throw new Fault('ARCHIVE_INVALID', `the file holds the archive ${first.read.id}, not ${options.expectedId}`, {
      data: { expected: options.expectedId, found: first.read.id },
    });
  const members: Held[] = [];
  let total = first.bytes.length;
  for (const { stack, archive } of first.read.kind === 'group' ? first.read.manifest.members : []) {
    const next = await nextFile(files);
    if (next.name !== `archives/${archive}.json`)
      throw hostile(`holds ${next.name} where the manifest of ${archive} is expected`);
    const member = await readHeld(next, files, options);
    if (member.read.id !== archive)
      throw new Fault('ARCHIVE_DAMAGED', `the manifest of ${archive} is not what its id says`, { data: { archive } });
    if (member.read.kind !== 'archive' || member.read.manifest.stack !== stack)
      throw hostile(`has an archive of ${stack} that is of another stack`);
    total += member.bytes.length;
    if (total > MAX_MANIFESTS_BYTES) throw hostile('has larger manifests than are read');
    members.push(member);
  }
  return { first, members };
}

async function readHeld(file: EnvelopeFile, files: AsyncIterator<EnvelopeFile>, options: ImportOptions): Promise<Held> {
  const bytes = await readSmall(file, MAX_MANIFEST_BYTES);
  const read = readManifest(bytes);
  const wanted = file.name.replace(/\.json$/, '.sig');
  const next = await nextFile(files);
  if (next.name !== wanted) throw hostile(`holds ${next.name} where ${wanted} is expected`);
  const signature = Buffer.from(await readSmall(next, MAX_SIGNATURE_BYTES)).toString('utf8');
  options.check?.(bytes, signature);
  return { read, bytes, signature };
}

async function nextFile(files: AsyncIterator<EnvelopeFile>): Promise<EnvelopeFile> {
  const step = await files.next();
  if (step.done)
    throw new Fault('ARCHIVE_INVALID', 'the archive is not whole: a file that its manifest names is missing');
  return step.value;
}

async function readSmall(file: EnvelopeFile, maxBytes: number): Promise<Uint8Array> {
  if (file.sizeBytes > maxBytes) throw hostile(`has ${file.name} of ${file.sizeBytes} bytes`);
  const parts: Uint8Array[] = [];
  for await (const part of file.content) parts.push(part);
  return Buffer.concat(parts);
}

function noteBlobs(blobs: Map<string, BlobRef>, read: ReadArchive | ReadGroup): void {
  for (const blob of blobsOf(read)) {
    const known = blobs.get(blob.digest);
    if (known !== undefined && known.sizeBytes !== blob.sizeBytes)
      throw hostile(`gives one blob two sizes: ${blob.digest}`);
    blobs.set(blob.digest, blob);
  }
}

const hostile = (what: string): Fault => new Fault('ARCHIVE_HOSTILE', `the archive ${what}`);
