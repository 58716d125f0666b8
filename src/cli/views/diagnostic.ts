// View of diagnostics: the form of a compiler's message. What it names is of others, and is written out where nobody would see it.
import type { Diagnostic, Place } from '../../core/spec/diagnostic.ts';
import { writtenOut } from '../../core/state/trust/unseen.ts';
import type { Painter } from '../io.ts';
import { KEY } from './fault.ts';

export const formatPlace = ({ file, line, column }: Place): string =>
  line > 0 ? `${writtenOut(file)}:${line}:${column}` : writtenOut(file);

export function formatDiagnostic(io: Painter, one: Diagnostic): string {
  const lines = (text: string): string =>
    text
      .trimEnd()
      .split('\n')
      .map((line) => writtenOut(line.replaceAll('\t', '  ')))
      .join(`\n${' '.repeat(KEY + 3)}`);
  const row = (key: string, text: string | undefined): string[] =>
    text ? [`  ${key.padEnd(KEY)} ${lines(text)}`] : [];
  return [
    `${io.paint(one.severity === 'error' ? 'red' : 'yellow', `${one.severity}[${one.code}]`)}: ${lines(one.summary)}`,
    ...row('at', one.place && formatPlace(one.place)),
    ...row('stack', one.stack),
    ...row('detail', one.detail),
    ...row('help', one.help),
  ].join('\n');
}

/** In the order of a reader: by file, line and column; what has no place comes first. */
export function inReadingOrder(diagnostics: readonly Diagnostic[]): readonly Diagnostic[] {
  return [...diagnostics].sort(
    (a, b) =>
      compare(a.place?.file ?? '', b.place?.file ?? '') ||
      (a.place?.line ?? 0) - (b.place?.line ?? 0) ||
      (a.place?.column ?? 0) - (b.place?.column ?? 0),
  );
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** `2 errors, 1 warning` */
export function countDiagnostics(diagnostics: readonly Diagnostic[]): string {
  const errors = diagnostics.filter((one) => one.severity === 'error').length;
  return `${plural(errors, 'error')}, ${plural(diagnostics.length - errors, 'warning')}`;
}

export const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;
