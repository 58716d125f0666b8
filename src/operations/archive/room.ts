// Room: is there space for what is to be restored, before anything of it is written. It knows what can be seen from here, and reserves nothing.
import type { Manifest } from '../../core/archive/manifest.ts';
import { Fault } from '../../core/fault.ts';
import type { Disk } from '../../ports/payloads.ts';
import type { House } from '../house.ts';

/** Of all of them together: each alone may fit. Throws PAYLOAD_NO_SPACE, ARCHIVE_NO_SPACE. */
export async function checkRoom(house: House, manifests: readonly Manifest[], signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { archives, payloads } = house;
  if (!archives || !payloads) throw new Error('room is asked for where nothing can be restored');
  const all = manifests.flatMap((one) => one.payloads);
  const bytesOf = (isFolder: boolean): number =>
    all.filter((one) => (one.kind === 'bind') === isFolder).reduce((sum, one) => sum + one.plainBytes, 0);
  const volumes = await payloads.diskOf('volumes', signal);
  const folders = await payloads.diskOf({ folder: `${house.settings.stateDir}/stacks` }, signal);
  const needed = new Map<string, { readonly disk: Disk; readonly bytes: number }>();
  for (const [disk, bytes] of [
    [volumes, bytesOf(false)],
    [folders, bytesOf(true)],
  ] as const)
    if (disk) needed.set(disk.id, { disk, bytes: bytes + (needed.get(disk.id)?.bytes ?? 0) });
  for (const { disk, bytes } of needed.values())
    if (disk.freeBytes < bytes)
      throw new Fault(
        'PAYLOAD_NO_SPACE',
        `the data needs ${mebibytes(bytes)} at ${disk.path}, and ${mebibytes(disk.freeBytes)} are free`,
        { data: { neededBytes: bytes, freeBytes: disk.freeBytes } },
      );
  if (volumes !== null || archives.isRemote) return;
  // The engine's disk is not to be seen; a store on this machine most often lies on the same one.
  const freeBytes = await archives.store.freeBytes();
  const neededBytes = bytesOf(false) + bytesOf(true);
  if (freeBytes !== null && freeBytes < neededBytes)
    throw new Fault(
      'ARCHIVE_NO_SPACE',
      `the data needs ${mebibytes(neededBytes)}, and ${mebibytes(freeBytes)} are free`,
      { data: { neededBytes, freeBytes } },
    );
}

export const mebibytes = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
