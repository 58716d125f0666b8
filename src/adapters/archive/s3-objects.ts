// S3 objects: remote objects in a bucket. Blobs of unknown digest go up under a name of their own and are copied there; parts keep memory flat.
// Every body is sent with its SHA-256, which the server checks; what is there already is only written over when it is damaged.
import { createHash } from 'node:crypto';
import type { BlobRef } from '../../core/archive/manifest.ts';
import { Fault } from '../../core/fault.ts';
import { attempt, PATIENCE, Passing, type Patience } from './remote-attempt.ts';
import { MOST_KEYS, type ObjectFacts, type RemoteObjects, type Upload } from './remote-objects.ts';
import {
  checkedBody,
  type Outcome,
  type S3Answer,
  S3Caller,
  type S3Place,
  type S3Refusal,
  type S3Request,
  wordsOf,
} from './s3-call.ts';

const MIB = 1024 * 1024;
/** S3 takes at most 10,000 parts, of 5 MiB or more each. */
const PART_BYTES = 16 * MIB;
const FINE_PARTS = 5_000;
const COARSE_PART_BYTES = 64 * MIB;
const MOST_PARTS = 10_000;
const COPY_PART_BYTES = 512 * MIB;
/** Times the usual deadline: the server moves much data before it answers. */
const COPY_PATIENCE = 10;
/** A body may be sent as slowly as this without being given up; a part is large, and a line may be thin. */
const SLOWEST_BYTES_PER_MS = (128 * 1024) / 1000;
const SMALL_ANSWER_BYTES = 64 * 1024;
const IDLE_MS = 60_000;
const MOST_PAGES = 100_000;

export interface S3ObjectsOptions {
  readonly place: S3Place;
  readonly patience?: Patience;
  /** For tests: smaller parts. */
  readonly partBytes?: number;
  readonly copyPartBytes?: number;
  readonly idleMs?: number;
  readonly mostKeys?: number;
  readonly slowestBytesPerMs?: number;
}

export class S3Objects implements RemoteObjects {
  readonly place: string;
  readonly #caller: S3Caller;
  readonly #patience: Patience;
  readonly #partBytes: number;
  readonly #copyPartBytes: number;
  readonly #idleMs: number;
  readonly #mostKeys: number;
  readonly #slowestBytesPerMs: number;
  /** Not every server knows If-None-Match; such a one says so. */
  #knowsConditions = true;

  constructor(options: S3ObjectsOptions) {
    this.#caller = new S3Caller(options.place);
    this.#patience = options.patience ?? PATIENCE;
    this.#partBytes = options.partBytes ?? PART_BYTES;
    this.#copyPartBytes = options.copyPartBytes ?? COPY_PART_BYTES;
    this.#idleMs = options.idleMs ?? IDLE_MS;
    this.#mostKeys = options.mostKeys ?? MOST_KEYS;
    this.#slowestBytesPerMs = options.slowestBytesPerMs ?? SLOWEST_BYTES_PER_MS;
    this.place = this.#caller.shown;
  }

