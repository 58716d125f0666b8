import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../../src/adapters/journal/database.ts';
import { openLedger } from '../../../src/adapters/journal/ledger.ts';
import { STORE_SCHEMA } from '../../../src/adapters/journal/schema.ts';
import { openStore, type StoreInput } from '../../../src/adapters/journal/store.ts';
import type { Attempt, Hold } from '../../../src/core/state/applied.ts';
import type { Condition } from '../../../src/core/status/condition.ts';
import type { RunRecord } from '../../../src/core/status/event.ts';
import type { JournalEntry, Store } from '../../../src/ports/store.ts';
import { sampleApplied } from './sample.ts';

let directory: string;
let opened: Store[];

beforeEach(() => {
  directory = join(mkdtempSync(join(tmpdir(), 'store-')), 'state');
  opened = [];
});
afterEach(() => {
  for (const store of opened) store.close();
  rmSync(join(directory, '..'), { recursive: true });
});

function open(input: Partial<StoreInput> = {}): Store {
  const store = openStore({ directory, ...input });
  opened.push(store);
  return store;
}

const file = () => join(directory, 'windlass.db');

function codeOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    return String((error as { code?: unknown }).code);
  }
  return 'nothing thrown';
}

const attempt: Attempt = {
  stack: 'shop',
  digest: 'd',
  revision: 'r',
  count: 1,
  startedAtMs: 1,
  completedPhases: ['pre_update'],
  converged: false,
  lastFault: null,
};
const hold: Hold = { kind: 'stopped', reason: 'by hand', sinceMs: 1, untilMs: 0, service: '' };
const condition: Condition = {
  type: 'Ready',
  status: 'True',
  reason: 'Succeeded',
  message: 'done',
  revision: 'r',
  sinceMs: 1,
};
const run = (id: string, over: Partial<RunRecord> = {}): RunRecord => ({
  id,
  stack: 'shop',
  operation: 'deploy',
  trigger: 'push',
  revision: 'r',
  digest: 'd',
  startedAtMs: 1,
  endedAtMs: 2,
  outcome: 'succeeded',
  message: '',
  changes: [],
  ...over,
});
const entry = (id: string, over: Partial<JournalEntry> = {}): JournalEntry => ({
  run: id,
  phase: 'deploy',
  target: 'shop',
  step: 'converge',
  event: 'start',
  outcome: 'started',
  atMs: 1,
  ...over,
});

