// Duration: "1h30m" in milliseconds.

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Milliseconds; null when `text` is no duration. */
export function parseDuration(text: string): number | null {
  if (!/^(?:[0-9]{1,9}(?:ms|s|m|h|d)){1,5}$/.test(text)) return null;
  let total = 0;
  for (const [, count, unit] of text.matchAll(/([0-9]+)(ms|[smhd])/g))
    total += Number(count) * (UNITS[unit ?? ''] ?? 0);
  return Number.isSafeInteger(total) ? total : null;
}
