// Ledger: the durable memory of trust of one fleet, which no restore rolls back. Synchronous, and on disk (fsync) when a call returns.
// It makes sure that a request runs at most once; whether it may run is decided in core.
import type { RequestSnapshot } from '../core/request/life.ts';
import type { SpentFacts } from '../core/state/trust/evaluate-request.ts';
import type { PolicyMemory } from '../core/state/trust/policy-chain.ts';
import type { SignedObject } from './source.ts';

export interface Claim {
  /** Of the request: the name of its file. */
  readonly id: string;
  /** SHA-256 of the request file. */
  readonly subject: string;
  /** Of the request statement and of every approval that counts. */
  readonly nonces: readonly string[];
  /** The tip on which it was authorised; 40 hex. */
  readonly tip: string;
  /** SHA-256 of the policy by which it was authorised. */
  readonly policy: string;
  /** Digest of the plan that will run, when it is known. */
  readonly plan: string | null;
  readonly claimedAtMs: number;
}

export type ClaimAnswer =
  | { readonly kind: 'claimed' }
  /** Nothing was written. */
  | { readonly kind: 'refused'; readonly reason: 'request-claimed' | 'request-replayed' | 'nonce-replayed' };

/** One raw object, as base64. */
export interface ReceiptStatement {
  readonly oid: string;
  readonly type: string;
  readonly base64: string;
}

/** The evidence of one request, complete enough to be judged again by others. Never a secret. */
export interface Receipt {
  readonly id: string;
  readonly subject: string;
  /** The request file. */
  readonly requestBase64: string;
  readonly statements: readonly ReceiptStatement[];
  /** The policy file. */
  readonly policyBase64: string;
  readonly tip: string;
  readonly plan: string | null;
  readonly claimedAtMs: number;
  /** Null while it runs. */
  readonly outcome: string | null;
  readonly detail: string;
  readonly endedAtMs: number | null;
}

/** Judged anew at each look, as what the repository holds. */
export interface KeptStop {
  readonly statementId: string;
  readonly object: SignedObject;
}

export interface Ledger {
  /** All or nothing, at most once for each id, subject and nonce, also between processes. `snapshot`, which is `claimed`, and `receipt`, which
   * is open, are written with it: no crash leaves a claim without its evidence. */
  claim(claim: Claim, snapshot: RequestSnapshot, receipt: Receipt): ClaimAnswer;
  claimOf(id: string): Claim | null;
  /** In the order in which they were made. */
  claims(): readonly Claim[];
  /** What evaluations must refuse; `except` leaves out one own claim, for the look that is taken between claim and act. */
  spent(except?: string): SpentFacts;

  /** When a statement was first seen: `nowMs` is recorded unless an earlier call did. Only for statements that are proved: an unsigned
   * copy seen earlier must not let a delay run. It is forgotten a good while after `expiresMs`, when the statement can count for nothing. */
  firstSeen(statementId: string, nowMs: number, expiresMs: number): number;
  firstSeenOf(statementId: string): number | null;

  /** Proved rejections and withdrawals, kept for good: a tag can be overwritten or deleted by whoever may push. Each once by its statement. */
  keepStop(statementId: string, object: SignedObject): void;
  stops(): readonly KeptStop[];

  acceptedTip(): string | null;
  /** False, and nothing is written, when the accepted tip is not `previous` any more. With the first tip the memory begins: `nowMs` is from
   * when on every claim is known. */
  acceptTip(tip: string, previous: string | null, nowMs: number): boolean;

  effectivePolicy(): PolicyMemory | null;
  /** Throws a plain error for a lower version, or other bytes of the same one, above the same anchor. */
  putEffectivePolicy(memory: PolicyMemory): void;

  snapshot(id: string): RequestSnapshot | null;
  /** By id. */
  snapshots(): readonly RequestSnapshot[];
  /** Closes the receipt with a state that is final. Throws a plain error when the state cannot follow the one that is kept, and for a claim
   * that was not made by `claim`. */
  putSnapshot(snapshot: RequestSnapshot): void;
  /** Drops the snapshot of one that is `observed` or `verifying`, of which nothing came; any other stays. */
  forget(id: string): void;

  receipt(id: string): Receipt | null;
  receipts(): readonly Receipt[];

  close(): void;
}
