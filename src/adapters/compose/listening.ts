// Listening: which published ports of this host nobody listens on. A port whose proxy has died is refused to everybody, and the engine
// does not notice: it goes on saying that it is published.
import { readFile } from 'node:fs/promises';
import { networkInterfaces } from 'node:os';
import type { ApiContainer, ApiNetwork } from './reading.ts';

const TABLES = ['/proc/self/net/tcp', '/proc/self/net/tcp6'];
const LISTEN = '0A';

/**
 * Container id → its deaf TCP ports. Empty where that cannot be known: the engine's host is another one (a container has ports of its
 * own), or the engine publishes without a listener, as then none of its ports is heard.
 */
export async function deafPorts(
  containers: readonly ApiContainer[],
  networks: readonly ApiNetwork[],
  listAgain: () => Promise<readonly ApiContainer[]>,
): Promise<ReadonlyMap<string, readonly number[]>> {
  const none = new Map<string, readonly number[]>();
  const published = publishedBy(containers);
  if (published.size === 0 || !isHere(networks)) return none;
  const heard = await listeningPorts();
  if (heard === null) return none;
  const ports = [...published.values()].flat();
  if (ports.every((port) => heard.has(port)) || !ports.some((port) => heard.has(port))) return none;
  // What ended or began between the list and the look is no case: it is so on the second look too, or it is not.
  const still = publishedBy(await listAgain());
  const now = (await listeningPorts()) ?? heard;
  const deaf = [...published].flatMap(([id, of]): [string, readonly number[]][] => {
    const lost = of.filter((port) => still.get(id)?.includes(port) && !heard.has(port) && !now.has(port));
    return lost.length > 0 ? [[id, lost]] : [];
  });
  return new Map(deaf);
}

function publishedBy(containers: readonly ApiContainer[]): Map<string, readonly number[]> {
  const published = new Map<string, readonly number[]>();
  for (const { Id, State, Ports } of containers) {
    if (State !== 'running') continue;
    const ports = (Ports ?? []).flatMap((port) => (port.Type === 'tcp' && port.PublicPort ? [port.PublicPort] : []));
    if (ports.length > 0) published.set(Id, [...new Set(ports)]);
  }
  return published;
}

/** The engine's bridges are network cards of this host. */
function isHere(networks: readonly ApiNetwork[]): boolean {
  const own = new Set(Object.values(networkInterfaces()).flatMap((cards) => cards?.map((card) => card.address) ?? []));
  return networks.some((network) =>
    network.IPAM?.Config?.some(({ Gateway }) => Gateway !== undefined && own.has(Gateway)),
  );
}

/** Null where the system has no such tables. */
async function listeningPorts(): Promise<ReadonlySet<number> | null> {
  try {
    const tables = await Promise.all(TABLES.map((table) => readFile(table, 'latin1')));
    return new Set(tables.flatMap(portsIn));
  } catch {
    return null;
  }
}

/** Rows as the kernel writes them: `sl local_address rem_address st …`, the address as `HEX:PORT` in hex. */
export function portsIn(table: string): number[] {
  return table
    .split('\n')
    .slice(1)
    .flatMap((row) => {
      const [, local = '', , state] = row.trim().split(/\s+/);
      return state === LISTEN ? [Number.parseInt(local.slice(local.lastIndexOf(':') + 1), 16)] : [];
    });
}
