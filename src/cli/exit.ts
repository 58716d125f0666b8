// Exit: the one place where an error becomes words and an exit code (SPEC 13).
import { Fault } from '../core/fault.ts';
import type { Diagnostic } from '../core/spec/diagnostic.ts';
import { StalePlanError } from '../engine/digest.ts';
import { DeclinedError } from '../engine/pipeline.ts';
import { UsageError } from './command.ts';
import type { Io } from './io.ts';
import { formatDiagnostic } from './views/diagnostic.ts';

export const EXIT = { done: 0, failed: 1, changes: 2, usage: 3, declined: 4, refused: 5, locked: 6 } as const;

const FAULT_EXITS: Partial<Record<Fault['code'], number>> = {
  LOCK_HELD: EXIT.locked,
  USAGE: EXIT.usage,
  NOT_FOUND: EXIT.usage,
  HISTORY_REWRITTEN: EXIT.refused,
};

export function exitOf(fault: Fault): number {
  return FAULT_EXITS[fault.code] ?? EXIT.failed;
}

export function formatFault(io: Pick<Io, 'paint'>, fault: Fault, about: Readonly<Record<string, string>> = {}): string {
  const rows = [...Object.entries(about), ...Object.entries(fault.data)].filter(([key]) => key !== 'log');
  const log = fault.data['log'];
  return [
    `${io.paint('red', `error[${fault.code}]`)}: ${fault.message}`,
    ...rows.map(([key, value]) => `  ${key.padEnd(8)} ${Array.isArray(value) ? value.join(', ') : String(value)}`),
    ...(Array.isArray(log) ? log.map((line) => `  ${io.paint('dim', '|')} ${line}`) : []),
    `  help     ${fault.help}`,
  ].join('\n');
}

/** Says what went wrong and answers the exit code. */
export function sayError(io: Io, error: unknown, redact: (text: string) => string): number {
  if (error instanceof UsageError) {
    io.words(redact(`${io.paint('red', 'error[USAGE]')}: ${error.message}`));
    return EXIT.usage;
  }
  if (error instanceof DeclinedError) {
    io.words('declined: nothing was changed');
    return EXIT.declined;
  }
  if (error instanceof StalePlanError) return sayError(io, new Fault('PLAN_STALE', error.message), redact);
  if (error instanceof Fault) {
    io.words(redact(formatFault(io, error)));
    return exitOf(error);
  }
  if (error instanceof Error && 'diagnostics' in error) {
    for (const one of error.diagnostics as readonly Diagnostic[]) io.words(redact(formatDiagnostic(io, one)));
    return EXIT.usage;
  }
  io.words(
    redact(
      `${io.paint('red', 'error[BUG]')}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
    ),
  );
  io.words('  help     this is a mistake of Windlass itself; please report it with the lines above');
  return EXIT.failed;
}
