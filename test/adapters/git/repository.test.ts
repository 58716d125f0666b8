import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, cpSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { CatFileReader } from '../../../src/adapters/git/cat-file-reader.ts';
import { InProcessReader } from '../../../src/adapters/git/in-process-reader.ts';
import { refPaths } from '../../../src/adapters/git/ref-files.ts';
import { DEFAULT_SOURCE_LIMITS } from '../../../src/adapters/git/repository.ts';
import { type Programs, type RunInput, run, spawnStream } from '../../../src/adapters/process/run.ts';
import type { Source } from '../../../src/ports/source.ts';
import { commitBytes, faultOf, makeBench, TestRepository, treeBytes } from './fixture.ts';

const bench = makeBench();
const { openHere } = bench;
let folder = '';
let mirror = '';
let repository: TestRepository;
beforeEach(() => {
  ({ folder, mirror, repository } = bench);
});

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8');
const pathsOf = async (source: Source, commit: string): Promise<readonly string[]> =>
  (await source.list(commit)).entries.map(({ path }) => path);

/** Counts and shows what is run. */
function watched(): { readonly programs: Programs; readonly runs: RunInput[] } {
  const runs: RunInput[] = [];
  const watchedRun = ((input: RunInput) => {
    runs.push(input);
    return run(input);
  }) as Programs['run'];
  return { runs, programs: { run: watchedRun, spawnStream } };
}

const fetchesOf = (runs: readonly RunInput[]): number => runs.filter(({ args }) => args.includes('fetch')).length;

