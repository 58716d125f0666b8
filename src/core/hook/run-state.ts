// Run state: everything that one run of a hook phase must not forget when its controller dies. Plain JSON without secrets;
// it holds its own machine, so that a run is finished as it began whatever the fleet says by then.
import { createHash } from 'node:crypto';
import type { HookAction } from './action.ts';
import type { Ending, HookOutcome, Statechart } from './chart.ts';
import type { HookPhase } from './phase.ts';

/** Which run: another attempt, digest or operation is another run. */
export interface HookRun {
  readonly stack: string;
  /** Compose project; names of job containers begin with it. */
  readonly project: string;
  /** Tells it from the run of another controller on the same engine, whose project is called the same; absent in runs of before. */
  readonly home?: string;
  readonly operation: string;
  readonly phase: HookPhase;
  /** Digest of what is desired. */
  readonly digest: string;
  readonly attempt: number;
}

export type ActionResult = 'done' | 'halted' | 'failed' | 'cancelled' | 'skipped';

/** How one action ended. */
export interface ActionRecord {
  readonly id: string;
  readonly name: string;
  readonly kind: string;
  readonly result: ActionResult;
  readonly branch: 'yes' | 'no' | null;
  /** Why, for people; '' when there is nothing to say. Redacted. */
  readonly message: string;
  readonly exitCode: number | null;
  readonly tries: number;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /** The last lines of its log, redacted; the bounded whole is kept in the journal. */
  readonly tail: readonly string[];
}

/** A service whose count the run touched. */
export interface Captured {
  /** Its count when the run first touched it. */
  readonly count: number;
  /** Numbers of the containers it had before the run scaled it up: any other that does not run goes with the restore. */
  readonly kept?: readonly number[];
  /** What the sequence wants of it now. */
  readonly aim: number;
  /** Counts in which our own last call may have left it: both ends included; apart while that call runs. */
  readonly ours: readonly [number, number];
  /** Somebody else took it over: it is left alone from then on. */
  readonly isReleased: boolean;
}

/** A count that somebody changed while the run had the service. */
export interface ChangedCount {
  readonly service: string;
  readonly captured: number;
  readonly expected: number;
  readonly found: number;
  /** False: it was left as it was found. */
  readonly isOverwritten: boolean;
}

export const describeChanged = ({ service, expected, found, isOverwritten }: ChangedCount): string =>
  `${service} has ${found} container${found === 1 ? '' : 's'} where this hook left ${expected}: ${isOverwritten ? 'overwritten' : 'left as it is'}`;

export interface Leftover {
  readonly actionId: string;
  readonly attempt: number;
}

/** A service that is not back at its count. */
export interface Unrestored {
  readonly service: string;
  readonly captured: number;
  /** Null when it could not even be asked. */
  readonly found: number | null;
  readonly message: string;
}

export interface HookState {
  readonly version: 1;
  readonly run: HookRun;
  readonly revision: string;
  readonly actions: readonly HookAction[];
  readonly chart: Statechart;
  /** As xstate persists it; null before the first state is entered. */
  readonly snapshot: unknown;
  readonly startedAtMs: number;
  /** Grows with each controller that takes the run up again. */
  readonly resumes: number;
  readonly stop: '' | 'cancelled' | 'superseded';
  /** Why it is to stop, for people. */
  readonly stopWhy?: string;
  /** How the sequence ended: from then on only the restore is left. */
  readonly ending: Ending | null;
  readonly captured: Readonly<Record<string, Captured>>;
  readonly outputs: Readonly<Record<string, string>>;
  readonly records: readonly ActionRecord[];
  /** The action that runs: written before it begins, gone when its end is written. */
  readonly current: { readonly id: string; readonly attempt: number; readonly startedAtMs: number } | null;
  readonly changed: readonly ChangedCount[];
  /** Tries whose work was told to end and is not known to have ended. */
  readonly leftovers: readonly Leftover[];
  readonly unrestored: readonly Unrestored[];
  readonly ended: { readonly outcome: HookOutcome; readonly message: string; readonly atMs: number } | null;
}

export function runKey(run: HookRun): string {
  return [run.stack, run.operation, run.phase, run.digest, run.attempt].join('/');
}

/** The same action of the same phase, whatever the attempt: what `once` is remembered under. */
export function actionKey(run: Pick<HookRun, 'stack' | 'phase'>, action: HookAction): string {
  return [run.stack, run.phase, action.id, digestOf(action)].join('/');
}

/** Of one try: a container of another run, attempt, try or controller never has this name. */
export function jobContainerName(run: HookRun, action: HookAction, attempt: number): string {
  const name = action.kind === 'job' ? action.job.name : action.kind;
  const identity = [runKey(run), action.id, attempt, ...(run.home === undefined ? [] : [run.home])];
  const digest = digestOf(identity).slice(0, 12);
  return `${run.project}-${run.phase}-${name}-${digest}`.replace(/[^A-Za-z0-9_.-]/g, '-').slice(0, 200);
}

function digestOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex');
}
