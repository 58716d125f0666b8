// What an archive store with replicas reads from where.
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DirStore } from '../../../src/adapters/archive/dir-store.ts';
import { withReplicas } from '../../../src/adapters/archive/with-replicas.ts';
import { encodeManifest } from '../../../src/core/archive/manifest.ts';
import { Fault } from '../../../src/core/fault.ts';
import type { ArchiveStore } from '../../../src/ports/archive.ts';
import { SAMPLE_TEXTS, sampleManifest } from '../../core/archive/sample.ts';
import { chunksOf, codeOf, readAll } from './store-fixture.ts';

/** Answers every question with the same Fault. */
const broken = (fault: Fault): ArchiveStore => {
  const refuse = () => Promise.reject(fault);
  return new Proxy({} as ArchiveStore, {
    get: (_, name) =>
      name === 'readBlob'
        ? async function* () {
            yield await Promise.reject<Uint8Array>(fault);
          }
        : refuse,
  });
};

describe('an archive store with replicas', () => {
  let folder: string;
  let main: DirStore;
  let first: DirStore;
  let second: DirStore;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'wl-replicas-'));
    [main, first, second] = ['main', 'first', 'second'].map(
      (name) => new DirStore({ directory: join(folder, name) }),
    ) as [DirStore, DirStore, DirStore];
  });
  afterEach(async () => {
    for (const store of [main, first, second]) await store.close();
    await rm(folder, { recursive: true, force: true });
  });
  const together = (...stores: ArchiveStore[]): ArchiveStore =>
    withReplicas(
      main,
      stores.map((store, at) => ({ name: `r${at}`, store })),
    );

  it('reads what it lacks from the first replica that has it', async () => {
    for (const text of SAMPLE_TEXTS) await second.putBlob(chunksOf(text));
    const { bytes, id } = encodeManifest(sampleManifest());
    await second.putManifest(bytes, 'signed');
    const content = randomBytes(1_500_000);
    const { digest } = await second.putBlob(chunksOf(content));
    const store = together(first, second);
    expect(await store.manifest(id)).toMatchObject({ signature: 'signed' });
    expect((await readAll(store.readBlob(digest))).equals(content)).toBe(true);
    expect(createHash('sha256').update(content).digest('hex')).toBe(digest);
  });

  it('verifies what it lacks where it is, as a restore will read it', async () => {
    for (const text of SAMPLE_TEXTS) for (const store of [main, second]) await store.putBlob(chunksOf(text));
    const { bytes, id } = encodeManifest(sampleManifest());
    await second.putManifest(bytes, 'signed');
    const store = together(first, second);
    expect(await store.verify(id), 'only a replica knows it').toMatchObject({ wrong: [] });
    await main.putManifest(bytes, 'signed');
    const [lost = ''] = SAMPLE_TEXTS.map((text) => createHash('sha256').update(text).digest('hex'));
    await rm(join(folder, 'main', 'blobs', 'sha256', lost.slice(0, 2), lost));
    expect((await main.verify(id)).wrong).toMatchObject([{ digest: lost, what: 'missing' }]);
    expect(await store.verify(id)).toMatchObject({ wrong: [], sizeBytes: SAMPLE_TEXTS.join('').length });
    await rm(join(folder, 'second', 'blobs', 'sha256', lost.slice(0, 2), lost));
    expect((await store.verify(id)).wrong).toMatchObject([{ digest: lost, what: 'missing' }]);
  });

  it('lists, keeps and removes only what is its own', async () => {
    for (const text of SAMPLE_TEXTS) await first.putBlob(chunksOf(text));
    const { bytes, id } = encodeManifest(sampleManifest());
    await first.putManifest(bytes, 'signed');
    const store = together(first);
    expect(await store.list()).toEqual([]);
    expect(await store.remove(id)).toBe(false);
    expect(await first.list()).toHaveLength(1);
    expect(await codeOf(store.putManifest(bytes, 'signed'))).toBe('ARCHIVE_MISSING');
  });

  it('says that it is missing when nobody has it', async () => {
    const store = together(first, second);
    expect(await codeOf(store.manifest('a'.repeat(64)))).toBe('ARCHIVE_MISSING');
    expect(await codeOf(readAll(store.readBlob('a'.repeat(64))))).toBe('ARCHIVE_MISSING');
  });

  it('never takes a replica that cannot be asked for one that lacks it, and goes on to the next', async () => {
    const down = broken(new Fault('ARCHIVE_UNREACHABLE', 'no answer'));
    const { digest } = await second.putBlob(chunksOf('there'));
    expect((await readAll(together(down, second).readBlob(digest))).toString()).toBe('there');
    for (const store of [together(down, first), together(first, down)]) {
      expect(await codeOf(readAll(store.readBlob(digest)))).toBe('ARCHIVE_UNREACHABLE');
      expect(await codeOf(store.manifest('a'.repeat(64)))).toBe('ARCHIVE_UNREACHABLE');
    }
  });

  it('asks no replica while its own store cannot be asked', async () => {
    const { digest } = await first.putBlob(chunksOf('there'));
    const store = withReplicas(broken(new Fault('ARCHIVE_DENIED', 'no')), [{ name: 'r', store: first }]);
    expect(await codeOf(readAll(store.readBlob(digest)))).toBe('ARCHIVE_DENIED');
  });
});