describe('fetching a local repository', () => {
  test('brings the tip, its commit, its files and its blobs', async () => {
    const first = repository.commit('one', { 'stacks/shop/compose.yaml': 'services: {}\n', README: 'hello' });
    repository.write({ 'bin/run': '#!/bin/sh\n' });
    chmodSync(join(repository.path, 'bin/run'), 0o755);
    const tip = repository.commit('two: a subject\n\nand a body', { 'stacks/a-b': 'x', 'stacks/a/b': 'y' });
    const source = openHere();
    expect(await source.tip()).toBeNull();
    expect(await source.fetch()).toBe(tip);
    expect(await source.tip()).toBe(tip);
    expect(await source.commit(tip)).toEqual({
      id: tip,
      tree: repository.git('rev-parse', 'HEAD^{tree}'),
      parents: [first],
      subject: 'two: a subject',
      author: 'Ada <ada@example.org>',
      committedAtMs: 1_700_000_001_000,
    });
    const listing = await source.list(tip);
    const expected = repository
      .git('ls-tree', '-r', '-z', '--full-tree', tip)
      .split('\0')
      .filter((line) => line !== '')
      .map((line) => /^(\d+) \w+ (\w+)\t(.*)$/s.exec(line)!.slice(1));
    expect(listing.entries.map(({ mode, oid, path }) => [mode, oid, path])).toEqual(expected);
    expect(listing.entries.find(({ path }) => path === 'bin/run')?.mode).toBe('100755');
    expect(listing.trees.get('stacks/shop')).toBe(repository.git('rev-parse', 'HEAD:stacks/shop'));
    expect([...listing.trees.keys()].sort()).toEqual(['', 'bin', 'stacks', 'stacks/a', 'stacks/shop']);
    expect(textOf(await source.blob(repository.git('rev-parse', 'HEAD:README'), 100))).toBe('hello');
  });

  test('of any kind: bare, with a work tree, a linked work tree, by file:// address, packed refs, tags', async () => {
    const tip = repository.commit('one', { a: '1' });
    const bare = join(folder, 'bare repo');
    execFileSync('git', ['clone', '-q', '--bare', repository.path, bare]);
    repository.git('worktree', 'add', '-q', '-b', 'side', join(folder, 'linked'));
    repository.git('tag', '-a', '-m', 'v1', 'v1');
    const cases: [string, string][] = [
      [bare, 'main'],
      [`file://${bare.replace(' ', '%20')}`, 'main'],
      [join(folder, 'linked'), 'side'],
      [repository.path, 'refs/tags/v1'],
      [join(repository.path, '.git'), 'main'],
    ];
    for (const [index, [url, ref]] of cases.entries()) {
      for (const isPacked of [false, true]) {
        if (isPacked) repository.git('pack-refs', '--all');
        const { programs, runs } = watched();
        const source = openHere({ url, ref, programs, mirror: join(folder, `kind-${index}-${isPacked}.git`) });
        expect(await source.fetch()).toBe(tip);
        expect(await source.fetch()).toBe(tip);
        // The second one was answered in process.
        expect(fetchesOf(runs)).toBe(1);
      }
    }
  });

  test('a fetch without news runs no program', async () => {
    repository.commit('one');
    const { programs, runs } = watched();
    const source = openHere({ programs });
    await source.fetch();
    const before = runs.length;
    for (let at = 0; at < 5; at += 1) await source.fetch();
    expect(runs.length).toBe(before);
  });

  test('the tip is known again after a restart, without the source', async () => {
    const tip = repository.commit('one', { a: '1' });
    const source = openHere();
    await source.fetch();
    await source.close();
    renameSync(repository.path, `${repository.path}.away`);
    const again = openHere();
    expect(await again.tip()).toBe(tip);
    expect(await pathsOf(again, tip)).toEqual(['a']);
    expect((await faultOf(again.fetch())).code).toBe('GIT_UNREACHABLE');
    expect(await again.tip()).toBe(tip);
  });

  test('the files that move when the branch moves are named for a watcher', async () => {
    repository.commit('one');
    const paths = await refPaths(repository.path, 'refs/heads/main');
    expect(paths).toEqual([join(repository.path, '.git/refs/heads'), join(repository.path, '.git/packed-refs')]);
    expect(await refPaths(folder, 'refs/heads/main')).toEqual([]);
  });

  test('a mirror that gets another source forgets the tip of the old one, and keeps its pins', async () => {
    const tip = repository.commit('one');
    const source = openHere();
    await source.fetch();
    await source.pin('shop', tip);
    await source.close();
    execFileSync('git', [`--git-dir=${mirror}`, 'pack-refs', '--all']);
    const other = new TestRepository(join(folder, 'other'));
    const otherTip = other.commit('other');
    const again = openHere({ url: other.path });
    expect(await again.tip()).toBeNull();
    expect(await again.fetch()).toBe(otherTip);
    expect((await again.commit(tip)).subject).toBe('one');
    expect(
      execFileSync('git', [`--git-dir=${mirror}`, 'rev-parse', 'refs/windlass/pins/shop'], { encoding: 'utf8' }).trim(),
    ).toBe(tip);
  });

  test.runIf(process.getuid?.() === 0)(
    'a source that belongs to somebody else is read: naming it is consent',
    async () => {
      const tip = repository.commit('one');
      execFileSync('chown', ['-R', '65534:65534', repository.path]);
      expect(await openHere().fetch()).toBe(tip);
    },
  );
});

