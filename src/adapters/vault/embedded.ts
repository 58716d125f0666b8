// Embedded vault: secrets as SQLite rows, each value sealed with age to the controller's identity. A clear value is only ever in memory.
// Its own file, `vault.db`: `windlass.db` can be made anew from labels and archives, secrets cannot.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Fault } from '../../core/fault.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Scope, Vault } from '../../ports/vault.ts';
import { type Database, type Migration, openDatabase, type Query } from '../journal/database.ts';
import { generateSecret } from './generate.ts';
import type { IdentityFile } from './identity.ts';
import { checkKey, checkScope } from './names.ts';

export interface EmbeddedVaultInput {
  /** The state directory; holds `vault.db`, made when something is first put into it. */
  readonly directory: string;
  /** What values are sealed to; made with the file. */
  readonly identity: IdentityFile;
  readonly clock: Clock;
  /** Is told every clear value before it leaves the vault. */
  readonly redactor: { add(value: string): void };
}

export interface EmbeddedVault extends Vault {
  close(): void;
}

const VAULT_SCHEMA: readonly Migration[] = [
  {
    what: 'the first layout',
    sql: `
      CREATE TABLE secrets (
        id INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, key TEXT NOT NULL, sealed BLOB NOT NULL,
        updated_at_ms INTEGER NOT NULL, UNIQUE (scope, key)
      ) STRICT;
      CREATE TABLE seal (one INTEGER PRIMARY KEY CHECK (one = 1), recipient TEXT NOT NULL) STRICT;
    `,
  },
];

const MAX_VALUE_BYTES = 64 * 1024;

/** Opened values kept in memory, so that rendering a fleet again does not open every secret again. */
const MAX_REMEMBERED = 10_000;

interface Seal {
  seal(value: string): Promise<Uint8Array>;
  open(sealed: Uint8Array): Promise<string>;
}

interface Rows {
  readonly database: Database;
  readonly select: Query;
  readonly insert: Query;
  readonly remove: Query;
  readonly list: Query;
  readonly recipient: Query;
  readonly claim: Query;
}

/** Opens nothing yet: file and key are touched by the first call. */
export function openVault(input: EmbeddedVaultInput): EmbeddedVault {
  let rows: Rows | null = null;
  let isClosed = false;
  let unlocked: Promise<Seal> | null = null;
  /** Row id → value; a row that changes gets a new id. */
  const opened = new Map<number, string>();

  const table = (): Rows => {
    if (isClosed) throw new Error('the vault is closed');
    rows ??= openRows(input.directory);
    return rows;
  };

  /** A refusal is not remembered: the next call looks again, after a person has put the key right. */
  const unlock = (): Promise<Seal> => {
    unlocked ??= unlockSeal(input, table()).catch((error: unknown) => {
      unlocked = null;
      throw error;
    });
    return unlocked;
  };

  const out = (value: string): string => {
    input.redactor.add(value);
    return value;
  };

  const open = async (key: string, scope: Scope, row: { id: number; sealed: Uint8Array }): Promise<string> => {
    const known = opened.get(row.id);
    if (known !== undefined) return out(known);
    const seal = await unlock();
    let value: string;
    try {
      value = await seal.open(row.sealed);
    } catch (cause) {
      throw new Fault('VAULT_KEY_WRONG', `the secret ${key} of ${scope} cannot be opened with the key of this vault`, {
        data: { key, scope },
        cause,
      });
    }
    if (opened.size >= MAX_REMEMBERED) opened.clear();
    opened.set(row.id, value);
    return out(value);
  };

  /** Reading makes no file: without one there is no secret. */
  const tableIfThere = (): Rows | null =>
    isClosed || rows !== null || existsSync(join(input.directory, 'vault.db')) ? table() : null;

  const rowOf = (key: string, scope: Scope) => {
    const row = tableIfThere()?.select.get(scope, key);
    if (row === undefined) return null;
    return { id: Number(row['id']), sealed: row['sealed'] as Uint8Array, updatedAtMs: Number(row['updated_at_ms']) };
  };

  return {
    async find(key, scopes) {
      checkKey(key);
      for (const scope of scopes) checkScope(scope);
      for (const scope of scopes) {
        const row = rowOf(key, scope);
        if (row !== null) return open(key, scope, row);
      }
      return null;
    },

    async mint(key, scope, policy) {
      checkKey(key);
      checkScope(scope);
      const before = rowOf(key, scope);
      if (before !== null) return open(key, scope, before);
      const value = out(generateSecret(policy));
      // Sealed before the transaction, which must not wait. Whoever commits first has made the secret; the other one's value is dropped.
      const sealed = await (await unlock()).seal(value);
      const now = table().database.write('disk', () => {
        const faster = rowOf(key, scope);
        if (faster !== null) return faster;
        table().insert.run(scope, key, sealed, input.clock.nowMs());
        return null;
      });
      return now === null ? value : open(key, scope, now);
    },

    async put(key, scope, value) {
      checkKey(key);
      checkScope(scope);
      if (value === '') throw new Fault('USAGE', `the secret ${key} would be empty`);
      if (Buffer.byteLength(value) > MAX_VALUE_BYTES)
        throw new Fault('USAGE', `the secret ${key} is larger than ${MAX_VALUE_BYTES} bytes`);
      const sealed = await (await unlock()).seal(out(value));
      table().database.write('disk', () => table().insert.run(scope, key, sealed, input.clock.nowMs()));
    },

    async mark(key, scopes) {
      checkKey(key);
      for (const scope of scopes) checkScope(scope);
      for (const scope of scopes) {
        const row = rowOf(key, scope);
        // With the time: a vault that was lost and made anew counts its rows from one again.
        if (row !== null) return `${scope}#${row.id}@${row.updatedAtMs}`;
      }
      return null;
    },

    async remove(key, scope) {
      checkKey(key);
      checkScope(scope);
      if (tableIfThere() === null) return false;
      return table().database.write('disk', () => table().remove.run(scope, key) === 1);
    },

    async list() {
      return (tableIfThere()?.list.all() ?? []).map((row) => ({
        key: String(row['key']),
        scope: String(row['scope']) as Scope,
        updatedAtMs: Number(row['updated_at_ms']),
      }));
    },

    close() {
      isClosed = true;
      opened.clear();
      unlocked = null;
      rows?.database.close();
    },
  };
}

