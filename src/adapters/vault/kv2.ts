// KV v2: secrets in OpenBao or HashiCorp Vault over HTTP. What is not there (404 of the store itself) is told apart from a store that
// cannot be asked: taking the one for the other would mint anew what only could not be read.
import { Fault } from '../../core/fault.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Scope, Vault } from '../../ports/vault.ts';
import { generateSecret } from './generate.ts';
import { checkKey, checkScope } from './names.ts';

export interface Kv2Input {
  readonly address: string;
  readonly mount: string;
  /** The folder below which all is kept. */
  readonly prefix: string;
  /** Read for each request, so that a renewed token is taken at once. */
  token(): string;
  readonly clock: Clock;
  /** Is told the token and every clear value before they are used. */
  readonly redactor: { add(value: string): void };
  /** For one request with its answer. */
  readonly timeoutMs?: number;
}

const TIMEOUT_MS = 10_000;
const MAX_ANSWER_BYTES = 1024 * 1024;
const MAX_VALUE_BYTES = 64 * 1024;
const MOST_SECRETS = 10_000;
/** Marks are asked for with every look at a stack; this long the last answer is good enough. */
const MARK_MS = 5_000;
const MINT_TRIES = 3;
const AT_ONCE = 8;

// biome-ignore lint/suspicious/noExplicitAny: an answer from outside, read defensively
type Loose = any;

interface Answer {
  readonly status: number;
  readonly body: Loose;
}

interface Found {
  readonly value: string | null;
  /** Of the newest version, also a deleted one; 0 = there never was one. */
  readonly version: number;
}

