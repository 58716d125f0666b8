// Policy chain: which policy version is in effect. Version 1 is the one that the anchor names; each next one needs its number, its back
// hash and enough distinct admins. Never back. A version that lacks something is a drift, and the one in effect stays in effect.
import type { Policy } from '../../spec/policy.ts';
import type { PolicyRefusalCode } from './authority.ts';
import type { RawGitObject } from './judge.ts';
import { type PolicyFile, type PolicyVersion, policyPath, readPolicy, sha256Of, versionOfPath } from './policy-file.ts';
import { type PolicySigners, signersOf } from './policy-signers.ts';
import { parseStatement, type Statement, verifyStatement } from './statement.ts';
import type { TrustAnchor } from './trust-anchor.ts';

/** What is remembered durably of the version that was last in effect. */
export interface PolicyMemory {
  /** `policySha256` of the anchor above which it came into effect: under another anchor it means nothing. */
  readonly anchor: string;
  readonly version: number;
  readonly sha256: string;
  readonly bytes: Uint8Array;
}

export interface PolicyDrift {
  readonly version: number;
  readonly reason: PolicyRefusalCode;
  /** For people. */
  readonly detail: string;
  /** Of a version that waits: the admins whose signatures count, and those who may still sign. */
  readonly signed: readonly string[];
  readonly mayStillSign: readonly string[];
  readonly missing: number;
}

export interface PolicyChain {
  /** Null: nothing is authorised. */
  readonly effective: PolicyVersion | null;
  readonly drift: PolicyDrift | null;
}

export interface PolicyChainInput {
  readonly anchor: TrustAnchor;
  /** Everything below `trust/policy/` of the tip. */
  readonly files: readonly PolicyFile[];
  readonly last: PolicyMemory | null;
  /** Of a controller without memory: a version whose signatures have expired may have been in effect, so the one before it is nothing. */
  readonly refusesExpired?: boolean;
  /** Commits and tags that may carry statements; others are passed over. */
  readonly objects: readonly RawGitObject[];
  readonly now: Date;
}

/** Never rejects. */
export function effectivePolicy(input: PolicyChainInput): Promise<PolicyChain> {
  let start: PolicyChain;
  try {
    start = foundation(input);
  } catch (error) {
    start = { effective: null, drift: drift(0, 'policy-error', error instanceof Error ? error.message : '') };
  }
  if (start.effective === null || start.drift !== null) return Promise.resolve(start);
  return climb(input, start.effective);
}

export function drift(version: number, reason: PolicyRefusalCode, detail = ''): PolicyDrift {
  return { version, reason, detail, signed: [], mayStillSign: [], missing: 0 };
}

const filesOf = (input: PolicyChainInput, version: number): readonly PolicyFile[] =>
  input.files.filter(({ path }) => versionOfPath(path) === version);

/** The version to climb from: the remembered one, else version 1 as the anchor names it. */
function foundation(input: PolicyChainInput): PolicyChain {
  const { anchor } = input;
  const last = input.last?.anchor === anchor.policySha256 ? input.last : null;
  if (last === null) {
    const [file] = filesOf(input, 1);
    if (!file) return { effective: null, drift: drift(1, 'policy-file-absent', policyPath(1)) };
    if (sha256Of(file.bytes) !== anchor.policySha256)
      return { effective: null, drift: drift(1, 'policy-not-anchored', `found ${sha256Of(file.bytes)}`) };
    const refusal = refusalOf(file, 1, anchor);
    return refusal.version ? { effective: refusal.version, drift: null } : { effective: null, drift: refusal.drift };
  }
  const path = policyPath(last.version);
  const read = readPolicy({ path, bytes: last.bytes }).version;
  if (read === null || read.sha256 !== last.sha256 || (last.version === 1 && last.sha256 !== anchor.policySha256))
    return { effective: null, drift: drift(last.version, 'policy-memory-damaged', path) };
  if (read.policy.fleet !== anchor.fleetId)
    return { effective: null, drift: drift(last.version, 'policy-other-fleet', read.policy.fleet) };
  // The tree must still hold what is in effect; that it does not takes nothing away from it.
  const found = filesOf(input, last.version);
  if (found.length === 0) return { effective: read, drift: drift(last.version, 'policy-rolled-back', path) };
  if (found.some(({ bytes }) => sha256Of(bytes) !== last.sha256))
    return { effective: read, drift: drift(last.version, 'policy-altered', path) };
  return { effective: read, drift: null };
}

type Refusal =
  | { readonly version: PolicyVersion; readonly drift: null }
  | { readonly version: null; readonly drift: PolicyDrift };