function openRows(directory: string): Rows {
  const database = openDatabase({ directory, name: 'vault.db', schema: VAULT_SCHEMA });
  return {
    database,
    select: database.prepare('SELECT id, sealed, updated_at_ms FROM secrets WHERE scope = ? AND key = ?'),
    // Deletes and inserts, which gives a new id.
    insert: database.prepare('INSERT OR REPLACE INTO secrets (scope, key, sealed, updated_at_ms) VALUES (?, ?, ?, ?)'),
    remove: database.prepare('DELETE FROM secrets WHERE scope = ? AND key = ?'),
    list: database.prepare('SELECT key, scope, updated_at_ms FROM secrets ORDER BY scope, key'),
    recipient: database.prepare('SELECT recipient FROM seal'),
    claim: database.prepare('INSERT OR IGNORE INTO seal VALUES (1, ?)'),
  };
}

/** Finds or makes the identity, and refuses one that this vault was not sealed to, before anything could be sealed to the wrong one. */
async function unlockSeal({ identity: own, redactor }: EmbeddedVaultInput, rows: Rows): Promise<Seal> {
  const age = await import('age-encryption');
  const path = own.from;
  const sealedTo = () => {
    const recipient = rows.recipient.get()?.['recipient'];
    return recipient === undefined ? null : String(recipient);
  };
  const before = sealedTo();
  if (before !== null && own.read() === null)
    throw new Fault('VAULT_KEY_WRONG', `the vault is sealed to ${before}, and its key ${path} is gone: put it back`, {
      data: { path, recipient: before },
    });
  const identity = await own.readOrMake();
  let recipient: string;
  try {
    recipient = await age.identityToRecipient(identity);
  } catch {
    // Without the cause: its text might repeat the key.
    throw new Fault('FILES_FAILED', `the vault's key ${path} is not a valid age identity`, { data: { path } });
  }
  if (before === null) rows.database.write('disk', () => rows.claim.run(recipient));
  const owner = sealedTo();
  if (owner !== recipient)
    throw new Fault('VAULT_KEY_WRONG', `the vault is sealed to ${owner}, but ${path} is the key of ${recipient}`, {
      data: { path, recipient: String(owner) },
    });

  redactor.add(identity);
  const decrypter = new age.Decrypter();
  decrypter.addIdentity(identity);
  return {
    seal(value) {
      const encrypter = new age.Encrypter();
      encrypter.addRecipient(recipient);
      return encrypter.encrypt(value);
    },
    open: (sealed) => decrypter.decrypt(sealed, 'text'),
  };
}
