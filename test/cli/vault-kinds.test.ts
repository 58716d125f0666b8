// The vault that windlass.yaml names, through the real process: embedded with a key from elsewhere, or a KV v2 store over HTTP.
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Kv2Double, startKv2 } from '../adapters/vault/kv2-double.ts';
import { PROGRAM, warmStart } from '../program.ts';

// Each test starts a few processes.
vi.setConfig({ testTimeout: 90_000 });

const SECRET = 'correct-horse-battery';

let dir: string;
let state: string;
let store: Kv2Double;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'wlt-vault-'));
  state = join(dir, 'state');
  store = await startKv2();
});
afterEach(async () => {
  await store.close();
  rmSync(dir, { recursive: true, force: true });
});

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function windlass(line: string, options: { input?: string; env?: Record<string, string> } = {}): Promise<Ran> {
  return new Promise((done) => {
    const child = execFile(
      process.execPath,
      [PROGRAM, ...line.split(' '), '--state', state],
      {
        cwd: dir,
        encoding: 'utf8',
        timeout: 60_000,
        env: { PATH: process.env['PATH'], HOME: dir, ...warmStart, ...options.env },
      },
      (error, out, err) => done({ code: error ? (typeof error.code === 'number' ? error.code : -1) : 0, out, err }),
    );
    child.stdin?.end(options.input ?? '');
  });
}

const config = (vault: string): void =>
  writeFileSync(join(dir, 'windlass.yaml'), `apiVersion: windlass/v1\nkind: Controller\n${vault}`);

describe('a KV v2 store', () => {
  const openbao = (more = ''): void => config(`vault: { kind: openbao, address: "${store.address}"${more} }\n`);

  it('takes, shows, lists and removes secrets, and the host keeps none', async () => {
    writeFileSync(join(dir, 'token'), `${store.token}\n`);
    openbao(`, tokenFile: ${join(dir, 'token')}`);
    const set = await windlass('vault set smtp --scope stack/shop', { input: SECRET });
    expect([set.code, set.err]).toEqual([0, expect.stringMatching(/is made/)]);
    expect(store.secrets.get('windlass/stack/shop/smtp')).toEqual([{ value: { value: SECRET }, deleted: false }]);
    expect((await windlass('vault get smtp --scope stack/shop --reveal')).out).toBe(`${SECRET}\n`);
    expect((await windlass('vault list')).out).toMatch(/stack\/shop +smtp/);
    expect(readdirSync(state)).not.toContain('vault.db');
    for (const name of readdirSync(state, { recursive: true, withFileTypes: true }))
      if (name.isFile()) expect(readFileSync(join(name.parentPath, name.name)).includes(SECRET)).toBe(false);
    expect((await windlass('vault rm smtp --scope stack/shop --yes')).code).toBe(0);
    expect(store.secrets.size).toBe(0);
  });

  it('takes the token of the environment, mount and prefix of the configuration', async () => {
    await store.close();
    store = await startKv2('kv/team');
    openbao(', mount: kv/team, prefix: fleets/one');
    const env = { WINDLASS_VAULT_TOKEN: store.token };
    expect((await windlass('vault set smtp', { input: SECRET, env })).code).toBe(0);
    expect([...store.secrets.keys()]).toEqual(['fleets/one/fleet/smtp']);
  });

  it('without a token, with a wrong one, or out of reach is a failure with a cure', async () => {
    openbao();
    const none = await windlass('vault get smtp');
    expect([none.code, none.err]).toEqual([1, expect.stringMatching(/VAULT_DENIED[\s\S]*WINDLASS_VAULT_TOKEN/)]);
    const wrong = await windlass('vault get smtp', { env: { WINDLASS_VAULT_TOKEN: 'hvs.wrong-token' } });
    expect([wrong.code, wrong.err]).toEqual([1, expect.stringMatching(/VAULT_DENIED[\s\S]*help/)]);
    expect(wrong.err).not.toContain('hvs.wrong-token');
    await store.close();
    const gone = await windlass('vault get smtp', { env: { WINDLASS_VAULT_TOKEN: store.token } });
    expect([gone.code, gone.err]).toEqual([1, expect.stringMatching(/VAULT_UNREACHABLE/)]);
    store = await startKv2();
  });

  it('without an address is a mistake of the configuration', async () => {
    config('vault: { kind: openbao }\n');
    expect(await windlass('vault list')).toMatchObject({ code: 3, err: expect.stringMatching(/vault\.address/) });
  });
});

describe('the embedded vault', () => {
  it('takes its key from the file that is named, and makes none', async () => {
    const file = join(dir, 'mine.key');
    config(`vault: { identityFile: ${file} }\n`);
    const none = await windlass('vault set smtp', { input: SECRET });
    expect([none.code, none.err]).toEqual([1, expect.stringMatching(/age-keygen/)]);
    const identity = await generateX25519Identity();
    writeFileSync(file, `${identity}\n`, { mode: 0o600 });
    expect((await windlass('vault set smtp', { input: SECRET })).code).toBe(0);
    expect((await windlass('vault key')).out.trim()).toBe(await identityToRecipient(identity));
    expect(readdirSync(state)).not.toContain('age.key');
  });

  it('takes its key from the environment, and never says it', async () => {
    const env = { WINDLASS_AGE_KEY: await generateX25519Identity() };
    expect((await windlass('vault set smtp', { input: SECRET, env })).code).toBe(0);
    expect((await windlass('vault get smtp --reveal', { env })).out).toBe(`${SECRET}\n`);
    expect(readdirSync(state)).not.toContain('age.key');
    const without = await windlass('vault get smtp');
    expect([without.code, without.err]).toEqual([1, expect.stringMatching(/VAULT_KEY_WRONG[\s\S]*put it back/)]);
    // Another last letter than its own: the checksum cannot hold then.
    const key = env.WINDLASS_AGE_KEY;
    const wrong = { WINDLASS_AGE_KEY: `${key.slice(0, -1)}${key.endsWith('Q') ? 'P' : 'Q'}` };
    const refused = await windlass('vault get smtp', { env: wrong });
    expect(refused.code).toBe(1);
    expect(refused.err).not.toContain('AGE-SECRET-KEY-1Q');
    expect(refused.err).not.toContain(wrong.WINDLASS_AGE_KEY);
    const shown = await windlass('vault key', { env: wrong });
    expect([shown.code, shown.out, shown.err]).toEqual([1, '', expect.stringMatching(/FILES_FAILED[\s\S]*not valid/)]);
    expect(shown.err).not.toContain('AGE-SECRET-KEY-1');
  });

  it('says that an address is for another kind', async () => {
    config(`vault: { address: "${store.address}" }\n`);
    expect((await windlass('vault list')).err).toMatch(/vault\.address without vault\.kind: openbao/);
    expect(store.requests).toEqual([]);
  });
});
