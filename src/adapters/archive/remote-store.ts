// Remote store: archives on another machine, laid out as in a directory store. Nobody there can hold a lock for us, so writers and collectors
// leave notes for each other, each written before its owner looks for those of the others: one of two always sees the other.
import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
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
import { asArchiveFault, throwIfCancelled } from './archive-fault.ts';
import { eachOf, PATIENCE, Passing, type Patience, pause, unreachable } from './remote-attempt.ts';
import type { ObjectFacts, RemoteObjects } from './remote-objects.ts';
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

const BLOBS = 'blobs/sha256/';
const MANIFESTS = 'manifests/';
const INCOMING = 'incoming/';
/** A note of each writer that has put what no manifest names yet; it holds the archives that a new group will name. */
const WRITERS = 'notes/writers/';
/** A note of each collector at work. */
const COLLECTORS = 'notes/collectors/';

/** A writer's note is written again so often while it has something to keep … */
const BEAT_MS = 5 * 60_000;
/** … and counts for so long, by the clock of the other side. */
const WRITER_MS = 60 * 60_000;
/** A collector's note counts longer than the collector itself relies on it, also when its last removal is answered late. */
const COLLECTOR_MS = 10 * 60_000;
const COLLECTOR_TRUSTS_MS = 2 * 60_000;
const WAIT_MS = 20 * 60_000;
const POLL_MS = 250;
const FORGOTTEN_MS = 7 * 86_400_000;
const WIDTH = 8;
const NOTE_BYTES = 1024 * 1024;
/** Less than this within a deadline is a server that will never be done, although it is never silent. */
const PACE_BYTES = 16 * 1024;

interface Note {
  readonly key: string;
  /** By our own clock. */
  readonly writtenMs: number;
  /** By the clock of the other side. */
  readonly thereMs: number;
}

export interface RemoteStoreOptions {
  readonly objects: RemoteObjects;
  readonly patience?: Patience;
  /** Does the repository beside hold this blob? Without one, everything that a manifest names must be here. */
  readonly holdsElsewhere?: (place: InRepository) => Promise<boolean>;
}

export class RemoteStore implements ArchiveStore {
  readonly #objects: RemoteObjects;
  readonly #patience: Patience;
  readonly #holdsElsewhere: (place: InRepository) => Promise<boolean>;
  readonly #name = randomBytes(12).toString('hex');
  readonly #kept = new Set<string>();
  readonly #listed = new Map<string, { readonly mark: string; readonly listed: Listed }>();
  #working = 0;
  #uploads = 0;
  #notes = 0;
  /** Of notes that may be there. */
  readonly #keys = new Set<string>();
  #note: Promise<Note> | null = null;
  /** Archives that a group is about to name. */
  readonly #names = new Set<string>();
  /** Settled when this very object has collected: its own note does not keep it from that. */
  #collecting: Promise<void> | null = null;
  #beat: NodeJS.Timeout | null = null;

  constructor({ objects, patience = PATIENCE, holdsElsewhere }: RemoteStoreOptions) {
    this.#objects = objects;
    this.#patience = patience;
    this.#holdsElsewhere = holdsElsewhere ?? (async () => false);
  }

  // --- blobs

