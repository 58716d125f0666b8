// Backup of a group: one archive a stack, in the order of their graph, and one manifest that names them. It is listed only when all are.
import { encodeGroup } from '../../core/archive/manifest.ts';
import { Fault } from '../../core/fault.ts';
import type { Workbench } from '../workbench.ts';
import { type BackedUp, backup } from './backup.ts';

export interface GroupBackedUp {
  readonly archive: string;
  readonly members: readonly (BackedUp & { readonly stack: string })[];
}

/** On disk, one for each run: members of groups whose own archive is yet to come. A killed one is forgotten after a day. */
export const GROUPING = 'grouping/';
export const GROUPING_MS = 86_400_000;
export interface Grouping {
  readonly group: string;
  readonly sinceMs: number;
  readonly archives: readonly string[];
}

/** Throws NOT_FOUND for a group without deployed stacks; the archives that were made stay. */
export async function backupGroup(
  bench: Workbench,
  group: string,
  signal: AbortSignal,
  note: (line: string) => void,
): Promise<GroupBackedUp> {
  const { house } = bench;
  const { archives, source, clock, store, settings } = house;
  if (!archives) throw new Fault('USAGE', 'there is no archive store here');
  const at = await bench.reader.read(await source.fetch(signal));
  const stacks = at.fleet.layers.flat().filter((name) => at.fleet.stacks.get(name)?.group === group);
  if (stacks.length === 0) throw new Fault('NOT_FOUND', `there is no group ${group} in the fleet`);
  const missing = stacks.find((name) => store.applied(name) === null);
  if (missing !== undefined) throw new Fault('NOT_FOUND', `stack ${missing} of group ${group} is not deployed`);
  const members: (BackedUp & { stack: string })[] = [];
  const sinceMs = clock.nowMs();
  for (const [old, one] of store.values(GROUPING) as Iterable<[string, Grouping]>)
    if (sinceMs - one.sinceMs >= GROUPING_MS) store.deleteValue(old);
  // Of this run alone: another one of the same group, which may fail at once, takes nothing of it away.
  const key = `${GROUPING}${clock.id()}`;
  try {
    for (const stack of stacks) {
      members.push({ stack, ...(await backup(bench, stack, { signal, note: (line) => note(`${stack}: ${line}`) })) });
      // Hours may pass until the last one is made: no scheduled backup may push the first one beyond `keep`.
      const grouping: Grouping = { group, sinceMs, archives: members.map((one) => one.archive) };
      store.putValue(key, grouping);
    }
    const { bytes } = encodeGroup({
      format: 'windlass-group',
      version: 1,
      madeAtMs: clock.nowMs(),
      group,
      members: members.map(({ stack, archive }) => ({ stack, archive })),
      edges: stacks.flatMap((consumer) =>
        Object.entries(at.fleet.stacks.get(consumer)?.integrate ?? {}).map(([plug, provider]) => ({
          consumer,
          plug,
          provider,
        })),
      ),
      windlass: settings.version,
    });
    return { archive: await archives.store.putManifest(bytes, archives.sign(bytes)), members };
  } finally {
    store.deleteValue(key);
  }
}
