// A commit made of texts, for the loader: the listing as git would give it, and a reader that counts what is asked for.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { type LoadCache, load } from '../../../src/core/spec/load.ts';
import type { LoadedFleet, Text } from '../../../src/core/spec/loaded.ts';
import type { Listing, TreeEntry } from '../../../src/core/state/listing.ts';

/** A file's text; a link is given as `{ link }`, a submodule as `{ submodule }`. */
export type Content =
  | string
  | { readonly link: string }
  | { readonly submodule: true }
  | { readonly refused: 'too-large' | 'not-utf8' };
export type Files = Readonly<Record<string, Content>>;

const sha = (text: string): string => createHash('sha1').update(text).digest('hex');
const bytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

export function listingOf(files: Files): Listing {
  const entries: TreeEntry[] = Object.entries(files)
    .map(([path, content]): TreeEntry => {
      if (typeof content === 'string') return { path, mode: '100644', oid: sha(content) };
      if ('link' in content) return { path, mode: '120000', oid: sha(content.link) };
      if ('submodule' in content) return { path, mode: '160000', oid: sha('commit') };
      return { path, mode: '100644', oid: sha(`refused ${content.refused}`) };
    })
    .sort((a, b) => bytes(a.path, b.path));
  const lines = new Map<string, string[]>([['', []]]);
  for (const entry of entries)
    for (let at = entry.path.lastIndexOf('/'); ; at = entry.path.lastIndexOf('/', at - 1)) {
      const folder = at < 0 ? '' : entry.path.slice(0, at);
      const list = lines.get(folder) ?? [];
      list.push(`${entry.mode} ${entry.oid} ${entry.path.slice(folder.length)}`);
      lines.set(folder, list);
      if (at <= 0) break;
    }
  if (entries.some((entry) => entry.path.includes('/')))
    lines.set(
      '',
      entries.map((entry) => `${entry.mode} ${entry.oid} ${entry.path}`),
    );
  return {
    commit: sha(entries.map((entry) => entry.path + entry.oid).join('\n')),
    entries,
    trees: new Map([...lines].map(([folder, list]) => [folder, sha(list.join('\n'))])),
  };
}

export interface LoadResult {
  readonly fleet: LoadedFleet;
  /** Every path that was asked for, in order, and in how many batches. */
  readonly asked: readonly string[];
  readonly batches: number;
}

export function loadFiles(
  files: Files,
  options: { readonly bundled?: Readonly<Record<string, string>>; readonly cache?: LoadCache } = {},
): LoadResult {
  const loading = load({ listing: listingOf(files), bundled: options.bundled ?? {} }, options.cache);
  const asked: string[] = [];
  let batches = 0;
  let step = loading.next();
  while (!step.done) {
    batches++;
    asked.push(...step.value);
    const texts = new Map<string, Text>();
    for (const path of step.value) {
      const content = files[path];
      if (content === undefined) texts.set(path, { refused: 'missing' });
      else if (typeof content === 'string') texts.set(path, content);
      else if ('link' in content) texts.set(path, content.link);
      else if ('submodule' in content) throw new Error(`a submodule has no text: ${path}`);
      else texts.set(path, { refused: content.refused });
    }
    step = loading.next(texts);
  }
  return { fleet: step.value, asked, batches };
}

/** All files below a folder of the disk, as a commit. */
export function filesOf(root: string): Record<string, string> {
  const files: Record<string, string> = {};
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) {
      const path = join(entry.parentPath, entry.name);
      files[relative(root, path)] = readFileSync(path, 'utf8');
    }
  return files;
}

/** `file:line:column CODE summary`, for comparison. */
export const words = (fleet: LoadedFleet, stack?: string): string[] =>
  (stack === undefined ? fleet.diagnostics : (fleet.broken.get(stack) ?? [])).map(
    (one) => `${one.place?.file}:${one.place?.line}:${one.place?.column} ${one.code} ${one.summary}`,
  );
