// Writer folder: where one process keeps what it is just writing into the store, and an empty file for each blob that no manifest names yet.
// Its name says whose it is, so that what a dead process left can be told from what a living one is writing.
import { randomBytes } from 'node:crypto';
import { mkdir, open, readdir, rm, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { isAlive, ownIdentity, type ProcessIdentity } from '../process/identity.ts';
import { codeOf } from './archive-fault.ts';

const DIGEST = /^[0-9a-f]{64}$/;
/** A living process that neither names nor releases a blob for so long has forgotten it. */
const FORGOTTEN_MS = 7 * 86_400_000;

export class WriterFolder {
  readonly #incoming: string;
  readonly #name = `w-${ownIdentity.pid}-${encodeURIComponent(ownIdentity.born)}-${randomBytes(8).toString('hex')}`;
  #made: Promise<string> | null = null;

  constructor(incoming: string) {
    this.#incoming = incoming;
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
    const folder = await this.#made;
    for (const digest of digests) await removed(unlink(join(folder, digest)));
  }

  /** Digests that living writers keep. Under the store's lock. */
  async kept(nowMs: number): Promise<ReadonlySet<string>> {
    const kept = new Set<string>();
    for (const name of await namesIn(this.#incoming)) {
      const owner = ownerOf(name);
      if (owner === null || !isAlive(owner)) continue;
      for (const digest of await namesIn(join(this.#incoming, name))) {
        if (!DIGEST.test(digest)) continue;
        const facts = await stat(join(this.#incoming, name, digest)).catch(() => null);
        if (facts !== null && nowMs - facts.mtimeMs < FORGOTTEN_MS) kept.add(digest);
      }
    }
    return kept;
  }

  /** Takes away what writers left that have ended; what is no writer's folder is not touched. */
  async clean(): Promise<void> {
    for (const name of await namesIn(this.#incoming)) {
      const owner = ownerOf(name);
      if (owner !== null && !isAlive(owner)) await rm(join(this.#incoming, name), { recursive: true, force: true });
    }
  }

  async close(): Promise<void> {
    if (this.#made === null) return;
    const folder = await this.#made;
    this.#made = null;
    await rm(folder, { recursive: true, force: true });
  }

  #folder(): Promise<string> {
    this.#made ??= this.#make().catch((error: unknown) => {
      this.#made = null;
      throw error;
    });
    return this.#made;
  }

  async #make(): Promise<string> {
    const folder = join(this.#incoming, this.#name);
    await mkdir(this.#incoming, { recursive: true, mode: 0o700 });
    await this.clean();
    await mkdir(folder, { mode: 0o700 });
    return folder;
  }
}

function ownerOf(name: string): ProcessIdentity | null {
  const match = /^w-([1-9][0-9]{0,9})-([A-Za-z0-9%.-]{0,200})-[0-9a-f]{16}$/.exec(name);
  if (!match) return null;
  try {
    return { pid: Number(match[1]), born: decodeURIComponent(match[2]!) };
  } catch {
    return null;
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
