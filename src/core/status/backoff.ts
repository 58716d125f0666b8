// Backoff: how long to wait before the next try. Doubles from a second to five minutes, spread so that many stacks do not come back at once.
// Where a try itself disturbs what runs, from a minute to an hour.

interface Range {
  readonly firstMs: number;
  readonly capMs: number;
}

const USUAL: Range = { firstMs: 1_000, capMs: 5 * 60_000 };
/** A backup may stop services. */
export const DISTURBING: Range = { firstMs: 60_000, capMs: 60 * 60_000 };
/** Of the delay, to both sides. */
const JITTER = 0.2;

/** `attempt` counts the failures so far, from 1; `random` is in [0, 1). Milliseconds, a whole number. */
export function backoffMs(attempt: number, random: number, range = USUAL): number {
  // 2^9 is past each cap, and a larger exponent would overflow one day.
  const doublings = Math.min(Math.max(Math.floor(attempt) - 1, 0), 9);
  const delayMs = Math.min(range.firstMs * 2 ** doublings, range.capMs);
  return Math.round(delayMs * (1 + JITTER * (2 * random - 1)));
}
