// Database: one SQLite file that several processes use at once. Opens it safely (owner only, checked after a crash, migrated with a copy
// kept), runs transactions, and turns what SQLite refuses into Faults. It never deletes or repairs a file, and knows no table.
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync, type SQLInputValue, type SQLOutputValue } from 'node:sqlite';
import { Fault } from '../../core/fault.ts';

export interface Migration {
  readonly what: string;
  readonly sql: string;
}

/** `disk`: fsynced when the call returns. `soon`: survives a killed process; a power loss may take the last moments. */
export type Durability = 'disk' | 'soon';

export type Row = Record<string, SQLOutputValue>;

export interface Query {
  get(...values: SQLInputValue[]): Row | undefined;
  all(...values: SQLInputValue[]): Row[];
  /** Number of rows changed. */
  run(...values: SQLInputValue[]): number;
}

export interface Database {
  readonly path: string;
  prepare(sql: string): Query;
  /** All or nothing, and alone: no other process writes between a read and a write in `work`. */
  write<T>(durability: Durability, work: () => T): T;
  /** Grows when another process (or another connection) has written since the last call. */
  changes(): number;
  close(): void;
}

export interface OpenInput {
  readonly directory: string;
  /** File name in `directory`. */
  readonly name: string;
  readonly schema: readonly Migration[];
  /** How long a call waits for another process that is writing. */
  readonly busyTimeoutMs?: number;
}

const BUSY_TIMEOUT_MS = 5_000;
/** A page of the database and one of its log do not fit in less. */
const LEAST_FREE_BYTES = 64 * 1024;

/** Primary result codes of SQLite. */
const SQLITE = {
  perm: 3,
  busy: 5,
  locked: 6,
  readonly: 8,
  ioerr: 10,
  corrupt: 11,
  full: 13,
  cantopen: 14,
  protocol: 15,
  notadb: 26,
} as const;

export function openDatabase(input: OpenInput): Database {
  const path = join(input.directory, input.name);
  const busyTimeoutMs = input.busyTimeoutMs ?? BUSY_TIMEOUT_MS;
  return faulty(path, () => {
    createFile(input.directory, path);
    if (isLeftOpen(path)) checkAfterCrash(path);
    const sqlite = new DatabaseSync(path, { timeout: busyTimeoutMs });
    try {
      useWriteAheadLog(sqlite, busyTimeoutMs);
      sqlite.exec('PRAGMA synchronous=NORMAL; PRAGMA temp_store=MEMORY; PRAGMA cell_size_check=ON;');
      sqlite.exec('PRAGMA trusted_schema=OFF; PRAGMA journal_size_limit=16777216;');
      migrate(sqlite, input, path);
      return connect(sqlite, path, input.schema.length);
    } catch (error) {
      sqlite.close();
      throw error;
    }
  });
}

function connect(sqlite: DatabaseSync, path: string, version: number): Database {
  const dataVersion = sqlite.prepare('PRAGMA data_version');
  const userVersion = sqlite.prepare('PRAGMA user_version');
  const begin = sqlite.prepare('BEGIN IMMEDIATE');
  const commit = sqlite.prepare('COMMIT');
  let durable = false;
  let seenVersion = -1;
  let changeCount = 0;

  return {
    path,
    prepare(sql) {
      const statement = faulty(path, () => sqlite.prepare(sql));
      return {
        get: (...values) => faulty(path, () => statement.get(...values)),
        all: (...values) => faulty(path, () => statement.all(...values)),
        run: (...values) => faulty(path, () => Number(statement.run(...values).changes)),
      };
    },
    write(durability, work) {
      return faulty(path, () => {
        // The level counts at COMMIT; it cannot be set inside a transaction.
        if ((durability === 'disk') !== durable) {
          durable = durability === 'disk';
          sqlite.exec(durable ? 'PRAGMA synchronous=FULL' : 'PRAGMA synchronous=NORMAL');
        }
        begin.run();
        try {
          // A newer Windlass may have migrated the file under a running older one, which must not write any more.
          if (Number(userVersion.get()?.['user_version']) > version) throw tooNew(path);
          const result = work();
          commit.run();
          return result;
        } catch (error) {
          // A full disk may have rolled back by itself.
          if (sqlite.isTransaction) sqlite.exec('ROLLBACK');
          throw error;
        }
      });
    },
    changes() {
      const now = faulty(path, () => Number(dataVersion.get()?.['data_version']));
      if (now !== seenVersion) {
        seenVersion = now;
        changeCount += 1;
      }
      return changeCount;
    },
    close() {
      if (sqlite.isOpen) sqlite.close();
    },
  };
}

/** Makes directory and file readable by their owner only, and durable as names. SQLite gives its side files the mode of the main one. */
function createFile(directory: string, path: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  try {
    const file = openSync(path, 'wx', 0o600);
    fsyncSync(file);
    closeSync(file);
    fsyncDirectory(directory);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    // By path, never by opening it: closing any descriptor of the file would drop the locks this process holds on it.
    if ((statSync(path).mode & 0o077) !== 0) chmodSync(path, 0o600);
  }
}

