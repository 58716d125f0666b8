// Format conditions for people: one word for a list of stacks, one line, or a table. Plain text; colour is the terminal's business.
import type { Condition } from './condition.ts';

/** The state of a stack in a word or two, for a column: `Ready`, `Suspended`, `Failed: ImageMissing`. */
export function formatState(conditions: readonly Condition[]): string {
  const of = (type: Condition['type']) => conditions.find((one) => one.type === type);
  const ready = of('Ready');
  if (ready === undefined) return 'New';
  if (ready.status === 'True') return of('Drifted')?.status === 'True' ? `Ready: ${of('Drifted')?.reason}` : 'Ready';
  if (of('Stalled')?.status === 'True') return named('Stalled', ready);
  if (of('Reconciling')?.reason === 'Retrying') return named('Retrying', ready);
  if (ready.status === 'Unknown') return ready.reason === 'Unknown' ? 'Unknown' : ready.reason;
  return of('Reconciling')?.status === 'True' ? ready.reason : named('NotReady', ready);
}

function named(word: string, ready: Condition): string {
  return ready.reason === 'Progressing' ? word : `${word}: ${ready.reason}`;
}

/** `Ready=False ImageMissing for 3m (4be1c2d): no such image` */
export function formatCondition(condition: Condition, nowMs: number): string {
  const { type, status, reason, message, revision, sinceMs } = condition;
  const at = revision === '' ? '' : ` (${revision.slice(0, 7)})`;
  const words = message === '' ? '' : `: ${firstLine(message)}`;
  return `${type}=${status} ${reason} for ${formatAge(nowMs - sinceMs)}${at}${words}`;
}

/** One row a condition, with a heading; the last column is not padded. */
export function formatConditions(conditions: readonly Condition[], nowMs: number): string {
  const rows = conditions.map((one) => [
    one.type,
    one.status,
    one.reason,
    formatAge(nowMs - one.sinceMs),
    one.revision.slice(0, 7),
    firstLine(one.message),
  ]);
  const table = [['CONDITION', 'STATUS', 'REASON', 'AGE', 'REVISION', 'MESSAGE'], ...rows];
  const widths = table[0]!.map((_, column) => Math.max(...table.map((row) => row[column]!.length)));
  return table
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** The largest one or two units: `42s`, `3m`, `5h12m`, `9d4h`. */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  if (minutes === 0) return `${seconds}s`;
  if (hours === 0) return `${minutes}m`;
  if (days === 0) return minutes % 60 === 0 ? `${hours}h` : `${hours}h${minutes % 60}m`;
  return hours % 24 === 0 || days > 99 ? `${days}d` : `${days}d${hours % 24}h`;
}

/** Messages hold words of others: no line break or control character of theirs reaches a terminal. */
function firstLine(message: string): string {
  const [line = '', ...others] = message.trim().split(/\r?\n/);
  const clean = line.replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ');
  return others.length > 0 ? `${clean} …` : clean;
}
