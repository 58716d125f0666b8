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
  /** The hook phases that ran, in their order; absent = none. */
  readonly hooks?: readonly HookRecord[];
}

/** How one hook phase of a run ended. The whole log of an action is shown by `windlass hooks log`. */
export interface HookRecord {
  readonly phase: string;
  readonly outcome: string;
  /** Why, for people; '' when there is nothing to say. Redacted. */
  readonly message: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /** Counts that somebody changed while the phase had the service, and what was done about it; absent = none. */
  readonly changed?: readonly string[];
  /** How often a controller took it up again. */
  readonly resumes: number;
  readonly actions: readonly {
    readonly name: string;
    readonly result: string;
    readonly message: string;
    readonly tries: number;
    readonly durationMs: number;
    /** Its last lines, redacted. */
    readonly tail: readonly string[];
  }[];
}
