// The work tree of a person, through the git client with the person's own set-up. Commits are made by plumbing: no hook, template or
// clean-up of the person's changes a statement, and nothing that is staged slips into it.
import { lstat, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { Fault } from '../../core/fault.ts';
import type {
  Clone,
  CloneBase,
  CloneFile,
  CloneHead,
  CloneObject,
  FileChange,
  NewCommit,
  NewTag,
} from '../../ports/clone.ts';
import { type Run, run } from '../process/run.ts';
import { type CloneGit, lastLines, openCloneGit } from './clone-git.ts';
import { signingOf } from './clone-signing.ts';

const MAX_FILE_BYTES = 1024 * 1024;
const MAX_STATEMENTS = 20_000;
/** What is larger is no statement. */
const MAX_STATEMENT_BYTES = 1024 * 1024;
const MAX_OBJECTS_BYTES = 256 * 1024 * 1024;
/** What git keeps while a merge, cherry-pick, revert or rebase has not ended. */
const UNDER_WAY = ['MERGE_HEAD', 'CHERRY_PICK_HEAD', 'REVERT_HEAD', 'rebase-merge', 'rebase-apply'];
const REGULAR = /^100(?:644|755)$/;
const TRAILER = '^Windlass-Type: ';

export interface CloneOptions {
  /** Any folder of the work tree. */
  readonly folder: string;
  readonly run: Run;
  /** The person's environment; what signing needs of it is handed on. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Throws a CLONE_REFUSED Fault where there is no work tree. */
export async function openClone({ folder, run, env }: CloneOptions): Promise<Clone> {
  const git = openCloneGit({ folder, run, env });
  const found = await git.try([
    'rev-parse',
    '--show-toplevel',
    '--absolute-git-dir',
    '--show-object-format',
    '--is-shallow-repository',
  ]);
  if (found.exitCode !== 0) {
    // Git refuses also one that is there, such as one that belongs to somebody else.
    if (await isBelowClone(folder))
      throw new Fault('CLONE_REFUSED', `git does not read the clone around ${folder}`, {
        data: { log: lastLines(found.stderr) },
      });
    throw new Fault('CLONE_REFUSED', `${folder} is no work tree of git; run this in your clone of the fleet`);
  }
  const [top = '', gitDir = '', format = '', shallow] = found.stdout.split('\n');
  if (format !== 'sha1')
    throw new Fault(
      'CLONE_REFUSED',
      `repositories with ${format} object ids are not supported; use a SHA-1 repository`,
    );
  return new GitClone({ folder: top, gitDir, isShallow: shallow === 'true' }, openCloneGit({ folder: top, run, env }), {
    run,
    env,
  });
}

async function isBelowClone(folder: string): Promise<boolean> {
  for (let at = resolve(folder); ; at = dirname(at)) {
    if ((await lstat(join(at, '.git')).catch(() => null)) !== null) return true;
    if (dirname(at) === at) return false;
  }
}

/** The clone around this process, with the environment of who started it. */
export const cloneHere = (): Promise<Clone> => openClone({ folder: process.cwd(), run, env: process.env });

const oneLine = (text: string): string => text.replace(/\n$/, '');

interface BatchObject {
  readonly oid: string;
  readonly type: string;
  readonly bytes: Uint8Array;
}

const isSigned = (object: BatchObject): object is CloneObject => object.type === 'commit' || object.type === 'tag';

class GitClone implements Clone {
  readonly folder: string;
  readonly isShallow: boolean;
  readonly #gitDir: string;
  readonly #git: CloneGit;
  readonly #system: Pick<CloneOptions, 'run' | 'env'>;

  constructor(
    place: { readonly folder: string; readonly gitDir: string; readonly isShallow: boolean },
    git: CloneGit,
    system: Pick<CloneOptions, 'run' | 'env'>,
  ) {
    this.folder = place.folder;
    this.isShallow = place.isShallow;
    this.#gitDir = place.gitDir;
    this.#git = git;
    this.#system = system;
  }

  async head(): Promise<CloneHead> {
    const [commit, branch, ...busy] = await Promise.all([
      this.#git.try(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}']),
      this.#git.try(['symbolic-ref', '--quiet', 'HEAD']),
      ...UNDER_WAY.map((name) => lstat(join(this.#gitDir, name)).catch(() => null)),
    ]);
    return {
      commit: commit.exitCode === 0 ? oneLine(commit.stdout) : null,
      branch: branch.exitCode === 0 ? oneLine(branch.stdout) : null,
      isBusy: busy.some((one) => one !== null),
    };
  }

  async file(commit: string, path: string): Promise<CloneFile | null> {
    return (await this.#blobsOf(commit, path)).find((file) => file.path === path) ?? null;
  }

  files(commit: string, folder: string): Promise<readonly CloneFile[]> {
    return this.#blobsOf(commit, `${folder}/`);
  }

  async draft(path: string): Promise<Uint8Array | null> {
    await this.#refuseLinks(path);
    const whole = join(this.folder, path);
    const facts = await lstat(whole).catch(() => null);
    if (facts === null) return null;
    if (!facts.isFile() || facts.size > MAX_FILE_BYTES)
      throw new Fault('CLONE_REFUSED', `${path} is no regular file of at most 1 MiB`);
    return new Uint8Array(await readFile(whole));
  }

  async changed(paths: readonly string[]): Promise<readonly string[]> {
    const { stdout } = await this.#git.must([
      'status',
      '--porcelain=v1',
      '-z',
      '--no-renames',
      '--untracked-files=all',
      '--ignore-submodules=all',
      '--',
      ...paths.map(literal),
    ]);
    return stdout
      .split('\0')
      .filter((line) => line !== '')
      .map((line) => line.slice(3));
  }

  async changes(path: string): Promise<readonly string[]> {
    const { stdout } = await this.#git.must(['rev-list', '-10', 'HEAD', '--', literal(path)]);
    return stdout.split('\n').filter((line) => line !== '');
  }

  async history(commit: string, folder: string): Promise<readonly FileChange[]> {
    const { stdout } = await this.#git.must([
      'log',
      '--format=%H',
      `--max-count=${MAX_STATEMENTS}`,
      '--raw',
      '--no-abbrev',
      '--no-renames',
      '--full-history',
      '-m',
      '--end-of-options',
      commit,
      '--',
      literal(folder),
    ]);
    const changes: FileChange[] = [];
    let at = '';
    for (const line of stdout.split('\n')) {
      if (/^[0-9a-f]{40}$/.test(line)) at = line;
      const [, mode = '', oid = '', path] = /^:\d{6} (\d{6}) [0-9a-f]{40} ([0-9a-f]{40}) [A-Z]\t(.+)$/.exec(line) ?? [];
      if (path !== undefined) changes.push({ commit: at, path, oid: REGULAR.test(mode) ? oid : null });
    }
    return changes;
  }

  async bases(branches: readonly string[]): Promise<readonly CloneBase[]> {
    const { stdout } = await this.#git.must([
      'for-each-ref',
      '--format=%(objecttype) %(objectname) %(refname)',
      'refs/remotes/',
      ...branches,
    ]);
    const refs = stdout.split('\n').flatMap((line) => {
      const [, commit = '', ref = ''] = /^commit ([0-9a-f]{40}) (refs\/\S+)$/.exec(line) ?? [];
      return ref === '' ? [] : [{ commit, ref }];
    });
    const there = refs.flatMap(({ commit, ref }): CloneBase[] => {
      const [, name = '', short = ''] = /^refs\/remotes\/([^/]+\/(\S+))$/.exec(ref) ?? [];
      const branch = `refs/heads/${short}`;
      return branches.includes(branch) ? [{ name, branch, commit }] : [];
    });
    if (there.length > 0) return there;
    return refs.flatMap(({ commit, ref }) =>
      branches.includes(ref) ? [{ name: ref.replace('refs/heads/', ''), branch: ref, commit }] : [],
    );
  }

  mergeBase(one: string, other: string): Promise<string | null> {
    return this.#git.find(['merge-base', '--end-of-options', one, other]);
  }

  firstParent(commit: string): Promise<string | null> {
    return this.#git.find(['rev-parse', '--verify', '--quiet', `${commit}^1^{commit}`]);
  }

  async descends(commit: string, ancestor: string): Promise<boolean> {
    const { exitCode } = await this.#git.try(['merge-base', '--is-ancestor', '--end-of-options', ancestor, commit]);
    return exitCode === 0;
  }

  async statements(commit: string): Promise<readonly CloneObject[]> {
    const [commits, tags] = await Promise.all([
      this.#git.must(['rev-list', `--max-count=${MAX_STATEMENTS}`, `--grep=${TRAILER}`, '--end-of-options', commit]),
      this.#git.must([
        'for-each-ref',
        '--format=%(objecttype) %(objectname)',
        `--count=${MAX_STATEMENTS}`,
        '--sort=-creatordate',
        'refs/tags/windlass/',
      ]),
    ]);
    const oids = [
      ...tags.stdout.split('\n').flatMap((line) => (line.startsWith('tag ') ? [line.slice(4)] : [])),
      ...commits.stdout.split('\n').filter((line) => line !== ''),
    ];
    return (await this.#objects(await this.#small([...new Set(oids)]))).filter(isSigned);
  }

  /** Without those that are too large: one of them must not stand in the way of all the others. */
  async #small(oids: readonly string[]): Promise<readonly string[]> {
    if (oids.length === 0) return [];
    const { stdout } = await this.#git.must(['cat-file', '--batch-check'], Buffer.from(`${oids.join('\n')}\n`));
    return stdout.split('\n').flatMap((line) => {
      const [, oid = '', size = ''] = /^([0-9a-f]{40}) [a-z]+ (\d+)$/.exec(line) ?? [];
      return oid !== '' && Number(size) <= MAX_STATEMENT_BYTES ? [oid] : [];
    });
  }

  async object(oid: string): Promise<CloneObject | null> {
    return (await this.#objects([oid])).find(isSigned) ?? null;
  }

  signing() {
    return signingOf(this.#git, { ...this.#system, folder: this.folder });
  }

  async canBranch(name: string): Promise<boolean> {
    const form = await this.#git.try(['check-ref-format', '--branch', name]);
    if (form.exitCode !== 0 || name.startsWith('-') || oneLine(form.stdout) !== name) return false;
    const { exitCode } = await this.#git.try(['show-ref', '--verify', '--quiet', `refs/heads/${name}`]);
    return exitCode !== 0;
  }

  async write(path: string, bytes: Uint8Array): Promise<void> {
    await this.#refuseLinks(path);
    const whole = join(this.folder, path);
    await mkdir(dirname(whole), { recursive: true });
    try {
      await writeFile(whole, bytes, { flag: 'wx' });
    } catch (cause) {
      const there = (cause as NodeJS.ErrnoException).code === 'EEXIST';
      throw new Fault('CLONE_REFUSED', there ? `${path} is there already` : `${path} cannot be written`, { cause });
    }
  }

  async commit({ message, files, sign, branch }: NewCommit): Promise<string> {
    const head = await this.head();
    const ref = branch === undefined ? head.branch : `refs/heads/${branch}`;
    if (head.commit === null || ref === null)
      throw new Fault('CLONE_REFUSED', 'there is no branch with a commit to go on from');
    // Found now, before anything is made; afterwards the index could not follow the commit.
    if (files.length > 0 && (await lstat(join(this.#gitDir, 'index.lock')).catch(() => null)) !== null)
      throw new Fault('CLONE_REFUSED', 'another git process works in this clone: .git/index.lock is there');
    const written = await this.#blobs(files);
    const tree = await this.#tree(head.commit, written);
    const made = await this.#git.sign(
      // The strict profile of statements knows no encoding header.
      ['-c', 'i18n.commitEncoding=UTF-8', 'commit-tree', ...(sign ? ['-S'] : []), '-p', head.commit, '-F', '-', tree],
      message,
      sign,
    );
    const commit = oneLine(made.stdout);
    const title = message.split('\n')[0] ?? '';
    const before = branch === undefined ? head.commit : '0'.repeat(40);
    await this.#git.must(['update-ref', '-m', `windlass: ${title}`, ref, commit, before]);
    if (branch !== undefined) await this.#git.must(['symbolic-ref', '-m', `windlass: to ${branch}`, 'HEAD', ref]);
    for (const { path, bytes, oid } of written) {
      await this.#git.must(['update-index', '--add', '--cacheinfo', `100644,${oid},${path}`]);
      await this.#put(path, bytes);
    }
    return commit;
  }

  async tag({ name, message, commit }: NewTag): Promise<string> {
    if ((await this.#git.try(['check-ref-format', `refs/tags/${name}`])).exitCode !== 0)
      throw new Fault('CLONE_REFUSED', `${name} is no name for a tag`);
    await this.#git.sign(
      [
        '-c',
        'i18n.commitEncoding=UTF-8',
        'tag',
        '-s',
        '--cleanup=verbatim',
        '-F',
        '-',
        '--end-of-options',
        name,
        commit,
      ],
      message,
      true,
    );
    const { stdout } = await this.#git.must(['rev-parse', '--verify', `refs/tags/${name}`]);
    return oneLine(stdout);
  }

  /** The regular files that `ls-tree` finds there. Throws CLONE_REFUSED when the clone lacks one of them: that is not the same as none. */
  async #blobsOf(commit: string, path: string): Promise<readonly CloneFile[]> {
    const { stdout } = await this.#git.must(['ls-tree', '-lz', '--full-tree', commit, '--', path]);
    const entries = stdout.split('\0').flatMap((line) => {
      const [, mode = '', oid = '', size = '', name = ''] =
        /^(\d{6}) blob ([0-9a-f]{40}) +(\S+)\t(.+)$/s.exec(line) ?? [];
      if (REGULAR.test(mode) && !/^\d+$/.test(size)) throw lacking(name);
      return REGULAR.test(mode) && Number(size) <= MAX_FILE_BYTES ? [{ oid, path: name }] : [];
    });
    const blobs = await this.#objects(entries.map(({ oid }) => oid));
    return entries.map(({ oid, path: name }) => {
      const blob = blobs.find((one) => one.oid === oid && one.type === 'blob');
      if (!blob) throw lacking(name);
      return { path: name, bytes: blob.bytes };
    });
  }

  async #objects(oids: readonly string[]): Promise<readonly BatchObject[]> {
    if (oids.length === 0) return [];
    const { stdout } = await this.#git.bytes(['cat-file', '--batch'], `${oids.join('\n')}\n`, MAX_OBJECTS_BYTES);
    return [...batchOf(Buffer.from(stdout))];
  }

  async #blobs(files: readonly CloneFile[]): Promise<readonly (CloneFile & { readonly oid: string })[]> {
    const written: (CloneFile & { readonly oid: string })[] = [];
    for (const file of files) {
      await this.#refuseLinks(file.path);
      const { stdout } = await this.#git.must(['hash-object', '-w', '--stdin'], file.bytes);
      written.push({ ...file, oid: oneLine(stdout) });
    }
    return written;
  }

  /** The tree of a commit with these files in it, made in an index of its own. */
  async #tree(commit: string, files: readonly (CloneFile & { readonly oid: string })[]): Promise<string> {
    if (files.length === 0)
      return oneLine((await this.#git.must(['rev-parse', '--verify', `${commit}^{tree}`])).stdout);
    const scratch = await mkdtemp(join(tmpdir(), 'windlass-index-'));
    try {
      const git = this.#git.withIndex(join(scratch, 'index'));
      await git.must(['read-tree', commit]);
      for (const { path, oid } of files)
        await git.must(['update-index', '--add', '--cacheinfo', `100644,${oid},${path}`]);
      return oneLine((await git.must(['write-tree'])).stdout);
    } finally {
      await rm(scratch, { recursive: true, force: true });
    }
  }

  /** Over what is there: the commit holds it now. */
  async #put(path: string, bytes: Uint8Array): Promise<void> {
    const whole = join(this.folder, path);
    await mkdir(dirname(whole), { recursive: true });
    const beside = `${whole}.windlass-new`;
    await writeFile(beside, bytes);
    await rename(beside, whole);
  }

  /** A folder of the work tree that is a link would lead out of the clone. */
  async #refuseLinks(path: string): Promise<void> {
    const parts = path.split('/');
    for (let depth = 1; depth <= parts.length; depth++) {
      const part = parts.slice(0, depth).join('/');
      const facts = await lstat(join(this.folder, part)).catch(() => null);
      if (facts?.isSymbolicLink()) throw new Fault('CLONE_REFUSED', `${part} is a link`);
      if (facts === null) return;
    }
  }
}

const lacking = (path: string): Fault =>
  new Fault('CLONE_REFUSED', `this clone lacks the content of ${path}; \`git fetch --refetch\` brings it`);

const literal = (path: string): string => `:(top,literal)${path}`;

/** What `cat-file --batch` prints: `OID TYPE SIZE LF bytes LF`. What is missing is passed over. */
function* batchOf(bytes: Buffer): Generator<BatchObject> {
  let at = 0;
  while (at < bytes.length) {
    const end = bytes.indexOf(0x0a, at);
    if (end < 0) return;
    const [, oid = '', type = '', size = ''] =
      /^([0-9a-f]{40}) ([a-z]+) (\d+)$/.exec(bytes.toString('latin1', at, end)) ?? [];
    at = end + 1;
    if (oid === '') continue;
    const content = bytes.subarray(at, at + Number(size));
    at += Number(size) + 1;
    yield { oid, type, bytes: Uint8Array.from(content) };
  }
}
