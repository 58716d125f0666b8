// The history of a person's clone: what each commit made of the files of a folder, on whichever side of a merge, and where commits part.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openClone } from '../../../src/adapters/git/clone.ts';
import { type RunInput, run } from '../../../src/adapters/process/run.ts';

const folder = mkdtempSync(join(tmpdir(), 'wlt-history-'));
beforeEach(() => void mkdirSync(folder, { recursive: true }));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const env = {
  PATH: process.env['PATH'] ?? '',
  HOME: folder,
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'W',
  GIT_AUTHOR_EMAIL: 'w@example.org',
  GIT_COMMITTER_NAME: 'W',
  GIT_COMMITTER_EMAIL: 'w@example.org',
};
const git = (...args: string[]): string =>
  execFileSync('git', args, { cwd: folder, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
const commit = (what: string): void => {
  git('add', '-A');
  git('commit', '-q', '-m', what);
};
const write = (path: string, text: string): void => writeFileSync(join(folder, path), text);

it('tells of each file when it came, was changed and went, also on a branch that was merged, and of no other folder', async () => {
  git('init', '-q', '-b', 'main');
  mkdirSync(join(folder, 'requests'));
  write('a.txt', '1');
  write('requests/one.yaml', '1');
  commit('one');
  git('checkout', '-q', '-b', 'side');
  write('requests/two.yaml', '2');
  commit('two');
  git('checkout', '-q', 'main');
  git('rm', '-q', 'requests/one.yaml');
  commit('remove one');
  git('merge', '-q', '--no-ff', '-m', 'merge', 'side');
  symlinkSync('two.yaml', join(folder, 'requests/link.yaml'));
  write('requests/two.yaml', '3');
  commit('change two');
  const clone = await openClone({ folder, run, env });
  const history = await clone.history(git('rev-parse', 'HEAD'), 'requests');
  const blob = (text: string): string =>
    execFileSync('git', ['hash-object', '--stdin'], { cwd: folder, env, input: text, encoding: 'utf8' }).trim();
  const of = (path: string): readonly (string | null)[] => [
    ...new Set(history.filter((one) => one.path === path).map(({ oid }) => oid)),
  ];
  expect(of('requests/two.yaml')).toEqual([blob('3'), blob('2')]);
  expect(of('requests/one.yaml')).toEqual([null, blob('1')]);
  expect(of('requests/link.yaml')).toEqual([null]);
  expect(of('a.txt')).toEqual([]);
  expect(history.every(({ commit: oid }) => /^[0-9a-f]{40}$/.test(oid))).toBe(true);
});

it('tells no base and no parent apart from a git that did not answer', async () => {
  git('init', '-q', '-b', 'main');
  write('a.txt', '1');
  commit('one');
  const root = git('rev-parse', 'HEAD');
  git('checkout', '-q', '--orphan', 'other');
  commit('other');
  const other = git('rev-parse', 'HEAD');
  const clone = await openClone({ folder, run, env });
  expect([await clone.firstParent(root), await clone.mergeBase(root, other)]).toEqual([null, null]);
  const killed = await openClone({
    folder,
    env,
    run: (async (input: RunInput) => ({
      ...(await run(input)),
      ...(/^(?:merge-base|rev-parse --verify)/.test(input.args.slice(7).join(' ')) ? { exitCode: -1 } : {}),
    })) as typeof run,
  });
  await expect(killed.firstParent(root)).rejects.toMatchObject({ code: 'CLONE_REFUSED' });
  await expect(killed.mergeBase(root, other)).rejects.toMatchObject({ code: 'CLONE_REFUSED' });
});

it('takes a file whose content the clone lacks for no missing file', async () => {
  git('init', '-q', '-b', 'main');
  mkdirSync(join(folder, 'trust'));
  write('trust/anchor.yaml', 'anchor');
  commit('one');
  const oid = git('rev-parse', 'HEAD:trust/anchor.yaml');
  const clone = await openClone({ folder, run, env });
  const head = git('rev-parse', 'HEAD');
  expect(await clone.file(head, 'trust/none.yaml')).toBe(null);
  rmSync(join(folder, '.git/objects', oid.slice(0, 2), oid.slice(2)));
  const lacks = { code: 'CLONE_REFUSED', message: expect.stringContaining('trust/anchor.yaml') };
  await expect(clone.file(head, 'trust/anchor.yaml')).rejects.toMatchObject(lacks);
});
