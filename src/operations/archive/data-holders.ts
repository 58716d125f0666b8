// Data holders: what of a stack holds data, volumes and folders of its project that it mounts, under the names by which globs mean them
// whichever generation is live; and the globs that mean none of them. Reads only.
import { isAbsolute, relative } from 'node:path';
import { backupOf as readBackup } from '../../core/render/render.ts';
import { type Backup, globOf, type Holder, type IdleGlob, idleGlobs } from '../../core/spec/backup.ts';
import type { Diagnostic, Place } from '../../core/spec/diagnostic.ts';
import { parseDocument } from '../../core/spec/document.ts';
import type { LoadedStack } from '../../core/spec/loaded.ts';
import { didYouMean, listed } from '../../core/spec/suggest.ts';
import type { Desired } from '../../core/state/desired.ts';
import { type FleetAt, SPEC_BYTES } from '../fleet-at.ts';
import type { House } from '../house.ts';
import { projectDirOf, type Resolved, treeDirOf } from '../resolve.ts';
import { originalFolder } from './generations.ts';

export interface MountedFolder {
  readonly holder: Extract<Holder, { readonly kind: 'bind' }>;
  /** As it is mounted now, below the tree. */
  readonly path: string;
  readonly services: readonly string[];
  /** It is one file, which git brings. */
  readonly isOfGit: boolean;
}

interface Mount {
  readonly type: string;
  readonly source?: string;
  readonly target: string;
}

/** `text`: of the model. `elsewhere`: what holds data that cannot be captured, in words. */
export function mountsOf(
  stateDir: string,
  stack: LoadedStack,
  text: string,
): { readonly folders: readonly MountedFolder[]; readonly elsewhere: readonly string[] } {
  const tree = treeDirOf(stateDir, stack.name);
  const { services } = JSON.parse(text) as { services: Record<string, { volumes?: readonly Mount[] }> };
  const elsewhere: string[] = [];
  const users = new Map<string, string[]>();
  for (const [service, { volumes = [] }] of Object.entries(services))
    for (const { type, source = '', target } of volumes) {
      if (type === 'volume' && source === '') elsewhere.push(`the anonymous volume at ${target} of ${service}`);
      if (type !== 'bind') continue;
      const path = relative(tree, source);
      if (path === '' || path.startsWith('..') || isAbsolute(path))
        elsewhere.push(`${source} of ${service} lies outside of the project`);
      else users.set(path, [...(users.get(path) ?? []), service]);
    }
  const folder = projectDirOf(stateDir, stack);
  const folders = [...users].map(([path, by]): MountedFolder => {
    const name = originalFolder(path);
    return {
      holder: { kind: 'bind', name, written: relative(folder, `${tree}/${name}`) },
      path,
      services: by,
      isOfGit: stack.files.some((file) => file.path === path),
    };
  });
  return { folders, elsewhere };
}

export const holdersOf = ({ volumes }: Desired, folders: readonly MountedFolder[]): readonly Holder[] => [
  ...volumes.map(({ key }) => ({ kind: 'volume' as const, name: key })),
  ...folders.map(({ holder }) => holder),
];

const keyOf = ({ path }: IdleGlob): string => (path[0] === 'volumes' ? path.slice(0, 2).join('.') : String(path[0]));
export const idleWords = (idle: IdleGlob): string =>
  `\`${idle.glob}\` of \`${keyOf(idle)}\` matches no volume and no mounted folder`;

/** What is wrong with the globs of a stack and its app, once Compose has resolved it. Nothing is kept from running by it, and no archive
 * from being restored. */
export async function globMistakes(
  { source, settings }: Pick<House, 'source' | 'settings'>,
  stack: LoadedStack,
  at: FleetAt,
  resolved: Resolved,
): Promise<readonly Diagnostic[]> {
  const ofApp = stack.layout.kind === 'app' ? readBackup(stack.layout.app) : null;
  const { restic } = (stack.backup ?? {}) as Pick<Backup, 'restic'>;
  const { volumes, exclude, restic: resticOfApp } = ofApp?.value ?? ({} as Partial<Backup>);
  const said = {
    ...(volumes ? { volumes } : {}),
    ...(exclude ? { exclude } : {}),
    ...(restic === undefined && resticOfApp ? { restic: resticOfApp } : {}),
  };
  if (Object.keys(said).length === 0 && restic === undefined) return [];
  const { folders } = mountsOf(settings.stateDir, stack, await resolved.shown());
  const all = holdersOf(resolved.desired, folders);
  const there = [...new Set(all.map(globOf))].sort();
  const wrong = (idle: IdleGlob, place: Place): Diagnostic => ({
    severity: 'error',
    code: 'SPEC_INVALID',
    summary: idleWords(idle),
    detail: there.length === 0 ? 'the stack has none' : `expected one of ${listed(there)}, or a glob of them`,
    ...didYouMean(idle.glob, there),
    place,
    stack: stack.name,
  });
  const found = idleGlobs(said, all).map((idle) =>
    wrong(idle, ofApp?.place(idle.path, idle.path[0] === 'exclude' ? 'key' : 'value') ?? stack.place),
  );
  for (const idle of idleGlobs(restic === undefined ? {} : { restic }, all)) {
    const entry = at.listing.entries.find(({ path }) => path === stack.place.file);
    const text = entry ? Buffer.from(await source.blob(entry.oid, SPEC_BYTES)).toString('utf8') : '';
    found.push(
      wrong(idle, parseDocument(stack.place.file, text).parsed?.place(['backup', ...idle.path]) ?? stack.place),
    );
  }
  return found;
}
