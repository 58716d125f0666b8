// SFTP objects: remote objects as files. Each is written beside its place, synced where the server can, and renamed; reads and writes keep
// several packets under way, in flat memory. No link is made and none is needed.
import { createHash, randomBytes } from 'node:crypto';
import { posix } from 'node:path';
import type { FileEntryWithStats, Stats } from 'ssh2';
import { Fault } from '../../core/fault.ts';
import { throwIfCancelled } from './archive-fault.ts';
import { attempt, eachOf, PATIENCE, Passing, type Patience } from './remote-attempt.ts';
import { MOST_KEYS, type ObjectFacts, type RemoteObjects, type Upload } from './remote-objects.ts';
import { SFTP_STATUS, type SftpHandle, SftpLink, type SftpPlace, SftpRefusal } from './sftp-link.ts';

const PACKET_BYTES = 32 * 1024;
const UNDER_WAY_BYTES = 1024 * 1024;
const CHUNK_BYTES = 128 * 1024;
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
/** Less than this counts as full when a write fails without a reason. */
const FULL_BYTES = 4 * 1024 * 1024;
const WIDTH = 8;
/** Of one folder. What is left of a packet without `.` and `..` may be nothing. */
const MOST_EMPTY_PACKETS = 100;
/** Of later versions of the protocol. */
const NO_SPACE: ReadonlySet<number> = new Set([14, 15]);
const PARTS = 'incoming';

export interface SftpObjectsOptions {
  readonly place: SftpPlace;
  readonly patience?: Patience;
  /** For tests: a shorter list. */
  readonly mostKeys?: number;
}

export class SftpObjects implements RemoteObjects {
  readonly place: string;
  readonly #root: string;
  readonly #link: SftpLink;
  readonly #patience: Patience;
  readonly #mostKeys: number;
  readonly #folders = new Map<string, Promise<void>>();

  constructor({ place, patience = PATIENCE, mostKeys = MOST_KEYS }: SftpObjectsOptions) {
    this.#root = place.path;
    this.#mostKeys = mostKeys;
    this.#patience = patience;
    this.#link = new SftpLink(place, patience.deadlineMs);
    this.place = `sftp://${place.host}:${place.port}/${place.path.replace(/^\//, '')}`;
  }

