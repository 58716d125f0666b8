// Token: what the controller shows to an outside vault, from a file that somebody may renew or from its environment.
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { Fault } from '../../core/fault.ts';

const MAX_BYTES = 16 * 1024;

/** Throws VAULT_DENIED when there is none. The refusal never repeats what was read. */
export function readToken(file: string | undefined, env: string | undefined): string {
  const from = file ?? 'WINDLASS_VAULT_TOKEN';
  const refuse = (why: string): Fault =>
    new Fault('VAULT_DENIED', `the token of the vault, ${from}, ${why}`, { data: { from } });
  const text = file === undefined ? env : readOnce(file, refuse);
  if (text === undefined || text === '') throw refuse('is not there: set vault.tokenFile or WINDLASS_VAULT_TOKEN');
  const token = text.trim();
  if (!/^[\x21-\x7e]+$/.test(token)) throw refuse('does not hold one token');
  return token;
}

function readOnce(path: string, refuse: (why: string) => Fault): string {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    throw refuse(`cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
  try {
    const facts = fstatSync(file);
    if (!facts.isFile()) throw refuse('is no file');
    if (facts.size > MAX_BYTES) throw refuse('is too large for a token');
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}
