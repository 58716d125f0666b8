// Store on SQLite: the durable memory of a controller in one file, `windlass.db`, shared with command lines that run beside it.
// It keeps and finds; it never decides. What must survive a power loss is on disk when the call returns.
import type { Applied, Attempt, Hold } from '../../core/state/applied.ts';
import type { Desired } from '../../core/state/desired.ts';
import type { Condition } from '../../core/status/condition.ts';
import type { RunRecord, StackEvent } from '../../core/status/event.ts';
import type { Written } from '../../ports/files.ts';
import type { JournalEntry, Lease, Store } from '../../ports/store.ts';
import { openDatabase, type Row } from './database.ts';
import { documents } from './documents.ts';
import { DOCUMENT_TABLES, STORE_SCHEMA } from './schema.ts';

export interface StoreLimits {
  readonly events: number;
  readonly runsPerStack: number;
  /** Finished runs of a stack whose journal is kept to read; runs that did not finish keep theirs. */
  readonly journalsPerStack: number;
  /** Journal entries of runs that history does not know. */
  readonly strayEntries: number;
}

const LIMITS: StoreLimits = { events: 10_000, runsPerStack: 200, journalsPerStack: 5, strayEntries: 10_000 };

/** Between two looks for old events and stray journal entries. */
/** Named values of one stack: `<about>/<stack>/…`. */
const ABOUT_STACK = ['hook-run', 'hook-once', 'hook-log'];
const WRITES_PER_SWEEP = 1_024;

const DEFAULT_PAGE = 200;

export interface StoreInput {
  /** Made with mode 0700 when it is missing. */
  readonly directory: string;
  readonly limits?: Partial<StoreLimits>;
  readonly busyTimeoutMs?: number;
}

