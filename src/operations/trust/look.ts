// Trust look: everything about policy and requests at one tip, gathered from git objects and judged now. It records what must be remembered
// of it (first sight of a statement, the policy in effect) and carries nothing out.
import { Fault } from '../../core/fault.ts';
import { isTerminal } from '../../core/request/life.ts';
import type { TreeEntry } from '../../core/state/listing.ts';
import {
  evaluateRequest,
  type RequestEvaluation,
  type SeenStatement,
} from '../../core/state/trust/evaluate-request.ts';
import { effectivePolicy, type PolicyChain } from '../../core/state/trust/policy-chain.ts';
import { type PolicyFile, versionOfPath } from '../../core/state/trust/policy-file.ts';
import { type PolicySigners, signersOf } from '../../core/state/trust/policy-signers.ts';
import { idOfPath, isMisnamed } from '../../core/state/trust/request-file.ts';
import { parseStatement, type Statement, verifyStatement } from '../../core/state/trust/statement.ts';
import type { TrustAnchor } from '../../core/state/trust/trust-anchor.ts';
import type { Ledger } from '../../ports/ledger.ts';
import type { SignedObject } from '../../ports/source.ts';
import type { House } from '../house.ts';

/** Specs larger than this are no policies and no requests. Source: SPEC 2. */
const FILE_BYTES = 1024 * 1024;
const TOO_LARGE = new Uint8Array(FILE_BYTES + 1);
const MOST_COMMITS = 200_000;
/** Of one look: whoever may push may fill the folder, which must stop neither what was asked for before nor a deploy. */
const MOST_REQUESTS = 2_000;
/** It is enough to name some. */
const MOST_MISNAMED = 50;
const MOST_REQUEST_BYTES = 8 * 1024 * 1024;
/** Versions that one look climbs; the next look goes on. */
const MOST_VERSIONS = 32;
const AT_ONCE = 32;

export interface RequestAt {
  readonly id: string;
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly evaluation: RequestEvaluation;
}

/** What speaks of the policy at one tip. */
export interface PolicyLook {
  readonly anchor: TrustAnchor;
  readonly ledger: Ledger;
  readonly tip: string;
  readonly descendsFromGenesis: boolean;
  readonly descendsFromAccepted: boolean;
  readonly chain: PolicyChain;
  readonly objects: ReadonlyMap<string, SignedObject>;
  readonly atMs: number;
}

export interface TrustLook extends PolicyLook {
  readonly requests: readonly RequestAt[];
  /** Files that somebody may take for requests, with a name that none can have: the path is their id. */
  readonly misnamed: readonly RequestAt[];
  /** How many files in requests/ were not looked at, because there are too many. */
  readonly passedOver: number;
}

/** Throws USAGE without an anchor; GIT_* when the repository cannot be read, which decides nothing. */
export async function lookAtPolicy(house: House, tip: string): Promise<PolicyLook> {
  const { anchor, ledger } = await anchored(house);
  const accepted = ledger.acceptedTip();
  const descendsFromGenesis = await descends(house, tip, anchor.genesis);
  const descendsFromAccepted = accepted === null || (await descends(house, tip, accepted));
  const objects = new Map(await candidates(house, tip));
  for (const { object } of ledger.stops()) if (!objects.has(object.oid)) objects.set(object.oid, object);
  const atMs = house.clock.nowMs();
  const remembered = ledger.effectivePolicy();
  const last = remembered?.anchor === anchor.policySha256 ? remembered : null;
  const chain = await effectivePolicy({
    anchor,
    files: await policyFiles(house, tip, last?.version ?? 1),
    last,
    refusesExpired: last === null,
    objects: [...objects.values()],
    now: new Date(atMs),
  });
  const { effective } = chain;
  // What stands on a branch that is not accepted is told, and not remembered.
  if (effective !== null && effective.sha256 !== last?.sha256 && descendsFromGenesis && descendsFromAccepted)
    ledger.putEffectivePolicy({
      anchor: anchor.policySha256,
      version: effective.version,
      sha256: effective.sha256,
      bytes: effective.bytes,
    });
  return { anchor, ledger, tip, descendsFromGenesis, descendsFromAccepted, chain, objects, atMs };
}

/** The version in effect and those that may follow it, read; of others only the name counts. */
async function policyFiles(house: House, tip: string, from: number): Promise<readonly PolicyFile[]> {
  const files: PolicyFile[] = [];
  for (const { path, mode, oid } of (await house.source.list(tip)).entries) {
    const version = versionOfPath(path);
    if (version === null || !mode.startsWith('100')) continue;
    const isNear = version >= from && version < from + MOST_VERSIONS;
    files.push({ path, bytes: isNear ? await boundedBytes(house, oid) : TOO_LARGE });
  }
  return files;
}

