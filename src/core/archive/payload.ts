// Payload record: what one captured tree or file is once it lies in an archive, as its writer and every reader agree on it.
// Never the bytes themselves, and never how they are moved.

export interface PayloadRecord {
  readonly kind: 'volume' | 'bind' | 'file';
  readonly name: string;
  /** Format of the stored blob. */
  readonly format: 'tar+zstd' | 'raw+zstd';
  /** SHA-256 of the plain tar stream, 64 hex digits. */
  readonly plainDigest: string;
  readonly plainBytes: number;
  /** The stored (compressed) bytes: SHA-256 as 64 hex digits. */
  readonly blob: { readonly digest: string; readonly sizeBytes: number };
  /** The canonical list of entries: how many, and its SHA-256. */
  readonly entries: { readonly count: number; readonly digest: string };
  /** Owner and mode of the tree's own folder; null for what has none. */
  readonly root: { readonly uid: number; readonly gid: number; readonly mode: string } | null;
  /** How the bytes were read. */
  readonly way: 'host-path' | 'helper-container' | 'engine-api' | 'memory';
  /** What that way could not see (setuid bits, xattrs); empty = everything was captured. */
  readonly notCaptured: readonly string[];
}
