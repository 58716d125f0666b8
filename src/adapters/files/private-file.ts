// Private file: a small text for its owner alone, such as a key. Made once, whole or not at all; refused when others could read it. How a
// refusal is told is the caller's to say; the text itself is in none.
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import type { Fault } from '../../core/fault.ts';
import { fsyncDirectory } from '../journal/database.ts';

const MAX_BYTES = 64 * 1024;

/** `what` follows the name of the file: "could not be read: …". */
export type Refuse = (what: string, cause?: unknown) => Fault;

/** Null when there is no such file. Throws what `refuse` makes when it cannot be trusted or read. */
export function readPrivateFile(path: string, refuse: Refuse): string | null {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw refuse(`could not be read: ${messageOf(error)}`, error);
  }
  try {
    // Of the opened file, so that it cannot be exchanged between the look and the read.
    const facts = fstatSync(file);
    if (!facts.isFile()) throw refuse('is not a file');
    if (process.platform !== 'win32' && (facts.mode & 0o077) !== 0)
      throw refuse(`may be read by others (mode ${(facts.mode & 0o777).toString(8)}): run \`chmod 600 ${path}\``);
    if (facts.size > MAX_BYTES) throw refuse('is too large to be a key');
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}

/** False, and nothing is written, when another process was faster: then that one's counts. */
export function createPrivateFile(path: string, text: string, refuse: Refuse): boolean {
  const directory = dirname(path);
  const partial = `${path}.${randomBytes(6).toString('hex')}.partial`;
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const file = openSync(partial, 'wx', 0o600);
    try {
      writeFileSync(file, text);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    try {
      // A link, not a rename: it fails when the name is taken, and the name never stands for half a file.
      linkSync(partial, path);
      return true;
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false;
      throw error;
    } finally {
      unlinkSync(partial);
      fsyncDirectory(directory);
    }
  } catch (error) {
    throw refuse(`could not be made: ${messageOf(error)}`, error);
  }
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
