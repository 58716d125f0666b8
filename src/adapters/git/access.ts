// Access: what opens a private source, from files that somebody may renew while the controller runs.
import { open } from 'node:fs/promises';
import { Fault } from '../../core/fault.ts';
import type { Credentials } from './git-command.ts';

export interface SourceAccess extends Pick<Credentials, 'username' | 'sshKeyFile' | 'knownHostsFile'> {
  /** Token or password for http(s), absolute path. */
  readonly passwordFile?: string;
  /** Certificates of the authority that an https source is checked with, absolute path. */
  readonly caFile?: string;
}

/** Stands for the file, for a quick start. */
export const PASSWORD_VARIABLE = 'WINDLASS_SOURCE_PASSWORD';
const MAX_BYTES = 16 * 1024;

/** Reads the file anew at each call. Throws GIT_AUTH, which never repeats what was read. */
export function credentialsFrom(access: SourceAccess, env: NodeJS.ProcessEnv): () => Promise<Credentials> {
  const { passwordFile, caFile: _ca, ...plain } = access;
  return async () => {
    const password = passwordFile === undefined ? env[PASSWORD_VARIABLE] : await firstLineOf(passwordFile);
    return password ? { ...plain, password } : plain;
  };
}

async function firstLineOf(path: string): Promise<string> {
  const refuse = (why: string): Fault => new Fault('GIT_AUTH', `the password file of the source, ${path}, ${why}`);
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    throw refuse(`cannot be read: ${error.code}`);
  });
  try {
    const facts = await file.stat();
    if (!facts.isFile()) throw refuse('is no file');
    if (facts.size > MAX_BYTES) throw refuse('is too large for a password');
    const text = (await file.readFile('utf8')).replace(/\r?\n$/, '');
    if (text === '' || /[\r\n\0]/.test(text)) throw refuse('does not hold one password');
    return text;
  } finally {
    await file.close();
  }
}
