// Ledger: the durable memory of trust in `ledger.db`, a file of its own so that no restore of other state takes it along. Every write is
// on disk when it returns, and alone: no other process writes between a look and a write.
import { isReachable, isTerminal, type LifeState, type RequestSnapshot } from '../../core/request/life.ts';
import type { PolicyMemory } from '../../core/state/trust/policy-chain.ts';
import type { Claim, ClaimAnswer, Ledger, Receipt } from '../../ports/ledger.ts';
import { type Migration, openDatabase, type Row } from './database.ts';

export interface LedgerInput {
  readonly directory: string;
  /** The id of the fleet; several may share the file. */
  readonly fleet: string;
  readonly busyTimeoutMs?: number;
}

export const LEDGER_FILE = 'ledger.db';

/** How long a sight outlives its statement, also for a clock that is set back. Seen anew it would be as new: every delay starts again. */
const KEPT_MS = 90 * 24 * 3_600_000;

/** Forward only: an entry is never edited or removed, a change is a new entry at the end. */
export const LEDGER_SCHEMA: readonly Migration[] = [
  {
    what: 'the first layout',
    sql: `
      CREATE TABLE claims (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, fleet TEXT NOT NULL, id TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL,
        UNIQUE (fleet, id), UNIQUE (fleet, subject)
      ) STRICT;
      CREATE TABLE nonces (
        fleet TEXT NOT NULL, nonce TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (fleet, nonce)
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE seen (
        fleet TEXT NOT NULL, statement TEXT NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (fleet, statement)
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE tips (fleet TEXT PRIMARY KEY, tip TEXT NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE policies (
        fleet TEXT PRIMARY KEY, anchor TEXT NOT NULL, version INTEGER NOT NULL, sha256 TEXT NOT NULL, bytes BLOB NOT NULL
      ) STRICT;
      CREATE TABLE requests (
        fleet TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (fleet, id)
      ) STRICT;
      CREATE TABLE receipts (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, fleet TEXT NOT NULL, id TEXT NOT NULL, outcome TEXT, body TEXT NOT NULL,
        UNIQUE (fleet, id)
      ) STRICT;
    `,
  },
  {
    what: 'since when every claim is known; what accepted a tip before knows all of its own',
    sql: `
      CREATE TABLE beginnings (fleet TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      INSERT INTO beginnings SELECT fleet, 0 FROM tips;
    `,
  },
  {
    what: 'until when a sight is kept; those from before are kept for good',
    sql: `
      ALTER TABLE seen ADD COLUMN until_ms INTEGER;
      CREATE INDEX seen_until ON seen (until_ms);
    `,
  },
  {
    what: 'rejections and withdrawals, whatever becomes of them in the repository',
    sql: `
      CREATE TABLE stops (
        fleet TEXT NOT NULL, statement TEXT NOT NULL, oid TEXT NOT NULL, type TEXT NOT NULL, bytes BLOB NOT NULL,
        PRIMARY KEY (fleet, statement)
      ) STRICT;
    `,
  },
];

/** States that only a claim leads to. */
const CLAIMED: ReadonlySet<LifeState> = new Set(['claimed', 'executing', 'succeeded', 'failed', 'indeterminate']);

const bodyOf = <T>(row: Row | undefined): T | null =>
  row === undefined ? null : (JSON.parse(String(row['body'])) as T);

