// `windlass trust verify`: judges signed commits and tags of any repository, offline, one line each.
// It reads the trust roots and hands them to the core; it decides nothing itself.
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import type { RevJudgement } from '../../core/state/trust/verify-revs.ts';
import { type Command, textFlag, UsageError } from '../command.ts';
import { EXIT } from '../exit.ts';
import type { Io } from '../io.ts';

const LARGEST_ROOT_BYTES = 64 * 1024 * 1024;

export const verify: Command = {
  words: ['trust', 'verify'],
  summary: 'judge the signatures of commits and tags, offline, in any repository',
  usage: 'REV...',
  example: 'windlass trust verify --git-dir .git --allowed-signers allowed_signers --revoked revoked HEAD v1.2.0',
  flags: {
    'git-dir': { type: 'string', value: 'DIR', help: 'the repository: bare, .git or a work tree; default: here' },
    'allowed-signers': { type: 'string', value: 'FILE', help: 'SSH keys that may sign, as ssh-keygen(1) describes' },
    keyring: { type: 'string', value: 'FILE', help: 'OpenPGP public keys, armored or binary' },
    revoked: { type: 'string', value: 'FILE', help: 'keys and fingerprints, or a KRL; a missing file refuses all' },
    at: { type: 'string', value: 'TIME', help: 'the time to judge by: 2026-01-31T12:00:00Z or seconds; default: now' },
    strict: { type: 'boolean', help: 'the profile of statements: single parent, exact form' },
    json: { type: 'boolean', help: 'one JSON object a line; also -o json' },
  },
  arity: [1, Number.MAX_SAFE_INTEGER],
  async run({ io, flags, args, json, rawObjects, stop }) {
    if (!rawObjects) throw new Error('no reader of raw objects was given');
    const at = readTime(textFlag(flags, 'at'));
    const { formatRevJudgement, verifyRevs } = await import('../../core/state/trust/verify-revs.ts');
    const { REASONS } = await import('../../core/state/trust/reason.ts');
    const signersFile = textFlag(flags, 'allowed-signers');
    const keyringFile = textFlag(flags, 'keyring');
    const revokedFile = textFlag(flags, 'revoked');
    const signers = await readRoot('allowed-signers', signersFile);
    const keyring = await readRoot('keyring', keyringFile);
    let allValid = true;
    const judgements = verifyRevs({
      gitDir: textFlag(flags, 'git-dir') ?? '.',
      revs: args,
      at,
      strict: flags['strict'] === true,
      allowedSigners: signers?.toString('utf8'),
      keyring,
      revoked: await readRevoked(io, revokedFile),
      offsetMinutes: localOffset,
      names: {
        allowedSigners: signersFile ?? '',
        keyring: keyringFile ?? '',
        revoked: revokedFile ?? '',
      },
      readObject: await rawObjects(),
      onRoots: ({ problems }) => {
        for (const { place, message } of problems)
          io.words(`${io.inWords.paint('yellow', 'warning')}: ${place}: ${message}`);
      },
    });
    for await (const judgement of judgements) {
      // Everything else here happens at once: without a pause no signal would be heard.
      await setImmediate();
      stop.throwIfAborted();
      allValid &&= judgement.verdict === 'valid';
      io.data(
        json || flags['json'] === true
          ? formatRevJudgement(judgement)
          : formatLine(io, judgement, REASONS[judgement.reason].help),
      );
    }
    return allValid ? EXIT.done : EXIT.refused;
  },
};

/** Regular files only: a pipe would wait for ever, and a device never ends. What grows while it is read is cut off at the limit. */
async function readRoot(flag: string, file: string | undefined): Promise<Buffer | undefined> {
  if (file === undefined) return undefined;
  try {
    return await readRegular(file, LARGEST_ROOT_BYTES);
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code ?? (error instanceof Error ? error.message : String(error));
    throw new UsageError(`--${flag} ${file} cannot be read: ${why}`);
  }
}

async function readRegular(file: string, mostBytes: number): Promise<Buffer> {
  // Without O_NONBLOCK the opening of a pipe waits for its writer.
  const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const facts = await handle.stat();
    if (!facts.isFile()) throw new Error('it is no regular file');
    if (facts.size > mostBytes) throw new Error(`it is larger than ${mostBytes / 1024 / 1024} MiB`);
    const content = Buffer.alloc(facts.size);
    let length = 0;
    while (length < content.length) {
      const { bytesRead } = await handle.read(content, length, content.length - length, length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return content.subarray(0, length);
  } finally {
    await handle.close();
  }
}

/** Null refuses everything: a list that was named and is not there must not count as an empty one. */
async function readRevoked(io: Io, file: string | undefined): Promise<Buffer | null | undefined> {
  try {
    return await readRoot('revoked', file);
  } catch (error) {
    io.words(`${io.inWords.paint('red', 'error')}: ${(error as Error).message}; nothing is accepted without it`);
    return null;
  }
}

/** A date with a zone, a date alone (UTC midnight), or seconds since the epoch. */
function readTime(text: string | undefined): Date {
  if (text === undefined) return new Date();
  if (/^@?\d{1,11}$/.test(text)) return new Date(Number(text.replace('@', '')) * 1000);
  const match = /^(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2}))?$/.exec(text);
  const time = new Date(match ? text.replace(' ', 'T') : Number.NaN);
  const day = match ? new Date(match[1]!) : time;
  // The parser of dates takes 30 February for 1 March.
  if (Number.isNaN(time.getTime()) || Number.isNaN(day.getTime()) || day.toISOString().slice(0, 10) !== match?.[1])
    throw new UsageError(`--at takes a time such as 2026-01-31T12:00:00Z or seconds since 1970, not ${text}`);
  return time;
}

/** allowed_signers times without a zone are local times of this machine, also across a change of the clocks. */
function localOffset(wallMs: number): number {
  const wall = new Date(wallMs);
  const local = new Date(
    wall.getUTCFullYear(),
    wall.getUTCMonth(),
    wall.getUTCDate(),
    wall.getUTCHours(),
    wall.getUTCMinutes(),
    wall.getUTCSeconds(),
  );
  return (wallMs - local.getTime()) / 60_000;
}

function formatLine(
  io: Io,
  { rev, oid, verdict, format, principal, fingerprint, reason, detail }: RevJudgement,
  help: string,
): string {
  const style = verdict === 'valid' ? 'green' : verdict === 'invalid' ? 'red' : 'yellow';
  const name = oid === null || oid.startsWith(rev) ? rev : `${rev} (${oid.slice(0, 12)})`;
  const who = [principal, format === 'none' ? null : format, fingerprint].filter((part) => part !== null).join(' ');
  const why = verdict === 'valid' ? [] : [`${reason}: ${help}`, ...(detail === '' ? [] : [`(${detail})`])];
  return [`${io.paint(style, verdict)} ${name}`, ...(who === '' ? [] : [who]), ...why].join('  ');
}