describe('a history that moves', () => {
  test('forwards: the tip descends from what was before', async () => {
    const first = repository.commit('one');
    const source = openHere();
    await source.fetch();
    const second = repository.commit('two');
    expect(await source.fetch()).toBe(second);
    expect([await source.descends(second, first), await source.descends(second, second)]).toEqual([true, true]);
    expect(await source.descends(first, second)).toBe(false);
  });

  test('L24: by force: the new tip does not descend, and the old one stays readable', async () => {
    const base = repository.commit('base', { a: '0' });
    const old = repository.commit('old', { a: '1' });
    const source = openHere();
    await source.fetch();
    repository.git('reset', '-q', '--hard', base);
    const rewritten = repository.commit('rewritten', { a: '2' });
    repository.git('reflog', 'expire', '--expire=now', '--all');
    repository.git('gc', '-q', '--prune=now');
    expect(await source.fetch()).toBe(rewritten);
    expect(await source.descends(rewritten, old)).toBe(false);
    expect(await source.descends(rewritten, base)).toBe(true);
    expect(await pathsOf(source, old)).toEqual(['a']);
    const git = (...args: string[]) =>
      execFileSync('git', [`--git-dir=${mirror}`, ...args], { encoding: 'utf8' }).trim();
    expect(git('rev-parse', 'refs/windlass/previous')).toBe(old);
  });

  test('over many commits, with merges: as git says', async () => {
    repository.commit('root');
    const stream: string[] = [];
    for (let at = 1; at <= 900; at += 1) {
      stream.push(
        `commit refs/heads/long`,
        `mark :${at}`,
        `committer A <a@b> ${1_700_000_000 + at} +0000`,
        'data 1',
        'x',
      );
      if (at > 1) stream.push(`from :${at - 1}`);
      if (at > 10 && at % 50 === 0) stream.push(`merge :${at - 7}`);
      stream.push('');
    }
    repository.gitWith(`${stream.join('\n')}\n`, 'fast-import', '--quiet');
    const all = repository.git('rev-list', '--reverse', 'long').split('\n');
    repository.setMain(all.at(-1)!);
    const source = openHere();
    const tip = await source.fetch();
    for (const at of [0, 100, 500, 898]) {
      expect(await source.descends(tip, all[at]!)).toBe(true);
      expect(await source.descends(all[at]!, tip)).toBe(false);
    }
    expect(await source.descends(tip, 'f'.repeat(40))).toBe(false);
    const withoutClient = openHere({ client: 'none' });
    expect(await withoutClient.descends(tip, all[0]!)).toBe(true);
    expect(await withoutClient.descends(all[899 - 400]!, tip)).toBe(false);
  });

  test('L10: many callers at once share the fetches, and every one gets what was there when it called', async () => {
    repository.commit('one');
    const { programs, runs } = watched();
    const source = openHere({ programs });
    await source.fetch();
    const before = fetchesOf(runs);
    const tip = repository.commit('two');
    const first = Promise.all(Array.from({ length: 6 }, () => source.fetch()));
    await new Promise((resolve) => setTimeout(resolve, 5));
    const newest = repository.commit('three');
    const late = await source.fetch();
    expect(late).toBe(newest);
    expect(new Set(await first).size).toBe(1);
    expect([tip, newest]).toContain((await first)[0]);
    expect(fetchesOf(runs) - before).toBeLessThanOrEqual(2);
  });

  test('two processes may fetch into one mirror at once', async () => {
    const one = openHere();
    const two = openHere();
    for (let at = 0; at < 4; at += 1) {
      const tip = repository.commit(`change ${at}`);
      expect(await Promise.all([one.fetch(), two.fetch()])).toEqual([tip, tip]);
    }
  });

  test('a caller that gives up does not end the fetch of the others', async () => {
    const tip = repository.commit('one');
    const source = openHere();
    const controller = new AbortController();
    const given = faultOf(source.fetch(controller.signal));
    const kept = source.fetch();
    controller.abort(new Error('not needed'));
    expect((await given).code).toBe('CANCELLED');
    expect(await kept).toBe(tip);
    expect((await faultOf(source.fetch(controller.signal))).code).toBe('CANCELLED');
  });
});

