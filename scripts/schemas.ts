// Writes the published JSON Schemas from the kinds in core/spec; with --check only says which differ, and exits 1 then.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KINDS, type Kind, schemaFile, schemaOf } from '../src/core/spec/kind.ts';

const folder = join(import.meta.dirname, '..', 'schemas');
const isCheck = process.argv.includes('--check');
const wanted = new Map(
  (Object.keys(KINDS) as Kind[]).map((kind) => [schemaFile(kind), `${JSON.stringify(schemaOf(kind), null, 2)}\n`]),
);

mkdirSync(folder, { recursive: true });
const present = readdirSync(folder).filter((name) => name.endsWith('.json'));
const textOf = (name: string) => (present.includes(name) ? readFileSync(join(folder, name), 'utf8') : null);
const differing = [...wanted].filter(([name, text]) => textOf(name) !== text).map(([name]) => name);
const extra = present.filter((name) => !wanted.has(name));

if (isCheck) {
  for (const name of differing) console.error(`schemas/${name} differs from src/core/spec: run \`npm run schemas\``);
  for (const name of extra) console.error(`schemas/${name} belongs to no kind: run \`npm run schemas\``);
  process.exitCode = differing.length + extra.length > 0 ? 1 : 0;
} else {
  for (const name of differing) writeFileSync(join(folder, name), wanted.get(name) ?? '');
  for (const name of extra) rmSync(join(folder, name));
  console.error(`schemas: ${differing.length} written, ${wanted.size - differing.length} as they were`);
}
