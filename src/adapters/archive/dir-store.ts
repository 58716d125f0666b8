// Directory store: archives in a folder, blobs and manifests under the SHA-256 of what they hold. Everything is written beside its place,
// synced and renamed, and a manifest comes after all that it names: a crash or a full disk leaves nothing that is half there.
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, rename, rm, stat, statfs, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  archiveIdOf,
  type BlobRef,
  blobsOf,
  MAX_MANIFEST_BYTES,
  type ReadArchive,
  type ReadGroup,
  readManifest,
} from '../../core/archive/manifest.ts';
import type { InRepository } from '../../core/archive/payload.ts';
import { asFault, Fault } from '../../core/fault.ts';
import type { ArchiveStore, Collected, Listed, StoredManifest, Verification } from '../../ports/archive.ts';
import { asArchiveFault, codeOf, isReadOnly, throwIfCancelled } from './archive-fault.ts';
import { withStoreLock } from './store-lock.ts';
import {
  checked,
  checkWhole,
  MAX_SIGNATURE_BYTES,
  newestFirst,
  readSigned,
  refuseNamed,
  storedManifest,
  summaryOf,
  verifyArchive,
  whatOf,
} from './store-rules.ts';
import { untilAborted } from './until-aborted.ts';
import { removed, WriterFolder } from './writer-folder.ts';

const DIGEST = /^[0-9a-f]{64}$/;
const READ_BYTES = 512 * 1024;
const LOCK_TIMEOUT_MS = 600_000;
/** Written once: nobody opens it for writing again, not even we. */
const FILE_MODE = 0o400;

export interface DirStoreOptions {
  /** Made when it is missing and something is put. */
  readonly directory: string;
  readonly nowMs?: () => number;
  /** Does the repository beside hold this blob? Without one, everything that a manifest names must be here. */
  readonly holdsElsewhere?: (place: InRepository) => Promise<boolean>;
}

export class DirStore implements ArchiveStore {
  readonly #directory: string;
  readonly #blobs: string;
  readonly #manifests: string;
  readonly #writer: WriterFolder;
  readonly #nowMs: () => number;
  readonly #holdsElsewhere: (place: InRepository) => Promise<boolean>;
  /** Id → what its manifest says, while its file is the same. */
  readonly #listed = new Map<string, { readonly facts: string; readonly listed: Listed }>();
  #laidOut: Promise<void> | null = null;

  constructor(options: DirStoreOptions) {
    this.#directory = options.directory;
    this.#blobs = join(options.directory, 'blobs', 'sha256');
    this.#manifests = join(options.directory, 'manifests');
    this.#writer = new WriterFolder(join(options.directory, 'incoming'), (work) => this.#alone(work));
    this.#nowMs = options.nowMs ?? Date.now;
    this.#holdsElsewhere = options.holdsElsewhere ?? (async () => false);
  }

  // --- blobs

