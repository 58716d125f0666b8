// Unverified: why a commit may not be deployed, where signatures are asked for. Loads the judge of signatures only then.
import { Fault } from '../core/fault.ts';
import type { Verification } from '../core/status/settle.ts';
import type { FleetAt } from './fleet-at.ts';
import type { House } from './house.ts';
import { acceptedKey } from './lineage.ts';
import type { Workbench } from './workbench.ts';

const signerKey = (source: string): string => `signer/${source}`;

/** What was judged last and found good. */
const judged = ({ store, source }: House): { readonly commit: string; readonly signer: string | null } | undefined =>
  store.value(signerKey(source.spec.name)) as { commit: string; signer: string | null } | undefined;

/** Null when it may. What was accepted last counts, which a person may have done meanwhile; `before`: what runs now, where nothing was. A
 * fault of the repository is thrown: it decides nothing. */
export async function unverified(bench: Workbench, at: FleetAt, before?: FleetAt | null): Promise<Fault | null> {
  const { house } = bench;
  if (!house.trust || house.trust.deploy === 'none') return null;
  const { name } = house.source.spec;
  const accepted = house.store.value(acceptedKey(name));
  const isKnown = typeof accepted !== 'string' || before?.revision.commit === accepted;
  const last = isKnown ? (before ?? null) : await bench.reader.read(accepted);
  // What was accepted may never have been judged: signatures may be asked for only since.
  if (last?.revision.commit === at.revision.commit && judged(house)?.commit === at.revision.commit) return null;
  const { verifyDeploy } = await import('./trust/deploy-gate.ts');
  try {
    const { signer } = await verifyDeploy(house, at, last);
    house.store.putValue(signerKey(name), { commit: at.revision.commit, signer });
    return null;
  } catch (error) {
    if (error instanceof Fault && error.code === 'NOT_VERIFIED') return error;
    throw error;
  }
}

/** For the condition Verified of every stack. */
export function verificationOf(house: House, denied: Fault | null, tip: string): Verification {
  if (denied?.code === 'HISTORY_REWRITTEN')
    return { kind: 'refused', reason: 'HistoryRewritten', message: denied.message, revision: tip };
  if (denied) return { kind: 'refused', reason: 'NotVerified', message: denied.message, revision: tip };
  if (!house.trust || house.trust.deploy === 'none') return { kind: 'disabled' };
  const known = judged(house);
  return { kind: 'ok', signer: known?.commit === tip ? known.signer : null };
}
