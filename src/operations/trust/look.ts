// Trust look: everything about policy and requests at one tip, gathered from git objects and judged now. It records what must be remembered
// of it (first sight of a statement, the policy in effect) and carries nothing out.
import { Fault } from '../../core/fault.ts';
import { isTerminal } from '../../core/request/life.ts';
import {
  evaluateRequest,
  MOST_STATEMENTS,
  type RequestEvaluation,
  type SeenStatement,
} from '../../core/state/trust/evaluate-request.ts';
import { effectivePolicy, type PolicyChain, type PolicyMemory } from '../../core/state/trust/policy-chain.ts';
import { type PolicyFile, sha256Of, versionOfPath } from '../../core/state/trust/policy-file.ts';
import { type PolicySigners, signersOf } from '../../core/state/trust/policy-signers.ts';
import { idOfPath, isMisnamed } from '../../core/state/trust/request-file.ts';
import { parseStatement, type Statement, verifyStatement } from '../../core/state/trust/statement.ts';
import type { TrustAnchor } from '../../core/state/trust/trust-anchor.ts';
import type { Ledger } from '../../ports/ledger.ts';
import type { SignedObject } from '../../ports/source.ts';
import type { House } from '../house.ts';
import { hasGoneOn } from '../lineage.ts';
import { earlierWords } from './earlier-words.ts';
import { missingAfter } from './missing-policy.ts';
import {
  MOST_READ_BYTES,
  MOST_SOME_BYTES,
  readSomeWords,
  readWords,
  type Scan,
  scanWords,
  type Words,
} from './scan.ts';

/** Specs larger than this are no policies and no requests. Source: SPEC 2. */
const FILE_BYTES = 1024 * 1024;
const TOO_LARGE = new Uint8Array(FILE_BYTES + 1);
/** Of one look: whoever may push may fill the folder, which must stop neither what was asked for before nor a deploy. */
const MOST_REQUESTS = 2_000;
/** It is enough to name some. */
const MOST_MISNAMED = 50;
const MOST_REQUEST_BYTES = 8 * 1024 * 1024;
/** Versions that one look climbs; the next look goes on. */
const MOST_VERSIONS = 32;

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
  readonly scan: Scan;
  readonly atMs: number;
}

export interface TrustLook extends PolicyLook {
  /** Statements about the requests, raw. */
  readonly objects: ReadonlyMap<string, SignedObject>;
  readonly requests: readonly RequestAt[];
  /** Files that somebody may take for requests, with a name that none can have: the path is their id. */
  readonly misnamed: readonly RequestAt[];
  /** How many files in requests/ were not looked at, because there are too many. */
  readonly passedOver: number;
  /** Ids of all files of the tip that have the name of a request, also of those that were not looked at. */
  readonly there: ReadonlySet<string>;
}

/** Throws USAGE without an anchor; GIT_* when the repository cannot be read, which decides nothing. */
export async function lookAtPolicy(house: House, tip: string): Promise<PolicyLook> {
  const { anchor, ledger } = await anchored(house);
  const accepted = ledger.acceptedTip();
  const descendsFromGenesis = await hasGoneOn(house, tip, anchor.genesis);
  const descendsFromAccepted = accepted === null || (await hasGoneOn(house, tip, accepted));
  const scan = await scanWords(house, tip);
  const atMs = house.clock.nowMs();
  const remembered = ledger.effectivePolicy();
  const last = remembered?.anchor === anchor.policySha256 ? remembered : null;
  // Who remembers goes on from there whatever is not seen; who does not could go back to an older version.
  if (last === null && scan.incomplete) throw scan.incomplete;
  const chain = await chainAt(house, tip, { anchor, last, scan, atMs });
  const { effective } = chain;
  // What stands on a branch that is not accepted is told, and not remembered.
  if (effective !== null && effective.sha256 !== last?.sha256 && descendsFromGenesis && descendsFromAccepted)
    ledger.putEffectivePolicy({
      anchor: anchor.policySha256,
      version: effective.version,
      sha256: effective.sha256,
      bytes: effective.bytes,
    });
  return { anchor, ledger, tip, descendsFromGenesis, descendsFromAccepted, chain, scan, atMs };
}

interface Here {
  readonly anchor: TrustAnchor;
  readonly last: PolicyMemory | null;
  readonly scan: Scan;
  readonly atMs: number;
}

