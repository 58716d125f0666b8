// Request record: what was asked, and by whom, of a request that was claimed: from its receipt alone, as it counted then. It authorises nothing.
import type { Request } from '../../core/spec/request.ts';
import { policyPath, readPolicy } from '../../core/state/trust/policy-file.ts';
import { signersOf } from '../../core/state/trust/policy-signers.ts';
import { readRequest } from '../../core/state/trust/request-file.ts';
import { verifyStatement } from '../../core/state/trust/statement.ts';
import type { Receipt } from '../../ports/ledger.ts';

export interface RecordedSignature {
  readonly type: 'request' | 'approve';
  readonly principal: string;
  readonly oid: string;
}

/** Null when its file cannot be read any more. */
export const requestOf = ({ id, requestBase64 }: Receipt): Request | null =>
  readRequest(`requests/${id}.yaml`, Buffer.from(requestBase64, 'base64')).file?.request ?? null;

/** By the policy and at the time of the claim. A statement that proves nobody is left out. */
export async function signaturesOf(receipt: Receipt, clockSkewMs: number): Promise<readonly RecordedSignature[]> {
  const bytes = Buffer.from(receipt.policyBase64, 'base64');
  const number = Number(/^version:\s*(\d{1,4})\s*$/m.exec(bytes.toString('utf8'))?.[1] ?? 1);
  const { version } = readPolicy({ path: policyPath(number), bytes });
  if (version === null) return [];
  const signers = await signersOf(version, new Uint8Array());
  const found: RecordedSignature[] = [];
  for (const { oid, type, base64 } of receipt.statements) {
    const object = { oid, type, bytes: Buffer.from(base64, 'base64') };
    const read = await verifyStatement(object, signers, new Date(receipt.claimedAtMs), clockSkewMs);
    if (read.kind !== 'statement') continue;
    const { statement } = read;
    if (statement.type === 'request' || statement.type === 'approve')
      found.push({ type: statement.type, principal: statement.principal, oid });
  }
  return found;
}