describe('a fetch that fails leaves everything as it was', () => {
  let good = '';
  let source: Source;
  beforeEach(async () => {
    good = repository.commit('good', { a: '1' });
    source = openHere();
    await source.fetch();
  });
  const expectUnharmed = async (): Promise<void> => {
    expect(await source.tip()).toBe(good);
    expect(await pathsOf(source, good)).toEqual(['a']);
  };

  test('a branch that is gone is named, with those that are there', async () => {
    repository.git('branch', '-m', 'main', 'trunk');
    const fault = await faultOf(source.fetch());
    expect([fault.code, fault.data['branches']]).toEqual(['GIT_REF_MISSING', ['trunk']]);
    expect(fault.message).toContain('no refs/heads/main; it has trunk');
    await expectUnharmed();
  });

  test('an empty repository lacks the branch', async () => {
    const empty = new TestRepository(join(folder, 'empty'));
    const fault = await faultOf(openHere({ url: empty.path, mirror: join(folder, 'empty.git') }).fetch());
    expect([fault.code, fault.message]).toEqual([
      'GIT_REF_MISSING',
      'fleet: the source has no refs/heads/main; it has no branches',
    ]);
  });

  test('a folder that is not a repository is unreachable', async () => {
    mkdirSync(join(folder, 'nothing'));
    const fault = await faultOf(openHere({ url: join(folder, 'nothing'), mirror: join(folder, 'n.git') }).fetch());
    expect(fault.code).toBe('GIT_UNREACHABLE');
  });

  test('a SHA-256 repository is refused in clear words', async () => {
    const sha256 = new TestRepository(join(folder, 'sha256'), ['--object-format=sha256']);
    sha256.commit('one');
    const fault = await faultOf(openHere({ url: sha256.path, mirror: join(folder, 's.git') }).fetch());
    expect(fault.code).toBe('GIT_REFUSED');
    expect(fault.message).toContain('SHA-256');
  });

  test('a shallow clone is refused with its cure', async () => {
    repository.commit('two');
    const shallow = join(folder, 'shallow');
    execFileSync('git', ['clone', '-q', '--depth=1', `file://${repository.path}`, shallow]);
    const fault = await faultOf(openHere({ url: shallow, mirror: join(folder, 's.git') }).fetch());
    expect([fault.code, fault.message.includes('--unshallow')]).toEqual(['GIT_REFUSED', true]);
  });

  test('a branch that points to something else than a commit is refused', async () => {
    const blob = repository.gitWith('x', 'hash-object', '-w', '--stdin');
    repository.git('tag', 'odd', blob);
    repository.git('tag', 'odd-later', good);
    for (const [ref, dir] of [
      ['odd', 'o'],
      ['odd-later', 'l'],
    ]) {
      const tagged = openHere({ ref: `refs/tags/${ref}`, mirror: join(folder, `${dir}.git`) });
      if (ref === 'odd-later') {
        expect(await tagged.fetch()).toBe(good);
        repository.git('tag', '-f', 'odd-later', blob);
      }
      // Again and again: a refused tip must not become "nothing new".
      for (let tries = 0; tries < 3; tries += 1) expect((await faultOf(tagged.fetch())).code).toBe('GIT_REFUSED');
      expect(await tagged.tip()).toBe(ref === 'odd-later' ? good : null);
    }
  });

  test.each([
    [
      'a folder named .git',
      (blob: string) => treeBytes([['40000', '.git', repository.store('tree', treeBytes([['100644', 'x', blob]]))]]),
    ],
    [
      'a name twice',
      (blob: string) =>
        treeBytes([
          ['100644', 'a', blob],
          ['100644', 'a', blob],
        ]),
    ],
    [
      'names out of order',
      (blob: string) =>
        treeBytes([
          ['100644', 'b', blob],
          ['100644', 'a', blob],
        ]),
    ],
  ])('a hostile tree, %s, is refused', async (_what, make) => {
    const blob = repository.gitWith('x', 'hash-object', '-w', '--stdin');
    repository.setMain(repository.store('commit', commitBytes(repository.store('tree', make(blob)), [good])));
    const fault = await faultOf(source.fetch());
    expect([fault.code, fault.message]).toEqual(['GIT_REFUSED', expect.stringContaining('not well formed')]);
    await expectUnharmed();
  });

  test('a tree that git itself cannot pack is a fault of the source', async () => {
    const blob = repository.gitWith('x', 'hash-object', '-w', '--stdin');
    const tree = repository.store('tree', treeBytes([['100644', '', blob]]));
    repository.setMain(repository.store('commit', commitBytes(tree, [good])));
    expect((await faultOf(source.fetch())).code).toBe('GIT_OBJECT_MISSING');
    await expectUnharmed();
  });

  test('more bytes than may come in are refused, and are not kept', async () => {
    await source.close();
    source = openHere({ limits: { ...DEFAULT_SOURCE_LIMITS, fetchBytes: 300_000 } });
    const packs = readdirSync(join(mirror, 'objects/pack'));
    repository.commit('big', { big: randomBytes(1_000_000) });
    for (let tries = 0; tries < 2; tries += 1) {
      const fault = await faultOf(source.fetch());
      expect([fault.code, fault.data['fetchBytes']]).toEqual(['GIT_TOO_LARGE', 300_000]);
      expect(readdirSync(join(mirror, 'objects/pack'))).toEqual(packs);
    }
    await expectUnharmed();
    repository.git('reset', '-q', '--hard', good);
    const next = repository.commit('small', { a: '2' });
    expect(await source.fetch()).toBe(next);
  });

  test('a fetch that is told to end when it has its pack is not kept either', async () => {
    await source.close();
    const late = (async (input: RunInput) => {
      const { signal, ...rest } = input;
      const done = await run(rest);
      // On a slow machine it was told before git was through.
      if (input.args.includes('fetch') && signal?.aborted === false)
        await new Promise((told) => signal.addEventListener('abort', told));
      signal?.throwIfAborted();
      return done;
    }) as Programs['run'];
    const limits = { ...DEFAULT_SOURCE_LIMITS, fetchBytes: 300_000 };
    source = openHere({ limits, programs: { run: late, spawnStream } });
    const packs = readdirSync(join(mirror, 'objects/pack'));
    repository.commit('big', { big: randomBytes(1_000_000) });
    expect((await faultOf(source.fetch())).code).toBe('GIT_TOO_LARGE');
    expect(readdirSync(join(mirror, 'objects/pack'))).toEqual(packs);
    await expectUnharmed();
  });

  test('a repository that lost an object is not taken over', async () => {
    const tip = repository.commit('two', { b: 'lost' });
    const blob = repository.git('rev-parse', `${tip}:b`);
    rmSync(join(repository.path, '.git/objects', blob.slice(0, 2), blob.slice(2)));
    const fault = await faultOf(source.fetch());
    expect(['GIT_OBJECT_MISSING', 'GIT_UNREACHABLE']).toContain(fault.code);
    await expectUnharmed();
  });

  test('L7: ten failures in a row, and at the return there is nothing to do', async () => {
    const away = `${repository.path}.away`;
    renameSync(repository.path, away);
    for (let cycle = 0; cycle < 10; cycle += 1) expect((await faultOf(source.fetch())).code).toBe('GIT_UNREACHABLE');
    await expectUnharmed();
    renameSync(away, repository.path);
    expect(await source.fetch()).toBe(good);
  });

  test('a mirror that cannot be written says so', async () => {
    await source.close();
    writeFileSync(join(folder, 'file'), '');
    const fault = await faultOf(openHere({ mirror: join(folder, 'file', 'm.git') }).tip());
    expect(fault.code).toBe('FILES_FAILED');
  });
});

