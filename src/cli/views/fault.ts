// View of a fault: code and summary, what it is about, the last lines of what failed, the cure.
import type { Fault } from '../../core/fault.ts';
import type { Painter } from '../io.ts';

/** Key lines of an error stand in one column. */
export const KEY = 8;

export function formatFault(io: Painter, fault: Fault, about: Readonly<Record<string, string>> = {}): string {
  const { log, ...data } = fault.data;
  const rows = Object.entries({ ...about, ...data }).filter(([, value]) => value !== '' && value !== null);
  return [
    `${io.paint('red', `error[${fault.code}]`)}: ${fault.message.trimEnd()}`,
    ...rows.map(([key, value]) => `  ${key.padEnd(KEY)} ${Array.isArray(value) ? value.join(', ') : String(value)}`),
    ...(Array.isArray(log) ? log.map((line) => `  ${io.paint('dim', '|')} ${line}`) : []),
    `  ${'help'.padEnd(KEY)} ${fault.help}`,
  ].join('\n');
}
