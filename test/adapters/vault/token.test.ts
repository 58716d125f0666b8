import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { readToken } from '../../../src/adapters/vault/token.ts';

const dir = mkdtempSync(join(tmpdir(), 'wlt-token-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const file = (name: string, text: string): string => {
  writeFileSync(join(dir, name), text);
  return join(dir, name);
};

it('the token of a file counts before the one of the environment, without its line end', () => {
  expect(readToken(file('a', 'hvs.file\n'), 'hvs.env')).toBe('hvs.file');
  expect(readToken(undefined, 'hvs.env')).toBe('hvs.env');
});

it('no token is a refusal with the cure', () => {
  expect(() => readToken(undefined, undefined)).toThrow(/vault\.tokenFile or WINDLASS_VAULT_TOKEN/);
  expect(() => readToken(undefined, '')).toThrow(/is not there/);
  expect(() => readToken(join(dir, 'gone'), 'hvs.env')).toThrow(/cannot be read: ENOENT/);
});

it.each([
  ['empty', '\n'],
  ['of two lines', 'hvs.one\nhvs.two'],
  ['with a control character', 'hvs.\u0007'],
  ['too large', 'x'.repeat(20_000)],
])('a file that is %s is refused without repeating it', (name, text) => {
  const path = file(name, text);
  expect(() => readToken(path, undefined)).toThrow(/the token of the vault/);
  expect(() => readToken(path, undefined)).not.toThrow(/hvs\./);
});

it('what is no file is refused, and a pipe is not waited for', () => {
  mkdirSync(join(dir, 'folder'));
  execFileSync('mkfifo', [join(dir, 'pipe')]);
  expect(() => readToken(join(dir, 'folder'), undefined)).toThrow(/is no file|cannot be read/);
  expect(() => readToken(join(dir, 'pipe'), undefined)).toThrow(/is no file/);
});