/** `except` leaves out one own claim, for the look that is taken between claim and act. Throws as `lookAtPolicy` does. */
export async function lookAtTrust(
  house: House,
  tip: string,
  options: { readonly except?: string } = {},
): Promise<TrustLook> {
  const look = await lookAtPolicy(house, tip);
  const { anchor, ledger, chain, objects, atMs, descendsFromGenesis, descendsFromAccepted } = look;
  const { effective } = chain;
  const statements: SeenStatement[] = [];
  if (effective !== null) {
    const signers = await signersOf(effective, anchor.revoked);
    const kept = new Set(ledger.stops().map(({ statementId }) => statementId));
    for (const object of objects.values()) {
      const one = await seen(object, signers, look);
      statements.push(one);
      if (one.reading.kind !== 'statement' || !stops(one.reading.statement, anchor)) continue;
      const { id } = one.reading.statement;
      if (kept.has(id)) continue;
      ledger.keepStop(id, object);
      kept.add(id);
    }
  }
  const spent = ledger.spent(options.except);
  const evaluate = (path: string, bytes: Uint8Array, isRegularBlob: boolean): RequestEvaluation =>
    evaluateRequest({
      path,
      bytes,
      tip: { tip, descendsFromGenesis, descendsFromAccepted, isRegularBlob },
      statements,
      policy: effective,
      anchor,
      spent,
      nowMs: atMs,
    });
  const requests: RequestAt[] = [];
  let passedOver = 0;
  let readBytes = 0;
  for (const { id, path, mode, oid } of await requestFiles(house, look)) {
    if (requests.length >= MOST_REQUESTS || readBytes > MOST_REQUEST_BYTES) {
      passedOver += 1;
      continue;
    }
    const isRegularBlob = mode === '100644' || mode === '100755';
    const bytes = isRegularBlob ? await boundedBytes(house, oid) : new Uint8Array();
    readBytes += bytes.length;
    requests.push({ id, path, bytes, evaluation: evaluate(path, bytes, isRegularBlob) });
  }
  const nothing = new Uint8Array();
  const misnamed = (await house.source.list(tip)).entries
    .filter(({ path }) => isMisnamed(path))
    .slice(0, MOST_MISNAMED)
    .map(({ path }) => ({ id: path, path, bytes: nothing, evaluation: evaluate(path, nothing, true) }));
  return { ...look, requests, misnamed, passedOver };
}

/** Those that somebody's signature has brought further first, what is over last; else by their path. */
async function requestFiles(
  house: House,
  { ledger, tip }: PolicyLook,
): Promise<readonly (TreeEntry & { id: string })[]> {
  const states = new Map(ledger.snapshots().map(({ id, state }) => [id, state]));
  const rank = ({ id }: { readonly id: string }): number => {
    const state = states.get(id) ?? 'observed';
    return isTerminal(state) ? 2 : state === 'observed' || state === 'verifying' ? 1 : 0;
  };
  return (await house.source.list(tip)).entries
    .flatMap((entry) => {
      const id = idOfPath(entry.path);
      return id === null ? [] : [{ ...entry, id }];
    })
    .sort((a, b) => rank(a) - rank(b));
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
    if (error instanceof Fault && error.code === 'GIT_TOO_LARGE') return TOO_LARGE;
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

async function seen(object: SignedObject, signers: PolicySigners, look: PolicyLook): Promise<SeenStatement> {
  const { anchor, ledger, atMs, descendsFromGenesis, descendsFromAccepted } = look;
  const reading = await verifyStatement(object, signers, new Date(atMs), anchor.clockSkewMs);
  if (reading.kind !== 'statement') return { reading, firstSeenMs: null };
  const { id, expiresMs } = reading.statement;
  const known = ledger.firstSeenOf(id);
  // What has expired counts for nothing any more, and would only be remembered and forgotten in turns.
  if (known !== null || expiresMs <= atMs) return { reading, firstSeenMs: known ?? atMs };
  const isRemembered = descendsFromGenesis && descendsFromAccepted;
  return { reading, firstSeenMs: isRemembered ? ledger.firstSeen(id, atMs, expiresMs) : null };
}

/** What stops something here. Who may say it is judged at each look. */
const stops = ({ type, fleet, ref, environment }: Statement, anchor: TrustAnchor): boolean =>
  (type === 'reject' || type === 'withdraw') &&
  fleet === anchor.fleetId &&
  ref === anchor.ref &&
  environment === anchor.environment;

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
