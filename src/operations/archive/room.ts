// Room: is there space for what is to be restored, before anything of it is written. It knows what can be seen from here, and reserves nothing.
import type { Manifest } from '../../core/archive/manifest.ts';
import { Fault } from '../../core/fault.ts';
import { captures, effectiveSettings, isForRestic } from '../../core/spec/backup.ts';
import type { Disk } from '../../ports/payloads.ts';
import { stackAt } from '../hook-subject.ts';
import { backupOf } from '../hooks-of.ts';
import { InvalidStack, treeDirOf } from '../resolve.ts';
import type { Workbench } from '../workbench.ts';

export interface Coming {
  readonly manifest: Manifest;
  /** The name that it is restored under. */
  readonly target: string;
  /** What is deployed under that name is archived before, when something is. */
  readonly safety: boolean;
}

interface Need {
  readonly disk: Disk;
  readonly bytes: number;
}

/** Of all of them together: each alone may fit. Throws PAYLOAD_NO_SPACE, ARCHIVE_NO_SPACE. */
export async function checkRoom(bench: Workbench, coming: readonly Coming[], signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { archives, payloads, settings } = bench.house;
  if (!archives || !payloads) throw new Error('room is asked for where nothing can be restored');
  const bytesOf = ({ payloads: all }: Manifest, isFolder: boolean): number =>
    all.filter((one) => (one.kind === 'bind') === isFolder).reduce((sum, one) => sum + one.plainBytes, 0);
  const needed = new Map<string, Need>();
  const need = (disk: Disk | null, bytes: number): void => {
    if (disk)
      needed.set(disk.id, {
        disk: needed.get(disk.id)?.disk ?? disk,
        bytes: bytes + (needed.get(disk.id)?.bytes ?? 0),
      });
  };
  const volumes = await payloads.diskOf('volumes', signal);
  for (const { manifest, target } of coming) {
    need(volumes, bytesOf(manifest, false));
    // A disk may be mounted at the folder of one stack.
    need(await payloads.diskOf({ folder: treeDirOf(settings.stateDir, target) }, signal), bytesOf(manifest, true));
  }
  for (const { disk, bytes } of needed.values())
    if (disk.freeBytes < bytes) throw noRoom(`the data needs ${mebibytes(bytes)} at ${disk.path}`, bytes, disk);
  await checkSafety(bench, coming, needed, signal);
  if (volumes !== null || archives.isRemote) return;
  // The engine's disk is not to be seen; a store on this machine most often lies on the same one.
  const freeBytes = await archives.store.freeBytes();
  const neededBytes = coming.reduce((sum, one) => sum + bytesOf(one.manifest, false) + bytesOf(one.manifest, true), 0);
  if (freeBytes !== null && freeBytes < neededBytes)
    throw new Fault(
      'ARCHIVE_NO_SPACE',
      `the data needs ${mebibytes(neededBytes)}, and ${mebibytes(freeBytes)} are free`,
      { data: { neededBytes, freeBytes } },
    );
}

/**
 * The archive of the live data that is made before, where it lies on a disk that the data comes to as well. It takes no more than the live
 * volumes hold, which the engine adds up. What cannot be known is left out: the size of folders, a volume whose size the engine does not
 * tell, and a stack whose `backup.yaml` cannot be read now. Such an archive that finds no room changes nothing.
 */
async function checkSafety(
  bench: Workbench,
  coming: readonly Coming[],
  needed: ReadonlyMap<string, Need>,
  signal: AbortSignal,
): Promise<void> {
  const { archives, payloads } = bench.house;
  const directory = archives?.directory;
  if (directory === undefined || !payloads) return;
  const where = await payloads.diskOf({ folder: directory }, signal);
  const need = where && needed.get(where.id);
  if (!need || need.bytes === 0) return;
  let bytes = 0;
  for (const { target, safety } of coming)
    for (const name of safety ? await archivedVolumes(bench, target) : []) {
      signal.throwIfAborted();
      bytes += (await payloads.volumeSizeBytes(name, signal).catch(() => null)) ?? 0;
    }
  signal.throwIfAborted();
  const { disk } = need;
  if (disk.freeBytes < need.bytes + bytes)
    throw noRoom(
      `the data needs ${mebibytes(need.bytes)} at ${disk.path}, and the archive of the live data that is made before it up to ${mebibytes(bytes)} (none is made with \`safety: none\`)`,
      need.bytes + bytes,
      disk,
    );
}

/** Those of the live stack whose data comes into the archive store. */
async function archivedVolumes(bench: Workbench, target: string): Promise<readonly string[]> {
  const applied = bench.house.store.applied(target);
  if (!applied) return [];
  try {
    const { stack } = await stackAt(bench, applied.revision, target);
    const said = backupOf(stack);
    const settings = effectiveSettings(said, stack.backup as Parameters<typeof effectiveSettings>[1]);
    return applied.desired.volumes.flatMap(({ key, name, external }) => {
      const one = { kind: 'volume', name: key } as const;
      return external || !captures(said, one) || isForRestic(settings, one) ? [] : [name];
    });
  } catch (error) {
    if (error instanceof Fault || error instanceof InvalidStack) return [];
    throw error;
  }
}

const noRoom = (words: string, neededBytes: number, { freeBytes }: Disk): Fault =>
  new Fault('PAYLOAD_NO_SPACE', `${words}, and ${mebibytes(freeBytes)} are free`, { data: { neededBytes, freeBytes } });

const mebibytes = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