/** What one file lacks by itself. */
function refusalOf(file: PolicyFile, number: number, anchor: TrustAnchor): Refusal {
  const refuse = (reason: PolicyRefusalCode, detail: string) => ({
    version: null,
    drift: drift(number, reason, detail),
  });
  const { version, diagnostics } = readPolicy(file);
  if (version === null) {
    const first = diagnostics.find(({ severity }) => severity === 'error');
    const place = first?.place ? `${first.place.file}:${first.place.line}:${first.place.column}: ` : '';
    return refuse('policy-invalid', `${place}${first?.summary ?? ''}`);
  }
  if (version.version !== number) return refuse('policy-number', `${version.version} in ${file.path}`);
  if (version.policy.fleet !== anchor.fleetId) return refuse('policy-other-fleet', version.policy.fleet);
  return { version, drift: null };
}

function climb(input: PolicyChainInput, effective: PolicyVersion): Promise<PolicyChain> {
  const stay = (found: PolicyDrift | null): PolicyChain => ({ effective, drift: found });
  const number = effective.version + 1;
  try {
    const candidates = filesOf(input, number);
    const [file] = candidates;
    if (!file) {
      const higher = input.files.map(({ path }) => versionOfPath(path) ?? 0).filter((version) => version > number);
      return Promise.resolve(
        stay(higher.length === 0 ? null : drift(Math.min(...higher), 'policy-gap', `${policyPath(number)} is missing`)),
      );
    }
    if (candidates.length > 1) return Promise.resolve(stay(drift(number, 'policy-altered', file.path)));
    const { version: next, drift: found } = refusalOf(file, number, input.anchor);
    if (next === null) return Promise.resolve(stay(found));
    if (next.policy.previous !== effective.sha256)
      return Promise.resolve(stay(drift(number, 'policy-back-hash', `expected ${effective.sha256}`)));
    return signaturesOf(input, effective, next)
      .then((lacking) => {
        if (lacking === null) return climb(input, next);
        if (input.refusesExpired !== true) return stay(lacking);
        return signaturesOf(input, effective, next, true).then((late) =>
          late === null ? { effective: null, drift: drift(number, 'policy-signatures-expired') } : stay(lacking),
        );
      })
      .catch((error: unknown) => stay(drift(number, 'policy-error', error instanceof Error ? error.message : '')));
  } catch (error) {
    return Promise.resolve(stay(drift(number, 'policy-error', error instanceof Error ? error.message : '')));
  }
}

/** Null when enough admins signed `next`: of the version in effect, and of `next` itself when the admins change with it. */
function signaturesOf(
  input: PolicyChainInput,
  effective: PolicyVersion,
  next: PolicyVersion,
  alsoExpired = false,
): Promise<PolicyDrift | null> {
  const { anchor } = input;
  const objects = input.objects.filter((object) => {
    const parse = parseStatement(object);
    return parse.kind === 'claims' && parse.claims.type === 'policy' && parse.claims.subject === next.sha256;
  });
  const boards = [effective, ...(sameAdmins(effective.policy, next.policy) ? [] : [next])];
  return Promise.all(
    boards.map((board) =>
      signersOf(board, anchor.revoked)
        .then((signers) => signedBy(input, objects, signers, effective, alsoExpired))
        .then((names) => {
          const { members, threshold } = board.policy.admins;
          const signed = members.filter((name) => names.has(name));
          return {
            signed,
            mayStillSign: members.filter((name) => !names.has(name)),
            missing: threshold - signed.length,
          };
        }),
    ),
  ).then((counts) => {
    const short = counts.filter(({ missing }) => missing > 0);
    if (counts.length === boards.length && short.length === 0) return null;
    return {
      version: next.version,
      reason: 'policy-unsigned',
      detail: `${Math.max(...short.map(({ missing }) => missing))} more`,
      signed: [...new Set(counts.flatMap(({ signed }) => signed))],
      mayStillSign: [...new Set(short.flatMap(({ mayStillSign }) => mayStillSign))],
      missing: Math.max(...short.map(({ missing }) => missing)),
    };
  });
}

/** Who signed, each once, by the keys of one version. */
function signedBy(
  { anchor, now }: PolicyChainInput,
  objects: readonly RawGitObject[],
  signers: PolicySigners,
  effective: PolicyVersion,
  alsoExpired: boolean,
): Promise<ReadonlySet<string>> {
  const counts = (statement: Statement): boolean =>
    statement.type === 'policy' &&
    statement.fleet === anchor.fleetId &&
    statement.ref === anchor.ref &&
    statement.environment === anchor.environment &&
    statement.policy === effective.sha256 &&
    (alsoExpired || statement.expiresMs > now.getTime());
  return Promise.all(objects.map((object) => verifyStatement(object, signers, now, anchor.clockSkewMs))).then(
    (readings) =>
      new Set(
        readings.flatMap((reading) =>
          reading.kind === 'statement' && counts(reading.statement) ? [reading.statement.principal] : [],
        ),
      ),
  );
}

