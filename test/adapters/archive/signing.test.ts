import { execFileSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { chmod, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { checkSignature, openSigningKey } from '../../../src/adapters/archive/signing.ts';
import { Fault } from '../../../src/core/fault.ts';

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'wl-signing-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

const codeOf = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    return error instanceof Fault ? `${error.code} ${error.message}` : String(error);
  }
  return 'nothing';
};
const BYTES = Buffer.from('{"format":"windlass-archive"}');

describe('the signing key', () => {
  it('is made once, for its owner alone, and is the same afterwards', async () => {
    const state = join(directory, 'state');
    const first = openSigningKey(state);
    expect(await readdir(state)).toEqual(['archive-signing.pem']);
    expect((await stat(join(state, 'archive-signing.pem'))).mode & 0o777).toBe(0o600);
    expect(openSigningKey(state).publicKey).toBe(first.publicKey);
    expect(openSigningKey(state).sign(BYTES)).toBe(first.sign(BYTES));
    expect(openSigningKey(join(directory, 'other')).publicKey).not.toBe(first.publicKey);
  });

  it('signs in a way that other tools can check', async () => {
    const signature = openSigningKey(directory).sign(BYTES).split(' ');
    await writeFile(join(directory, 'bytes'), BYTES);
    await writeFile(join(directory, 'sig'), Buffer.from(signature[3]!, 'base64'));
    const spki = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), Buffer.from(signature[2]!, 'base64')]);
    await writeFile(join(directory, 'key.der'), spki);
    const args = [
      'pkeyutl',
      '-verify',
      '-pubin',
      '-keyform',
      'DER',
      '-inkey',
      'key.der',
      '-rawin',
      '-in',
      'bytes',
      '-sigfile',
      'sig',
    ];
    expect(execFileSync('openssl', args, { cwd: directory, encoding: 'utf8' })).toContain('Verified Successfully');
  });

  it.each([
    ['others may read', async (path: string) => chmod(path, 0o640), 'may be read by others (mode 640)'],
    ['is no key', async (path: string) => writeFile(path, 'words'), 'does not hold a private key'],
    [
      'is of another kind',
      async (path: string) =>
        writeFile(
          path,
          generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'pem', type: 'pkcs8' }),
        ),
      'is no ed25519 key',
    ],
    ['is a folder', async (path: string) => rm(path).then(() => execFileSync('mkdir', [path])), 'is not a file'],
  ])('that %s is refused, and not made anew', async (_, spoil, words) => {
    openSigningKey(directory);
    await spoil(join(directory, 'archive-signing.pem'));
    const said = codeOf(() => openSigningKey(directory));
    expect(said).toMatch(/^SIGNING_KEY_WRONG/);
    expect(said).toContain(words);
  });
});

describe('a signature', () => {
  it('says whose it is, and is refused when that key is not trusted', () => {
    const [ours, theirs] = [openSigningKey(join(directory, 'a')), openSigningKey(join(directory, 'b'))];
    const signature = theirs.sign(BYTES);
    expect(checkSignature(BYTES, signature, [ours.publicKey, theirs.publicKey])).toBe(theirs.publicKey);
    expect(checkSignature(BYTES, signature, null)).toBe(theirs.publicKey);
    expect(codeOf(() => checkSignature(BYTES, signature, [ours.publicKey]))).toContain(
      `not trusted here (${theirs.keyId})`,
    );
    expect(codeOf(() => checkSignature(BYTES, signature, []))).toMatch(/^ARCHIVE_UNTRUSTED/);
  });

  it.each<[string, (line: string) => string]>([
    ['is empty', () => ''],
    ['has no end', (line) => line.trimEnd()],
    ['has something behind it', (line) => `${line}x`],
    ['names another kind', (line) => line.replace('ed25519', 'rsa')],
    ['is cut', (line) => `${line.slice(0, -5)}\n`],
    [
      'has another key',
      (line) => line.replace(/ed25519 ./, (head) => (head.endsWith('A') ? 'ed25519 B' : 'ed25519 A')),
    ],
    ['has another letter', (line) => line.replace(/(.)(?====\n|==\n)/, (last) => (last === 'A' ? 'Q' : 'A'))],
    ['has a key of zeros', (line) => line.replace(/ed25519 \S+/, `ed25519 ${Buffer.alloc(32).toString('base64')}`)],
  ])('that %s is refused', (_, change) => {
    const signature = openSigningKey(directory).sign(BYTES);
    expect(change(signature)).not.toBe(signature);
    expect(codeOf(() => checkSignature(BYTES, change(signature), null))).toMatch(/^ARCHIVE_UNTRUSTED/);
  });

  it('of other bytes is refused', () => {
    const signature = openSigningKey(directory).sign(BYTES);
    expect(codeOf(() => checkSignature(Buffer.from(`${BYTES} `), signature, null))).toMatch(/does not fit/);
  });
});