describe('odd objects stop nothing', () => {
  test('a commit with a malformed author, date or message is read', async () => {
    const tree = treeBytes([['100644', 'a', repository.gitWith('x', 'hash-object', '-w', '--stdin')]]);
    const treeOid = repository.store('tree', tree);
    let tip = repository.commit('good');
    const source = openHere();
    for (const author of [
      'nobody',
      'A <a@b',
      'A <a@b> never',
      'A <a@b> 99999999999999999999 +0000',
      '',
      '<> 1 +9999',
      'A <a@b> 1 +0000 x',
    ]) {
      tip = repository.store('commit', commitBytes(treeOid, [tip], { author, message: '\u001b[31mred\u001b[0m\nx' }));
      repository.setMain(tip);
      expect(await source.fetch()).toBe(tip);
      const facts = await source.commit(tip);
      expect([facts.tree, facts.subject]).toEqual([treeOid, '[31mred [0m']);
    }
    expect(await source.descends(tip, repository.git('rev-list', '--max-parents=0', tip))).toBe(true);
  });

  test('a commit in another encoding keeps its words', async () => {
    const source = openHere();
    repository.git('config', 'i18n.commitEncoding', 'ISO-8859-1');
    repository.write({ message: Buffer.from('gr\u00fc\u00df', 'latin1') });
    repository.git('commit', '-q', '--allow-empty', '-F', join(repository.path, 'message'));
    const tip = await source.fetch();
    expect((await source.commit(tip)).subject).toBe('gr\u00fc\u00df');
  });

  test('what is asked for as something else than it is, is refused', async () => {
    const tip = repository.commit('one', { a: '1' });
    const source = openHere();
    await source.fetch();
    const { tree } = await source.commit(tip);
    expect((await faultOf(source.blob(tree, 100))).code).toBe('GIT_REFUSED');
    expect((await faultOf(source.commit(tree))).code).toBe('GIT_REFUSED');
    expect((await faultOf(source.blob('f'.repeat(40), 100))).code).toBe('GIT_OBJECT_MISSING');
    for (const word of ['main', 'HEAD', tip.slice(0, 10), `${tip}\n${tip}`, '--help', `${tip}:a`]) {
      expect((await faultOf(source.commit(word))).code).toBe('GIT_OBJECT_MISSING');
      expect((await faultOf(source.descends(tip, word))).code).toBe('GIT_OBJECT_MISSING');
    }
  });

  test('a blob over the limit is refused before it is read, and the next one is read', async () => {
    const tip = repository.commit('one', { big: 'x'.repeat(3_000_000), small: 'y' });
    const source = openHere();
    await source.fetch();
    const oids = Object.fromEntries((await source.list(tip)).entries.map(({ path, oid }) => [path, oid]));
    const [big, small] = await Promise.allSettled([
      source.blob(oids['big']!, 1_000),
      source.blob(oids['small']!, 1_000),
    ]);
    expect(big.status === 'rejected' && big.reason.code).toBe('GIT_TOO_LARGE');
    expect(small.status === 'fulfilled' && textOf(small.value)).toBe('y');
    expect((await source.blob(oids['big']!, 3_000_000)).length).toBe(3_000_000);
  });
});

