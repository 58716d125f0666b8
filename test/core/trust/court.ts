// Court: a fleet of people with keys, its policies, requests and signed statements, for the tests of authority. Keys are made once a run;
// everything else is said by each test.
import { createHash } from 'node:crypto';
import type { RuledOperation } from '../../../src/core/spec/policy.ts';
import { formatInstant } from '../../../src/core/spec/request.ts';
import {
  type EvaluateRequestInput,
  evaluateRequest,
  type RequestEvaluation,
  type SeenStatement,
} from '../../../src/core/state/trust/evaluate-request.ts';
import { parseCommit } from '../../../src/core/state/trust/git-object.ts';
import type { RawGitObject } from '../../../src/core/state/trust/judge.ts';
import { type PolicyVersion, policyPath, readPolicy, sha256Of } from '../../../src/core/state/trust/policy-file.ts';
import { type PolicySigners, signersOf } from '../../../src/core/state/trust/policy-signers.ts';
import { formatStatement, type StatementClaims, verifyStatement } from '../../../src/core/state/trust/statement.ts';
import type { TrustAnchor } from '../../../src/core/state/trust/trust-anchor.ts';
import { commitPayload, type HandKey, handEd25519, handSign, insertSignature, objectId } from './material.ts';

export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;
export const NOW = Date.parse('2026-11-01T12:00:00Z');
export const FLEET = 'fleet-4b1d2c';
export const REF = 'refs/heads/main';
export const ENVIRONMENT = 'production';
export const SKEW = 300_000;

const names = ['anna', 'bert', 'cleo', 'dora', 'emil', 'mallory'] as const;
export type Name = (typeof names)[number];
export const keys = Object.fromEntries(names.map((name) => [name, handEd25519()])) as Record<Name, HandKey>;
/** Second keys of the same people. */
export const secondKeys = Object.fromEntries(names.map((name) => [name, handEd25519()])) as Record<Name, HandKey>;

export interface RuleText {
  readonly operation: RuledOperation;
  readonly stacks: readonly string[];
  readonly requesters: readonly string[];
  readonly approvers?: readonly string[];
  readonly threshold?: number;
  readonly requesterMayApprove?: boolean;
  readonly maxLifetime?: string;
  readonly minDelay?: string;
}

export interface PolicyText {
  readonly version?: number;
  readonly previous?: string;
  readonly fleet?: string;
  readonly principals?: Record<string, { readonly ssh?: readonly string[]; readonly openpgp?: readonly unknown[] }>;
  readonly admins?: { readonly members: readonly string[]; readonly threshold: number };
  readonly rules?: readonly RuleText[];
}

export const principals = {
  anna: { ssh: [keys.anna.line, `${secondKeys.anna.line} anna@laptop`] },
  bert: { ssh: [keys.bert.line, secondKeys.bert.line] },
  cleo: { ssh: [keys.cleo.line] },
  dora: { ssh: [keys.dora.line] },
};

/** Anna asks; two of bert, cleo and anna approve. */
export const restoreRule: RuleText = {
  operation: 'restore',
  stacks: ['shop', 'db-*'],
  requesters: ['anna', 'dora'],
  approvers: ['anna', 'bert', 'cleo'],
  threshold: 2,
};

export const admins = { members: ['anna', 'bert', 'cleo'], threshold: 2 };

/** JSON is YAML: the file of one version. */
export function policyBytes(text: PolicyText = {}): Buffer {
  const { version = 1, fleet = FLEET, ...rest } = text;
  return Buffer.from(
    `${JSON.stringify(
      {
        apiVersion: 'windlass/v1',
        kind: 'Policy',
        version,
        fleet,
        principals,
        admins,
        rules: [restoreRule],
        ...rest,
      },
      null,
      2,
    )}\n`,
  );
}

export function policyOf(text: PolicyText = {}): PolicyVersion {
  const { version, diagnostics } = readPolicy({ path: policyPath(text.version ?? 1), bytes: policyBytes(text) });
  if (version === null) throw new Error(JSON.stringify(diagnostics, null, 2));
  return version;
}

export function anchorOf(more: Partial<TrustAnchor> = {}): TrustAnchor {
  return {
    fleetId: FLEET,
    ref: REF,
    genesis: '0'.repeat(40),
    environment: ENVIRONMENT,
    policySha256: sha256Of(policyBytes()),
    clockSkewMs: SKEW,
    maxLifetimeMs: 7 * DAY,
    revoked: new Uint8Array(),
    ...more,
  };
}

export function requestBytes(more: Record<string, unknown> = {}): Buffer {
  return Buffer.from(
    `${JSON.stringify(
      {
        apiVersion: 'windlass/v1',
        kind: 'Restore',
        stack: 'shop',
        archive: 'a'.repeat(64),
        reason: 'the orders of Friday were deleted',
        expires: formatInstant(NOW + DAY),
        ...more,
      },
      null,
      2,
    )}\n`,
  );
}

let count = 0;
/** A nonce that nothing else here has. */
export const nonce = (): string => createHash('md5').update(`${count++}`).digest('hex');

