// Lineage: does a tip go on from what was accepted last? A branch that was rewritten, or another repository, is a person's to accept.
import { Fault } from '../core/fault.ts';
import type { House } from './house.ts';

export const acceptedKey = (source: string): string => `accepted/${source}`;
/** Which repository a state directory was last deployed from: a SourceSpec. */
export const SOURCE_KEY = 'source';

/** Null when nothing was accepted yet, or `tip` descends from it: from what the state says and from what the ledger says, which no restore
 * of the state takes back. */
export async function brokenLineage(house: House, tip: string): Promise<Fault | null> {
  const { source, store, trust } = house;
  const accepted = new Set([store.value(acceptedKey(source.spec.name)), trust?.ledger?.acceptedTip()]);
  for (const one of accepted)
    if (typeof one === 'string' && one !== tip && !(await hasGoneOn(house, tip, one)))
      return rewritten(house, tip, one);
  return null;
}

/** Whether `tip` descends from `from`. */
export async function hasGoneOn({ source }: House, tip: string, from: string): Promise<boolean> {
  try {
    return await source.descends(tip, from);
  } catch (error) {
    // Another repository does not even hold the commit; that git failed for another reason proves nothing.
    if (error instanceof Fault && error.code === 'GIT_OBJECT_MISSING' && 'oid' in error.data) return false;
    throw error;
  }
}

function rewritten({ source, store }: House, tip: string, accepted: string): Fault {
  const before = store.value(SOURCE_KEY) as { readonly url?: unknown } | undefined;
  const other = typeof before?.url === 'string' && before.url !== source.spec.url ? before.url : null;
  return new Fault(
    'HISTORY_REWRITTEN',
    `${source.spec.ref} is at ${tip.slice(0, 12)}, which does not descend from ${accepted.slice(0, 12)}, the last accepted commit`,
    { data: { tip, ...(other === null ? {} : { source: source.spec.url, before: other }) } },
  );
}

/** Remembers `tip` as accepted, and where it came from. Throws HISTORY_REWRITTEN when it does not go on from what was accepted last, unless
 * a person takes it all the same, and PLAN_STALE when another process accepts meanwhile. */
export async function accept(house: House, tip: string, options: { readonly rewritten?: boolean } = {}): Promise<void> {
  const { source, store, trust } = house;
  const ledger = trust?.ledger;
  const before = ledger?.acceptedTip() ?? null;
  if (options.rewritten !== true) {
    const broken = await brokenLineage(house, tip);
    if (broken) throw broken;
  }
  if (ledger && !ledger.acceptTip(tip, before, house.clock.nowMs()))
    throw new Fault(
      'PLAN_STALE',
      `another process has accepted another commit than ${before?.slice(0, 12) ?? 'none'} meanwhile`,
    );
  await source.pin('accepted', tip);
  store.putValue(acceptedKey(source.spec.name), tip);
  store.putValue(SOURCE_KEY, source.spec);
}
