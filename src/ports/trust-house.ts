// Trust of the house: what the host of the controller knows about its fleet, from its own configuration, and the ledger.
import type { TrustAnchor } from '../core/state/trust/trust-anchor.ts';
import type { Ledger } from './ledger.ts';

export interface TrustFiles {
  /** Absent = none given; null = given, and could not be read. */
  readonly allowedSigners?: string | null;
  readonly keyring?: Uint8Array | null;
  readonly revoked?: Uint8Array | null;
}

export interface TrustHouse {
  /** Whose commits are deployed. */
  readonly deploy: 'none' | 'head' | 'all';
  /** Null: no request ever runs. */
  readonly anchor: Omit<TrustAnchor, 'revoked'> | null;
  /** Read anew at each call: a revocation counts at once. */
  files(): Promise<TrustFiles>;
  /** Null without an anchor. */
  readonly ledger: Ledger | null;
}
