// Way: one manner of reaching the bytes of a volume or folder. It moves plain tars; it neither compresses, checks nor verifies.
import type { PayloadRecord } from '../../core/archive/payload.ts';

/** Where the bytes are, known to exist. */
export type Place =
  | {
      readonly kind: 'volume';
      readonly name: string;
      readonly mountpoint: string;
      /** False when the engine mounts something over the mountpoint only while a container uses the volume. */
      readonly liesAtMountpoint: boolean;
    }
  | { readonly kind: 'folder'; readonly path: string };

export interface WayReadOptions {
  readonly signal: AbortSignal;
  readonly exclude: readonly string[];
  readonly allowChanging: boolean;
  /** Told before the stream ends. */
  readonly onNotCaptured: (words: string) => void;
  /** Told while nothing comes, before it is given up. */
  readonly onStill?: ((words: string) => void) | undefined;
}

export interface WayWriteOptions {
  readonly signal: AbortSignal;
  readonly root: PayloadRecord['root'];
  /** The payload holds attributes that only a privileged program may set. */
  readonly hasTrustedAttributes: boolean;
}

export interface Way {
  readonly kind: PayloadRecord['way'];
  /** Which equality a copy written this way shows when it is read this way. */
  readonly fidelity: 'exact' | 'portable';
  /** Null when it can be gone, else why not. */
  obstacle(place: Place, options: { readonly signal: AbortSignal; readonly excludes: boolean }): Promise<string | null>;
  /** Throws unless all was read; ends what it started when left early. */
  read(place: Place, options: WayReadOptions): AsyncIterable<Buffer>;
  write(place: Place, tar: AsyncIterable<Uint8Array>, options: WayWriteOptions): Promise<void>;
}

export const nameOf = (place: Place): string =>
  place.kind === 'volume' ? `the volume ${place.name}` : `the folder ${place.path}`;

/** On the engine's host. */
export const folderOf = (place: Place): string => (place.kind === 'volume' ? place.mountpoint : place.path);
