import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Kv2Input, openKv2 } from '../../../src/adapters/vault/kv2.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Scope, SecretPolicy, Vault } from '../../../src/ports/vault.ts';
import { type Kv2Double, type Misbehave, startKv2 } from './kv2-double.ts';

const policy: SecretPolicy = { length: 24, alphabet: 'alnum' };

let store: Kv2Double;
let redacted: string[];
let nowMs: number;
beforeEach(async () => {
  store = await startKv2();
  redacted = [];
  nowMs = 0;
});
afterEach(() => store.close());

const clock: Clock = { nowMs: () => nowMs, sleep: async () => {}, random: () => 0, id: () => '' };

const open = (more: Partial<Kv2Input> = {}): Vault =>
  openKv2({
    address: store.address,
    mount: 'secret',
    prefix: 'windlass',
    token: () => store.token,
    clock,
    redactor: { add: (value) => void redacted.push(value) },
    ...more,
  });

describe('finding and making', () => {
  it('a secret is found in the order stack, group, fleet', async () => {
    const vault = open();
    const scopes: readonly Scope[] = ['stack/shop', 'group/web', 'fleet'];
    expect(await vault.find('smtp', scopes)).toBeNull();
    for (const scope of [...scopes].reverse()) {
      await vault.put('smtp', scope, `of ${scope}`);
      expect(await vault.find('smtp', scopes)).toBe(`of ${scope}`);
    }
    expect([...store.secrets.keys()]).toEqual([
      'windlass/fleet/smtp',
      'windlass/group/web/smtp',
      'windlass/stack/shop/smtp',
    ]);
  });

  it('minting finds what is there, and creates what is not', async () => {
    const vault = open();
    const minted = await vault.mint('db', 'stack/shop', policy);
    expect(minted).toMatch(/^[A-Za-z0-9]{24}$/);
    expect(await vault.mint('db', 'stack/shop', policy)).toBe(minted);
    expect(store.secrets.get('windlass/stack/shop/db')).toHaveLength(1);
  });

  it('callers at once get the same value', async () => {
    const values = await Promise.all([open(), open(), open()].map((vault) => vault.mint('db', 'fleet', policy)));
    expect(new Set(values).size).toBe(1);
    expect(store.secrets.get('windlass/fleet/db')).toHaveLength(1);
  });

  it('whoever was faster between the look and the write has made the secret', async () => {
    let done = false;
    store.beforeWrite = (path) => {
      if (done) return;
      done = true;
      store.secrets.set(path, [{ value: { value: 'of the faster one' }, deleted: false }]);
    };
    expect(await open().mint('db', 'fleet', policy)).toBe('of the faster one');
  });

  it('a deleted secret is missing, and is minted anew over its deleted version', async () => {
    const vault = open();
    const first = await vault.mint('db', 'fleet', policy);
    const [version] = store.secrets.get('windlass/fleet/db') ?? [];
    if (version) version.deleted = true;
    expect(await vault.find('db', ['fleet'])).toBeNull();
    expect(await open().mark('db', ['fleet'])).toBeNull();
    const second = await vault.mint('db', 'fleet', policy);
    expect(second).not.toBe(first);
    expect(await vault.find('db', ['fleet'])).toBe(second);
  });

  it('a mark changes with the value, opens nothing, and is asked for again only after a while', async () => {
    const vault = open();
    expect(await vault.mark('db', ['fleet'])).toBeNull();
    await vault.put('db', 'fleet', 'one');
    redacted = [];
    const first = await vault.mark('db', ['stack/shop', 'fleet']);
    expect(first).not.toBeNull();
    expect(redacted.filter((value) => value !== store.token)).toEqual([]);
    const asked = store.requests.length;
    await vault.mark('db', ['stack/shop', 'fleet']);
    expect(store.requests).toHaveLength(asked);
    await open().put('db', 'fleet', 'two');
    nowMs += 60_000;
    expect(await vault.mark('db', ['stack/shop', 'fleet'])).not.toBe(first);
  });

  it('the list holds names, never values, and leaves out what is none of ours', async () => {
    const vault = open();
    expect(await vault.list()).toEqual([]);
    await vault.put('smtp/password', 'stack/shop', 'clear value');
    await vault.put('a', 'fleet', 'clear value');
    store.secrets.set('windlass/other/thing', [{ value: {}, deleted: false }]);
    store.secrets.set('elsewhere/a', [{ value: {}, deleted: false }]);
    redacted = [];
    expect(await vault.list()).toEqual([
      { key: 'a', scope: 'fleet', updatedAtMs: expect.any(Number) },
      { key: 'smtp/password', scope: 'stack/shop', updatedAtMs: expect.any(Number) },
    ]);
    expect(redacted).not.toContain('clear value');
  });

  it('a removed secret is gone with all its versions', async () => {
    const vault = open();
    await vault.put('a', 'fleet', 'one');
    expect(await vault.remove('a', 'fleet')).toBe(true);
    expect(await vault.remove('a', 'fleet')).toBe(false);
    expect(await vault.find('a', ['fleet'])).toBeNull();
  });

  it('token and values are told to the redactor before they are used', async () => {
    await open().put('a', 'fleet', 'clear value');
    redacted = [];
    await open().find('a', ['fleet']);
    expect(redacted).toEqual([store.token, 'clear value']);
  });

  it('a renewed token is taken at once', async () => {
    let token = store.token;
    const vault = open({ token: () => token });
    await vault.put('a', 'fleet', 'one');
    Object.assign(store, { token: 'hvs.renewed' });
    await expect(vault.find('a', ['fleet'])).rejects.toMatchObject({ code: 'VAULT_DENIED' });
    token = 'hvs.renewed';
    expect(await vault.find('a', ['fleet'])).toBe('one');
  });

  it('a value comes back byte for byte', async () => {
    const value = `line one\nline "two"\t€ \u{1f600} ${'x'.repeat(60_000)}`;
    await open().put('odd', 'fleet', value);
    expect(await open().find('odd', ['fleet'])).toBe(value);
  });
});

