// Trust roots: the parsed allowed signers, keyring and revocation list, made once and asked for many objects.
// A root that cannot be used as a whole refuses everything; it never shrinks to a warning.

import { type AllowedSigners, type LocalOffset, parseAllowedSigners, type TrustProblem } from './allowed-signers.ts';
import { EMPTY_KEYRING, type Keyring, loadKeyring } from './openpgp.ts';
import type { RefusalCode } from './reason.ts';
import { Refusal } from './refusal.ts';
import { NOTHING_REVOKED, parseRevocationList, type RevocationList } from './revocation.ts';

export interface TrustRoots {
  readonly signers: AllowedSigners;
  readonly keyring: Keyring;
  readonly revocations: RevocationList;
  /** Set when a root is unusable: every judgement is this refusal. */
  readonly refusal: { readonly code: RefusalCode; readonly detail: string } | null;
  /** Lines and keys that grant nothing because they are malformed; for people. */
  readonly problems: readonly TrustProblem[];
}

/** Absent is "none given"; null is "given, but could not be read", and refuses everything. */
export interface TrustRootsInput {
  readonly allowedSigners?: string | null | undefined;
  readonly keyring?: Uint8Array | null | undefined;
  readonly revoked?: Uint8Array | null | undefined;
  /** Minutes east of UTC for allowed_signers times without `Z`; default: they are UTC. */
  readonly offsetMinutes?: LocalOffset | undefined;
  /** A bad line refuses everything instead of granting nothing by itself; default false. */
  readonly refuseBadLines?: boolean | undefined;
  /** How problems name the files. */
  readonly names?:
    | { readonly allowedSigners?: string; readonly keyring?: string; readonly revoked?: string }
    | undefined;
}

const NO_SIGNERS: AllowedSigners = {
  signers: new Map(),
  authorities: new Map(),
  keys: new Map(),
  badKeys: new Map(),
  problems: [],
};

/** Never rejects: an unusable root becomes `refusal`. */
export function parseTrustRoots(input: TrustRootsInput): Promise<TrustRoots> {
  const { allowedSigners, keyring, revoked } = input;
  const keyringName = input.names?.keyring ?? 'keyring';
  try {
    if (allowedSigners === null) throw new Refusal('bad-allowed-signers', 'cannot be read');
    if (keyring === null) throw new Refusal('bad-keyring', 'cannot be read');
    if (revoked === null) throw new Refusal('bad-revocation-list', 'cannot be read');
    const revocations =
      revoked === undefined ? NOTHING_REVOKED : parseRevocationList(revoked, input.names?.revoked ?? 'revoked');
    const signers =
      allowedSigners === undefined
        ? NO_SIGNERS
        : parseAllowedSigners(allowedSigners, {
            fileName: input.names?.allowedSigners ?? 'allowed_signers',
            offsetMinutes: input.offsetMinutes ?? (() => 0),
          });
    const [problem] = signers.problems;
    if (problem && input.refuseBadLines === true) {
      throw new Refusal('bad-allowed-signers', `${problem.place}: ${problem.message}`);
    }
    const loading = keyring === undefined ? Promise.resolve(EMPTY_KEYRING) : loadKeyring(keyring, keyringName);
    return loading.then(
      (loaded) => ({
        signers,
        keyring: loaded,
        revocations,
        refusal: null,
        problems: [...signers.problems, ...loaded.problems],
      }),
      refusedRoots,
    );
  } catch (error) {
    return Promise.resolve(refusedRoots(error));
  }
}

function refusedRoots(error: unknown): TrustRoots {
  const refusal =
    error instanceof Refusal
      ? { code: error.code, detail: error.message }
      : { code: 'internal-error' as const, detail: error instanceof Error ? error.message : '' };
  return { signers: NO_SIGNERS, keyring: EMPTY_KEYRING, revocations: NOTHING_REVOKED, refusal, problems: [] };
}
