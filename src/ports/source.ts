// Source: what we need of a git repository. Objects are named by id; the one ref is resolved once per fetch.

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
  /** Keeps a commit's objects from being collected while a stack runs on it; `keep` names the pin. */
  pin(keep: string, commit: string): Promise<void>;
  close(): Promise<void>;
}
