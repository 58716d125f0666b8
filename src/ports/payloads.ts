// Payloads port: one volume or folder read as one tar stream, compressed as a rule, and written back into a fresh one that is then read
// again. A capture of less than everything fails; a live volume is never written into. Where the bytes are kept is not decided here.
import type { PayloadRecord } from '../core/archive/payload.ts';

/** What is read. `within` is the project folder that a bind mount may not lead out of. */
export type PayloadSource =
  | { readonly kind: 'volume'; readonly name: string }
  | { readonly kind: 'folder'; readonly path: string; readonly within: string };

/** What is made by a write, and removed again when it fails. */
export type PayloadTarget =
  | {
      readonly kind: 'volume';
      readonly name: string;
      /** Default `local`. */
      readonly driver?: string;
      readonly driverOpts?: Readonly<Record<string, string>>;
      readonly labels?: Readonly<Record<string, string>>;
    }
  | { readonly kind: 'folder'; readonly path: string; readonly within: string };

export type NewVolume = Extract<PayloadTarget, { kind: 'volume' }>;

/** The record as far as it is known before the compressed bytes are stored under a digest. */
export type PayloadFacts = Pick<
  PayloadRecord,
  'plainDigest' | 'plainBytes' | 'entries' | 'root' | 'way' | 'notCaptured'
>;

export interface PayloadReading {
  /**
   * The compressed bytes, or the plain tar when that was asked for; to be iterated once. It throws when the capture fails, so that its end is a whole payload.
   * Leaving it early ends the reading.
   */
  readonly stream: AsyncIterable<Uint8Array>;
  /** Settles once the stream has ended, with the same Fault when it failed. Nothing is read before the stream is iterated. */
  readonly done: Promise<PayloadFacts>;
}

export interface ReadPayloadOptions {
  readonly signal: AbortSignal;
  /** Globs below the root: `cache/*`; a `*` does not match a slash, and a folder leaves with all that is in it. */
  readonly exclude?: readonly string[];
  /** The tar itself, for who compresses it or leaves out what is known. Default no. */
  readonly plain?: boolean;
  /** Files that change while they are read are taken as they come. Default no: PAYLOAD_CHANGED. */
  readonly allowChanging?: boolean;
  /** Told while not a byte comes, before it is given up as PAYLOAD_STALLED: what stands still, and until when it is waited for. */
  readonly onStill?: (words: string) => void;
}

export interface WritePayloadOptions {
  readonly signal: AbortSignal;
  /** Without a format: `tar+zstd`. */
  readonly expected: Pick<PayloadRecord, 'plainDigest' | 'plainBytes' | 'entries' | 'root'> &
    Partial<Pick<PayloadRecord, 'format'>>;
}

export interface PayloadWritten {
  readonly way: PayloadRecord['way'];
  /** `bytes`: the tar of what was written equals the captured one. `content`: another tar of the same files, owners, modes, times, attributes. */
  readonly verifiedBy: 'bytes' | 'content';
  /** What this way cannot write although the payload holds it (setuid bits, …). Empty = all of it. */
  readonly notRestored: readonly string[];
}

export interface VolumeFacts {
  readonly name: string;
  readonly driver: string;
  readonly driverOpts: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  /** On the engine's host. */
  readonly mountpoint: string;
  /** As the engine says it: another volume of the same name has another one. */
  readonly createdAt: string;
}

export interface Disk {
  /** Another one for another file system. */
  readonly id: string;
  /** For people. */
  readonly path: string;
  readonly freeBytes: number;
}

export interface Payloads {
  /** Faults: PAYLOAD_MISSING, PAYLOAD_FAILED, PAYLOAD_CHANGED, PAYLOAD_STALLED, PAYLOAD_NO_WAY, CANCELLED, ENGINE_*. */
  read(source: PayloadSource, options: ReadPayloadOptions): PayloadReading;
  /**
   * Checks the whole blob, makes the target, extracts, reads it again. `open` gives the blob's bytes from their beginning,
   * twice. After a failure the target is gone again. Faults: PAYLOAD_EXISTS, PAYLOAD_CORRUPT, PAYLOAD_HOSTILE,
   * PAYLOAD_UNVERIFIED, PAYLOAD_STALLED, PAYLOAD_NO_SPACE, PAYLOAD_FAILED, PAYLOAD_NO_WAY, CANCELLED, ENGINE_*.
   */
  write(
    open: () => AsyncIterable<Uint8Array>,
    target: PayloadTarget,
    options: WritePayloadOptions,
  ): Promise<PayloadWritten>;
  /** Fault PAYLOAD_EXISTS when the name is taken. */
  createVolume(volume: NewVolume, signal: AbortSignal): Promise<void>;
  /** No mistake when it is not there. */
  removeVolume(name: string, signal: AbortSignal): Promise<void>;
  inspectVolume(name: string, signal: AbortSignal): Promise<VolumeFacts | null>;
  /** An estimate of the engine; null when it does not know. Slow on engines with much data. */
  volumeSizeBytes(name: string, signal: AbortSignal): Promise<number | null>;
  /** Where the engine keeps its volumes, or where a folder of this host lies; null when it cannot be seen from here. */
  diskOf(where: 'volumes' | { readonly folder: string }, signal: AbortSignal): Promise<Disk | null>;
  /** Removes what a killed process made to reach volumes with; names of what is gone. */
  sweepHelpers(hasEnded: (owner: string) => boolean, signal: AbortSignal): Promise<readonly string[]>;
  close(): void;
}
