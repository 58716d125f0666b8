import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { generateX25519Identity } from 'age-encryption';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type EmbeddedVault, openVault } from '../../../src/adapters/vault/embedded.ts';
import { generateSecret } from '../../../src/adapters/vault/generate.ts';
import { identityFile } from '../../../src/adapters/vault/identity.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Scope, SecretPolicy } from '../../../src/ports/vault.ts';

let directory: string;
let opened: EmbeddedVault[];
let redacted: string[];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'vault-'));
  opened = [];
  redacted = [];
});
afterEach(() => {
  for (const vault of opened) vault.close();
  rmSync(directory, { recursive: true });
});

const clock: Clock = { nowMs: () => 42, sleep: async () => {}, random: () => 0, id: () => '' };
const policy: SecretPolicy = { length: 24, alphabet: 'alnum' };

function open(key?: string): EmbeddedVault {
  const redactor = { add: (value: string) => void redacted.push(value) };
  const vault = openVault({ directory, clock, redactor, identity: identityFile({ directory, key, redactor }) });
  opened.push(vault);
  return vault;
}

const keyPath = () => join(directory, 'age.key');

describe('finding and making', () => {
  it('a secret is found in the order stack, group, fleet', async () => {
    const vault = open();
    const scopes: readonly Scope[] = ['stack/shop', 'group/web', 'fleet'];
    expect(await vault.find('smtp', scopes)).toBeNull();
    await vault.put('smtp', 'fleet', 'of the fleet');
    expect(await vault.find('smtp', scopes)).toBe('of the fleet');
    await vault.put('smtp', 'group/web', 'of the group');
    expect(await vault.find('smtp', scopes)).toBe('of the group');
    await vault.put('smtp', 'stack/shop', 'of the stack');
    expect(await vault.find('smtp', scopes)).toBe('of the stack');
    expect(await vault.find('smtp', ['stack/other'])).toBeNull();
  });

  it('minting finds what is there, and creates what is not', async () => {
    const vault = open();
    const minted = await vault.mint('db', 'stack/shop', policy);
    expect(minted).toMatch(/^[A-Za-z0-9]{24}$/);
    expect(await vault.mint('db', 'stack/shop', { length: 8, alphabet: 'hex' })).toBe(minted);
    expect(await vault.mint('db', 'stack/other', policy)).not.toBe(minted);
    await vault.put('db', 'stack/third', 'set by hand');
    expect(await vault.mint('db', 'stack/third', policy)).toBe('set by hand');
  });

  it('callers at once, through one opening or two, get the same value', async () => {
    const one = open();
    const two = open();
    const values = await Promise.all([one, two, one, two].map((vault) => vault.mint('db', 'fleet', policy)));
    expect(new Set(values).size).toBe(1);
  });

  it('what another process has changed is seen at once', async () => {
    const one = open();
    const two = open();
    await one.put('db', 'fleet', 'first');
    expect(await two.find('db', ['fleet'])).toBe('first');
    await one.put('db', 'fleet', 'second');
    expect(await two.find('db', ['fleet'])).toBe('second');
    expect(await one.remove('db', 'fleet')).toBe(true);
    expect(await two.find('db', ['fleet'])).toBeNull();
    expect(await two.remove('db', 'fleet')).toBe(false);
  });

  it('the list holds names, never values', async () => {
    const vault = open();
    await vault.put('b', 'stack/shop', 'clear value');
    await vault.put('a', 'fleet', 'clear value');
    expect(await vault.list()).toEqual([
      { key: 'a', scope: 'fleet', updatedAtMs: 42 },
      { key: 'b', scope: 'stack/shop', updatedAtMs: 42 },
    ]);
  });

  it('a value comes back byte for byte', async () => {
    const value = `line one\nline "two"\t€ \u{1f600}\u0000 ${'x'.repeat(60_000)}`;
    await open().put('odd', 'fleet', value);
    expect(await open().find('odd', ['fleet'])).toBe(value);
  });

  it('every value that leaves the vault is told to the redactor', async () => {
    const writer = open();
    await writer.put('a', 'fleet', 'value of a');
    const minted = await writer.mint('b', 'fleet', policy);
    expect(redacted).toEqual(expect.arrayContaining(['value of a', minted]));
    redacted = [];
    const reader = open();
    await reader.find('a', ['fleet']);
    await reader.mint('b', 'fleet', policy);
    expect(redacted).toEqual(expect.arrayContaining(['value of a', minted]));
  });

  it.each([
    ['an empty value', (vault: EmbeddedVault) => vault.put('a', 'fleet', '')],
    ['a value above 64 KiB', (vault: EmbeddedVault) => vault.put('a', 'fleet', 'é'.repeat(33_000))],
    ['a name that is a path out', (vault: EmbeddedVault) => vault.find('../a', ['fleet'])],
    ['a name that is too long', (vault: EmbeddedVault) => vault.find('a'.repeat(201), ['fleet'])],
    ['an unknown scope', (vault: EmbeddedVault) => vault.find('a', ['world' as Scope])],
    ['a scope without a name', (vault: EmbeddedVault) => vault.mint('a', 'stack/', policy)],
    ['a policy without length', (vault: EmbeddedVault) => vault.mint('a', 'fleet', { length: 0, alphabet: 'hex' })],
  ])('%s is refused', async (_, act) => {
    await expect(act(open())).rejects.toMatchObject({ code: 'USAGE' });
    expect(await open().list()).toEqual([]);
  });
});