describe('a pin', () => {
  test('keeps a commit when the source and the mirror drop it', async () => {
    const base = repository.commit('base');
    const old = repository.commit('old', { a: '1' });
    const source = openHere();
    await source.fetch();
    await source.pin('shop', old);
    for (let at = 0; at < 2; at += 1) {
      repository.git('reset', '-q', '--hard', base);
      repository.commit(`rewritten ${at}`, { a: `${at + 2}` });
      await source.fetch();
    }
    execFileSync('git', [`--git-dir=${mirror}`, 'reflog', 'expire', '--expire=now', '--all']);
    execFileSync('git', [`--git-dir=${mirror}`, 'gc', '-q', '--prune=now']);
    await source.close();
    const again = openHere();
    expect(textOf(await again.blob((await again.list(old)).entries[0]!.oid, 10))).toBe('1');
    await again.pin('shop', base);
    expect((await faultOf(again.pin('shop', 'f'.repeat(40)))).code).toBe('GIT_OBJECT_MISSING');
    for (const name of ['', '../x', '-x', 'a b', 'a.lock', 'a..b', 'a/b', '.a', 'a.']) {
      await expect(again.pin(name, base)).rejects.toThrow('not a name');
    }
  });
});

describe('both ways of reading give the same answers', () => {
  test('for every object of a repository, packed and loose, and for what is missing, too large or damaged', async () => {
    for (let at = 0; at < 20; at += 1) {
      repository.commit(`change ${at}`, {
        'big.txt': `${'line of text\n'.repeat(5_000)}${at}`,
        [`d${at % 3}/f${at}`]: `${at}`,
        binary: randomBytes(1_000),
        empty: '',
      });
    }
    repository.git('tag', '-a', '-m', 'tag', 'v1');
    repository.git('repack', '-q', '-a', '-d');
    repository.commit('loose', { loose: 'x' });
    const gitDir = join(repository.path, '.git');
    const all = repository.git('cat-file', '--batch-all-objects', '--batch-check=%(objectname)').split('\n');
    expect(all.length).toBeGreaterThan(80);
    const quick = new CatFileReader(gitDir, { spawnStream });
    const slow = new InProcessReader(gitDir);
    const damaged = repository.gitWith('damaged', 'hash-object', '-w', '--stdin');
    const path = join(gitDir, 'objects', damaged.slice(0, 2), damaged.slice(2));
    const other = repository.gitWith('another', 'hash-object', '-w', '--stdin');
    chmodSync(path, 0o644);
    cpSync(join(gitDir, 'objects', other.slice(0, 2), other.slice(2)), path);
    const questions: [string, number][] = [
      ...all.map((oid) => [oid, 10_000_000] as [string, number]),
      ...all.slice(0, 20).map((oid) => [oid, 10] as [string, number]),
      ['0'.repeat(40), 100],
      [damaged, 100],
    ];
    const answers = async (reader: CatFileReader | InProcessReader) =>
      (await Promise.allSettled(questions.map(([oid, max]) => reader.read(oid, max)))).map((answer) =>
        answer.status === 'fulfilled'
          ? `${answer.value.type} ${Buffer.from(answer.value.bytes).toString('hex')}`
          : answer.reason.code,
      );
    const [first, second] = [await answers(quick), await answers(slow)];
    expect(first.at(-1)).toBe('GIT_OBJECT_MISSING');
    expect(second).toEqual(first);
    await quick.close();
    await slow.close();
  });

  test('reading goes on when the program that reads is killed', async () => {
    const tip = repository.commit('one', { a: '1' });
    const pids: number[] = [];
    const programs: Programs = {
      run,
      spawnStream: async (input) => {
        const child = await spawnStream(input);
        pids.push(child.pid);
        return child;
      },
    };
    const source = openHere({ programs });
    await source.fetch();
    const oid = repository.git('rev-parse', `${tip}:a`);
    process.kill(pids[0]!, 'SIGKILL');
    const reads = Promise.all(Array.from({ length: 20 }, () => source.blob(oid, 10)));
    expect((await reads).map(textOf).join('')).toBe('1'.repeat(20));
    expect(pids.length).toBe(2);
  });
});

