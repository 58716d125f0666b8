// The words are Compose's own, 2.40: which line they are about.
import { describe, expect, it } from 'vitest';
import { keyMeant, pathOfWords } from '../../../src/core/spec/compose-words.ts';
import { parseDocument } from '../../../src/core/spec/document.ts';

const lineOf = (text: string, words: string): number | null => {
  const { parsed } = parseDocument('compose.yaml', text);
  const path = parsed && pathOfWords(words, parsed);
  return path ? parsed.place(path, 'key').line : null;
};

describe('the line of a complaint of Compose', () => {
  const a = 'services:\n  b:\n    image: x\n  a:\n    image: x\n';
  it.each([
    [
      'an interpolation',
      `${a}`,
      'invalid interpolation format for services.a.image. You may need to escape any $ with another $. ${NOPE',
      5,
    ],
    [
      'no image',
      'services:\n  b: {image: x}\n  a: {}\n',
      'service "a" has neither an image nor a build context specified: invalid compose project',
      3,
    ],
    ['a port', `${a}    ports:\n      - "80:80"\n      - "99999:80"\n`, 'Invalid hostPort: 99999', 8],
    [
      'a missing env file',
      `${a}    env_file: ./nope.env\n`,
      'env file stacks/shop/nope.env not found: stat stacks/shop/nope.env: no such file or directory',
      6,
    ],
    ['a list of services', 'name: x\nservices:\n  - a\n', 'services must be a mapping', 2],
    ['a cycle', `${a}    depends_on: [b]\n`, 'dependency cycle detected: a -> b -> a', 6],
    [
      'a circle of extends',
      `${a}    extends: b\n`,
      'Circular reference: a in compose.yaml extends b in compose.yaml',
      6,
    ],
    ['a circle of includes', `include: [b.yaml]\n${a}`, 'include cycle detected: compose.yaml include b.yaml', 1],
    [
      'a bad name',
      'services:\n  b: {image: x}\n  "a b":\n    image: x\n',
      "validating compose.yaml: services additional properties 'a b' not allowed",
      3,
    ],
    [
      'an unknown key',
      'services:\n  a:\n    init: true\n    imagee: x\n',
      "validating compose.yaml: services.a additional properties 'imagee' not allowed",
      4,
    ],
    [
      'an unknown key at the root',
      'services: {}\nservicess: {}\n',
      "validating compose.yaml:  additional properties 'servicess' not allowed",
      2,
    ],
    [
      'a volume that is not declared',
      `${a}    volumes: ["data:/d"]\n`,
      'service "a" refers to undefined volume data: invalid compose project',
      6,
    ],
    [
      'a dependency that is not there',
      `${a}    depends_on: [zz]\n`,
      'service "a" depends on undefined service "zz": invalid compose project',
      6,
    ],
    [
      'a value',
      `${a}    mem_limit: 12zz\n`,
      "decoding failed due to the following error(s): 'services[a].mem_limit' invalid suffix: 'zz'",
      6,
    ],
    ['a key that stands elsewhere', a, "'services[a].mem_limit' invalid suffix: 'zz'", 4],
    ['nothing of this file', a, 'service "zz" has neither an image nor a build context specified', null],
    ['something else', a, 'the sky is falling', null],
  ] as const)('%s', (_what, text, words, line) => {
    expect(lineOf(text, words)).toBe(line);
  });

  it.each([
    ["services.a additional properties 'imagee' not allowed", 'image'],
    ["validating compose.yaml:  additional properties 'servicess' not allowed", 'services'],
    ["services.a additional properties 'zzzzzz' not allowed", null],
    ["services additional properties 'a b' not allowed", null],
    ["services.a.build additional properties 'imagee' not allowed", null],
  ])('%s suggests %s', (words, key) => {
    expect(keyMeant(words)).toBe(key);
  });
});

describe('words that were made to be hard to read', () => {
  it('are read in no time', () => {
    const before = performance.now();
    expect(keyMeant(`services${'[a'.repeat(500)} additional`)).toBeNull();
    expect(keyMeant(`services${'.[a]'.repeat(250)} additional`)).toBeNull();
    expect(performance.now() - before).toBeLessThan(500);
  });
});