  async read(key: string, maxBytes: number): Promise<Uint8Array | null> {
    return await this.#attempt(`${key} could not be read`, async () => {
      const chunks: Uint8Array[] = [];
      const stream = await this.#open(key, 0, undefined, maxBytes);
      if (stream === null) return null;
      for await (const chunk of stream) chunks.push(chunk);
      return Buffer.concat(chunks);
    });
  }

  async stream(
    key: string,
    fromByte: number,
    signal: AbortSignal | undefined,
  ): Promise<AsyncIterable<Uint8Array> | null> {
    try {
      return await this.#open(key, fromByte, signal, Number.POSITIVE_INFINITY);
    } catch (error) {
      throw this.#fault(`${key} could not be read`, error);
    }
  }

  async sizeOf(key: string): Promise<number | null> {
    return await this.#attempt(`${key} could not be looked for`, async () => (await this.#stat(key))?.size ?? null);
  }

  async write(key: string, bytes: Uint8Array): Promise<number> {
    return await this.#attempt(`${key} could not be written`, async () => {
      await this.#put(key, bytes);
      const facts = await this.#stat(key);
      if (facts === null) throw new Passing('it was not there after it was written');
      return facts.mtime * 1000;
    });
  }

  async create(key: string, bytes: Uint8Array): Promise<boolean> {
    return await this.#attempt(`${key} could not be written`, async () => {
      if ((await this.#stat(key)) !== null) return false;
      await this.#put(key, bytes);
      return true;
    });
  }

  upload(name: string, _announced: unknown, signal: AbortSignal | undefined): Upload {
    return new SftpUpload({ objects: this, name, signal });
  }

  async remove(key: string): Promise<boolean> {
    return await this.#attempt(`${key} could not be removed`, () => this.#unlink(key));
  }

  async list(folder: string): Promise<readonly ObjectFacts[]> {
    return await this.#attempt(`${folder} could not be listed`, () =>
      this.#list(folder.replace(/\/$/, ''), 2, { seen: 0 }),
    );
  }

  /** What is unfinished has a key here, and is collected as such. */
  async sweep(): Promise<void> {}

  async freeBytes(): Promise<number | null> {
    return await this.#attempt('free space could not be asked for', async () => {
      try {
        // Of the next folder that is there.
        for (let path = this.#root; ; path = posix.dirname(path))
          try {
            const found = await this.#link.ask<{ f_frsize: number; f_bsize: number; f_bavail: number }>((sftp, done) =>
              sftp.ext_openssh_statvfs(path, done as never),
            );
            return Number(found.f_bavail) * Number(found.f_frsize || found.f_bsize);
          } catch (error) {
            if (!isStatus(error, SFTP_STATUS.noSuchFile) || path === posix.dirname(path)) throw error;
          }
      } catch (error) {
        if (error instanceof SftpRefusal) return null;
        throw error;
      }
    });
  }

  async close(): Promise<void> {
    this.#folders.clear();
    await this.#link.close();
  }

  // --- for uploads; each throws Passing, SftpRefusal or Faults

  async openPart(key: string, signal: AbortSignal | undefined): Promise<SftpHandle> {
    await this.#makeFolder(posix.dirname(this.pathOf(key)));
    return await this.#link.open(this.pathOf(key), 'wx', FILE_MODE, signal);
  }

  async writeAt(handle: SftpHandle, bytes: Buffer, at: number, signal: AbortSignal | undefined): Promise<void> {
    await this.#link.askOf<void>(
      handle,
      (sftp, raw, done) => sftp.write(raw, bytes, 0, bytes.length, at, done),
      signal,
    );
  }

  /** On the disk of the server when it returns, as far as it offers that. */
  async closePart(handle: SftpHandle, signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#link.askOf<void>(handle, (sftp, raw, done) => sftp.ext_openssh_fsync(raw, done as never), signal);
    } catch (error) {
      if (!isStatus(error, SFTP_STATUS.unsupported)) throw error;
    }
    await this.giveUp(handle, signal);
  }

  async giveUp(handle: SftpHandle, signal?: AbortSignal): Promise<void> {
    await this.#link.askOf<void>(handle, (sftp, raw, done) => sftp.close(raw, done), signal);
  }

  /** A whole part under its key, over what is there. */
  async putInPlace(part: string, key: string, sizeBytes: number, digest: string, signal?: AbortSignal): Promise<void> {
    const found = await this.#stat(part);
    if (found?.size !== sizeBytes)
      throw new Fault('ARCHIVE_FAILED', `${this.place}: ${found?.size ?? 'no'} bytes were kept of ${sizeBytes}`);
    const [from, to] = [this.pathOf(part), this.pathOf(key)];
    await this.#makeFolder(posix.dirname(to));
    try {
      await this.#link.ask<void>((sftp, done) => sftp.ext_openssh_rename(from, to, done), signal);
      return;
    } catch (error) {
      if (!isStatus(error, SFTP_STATUS.unsupported)) throw error;
    }
    try {
      await this.#link.ask<void>((sftp, done) => sftp.rename(from, to, done), signal);
      return;
    } catch (error) {
      // An old server renames over nothing that is there.
      if (!(error instanceof SftpRefusal) || (await this.#stat(key)) === null) throw error;
    }
    if ((await this.#digestOf(key)) === digest) return void (await this.#unlink(part));
    await this.#unlink(key);
    await this.#link.ask<void>((sftp, done) => sftp.rename(from, to, done), signal);
  }

  async discardPart(key: string): Promise<void> {
    await this.#unlink(key);
  }

  pathOf(key: string): string {
    return posix.join(this.#root, key);
  }

  /** The words of the server as a Fault. Passing and Faults stay what they are. */
  #fault(what: string, error: unknown): unknown {
    if (!(error instanceof SftpRefusal)) return error;
    const words = `${this.place}: ${what}: ${error.message || `status ${error.status}`}`;
    if (error.status === SFTP_STATUS.denied) return new Fault('ARCHIVE_DENIED', words, { cause: error });
    if (NO_SPACE.has(error.status)) return new Fault('ARCHIVE_NO_SPACE', words, { cause: error });
    return new Fault('ARCHIVE_FAILED', words, { cause: error });
  }

  /** A full disk has no status of its own: it is looked for when a write fails. */
  async writeFault(what: string, error: unknown): Promise<unknown> {
    if (isStatus(error, SFTP_STATUS.failure)) {
      const free = await this.freeBytes().catch(() => null);
      if (free === null)
        return new Fault(
          'ARCHIVE_FAILED',
          `${this.place}: ${what}: the server does not say why; a full disk or quota looks like this`,
          { cause: error },
        );
      if (free < FULL_BYTES)
        return new Fault('ARCHIVE_NO_SPACE', `${this.place}: ${what}: no space is left`, { cause: error });
    }
    return this.#fault(what, error);
  }

  // --- parts

  async #attempt<T>(what: string, work: () => Promise<T>): Promise<T> {
    try {
      // Calls have deadlines of their own; here is one for all of them together.
      const { deadlineMs } = this.#patience;
      const patience = { lastTryMs: 2 * deadlineMs, ...this.#patience, deadlineMs: deadlineMs * 10 };
      return await attempt(`${this.place}: ${what}`, patience, undefined, work);
    } catch (error) {
      throw this.#fault(what, error);
    }
  }

  async #stat(key: string): Promise<Stats | null> {
    try {
      const facts = await this.#link.ask<Stats>((sftp, done) => sftp.lstat(this.pathOf(key), done as never));
      if (!facts.isFile()) throw new Fault('ARCHIVE_DAMAGED', `${this.place}: ${key} is no file`);
      return facts;
    } catch (error) {
      if (isStatus(error, SFTP_STATUS.noSuchFile)) return null;
      throw error;
    }
  }

  async #unlink(key: string): Promise<boolean> {
    try {
      await this.#link.ask<void>((sftp, done) => sftp.unlink(this.pathOf(key), done));
      return true;
    } catch (error) {
      if (isStatus(error, SFTP_STATUS.noSuchFile)) return false;
      throw error;
    }
  }

  async #put(key: string, bytes: Uint8Array): Promise<void> {
    const part = `${PARTS}/${randomBytes(12).toString('hex')}.part`;
    const upload = new SftpUpload({ objects: this, name: part, signal: undefined });
    try {
      await upload.write(bytes);
      await upload.putInPlace(key);
    } catch (error) {
      await upload.discard().catch(() => {});
      throw error;
    }
  }

  /** `count`: of all folders of one list together. */
  async #list(folder: string, depth: number, count: { seen: number }): Promise<readonly ObjectFacts[]> {
    const found: ObjectFacts[] = [];
    const folders: string[] = [];
    for await (const { filename, attrs } of this.#entries(folder)) {
      if (++count.seen > this.#mostKeys)
        throw new Fault('ARCHIVE_FAILED', `${this.place}: ${folder} holds more than ${this.#mostKeys} files`);
      if (!/^[a-z0-9][a-z0-9._-]{0,254}$/.test(filename)) continue;
      const key = `${folder}/${filename}`;
      if (attrs.isDirectory()) folders.push(key);
      else if (attrs.isFile()) found.push({ key, sizeBytes: attrs.size, changedAtMs: attrs.mtime * 1000, mark: null });
    }
    if (depth <= 1) return found;
    const inner: ObjectFacts[][] = [found];
    await eachOf(folders, WIDTH, async (one) => void inner.push([...(await this.#list(one, depth - 1, count))]));
    return inner.flat();
  }

  /** A packet at a time, so that whoever reads may stop at too many. */
  async *#entries(folder: string): AsyncGenerator<FileEntryWithStats> {
    let handle: SftpHandle;
    try {
      handle = await this.#link.openFolder(this.pathOf(folder));
    } catch (error) {
      // Nothing was ever put.
      if (isStatus(error, SFTP_STATUS.noSuchFile)) return;
      throw error;
    }
    try {
      for (let empty = 0; ; ) {
        let some: readonly FileEntryWithStats[];
        try {
          some = await this.#link.askOf<readonly FileEntryWithStats[]>(handle, (sftp, raw, done) =>
            sftp.readdir(raw as never, done as never),
          );
        } catch (error) {
          if (isStatus(error, SFTP_STATUS.eof)) return;
          throw error;
        }
        if (some.length === 0 && ++empty > MOST_EMPTY_PACKETS)
          throw new Fault('ARCHIVE_FAILED', `${this.place}: the list of ${folder} holds nothing and has no end`);
        yield* some;
      }
    } finally {
      // The list is read, or its error is on its way; the server closes what is left open.
      await this.giveUp(handle).catch(() => {});
    }
  }

  #makeFolder(path: string): Promise<void> {
    let made = this.#folders.get(path);
    if (made === undefined) {
      made = this.#make(path);
      this.#folders.set(path, made);
      made.catch(() => this.#folders.delete(path));
    }
    return made;
  }

  async #make(path: string): Promise<void> {
    const isFolder = async (): Promise<boolean> => {
      try {
        return (await this.#link.ask<Stats>((sftp, done) => sftp.stat(path, done as never))).isDirectory();
      } catch (error) {
        if (isStatus(error, SFTP_STATUS.noSuchFile)) return false;
        throw error;
      }
    };
    if (path === '.' || path === '/' || (await isFolder())) return;
    await this.#make(posix.dirname(path));
    try {
      await this.#link.ask<void>((sftp, done) => sftp.mkdir(path, { mode: FOLDER_MODE }, done));
    } catch (error) {
      // Somebody else was faster.
      if (!(error instanceof SftpRefusal) || !(await isFolder())) throw error;
    }
  }

  async #digestOf(key: string): Promise<string | null> {
    const stream = await this.#open(key, 0, undefined, Number.POSITIVE_INFINITY);
    if (stream === null) return null;
    const hash = createHash('sha256');
    for await (const chunk of stream) hash.update(chunk);
    return hash.digest('hex');
  }

  async #open(
    key: string,
    fromByte: number,
    signal: AbortSignal | undefined,
    maxBytes: number,
  ): Promise<AsyncIterable<Uint8Array> | null> {
    const facts = await this.#stat(key);
    if (facts === null) return null;
    if (facts.size > maxBytes)
      throw new Fault('ARCHIVE_DAMAGED', `${this.place}: ${key} has ${facts.size} bytes; ${maxBytes} are read`);
    let handle: SftpHandle;
    try {
      handle = await this.#link.open(this.pathOf(key), 'r', FILE_MODE, signal);
    } catch (error) {
      if (isStatus(error, SFTP_STATUS.noSuchFile)) return null;
      throw error;
    }
    const isDone = new AbortController();
    const read = (at: number, length: number) => this.#readAt(handle, at, length, isDone.signal);
    const leave = async (): Promise<void> => {
      isDone.abort();
      // What was read counts by its digest, not by how the file was closed.
      await this.giveUp(handle).catch(() => {});
    };
    const fault = (error: unknown) => this.#fault(`${key} could not be read`, error);
    return (async function* () {
      const ahead: Promise<Buffer>[] = [];
      let asked = fromByte;
      const askOn = (): void => {
        while (asked < facts.size && ahead.length < UNDER_WAY_BYTES / CHUNK_BYTES) {
          const length = Math.min(CHUNK_BYTES, facts.size - asked);
          const reading = read(asked, length);
          reading.catch(() => {});
          ahead.push(reading);
          asked += length;
        }
      };
      try {
        for (askOn(); ahead.length > 0; askOn()) {
          throwIfCancelled(signal);
          yield await (ahead.shift() as Promise<Buffer>);
        }
      } catch (error) {
        throw fault(error);
      } finally {
        await leave();
      }
    })();
  }

  /** Its packets all at once. */
  async #readAt(handle: SftpHandle, from: number, length: number, signal: AbortSignal): Promise<Buffer> {
    const buffer = Buffer.allocUnsafe(length);
    const packet = async (at: number, end: number): Promise<void> => {
      while (at < end) {
        throwIfCancelled(signal);
        const target = Buffer.allocUnsafe(end - at);
        const count = await this.#link.askOf<number>(handle, (sftp, raw, done) =>
          sftp.read(raw, target, 0, target.length, from + at, done as never),
        );
        if (!(count > 0)) throw new Fault('ARCHIVE_DAMAGED', `${this.place}: a file became shorter while it was read`);
        target.copy(buffer, at, 0, count);
        at += count;
      }
    };
    const packets: Promise<void>[] = [];
    for (let at = 0; at < length; at += PACKET_BYTES) packets.push(packet(at, Math.min(length, at + PACKET_BYTES)));
    await Promise.all(packets);
    return buffer;
  }
}

