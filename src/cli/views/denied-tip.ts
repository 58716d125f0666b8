// View of a newest commit that is not accepted: what that stops, and what its people can do about it.
import type { Fault } from '../../core/fault.ts';
import { AUTHORITY, helpOf } from '../../core/state/trust/authority.ts';
import { inOneLine } from '../../core/state/trust/unseen.ts';

const TELLING: Readonly<Record<string, string>> = {
  HISTORY_REWRITTEN: 'HistoryRewritten',
  NOT_VERIFIED: 'NotVerified',
};

/** `why` says which commit and ends with what does not happen. */
export function deniedInWords(denied: Fault, deploy: string): { readonly why: string; readonly help: string } {
  return {
    why: `the newest commit is not accepted (${TELLING[denied.code] ?? denied.code}: ${inOneLine(denied.message)}); nothing of it is deployed and no request runs until it is`,
    help: cureOf(denied, deploy),
  };
}

function cureOf({ code, help, data }: Fault, deploy: string): string {
  if (code !== 'NOT_VERIFIED') return help;
  const reason = String(data['reason'] ?? '');
  // What is wrong with the policy, or with the repository, no signature under a commit mends.
  if (Object.hasOwn(AUTHORITY, reason) && reason !== 'not-a-deployer') return helpOf(reason as keyof typeof AUTHORITY);
  const who = 'somebody whom a `deploy` rule of the policy names';
  return deploy === 'all'
    ? `every commit must be signed by ${who}: take the branch back to the accepted one and push signed commits`
    : `${who} puts a signed commit on top: git commit -S --allow-empty -m "Accept" && git push`;
}
