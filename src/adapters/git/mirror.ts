// Mirror: the bare repository under the state directory that holds what was fetched. It makes it, notes who works on
// it, and clears away what a killed process left behind. It never touches what a living process holds.
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../ports/clock.ts';
import { identityOf, isAlive, ownIdentity, type ProcessIdentity, parseIdentity } from '../process/identity.ts';
import { signalGroup } from '../process/process-group.ts';
import { replaceFile } from './ref-files.ts';

/** The commit that was accepted as the tip of the last good fetch. */
export const TIP_REF = 'refs/windlass/tip';
/** The tip before it: kept, so that a rewritten history can be looked at. */
export const PREVIOUS_REF = 'refs/windlass/previous';
/** What the source's ref held at the last fetch, before it was looked at. */
export const FETCHED_REF = 'refs/windlass/fetched';
export const PINS = 'refs/windlass/pins';

/** The remote has no address: it only tells isomorphic-git where to note what it fetched. */
const CONFIG = `[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
[remote "windlass"]
\tfetch = +refs/*:refs/windlass/in-process/*
`;

const OWNERS = 'windlass-owners';
const SOURCE_NOTE = 'windlass-source';
/** Longer than any fetch may take. */
const ABANDONED_MS = 3_600_000;

export class Mirror {
  readonly dir: string;
  readonly #clock: Clock;
  readonly #ownerPath: string;

  constructor(dir: string, clock: Clock) {
    this.dir = dir;
    this.#clock = clock;
    this.#ownerPath = join(dir, OWNERS, `${clock.id()}.json`);
  }

  /** Makes it when there is none, and clears it. `source` says what it mirrors. */
  async open(source: string): Promise<void> {
    // First: who opens at the same moment must not take what we make for leftovers, nor we what they make.
    await mkdir(join(this.dir, OWNERS), { recursive: true, mode: 0o700 });
    await this.#noteOwner(null);
    const { mtimeMs } = await stat(this.#ownerPath);
    await this.#create();
    await this.#clear(mtimeMs, () => true);
    await this.#forgetOtherSource(source);
  }

  async close(): Promise<void> {
    // A note that stays is taken for that of a dead process, sooner or later.
    await rm(this.#ownerPath, { force: true }).catch(() => {});
  }

  /** Says that `pid` works on the mirror for us, so that who comes after us can end it. */
  async noteChild(pid: number | null): Promise<void> {
    await this.#noteOwner(pid === null ? null : identityOf(pid));
  }

  /** Removes what a fetch that ended badly left: half-written packs, and the locks that a fetch takes. Others are held by writers of our own. */
  async clearFetch(): Promise<void> {
    await this.#clear(Number.POSITIVE_INFINITY, (ref) => ref === FETCHED_REF);
  }

  /** Removes locks and half-written packs: all from before `since` (by the clock of the disk) when nobody else is alive, else only very old
   * ones. */
  async #clear(since: number, isOurs: (ref: string) => boolean): Promise<void> {
    const alone = await this.#clearOwners();
    const before = alone ? since : this.#clock.nowMs() - ABANDONED_MS;
    for (const path of await this.#leftovers(isOurs)) {
      const found = await stat(path).catch(() => null);
      if (found !== null && found.mtimeMs < before) await rm(path, { force: true, recursive: true });
    }
    if (!alone) return;
    // Power loss may leave an empty ref, at which git would stop.
    for (const ref of [TIP_REF, PREVIOUS_REF, FETCHED_REF]) {
      const path = join(this.dir, ref);
      const text = await readFile(path, 'latin1').catch(() => null);
      if (text !== null && !/^[0-9a-f]{40}\n$/.test(text)) await rm(path, { force: true });
    }
  }

  async #create(): Promise<void> {
    const head = await readFile(join(this.dir, 'HEAD'), 'latin1').catch(() => '');
    if (head !== '') return;
    for (const folder of ['objects/info', 'objects/pack', 'refs/heads', 'refs/windlass']) {
      await mkdir(join(this.dir, folder), { recursive: true });
    }
    await replaceFile(join(this.dir, 'config'), CONFIG);
    // Last: its presence says that the rest is complete. The branch is never born.
    await replaceFile(join(this.dir, 'HEAD'), 'ref: refs/heads/windlass\n');
  }

