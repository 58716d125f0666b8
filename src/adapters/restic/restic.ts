// Restic: the program, called for one thing at a time: an argument list, an environment of its own, a deadline that ends its group.
// Only exit code 0 is success, and what it counts or says of itself is not believed. The password never comes here: it reads its file.
import { hostname as hostName } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { Fault } from '../../core/fault.ts';
import { cleanEnvironment, ProcessError, type Programs, type StreamedChild } from '../process/run.ts';

export const RESTIC_WANTED = [0, 18] as const;
/** The one file of a snapshot. */
const FILE = 'payload.tar';
const TAG = 'windlass';
const CALL_MS = 120_000;
const STALL_MS = 300_000;
const LOOK_MS = 500;
/** It reads and rewrites what is stored. */
const PRUNE_MS = 6 * 3600_000;
const ANSWER_BYTES = 64 * 1024 * 1024;
const SMALL_BYTES = 1024 * 1024;
const MAX_LOCKS = 50;
const FORGET_AT_ONCE = 100;
const ID = /^[0-9a-f]{64}$/;

export interface ResticOptions {
  readonly programs: Programs;
  /** Default: `restic` in PATH. */
  readonly program?: string;
  /** As restic takes it. */
  readonly repository: string;
  readonly passwordFile: string;
  readonly cacheDirectory: string;
  /** What the backend of the repository needs beside; asked at each call, since it may be renewed. */
  readonly environment?: () => Readonly<Record<string, string>>;
  /** For a call that answers at once. Default 2 min. */
  readonly callMs?: number;
  /** How long a stream may stand still because of restic. Default 5 min. */
  readonly stallMs?: number;
}

export interface Snapshot {
  readonly id: string;
  readonly tree: string;
  readonly tags: readonly string[];
}

export interface RepositoryLock {
  readonly hostname: string;
  readonly pid: number;
  readonly isExclusive: boolean;
  /** It is renewed every few minutes while its process lives. */
  readonly atMs: number;
}

interface Answer {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export class Restic {
  readonly #options: ResticOptions;

  constructor(options: ResticOptions) {
    this.#options = options;
  }

  /** Throws RESTIC_UNFIT when there is none, or one that is too old to be trusted with data. */
  async checkVersion(signal: AbortSignal | undefined): Promise<void> {
    const { exitCode, stdout } = await this.#call(['version'], signal, { maxBytes: SMALL_BYTES });
    const [, major, minor] = /^restic (\d{1,5})\.(\d{1,5})[.\s-]/.exec(stdout) ?? [];
    if (exitCode !== 0 || major === undefined || minor === undefined)
      throw new Fault('RESTIC_UNFIT', `\`restic version\` said nothing of a version (exit code ${exitCode})`);
    const [wantedMajor, wantedMinor] = RESTIC_WANTED;
    const isNew = Number(major) > wantedMajor || (Number(major) === wantedMajor && Number(minor) >= wantedMinor);
    if (!isNew)
      throw new Fault(
        'RESTIC_UNFIT',
        `restic ${major}.${minor} is too old to be trusted with data: ${wantedMajor}.${wantedMinor} is needed`,
        { data: { found: `${major}.${minor}` } },
      );
  }

