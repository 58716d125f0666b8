// Restic repository: blobs as snapshots of one stream each. What is put is found again before it counts; what is read is compared with the
// digest that its archive names. Of a repository that is not the one of before nothing is believed, and only what has a trace is removed.
import { createHash } from 'node:crypto';
import { readFileSync, type Stats, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BlobRef } from '../../core/archive/manifest.ts';
import type { InRepository } from '../../core/archive/payload.ts';
import { Fault } from '../../core/fault.ts';
import { parseDotenv } from '../../core/spec/dotenv.ts';
import type { BlobRepository, BlobWriter, PutBlob } from '../../ports/blob-repository.ts';
import { asArchiveFault } from '../archive/archive-fault.ts';
import { type HeldLock, tryLock } from '../archive/store-lock.ts';
import { cancelled, type RepositoryLock, Restic, type ResticOptions } from './restic.ts';
import { Traces } from './traces.ts';

export interface ResticRepositoryOptions extends Omit<ResticOptions, 'environment'> {
  /** NAME=value lines for the backend. */
  readonly environmentFile?: string;
  readonly redactor: { add(value: string): void };
  /** Of the traces; goes where the archives go that name what is in the repository. */
  readonly directory: string;
  readonly nowMs?: () => number;
  /** How long a writer waits for the one before it. Default 6 h: nothing is at rest meanwhile. */
  readonly turnMs?: number;
}

const TURN_MS = 6 * 3600_000;
/** Who collects comes again; nobody waits for it. */
const COLLECT_TURN_MS = 60_000;
const POLL_MS = 200;
/** Restic renews a lock every 5 min, and takes one for dead after this. */
const DEAD_LOCK_MS = 30 * 60_000;
const MAX_PASSWORD_BYTES = 4 * 1024;
const MAX_ENVIRONMENT_BYTES = 64 * 1024;

export class ResticRepository implements BlobRepository {
  readonly #options: ResticRepositoryOptions;
  readonly #restic: Restic;
  readonly #traces: Traces;
  /** Snapshot → its mark, of what was put here and not named yet. */
  readonly #fresh = new Map<string, string>();