export function openKv2(input: Kv2Input): Vault {
  const base = addressOf(input.address);
  const { clock, redactor } = input;
  const marks = new Map<string, { readonly mark: string | null; readonly untilMs: number }>();

  const call = async (method: string, kind: 'data' | 'metadata', path: string, body?: unknown): Promise<Answer> => {
    const query = method === 'LIST' ? '?list=true' : '';
    const steps = `${input.mount}/${kind}/${input.prefix}/${path}`.split('/').map(encodeURIComponent).join('/');
    const token = input.token();
    redactor.add(token);
    const unreachable = (why: string, cause?: unknown): Fault =>
      new Fault('VAULT_UNREACHABLE', `the vault at ${base.origin} ${why}`, { data: { address: base.origin }, cause });
    let answer: Response;
    let text: string;
    try {
      answer = await fetch(`${base.href.replace(/\/$/, '')}/v1/${steps}${query}`, {
        method: method === 'LIST' ? 'GET' : method,
        headers: {
          'X-Vault-Token': token,
          'X-Vault-Request': 'true',
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        // The token must not follow to another host.
        redirect: 'manual',
        signal: AbortSignal.timeout(input.timeoutMs ?? TIMEOUT_MS),
      });
      text = await textOf(answer);
    } catch (error) {
      if (error instanceof TooLarge) throw unreachable(`gave an answer larger than ${MAX_ANSWER_BYTES} bytes`);
      const name = error instanceof Error ? error.name : '';
      throw unreachable(name === 'TimeoutError' ? 'did not answer in time' : 'cannot be reached', error);
    }
    const { status } = answer;
    let parsed: Loose = null;
    try {
      parsed = text === '' ? {} : JSON.parse(text);
    } catch {
      parsed = null;
    }
    const said = saidBy(parsed);
    if (status === 403 || status === 401)
      throw new Fault('VAULT_DENIED', `the vault at ${base.origin} denies ${method} ${kind} of ${path}${said}`, {
        data: { address: base.origin, path },
      });
    if (status === 404) {
      // The store says `errors: []` or shows the deleted version; a wrong mount or something in between says more, or no JSON.
      if (!isObject(parsed) || said !== '') throw unreachable(`has no KV v2 store at ${input.mount} (404${said})`);
      return { status, body: parsed };
    }
    if (status === 400 && method === 'POST') return { status, body: parsed };
    if (status < 200 || status > 299) throw unreachable(`answered ${status}${said}`);
    if (!isObject(parsed)) throw unreachable('gave an answer that is no JSON object');
    return { status, body: parsed };
  };

  const pathOf = (key: string, scope: Scope): string => {
    checkKey(key);
    checkScope(scope);
    return `${scope}/${key}`;
  };

  const read = async (path: string): Promise<Found> => {
    const { status, body } = await call('GET', 'data', path);
    const version = Number(body?.data?.metadata?.version ?? 0) || 0;
    if (status === 404) return { value: null, version };
    const fields = body.data?.data;
    if (!isObject(fields))
      throw new Fault('VAULT_UNREACHABLE', `the vault at ${base.origin} gave no KV v2 secret for ${path}`);
    const value = fields['value'];
    if (typeof value !== 'string' || value === '')
      throw new Fault('SECRET_REFUSED', `the secret ${path} in the vault has no text in its field \`value\``, {
        data: { path },
      });
    redactor.add(value);
    return { value, version };
  };

  /** False when `cas` is not the newest version any more. */
  const write = async (path: string, value: string, cas?: number): Promise<boolean> => {
    marks.clear();
    const { status, body } = await call('POST', 'data', path, {
      data: { value },
      ...(cas === undefined ? {} : { options: { cas } }),
    });
    if (status !== 400) return true;
    const said = saidBy(body);
    if (cas !== undefined && /check-and-set/.test(said)) return false;
    throw new Fault('VAULT_UNREACHABLE', `the vault at ${base.origin} refused to write ${path} (400${said})`);
  };

  const markOf = async (path: string): Promise<string | null> => {
    const known = marks.get(path);
    if (known && known.untilMs > clock.nowMs()) return known.mark;
    const { status, body } = await call('GET', 'metadata', path);
    const newest = status === 404 ? 0 : body.data?.current_version;
    if (typeof newest !== 'number')
      throw new Fault('VAULT_UNREACHABLE', `the vault at ${base.origin} gave no KV v2 metadata for ${path}`);
    const version = body?.data?.versions?.[String(newest)];
    const isThere = status !== 404 && newest > 0 && version && !version.deletion_time && version.destroyed !== true;
    const mark = isThere ? `${path}@${newest}@${String(version.created_time ?? '')}` : null;
    marks.set(path, { mark, untilMs: clock.nowMs() + MARK_MS });
    return mark;
  };

  const namesBelow = async (folder: string, into: string[]): Promise<void> => {
    const { status, body } = await call('LIST', 'metadata', folder);
    if (status === 404) return;
    const names: unknown = body.data?.keys;
    if (!Array.isArray(names))
      throw new Fault('VAULT_UNREACHABLE', `the vault at ${base.origin} gave no list of ${folder}`);
    for (const name of names) {
      if (into.length >= MOST_SECRETS)
        throw new Fault('VAULT_UNREACHABLE', `the vault holds more than ${MOST_SECRETS} secrets below ${input.prefix}`);
      if (typeof name !== 'string' || /^\.{0,2}\/?$/.test(name)) continue;
      if (name.endsWith('/')) await namesBelow(`${folder}${name}`, into);
      else into.push(`${folder}${name}`);
    }
  };

  return {
    async find(key, scopes) {
      for (const path of scopes.map((scope) => pathOf(key, scope))) {
        const { value } = await read(path);
        if (value !== null) return value;
      }
      return null;
    },

    async mark(key, scopes) {
      for (const path of scopes.map((scope) => pathOf(key, scope))) {
        const mark = await markOf(path);
        if (mark !== null) return mark;
      }
      return null;
    },

    async mint(key, scope, policy) {
      const path = pathOf(key, scope);
      for (let tries = 0; tries < MINT_TRIES; tries++) {
        const before = await read(path);
        if (before.value !== null) return before.value;
        const value = generateSecret(policy);
        redactor.add(value);
        // Only onto the version that was seen: whoever writes first has made the secret.
        if (await write(path, value, before.version)) return value;
      }
      throw new Fault('VAULT_UNREACHABLE', `the secret ${path} changes all the time`, { data: { path } });
    },

    async put(key, scope, value) {
      const path = pathOf(key, scope);
      if (value === '') throw new Fault('USAGE', `the secret ${key} would be empty`);
      if (Buffer.byteLength(value) > MAX_VALUE_BYTES)
        throw new Fault('USAGE', `the secret ${key} is larger than ${MAX_VALUE_BYTES} bytes`);
      redactor.add(value);
      await write(path, value);
    },

    async remove(key, scope) {
      const path = pathOf(key, scope);
      marks.clear();
      if ((await call('GET', 'metadata', path)).status === 404) return false;
      await call('DELETE', 'metadata', path);
      marks.clear();
      return true;
    },

    async list() {
      const paths: string[] = [];
      await namesBelow('', paths);
      const known = paths.flatMap((path) => {
        const [, scope, key] = /^(fleet|(?:stack|group)\/[^/]+)\/(.+)$/.exec(path) ?? [];
        return scope === undefined || key === undefined ? [] : [{ path, scope: scope as Scope, key }];
      });
      const listed: { key: string; scope: Scope; updatedAtMs: number }[] = [];
      for (let from = 0; from < known.length; from += AT_ONCE)
        await Promise.all(
          known.slice(from, from + AT_ONCE).map(async ({ path, scope, key }) => {
            if ((await markOf(path)) === null) return;
            const { body } = await call('GET', 'metadata', path);
            listed.push({ key, scope, updatedAtMs: Date.parse(String(body?.data?.updated_time)) || 0 });
          }),
        );
      return listed.sort((a, b) => compare(a.scope, b.scope) || compare(a.key, b.key));
    },
  };
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function addressOf(text: string): URL {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new Fault('USAGE', 'vault.address is no URL');
  }
  // Never repeated: it may hold a password.
  if (url.username !== '' || url.password !== '' || url.search !== '' || !/^https?:$/.test(url.protocol))
    throw new Fault('USAGE', 'vault.address takes an http or https URL without a user and a query');
  return url;
}

class TooLarge extends Error {}

async function textOf(answer: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of answer.body ?? []) {
    size += chunk.length;
    if (size > MAX_ANSWER_BYTES) throw new TooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The store's own words, bounded; '' when it says none. */
function saidBy(body: unknown): string {
  const errors = isObject(body) ? body['errors'] : undefined;
  if (!Array.isArray(errors) || errors.length === 0) return '';
  return `: ${errors.map(String).join('; ').replace(/\s+/g, ' ').slice(0, 200)}`;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
