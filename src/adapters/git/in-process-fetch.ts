// Fetches over http(s) with isomorphic-git, for machines without a git client. Packs are unfolded in our own memory, so
// the cap is low; nothing else than http(s) can be spoken this way.
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import type { Readable } from 'node:stream';
import { Fault } from '../../core/fault.ts';
import { redactor } from '../process/redact.ts';
import { authorization, type Credentials } from './git-command.ts';

/** A pack may unfold to a thousand times its size in memory: without a git client only small ones are taken. */
const MAX_BYTES = 64 * 1024 * 1024;
const MAX_REDIRECTS = 3;

export interface InProcessFetchInput {
  readonly source: string;
  readonly mirrorDir: string;
  readonly url: string;
  readonly ref: string;
  /** What is known of the ref already; for "nothing new" and for what need not be sent again. */
  readonly known: { readonly ref: string; readonly oid: string | null };
  readonly credentials: Credentials;
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

/** The id of the source's ref, its objects being in the mirror. The mirror's refs are left to the caller. */
export async function fetchInProcess(input: InProcessFetchInput): Promise<string> {
  const { source, url, ref } = input;
  const client = new BoundedClient(input);
  try {
    const git = await import('isomorphic-git');
    const refs = await git.listServerRefs({
      http: client,
      url,
      prefix: ref,
      headers: { ...client.headers },
      protocolVersion: 2,
    });
    const found = refs.find((candidate) => candidate.ref === ref);
    if (found === undefined) {
      throw new Fault('GIT_REF_MISSING', `${source}: the source has no ref ${ref}`, { data: { source, ref } });
    }
    if (found.oid === input.known.oid) return found.oid;
    const { fetchHead } = await git.fetch({
      fs,
      http: client,
      gitdir: input.mirrorDir,
      url,
      remote: 'windlass',
      ref: input.known.ref,
      remoteRef: ref,
      singleBranch: true,
      tags: false,
      // A copy each time: isomorphic-git writes its own into what it is given.
      headers: { ...client.headers },
    });
    if (fetchHead === null) throw new Fault('GIT_REF_MISSING', `${source}: the source is empty`, { data: { source } });
    return fetchHead;
  } catch (error) {
    throw faultOf(source, client.refusal ?? error, input.signal);
  }
}

function faultOf(source: string, error: unknown, signal: AbortSignal): Fault {
  if (error instanceof Fault) return error;
  if (signal.aborted) {
    if (signal.reason instanceof Fault) return signal.reason;
    return new Fault('CANCELLED', `${source}: the fetch was called off`, { cause: signal.reason });
  }
  const message = redactor.redact(error instanceof Error ? error.message : String(error));
  const code = error instanceof Error && 'code' in error ? error.code : '';
  if (code === 'HttpError' && /\b40[13]\b/.test(message)) {
    return new Fault('GIT_AUTH', `${source}: the source does not let us in (${message})`, { data: { source } });
  }
  return new Fault('GIT_UNREACHABLE', `${source}: the source cannot be fetched (${message})`, { data: { source } });
}

interface ClientRequest {
  readonly url: string;
  readonly method?: string | undefined;
  readonly headers?: Record<string, string> | undefined;
  readonly body?: AsyncIterable<Uint8Array> | Iterable<Uint8Array> | undefined;
}

/** The http client that isomorphic-git is given: counts bytes, stops when called off, follows no redirect elsewhere. */
class BoundedClient {
  readonly headers: Record<string, string>;
  /** The cap was passed; isomorphic-git may report it as something else. */
  refusal: Fault | null = null;
  readonly #input: InProcessFetchInput;
  readonly #maxBytes: number;
  #sizeBytes = 0;

  constructor(input: InProcessFetchInput) {
    this.#input = input;
    this.#maxBytes = Math.min(input.maxBytes, MAX_BYTES);
    const header = authorization(input.credentials);
    this.headers = header === null ? {} : { Authorization: header };
  }

  request = async (request: ClientRequest) => {
    const parts: Uint8Array[] = [];
    for await (const part of request.body ?? []) parts.push(part);
    let url = request.url;
    for (let hops = 0; ; hops += 1) {
      const response = await this.#send(url, request, Buffer.concat(parts));
      const location = response.headers.location;
      const status = response.statusCode ?? 0;
      if (status < 300 || status >= 400 || location === undefined) return this.#answer(url, request, response);
      response.destroy();
      url = this.#redirect(url, location, hops);
    }
  };

  #redirect(from: string, location: string, hops: number): string {
    const to = URL.parse(location, from);
    const isSafe =
      to !== null && to.username === '' && (to.protocol === 'https:' || to.origin === new URL(from).origin);
    const keepsSecret = Object.keys(this.headers).length === 0 || to?.origin === new URL(from).origin;
    if (!isSafe || !keepsSecret || hops >= MAX_REDIRECTS) {
      throw new Fault('GIT_REFUSED', `${this.#input.source}: the source has moved to another address; correct it`);
    }
    return to.href;
  }

  #send(url: string, request: ClientRequest, body: Buffer): Promise<http.IncomingMessage> {
    return new Promise((resolve, reject) => {
      const { request: start } = url.startsWith('https:') ? https : http;
      const sent = start(
        url,
        { method: request.method ?? 'GET', headers: request.headers ?? {}, signal: this.#input.signal },
        resolve,
      );
      sent.on('error', reject);
      sent.end(body);
    });
  }

  #answer(url: string, request: ClientRequest, response: http.IncomingMessage) {
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(response.headers))
      if (value !== undefined) headers[name] = String(value);
    return {
      url,
      method: request.method ?? 'GET',
      statusCode: response.statusCode ?? 0,
      statusMessage: response.statusMessage ?? '',
      headers,
      body: this.#count(response),
    };
  }

  async *#count(body: Readable): AsyncGenerator<Uint8Array, void> {
    for await (const chunk of body) {
      const bytes: Uint8Array = chunk;
      this.#sizeBytes += bytes.length;
      if (this.#sizeBytes > this.#maxBytes) {
        this.refusal = new Fault(
          'GIT_TOO_LARGE',
          `${this.#input.source}: the source sends more than ${this.#maxBytes} bytes`,
          { data: { source: this.#input.source, maxBytes: this.#maxBytes } },
        );
        throw this.refusal;
      }
      yield bytes;
    }
  }
}
