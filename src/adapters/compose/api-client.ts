// API client: HTTP to one engine over a kept-alive socket. Every call has a deadline and a byte cap, every failure is a Fault;
// a lost connection is ENGINE_UNREACHABLE and never an empty answer. It knows no endpoint.
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { join } from 'node:path';
import { asFault, Fault } from '../../core/fault.ts';
import { addressOf, type EngineHost } from './host.ts';
import { refusal } from './refusal.ts';

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** JSON, or bytes as they are. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** For the whole answer; for a stream only until its head has come. */
  readonly deadlineMs?: number;
  readonly maxBytes?: number;
  /** Status codes beside 2xx that are no refusal. */
  readonly accept?: readonly number[];
  /** Without the `/v1.…` prefix. */
  readonly unversioned?: boolean;
}

export interface ApiAnswer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface ApiClientLimits {
  readonly deadlineMs: number;
  readonly maxBytes: number;
  readonly maxSockets: number;
}

// What this client was written for and tried with; the engine's own version wins when it is older.
const newestApi = '1.51';
const oldestApi = '1.41';

const lostConnection = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'EACCES',
  'EPERM',
  'EPIPE',
  'ENOTSOCK',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'HPE_INVALID_CONSTANT',
  'ERR_STREAM_PREMATURE_CLOSE',
]);

export interface ApiClient {
  readonly host: EngineHost;
  /** `GET /version`, and which API version is spoken from it; asked again after a lost connection. */
  version(): Promise<{ readonly api: string; readonly engine: string }>;
  send(request: ApiRequest): Promise<ApiAnswer>;
  json<T>(request: ApiRequest): Promise<T>;
  /** The answer as it comes, unbounded; destroy it, or abort `signal`, to end it. Takes a connection of its own. */
  stream(request: ApiRequest): Promise<http.IncomingMessage>;
  close(): void;
}

/** `redact` is for the engine's words, which may repeat a command or a variable. */
export function openApiClient(
  host: EngineHost,
  limits: ApiClientLimits,
  redact: (text: string) => string = (text) => text,
): ApiClient {
  const address = addressOf(host.url);
  const module = host.certificates === null ? http : https;
  const target: https.RequestOptions =
    address.kind === 'socket' ? { socketPath: address.path } : { host: address.hostname, port: address.port };
  const agentOptions = { keepAlive: true, maxSockets: limits.maxSockets, ...credentials(host) };
  const agent = new module.Agent(agentOptions);
  const streamAgent = new module.Agent({ ...agentOptions, keepAlive: false, maxSockets: Number.POSITIVE_INFINITY });
  let negotiated: Promise<{ readonly api: string; readonly engine: string }> | null = null;

  function failure(error: unknown, request: ApiRequest, deadline: AbortSignal): Fault {
    if (request.signal?.aborted) return aborted(request.signal);
    const what = `${request.method} ${request.path}`;
    if (deadline.aborted) {
      return new Fault('ENGINE_TIMEOUT', `the engine did not answer ${what} in time`, { data: { host: host.url } });
    }
    if (error instanceof Fault) return error;
    const code = (error as NodeJS.ErrnoException).code ?? '';
    const message = error instanceof Error ? error.message : String(error);
    if (!lostConnection.has(code) && !/socket hang up|aborted/.test(message)) return asFault(error, 'ENGINE_REFUSED');
    negotiated = null;
    return new Fault('ENGINE_UNREACHABLE', `the engine at ${host.url} cannot be reached: ${message}`, {
      data: { host: host.url },
      cause: error,
    });
  }

  /** Resolves with the head of the answer. */
  async function open(request: ApiRequest, ends: AbortSignal, onAgent: http.Agent): Promise<http.IncomingMessage> {
    const prefix = request.unversioned ? '' : `/v${(await orAborted(version(), ends)).api}`;
    const { payload, type } = encode(request.body);
    const options: https.RequestOptions = {
      ...target,
      agent: onAgent,
      method: request.method,
      path: `${prefix}${request.path}${queryOf(request)}`,
      headers: {
        host: 'docker',
        ...(type === null ? {} : { 'content-type': type }),
        ...(request.method === 'GET' ? {} : { 'content-length': payload?.length ?? 0 }),
        ...request.headers,
      },
      signal: ends,
    };
    const once = (): Promise<{ head: http.IncomingMessage } | { error: unknown; stale: boolean }> =>
      new Promise((resolve) => {
        const out = module.request(options);
        out.once('response', (head) => resolve({ head }));
        out.on('error', (error) => resolve({ error, stale: out.reusedSocket }));
        out.end(payload);
      });
    let outcome = await once();
    // A kept connection that the engine closed meanwhile says nothing about the engine; reading again is harmless.
    if ('error' in outcome && outcome.stale && request.method === 'GET' && !ends.aborted) outcome = await once();
    if ('error' in outcome) throw outcome.error;
    return outcome.head;
  }

  async function check(head: http.IncomingMessage, request: ApiRequest): Promise<void> {
    const status = head.statusCode ?? 0;
    if ((status >= 200 && status < 300) || request.accept?.includes(status)) return;
    const text = (await readAll(head, 256 * 1024, request.path)).toString('utf8');
    throw refusal(redact(messageOf(text)) || `status ${status}`, 'ENGINE_REFUSED', { status });
  }

  async function send(request: ApiRequest): Promise<ApiAnswer> {
    const deadline = AbortSignal.timeout(request.deadlineMs ?? limits.deadlineMs);
    const ends = request.signal ? AbortSignal.any([request.signal, deadline]) : deadline;
    try {
      ends.throwIfAborted();
      const head = await open(request, ends, agent);
      await check(head, request);
      const body = await readAll(head, request.maxBytes ?? limits.maxBytes, request.path);
      return { status: head.statusCode ?? 0, headers: head.headers, body };
    } catch (error) {
      throw failure(error, request, deadline);
    }
  }

  // Shared by all callers, so no caller's signal may end it.
  function version(): Promise<{ readonly api: string; readonly engine: string }> {
    if (negotiated !== null) return negotiated;
    const asking = send({ method: 'GET', path: '/version', unversioned: true }).then((answer) => {
      const { ApiVersion, MinAPIVersion, Version } = parse<Record<string, unknown>>(answer.body, '/version');
      const api = String(ApiVersion ?? '');
      const oldest = String(MinAPIVersion ?? '0');
      if (olderThan(api, oldestApi)) {
        throw new Fault('ENGINE_TOO_OLD', `the engine speaks API ${api}; at least ${oldestApi} is needed`);
      }
      if (olderThan(newestApi, oldest)) {
        throw new Fault('ENGINE_REFUSED', `the engine wants API ${oldest} or newer, this Windlass speaks ${newestApi}`);
      }
      return { api: olderThan(api, newestApi) ? api : newestApi, engine: String(Version ?? '') };
    });
    negotiated = asking;
    // A failed question is not remembered.
    asking.catch(() => {
      if (negotiated === asking) negotiated = null;
    });
    return asking;
  }

  return {
    host,
    version,
    send,
    async json<T>(request: ApiRequest): Promise<T> {
      return parse<T>((await send(request)).body, request.path);
    },
    async stream(request) {
      const deadline = new AbortController();
      const timer = setTimeout(() => deadline.abort(), request.deadlineMs ?? limits.deadlineMs);
      const ends = request.signal ? AbortSignal.any([request.signal, deadline.signal]) : deadline.signal;
      try {
        ends.throwIfAborted();
        const head = await open(request, ends, streamAgent);
        await check(head, request);
        return head;
      } catch (error) {
        throw failure(error, request, deadline.signal);
      } finally {
        clearTimeout(timer);
      }
    },
    close() {
      agent.destroy();
      streamAgent.destroy();
    },
  };
}

