// The last log lines of a container, bounded and redacted: what a failure shows. Never fails itself.
import type { House } from './house.ts';

const LINES = 20;
const LINE_LENGTH = 500;

export async function lastLines(house: Pick<House, 'runtime' | 'redact'>, id: string): Promise<string[]> {
  const lines: string[] = [];
  try {
    for await (const line of house.runtime.logs(id, { tail: LINES, signal: AbortSignal.timeout(5_000) })) {
      lines.push(house.redact(line.text).slice(0, LINE_LENGTH));
      if (lines.length >= LINES) break;
    }
  } catch {
    // the log of a container that is gone helps nobody; the failure itself is what counts
  }
  return lines;
}
