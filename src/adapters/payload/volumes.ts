// Volumes of the engine as payloads see them: found, made when their name is free, removed. Never anything inside of them.
import { Fault } from '../../core/fault.ts';
import type { NewVolume, VolumeFacts } from '../../ports/payloads.ts';
import type { ApiClient } from '../compose/api-client.ts';
import { removeOwnerHelpers } from './sweep-helpers.ts';

const SIZE_MS = 10 * 60_000;

interface ApiVolume {
  readonly Name: string;
  readonly Driver: string;
  readonly Mountpoint: string;
  readonly CreatedAt?: string;
  readonly Options?: Readonly<Record<string, string>> | null;
  readonly Labels?: Readonly<Record<string, string>> | null;
}

export interface Volumes {
  find(name: string, signal: AbortSignal): Promise<VolumeFacts | null>;
  create(volume: NewVolume, signal: AbortSignal): Promise<void>;
  remove(name: string, signal: AbortSignal): Promise<void>;
  sizeBytes(name: string, signal: AbortSignal): Promise<number | null>;
}

export function openVolumes(client: ApiClient): Volumes {
  const pathOf = (name: string): string => `/volumes/${encodeURIComponent(name)}`;

  async function find(name: string, signal: AbortSignal) {
    const { status, body } = await client.send({ method: 'GET', path: pathOf(name), accept: [404], signal });
    if (status === 404) return null;
    const found = JSON.parse(body.toString('utf8')) as ApiVolume;
    return {
      name: found.Name,
      driver: found.Driver,
      driverOpts: found.Options ?? {},
      labels: found.Labels ?? {},
      mountpoint: found.Mountpoint,
      createdAt: found.CreatedAt ?? '',
    };
  }

  return {
    find,
    async create(volume, signal) {
      // The engine answers a second creation like the first one.
      if ((await find(volume.name, signal)) !== null) {
        throw new Fault('PAYLOAD_EXISTS', `the volume ${volume.name} is there already`, {
          data: { volume: volume.name },
        });
      }
      // Not to be called off in the middle: whether it was made would be unknown then.
      await client.send({
        method: 'POST',
        path: '/volumes/create',
        body: {
          Name: volume.name,
          Driver: volume.driver ?? 'local',
          DriverOpts: volume.driverOpts ?? {},
          Labels: volume.labels ?? {},
        },
      });
    },
    async remove(name, signal) {
      const { status } = await client.send({ method: 'DELETE', path: pathOf(name), accept: [404, 409], signal });
      if (status !== 409) return;
      await removeOwnerHelpers(client, name, signal);
      await client.send({ method: 'DELETE', path: pathOf(name), accept: [404], signal });
    },
    async sizeBytes(name, signal) {
      const usage = await client.json<{
        readonly Volumes?: readonly { readonly Name: string; readonly UsageData?: { readonly Size: number } }[] | null;
      }>({ method: 'GET', path: '/system/df', query: { type: 'volume' }, deadlineMs: SIZE_MS, signal });
      const size = usage.Volumes?.find((one) => one.Name === name)?.UsageData?.Size ?? -1;
      return size < 0 ? null : size;
    },
  };
}
