// OpenFolder: a folder held open, in which names are looked up. A container that shares the project folder can swap any
// part of it for a link at any moment; what is held open cannot be swapped, and a link on the way is never followed.
import { constants, existsSync } from 'node:fs';
import { type FileHandle, lstat, mkdir, open } from 'node:fs/promises';

const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY;
const FOLDER_MODE = 0o755;
/** Where the system shows open files as paths, a name is looked up in the open folder itself, like openat does. */
const SHOWS_HANDLES = existsSync('/proc/self/fd');

/** A folder or link is in the way of what should be written; `path` is relative to the project folder. */
export class InTheWay extends Error {
  readonly path: string;

  constructor(path: string, what: string) {
    super(`${path} ${what}`);
    this.path = path;
  }
}

export class OpenFolder {
  /** Relative to the project folder; '' is the project folder. */
  readonly path: string;
  readonly #handle: FileHandle;
  readonly #base: string;

  private constructor(path: string, handle: FileHandle, realPath: string) {
    this.path = path;
    this.#handle = handle;
    this.#base = SHOWS_HANDLES ? `/proc/self/fd/${handle.fd}` : realPath;
  }

  /** The project folder; links above and at it are the operator's own and are followed. */
  static async root(directory: string): Promise<OpenFolder> {
    return new OpenFolder('', await open(directory, FOLDER_FLAGS), directory);
  }

  /** Opens the folder at `path` below the root, part by part. Null when it is not there and `create` is false. */
  static async below(directory: string, path: string, create: boolean): Promise<OpenFolder | null> {
    let folder = await OpenFolder.root(directory);
    if (path === '') return folder;
    for (const name of path.split('/')) {
      const outer = folder;
      try {
        const inner = await outer.#inner(name, create);
        if (inner === null) return null;
        folder = inner;
      } finally {
        await outer.close();
      }
    }
    return folder;
  }

  /** A path by which a system call reaches `name` in this folder. The last part may be a link: say so to the call. */
  at(name: string): string {
    return `${this.#base}/${name}`;
  }

  /** Its path relative to the project folder, for people. */
  show(name: string): string {
    return this.path === '' ? name : `${this.path}/${name}`;
  }

  /** Has the names in this folder on disk when it returns. */
  async sync(): Promise<void> {
    await this.#handle.sync();
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }

  async #whatIsThere(name: string): Promise<string> {
    const stats = await lstat(this.at(name)).catch(() => null);
    if (stats?.isSymbolicLink()) return 'is a link where a folder should be; it is not followed';
    return 'is not a folder, but a file should be written below it';
  }

  async #inner(name: string, create: boolean): Promise<OpenFolder | null> {
    const path = this.show(name);
    for (let tries = 0; ; tries += 1) {
      try {
        const handle = await open(this.at(name), FOLDER_FLAGS | constants.O_NOFOLLOW);
        // The umask must not keep the users of containers out.
        if (tries > 0) await handle.chmod(FOLDER_MODE);
        return new OpenFolder(path, handle, this.at(name));
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === 'ENOTDIR' || code === 'ELOOP') {
          if (!create) return null;
          throw new InTheWay(path, await this.#whatIsThere(name));
        }
        if (code !== 'ENOENT') throw error;
        if (!create) return null;
        if (tries > 3) throw error;
      }
      await mkdir(this.at(name), FOLDER_MODE).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error;
      });
    }
  }
}
