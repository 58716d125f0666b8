// Safe path: may a name out of an archive stand for a file below a folder of ours. Says why not; repairs nothing.

export type PathMistake = 'empty' | 'nul' | 'absolute' | 'parent' | 'too-long';

const MAX_PATH_BYTES = 4_096;
const MAX_NAME_BYTES = 255;

/** `./` before and `/` behind a path mean nothing in a tar stream. */
export const plainPath = (path: string): string =>
  path
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/');

/** Null when it is safe. A backslash is a plain character: nothing is ever extracted on Windows. */
export function pathMistake(path: string): PathMistake | null {
  if (path.includes('\0')) return 'nul';
  if (path.startsWith('/')) return 'absolute';
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) return 'parent';
  if (parts.length === 0) return 'empty';
  if (bytesOf(path) > MAX_PATH_BYTES || parts.some((part) => bytesOf(part) > MAX_NAME_BYTES)) return 'too-long';
  return null;
}

/** A lone surrogate stands for one byte that is no UTF-8; plain counting would take it for three. */
const bytesOf = (text: string): number =>
  Buffer.byteLength(text) - 2 * (text.isWellFormed() ? 0 : (text.match(/\p{Surrogate}/gu)?.length ?? 0));
