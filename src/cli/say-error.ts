// Say error: the one place where a failure becomes words and an exit code.
import { Fault } from '../core/fault.ts';
import type { Diagnostic } from '../core/spec/diagnostic.ts';
import { CancelledError, DeclinedError } from '../engine/pipeline.ts';
import { UsageError } from './command.ts';
import { EXIT, exitOf } from './exit.ts';
import type { Io } from './io.ts';
import { formatDiagnostic } from './views/diagnostic.ts';
import { formatFault } from './views/fault.ts';

/** Says what went wrong and answers the exit code. */
export function sayError(io: Io, error: unknown): number {
  const { inWords } = io;
  if (error instanceof UsageError) {
    io.words(`${inWords.paint('red', 'error[USAGE]')}: ${error.message}`);
    return EXIT.usage;
  }
  if (error instanceof DeclinedError) {
    io.words('declined: nothing was changed');
    return EXIT.declined;
  }
  if (error instanceof CancelledError) return sayError(io, new Fault('CANCELLED', 'stopped before it was done'));
  if (error instanceof Fault) {
    io.words(formatFault(inWords, error));
    return exitOf(error);
  }
  if (error instanceof Error && 'diagnostics' in error) {
    for (const one of error.diagnostics as readonly Diagnostic[]) io.words(formatDiagnostic(inWords, one));
    return EXIT.usage;
  }
  io.words(
    `${inWords.paint('red', 'error[BUG]')}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
  );
  io.words('  help     this is a mistake of Windlass itself; please report it with the lines above');
  return EXIT.failed;
}
