// Reads the whole tree of a commit into a listing. Trees are remembered by id, so that a commit that touches one folder
// costs only the trees on its way. A tree on which two readers could disagree is refused.
import { Fault } from '../../core/fault.ts';
import type { Listing, TreeEntry } from '../../core/state/listing.ts';
import type { ObjectReader } from './object-reader.ts';

const MAX_TREE_BYTES = 16 * 1024 * 1024;
const MAX_DEPTH = 64;
const MAX_ENTRIES = 200_000;
const MAX_PATH_LENGTH = 4_096;
/** Entries of remembered trees, all together: about two fleets of the largest size. */
const MAX_REMEMBERED = 2 * MAX_ENTRIES;

interface NamedEntry {
  readonly name: string;
  readonly mode: TreeEntry['mode'] | 'tree';
  readonly oid: string;
}

type Tree = readonly NamedEntry[];

export class TreeReader {
  readonly #reader: ObjectReader;
  /** In order of last use. */
  readonly #trees = new Map<string, Tree>();
  #remembered = 0;

  constructor(reader: ObjectReader) {
    this.#reader = reader;
  }

  async list(commit: string, root: string): Promise<Listing> {
    await this.#load(root);
    const entries: TreeEntry[] = [];
    const trees = new Map<string, string>();
    this.#walk(root, '', 0, entries, trees);
    return { commit, entries, trees };
  }

  /** Level by level, all unknown trees of one level asked for at once. */
  async #load(root: string): Promise<void> {
    let level: ReadonlySet<string> = new Set([root]);
    const seen = new Set<string>();
    let entries = 0;
    for (let depth = 0; level.size > 0; depth += 1) {
      if (depth > MAX_DEPTH) throw refuse(root, `is more than ${MAX_DEPTH} folders deep`);
      const trees = await Promise.all([...level].map((oid) => this.#tree(oid)));
      const next = new Set<string>();
      for (const oid of level) seen.add(oid);
      for (const tree of trees) {
        entries += tree.length;
        for (const entry of tree) if (entry.mode === 'tree' && !seen.has(entry.oid)) next.add(entry.oid);
      }
      if (entries > MAX_ENTRIES) throw refuse(root, `has more than ${MAX_ENTRIES} files`);
      level = next;
    }
  }

  #walk(oid: string, prefix: string, depth: number, entries: TreeEntry[], trees: Map<string, string>): void {
    if (depth > MAX_DEPTH) throw refuse(oid, `is more than ${MAX_DEPTH} folders deep`);
    trees.set(prefix === '' ? '' : prefix.slice(0, -1), oid);
    for (const { name, mode, oid: child } of this.#trees.get(oid)!) {
      const path = prefix + name;
      if (path.length > MAX_PATH_LENGTH) throw refuse(oid, `has a path of more than ${MAX_PATH_LENGTH} characters`);
      if (mode === 'tree') this.#walk(child, `${path}/`, depth + 1, entries, trees);
      else entries.push({ path, mode, oid: child });
      // The same tree may stand in many places: counting places, not trees, is what stops a tree that folds itself.
      if (entries.length + trees.size > MAX_ENTRIES) throw refuse(oid, `has more than ${MAX_ENTRIES} files`);
    }
  }

  async #tree(oid: string): Promise<Tree> {
    const known = this.#trees.get(oid);
    if (known !== undefined) {
      this.#trees.delete(oid);
      this.#trees.set(oid, known);
      return known;
    }
    const { type, bytes } = await this.#reader.read(oid, MAX_TREE_BYTES);
    if (type !== 'tree') throw refuse(oid, `is a ${type}`);
    const tree = parseTree(oid, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    this.#trees.set(oid, tree);
    this.#remembered += tree.length + 1;
    return tree;
  }

