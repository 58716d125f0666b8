import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { fileSecrets } from '../../../src/adapters/secrets/file.ts';
import type { Listing } from '../../../src/core/state/listing.ts';

const AT: Listing = { commit: '', entries: [], trees: new Map() };

let base: string;
let secrets: string;
let redacted: string[];
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'wlt-files-'));
  secrets = join(base, 'secrets');
  mkdirSync(secrets);
  redacted = [];
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const read = (path: string, directory: string | null = secrets): Promise<string | null> =>
  fileSecrets({ directory, redactor: { add: (value) => void redacted.push(value) } }).read(path, AT);

it('a file below the directory is read without its last line end, and redacted before it is used', async () => {
  mkdirSync(join(secrets, 'shop'));
  writeFileSync(join(secrets, 'shop/smtp'), 'correct horse\n');
  expect(await read('shop/smtp')).toBe('correct horse');
  expect(redacted).toEqual(['correct horse']);
});

it.each([
  ['one\r\n', 'one'],
  ['one\n\n', 'one\n'],
  [' one ', ' one '],
  ['\ufeffone', '\ufeffone'],
])('of %j only one line end is dropped', async (text, value) => {
  writeFileSync(join(secrets, 'a'), text);
  expect(await read('a')).toBe(value);
});

it('what is not there is missing', async () => {
  writeFileSync(join(secrets, 'a'), 'x');
  expect(await read('b')).toBeNull();
  expect(await read('a/b')).toBeNull();
});

it('without a directory nothing is read, and the cure is named', async () => {
  await expect(read('a', null)).rejects.toMatchObject({
    code: 'SECRET_REFUSED',
    message: expect.stringMatching(/secrets\.directory in windlass\.yaml/),
  });
});

it('a directory that is gone is a fault of the host, not a missing secret', async () => {
  await expect(read('a', join(base, 'gone'))).rejects.toMatchObject({ code: 'FILES_FAILED' });
});

it.each([
  '../outside',
  'a/../../outside',
  '/etc/passwd',
  'a//b',
  './a',
  '.',
  '',
  'a\u0000b',
  'a\\b',
  'a'.repeat(2_000),
])('a path that is none below the directory is refused: %j', async (path) => {
  writeFileSync(join(base, 'outside'), 'not yours');
  await expect(read(path)).rejects.toMatchObject({ code: 'SECRET_REFUSED' });
  expect(redacted).toEqual([]);
});

it('no link leads out, be it the file or a folder on the way', async () => {
  writeFileSync(join(base, 'outside'), 'not yours');
  symlinkSync('../outside', join(secrets, 'link'));
  symlinkSync('..', join(secrets, 'up'));
  for (const path of ['link', 'up/outside'])
    await expect(read(path)).rejects.toMatchObject({
      code: 'SECRET_REFUSED',
      message: expect.stringMatching(/leads out/),
    });
  expect(redacted).toEqual([]);
});

it('a directory whose name begins like the one of secrets is outside', async () => {
  mkdirSync(`${secrets}-other`);
  writeFileSync(`${secrets}-other/a`, 'not yours');
  symlinkSync('../secrets-other/a', join(secrets, 'a'));
  await expect(read('a')).rejects.toMatchObject({ code: 'SECRET_REFUSED' });
});

it('links within the directory are followed, as mounted secrets have them', async () => {
  mkdirSync(join(secrets, '..2026'));
  writeFileSync(join(secrets, '..2026/smtp'), 'correct horse');
  symlinkSync('..2026', join(secrets, '..data'));
  symlinkSync('..data/smtp', join(secrets, 'smtp'));
  expect(await read('smtp')).toBe('correct horse');
});

it('a file of 64 KiB is read, a larger one is refused', async () => {
  writeFileSync(join(secrets, 'a'), 'x'.repeat(64 * 1024));
  writeFileSync(join(secrets, 'b'), 'x'.repeat(64 * 1024 + 1));
  expect(await read('a')).toHaveLength(64 * 1024);
  await expect(read('b')).rejects.toThrow(/larger than 65536 bytes/);
});

it('what is no regular file is refused, and a pipe is not waited for', async () => {
  mkdirSync(join(secrets, 'folder'));
  execFileSync('mkfifo', [join(secrets, 'pipe')]);
  for (const path of ['folder', 'pipe']) await expect(read(path)).rejects.toThrow(/is not a regular file/);
});

it('an empty file and bytes that are no text are refused', async () => {
  writeFileSync(join(secrets, 'a'), '\n');
  writeFileSync(join(secrets, 'b'), Buffer.from([0xff, 0xfe]));
  await expect(read('a')).rejects.toThrow(/is empty/);
  await expect(read('b')).rejects.toThrow(/base64/);
});

it.skipIf(process.getuid?.() === 0)('a file that may not be read is refused by its name', async () => {
  writeFileSync(join(secrets, 'a'), 'x');
  chmodSync(join(secrets, 'a'), 0);
  await expect(read('a')).rejects.toThrow(/ref\+file:\/\/a cannot be read: EACCES/);
});