  /** 64 hex digits, or null when there is no repository. */
  async repositoryId(signal: AbortSignal | undefined): Promise<string | null> {
    const answer = await this.#call(['cat', 'config', '--no-lock'], signal, { maxBytes: SMALL_BYTES });
    if (answer.exitCode === NO_REPOSITORY) return null;
    const id = fieldOf(this.#jsonOf(answer, 'the repository could not be opened'), 'id');
    if (typeof id !== 'string' || !ID.test(id)) throw this.#strange('its configuration has no id');
    return id;
  }

  async init(signal: AbortSignal): Promise<void> {
    this.#expectDone(await this.#call(['init'], signal), 'the repository could not be made');
  }

  async locks(signal: AbortSignal): Promise<readonly RepositoryLock[]> {
    const what = 'the locks of the repository could not be read';
    const listed = await this.#call(['list', 'locks', '--no-lock'], signal, { maxBytes: SMALL_BYTES });
    this.#expectDone(listed, what);
    const found: RepositoryLock[] = [];
    for (const id of listed.stdout
      .split('\n')
      .filter((line) => ID.test(line))
      .slice(0, MAX_LOCKS)) {
      const answer = await this.#call(['cat', 'lock', '--no-lock', id], signal, { maxBytes: SMALL_BYTES });
      // Let go since it was listed.
      if (answer.exitCode !== 0) continue;
      const lock = this.#jsonOf(answer, what);
      const [hostname, pid] = [fieldOf(lock, 'hostname'), fieldOf(lock, 'pid')];
      const [time, isExclusive] = [fieldOf(lock, 'time'), fieldOf(lock, 'exclusive')];
      found.push({
        hostname: typeof hostname === 'string' ? hostname : '',
        pid: typeof pid === 'number' ? pid : 0,
        // In doubt it stands in the way.
        isExclusive: isExclusive !== false,
        atMs: typeof time === 'string' ? Date.parse(time) || 0 : 0,
      });
    }
    return found;
  }

  /** Only those that restic itself holds for dead; never `--remove-all`. */
  async unlock(signal: AbortSignal): Promise<void> {
    this.#expectDone(await this.#call(['unlock'], signal), 'stale locks could not be removed');
  }

  /** Null when it is not there. Past the cache, which goes on giving a snapshot that somebody else has removed. */
  async snapshot(id: string, signal: AbortSignal | undefined): Promise<Snapshot | null> {
    const answer = await this.#call(['cat', 'snapshot', '--no-lock', '--no-cache', full(id)], signal);
    if (answer.exitCode === 0) return this.#snapshotOf(id, this.#parse(answer.stdout));
    // Whether it is gone or cannot be read its words do not tell, since each backend has its own.
    const listed = await this.#call(['list', 'snapshots', '--no-lock'], signal);
    this.#expectDone(listed, 'the snapshots could not be listed');
    if (!listed.stdout.split('\n').includes(id)) return null;
    this.#expectDone(answer, `the snapshot ${id} could not be read`);
    return null;
  }

  /** Those that Windlass made, here or elsewhere. */
  async snapshots(signal: AbortSignal | undefined): Promise<readonly Snapshot[]> {
    const answer = await this.#call(['snapshots', '--json', '--no-lock', '--tag', TAG], signal);
    const list = this.#jsonOf(answer, 'the snapshots could not be listed');
    if (!Array.isArray(list)) throw this.#strange('its list of snapshots is none');
    return list.map((one: unknown) => this.#snapshotOf(fieldOf(one, 'id'), one));
  }

  /** Bytes of the one file that a snapshot of ours holds. */
  async sizeOf(id: string, signal: AbortSignal): Promise<number> {
    const answer = await this.#call(['ls', '--json', '--no-lock', full(id)], signal);
    this.#expectDone(answer, `the snapshot ${id} is not there`);
    const lines = this.#lines(answer.stdout);
    const nodes = lines.filter((one) => fieldOf(one, 'message_type') === 'node');
    const sizeBytes = fieldOf(nodes[0], 'size');
    if (nodes.length !== 1 || fieldOf(nodes[0], 'path') !== `/${FILE}` || typeof sizeBytes !== 'number')
      throw this.#strange(`the snapshot ${id} is none of a payload`);
    return sizeBytes;
  }

  /** The id of the new snapshot. An error of the source is thrown on, after restic has been ended before it could see an end. */
  async backup(
    source: AsyncIterable<Uint8Array>,
    options: {
      readonly tags: readonly string[];
      readonly signal: AbortSignal;
      readonly onStart: (hostname: string, pid: number) => void;
    },
  ): Promise<string> {
    const { signal } = options;
    const tags = [TAG, ...options.tags].join(',');
    const child = await this.#spawn(
      ['backup', '--stdin', '--stdin-filename', FILE, '--host', TAG, '--tag', tags, '--json', '--quiet'],
      signal,
      options.onStart,
    );
    const said = collected(child.stdout, SMALL_BYTES);
    let isOver = false;
    try {
      for await (const chunk of source) {
        if (child.stdin.destroyed) break;
        if (!child.stdin.write(chunk)) await this.#within(child, drained(child.stdin), 'takes no more data');
      }
      if (signal.aborted) throw cancelled(signal);
      child.stdin.end();
      const { exitCode } = await this.#within(child, child.exited, 'does not end');
      isOver = true;
      if (signal.aborted) throw cancelled(signal);
      const answer = { exitCode, stdout: await said, stderr: child.stderr() };
      this.#expectDone(answer, 'the payload could not be stored');
      const summary = this.#lines(answer.stdout).find((one) => fieldOf(one, 'message_type') === 'summary');
      const id = fieldOf(summary, 'snapshot_id');
      if (typeof id !== 'string' || !ID.test(id)) throw this.#strange('it made a snapshot and did not say which');
      return id;
    } finally {
      // Its standard input is still open: what it has got so far never looks like all.
      if (!isOver) await child.kill();
    }
  }

  /** The one file of a snapshot, as it comes: whoever takes it compares its digest. */
  async *dump(snapshot: string, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
    const child = await this.#spawn(['dump', '--no-lock', full(snapshot), `/${FILE}`], signal);
    let isOver = false;
    try {
      child.stdin.end();
      const chunks = child.stdout[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
      for (;;) {
        const step = await this.#within(child, chunks.next(), 'gives no more data');
        if (step.done) break;
        yield step.value;
      }
      const { exitCode } = await this.#within(child, child.exited, 'does not end');
      isOver = true;
      if (signal?.aborted) throw cancelled(signal);
      this.#expectDone({ exitCode, stdout: '', stderr: child.stderr() }, `the snapshot ${snapshot} could not be read`);
    } finally {
      if (!isOver) await child.kill();
    }
  }

  async forget(snapshots: readonly string[], onStart: (hostname: string, pid: number) => void): Promise<void> {
    for (let at = 0; at < snapshots.length; at += FORGET_AT_ONCE) {
      const ids = snapshots.slice(at, at + FORGET_AT_ONCE).map(full);
      const answer = await this.#call(['forget', ...ids], undefined, { onStart });
      this.#expectDone(answer, 'snapshots could not be forgotten');
    }
  }

  /** Removes data that no snapshot needs. What is half needed is written anew a part at a time: it goes with a later call. */
  async prune(onStart: (hostname: string, pid: number) => void): Promise<void> {
    const args = ['prune', '--quiet', '--max-repack-size', '2G'];
    const answer = await this.#call(args, undefined, { deadlineMs: PRUNE_MS, onStart });
    this.#expectDone(answer, 'data that nobody needs could not be removed');
  }

  // --- parts

  async #call(
    args: readonly string[],
    signal: AbortSignal | undefined,
    options: {
      readonly deadlineMs?: number;
      readonly maxBytes?: number;
      readonly onStart?: (hostname: string, pid: number) => void;
    } = {},
  ): Promise<Answer> {
    const { onStart } = options;
    try {
      return await this.#options.programs.run({
        ...this.#input(args),
        signal,
        deadlineMs: options.deadlineMs ?? this.#options.callMs ?? CALL_MS,
        maxOutputBytes: options.maxBytes ?? ANSWER_BYTES,
        ...(onStart ? { onStart: (pid: number) => onStart(hostName(), pid) } : {}),
      });
    } catch (error) {
      throw faultOfProcess(error);
    }
  }

