// Trust look: everything about policy and requests at one tip, gathered from git objects and judged now. It records what must be remembered
// of it (first sight of a statement, the policy in effect) and carries nothing out.
import { Fault } from '../../core/fault.ts';
import {
  evaluateRequest,
  type RequestEvaluation,
  type SeenStatement,
} from '../../core/state/trust/evaluate-request.ts';
import { effectivePolicy, type PolicyChain } from '../../core/state/trust/policy-chain.ts';
import { type PolicyFile, versionOfPath } from '../../core/state/trust/policy-file.ts';
import { type PolicySigners, signersOf } from '../../core/state/trust/policy-signers.ts';
import { idOfPath } from '../../core/state/trust/request-file.ts';
import { parseStatement, verifyStatement } from '../../core/state/trust/statement.ts';
import type { TrustAnchor } from '../../core/state/trust/trust-anchor.ts';
import type { Ledger } from '../../ports/ledger.ts';
import type { SignedObject } from '../../ports/source.ts';
import type { House } from '../house.ts';

/** Specs larger than this are no policies and no requests. Source: SPEC 2. */
const FILE_BYTES = 1024 * 1024;
const MOST_COMMITS = 200_000;
const MOST_REQUESTS = 2_000;
const AT_ONCE = 32;

export interface RequestAt {
  readonly id: string;
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly evaluation: RequestEvaluation;
}

export interface TrustLook {
  readonly anchor: TrustAnchor;
  readonly ledger: Ledger;
  readonly tip: string;
  readonly chain: PolicyChain;
  readonly requests: readonly RequestAt[];
  readonly statements: readonly SeenStatement[];
  readonly objects: ReadonlyMap<string, SignedObject>;
}

/** Throws USAGE without an anchor; GIT_* when the repository cannot be read, which decides nothing. */
export async function lookAtTrust(
  house: House,
  tip: string,
  options: { readonly except?: string } = {},
): Promise<TrustLook> {
  const { anchor, ledger } = await anchored(house);
  const { source, clock } = house;
  const listing = await source.list(tip);
  const files: PolicyFile[] = [];
  for (const { path, mode, oid } of listing.entries)
    if (versionOfPath(path) !== null && mode.startsWith('100'))
      files.push({ path, bytes: await boundedBytes(house, oid) });
  const objects = await candidates(house, tip);
  const nowMs = clock.nowMs();
  const now = new Date(nowMs);
  const chain = await effectivePolicy({
    anchor,
    files,
    last: ledger.effectivePolicy(),
    objects: [...objects.values()],
    now,
  });
  const { effective } = chain;
  if (effective !== null)
    ledger.putEffectivePolicy({
      anchor: anchor.policySha256,
      version: effective.version,
      sha256: effective.sha256,
      bytes: effective.bytes,
    });
  const statements: SeenStatement[] = [];
  if (effective !== null) {
    const signers = await signersOf(effective, anchor.revoked);
    for (const object of objects.values()) statements.push(await seen(object, signers, now, anchor, ledger));
  }
  const accepted = ledger.acceptedTip();
  const facts = {
    tip,
    descendsFromGenesis: await source.descends(tip, anchor.genesis),
    descendsFromAccepted: accepted === null || (await descends(house, tip, accepted)),
  };
  const spent = ledger.spent(options.except);
  const requests: RequestAt[] = [];
  for (const { path, mode, oid } of listing.entries) {
    const id = idOfPath(path);
    if (id === null) continue;
    if (requests.length >= MOST_REQUESTS)
      throw new Fault(
        'GIT_TOO_LARGE',
        `there are more than ${MOST_REQUESTS} files in requests/; remove those that are done`,
      );
    const isRegularBlob = mode === '100644' || mode === '100755';
    const bytes = isRegularBlob ? await boundedBytes(house, oid) : new Uint8Array();
    const evaluation = evaluateRequest({
      path,
      bytes,
      tip: { ...facts, isRegularBlob },
      statements,
      policy: effective,
      anchor,
      spent,
      nowMs,
    });
    requests.push({ id, path, bytes, evaluation });
  }
  return { anchor, ledger, tip, chain, requests, statements, objects };
}