/** A statement that signed a version when it was made, whatever has become of it and its key since: it tells when, and authorises nothing now. */
export interface PolicyProof {
  readonly oid: string;
  /** Whose key it is by the version before, and by the version itself. */
  readonly before: string | null;
  readonly own: string | null;
}

/** Never rejects. */
export function provedFor(
  anchor: TrustAnchor,
  objects: readonly RawGitObject[],
  before: PolicyVersion,
  next: PolicyVersion,
): Promise<readonly PolicyProof[]> {
  const dated = objects.flatMap((object) => {
    const parse = parseStatement(object);
    const isOwn = parse.kind === 'claims' && parse.claims.type === 'policy' && parse.claims.subject === next.sha256;
    return isOwn ? [{ object, date: new Date(parse.datedMs) }] : [];
  });
  return Promise.all([before, next].map((board) => signersOf(board, new Uint8Array()))).then((boards) =>
    Promise.all(
      dated.map(({ object, date }) =>
        Promise.all(
          boards.map((signers) =>
            signedBy({ anchor, now: date, files: [], last: null, objects: [] }, [object], signers, before, true),
          ),
        ).then(([old, own]) => ({
          oid: object.oid,
          before: [...(old ?? [])][0] ?? null,
          own: [...(own ?? [])][0] ?? null,
        })),
      ),
    ).then((proofs) => proofs.filter((proof) => proof.before !== null || proof.own !== null)),
  );
}

/** Whether these were enough to bring `next` into effect after `before`. */
export function wereEnough(before: PolicyVersion, next: PolicyVersion, proofs: readonly PolicyProof[]): boolean {
  const names = (whose: 'before' | 'own') => new Set(proofs.map((proof) => proof[whose]));
  return isMet(before, names('before')) && (sameAdmins(before.policy, next.policy) || isMet(next, names('own')));
}

const isMet = ({ policy }: PolicyVersion, names: ReadonlySet<string | null>): boolean =>
  policy.admins.members.filter((name) => names.has(name)).length >= policy.admins.threshold;

/** A statement that an admin of one version signed about the next one, whatever file holds that. */
export interface NextProof {
  readonly subject: string;
  readonly oid: string;
  readonly principal: string;
}

/** As `provedFor`, of whatever was signed to follow `before`. Never rejects. */
export function provedAfter(
  anchor: TrustAnchor,
  objects: readonly RawGitObject[],
  before: PolicyVersion,
): Promise<readonly NextProof[]> {
  const dated = objects.flatMap((object) => {
    const parse = parseStatement(object);
    const follows = parse.kind === 'claims' && parse.claims.type === 'policy' && parse.claims.policy === before.sha256;
    return follows ? [{ object, subject: parse.claims.subject, now: new Date(parse.datedMs) }] : [];
  });
  if (dated.length === 0) return Promise.resolve([]);
  return signersOf(before, new Uint8Array()).then((signers) =>
    Promise.all(
      dated.map(({ object, subject, now }) =>
        signedBy({ anchor, now, files: [], last: null, objects: [] }, [object], signers, before, true).then((names) =>
          [...names].map((principal) => ({ subject, oid: object.oid, principal })),
        ),
      ),
    ).then((found) => found.flat()),
  );
}

/** What enough admins of `before` signed to follow it, and who. Whether its own admins had to sign too only its bytes tell. */
export function signedEnough(
  before: PolicyVersion,
  proofs: readonly NextProof[],
): ReadonlyMap<string, readonly NextProof[]> {
  const bySubject = new Map<string, NextProof[]>();
  for (const proof of proofs) {
    const known = bySubject.get(proof.subject);
    if (known) known.push(proof);
    else bySubject.set(proof.subject, [proof]);
  }
  return new Map([...bySubject].filter(([, own]) => isMet(before, new Set(own.map((one) => one.principal)))));
}

/** The version that these bytes are, when they may follow `before`; else null. */
export function followerOf(anchor: TrustAnchor, before: PolicyVersion, bytes: Uint8Array): PolicyVersion | null {
  const number = before.version + 1;
  const { version } = refusalOf({ path: policyPath(number), bytes }, number, anchor);
  return version !== null && version.policy.previous === before.sha256 ? version : null;
}

/** The same people with the same keys and the same threshold: a new key is a new hand. */
function sameAdmins(before: Policy, after: Policy): boolean {
  const board = ({ admins, principals }: Policy): string =>
    JSON.stringify([
      admins.threshold,
      [...admins.members].sort().map((name) => {
        const { ssh = [], openpgp = [] } = principals[name] ?? {};
        // The comment of an SSH key says nothing about it.
        const lines = ssh.map((line) => line.split(' ').slice(0, 2).join(' '));
        return [name, lines.sort(), openpgp.map((key) => JSON.stringify(key)).sort()];
      }),
    ]);
  return board(before) === board(after);
}
