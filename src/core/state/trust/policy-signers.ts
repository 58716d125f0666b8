// Policy signers: the trust roots that one policy version gives, and whose each key is. Identity comes from the key alone.
import { parseKeyLine } from './allowed-signers.ts';
import type { Judgement } from './judge.ts';
import { fingerprintV4, readKeyring } from './openpgp-packet.ts';
import { openPgpKeys, type PolicyVersion } from './policy-file.ts';
import { parseTrustRoots, type TrustRoots } from './roots.ts';

export interface PolicySigners {
  /** Of the policy version. */
  readonly sha256: string;
  readonly roots: TrustRoots;
  /** Fingerprint as `judge` reports it → principal. */
  readonly principals: ReadonlyMap<string, string>;
}

/** Whose key made a signature that may authorise now; null for every other judgement. The name that a line carries must be the same one. */
export function principalOf(signers: PolicySigners, judgement: Judgement): string | null {
  const { verdict, fingerprint, principal } = judgement;
  if (verdict !== 'valid' || fingerprint === null) return null;
  const owner = signers.principals.get(fingerprint) ?? null;
  return principal === null || principal === owner ? owner : null;
}

/** `revoked`: the bytes of the local revocation list; null when it could not be read, which refuses everything. Never rejects. */
export function signersOf(
  { policy, sha256 }: Pick<PolicyVersion, 'policy' | 'sha256'>,
  revoked: Uint8Array | null,
): Promise<PolicySigners> {
  const principals = new Map<string, string>();
  const lines: string[] = [];
  const armors: string[] = [];
  try {
    for (const [name, keys] of Object.entries(policy.principals)) {
      for (const line of keys.ssh ?? []) {
        const key = parseKeyLine(line);
        own(principals, key.fingerprint, name);
        lines.push(`${name} namespaces="git" ${key.type} ${key.blob.toString('base64')}`);
      }
      for (const armored of openPgpKeys(policy, name)) {
        for (const { primary } of readKeyring(Buffer.from(armored, 'latin1')).blocks)
          own(principals, fingerprintV4(primary).toUpperCase(), name);
        armors.push(armored);
      }
    }
  } catch {
    // A policy that was read has none of these; without roots every judgement refuses.
    return parseTrustRoots({ allowedSigners: null }).then((roots) => ({ sha256, roots, principals: new Map() }));
  }
  return parseTrustRoots({
    allowedSigners: lines.map((line) => `${line}\n`).join(''),
    ...(armors.length === 0 ? {} : { keyring: Buffer.from(armors.join('\n'), 'latin1') }),
    revoked,
    refuseBadLines: true,
    names: { allowedSigners: 'policy', keyring: 'policy', revoked: 'revocation list' },
  }).then((roots) => ({ sha256, roots, principals }));
}

function own(principals: Map<string, string>, fingerprint: string, name: string): void {
  const owner = principals.get(fingerprint);
  if (owner !== undefined && owner !== name) throw new Error(`${fingerprint} under two names`);
  principals.set(fingerprint, name);
}
