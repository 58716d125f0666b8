// S3 double: a server of the few S3 calls that a store makes, over real HTTP on loopback. It checks every signature by itself and keeps what it
// is given in files, so that large blobs cost no memory; `behave` lets it fail as servers do.
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

export const ACCESS_KEY = 'AKIDWINDLASS';
export const SECRET_KEY = 'a+secret/of=the double';

interface Segment {
  readonly file: string;
  readonly start: number;
  readonly length: number;
}

interface Stored {
  readonly segments: readonly Segment[];
  readonly sizeBytes: number;
  readonly etag: string;
  readonly atMs: number;
}

interface OpenUpload {
  readonly key: string;
  readonly beganMs: number;
  readonly parts: Map<number, Stored>;
}

export interface S3Call {
  readonly method: string;
  /** Within the bucket. */
  readonly key: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  /** How often this very call was made, from 1. */
  readonly nth: number;
}

export type S3Behaviour =
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly code?: string;
      readonly headers?: Record<string, string>;
      /** In the middle of saying why. */
      readonly breaksOff?: boolean;
    }
  | { readonly kind: 'page'; readonly status: number }
  /** The connection goes away before, or after the work was done. */
  | { readonly kind: 'cut'; readonly when: 'before' | 'after' }
  /** After so many bytes of the body of the answer. */
  | { readonly kind: 'cut-body'; readonly atByte: number }
  | { readonly kind: 'hang' }
  /** Does its work, and answers late. */
  | { readonly kind: 'late'; readonly afterMs: number }
  /** Byte by byte, one in so many milliseconds. */
  | { readonly kind: 'drip'; readonly everyMs: number }
  /** Other content of the same length. */
  | { readonly kind: 'spoil' }
  /** 200 with an error in it. */
  | { readonly kind: 'late-error'; readonly code: string }
  | null;

export class S3Double {
  readonly bucket = 'archives';
  readonly region = 'eu-test-1';
  readonly calls: S3Call[] = [];
  readonly objects = new Map<string, Stored>();
  readonly uploads = new Map<string, OpenUpload>();
  conditions: 'known' | 'refused' | 'ignored' = 'known';
  pageSize = 1000;
  behave: (call: S3Call) => S3Behaviour = () => null;
  #server: Server | null = null;
  #folder = '';
  #files = 0;