  async #spawn(
    args: readonly string[],
    signal: AbortSignal | undefined,
    onStart?: (hostname: string, pid: number) => void,
  ): Promise<StreamedChild> {
    try {
      return await this.#options.programs.spawnStream({
        ...this.#input(args),
        signal,
        ...(onStart ? { onStart: (pid: number) => onStart(hostName(), pid) } : {}),
      });
    } catch (error) {
      throw faultOfProcess(error);
    }
  }

  #input(args: readonly string[]) {
    const { program = 'restic', repository, passwordFile, cacheDirectory, environment } = this.#options;
    const env = cleanEnvironment({
      ...environment?.(),
      LANG: 'C.UTF-8',
      RESTIC_REPOSITORY: repository,
      RESTIC_PASSWORD_FILE: passwordFile,
      RESTIC_CACHE_DIR: cacheDirectory,
    });
    return { program, args, cwd: '/', env };
  }

  /**
   * Restic's own waiting only: what the other side of a stream takes its time for is no fault of it. A full disk it would try again for a
   * quarter of an hour, while services rest: that ends at once.
   */
  async #within<T>(child: StreamedChild, work: Promise<T>, what: string): Promise<T> {
    const stallMs = this.#options.stallMs ?? STALL_MS;
    const timers: NodeJS.Timeout[] = [];
    const given = new Promise<never>((_, reject) => {
      const late = () => new Fault('ARCHIVE_FAILED', `restic ${what} for ${stallMs / 1000} s and was ended`);
      const look = (): void => {
        const said = child.stderr();
        if (NO_SPACE.test(said)) reject(new Fault('ARCHIVE_NO_SPACE', lastLines(said).join('; ')));
      };
      timers.push(
        setTimeout(() => reject(late()), stallMs),
        setInterval(look, LOOK_MS),
      );
    });
    try {
      return await Promise.race([work, given]);
    } finally {
      for (const timer of timers) clearTimeout(timer);
    }
  }

  #snapshotOf(id: unknown, value: unknown): Snapshot {
    const [tree, tags] = [fieldOf(value, 'tree'), fieldOf(value, 'tags')];
    if (typeof id !== 'string' || !ID.test(id) || typeof tree !== 'string' || !ID.test(tree))
      throw this.#strange('a snapshot has no id or tree');
    return { id, tree, tags: Array.isArray(tags) ? tags.filter((tag) => typeof tag === 'string') : [] };
  }

  #jsonOf(answer: Answer, what: string): unknown {
    this.#expectDone(answer, what);
    return this.#parse(answer.stdout);
  }

  #lines(text: string): readonly unknown[] {
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => this.#parse(line));
  }

  #parse(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      throw this.#strange('it printed no JSON');
    }
  }

  #strange(what: string): Fault {
    return new Fault('ARCHIVE_FAILED', `restic gave an answer that is not understood: ${what}`);
  }

  #expectDone({ exitCode, stderr }: Answer, what: string): void {
    if (exitCode === 0) return;
    const { repository, passwordFile } = this.#options;
    const words = lastLines(stderr);
    const data = { exitCode, complaints: words };
    if (exitCode === NO_REPOSITORY)
      throw new Fault('REPOSITORY_REFUSED', `there is no restic repository at ${repository}`, { data });
    if (exitCode === WRONG_PASSWORD)
      throw new Fault('REPOSITORY_REFUSED', `the password in ${passwordFile} does not open the restic repository`, {
        data,
      });
    const said = words.length === 0 ? `restic ended with exit code ${exitCode}` : words.join('; ');
    if (exitCode === LOCKED) throw new Fault('REPOSITORY_LOCKED', `${what}: ${said}`, { data });
    const code = NO_SPACE.test(stderr)
      ? 'ARCHIVE_NO_SPACE'
      : DAMAGED.test(stderr)
        ? 'ARCHIVE_DAMAGED'
        : 'ARCHIVE_FAILED';
    throw new Fault(code, `${what}: ${said}`, { data });
  }
}

