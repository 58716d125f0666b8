// Remote objects: the few things that a store asks of another machine, by S3 or SFTP alike. Absent is an answer of the other side; whatever
// else keeps a call from being answered is thrown.
import type { BlobRef } from '../../core/archive/manifest.ts';

/** A list of more is none of a store: it is refused rather than held in memory. */
export const MOST_KEYS = 5_000_000;

export interface ObjectFacts {
  readonly key: string;
  readonly sizeBytes: number;
  /** By the clock of the other side. */
  readonly changedAtMs: number;
  /** Another one when the content is another one; null when that cannot be told. */
  readonly mark: string | null;
}

export interface Upload {
  write(chunk: Uint8Array): Promise<void>;
  /** Visible under its key, whole, when it returns. */
  putInPlace(key: string): Promise<void>;
  /** Takes away what was sent, as far as the other side can be reached. Nothing after `putInPlace`. */
  discard(): Promise<void>;
}

/** Faults: ARCHIVE_UNREACHABLE, ARCHIVE_DENIED, ARCHIVE_NO_SPACE, ARCHIVE_FAILED, CANCELLED. Keys: a-z, 0-9, `.`, `-`, `_` and `/`. */
export interface RemoteObjects {
  /** For people: the place without anything secret. */
  readonly place: string;
  /** Null when there is none. Throws ARCHIVE_DAMAGED when it is longer. */
  read(key: string, maxBytes: number): Promise<Uint8Array | null>;
  /** From that byte on. Null when there is none. One try: what breaks off throws Passing. */
  stream(key: string, fromByte: number, signal: AbortSignal | undefined): Promise<AsyncIterable<Uint8Array> | null>;
  /** Null when there is none. */
  sizeOf(key: string): Promise<number | null>;
  /** Whole or not at all, over what is there. Returns when, by the clock of the other side. */
  write(key: string, bytes: Uint8Array): Promise<number>;
  /** False when there is one, which stays; true also where the other side does not know the difference. */
  create(key: string, bytes: Uint8Array): Promise<boolean>;
  /** `name` is one of its own for what is not in place yet. With `expected` that alone will be put in place, under `key`. */
  upload(
    name: string,
    announced: { readonly key: string; readonly expected: BlobRef } | null,
    signal: AbortSignal | undefined,
  ): Upload;
  /** False when there was none. */
  remove(key: string): Promise<boolean>;
  /** Everything below a key that ends in `/`. Throws ARCHIVE_FAILED when that is more than `MOST_KEYS`, never a part of it. */
  list(folder: string): Promise<readonly ObjectFacts[]>;
  /** Takes away unfinished uploads that have no key yet. */
  sweep(olderThanMs: number): Promise<void>;
  freeBytes(): Promise<number | null>;
  close(): Promise<void>;
}