describe('what is kept', () => {
  it('is found again after a close', () => {
    const store = open();
    store.putApplied(sampleApplied('shop'));
    store.putAttempt(attempt);
    store.putWritten('shop', { 'a.conf': '100644 abc' });
    store.putResolved(sampleApplied('shop').desired);
    store.putHold('shop', hold);
    store.putConditions('shop', [condition]);
    store.putRun(run('1'));
    store.journal(entry('1'));
    store.putValue('trust/tip', { commit: 'c' });
    store.close();

    const again = open();
    expect(again.applied('shop')).toEqual(sampleApplied('shop'));
    expect(again.attempt('shop')).toEqual(attempt);
    expect(again.written('shop')).toEqual({ 'a.conf': '100644 abc' });
    expect(again.resolved('shop')).toEqual(sampleApplied('shop').desired);
    expect(again.holds('shop')).toEqual([hold]);
    expect(again.conditions('shop')).toEqual([condition]);
    expect(again.runs({})).toEqual([run('1')]);
    expect(again.journalOf('1')).toEqual([entry('1')]);
    expect(again.value('trust/tip')).toEqual({ commit: 'c' });
  });

  it('answers with nothing for a stack that it does not know', () => {
    const store = open();
    expect(store.applied('x')).toBeNull();
    expect(store.attempt('x')).toBeNull();
    expect(store.resolved('x')).toBeNull();
    expect(store.written('x')).toEqual({});
    expect(store.holds('x')).toEqual([]);
    expect(store.conditions('x')).toEqual([]);
    expect(store.value('x')).toBeUndefined();
    expect(store.journalOf('x')).toEqual([]);
    store.deleteApplied('x');
    store.deleteHold('x', 'held', '');
    store.forget('x');
  });

  it('does not follow what the caller does to its object later', () => {
    const store = open();
    const mine = { ...attempt, completedPhases: ['a'] };
    store.putAttempt(mine);
    mine.completedPhases.push('b');
    expect(store.attempt('shop')?.completedPhases).toEqual(['a']);
  });

  it('holds are kept one per kind and service, and removed one by one', () => {
    const store = open();
    store.putHold('shop', hold);
    store.putHold('shop', { ...hold, reason: 'newer' });
    store.putHold('shop', { ...hold, service: 'web' });
    expect(store.holds('shop').map((one) => `${one.service} ${one.reason}`)).toEqual([' newer', 'web by hand']);
    store.deleteHold('shop', 'stopped', '');
    expect(store.allHolds()).toEqual(new Map([['shop', [{ ...hold, service: 'web' }]]]));
    store.deleteHold('shop', 'stopped', 'web');
    expect(store.allHolds().size).toBe(0);
  });

  it('a forgotten stack keeps its events and history only', () => {
    const store = open();
    store.putApplied(sampleApplied('shop'));
    store.putAttempt(attempt);
    store.putHold('shop', hold);
    store.putConditions('shop', [condition]);
    store.putConditions('other', [condition]);
    store.putRun(run('1'));
    store.appendEvent({ atMs: 1, stack: 'shop', level: 'info', reason: 'Deployed', message: '', revision: 'r' });
    store.forget('shop');
    expect(store.applied('shop')).toBeNull();
    expect(store.attempt('shop')).toBeNull();
    expect(store.holds('shop')).toEqual([]);
    expect(store.conditions('shop')).toEqual([]);
    expect([...store.allConditions().keys()]).toEqual(['other']);
    expect(store.runs({ stack: 'shop' })).toHaveLength(1);
    expect(store.events({ stack: 'shop' })).toHaveLength(1);
  });

  it('values are listed by prefix, also where the prefix holds wildcards', () => {
    const store = open();
    for (const key of ['a/1', 'a/2', 'a%', 'a_', 'b/1']) store.putValue(key, key);
    expect([...store.values('a/').keys()]).toEqual(['a/1', 'a/2']);
    expect([...store.values('a%').keys()]).toEqual(['a%']);
    store.deleteValue('a/1');
    expect(store.value('a/1')).toBeUndefined();
    store.putValue('nothing', null);
    expect(store.value('nothing')).toBeNull();
    expect(() => store.putValue('u', undefined)).toThrow(TypeError);
  });
});

