// S3 call: one signed HTTP request to an S3 server and its answer, bounded in size and time. It follows no redirect and judges no answer but
// those that every call has in common: what may pass, what is forbidden, what is full.
import { createHash } from 'node:crypto';
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { Fault } from '../../core/fault.ts';
import { Passing } from './remote-attempt.ts';

const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
const MAX_ERROR_BYTES = 64 * 1024;
const CREDENTIALS_MS = 60_000;

export interface S3Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

export interface S3Place {
  /** Null: AWS itself. */
  readonly endpoint: string | null;
  readonly bucket: string;
  readonly region: string;
  /** Folder of the bucket, without slashes at its ends; '' = the bucket itself. */
  readonly prefix: string;
  /** The bucket in the path rather than in the host name. */
  readonly pathStyle: boolean;
  /** PEM certificates that are trusted instead of the system's; read once. */
  readonly ca: (() => Promise<string>) | null;
  /** Asked again every minute, so that renewed ones count. They never appear in a message. */
  readonly credentials: () => Promise<S3Credentials>;
}

export interface S3Request {
  readonly method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  /** Below the prefix; null = the bucket. */
  readonly key: string | null;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly signal: AbortSignal;
}

export interface S3Answer {
  readonly status: number;
  /** By the clock of the server; null when it says none. */
  readonly atMs: number | null;
  header(name: string): string | undefined;
  /** Throws Passing when it breaks off, also when it is shorter than it was said to be. */
  bytes(maxBytes: number): Promise<Uint8Array>;
  stream(): AsyncIterable<Uint8Array>;
  /** Its body is not wanted. */
  leave(): void;
}

/** What the server says of a failed call; both '' when it says nothing. */
export interface S3Refusal {
  readonly status: number;
  readonly code: string;
  readonly said: string;
}

export type Outcome =
  | { readonly kind: 'done'; readonly answer: S3Answer }
  | { readonly kind: 'refused'; readonly refusal: S3Refusal };

const PASSING_STATUS: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);
const PASSING_CODE: ReadonlySet<string> = new Set([
  'RequestTimeout',
  'SlowDown',
  'ServiceUnavailable',
  'InternalError',
  'OperationAborted',
  'ConditionalRequestConflict',
]);
const FULL: ReadonlySet<string> = new Set([
  'QuotaExceeded',
  'XMinioStorageFull',
  'XMinioAdminBucketQuotaExceeded',
  'InsufficientStorage',
  'InsufficientCapacity',
]);

export class S3Caller {
  readonly place: S3Place;
  readonly #base: URL;
  #agent: Promise<HttpAgent | HttpsAgent> | null = null;
  #credentials: { readonly known: Promise<S3Credentials>; readonly atMs: number } | null = null;

  constructor(place: S3Place) {
    this.place = place;
    this.#base = baseOf(place);
  }

  get shown(): string {
    return `${this.#base.origin}${this.#base.pathname}${this.place.prefix}`;
  }

  /** Throws Passing for what may pass, ARCHIVE_DENIED, ARCHIVE_NO_SPACE; every other refusal is the caller's to judge. */
  async call(said: S3Request): Promise<Outcome> {
    const answer = await this.#send(said);
    if (answer.status >= 200 && answer.status < 300) return { kind: 'done', answer };
    const refusal = refusalOf(answer.status, await answer.bytes(MAX_ERROR_BYTES).catch(tooLongAsNone));
    throwCommon(refusal, this.shown, answer.header('x-amz-bucket-region'));
    return { kind: 'refused', refusal };
  }

  async close(): Promise<void> {
    const agent = await this.#agent?.catch(() => null);
    this.#agent = null;
    agent?.destroy();
  }

  async #agentNow(): Promise<HttpAgent | HttpsAgent> {
    const make = async () => {
      if (this.#base.protocol !== 'https:') return new HttpAgent({ keepAlive: true, maxSockets: 16 });
      const { ca } = this.place;
      return new HttpsAgent({ keepAlive: true, maxSockets: 16, ...(ca === null ? {} : { ca: await ca() }) });
    };
    this.#agent ??= make();
    try {
      return await this.#agent;
    } catch (error) {
      this.#agent = null;
      throw error;
    }
  }

