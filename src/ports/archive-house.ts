// Archives of the house: the store, and whose signatures on manifests count here.
import type { ArchiveStore } from './archive.ts';
import type { BlobRepository } from './blob-repository.ts';

/** Another store, which gets a copy of each archive. */
export interface Replica {
  readonly name: string;
  readonly store: ArchiveStore;
}

export interface ArchiveHouse {
  /** Also of what lies in the repository. */
  readonly store: ArchiveStore;
  /** The store without its replicas; absent = there are none. */
  readonly own?: ArchiveStore;
  /** The main store is on another machine: the room there says nothing of the room here. */
  readonly isRemote?: boolean;
  /** The folder of this host that the main store lies in; absent where it is on another machine. */
  readonly directory?: string;
  /** What the store lacks is read from them. */
  readonly replicas?: readonly Replica[];
  /** For payloads that a stack wants there. */
  readonly repository?: BlobRepository | null;
  /** One line: the controller's public key and its signature. Makes the key when there is none. */
  sign(bytes: Uint8Array): string;
  /** The public key that signed. Throws ARCHIVE_UNTRUSTED unless it is the controller's own, one that its configuration names, or among `also`. */
  check(bytes: Uint8Array, signature: string, also?: readonly string[]): string;
  /** Writes a .bak (or .bkg of a group). The file is whole when it returns; never over another one. */
  exportTo(id: string, path: string, signal: AbortSignal): Promise<{ readonly sizeBytes: number }>;
  /** Takes a .bak or .bkg in; each signature is checked before a blob is stored. */
  importFrom(
    path: string,
    signal: AbortSignal,
    also?: readonly string[],
  ): Promise<{ readonly id: string; readonly archives: readonly string[]; readonly sizeBytes: number }>;
  /** Age recipients to which secrets are sealed beside the controller's own. */
  readonly recipients: readonly string[];
}
