// The git side of the port Source: one bare mirror of one ref. The git client fetches, because it streams packs to disk
// and checks them; isomorphic-git stands in for http(s) where there is no client. Whatever a fetch brings becomes the
// tip only after it was looked at; a fetch that fails changes nothing.
import { Fault } from '../../core/fault.ts';
import type { Listing } from '../../core/state/listing.ts';
import type { Clock } from '../../ports/clock.ts';
import type { CommitFacts, SignedObject, Source, SourceSpec } from '../../ports/source.ts';
import { ProcessError, type Programs, type RunOutput, run, spawnStream } from '../process/run.ts';
import { CatFileReader } from './cat-file-reader.ts';
import { parseCommitFacts } from './commit-reader.ts';
import {
  type Credentials,
  fetchArguments,
  fetchEnvironment,
  gitEnvironment,
  listBranchesArguments,
  mirrorArguments,
  networkEnvironment,
  writeGlobalConfig,
} from './git-command.ts';
import { faultOfFetch, faultOfProcess, isLockTrouble, isNothingTaken } from './git-fault.ts';
import { fetchInProcess } from './in-process-fetch.ts';
import { InProcessReader } from './in-process-reader.ts';
import { FETCHED_REF, Mirror, PINS, PREVIOUS_REF, TIP_REF } from './mirror.ts';
import { isOid, type ObjectReader, requireOid } from './object-reader.ts';
import { type PackWatch, watchPacks } from './pack-watch.ts';
import { findRepository, readRef, removeLooseRef, writeRef } from './ref-files.ts';
import { SharedCall } from './shared-call.ts';
import { parseAddress, parseRef, type SourceAddress } from './source-address.ts';
import { TreeReader } from './tree-reader.ts';

export type { Credentials } from './git-command.ts';

export interface SourceLimits {
  /** What one fetch may bring in. */
  readonly fetchBytes: number;
  readonly fetchMs: number;
  /** The largest blob that is ever read. */
  readonly blobBytes: number;
}

export const DEFAULT_SOURCE_LIMITS: SourceLimits = {
  fetchBytes: 1024 * 1024 * 1024,
  fetchMs: 5 * 60_000,
  blobBytes: 50 * 1024 * 1024,
};

export interface SourceOptions {
  readonly spec: SourceSpec;
  /** A folder of this source alone, absolute. Made when it is not there. */
  readonly mirrorDir: string;
  readonly clock: Clock;
  readonly limits?: SourceLimits;
  /** Asked at each fetch, so that a changed credential needs no restart. */
  readonly credentials?: () => Promise<Credentials>;
  readonly programs?: Programs;
  /** Also bring the tags below `refs/tags/windlass/`, which may carry statements. Default: no. */
  readonly tags?: boolean;
  /** Proxy and certificate variables for http(s). Default: those of this process. */
  readonly network?: Readonly<Record<string, string>>;
  /** `none` does as if there were no git client. Default: look. */
  readonly client?: 'look' | 'none';
}

const MAX_COMMIT_BYTES = 8 * 1024 * 1024;
const MAX_TAG_LINKS = 5;
const TAG_REFS = 'refs/windlass/tags/';
const TAG_REFSPEC = `+refs/tags/windlass/*:${TAG_REFS}*`;
const MOST_TAGS = 10_000;
const MOST_OUTPUT_BYTES = 64 * 1024 * 1024;
const LOCK_TRIES = 6;
/** Ancestors looked at in process before git is asked: a push is rarely more than a handful of commits ahead. */
const NEAR_COMMITS = 300;
const ALL_COMMITS = 500_000;
const REMEMBERED_LISTINGS = 4;
/** Every fetch leaves a pack. */
const MANY_PACKS = 50;
const UPKEEP_MS = 15 * 60_000;
const PIN_NAME = /^(?!.*\.\.)(?!.*\.lock$)[A-Za-z0-9_][A-Za-z0-9._-]{0,199}(?<!\.)$/;

/** Throws USAGE at once for an address or ref that may not be used; touches the disk at the first call only. */
export function openSource(options: SourceOptions): Source {
  const address = parseAddress(options.spec.url);
  // A clone that CI has checked out has no branch; of another machine HEAD is never asked for.
  const isHead = options.spec.ref === 'HEAD' && address.kind === 'local';
  return new GitSource(options, address, isHead ? 'HEAD' : parseRef(options.spec.ref));
}