describe('events and history', () => {
  const event = (stack: string) =>
    ({ atMs: 1, stack, level: 'info', reason: 'Deployed', message: 'm', revision: 'r' }) as const;

  it('events are numbered and read forward from where a reader was, or the newest ones', () => {
    const store = open();
    for (const stack of ['a', 'b', 'a', 'b']) store.appendEvent(event(stack));
    expect(store.appendEvent(event('a')).seq).toBe(5);
    const seqs = (filter: Parameters<Store['events']>[0]) => store.events(filter).map((one) => one.seq);
    expect(seqs({})).toEqual([1, 2, 3, 4, 5]);
    expect(seqs({ limit: 2 })).toEqual([4, 5]);
    expect(seqs({ stack: 'a', limit: 2 })).toEqual([3, 5]);
    expect(seqs({ afterSeq: 1, limit: 2 })).toEqual([2, 3]);
    expect(seqs({ afterSeq: 2, stack: 'b' })).toEqual([4]);
    expect(store.events({ afterSeq: 4 })).toEqual([{ seq: 5, ...event('a') }]);
  });

  it('events are bounded, and their numbers never start again', () => {
    const store = open({ limits: { events: 10 } });
    for (let at = 0; at < 2_050; at += 1) store.appendEvent(event('a'));
    expect(store.events({ limit: 5_000 }).length).toBeLessThan(1_050);
    expect(store.events({ limit: 1 })[0]?.seq).toBe(2_050);
  });

  it('a run is put again when it ends, and history is newest first', () => {
    const store = open();
    store.putRun(run('1', { outcome: 'running', endedAtMs: 0 }));
    store.putRun(run('2', { stack: 'other' }));
    store.putRun(run('1'));
    const ids = (filter: Parameters<Store['runs']>[0]) => store.runs(filter).map((one) => one.id);
    expect(ids({})).toEqual(['2', '1']);
    expect(ids({ stack: 'shop' })).toEqual(['1']);
    expect(ids({ outcome: 'running' })).toEqual([]);
    expect(ids({ stack: 'shop', outcome: 'succeeded' })).toEqual(['1']);
    expect(ids({ limit: 1 })).toEqual(['2']);
  });

  it('history is bounded per stack, with its journals; what has not finished is kept', () => {
    const store = open({ limits: { runsPerStack: 4, journalsPerStack: 2 } });
    store.putRun(run('open', { outcome: 'running', endedAtMs: 0 }));
    store.journal(entry('open'));
    store.putRun(run('other', { stack: 'other' }));
    for (let at = 0; at < 6; at += 1) {
      store.journal(entry(`${at}`));
      store.putRun(run(`${at}`, at === 3 ? { outcome: 'interrupted' } : {}));
    }
    expect(store.runs({ stack: 'shop' }).map((one) => one.id)).toEqual(['5', '4', '3', '2', 'open']);
    const withJournal = ['open', '0', '1', '2', '3', '4', '5'].filter((id) => store.journalOf(id).length > 0);
    expect(withJournal).toEqual(['open', '3', '4', '5']);
    expect(store.runs({ stack: 'other' })).toHaveLength(1);
  });

  it('journal entries of runs that history does not know are bounded', () => {
    const store = open({ limits: { strayEntries: 5 } });
    store.putRun(run('known', { outcome: 'running' }));
    store.journal(entry('known'));
    for (let at = 0; at < 1_100; at += 1)
      if (at % 2 === 0) store.appendEvent(event('a'));
      else if (at < 60) store.journal(entry('stray'));
    for (let at = 0; at < 500; at += 1) store.appendEvent(event('a'));
    expect(store.journalOf('stray').length).toBeLessThanOrEqual(5);
    expect(store.journalOf('known')).toHaveLength(1);
  });
});

describe('leases', () => {
  it('are given when free, expired or one’s own, and to nobody else', () => {
    const store = open();
    expect(store.acquire('shop', 'a', 100, 1_000)).toEqual({
      name: 'shop',
      owner: 'a',
      acquiredAtMs: 1_000,
      expiresAtMs: 1_100,
    });
    expect(store.acquire('shop', 'b', 100, 1_099)).toBeNull();
    expect(store.acquire('shop', 'a', 100, 1_050)?.acquiredAtMs).toBe(1_000);
    expect(store.acquire('shop', 'b', 100, 1_150)?.owner).toBe('b');
    expect(store.renew('shop', 'a', 100, 1_151)).toBe(false);
    expect(store.renew('shop', 'b', 100, 1_200)).toBe(true);
    store.release('shop', 'a');
    expect(store.leases()).toHaveLength(1);
    store.release('shop', 'b');
    expect(store.leases()).toEqual([]);
  });

  it('a broken lease is lost for its owner', () => {
    const store = open();
    store.acquire('shop', 'a', 100, 0);
    store.breakLease('shop');
    expect(store.renew('shop', 'a', 100, 1)).toBe(false);
    expect(store.acquire('shop', 'b', 100, 1)?.owner).toBe('b');
  });
});

