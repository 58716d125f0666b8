// Engine archive: the engine's own archive API on a container that is made for it and never started. The last resort: it
// loses attributes and parts of seconds when it reads, setuid bits when it writes, and says nothing of what it leaves out.
import { randomUUID } from 'node:crypto';
import { Fault } from '../../core/fault.ts';
import { type ApiClient, aborted } from '../compose/api-client.ts';
import { chownVolumeRoot, helperLabel, helperOwnerLabel } from '../compose/volume-owner.ts';
import type { Programs } from '../process/run.ts';
import { moving } from './stall.ts';
import { removeAfter } from './sweep-helpers.ts';
import { writeTar } from './tar-command.ts';
import { folderOf, nameOf, type Place, type Way } from './way.ts';

const MOUNT_POINT = '/payload';
const REMOVE_MS = 30_000;

export const ENGINE_LOSES_READING = [
  'extended attributes other than file capabilities',
  'access control lists',
  'parts of seconds of modification times',
  'sockets, and whatever the engine could not read: it does not say',
] as const;

export function openEngineArchive(options: {
  readonly programs: Programs;
  readonly client: ApiClient;
  readonly env: Readonly<Record<string, string>>;
  /** Any will do: nothing of it is run. Null = the first that the engine has. */
  readonly image: string | null;
  /** Of this process, for whoever sweeps. */
  readonly owner: string;
  readonly stallMs: number;
}): Way {
  const { programs, client, env, stallMs } = options;

  async function imageOf(signal: AbortSignal): Promise<string | null> {
    if (options.image !== null) {
      const path = `/images/${encodeURIComponent(options.image)}/json`;
      const { status } = await client.send({ method: 'GET', path, accept: [404], signal });
      if (status !== 404) return options.image;
    }
    const images = await client.json<readonly { Id: string }[]>({ method: 'GET', path: '/images/json', signal });
    return images[0]?.Id ?? null;
  }

  async function container(place: Place, signal: AbortSignal): Promise<{ id: string; image: string }> {
    if (place.kind !== 'volume') throw new Error('only volumes are reached this way');
    const image = await imageOf(signal);
    if (image === null) throw new Fault('PAYLOAD_NO_WAY', 'the engine has no image to make a helper of');
    // Not to be called off in the middle: one that is made unseen would stay.
    const { Id: id } = await client.json<{ Id: string }>({
      method: 'POST',
      path: '/containers/create',
      query: { name: `windlass-payload-${randomUUID()}` },
      body: {
        Image: image,
        Entrypoint: ['true'],
        Labels: { [helperLabel]: 'payload', [helperOwnerLabel]: options.owner },
        NetworkDisabled: true,
        HostConfig: {
          NetworkMode: 'none',
          Mounts: [{ Type: 'volume', Source: place.name, Target: MOUNT_POINT, VolumeOptions: { NoCopy: true } }],
        },
      },
    });
    return { id, image };
  }

  async function remove(id: string): Promise<void> {
    await client.send({
      method: 'DELETE',
      path: `/containers/${id}`,
      query: { force: true, v: false },
      accept: [404, 409],
      signal: AbortSignal.timeout(REMOVE_MS),
    });
  }

  return {
    kind: 'engine-api',
    fidelity: 'portable',
    async obstacle(place, { signal, excludes }) {
      if (place.kind !== 'volume') return "the engine's archive API is used for volumes only";
      if (excludes) return "the engine's archive API leaves nothing out";
      return (await imageOf(signal)) === null ? 'the engine has no image to make a helper of' : null;
    },
    async *read(place, { signal, onNotCaptured, onStill }) {
      const { id } = await container(place, signal);
      let hasFailed = false;
      try {
        const answer = await client.stream({
          method: 'GET',
          path: `/containers/${id}/archive`,
          query: { path: `${MOUNT_POINT}/.` },
          signal,
        });
        try {
          yield* moving(
            answer as AsyncIterable<Buffer>,
            stallMs,
            `the reading of ${nameOf(place)} stood still`,
            onStill,
          );
          if (!answer.complete) throw new Error('the answer was cut off');
        } catch (cause) {
          if (signal.aborted) throw aborted(signal);
          if (cause instanceof Fault) throw cause;
          throw new Fault('PAYLOAD_FAILED', `${nameOf(place)} could not be read as a whole from the engine`, { cause });
        } finally {
          answer.destroy();
        }
        for (const words of ENGINE_LOSES_READING) onNotCaptured(words);
      } catch (error) {
        hasFailed = true;
        throw error;
      } finally {
        await removeAfter(remove(id), hasFailed);
      }
    },
    async write(place, tar, { signal, root }) {
      const { id, image } = await container(place, signal);
      let hasFailed = false;
      try {
        // The docker client, because it takes a body of unknown length.
        const args = ['cp', '--quiet', '-', `${id}:${MOUNT_POINT}`];
        const child = await programs.spawnStream({ program: 'docker', args, cwd: '/', env, signal });
        await writeTar(child, tar, { signal, what: nameOf(place), folder: folderOf(place), stallMs });
      } catch (error) {
        hasFailed = true;
        throw error;
      } finally {
        await removeAfter(remove(id), hasFailed);
      }
      // The entry of the root itself is left out by the engine.
      if (root !== null && place.kind === 'volume') await chownVolumeRoot(client, place.name, root, image, signal);
    },
  };
}