/** The last one to close removes the log. So a log means: somebody has it open now, or ended without closing. */
function isLeftOpen(path: string): boolean {
  return (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0;
}

/** Reads the whole file once, alone. Who cannot get it alone knows that another process lives with it, so that it needs no check. */
function checkAfterCrash(path: string): void {
  const probe = new DatabaseSync(path, { timeout: 0 });
  try {
    probe.exec('PRAGMA locking_mode=EXCLUSIVE');
    const found = probe.prepare('PRAGMA quick_check(1)').get()?.['quick_check'];
    if (found !== 'ok') throw corrupt(path, String(found));
  } catch (error) {
    if (codeOf(error) !== SQLITE.busy) throw error;
  } finally {
    probe.close();
  }
}

/** The switch to WAL fails at once, without waiting, when two processes make a new file together. */
function useWriteAheadLog(sqlite: DatabaseSync, busyTimeoutMs: number): void {
  const pauseMs = 10;
  for (let waitedMs = 0; ; waitedMs += pauseMs) {
    try {
      const mode = sqlite.prepare('PRAGMA journal_mode=WAL').get()?.['journal_mode'];
      if (mode !== 'wal')
        throw new Error(`the file system of the state directory cannot hold a write-ahead log (${mode})`);
      return;
    } catch (error) {
      if (codeOf(error) !== SQLITE.busy || waitedMs >= busyTimeoutMs) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pauseMs);
    }
  }
}

function migrate(sqlite: DatabaseSync, input: OpenInput, path: string): void {
  const read = () => Number(sqlite.prepare('PRAGMA user_version').get()?.['user_version']);
  const newest = input.schema.length;
  for (let version = read(); version !== newest; version = read()) {
    if (version > newest) throw tooNew(path);
    if (version > 0) keepCopy(sqlite, input.directory, `${input.name}.v${version}.bak`);
    // A new file comes to the newest version at once, so that nobody keeps a copy of an empty one.
    const next = version === 0 ? newest : version + 1;
    sqlite.exec('BEGIN EXCLUSIVE');
    try {
      // Another process may have done it since.
      if (read() === version) {
        for (const { sql } of input.schema.slice(version, next)) sqlite.exec(sql);
        sqlite.exec(`PRAGMA user_version=${next}`);
      }
      sqlite.exec('COMMIT');
    } catch (error) {
      if (sqlite.isTransaction) sqlite.exec('ROLLBACK');
      throw error;
    }
  }
}

/** A whole copy under its final name or none. */
function keepCopy(sqlite: DatabaseSync, directory: string, name: string): void {
  const target = join(directory, name);
  const partial = `${target}.${process.pid}.partial`;
  rmSync(partial, { force: true });
  // VACUUM INTO accepts an empty file, and so keeps the mode of the one made here.
  closeSync(openSync(partial, 'wx', 0o600));
  sqlite.prepare('VACUUM INTO ?').run(partial);
  const file = openSync(partial, 'r+');
  fsyncSync(file);
  closeSync(file);
  renameSync(partial, target);
  fsyncDirectory(directory);
}

export function fsyncDirectory(directory: string): void {
  const descriptor = openSync(directory, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

function codeOf(error: unknown): number | null {
  const code = (error as { errcode?: unknown } | null)?.errcode;
  // Extended codes carry the primary one in their lowest byte.
  return typeof code === 'number' ? code & 0xff : null;
}

function tooNew(path: string): Fault {
  return new Fault('STATE_TOO_NEW', `${path} was written by a newer Windlass`, { data: { path } });
}

function corrupt(path: string, detail: string): Fault {
  return new Fault('STATE_CORRUPT', `${path} is damaged: ${detail}; it was left as it is`, { data: { path, detail } });
}

/** SQLite says "disk I/O error" and "unable to open database file" of a full and of a read-only disk: who must mend it is told which. */
function unusable(path: string, message: string, cause: unknown): Fault {
  const folder = dirname(path);
  let why = message;
  try {
    const { bavail, bsize } = statfsSync(folder);
    if (bavail * bsize < LEAST_FREE_BYTES) why = `the disk is full (${message})`;
    accessSync(folder, constants.W_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Whatever else keeps us from looking, SQLite's own words stand.
    if (code === 'EROFS') why = `the file system is read-only (${message})`;
    if (code === 'EACCES') why = `this user may not write in ${folder} (${message})`;
  }
  return new Fault('FILES_FAILED', `${path} could not be used: ${why}`, { data: { path }, cause });
}

/** Runs `work`; what SQLite or the file system refuses becomes a Fault, our own mistakes (wrong SQL, closed store) stay plain errors. */
function faulty<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof Fault) throw error;
    const message = error instanceof Error ? error.message : String(error);
    switch (codeOf(error)) {
      case SQLITE.corrupt:
      case SQLITE.notadb:
        throw corrupt(path, message);
      case SQLITE.busy:
      case SQLITE.locked:
      // Openings and closings of several processes met too often.
      case SQLITE.protocol:
        throw new Fault('LOCK_HELD', `another process kept ${path} locked for too long`, {
          data: { path },
          cause: error,
        });
      case SQLITE.full:
        throw new Fault('FILES_FAILED', `${path} could not be written: the disk is full`, {
          data: { path },
          cause: error,
        });
      case SQLITE.perm:
      case SQLITE.readonly:
      case SQLITE.ioerr:
      case SQLITE.cantopen:
        throw unusable(path, message, error);
    }
    if (typeof (error as NodeJS.ErrnoException).syscall === 'string') throw unusable(path, message, error);
    throw error;
  }
}
