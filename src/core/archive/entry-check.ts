// Entry check: may the entries of a tar stream be written below a fresh folder. Archives are hostile input: this is asked before anything
// is written. It looks at names, kinds, links and sizes, one entry after the other; it never reads or writes a file.
import { pathMistake, plainPath } from './safe-path.ts';

const WRITTEN = ['file', 'directory', 'symlink', 'hardlink', 'fifo'] as const;
type WrittenType = (typeof WRITTEN)[number];

/** What is asked of an entry; a `TarEntry` is one. */
export interface ArchiveEntry {
  /** As it stands in the stream. */
  readonly path: string;
  /** file, directory, symlink, hardlink, fifo; everything else is refused. */
  readonly type: string;
  /** Bytes of a file as it will lie on the disk; 0 otherwise. */
  readonly size: number;
  /** Of a symlink or hard link; null otherwise. */
  readonly linkTarget: string | null;
}

export interface EntryLimits {
  readonly maxEntries: number;
  readonly maxFileBytes: number;
  readonly maxTotalBytes: number;
  /**
   * `leaf`: a symlink may point anywhere, because nothing is ever written or read through it (data of a container rightly holds links that
   * mean something only there). `inside`: it must stay below the folder, for trees that this host itself reads.
   */
  readonly symlinks: 'leaf' | 'inside';
}

export const ENTRY_LIMITS: EntryLimits = {
  maxEntries: 20_000_000,
  maxFileBytes: 64 * 1024 ** 4,
  maxTotalBytes: 256 * 1024 ** 4,
  symlinks: 'leaf',
};

export const ENTRY_CODES = {
  ENTRY_NAME_EMPTY: 'has no name',
  ENTRY_NAME_NUL: 'has a NUL in its name or target',
  ENTRY_NAME_LONG: 'has a name that is longer than a file system takes',
  ENTRY_ABSOLUTE: 'has an absolute path',
  ENTRY_PARENT: 'has `..` in its path',
  ENTRY_DEVICE: 'is a device node',
  ENTRY_TYPE_UNKNOWN: 'is of a kind that is never written',
  ENTRY_DUPLICATE: 'is there twice',
  ENTRY_BELOW_FILE: 'lies below something that is no folder',
  ENTRY_THROUGH_LINK: 'lies below a symlink',
  ENTRY_LINK_ESCAPE: 'is a link that leads out of its tree',
  ENTRY_LINK_DANGLING: 'is a hard link to no file before it',
  ENTRY_SIZE_INVALID: 'has a size that is no size',
  ENTRY_TOO_LARGE: 'is larger than allowed',
  ENTRIES_TOO_MANY: 'is one entry more than allowed',
  ENTRIES_TOO_LARGE: 'makes the whole larger than allowed',
} as const;
export type EntryCode = keyof typeof ENTRY_CODES;

export interface EntryMistake {
  readonly code: EntryCode;
  /** Cut when long; control characters escaped. */
  readonly path: string;
  readonly summary: string;
}

const BY_PATH = {
  empty: 'ENTRY_NAME_EMPTY',
  nul: 'ENTRY_NAME_NUL',
  absolute: 'ENTRY_ABSOLUTE',
  parent: 'ENTRY_PARENT',
  'too-long': 'ENTRY_NAME_LONG',
} as const;

/** Checks a stream entry by entry. Memory grows with the number of names, never with their content. */
export class EntryCheck {
  readonly #limits: EntryLimits;
  /** Every path seen → what it is; folders that are only implied are `directory` too. */
  readonly #kinds = new Map<string, WrittenType>();
  /** Paths that were named themselves, not only implied. */
  readonly #named = new Set<string>();
  #count = 0;
  #bytes = 0;

  constructor(limits: EntryLimits = ENTRY_LIMITS) {
    this.#limits = limits;
  }

  /** Null when the entry may be written. After a mistake the rest of the stream is not judged. */
  add(entry: ArchiveEntry): EntryMistake | null {
    const code = this.#mistake(entry);
    if (code === null) return null;
    const path = shownPath(entry.path);
    return { code, path, summary: `${path} ${ENTRY_CODES[code]}` };
  }

