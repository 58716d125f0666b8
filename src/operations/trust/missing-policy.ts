// Missing policy: a version that enough admins signed to follow the one in effect, and that the tip does not hold as they signed it. Who
// remembers nothing would go back to the version before it, by the push of anybody: nothing is in effect for them then.

import {
  drift,
  followerOf,
  type NextProof,
  type PolicyDrift,
  type PolicyProof,
  provedAfter,
  provedFor,
  signedEnough,
  wereEnough,
} from '../../core/state/trust/policy-chain.ts';
import { type PolicyVersion, policyPath, sha256Of } from '../../core/state/trust/policy-file.ts';
import type { TrustAnchor } from '../../core/state/trust/trust-anchor.ts';
import type { House } from '../house.ts';
import { eachOf, fileWhereSaid, type Words } from './scan.ts';

/** A larger file is never in effect. */
const POLICY_BYTES = 1024 * 1024;
/** Places of one file that are looked at. */
const MOST_PLACES = 50;
/** It is enough to name some. */
const MOST_NAMED = 5;

/** `words`: all that speak of a policy. `held`: SHA-256 of the file that the tip has in the place of the next version, which the chain has
 * judged. Reads all of them, since what is passed over may be the one that was agreed. */
export async function missingAfter(
  house: House,
  anchor: TrustAnchor,
  words: readonly Words[],
  effective: PolicyVersion,
  held: string | null,
): Promise<PolicyDrift | null> {
  const others = words.filter(({ subjects }) => subjects.some((subject) => subject !== held));
  const proofs: NextProof[] = [];
  for await (const objects of eachOf(house, others)) proofs.push(...(await provedAfter(anchor, objects, effective)));
  for (const [subject, signed] of signedEnough(effective, proofs)) {
    if (subject === held) continue;
    const bytes = await bytesOf(house, policyPath(effective.version + 1), subject, signed);
    // Where its bytes are not found it is not known whether more had to sign.
    if (bytes !== null && !(await wasInEffect(house, anchor, others, effective, bytes))) continue;
    const named = [...new Set(signed.map(({ oid, principal }) => `${oid.slice(0, 12)} (${principal})`))];
    const more = named.length > MOST_NAMED ? ` and ${named.length - MOST_NAMED} more` : '';
    return drift(
      effective.version + 1,
      'policy-missing',
      `${policyPath(effective.version + 1)} with sha256:${subject}, signed by ${named.slice(0, MOST_NAMED).join(', ')}${more}`,
    );
  }
  return null;
}

async function wasInEffect(
  house: House,
  anchor: TrustAnchor,
  words: readonly Words[],
  before: PolicyVersion,
  bytes: Uint8Array,
): Promise<boolean> {
  const next = followerOf(anchor, before, bytes);
  if (next === null) return false;
  const proofs: PolicyProof[] = [];
  const about = words.filter(({ subjects }) => subjects.includes(next.sha256));
  for await (const objects of eachOf(house, about)) proofs.push(...(await provedFor(anchor, objects, before, next)));
  return wereEnough(before, next, proofs);
}

/** The file as it was signed, from the commits that sign it or that their tags name. */
async function bytesOf(
  house: House,
  path: string,
  subject: string,
  signed: readonly NextProof[],
): Promise<Uint8Array | null> {
  for (const { oid } of signed.slice(0, MOST_PLACES)) {
    const found = await fileWhereSaid(house, await house.source.object(oid), path, POLICY_BYTES);
    if (found !== null && sha256Of(found) === subject) return found;
  }
  return null;
}