class GitSource implements Source {
  readonly spec: SourceSpec;
  readonly #options: SourceOptions;
  readonly #address: SourceAddress;
  readonly #ref: string;
  readonly #limits: SourceLimits;
  readonly #programs: Programs;
  readonly #mirror: Mirror;
  readonly #fetches = new SharedCall((signal) => this.#fetchOnce(signal));
  readonly #listings = new Map<string, Listing>();
  readonly #commits = new Map<string, CommitFacts>();
  readonly #closing = new AbortController();
  #ready: Promise<Opened> | null = null;
  /** A ref may name a tag: what it held, and the commit that came of it. */
  #accepted: { readonly raw: string; readonly tip: string } | null = null;
  #listing: Promise<unknown> = Promise.resolve();
  #upkeep: Promise<unknown> = Promise.resolve();
  #isTidying = false;

  constructor(options: SourceOptions, address: SourceAddress, ref: string) {
    this.spec = options.spec;
    this.#options = options;
    this.#address = address;
    this.#ref = ref;
    this.#limits = options.limits ?? DEFAULT_SOURCE_LIMITS;
    this.#programs = options.programs ?? { run, spawnStream };
    this.#mirror = new Mirror(options.mirrorDir, options.clock);
  }

  async fetch(signal?: AbortSignal): Promise<string> {
    try {
      return await this.#fetches.call(signal);
    } catch (error) {
      if (signal?.aborted && !(error instanceof Fault)) {
        throw new Fault('CANCELLED', `${this.spec.name}: the fetch was called off`, { cause: error });
      }
      throw error;
    }
  }

  async tip(): Promise<string | null> {
    await this.#open();
    return this.#ownRef(TIP_REF);
  }

  async commit(id: string): Promise<CommitFacts> {
    const known = this.#commits.get(id);
    if (known !== undefined) return known;
    const facts = await this.#readCommit(requireOid(id));
    if (this.#commits.size > 1_000) this.#commits.clear();
    this.#commits.set(id, facts);
    return facts;
  }

  async descends(descendant: string, ancestor: string): Promise<boolean> {
    if (requireOid(descendant) === requireOid(ancestor)) return true;
    const { hasClient } = await this.#open();
    const near = await this.#walkTo(descendant, ancestor, hasClient ? NEAR_COMMITS : ALL_COMMITS);
    if (near !== 'unknown') return near;
    if (!hasClient) throw new Fault('GIT_TOO_LARGE', `the history of ${descendant} is too long to be walked`);
    return this.#askDescends(descendant, ancestor);
  }

  async list(commit: string): Promise<Listing> {
    const known = this.#listings.get(commit);
    if (known !== undefined) return known;
    // One after the other: two at once would load the same trees twice, and the first one's trim would take them away.
    const turn = this.#listing.then(
      () => this.#list(commit),
      () => this.#list(commit),
    );
    this.#listing = turn.catch(() => {});
    return turn;
  }

