// Hygiene: what may not lie in a stack's files, by name: links that leave, submodules, git's own names, names that disks confuse.
import type { TreeEntry } from '../state/listing.ts';
import type { Diagnostic } from './diagnostic.ts';
import type { Text } from './loaded.ts';
import { dirname, isBelow, resolvePath } from './repository-path.ts';
import type { Reading } from './together.ts';

const MOST_REFUSALS = 20;
const MAX_LINK_BYTES = 4096;

const refuse = (path: string, summary: string, detail: string, help: string): Diagnostic => ({
  severity: 'error',
  code: 'TREE_REFUSED',
  summary,
  detail,
  help,
  place: { file: path, line: 0, column: 0 },
});

const quoted = (path: string): string => JSON.stringify(path);

/** Names that some file system takes for `.git`: other case, trailing dots or spaces, the short name, an alternate stream, ignored characters. */
function isGitName(name: string): boolean {
  const bare = name
    .replace(/[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g, '')
    .replace(/:.*$/, '')
    .replace(/[. ]+$/, '')
    .toLowerCase();
  return bare === '.git' || bare === 'git~1';
}

function nameMistake(path: string): string | null {
  for (const name of path.split('/')) {
    if (name === '' || name === '.' || name === '..') return `the name ${quoted(name)} is no file's name`;
    if (isGitName(name)) return `${quoted(name)} is a name of git's own folder`;
    if (/[\\\u0000-\u001f\u007f]/.test(name)) return `${quoted(name)} holds a backslash or a control character`;
    if (Buffer.byteLength(name) > 255) return 'a name is longer than 255 bytes';
  }
  return null;
}

/** Where a link leads, or why it is refused. `..` is taken only in front: behind a name it could pass through another link. */
export function linkTarget(path: string, text: string): { readonly path: string } | { readonly wrong: string } {
  if (text === '') return { wrong: 'it points to nothing' };
  if (Buffer.byteLength(text) > MAX_LINK_BYTES) return { wrong: `its target is longer than ${MAX_LINK_BYTES} bytes` };
  if (/[\\\u0000-\u001f\u007f]/.test(text)) return { wrong: 'its target holds a backslash or a control character' };
  if (text.startsWith('/')) return { wrong: `it points to the absolute path ${quoted(text)}` };
  const parts = text.split('/').filter((part) => part !== '' && part !== '.');
  const named = parts.findIndex((part) => part !== '..');
  if (named >= 0 && parts.slice(named).includes('..'))
    return { wrong: `its target ${quoted(text)} goes up behind a name` };
  const target = resolvePath(dirname(path), text);
  if (target === null) return { wrong: `it points out of the repository, to ${quoted(text)}` };
  if (target.split('/').some(isGitName)) return { wrong: `it points into git's own folder, to ${quoted(text)}` };
  return { path: target };
}

export interface Inspected {
  readonly refusals: readonly Diagnostic[];
  /** The links and where they lead, as repository paths. */
  readonly targets: readonly { readonly link: string; readonly target: string }[];
}

/** Inspects the entries that go into one stack's folder. Asks for the texts of links only. */
export function* inspect(entries: readonly TreeEntry[]): Reading<Inspected> {
  const refusals: Diagnostic[] = [];
  const links = entries.filter((entry) => entry.mode === '120000');
  const texts: ReadonlyMap<string, Text> = links.length === 0 ? new Map() : yield links.map((link) => link.path);
  const targets: { link: string; target: string }[] = [];
  for (const entry of entries) {
    const wrong = nameMistake(entry.path);
    if (wrong !== null)
      refusals.push(
        refuse(entry.path, `${quoted(entry.path)} is refused: ${wrong}`, 'expected a plain name', 'rename it'),
      );
    if (entry.mode === '160000')
      refusals.push(
        refuse(
          entry.path,
          `${quoted(entry.path)} is refused: it is a submodule`,
          'Windlass reads one repository and never fetches another because of it',
          'copy the files into the repository',
        ),
      );
  }
  for (const link of links) {
    const text = texts.get(link.path);
    const target =
      typeof text === 'string'
        ? linkTarget(link.path, text)
        : { wrong: `its target cannot be read (${text?.refused ?? 'missing'})` };
    if ('wrong' in target)
      refusals.push(
        refuse(
          link.path,
          `the link ${quoted(link.path)} is refused: ${target.wrong}`,
          'expected a relative link that stays inside the repository',
          'point it to a file of the repository, or replace it by the file',
        ),
      );
    else targets.push({ link: link.path, target: target.path });
  }
  refusals.push(...collisions(entries));
  return { refusals: refusals.slice(0, MOST_REFUSALS), targets };
}

/** Paths that a disk without case would take for one. */
function collisions(entries: readonly TreeEntry[]): Diagnostic[] {
  const found: Diagnostic[] = [];
  const spelled = new Map<string, string>();
  let last = '';
  for (const { path } of entries) {
    for (let prefix = path; prefix !== '' && !(last !== '' && isBelow(last, prefix)); prefix = dirname(prefix)) {
      const folded = prefix.normalize('NFC').toLowerCase();
      const other = spelled.get(folded);
      if (other === undefined) spelled.set(folded, prefix);
      else if (other !== prefix) {
        found.push(
          refuse(
            prefix,
            `${quoted(prefix)} is refused: it differs from ${quoted(other)} only in case`,
            'on some disks the two are one file',
            'rename one of them',
          ),
        );
        break;
      }
    }
    last = path;
  }
  return found;
}
