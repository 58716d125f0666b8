// Lineage: does a tip go on from what was accepted last? A branch that was rewritten, or another repository, is a person's to accept.
import { Fault } from '../core/fault.ts';
import type { House } from './house.ts';

export const acceptedKey = (source: string): string => `accepted/${source}`;
/** Which repository a state directory was last deployed from: a SourceSpec. */
export const SOURCE_KEY = 'source';

/** Null when nothing was accepted yet, or `tip` descends from it. */
export async function brokenLineage(house: House, tip: string): Promise<Fault | null> {
  const { source, store } = house;
  const accepted = store.value(acceptedKey(source.spec.name));
  if (typeof accepted !== 'string' || accepted === tip) return null;
  try {
    if (await source.descends(tip, accepted)) return null;
  } catch (error) {
    // Another repository does not even hold the commit.
    if (!(error instanceof Fault) || error.code !== 'GIT_OBJECT_MISSING') throw error;
  }
  const before = store.value(SOURCE_KEY) as { readonly url?: unknown } | undefined;
  const other = typeof before?.url === 'string' && before.url !== source.spec.url ? before.url : null;
  return new Fault(
    'HISTORY_REWRITTEN',
    `${source.spec.ref} is at ${tip.slice(0, 12)}, which does not descend from ${accepted.slice(0, 12)}, the last accepted commit`,
    { data: { tip, ...(other === null ? {} : { source: source.spec.url, before: other }) } },
  );
}

/** Remembers `tip` as accepted, and where it came from. */
export async function accept(house: House, tip: string): Promise<void> {
  const { source, store, trust } = house;
  const ledger = trust?.ledger;
  if (ledger) {
    const before = ledger.acceptedTip();
    if (before === null) {
      const { refuseWhatPredates } = await import('./trust/predates.ts');
      await refuseWhatPredates(house, tip);
    }
    ledger.acceptTip(tip, before);
  }
  await source.pin('accepted', tip);
  store.putValue(acceptedKey(source.spec.name), tip);
  store.putValue(SOURCE_KEY, source.spec);
}
