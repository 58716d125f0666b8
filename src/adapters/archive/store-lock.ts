// Store lock: who changes what is listed, or collects, is alone; and who writes can be seen to live. SQLite holds the locks, so that the
// system itself lets them go when a process dies, and they count in every container that sees the folder. Nothing is written into the files.
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../core/fault.ts';

const POLL_MS = 15;
const SQLITE_BUSY = 5;

export interface HeldLock {
  release(): void;
}

/** Null when somebody holds it. The file is made when it is missing. */
export function tryLock(path: string): HeldLock | null {
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    // Without a journal: a full disk must not keep anybody from removing an archive.
    database.exec('PRAGMA journal_mode=MEMORY; BEGIN IMMEDIATE;');
    return { release: () => database.close() };
  } catch (error) {
    database.close();
    if (((error as { errcode?: number }).errcode ?? 0) % 256 !== SQLITE_BUSY) throw error;
    return null;
  }
}

export async function withStoreLock<T>(path: string, timeoutMs: number, work: () => Promise<T>): Promise<T> {
  const lock = await acquire(path, timeoutMs);
  try {
    return await work();
  } finally {
    lock.release();
  }
}

async function acquire(path: string, timeoutMs: number): Promise<HeldLock> {
  const endMs = performance.now() + timeoutMs;
  for (;;) {
    const lock = tryLock(path);
    if (lock !== null) return lock;
    if (performance.now() > endMs)
      throw new Fault('LOCK_HELD', `another process has been changing the archive store for ${timeoutMs / 1000} s`, {
        data: { path },
      });
    await sleep(POLL_MS * (0.5 + Math.random()));
  }
}
