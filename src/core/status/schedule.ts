// Schedule: when is something due that is done again and again. Pure: every instant is passed in; times are those of UTC. What was missed is
// due once, however often it was missed.
import { Cron } from 'croner';

const expressions = new Map<string, Cron>();
const MAX_EXPRESSIONS = 1_000;

function expressionOf(schedule: string): Cron {
  const known = expressions.get(schedule);
  if (known !== undefined) return known;
  const made = new Cron(schedule.trim(), { timezone: 'UTC', paused: true, mode: '5-part' });
  if (expressions.size >= MAX_EXPRESSIONS) expressions.clear();
  expressions.set(schedule, made);
  return made;
}

/** Why a schedule cannot be kept, or null: for the check at load. `atMs`: any instant; what never comes after it is a mistake. */
export function problemOfSchedule(schedule: string, atMs = 0): string | null {
  try {
    return nextRunMs(schedule, atMs) === null ? 'it names a time that never comes' : null;
  } catch (error) {
    return error instanceof Error ? error.message.replace(/^CronPattern: /, '') : String(error);
  }
}

/** The first time after `afterMs`; null when none comes. Throws for one that `problemOfSchedule` refuses. */
export function nextRunMs(schedule: string, afterMs: number): number | null {
  return expressionOf(schedule).nextRun(new Date(afterMs))?.getTime() ?? null;
}

/** Has a scheduled time passed since it was done last (or, never done, since it is known)? */
export function isDue(schedule: string, lastMs: number, nowMs: number): boolean {
  // A clock that was set back must not keep it from being done.
  const next = nextRunMs(schedule, Math.min(lastMs, nowMs));
  return next !== null && next <= nowMs;
}
