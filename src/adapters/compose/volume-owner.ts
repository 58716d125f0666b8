// Volume owner: numeric owner and mode of a named volume's root, through a helper container that is created and never started.
// Nothing of the image is run, nothing below the root is touched, the helper is always removed.
import { createHash } from 'node:crypto';
import { Fault } from '../../core/fault.ts';
import type { ApiClient } from './api-client.ts';

const mountPoint = 'windlass-volume';
/** Lets helpers that a crash left behind be found. */
export const helperLabel = 'dev.windlass.helper';
/** Whose it is: host and process. */
export const helperOwnerLabel = 'dev.windlass.helper-owner';

export async function chownVolumeRoot(
  client: ApiClient,
  volume: string,
  owner: { readonly mode: string; readonly uid: number; readonly gid: number },
  image: string,
  signal: AbortSignal,
): Promise<void> {
  const mode = /^[0-7]{3,5}$/.test(owner.mode) ? Number.parseInt(owner.mode, 8) : Number.NaN;
  if (Number.isNaN(mode) || mode > 0o7777 || !isOwnerId(owner.uid) || !isOwnerId(owner.gid)) {
    throw new Error(`not an owner: ${JSON.stringify(owner)}`);
  }
  // Mounting a name that is not there would make a volume without labels, which Compose then takes for a stranger's.
  await client.send({ method: 'GET', path: `/volumes/${encodeURIComponent(volume)}`, signal });
  // One name a volume: a helper that a crash left behind is found and replaced.
  const name = `windlass-volume-owner-${createHash('sha256').update(volume).digest('hex').slice(0, 16)}`;
  await removeHelper(client, name);
  const { Id: id } = await client.json<{ Id: string }>({
    method: 'POST',
    path: '/containers/create',
    query: { name },
    body: {
      Image: image,
      // Never run; an image without a command is refused otherwise.
      Entrypoint: ['true'],
      Labels: { [helperLabel]: 'volume-owner' },
      NetworkDisabled: true,
      HostConfig: {
        NetworkMode: 'none',
        Mounts: [{ Type: 'volume', Source: volume, Target: `/${mountPoint}`, VolumeOptions: { NoCopy: true } }],
      },
    },
    signal,
  });
  try {
    await client.send({
      method: 'PUT',
      path: `/containers/${id}/archive`,
      query: { path: '/', noOverwriteDirNonDir: true },
      body: folderArchive(mountPoint, mode, owner.uid, owner.gid),
      signal,
    });
  } finally {
    // Also when the caller has given up; what it threw counts more than a helper that stays.
    await removeHelper(client, id).catch((error: unknown) => {
      if (!(error instanceof Fault)) throw error;
    });
  }
}

async function removeHelper(client: ApiClient, idOrName: string): Promise<void> {
  await client.send({
    method: 'DELETE',
    path: `/containers/${idOrName}`,
    query: { force: true, v: false },
    accept: [404, 409],
  });
}

function isOwnerId(id: number): boolean {
  // 7 octal digits are what the archive's field holds.
  return Number.isInteger(id) && id >= 0 && id <= 0o7777777;
}

/** A tar archive (ustar) of one empty folder. */
function folderArchive(name: string, mode: number, uid: number, gid: number): Buffer {
  const header = Buffer.alloc(512);
  const octal = (value: number, at: number, width: number) =>
    header.write(value.toString(8).padStart(width - 1, '0'), at, 'latin1');
  header.write(`${name}/`, 0, 'latin1');
  octal(mode, 100, 8);
  octal(uid, 108, 8);
  octal(gid, 116, 8);
  octal(0, 124, 12);
  octal(0, 136, 12);
  header.write('        ', 148, 'latin1');
  header.write('5', 156, 'latin1');
  header.write('ustar\x0000', 257, 'latin1');
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\x00 `, 148, 'latin1');
  return Buffer.concat([header, Buffer.alloc(1024)]);
}