  constructor(options: ResticRepositoryOptions) {
    this.#options = options;
    const { environmentFile, redactor } = options;
    this.#restic = new Restic({
      ...options,
      ...(environmentFile === undefined ? {} : { environment: () => readEnvironment(environmentFile, redactor) }),
    });
    this.#traces = new Traces(options.directory);
  }

  async open(signal: AbortSignal): Promise<BlobWriter> {
    const { lock, repository } = await this.#begin(signal, 'to add');
    let isClosed = false;
    return {
      put: (source, options) => {
        if (isClosed) throw new Error('a blob is put after its writer was closed');
        return this.#put(repository, source, options);
      },
      close: () => {
        if (!isClosed) lock.release();
        isClosed = true;
      },
    };
  }

  async look(signal: AbortSignal): Promise<string | null> {
    await this.#ready(signal);
    const id = await this.#restic.repositoryId(signal);
    await this.#refuseAnother(id);
    return id;
  }

  async holds(place: InRepository, signal?: AbortSignal): Promise<boolean> {
    if (this.#fresh.has(place.snapshot)) return true;
    await this.#ready(signal);
    return (await this.#restic.snapshot(place.snapshot, signal))?.tree === place.tree;
  }

  async *read(place: InRepository, blob: BlobRef, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const data = { snapshot: place.snapshot, digest: blob.digest };
    await this.#ready(signal);
    const snapshot = await this.#restic.snapshot(place.snapshot, signal);
    if (snapshot === null) {
      const here = await this.#restic.repositoryId(signal);
      const why =
        here === place.repository
          ? `the restic repository no longer holds the snapshot ${place.snapshot}`
          : `the snapshot ${place.snapshot} lies in the restic repository ${place.repository}, and this one is ${here ?? 'gone'}`;
      throw new Fault('ARCHIVE_MISSING', why, { data });
    }
    const damaged = (what: string) => new Fault('ARCHIVE_DAMAGED', `the snapshot ${place.snapshot} ${what}`, { data });
    if (snapshot.tree !== place.tree) throw damaged('holds another tree than its archive names');
    const hash = createHash('sha256');
    let sizeBytes = 0;
    for await (const chunk of this.#restic.dump(place.snapshot, signal)) {
      sizeBytes += chunk.length;
      if (sizeBytes > blob.sizeBytes)
        throw damaged(`gives more than the ${blob.sizeBytes} bytes that its archive names`);
      hash.update(chunk);
      yield chunk;
    }
    if (sizeBytes !== blob.sizeBytes || hash.digest('hex') !== blob.digest)
      throw damaged('is not what its digest says');
  }

  async named(places: readonly InRepository[]): Promise<void> {
    for (const { snapshot } of places) {
      const mark = this.#fresh.get(snapshot);
      if (mark === undefined) continue;
      await this.#traces.end(mark);
      this.#fresh.delete(snapshot);
    }
  }

  async unneeded(places: readonly InRepository[]): Promise<void> {
    for (const { snapshot } of places) await this.#traces.putUnneeded(snapshot);
  }

  async collect(named: () => Promise<ReadonlySet<string>>): Promise<number> {
    if ((await this.#traces.begun()).length + (await this.#traces.unneeded()).length === 0) return 0;
    const { lock } = await this.#begin(new AbortController().signal, 'alone');
    try {
      // Whoever began them is gone: a writer that lives holds the lock until its manifest is stored.
      const begun = await this.#traces.begun();
      const unneeded = new Set(await this.#traces.unneeded());
      const needed = await named();
      const marks = new Set(begun.map(tagOf));
      const isDoomed = ({ id, tags }: { id: string; tags: readonly string[] }): boolean =>
        !needed.has(id) && (unneeded.has(id) || tags.some((tag) => marks.has(tag)));
      const doomed = (await this.#restic.snapshots(undefined)).filter(isDoomed).map(({ id }) => id);
      const mark = await this.#traces.begin();
      const onStart = (host: string, pid: number): void => this.#traces.note(mark, host, pid);
      await this.#restic.forget(doomed, onStart);
      await this.#restic.prune(onStart);
      const left = new Set((await this.#restic.snapshots(undefined)).map(({ id }) => id));
      const kept = doomed.filter((id) => left.has(id));
      if (kept.length > 0)
        throw new Fault('ARCHIVE_FAILED', `restic did not forget ${kept.length} snapshots although it said so`, {
          data: { snapshots: kept.slice(0, 20) },
        });
      for (const one of [...begun, mark]) await this.#traces.end(one);
      for (const one of unneeded) await this.#traces.dropUnneeded(one);
      return doomed.length;
    } finally {
      lock.release();
    }
  }

  // --- parts

  async #put(
    repository: string,
    source: AsyncIterable<Uint8Array>,
    { stack, signal }: Parameters<BlobWriter['put']>[1],
  ): Promise<PutBlob> {
    const mark = await this.#traces.begin().catch((error: unknown) => {
      throw asArchiveFault(error, 'a payload could not be begun');
    });
    const hash = createHash('sha256');
    let sizeBytes = 0;
    async function* measured(): AsyncGenerator<Uint8Array> {
      for await (const chunk of source) {
        hash.update(chunk);
        sizeBytes += chunk.length;
        yield chunk;
      }
    }
    const id = await this.#restic.backup(measured(), {
      tags: [tagOf(mark), `stack=${stack}`],
      signal,
      onStart: (host, pid) => this.#traces.note(mark, host, pid),
    });
    const found = await this.#restic.snapshot(id, signal);
    const foundBytes = found === null ? null : await this.#restic.sizeOf(id, signal);
    if (found === null || foundBytes !== sizeBytes || !found.tags.includes(tagOf(mark)))
      throw new Fault(
        'ARCHIVE_FAILED',
        `restic said that it stored ${sizeBytes} bytes, and ${foundBytes ?? 'none'} are there`,
      );
    this.#fresh.set(id, mark);
    return {
      blob: { digest: hash.digest('hex'), sizeBytes },
      restic: { repository, snapshot: id, tree: found.tree },
    };
  }

  async #begin(signal: AbortSignal, what: 'to add' | 'alone'): Promise<{ lock: HeldLock; repository: string }> {
    await this.#ready(signal);
    const { turnMs = TURN_MS } = this.#options;
    const lock = await this.#turn(signal, what === 'alone' ? Math.min(turnMs, COLLECT_TURN_MS) : turnMs);
    try {
      const repository = await this.#identify(signal);
      await this.#clearLocks(signal, what);
      return { lock, repository };
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  async #ready(signal: AbortSignal | undefined): Promise<void> {
    checkPrivate(this.#options.passwordFile, 'the password file of the restic repository', MAX_PASSWORD_BYTES);
    await this.#restic.checkVersion(signal);
  }

  async #turn(signal: AbortSignal, turnMs: number): Promise<HeldLock> {
    const endMs = performance.now() + turnMs;
    try {
      for (;;) {
        if (signal.aborted) throw cancelled(signal);
        const lock = tryLock(this.#traces.lockPath());
        if (lock !== null) return lock;
        if (performance.now() > endMs)
          throw new Fault('LOCK_HELD', `another writer has held the restic repository for ${turnMs / 1000} s`);
        await sleep(POLL_MS * (0.5 + Math.random()));
      }
    } catch (error) {
      throw asArchiveFault(error, 'the turn in the restic repository could not be taken');
    }
  }

  /** The repository of before, or a new one when there never was one: an empty mount point must not begin another. */
  async #identify(signal: AbortSignal): Promise<string> {
    const { repository } = this.#options;
    let id = await this.#restic.repositoryId(signal);
    const before = await this.#refuseAnother(id);
    if (id === null) {
      await this.#restic.init(signal);
      id = await this.#restic.repositoryId(signal);
    }
    if (id === null) throw new Fault('ARCHIVE_FAILED', `restic made a repository at ${repository}, and there is none`);
    if (before === null) await this.#traces.putRepository(id);
    return id;
  }

  /** The one of before; null = there never was one. */
  async #refuseAnother(id: string | null): Promise<string | null> {
    const before = await this.#traces.repository();
    if (before === null || id === before) return before;
    const now = id === null ? 'there is none' : `there is ${id}`;
    throw new Fault(
      'REPOSITORY_REFUSED',
      `at ${this.#options.repository} was the restic repository ${before}, and now ${now}: bring it back, or remove ${this.#traces.repositoryPath} to begin with another one`,
      { data: { expected: before, found: id } },
    );
  }

  /** Locks of our own dead processes are removed; those of others stand, and are named when they are in the way. */
  async #clearLocks(signal: AbortSignal, what: 'to add' | 'alone'): Promise<void> {
    const isInTheWay = (lock: RepositoryLock): boolean => what === 'alone' || lock.isExclusive;
    const locks = (await this.#restic.locks(signal)).filter(isInTheWay);
    if (locks.length === 0) return;
    const ours = await this.#traces.processes();
    const nowMs = this.#options.nowMs?.() ?? Date.now();
    const isDeadOwn = ({ hostname: host, pid, atMs }: RepositoryLock): boolean =>
      host === hostname()
        ? !isRunning(pid) || nowMs - atMs > DEAD_LOCK_MS
        : ours.has(`${host} ${pid}`) && nowMs - atMs > DEAD_LOCK_MS;
    const [stands] = locks.filter((lock) => !isDeadOwn(lock));
    if (stands === undefined) {
      await this.#restic.unlock(signal);
      return;
    }
    throw new Fault(
      'REPOSITORY_LOCKED',
      `the restic repository is locked by process ${stands.pid} on ${stands.hostname} since ${new Date(stands.atMs).toISOString()}`,
      { data: { hostname: stands.hostname, pid: stands.pid } },
    );
  }
}

/** Restic reads its password itself; here only what would make its words hard to understand, or the file public. */
function checkPrivate(path: string, what: string, maxBytes: number): void {
  const refuse = (why: string) => new Fault('REPOSITORY_REFUSED', `${what}, ${path}, ${why}`, { data: { path } });
  let facts: Stats;
  try {
    facts = statSync(path);
  } catch (error) {
    throw refuse(`cannot be looked at: ${(error as NodeJS.ErrnoException).code}`);
  }
  if (!facts.isFile()) throw refuse('is no file');
  if (facts.size === 0) throw refuse('is empty');
  if (facts.size > maxBytes) throw refuse('is too large');
  if ((facts.mode & 0o077) !== 0)
    throw refuse(`may be read by others (mode ${(facts.mode & 0o777).toString(8)}): chmod 600 it`);
}

/** Only what a backend reads: nothing that changes what restic does. */
const BACKEND_NAME = /^(?:AWS|B2|AZURE|GOOGLE|OS|ST|RCLONE|RESTIC_REST)_[A-Z0-9_]+$/;

function readEnvironment(path: string, redactor: { add(value: string): void }): Readonly<Record<string, string>> {
  const what = 'the environment file of the restic repository';
  checkPrivate(path, what, MAX_ENVIRONMENT_BYTES);
  const values = parseDotenv(readFileSync(path, 'utf8'));
  for (const [name, value] of Object.entries(values)) {
    if (!BACKEND_NAME.test(name))
      throw new Fault('REPOSITORY_REFUSED', `${what}, ${path}, sets ${name}, which no backend reads`, {
        data: { path, name },
      });
    redactor.add(value);
  }
  return values;
}

const tagOf = (mark: string): string => `run=${mark}`;

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
