// Request file: what makes one unusable, told at its place; and which stacks it touches.
import { describe, expect, it } from 'vitest';
import { parseInstant, touchedStacks } from '../../../src/core/spec/request.ts';
import { idOfPath, isMisnamed, readRequest } from '../../../src/core/state/trust/request-file.ts';

const path = 'requests/orders.yaml';
const archive = 'a'.repeat(64);
const head = (kind: string, rest: string) =>
  `apiVersion: windlass/v1\nkind: ${kind}\nreason: because\nexpires: 2026-12-01T00:00:00Z\n${rest}`;
const read = (kind: string, rest: string) => readRequest(path, Buffer.from(head(kind, rest)));
const told = (kind: string, rest: string) => read(kind, rest).diagnostics.map(({ summary }) => summary);

describe('a file that nobody reads as a request', () => {
  it.each([
    'requests/two\nlines.yaml',
    'requests/\n.yaml',
    'requests/lines.yaml\n.yml',
    'requests/\u2028.YAML',
    'requests/old/one.yaml',
    'requests/One.yaml',
  ])('is seen by its path: %j', (odd) => {
    expect([idOfPath(odd), isMisnamed(odd)]).toEqual([null, true]);
  });
  it.each(['requests/one.yaml', 'requests/README.md', 'stacks/requests/One.yaml'])('is not %j', (other) => {
    expect(isMisnamed(other)).toBe(false);
  });
});

