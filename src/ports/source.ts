// Source: what we need of a git repository. Objects are named by id; the one ref is resolved once per fetch.

import type { Variant } from '../core/render/variant.ts';
import type { Listing } from '../core/state/listing.ts';

export interface SourceSpec {
  readonly name: string;
  /** http(s) or ssh URL, or an absolute path of a local repository (bare or with a work tree). */
  readonly url: string;
  /** Branch name or full ref. */
  readonly ref: string;
}

export interface CommitFacts {
  readonly id: string;
  readonly tree: string;
  readonly parents: readonly string[];
  readonly subject: string;
  readonly author: string;
  readonly committedAtMs: number;
}

/** Exact bytes, checked against the id. */
export interface SignedObject {
  readonly oid: string;
  readonly type: 'commit' | 'tag';
  readonly bytes: Uint8Array;
}

export interface Source {
  readonly spec: SourceSpec;
  /** Brings the mirror up to date and returns the tip. Throws GIT_*; the mirror stays readable. */
  fetch(signal?: AbortSignal): Promise<string>;
  /** The tip of the last good fetch, without network; null before the first. */
  tip(): Promise<string | null>;
  commit(id: string): Promise<CommitFacts>;
  /** Is `ancestor` an ancestor of, or the same as, `descendant`. */
  descends(descendant: string, ancestor: string): Promise<boolean>;
  list(commit: string): Promise<Listing>;
  /** Throws GIT_TOO_LARGE above `maxBytes`. */
  blob(oid: string, maxBytes: number): Promise<Uint8Array>;
  /** A commit or annotated tag as it is. Throws GIT_OBJECT_MISSING, GIT_REFUSED for another kind. */
  object(oid: string): Promise<SignedObject>;
  /** Ids of the commits that `tip` reaches and `without` does not. Throws GIT_TOO_LARGE beyond `most`. */
  commitsSince(tip: string, without: string | null, most: number): Promise<readonly string[]>;
  /** Ids of the annotated tags below `refs/tags/windlass/` at the last fetch; the fetch brings them only where `tags` was asked for. All of
   * them or none: throws GIT_TOO_LARGE when there are too many, GIT_UNREACHABLE where they cannot be fetched. */
  tags(): Promise<readonly string[]>;
  /** Keeps a commit's objects from being collected while a stack runs on it; `keep` names the pin. */
  pin(keep: string, commit: string): Promise<void>;
  /** How a commit that was made from an archive differs from what its files say; null = not at all. */
  variant?(commit: string): Variant | null;
  close(): Promise<void>;
}
