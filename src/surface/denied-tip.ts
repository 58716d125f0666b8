// Denied tip: why the newest commit is not accepted, so that nothing of it is carried out, whatever its requests say.
import type { Fault } from '../core/fault.ts';
import { brokenLineage } from '../operations/lineage.ts';
import { unverified } from '../operations/unverified.ts';
import type { Workbench } from '../operations/workbench.ts';

/** HISTORY_REWRITTEN or NOT_VERIFIED; null when it may be taken. A fault of the repository is thrown: it decides nothing. */
export async function deniedTip(bench: Workbench): Promise<Fault | null> {
  const { house } = bench;
  const tip = await house.source.fetch();
  const broken = await brokenLineage(house, tip);
  if (broken || (house.trust?.deploy ?? 'none') === 'none') return broken;
  return unverified(bench, await bench.reader.read(tip));
}
