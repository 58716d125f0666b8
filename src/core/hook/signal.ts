// Signal: what a job tells its runner on a line of its own. Whole trimmed lines only: text that merely contains a marker says nothing.

const FRAME = /^::windlass:(.*)::$/;

/** The rest of the sequence is skipped; the phase succeeds. */
export const HALT = '::windlass:halt::';
/** Makes `ref+hook://outputs/NAME`. */
export const setLine = (name: string, value: string): string => `::windlass:set ${name}=${value}::`;

/** Longer values belong into a file or the vault. */
export const MAX_OUTPUT_LENGTH = 4096;
export const MAX_OUTPUTS = 100;

export type Signal =
  | { readonly kind: 'halt' }
  | { readonly kind: 'set'; readonly name: string; readonly value: string }
  /** Has the shape of a signal and is none: most likely a typing error. */
  | { readonly kind: 'unknown'; readonly summary: string };

/** Null for an ordinary line. */
export function readSignal(line: string): Signal | null {
  const text = line.trim();
  if (text === HALT) return { kind: 'halt' };
  const body = FRAME.exec(text)?.[1];
  if (body === undefined) return null;
  const set = /^set ([A-Za-z_][A-Za-z0-9_-]{0,99})=(.*)$/.exec(body);
  if (!set) return { kind: 'unknown', summary: 'expected `::windlass:halt::` or `::windlass:set NAME=value::`' };
  const [, name = '', value = ''] = set;
  if (value.length > MAX_OUTPUT_LENGTH)
    return { kind: 'unknown', summary: `the value of ${name} is longer than ${MAX_OUTPUT_LENGTH} characters` };
  return { kind: 'set', name, value };
}