  async #send({ method, key, query = {}, headers = {}, body, signal }: S3Request): Promise<S3Answer> {
    const { AwsV4Signer } = await import('aws4fetch');
    const url = new URL(this.#base);
    if (key !== null) url.pathname += this.place.prefix === '' ? key : `${this.place.prefix}/${key}`;
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const signed = await new AwsV4Signer({
      ...(await this.#known()),
      method,
      url: url.href,
      headers: {
        ...headers,
        // Of the body itself: the server refuses what was changed on the way.
        'x-amz-content-sha256': createHash('sha256')
          .update(body ?? '')
          .digest('hex'),
        // What a bucket with object lock asks for.
        ...(body ? { 'content-md5': createHash('md5').update(body).digest('base64') } : {}),
      },
      service: 's3',
      region: this.place.region,
    }).sign();
    const agent = await this.#agentNow();
    signal.throwIfAborted();
    return await new Promise<S3Answer>((resolve, reject) => {
      const send = signed.url.protocol === 'https:' ? httpsRequest : httpRequest;
      const outgoing = send(signed.url, {
        method,
        agent,
        signal,
        headers: { ...Object.fromEntries(signed.headers), ...(body ? { 'content-length': body.length } : {}) },
      });
      outgoing.on('error', (error) => reject(asPassing(error, signal)));
      outgoing.on('response', (incoming) => resolve(answerOf(incoming, signal)));
      outgoing.end(body);
    });
  }

  async #known(): Promise<S3Credentials> {
    if (this.#credentials === null || performance.now() - this.#credentials.atMs > CREDENTIALS_MS)
      this.#credentials = { known: this.place.credentials(), atMs: performance.now() };
    try {
      return await this.#credentials.known;
    } catch (error) {
      this.#credentials = null;
      throw error;
    }
  }
}

/** A page of somebody in between: its status is all that it says. What broke off is tried again, not judged by a half. */
function tooLongAsNone(error: unknown): Uint8Array {
  if (error instanceof Fault && error.code === 'ARCHIVE_DAMAGED') return new Uint8Array();
  throw error;
}

function baseOf({ endpoint, bucket, region, pathStyle }: S3Place): URL {
  const url = new URL(endpoint ?? `https://s3.${region}.amazonaws.com`);
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  if (pathStyle) url.pathname += `${bucket}/`;
  else url.hostname = `${bucket}.${url.hostname}`;
  return url;
}

function answerOf(incoming: IncomingMessage, signal: AbortSignal): S3Answer {
  const atMs = Date.parse(incoming.headers.date ?? '');
  const stream = async function* (): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of incoming) yield chunk as Uint8Array;
      if (!incoming.complete) throw new Passing('the answer broke off');
    } catch (error) {
      throw asPassing(error, signal);
    } finally {
      incoming.destroy();
    }
  };
  return {
    status: incoming.statusCode ?? 0,
    atMs: Number.isNaN(atMs) ? null : atMs,
    header: (name) => {
      const value = incoming.headers[name];
      return Array.isArray(value) ? value[0] : value;
    },
    async bytes(maxBytes) {
      const chunks: Uint8Array[] = [];
      let size = 0;
      for await (const chunk of stream()) {
        size += chunk.length;
        if (size > maxBytes) throw new Fault('ARCHIVE_DAMAGED', `an answer has more than ${maxBytes} bytes`);
        chunks.push(chunk);
      }
      return Buffer.concat(chunks);
    },
    stream,
    leave: () => void incoming.destroy(),
  };
}

/** Of the network: it may pass. What we stopped ourselves is left as it is. */
function asPassing(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason instanceof Error ? signal.reason : error;
  if (error instanceof Passing || error instanceof Fault) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  // A certificate that does not fit is not a matter of time.
  if (/^(ERR_TLS|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|ERR_SSL)/.test(code ?? ''))
    return new Fault('ARCHIVE_DENIED', `the certificate of the S3 server is not trusted: ${message}`, { cause: error });
  return new Passing(message || String(code), { cause: error });
}

function throwCommon(refusal: S3Refusal, place: string, region: string | undefined): void {
  const { status, code } = refusal;
  const words = wordsOf(refusal);
  if (code === 'NoSuchBucket') throw new Fault('ARCHIVE_DENIED', `${place}: there is no such bucket`);
  if (FULL.has(code) || status === 507) throw new Fault('ARCHIVE_NO_SPACE', `${place}: ${words}`);
  if (PASSING_CODE.has(code) || PASSING_STATUS.has(status)) throw new Passing(words);
  if (status === 401 || status === 403)
    throw new Fault(
      'ARCHIVE_DENIED',
      `${place}: ${code === 'RequestTimeTooSkewed' ? 'the clock of this machine is wrong: ' : ''}${words}`,
    );
  if (status >= 300 && status < 400)
    throw new Fault(
      'ARCHIVE_DENIED',
      `${place}: the bucket is elsewhere${region ? `, in the region ${region}` : ''}: ${words}`,
    );
}

export const wordsOf = ({ status, code, said }: S3Refusal): string =>
  `the server answered ${status}${code ? ` ${code}` : ''}${said ? `: ${said}` : ''}`;

/** From the body of an answer that says what is wrong, also under the status 200. */
export function refusalOf(status: number, body: Uint8Array): S3Refusal {
  const text = Buffer.from(body).toString('utf8');
  const bare = (name: string, pattern: RegExp): string =>
    (pattern.exec(text)?.[1] ?? '').replace(/[^\x20-\x7e]+/g, ' ').slice(0, name === 'Code' ? 80 : 200);
  return {
    status,
    code: bare('Code', /<Code>([A-Za-z0-9.]{1,80})<\/Code>/),
    said: bare('Message', /<Message>([^<]{0,400})<\/Message>/),
  };
}

/** Also an answer of 200 may hold an error, when the server began it before it knew. Throws as `call` does. */
export async function checkedBody(answer: S3Answer, place: string): Promise<string> {
  const bytes = await answer.bytes(MAX_ANSWER_BYTES);
  const text = Buffer.from(bytes).toString('utf8');
  if (!/<Error[\s>]/.test(text)) return text;
  const refusal = refusalOf(answer.status, bytes);
  throwCommon(refusal, place, undefined);
  throw new Fault('ARCHIVE_FAILED', `${place}: ${wordsOf(refusal)}`);
}
