// Spoken: what people said of one request beside yes and no, in statements that are proved now. For people; it decides nothing.
import { signersOf } from '../../core/state/trust/policy-signers.ts';
import { parseStatement, reasonOf, type StatementType, verifyStatement } from '../../core/state/trust/statement.ts';
import type { TrustLook } from './look.ts';

export interface Spoken {
  readonly type: StatementType;
  readonly principal: string;
  readonly oid: string;
  /** Bounded, on one line, with what is not seen written out. */
  readonly reason: string;
}

const MOST = 50;

/** The eldest first. Of a file that has left the tree those who said no are still heard. */
export async function spokenOf(look: TrustLook, id: string): Promise<readonly Spoken[]> {
  const { anchor, ledger, chain, objects, requests, atMs } = look;
  const at = requests.find((one) => one.id === id);
  const subject = at?.evaluation.subject ?? ledger.snapshot(id)?.subject ?? null;
  if (subject === null || chain.effective === null) return [];
  const signers = await signersOf(chain.effective, anchor.revoked);
  const all = new Map([...ledger.stops().map(({ object }) => [object.oid, object] as const), ...objects]);
  const found: (Spoken & { readonly datedMs: number })[] = [];
  for (const object of all.values()) {
    const parse = parseStatement(object);
    if (parse.kind !== 'claims' || parse.claims.subject !== subject) continue;
    const reason = reasonOf(object);
    if (reason === null || reason === '') continue;
    const reading = await verifyStatement(object, signers, new Date(atMs), anchor.clockSkewMs);
    if (reading.kind !== 'statement') continue;
    const { type, principal, oid, datedMs, fleet, ref, environment } = reading.statement;
    if (fleet !== anchor.fleetId || ref !== anchor.ref || environment !== anchor.environment) continue;
    found.push({ type, principal, oid, reason, datedMs });
  }
  return found
    .sort((a, b) => a.datedMs - b.datedMs || (a.oid < b.oid ? -1 : 1))
    .slice(-MOST)
    .map(({ type, principal, oid, reason }) => ({ type, principal, oid, reason }));
}
