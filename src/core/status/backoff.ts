// Backoff: how long to wait before the next try. Doubles from a second to five minutes, spread so that many stacks do not come back at once.

const FIRST_MS = 1_000;
const CAP_MS = 5 * 60_000;
/** Of the delay, to both sides. */
const JITTER = 0.2;

/** `attempt` counts the failures so far, from 1; `random` is in [0, 1). Milliseconds, a whole number. */
export function backoffMs(attempt: number, random: number): number {
  // 2^9 is past the cap, and a larger exponent would overflow one day.
  const doublings = Math.min(Math.max(Math.floor(attempt) - 1, 0), 9);
  const delayMs = Math.min(FIRST_MS * 2 ** doublings, CAP_MS);
  return Math.round(delayMs * (1 + JITTER * (2 * random - 1)));
}
