// How the git client is called in a person's clone: with their home, agents and signing set-up, and with no variable that would point
// git to another repository. It asks nothing on a terminal of its own: what must be asked is asked by the person's agent.
import { readlinkSync } from 'node:fs';
import { Fault } from '../../core/fault.ts';
import { ProcessError, type Run, type RunInput, type RunOutput } from '../process/run.ts';

/** What finding and using a key of the person needs; no secret of ours and nothing of GIT_DIR and its like. */
const HANDED_ON = [
  'PATH',
  'HOME',
  'USER',
  'LOGNAME',
  'LANG',
  'LC_ALL',
  'LC_CTYPE',
  'TERM',
  'TMPDIR',
  'XDG_CONFIG_HOME',
  'XDG_RUNTIME_DIR',
  'DBUS_SESSION_BUS_ADDRESS',
  'DISPLAY',
  'WAYLAND_DISPLAY',
  'XAUTHORITY',
  'SSH_AUTH_SOCK',
  'SSH_AGENT_PID',
  'SSH_ASKPASS',
  'SSH_ASKPASS_REQUIRE',
  'SSH_SK_PROVIDER',
  'GNUPGHOME',
  'GPG_TTY',
  'GPG_AGENT_INFO',
  'PINENTRY_USER_DATA',
  'GIT_CONFIG_GLOBAL',
  'GIT_CONFIG_SYSTEM',
  'GIT_CONFIG_NOSYSTEM',
  'GIT_AUTHOR_NAME',
  'GIT_AUTHOR_EMAIL',
  'GIT_COMMITTER_NAME',
  'GIT_COMMITTER_EMAIL',
];

const READ_MS = 60_000;
/** Somebody looks for their security key or types a passphrase. */
const SIGN_MS = 5 * 60_000;
const MOST_BYTES = 64 * 1024 * 1024;

export interface CloneGit {
  /** Any exit code is an answer. */
  try(args: readonly string[], input?: string | Uint8Array): Promise<RunOutput>;
  /** Throws a CLONE_REFUSED Fault with the words of git. */
  must(args: readonly string[], input?: string | Uint8Array): Promise<RunOutput>;
  /** Null where git answers that there is none; that it did not answer is thrown. */
  find(args: readonly string[]): Promise<string | null>;
  bytes(args: readonly string[], input?: string, most?: number): Promise<RunOutput<Uint8Array>>;
  /** Makes an object; `isSigned` says whose fault a failure most likely is. */
  sign(args: readonly string[], message: string, isSigned: boolean): Promise<RunOutput>;
  /** The same with another index than the person's. */
  withIndex(file: string): CloneGit;
}

export function personEnvironment(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const handed: Record<string, string> = {};
  for (const name of HANDED_ON) {
    const value = env[name];
    if (value !== undefined) handed[name] = value;
  }
  // Git runs in a session of its own, where gpg could not find the terminal by itself.
  const tty = handed['GPG_TTY'] === undefined && process.stdin.isTTY ? terminalOf() : null;
  return {
    ...handed,
    ...(tty === null ? {} : { GPG_TTY: tty }),
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_TERMINAL_PROMPT: '0',
  };
}

function terminalOf(): string | null {
  try {
    const path = readlinkSync('/proc/self/fd/0');
    return path.startsWith('/dev/') ? path : null;
  } catch {
    return null;
  }
}

export function openCloneGit(options: {
  readonly folder: string;
  readonly run: Run;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly index?: string;
}): CloneGit {
  const { folder, run, index } = options;
  const call = (args: readonly string[], more: Partial<RunInput>): RunInput => ({
    program: 'git',
    // No monitor, hook or pager of the person has a say in what is read and made here.
    args: [
      '--no-pager',
      '-c',
      'core.hooksPath=/dev/null',
      '-c',
      'core.fsmonitor=false',
      '-c',
      'core.quotePath=false',
      ...args,
    ],
    cwd: folder,
    env: { ...personEnvironment(options.env), ...(index === undefined ? {} : { GIT_INDEX_FILE: index }) },
    deadlineMs: READ_MS,
    maxOutputBytes: MOST_BYTES,
    ...more,
  });
  const asFault = (error: unknown): never => {
    if (error instanceof ProcessError)
      throw new Fault('CLONE_REFUSED', error.message, { cause: error, data: { log: lastLines(error.stderr) } });
    throw error;
  };
  const refused = (args: readonly string[], { stderr }: { readonly stderr: string }): Fault =>
    new Fault(
      'CLONE_REFUSED',
      `git ${args.find((word) => !word.startsWith('-') && !word.includes('=')) ?? ''} failed`,
      {
        data: { log: lastLines(stderr) },
      },
    );
  const attempt = async (args: readonly string[], input?: string | Uint8Array): Promise<RunOutput> =>
    run(call(args, input === undefined ? {} : { input })).catch(asFault);
  return {
    try: attempt,
    async must(args, input) {
      const done = await attempt(args, input);
      if (done.exitCode !== 0) throw refused(args, done);
      return done;
    },
    async find(args) {
      const done = await attempt(args);
      if (done.exitCode === 1) return null;
      if (done.exitCode !== 0) throw refused(args, done);
      return done.stdout.replace(/\n$/, '');
    },
    async bytes(args, input, most = MOST_BYTES) {
      const done = await run({
        ...call(args, { maxOutputBytes: most, ...(input === undefined ? {} : { input }) }),
        encoding: 'buffer',
      }).catch(asFault);
      if (done.exitCode !== 0) throw refused(args, done);
      return done;
    },
    async sign(args, message, isSigned) {
      const done = await run(call(args, { input: message, deadlineMs: SIGN_MS })).catch(asFault);
      if (done.exitCode === 0) return done;
      throw notMade(done.stderr, isSigned);
    },
    withIndex: (file) => openCloneGit({ ...options, index: file }),
  };
}

export const lastLines = (text: string): readonly string[] => text.trimEnd().split('\n').slice(-12);

/** Git's own words, and for what people meet most often which words they mean. First match wins. */
const MEANINGS: readonly (readonly [RegExp, string])[] = [
  [
    /identity unknown|tell me who you are|empty ident|auto-detect email/i,
    'git does not know your name: git config user.name "…" and git config user.email …',
  ],
  [
    /user\.signing[kK]ey/,
    'no signing key is configured: git config gpg.format ssh, then git config user.signingkey FILE.pub',
  ],
  [
    /incorrect passphrase|agent refused|No private key found|couldn't find key in agent/i,
    'the key cannot be used: put it into your agent first, ssh-add FILE',
  ],
  [/No secret key|skipped "/i, 'gpg has no secret key for it: gpg --list-secret-keys'],
  [
    /Inappropriate ioctl|No pinentry|cannot open '\/dev\/tty'/i,
    'gpg could not ask for the passphrase: export GPG_TTY=$(tty), or open the key in gpg-agent first',
  ],
];

function notMade(stderr: string, isSigned: boolean): Fault {
  const meaning = MEANINGS.find(([words]) => words.test(stderr))?.[1];
  const code = isSigned ? 'SIGNING_FAILED' : 'CLONE_REFUSED';
  return new Fault(code, meaning ?? (isSigned ? 'git could not sign' : 'git could not commit'), {
    data: { log: lastLines(stderr) },
  });
}