  async putBlob(source: AsyncIterable<Uint8Array>, signal?: AbortSignal, expected?: BlobRef): Promise<BlobRef> {
    throwIfCancelled(signal);
    const part = await this.#says('a blob could not be begun', async () => {
      await this.#beginWriting();
      return await this.#writer.fresh();
    });
    try {
      const blob = await writePart(part, source, signal, expected?.sizeBytes ?? Number.POSITIVE_INFINITY);
      if (expected !== undefined && (blob.digest !== expected.digest || blob.sizeBytes !== expected.sizeBytes))
        throw new Fault('ARCHIVE_DAMAGED', `a blob is not what its digest says: ${expected.digest}`, {
          data: { expected: expected.digest, found: blob.digest },
        });
      await this.#says('a blob could not be put in place', () =>
        this.#alone(async () => {
          await this.#writer.keep(blob.digest);
          // Over one that is there: it is the same, unless that one is damaged.
          await putInPlace(part, this.#blobPath(blob.digest));
        }),
      );
      return blob;
    } finally {
      await rm(part, { force: true }).catch(() => {});
    }
  }

  async hasBlob(digest: string, sizeBytes?: number): Promise<boolean> {
    const path = this.#blobPath(digest);
    return await this.#says('a blob could not be looked for', async () => {
      if (!(await isFile(path, sizeBytes))) return false;
      try {
        await this.#beginWriting();
        return await this.#alone(async () => {
          if (!(await isFile(path, sizeBytes))) return false;
          await this.#writer.keep(digest);
          return true;
        });
      } catch (error) {
        // Who cannot write into the store cannot keep anything either, and will not name it.
        if (isReadOnly(error)) return true;
        throw error;
      }
    });
  }

  async *readBlob(digest: string, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    yield* readChecked(this.#blobPath(digest), digest, signal);
  }

  async release(digests: readonly string[]): Promise<void> {
    await this.#says('blobs could not be released', () => this.#writer.release(digests.map(checked)));
  }

  // --- manifests

  async putManifest(bytes: Uint8Array, signature: string): Promise<string> {
    const read = readSigned(bytes, signature);
    await this.#says('a manifest could not be stored', async () => {
      await this.#beginWriting();
      await this.#alone(async () => {
        await checkWhole(read, {
          isHere: ({ digest, sizeBytes }) => isFile(this.#blobPath(digest), sizeBytes),
          holdsElsewhere: this.#holdsElsewhere,
          member: (id) => this.#read(id),
        });
        const path = this.#manifestPath(read.id);
        const known = await readBounded(path, MAX_MANIFEST_BYTES);
        const isSigned = await isFile(signaturePath(path));
        if (known === null || archiveIdOf(known) !== read.id || !isSigned) {
          // The signature first: what is listed by its manifest has one.
          await this.#write(signaturePath(path), Buffer.from(signature, 'utf8'));
          await this.#write(path, bytes);
        }
      });
      await this.#writer.release(blobsOf(read).map((blob) => blob.digest));
    });
    return read.id;
  }

  async manifest(id: string): Promise<StoredManifest> {
    const path = this.#manifestPath(id);
    return await this.#says('a manifest could not be read', async () => {
      return await storedManifest(id, {
        manifest: () => readBounded(path, MAX_MANIFEST_BYTES),
        signature: () => readBounded(signaturePath(path), MAX_SIGNATURE_BYTES),
      });
    });
  }

  async list(): Promise<readonly Listed[]> {
    return await this.#says('archives could not be listed', async () => {
      const found: Listed[] = [];
      for (const id of await this.#ids()) {
        const listed = await this.#listOne(id);
        if (listed !== null) found.push(listed);
      }
      return newestFirst(found);
    });
  }

  async remove(id: string): Promise<boolean> {
    const path = this.#manifestPath(id);
    return await this.#says('an archive could not be removed', async () => {
      if (!(await isFile(path))) return false;
      return await this.#alone(async () => {
        refuseNamed(id, await this.list());
        const wasThere = await removed(unlink(path));
        // Before the signature goes: a manifest that came back without it after a power cut would keep everything else.
        await syncFolder(this.#manifests);
        await removed(unlink(signaturePath(path)));
        this.#listed.delete(id);
        return wasThere;
      });
    });
  }

  // --- the whole

  async collect(pins: Iterable<string> = []): Promise<Collected> {
    return await this.#says('the archive store could not be collected', async () => {
      if (!(await exists(this.#blobs))) return { blobs: 0, sizeBytes: 0 };
      await this.#layOut();
      return await this.#alone(async () => {
        await this.#writer.clean();
        const needed = new Set([...pins, ...(await this.#writer.kept(this.#nowMs()))]);
        const ids = await this.#ids();
        for (const id of ids) for (const blob of blobsOf(await this.#read(id))) needed.add(blob.digest);
        await this.#dropSignatures(new Set(ids));
        return await this.#dropBlobs(needed);
      });
    });
  }

  verify(id: string, signal?: AbortSignal): Promise<Verification> {
    const readBlob = (digest: string) => this.readBlob(digest, signal);
    return verifyArchive(id, { read: (one) => this.#read(one), readBlob, judge: whatOf });
  }

  async freeBytes(): Promise<number | null> {
    for (let path = this.#directory; ; path = dirname(path))
      try {
        const { bavail, bsize } = await statfs(path);
        return bavail * bsize;
      } catch (error) {
        if (codeOf(error) !== 'ENOENT' || path === dirname(path)) return null;
      }
  }

  async close(): Promise<void> {
    await this.#says('the archive store could not be left', () => this.#writer.close());
  }

  // --- parts

  #blobPath(digest: string): string {
    return join(this.#blobs, checked(digest).slice(0, 2), digest);
  }

  #manifestPath(id: string): string {
    return join(this.#manifests, `${checked(id)}.json`);
  }

  async #says<T>(what: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw asArchiveFault(error, what);
    }
  }

  #layOut(): Promise<void> {
    const make = async () => {
      for (const folder of [this.#blobs, this.#manifests, join(this.#directory, 'incoming')]) await makeFolder(folder);
    };
    this.#laidOut ??= make().catch((error: unknown) => {
      this.#laidOut = null;
      throw error;
    });
    return this.#laidOut;
  }

  async #beginWriting(): Promise<void> {
    await this.#layOut();
    await this.#writer.ready();
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    return withStoreLock(join(this.#directory, 'lock'), LOCK_TIMEOUT_MS, work);
  }

  async #read(id: string): Promise<ReadArchive | ReadGroup> {
    return readManifest((await this.manifest(id)).bytes);
  }

  async #ids(): Promise<readonly string[]> {
    const names = await readdir(this.#manifests).catch((error: unknown) => {
      // Nothing was ever put. Anything else is "could not look", never "there is none".
      if (codeOf(error) === 'ENOENT') return [];
      throw error;
    });
    return names.flatMap((name) => (/^[0-9a-f]{64}\.json$/.test(name) ? [name.slice(0, 64)] : []));
  }

  async #listOne(id: string): Promise<Listed | null> {
    const facts = await stat(this.#manifestPath(id), { bigint: true }).catch((error: unknown) => {
      if (codeOf(error) === 'ENOENT') return null;
      throw error;
    });
    // Removed since the folder was read.
    if (facts === null) return null;
    const mark = `${facts.ino} ${facts.size} ${facts.ctimeNs}`;
    const known = this.#listed.get(id);
    if (known?.facts === mark) return known.listed;
    let listed: Listed;
    try {
      listed = summaryOf(await this.#read(id));
    } catch (error) {
      const fault = asFault(error, 'ARCHIVE_FAILED');
      if (fault.code === 'ARCHIVE_MISSING') return null;
      return { kind: 'damaged', id, code: fault.code, why: fault.message };
    }
    this.#listed.set(id, { facts: mark, listed });
    return listed;
  }

  async #write(path: string, bytes: Uint8Array): Promise<void> {
    const part = await this.#writer.fresh();
    try {
      const file = await open(part, 'wx', FILE_MODE);
      try {
        await file.writeFile(bytes);
        await file.sync();
      } finally {
        await file.close();
      }
      await putInPlace(part, path);
    } finally {
      await rm(part, { force: true }).catch(() => {});
    }
  }

  /** Of archives whose manifest a crash kept from being written, or whose removal it cut short. */
  async #dropSignatures(ids: ReadonlySet<string>): Promise<void> {
    for (const name of await readdir(this.#manifests))
      if (/^[0-9a-f]{64}\.sig$/.test(name) && !ids.has(name.slice(0, 64)))
        await removed(unlink(join(this.#manifests, name)));
  }

  async #dropBlobs(needed: ReadonlySet<string>): Promise<Collected> {
    let blobs = 0;
    let sizeBytes = 0;
    for (const folder of await readdir(this.#blobs)) {
      if (!/^[0-9a-f]{2}$/.test(folder)) continue;
      for (const digest of await readdir(join(this.#blobs, folder))) {
        if (!DIGEST.test(digest) || needed.has(digest)) continue;
        const path = join(this.#blobs, folder, digest);
        const facts = await stat(path).catch(() => null);
        if (!facts?.isFile() || !(await removed(unlink(path)))) continue;
        blobs += 1;
        sizeBytes += facts.size;
      }
    }
    return { blobs, sizeBytes };
  }
}

const signaturePath = (manifestPath: string): string => manifestPath.replace(/\.json$/, '.sig');

/** Of that size, when one is named. */
async function isFile(path: string, sizeBytes?: number): Promise<boolean> {
  try {
    const facts = await stat(path);
    return facts.isFile() && (sizeBytes === undefined || facts.size === sizeBytes);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/** Hashes a chunk while it is being written. */
async function writePart(
  part: string,
  source: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
  maxBytes: number,
): Promise<BlobRef> {
  const onDisk = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      throw asArchiveFault(error, 'a blob could not be written');
    }
  };
  const file = await onDisk(open(part, 'wx', FILE_MODE));
  const hash = createHash('sha256');
  let sizeBytes = 0;
  try {
    for await (const chunk of untilAborted(source, signal)) {
      sizeBytes += chunk.length;
      if (sizeBytes > maxBytes)
        throw new Fault('ARCHIVE_DAMAGED', `a blob is longer than the ${maxBytes} bytes it should have`);
      const writing = writeAll(file, chunk);
      hash.update(chunk);
      await onDisk(writing);
    }
    await onDisk(file.sync());
    return { digest: hash.digest('hex'), sizeBytes };
  } finally {
    await file.close();
  }
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at, chunk.length - at)).bytesWritten;
}

async function putInPlace(part: string, path: string): Promise<void> {
  const folder = dirname(path);
  await makeFolder(folder);
  await rename(part, path);
  await syncFolder(folder);
}

/** The names of new folders are on disk when it returns. */
async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = folder; ; made = dirname(made)) {
    await syncFolder(dirname(made));
    if (made === first || made === dirname(made)) return;
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Null when there is no such file. */
async function readBounded(path: string, maxBytes: number): Promise<Uint8Array | null> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
  try {
    const facts = await file.stat();
    if (!facts.isFile() || facts.size > maxBytes)
      throw new Fault('ARCHIVE_DAMAGED', `${path} is none that was written here`, { data: { path } });
    return await file.readFile();
  } finally {
    await file.close();
  }
}

/** Reads ahead by one chunk, and compares the digest before it says that it has ended. */
async function* readChecked(path: string, digest: string, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  throwIfCancelled(signal);
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT')
      throw new Fault('ARCHIVE_MISSING', `the blob ${digest} is not in the store`, { data: { digest } });
    throw asArchiveFault(error, `the blob ${digest} could not be read`);
  }
  const hash = createHash('sha256');
  const next = async (): Promise<Uint8Array> => {
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    const { bytesRead } = await file.read(buffer, 0, READ_BYTES, null);
    return buffer.subarray(0, bytesRead);
  };
  let reading = next();
  reading.catch(() => {});
  try {
    for (;;) {
      let chunk: Uint8Array;
      try {
        chunk = await reading;
      } catch (error) {
        throw asArchiveFault(error, `the blob ${digest} could not be read`);
      }
      if (chunk.length === 0) break;
      throwIfCancelled(signal);
      reading = next();
      reading.catch(() => {});
      hash.update(chunk);
      yield chunk;
    }
    if (hash.digest('hex') !== digest)
      throw new Fault('ARCHIVE_DAMAGED', `the blob ${digest} is not what it was`, { data: { digest } });
  } finally {
    await reading.catch(() => {});
    await file.close();
  }
}
