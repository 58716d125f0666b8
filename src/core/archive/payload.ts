// Payload record: what one captured tree or file is once it lies in an archive, as its writer and every reader agree on it.
// Never the bytes themselves, and never how they are moved.

/** One snapshot that holds one blob. What pins the bytes is the blob's own digest. */
export interface InRepository {
  /** Each of them 64 hex digits: a shorter id may come to name another one. */
  readonly repository: string;
  readonly snapshot: string;
  readonly tree: string;
}

export interface PayloadRecord {
  readonly kind: 'volume' | 'bind' | 'file';
  readonly name: string;
  /** Format of the blob; `tar` is the plain stream itself. */
  readonly format: 'tar+zstd' | 'raw+zstd' | 'tar';
  /** SHA-256 of the plain tar stream, 64 hex digits. */
  readonly plainDigest: string;
  readonly plainBytes: number;
  /** The stored bytes: SHA-256 as 64 hex digits. */
  readonly blob: { readonly digest: string; readonly sizeBytes: number };
  /** Where the blob lies when it lies in a restic repository; of a `tar` only. A store that has it as well needs no repository. */
  readonly restic?: InRepository;
  /** The canonical list of entries: how many, and its SHA-256. */
  readonly entries: { readonly count: number; readonly digest: string };
  /** Owner and mode of the tree's own folder; null for what has none. */
  readonly root: { readonly uid: number; readonly gid: number; readonly mode: string } | null;
  /** How the bytes were read. */
  readonly way: 'host-path' | 'helper-container' | 'engine-api' | 'memory';
  /** What that way could not see (setuid bits, xattrs); empty = everything was captured. */
  readonly notCaptured: readonly string[];
}