describe('two at once', () => {
  it('each sees what the other one wrote, deleted and forgot', () => {
    const one = open();
    const two = open();
    expect(one.applied('shop')).toBeNull();
    expect(one.allApplied()).toEqual([]);
    two.putApplied(sampleApplied('shop'));
    expect(one.applied('shop')).toEqual(sampleApplied('shop'));
    expect(one.allApplied()).toHaveLength(1);
    one.putApplied(sampleApplied('shop', 1));
    expect(two.allApplied()[0]?.desired.services).toHaveLength(1);
    two.putHold('shop', hold);
    one.putHold('shop', { ...hold, service: 'web' });
    expect(two.holds('shop')).toHaveLength(2);
    two.forget('shop');
    expect(one.applied('shop')).toBeNull();
    expect(one.allApplied()).toEqual([]);
    expect(one.holds('shop')).toEqual([]);
    one.putConditions('shop', [condition]);
    two.putConditions('shop', [{ ...condition, status: 'False' }]);
    one.putConditions('shop', [condition]);
    expect(two.allConditions().get('shop')).toEqual([condition]);
  });

  it('the change counter grows by the writes of others only', () => {
    const one = open();
    const two = open();
    const start = one.changeCounter();
    one.putValue('a', 1);
    expect(one.changeCounter()).toBe(start);
    two.putValue('a', 2);
    expect(one.changeCounter()).toBeGreaterThan(start);
    const now = one.changeCounter();
    one.applied('x');
    expect(one.changeCounter()).toBe(now);
  });

  it('a put that changes nothing writes nothing', () => {
    const one = open();
    const two = open();
    const all = () => {
      one.putApplied(sampleApplied('shop'));
      one.putAttempt(attempt);
      one.putWritten('shop', { a: 'b' });
      one.putResolved(sampleApplied('shop').desired);
      one.putConditions('shop', [condition]);
      one.putRun(run('1'));
      one.putValue('v', { deep: [1] });
    };
    all();
    const before = two.changeCounter();
    all();
    one.deleteAttempt('other');
    one.deleteValue('other');
    expect(two.changeCounter()).toBe(before);
  });

  it('processes that start together on a new directory and count under a lease lose nothing', async () => {
    const children = ['a', 'b', 'c'].map((owner) =>
      spawn(process.execPath, [join(import.meta.dirname, 'opener.ts'), directory, owner], { stdio: 'inherit' }),
    );
    const codes = await Promise.all(children.map(async (child) => (await once(child, 'exit'))[0]));
    expect(codes).toEqual([0, 0, 0]);
    expect(open().value('count')).toBe(75);
  }, 20_000);
});

describe('crash safety', () => {
  it('every entry that was acknowledged before a kill is there after it', async () => {
    for (let round = 0; round < 20; round += 1) {
      const child = spawn(process.execPath, [join(import.meta.dirname, 'writer.ts'), directory, `run-${round}`], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let said = '';
      child.stdout.on('data', (chunk) => {
        said += chunk;
      });
      await once(child.stdout, 'data');
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 25));
      child.kill('SIGKILL');
      await once(child, 'close');
      const acknowledged = said.split('\n').slice(0, -1).length;

      const store = openStore({ directory });
      const steps = store.journalOf(`run-${round}`).map((one) => Number(one.step));
      store.close();
      expect(steps.length).toBeGreaterThanOrEqual(acknowledged);
      expect(steps).toEqual(steps.map((_, at) => at));
    }
  }, 60_000);

  it('a log left by a dead process is checked, and removed at the next clean close', () => {
    leaveLog();
    const store = open();
    expect(store.value('a')).toBe(1);
    store.close();
    expect(readdirSync(directory)).toEqual(['windlass.db']);
  });

  it('a second process beside a living one opens without waiting for a check', () => {
    const one = open();
    one.putValue('a', 1);
    const start = performance.now();
    expect(open().value('a')).toBe(1);
    expect(performance.now() - start).toBeLessThan(1_000);
  });
});

/** The files of a process that was killed: copied while it had them open. */
function leaveLog(): void {
  const store = openStore({ directory });
  store.putValue('a', 1);
  store.putApplied(sampleApplied('shop', 50));
  for (const name of ['windlass.db', 'windlass.db-wal'])
    copyFileSync(join(directory, name), join(directory, `${name}.kept`));
  store.close();
  for (const name of ['windlass.db', 'windlass.db-wal']) {
    copyFileSync(join(directory, `${name}.kept`), join(directory, name));
    rmSync(join(directory, `${name}.kept`));
  }
}

