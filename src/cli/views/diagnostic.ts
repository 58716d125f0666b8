// View of diagnostics: the form of a compiler's message.
import type { Diagnostic } from '../../core/spec/diagnostic.ts';
import type { Io } from '../io.ts';

export function formatDiagnostic(io: Pick<Io, 'paint'>, one: Diagnostic): string {
  const { place } = one;
  const at = place ? (place.line > 0 ? `${place.file}:${place.line}:${place.column}` : place.file) : null;
  const lines = (text: string): string => text.split('\n').join('\n           ');
  return [
    `${io.paint(one.severity === 'error' ? 'red' : 'yellow', `${one.severity}[${one.code}]`)}: ${lines(one.summary)}`,
    ...(at ? [`  at       ${at}`] : []),
    ...(one.stack ? [`  stack    ${one.stack}`] : []),
    ...(one.detail ? [`  detail   ${lines(one.detail)}`] : []),
    ...(one.help ? [`  help     ${lines(one.help)}`] : []),
  ].join('\n');
}