test('a program that is killed each time proves nothing: what it was asked for is unread, not missing', async () => {
  repository.commit('root');
  const stream = Array.from({ length: 400 }, (_, at) => [
    'commit refs/heads/long',
    `mark :${at + 1}`,
    `committer A <a@b> ${1_700_000_000 + at} +0000`,
    'data 1',
    'x',
    ...(at > 0 ? [`from :${at}`] : []),
    '',
  ]);
  repository.gitWith(`${stream.flat().join('\n')}\n`, 'fast-import', '--quiet');
  const tip = repository.git('rev-parse', 'long');
  const root = repository.git('rev-list', '--max-parents=0', 'long');
  repository.setMain(tip);
  let isKilled = false;
  const programs: Programs = {
    run: (async (input: RunInput) => ({
      ...(await run(input)),
      ...(isKilled ? { exitCode: -1, signal: 'SIGKILL' } : {}),
    })) as Programs['run'],
    spawnStream: async (input) => {
      const child = await spawnStream(input);
      if (isKilled) process.kill(child.pid, 'SIGKILL');
      return child;
    },
  };
  const source = openHere({ programs });
  await source.fetch();
  expect(await source.descends(tip, root)).toBe(true);
  isKilled = true;
  expect((await faultOf(source.descends(tip, root))).code).toBe('GIT_UNREACHABLE');
  expect((await faultOf(source.commitsSince(tip, null, 1_000))).code).toBe('GIT_UNREACHABLE');
  const unread = new CatFileReader(mirror, programs);
  expect((await faultOf(unread.read(root, 1_000))).code).toBe('GIT_UNREACHABLE');
  await unread.close();
});

test('many packs are folded together beside the work', async () => {
  repository.commit('one', { a: '1' });
  const source = openHere();
  await source.fetch();
  const folderOfPacks = join(mirror, 'objects/pack');
  const packs = (): readonly string[] => readdirSync(folderOfPacks).filter((name) => name.endsWith('.pack'));
  const [pack] = packs();
  for (let at = 0; at < 50; at += 1) {
    for (const end of ['pack', 'idx']) {
      cpSync(
        join(folderOfPacks, pack!.replace(/\.pack$/, `.${end}`)),
        join(folderOfPacks, `pack-${String(at).padStart(40, '0')}.${end}`),
      );
    }
  }
  const tip = repository.commit('two', { b: '2' });
  await source.fetch();
  for (let tries = 0; packs().length >= 10 && tries < 500; tries += 1)
    await new Promise((resolve) => setTimeout(resolve, 20));
  expect(packs().length).toBeLessThan(10);
  expect(await source.tip()).toBe(tip);
  expect(await pathsOf(source, tip)).toEqual(['a', 'b']);
});

