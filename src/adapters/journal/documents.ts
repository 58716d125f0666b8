// Documents: one JSON document per stack in one table. What was read is remembered until another process writes; a put that changes
// nothing writes nothing. What is handed out is shared: it must not be changed.
import type { Database, Durability } from './database.ts';
import type { DocumentTable } from './schema.ts';

interface Entry<T> {
  /** Row id: a new one with each change of the body. */
  readonly id: number;
  readonly value: T;
}

export interface Documents<T> {
  get(stack: string): T | null;
  /** Sorted by stack. */
  all(): ReadonlyMap<string, T>;
  put(stack: string, value: T): void;
  /** Reads, changes and writes in one transaction; `null` from `change` deletes. */
  update(stack: string, change: (before: T | null) => T | null): void;
  delete(stack: string): void;
  /** Drops what is remembered of a stack whose row the caller deleted. */
  drop(stack: string): void;
}

export function documents<T>(
  database: Database,
  table: DocumentTable,
  options: { readonly durability: Durability; readonly remember: boolean },
): Documents<T> {
  const select = database.prepare(`SELECT id, body FROM ${table} WHERE stack = ?`);
  const selectId = database.prepare(`SELECT id FROM ${table} WHERE stack = ?`);
  const selectIds = database.prepare(`SELECT id, stack FROM ${table} ORDER BY stack`);
  const same = database.prepare(`SELECT 1 FROM ${table} WHERE stack = ? AND body = ?`);
  // Deletes and inserts, which gives a new id; with AUTOINCREMENT one that was never used before.
  const replace = database.prepare(`INSERT OR REPLACE INTO ${table} (stack, body) VALUES (?, ?) RETURNING id`);
  const remove = database.prepare(`DELETE FROM ${table} WHERE stack = ?`);

  const entries = new Map<string, Entry<T>>();
  /** Stacks whose entry (or absence) was compared with the file since the change counter last moved. */
  const current = new Set<string>();
  let view: ReadonlyMap<string, T> | null = null;
  let counter = -1;

  const look = () => {
    // Read before the rows: a row that is newer than the counter is only read once more, the other way round it would stay old.
    const now = database.changes();
    if (now === counter) return;
    counter = now;
    current.clear();
    view = null;
  };

  const read = (stack: string): T | null => {
    const row = select.get(stack);
    if (row === undefined) {
      entries.delete(stack);
      return null;
    }
    const value = JSON.parse(String(row['body'])) as T;
    if (options.remember) entries.set(stack, { id: Number(row['id']), value });
    return value;
  };

  /** What a write did, after its commit. The value is parsed again: readers get what the file holds, whatever the caller does to its own. */
  const learn = (stack: string, written: { id: number; body: string } | null) => {
    view = null;
    if (written === null || !options.remember) entries.delete(stack);
    else entries.set(stack, { id: written.id, value: JSON.parse(written.body) as T });
  };

  const replaceRow = (stack: string, body: string) => ({ id: Number(replace.get(stack, body)?.['id']), body });

  return {
    get(stack) {
      if (!options.remember) return read(stack);
      look();
      if (current.has(stack)) return entries.get(stack)?.value ?? null;
      const entry = entries.get(stack);
      const id = entry === undefined ? undefined : Number(selectId.get(stack)?.['id']);
      const value = entry !== undefined && entry.id === id ? entry.value : read(stack);
      current.add(stack);
      return value;
    },

    all() {
      look();
      if (view !== null && options.remember) return view;
      const found = new Map<string, T>();
      for (const row of selectIds.all()) {
        const stack = String(row['stack']);
        const entry = entries.get(stack);
        const value = entry !== undefined && entry.id === Number(row['id']) ? entry.value : read(stack);
        // Null: removed by another process since the list was read.
        if (value !== null) found.set(stack, value);
      }
      for (const stack of entries.keys()) if (!found.has(stack)) entries.delete(stack);
      for (const stack of found.keys()) current.add(stack);
      view = found;
      return found;
    },

    put(stack, value) {
      const body = JSON.stringify(value);
      if (same.get(stack, body) !== undefined) return;
      learn(
        stack,
        database.write(options.durability, () => replaceRow(stack, body)),
      );
    },

    update(stack, change) {
      const outcome = database.write(options.durability, () => {
        const row = select.get(stack);
        const before = row === undefined ? undefined : String(row['body']);
        const after = change(before === undefined ? null : (JSON.parse(before) as T));
        if (after === null) {
          if (before !== undefined) remove.run(stack);
          return null;
        }
        const body = JSON.stringify(after);
        return body === before ? { id: Number(row?.['id']), body } : replaceRow(stack, body);
      });
      learn(stack, outcome);
    },

    delete(stack) {
      if (selectId.get(stack) === undefined) return;
      database.write(options.durability, () => remove.run(stack));
      learn(stack, null);
    },

    drop(stack) {
      learn(stack, null);
    },
  };
}
