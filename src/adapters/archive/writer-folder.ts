// Writer folder: where one writer keeps what it is just writing into the store, and an empty file for each blob that no manifest names yet.
// It holds a lock in it while it lives, so that what a dead one left can be told from what a living one is writing.
import { randomBytes } from 'node:crypto';
import { mkdir, open, readdir, rm, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf } from './archive-fault.ts';
import { type HeldLock, tryLock } from './store-lock.ts';

const NAME = /^w-[0-9a-f]{24}$/;
const DIGEST = /^[0-9a-f]{64}$/;
const OWNER = 'owner';
/** A living writer that neither names nor releases a blob for so long has forgotten it. */
const FORGOTTEN_MS = 7 * 86_400_000;

export class WriterFolder {
  readonly #incoming: string;
  readonly #alone: <T>(work: () => Promise<T>) => Promise<T>;
  #made: Promise<{ readonly folder: string; readonly lock: HeldLock }> | null = null;

  /** `alone` runs its work under the store's lock. */
  constructor(incoming: string, alone: <T>(work: () => Promise<T>) => Promise<T>) {
    this.#incoming = incoming;
    this.#alone = alone;
  }

  /** To be awaited before the store's lock is taken and anything below is called. */
  async ready(): Promise<void> {
    this.#made ??= this.#alone(() => this.#make()).catch((error: unknown) => {
      this.#made = null;
      throw error;
    });
    await this.#made;
  }

  /** Path of a file that does not exist yet. */
  async fresh(): Promise<string> {
    return join(await this.#folder(), `${randomBytes(12).toString('hex')}.part`);
  }

  async keep(digest: string): Promise<void> {
    const file = await open(join(await this.#folder(), digest), 'w', 0o600);
    await file.close();
  }

  async release(digests: readonly string[]): Promise<void> {
    if (this.#made === null) return;
    const folder = await this.#folder();
    for (const digest of digests) await removed(unlink(join(folder, digest)));
  }

  /** Digests that living writers keep. Under the store's lock, after `clean`. */
  async kept(nowMs: number): Promise<ReadonlySet<string>> {
    const kept = new Set<string>();
    for (const name of await namesIn(this.#incoming)) {
      if (!NAME.test(name)) continue;
      for (const digest of await namesIn(join(this.#incoming, name))) {
        if (!DIGEST.test(digest)) continue;
        const facts = await stat(join(this.#incoming, name, digest)).catch((error: unknown) => {
          // Released since. What cannot be looked at is not known to be superfluous.
          if (codeOf(error) === 'ENOENT') return null;
          throw error;
        });
        if (facts !== null && nowMs - facts.mtimeMs < FORGOTTEN_MS) kept.add(digest);
      }
    }
    return kept;
  }

  /** Takes away what writers left that have ended; what is no writer's folder is not touched. Under the store's lock. */
  async clean(): Promise<void> {
    for (const name of await namesIn(this.#incoming)) {
      if (!NAME.test(name)) continue;
      const folder = join(this.#incoming, name);
      const lock = tryLock(join(folder, OWNER));
      if (lock === null) continue;
      lock.release();
      await rm(folder, { recursive: true, force: true });
    }
  }

  async close(): Promise<void> {
    if (this.#made === null) return;
    const { folder, lock } = await this.#made;
    this.#made = null;
    lock.release();
    await rm(folder, { recursive: true, force: true });
  }

  async #folder(): Promise<string> {
    if (this.#made === null) throw new Error('the folder of a writer is asked for before it is ready');
    return (await this.#made).folder;
  }

  /** Under the store's lock, so that nobody sees the folder before its own lock is held. */
  async #make(): Promise<{ readonly folder: string; readonly lock: HeldLock }> {
    await mkdir(this.#incoming, { recursive: true, mode: 0o700 });
    await this.clean();
    const folder = join(this.#incoming, `w-${randomBytes(12).toString('hex')}`);
    await mkdir(folder, { mode: 0o700 });
    const lock = tryLock(join(folder, OWNER));
    if (lock === null) throw new Error(`${folder} is locked although it is new`);
    return { folder, lock };
  }
}

async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/** False when there was nothing to remove. */
export async function removed(removal: Promise<void>): Promise<boolean> {
  try {
    await removal;
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}
