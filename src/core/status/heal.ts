// Heal: how often drift may be repaired before something must be said. A first repair is at once; repeated ones wait ever longer,
// since somebody or something is undoing them.
import { backoffMs } from './backoff.ts';

export const HEAL_WINDOW_MS = 60 * 60_000;
/** Heals within the window from which drift counts as persistent. */
export const PERSISTENT_HEALS = 5;

/** The heals that still count, newest last. `heals` are times in milliseconds, oldest first. */
export function recentHeals(heals: readonly number[], nowMs: number): readonly number[] {
  return heals.filter((atMs) => nowMs - atMs < HEAL_WINDOW_MS).slice(-100);
}

/** When the next heal may start; 0 = at once. */
export function nextHealMs(heals: readonly number[], nowMs: number): number {
  const recent = recentHeals(heals, nowMs);
  const last = recent.at(-1);
  // Without chance: a stack heals alone, and people ask when.
  return last === undefined ? 0 : last + backoffMs(recent.length, 0.5);
}
