import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DirStore } from '../../../src/adapters/archive/dir-store.ts';
import { storedManifest } from '../../../src/adapters/archive/store-rules.ts';
import { encodeManifest } from '../../../src/core/archive/manifest.ts';
import { blobOf, SAMPLE_TEXTS, sampleManifest } from '../../core/archive/sample.ts';
import { chunksOf, codeOf } from './store-fixture.ts';

let directory = '';
const children: ChildProcess[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'wl-dir-store-'));
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await rm(directory, { recursive: true, force: true });
});

async function filesBelow(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
}

async function putSample(store: DirStore): Promise<string> {
  for (const text of SAMPLE_TEXTS) await store.putBlob(chunksOf(text));
  return await store.putManifest(encodeManifest(sampleManifest()).bytes, 'signed');
}

describe('the directory', () => {
  it('holds files that plain tools can check, and that nobody else may read', async () => {
    const store = new DirStore({ directory });
    const id = await putSample(store);
    await store.close();
    const blobs = SAMPLE_TEXTS.map((text) => blobOf(text).digest);
    expect(await filesBelow(directory)).toEqual(
      [
        ...blobs.map((digest) => `blobs/sha256/${digest.slice(0, 2)}/${digest}`),
        'lock',
        `manifests/${id}.json`,
        `manifests/${id}.sig`,
      ].sort(),
    );
    for (const digest of blobs) {
      const path = join(directory, 'blobs/sha256', digest.slice(0, 2), digest);
      expect(
        createHash('sha256')
          .update(await readFile(path))
          .digest('hex'),
      ).toBe(digest);
      expect((await stat(path)).mode & 0o777).toBe(0o400);
    }
    expect(
      createHash('sha256')
        .update(await readFile(join(directory, 'manifests', `${id}.json`)))
        .digest('hex'),
    ).toBe(id);
    expect((await stat(join(directory, 'manifests'))).mode & 0o077).toBe(0);
  });

  it('is neither made nor changed by reading', async () => {
    const absent = join(directory, 'absent');
    const store = new DirStore({ directory: absent });
    expect(await store.list()).toEqual([]);
    expect(await store.hasBlob('a'.repeat(64))).toBe(false);
    await expect(stat(absent)).rejects.toThrow();
  });

  it('is left alone where it holds what is not ours', async () => {
    const store = new DirStore({ directory });
    const id = await putSample(store);
    await store.remove(id);
    for (const path of ['blobs/sha256/notes.txt', 'blobs/sha256/ab-copy', 'manifests/README', 'incoming/notes'])
      await writeFile(join(directory, path), 'mine');
    await mkdir(join(directory, 'blobs/sha256/zz'));
    expect((await store.collect()).blobs).toBe(4);
    await store.close();
    expect((await filesBelow(directory)).filter((path) => path !== 'lock')).toEqual([
      'blobs/sha256/ab-copy',
      'blobs/sha256/notes.txt',
      'incoming/notes',
      'manifests/README',
    ]);
  });

  it('does not read through a link, or a manifest larger than any', async () => {
    const store = new DirStore({ directory });
    const { digest } = await store.putBlob(chunksOf('x'));
    const path = join(directory, 'blobs/sha256', digest.slice(0, 2), digest);
    await rm(path);
    await symlink('/etc/hostname', path);
    const reading = (async () => {
      for await (const _ of store.readBlob(digest));
    })();
    expect(await codeOf(reading)).toBe('ARCHIVE_FAILED');
    const id = 'a'.repeat(64);
    await writeFile(join(directory, 'manifests', `${id}.json`), Buffer.alloc(17 * 1024 * 1024));
    expect(await store.list()).toMatchObject([{ kind: 'damaged', id }]);
  });

  it('may be on a disk that is only read', async () => {
    const store = new DirStore({ directory });
    const id = await putSample(store);
    await store.close();
    const reader = `
      const { DirStore } = await import(process.argv[1]);
      const store = new DirStore({ directory: process.argv[2] });
      const [one] = await store.list();
      const { wrong } = await store.verify(one.id);
      const has = await store.hasBlob(process.argv[3]);
      console.log(JSON.stringify([one.id, wrong, has]));
    `;
    const module = join(import.meta.dirname, '../../../src/adapters/archive/dir-store.ts');
    const command = [
      process.execPath,
      '--input-type=module',
      '-e',
      reader,
      module,
      directory,
      blobOf(SAMPLE_TEXTS[0]).digest,
    ];
    let said: string;
    try {
      const script = `mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"`;
      said = execFileSync('unshare', ['--mount', 'sh', '-c', script, directory, ...command], {
        encoding: 'utf8',
        stdio: 'pipe',
      });
    } catch {
      // Without the right to mount: at least as somebody who may not write.
      for (const folder of ['', 'blobs', 'manifests', 'incoming']) await chmod(join(directory, folder), 0o500);
      said = execFileSync(command[0]!, command.slice(1), { encoding: 'utf8' });
      for (const folder of ['', 'blobs', 'manifests', 'incoming']) await chmod(join(directory, folder), 0o700);
    }
    expect(JSON.parse(said)).toEqual([id, [], true]);
  });
});

