import fc from 'fast-check';
import { expect, it } from 'vitest';
import { checkText } from '../../../src/core/spec/check.ts';
import { KINDS, type Kind } from '../../../src/core/spec/kind.ts';
import { type Content, loadFiles } from './commit.ts';

const kinds = Object.keys(KINDS) as Kind[];
/** Words that mean something somewhere, mixed with others. */
const word = fc.constantFrom(
  ...[
    'name',
    'app',
    'services',
    'include',
    'extends',
    'file',
    'path',
    'env_file',
    'build',
    'volumes',
    'x-windlass',
    'hooks',
    'job',
    'if',
    'then',
  ],
  ...[
    'vars',
    'integrate',
    'ports',
    'replicas',
    'web',
    '../a',
    '../../x',
    './b',
    '$X/y',
    '/etc',
    'a:b:c',
    '@secret!',
    'ref+vault://x',
    '*/',
    '<<',
    '__proto__',
  ],
);
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 4 },
    word,
    fc.string({ maxLength: 8 }),
    fc.integer({ min: -2, max: 99 }),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('any'), { maxLength: 3 }),
    fc.dictionary(word, tie('any'), { maxKeys: 4 }),
  ),
})).any;

it('any document ends in a value or in diagnostics with a place', () => {
  fc.assert(
    fc.property(fc.constantFrom(...kinds), fc.dictionary(word, value, { maxKeys: 5 }), (kind, body) => {
      const text = JSON.stringify({ apiVersion: 'windlass/v1', kind, ...body });
      const checked = checkText(kind, 'x.yaml', text);
      expect(checked.value !== null || checked.diagnostics.length > 0).toBe(true);
      for (const one of checked.diagnostics) expect(one.place?.line).toBeGreaterThan(0);
    }),
    { numRuns: 300 },
  );
});

it('any text is read or refused, never thrown at', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...'ab: -\n[]{},&*!|>\'"#?%@`\t\\<'), maxLength: 80 }), (text) => {
      checkText('Stack', 'x.yaml', text);
      loadFiles({ 'a/compose.yaml': text, 'stacks/b.yaml': text, 'a/.env': text });
    }),
    { numRuns: 500 },
  );
});

it('any repository loads, and every project in it is there or broken', () => {
  const folder = fc.constantFrom('a', 'b', 'stacks/c', 'services/d', 'apps/e');
  const content = fc.oneof(
    value.map((one): Content => JSON.stringify(one)),
    fc.dictionary(word, value, { maxKeys: 3 }).map((services): Content => JSON.stringify({ services })),
    fc.constantFrom<Content>(
      { link: '../b/compose.yaml' },
      { link: '.' },
      { link: 'compose.yaml' },
      { submodule: true },
      { refused: 'too-large' },
    ),
  );
  fc.assert(
    fc.property(
      fc.uniqueArray(folder, { minLength: 1 }),
      fc.array(content, { minLength: 10, maxLength: 10 }),
      (folders, contents) => {
        const files: Record<string, Content> = {};
        for (const [index, one] of folders.entries()) {
          files[`${one}/compose.yaml`] = contents[index * 2] ?? '';
          if (index % 2 === 0) files[`${one}/extra`] = contents[index * 2 + 1] ?? '';
        }
        const { fleet } = loadFiles(files);
        const known = new Set([...fleet.stacks.values()].map((one) => one.place.file));
        for (const one of [...fleet.broken.values()].flat().concat(fleet.diagnostics))
          if (one.place) known.add(one.place.file);
        for (const one of folders) expect([...known].filter((file) => file.startsWith(`${one}/`))).not.toEqual([]);
      },
    ),
    { numRuns: 200 },
  );
});
