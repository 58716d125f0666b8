// Clone: the work tree of a person, with their own git signing set-up. It reads commits as they are, and makes statements; it never
// pushes, fetches, rewrites or throws away what the person has.

export interface CloneHead {
  /** 40 hex; null before the first commit. */
  readonly commit: string | null;
  /** The full ref; null when HEAD is detached. */
  readonly branch: string | null;
  /** A merge or a rebase that the person has not ended. */
  readonly isBusy: boolean;
}

/** A regular file of a commit. */
export interface CloneFile {
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** A commit or an annotated tag, as it is. */
export interface CloneObject {
  readonly oid: string;
  readonly type: 'commit' | 'tag';
  readonly bytes: Uint8Array;
}

/** What one commit made of a regular file. */
export interface FileChange {
  readonly commit: string;
  readonly path: string;
  /** Of the blob; null when the file was removed, or became something else. */
  readonly oid: string | null;
}

/** What HEAD may be merged into. */
export interface CloneBase {
  /** As git shortens it: `origin/main`. */
  readonly name: string;
  /** The full ref of the branch there: `refs/heads/main`. */
  readonly branch: string;
  readonly commit: string;
}

/** What git would sign with. */
export interface SigningSetUp {
  readonly format: 'ssh' | 'openpgp' | 'x509' | 'unknown';
  /** `commit.gpgSign`, or a key is named. */
  readonly isWanted: boolean;
  /** A key is named, or the format finds one by itself. */
  readonly hasKey: boolean;
  /** As `judge` reports it; null when it cannot be told before signing. */
  readonly fingerprint: string | null;
}

export interface NewCommit {
  readonly message: string;
  /** Files of exactly these bytes; none makes an empty commit. What the person has staged stays out of it. */
  readonly files: readonly CloneFile[];
  readonly sign: boolean;
  /** A branch that is made for it and becomes the current one. */
  readonly branch?: string;
}

export interface NewTag {
  /** Below refs/tags/. */
  readonly name: string;
  readonly message: string;
  readonly commit: string;
}

export interface Clone {
  /** The top folder of the work tree. */
  readonly folder: string;
  /** It lacks older commits, and with them statements. */
  readonly isShallow: boolean;
  head(): Promise<CloneHead>;
  /** Null when the commit holds no regular file there, or none of at most 1 MiB. */
  file(commit: string, path: string): Promise<CloneFile | null>;
  /** The regular files right below a folder of a commit, of at most 1 MiB each. */
  files(commit: string, folder: string): Promise<readonly CloneFile[]>;
  /** A file of the work tree; null when there is none. Throws a CLONE_REFUSED Fault for a link. */
  draft(path: string): Promise<Uint8Array | null>;
  /** Those of the paths that differ between HEAD, the index and the work tree, or that are not tracked. */
  changed(paths: readonly string[]): Promise<readonly string[]>;
  /** The commits that changed the file, as HEAD sees them, the last first; at most ten. */
  changes(path: string): Promise<readonly string[]>;
  /** What became of the files below a folder in all commits that `commit` reaches, the newest first; of a merge what it brought
   * to each of its parents. */
  history(commit: string, folder: string): Promise<readonly FileChange[]>;
  /** These branches as the remotes had them when they were last fetched, or as they are here where no remote has any of them. */
  bases(branches: readonly string[]): Promise<readonly CloneBase[]>;
  /** What both go on from; null when that is nothing. */
  mergeBase(one: string, other: string): Promise<string | null>;
  /** Null of a first commit. */
  firstParent(commit: string): Promise<string | null>;
  /** False also when `ancestor` is not in this clone. */
  descends(commit: string, ancestor: string): Promise<boolean>;
  /** Annotated tags below refs/tags/windlass/, then the commits that `commit` reaches whose message names a trailer of ours; the newest first. */
  statements(commit: string): Promise<readonly CloneObject[]>;
  object(oid: string): Promise<CloneObject | null>;
  signing(): Promise<SigningSetUp>;
  /** Whether a branch of this name may be made. */
  canBranch(name: string): Promise<boolean>;
  /** A new file of the work tree. Throws a CLONE_REFUSED Fault when something is there. */
  write(path: string, bytes: Uint8Array): Promise<void>;
  /** Answers the id of the commit, which is then what the branch points to. Throws SIGNING_FAILED and CLONE_REFUSED Faults. */
  commit(input: NewCommit): Promise<string>;
  /** A signed, annotated tag; answers the id of the tag object. Throws SIGNING_FAILED and CLONE_REFUSED Faults. */
  tag(input: NewTag): Promise<string>;
}