describe('a full disk', () => {
  // A limit of the size of files is met as a full disk is: in the midst of a write.
  it('lists nothing, leaves nothing behind, and says what is missing', async () => {
    const writer = `
      const { DirStore } = await import(process.argv[1]);
      const store = new DirStore({ directory: process.argv[2] });
      async function* source() { for (let n = 0; n < 40; n++) yield Buffer.alloc(65536, n); }
      try { await store.putBlob(source()); console.log('stored'); } catch (error) { console.log(error.code, error.message); }
      process.exit();
    `;
    const module = join(import.meta.dirname, '../../../src/adapters/archive/dir-store.ts');
    const said = execFileSync(
      'prlimit',
      ['--fsize=1000000', process.execPath, '--input-type=module', '-e', writer, module, directory],
      { encoding: 'utf8' },
    );
    expect(said).toMatch(/^ARCHIVE_NO_SPACE a blob could not be written: no space is left/);
    expect(await filesBelow(join(directory, 'blobs'))).toEqual([]);
    expect((await filesBelow(join(directory, 'incoming'))).filter((path) => !path.endsWith('/owner'))).toEqual([]);
    await new DirStore({ directory }).collect();
    expect(await readdir(join(directory, 'incoming'))).toEqual([]);
  });

  it('that is really full is told apart from one that is broken', async () => {
    const mounted = join(directory, 'small');
    await mkdir(mounted);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', mounted], { stdio: 'pipe' });
    } catch {
      return;
    }
    try {
      const store = new DirStore({ directory: join(mounted, 'archives') });
      const id = await putSample(store);
      async function* endless() {
        for (;;) yield Buffer.alloc(65_536, 1);
      }
      expect(await codeOf(store.putBlob(endless()))).toBe('ARCHIVE_NO_SPACE');
      const free = await store.freeBytes();
      expect(free, 'the part was taken away').toBeGreaterThan(500_000);
      await writeFile(join(mounted, 'filler'), Buffer.alloc(free!)).catch(() => {});
      const more = encodeManifest(
        sampleManifest({ notCaptured: Array.from({ length: 2_000 }, () => 'x'.repeat(400)) }),
      );
      expect(await codeOf(store.putManifest(more.bytes, 'signed'))).toBe('ARCHIVE_NO_SPACE');
      expect((await store.list()).map((one) => one.id)).toEqual([id]);
      expect((await store.verify(id)).wrong).toEqual([]);
      const other = new DirStore({ directory: join(mounted, 'archives') });
      expect(await other.remove(id), 'space can be made').toBe(true);
      expect((await other.collect()).blobs).toBe(4);
      await store.close();
    } finally {
      execFileSync('umount', [mounted]);
    }
  });
});

