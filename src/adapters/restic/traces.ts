// Traces: what this controller began in a repository and what no manifest names any more, a small file each, and which repository it was.
// Only what has a trace is ever removed from a repository: that a manifest cannot be found proves nothing. A lost trace costs space.
import { randomBytes } from 'node:crypto';
import { appendFileSync, mkdirSync } from 'node:fs';
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const MARK = /^begun-([0-9a-f]{32})$/;
const UNNEEDED = /^unneeded-([0-9a-f]{64})$/;
const REPOSITORY = 'repository';
const MAX_BYTES = 64 * 1024;

export class Traces {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Path of the lock that a writer holds. Makes the folder. */
  lockPath(): string {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    return join(this.#directory, 'lock');
  }

  /** The repository that was used first; null = none yet. */
  async repository(): Promise<string | null> {
    const text = await readSmall(join(this.#directory, REPOSITORY));
    return text === null ? null : text.trim();
  }

  get repositoryPath(): string {
    return join(this.#directory, REPOSITORY);
  }

  async putRepository(id: string): Promise<void> {
    const part = join(this.#directory, `${REPOSITORY}.part`);
    await writeFile(part, `${id}\n`, { mode: 0o600, flush: true });
    await rename(part, join(this.#directory, REPOSITORY));
  }

  /** A mark for the snapshot that is about to be made. */
  async begin(): Promise<string> {
    const mark = randomBytes(16).toString('hex');
    await writeFile(join(this.#directory, `begun-${mark}`), '', { mode: 0o600, flag: 'wx' });
    return mark;
  }

  /** Which process works under it, so that a lock it leaves can be told from those of others. */
  note(mark: string, hostname: string, pid: number): void {
    try {
      appendFileSync(join(this.#directory, `begun-${mark}`), `${hostname} ${pid}\n`);
    } catch {
      // Then its lock counts as that of a stranger, which is said when it is in the way. The process runs already.
    }
  }

  async end(mark: string): Promise<void> {
    await rm(join(this.#directory, `begun-${mark}`), { force: true });
  }

  async putUnneeded(snapshot: string): Promise<void> {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    await writeFile(join(this.#directory, `unneeded-${snapshot}`), '', { mode: 0o600 });
  }

  async dropUnneeded(snapshot: string): Promise<void> {
    await rm(join(this.#directory, `unneeded-${snapshot}`), { force: true });
  }

  async begun(): Promise<readonly string[]> {
    return (await this.#names()).flatMap((name) => MARK.exec(name)?.[1] ?? []);
  }

  async unneeded(): Promise<readonly string[]> {
    return (await this.#names()).flatMap((name) => UNNEEDED.exec(name)?.[1] ?? []);
  }

  /** `host pid` of all that was begun. */
  async processes(): Promise<ReadonlySet<string>> {
    const found = new Set<string>();
    for (const mark of await this.begun())
      for (const line of ((await readSmall(join(this.#directory, `begun-${mark}`))) ?? '').split('\n'))
        if (line !== '') found.add(line);
    return found;
  }

  async #names(): Promise<readonly string[]> {
    return await readdir(this.#directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
  }
}

async function readSmall(path: string): Promise<string | null> {
  try {
    return (await readFile(path, 'utf8')).slice(0, MAX_BYTES);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}