test('L2: the cost on the git side of a commit in a repository of 1,000 folders is printed', async () => {
  const stream = ['commit refs/heads/main', 'committer A <a@b> 1700000000 +0000', 'data 4', 'many'];
  for (let at = 0; at < 1_000; at += 1) {
    const text = `services: { web: { image: "i:${at}" } }`;
    stream.push(`M 100644 inline stacks/s${at}/compose.yaml`, `data ${text.length}`, text);
    stream.push(`M 100644 inline stacks/s${at}/.env`, `data ${`${at}`.length}`, `${at}`);
  }
  repository.gitWith(`${stream.join('\n')}\n`, 'fast-import', '--quiet');
  repository.git('reset', '-q');
  const source = openHere();
  const took = async <Result>(name: string, work: () => Promise<Result>): Promise<Result> => {
    const startedAt = performance.now();
    const result = await work();
    console.log(`${name}: ${(performance.now() - startedAt).toFixed(1)} ms`);
    return result;
  };
  const first = await took('first fetch', () => source.fetch());
  await took('first listing', () => source.list(first));
  await took('fetch without news', () => source.fetch());
  repository.write({ README: 'x' });
  repository.git('add', 'README');
  repository.git('commit', '-q', '-m', 'README');
  const second = await took('fetch of one commit', () => source.fetch());
  await took('listing after it', () => source.list(second));
  await took('descends', () => source.descends(second, first));
});

describe('the tags of statements', () => {
  test('are all told or none: a rejection must not hide behind too many, nor where they cannot be fetched', async () => {
    repository.commit('one', { a: '1' });
    repository.git('tag', '-a', '-m', 'said', 'windlass/reject/one');
    const source = openHere({ tags: true });
    await source.fetch();
    expect(await source.tags()).toEqual([repository.git('rev-parse', 'windlass/reject/one')]);
    const [oid] = await source.tags();
    execFileSync('git', ['update-ref', '--stdin'], {
      cwd: mirror,
      input: Array.from({ length: 10_000 }, (_, at) => `create refs/windlass/tags/a${at} ${oid}\n`).join(''),
    });
    expect((await faultOf(source.tags())).code).toBe('GIT_TOO_LARGE');
    expect((await faultOf(openHere({ tags: true, client: 'none' }).tags())).code).toBe('GIT_UNREACHABLE');
    expect(await openHere().tags()).toEqual([]);
  });
});

describe('a commit whose message is larger than any statement', () => {
  test('is the tip or an ancestor like any other, with a git client and without; only its words are not read', async () => {
    const first = repository.commit('one', { a: '1' });
    const words = join(bench.folder, 'words');
    writeFileSync(words, 'x'.repeat(9 * 1024 * 1024));
    repository.git('commit', '-q', '--allow-empty', '-F', words);
    const large = repository.git('rev-parse', 'HEAD');
    const source = openHere();
    expect(await source.fetch()).toBe(large);
    expect((await faultOf(source.object(large))).code).toBe('GIT_TOO_LARGE');
    expect(await source.commit(large)).toMatchObject({
      tree: repository.git('rev-parse', 'HEAD^{tree}'),
      parents: [first],
      committedAtMs: 1_700_000_001_000,
    });
    expect([...(await source.list(large)).entries].map(({ path }) => path)).toEqual(['a']);
    const last = repository.commit('three', { a: '3' });
    expect(await source.fetch()).toBe(last);
    for (const one of [source, openHere({ client: 'none' })]) {
      expect(await one.descends(last, first)).toBe(true);
      expect(await one.descends(first, last)).toBe(false);
      expect(await one.commitsSince(last, null, 10)).toEqual([last, large, first]);
    }
    repository.git('tag', '-a', '-F', words, 'huge');
    expect(
      (await faultOf(openHere({ ref: 'refs/tags/huge', mirror: join(bench.folder, 'other.git') }).fetch())).code,
    ).toBe('GIT_TOO_LARGE');
  });
});
