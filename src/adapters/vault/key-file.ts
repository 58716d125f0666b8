// Key file: the controller's age identity at rest. Made once, whole or not at all; refused when others than its owner could read it.
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
import { Fault } from '../../core/fault.ts';
import { fsyncDirectory } from '../journal/database.ts';

const MAX_BYTES = 64 * 1024;

/** The one identity in `path`, null when there is no such file. Throws FILES_FAILED when the file cannot be trusted or read. */
export function readKeyFile(path: string): string | null {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw refused(path, `could not be read: ${messageOf(error)}`, error);
  }
  try {
    // Of the opened file, so that it cannot be exchanged between the look and the read.
    const facts = fstatSync(file);
    if (!facts.isFile()) throw refused(path, 'is not a file');
    if (process.platform !== 'win32' && (facts.mode & 0o077) !== 0) {
      const mode = (facts.mode & 0o777).toString(8);
      throw refused(path, `may be read by others (mode ${mode}): run \`chmod 600 ${path}\``);
    }
    if (facts.size > MAX_BYTES) throw refused(path, 'is too large to be an age identity');
    return parseIdentity(readFileSync(file, 'utf8'), path);
  } finally {
    closeSync(file);
  }
}

/** Writes a new identity, unless another process was faster: then that one's counts, and false is returned. */
export function createKeyFile(path: string, identity: string, recipient: string): boolean {
  const directory = dirname(path);
  const partial = `${path}.${randomBytes(6).toString('hex')}.partial`;
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const file = openSync(partial, 'wx', 0o600);
    try {
      writeFileSync(file, `# public key: ${recipient}\n${identity}\n`);
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
    throw refused(path, `could not be made: ${messageOf(error)}`, error);
  }
}

/** The identity in the text of a key file or of `WINDLASS_AGE_KEY`. The refusal never repeats the text. */
export function parseIdentity(text: string, from: string): string {
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  const identities = lines.filter((line) => line !== '' && !line.startsWith('#'));
  const identity = identities[0];
  if (identity === undefined || identities.length > 1 || !/^AGE-SECRET-KEY-1[0-9A-Z]{58}$/.test(identity))
    throw refused(from, 'does not hold exactly one age identity (AGE-SECRET-KEY-1…)');
  return identity;
}

function refused(path: string, what: string, cause?: unknown): Fault {
  return new Fault('FILES_FAILED', `the vault's key ${path} ${what}`, { data: { path }, cause });
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
