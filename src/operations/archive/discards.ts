// Discards: the live data that a restore takes the place of, or a purge removes: which, how much of it at most, and since when. Reads only.
import type { Manifest } from '../../core/archive/manifest.ts';
import type { Generation } from '../../core/render/variant.ts';
import { formatSize } from '../../core/size.ts';
import type { Applied } from '../../core/state/applied.ts';
import type { House } from '../house.ts';
import { generationOf, NO_GENERATION, originalFolder } from './generations.ts';

/** By its name in the engine or its absolute path. */
export interface Replaced {
  readonly kind: 'volume' | 'folder';
  readonly name: string;
}

export interface Discard extends Replaced {
  readonly stack: string;
  /** No more than this: the engine adds the lengths of the files up, holes too. Null = not to be measured. */
  readonly sizeBytesAtMost: number | null;
  /** What was written later is not in the archive. Null = nothing takes its place: all of it goes. */
  readonly sinceMs: number | null;
}

type ManifestVolume = Manifest['volumes'][number];

export const isElsewhere = (one: ManifestVolume): boolean =>
  one.driver !== 'local' || one.driverOpts['device'] !== undefined;

/** Volumes that a restore makes anew: those with data in it, and those that the jobs of a first boot rebuild, which must not be the live ones. */
export const volumesMade = (manifest: Manifest): readonly ManifestVolume[] =>
  manifest.volumes.filter(
    (one) =>
      !one.external &&
      (one.payload !== null || (manifest.boot.kind === 'double' && one.payload === null && !isElsewhere(one))),
  );

export function replacedBy(
  house: House,
  applied: Applied | null,
  made: { readonly volumes: readonly string[]; readonly folders: readonly string[] },
): readonly Replaced[] {
  if (!applied) return [];
  const tree = `${house.settings.stateDir}/stacks/${applied.stack}/tree`;
  const before: Generation = generationOf(house.store, applied.stack) ?? NO_GENERATION;
  return [
    ...applied.desired.volumes
      .filter((one) => !one.external && made.volumes.includes(one.key))
      .map(({ name }) => ({ kind: 'volume' as const, name })),
    ...made.folders.map((path) => ({ kind: 'folder' as const, name: `${tree}/${before.folders[path] ?? path}` })),
  ];
}

/** Told from the manifest and the state alone. */
export const replacedFrom = (house: House, applied: Applied | null, manifest: Manifest): readonly Replaced[] =>
  replacedBy(house, applied, {
    volumes: volumesMade(manifest).map(({ key }) => key),
    folders: manifest.payloads.filter(({ kind }) => kind === 'bind').map(({ name }) => originalFolder(name)),
  });

export async function measured(
  { payloads }: House,
  stack: string,
  replaced: readonly Replaced[],
  sinceMs: number | null,
  signal: AbortSignal,
): Promise<readonly Discard[]> {
  const found: Discard[] = [];
  for (const { kind, name } of replaced) {
    // Shown as unknown: what cannot be measured is told all the same.
    const size = kind === 'volume' ? await payloads?.volumeSizeBytes(name, signal).catch(() => null) : null;
    found.push({ kind, name, stack, sizeBytesAtMost: size ?? null, sinceMs });
  }
  return found;
}

export const instant = (ms: number): string => new Date(ms).toISOString().slice(0, 16).replace('T', ' ');

const nameOf = ({ kind, name, sizeBytesAtMost }: Discard): string =>
  `${kind} ${name}${sizeBytesAtMost === null ? '' : ` (up to ${formatSize(sizeBytesAtMost)})`}`;

export const formatDiscard = (one: Discard): string =>
  one.sinceMs === null
    ? `${nameOf(one)} is removed with all that is in it`
    : `${nameOf(one)} is replaced; what was written to it since ${instant(one.sinceMs)} is discarded`;

/** The same once it was done. */
export const formatDiscarded = (one: Discard): string =>
  one.sinceMs === null
    ? `${nameOf(one)}, all of it`
    : `${nameOf(one)}, what was written to it since ${instant(one.sinceMs)}`;
