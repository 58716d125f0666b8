// Project folders: writes what git holds beside what containers wrote there. First everything new is staged beside its
// place, then it is put in place by rename, so that a full disk or a missing object leaves the folder as it was. Only
// what Windlass wrote, and nobody changed since, is ever removed; links on the way are never followed.
import { randomBytes } from 'node:crypto';
import { type BigIntStats, constants, lstatSync } from 'node:fs';
import {
  chmod,
  link,
  lstat,
  mkdir,
  open,
  opendir,
  readdir,
  readlink,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  unlink,
} from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { Fault } from '../../core/fault.ts';
import type { Files, FileToWrite, Written } from '../../ports/files.ts';
import {
  factsOf,
  formatLine,
  hasContent,
  hasKind,
  hasMode,
  isOurs,
  lineOfOthers,
  oidOf,
  parseLine,
} from './file-facts.ts';
import { InTheWay, OpenFolder } from './open-folder.ts';
import { ScratchFolders } from './scratch-folders.ts';

const STAGED = /^\.wl-new-[0-9a-f]{24}$/;
const MAX_LINK_BYTES = 4_096;
const MEANWHILE = 'was made or changed by somebody else meanwhile';
/** What a file system answers that has none. */
const WITHOUT_HARD_LINKS: ReadonlySet<string> = new Set(['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP']);
const FILES_AT_ONCE = 8;
/** What is written over is kept in memory meanwhile. No file of git is as large; a container can make any of it. */
const MAX_KEPT_MIB = 64;
/** Edits that were found to be none, by path. */
const MAX_REMEMBERED = 100_000;

/** What git holds there is nothing to write, whatever lies in the folder. */
class NotToWrite extends Error {
  readonly path: string;

  constructor(path: string, what: string) {
    super(`${path} ${what}`);
    this.path = path;
  }
}

type MaterializeInput = Parameters<Files['materialize']>[0];
type EditedInput = Parameters<Files['edited']>[0];
type OthersInput = Parameters<Files['others']>[0];

/** A file that must be written: staged beside its place, or (in place) waiting for its turn. */
interface Staged {
  readonly file: FileToWrite;
  readonly name: string;
  /** Name of the staged copy in the same folder. */
  readonly copy: string;
  /** May a file that lies in its place now be replaced? Only one that was judged, and is since as it was. */
  readonly mayGo: (there: BigIntStats) => boolean;
}

export class ProjectFolders implements Files {
  readonly #stateDir: string;
  readonly #scratchDir: string;
  readonly #scratch: ScratchFolders;
  /** Path → facts of a file whose facts differ from those remembered, but whose content does not. */
  readonly #unedited = new Map<string, string>();

  constructor(stateDir: string) {
    this.#stateDir = resolve(stateDir);
    this.#scratchDir = join(stateDir, 'scratch');
    this.#scratch = new ScratchFolders(this.#scratchDir);
    // Early, beside other work; who wants a folder waits for it, and hears of its failure.
    this.#scratch.clean().catch(() => {});
  }

  async materialize(input: MaterializeInput): Promise<Written> {
    try {
      for (const file of input.files) checkPath(file.path);
      const isLasting = !input.directory.startsWith(`${this.#scratchDir}/`);
      return await new Materialization(input, isLasting).run();
    } catch (error) {
      throw asFilesFault(input.directory, error, input.signal);
    }
  }

