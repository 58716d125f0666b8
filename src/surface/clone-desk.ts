// Clone desk: what people do with trust in their own clone. It knows what is in effect as far as the clone can tell, makes statements
// with the person's own signing set-up, and judges what it made as a controller would. It prints nothing and asks nobody.
import { randomBytes } from 'node:crypto';
import { Fault } from '../core/fault.ts';
import { parseDocument } from '../core/spec/document.ts';
import { ANCHOR_PATH, type AnchorHint, readAnchorHint } from '../core/state/trust/anchor-hint.ts';
import { type AuthorityCode, helpOf } from '../core/state/trust/authority.ts';
import { evaluateRequest, type RequestEvaluation } from '../core/state/trust/evaluate-request.ts';
import type { RawGitObject } from '../core/state/trust/judge.ts';
import { effectivePolicy, type PolicyDrift, type PolicyMemory } from '../core/state/trust/policy-chain.ts';
import { decodeUtf8, type PolicyFile, type PolicyVersion, policyPath } from '../core/state/trust/policy-file.ts';
import { type PolicySigners, signersOf } from '../core/state/trust/policy-signers.ts';
import type { ReasonCode } from '../core/state/trust/reason.ts';
import { requestPath } from '../core/state/trust/request-file.ts';
import { rulesFor } from '../core/state/trust/request-rules.ts';
import {
  formatStatement,
  parseStatement,
  type StatementClaims,
  type StatementReading,
  type StatementType,
  verifyStatement,
} from '../core/state/trust/statement.ts';
import type { TrustAnchor } from '../core/state/trust/trust-anchor.ts';
import { additions, breaches, changedPaths, type TrustChange, trustFiles } from '../operations/trust/clone-changes.ts';
import { type Echoes, echoesOf } from '../operations/trust/clone-echoes.ts';
import type { Clone, CloneFile, FileChange, SigningSetUp } from '../ports/clone.ts';

export type { Clone, CloneFile, SigningSetUp } from '../ports/clone.ts';

/** As the controller has it when its configuration says nothing else. */
const CLOCK_SKEW_MS = 5 * 60_000;
export const MAX_LIFETIME_MS = 30 * 24 * 3_600_000;
const POLICY_FOLDER = 'trust/policy';
const NONCE_BYTES = 16;
const COMPOSE_FILES = ['compose.yaml', 'compose.yml', 'docker-compose.yaml', 'docker-compose.yml'];

export interface CloneAuthority {
  readonly commit: string;
  /** The full ref; null when HEAD is detached. */
  readonly branch: string | null;
  readonly hint: AnchorHint;
  /** The commit that changed the hint after it was made: a proposal could point its approvers to another fleet by it. Null when none did. */
  readonly hintChangedBy: string | null;
  readonly anchor: TrustAnchor;
  /** The version in effect, as far as this clone can tell. */
  readonly policy: PolicyVersion;
  readonly signers: PolicySigners;
  /** Why a newer version has no effect. */
  readonly drift: PolicyDrift | null;
  readonly policyFiles: readonly PolicyFile[];
}

export interface DeclaredVolumes {
  /** Compose key → the name of the engine, as long as no restore has made a newer generation. */
  readonly names: ReadonlyMap<string, string>;
  /** False: the stack has left the fleet. */
  readonly isInHead: boolean;
}

export interface Signer {
  readonly setUp: SigningSetUp;
  /** Whose key it is by the policy in effect; null when it is nobody's or cannot be told before. */
  readonly principal: string | null;
}

/** What became of a statement that was just made. */
export interface Made {
  /** Of the commit or the tag. */
  readonly oid: string;
  readonly tag: string | null;
  readonly principal: string | null;
  /** Null when it counts. */
  readonly lacks: {
    readonly reason: AuthorityCode | ReasonCode;
    readonly detail: string;
    readonly help: string;
    /** It counts as soon as somebody asks, in a statement that is dated until then. Absent: nothing makes it count. */
    readonly untilMs?: number;
  } | null;
  /** Where it counts, though an older one of the same person counts here: no mistake. */
  readonly again?: string;
}

/** With what the history of the clone says against it. */
export interface RequestHere extends RequestEvaluation, Echoes {
  readonly bytes: Uint8Array;
}

/** What HEAD makes of trust/ against one commit. */
export interface TrustChanges {
  readonly name: string;
  readonly commit: string;
  readonly changes: readonly TrustChange[];
}

