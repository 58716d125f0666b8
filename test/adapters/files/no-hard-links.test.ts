// A file system without hard links: it answers as `link` does here.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test, vi } from 'vitest';
import { ProjectFolders } from '../../../src/adapters/files/project-folder.ts';

const answer = vi.hoisted(() => ({ code: '' }));
vi.mock('node:fs/promises', async (original) => ({
  ...(await original<object>()),
  link: () => Promise.reject(Object.assign(new Error('refused'), { code: answer.code })),
}));

const state = mkdtempSync(join(tmpdir(), 'windlass-files-'));
afterAll(() => rmSync(state, { recursive: true, force: true }));

test.each(['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EIO'])(
  'files are put in place also where no file may have two names (%s), and what else is wrong is told',
  async (code) => {
    answer.code = code;
    const directory = join(state, 'stacks', code);
    mkdirSync(directory, { recursive: true });
    const work = new ProjectFolders(state).materialize({
      directory,
      files: [{ path: 'a', mode: '100644', oid: 'f'.repeat(40) }],
      before: {},
      read: async () => Buffer.from('1'),
    });
    if (code === 'EIO') {
      await expect(work).rejects.toMatchObject({ code: 'FILES_FAILED' });
      expect(readdirSync(directory)).toEqual([]);
    } else {
      expect(Object.keys(await work)).toEqual(['a']);
      expect(readFileSync(join(directory, 'a'), 'utf8')).toBe('1');
    }
  },
);
