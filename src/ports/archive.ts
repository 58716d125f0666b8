// Archive store port: blobs by digest and manifests by id, each written once. What is listed is whole: an interrupted archive never is.
// It knows neither how payloads are captured nor who may restore them.
import type { BlobRef } from '../core/archive/manifest.ts';

export interface StoredManifest {
  readonly id: string;
  /** Canonical JSON; its SHA-256 is the id. */
  readonly bytes: Uint8Array;
  /** As it was put; nobody has checked whose it is. */
  readonly signature: string;
}

export type Listed =
  | {
      readonly kind: 'archive';
      readonly id: string;
      readonly stack: string;
      readonly group: string | null;
      readonly purpose: 'backup' | 'safety';
      readonly madeAtMs: number;
      /** Of its distinct blobs; archives share blobs, so sums over archives are more than what lies on the disk. */
      readonly sizeBytes: number;
      readonly blobs: number;
    }
  | {
      readonly kind: 'group';
      readonly id: string;
      readonly group: string;
      readonly madeAtMs: number;
      readonly members: readonly { readonly stack: string; readonly archive: string }[];
    }
  /** It is there, but its manifest cannot be read: never taken for gone. */
  | { readonly kind: 'damaged'; readonly id: string; readonly code: string; readonly why: string };

export interface Collected {
  readonly blobs: number;
  readonly sizeBytes: number;
}

export interface Verification {
  readonly id: string;
  /** Distinct blobs that were read, of a group those of all members. */
  readonly blobs: number;
  readonly sizeBytes: number;
  /** Empty = all is right. `what` also names manifests of members. */
  readonly wrong: readonly {
    readonly digest: string;
    readonly kind: 'blob' | 'manifest';
    readonly what: 'missing' | 'damaged';
  }[];
}

/**
 * One object is one writer: two backups at once take one each, else what the one releases is no longer kept for the other.
 * Faults of every call: ARCHIVE_FAILED when the disk refuses, CANCELLED when the signal says so. Ids and digests are 64 lower-case hex
 * digits; anything else is ARCHIVE_INVALID.
 */
export interface ArchiveStore {
  /**
   * Stores what `source` gives. On disk when it returns; nothing is left of it when it throws. It is kept from `collect` while this process
   * lives, until a manifest names it or `release` lets it go. An error of the source is thrown on as it is.
   * Faults: ARCHIVE_NO_SPACE; ARCHIVE_DAMAGED when it is not what `expected` says.
   */
  putBlob(source: AsyncIterable<Uint8Array>, signal?: AbortSignal, expected?: BlobRef): Promise<BlobRef>;
  /** Is it there, by its name and, when that is given, its size? When it is, it is kept from `collect` as one that was put. */
  hasBlob(digest: string, sizeBytes?: number): Promise<boolean>;
  /** Throws ARCHIVE_MISSING at its beginning, or ARCHIVE_DAMAGED at its end when it was not what its digest says. */
  readBlob(digest: string, signal?: AbortSignal): AsyncIterable<Uint8Array>;
  /** The writer needs them no more: no manifest will name them. */
  release(digests: readonly string[]): Promise<void>;

  /**
   * Lists an archive or group whose blobs or members are all there. On disk when it returns; the same manifest again changes nothing.
   * Faults: ARCHIVE_MISSING when something that it names is not there; ARCHIVE_INVALID, ARCHIVE_HOSTILE, ARCHIVE_TOO_NEW, ARCHIVE_NO_SPACE.
   */
  putManifest(bytes: Uint8Array, signature: string): Promise<string>;
  /** Faults: ARCHIVE_MISSING; ARCHIVE_DAMAGED when it is not what its id says. */
  manifest(id: string): Promise<StoredManifest>;
  /** Newest first. */
  list(): Promise<readonly Listed[]>;
  /** False when it was not there. Its blobs stay until `collect`. Fault ARCHIVE_IN_USE while a group names it. */
  remove(id: string): Promise<boolean>;
  /**
   * Removes blobs that no manifest, no living writer and none of `pins` (digests) names, and what dead writers left.
   * Fault ARCHIVE_DAMAGED when a manifest cannot be read: then it is not known which blobs are needed, and nothing is removed.
   */
  collect(pins?: Iterable<string>): Promise<Collected>;
  /** Reads everything again. Faults: ARCHIVE_MISSING, ARCHIVE_DAMAGED of the manifest itself. */
  verify(id: string, signal?: AbortSignal): Promise<Verification>;
  /** What may still be put; null when that is not known. */
  freeBytes(): Promise<number | null>;
  /** Releases everything that was put and that no manifest names. It may be used again afterwards. */
  close(): Promise<void>;
}