export interface StatementWish {
  readonly type: StatementType;
  /** 64 hex. */
  readonly subject: string;
  readonly policy: string;
  readonly expiresMs: number;
  readonly title: string;
  readonly body?: string;
  /** For a commit: what it brings along. */
  readonly files?: readonly CloneFile[];
  readonly branch?: string;
  /** Makes a tag of this name on this commit instead of a commit. */
  readonly tag?: { readonly name: string; readonly commit: string };
}

export class CloneDesk {
  readonly clone: Clone;
  readonly #nowMs: () => number;
  #history: { readonly commit: string; readonly changes: readonly FileChange[] } | null = null;

  constructor(clone: Clone, nowMs: () => number = Date.now) {
    this.clone = clone;
    this.#nowMs = nowMs;
  }

  /** To the second, as statements are dated. */
  nowMs(): number {
    return Math.floor(this.#nowMs() / 1000) * 1000;
  }

  static fleetId(): string {
    return `fleet-${randomBytes(12).toString('hex')}`;
  }

  static shortMark(): string {
    return randomBytes(2).toString('hex');
  }

  /** HEAD with a commit, outside of a merge or rebase. Throws CLONE_REFUSED. */
  async settledHead(): Promise<{ readonly commit: string; readonly branch: string | null }> {
    const { commit, branch, isBusy } = await this.clone.head();
    if (commit === null) throw new Fault('CLONE_REFUSED', 'there is no commit yet; make a first one');
    if (isBusy) throw new Fault('CLONE_REFUSED', 'a merge, rebase or cherry-pick is under way; end it first');
    return { commit, branch };
  }

  /** Throws CLONE_REFUSED when HEAD holds no hint and no policy that begins as the hint says. */
  async authority(): Promise<CloneAuthority> {
    if (this.clone.isShallow)
      throw new Fault('CLONE_REFUSED', 'this clone is shallow, so statements may be missing: git fetch --unshallow');
    const { commit, branch } = await this.settledHead();
    const changes = await this.clone.changes(ANCHOR_PATH);
    const hintChangedBy = changes.length > 1 ? (changes[0] ?? null) : null;
    return { commit, branch, hintChangedBy, ...(await this.#trustAt(commit)) };
  }

  async #trustAt(commit: string): Promise<Omit<CloneAuthority, 'commit' | 'branch' | 'hintChangedBy'>> {
    const file = await this.clone.file(commit, ANCHOR_PATH);
    if (file === null)
      throw new Fault(
        'CLONE_REFUSED',
        `HEAD holds no ${ANCHOR_PATH}; begin with: windlass trust init --admin NAME=KEY`,
      );
    const read = readAnchorHint(file.bytes);
    if ('wrong' in read) throw new Fault('CLONE_REFUSED', `${ANCHOR_PATH}: ${read.wrong}`);
    const { hint } = read;
    const anchor: TrustAnchor = {
      fleetId: hint.fleet,
      ref: hint.ref,
      genesis: hint.genesis,
      environment: hint.environment,
      policySha256: hint.policy,
      clockSkewMs: CLOCK_SKEW_MS,
      maxLifetimeMs: MAX_LIFETIME_MS,
      // What a controller revokes is known to the controller alone.
      revoked: new Uint8Array(),
    };
    const [policyFiles, objects] = await Promise.all([
      this.clone.files(commit, POLICY_FOLDER),
      this.clone.statements(commit),
    ]);
    const { policy, drift } = await this.#inEffect(anchor, policyFiles, objects);
    if (policy === null)
      throw new Fault(
        'CLONE_REFUSED',
        `no policy is in effect in this clone: ${drift ? helpOf(drift.reason) : policyPath(1)}`,
      );
    const signers = await signersOf(policy, anchor.revoked);
    return { hint, anchor, policy, signers, drift, policyFiles };
  }

  /** What HEAD makes of trust/, against each branch that it may be merged into and that says of itself to be the one of the anchor; where
   * HEAD is in it already, or there is none here, against the commit before. None where nothing was trusted before. */
  async trustChanges(): Promise<readonly TrustChanges[]> {
    const { clone } = this;
    const { commit } = await clone.head();
    if (commit === null) return [];
    const found: TrustChanges[] = [];
    for (const { name, branch, commit: tip } of await clone.bases(await this.#anchoredBranches(commit))) {
      const before = await this.#trustAt(tip).catch(unlessRefused);
      if (before?.hint.ref !== branch) continue;
      const fork: string = (await clone.mergeBase(tip, commit)) ?? tip;
      if (fork !== commit) found.push(await this.#changes(commit, { name, commit: tip, fork, before }));
    }
    const parent = found.length > 0 ? null : await clone.firstParent(commit);
    const before = parent === null ? null : await this.#trustAt(parent).catch(unlessRefused);
    if (parent === null || before === null) return found;
    return [await this.#changes(commit, { name: 'the commit before', commit: parent, fork: parent, before })];
  }

  /** Also those of the anchor as it was: HEAD could name another one. */
  async #anchoredBranches(commit: string): Promise<readonly string[]> {
    const branches = new Set(['refs/heads/main']);
    for (const at of [commit, ...(await this.clone.changes(ANCHOR_PATH))])
      for (const one of [at, await this.clone.firstParent(at)]) {
        const file = one === null ? null : await this.clone.file(one, ANCHOR_PATH);
        const read = file === null ? null : readAnchorHint(file.bytes);
        if (read !== null && 'hint' in read) branches.add(read.hint.ref);
      }
    return [...branches];
  }

  async #changes(
    head: string,
    base: {
      readonly name: string;
      readonly commit: string;
      readonly fork: string;
      readonly before: Pick<CloneAuthority, 'anchor' | 'policy'>;
    },
  ): Promise<TrustChanges> {
    const filesAt = async (commit: string): Promise<readonly CloneFile[]> => [
      ...(await this.clone.files(commit, 'trust')),
      ...(await this.clone.files(commit, POLICY_FOLDER)),
    ];
    const { name, commit, fork, before } = base;
    const [there, then, here] = await Promise.all([filesAt(commit), filesAt(fork), filesAt(head)]);
    const sides = {
      base: trustFiles(there),
      fork: trustFiles(then),
      head: trustFiles(here),
      inEffect: before.policy.version,
    };
    const refused = breaches(sides);
    const changed = new Set(changedPaths(sides));
    if (refused.length > 0 || changed.size === 0) return { name, commit, changes: refused };
    // What the branch lacks and the base has comes along with the merge.
    const merged = new Map([...here, ...there].map((file) => [file.path, file]));
    for (const file of here) if (changed.has(file.path)) merged.set(file.path, file);
    const files = [...merged.values()].filter(({ path }) => path.startsWith(`${POLICY_FOLDER}/`));
    const objects = [...(await this.clone.statements(head)), ...(await this.clone.statements(commit))];
    const { policy, drift } = await this.#inEffect(before.anchor, files, objects);
    return { name, commit, changes: additions(sides, { effective: policy, drift }) };
  }

  /** A clone remembers nothing: what was signed and has expired since was in effect in its time, and versions never go back. */
  async #inEffect(
    anchor: TrustAnchor,
    files: readonly PolicyFile[],
    objects: readonly RawGitObject[],
  ): Promise<{ readonly policy: PolicyVersion | null; readonly drift: PolicyDrift | null }> {
    let last: PolicyMemory | null = null;
    for (;;) {
      const now = new Date(this.#nowMs());
      const { effective, drift }: { effective: PolicyVersion | null; drift: PolicyDrift | null } =
        await effectivePolicy({ anchor, files, last, objects, now });
      if (effective === null || drift?.reason !== 'policy-unsigned') return { policy: effective, drift };
      last = { anchor: anchor.policySha256, ...effective };
      const then = lastDated(objects, effective.sha256, now.getTime());
      if (then === null) return { policy: effective, drift };
      const before = await effectivePolicy({ anchor, files, last, objects, now: new Date(then) });
      if (before.effective === null || before.effective.version <= effective.version)
        return { policy: effective, drift };
      last = { anchor: anchor.policySha256, ...before.effective };
    }
  }

  /** The named volumes that the Compose file of a stack declares: in HEAD, else where it was last. Null where this clone cannot tell, as for
   * a stack of an app, or one that includes other files. */
  async volumesOf(commit: string, stack: string): Promise<DeclaredVolumes | null> {
    const { clone } = this;
    for (const path of COMPOSE_FILES.map((name) => `stacks/${stack}/${name}`)) {
      const here = await clone.file(commit, path);
      if (here) return declaredIn(stack, here, true);
      for (const change of await clone.changes(path)) {
        const there = await clone.file(change, path);
        if (there) return declaredIn(stack, there, false);
      }
    }
    return null;
  }

  async signer({ signers }: Pick<CloneAuthority, 'signers'>): Promise<Signer> {
    const setUp = await this.clone.signing();
    return {
      setUp,
      principal: setUp.fingerprint === null ? null : (signers.principals.get(setUp.fingerprint) ?? null),
    };
  }

  /** Makes one statement and tells its id. Throws SIGNING_FAILED and CLONE_REFUSED. */
  async state({ hint }: Pick<CloneAuthority, 'hint'>, wish: StatementWish): Promise<{ readonly oid: string }> {
    const claims: StatementClaims = {
      type: wish.type,
      fleet: hint.fleet,
      ref: hint.ref,
      environment: hint.environment,
      subject: wish.subject,
      policy: wish.policy,
      expiresMs: wish.expiresMs,
      nonce: randomBytes(NONCE_BYTES).toString('hex'),
    };
    const message = formatStatement({
      ...claims,
      title: wish.title,
      ...(wish.body === undefined ? {} : { body: wish.body }),
    });
    if (wish.tag !== undefined) return { oid: await this.clone.tag({ ...wish.tag, message }) };
    const { files = [], branch } = wish;
    return {
      oid: await this.clone.commit({ message, files, sign: true, ...(branch === undefined ? {} : { branch }) }),
    };
  }

  /** A request of HEAD, judged with what this clone holds; null when HEAD holds no such file. */
  async evaluate(authority: CloneAuthority, id: string): Promise<RequestHere | null> {
    const { commit } = await this.settledHead();
    const { anchor, policy, signers } = authority;
    const file = await this.clone.file(commit, requestPath(id));
    if (file === null) return null;
    const now = new Date(this.#nowMs());
    const objects = await this.clone.statements(commit);
    const readings = await Promise.all(objects.map((one) => verifyStatement(one, signers, now, anchor.clockSkewMs)));
    if (this.#history?.commit !== commit)
      this.#history = { commit, changes: await this.clone.history(commit, 'requests') };
    const echoes = await echoesOf(this.clone, this.#history.changes, {
      commit,
      id,
      bytes: file.bytes,
      statements: objects,
    });
    const evaluation = evaluateRequest({
      path: file.path,
      bytes: file.bytes,
      tip: {
        tip: commit,
        descendsFromGenesis: await this.clone.descends(commit, anchor.genesis),
        // What was accepted and claimed is known to the controller alone.
        descendsFromAccepted: true,
        isRegularBlob: true,
      },
      statements: readings.map((reading, index) => ({ reading, firstSeenMs: seenAs(reading, now.getTime(), index) })),
      policy,
      anchor,
      spent: {
        ids: new Set(),
        subjects: new Set(),
        nonces: new Set(),
        sinceMs: 0,
      },
      twins: echoes.twins,
      nowMs: now.getTime(),
    });
    return { ...evaluation, ...echoes, bytes: file.bytes };
  }

  /** Whether the signature of an admin under the version after the one in effect counts: by the keys of either, for its own board. */
  async judgePolicySignature(
    { signers, anchor, policy }: CloneAuthority,
    next: PolicyVersion,
    oid: string,
  ): Promise<Omit<Made, 'tag'>> {
    const object = await this.clone.object(oid);
    if (object === null) throw new Fault('CLONE_REFUSED', `${oid} cannot be read back`);
    const now = new Date(this.#nowMs());
    let lacks: Made['lacks'] = null;
    let principal: string | null = null;
    for (const board of [
      { members: policy.policy.admins.members, signers },
      { members: next.policy.admins.members, signers: await signersOf(next, anchor.revoked) },
    ]) {
      const reading = await verifyStatement(object, board.signers, now, anchor.clockSkewMs);
      if (reading.kind === 'statement') {
        principal = reading.statement.principal;
        if (board.members.includes(principal)) return { oid, principal, lacks: null };
        lacks = {
          reason: 'signer-unnamed',
          detail: principal,
          help: `${principal} is no admin; admins sign policies.`,
        };
      } else if (lacks === null && reading.kind === 'refused')
        lacks = { reason: reading.reason, detail: reading.detail, help: helpOf(reading.reason) };
    }
    return {
      oid,
      principal,
      lacks: lacks ?? { reason: 'trailer-missing', detail: '', help: helpOf('trailer-missing') },
    };
  }

  /** Whether a statement about a request counts, and why not. */
  async judgeMade(
    authority: CloneAuthority,
    type: StatementType,
    oid: string,
    evaluation: RequestEvaluation,
  ): Promise<Omit<Made, 'tag'>> {
    const object = await this.clone.object(oid);
    if (object === null) throw new Fault('CLONE_REFUSED', `${oid} cannot be read back`);
    const now = new Date(this.#nowMs());
    const reading = await verifyStatement(object, authority.signers, now, authority.anchor.clockSkewMs);
    const principal = reading.kind === 'statement' ? reading.statement.principal : null;
    const answer = (reason: AuthorityCode | ReasonCode, detail: string): Omit<Made, 'tag'> => ({
      oid,
      principal,
      lacks: { reason, detail, help: helpOf(reason) },
    });
    if (reading.kind !== 'statement')
      return reading.kind === 'refused' ? answer(reading.reason, reading.detail) : answer('trailer-missing', '');
    const ignored = evaluation.ignored.find((one) => one.oid === oid);
    if (ignored?.reason === 'nobody-asks' && evaluation.request !== null) {
      // Before anybody asks nothing else of an approval is judged: what would not count then either must not sound as if it only waited.
      const { datedMs, expiresMs } = reading.statement;
      const { approvers, mostMs } = rulesFor(evaluation.request, authority.policy, authority.anchor.maxLifetimeMs);
      if (!approvers.includes(reading.statement.principal)) return answer('not-an-approver', '');
      if (expiresMs - datedMs > mostMs) return answer('statement-lifetime', '');
      const made = answer('nobody-asks', '');
      return { ...made, lacks: made.lacks && { ...made.lacks, untilMs: datedMs + authority.anchor.clockSkewMs } };
    }
    if (ignored?.reason === 'same-person') return { oid, principal, lacks: null, again: helpOf('same-person') };
    if (ignored) return answer(ignored.reason, ignored.detail);
    const counts =
      type === 'request'
        ? evaluation.requester?.oid === oid && evaluation.state !== 'refused'
        : type === 'approve'
          ? evaluation.approvals.some((one) => one.oid === oid)
          : evaluation.state !== 'refused' || evaluation.reason === 'request-copied';
    return counts ? { oid, principal, lacks: null } : answer(evaluation.reason, evaluation.detail);
  }
}

/** Null where what is asked for is not there. Where git failed, which its own words tell, that is not known. */
export function unlessRefused(error: unknown): null {
  if (error instanceof Fault && error.code === 'CLONE_REFUSED' && !('log' in error.data)) return null;
  throw error;
}

function declaredIn(stack: string, { path, bytes }: CloneFile, isInHead: boolean): DeclaredVolumes | null {
  const text = decodeUtf8(bytes);
  const value = text === null ? null : parseDocument(path, text).parsed?.value;
  if (!isMap(value) || value['include'] !== undefined) return null;
  const names = new Map<string, string>();
  for (const [key, volume] of Object.entries(isMap(value['volumes']) ? value['volumes'] : {})) {
    const { name, external } = isMap(volume) ? volume : {};
    // What is external is not of the stack.
    if (external !== undefined && external !== false) continue;
    if (name !== undefined && (typeof name !== 'string' || name.includes('$'))) return null;
    names.set(key, name ?? `${stack}_${key}`);
  }
  return { names, isInHead };
}

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** As if a controller had seen each when it was dated, the newest of the list last. */
function seenAs(reading: StatementReading, nowMs: number, index: number): number {
  const datedMs = reading.kind === 'statement' ? Math.min(reading.statement.datedMs, nowMs) : nowMs;
  return datedMs - index / 1_000;
}

/** When the last statement about the version after `previous` was dated; null when there is none, or none from before now. */
function lastDated(objects: readonly RawGitObject[], previous: string, nowMs: number): number | null {
  const dates = objects.flatMap((object) => {
    const parse = parseStatement(object);
    if (parse.kind !== 'claims' || parse.claims.type !== 'policy' || parse.claims.policy !== previous) return [];
    return parse.datedMs < nowMs ? [parse.datedMs] : [];
  });
  return dates.length === 0 ? null : Math.max(...dates);
}
