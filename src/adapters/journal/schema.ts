// Schema: the numbered list of what ever changed in the layout of `windlass.db`. Forward only: an entry is never edited or removed,
// a change is a new entry at the end. The number of an entry is its place, from 1.
import type { Migration } from './database.ts';

/** Per-stack JSON documents. `id` is never used twice, so an equal id means an equal body: that is what caches compare. */
const documentTable = (name: string) =>
  `CREATE TABLE ${name} (id INTEGER PRIMARY KEY AUTOINCREMENT, stack TEXT NOT NULL UNIQUE, body TEXT NOT NULL) STRICT;`;

export const DOCUMENT_TABLES = ['applied', 'attempts', 'written', 'resolved', 'holds', 'conditions'] as const;
export type DocumentTable = (typeof DOCUMENT_TABLES)[number];

export const STORE_SCHEMA: readonly Migration[] = [
  {
    what: 'the first layout',
    sql: `
      ${['applied', 'attempts', 'written', 'resolved', 'holds', 'conditions'].map(documentTable).join('\n')}
      CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, stack TEXT NOT NULL, level TEXT NOT NULL,
        reason TEXT NOT NULL, message TEXT NOT NULL, revision TEXT NOT NULL
      ) STRICT;
      CREATE INDEX events_of_stack ON events (stack, seq);
      CREATE TABLE runs (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, stack TEXT NOT NULL, outcome TEXT NOT NULL,
        body TEXT NOT NULL
      ) STRICT;
      CREATE INDEX runs_of_stack ON runs (stack, seq);
      CREATE INDEX runs_of_outcome ON runs (outcome, seq);
      CREATE TABLE journal (
        id INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, phase TEXT NOT NULL, target TEXT NOT NULL,
        step TEXT NOT NULL, event TEXT NOT NULL, outcome TEXT NOT NULL, at_ms INTEGER NOT NULL
      ) STRICT;
      CREATE INDEX journal_of_run ON journal (run, id);
      CREATE TABLE leases (
        name TEXT PRIMARY KEY, owner TEXT NOT NULL, acquired_at_ms INTEGER NOT NULL, expires_at_ms INTEGER NOT NULL
      ) STRICT, WITHOUT ROWID;
      CREATE TABLE named_values (key TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
    `,
  },
];
