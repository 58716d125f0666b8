// A push to a local repository is noticed by its files, without waiting for the poll.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { gitDirOf, watchPushes } from '../../../src/controller/watch/push.ts';

const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of cleanUp.splice(0).reverse()) await end();
});

const ENV = { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null' };
const git = (cwd: string, ...args: string[]): string =>
  execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.org', ...args], {
    cwd,
    env: ENV,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });

it.each([
  ['a commit', ['commit', '-q', '--allow-empty', '-m', 'two'], ['push', '-q', 'origin', 'HEAD:main']],
  ['a tag', ['tag', '-a', '-m', 'approve', 'windlass/approve/one'], ['push', '-q', 'origin', '--tags']],
  ['a tag that is deleted', ['tag', '-d', 'old'], ['push', '-q', 'origin', ':refs/tags/old']],
])(
  'is noticed: %s',
  async (_, make, push) => {
    const dir = mkdtempSync(join(tmpdir(), 'wlt-push-'));
    cleanUp.push(() => rmSync(dir, { recursive: true, force: true }));
    const [bare, clone] = [join(dir, 'fleet.git'), join(dir, 'clone')];
    git(dir, 'init', '-q', '--bare', '-b', 'main', bare);
    git(dir, 'init', '-q', '-b', 'main', clone);
    git(clone, 'remote', 'add', 'origin', bare);
    git(clone, 'commit', '-q', '--allow-empty', '-m', 'one');
    git(clone, 'tag', 'old');
    git(clone, 'push', '-q', 'origin', 'HEAD:main', 'refs/tags/old');
    const noticed = Promise.withResolvers<'noticed'>();
    cleanUp.push(await watchPushes(gitDirOf(bare)!, () => noticed.resolve('noticed')));
    git(clone, ...make);
    git(clone, ...push);
    const late = new Promise<'late'>((resolve) => void setTimeout(resolve, 5_000, 'late').unref());
    expect(await Promise.race([noticed.promise, late])).toBe('noticed');
  },
  20_000,
);