  static async start(): Promise<S3Double> {
    const double = new S3Double();
    double.#folder = await mkdtemp(join(tmpdir(), 'wl-s3-'));
    double.#server = createServer((incoming, outgoing) => {
      double.#serve(incoming, outgoing).catch(() => outgoing.destroy());
    });
    await new Promise<void>((resolve) => double.#server!.listen(0, '127.0.0.1', resolve));
    return double;
  }

  calm(): void {
    this.behave = () => null;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server!.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server?.closeAllConnections();
    await new Promise((resolve) => this.#server?.close(resolve));
    await rm(this.#folder, { recursive: true, force: true });
  }

  async content(key: string): Promise<Buffer> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of this.#read(this.objects.get(key)!)) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  async replace(key: string, bytes: Uint8Array): Promise<void> {
    this.objects.set(key, await this.#keep(bytes));
  }

  async #keep(bytes: Uint8Array): Promise<Stored> {
    const file = join(this.#folder, String(this.#files++));
    await writeFile(file, bytes);
    const etag = `"${createHash('md5').update(bytes).digest('hex')}"`;
    return { segments: [{ file, start: 0, length: bytes.length }], sizeBytes: bytes.length, etag, atMs: Date.now() };
  }

  async *#read(stored: Stored, from = 0, to = stored.sizeBytes): AsyncGenerator<Uint8Array> {
    let at = 0;
    for (const { file, start, length } of stored.segments) {
      const first = Math.max(from - at, 0);
      const end = Math.min(to - at, length);
      if (end > first) yield* createReadStream(file, { start: start + first, end: start + end - 1 });
      at += length;
    }
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const url = new URL(incoming.url ?? '/', this.endpoint);
    const [, bucket = '', ...rest] = decodeURIComponent(url.pathname).split('/');
    const key = rest.join('/');
    const named = `${incoming.method} ${incoming.url} ${incoming.headers.range ?? ''}`;
    const nth = this.calls.filter(
      (one) => `${one.method} ${one.headers['x-seen']} ${one.headers.range ?? ''}` === named,
    ).length;
    const call: S3Call = {
      method: incoming.method ?? '',
      key,
      query: url.searchParams,
      headers: { ...incoming.headers, 'x-seen': incoming.url ?? '' },
      nth: nth + 1,
    };
    this.calls.push(call);
    const how = this.behave(call);
    if (how?.kind === 'cut' && how.when === 'before') return void incoming.socket.destroy();
    const body = await this.#receive(incoming);
    if (how?.kind === 'hang') return;
    if (how?.kind === 'late') await new Promise((resolve) => setTimeout(resolve, how.afterMs));
    const refuse = (status: number, code: string, headers: Record<string, string> = {}): void => {
      outgoing.writeHead(status, { 'content-type': 'application/xml', date: new Date().toUTCString(), ...headers });
      outgoing.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>as the test asked</Message></Error>`);
    };
    if (how?.kind === 'answer' && how.breaksOff) {
      outgoing.writeHead(how.status, { 'content-length': 1_000 });
      return void outgoing.write('<?xml version="1.0"?><Error>', () => outgoing.destroy());
    }
    if (how?.kind === 'answer') return refuse(how.status, how.code ?? 'SomeCode', how.headers);
    if (how?.kind === 'page') {
      outgoing.writeHead(how.status, { 'content-type': 'text/html' });
      return void outgoing.end('<html>a proxy says something</html>');
    }
    if (how?.kind === 'late-error') return refuse(200, how.code);
    const wrong = wrongSignature(incoming, url, this.region);
    if (wrong !== null) return refuse(403, wrong);
    if (incoming.headers['x-amz-content-sha256'] !== body.sha256) return refuse(400, 'XAmzContentSHA256Mismatch');
    const md5 = incoming.headers['content-md5'];
    if (md5 !== undefined && md5 !== body.md5) return refuse(400, 'BadDigest');
    if (bucket !== this.bucket) return refuse(404, 'NoSuchBucket');
    const answer = async (status: number, xml = '', headers: Record<string, string> = {}): Promise<void> => {
      if (how?.kind === 'cut') return void incoming.socket.destroy();
      outgoing.writeHead(status, { date: new Date().toUTCString(), ...headers });
      if (how?.kind === 'drip') await drip(outgoing, Buffer.from(xml), how.everyMs);
      outgoing.end(how?.kind === 'drip' ? '' : xml);
    };
    const uploadId = url.searchParams.get('uploadId');
    const upload = uploadId === null ? null : this.uploads.get(uploadId);
    if (uploadId !== null && !upload) return refuse(404, 'NoSuchUpload');
    switch (call.method) {
      case 'GET':
        if (key === '' && url.searchParams.has('uploads')) return answer(200, this.#listUploads(url));
        if (key === '') return answer(200, this.#list(url));
        return this.#get(call, how, outgoing, refuse);
      case 'DELETE':
        if (uploadId !== null) this.uploads.delete(uploadId);
        else this.objects.delete(key);
        return answer(204);
      case 'POST':
        if (url.searchParams.has('uploads')) {
          const id = randomBytes(8).toString('hex');
          this.uploads.set(id, { key, beganMs: Date.now(), parts: new Map() });
          return answer(
            200,
            `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
          );
        }
        if (!upload) return refuse(400, 'InvalidRequest');
        return this.#complete(uploadId!, upload, await readFile(body.file, 'utf8'), answer, refuse);
      case 'PUT': {
        if (upload) {
          const number = Number(url.searchParams.get('partNumber'));
          if (!(number >= 1 && number <= 10_000)) return refuse(400, 'InvalidArgument');
          const source = incoming.headers['x-amz-copy-source'];
          const part = source === undefined ? body.stored : this.#slice(String(source), incoming.headers);
          if (part === null) return refuse(404, 'NoSuchKey');
          upload.parts.set(number, part);
          return answer(
            200,
            source === undefined
              ? ''
              : `<CopyPartResult><ETag>${part.etag.replaceAll('"', '&quot;')}</ETag></CopyPartResult>`,
            { etag: part.etag },
          );
        }
        if (incoming.headers['if-none-match'] !== undefined && this.conditions !== 'ignored') {
          if (this.conditions === 'refused') return refuse(501, 'NotImplemented');
          if (this.objects.has(key)) return refuse(412, 'PreconditionFailed');
        }
        const source = incoming.headers['x-amz-copy-source'];
        if (source !== undefined) {
          const copied = this.objects.get(decodeURIComponent(String(source)).replace(`/${this.bucket}/`, ''));
          if (!copied) return refuse(404, 'NoSuchKey');
          this.objects.set(key, { ...copied, atMs: Date.now() });
          return answer(
            200,
            `<CopyObjectResult><ETag>${copied.etag.replaceAll('"', '&quot;')}</ETag></CopyObjectResult>`,
          );
        }
        this.objects.set(key, body.stored);
        return answer(200, '', { etag: body.stored.etag });
      }
      default:
        return refuse(405, 'MethodNotAllowed');
    }
  }

  async #receive(incoming: IncomingMessage) {
    const file = join(this.#folder, String(this.#files++));
    const [sha256, md5] = [createHash('sha256'), createHash('md5')];
    let sizeBytes = 0;
    await pipeline(
      incoming,
      async function* (source) {
        for await (const chunk of source) {
          sha256.update(chunk);
          md5.update(chunk);
          sizeBytes += chunk.length;
          yield chunk;
        }
      },
      createWriteStream(file),
    );
    const digest = md5.digest();
    const etag = `"${digest.toString('hex')}"`;
    const stored: Stored = { segments: [{ file, start: 0, length: sizeBytes }], sizeBytes, etag, atMs: Date.now() };
    return { file, sha256: sha256.digest('hex'), md5: digest.toString('base64'), stored };
  }

  async #get(
    call: S3Call,
    how: S3Behaviour,
    outgoing: ServerResponse,
    refuse: (status: number, code: string, headers?: Record<string, string>) => void,
  ): Promise<void> {
    const stored = this.objects.get(call.key);
    if (!stored) return refuse(404, 'NoSuchKey');
    const range = /^bytes=(\d+)-(\d*)$/.exec(call.headers.range ?? '');
    const from = Number(range?.[1] ?? 0);
    const to = Math.min(stored.sizeBytes, range?.[2] ? Number(range[2]) + 1 : stored.sizeBytes);
    if (range && from >= stored.sizeBytes)
      return refuse(416, 'InvalidRange', { 'content-range': `bytes */${stored.sizeBytes}` });
    outgoing.writeHead(range ? 206 : 200, {
      'content-length': to - from,
      etag: stored.etag,
      date: new Date().toUTCString(),
      ...(range ? { 'content-range': `bytes ${from}-${to - 1}/${stored.sizeBytes}` } : {}),
    });
    let sent = 0;
    for await (const chunk of this.#read(stored, from, to)) {
      const bytes = Buffer.from(chunk);
      if (how?.kind === 'spoil') bytes[0]! ^= 1;
      if (how?.kind === 'drip') await drip(outgoing, bytes, how.everyMs);
      if (how?.kind === 'cut-body' && sent + bytes.length > how.atByte) {
        outgoing.write(bytes.subarray(0, how.atByte - sent), () => outgoing.destroy());
        return;
      }
      sent += bytes.length;
      if (outgoing.destroyed) return;
      if (how?.kind === 'drip') continue;
      if (!outgoing.write(bytes)) await new Promise((resolve) => outgoing.once('drain', resolve));
    }
    outgoing.end();
  }

  #slice(source: string, headers: IncomingMessage['headers']): Stored | null {
    const stored = this.objects.get(decodeURIComponent(source).replace(`/${this.bucket}/`, ''));
    const range = /^bytes=(\d+)-(\d+)$/.exec(String(headers['x-amz-copy-source-range']));
    if (!stored || !range) return null;
    const [from, to] = [Number(range[1]), Number(range[2]) + 1];
    const segments: Segment[] = [];
    let at = 0;
    for (const { file, start, length } of stored.segments) {
      const first = Math.max(from - at, 0);
      const end = Math.min(to - at, length);
      if (end > first) segments.push({ file, start: start + first, length: end - first });
      at += length;
    }
    return { segments, sizeBytes: to - from, etag: `"${randomBytes(16).toString('hex')}"`, atMs: Date.now() };
  }

  async #complete(
    uploadId: string,
    upload: OpenUpload,
    xml: string,
    answer: (status: number, xml: string) => Promise<void>,
    refuse: (status: number, code: string) => void,
  ): Promise<void> {
    const said = [...xml.matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>([^<]+)<\/ETag>/g)];
    const segments: Segment[] = [];
    let sizeBytes = 0;
    for (const [, number, etag] of said) {
      const part = upload.parts.get(Number(number));
      if (part?.etag !== etag) return refuse(400, 'InvalidPart');
      segments.push(...part!.segments);
      sizeBytes += part!.sizeBytes;
    }
    if (said.length === 0) return refuse(400, 'MalformedXML');
    this.objects.set(upload.key, {
      segments,
      sizeBytes,
      etag: `"${randomBytes(16).toString('hex')}-${said.length}"`,
      atMs: Date.now(),
    });
    this.uploads.delete(uploadId);
    await answer(200, '<CompleteMultipartUploadResult/>');
  }

  #list(url: URL): string {
    const prefix = url.searchParams.get('prefix') ?? '';
    const after = url.searchParams.get('continuation-token') ?? '';
    const keys = [...this.objects.keys()].filter((key) => key.startsWith(prefix) && key > after).sort();
    const page = keys.slice(0, this.pageSize);
    const isMore = keys.length > page.length;
    const entries = page.map((key) => {
      const { sizeBytes, etag, atMs } = this.objects.get(key)!;
      return `<Contents><Key>${key}</Key><LastModified>${new Date(atMs).toISOString()}</LastModified><ETag>${etag.replaceAll('"', '&quot;')}</ETag><Size>${sizeBytes}</Size></Contents>`;
    });
    const more = isMore ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
    return `<?xml version="1.0"?><ListBucketResult><IsTruncated>${isMore}</IsTruncated>${more}${entries.join('')}</ListBucketResult>`;
  }

  #listUploads(url: URL): string {
    const prefix = url.searchParams.get('prefix') ?? '';
    const after = `${url.searchParams.get('key-marker') ?? ''} ${url.searchParams.get('upload-id-marker') ?? ''}`;
    const markOf = ([id, { key }]: [string, OpenUpload]): string => `${key} ${id}`;
    const left = [...this.uploads]
      .filter(([, one]) => one.key.startsWith(prefix))
      .sort((a, b) => (markOf(a) < markOf(b) ? -1 : 1))
      .filter((one) => markOf(one) > after);
    const page = left.slice(0, this.pageSize);
    const entries = page.map(
      ([id, { key, beganMs }]) =>
        `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>${new Date(beganMs).toISOString()}</Initiated></Upload>`,
    );
    const isMore = left.length > page.length;
    const [id, { key }] = page.at(-1) ?? ['', { key: '' }];
    const more = isMore ? `<NextKeyMarker>${key}</NextKeyMarker><NextUploadIdMarker>${id}</NextUploadIdMarker>` : '';
    return `<ListMultipartUploadsResult><IsTruncated>${isMore}</IsTruncated>${more}${entries.join('')}</ListMultipartUploadsResult>`;
  }
}