async function chainAt(house: House, tip: string, { anchor, last, scan, atMs }: Here): Promise<PolicyChain> {
  const isPolicy = scan.words.filter((one) => one.isPolicy);
  const about = (subjects: ReadonlySet<string>): readonly Words[] =>
    isPolicy.filter((one) => one.subjects.some((subject) => subjects.has(subject)));
  let from = last;
  for (;;) {
    const start = from?.version ?? 1;
    const files = await policyFiles(house, tip, start);
    // The others are never in effect, and there may be any number of them.
    const subjects = files.flatMap(({ bytes }) => (bytes === TOO_LARGE ? [] : [sha256Of(bytes)]));
    // Nothing that is missing could take anything from what is remembered: it stays in effect, and deploys go on, whatever is pushed.
    const objects =
      last === null
        ? await readWords(house, about(new Set(subjects)))
        : await readSomeOfEach(
            house,
            subjects.filter((subject) => subject !== last.sha256).map((one) => about(new Set([one]))),
          );
    const chain = await effectivePolicy({
      anchor,
      files,
      last: from,
      refusesExpired: last === null,
      objects: [...objects.values()],
      now: new Date(atMs),
    });
    const { effective } = chain;
    if (last !== null || effective === null) return chain;
    if (effective.version >= start + MOST_VERSIONS - 1) {
      // Without memory there is no next look that could still miss one: on to the last of them.
      from = { anchor: anchor.policySha256, ...effective };
      continue;
    }
    const next = files.find(({ path }) => versionOfPath(path) === effective.version + 1);
    const missing = await missingAfter(house, anchor, isPolicy, effective, next ? sha256Of(next.bytes) : null);
    return missing === null ? chain : { effective: null, drift: missing };
  }
}

/** No flood about one version, which anybody may write, keeps the one before it from being signed: that comes first. What they have no
 * room for together is left to the next look. */
async function readSomeOfEach(
  house: House,
  each: readonly (readonly Words[])[],
): Promise<ReadonlyMap<string, SignedObject>> {
  const found = new Map<string, SignedObject>();
  let leftBytes = MOST_READ_BYTES;
  for (const words of each) {
    if (leftBytes < MOST_SOME_BYTES) break;
    for (const [oid, object] of await readSomeWords(house, words)) {
      leftBytes -= object.bytes.length;
      found.set(oid, object);
    }
  }
  return found;
}

/** By number: the version in effect and those that may follow it, read; of others only the name counts. */
async function policyFiles(house: House, tip: string, from: number): Promise<readonly PolicyFile[]> {
  const files: PolicyFile[] = [];
  for (const { path, mode, oid } of (await house.source.list(tip)).entries) {
    const version = versionOfPath(path);
    if (version === null || !mode.startsWith('100')) continue;
    const isNear = version >= from && version < from + MOST_VERSIONS;
    files.push({ path, bytes: isNear ? await boundedBytes(house, oid) : TOO_LARGE });
  }
  return files.sort((a, b) => (versionOfPath(a.path) ?? 0) - (versionOfPath(b.path) ?? 0));
}

/** `except` leaves out one own claim, for the look that is taken between claim and act. Throws as `lookAtPolicy` does. */
export async function lookAtTrust(
  house: House,
  tip: string,
  options: { readonly except?: string } = {},
): Promise<TrustLook> {
  const look = await lookAtPolicy(house, tip);
  const { anchor, ledger, chain, scan, atMs, descendsFromGenesis, descendsFromAccepted } = look;
  // What is not seen may be a rejection.
  if (scan.incomplete) throw scan.incomplete;
  const { effective } = chain;
  const { files, passedOver, there } = await requestFiles(house, look);
  const subjects = new Set(files.map(({ bytes }) => sha256Of(bytes)));
  const kept = ledger.stops();
  const objects = new Map(await readWords(house, chosen(scan.words, subjects)));
  for (const { object } of kept) {
    const parse = parseStatement(object);
    if (parse.kind === 'claims' && subjects.has(parse.claims.subject)) objects.set(object.oid, object);
  }
  const statements = new Map<string, SeenStatement[]>();
  let earlier: ReadonlyMap<string, string> = new Map();
  if (effective !== null) {
    const signers = await signersOf(effective, anchor.revoked);
    const isKept = new Set(kept.map(({ statementId }) => statementId));
    for (const object of objects.values()) {
      const one = await seen(object, signers, look);
      const { reading } = one;
      if (reading.kind === 'none') continue;
      for (const subject of reading.kind === 'statement' ? [reading.statement.subject] : reading.mentions)
        if (subjects.has(subject)) statements.set(subject, [...(statements.get(subject) ?? []), one]);
      if (reading.kind !== 'statement' || !stops(reading.statement, anchor) || isKept.has(reading.statement.id))
        continue;
      ledger.keepStop(reading.statement.id, object);
      isKept.add(reading.statement.id);
    }
    const bare = files.filter(({ bytes, isRegularBlob }) => isRegularBlob && !statements.has(sha256Of(bytes)));
    const others = scan.words.filter((one) => !one.isPolicy && isElsewhere(one, subjects));
    earlier = await earlierWords(
      house,
      { anchor, signers, atMs },
      bare.map(({ path }) => path),
      others,
    );
  }
  const spent = ledger.spent(options.except);
  const ran = new Map(ledger.claims().map(({ id, subject }) => [subject, ranAs(ledger, id)]));
  const evaluate = (
    path: string,
    bytes: Uint8Array,
    isRegularBlob: boolean,
    twins: readonly string[] = [],
  ): RequestEvaluation =>
    evaluateRequest({
      path,
      bytes,
      tip: { tip, descendsFromGenesis, descendsFromAccepted, isRegularBlob },
      statements: statements.get(sha256Of(bytes)) ?? [],
      policy: effective,
      anchor,
      spent,
      ran: ran.get(sha256Of(bytes)),
      earlier: earlier.get(path),
      // What is claimed already is the one that runs: a copy that comes then changes nothing.
      twins: idOfPath(path) === options.except ? [] : twins,
      nowMs: atMs,
    });
  const requests = files.map(({ id, path, bytes, isRegularBlob, twins }) => ({
    id,
    path,
    bytes,
    evaluation: evaluate(path, bytes, isRegularBlob, twins),
  }));
  const nothing = new Uint8Array();
  const misnamed = (await house.source.list(tip)).entries
    .filter(({ path }) => isMisnamed(path))
    .slice(0, MOST_MISNAMED)
    .map(({ path }) => ({ id: path, path, bytes: nothing, evaluation: evaluate(path, nothing, true) }));
  return { ...look, objects, requests, misnamed, passedOver, there };
}