interface SftpUploadInput {
  readonly objects: SftpObjects;
  readonly name: string;
  readonly signal: AbortSignal | undefined;
}

class SftpUpload implements Upload {
  readonly #input: SftpUploadInput;
  readonly #hash = createHash('sha256');
  readonly #underWay = new Set<Promise<void>>();
  #handle: SftpHandle | null = null;
  #isMade = false;
  #sentBytes = 0;
  #wayBytes = 0;
  #failed: { readonly error: unknown } | null = null;

  constructor(input: SftpUploadInput) {
    this.#input = input;
  }

  async write(chunk: Uint8Array): Promise<void> {
    await this.#says(async () => {
      const handle = await this.#open();
      this.#hash.update(chunk);
      for (let at = 0; at < chunk.length; at += PACKET_BYTES) {
        // A copy: whoever gave the chunk may fill it again.
        const bytes = Buffer.from(chunk.subarray(at, at + PACKET_BYTES));
        while (this.#wayBytes + bytes.length > UNDER_WAY_BYTES) await Promise.race(this.#underWay);
        this.#throwFailed();
        this.#send(handle, bytes);
      }
    });
  }

  async putInPlace(key: string): Promise<void> {
    const { objects, name, signal } = this.#input;
    await this.#says(async () => {
      const handle = await this.#open();
      await Promise.all(this.#underWay);
      this.#throwFailed();
      await objects.closePart(handle, signal);
      this.#handle = null;
      await objects.putInPlace(name, key, this.#sentBytes, this.#hash.digest('hex'), signal);
      this.#isMade = false;
    });
  }

  async discard(): Promise<void> {
    const { objects, name } = this.#input;
    if (this.#handle !== null) await objects.giveUp(this.#handle).catch(() => {});
    this.#handle = null;
    if (this.#isMade) await objects.discardPart(name);
  }

  async #open(): Promise<SftpHandle> {
    if (this.#handle === null) {
      this.#isMade = true;
      this.#handle = await this.#input.objects.openPart(this.#input.name, this.#input.signal);
    }
    return this.#handle;
  }

  #send(handle: SftpHandle, bytes: Buffer): void {
    const sending = this.#input.objects
      .writeAt(handle, bytes, this.#sentBytes, this.#input.signal)
      .catch((error: unknown) => {
        this.#failed ??= { error };
      })
      .finally(() => {
        this.#wayBytes -= bytes.length;
        this.#underWay.delete(sending);
      });
    this.#sentBytes += bytes.length;
    this.#wayBytes += bytes.length;
    this.#underWay.add(sending);
  }

  #throwFailed(): void {
    if (this.#failed !== null) throw this.#failed.error;
  }

  async #says(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      throw await this.#input.objects.writeFault('a file could not be written', error);
    }
  }
}

const isStatus = (error: unknown, status: number): boolean => error instanceof SftpRefusal && error.status === status;
