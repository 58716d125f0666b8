// Sweep helpers: containers that a killed process made to reach a volume with. As long as one is there its volume cannot be removed.
import type { ApiClient } from '../compose/api-client.ts';
import { helperLabel, helperOwnerLabel } from '../compose/volume-owner.ts';

interface Helper {
  readonly Id: string;
  readonly Names: readonly string[];
  readonly Labels: Readonly<Record<string, string>>;
}

const list = (client: ApiClient, filters: Readonly<Record<string, readonly string[]>>, signal: AbortSignal) =>
  client.json<readonly Helper[]>({
    method: 'GET',
    path: '/containers/json',
    query: { all: 1, filters: JSON.stringify(filters) },
    signal,
  });

async function remove(client: ApiClient, { Id: id }: Helper, signal: AbortSignal): Promise<void> {
  const query = { force: true, v: false };
  await client.send({ method: 'DELETE', path: `/containers/${id}`, query, accept: [404, 409], signal });
}

/** After a failure that failure is what is told: a helper that cannot be taken away now is swept later. */
export async function removeAfter(removing: Promise<void>, hasFailed: boolean): Promise<void> {
  try {
    await removing;
  } catch (error) {
    if (!hasFailed) throw error;
  }
}

/** One whose owner may still live, or that names none, stays. Names of those that are gone. */
export async function sweepHelpers(
  client: ApiClient,
  hasEnded: (owner: string) => boolean,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const gone: string[] = [];
  for (const helper of await list(client, { label: [helperLabel, helperOwnerLabel] }, signal)) {
    const owner = helper.Labels[helperOwnerLabel] ?? '';
    if (owner === '' || !hasEnded(owner)) continue;
    await remove(client, helper, signal);
    gone.push(helper.Names[0]?.slice(1) ?? helper.Id);
  }
  return gone;
}

/** Those that set the owner of a volume's root are never started and work for a moment: where the volume is to go, nobody needs them. */
export async function removeOwnerHelpers(client: ApiClient, volume: string, signal: AbortSignal): Promise<void> {
  const filters = { volume: [volume], label: [`${helperLabel}=volume-owner`], status: ['created'] };
  for (const helper of await list(client, filters, signal)) await remove(client, helper, signal);
}
