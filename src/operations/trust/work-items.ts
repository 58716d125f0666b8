// Work items: what became of each thing that a request touched, stack by stack, from what is on record. Reads only.
import { cloneRecord } from '../archive/clone.ts';
import { recoverRecord } from '../archive/recover.ts';
import { type RestoreRecord, restoreRecord } from '../archive/restore.ts';
import type { House } from '../house.ts';

export interface WorkItem {
  readonly item: string;
  /** For people. */
  readonly state: string;
}

/** Empty for a purge, and for a request that did nothing yet. */
export function itemsOf(house: Pick<House, 'store'>, id: string): readonly WorkItem[] {
  const recovered = recoverRecord(house, id);
  if (recovered)
    return Object.entries(recovered.outcomes).flatMap(([target, { state, message }]) => [
      { item: target, state: message === '' ? state : `${state}: ${message}` },
      ...triesOf(house, `${id}-${target}`).flatMap((one) => itemsOfRestore(one, `${target}, `)),
    ]);
  const cloned = cloneRecord(house, id);
  if (cloned)
    return [
      ...(cloned.archive === null ? [] : [{ item: 'archive', state: cloned.archive }]),
      ...(cloned.source ? [{ item: cloned.source.stack, state: cloned.source.state }] : []),
      ...(cloned.restore === null
        ? []
        : triesOf(house, `${id}-${cloned.restore.target}`).flatMap((one) => itemsOfRestore(one, ''))),
    ];
  const restored = restoreRecord(house, id);
  return restored ? itemsOfRestore(restored, '') : [];
}

/** One that was called off was begun again under a further id. */
function triesOf(house: Pick<House, 'store'>, id: string): readonly RestoreRecord[] {
  const tries: RestoreRecord[] = [];
  for (let count = 1; ; count++) {
    const found = restoreRecord(house, count === 1 ? id : `${id}-${count}`);
    if (!found) return tries;
    tries.push(found);
  }
}

const itemsOfRestore = ({ items, fault }: RestoreRecord, before: string): readonly WorkItem[] => [
  ...Object.entries(items).map(([item, state]) => ({ item: before + item, state })),
  ...(fault === null ? [] : [{ item: `${before}failed`, state: `${fault.code}: ${fault.message}` }]),
];