export interface SaidMore extends Partial<StatementClaims> {
  readonly datedMs?: number;
  readonly key?: HandKey;
  readonly parents?: readonly string[];
  /** In the place of the whole message. */
  readonly message?: string;
  readonly title?: string;
  readonly body?: string;
  /** Leaves the signature out. */
  readonly isUnsigned?: boolean;
  readonly asTag?: boolean;
  /** Of a commit: makes another object of the same words. */
  readonly tree?: string;
}

export const tagBytes = (message: string, datedMs: number, key: HandKey | null): Buffer => {
  const payload = Buffer.from(
    `object ${'1'.repeat(40)}\ntype commit\ntag approval\ntagger A U Thor <a@example.com> ${datedMs / 1000} +0000\n\n${message}`,
  );
  return key === null ? payload : Buffer.concat([payload, Buffer.from(handSign(key, payload))]);
};

/** A statement by a person, about `subject`. */
export function say(
  who: Name,
  type: StatementClaims['type'],
  subject: string,
  policy: string,
  more: SaidMore = {},
): RawGitObject {
  const { datedMs = NOW - 2 * HOUR, key = keys[who], title, body } = more;
  const claims: StatementClaims = {
    type,
    fleet: FLEET,
    ref: REF,
    environment: ENVIRONMENT,
    subject,
    policy,
    expiresMs: NOW + DAY,
    nonce: nonce(),
    ...Object.fromEntries(
      Object.entries(more).filter(([name]) =>
        ['type', 'fleet', 'ref', 'environment', 'subject', 'policy', 'expiresMs', 'nonce'].includes(name),
      ),
    ),
  };
  const message =
    more.message ??
    formatStatement({ ...claims, title: title ?? `${who} says ${type}`, ...(body === undefined ? {} : { body }) });
  return objectOf(message, { ...more, datedMs, key });
}

export function objectOf(
  message: string,
  more: SaidMore & { readonly datedMs: number; readonly key: HandKey },
): RawGitObject {
  const { datedMs, key } = more;
  const signer = more.isUnsigned === true ? null : key;
  if (more.asTag === true) {
    const bytes = tagBytes(message, datedMs, signer);
    return { oid: objectId('tag', bytes), type: 'tag', bytes };
  }
  const payload = commitPayload({
    message,
    dated: datedMs / 1000,
    ...(more.parents === undefined ? {} : { parents: more.parents }),
    ...(more.tree === undefined ? {} : { tree: more.tree }),
  });
  const bytes = signer === null ? payload : insertSignature(payload, handSign(signer, payload));
  return { oid: objectId('commit', bytes), type: 'commit', bytes };
}

/** The same words with another signature of the same key: another object id. */
export function resigned(object: RawGitObject, key: HandKey): RawGitObject {
  const { payload } = parseCommit(object.bytes, { strict: true });
  const bytes = insertSignature(payload, handSign(key, payload, { hash: 'sha256' }));
  return { oid: objectId('commit', bytes), type: 'commit', bytes };
}

export interface Case {
  readonly policy?: PolicyVersion | null;
  readonly anchor?: TrustAnchor;
  readonly bytes?: Buffer;
  readonly path?: string;
  readonly objects?: readonly RawGitObject[];
  /** When each object was first seen; the last one holds for those that follow. */
  readonly seenMs?: readonly (number | null)[];
  readonly nowMs?: number;
  readonly tip?: Partial<EvaluateRequestInput['tip']>;
  readonly spent?: Partial<EvaluateRequestInput['spent']>;
  /** By whose keys statements are judged, when not by those of the policy. */
  readonly signers?: PolicySigners;
}

export async function readingsOf(one: Case): Promise<readonly SeenStatement[]> {
  const { objects = [], seenMs = [NOW - HOUR], nowMs = NOW } = one;
  const anchor = one.anchor ?? anchorOf();
  const signers = one.signers ?? (await signersOf(one.policy ?? policyOf(), anchor.revoked));
  return Promise.all(
    objects.map(async (object, index) => ({
      reading: await verifyStatement(object, signers, new Date(nowMs), anchor.clockSkewMs),
      firstSeenMs: seenMs[Math.min(index, seenMs.length - 1)]!,
    })),
  );
}

/** Judges the statements and evaluates the request, as a controller would. */
export async function evaluate(one: Case): Promise<RequestEvaluation> {
  return evaluateRequest({
    path: one.path ?? 'requests/orders.yaml',
    bytes: one.bytes ?? requestBytes(),
    tip: {
      tip: '2'.repeat(40),
      descendsFromGenesis: true,
      descendsFromAccepted: true,
      isRegularBlob: true,
      ...one.tip,
    },
    statements: await readingsOf(one),
    policy: one.policy === undefined ? policyOf() : one.policy,
    anchor: one.anchor ?? anchorOf(),
    spent: { ids: new Set(), subjects: new Set(), nonces: new Set(), sinceMs: 0, ...one.spent },
    nowMs: one.nowMs ?? NOW,
  });
}

export { sha256Of };
