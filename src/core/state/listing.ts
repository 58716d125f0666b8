// Listing: the files of one commit, by path and object id.

export interface TreeEntry {
  /** Path from the repository's root, with `/`. */
  readonly path: string;
  readonly mode: '100644' | '100755' | '120000' | '160000';
  readonly oid: string;
}

export interface Listing {
  readonly commit: string;
  /** Blobs, links and submodules, sorted by path (byte order). */
  readonly entries: readonly TreeEntry[];
  /** Folder path ('' = root) → tree id. */
  readonly trees: ReadonlyMap<string, string>;
}