  async putBlob(source: AsyncIterable<Uint8Array>, signal?: AbortSignal, expected?: BlobRef): Promise<BlobRef> {
    throwIfCancelled(signal);
    if (expected !== undefined) checked(expected.digest);
    return await this.#asWriter('a blob could not be put', async () => {
      const announced = expected === undefined ? null : { key: blobKey(expected.digest), expected };
      const name = `${INCOMING}${this.#name}-${this.#uploads++}.part`;
      const upload = this.#objects.upload(name, announced, signal);
      try {
        const hash = createHash('sha256');
        let sizeBytes = 0;
        for await (const chunk of untilAborted(source, signal)) {
          sizeBytes += chunk.length;
          if (expected !== undefined && sizeBytes > expected.sizeBytes)
            throw new Fault('ARCHIVE_DAMAGED', `a blob is longer than the ${expected.sizeBytes} bytes it should have`);
          hash.update(chunk);
          if (chunk.length > 0) await upload.write(chunk);
        }
        const digest = hash.digest('hex');
        if (expected !== undefined && (digest !== expected.digest || sizeBytes !== expected.sizeBytes))
          throw new Fault('ARCHIVE_DAMAGED', `a blob is not what its digest says: ${expected.digest}`, {
            data: { expected: expected.digest, found: digest },
          });
        throwIfCancelled(signal);
        await upload.putInPlace(blobKey(digest));
        this.#kept.add(digest);
        return { digest, sizeBytes };
      } catch (error) {
        await upload.discard().catch(() => {});
        throw error;
      }
    });
  }

  async hasBlob(digest: string, sizeBytes?: number): Promise<boolean> {
    const key = blobKey(digest);
    const isThere = async (): Promise<boolean> => {
      const found = await this.#objects.sizeOf(key);
      return found !== null && (sizeBytes === undefined || found === sizeBytes);
    };
    if (!(await isThere())) return false;
    try {
      return await this.#asWriter('a blob could not be looked for', async () => {
        if (!(await isThere())) return false;
        this.#kept.add(digest);
        return true;
      });
    } catch (error) {
      // Who cannot write into the store cannot keep anything either, and will not name it.
      if (error instanceof Fault && error.code === 'ARCHIVE_DENIED') return true;
      throw error;
    }
  }

  async *readBlob(digest: string, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const key = blobKey(digest);
    const what = `the blob ${digest} could not be read`;
    const hash = createHash('sha256');
    let at = 0;
    for (let tried = 1; ; tried++) {
      throwIfCancelled(signal);
      const began = at;
      let stream: AsyncIterable<Uint8Array> | null;
      try {
        stream = await this.#objects.stream(key, at, signal);
        if (stream === null) break;
        for await (const chunk of paced(untilAborted(stream, signal), this.#patience.deadlineMs)) {
          throwIfCancelled(signal);
          at += chunk.length;
          hash.update(chunk);
          yield chunk;
        }
        if (hash.digest('hex') === digest) return;
        throw new Fault('ARCHIVE_DAMAGED', `the blob ${digest} is not what it was`, { data: { digest } });
      } catch (error) {
        throwIfCancelled(signal);
        if (!(error instanceof Passing)) throw asArchiveFault(error, what);
        // What went on well is a new beginning: a long blob may break off often.
        if (at - began >= PACE_BYTES) tried = 1;
        if (tried >= this.#patience.tries) throw unreachable(what, error, tried);
      }
      await pause(this.#patience, tried, signal);
    }
    throw new Fault('ARCHIVE_MISSING', `the blob ${digest} is not in the store`, { data: { digest } });
  }

  async release(digests: readonly string[]): Promise<void> {
    for (const digest of digests) this.#kept.delete(checked(digest));
    await this.#leave();
  }

  // --- manifests

  async putManifest(bytes: Uint8Array, signature: string): Promise<string> {
    const read = readSigned(bytes, signature);
    const members = read.kind === 'group' ? read.manifest.members.map((one) => one.archive) : [];
    return await this.#asWriter(
      'a manifest could not be stored',
      async () => {
        await checkWhole(read, {
          isHere: async ({ digest, sizeBytes }) => (await this.#objects.sizeOf(blobKey(digest))) === sizeBytes,
          holdsElsewhere: this.#holdsElsewhere,
          member: (id) => this.#read(id),
        });
        const { writtenMs } = await this.#enter();
        if (performance.now() - writtenMs > WRITER_MS / 2)
          throw new Fault('ARCHIVE_FAILED', 'looking for the blobs of an archive took too long to rely on it');
        if (!(await this.#isWhole(read.id))) {
          // The signature first: what is listed by its manifest has one.
          await this.#objects.write(signatureKey(read.id), Buffer.from(signature, 'utf8'));
          if (!(await this.#objects.create(manifestKey(read.id), bytes))) {
            const there = await this.#objects.read(manifestKey(read.id), MAX_MANIFEST_BYTES).catch(damagedAsNull);
            if (there === null || archiveIdOf(there) !== read.id)
              await this.#objects.write(manifestKey(read.id), bytes);
          }
        }
        for (const { digest } of blobsOf(read)) this.#kept.delete(digest);
        return read.id;
      },
      members,
    );
  }

  async manifest(id: string): Promise<StoredManifest> {
    const key = manifestKey(id);
    return await this.#says('a manifest could not be read', async () => {
      return await storedManifest(id, {
        manifest: () => this.#objects.read(key, MAX_MANIFEST_BYTES),
        signature: () => this.#objects.read(signatureKey(id), MAX_SIGNATURE_BYTES),
      });
    });
  }

  async list(): Promise<readonly Listed[]> {
    return await this.#says('archives could not be listed', async () => {
      const found: Listed[] = [];
      await eachOf(await this.#manifests(), WIDTH, async ({ id, mark }) => {
        const listed = await this.#listOne(id, mark);
        if (listed !== null) found.push(listed);
      });
      return newestFirst(found);
    });
  }

  async remove(id: string): Promise<boolean> {
    const key = manifestKey(id);
    return await this.#says('an archive could not be removed', async () => {
      if ((await this.#objects.sizeOf(key)) === null) return false;
      return await this.#asCollector(async ({ others }) => {
        const inUse = new Fault('ARCHIVE_IN_USE', `a group archive that names ${id} is being stored`, {
          data: { archive: id },
        });
        if (this.#names.has(id)) throw inUse;
        for (const other of others) {
          const names = await this.#objects.read(other.key, NOTE_BYTES);
          if (names !== null && Buffer.from(names).toString('latin1').includes(id)) throw inUse;
        }
        refuseNamed(id, await this.list());
        const wasThere = await this.#objects.remove(key);
        await this.#objects.remove(signatureKey(id));
        this.#listed.delete(id);
        return wasThere;
      });
    });
  }

  // --- the whole

  /** While another writer is at work nothing is removed: it is not known what it is about to name. */
  async collect(pins: Iterable<string> = []): Promise<Collected> {
    const pinned = new Set(pins);
    while (this.#collecting !== null) await this.#collecting;
    if (this.#working > 0) return { blobs: 0, sizeBytes: 0 };
    let done = (): void => {};
    this.#collecting = new Promise((resolve) => {
      done = resolve;
    });
    try {
      return await this.#says('the archive store could not be collected', () => this.#collect(pinned));
    } finally {
      this.#collecting = null;
      done();
    }
  }

  async #collect(pinned: ReadonlySet<string>): Promise<Collected> {
    const sum = { blobs: 0, sizeBytes: 0 };
    for (;;) {
      const { blobs, sizeBytes, isDone } = await this.#collectRound(pinned);
      sum.blobs += blobs;
      sum.sizeBytes += sizeBytes;
      if (isDone || blobs === 0) return sum;
    }
  }

  async #collectRound(pinned: ReadonlySet<string>): Promise<Collected & { readonly isDone: boolean }> {
    // Notes of writers before manifests: who is seen in neither has named nothing.
    return await this.#asCollector(async ({ others, isTrusted }) => {
      const manifests = await this.#manifests();
      const needed = new Set([...pinned, ...this.#kept]);
      // Also when nothing will be removed: what cannot be read is to be said.
      await eachOf(manifests, WIDTH, async ({ id }) => {
        for (const blob of blobsOf(await this.#read(id))) needed.add(blob.digest);
      });
      if (others.length > 0) return { blobs: 0, sizeBytes: 0, isDone: true };
      let blobs = 0;
      let sizeBytes = 0;
      await eachOf(await this.#objects.list(BLOBS), WIDTH, async ({ key, sizeBytes: size }) => {
        const digest = key.slice(-64);
        if (key !== keyOfBlob(digest) || needed.has(digest)) return;
        if (!isTrusted() || !(await this.#objects.remove(key))) return;
        blobs += 1;
        sizeBytes += size;
      });
      await this.#dropLeftovers(new Set(manifests.map(({ id }) => id)), isTrusted);
      return { blobs, sizeBytes, isDone: isTrusted() };
    });
  }

  verify(id: string, signal?: AbortSignal): Promise<Verification> {
    const readBlob = (digest: string) => this.readBlob(digest, signal);
    return verifyArchive(id, { read: (one) => this.#read(one), readBlob, judge: judged });
  }

  async freeBytes(): Promise<number | null> {
    return await this.#says('free space could not be asked for', () => this.#objects.freeBytes());
  }

  async close(): Promise<void> {
    this.#kept.clear();
    try {
      await this.#leave();
    } finally {
      await this.#objects.close();
    }
  }

  // --- notes

  /** Under a note that collectors heed; `names` are archives that must not be removed meanwhile. */
  async #asWriter<T>(what: string, work: () => Promise<T>, names: readonly string[] = []): Promise<T> {
    while (this.#collecting !== null) await this.#collecting;
    this.#working += 1;
    for (const name of names) this.#names.add(name);
    try {
      return await this.#says(what, async () => {
        await this.#enter(names.length > 0);
        return await work();
      });
    } finally {
      for (const name of names) this.#names.delete(name);
      this.#working -= 1;
      await this.#leave();
    }
  }

  /** When it returns every collector heeds our note. */
  async #enter(isNew = false): Promise<Note> {
    const known = isNew ? null : await this.#note?.catch(() => null);
    if (known && performance.now() - known.writtenMs < 2 * BEAT_MS) return known;
    const before = this.#note ?? Promise.resolve(null);
    const begun = before.catch(() => null).then(() => this.#begin());
    this.#note = begun;
    this.#beat ??= setInterval(() => this.#again(), BEAT_MS).unref();
    return await begun;
  }

  /** Never two at once. */
  async #begin(): Promise<Note> {
    const note = await this.#writeNote();
    const endMs = performance.now() + WAIT_MS;
    // Those that come later see the note.
    for (let waited = await this.#collectors(note); waited.length > 0; ) {
      if (performance.now() > endMs)
        throw new Fault('LOCK_HELD', `the archive store ${this.#objects.place} is being collected all the time`);
      await sleep(POLL_MS * (0.5 + Math.random()));
      const still = new Set(await this.#collectors(note));
      waited = waited.filter((one) => still.has(one));
    }
    await this.#dropNotes(note.key);
    return note;
  }

  /** Under a key of its own, so that at no moment there is none. */
  async #writeNote(): Promise<Note> {
    const key = `${WRITERS}${this.#name}-${this.#notes++}`;
    this.#keys.add(key);
    const writtenMs = performance.now();
    const thereMs = await this.#objects.write(key, Buffer.from(JSON.stringify([...this.#names])));
    return { key, writtenMs, thereMs };
  }

  async #dropNotes(but: string | null): Promise<void> {
    for (const key of [...this.#keys])
      if (key !== but) {
        this.#keys.delete(key);
        // One that stays keeps collectors from their work until it is old, and harms nobody else.
        await this.#objects.remove(key).catch(() => {});
      }
  }

  /** A beat that comes so late that the note may have lost its force is none: who works then begins anew. */
  #again(): void {
    if (this.#note === null) return;
    this.#note = this.#note.then(async (known) => {
      if (performance.now() - known.writtenMs > WRITER_MS / 2) return known;
      const written = await this.#writeNote().catch(() => null);
      if (written === null) return known;
      // Left meanwhile.
      if (!this.#keys.has(known.key)) await this.#dropNotes(null);
      else await this.#dropNotes(written.key);
      return written;
    });
    this.#note.catch(() => {});
  }

  /** Collectors at work. */
  async #collectors(note: Note): Promise<readonly string[]> {
    const nowMs = note.thereMs + (performance.now() - note.writtenMs);
    const found = await this.#objects.list(COLLECTORS);
    return found.filter((one) => nowMs - one.changedAtMs < COLLECTOR_MS).map((one) => one.key);
  }

  /** Takes the note away when nothing is kept and nobody writes. */
  async #leave(): Promise<void> {
    if (this.#note === null || this.#kept.size > 0 || this.#working > 0) return;
    this.#note = null;
    if (this.#beat !== null) clearInterval(this.#beat);
    this.#beat = null;
    await this.#dropNotes(null);
  }

  async #asCollector<T>(
    work: (alone: { readonly others: readonly ObjectFacts[]; readonly isTrusted: () => boolean }) => Promise<T>,
  ): Promise<T> {
    const key = `${COLLECTORS}${randomBytes(12).toString('hex')}`;
    const beganMs = performance.now();
    const nowMs = await this.#objects.write(key, Buffer.from('{}'));
    try {
      const notes = await this.#objects.list(WRITERS);
      const others = notes.filter(
        (one) => !one.key.startsWith(`${WRITERS}${this.#name}`) && nowMs - one.changedAtMs < WRITER_MS,
      );
      return await work({ others, isTrusted: () => performance.now() - beganMs < COLLECTOR_TRUSTS_MS });
    } finally {
      await this.#objects.remove(key).catch(() => {});
    }
  }

  // --- parts

  async #says<T>(what: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof Passing) throw unreachable(what, error, 1);
      throw error;
    }
  }

  async #read(id: string): Promise<ReadArchive | ReadGroup> {
    return readManifest((await this.manifest(id)).bytes);
  }

  async #isWhole(id: string): Promise<boolean> {
    try {
      await this.manifest(id);
      return true;
    } catch (error) {
      const { code } = asFault(error, 'ARCHIVE_FAILED');
      if (code === 'ARCHIVE_MISSING' || code === 'ARCHIVE_DAMAGED') return false;
      throw error;
    }
  }

  async #manifests(): Promise<readonly { readonly id: string; readonly mark: string | null }[]> {
    return (await this.#objects.list(MANIFESTS)).flatMap(({ key, mark }) => {
      const id = /^manifests\/([0-9a-f]{64})\.json$/.exec(key)?.[1];
      return id === undefined ? [] : [{ id, mark }];
    });
  }

  async #listOne(id: string, mark: string | null): Promise<Listed | null> {
    const known = this.#listed.get(id);
    if (mark !== null && known?.mark === mark) return known.listed;
    let listed: Listed;
    try {
      listed = summaryOf(await this.#read(id));
    } catch (error) {
      const fault = asFault(error, 'ARCHIVE_FAILED');
      if (fault.code === 'ARCHIVE_MISSING') return null;
      if (!isContentFault(fault)) throw fault;
      return { kind: 'damaged', id, code: fault.code, why: fault.message };
    }
    if (mark !== null) this.#listed.set(id, { mark, listed });
    return listed;
  }

  /** What writers left that have ended: parts, signatures without a manifest, old notes. */
  async #dropLeftovers(ids: ReadonlySet<string>, isTrusted: () => boolean): Promise<void> {
    const drop = async (key: string): Promise<void> => {
      if (isTrusted()) await this.#objects.remove(key);
    };
    for (const { key } of await this.#objects.list(INCOMING)) await drop(key);
    for (const { key } of await this.#objects.list(MANIFESTS)) {
      const id = /^manifests\/([0-9a-f]{64})\.sig$/.exec(key)?.[1];
      if (id !== undefined && !ids.has(id)) await drop(key);
    }
    const notes = [...(await this.#objects.list(WRITERS)), ...(await this.#objects.list(COLLECTORS))];
    const newestMs = notes.reduce((newest, one) => Math.max(newest, one.changedAtMs), 0);
    for (const one of notes) if (newestMs - one.changedAtMs > FORGOTTEN_MS) await drop(one.key);
    await this.#objects.sweep(FORGOTTEN_MS);
  }
}

const keyOfBlob = (digest: string): string => `${BLOBS}${digest.slice(0, 2)}/${digest}`;
const blobKey = (digest: string): string => keyOfBlob(checked(digest));
const manifestKey = (id: string): string => `${MANIFESTS}${checked(id)}.json`;
const signatureKey = (id: string): string => `${MANIFESTS}${id}.sig`;

/** It was read, and is not what it should be: nothing that passes. */
const CONTENT_FAULTS: ReadonlySet<string> = new Set([
  'ARCHIVE_DAMAGED',
  'ARCHIVE_INVALID',
  'ARCHIVE_HOSTILE',
  'ARCHIVE_TOO_NEW',
]);
const isContentFault = (fault: Fault): boolean => CONTENT_FAULTS.has(fault.code);

/** Throws Passing when the source keeps us waiting so long for the next `PACE_BYTES`. The reader's own time does not count. */
async function* paced(source: AsyncIterable<Uint8Array>, windowMs: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  let waitedMs = 0;
  let askedMs = performance.now();
  for await (const chunk of source) {
    bytes += chunk.length;
    waitedMs += performance.now() - askedMs;
    if (bytes >= PACE_BYTES) [bytes, waitedMs] = [0, 0];
    else if (waitedMs > windowMs)
      throw new Passing(`the server sent less than ${PACE_BYTES / 1024} KiB within ${windowMs / 1000} s`);
    yield chunk;
    askedMs = performance.now();
  }
}

/** A store that does not answer says nothing about what it holds. */
function judged(error: unknown): 'missing' | 'damaged' {
  const fault = asFault(error, 'ARCHIVE_FAILED');
  if (fault.code !== 'ARCHIVE_MISSING' && !isContentFault(fault)) throw fault;
  return whatOf(fault);
}

function damagedAsNull(error: unknown): null {
  if (error instanceof Fault && error.code === 'ARCHIVE_DAMAGED') return null;
  throw error;
}
