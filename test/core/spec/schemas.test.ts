import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, it } from 'vitest';
import { checkText } from '../../../src/core/spec/check.ts';
import { KINDS, type Kind, schemaFile, schemaOf } from '../../../src/core/spec/kind.ts';
import { filesOf } from './commit.ts';

const root = join(import.meta.dirname, '..', '..', '..');
const kinds = Object.keys(KINDS) as Kind[];

it.each(kinds)('the published schema of %s is the one that the code checks with', (kind) => {
  expect(JSON.parse(readFileSync(join(root, 'schemas', schemaFile(kind)), 'utf8'))).toEqual(
    JSON.parse(JSON.stringify(schemaOf(kind))),
  );
});

it('there is a published schema for each kind and none besides', () => {
  expect(
    readdirSync(join(root, 'schemas'))
      .filter((name) => name.endsWith('.json'))
      .sort(),
  ).toEqual(kinds.map(schemaFile).sort());
});

it('the published schemas are valid and can be used together', () => {
  const ajv = new Ajv2020({ strict: true, strictRequired: false, allowUnionTypes: true });
  for (const kind of kinds) ajv.addSchema(schemaOf(kind));
  for (const kind of kinds) expect(ajv.getSchema(schemaFile(kind))).toBeTypeOf('function');
});

it('the documents of the bundled apps and of the sample fleet are right', () => {
  const kindOf = (path: string): Kind | null => {
    if (path.endsWith('app.yaml')) return 'App';
    if (path.endsWith('.job.yaml')) return 'Job';
    if (/^stacks\/[^/]+\.yaml$/.test(path)) return 'Stack';
    return path === 'fleet.yaml' ? 'Fleet' : null;
  };
  for (const folder of ['apps', 'fixtures/app-fleet'])
    for (const [path, text] of Object.entries(filesOf(join(root, folder)))) {
      const kind = kindOf(path);
      if (kind) expect([path, checkText(kind, path, text).diagnostics]).toEqual([path, []]);
    }
});
