import { describe, expect, it } from 'vitest';
import { parseDotenv } from '../../../src/core/spec/dotenv.ts';
import { parseDuration } from '../../../src/core/spec/duration.ts';
import { matchGlob, matchGlobs } from '../../../src/core/spec/glob.ts';
import { parseMint, parseRef } from '../../../src/core/spec/ref.ts';
import { resolvePath } from '../../../src/core/spec/repository-path.ts';
import { nearest } from '../../../src/core/spec/suggest.ts';

describe('a glob', () => {
  it.each([
    ['*/', 'web', true],
    ['*/', 'web/sub', false],
    ['*/', '.github', false],
    ['.', '', true],
    ['./', '', true],
    ['*', '', false],
    ['stacks/*/', 'stacks/a', true],
    ['**', 'a/b/c', true],
    ['**/prod', 'prod', true],
    ['**/prod', 'a/b/prod', true],
    ['**/prod', 'a/.b/prod', false],
    ['a/**/z', 'a/z', true],
    ['a?c-*', 'abc-', true],
    ['a?c', 'ac', false],
    ['.config/*', '.config/x', true],
  ])('%j on %j: %j', (glob, path, expected) => expect(matchGlob(glob, path)).toBe(expected));

  it('is taken away again by one that starts with `!`', () => {
    expect(matchGlobs(['*/', '!old', 'old2'], 'old')).toBe(false);
    expect(matchGlobs(['*/', '!o*', 'old2'], 'old2')).toBe(true);
  });

  it('takes no time for patterns that are made to take it', () => {
    const path = `${'a/'.repeat(200)}b`;
    expect(matchGlob('**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/c', path)).toBe(false);
    expect(matchGlob(`${'*a'.repeat(50)}c`, 'a'.repeat(200))).toBe(false);
  });
});

describe('a ref', () => {
  it.each([
    ['ref+vault://smtp', { scheme: 'vault', path: 'smtp' }],
    ['ref+hook://outputs/NAME', { scheme: 'hook', path: 'outputs/NAME' }],
    ['ref+://x', { scheme: '', path: 'x' }],
    ['see ref+vault://x', null],
    ['ref+vault://a b', null],
  ])('%j', (text, expected) => expect(parseRef(text)).toEqual(expected));

  it.each([
    ['@secret!', { length: 32, alphabet: 'alnum' }],
    ['@secret(16, hex)!', { length: 16, alphabet: 'hex' }],
    ['@secretary', null],
    ['secret', null],
  ])('to be minted: %j', (text, expected) => expect(parseMint(text)).toEqual(expected));
});

it.each([
  ['90s', 90_000],
  ['1h30m', 5_400_000],
  ['500ms', 500],
  ['2d', 172_800_000],
  ['10', null],
  ['m', null],
])('the duration %j is %j ms', (text, expected) => expect(parseDuration(text)).toBe(expected));

it.each([
  ['a/b', '../c', 'a/c'],
  ['a', './x/./y/', 'a/x/y'],
  ['a', '..', ''],
  ['a', '../..', null],
  ['', '/etc', null],
])('from %j, %j leads to %j', (folder, path, expected) => expect(resolvePath(folder, path)).toBe(expected));

it.each([
  ['replica', 'replicas'],
  ['postInstall', 'post_install'],
  ['timout', 'timeout'],
  ['zzz', null],
])('for %j the nearest is %j', (word, expected) =>
  expect(nearest(word, ['replicas', 'post_install', 'timeout'])).toBe(expected),
);

it('a .env is read as far as it is literal', () => {
  expect(parseDotenv('# no\nexport A=1\nB="x # y" # z\nC=\'q\'\r\nD = plain # c\nE=a#b\n\nbroken\nA=2')).toEqual({
    A: '2',
    B: 'x # y',
    C: 'q',
    D: 'plain',
    E: 'a#b',
  });
});