/** Throws Faults of the state directory. */
export function openLedger({ directory, fleet, busyTimeoutMs }: LedgerInput): Ledger {
  const database = openDatabase({
    directory,
    name: LEDGER_FILE,
    schema: LEDGER_SCHEMA,
    ...(busyTimeoutMs === undefined ? {} : { busyTimeoutMs }),
  });
  const insertClaim = database.prepare('INSERT INTO claims (fleet, id, subject, body) VALUES (?, ?, ?, ?)');
  const selectClaim = database.prepare('SELECT body FROM claims WHERE fleet = ? AND id = ?');
  const selectClaims = database.prepare('SELECT body FROM claims WHERE fleet = ? ORDER BY seq');
  const selectSubject = database.prepare('SELECT 1 FROM claims WHERE fleet = ? AND subject = ?');
  const insertNonce = database.prepare('INSERT INTO nonces (fleet, nonce, id) VALUES (?, ?, ?)');
  const selectNonce = database.prepare('SELECT 1 FROM nonces WHERE fleet = ? AND nonce = ?');
  const selectNonces = database.prepare('SELECT nonce, id FROM nonces WHERE fleet = ?');
  const insertSeen = database.prepare(
    'INSERT OR IGNORE INTO seen (fleet, statement, at_ms, until_ms) VALUES (?, ?, ?, ?)',
  );
  const forgetSeen = database.prepare('DELETE FROM seen WHERE until_ms < ?');
  const selectSeen = database.prepare('SELECT at_ms FROM seen WHERE fleet = ? AND statement = ?');
  const insertStop = database.prepare(
    'INSERT OR IGNORE INTO stops (fleet, statement, oid, type, bytes) VALUES (?, ?, ?, ?, ?)',
  );
  const selectStops = database.prepare(
    'SELECT statement, oid, type, bytes FROM stops WHERE fleet = ? ORDER BY statement',
  );
  const selectTip = database.prepare('SELECT tip FROM tips WHERE fleet = ?');
  const upsertTip = database.prepare('INSERT OR REPLACE INTO tips (fleet, tip) VALUES (?, ?)');
  const selectBeginning = database.prepare('SELECT at_ms FROM beginnings WHERE fleet = ?');
  const insertBeginning = database.prepare('INSERT OR IGNORE INTO beginnings (fleet, at_ms) VALUES (?, ?)');
  const selectPolicy = database.prepare('SELECT anchor, version, sha256, bytes FROM policies WHERE fleet = ?');
  const upsertPolicy = database.prepare(
    'INSERT OR REPLACE INTO policies (fleet, anchor, version, sha256, bytes) VALUES (?, ?, ?, ?, ?)',
  );
  const selectRequest = database.prepare('SELECT state, body FROM requests WHERE fleet = ? AND id = ?');
  const selectRequests = database.prepare('SELECT body FROM requests WHERE fleet = ? ORDER BY id');
  const upsertRequest = database.prepare(
    'INSERT OR REPLACE INTO requests (fleet, id, state, body) VALUES (?, ?, ?, ?)',
  );
  const deleteRequest = database.prepare(
    "DELETE FROM requests WHERE fleet = ? AND id = ? AND state IN ('observed', 'verifying')",
  );
  const selectReceipt = database.prepare('SELECT body FROM receipts WHERE fleet = ? AND id = ?');
  const selectReceipts = database.prepare('SELECT body FROM receipts WHERE fleet = ? ORDER BY seq');
  const insertReceipt = database.prepare('INSERT INTO receipts (fleet, id, outcome, body) VALUES (?, ?, NULL, ?)');
  const endReceipt = database.prepare('UPDATE receipts SET outcome = ?, body = ? WHERE fleet = ? AND id = ?');

  /** Inside a transaction. */
  const follow = (snapshot: RequestSnapshot): void => {
    const before = selectRequest.get(fleet, snapshot.id)?.['state'];
    if (before !== undefined && !isReachable(String(before) as LifeState, snapshot.state))
      throw new Error(`the request ${snapshot.id} is ${before} and cannot become ${snapshot.state}`);
    upsertRequest.run(fleet, snapshot.id, snapshot.state, JSON.stringify(snapshot));
    const { id, state, detail, sinceMs } = snapshot;
    const receipt = isTerminal(state) ? bodyOf<Receipt>(selectReceipt.get(fleet, id)) : null;
    if (receipt?.outcome === null)
      endReceipt.run(state, JSON.stringify({ ...receipt, outcome: state, detail, endedAtMs: sinceMs }), fleet, id);
  };

  const policy = (): PolicyMemory | null => {
    const row = selectPolicy.get(fleet);
    if (row === undefined) return null;
    return {
      anchor: String(row['anchor']),
      version: Number(row['version']),
      sha256: String(row['sha256']),
      bytes: Uint8Array.from(row['bytes'] as Uint8Array),
    };
  };

  return {
    claim(claim, snapshot, receipt) {
      const isOwn = snapshot.id === claim.id && receipt.id === claim.id;
      if (!isOwn || snapshot.state !== 'claimed' || receipt.outcome !== null || claim.nonces.length === 0)
        throw new Error(`a claim of ${claim.id} comes with its nonces, its own snapshot and its own open receipt`);
      return database.write<ClaimAnswer>('disk', () => {
        if (selectClaim.get(fleet, claim.id)) return { kind: 'refused', reason: 'request-claimed' };
        if (selectSubject.get(fleet, claim.subject)) return { kind: 'refused', reason: 'request-replayed' };
        if (new Set(claim.nonces).size < claim.nonces.length) return { kind: 'refused', reason: 'nonce-replayed' };
        if (claim.nonces.some((nonce) => selectNonce.get(fleet, nonce)))
          return { kind: 'refused', reason: 'nonce-replayed' };
        insertClaim.run(fleet, claim.id, claim.subject, JSON.stringify(claim));
        for (const nonce of claim.nonces) insertNonce.run(fleet, nonce, claim.id);
        follow(snapshot);
        insertReceipt.run(fleet, claim.id, JSON.stringify(receipt));
        return { kind: 'claimed' };
      });
    },
    claimOf: (id) => bodyOf<Claim>(selectClaim.get(fleet, id)),
    claims: () => selectClaims.all(fleet).map((row) => bodyOf<Claim>(row)!),
    spent(except) {
      const claims = selectClaims.all(fleet).map((row) => bodyOf<Claim>(row)!);
      const others = claims.filter(({ id }) => id !== except);
      const nonces = selectNonces.all(fleet).filter((row) => row['id'] !== except);
      const since = selectBeginning.get(fleet)?.['at_ms'];
      return {
        sinceMs: since === undefined ? null : Number(since),
        ids: new Set(others.map(({ id }) => id)),
        subjects: new Set(others.map(({ subject }) => subject)),
        nonces: new Set(nonces.map((row) => String(row['nonce']))),
      };
    },

    firstSeen(statementId, nowMs, expiresMs) {
      const known = selectSeen.get(fleet, statementId);
      if (known !== undefined) return Number(known['at_ms']);
      return database.write('disk', () => {
        forgetSeen.run(Math.floor(nowMs));
        insertSeen.run(fleet, statementId, Math.floor(nowMs), Math.ceil(Math.max(nowMs, expiresMs)) + KEPT_MS);
        return Number(selectSeen.get(fleet, statementId)!['at_ms']);
      });
    },
    firstSeenOf(statementId) {
      const row = selectSeen.get(fleet, statementId);
      return row === undefined ? null : Number(row['at_ms']);
    },

    keepStop(statementId, { oid, type, bytes }) {
      database.write('disk', () => insertStop.run(fleet, statementId, oid, type, bytes));
    },
    stops: () =>
      selectStops.all(fleet).map((row) => ({
        statementId: String(row['statement']),
        object: {
          oid: String(row['oid']),
          type: row['type'] === 'tag' ? 'tag' : 'commit',
          bytes: Uint8Array.from(row['bytes'] as Uint8Array),
        },
      })),

    acceptedTip() {
      const row = selectTip.get(fleet);
      return row === undefined ? null : String(row['tip']);
    },
    acceptTip(tip, previous, nowMs) {
      return database.write('disk', () => {
        const row = selectTip.get(fleet);
        if ((row === undefined ? null : String(row['tip'])) !== previous) return false;
        // To the second, as statements are dated.
        if (previous === null) insertBeginning.run(fleet, Math.floor(nowMs / 1000) * 1000);
        upsertTip.run(fleet, tip);
        return true;
      });
    },

    effectivePolicy: policy,
    putEffectivePolicy({ anchor, version, sha256, bytes }) {
      database.write('disk', () => {
        const before = policy();
        const isBack =
          before !== null &&
          before.anchor === anchor &&
          (version < before.version || (version === before.version && sha256 !== before.sha256));
        if (isBack)
          throw new Error(`policy version ${before.version} is in effect; it cannot become ${version} ${sha256}`);
        upsertPolicy.run(fleet, anchor, version, sha256, bytes);
      });
    },

    snapshot: (id) => bodyOf<RequestSnapshot>(selectRequest.get(fleet, id)),
    snapshots: () => selectRequests.all(fleet).map((row) => bodyOf<RequestSnapshot>(row)!),
    putSnapshot(snapshot) {
      database.write('disk', () => {
        if (CLAIMED.has(snapshot.state) && !selectClaim.get(fleet, snapshot.id))
          throw new Error(`the request ${snapshot.id} was never claimed`);
        follow(snapshot);
      });
    },

    forget(id) {
      database.write('disk', () => void deleteRequest.run(fleet, id));
    },

    receipt: (id) => bodyOf<Receipt>(selectReceipt.get(fleet, id)),
    receipts: () => selectReceipts.all(fleet).map((row) => bodyOf<Receipt>(row)!),

    close: () => database.close(),
  };
}