const reply =
  (status: number, body: string, headers: Record<string, string> = {}): Misbehave =>
  (_, response) => {
    response.writeHead(status, headers);
    response.end(body);
  };

describe('a store that cannot be asked', () => {
  const cases: readonly [string, Misbehave, string, RegExp][] = [
    ['answers 500', reply(500, '{"errors":["internal error"]}'), 'VAULT_UNREACHABLE', /answered 500: internal error/],
    ['is sealed', reply(503, '{"errors":["Vault is sealed"]}'), 'VAULT_UNREACHABLE', /503: Vault is sealed/],
    ['is too busy', reply(429, ''), 'VAULT_UNREACHABLE', /429/],
    ['denies', reply(403, '{"errors":["permission denied"]}'), 'VAULT_DENIED', /denies .*: permission denied/],
    ['does not know the token', reply(401, 'no'), 'VAULT_DENIED', /denies/],
    ['answers garbage', reply(200, 'hello'), 'VAULT_UNREACHABLE', /no JSON object/],
    ['answers with another shape', reply(200, '{"data":[]}'), 'VAULT_UNREACHABLE', /no KV v2 secret|no list|no JSON/],
    ['is something else that knows no such page', reply(404, '<html>'), 'VAULT_UNREACHABLE', /no KV v2 store/],
    ['has no such mount', reply(404, '{"errors":["no handler for route"]}'), 'VAULT_UNREACHABLE', /no KV v2 store/],
    ['sends us elsewhere', reply(307, '', { location: 'http://127.0.0.1:1/' }), 'VAULT_UNREACHABLE', /answered 307/],
    ['answers without an end', (_, r) => void r.writeHead(200).write('{"data":'), 'VAULT_UNREACHABLE', /in time/],
    ['does not answer', () => {}, 'VAULT_UNREACHABLE', /in time/],
    ['hangs up', (request) => void request.socket.destroy(), 'VAULT_UNREACHABLE', /cannot be reached/],
    [
      'answers without bounds',
      (_, response) => {
        response.writeHead(200);
        const more = (): void => {
          while (!response.destroyed && response.write('x'.repeat(64 * 1024)));
          if (!response.destroyed) response.once('drain', more);
        };
        more();
      },
      'VAULT_UNREACHABLE',
      /larger than/,
    ],
  ];

  it.each(cases)('that %s is never taken for one that holds nothing', async (_, misbehave, code, words) => {
    const vault = open({ timeoutMs: 300 });
    await vault.put('db', 'fleet', 'correct horse');
    store.misbehave = misbehave;
    const refusal = { code, message: expect.stringMatching(words) };
    await expect(vault.find('db', ['fleet'])).rejects.toMatchObject(refusal);
    await expect(vault.mint('db', 'fleet', policy)).rejects.toMatchObject(refusal);
    await expect(vault.mark('db', ['fleet'])).rejects.toMatchObject({ code });
    await expect(vault.find('other', ['stack/shop', 'fleet'])).rejects.toMatchObject({ code });
    store.misbehave = null;
    expect(store.secrets.get('windlass/fleet/db')).toHaveLength(1);
    expect(await vault.find('db', ['fleet'])).toBe('correct horse');
  });

  it.each(['find', 'mark', 'list', 'put', 'remove'] as const)('that is gone is unreachable for %s', async (method) => {
    const vault = open();
    await store.close();
    const call = {
      find: () => vault.find('a', ['fleet']),
      mark: () => vault.mark('a', ['fleet']),
      list: () => vault.list(),
      put: () => vault.put('a', 'fleet', 'v'),
      remove: () => vault.remove('a', 'fleet'),
    }[method];
    await expect(call()).rejects.toMatchObject({ code: 'VAULT_UNREACHABLE' });
    store = await startKv2();
  });

  it('is named without its path and without the token', async () => {
    store.misbehave = reply(500, '');
    const error = await open()
      .find('a', ['fleet'])
      .catch((thrown: Error) => thrown);
    expect((error as Error).message).toContain(store.address);
    expect(String((error as Error).stack)).not.toContain(store.token);
  });
});

