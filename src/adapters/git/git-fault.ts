// Turns what the git client says into a Fault: an ordered table, first match wins, one sentence a row.
import { Fault, type FaultCode } from '../../core/fault.ts';
import { ProcessError } from '../process/run.ts';

interface FaultRow {
  readonly says: RegExp;
  readonly code: FaultCode;
  readonly summary: string;
}

const ROWS: readonly FaultRow[] = [
  {
    says: /couldn't find remote ref|no such ref was fetched|Remote branch .* not found/i,
    code: 'GIT_REF_MISSING',
    summary: 'the source has no such branch',
  },
  {
    says: /mismatched algorithms|unsupported object format|unknown object format|object format mismatch/i,
    code: 'GIT_REFUSED',
    summary: 'the source is a SHA-256 repository; Windlass reads SHA-1 repositories',
  },
  {
    says: /shallow update not allowed|shallow root/i,
    code: 'GIT_REFUSED',
    summary: 'the source is a shallow clone; run `git fetch --unshallow` in it',
  },
  {
    says: /No space left on device|Disk quota exceeded|unable to write (sha1|loose object|file)|Read-only file system/i,
    code: 'FILES_FAILED',
    summary: 'the mirror cannot be written',
  },
  {
    says: /over limit|out of memory|exceeds maximum allowed size|object too large/i,
    code: 'GIT_TOO_LARGE',
    summary: 'the source holds an object that is too large to take in',
  },
  {
    says: /Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED|No .* host key is known/i,
    code: 'GIT_AUTH',
    summary: 'the host key of the source is not known; put it into the known hosts file of the source',
  },
  {
    says: /Authentication failed|could not read (Username|Password)|invalid credentials|Permission denied \(|HTTP Basic: Access denied|(returned error: |HTTP )(401|403)\b|terminal prompts disabled|Permission to .* denied/i,
    code: 'GIT_AUTH',
    summary: 'the source does not let us in',
  },
  {
    says: /dubious ownership/i,
    code: 'GIT_AUTH',
    summary: 'the folder of the source belongs to somebody else',
  },
  {
    says: /(returned error: |HTTP )30[1278]\b/i,
    code: 'GIT_REFUSED',
    summary: 'the source has moved to another address, where its credentials are not sent; correct the address',
  },
  {
    says: /fsck error|error in object|badTree|hasDotgit|treeNotSorted|duplicateEntries|malformed|broken at object/i,
    code: 'GIT_REFUSED',
    summary: 'the source holds an object that is not well formed',
  },
  {
    says: /did not send all necessary objects|corruption on the remote side|unresolved deltas|missing blob|missing tree|bad object|unable to read tree|early EOF in|not our ref/i,
    code: 'GIT_OBJECT_MISSING',
    summary: 'the source did not send all that belongs to the commit',
  },
];

/** A lock that another process holds for a moment; worth trying again at once. */
export function isLockTrouble(stderr: string): boolean {
  return /\.lock': File exists|cannot lock ref|Unable to create .*\.lock/i.test(stderr);
}

/** Words of a fetch that ends with exit code 0 and has not moved the ref. */
export function isNothingTaken(stderr: string): boolean {
  return /shallow roots are not allowed/i.test(stderr);
}

/** `stderr` is redacted already. */
export function faultOfFetch(source: string, stderr: string): Fault {
  const said = summarise(stderr);
  const row = ROWS.find(({ says }) => says.test(stderr));
  const code = row?.code ?? 'GIT_UNREACHABLE';
  const summary = row?.summary ?? 'the source cannot be fetched';
  return new Fault(code, `${source}: ${summary}${said === '' ? '' : ` (git: ${said})`}`, {
    data: { source, said },
  });
}

export function faultOfProcess(source: string, error: unknown): Fault {
  if (error instanceof Fault) return error;
  if (!(error instanceof ProcessError)) {
    const message = error instanceof Error ? error.message : String(error);
    return new Fault('GIT_UNREACHABLE', `${source}: ${message}`, { cause: error });
  }
  const data = { source, said: summarise(error.stderr) };
  switch (error.kind) {
    case 'cancelled':
      return new Fault('CANCELLED', `${source}: the fetch was called off`, { data, cause: error });
    case 'deadline':
      return new Fault(
        'GIT_UNREACHABLE',
        `${source}: the source did not answer within ${Math.round(error.durationMs / 1000)} s`,
        { data, cause: error },
      );
    case 'missing':
      return new Fault('GIT_UNREACHABLE', `${source}: the git client is not installed`, { data, cause: error });
    default:
      return new Fault('GIT_UNREACHABLE', `${source}: ${error.message}`, { data, cause: error });
  }
}

/** What git adds to every failure of a remote. */
const PHRASES = /^(hint:|and the repository exists\.|Please make sure you have|fatal: Could not read from remote)/;
const MAX_LINES = 6;
const MAX_LENGTH = 600;

/** The lines that say what is wrong: the last ones, without git's phrases unless there is nothing else. */
function summarise(stderr: string): string {
  const lines = stderr
    .split('\n')
    .map((line) => line.replace(/[\x00-\x1f\x7f-\x9f]/g, ' ').trim())
    .filter((line) => line !== '');
  const telling = lines.filter((line) => !PHRASES.test(line));
  const text = (telling.length > 0 ? telling : lines).slice(-MAX_LINES).join('; ');
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text;
}
