// Duration: "1h30m" in milliseconds.

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `1d12h`, as durations are written in documents. */
export function formatDuration(ms: number): string {
  let rest = Math.max(0, Math.round(ms));
  let text = '';
  for (const unit of ['d', 'h', 'm', 's', 'ms']) {
    const size = UNITS[unit] ?? 1;
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) text += `${count}${unit}`;
  }
  return text === '' ? '0s' : text;
}

/** Milliseconds; null when `text` is no duration. */
export function parseDuration(text: string): number | null {
  if (!/^(?:[0-9]{1,9}(?:ms|s|m|h|d)){1,5}$/.test(text)) return null;
  let total = 0;
  for (const [, count, unit] of text.matchAll(/([0-9]+)(ms|[smhd])/g))
    total += Number(count) * (UNITS[unit ?? ''] ?? 0);
  return Number.isSafeInteger(total) ? total : null;
}
