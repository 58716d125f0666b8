// What Windlass remembers of a file that it wrote, as one line: mode, object id, and what `lstat` said afterwards. While
// that is the same the content is too, and need not be read.
import { createHash } from 'node:crypto';
import { type BigIntStats, constants } from 'node:fs';
import { open, readlink } from 'node:fs/promises';
import type { FileToWrite } from '../../ports/files.ts';

export interface KnownFile {
  readonly mode: string;
  readonly oid: string;
  /** '' when it was meant to be written but is not known to have been. */
  readonly facts: string;
}

/** `mode oid facts`; whoever stores an intention puts `?` for the facts. */
export function parseLine(line: string): KnownFile {
  const [mode = '', oid = '', facts = ''] = line.split(' ');
  return { mode, oid, facts: facts === '?' ? '' : facts };
}

export function formatLine(file: Pick<FileToWrite, 'mode' | 'oid'>, stats: BigIntStats): string {
  return `${file.mode} ${file.oid} ${factsOf(stats)}`;
}

/** The time of change cannot be set by a program, so an edit that hides itself behind its old size and date is seen. */
export function factsOf(stats: BigIntStats): string {
  return [stats.size, stats.ino, stats.mtimeNs, stats.ctimeNs].join(':');
}

/** The line of a file that somebody else made: it never is what we wrote. */
export const lineOfOthers = (file: Pick<FileToWrite, 'mode' | 'oid'>): string => `${file.mode} ${file.oid} ${OTHERS}`;

/** Facts of a file that we did not write. */
const OTHERS = '-';

/** Is it known that we wrote it? What was only meant to be written may be somebody else's, also with the very same content. */
export const isOurs = ({ facts }: KnownFile): boolean => facts !== '' && facts !== OTHERS;

/** Is it of the kind and with the executable bit that `mode` asks for? Other permissions are left to the containers. */
export function hasMode(stats: BigIntStats, mode: string): boolean {
  if (mode === '120000') return stats.isSymbolicLink();
  return stats.isFile() && ((stats.mode & 0o100n) !== 0n) === (mode === '100755');
}

/** Is it of the kind that `mode` asks for, whatever its permissions? */
export function hasKind(stats: BigIntStats, mode: string): boolean {
  return mode === '120000' ? stats.isSymbolicLink() : stats.isFile();
}

/** A larger file is none that was written from git: a container cannot make us read without end. */
const MAX_READ_BYTES = 256n * 1024n * 1024n;

/**
 * Reads it to see whether its content is that of the object. Not readable means no. Never follows a link. `known` is
 * what was remembered of the path: when it tells the size of this object, another size needs no reading.
 */
export async function hasContent(
  path: string,
  stats: BigIntStats,
  oid: string,
  known: KnownFile | null,
): Promise<boolean> {
  if (known?.oid === oid && SIZE.test(known.facts) && !known.facts.startsWith(`${stats.size}:`)) return false;
  return (await oidOf(path, stats)) === oid;
}

const SIZE = /^\d+:/;

/** The object id that git would give it; null when it is too large, no file and no link, or cannot be read. */
export async function oidOf(path: string, stats: BigIntStats): Promise<string | null> {
  if (stats.size > MAX_READ_BYTES) return null;
  if (stats.isSymbolicLink()) {
    const target = await readlink(path, 'buffer').catch(() => null);
    return target === null ? null : blobId(target.length, [target]);
  }
  if (!stats.isFile()) return null;
  // Not waiting: the file may have been swapped for a pipe since it was looked at.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch(() => null);
  if (file === null) return null;
  try {
    const now = await file.stat({ bigint: true });
    if (!now.isFile() || now.ino !== stats.ino || now.size !== stats.size) return null;
    const hash = createHash('sha1').update(`blob ${now.size}\0`);
    for await (const chunk of file.createReadStream({ autoClose: false, end: Number(now.size) })) hash.update(chunk);
    return hash.digest('hex');
  } catch {
    return null;
  } finally {
    await file.close();
  }
}

function blobId(sizeBytes: number, chunks: readonly Uint8Array[]): string {
  const hash = createHash('sha1').update(`blob ${sizeBytes}\0`);
  for (const chunk of chunks) hash.update(chunk);
  return hash.digest('hex');
}