describe('a request file', () => {
  it.each<readonly [string, string, readonly string[]]>([
    ['Restore', `stack: shop\narchive: ${archive}\n`, ['shop']],
    [
      'Restore',
      `stack: shop\ntarget: shop2\narchive: ${archive}\nvars: {a: 1}\nports: {web: ["80:80"]}\nintegrate: {db: pg}\nskipIntegration: [mail]\nsafety: none\nthen: follow-git\nplan: ${archive}\nnotBefore: 2026-11-30T00:00:00Z\n`,
      ['shop', 'shop2'],
    ],
    ['Recover', `stacks: [a, b]\narchive: ${archive}\nrename: {a: a2}\nskipIntegration: [mail]\n`, ['a', 'a2', 'b']],
    ['Clone', 'stack: shop\ntarget: shop2\nsecrets: copy\n', ['shop', 'shop2']],
    ['Move', 'stack: shop\nnode: edge-1\n', ['shop']],
    ['Move', `stack: shop\ntarget: shop2\narchive: ${archive}\n`, ['shop', 'shop2']],
    ['Purge', 'stack: shop\nvolumes: all\n', ['shop']],
    ['Purge', 'stack: shop\nvolumes: [pgdata, uploads]\n', ['shop']],
  ])('of kind %s is read: %j', (kind, rest, stacks) => {
    const { file, diagnostics } = read(kind, rest);
    expect(diagnostics).toEqual([]);
    expect(file).toMatchObject({ id: 'orders', request: { kind }, expiresMs: Date.parse('2026-12-01T00:00:00Z') });
    expect(touchedStacks(file!.request)).toEqual(stacks);
  });

  it.each<readonly [string, string, string, string]>([
    ['a short archive id', 'Restore', 'stack: shop\narchive: abcdef12\n', 'wrong value for `archive`'],
    ['a moving archive', 'Restore', 'stack: shop\narchive: latest\n', 'wrong value for `archive`'],
    [
      'an archive with its algorithm',
      'Restore',
      `stack: shop\narchive: sha256:${archive}\n`,
      'wrong value for `archive`',
    ],
    ['no archive', 'Restore', 'stack: shop\n', '`archive` is missing'],
    ['a word of another kind', 'Restore', `stack: shop\narchive: ${archive}\nrename: {a: b}\n`, 'unknown key `rename`'],
    ['no volumes', 'Purge', 'stack: shop\n', '`volumes` is missing'],
    ['an empty list of volumes', 'Purge', 'stack: shop\nvolumes: []\n', 'wrong size of `volumes`'],
    ['a clone onto itself', 'Clone', 'stack: shop\ntarget: shop\n', 'a stack cannot be cloned onto itself'],
    ['a move to nowhere', 'Move', 'stack: shop\n', 'the move says neither where to nor under which name'],
    ['a move onto itself', 'Move', 'stack: shop\ntarget: shop\n', 'a stack cannot be moved onto itself'],
    [
      'a new name for a stack that is not there',
      'Recover',
      `stacks: [a]\narchive: ${archive}\nrename: {b: c}\n`,
      '`b` is not recovered',
    ],
    [
      'two stacks of one new name',
      'Recover',
      `stacks: [a, b]\narchive: ${archive}\nrename: {a: b}\n`,
      'two stacks would be named `b`',
    ],
    [
      'a life of nothing',
      'Purge',
      'stack: shop\nvolumes: all\nnotBefore: 2026-12-01T00:00:00Z\n',
      'the request expires before it may run',
    ],
    [
      'a time that does not exist',
      'Purge',
      'stack: shop\nvolumes: all\nnotBefore: 2026-02-30T00:00:00Z\n',
      'a time that does not exist',
    ],
    [
      'a time of another form',
      'Purge',
      'stack: shop\nvolumes: all\nnotBefore: 2026-11-01\n',
      'wrong value for `notBefore`',
    ],
    ['a kind that is none', 'Destroy', 'stack: shop\n', '`Destroy` is no kind of request'],
    ['a key twice', 'Purge', 'stack: shop\nstack: other\nvolumes: all\n', 'the key `stack` is given twice'],
  ])('is told of %s', (_, kind, rest, summary) => {
    expect(told(kind, rest)).toEqual([summary]);
    expect(read(kind, rest).file).toBeNull();
  });

  it('must say when it expires and why', () => {
    const text = 'apiVersion: windlass/v1\nkind: Purge\nstack: shop\nvolumes: all\n';
    expect(
      readRequest(path, Buffer.from(text))
        .diagnostics.map(({ summary }) => summary)
        .sort(),
    ).toEqual(['`expires` is missing', '`reason` is missing']);
  });

  it('is told at the line and column of the mistake, with what was meant', () => {
    expect(read('Restor', 'stack: shop\n').diagnostics[0]).toMatchObject({
      help: 'did you mean `Restore`?',
      place: { file: path, line: 2, column: 7 },
    });
    expect(read('Clone', 'stack: shop\ntarget: shop\n').diagnostics[0]?.place).toEqual({
      file: path,
      line: 6,
      column: 9,
    });
  });

  it('has its id in its path and nowhere else', () => {
    expect(idOfPath('requests/a-1_b.yaml')).toBe('a-1_b');
    for (const other of [
      'requests/a.yml',
      'requests/a/b.yaml',
      'request/a.yaml',
      'requests/.yaml',
      'requests/-a.yaml',
      'requests/A.yaml',
      `requests/${'a'.repeat(64)}.yaml`,
      'x/requests/a.yaml',
      'requests/a.yaml\n',
    ])
      expect([other, idOfPath(other)]).toEqual([other, null]);
  });

  const plain =
    'apiVersion: windlass/v1\nkind: Purge\nstack: shop\nvolumes: all\nreason: x\nexpires: 2026-12-01T00:00:00Z\n';
  const bomb = `a: &a [${'x,'.repeat(40)}]\nb: &b [${'*a,'.repeat(40)}]\nc: [${'*b,'.repeat(40)}]\n${plain}`;

  it.each<readonly [string, string, string]>([
    ['a key twice, once in quotes', `${plain}"stack": bank\n`, 'YAML_DUPLICATE_KEY'],
    ['a tag of a program', plain.replace('reason: x', 'reason: !!js/function "x"'), 'YAML_INVALID'],
    ['a tab that indents', plain.replace('stack:', '\tstack:'), 'YAML_INVALID'],
    ['a second document', `${plain}---\n${plain}`, 'YAML_SEVERAL_DOCUMENTS'],
    ['text behind the end of the document', `${plain}...\nstack: bank\n`, 'YAML_SEVERAL_DOCUMENTS'],
    ['a key that is a list', `${plain}? [a]\n: b\n`, 'YAML_INVALID'],
    ['the key that all objects share', `${plain}__proto__: { stack: bank }\n`, 'SPEC_INVALID'],
    [
      'another line break in the middle of a value',
      plain.replace('reason: x', 'reason: x\u2028stack: bank'),
      'YAML_INVALID',
    ],
    ['a carriage return alone', plain.replace('stack: shop\n', 'stack: shop\r# x\rvolumes: all\r'), 'YAML_INVALID'],
    ['aliases that multiply', bomb, 'YAML_TOO_LARGE'],
  ])('is refused with %s', (_, text, code) => {
    const { file, diagnostics } = readRequest(path, Buffer.from(text));
    expect([file, diagnostics[0]?.code]).toEqual([null, code]);
  });

  it.each<readonly [string, string, string]>([
    ['line ends of Windows', plain.replaceAll('\n', '\r\n'), 'shop'],
    ['a mark of the order of bytes', `\ufeff${plain}`, 'shop'],
    ['an alias', plain.replace('shop', '&a shop').replace('reason: x', 'reason: *a'), 'shop'],
    ['a merge key, under what the map says itself', `<<: { stack: bank }\n${plain}`, 'shop'],
    ['a merge key that says what the map does not', plain.replace('stack: shop', '<<: { stack: bank }'), 'bank'],
  ])('may have %s, and is what it then says', (_, text, stack) => {
    expect(readRequest(path, Buffer.from(text)).file?.request).toMatchObject({ kind: 'Purge', stack, volumes: 'all' });
  });

  it('is refused when it is no text, or too much of it', () => {
    for (const bytes of [
      Buffer.from([0xc3, 0x28]),
      Buffer.alloc(1024 * 1024 + 1, 32),
      Buffer.alloc(0),
      Buffer.from('- a\n'),
    ])
      expect(readRequest(path, bytes).file).toBeNull();
  });
});

it('a time has one form and exists', () => {
  expect(parseInstant('2024-02-29T23:59:59Z')).toBe(Date.UTC(2024, 1, 29, 23, 59, 59));
  for (const text of [
    '2023-02-29T00:00:00Z',
    '2026-01-01T24:00:00Z',
    '2026-01-01T00:00:60Z',
    '2026-01-01T00:00:00.5Z',
    '2026-01-01T00:00:00z',
    '2026-01-01',
  ])
    expect([text, parseInstant(text)]).toEqual([text, null]);
});
