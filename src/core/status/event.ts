// Event: something that happened to a stack, for people and machines. Only state changes are events, never one a loop.

export interface StackEvent {
  /** Grows by one; 0 before it is stored. */
  readonly seq: number;
  readonly atMs: number;
  readonly stack: string;
  readonly level: 'info' | 'warning' | 'error';
  /** Upper camel case, for example `Deployed`, `DriftHealed`. */
  readonly reason: string;
  readonly message: string;
  readonly revision: string;
}

/** One run of an operation, as `windlass history` shows it. */
export interface RunRecord {
  readonly id: string;
  readonly stack: string;
  readonly operation: string;
  readonly trigger: string;
  readonly revision: string;
  readonly digest: string;
  readonly startedAtMs: number;
  /** 0 while it runs. */
  readonly endedAtMs: number;
  readonly outcome: 'running' | 'succeeded' | 'failed' | 'cancelled' | 'superseded' | 'interrupted';
  readonly message: string;
  readonly changes: readonly string[];
}
