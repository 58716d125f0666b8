// Journal: the sink that is told of a cell before it changes anything and after. Where it writes is the caller's affair.
import { asError } from './thrown.ts';

/** `unknown`: the deadline passed and the work is not known to have ended. */
export type JournalOutcome = 'started' | 'done' | 'failed' | 'cancelled' | 'unknown';

export interface JournalRecord {
  /** The caller's id of the plan or run. */
  readonly plan: string;
  readonly phase: string;
  readonly target: string;
  readonly step: string;
  readonly event: 'start' | 'end';
  readonly outcome: JournalOutcome;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly error?: string;
}

export interface Journal {
  /** The record is durable when this returns (or its promise resolves). A cell whose start could not be recorded does not execute. */
  record(entry: JournalRecord): void | Promise<void>;
}

export class JournalError extends Error {
  override readonly name = 'JournalError';
  readonly entry: JournalRecord;
  constructor(entry: JournalRecord, cause: unknown) {
    super(
      `the journal did not take the ${entry.event} of ${entry.step} on ${entry.target}: ${asError(cause).message}`,
      { cause },
    );
    this.entry = entry;
  }
}

export async function record(journal: Journal | undefined, entry: JournalRecord): Promise<void> {
  if (!journal) return;
  try {
    await journal.record(entry);
  } catch (thrown) {
    throw new JournalError(entry, thrown);
  }
}
