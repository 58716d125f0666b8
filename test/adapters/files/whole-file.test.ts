// A file that is read from its beginning to its end: only one that ends.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readThrough } from '../../../src/adapters/files/whole-file.ts';

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'whole-file-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function textOf(path: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of readThrough(path)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

describe('a file that is read through', () => {
  it('is given whole, also when it is longer than one chunk', async () => {
    const path = join(dir, 'long');
    const text = 'windlass'.repeat(400_000);
    writeFileSync(path, text);
    expect((await textOf(path)) === text).toBe(true);
  });

  it('that is a pipe is refused at once, although nobody writes into it', async () => {
    const path = join(dir, 'pipe');
    execFileSync('mkfifo', [path]);
    await expect(textOf(path)).rejects.toMatchObject({
      code: 'FILES_FAILED',
      message: expect.stringMatching(/is no regular file/),
    });
  });

  it('that is a folder, or is not there, is refused', async () => {
    await expect(textOf(dir)).rejects.toMatchObject({ code: 'FILES_FAILED' });
    await expect(textOf(join(dir, 'none'))).rejects.toMatchObject({ code: 'FILES_FAILED' });
  });
});
