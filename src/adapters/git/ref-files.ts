// Reads and writes refs of a repository on disk, in process: a poll must not cost a subprocess. Only repositories that
// keep refs as files; for any other way of keeping them the answer is "unknown", and git is asked.
import { randomBytes } from 'node:crypto';
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { Fault } from '../../core/fault.ts';
import { isOid } from './object-reader.ts';

export interface Repository {
  /** HEAD lives here. */
  readonly gitDir: string;
  /** Refs and objects live here; the same unless it is a linked work tree. */
  readonly commonDir: string;
}

const MAX_REF_BYTES = 4_096;
const MAX_PACKED_BYTES = 64 * 1024 * 1024;
const MAX_LINKS = 5;
const LOCK_TRIES = 40;
const LOCK_WAIT_MS = 25;

/** Finds the repository of a path: bare, a work tree, or a linked work tree. Null when there is none. */
export async function findRepository(path: string): Promise<Repository | null> {
  const dotGit = join(path, '.git');
  const found = await stat(dotGit).catch(() => null);
  if (found?.isDirectory()) return { gitDir: dotGit, commonDir: dotGit };
  if (found?.isFile()) {
    const target = /^gitdir: (.+)$/m.exec((await readSmall(dotGit)) ?? '')?.[1];
    if (target === undefined) return null;
    const gitDir = resolve(path, target);
    const common = (await readSmall(join(gitDir, 'commondir')))?.trim();
    return { gitDir, commonDir: common === undefined ? gitDir : resolve(gitDir, common) };
  }
  const isBare = await stat(join(path, 'objects')).then(
    (folder) => folder.isDirectory(),
    () => false,
  );
  return isBare && (await readSmall(join(path, 'HEAD'))) !== null ? { gitDir: path, commonDir: path } : null;
}

/** The id that a full ref names, `null` when there is no such ref, `'unknown'` when only git can tell. */
export async function readRef(repository: Repository, ref: string): Promise<string | null | 'unknown'> {
  // A repository with reftables has this in place of refs.
  if ((await stat(join(repository.commonDir, 'reftable')).catch(() => null)) !== null) return 'unknown';
  let name = ref;
  for (let links = 0; links <= MAX_LINKS; links += 1) {
    const text = (await readSmall(join(repository.commonDir, name)))?.trim();
    if (text === undefined) return readPackedRef(repository, name);
    if (isOid(text)) return text;
    const target = /^ref: (refs\/\S+)$/.exec(text)?.[1];
    if (target === undefined || target.split('/').includes('..')) return 'unknown';
    name = target;
  }
  return 'unknown';
}

/** Files and folders whose change may mean that `ref` moved; for a watcher. */
export async function refPaths(path: string, ref: string): Promise<readonly string[]> {
  const repository = await findRepository(path);
  if (repository === null) return [];
  return [dirname(join(repository.commonDir, ref)), join(repository.commonDir, 'packed-refs')];
}

async function readPackedRef(repository: Repository, ref: string): Promise<string | null | 'unknown'> {
  const path = join(repository.commonDir, 'packed-refs');
  const found = await stat(path).catch(() => null);
  if (found === null) return null;
  if (found.size > MAX_PACKED_BYTES) return 'unknown';
  const text = await readFile(path, 'latin1').catch(() => null);
  if (text === null) return 'unknown';
  // Names in this file are UTF-8 bytes; both sides are compared as latin1.
  const name = Buffer.from(ref, 'utf8').toString('latin1');
  const at = text.indexOf(` ${name}\n`);
  if (at < 40) return at < 0 ? null : 'unknown';
  const oid = text.slice(at - 40, at);
  return isOid(oid) ? oid : 'unknown';
}

/** Points `ref` to `oid` and has it on disk when it returns. */
export async function writeRef(gitDir: string, ref: string, oid: string): Promise<void> {
  const path = join(gitDir, ref);
  if ((await readSmall(path))?.trim() === oid) return;
  await mkdir(dirname(path), { recursive: true });
  const lock = await lockRef(path);
  try {
    await lock.writeFile(`${oid}\n`);
    await lock.sync();
  } catch (error) {
    await lock.close();
    await rm(`${path}.lock`, { force: true });
    throw error;
  }
  await lock.close();
  await rename(`${path}.lock`, path);
}

/** Removes a ref that stands in a file of its own; one that git has packed stays. */
export async function removeLooseRef(gitDir: string, ref: string): Promise<void> {
  await rm(join(gitDir, ref), { force: true });
}

async function lockRef(path: string) {
  for (let tries = 0; ; tries += 1) {
    try {
      return await open(`${path}.lock`, 'wx', 0o600);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'EEXIST' || tries >= LOCK_TRIES) {
        const why = code === 'EEXIST' ? 'another process holds its lock' : String(error);
        throw new Fault('FILES_FAILED', `${path} cannot be written: ${why}`, { data: { path }, cause: error });
      }
    }
    await new Promise((done) => setTimeout(done, LOCK_WAIT_MS));
  }
}

async function readSmall(path: string): Promise<string | null> {
  const file = await open(path, 'r').catch(() => null);
  if (file === null) return null;
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(MAX_REF_BYTES), 0, MAX_REF_BYTES, 0);
    return buffer.toString('utf8', 0, bytesRead);
  } catch {
    return null;
  } finally {
    await file.close();
  }
}

/** Replaces a small file of ours as a whole. */
export async function replaceFile(path: string, text: string): Promise<void> {
  if (!isAbsolute(path)) throw new Error(`${path} is not absolute`);
  const temporary = `${path}.${randomBytes(6).toString('hex')}.new`;
  const file = await open(temporary, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
}