describe('refusals', () => {
  it('a file of a newer schema', () => {
    open().close();
    const raw = new DatabaseSync(file());
    raw.exec(`PRAGMA user_version=${STORE_SCHEMA.length + 1}`);
    raw.close();
    expect(codeOf(() => open())).toBe('STATE_TOO_NEW');
  });

  it('a write after a newer program has migrated the file under this one', () => {
    const store = open();
    const raw = new DatabaseSync(file());
    raw.exec(`PRAGMA user_version=${STORE_SCHEMA.length + 1}`);
    raw.close();
    expect(codeOf(() => store.putValue('a', 1))).toBe('STATE_TOO_NEW');
    expect(store.value('a')).toBeUndefined();
  });

  it('a file that is no database, which is left as it is', () => {
    mkdirSync(directory, { recursive: true });
    const text = 'these are not the bytes you are looking for\n'.repeat(200);
    writeFileSync(file(), text);
    expect(codeOf(() => open())).toBe('STATE_CORRUPT');
    expect(readFileSync(file(), 'utf8')).toBe(text);
  });

  it('a damaged file after an unclean end', () => {
    const store = openStore({ directory });
    for (let at = 0; at < 50; at += 1) store.putApplied(sampleApplied(`s${at}`, 4));
    store.close();
    const bytes = readFileSync(file());
    bytes.fill(0xff, bytes.length >> 1, (bytes.length >> 1) + 8_192);
    writeFileSync(file(), bytes);
    writeFileSync(`${file()}-wal`, 'left open');
    expect(codeOf(() => open())).toBe('STATE_CORRUPT');
  });

  it('a damaged page that is met later', () => {
    const store = openStore({ directory });
    for (let at = 0; at < 50; at += 1) store.putApplied(sampleApplied(`s${at}`, 4));
    store.close();
    truncateSync(file(), 3 * 4_096);
    expect(codeOf(() => open().allApplied())).toBe('STATE_CORRUPT');
  });

  it('a directory that cannot be made', () => {
    writeFileSync(directory, 'a file');
    expect(codeOf(() => open())).toBe('FILES_FAILED');
  });

  it('a full disk, after which what was there is still there', () => {
    const database = openDatabase({ directory, name: 'windlass.db', schema: STORE_SCHEMA });
    const put = database.prepare('INSERT OR REPLACE INTO named_values VALUES (?, ?)');
    database.write('disk', () => put.run('a', '1'));
    const pages = Number(database.prepare('PRAGMA page_count').get()?.['page_count']);
    database.prepare(`PRAGMA max_page_count=${pages + 2}`).get();
    expect(codeOf(() => database.write('disk', () => put.run('b', 'x'.repeat(100_000))))).toBe('FILES_FAILED');
    database.write('disk', () => put.run('c', '3'));
    expect(database.prepare('SELECT key FROM named_values ORDER BY key').all()).toEqual([{ key: 'a' }, { key: 'c' }]);
    database.close();
  });

  it('to be opened on a full or a read-only disk says which it is', ({ skip }) => {
    open().close();
    opened = [];
    const small = `${directory}-small`;
    mkdirSync(small);
    const mount = (options: string): boolean =>
      spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', small]).status === 0;
    if (!mount('size=1m')) skip('this user may not mount a tmpfs');
    try {
      copyFileSync(join(directory, 'windlass.db'), join(small, 'windlass.db'));
      expect(() => writeFileSync(join(small, 'fill'), Buffer.alloc(2 << 20))).toThrow(/ENOSPC/);
      expect(() => openStore({ directory: small })).toThrow('the disk is full');
      for (const side of ['-wal', '-shm']) rmSync(join(small, `windlass.db${side}`), { force: true });
      expect(mount('remount,ro')).toBe(true);
      expect(() => openStore({ directory: small })).toThrow('read-only');
    } finally {
      spawnSync('umount', [small]);
    }
  });

  it('a file that another process keeps locked', () => {
    open();
    const raw = new DatabaseSync(file());
    raw.exec('BEGIN IMMEDIATE');
    const store = open({ busyTimeoutMs: 20 });
    expect(codeOf(() => store.putValue('a', 1))).toBe('LOCK_HELD');
    raw.exec('ROLLBACK');
    raw.close();
    store.putValue('a', 1);
    expect(store.value('a')).toBe(1);
  });
});