async function anchored(house: House): Promise<{ anchor: TrustAnchor; ledger: Ledger }> {
  const { trust } = house;
  if (!trust?.anchor || !trust.ledger)
    throw new Fault(
      'USAGE',
      'this controller has no trust anchor: write the `trust.anchor` that `windlass trust init` printed into windlass.yaml',
    );
  const { ref } = house.source.spec;
  const full = ref.startsWith('refs/') ? ref : `refs/heads/${ref}`;
  if (full !== trust.anchor.ref)
    throw new Fault(
      'USAGE',
      `the trust anchor is for ${trust.anchor.ref}, and ${full} is watched: nothing is authorised`,
    );
  const { revoked } = await trust.files();
  return {
    anchor: { ...trust.anchor, revoked: revoked === undefined ? new Uint8Array() : revoked },
    ledger: trust.ledger,
  };
}

/** A file that is too large is judged as such, not thrown at. */
async function boundedBytes(house: House, oid: string): Promise<Uint8Array> {
  try {
    return await house.source.blob(oid, FILE_BYTES + 1);
  } catch (error) {
    if (error instanceof Fault && error.code === 'GIT_TOO_LARGE') return new Uint8Array(FILE_BYTES + 1);
    throw error;
  }
}

async function descends(house: House, tip: string, ancestor: string): Promise<boolean> {
  try {
    return await house.source.descends(tip, ancestor);
  } catch (error) {
    // Another repository does not even hold the commit.
    if (error instanceof Fault && error.code === 'GIT_OBJECT_MISSING') return false;
    throw error;
  }
}

async function seen(
  object: SignedObject,
  signers: PolicySigners,
  now: Date,
  anchor: TrustAnchor,
  ledger: Ledger,
): Promise<SeenStatement> {
  const reading = await verifyStatement(object, signers, now, anchor.clockSkewMs);
  const isProved = reading.kind === 'statement';
  return { reading, firstSeenMs: isProved ? ledger.firstSeen(reading.statement.id, now.getTime()) : null };
}

interface Scanned {
  readonly tip: string;
  /** Commits that carry words of ours, whatever they are worth. */
  readonly oids: readonly string[];
}

/** Objects that may be statements: commits of this history, found once and remembered, and tags. */
async function candidates(house: House, tip: string): Promise<ReadonlyMap<string, SignedObject>> {
  const { source, store } = house;
  const key = `trust-scan/${source.spec.name}`;
  const before = store.value(key) as Scanned | undefined;
  const goesOn = before !== undefined && (await descends(house, tip, before.tip));
  const oids = new Set(goesOn ? before.oids : []);
  if (!goesOn || before.tip !== tip) {
    const fresh = await source.commitsSince(tip, goesOn ? before.tip : null, MOST_COMMITS);
    for (let at = 0; at < fresh.length; at += AT_ONCE)
      for (const object of await Promise.all(fresh.slice(at, at + AT_ONCE).map((oid) => readable(house, oid))))
        if (object !== null && parseStatement(object).kind !== 'none') oids.add(object.oid);
    store.putValue(key, { tip, oids: [...oids] } satisfies Scanned);
  }
  const found = new Map<string, SignedObject>();
  for (const oid of [...oids, ...(await source.tags())]) {
    const object = await readable(house, oid);
    if (object !== null && parseStatement(object).kind !== 'none') found.set(oid, object);
  }
  return found;
}

/** One that is too large or of another kind is no statement, and stops nothing. */
async function readable({ source }: House, oid: string): Promise<SignedObject | null> {
  try {
    return await source.object(oid);
  } catch (error) {
    if (error instanceof Fault && (error.code === 'GIT_TOO_LARGE' || error.code === 'GIT_REFUSED')) return null;
    throw error;
  }
}