  async read(key: string, maxBytes: number): Promise<Uint8Array | null> {
    return await this.#attempt(`${key} could not be read`, undefined, async (signal) => {
      const outcome = await this.#caller.call({ method: 'GET', key, signal });
      if (outcome.kind === 'refused') return this.#absent(outcome.refusal, key);
      return await outcome.answer.bytes(maxBytes);
    });
  }

  async stream(
    key: string,
    fromByte: number,
    signal: AbortSignal | undefined,
  ): Promise<AsyncIterable<Uint8Array> | null> {
    const own = new AbortController();
    const stop = (reason: unknown): void => own.abort(reason);
    const onAbort = (): void => stop(signal?.reason);
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort, { once: true });
    const idle = idleTimer(this.#idleMs, stop);
    const leave = (): void => {
      idle.end();
      signal?.removeEventListener('abort', onAbort);
    };
    try {
      const outcome = await this.#caller.call({
        method: 'GET',
        key,
        signal: own.signal,
        ...(fromByte === 0 ? {} : { headers: { range: `bytes=${fromByte}-` } }),
      });
      if (outcome.kind === 'refused') {
        leave();
        // Nothing is left after that byte: the blob had ended there.
        if (outcome.refusal.status === 416 && fromByte > 0) return nothing();
        return this.#absent(outcome.refusal, key);
      }
      const { answer } = outcome;
      if (fromByte > 0 && answer.status !== 206)
        throw new Fault('ARCHIVE_FAILED', `${this.place}: the server does not continue a broken read (no ranges)`);
      return (async function* () {
        try {
          for await (const chunk of answer.stream()) {
            // Who reads may take his time; only the server's silence counts.
            idle.rest();
            yield chunk;
            idle.wait();
          }
        } finally {
          leave();
        }
      })();
    } catch (error) {
      leave();
      throw error;
    }
  }

  async sizeOf(key: string): Promise<number | null> {
    // Not HEAD: its answers have no body, so a missing bucket would look like a missing object.
    return await this.#attempt(`${key} could not be looked for`, undefined, async (signal) => {
      const outcome = await this.#caller.call({ method: 'GET', key, signal, headers: { range: 'bytes=0-0' } });
      if (outcome.kind === 'refused') return outcome.refusal.status === 416 ? 0 : this.#absent(outcome.refusal, key);
      const { answer } = outcome;
      const total = /^bytes 0-\d+\/(\d+)$/.exec(answer.header('content-range') ?? '')?.[1];
      const found = total ?? (answer.status === 200 ? answer.header('content-length') : undefined);
      if (found === undefined || !Number.isSafeInteger(Number(found)))
        throw new Fault('ARCHIVE_FAILED', `${this.place}: the server does not say how large ${key} is`);
      // A server may send more than the one byte; that is not wanted.
      if (Number(answer.header('content-length')) <= SMALL_ANSWER_BYTES) await answer.bytes(SMALL_ANSWER_BYTES);
      else answer.leave();
      return Number(found);
    });
  }

  async write(key: string, bytes: Uint8Array): Promise<number> {
    const { atMs } = await this.#send(`${key} could not be written`, { method: 'PUT', key, body: bytes }, undefined);
    return atMs ?? Date.now();
  }

  async create(key: string, bytes: Uint8Array): Promise<boolean> {
    return await this.#create(key, bytes, undefined);
  }

  upload(
    name: string,
    announced: { readonly key: string; readonly expected: BlobRef } | null,
    signal: AbortSignal | undefined,
  ): Upload {
    let partBytes = this.#partBytes;
    if (announced !== null) while (Math.ceil(announced.expected.sizeBytes / partBytes) > MOST_PARTS) partBytes *= 2;
    return new S3Upload({
      objects: this,
      key: announced?.key ?? null,
      name,
      signal,
      partBytesOf: (number) =>
        announced === null && number > FINE_PARTS ? Math.max(partBytes, COARSE_PART_BYTES) : partBytes,
    });
  }

  async remove(key: string): Promise<boolean> {
    // S3 says the same for what was there and for what was not.
    if ((await this.sizeOf(key)) === null) return false;
    await this.#send(`${key} could not be removed`, { method: 'DELETE', key }, undefined);
    return true;
  }

  async list(folder: string): Promise<readonly ObjectFacts[]> {
    const { prefix } = this.#caller.place;
    const root = prefix === '' ? '' : `${prefix}/`;
    const found: ObjectFacts[] = [];
    const seen = new Set<string>();
    for (let page = 0, from = ''; ; page++) {
      const text = await this.#attempt(`${folder} could not be listed`, undefined, async (signal) => {
        const outcome = await this.#caller.call({
          method: 'GET',
          key: null,
          query: {
            'list-type': '2',
            prefix: `${root}${folder}`,
            ...(from === '' ? {} : { 'continuation-token': from }),
          },
          signal,
        });
        return await checkedBody(this.#done(outcome, folder), this.place);
      });
      if (!/<ListBucketResult[\s>]/.test(text))
        throw new Fault('ARCHIVE_FAILED', `${this.place}: the server gave no list of ${folder}`);
      for (const [, entry = ''] of text.matchAll(/<Contents>([\s\S]*?)<\/Contents>/g)) {
        const key = textOf(entry, 'Key');
        const sizeBytes = Number(textOf(entry, 'Size'));
        const changedAtMs = Date.parse(textOf(entry, 'LastModified'));
        if (!key.startsWith(`${root}${folder}`) || !Number.isSafeInteger(sizeBytes) || Number.isNaN(changedAtMs))
          throw new Fault('ARCHIVE_FAILED', `${this.place}: the server gave a list of ${folder} that cannot be read`);
        found.push({ key: key.slice(root.length), sizeBytes, changedAtMs, mark: textOf(entry, 'ETag') || null });
      }
      if (found.length > this.#mostKeys)
        throw new Fault('ARCHIVE_FAILED', `${this.place}: ${folder} holds more than ${this.#mostKeys} objects`);
      if (textOf(text, 'IsTruncated') !== 'true') return found;
      from = textOf(text, 'NextContinuationToken');
      // A list that ends too early would look like things that are gone.
      if (from === '' || seen.has(from) || page > MOST_PAGES)
        throw new Fault('ARCHIVE_FAILED', `${this.place}: the server does not go on with its list of ${folder}`);
      seen.add(from);
    }
  }

  async sweep(olderThanMs: number): Promise<void> {
    const { prefix } = this.#caller.place;
    const root = prefix === '' ? '' : `${prefix}/`;
    const seen = new Set<string>();
    for (let from: Readonly<Record<string, string>> = {}; ; ) {
      // Some servers do not list uploads; a rule of the bucket may then remove them.
      const answer = await this.#attempt('unfinished uploads could not be listed', undefined, async (signal) => {
        const outcome = await this.#caller.call({
          method: 'GET',
          key: null,
          query: { uploads: '', prefix: root, ...from },
          signal,
        });
        if (outcome.kind === 'refused') return null;
        return { text: await checkedBody(outcome.answer, this.place), nowMs: outcome.answer.atMs };
      });
      if (answer === null || answer.nowMs === null) return;
      for (const [, entry = ''] of answer.text.matchAll(/<Upload>([\s\S]*?)<\/Upload>/g)) {
        const key = textOf(entry, 'Key');
        const uploadId = textOf(entry, 'UploadId');
        const beganMs = Date.parse(textOf(entry, 'Initiated'));
        const own = key.startsWith(root) ? key.slice(root.length) : '';
        if (uploadId === '' || !/^(blobs|incoming)\//.test(own) || !(answer.nowMs - beganMs > olderThanMs)) continue;
        await this.abortUpload(own, uploadId);
      }
      const [key, uploadId] = [textOf(answer.text, 'NextKeyMarker'), textOf(answer.text, 'NextUploadIdMarker')];
      const mark = `${key} ${uploadId}`;
      // What such a server does not go on with is left for the next time.
      if (textOf(answer.text, 'IsTruncated') !== 'true' || key === '' || seen.has(mark) || seen.size > MOST_PAGES)
        return;
      seen.add(mark);
      from = { 'key-marker': key, ...(uploadId === '' ? {} : { 'upload-id-marker': uploadId }) };
    }
  }

  async freeBytes(): Promise<number | null> {
    return null;
  }

  async close(): Promise<void> {
    await this.#caller.close();
  }

  // --- for uploads

  /** A verified blob under its digest: over what is there only when that is damaged. */
  async putSmall(key: string, bytes: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
    if (await this.#create(key, bytes, signal)) return;
    const there = await this.read(key, bytes.length).catch((error: unknown) => {
      if (error instanceof Fault && error.code === 'ARCHIVE_DAMAGED') return null;
      throw error;
    });
    if (there !== null && sha256(there) === sha256(bytes)) return;
    await this.#send(`${key} could not be written`, { method: 'PUT', key, body: bytes }, signal);
  }

  async beginUpload(key: string, signal: AbortSignal | undefined): Promise<string> {
    const { text } = await this.#send(
      'an upload could not be begun',
      { method: 'POST', key, query: { uploads: '' } },
      signal,
    );
    const uploadId = textOf(text, 'UploadId');
    if (uploadId === '') throw new Fault('ARCHIVE_FAILED', `${this.place}: the server began no upload`);
    return uploadId;
  }

  async putPart(
    at: { readonly key: string; readonly uploadId: string; readonly number: number },
    bytes: Uint8Array,
    signal: AbortSignal | undefined,
  ): Promise<string> {
    const query = { partNumber: String(at.number), uploadId: at.uploadId };
    const { etag } = await this.#send(
      'a part of a blob could not be put',
      { method: 'PUT', key: at.key, query, body: bytes },
      signal,
    );
    if (etag === '') throw new Fault('ARCHIVE_FAILED', `${this.place}: the server named no ETag of a part`);
    return etag;
  }

  async endUpload(
    key: string,
    uploadId: string,
    etags: readonly string[],
    sizeBytes: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const parts = etags.map((etag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${etag}</ETag></Part>`);
    const body = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`);
    try {
      await this.#send('an upload could not be ended', { method: 'POST', key, query: { uploadId }, body }, signal);
    } catch (error) {
      // An answer that was lost: the second try finds the upload ended.
      if (!(error instanceof Refused && error.refusal.code === 'NoSuchUpload')) throw error;
    }
    await this.#checkSize(key, sizeBytes);
  }

  async abortUpload(key: string, uploadId: string): Promise<void> {
    try {
      await this.#send('an upload could not be called off', { method: 'DELETE', key, query: { uploadId } }, undefined);
    } catch (error) {
      if (!(error instanceof Refused && error.refusal.code === 'NoSuchUpload')) throw error;
    }
  }

  /** Within the server. */
  async copy(from: string, to: string, sizeBytes: number, signal: AbortSignal | undefined): Promise<void> {
    const { prefix, bucket } = this.#caller.place;
    const source = `/${bucket}/${prefix === '' ? '' : `${prefix}/`}${from}`;
    // Every server can do it in one call; a long one is cut into parts, so that each has an answer in time.
    if (sizeBytes <= 2 * this.#copyPartBytes) {
      const whole = { method: 'PUT', key: to, headers: { 'x-amz-copy-source': source } } as const;
      await this.#send('a blob could not be copied to its place', whole, signal, COPY_PATIENCE);
      return await this.#checkSize(to, sizeBytes);
    }
    const uploadId = await this.beginUpload(to, signal);
    try {
      const etags: string[] = [];
      for (let at = 0; at < sizeBytes; at += this.#copyPartBytes) {
        const last = Math.min(sizeBytes, at + this.#copyPartBytes) - 1;
        const { text } = await this.#send(
          'a blob could not be copied to its place',
          {
            method: 'PUT',
            key: to,
            query: { partNumber: String(etags.length + 1), uploadId },
            headers: { 'x-amz-copy-source': source, 'x-amz-copy-source-range': `bytes=${at}-${last}` },
          },
          signal,
          COPY_PATIENCE,
        );
        etags.push(textOf(text, 'ETag'));
      }
      await this.endUpload(to, uploadId, etags, sizeBytes, signal);
    } catch (error) {
      await this.abortUpload(to, uploadId).catch(() => {});
      throw error;
    }
  }

  // --- parts

  async #checkSize(key: string, sizeBytes: number): Promise<void> {
    const found = await this.sizeOf(key);
    if (found !== sizeBytes)
      throw new Fault('ARCHIVE_FAILED', `${this.place}: ${key} has ${found ?? 'no'} bytes after its upload`);
  }

  async #create(key: string, bytes: Uint8Array, signal: AbortSignal | undefined): Promise<boolean> {
    const what = `${key} could not be written`;
    if (this.#knowsConditions)
      try {
        await this.#send(what, { method: 'PUT', key, body: bytes, headers: { 'if-none-match': '*' } }, signal);
        return true;
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        if (error.refusal.status === 412) return false;
        if (error.refusal.status !== 501 && error.refusal.code !== 'NotImplemented') throw error;
        this.#knowsConditions = false;
      }
    await this.#send(what, { method: 'PUT', key, body: bytes }, signal);
    return true;
  }

  async #send(
    what: string,
    said: Omit<S3Request, 'signal'>,
    signal: AbortSignal | undefined,
    patienceFactor = 1,
  ): Promise<{ readonly text: string; readonly etag: string; readonly atMs: number | null }> {
    const sendingMs = (said.body?.length ?? 0) / this.#slowestBytesPerMs;
    const patience = { ...this.#patience, deadlineMs: this.#patience.deadlineMs * patienceFactor + sendingMs };
    return await attempt(`${this.place}: ${what}`, patience, signal, async (one) => {
      const answer = this.#done(await this.#caller.call({ ...said, signal: one }), what);
      const text = await checkedBody(answer, this.place);
      return { text, etag: answer.header('etag') ?? '', atMs: answer.atMs };
    });
  }

  #attempt<T>(what: string, signal: AbortSignal | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return attempt(`${this.place}: ${what}`, this.#patience, signal, work);
  }

  #done(outcome: Outcome, what: string): S3Answer {
    if (outcome.kind === 'done') return outcome.answer;
    throw new Refused(`${this.place}: ${what}: ${wordsOf(outcome.refusal)}`, outcome.refusal);
  }

  /** Only the server's own word for it counts: a proxy's page under the same status says nothing of the object. */
  #absent(refusal: S3Refusal, key: string): null {
    if (refusal.status === 404 && refusal.code === 'NoSuchKey') return null;
    throw new Refused(`${this.place}: ${key}: ${wordsOf(refusal)}`, refusal);
  }
}