/** It speaks of files, and of none of these. */
const isElsewhere = ({ subjects: its }: Words, subjects: ReadonlySet<string>): boolean =>
  its.length > 0 && !its.some((subject) => subjects.has(subject));

/** What became of a claim, for whoever finds its bytes under another id. */
export function ranAs(ledger: Ledger, id: string): string {
  const state = ledger.snapshot(id)?.state ?? 'claimed';
  return `${state === 'claimed' || state === 'refused' ? 'claimed' : 'ran'} as ${id} (${state})`;
}

interface ReadFile {
  readonly id: string;
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly isRegularBlob: boolean;
  /** Other requests of the same bytes, also those that are not read. */
  readonly twins: readonly string[];
}

const isRegular = (mode: string): boolean => mode === '100644' || mode === '100755';

/** Those that somebody's signature has brought further first, what is over last; else by their path. */
async function requestFiles(
  house: House,
  { ledger, tip }: PolicyLook,
): Promise<Pick<TrustLook, 'passedOver' | 'there'> & { readonly files: readonly ReadFile[] }> {
  const states = new Map(ledger.snapshots().map(({ id, state }) => [id, state]));
  const rank = ({ id }: { readonly id: string }): number => {
    const state = states.get(id) ?? 'observed';
    return isTerminal(state) ? 2 : state === 'observed' || state === 'verifying' ? 1 : 0;
  };
  const named = (await house.source.list(tip)).entries
    .flatMap((entry) => {
      const id = idOfPath(entry.path);
      return id === null ? [] : [{ ...entry, id }];
    })
    .sort((a, b) => rank(a) - rank(b));
  const files: ReadFile[] = [];
  const alike = new Map<string, string[]>();
  for (const { path, mode, oid } of named) if (isRegular(mode)) alike.set(oid, [...(alike.get(oid) ?? []), path]);
  let readBytes = 0;
  for (const { id, path, mode, oid } of named) {
    if (files.length >= MOST_REQUESTS || readBytes > MOST_REQUEST_BYTES) break;
    const isRegularBlob = isRegular(mode);
    const bytes = isRegularBlob ? await boundedBytes(house, oid) : new Uint8Array();
    readBytes += bytes.length;
    const twins = isRegularBlob ? (alike.get(oid) ?? []).filter((other) => other !== path).sort() : [];
    files.push({ id, path, bytes, isRegularBlob, twins });
  }
  return { files, passedOver: named.length - files.length, there: new Set(named.map(({ id }) => id)) };
}

/** What is about these files. One more than a request may have of them is enough to refuse it. */
function chosen(words: readonly Words[], subjects: ReadonlySet<string>): readonly Words[] {
  const counts = new Map<string, number>();
  return words.filter((one) => {
    const open = one.subjects.filter(
      (subject) => subjects.has(subject) && (counts.get(subject) ?? 0) <= MOST_STATEMENTS,
    );
    for (const subject of open) counts.set(subject, (counts.get(subject) ?? 0) + 1);
    return open.length > 0;
  });
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