describe('at rest', () => {
  it('no clear value and no clear key is in any file but the key file', async () => {
    const vault = open();
    await vault.put('smtp', 'fleet', 'correct-horse-battery');
    const minted = await vault.mint('db', 'fleet', policy);
    const scan = () =>
      readdirSync(directory)
        .filter((name) => readFileSync(join(directory, name)).includes('correct-horse-battery'))
        .concat(readdirSync(directory).filter((name) => readFileSync(join(directory, name)).includes(minted)));
    expect(readdirSync(directory)).toContain('vault.db-wal');
    expect(scan()).toEqual([]);
    vault.close();
    expect(scan()).toEqual([]);
    expect(readdirSync(directory).sort()).toEqual(['age.key', 'vault.db']);
  });

  it('the key is made on first use, for its owner only, in the form of age-keygen', async () => {
    open();
    expect(readdirSync(directory)).toEqual([]);
    await open().mint('db', 'fleet', policy);
    expect(statSync(keyPath()).mode & 0o777).toBe(0o600);
    expect(readFileSync(keyPath(), 'utf8')).toMatch(/^# public key: age1[0-9a-z]+\nAGE-SECRET-KEY-1[0-9A-Z]+\n$/);
  });

  it('with a key from the caller no key file is made', async () => {
    const key = await generateX25519Identity();
    await open(key).put('a', 'fleet', 'v');
    expect(await open(`# a comment\n${key}\n`).find('a', ['fleet'])).toBe('v');
    expect(readdirSync(directory)).not.toContain('age.key');
  });
});

describe('refusing', () => {
  const expectRefused = async (vault: EmbeddedVault, message: RegExp) => {
    await expect(vault.find('a', ['fleet'])).rejects.toThrow(message);
    await expect(vault.mint('new', 'fleet', policy)).rejects.toThrow(message);
    await expect(vault.put('new', 'fleet', 'v')).rejects.toThrow(message);
    expect((await vault.list()).map((one) => one.key)).toEqual(['a']);
  };
  beforeEach(async () => {
    const vault = open();
    await vault.put('a', 'fleet', 'v');
    vault.close();
  });

  it('a key that others can read, with the cure, until it is cured', async () => {
    chmodSync(keyPath(), 0o640);
    const vault = open();
    await expectRefused(vault, /mode 640.*chmod 600/);
    chmodSync(keyPath(), 0o600);
    expect(await vault.find('a', ['fleet'])).toBe('v');
  });

  it('another key, from the file or from the caller, and mints nothing', async () => {
    await expectRefused(
      open(await generateX25519Identity()),
      /sealed to age1\w+, but WINDLASS_AGE_KEY is the key of age1/,
    );
    writeFileSync(keyPath(), await generateX25519Identity());
    await expectRefused(open(), /sealed to age1\w+, but .*age\.key is the key of age1/);
  });

  it('a lost key, and makes no new one', async () => {
    rmSync(keyPath());
    await expectRefused(open(), /age\.key is gone/);
    expect(readdirSync(directory)).not.toContain('age.key');
  });

  it.each([
    ['empty', ''],
    ['no key', 'hello'],
    ['two keys', `AGE-SECRET-KEY-1${'Q'.repeat(58)}\nAGE-SECRET-KEY-1${'Q'.repeat(58)}`],
    ['a bad checksum', `AGE-SECRET-KEY-1${'Q'.repeat(58)}`],
  ])('a key text that is %s, without repeating it', async (_, text) => {
    const vault = open(text);
    const error = await vault.mint('new', 'fleet', policy).catch((thrown: Error) => thrown);
    expect(error).toMatchObject({ code: 'FILES_FAILED' });
    expect(String((error as Error).stack)).not.toContain('QQQQ');
  });

  it('a damaged row, by its name', async () => {
    const raw = new DatabaseSync(join(directory, 'vault.db'));
    raw.exec("UPDATE secrets SET sealed = x'00112233'");
    raw.close();
    const vault = open();
    await expect(vault.find('a', ['fleet'])).rejects.toMatchObject({ code: 'VAULT_KEY_WRONG', data: { key: 'a' } });
    await expect(vault.mint('a', 'fleet', policy)).rejects.toMatchObject({ code: 'VAULT_KEY_WRONG' });
  });

  it('calls after it was closed', async () => {
    const vault = open();
    vault.close();
    await expect(vault.find('a', ['fleet'])).rejects.toThrow('the vault is closed');
  });
});

describe('generated values', () => {
  it.each([
    ['alnum', 62],
    ['hex', 16],
    ['ascii', 87],
  ] as const)('%s uses its whole alphabet evenly', (alphabet, size) => {
    const counts = new Map<string, number>();
    for (let at = 0; at < 100; at += 1)
      for (const character of generateSecret({ length: 1_000, alphabet }))
        counts.set(character, (counts.get(character) ?? 0) + 1);
    expect(counts.size).toBe(size);
    const expected = 100_000 / size;
    // Chi-square: mean size-1, far tail at six standard deviations.
    const chi = [...counts.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    expect(chi).toBeLessThan(size - 1 + 6 * Math.sqrt(2 * (size - 1)));
  });

  it('ascii leaves out what Compose, shells and env files give a meaning', () => {
    expect(generateSecret({ length: 1_024, alphabet: 'ascii' })).not.toMatch(/[\s"'`\\$#%]/);
  });
});
