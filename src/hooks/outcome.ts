// Outcome: how one action ended, and what an action is given to do its work.
import type { HookAction, ScaleTarget } from '../core/hook/action.ts';
import type { ActionResult, HookRun } from '../core/hook/run-state.ts';
import type { Clock } from '../ports/clock.ts';
import type { HookPorts } from '../ports/hooks.ts';
import type { Outages } from './deadline.ts';
import type { ActionLog } from './log.ts';

export interface Outcome {
  readonly result: ActionResult;
  readonly message: string;
  readonly exitCode: number | null;
  readonly branch: 'yes' | 'no' | null;
}

const plain = (result: ActionResult, message = ''): Outcome => ({ result, message, exitCode: null, branch: null });

export const done = (message = ''): Outcome => plain('done', message);
export const halted = (message = ''): Outcome => plain('halted', message);
export const failed = (message: string): Outcome => plain('failed', message);
export const skipped = (): Outcome => plain('skipped');
export const cancelled = (message = 'cancelled'): Outcome => plain('cancelled', message);

/** Of a command: what its exit code and its signals say together. */
export function ofCommand(exitCode: number, log: ActionLog): Outcome {
  if (exitCode !== 0) return { ...failed(`exit code ${exitCode}`), exitCode };
  if (log.refusal !== null) return { ...failed(log.refusal), exitCode };
  return { ...(log.isHalted ? halted('it said so') : done()), exitCode };
}

export interface ActionContext {
  readonly run: HookRun;
  readonly action: HookAction;
  /** 1 for the first try. */
  readonly attempt: number;
  readonly ports: HookPorts;
  readonly clock: Clock;
  readonly outages: Outages;
  /** Aborted when the time is over or the run is cancelled; the action returns or throws when its work has ended. */
  readonly signal: AbortSignal;
  readonly log: ActionLog;
  /** How long ending the work may take. */
  readonly killMs: number;
  /** A whole runtime ref as its value, other text as it is. */
  resolve(text: string, service: string | null): Promise<string>;
  /** Captures the service at its first touch. */
  scale(service: string, target: ScaleTarget, signal: AbortSignal): Promise<void>;
}