const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();

/** Signature version 4 of what came over the wire, made anew; null when it is right. */
function wrongSignature(incoming: IncomingMessage, url: URL, region: string): string | null {
  const found =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      incoming.headers.authorization ?? '',
    );
  if (!found) return 'AccessDenied';
  const [, id = '', day = '', where = '', names = '', signature = ''] = found;
  if (id !== ACCESS_KEY) return 'InvalidAccessKeyId';
  if (where !== region) return 'AuthorizationHeaderMalformed';
  const time = String(incoming.headers['x-amz-date']);
  const atMs = Date.parse(time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
  if (!(Math.abs(Date.now() - atMs) < 15 * 60_000)) return 'RequestTimeTooSkewed';
  const signed = names.split(';');
  for (const needed of ['host', 'x-amz-content-sha256', 'x-amz-date'])
    if (!signed.includes(needed)) return 'AccessDenied';
  // Every x-amz header that came must be signed.
  for (const name of Object.keys(incoming.headers))
    if (name.startsWith('x-amz-') && !signed.includes(name)) return 'AccessDenied';
  const encode = (text: string): string =>
    encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
  const query = [...url.searchParams]
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join('&');
  const path = decodeURIComponent(url.pathname).split('/').map(encode).join('/');
  const canonical = [
    incoming.method,
    path,
    query,
    ...signed.map((name) => `${name}:${String(incoming.headers[name]).trim().replace(/ +/g, ' ')}`),
    '',
    names,
    incoming.headers['x-amz-content-sha256'],
  ].join('\n');
  const scope = `${day}/${where}/s3/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', time, scope, createHash('sha256').update(canonical).digest('hex')].join('\n');
  const key = hmac(hmac(hmac(hmac(`AWS4${SECRET_KEY}`, day), where), 's3'), 'aws4_request');
  return timingSafeEqual(hmac(key, text), Buffer.from(signature, 'hex')) ? null : 'SignatureDoesNotMatch';
}

/** Until the other side goes away. */
async function drip(outgoing: ServerResponse, bytes: Uint8Array, everyMs: number): Promise<void> {
  for (const byte of bytes) {
    if (outgoing.destroyed) return;
    outgoing.write(Buffer.of(byte));
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}
