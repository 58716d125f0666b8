// With which key git would sign in a person's clone, as far as that can be told before. Reads public halves only.
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { parseKeyLine } from '../../core/state/trust/allowed-signers.ts';
import type { SigningSetUp } from '../../ports/clone.ts';
import type { Run } from '../process/run.ts';
import { type CloneGit, personEnvironment } from './clone-git.ts';

const GPG_MS = 20_000;
const MAX_KEY_BYTES = 64 * 1024;

export interface SigningSystem {
  readonly run: Run;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
}

export async function signingOf(git: CloneGit, system: SigningSystem): Promise<SigningSetUp> {
  const { stdout } = await git.try(['config', '-z', '--get-regexp', '^(gpg|user|commit)\\.']);
  const settings = new Map<string, string>();
  // The last one counts; a name without a value is true.
  for (const line of stdout.split('\0')) {
    const at = line.indexOf('\n');
    if (line !== '') settings.set(at < 0 ? line : line.slice(0, at), at < 0 ? 'true' : line.slice(at + 1));
  }
  const setting = (name: string): string => settings.get(name) ?? '';
  const said = setting('gpg.format') || 'openpgp';
  const key = setting('user.signingkey');
  const isWanted = key !== '' || /^(?:true|yes|on|1)$/i.test(setting('commit.gpgsign'));
  if (said === 'ssh') {
    const hasKey = key !== '' || setting('gpg.ssh.defaultkeycommand') !== '';
    return { format: 'ssh', isWanted, hasKey, fingerprint: await sshFingerprint(key, system) };
  }
  if (said !== 'openpgp')
    return { format: said === 'x509' ? 'x509' : 'unknown', isWanted, hasKey: key !== '', fingerprint: null };
  const program = atHome(setting('gpg.openpgp.program') || setting('gpg.program') || 'gpg', system);
  const wanted = key || setting('user.email');
  const fingerprint = wanted === '' ? null : await openPgpFingerprint(program, wanted, system);
  // Without `user.signingkey` gpg looks for a secret key of the committer's address.
  return { format: 'openpgp', isWanted, hasKey: key !== '' || fingerprint !== null, fingerprint };
}

const atHome = (path: string, { env }: Pick<SigningSystem, 'env'>): string =>
  path.startsWith('~/') ? join(env['HOME'] ?? homedir(), path.slice(2)) : path;

/** The key itself, or the file of either half: git reads the public one beside a private one. */
async function sshFingerprint(key: string, { env, folder }: SigningSystem): Promise<string | null> {
  if (key === '') return null;
  const line = key.startsWith('key::') ? key.slice('key::'.length) : key;
  if (/^(?:ssh|ecdsa|sk)-\S+ \S/.test(line)) return fingerprintOf(line);
  const home = atHome(key, { env });
  const path = isAbsolute(home) ? home : join(folder, home);
  for (const file of path.endsWith('.pub') ? [path] : [`${path}.pub`, path]) {
    const text = await readFile(file, 'utf8').catch(() => '');
    const found = text.length <= MAX_KEY_BYTES ? fingerprintOf(text.split('\n')[0] ?? '') : null;
    if (found !== null) return found;
  }
  return null;
}

function fingerprintOf(line: string): string | null {
  try {
    return parseKeyLine(line.trim()).fingerprint;
  } catch {
    return null;
  }
}

/** Of the primary key, 40 upper-case hex. */
async function openPgpFingerprint(
  program: string,
  key: string,
  { run, env, folder }: SigningSystem,
): Promise<string | null> {
  const listing = await run({
    program,
    args: ['--batch', '--no-tty', '--with-colons', '--list-secret-keys', '--', key.replace(/!$/, '')],
    cwd: folder,
    env: personEnvironment(env),
    deadlineMs: GPG_MS,
  }).catch(() => null);
  if (listing === null || listing.exitCode !== 0) return null;
  return /^fpr:(?:[^:]*:){8}([0-9A-F]{40}):/m.exec(listing.stdout)?.[1] ?? null;
}
