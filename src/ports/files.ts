// Files: the stack's project folder. Written atomically from git blobs; only what Windlass wrote is ever removed.

export interface FileToWrite {
  /** Relative to the folder, with `/`; validated before (no `..`, no absolute path, no `.git`). */
  readonly path: string;
  readonly mode: '100644' | '100755' | '120000';
  readonly oid: string;
  /** Keep the inode and write in place: for single-file mounts whose service gets a signal. */
  readonly inPlace?: boolean;
  /** What somebody else made of it stays, as long as git holds what it held: for mounts that do not follow their files. */
  readonly keepsEdits?: boolean;
}

/** What Windlass wrote into a folder: path → `mode oid`. */
export type Written = Readonly<Record<string, string>>;

export interface Files {
  /** Makes `directory` hold exactly `files` beside what others wrote there. Unchanged files keep their inodes. Returns what is written now.
   * A file of somebody else, with content that `isKnown` (by the object id that git would give it) does not know, is never replaced: throws
   * FILE_IN_THE_WAY. Without `isKnown` none is known. Throws FILES_FAILED naming the path; no file is half written then, and mostly none at
   * all. Where some were put in place already, `cut` is told first what is written now. */
  materialize(input: {
    readonly directory: string;
    readonly files: readonly FileToWrite[];
    readonly before: Written;
    readonly read: (oid: string) => Promise<Uint8Array>;
    readonly isKnown?: (oid: string) => Promise<boolean>;
    readonly cut?: (written: Written) => void;
    /** Told of each path that is in the way; it is left as it is, and the others are written all the same. Without it the first one is thrown. */
    readonly left?: (path: string, why: string) => void;
    readonly signal?: AbortSignal;
  }): Promise<Written>;
  /** A fresh empty folder that only we can read, for one render; removed by `dispose`. */
  scratch(): Promise<{ readonly directory: string; dispose(): Promise<void> }>;
  /** Which of `mounted` (absolute files or folders below `directory`) hold a file that is not as we wrote it, or miss one. Cheap: no content
   * is read while size, inode and times are what they were after our write. Files that others added are no edit. */
  edited(input: {
    readonly directory: string;
    readonly written: Written;
    readonly mounted: readonly string[];
  }): Promise<readonly string[]>;
  /** Files below `folder`, and not below `except`, that are not in `written`, relative to `folder`: what others wrote there. At most `most`;
   * none when it is not there. */
  others(input: {
    readonly directory: string;
    readonly written: Written;
    readonly folder: string;
    readonly except: string;
    readonly most: number;
  }): Promise<readonly string[]>;
  /** Makes a folder (and those above it) below the state directory, when it is missing. */
  ensureFolder(path: string): Promise<void>;
  exists(path: string): Promise<boolean>;
  /** With all that is in it; one that is gone already is success. Only below the state directory: FILES_FAILED elsewhere. */
  removeFolder(path: string): Promise<void>;
}
