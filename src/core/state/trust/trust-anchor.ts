// Trust anchor: what the host of the controller knows about its fleet, outside the repository and beyond the reach of a push.

export interface TrustAnchor {
  readonly fleetId: string;
  /** The full ref, as `refs/heads/main`. */
  readonly ref: string;
  /** 40 hex. */
  readonly genesis: string;
  readonly environment: string;
  /** Of the file of policy version 1; 64 hex. */
  readonly policySha256: string;
  readonly clockSkewMs: number;
  /** The longest life of a request and of a statement about one. */
  readonly maxLifetimeMs: number;
  /** The bytes of the local revocation list, as read just now; null when it could not be read, which refuses everything. */
  readonly revoked: Uint8Array | null;
}