describe('files', () => {
  it('are readable by their owner only', () => {
    const store = open();
    store.putValue('a', 1);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    for (const name of readdirSync(directory)) expect(statSync(join(directory, name)).mode & 0o777).toBe(0o600);
    store.close();
    chmodSync(file(), 0o644);
    open();
    expect(statSync(file()).mode & 0o777).toBe(0o600);
  });

  it('a migration keeps a copy of the file before it, and nothing else', () => {
    const first = { what: 'one', sql: 'CREATE TABLE a (x INTEGER) STRICT' };
    const second = { what: 'two', sql: 'ALTER TABLE a ADD COLUMN y INTEGER' };
    const third = { what: 'three', sql: 'CREATE TABLE b (x INTEGER) STRICT' };
    const old = openDatabase({ directory, name: 'm.db', schema: [first] });
    old.write('disk', () => old.prepare('INSERT INTO a VALUES (7)').run());
    old.close();
    expect(readdirSync(directory)).toEqual(['m.db']);

    const now = openDatabase({ directory, name: 'm.db', schema: [first, second, third] });
    expect(now.prepare('SELECT * FROM a').all()).toEqual([{ x: 7, y: null }]);
    now.close();
    expect(readdirSync(directory)).toEqual(['m.db', 'm.db.v1.bak', 'm.db.v2.bak']);
    expect(statSync(join(directory, 'm.db.v1.bak')).mode & 0o777).toBe(0o600);
    const copy = new DatabaseSync(join(directory, 'm.db.v1.bak'), { readOnly: true });
    expect(copy.prepare('SELECT * FROM a').all()).toEqual([{ x: 7 }]);
    expect(copy.prepare('PRAGMA user_version').get()).toEqual({ user_version: 1 });
    copy.close();
  });

  it('a new file is at the newest version at once, and there are no copies of it', () => {
    const first = { what: 'one', sql: 'CREATE TABLE a (x INTEGER) STRICT' };
    const second = { what: 'two', sql: 'ALTER TABLE a ADD COLUMN y INTEGER' };
    const schema = [first, second, second];
    expect(() => openDatabase({ directory, name: 'm.db', schema })).toThrow(/duplicate column/);
    const now = openDatabase({ directory, name: 'm.db', schema: [first, second] });
    expect(now.prepare('PRAGMA user_version').get()).toEqual({ user_version: 2 });
    now.close();
    openLedger({ directory, fleet: 'f' }).close();
    open().close();
    expect(readdirSync(directory).filter((name) => name.endsWith('.bak'))).toEqual([]);
  });

  it('a migration that fails leaves the file at its old version', () => {
    const first = { what: 'one', sql: 'CREATE TABLE a (x INTEGER) STRICT' };
    openDatabase({ directory, name: 'm.db', schema: [first] }).close();
    const broken = { what: 'two', sql: 'CREATE TABLE b (x INTEGER) STRICT; CREATE TABLE a (x INTEGER) STRICT' };
    expect(() => openDatabase({ directory, name: 'm.db', schema: [first, broken] })).toThrow(/already exists/);
    const now = openDatabase({ directory, name: 'm.db', schema: [first] });
    expect(now.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all()).toEqual([{ name: 'a' }]);
    now.close();
  });
});

describe('speed', () => {
  it('reads 1,000 stacks, and what another process wrote to one of them', () => {
    const writer = openStore({ directory });
    for (let at = 0; at < 1_000; at += 1) writer.putApplied(sampleApplied(`stack-${at}`));
    writer.close();
    const store = open();
    expect(store.allApplied()).toHaveLength(1_000);
    const other = open();
    other.putApplied(sampleApplied('stack-5', 3));
    expect(store.allApplied()).toHaveLength(1_000);
    expect(store.applied('stack-5')).toEqual(sampleApplied('stack-5', 3));
  });
});