describe('a killed writer', () => {
  const start = (): ChildProcess => {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'crashing-writer.ts'), directory], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(child);
    return child;
  };

  it('leaves every archive that it said was listed, none that is half there, and no blob that nobody needs', async () => {
    const store = new DirStore({ directory });
    let seen = 0;
    const runOne = async (): Promise<readonly string[]> => {
      const child = start();
      let text = '';
      child.stdout!.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      await once(child.stdout!, 'data');
      await sleep(Math.random() * 300);
      child.kill('SIGKILL');
      await once(child, 'close');
      return text.split('\n').filter((line) => line.length === 64);
    };
    for (let round = 0; round < 2; round++) {
      const said = await Promise.all([runOne(), runOne(), runOne()]);
      const listed = await store.list();
      for (const one of listed) {
        expect(one.kind).toBe('archive');
        expect((await store.verify(one.id)).wrong).toEqual([]);
      }
      seen += said.flat().length;
      // Each third one is removed again by the writer itself.
      const kept = said.flatMap((ids) => ids.filter((_, index) => (index + 1) % 3 !== 0));
      expect(listed.map((one) => one.id)).toEqual(expect.arrayContaining(kept));
      await store.collect();
      expect(await filesBelow(join(directory, 'blobs'))).toHaveLength(listed.length === 0 ? 0 : 3 + listed.length);
      expect(await filesBelow(join(directory, 'incoming'))).toEqual([]);
      expect(await filesBelow(join(directory, 'manifests'))).toHaveLength(2 * listed.length);
    }
    expect(seen).toBeGreaterThanOrEqual(6);
  }, 60_000);

  it('does not keep others waiting for its lock', async () => {
    const child = start();
    await once(child.stdout!, 'data');
    child.kill('SIGKILL');
    await once(child, 'close');
    const began = performance.now();
    await putSample(new DirStore({ directory }));
    expect(performance.now() - began).toBeLessThan(10_000);
  });

  it('is told from one that lives in another container, where process numbers mean nothing', async () => {
    const store = new DirStore({ directory });
    const { digest } = await store.putBlob(chunksOf('new'));
    const collector = `
      const { DirStore } = await import(process.argv[1]);
      console.log(JSON.stringify(await new DirStore({ directory: process.argv[2] }).collect()));
    `;
    const module = join(import.meta.dirname, '../../../src/adapters/archive/dir-store.ts');
    const command = [process.execPath, '--input-type=module', '-e', collector, module, directory];
    const collect = (): unknown => {
      try {
        const inNamespace = ['--pid', '--fork', '--mount-proc', ...command];
        return JSON.parse(execFileSync('unshare', inNamespace, { encoding: 'utf8', stdio: 'pipe' }));
      } catch {
        return JSON.parse(execFileSync(command[0]!, command.slice(1), { encoding: 'utf8' }));
      }
    };
    expect(collect()).toEqual({ blobs: 0, sizeBytes: 0 });
    expect(await store.hasBlob(digest)).toBe(true);
    await store.close();
    expect(collect()).toEqual({ blobs: 1, sizeBytes: 3 });
  });

  it('is told from one that lives: what that one is writing stays', async () => {
    const child = start();
    await once(child.stdout!, 'data');
    child.kill('SIGSTOP');
    const store = new DirStore({ directory });
    const before = (await readdir(join(directory, 'incoming'))).length;
    expect(before).toBe(1);
    // Its folder is cleaned by whoever writes first, were it not alive.
    child.kill('SIGCONT');
    await store.putBlob(chunksOf('other'));
    expect(await readdir(join(directory, 'incoming'))).toHaveLength(2);
    child.kill('SIGKILL');
    await once(child, 'close');
    await store.collect();
    expect(await readdir(join(directory, 'incoming'))).toHaveLength(1);
  });

  it('says of an archive that goes while it is read that it is gone, not that it is damaged', async () => {
    const { bytes, id } = encodeManifest(sampleManifest());
    const reads = [bytes, null];
    const work = storedManifest(id, { manifest: async () => reads.shift() ?? null, signature: async () => null });
    expect(await codeOf(work)).toBe('ARCHIVE_MISSING');
    const damaged = storedManifest(id, { manifest: async () => bytes, signature: async () => null });
    expect(await codeOf(damaged)).toBe('ARCHIVE_DAMAGED');
  });
});