  async scratch(): Promise<{ readonly directory: string; dispose(): Promise<void> }> {
    try {
      return await this.#scratch.make();
    } catch (error) {
      throw asFilesFault(this.#scratchDir, error, undefined);
    }
  }

  async edited(input: EditedInput): Promise<readonly string[]> {
    const found: string[] = [];
    for (const mounted of input.mounted) {
      for (const path of writtenBelow(input, mounted)) {
        if (!(await this.#isEdited(join(input.directory, path), input.written[path]!))) continue;
        found.push(mounted);
        break;
      }
    }
    return found;
  }

  async others({ directory, written, folder, except, most }: OthersInput): Promise<readonly string[]> {
    const found: string[] = [];
    const open = [folder];
    try {
      for (let at = open.pop(); at !== undefined && found.length < most; at = open.pop()) {
        if (at === except) continue;
        const entries = await opendir(at).catch((error: NodeJS.ErrnoException) => {
          if (error.code === 'ENOENT') return null;
          throw error;
        });
        if (entries === null) continue;
        for await (const entry of entries) {
          const path = join(at, entry.name);
          if (entry.isDirectory()) open.push(path);
          else if (!STAGED.test(entry.name) && written[relative(directory, path)] === undefined)
            found.push(relative(folder, path));
          if (found.length >= most) break;
        }
      }
      return found;
    } catch (error) {
      throw asFilesFault(folder, error, undefined);
    }
  }

  async ensureFolder(path: string): Promise<void> {
    try {
      await mkdir(path, { recursive: true, mode: 0o755 });
    } catch (error) {
      throw asFilesFault(path, error, undefined);
    }
  }

  async exists(path: string): Promise<boolean> {
    try {
      await stat(path);
      return true;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // Anything else is "could not look", which must never be taken for "is not there".
      if (code === 'ENOENT' || code === 'ENOTDIR') return false;
      throw asFilesFault(path, error, undefined);
    }
  }

  async removeFolder(path: string): Promise<void> {
    if (!resolve(path).startsWith(`${join(this.#stateDir, 'stacks')}/`))
      throw new Fault('FILES_FAILED', `${path} is no folder of a stack`, { data: { path } });
    try {
      await rm(path, { recursive: true, force: true });
    } catch (error) {
      throw asFilesFault(path, error, undefined);
    }
  }

  async #isEdited(path: string, line: string): Promise<boolean> {
    const known = parseLine(line);
    if (known.facts === '') return false;
    // Synchronous: a few microseconds each, and there are thousands of them in a fleet at each look.
    const stats = lstatSync(path, { bigint: true, throwIfNoEntry: false });
    if (stats === undefined || !hasMode(stats, known.mode)) return true;
    const facts = factsOf(stats);
    if (facts === known.facts || this.#unedited.get(path) === `${known.oid} ${facts}`) return false;
    if (!(await hasContent(path, stats, known.oid, known))) return true;
    if (this.#unedited.size >= MAX_REMEMBERED) this.#unedited.clear();
    this.#unedited.set(path, `${known.oid} ${facts}`);
    return false;
  }
}

function writtenBelow({ directory, written }: EditedInput, mounted: string): readonly string[] {
  if (mounted === directory) return Object.keys(written);
  if (!mounted.startsWith(`${directory}/`)) return [];
  const path = mounted.slice(directory.length + 1).replace(/\/+$/, '');
  if (written[path] !== undefined) return [path];
  return Object.keys(written).filter((other) => other.startsWith(`${path}/`));
}

/** One materialization of one folder. */
class Materialization {
  readonly #input: MaterializeInput;
  readonly #isLasting: boolean;
  readonly #written: Record<string, string> = {};
  /** What was put in place so far, and what was taken away (null). */
  readonly #changed = new Map<string, string | null>();

  constructor(input: MaterializeInput, isLasting: boolean) {
    this.#input = input;
    this.#isLasting = isLasting;
  }

  async run(): Promise<Written> {
    const { directory, files, before } = this.#input;
    // The umask must not keep the users of containers out.
    if ((await mkdir(directory, { recursive: true })) !== undefined) await chmod(directory, 0o755);
    const wanted = new Set(files.map((file) => file.path));
    const gone = Object.keys(before).filter((path) => !wanted.has(path));
    const folders = byFolder(files, (file) => file.path);
    const staged = new Map<string, Staged[]>();
    try {
      // A file of ours where a folder is wanted now, or below a name that is to be a file, must make room first.
      const obstacles = gone.filter((path) => isObstacle(path, wanted, folders));
      await this.#remove(obstacles);
      for (const [path, group] of folders) {
        const list: Staged[] = [];
        staged.set(path, list);
        await this.#orLeave(group, () => this.#stageFolder(path, group, list));
      }
      for (const [path, list] of staged) {
        const group = list.map((entry) => entry.file);
        if (!(await this.#orLeave(group, () => this.#placeFolder(path, list)))) await this.#unstage(path, list);
      }
      const isEarly = new Set(obstacles);
      await this.#remove(gone.filter((path) => !isEarly.has(path)));
    } catch (error) {
      for (const [path, list] of staged) await this.#unstage(path, list);
      if (this.#changed.size > 0) this.#input.cut?.(this.#writtenNow());
      throw error;
    }
    return this.#written;
  }

  /** Half way. What only lay there already is none of it: another attempt may leave it to whoever made it. */
  #writtenNow(): Written {
    const now = { ...this.#input.before };
    for (const [path, line] of this.#changed)
      if (line === null) delete now[path];
      else now[path] = line;
    return now;
  }

  /** False when something is in the way of them that may be left; what was on record of them before still is. */
  async #orLeave(files: readonly FileToWrite[], work: () => Promise<void>): Promise<boolean> {
    const { directory, before, left, signal } = this.#input;
    try {
      await work();
      return true;
    } catch (error) {
      const fault = asFilesFault(directory, error, signal);
      if (left === undefined || fault.code !== 'FILE_IN_THE_WAY') throw error;
      for (const { path } of files) {
        const line = before[path];
        if (line !== undefined && isOurs(parseLine(line))) this.#written[path] = line;
        left(path, fault.message);
      }
      return false;
    }
  }

  // --- staging

  async #stageFolder(path: string, files: readonly FileToWrite[], staged: Staged[]): Promise<void> {
    const folder = (await OpenFolder.below(this.#input.directory, path, true))!;
    try {
      // Before anything is staged: a copy of this run looks like one that a crash left.
      await removeStaged(folder);
      await eachOf(files, async (file) => {
        await this.#orLeave([file], () => this.#stage(folder, file, staged));
      });
    } finally {
      await folder.close();
    }
  }

  async #stage(folder: OpenFolder, file: FileToWrite, staged: Staged[]): Promise<void> {
    this.#input.signal?.throwIfAborted();
    const name = nameOf(file.path);
    if (await this.#isKept(folder, name, file)) return;
    const mayGo = await this.#judge(folder, name, file);
    const entry: Staged = { file, name, copy: `.wl-new-${randomBytes(12).toString('hex')}`, mayGo };
    const bytes = await this.#input.read(file.oid);
    staged.push(entry);
    if (file.mode === '120000') await symlink(linkTarget(file.path, bytes), folder.at(entry.copy));
    else await this.#writeCopy(folder.at(entry.copy), file.mode, bytes);
  }

  /** Is what lies there already right? Then its inode stays, and at most its executable bit is set. */
  async #isKept(folder: OpenFolder, name: string, file: FileToWrite): Promise<boolean> {
    const stats = await lookAt(folder, name);
    // A folder that the engine made for a missing mount is no edit.
    if (stats === null || stats.isDirectory()) return false;
    const known = parseLine(this.#input.before[file.path] ?? '');
    const isOfKind = hasKind(stats, file.mode);
    const isUntouched = known.facts !== '' && known.facts === factsOf(stats);
    const isSame =
      isOfKind && (isUntouched ? known.oid === file.oid : await hasContent(folder.at(name), stats, file.oid, known));
    if (!isSame && file.keepsEdits && !isUntouched && (known.oid === '' || known.oid === file.oid)) {
      this.#written[file.path] = known.facts === '' ? lineOfOthers(file) : this.#input.before[file.path]!;
      return true;
    }
    if (!isSame) return false;
    if (hasMode(stats, file.mode)) {
      this.#written[file.path] = formatLine(file, stats);
      return true;
    }
    return this.#setMode(folder, name, file);
  }

  /** What an app wrote is data: git may not take its place because it bears the same name. What git knows can be had again. */
  async #judge(folder: OpenFolder, name: string, file: FileToWrite): Promise<Staged['mayGo']> {
    if (!this.#isLasting) return () => true;
    const known = parseLine(this.#input.before[file.path] ?? '');
    if (isOurs(known) && !file.keepsEdits) return () => true;
    const stats = await lookAt(folder, name);
    // A folder is judged when a file is to take its place.
    if (stats === null || stats.isDirectory()) return () => false;
    const oid = await oidOf(folder.at(name), stats);
    const facts = factsOf(stats);
    // Where a link leads to is so short that git may hold the same by chance.
    const isKnown = stats.isFile() ? this.#input.isKnown : undefined;
    const isAsRecorded = oid === known.oid && hasKind(stats, known.mode);
    if (oid !== null && (isAsRecorded || (await isKnown?.(oid)))) return (there) => factsOf(there) === facts;
    throw this.#inTheWay(
      file.path,
      isOurs(known)
        ? 'was changed here and in git since it was written'
        : 'was not written by Windlass and is not in git, which now has another file of this name',
    );
  }

  #inTheWay(path: string, what: string): Fault {
    const { directory } = this.#input;
    return new Fault('FILE_IN_THE_WAY', `${directory}: ${path} ${what}`, { data: { directory, path } });
  }

  /** False when it is not ours to change: then it is replaced by one that is. */
  async #setMode(folder: OpenFolder, name: string, file: FileToWrite): Promise<boolean> {
    // By the open file: the name may be a link by now, and `chmod` would follow it.
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    const handle = await open(folder.at(name), flags).catch(() => null);
    if (handle === null) return false;
    try {
      await handle.chmod(modeOf(file.mode));
      this.#written[file.path] = formatLine(file, await handle.stat({ bigint: true }));
      return true;
    } catch {
      return false;
    } finally {
      await handle.close();
    }
  }

  async #writeCopy(path: string, mode: string, bytes: Uint8Array): Promise<void> {
    const handle = await open(
      path,
      constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
      0o600,
    );
    try {
      await handle.writeFile(bytes);
      await handle.chmod(modeOf(mode));
      if (this.#isLasting) await handle.sync();
    } finally {
      await handle.close();
    }
  }

  // --- putting in place

  async #placeFolder(path: string, staged: readonly Staged[]): Promise<void> {
    if (staged.length === 0) return;
    const folder = (await OpenFolder.below(this.#input.directory, path, true))!;
    try {
      for (const entry of staged)
        if (!(await this.#orLeave([entry.file], () => this.#place(folder, entry))))
          await unlinkIfThere(folder.at(entry.copy));
      if (this.#isLasting) await folder.sync();
    } finally {
      await folder.close();
    }
  }

  async #place(folder: OpenFolder, entry: Staged): Promise<void> {
    const { file, name, copy, mayGo } = entry;
    const there = await lookAt(folder, name);
    if (there?.isDirectory()) await makeRoom(folder, name);
    // Staging took its time. Where nothing is, not even the moment from here to the call is left open.
    if (there !== null && !there.isDirectory() && !mayGo(there)) throw this.#inTheWay(file.path, MEANWHILE);
    if (file.inPlace && there?.isFile() && there.nlink === 1n) await this.#overwrite(folder, entry);
    else if (this.#isLasting && (there === null || there.isDirectory())) {
      if (!(await putNew(folder, copy, name, file.mode))) throw this.#inTheWay(file.path, MEANWHILE);
    } else await rename(folder.at(copy), folder.at(name));
    const stats = await lookAt(folder, name);
    if (stats === null) return;
    const line = formatLine(file, stats);
    this.#written[file.path] = line;
    this.#changed.set(file.path, line);
  }

  /** Keeps the inode, which a container holds by a mount of just this file. What was there comes back when it fails. */
  async #overwrite(folder: OpenFolder, { file, name, copy, mayGo }: Staged): Promise<void> {
    const handle = await open(folder.at(name), constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const bytes = await this.#input.read(file.oid);
      const there = await handle.stat();
      if (!there.isFile()) throw new InTheWay(file.path, 'was swapped for something else');
      const mebibytes = Math.ceil(there.size / 2 ** 20);
      if (mebibytes > MAX_KEPT_MIB) throw new InTheWay(file.path, `has grown to ${mebibytes} MiB`);
      const old = await handle.readFile();
      if (!mayGo(await handle.stat({ bigint: true }))) throw this.#inTheWay(file.path, MEANWHILE);
      try {
        await writeAll(handle, bytes);
      } catch (error) {
        await writeAll(handle, old).catch(() => {});
        throw error;
      }
      const isExecutable = ((await handle.stat()).mode & 0o100) !== 0;
      if (isExecutable !== (file.mode === '100755')) await handle.chmod(modeOf(file.mode));
    } finally {
      await handle.close();
    }
    await unlink(folder.at(copy));
  }

  // --- taking away

  async #remove(paths: readonly string[]): Promise<void> {
    for (const [path, names] of byFolder(paths, (gone) => gone)) {
      // Null also when somebody put a link there: what lies behind it is not what we wrote.
      const folder = await OpenFolder.below(this.#input.directory, path, false);
      if (folder === null) continue;
      try {
        for (const gone of names) await this.#removeFile(folder, gone);
        await removeStaged(folder);
      } finally {
        await folder.close();
      }
      await this.#removeEmpty(path);
    }
  }

  async #removeFile(folder: OpenFolder, path: string): Promise<void> {
    const name = nameOf(path);
    const known = parseLine(this.#input.before[path]!);
    if (!isOurs(known)) return;
    const stats = await lookAt(folder, name);
    if (stats === null || !hasKind(stats, known.mode)) return;
    const isSame = known.facts === factsOf(stats) || (await hasContent(folder.at(name), stats, known.oid, known));
    if (!isSame) return;
    await unlinkIfThere(folder.at(name));
    this.#changed.set(path, null);
  }

  /** Takes away the folders that became empty by it, from the inside out. */
  async #removeEmpty(path: string): Promise<void> {
    for (let at = path; at !== ''; at = folderOf(at)) {
      const outer = await OpenFolder.below(this.#input.directory, folderOf(at), false).catch(() => null);
      if (outer === null) return;
      try {
        await rmdir(outer.at(nameOf(at)));
      } catch {
        return;
      } finally {
        await outer.close();
      }
    }
  }

  async #unstage(path: string, staged: readonly Staged[]): Promise<void> {
    if (staged.length === 0) return;
    const folder = await OpenFolder.below(this.#input.directory, path, false).catch(() => null);
    if (folder === null) return;
    for (const { copy } of staged) await unlinkIfThere(folder.at(copy)).catch(() => {});
    await folder.close();
  }
}

/** False when something lies there, which is left. Never follows a link. */
async function putNew(folder: OpenFolder, copy: string, name: string, mode: string): Promise<boolean> {
  const [from, to] = [folder.at(copy), folder.at(name)];
  try {
    // Neither call replaces anything, as a rename would. Some systems follow a link that is given another name.
    if (mode === '120000') await symlink(await readlink(from, 'buffer'), to);
    else await link(from, to);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return false;
    if (!WITHOUT_HARD_LINKS.has(code)) throw error;
    await rename(from, to);
    return true;
  }
  await unlink(from);
  return true;
}

async function writeAll(handle: Awaited<ReturnType<typeof open>>, bytes: Uint8Array): Promise<void> {
  let at = 0;
  while (at < bytes.length) at += (await handle.write(bytes, at, bytes.length - at, at)).bytesWritten;
  await handle.truncate(bytes.length);
  await handle.sync();
}

async function lookAt(folder: OpenFolder, name: string): Promise<BigIntStats | null> {
  try {
    return await lstat(folder.at(name), { bigint: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** An engine makes an empty folder where a mounted file is missing; that one may go. */
async function makeRoom(folder: OpenFolder, name: string): Promise<void> {
  await rmdir(folder.at(name)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return;
    throw new InTheWay(folder.show(name), 'is a folder that holds files, but a file should be there');
  });
}

/** Copies that a crash left in a folder. */
async function removeStaged(folder: OpenFolder): Promise<void> {
  for (const name of await readdir(folder.at('.'))) if (STAGED.test(name)) await unlinkIfThere(folder.at(name));
}

async function unlinkIfThere(path: string): Promise<void> {
  await unlink(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
}

/** Is `gone` a file where a folder is wanted, or does it lie below a name that is to be a file? */
function isObstacle(
  gone: string,
  wanted: ReadonlySet<string>,
  folders: ReadonlyMap<string, readonly unknown[]>,
): boolean {
  if (folders.has(gone)) return true;
  for (const folder of folders.keys()) if (folder.startsWith(`${gone}/`)) return true;
  for (let at = folderOf(gone); at !== ''; at = folderOf(at)) if (wanted.has(at)) return true;
  return false;
}

/**
 * The target of a link, when it stays inside the project folder whatever other links there are: steps up first, then
 * only down. A step up after a name could leave through a link that the name is.
 */
function linkTarget(path: string, bytes: Uint8Array): string {
  if (bytes.length === 0 || bytes.length > MAX_LINK_BYTES)
    throw new NotToWrite(path, 'is a link with an unusable target');
  const target = Buffer.from(bytes).toString('utf8');
  const parts = target.split('/').filter((part) => part !== '' && part !== '.');
  const ups = parts.findIndex((part) => part !== '..');
  const down = ups < 0 ? [] : parts.slice(ups);
  const depth = path.split('/').length - 1;
  const isInside = (ups < 0 ? parts.length : ups) <= depth && !down.includes('..');
  if (target.startsWith('/') || !isInside || target.includes('\0') || !Buffer.from(target).equals(bytes)) {
    throw new NotToWrite(path, `is a link to ${JSON.stringify(target)}, which leaves the folder`);
  }
  return target;
}

/** The paths were judged before; here a mistake would write outside the folder, so they are looked at again. */
function checkPath(path: string): void {
  const isBad =
    path === '' ||
    path.includes('\0') ||
    path.split('/').some((part) => part === '' || part === '.' || part === '..' || part.toLowerCase() === '.git');
  if (isBad) throw new NotToWrite(JSON.stringify(path), 'is not a path that may be written');
  if (!path.isWellFormed()) throw new NotToWrite(JSON.stringify(path), 'has a name that is not UTF-8');
}

/** In the order of their first appearance. */
function byFolder<Item>(items: readonly Item[], pathOf: (item: Item) => string): ReadonlyMap<string, Item[]> {
  const folders = new Map<string, Item[]>();
  for (const item of items) {
    const folder = folderOf(pathOf(item));
    const group = folders.get(folder);
    if (group === undefined) folders.set(folder, [item]);
    else group.push(item);
  }
  return folders;
}

function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

function modeOf(mode: string): number {
  return mode === '100755' ? 0o755 : 0o644;
}

/** Some at a time; after a failure no new one is begun, and all that were begun have ended. */
async function eachOf<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  let next = 0;
  const failures: unknown[] = [];
  const worker = async (): Promise<void> => {
    while (next < items.length && failures.length === 0) {
      const item = items[next++]!;
      await work(item).catch((error: unknown) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: Math.min(FILES_AT_ONCE, items.length) }, worker));
  if (failures.length > 0) throw failures[0];
}

function asFilesFault(directory: string, error: unknown, signal: AbortSignal | undefined): Fault {
  if (error instanceof Fault) return error;
  if (signal?.aborted) return new Fault('CANCELLED', `writing ${directory} was called off`, { cause: error });
  if (error instanceof InTheWay || error instanceof NotToWrite) {
    return new Fault(error instanceof InTheWay ? 'FILE_IN_THE_WAY' : 'FILES_FAILED', `${directory}: ${error.message}`, {
      data: { directory, path: error.path },
      cause: error,
    });
  }
  const { code, path } = error as NodeJS.ErrnoException;
  const what =
    code === 'ENOSPC' || code === 'EDQUOT'
      ? 'the disk is full'
      : error instanceof Error
        ? error.message
        : String(error);
  const shown = what.replaceAll(/\/proc\/self\/fd\/\d+/g, directory);
  return new Fault('FILES_FAILED', `${directory}: ${shown}`, {
    data: { directory, ...(path === undefined ? {} : { path: path.replace(/^\/proc\/self\/fd\/\d+/, directory) }) },
    cause: error,
  });
}