  async blob(oid: string, maxBytes: number): Promise<Uint8Array> {
    const { reader } = await this.#open();
    const { type, bytes } = await reader.read(requireOid(oid), Math.min(maxBytes, this.#limits.blobBytes));
    if (type !== 'blob') throw new Fault('GIT_REFUSED', `${oid} is a ${type}, not a file`, { data: { oid } });
    return bytes;
  }

  async object(oid: string): Promise<SignedObject> {
    const { reader } = await this.#open();
    const { type, bytes } = await reader.read(requireOid(oid), MAX_COMMIT_BYTES);
    if (type !== 'commit' && type !== 'tag')
      throw new Fault('GIT_REFUSED', `${oid} is a ${type}, not a commit or tag`, { data: { oid } });
    return { oid, type, bytes };
  }

  async commitsSince(tip: string, without: string | null, most: number): Promise<readonly string[]> {
    const { hasClient } = await this.#open();
    const tooMany = () =>
      new Fault('GIT_TOO_LARGE', `${this.spec.name}: more than ${most} commits came at once`, { data: { tip } });
    if (!hasClient) {
      const seen = new Set([requireOid(tip)]);
      for (const id of seen) {
        if (seen.size > most) throw tooMany();
        if (id !== without) for (const parent of await this.#parents(id)) seen.add(parent);
      }
      if (without !== null) seen.delete(without);
      return [...seen];
    }
    const range = [requireOid(tip), ...(without === null ? [] : [`^${requireOid(without)}`])];
    const listed = await this.#ask(['rev-list', `--max-count=${most + 1}`, ...range, '--']);
    if (listed.length > most) throw tooMany();
    return listed.filter(isOid);
  }

  async tags(): Promise<readonly string[]> {
    const { hasClient } = await this.#open();
    if (this.#options.tags !== true) return [];
    // A rejection may stand in any of them: some of them are as good as none.
    if (!hasClient)
      throw new Fault(
        'GIT_UNREACHABLE',
        `${this.spec.name}: install git (2.29 or newer) to fetch the tags of statements`,
      );
    const format = '--format=%(objecttype) %(objectname)';
    const listed = await this.#ask(['for-each-ref', `--count=${MOST_TAGS + 1}`, format, '--', TAG_REFS]);
    if (listed.length > MOST_TAGS)
      throw new Fault(
        'GIT_TOO_LARGE',
        `${this.spec.name}: there are more than ${MOST_TAGS} tags below refs/tags/windlass/; remove those that are done`,
      );
    return listed.flatMap((line) => /^tag ([0-9a-f]{40})$/.exec(line)?.[1] ?? []);
  }

  async pin(keep: string, commit: string): Promise<void> {
    if (!PIN_NAME.test(keep)) throw new Error(`${JSON.stringify(keep)} is not a name for a pin`);
    await this.commit(commit);
    await writeRef(this.#mirror.dir, `${PINS}/${keep}`, commit);
  }

  async close(): Promise<void> {
    this.#closing.abort(new Error('the source is closed'));
    await this.#fetches.stop(this.#closing.signal.reason);
    await this.#upkeep;
    const opened = await this.#ready?.catch(() => null);
    await opened?.reader.close();
    await this.#mirror.close();
  }

  // --- opening

  #open(): Promise<Opened> {
    if (this.#closing.signal.aborted) return Promise.reject(new Error(`the source ${this.spec.name} is closed`));
    this.#ready ??= this.#openOnce().catch((error: unknown) => {
      this.#ready = null;
      if (error instanceof Fault) throw error;
      const message = error instanceof Error ? error.message : String(error);
      throw new Fault('FILES_FAILED', `the mirror of ${this.spec.name} cannot be opened: ${message}`, { cause: error });
    });
    return this.#ready;
  }

  async #openOnce(): Promise<Opened> {
    const { dir } = this.#mirror;
    const address = this.#address.kind === 'local' ? this.#address.path : this.#address.url;
    await this.#mirror.open(`${address}\n${this.#ref}\n`);
    const hasClient = this.#options.client !== 'none' && (await this.#findClient());
    if (hasClient) await writeGlobalConfig(dir, this.#address);
    const reader: ObjectReader = hasClient ? new CatFileReader(dir, this.#programs) : new InProcessReader(dir);
    return { hasClient, reader, trees: new TreeReader(reader) };
  }

  async #findClient(): Promise<boolean> {
    try {
      const { stdout } = await this.#programs.run({
        program: 'git',
        args: ['--version'],
        cwd: this.#mirror.dir,
        env: gitEnvironment(this.#mirror.dir),
        deadlineMs: 20_000,
      });
      const [, major = '0', minor = '0'] = /(\d+)\.(\d+)/.exec(stdout) ?? [];
      // Older ones do not know all the options that keep a fetch harmless.
      return Number(major) * 1_000 + Number(minor) >= 2_029;
    } catch (error) {
      if (error instanceof ProcessError && (error.kind === 'missing' || error.kind === 'refused')) return false;
      throw faultOfProcess(this.spec.name, error);
    }
  }

  // --- fetching

  async #fetchOnce(signal: AbortSignal): Promise<string> {
    const opened = await this.#open();
    const tip = await this.#ownRef(TIP_REF);
    // A tag may come without a commit.
    const isQuick = this.#address.kind === 'local' && this.#options.tags !== true;
    if (tip !== null && isQuick && this.#isAccepted(await this.#sourceRef(), tip)) return tip;
    const { fetchMs } = this.#limits;
    const stop = AbortSignal.any([signal, this.#closing.signal]);
    const fetched = opened.hasClient
      ? await this.#fetchByClient(stop)
      : await this.#fetchInProcess(AbortSignal.any([stop, deadline(this.spec.name, fetchMs)]));
    if (tip !== null && this.#isAccepted(fetched, tip)) return tip;
    const accepted = await this.#accept(fetched, tip);
    this.#accepted = { raw: fetched, tip: accepted };
    return accepted;
  }

  /**
   * Is `raw`, what the source's ref holds, what became `tip`? It is judged by the tip and not by what was fetched last:
   * a crash may come between the two.
   */
  #isAccepted(raw: string | null, tip: string): boolean {
    return raw === tip || (raw !== null && raw === this.#accepted?.raw && tip === this.#accepted.tip);
  }

  /** For a repository on this machine the ref is read in process: a poll costs nothing. Null when git must be asked. */
  async #sourceRef(): Promise<string | null> {
    if (this.#address.kind !== 'local' || this.#ref === 'HEAD') return null;
    const repository = await findRepository(this.#address.path);
    const oid = repository === null ? null : await readRef(repository, this.#ref);
    return oid === 'unknown' ? null : oid;
  }

  async #fetchByClient(signal: AbortSignal): Promise<string> {
    const known = await this.#ownRef(FETCHED_REF);
    const tooLarge = new AbortController();
    const { fetchBytes } = this.#limits;
    // The packs of who tidies up beside us came in since the start too, and hold everything.
    const isAlone = !this.#isTidying;
    const watch = await watchPacks(this.#mirror.dir, fetchBytes, () => tooLarge.abort(this.#tooLarge()));
    try {
      await this.#runFetch(AbortSignal.any([signal, tooLarge.signal]));
      if ((await watch.sizeBytes()) > fetchBytes) tooLarge.abort(this.#tooLarge());
      tooLarge.signal.throwIfAborted();
      const fetched = await this.#ownRef(FETCHED_REF);
      if (fetched === null) throw new Fault('GIT_REF_MISSING', `${this.spec.name}: nothing was fetched`);
      await this.#mindPacks(watch);
      return fetched;
    } catch (error) {
      // What tidies up beside us has half-written files too.
      if (isAlone) await this.#mirror.clearFetch();
      if (tooLarge.signal.aborted) {
        // git may have been through with the pack, and with the ref, when it was told to end.
        await this.#undoFetch(known);
        if (isAlone) await watch.discard();
        if (!signal.aborted) throw this.#tooLarge();
      }
      throw faultOfProcess(this.spec.name, error);
    } finally {
      watch.stop();
    }
  }

  async #runFetch(signal: AbortSignal): Promise<void> {
    const { dir } = this.#mirror;
    const { name } = this.spec;
    const credentials = (await this.#options.credentials?.()) ?? {};
    const env = fetchEnvironment(dir, this.#address, credentials, this.#options.network ?? networkEnvironment());
    const until = performance.now() + this.#limits.fetchMs;
    for (let tries = 1; ; tries += 1) {
      const { exitCode, stderr } = await this.#programs.run({
        program: 'git',
        args: fetchArguments(dir, this.#address, this.#ref, FETCHED_REF, this.#options.tags ? [TAG_REFSPEC] : []),
        cwd: dir,
        env,
        deadlineMs: Math.max(1, until - performance.now()),
        signal,
        onStart: (pid) => void this.#mirror.noteChild(pid).catch(() => {}),
      });
      // From a shallow repository git takes nothing, and says so with exit code 0.
      if (exitCode === 0 && !isNothingTaken(stderr)) return;
      if (isLockTrouble(stderr) && tries < LOCK_TRIES) {
        await this.#options.clock.sleep(tries * 50, signal);
        continue;
      }
      const fault = faultOfFetch(name, stderr);
      throw fault.code === 'GIT_REF_MISSING' ? await this.#refMissing(env, signal) : fault;
    }
  }

  async #refMissing(env: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Fault> {
    const { dir } = this.#mirror;
    const args = listBranchesArguments(dir, this.#address);
    const listed = await this.#programs
      .run({ program: 'git', args, cwd: dir, env, deadlineMs: 20_000, maxOutputBytes: 1024 * 1024, signal })
      .catch(() => null);
    const branches = (listed?.exitCode === 0 ? listed.stdout : '')
      .split('\n')
      .flatMap((line) => /\trefs\/heads\/([\x21-\x7e]{1,100})$/.exec(line)?.[1] ?? [])
      .slice(0, 10);
    const there =
      branches.length > 0 ? `it has ${branches.join(', ')}` : listed?.exitCode === 0 ? 'it has no branches' : '';
    const summary = `${this.spec.name}: the source has no ${this.#ref}${there === '' ? '' : `; ${there}`}`;
    return new Fault('GIT_REF_MISSING', summary, { data: { source: this.spec.name, ref: this.#ref, branches } });
  }

  async #fetchInProcess(signal: AbortSignal): Promise<string> {
    const known = await this.#ownRef(FETCHED_REF);
    if (this.#address.kind !== 'http') {
      throw new Fault(
        'GIT_UNREACHABLE',
        `${this.spec.name}: install git (2.29 or newer) to fetch over ${this.#address.kind}`,
      );
    }
    const fetched = await fetchInProcess({
      source: this.spec.name,
      mirrorDir: this.#mirror.dir,
      url: this.#address.url,
      ref: this.#ref,
      known: { ref: FETCHED_REF, oid: known },
      credentials: (await this.#options.credentials?.()) ?? {},
      maxBytes: this.#limits.fetchBytes,
      signal,
    });
    const opened = await this.#open();
    await opened.reader.close();
    if (fetched !== known) await writeRef(this.#mirror.dir, FETCHED_REF, fetched);
    return fetched;
  }

  /** Looks at what was fetched; only then it is the tip. */
  async #accept(fetched: string, before: string | null): Promise<string> {
    const { reader } = await this.#open();
    let oid = fetched;
    for (let links = 0; ; links += 1) {
      const read = await reader.read(oid, MAX_COMMIT_BYTES).catch(async (error: unknown) => {
        // Of a commit that is too large the header is enough; anything else refuses.
        if (error instanceof Fault && error.code === 'GIT_TOO_LARGE') await this.#largeCommit(oid, error);
        else throw error;
      });
      if (!read || read.type === 'commit') break;
      const { type, bytes } = read;
      const target = /^object ([0-9a-f]{40})\n/.exec(Buffer.from(bytes).toString('latin1', 0, 60))?.[1];
      if (type !== 'tag' || target === undefined || links >= MAX_TAG_LINKS) {
        throw new Fault('GIT_REFUSED', `${this.spec.name}: ${this.#ref} names a ${type}, not a commit`);
      }
      oid = target;
    }
    if (oid === before) return oid;
    if (before !== null) await writeRef(this.#mirror.dir, PREVIOUS_REF, before);
    await writeRef(this.#mirror.dir, TIP_REF, oid);
    return oid;
  }

  async #undoFetch(known: string | null): Promise<void> {
    if (known !== null) await writeRef(this.#mirror.dir, FETCHED_REF, known);
    else await removeLooseRef(this.#mirror.dir, FETCHED_REF);
  }

  #tooLarge(): Fault {
    const { fetchBytes } = this.#limits;
    return new Fault('GIT_TOO_LARGE', `${this.spec.name}: one fetch would bring in more than ${fetchBytes} bytes`, {
      data: { source: this.spec.name, fetchBytes },
    });
  }

  /** Folds the many small packs together, beside the work; it may fail, and is tried again after the next fetch. */
  async #mindPacks(watch: PackWatch): Promise<void> {
    if ((await watch.count()) <= MANY_PACKS) return;
    const { dir } = this.#mirror;
    if (this.#isTidying) return;
    this.#isTidying = true;
    this.#upkeep = this.#programs
      .run({
        program: 'git',
        args: [...mirrorArguments(dir), 'gc', '--quiet', '--prune=2.weeks.ago'],
        cwd: dir,
        env: gitEnvironment(dir),
        deadlineMs: UPKEEP_MS,
        signal: this.#closing.signal,
      })
      .catch(() => {})
      .finally(() => {
        this.#isTidying = false;
      });
  }

  // --- reading

  async #readCommit(id: string): Promise<CommitFacts> {
    const { reader } = await this.#open();
    try {
      const { type, bytes } = await reader.read(id, MAX_COMMIT_BYTES);
      if (type !== 'commit') throw new Fault('GIT_REFUSED', `${id} is a ${type}, not a commit`, { data: { oid: id } });
      return parseCommitFacts(id, bytes);
    } catch (error) {
      if (error instanceof Fault && error.code === 'GIT_TOO_LARGE') return this.#largeCommit(id, error);
      throw error;
    }
  }

  /** Whoever may push may write a commit as long as a book: it carries no statement, but history goes on through it. Only its words are
   * not read. */
  async #largeCommit(id: string, tooLarge: Fault): Promise<CommitFacts> {
    const { hasClient, reader } = await this.#open();
    if (!hasClient) {
      // Unfolded before its size was known: to read it whole costs nothing more.
      const { type, bytes } = await reader.read(id, Number.MAX_SAFE_INTEGER);
      if (type !== 'commit') throw tooLarge;
      return parseCommitFacts(id, bytes);
    }
    const [type] = await this.#ask(['cat-file', '-t', id]);
    if (type !== 'commit') throw tooLarge;
    const lines = await this.#ask(['rev-list', '--max-count=1', '--format=%T %P%n%ct', id, '--']);
    const [tree = '', ...parents] = (lines[1] ?? '').trim().split(' ');
    if (![tree, ...parents].every(isOid)) throw tooLarge;
    const seconds = /^\d{1,12}$/.test(lines[2] ?? '') ? Number(lines[2]) : 0;
    return { id, tree, parents, subject: '(too large to be shown)', author: '', committedAtMs: seconds * 1000 };
  }

  async #list(commit: string): Promise<Listing> {
    const { trees } = await this.#open();
    const { tree } = await this.commit(commit);
    trees.trim();
    const listing = await trees.list(commit, tree);
    for (const oldest of this.#listings.keys()) {
      if (this.#listings.size < REMEMBERED_LISTINGS) break;
      this.#listings.delete(oldest);
    }
    this.#listings.set(commit, listing);
    return listing;
  }

  /** Breadth first: finds a near ancestor without looking at the rest of the history. */
  async #walkTo(descendant: string, ancestor: string, maxCommits: number): Promise<boolean | 'unknown'> {
    const seen = new Set([descendant]);
    let level = [descendant];
    while (level.length > 0) {
      if (seen.size > maxCommits) return 'unknown';
      const parents = await Promise.all(level.map((id) => this.#parents(id)));
      level = [];
      for (const parent of parents.flat()) {
        if (parent === ancestor) return true;
        if (seen.has(parent)) continue;
        seen.add(parent);
        level.push(parent);
      }
    }
    return false;
  }

  /** A malformed commit has no parents that anybody could rely on; it must not stop the question. */
  async #parents(id: string): Promise<readonly string[]> {
    try {
      return (await this.commit(id)).parents;
    } catch (error) {
      if (error instanceof Fault && error.code === 'GIT_REFUSED') return [];
      throw error;
    }
  }

  async #askDescends(descendant: string, ancestor: string): Promise<boolean> {
    const { dir } = this.#mirror;
    const done = await this.#programs
      .run({
        program: 'git',
        args: [...mirrorArguments(dir), 'merge-base', '--is-ancestor', ancestor, descendant],
        cwd: dir,
        env: gitEnvironment(dir),
        deadlineMs: this.#limits.fetchMs,
        signal: this.#closing.signal,
      })
      .catch((error: unknown) => {
        throw faultOfProcess(this.spec.name, error);
      });
    if (done.exitCode === 0) return true;
    if (done.exitCode === 1) return false;
    // An ancestor that the mirror does not have at all is none.
    if (/Not a valid (commit|object) name/i.test(done.stderr)) return false;
    throw this.#refused(done);
  }

  /** Lines of a reading call of git. */
  async #ask(args: readonly string[]): Promise<readonly string[]> {
    const { dir } = this.#mirror;
    const done = await this.#programs
      .run({
        program: 'git',
        args: [...mirrorArguments(dir), ...args],
        cwd: dir,
        env: gitEnvironment(dir),
        deadlineMs: this.#limits.fetchMs,
        maxOutputBytes: MOST_OUTPUT_BYTES,
        signal: this.#closing.signal,
      })
      .catch((error: unknown) => {
        throw faultOfProcess(this.spec.name, error);
      });
    if (done.exitCode !== 0) throw this.#refused(done);
    return done.stdout.split('\n').filter((line) => line !== '');
  }

  /** That git was ended from outside says nothing of what it was asked. */
  #refused({ signal, stderr }: Pick<RunOutput, 'signal' | 'stderr'>): Fault {
    const { name } = this.spec;
    if (signal !== null) return new Fault('GIT_UNREACHABLE', `${name}: git was ended by ${signal} while it read`);
    return new Fault('GIT_OBJECT_MISSING', `${name}: ${stderr.split('\n')[0] ?? ''}`);
  }

  async #ownRef(ref: string): Promise<string | null> {
    const { dir } = this.#mirror;
    const oid = await readRef({ gitDir: dir, commonDir: dir }, ref);
    return oid === 'unknown' ? null : oid;
  }
}

interface Opened {
  readonly hasClient: boolean;
  readonly reader: ObjectReader;
  readonly trees: TreeReader;
}

function deadline(source: string, ms: number): AbortSignal {
  const controller = new AbortController();
  setTimeout(() => {
    controller.abort(
      new Fault('GIT_UNREACHABLE', `${source}: the source did not answer within ${Math.round(ms / 1000)} s`),
    );
  }, ms).unref();
  return controller.signal;
}
