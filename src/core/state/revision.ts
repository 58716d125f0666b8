// Revision: one commit of a source, with what a person wants to read of it.

export interface Revision {
  /** The source's name in the controller config. */
  readonly source: string;
  /** Full ref, as `refs/heads/main`. */
  readonly ref: string;
  /** 40 hex. */
  readonly commit: string;
  readonly tree: string;
  readonly subject: string;
  readonly author: string;
  readonly committedAtMs: number;
  /** Null when `trust.deploy` is `none`. */
  readonly signer: string | null;
}

/** How a revision is written for people: `main@4be1c2d`. */
export function formatRevision(revision: { readonly ref: string; readonly commit: string }): string {
  return `${revision.ref.replace(/^refs\/(heads|tags)\//, '')}@${revision.commit.slice(0, 7)}`;
}
