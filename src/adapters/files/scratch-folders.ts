// Scratch folders: fresh, empty, only for us, with names nobody guesses. Those of crashed runs are taken away.
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isAlive, ownIdentity, parseIdentity } from '../process/identity.ts';

const NAME = /^wl-scratch-[0-9a-f]{32}$/;
const NOTE = '.owner';
/** No render takes this long. */
const ABANDONED_MS = 3_600_000;

export class ScratchFolders {
  readonly #directory: string;
  #cleaned: Promise<void> | null = null;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async make(): Promise<{ readonly directory: string; dispose(): Promise<void> }> {
    await this.clean();
    const directory = join(this.#directory, `wl-scratch-${randomBytes(16).toString('hex')}`);
    const note = directory + NOTE;
    // The note first: a folder without one would be taken for abandoned by another process.
    await writeFile(note, JSON.stringify(ownIdentity), { mode: 0o600, flag: 'wx' });
    await mkdir(directory, { mode: 0o700 });
    return {
      directory,
      dispose: async () => {
        await rm(directory, { recursive: true, force: true });
        await rm(note, { force: true });
      },
    };
  }

  /** Takes away what crashed runs left; once, however often it is called. */
  clean(): Promise<void> {
    this.#cleaned ??= this.#clean().catch((error: unknown) => {
      this.#cleaned = null;
      throw error;
    });
    return this.#cleaned;
  }

  async #clean(): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    const names = new Set(
      (await readdir(this.#directory)).map((name) => (name.endsWith(NOTE) ? name.slice(0, -NOTE.length) : name)),
    );
    for (const name of names) {
      if (!NAME.test(name) || !(await this.#isAbandoned(name))) continue;
      await rm(join(this.#directory, name), { recursive: true, force: true });
      await rm(join(this.#directory, name + NOTE), { force: true });
    }
  }

  async #isAbandoned(name: string): Promise<boolean> {
    const note = join(this.#directory, name + NOTE);
    try {
      const owner = parseIdentity(JSON.parse(await readFile(note, 'utf8')));
      if (owner === null || !isAlive(owner)) return true;
      return Date.now() - (await stat(note)).mtimeMs > ABANDONED_MS;
    } catch {
      // Without a note, or with half of one, written by a process that is just making it or that died of it.
      const made = await stat(join(this.#directory, name)).catch(() => stat(note).catch(() => null));
      return made === null || Date.now() - made.mtimeMs > 60_000;
    }
  }
}
