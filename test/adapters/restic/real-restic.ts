// A real restic for tests: made sure of by scripts/restic, which says the cure when it cannot be had, and one empty repository to copy.
import { execFileSync } from 'node:child_process';
import { createCipheriv, createHash, randomBytes, scryptSync } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';

const SCRIPT = resolve(import.meta.dirname, '../../../scripts/restic');
export const PASSWORD = 'correct horse battery staple';

/** Throws with the words of the script: tests of restic are never skipped. */
export function ensureRestic(): void {
  execFileSync('bash', [SCRIPT], { stdio: ['ignore', 'inherit', 'pipe'], encoding: 'utf8' });
}

export interface ResticWorld {
  readonly dir: string;
  readonly repository: string;
  readonly passwordFile: string;
  /** As a person at a terminal would call it. */
  restic(...args: string[]): string;
  dispose(): void;
}

/** The files of an empty repository. */
let template: ReadonlyMap<string, Buffer> | null = null;

/** `empty`: there is no repository yet. Making one takes seconds, so that it is made once. */
export function makeWorld(how: 'made' | 'empty' = 'made'): ResticWorld {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'wlt-restic-')));
  const repository = join(dir, 'repository');
  const passwordFile = join(dir, 'password');
  writeFileSync(passwordFile, `${PASSWORD}\n`, { mode: 0o600 });
  const restic = (...args: string[]): string =>
    execFileSync('restic', args, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env['PATH'],
        RESTIC_REPOSITORY: repository,
        RESTIC_PASSWORD_FILE: passwordFile,
        RESTIC_CACHE_DIR: join(dir, 'cache-by-hand'),
      },
    });
  if (how === 'made' && template === null) {
    restic('init');
    cheapenKey(repository, JSON.parse(restic('cat', 'masterkey')));
    template = new Map(
      readdirSync(repository, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name))
        .map((path) => [relative(repository, path), readFileSync(path)]),
    );
  } else if (how === 'made') {
    for (const folder of ['data', 'index', 'keys', 'locks', 'snapshots'])
      mkdirSync(join(repository, folder), { recursive: true });
    for (const [path, bytes] of template ?? []) writeFileSync(join(repository, path), bytes, { mode: 0o400 });
  }
  return { dir, repository, passwordFile, restic, dispose: () => rmSync(dir, { recursive: true, force: true }) };
}

/**
 * Restic makes its key so that each opening costs half a second of work; tests open hundreds of times. The same master key, sealed with the
 * same password, and scrypt told to be quick.
 */
function cheapenKey(repository: string, masterKey: unknown): void {
  const [name = ''] = readdirSync(join(repository, 'keys'));
  const before = JSON.parse(readFileSync(join(repository, 'keys', name), 'utf8')) as object;
  const salt = randomBytes(64);
  const [N, r, p] = [16, 1, 1];
  const derived = scryptSync(PASSWORD, salt, 64, { N, r, p });
  const nonce = randomBytes(16);
  const cipher = createCipheriv('aes-256-ctr', derived.subarray(0, 32), nonce);
  const sealed = Buffer.concat([cipher.update(JSON.stringify(masterKey)), cipher.final()]);
  const pad = createCipheriv('aes-128-ecb', derived.subarray(32, 48), null).update(nonce);
  const data = Buffer.concat([nonce, sealed, poly1305(sealed, derived.subarray(48, 64), pad)]);
  const text = JSON.stringify({ ...before, N, r, p, salt: salt.toString('base64'), data: data.toString('base64') });
  rmSync(join(repository, 'keys', name));
  const id = createHash('sha256').update(text).digest('hex');
  writeFileSync(join(repository, 'keys', id), text, { mode: 0o400 });
}

function poly1305(message: Buffer, key: Buffer, pad: Buffer): Buffer {
  const numberOf = (bytes: Buffer): bigint => BigInt(`0x${Buffer.from(bytes).reverse().toString('hex') || '0'}`);
  const r = numberOf(key) & 0x0ffffffc0ffffffc0ffffffc0fffffffn;
  let sum = 0n;
  for (let at = 0; at < message.length; at += 16) {
    const block = Buffer.concat([message.subarray(at, at + 16), Buffer.of(1)]);
    sum = ((sum + numberOf(block)) * r) % ((1n << 130n) - 5n);
  }
  const tag = (sum + numberOf(pad)) & ((1n << 128n) - 1n);
  return Buffer.from(tag.toString(16).padStart(32, '0'), 'hex').reverse();
}

/** In the place of restic: a shell script; the real one is `restic`. */
export function fakeRestic(dir: string, script: string): string {
  const path = join(dir, 'fake-restic');
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}