describe('refusing', () => {
  it.each([
    ['a secret without a field value', { password: 'x' }],
    ['a value that is no text', { value: 7 }],
    ['an empty value', { value: '' }],
  ])('%s', async (_, value) => {
    store.secrets.set('windlass/fleet/a', [{ value, deleted: false }]);
    await expect(open().find('a', ['fleet'])).rejects.toMatchObject({ code: 'SECRET_REFUSED' });
  });

  it.each(['../a', 'a/../b', 'a//b', './a', 'a/.', '', 'a b', 'a?b', 'a%2e'])(
    'a name that could lead elsewhere, and asks nobody: %j',
    async (key) => {
      await expect(open().find(key, ['fleet'])).rejects.toMatchObject({ code: 'USAGE' });
      expect(store.requests).toEqual([]);
    },
  );

  it.each(['world', 'stack/', 'stack/a/b', 'group/..'])('a scope that is none: %s', async (scope) => {
    await expect(open().find('a', [scope as Scope])).rejects.toMatchObject({ code: 'USAGE' });
    expect(store.requests).toEqual([]);
  });

  it.each([
    'not a url',
    'ftp://vault.example.org',
    'https://root:hunter2@vault.example.org',
    'https://vault.example.org/?token=hunter2',
  ])('an address that is none, without repeating it: %s', (address) => {
    expect(() => open({ address })).toThrow(/vault\.address/);
    expect(() => open({ address })).not.toThrow(/hunter2/);
  });

  it('a value that is empty or above 64 KiB', async () => {
    await expect(open().put('a', 'fleet', '')).rejects.toMatchObject({ code: 'USAGE' });
    await expect(open().put('a', 'fleet', 'é'.repeat(33_000))).rejects.toMatchObject({ code: 'USAGE' });
    expect(store.requests).toEqual([]);
  });
});