  /** A mirror may be given another source by a new configuration: its tip is then not that source's tip. */
  async #forgetOtherSource(source: string): Promise<void> {
    const path = join(this.dir, SOURCE_NOTE);
    const known = await readFile(path, 'utf8').catch(() => null);
    if (known === source) return;
    if (known !== null) {
      for (const ref of [TIP_REF, PREVIOUS_REF, FETCHED_REF]) await rm(join(this.dir, ref), { force: true });
      await this.#dropPacked();
    }
    await replaceFile(path, source);
  }

  async #dropPacked(): Promise<void> {
    const path = join(this.dir, 'packed-refs');
    const text = await readFile(path, 'latin1').catch(() => null);
    if (text === null) return;
    const gone = new Set([TIP_REF, PREVIOUS_REF, FETCHED_REF].map((ref) => ` ${ref}`));
    const lines = text.split('\n').filter((line) => !gone.has(line.slice(40)));
    await writeFile(path, lines.join('\n'), 'latin1');
  }

  async #noteOwner(child: ProcessIdentity | null): Promise<void> {
    await writeFile(this.#ownerPath, JSON.stringify({ self: ownIdentity, child }), { mode: 0o600 });
  }

  /** True when no other living process works here; ends the orphaned work of dead ones. */
  async #clearOwners(): Promise<boolean> {
    const folder = join(this.dir, OWNERS);
    let alone = true;
    for (const name of await readdir(folder).catch(() => [])) {
      const path = join(folder, name);
      if (path === this.#ownerPath) continue;
      const note = await readNote(path);
      if (note.self !== null && isAlive(note.self)) {
        alone = false;
        continue;
      }
      // A fetch whose controller was killed goes on by itself and would hold the locks of the next one.
      if (note.child !== null && isAlive(note.child)) signalGroup(note.child.pid, 'SIGKILL');
      await rm(path, { force: true });
    }
    return alone;
  }

  /** `isOurs`: of which refs the locks are. */
  async #leftovers(isOurs: (ref: string) => boolean): Promise<readonly string[]> {
    const found: string[] = [];
    const look = async (folder: string, isLeft: (name: string) => boolean): Promise<readonly string[]> => {
      const names = await readdir(join(this.dir, folder)).catch(() => []);
      for (const name of names) if (isLeft(name)) found.push(join(this.dir, folder, name));
      return names;
    };
    await look('.', (name) => name.endsWith('.lock') || name.endsWith('.new') || name === 'gc.pid');
    await look('objects/pack', (name) => /^(tmp_|\.tmp-)|\.(temp|keep|lock)$/.test(name));
    const objects = await look('objects', (name) => /^(tmp_|incoming-)/.test(name));
    for (const name of objects)
      if (/^[0-9a-f]{2}$/.test(name)) await look(`objects/${name}`, (file) => /^tmp_/.test(file));
    const refs = await readdir(join(this.dir, 'refs'), { recursive: true }).catch(() => []);
    for (const name of refs)
      if (name.endsWith('.lock') && isOurs(`refs/${name.slice(0, -'.lock'.length)}`))
        found.push(join(this.dir, 'refs', name));
    return found;
  }
}

async function readNote(path: string): Promise<{ self: ProcessIdentity | null; child: ProcessIdentity | null }> {
  try {
    const note: unknown = JSON.parse(await readFile(path, 'utf8'));
    if (typeof note !== 'object' || note === null) return { self: null, child: null };
    return {
      self: 'self' in note ? parseIdentity(note.self) : null,
      child: 'child' in note ? parseIdentity(note.child) : null,
    };
  } catch {
    return { self: null, child: null };
  }
}