const NO_REPOSITORY = 10;
const LOCKED = 11;
const WRONG_PASSWORD = 12;
const NO_SPACE = /no space left on device|disk quota exceeded/i;
/** What restic says of bytes that are not those that were stored; a backend that does not answer is something else. */
const DAMAGED =
  /ciphertext verification failed|wrong hash|hash mismatch|invalid data returned|not found in (?:repository|index)|does not match|unexpected EOF|is (?:truncated|damaged)|file does not exist|no such file or directory|invalid encrypted data/i;

function full(id: string): string {
  if (!ID.test(id)) throw new Error(`a snapshot is named by 64 hex digits, not ${JSON.stringify(id)}`);
  return id;
}

const fieldOf = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;

const lastLines = (stderr: string): string[] =>
  stderr
    .split('\n')
    .map(wordsOf)
    .filter((line) => line !== '')
    .slice(-3)
    .map((line) => line.slice(0, 300));

/** With `--json` its complaints are JSON too. */
function wordsOf(line: string): string {
  if (!line.startsWith('{')) return line.trim();
  try {
    const value: unknown = JSON.parse(line);
    const message = fieldOf(fieldOf(value, 'error'), 'message') ?? fieldOf(value, 'message');
    return typeof message === 'string' ? message.trim() : line;
  } catch {
    return line;
  }
}

export const cancelled = (signal: AbortSignal): Fault =>
  new Fault('CANCELLED', 'restic was called off', { cause: signal.reason });

function faultOfProcess(error: unknown): unknown {
  if (!(error instanceof ProcessError)) return error;
  if (error.kind === 'missing' || error.kind === 'refused')
    return new Fault('RESTIC_UNFIT', `restic cannot be started: ${error.message}`, { cause: error });
  if (error.kind === 'cancelled') return new Fault('CANCELLED', 'restic was called off', { cause: error });
  const said = lastLines(error.stderr);
  return new Fault('ARCHIVE_FAILED', [error.message, ...said].join('; '), { cause: error });
}

/** Until it takes more, or is gone. */
function drained(stdin: Writable): Promise<void> {
  if (!stdin.writableNeedDrain || stdin.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const go = (): void => {
      stdin.off('drain', go).off('close', go);
      resolve();
    };
    stdin.on('drain', go).on('close', go);
  });
}

/** What is more than `maxBytes` is read and thrown away: then the answer is not understood. */
async function collected(stdout: Readable, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  try {
    for await (const chunk of stdout as AsyncIterable<Buffer>) {
      sizeBytes += chunk.length;
      if (sizeBytes <= maxBytes) chunks.push(chunk);
    }
  } catch {
    // Its exit code tells.
  }
  return Buffer.concat(chunks).toString('utf8');
}
