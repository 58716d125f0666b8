// Store: the durable memory of a controller, one file. Synchronous: a write has happened (and is on disk where said) when the call returns.
import type { Applied, Attempt, Hold } from '../core/state/applied.ts';
import type { Desired } from '../core/state/desired.ts';
import type { Condition } from '../core/status/condition.ts';
import type { RunRecord, StackEvent } from '../core/status/event.ts';
import type { Written } from './files.ts';

/** One cell of a plan, before (`start`) or after (`end`) its execute. */
export interface JournalEntry {
  readonly run: string;
  readonly phase: string;
  readonly target: string;
  readonly step: string;
  readonly event: 'start' | 'end';
  readonly outcome: string;
  readonly atMs: number;
}

/** A lease: owner, heartbeat, expiry. */
export interface Lease {
  readonly name: string;
  readonly owner: string;
  readonly acquiredAtMs: number;
  readonly expiresAtMs: number;
}

export interface Store {
  // what was deployed
  applied(stack: string): Applied | null;
  allApplied(): readonly Applied[];
  putApplied(applied: Applied): void;
  deleteApplied(stack: string): void;
  attempt(stack: string): Attempt | null;
  putAttempt(attempt: Attempt): void;
  deleteAttempt(stack: string): void;
  written(stack: string): Written;
  putWritten(stack: string, written: Written): void;

  /** The last resolve of a stack, to skip Compose after a restart. */
  resolved(stack: string): Desired | null;
  putResolved(desired: Desired): void;

  // what people said
  holds(stack: string): readonly Hold[];
  allHolds(): ReadonlyMap<string, readonly Hold[]>;
  putHold(stack: string, hold: Hold): void;
  deleteHold(stack: string, kind: Hold['kind'], service: string): void;

  // what is shown
  conditions(stack: string): readonly Condition[];
  allConditions(): ReadonlyMap<string, readonly Condition[]>;
  putConditions(stack: string, conditions: readonly Condition[]): void;
  appendEvent(event: Omit<StackEvent, 'seq'>): StackEvent;
  events(filter: {
    readonly stack?: string;
    readonly afterSeq?: number;
    readonly limit?: number;
  }): readonly StackEvent[];
  putRun(run: RunRecord): void;
  runs(filter: {
    readonly stack?: string;
    readonly limit?: number;
    readonly outcome?: RunRecord['outcome'];
  }): readonly RunRecord[];
  /** Everything of a stack except its events and history. */
  forget(stack: string): void;

  // crash safety
  /** On disk (fsync) when it returns. */
  journal(entry: JournalEntry): void;
  journalOf(run: string): readonly JournalEntry[];

  // leases; `renew` false = lost
  acquire(name: string, owner: string, ttlMs: number, nowMs: number): Lease | null;
  renew(name: string, owner: string, ttlMs: number, nowMs: number): boolean;
  release(name: string, owner: string): void;
  leases(): readonly Lease[];
  breakLease(name: string): void;

  // small named values, JSON
  value(key: string): unknown;
  putValue(key: string, value: unknown): void;
  deleteValue(key: string): void;
  values(prefix: string): ReadonlyMap<string, unknown>;

  /** A counter that any process sees grow after each write by another process; cheap to poll. */
  changeCounter(): number;
  close(): void;
}
