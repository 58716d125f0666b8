// Key file: the controller's age identity at rest, in a private file.
import { Fault } from '../../core/fault.ts';
import { createPrivateFile, type Refuse, readPrivateFile } from '../files/private-file.ts';

/** The one identity in `path`, null when there is no such file. Throws FILES_FAILED when the file cannot be trusted or read. */
export function readKeyFile(path: string): string | null {
  const text = readPrivateFile(path, refusing(path));
  return text === null ? null : parseIdentity(text, path);
}

/** Writes a new identity, unless another process was faster: then that one's counts, and false is returned. */
export const createKeyFile = (path: string, identity: string, recipient: string): boolean =>
  createPrivateFile(path, `# public key: ${recipient}\n${identity}\n`, refusing(path));

/** The identity in the text of a key file or of `WINDLASS_AGE_KEY`. The refusal never repeats the text. */
export function parseIdentity(text: string, from: string): string {
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  const identities = lines.filter((line) => line !== '' && !line.startsWith('#'));
  const identity = identities[0];
  if (identity === undefined || identities.length > 1 || !/^AGE-SECRET-KEY-1[0-9A-Z]{58}$/.test(identity))
    throw refusing(from)('does not hold exactly one age identity (AGE-SECRET-KEY-1…)');
  return identity;
}

const refusing =
  (path: string): Refuse =>
  (what, cause) =>
    new Fault('FILES_FAILED', `the vault's key ${path} ${what}`, { data: { path }, cause });
