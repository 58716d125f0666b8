// Options of a probe and of a run, and the reading of `run_options` from a document. A name that no phase has is refused:
// a typing mistake must not run the phase that was to be skipped.
import type { PlanCache } from './cache.ts';
import type { Clock } from './clock.ts';
import type { Journal } from './journal.ts';
import type { Observer } from './observer.ts';

export interface RunOptions {
  /** Probe and preview only: nothing is confirmed, executed or verified. */
  readonly dryRun: boolean;
  /** Phases that are neither probed nor executed. */
  readonly skipPhases: readonly string[];
}

export interface ProbeOptions extends Partial<RunOptions> {
  /** Cancels: nothing new starts, and the cells that run see it on their own signal. */
  readonly signal?: AbortSignal;
  /** Drains: nothing new starts, and the cells that run are not disturbed. */
  readonly stop?: AbortSignal;
  /** One per run. A run closes it at its end, given or not; a probe closes only one that it made. */
  readonly cache?: PlanCache;
  readonly clock?: Clock;
  /** How long work may take to return after its deadline; default 5 s. */
  readonly graceMs?: number;
}

export interface ExecuteOptions extends ProbeOptions {
  readonly progress?: Observer;
  readonly journal?: Journal;
  /** The plan's id in the journal; default: its operation. */
  readonly planId?: string;
}

export class RunOptionsError extends Error {
  override readonly name = 'RunOptionsError';
}

/** Reads `{dry_run, skip_phases}`; absent means run everything. Pass the plan's phase names to have them checked here already. */
export function runOptionsFrom(value: unknown, phases?: readonly string[]): RunOptions {
  if (value === undefined || value === null) return { dryRun: false, skipPhases: [] };
  if (typeof value !== 'object' || Array.isArray(value)) throw new RunOptionsError('run_options must be a mapping');
  const { dry_run: dryRun = false, skip_phases: skip = [], ...others } = value as Record<string, unknown>;
  const [other] = Object.keys(others);
  if (other !== undefined)
    throw new RunOptionsError(`run_options has no key "${other}"; it has dry_run and skip_phases`);
  if (typeof dryRun !== 'boolean') throw new RunOptionsError('run_options.dry_run must be true or false');
  if (!Array.isArray(skip) || !skip.every((name) => typeof name === 'string'))
    throw new RunOptionsError('run_options.skip_phases must be a list of phase names');
  if (phases) skippedPhases(phases, skip);
  return { dryRun, skipPhases: skip };
}

export function skippedPhases(phases: readonly string[], skip: readonly string[] = []): ReadonlySet<string> {
  const unknown = skip.filter((name) => !phases.includes(name));
  if (unknown.length > 0)
    throw new RunOptionsError(
      `skip_phases: no phase is called ${unknown.map((name) => `"${name}"`).join(', ')}; there are ${phases.map((name) => `"${name}"`).join(', ')}`,
    );
  return new Set(skip);
}
