import { describe, expect, it } from 'vitest';
import { parseDocument, parseDocuments } from '../../../src/core/spec/document.ts';

const codes = (text: string): string[] =>
  parseDocument('x.yaml', text).diagnostics.map((one) => `${one.place?.line}:${one.place?.column} ${one.code}`);

describe('a document', () => {
  it('gives plain data and the place of every key and value', () => {
    const { parsed } = parseDocument('x.yaml', 'a:\n  b: [1, two]\n  c:\n');
    expect(parsed?.value).toEqual({ a: { b: [1, 'two'], c: null } });
    expect(parsed?.place(['a', 'b', 1])).toEqual({ file: 'x.yaml', line: 2, column: 10 });
    expect(parsed?.place(['a', 'b'], 'key')).toEqual({ file: 'x.yaml', line: 2, column: 3 });
    expect(parsed?.place(['a', 'c'])).toEqual({ file: 'x.yaml', line: 3, column: 3 });
  });

  it('is placed through aliases and merge keys', () => {
    const { parsed } = parseDocument('x.yaml', 'base: &b\n  x: 1\nuse:\n  <<: *b\n  y: 2\nsame: *b\n');
    expect(parsed?.value).toEqual({ base: { x: 1 }, use: { x: 1, y: 2 }, same: { x: 1 } });
    expect(parsed?.place(['use', 'x'], 'key')).toEqual({ file: 'x.yaml', line: 2, column: 3 });
    expect(parsed?.place(['same', 'x'])).toEqual({ file: 'x.yaml', line: 2, column: 6 });
  });

  it('lets own keys win over merged ones and the first merged map over later ones', () => {
    const { parsed } = parseDocument('x.yaml', 'a: &a {k: 1, m: 1}\nb: &b {k: 2, n: 2}\nc: {<<: [*a, *b], m: 3}\n');
    expect(parsed?.value).toMatchObject({ c: { k: 1, n: 2, m: 3 } });
  });

  it.each([
    ['a key given twice', 'a: 1\nb: 2\na: 3\n', ['3:1 YAML_DUPLICATE_KEY']],
    ['a second document', 'a: 1\n---\nb: 2\n', ['2:1 YAML_SEVERAL_DOCUMENTS']],
    ['broken YAML', 'a: 1\nb: [\n', ['3:1 YAML_INVALID']],
    ['an unknown alias', 'a: *nothing\n', ['1:4 YAML_INVALID']],
    ['an alias of itself', 'a: &a [*a]\n', ['1:8 YAML_INVALID']],
    ['an alias of what it stands in', 'a: &x\n  b: { c: *x }\n', ['2:11 YAML_INVALID']],
    ['a merge of what it stands in', 'a: &x\n  b: { <<: *x }\n', ['2:3 YAML_INVALID']],
    ['nothing', '# only a comment\n', ['1:1 DOCUMENT_EMPTY']],
    ['a map as key', '{a: 1}: 2\n', ['1:1 YAML_INVALID']],
  ])('refuses %s', (_, text, expected) => expect(codes(text)).toEqual(expected));

  it.each(['---\na: 1\n', 'a: 1\n---\n', '\ufeffa: 1\n', '%YAML 1.2\n---\na: 1\n...\n'])(
    'takes %j for one document',
    (text) => expect(parseDocument('x.yaml', text).parsed?.value).toEqual({ a: 1 }),
  );

  it.each(['a: &x [*x]\n', 'a: &x {b: {c: *x}}\n', 'a: &x {b: {<<: *x}}\n'])('says of %j what goes round', (text) =>
    expect(parseDocument('x.yaml', text).diagnostics[0]?.summary).toBe('the alias `*x` contains itself'),
  );

  it('survives texts that are made to exhaust it', () => {
    let bomb = 'a0: &a0 [x,x,x,x,x,x,x,x,x]\n';
    for (let level = 1; level < 12; level++)
      bomb += `a${level}: &a${level} [${Array(9)
        .fill(`*a${level - 1}`)
        .join(',')}]\n`;
    for (const [text, code] of [
      [bomb, 'YAML_TOO_LARGE'],
      ['['.repeat(20_000), 'YAML_TOO_DEEP'],
      ['- '.repeat(20_000), 'YAML_TOO_DEEP'],
      ['x'.repeat(1024 * 1024 + 1), 'TEXT_TOO_LARGE'],
      ['é'.repeat(600_000), 'TEXT_TOO_LARGE'],
    ] as const)
      expect(parseDocument('x.yaml', text).diagnostics[0]?.code).toBe(code);
  });

  it('treats names of the prototype as keys like others', () => {
    const { parsed } = parseDocument('x.yaml', '__proto__: {evil: 1}\nconstructor: 2\n');
    expect(Object.keys(parsed?.value as object)).toEqual(['__proto__', 'constructor']);
    expect(({} as { evil?: unknown }).evil).toBeUndefined();
  });

  it('gives every document of a Compose file', () => {
    expect(parseDocuments('x.yaml', 'a: 1\n---\nb: !reset null\n').parsed.map((one) => one.value)).toEqual([
      { a: 1 },
      { b: null },
    ]);
  });
});