  #mistake(entry: ArchiveEntry): EntryCode | null {
    const { path, type, size, linkTarget: target } = entry;
    if (++this.#count > this.#limits.maxEntries) return 'ENTRIES_TOO_MANY';
    if (!Number.isSafeInteger(size) || size < 0) return 'ENTRY_SIZE_INVALID';
    if (size > this.#limits.maxFileBytes) return 'ENTRY_TOO_LARGE';
    this.#bytes += size;
    if (this.#bytes > this.#limits.maxTotalBytes) return 'ENTRIES_TOO_LARGE';
    if (target?.includes('\0')) return 'ENTRY_NAME_NUL';
    if (type.endsWith('-device')) return 'ENTRY_DEVICE';
    const kind = WRITTEN.find((one) => one === type);
    if (kind === undefined) return 'ENTRY_TYPE_UNKNOWN';
    const isRoot = kind === 'directory' && /^\.(\/+\.?)*$/.test(path);
    const wrong = isRoot ? null : pathMistake(path);
    if (wrong !== null) return BY_PATH[wrong];
    const plain = plainPath(path);
    if (this.#named.has(plain)) return 'ENTRY_DUPLICATE';
    const above = this.#blockedBy(plain);
    if (above !== null) return above;
    const known = this.#kinds.get(plain);
    // Something was already put below it, so it is a folder.
    if (known === 'directory' && kind !== 'directory') return 'ENTRY_DUPLICATE';
    const link = this.#linkMistake(plain, kind, target);
    if (link !== null) return link;
    this.#named.add(plain);
    this.#kinds.set(plain, kind);
    this.#implyFolders(plain);
    return null;
  }

  #blockedBy(plain: string): EntryCode | null {
    for (let cut = plain.indexOf('/'); cut >= 0; cut = plain.indexOf('/', cut + 1)) {
      const kind = this.#kinds.get(plain.slice(0, cut));
      if (kind === 'symlink') return 'ENTRY_THROUGH_LINK';
      if (kind !== undefined && kind !== 'directory') return 'ENTRY_BELOW_FILE';
    }
    return null;
  }

  #implyFolders(plain: string): void {
    for (let cut = plain.lastIndexOf('/'); cut > 0; cut = plain.lastIndexOf('/', cut - 1)) {
      const folder = plain.slice(0, cut);
      if (this.#kinds.has(folder)) return;
      this.#kinds.set(folder, 'directory');
    }
  }

  #linkMistake(plain: string, kind: WrittenType, target: string | null): EntryCode | null {
    if (kind === 'hardlink') {
      const wrong = pathMistake(target ?? '');
      if (wrong === 'absolute' || wrong === 'parent') return 'ENTRY_LINK_ESCAPE';
      if (wrong !== null) return 'ENTRY_LINK_DANGLING';
      // Named before, itself and not through a link: else it could reach a file of the host.
      const linked = plainPath(target!);
      const to = this.#named.has(linked) ? this.#kinds.get(linked) : undefined;
      return to === undefined || to === 'directory' ? 'ENTRY_LINK_DANGLING' : null;
    }
    if (kind !== 'symlink') return null;
    if (target === null || target === '') return 'ENTRY_LINK_DANGLING';
    if (this.#limits.symlinks === 'leaf') return null;
    return leadsOut(plain, target) ? 'ENTRY_LINK_ESCAPE' : null;
  }
}

/** Read by words alone: a target that goes up through another link is out as well, since every step up is counted. */
function leadsOut(link: string, target: string): boolean {
  if (target.startsWith('/')) return true;
  let depth = link.split('/').length - 1;
  for (const part of target.split('/')) {
    if (part === '' || part === '.') continue;
    depth += part === '..' ? -1 : 1;
    if (depth < 0) return true;
  }
  return false;
}

// A name of an archive must not move the cursor of a terminal.
const shownPath = (path: string): string => {
  const text = JSON.stringify(path).slice(1, -1);
  return text.length > 200 ? `${text.slice(0, 199)}…` : text;
};

/** The first mistake of a whole list, or null. */
export function checkEntries(entries: Iterable<ArchiveEntry>, limits: EntryLimits = ENTRY_LIMITS): EntryMistake | null {
  const check = new EntryCheck(limits);
  for (const entry of entries) {
    const mistake = check.add(entry);
    if (mistake !== null) return mistake;
  }
  return null;
}