/** What to throw when a caller's signal ended the work. */
export function aborted(signal: AbortSignal): Fault {
  const reason: unknown = signal.reason;
  if (reason instanceof Fault) return reason;
  const code = reason instanceof Error && reason.name === 'TimeoutError' ? 'ENGINE_TIMEOUT' : 'CANCELLED';
  return new Fault(code, code === 'CANCELLED' ? 'cancelled' : 'the deadline passed', { cause: reason });
}

function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function credentials(host: EngineHost): https.AgentOptions {
  if (host.certificates === null) return {};
  const read = (name: string) => readFileSync(join(host.certificates ?? '', name));
  try {
    return { ca: read('ca.pem'), cert: read('cert.pem'), key: read('key.pem') };
  } catch (cause) {
    throw new Fault('ENGINE_UNREACHABLE', `the certificates for ${host.url} cannot be read`, { cause });
  }
}

function encode(body: unknown): { readonly payload: Buffer | undefined; readonly type: string | null } {
  if (body === undefined) return { payload: undefined, type: null };
  if (Buffer.isBuffer(body)) return { payload: body, type: 'application/x-tar' };
  return { payload: Buffer.from(JSON.stringify(body)), type: 'application/json' };
}

function queryOf(request: ApiRequest): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(request.query ?? {})) {
    if (value !== undefined) query.set(name, String(value));
  }
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

async function readAll(head: http.IncomingMessage, maxBytes: number, path: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of head as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) {
      head.destroy();
      throw new Fault('ENGINE_REFUSED', `the engine's answer to ${path} is larger than ${maxBytes} bytes`);
    }
    chunks.push(chunk);
  }
  // A connection lost in the middle of a body without a length ends like a complete one.
  if (!head.complete) throw Object.assign(new Error('the answer was cut off'), { code: 'ECONNRESET' });
  return Buffer.concat(chunks);
}

function parse<T>(body: Buffer, path: string): T {
  try {
    return JSON.parse(body.toString('utf8')) as T;
  } catch (cause) {
    throw new Fault('ENGINE_REFUSED', `the engine's answer to ${path} is not JSON`, { cause });
  }
}

function messageOf(text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: unknown };
    return typeof message === 'string' ? message.trim() : text.trim();
  } catch {
    return text.trim();
  }
}

function olderThan(left: string, right: string): boolean {
  const [leftMajor = 0, leftMinor = 0] = left.split('.').map(Number);
  const [rightMajor = 0, rightMinor = 0] = right.split('.').map(Number);
  return leftMajor === rightMajor ? leftMinor < rightMinor : leftMajor < rightMajor;
}