/** For callers that know what a certain refusal means. */
class Refused extends Fault {
  readonly refusal: S3Refusal;
  constructor(summary: string, refusal: S3Refusal) {
    super('ARCHIVE_FAILED', summary);
    this.refusal = refusal;
  }
}

interface S3UploadInput {
  readonly objects: S3Objects;
  /** Null: known when everything was sent. */
  readonly key: string | null;
  readonly name: string;
  readonly signal: AbortSignal | undefined;
  readonly partBytesOf: (number: number) => number;
}

class S3Upload implements Upload {
  readonly #input: S3UploadInput;
  #chunks: Uint8Array[] = [];
  #bufferedBytes = 0;
  #sentBytes = 0;
  #uploadId: string | null = null;
  readonly #etags: string[] = [];
  /** One part is sent while the next one is filled. */
  #sending: Promise<void> = Promise.resolve();
  #hasTemporary = false;

  constructor(input: S3UploadInput) {
    this.#input = input;
  }

  async write(chunk: Uint8Array): Promise<void> {
    for (let rest = chunk; rest.length > 0; ) {
      const space = this.#input.partBytesOf(this.#etags.length + 1) - this.#bufferedBytes;
      const now = rest.subarray(0, space);
      // Its buffer may be filled again by whoever gave it.
      this.#chunks.push(new Uint8Array(now));
      this.#bufferedBytes += now.length;
      rest = rest.subarray(now.length);
      // A part is only sent once something follows it: a blob of one part goes up in one call.
      if (now.length === space && rest.length > 0) await this.#sendPart();
    }
    if (this.#bufferedBytes >= this.#input.partBytesOf(this.#etags.length + 1) && this.#uploadId !== null)
      await this.#sendPart();
  }

  async putInPlace(key: string): Promise<void> {
    const { objects, signal, name } = this.#input;
    if (this.#uploadId === null) return await objects.putSmall(key, this.#take(), signal);
    if (this.#bufferedBytes > 0) await this.#sendPart();
    await this.#sending;
    const target = this.#input.key ?? name;
    await objects.endUpload(target, this.#uploadId, this.#etags, this.#sentBytes, signal);
    this.#uploadId = null;
    if (this.#input.key !== null) return;
    this.#hasTemporary = true;
    await objects.copy(name, key, this.#sentBytes, signal);
    // What cannot be removed is collected later.
    await objects.remove(name).catch(() => false);
    this.#hasTemporary = false;
  }

  async discard(): Promise<void> {
    this.#chunks = [];
    await this.#sending.catch(() => {});
    const { objects, key, name } = this.#input;
    if (this.#uploadId !== null) await objects.abortUpload(key ?? name, this.#uploadId);
    if (this.#hasTemporary) await objects.remove(name);
  }

  #take(): Uint8Array {
    const bytes = Buffer.concat(this.#chunks);
    this.#chunks = [];
    this.#bufferedBytes = 0;
    return bytes;
  }

  async #sendPart(): Promise<void> {
    const { objects, signal, key, name } = this.#input;
    const bytes = this.#take();
    await this.#sending;
    this.#uploadId ??= await objects.beginUpload(key ?? name, signal);
    const at = { key: key ?? name, uploadId: this.#uploadId, number: this.#etags.length + 1 };
    if (at.number > MOST_PARTS) throw new Fault('ARCHIVE_FAILED', 'a blob is too large for an S3 server');
    this.#etags.push('');
    this.#sentBytes += bytes.length;
    this.#sending = objects.putPart(at, bytes, signal).then((etag) => {
      this.#etags[at.number - 1] = etag;
    });
    this.#sending.catch(() => {});
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

/** Ends a read when the server says nothing for so long. */
function idleTimer(idleMs: number, stop: (reason: unknown) => void) {
  let timer: NodeJS.Timeout | null = null;
  const rest = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
  };
  const wait = (): void => {
    rest();
    timer = setTimeout(() => stop(new Passing(`the server said nothing for ${idleMs / 1000} s`)), idleMs);
  };
  wait();
  return { rest, wait, end: rest };
}

function textOf(xml: string, name: string): string {
  const raw = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1] ?? '';
  return raw.replace(/&(?:amp|lt|gt|quot|apos|#34|#39);/g, (entity) => ENTITIES[entity] ?? entity);
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&apos;': "'",
  '&#34;': '"',
  '&#39;': "'",
};

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
