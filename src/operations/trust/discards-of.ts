// Discards of a request: the live data that it would take the place of, for those who decide about it. Told from manifests and the state: no
// blob is read, so that it is there as soon as somebody asks.
import type { Request } from '../../core/spec/request.ts';
import { type Discard, measured, replacedFrom } from '../archive/discards.ts';
import { readArchive, toolsOf } from '../archive/plan-restore.ts';
import { groupOf } from '../archive/recover.ts';
import type { House } from '../house.ts';

/** Throws ARCHIVE_* for what is not there or not trusted. */
export async function discardsOf(house: House, request: Request, signal: AbortSignal): Promise<readonly Discard[]> {
  if (request.kind !== 'Restore' && request.kind !== 'Recover') return [];
  const { archives } = toolsOf(house);
  const of = async (archive: string, target: string): Promise<readonly Discard[]> => {
    const { manifest } = await readArchive(archives, archive);
    return measured(
      house,
      target,
      replacedFrom(house, house.store.applied(target), manifest),
      manifest.madeAtMs,
      signal,
    );
  };
  if (request.kind === 'Restore') return of(request.archive, request.target ?? request.stack);
  const { members } = await groupOf(archives, request.archive);
  const found: Discard[] = [];
  for (const { stack, archive } of members)
    if (request.stacks.includes(stack)) found.push(...(await of(archive, request.rename?.[stack] ?? stack)));
  return found;
}
