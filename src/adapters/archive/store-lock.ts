// Store lock: one process at a time changes what is listed or collects. SQLite holds the lock of the file, so that the system itself lets
// it go when a process dies; nothing is ever written into the file.

import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { Fault } from '../../core/fault.ts';

const POLL_MS = 15;
const SQLITE_BUSY = 5;

export async function withStoreLock<T>(path: string, timeoutMs: number, work: () => Promise<T>): Promise<T> {
  const database = await acquire(path, timeoutMs);
  try {
    return await work();
  } finally {
    // Closing rolls the empty transaction back.
    database.close();
  }
}

async function acquire(path: string, timeoutMs: number): Promise<DatabaseSync> {
  const endMs = performance.now() + timeoutMs;
  for (;;) {
    const database = new DatabaseSync(path, { timeout: 0 });
    try {
      // Without a journal: a full disk must not keep anybody from removing an archive.
      database.exec('PRAGMA journal_mode=MEMORY; BEGIN IMMEDIATE;');
      return database;
    } catch (error) {
      database.close();
      if (((error as { errcode?: number }).errcode ?? 0) % 256 !== SQLITE_BUSY) throw error;
      if (performance.now() > endMs)
        throw new Fault('LOCK_HELD', `another process has been changing the archive store for ${timeoutMs / 1000} s`, {
          data: { path },
        });
    }
    await sleep(POLL_MS * (0.5 + Math.random()));
  }
}