  /** Forgets what was not used for longest; only between listings, which rely on what they loaded. */
  trim(): void {
    for (const [oid, tree] of this.#trees) {
      if (this.#remembered <= MAX_REMEMBERED) return;
      this.#trees.delete(oid);
      this.#remembered -= tree.length + 1;
    }
  }
}

/** Exported for its tests. Throws GIT_REFUSED. */
export function parseTree(oid: string, bytes: Buffer): Tree {
  const entries: NamedEntry[] = [];
  const names = new Set<string>();
  let previous: Buffer | null = null;
  let at = 0;
  while (at < bytes.length) {
    const space = bytes.indexOf(0x20, at);
    const nul = space < 0 ? -1 : bytes.indexOf(0, space);
    if (nul < 0 || nul + 21 > bytes.length) throw refuse(oid, 'is cut off');
    const mode = readMode(oid, bytes.toString('latin1', at, space));
    const raw = bytes.subarray(space + 1, nul);
    const name = readName(oid, raw);
    if (names.has(name)) throw refuse(oid, `names ${quote(name)} twice`);
    names.add(name);
    const sortKey: Buffer = mode === 'tree' ? Buffer.concat([raw, Buffer.of(0x2f)]) : raw;
    if (previous !== null && Buffer.compare(previous, sortKey) >= 0) throw refuse(oid, 'is not sorted');
    previous = sortKey;
    entries.push({ name, mode, oid: bytes.toString('hex', nul + 1, nul + 21) });
    at = nul + 21;
  }
  return entries;
}

function readMode(oid: string, text: string): NamedEntry['mode'] {
  if (!/^0?[0-7]{5,6}$/.test(text)) throw refuse(oid, `has the mode ${quote(text)}`);
  const mode = Number.parseInt(text, 8);
  switch (mode & 0o170000) {
    case 0o040000:
      return 'tree';
    case 0o100000:
      // Old tools wrote group bits; git reads only whether the owner may execute it.
      return (mode & 0o100) === 0 ? '100644' : '100755';
    case 0o120000:
      return '120000';
    case 0o160000:
      return '160000';
    default:
      throw refuse(oid, `has the mode ${quote(text)}`);
  }
}

function readName(oid: string, raw: Buffer): string {
  if (raw.length === 0) throw refuse(oid, 'has an entry without a name');
  const name = decodeName(raw);
  if (name.includes('/')) throw refuse(oid, `has an entry with a slash in its name, ${quote(name)}`);
  if (name === '.' || name === '..') throw refuse(oid, `has an entry named ${quote(name)}`);
  if (isDotGit(name)) throw refuse(oid, `has an entry named ${quote(name)}, which git keeps for itself`);
  return name;
}

/** `.git` in the spellings that some file system takes for it. */
function isDotGit(name: string): boolean {
  const plain = name.normalize('NFC').replace(/[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u206a-\u206f\ufeff]/g, '');
  return /^(\.git|git~1)[ .]*(:.*)?$/i.test(plain);
}

/**
 * UTF-8; a byte that is not becomes a lone surrogate (U+DC80–U+DCFF), which no well-formed name holds: two different
 * names stay different, and whoever writes files refuses just this one.
 */
function decodeName(raw: Buffer): string {
  const text = raw.toString('utf8');
  if (!text.includes('\ufffd') || Buffer.from(text, 'utf8').equals(raw)) return text;
  let name = '';
  for (let at = 0; at < raw.length; ) {
    const length = sequenceLength(raw[at]!);
    const part = raw.subarray(at, at + length);
    const decoded = part.toString('utf8');
    if (length > 0 && part.length === length && Buffer.from(decoded, 'utf8').equals(part)) {
      name += decoded;
      at += length;
    } else {
      name += String.fromCharCode(0xdc00 + raw[at]!);
      at += 1;
    }
  }
  return name;
}

function sequenceLength(first: number): number {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  if (first >= 0xf0 && first < 0xf5) return 4;
  return 0;
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 100));
}

function refuse(oid: string, what: string): Fault {
  return new Fault('GIT_REFUSED', `tree ${oid.slice(0, 12)} ${what}`, { data: { oid } });
}
