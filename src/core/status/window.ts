// Window: may a change be made now, and when next. Pure: every instant is passed in. Croner reads the cron expressions and knows the
// time zones; a window lasts its duration in real time, also over a change of the clocks.
import { Cron } from 'croner';

export interface Window {
  /** Cron expression of the openings. */
  readonly allow: string;
  readonly durationMs: number;
  /** IANA name. */
  readonly timezone: string;
}

export interface WindowState {
  readonly open: boolean;
  /** While open: the instant asked about. Null: it never opens again. */
  readonly nextOpenMs: number | null;
}

/** Made once: a time zone is costly to set up, and a fleet has few different windows. */
const expressions = new Map<string, Cron>();
const MAX_EXPRESSIONS = 1_000;

function expressionOf({ allow, timezone }: Window): Cron {
  const key = `${timezone}\n${allow}`;
  const known = expressions.get(key);
  if (known !== undefined) return known;
  const made = new Cron(allow, { timezone, paused: true, mode: '5-part' });
  if (expressions.size >= MAX_EXPRESSIONS) expressions.clear();
  expressions.set(key, made);
  return made;
}

/** Why a window cannot be read, or null: for the check at load. */
export function problemOfWindow(window: Window): string | null {
  if (!Number.isFinite(window.durationMs) || window.durationMs <= 0) return 'its duration must be longer than nothing';
  if (!isTimezone(window.timezone)) return `there is no time zone '${window.timezone}'`;
  try {
    expressionOf(window);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message.replace(/^CronPattern: /, '') : String(error);
  }
}

function isTimezone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }) !== null;
  } catch {
    return false;
  }
}

/** Open when any window is; without windows always. Throws for one that `problemOfWindow` refuses. */
export function inWindow(windows: readonly Window[], atMs: number): WindowState {
  if (windows.length === 0) return { open: true, nextOpenMs: atMs };
  let nextOpenMs: number | null = null;
  for (const window of windows) {
    const expression = expressionOf(window);
    // Open now means: it opened within the last `durationMs`, the end excluded. The first opening after that moment tells.
    const opened = expression.nextRun(new Date(atMs - window.durationMs))?.getTime() ?? null;
    if (opened !== null && opened <= atMs) return { open: true, nextOpenMs: atMs };
    // Otherwise that opening is the next one.
    if (opened !== null && (nextOpenMs === null || opened < nextOpenMs)) nextOpenMs = opened;
  }
  return { open: false, nextOpenMs };
}
