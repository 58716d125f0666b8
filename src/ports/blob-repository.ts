// Blob repository port: blobs in pieces, of which equal ones are kept once: for data that is big, or captured often. One writer at a
// time. It knows neither what the blobs hold nor which archive names them; who collects says what is needed.
import type { BlobRef } from '../core/archive/manifest.ts';
import type { InRepository } from '../core/archive/payload.ts';

export interface PutBlob {
  readonly blob: BlobRef;
  readonly restic: InRepository;
}

export interface BlobWriter {
  /**
   * Stores what `source` gives; whole and found again when it returns. An error of the source is thrown on as it is, and nothing is left
   * that anybody names. Faults: ARCHIVE_NO_SPACE, ARCHIVE_FAILED, CANCELLED.
   */
  put(
    source: AsyncIterable<Uint8Array>,
    options: { readonly stack: string; readonly signal: AbortSignal },
  ): Promise<PutBlob>;
  /** Lets the next one write. Not before the manifest that names what was put is stored. */
  close(): void;
}

/** Faults of every call: RESTIC_UNFIT, REPOSITORY_REFUSED, ARCHIVE_FAILED, CANCELLED. */
export interface BlobRepository {
  /**
   * Waits for its turn and makes sure that something can be put, so that what can be refused is refused before anything is touched.
   * Makes the repository when there never was one. Faults: REPOSITORY_LOCKED, LOCK_HELD.
   */
  open(signal: AbortSignal): Promise<BlobWriter>;
  /** Its id, so that it can be used; null = none was made yet. Changes nothing and waits for no lock. */
  look(signal: AbortSignal): Promise<string | null>;
  holds(place: InRepository, signal?: AbortSignal): Promise<boolean>;
  /** Throws ARCHIVE_MISSING at its beginning, or ARCHIVE_DAMAGED at its end when it was not that blob. Waits for no lock. */
  read(place: InRepository, blob: BlobRef, signal?: AbortSignal): AsyncIterable<Uint8Array>;
  /** A manifest that names them is stored. */
  named(places: readonly InRepository[]): Promise<void>;
  /** The manifest that named them is about to go. */
  unneeded(places: readonly InRepository[]): Promise<void>;
  /**
   * Removes what was said to be unneeded, and what was put and never named, unless `named` (snapshots of all manifests) holds it; nothing
   * else is ever removed. How many. Fault REPOSITORY_LOCKED when somebody else is in it.
   */
  collect(named: () => Promise<ReadonlySet<string>>): Promise<number>;
}