/** Throws STATE_TOO_NEW, STATE_CORRUPT, FILES_FAILED or LOCK_HELD; the file is then as it was. */
export function openStore(input: StoreInput): Store {
  const limits = { ...LIMITS, ...input.limits };
  const database = openDatabase({
    directory: input.directory,
    name: 'windlass.db',
    schema: STORE_SCHEMA,
    ...(input.busyTimeoutMs === undefined ? {} : { busyTimeoutMs: input.busyTimeoutMs }),
  });

  // `resolved` and `written` are read once after a start, so they are not worth their memory.
  const applied = documents<Applied>(database, 'applied', { durability: 'disk', remember: true });
  const attempts = documents<Attempt>(database, 'attempts', { durability: 'disk', remember: true });
  const written = documents<Written>(database, 'written', { durability: 'disk', remember: false });
  const resolved = documents<Desired>(database, 'resolved', { durability: 'soon', remember: false });
  const holds = documents<readonly Hold[]>(database, 'holds', { durability: 'disk', remember: true });
  const conditions = documents<readonly Condition[]>(database, 'conditions', { durability: 'soon', remember: true });
  const forgettable = [applied, attempts, written, resolved, holds, conditions];
  const deleteOf = DOCUMENT_TABLES.map((table) => database.prepare(`DELETE FROM ${table} WHERE stack = ?`));

  const insertEvent = database.prepare(
    'INSERT INTO events (at_ms, stack, level, reason, message, revision) VALUES (?, ?, ?, ?, ?, ?) RETURNING seq',
  );
  const trimEvents = database.prepare('DELETE FROM events WHERE seq <= (SELECT max(seq) FROM events) - ?');
  const eventColumns = 'SELECT seq, at_ms, stack, level, reason, message, revision FROM events';
  const eventsAfter = database.prepare(`${eventColumns} WHERE seq > ? ORDER BY seq LIMIT ?`);
  const eventsOfStackAfter = database.prepare(`${eventColumns} WHERE stack = ? AND seq > ? ORDER BY seq LIMIT ?`);
  const eventsLast = database.prepare(`${eventColumns} ORDER BY seq DESC LIMIT ?`);
  const eventsOfStackLast = database.prepare(`${eventColumns} WHERE stack = ? ORDER BY seq DESC LIMIT ?`);

  const sameRun = database.prepare('SELECT 1 FROM runs WHERE id = ? AND body = ?');
  const upsertRun = database.prepare(
    `INSERT INTO runs (id, stack, outcome, body) VALUES (?, ?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET stack = excluded.stack, outcome = excluded.outcome, body = excluded.body`,
  );
  const runsOf = {
    all: database.prepare('SELECT body FROM runs ORDER BY seq DESC LIMIT ?'),
    stack: database.prepare('SELECT body FROM runs WHERE stack = ? ORDER BY seq DESC LIMIT ?'),
    outcome: database.prepare('SELECT body FROM runs WHERE outcome = ? ORDER BY seq DESC LIMIT ?'),
    both: database.prepare('SELECT body FROM runs WHERE stack = ? AND outcome = ? ORDER BY seq DESC LIMIT ?'),
  };
  /** The seq of the nth newest run of a stack. */
  const nthRun = 'SELECT seq FROM runs WHERE stack = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2 - 1';
  const oldRuns = `SELECT id FROM runs WHERE stack = ?1 AND outcome <> 'running' AND seq < (${nthRun})`;
  const trimJournalOfOldRuns = database.prepare(`DELETE FROM journal WHERE run IN (${oldRuns})`);
  const trimJournalOfDoneRuns = database.prepare(
    `DELETE FROM journal WHERE run IN (${oldRuns} AND outcome <> 'interrupted')`,
  );
  const trimRuns = database.prepare(`DELETE FROM runs WHERE id IN (${oldRuns})`);

  const insertJournal = database.prepare(
    'INSERT INTO journal (run, phase, target, step, event, outcome, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)',
  );
  const selectJournal = database.prepare(
    'SELECT run, phase, target, step, event, outcome, at_ms FROM journal WHERE run = ? ORDER BY id',
  );
  const trimStrayJournal = database.prepare(
    'DELETE FROM journal WHERE id <= (SELECT max(id) FROM journal) - ? AND run NOT IN (SELECT id FROM runs)',
  );

  const selectLease = database.prepare('SELECT * FROM leases WHERE name = ?');
  const selectLeases = database.prepare('SELECT * FROM leases ORDER BY name');
  const upsertLease = database.prepare('INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)');
  const extendLease = database.prepare('UPDATE leases SET expires_at_ms = ? WHERE name = ? AND owner = ?');
  const deleteLeaseOf = database.prepare('DELETE FROM leases WHERE name = ? AND owner = ?');
  const deleteLease = database.prepare('DELETE FROM leases WHERE name = ?');

  const selectValue = database.prepare('SELECT body FROM named_values WHERE key = ?');
  const selectValues = database.prepare('SELECT key, body FROM named_values WHERE key >= ? AND key < ? ORDER BY key');
  const upsertValue = database.prepare('INSERT OR REPLACE INTO named_values VALUES (?, ?)');
  const deleteValuesFrom = database.prepare('DELETE FROM named_values WHERE key >= ? AND key < ?');
  const deleteValue = database.prepare('DELETE FROM named_values WHERE key = ?');

  let writesUntilSweep = WRITES_PER_SWEEP;
  /** Inside a transaction that writes anyway. */
  const sweep = () => {
    writesUntilSweep -= 1;
    if (writesUntilSweep > 0) return;
    writesUntilSweep = WRITES_PER_SWEEP;
    trimEvents.run(limits.events);
    trimStrayJournal.run(limits.strayEntries);
  };

  return {
    applied: (stack) => applied.get(stack),
    allApplied: () => [...applied.all().values()],
    putApplied: (record) => applied.put(record.stack, record),
    deleteApplied: (stack) => applied.delete(stack),
    attempt: (stack) => attempts.get(stack),
    putAttempt: (attempt) => attempts.put(attempt.stack, attempt),
    deleteAttempt: (stack) => attempts.delete(stack),
    written: (stack) => written.get(stack) ?? {},
    putWritten: (stack, files) => written.put(stack, files),
    resolved: (stack) => resolved.get(stack),
    putResolved: (desired) => resolved.put(desired.stack, desired),

    holds: (stack) => holds.get(stack) ?? [],
    allHolds: () => holds.all(),
    putHold(stack, hold) {
      holds.update(stack, (before) => [...without(before, hold.kind, hold.service), hold]);
    },
    deleteHold(stack, kind, service) {
      if (holds.get(stack) === null) return;
      holds.update(stack, (before) => {
        const rest = without(before, kind, service);
        return rest.length === 0 ? null : rest;
      });
    },

    conditions: (stack) => conditions.get(stack) ?? [],
    allConditions: () => conditions.all(),
    putConditions: (stack, list) => conditions.put(stack, list),

    appendEvent(event) {
      const seq = database.write('soon', () => {
        sweep();
        return insertEvent.get(event.atMs, event.stack, event.level, event.reason, event.message, event.revision)?.[
          'seq'
        ];
      });
      return { ...event, seq: Number(seq) };
    },
    /** Oldest first: those after `afterSeq`, or the newest `limit` when it is not given. */
    events({ stack, afterSeq, limit = DEFAULT_PAGE }) {
      if (afterSeq !== undefined) {
        const rows =
          stack === undefined ? eventsAfter.all(afterSeq, limit) : eventsOfStackAfter.all(stack, afterSeq, limit);
        return rows.map(toEvent);
      }
      const rows = stack === undefined ? eventsLast.all(limit) : eventsOfStackLast.all(stack, limit);
      return rows.reverse().map(toEvent);
    },
    putRun(run) {
      const body = JSON.stringify(run);
      if (sameRun.get(run.id, body) !== undefined) return;
      database.write('soon', () => {
        upsertRun.run(run.id, run.stack, run.outcome, body);
        if (run.outcome === 'running') return;
        trimJournalOfDoneRuns.run(run.stack, limits.journalsPerStack);
        trimJournalOfOldRuns.run(run.stack, limits.runsPerStack);
        trimRuns.run(run.stack, limits.runsPerStack);
      });
    },
    /** Newest first. */
    runs({ stack, outcome, limit = DEFAULT_PAGE }) {
      const rows =
        stack !== undefined && outcome !== undefined
          ? runsOf.both.all(stack, outcome, limit)
          : stack !== undefined
            ? runsOf.stack.all(stack, limit)
            : outcome !== undefined
              ? runsOf.outcome.all(outcome, limit)
              : runsOf.all.all(limit);
      return rows.map((row) => JSON.parse(String(row['body'])) as RunRecord);
    },
    forget(stack) {
      database.write('disk', () => {
        for (const statement of deleteOf) statement.run(stack);
        for (const about of ABOUT_STACK) deleteValuesFrom.run(`${about}/${stack}/`, `${about}/${stack}0`);
      });
      for (const table of forgettable) table.drop(stack);
    },

    journal(entry) {
      database.write('disk', () => {
        sweep();
        const { run, phase, target, step, event, outcome, atMs } = entry;
        insertJournal.run(run, phase, target, step, event, outcome, atMs);
      });
    },
    journalOf: (run) => selectJournal.all(run).map(toJournalEntry),

    acquire(name, owner, ttlMs, nowMs) {
      return database.write('disk', () => {
        const row = selectLease.get(name);
        const held = row === undefined ? null : toLease(row);
        const isLive = held !== null && held.expiresAtMs > nowMs;
        if (isLive && held.owner !== owner) return null;
        const lease = { name, owner, acquiredAtMs: isLive ? held.acquiredAtMs : nowMs, expiresAtMs: nowMs + ttlMs };
        upsertLease.run(name, owner, lease.acquiredAtMs, lease.expiresAtMs);
        return lease;
      });
    },
    // An expired lease that nobody took is still its owner's: in between nobody else can have acted under it.
    renew: (name, owner, ttlMs, nowMs) =>
      database.write('disk', () => extendLease.run(nowMs + ttlMs, name, owner) === 1),
    release: (name, owner) => void database.write('disk', () => deleteLeaseOf.run(name, owner)),
    leases: () => selectLeases.all().map(toLease),
    breakLease: (name) => void database.write('disk', () => deleteLease.run(name)),

    /** Undefined when there is none. */
    value(key) {
      const row = selectValue.get(key);
      return row === undefined ? undefined : JSON.parse(String(row['body']));
    },
    putValue(key, value) {
      if (value === undefined) throw new TypeError(`the value ${key} is undefined, which is not JSON`);
      const body = JSON.stringify(value);
      if (selectValue.get(key)?.['body'] === body) return;
      database.write('disk', () => upsertValue.run(key, body));
    },
    deleteValue(key) {
      if (selectValue.get(key) === undefined) return;
      database.write('disk', () => deleteValue.run(key));
    },
    values(prefix) {
      // No character sorts after U+10FFFF.
      const rows = selectValues.all(prefix, `${prefix}\u{10FFFF}`);
      return new Map(rows.map((row) => [String(row['key']), JSON.parse(String(row['body'])) as unknown]));
    },

    changeCounter: () => database.changes(),
    close: () => database.close(),
  };
}

function without(holds: readonly Hold[] | null, kind: Hold['kind'], service: string): readonly Hold[] {
  return (holds ?? []).filter((hold) => hold.kind !== kind || hold.service !== service);
}

function toEvent(row: Row): StackEvent {
  return {
    seq: Number(row['seq']),
    atMs: Number(row['at_ms']),
    stack: String(row['stack']),
    level: String(row['level']) as StackEvent['level'],
    reason: String(row['reason']),
    message: String(row['message']),
    revision: String(row['revision']),
  };
}

function toJournalEntry(row: Row): JournalEntry {
  return {
    run: String(row['run']),
    phase: String(row['phase']),
    target: String(row['target']),
    step: String(row['step']),
    event: String(row['event']) as JournalEntry['event'],
    outcome: String(row['outcome']),
    atMs: Number(row['at_ms']),
  };
}

function toLease(row: Row): Lease {
  return {
    name: String(row['name']),
    owner: String(row['owner']),
    acquiredAtMs: Number(row['acquired_at_ms']),
    expiresAtMs: Number(row['expires_at_ms']),
  };
}
