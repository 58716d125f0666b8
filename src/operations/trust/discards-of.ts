// Discards of a request: the live data that it would take the place of or remove, for those who decide about it. Told from manifests and the
// state: no blob is read, so that it is there as soon as somebody asks. What it was when the request was claimed is kept.
import { Fault } from '../../core/fault.ts';
import type { Request } from '../../core/spec/request.ts';
import { type Discard, measured, replacedFrom } from '../archive/discards.ts';
import { readArchive, toolsOf } from '../archive/plan-restore.ts';
import { groupOf } from '../archive/recover.ts';
import type { House } from '../house.ts';
import type { Workbench } from '../workbench.ts';
import { volumesAsked } from './purge.ts';

/** Throws ARCHIVE_* for what is not there or not trusted, NOT_FOUND for volumes that are not there. */
export async function discardsOf(
  { house, look }: Workbench,
  request: Request,
  signal: AbortSignal,
): Promise<readonly Discard[]> {
  if (request.kind === 'Purge') {
    const asked = await volumesAsked(house, look, request);
    if (asked.kind === 'wait') throw new Fault('NOT_FOUND', asked.why);
    const volumes = [...asked.names].sort().map((name) => ({ kind: 'volume' as const, name }));
    return measured(house, request.stack, volumes, null, signal);
  }
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

/** On disk as `discards/<id>`, for as long as other records of requests. */
interface Discarding {
  readonly id: string;
  readonly discards: readonly Discard[];
  /** Of the claim. */
  readonly endedAtMs: number;
}

const discardsKey = (id: string): string => `discards/${id}`;
/** Sizes are no reason to keep a request waiting. */
const MEASURE_MS = 60_000;

/** Right before it is claimed: afterwards nobody can tell any more. What cannot be told keeps nothing from being done. */
export async function keepDiscards(bench: Workbench, id: string, request: Request, signal: AbortSignal): Promise<void> {
  const { store, clock } = bench.house;
  try {
    const discards = await discardsOf(bench, request, AbortSignal.any([signal, AbortSignal.timeout(MEASURE_MS)]));
    const kept: Discarding = { id, discards, endedAtMs: clock.nowMs() };
    if (discards.length > 0) store.putValue(discardsKey(id), kept);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
  }
}

/** What they were when it was claimed; null = not on record. */
export const keptDiscards = ({ store }: Pick<House, 'store'>, id: string): readonly Discard[] | null =>
  (store.value(discardsKey(id)) as Discarding | undefined)?.discards ?? null;
