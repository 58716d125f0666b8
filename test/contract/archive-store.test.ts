// Contract: what every archive store keeps to. A new adapter adds itself to `STORES`.
import { createHash, randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readFile, rm, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { DirStore } from '../../src/adapters/archive/dir-store.ts';
import { RemoteStore } from '../../src/adapters/archive/remote-store.ts';
import { withRepository } from '../../src/adapters/archive/repository-store.ts';
import { S3Objects } from '../../src/adapters/archive/s3-objects.ts';
import { SftpObjects } from '../../src/adapters/archive/sftp-objects.ts';
import { canonicalBytes } from '../../src/core/archive/canonical.ts';
import { encodeGroup, encodeManifest, type Manifest } from '../../src/core/archive/manifest.ts';
import { Fault } from '../../src/core/fault.ts';
import type { ArchiveStore } from '../../src/ports/archive.ts';
import { S3Double } from '../adapters/archive/s3-double.ts';
import { SftpDouble } from '../adapters/archive/sftp-double.ts';
import { chunksOf, codeOf, readAll, s3PlaceOf, sftpPlaceOf } from '../adapters/archive/store-fixture.ts';
import { blobOf, payloadOf, SAMPLE_TEXTS, sampleGroup, sampleManifest } from '../core/archive/sample.ts';

interface Harness {
  readonly store: ArchiveStore;
  /** Can it be asked how much may still be put? */
  readonly knowsSpace: boolean;
  /** The same store as another process would see it. */
  again(): ArchiveStore;
  /** Takes a blob or manifest away, or changes bytes of it without changing its size. */
  spoil(kind: 'blob' | 'manifest', digest: string, how: 'gone' | 'changed'): Promise<void>;
  dispose(): Promise<void>;
}

const pathOf = {
  blob: (id: string) => `blobs/sha256/${id.slice(0, 2)}/${id}`,
  manifest: (id: string) => `manifests/${id}.json`,
};

async function spoilFile(path: string, how: 'gone' | 'changed'): Promise<void> {
  if (how === 'gone') return await unlink(path);
  const bytes = await readFile(path);
  bytes[bytes.length >> 1]! ^= 1;
  await chmod(path, 0o600);
  await writeFile(path, bytes);
}

const STORES: Readonly<Record<string, () => Promise<Harness>>> = {
  dir: async () => {
    const directory = await mkdtemp(join(tmpdir(), 'wl-store-'));
    const opened: DirStore[] = [];
    const open = () => {
      const store = new DirStore({ directory: join(directory, 'archives') });
      opened.push(store);
      return store;
    };
    return {
      store: open(),
      knowsSpace: true,
      again: open,
      spoil: async (kind, digest, how) => {
        await spoilFile(join(directory, 'archives', pathOf[kind](digest)), how);
      },
      dispose: async () => {
        for (const store of opened) await store.close();
        await rm(directory, { recursive: true, force: true });
      },
    };
  },
  // As it is wired: what lies in no repository is as if there were none.
  'dir behind a repository': async () => {
    const behind = await STORES['dir']!();
    return {
      ...behind,
      store: withRepository(behind.store, null),
      again: () => withRepository(behind.again(), null),
    };
  },
  // Small parts, so that the larger blobs of the suite go up in several.
  s3: async () => {
    const double = await S3Double.start();
    const opened: RemoteStore[] = [];
    const open = () => {
      const place = s3PlaceOf(double, { prefix: 'fleet/archives' });
      const objects = new S3Objects({ place, partBytes: 256 * 1024, copyPartBytes: 1024 * 1024 });
      const store = new RemoteStore({ objects });
      opened.push(store);
      return store;
    };
    return {
      store: open(),
      knowsSpace: false,
      again: open,
      spoil: async (kind, digest, how) => {
        const key = `fleet/archives/${pathOf[kind](digest)}`;
        if (how === 'gone') return void double.objects.delete(key);
        const bytes = await double.content(key);
        bytes[bytes.length >> 1]! ^= 1;
        await double.replace(key, bytes);
      },
      dispose: async () => {
        for (const store of opened) await store.close();
        await double.stop();
      },
    };
  },
  sftp: async () => {
    const double = await SftpDouble.start();
    const opened: RemoteStore[] = [];
    const open = () => {
      const place = sftpPlaceOf(double, { path: '/volume/archives' });
      const store = new RemoteStore({ objects: new SftpObjects({ place }) });
      opened.push(store);
      return store;
    };
    return {
      store: open(),
      knowsSpace: false,
      again: open,
      spoil: async (kind, digest, how) => {
        await spoilFile(double.pathOf(`/volume/archives/${pathOf[kind](digest)}`), how);
      },
      dispose: async () => {
        for (const store of opened) await store.close();
        await double.stop();
      },
    };
  },
};

const NONE = 'f'.repeat(64);

describe.each(Object.entries(STORES))('the archive store %s', (_, make) => {
  let harness: Harness | null = null;
  const begin = async (): Promise<Harness> => {
    harness = await make();
    return harness;
  };
  afterEach(async () => {
    await harness?.dispose();
    harness = null;
  });

  const putSample = async (store: ArchiveStore, change: Partial<Manifest> = {}): Promise<string> => {
    for (const text of SAMPLE_TEXTS) await store.putBlob(chunksOf(text));
    return await store.putManifest(encodeManifest(sampleManifest(change)).bytes, 'signed');
  };

  it('names a blob by the SHA-256 of its content, and gives it back', async () => {
    const { store, again } = await begin();
    const content = randomBytes(3_000_001);
    const blob = await store.putBlob(
      chunksOf(content.subarray(0, 7), content.subarray(7, 2_000_000), content.subarray(2_000_000)),
    );
    expect(blob).toEqual({ digest: createHash('sha256').update(content).digest('hex'), sizeBytes: content.length });
    expect((await readAll(again().readBlob(blob.digest))).equals(content)).toBe(true);
    expect(await store.hasBlob(blob.digest)).toBe(true);
    expect(await store.hasBlob(NONE)).toBe(false);
    expect(await store.hasBlob(blob.digest, content.length)).toBe(true);
    expect(await store.hasBlob(blob.digest, content.length + 1), 'one that is not whole').toBe(false);
  });

  it('keeps an empty blob too', async () => {
    const { store } = await begin();
    const blob = await store.putBlob(chunksOf());
    expect(blob).toEqual(blobOf(''));
    expect(await readAll(store.readBlob(blob.digest))).toHaveLength(0);
  });

  it('keeps equal blobs once', async () => {
    const { store } = await begin();
    const blobs = await Promise.all(Array.from({ length: 8 }, () => store.putBlob(chunksOf('same', 'words'))));
    expect(new Set(blobs.map((blob) => blob.digest)).size).toBe(1);
    await store.release([blobs[0]!.digest]);
    expect(await store.collect()).toEqual({ blobs: 1, sizeBytes: 9 });
  });

  it('puts nothing when the source fails, and says what the source said', async () => {
    const { store } = await begin();
    const failing = async function* () {
      yield Buffer.from('half');
      throw new Fault('IMAGE_MISSING', 'the source has broken');
    };
    expect(await codeOf(store.putBlob(failing()))).toBe('IMAGE_MISSING');
    expect(await store.hasBlob(blobOf('half').digest)).toBe(false);
    expect(await store.collect()).toEqual({ blobs: 0, sizeBytes: 0 });
  });

  it('stops when it is told to, also when the source hangs', async () => {
    const { store } = await begin();
    const controller = new AbortController();
    const hanging = async function* () {
      yield Buffer.from('half');
      controller.abort();
      await new Promise(() => {});
    };
    expect(await codeOf(store.putBlob(hanging(), controller.signal))).toBe('CANCELLED');
    expect(await codeOf(store.putBlob(chunksOf('x'), controller.signal))).toBe('CANCELLED');
    const { digest } = await store.putBlob(chunksOf('y'));
    expect(await codeOf(readAll(store.readBlob(digest, controller.signal)))).toBe('CANCELLED');
  });

  it.each([
    ['other content', blobOf('other')],
    ['another size', { ...blobOf('words'), sizeBytes: 6 }],
    ['fewer bytes', { ...blobOf('words'), sizeBytes: 4 }],
  ])('refuses a blob that was announced with %s', async (_, expected) => {
    const { store } = await begin();
    expect(await codeOf(store.putBlob(chunksOf('wo', 'rds'), undefined, expected))).toBe('ARCHIVE_DAMAGED');
    expect(await store.collect()).toEqual({ blobs: 0, sizeBytes: 0 });
  });

  it('fails at the end of a blob that is not what it was', async () => {
    const { store, spoil } = await begin();
    const content = randomBytes(2_000_000);
    const { digest } = await store.putBlob(chunksOf(content));
    await spoil('blob', digest, 'changed');
    expect(await codeOf(readAll(store.readBlob(digest)))).toBe('ARCHIVE_DAMAGED');
    await store.putBlob(chunksOf(content));
    expect((await readAll(store.readBlob(digest))).equals(content), 'put again, it is whole again').toBe(true);
  });

  it('says at once that a blob is missing', async () => {
    const { store } = await begin();
    expect(await codeOf(readAll(store.readBlob(NONE)))).toBe('ARCHIVE_MISSING');
  });

  it.each(['abc', '', `${NONE.slice(1)}F`, '../'.repeat(22).slice(0, 64), `${NONE}0`])(
    'knows no archive by %j',
    async (id) => {
      const { store } = await begin();
      expect(await codeOf(store.manifest(id))).toBe('ARCHIVE_INVALID');
      expect(await codeOf(store.hasBlob(id))).toBe('ARCHIVE_INVALID');
      expect(await codeOf(store.remove(id))).toBe('ARCHIVE_INVALID');
    },
  );

  it('lists an archive once everything that it names is there', async () => {
    const { store, again } = await begin();
    const { id, bytes } = encodeManifest(sampleManifest());
    for (const text of SAMPLE_TEXTS) {
      expect(await codeOf(store.putManifest(bytes, 'signed'))).toBe('ARCHIVE_MISSING');
      expect(await store.list()).toEqual([]);
      await store.putBlob(chunksOf(text));
    }
    expect(await store.putManifest(bytes, 'signed')).toBe(id);
    const listed = {
      kind: 'archive',
      id,
      stack: 'sso',
      group: 'identity',
      purpose: 'backup',
      madeAtMs: sampleManifest().madeAtMs,
      sizeBytes: SAMPLE_TEXTS.join('').length,
      blobs: 4,
    };
    for (const one of [store, again()]) {
      expect(await one.list()).toEqual([listed]);
      expect(await one.manifest(id)).toEqual({ id, bytes: Buffer.from(bytes), signature: 'signed' });
    }
  });

  it('lists the newest first', async () => {
    const { store } = await begin();
    const ids = [];
    for (const madeAtMs of [2, 3, 1]) ids.push(await putSample(store, { madeAtMs }));
    expect((await store.list()).map((one) => one.id)).toEqual([ids[1], ids[0], ids[2]]);
  });

  it('writes an archive once: the same manifest again changes nothing', async () => {
    const { store } = await begin();
    const id = await putSample(store);
    expect(await store.putManifest(encodeManifest(sampleManifest()).bytes, 'signed by another')).toBe(id);
    expect((await store.manifest(id)).signature).toBe('signed');
    expect(await store.list()).toHaveLength(1);
  });

  it('takes no manifest that is none, or that nobody signed', async () => {
    const { store } = await begin();
    expect(await codeOf(store.putManifest(Buffer.from('{}'), 'signed'))).toBe('ARCHIVE_INVALID');
    expect(await codeOf(store.putManifest(canonicalBytes({ ...sampleManifest(), version: 3 }), 'signed'))).toBe(
      'ARCHIVE_TOO_NEW',
    );
    await putSample(store, { madeAtMs: 1 });
    expect(await codeOf(store.putManifest(encodeManifest(sampleManifest()).bytes, ''))).toBe('ARCHIVE_INVALID');
    expect(await store.list()).toHaveLength(1);
  });

  it('lists a damaged archive as damaged, never as gone', async () => {
    const { store, again, spoil } = await begin();
    const id = await putSample(store);
    await spoil('manifest', id, 'changed');
    expect(await codeOf(store.manifest(id))).toBe('ARCHIVE_DAMAGED');
    for (const one of [store, again()])
      expect(await one.list()).toMatchObject([{ kind: 'damaged', id, code: 'ARCHIVE_DAMAGED' }]);
    await store.putManifest(encodeManifest(sampleManifest()).bytes, 'signed');
    expect(await store.list(), 'put again, it is whole again').toMatchObject([{ kind: 'archive', id }]);
  });

  it('removes an archive, and collects what no other one shares', async () => {
    const { store } = await begin();
    const first = await putSample(store);
    const second = await putSample(store, { madeAtMs: 1, payloads: [payloadOf('data', SAMPLE_TEXTS[0])] });
    const own = SAMPLE_TEXTS[3];
    expect(await store.collect()).toEqual({ blobs: 0, sizeBytes: 0 });
    expect(await store.remove(first)).toBe(true);
    expect(await store.remove(first)).toBe(false);
    expect(await codeOf(store.manifest(first))).toBe('ARCHIVE_MISSING');
    expect(await store.collect([blobOf(own).digest]), 'pinned').toEqual({ blobs: 0, sizeBytes: 0 });
    // The second sample put it once more, without naming it.
    await store.release([blobOf(own).digest]);
    expect(await store.collect()).toEqual({ blobs: 1, sizeBytes: own.length });
    expect((await store.verify(second)).wrong).toEqual([]);
  });

  it('does not collect what a living writer has put or found there and not named yet', async () => {
    const { store, again } = await begin();
    const { digest } = await store.putBlob(chunksOf('new'));
    expect(await again().collect()).toEqual({ blobs: 0, sizeBytes: 0 });
    const other = again();
    expect(await other.hasBlob(digest)).toBe(true);
    await store.release([digest]);
    expect(await store.collect()).toEqual({ blobs: 0, sizeBytes: 0 });
    await other.release([digest]);
    expect(await store.collect()).toEqual({ blobs: 1, sizeBytes: 3 });
    expect(await store.hasBlob(digest)).toBe(false);
  });

  it('keeps what one of two writers has put when the other lets go of the same', async () => {
    const { store, again } = await begin();
    const other = again();
    const { digest } = await store.putBlob(chunksOf('shared'));
    await other.putBlob(chunksOf('shared'));
    await other.close();
    expect(await again().collect()).toEqual({ blobs: 0, sizeBytes: 0 });
    await store.close();
    expect(await again().collect()).toEqual({ blobs: 1, sizeBytes: 6 });
    expect(await store.putBlob(chunksOf('shared')), 'used again').toMatchObject({ digest });
  });

  it('collects nothing while it cannot read what is needed', async () => {
    const { store, spoil } = await begin();
    const id = await putSample(store);
    const { digest } = await store.putBlob(chunksOf('unneeded'));
    await store.release([digest]);
    await spoil('manifest', id, 'changed');
    expect(await codeOf(store.collect())).toBe('ARCHIVE_DAMAGED');
    expect(await store.hasBlob(digest)).toBe(true);
  });

  it('verifies by reading everything again', async () => {
    const { store, spoil } = await begin();
    const id = await putSample(store);
    const sizeBytes = SAMPLE_TEXTS.join('').length;
    expect(await store.verify(id)).toEqual({ id, blobs: 4, sizeBytes, wrong: [] });
    const [changed, gone] = [blobOf(SAMPLE_TEXTS[0]).digest, blobOf(SAMPLE_TEXTS[1]).digest];
    await spoil('blob', changed, 'changed');
    await spoil('blob', gone, 'gone');
    const { wrong } = await store.verify(id);
    expect(wrong).toHaveLength(2);
    expect(wrong).toContainEqual({ digest: changed, kind: 'blob', what: 'damaged' });
    expect(wrong).toContainEqual({ digest: gone, kind: 'blob', what: 'missing' });
    await spoil('manifest', id, 'changed');
    expect(await codeOf(store.verify(id))).toBe('ARCHIVE_DAMAGED');
    expect(await codeOf(store.verify(NONE))).toBe('ARCHIVE_MISSING');
    const stopped = AbortSignal.abort();
    await spoil('manifest', id, 'gone');
    const whole = await putSample(store);
    expect(await codeOf(store.verify(whole, stopped))).toBe('CANCELLED');
  });

  it('lists a group whose members are there, and keeps them', async () => {
    const { store, spoil } = await begin();
    const sso = await putSample(store);
    const pg = await putSample(store, { stack: 'pg', project: 'pg' });
    const group = encodeGroup(
      sampleGroup([
        { stack: 'sso', archive: sso },
        { stack: 'pg', archive: pg },
      ]),
    );
    const lacking = encodeGroup(sampleGroup([{ stack: 'sso', archive: NONE }]));
    expect(await codeOf(store.putManifest(lacking.bytes, 'signed'))).toBe('ARCHIVE_MISSING');
    const swapped = encodeGroup(sampleGroup([{ stack: 'sso', archive: pg }]));
    expect(await codeOf(store.putManifest(swapped.bytes, 'signed'))).toBe('ARCHIVE_INVALID');
    expect(await store.putManifest(group.bytes, 'signed')).toBe(group.id);
    expect((await store.list()).map((one) => one.kind).sort()).toEqual(['archive', 'archive', 'group']);
    expect(await codeOf(store.remove(pg))).toBe('ARCHIVE_IN_USE');
    expect(await store.verify(group.id)).toMatchObject({ blobs: 4, wrong: [] });
    await spoil('manifest', pg, 'gone');
    expect((await store.verify(group.id)).wrong).toEqual([{ digest: pg, kind: 'manifest', what: 'missing' }]);
    expect(await store.remove(group.id)).toBe(true);
    expect(await store.remove(sso)).toBe(true);
  });

  it('is empty before anything was put', async () => {
    const { store, knowsSpace } = await begin();
    expect(await store.list()).toEqual([]);
    expect(await store.collect()).toEqual({ blobs: 0, sizeBytes: 0 });
    expect(await store.remove(NONE)).toBe(false);
    const freeBytes = await store.freeBytes();
    if (knowsSpace) expect(freeBytes).toBeGreaterThan(0);
    else expect(freeBytes).toBeNull();
    await store.release([NONE]);
  });

  it('takes many writers and a collector at once', async () => {
    const { store, again } = await begin();
    const write = async (number: number) => {
      const own = again();
      const text = `volume ${number % 3}`;
      for (const shared of [...SAMPLE_TEXTS, text]) await own.putBlob(chunksOf(shared));
      const { bytes } = encodeManifest(sampleManifest({ madeAtMs: number, payloads: [payloadOf('data', text)] }));
      return await own.putManifest(bytes, 'signed');
    };
    const collecting = (async () => {
      for (let round = 0; round < 10; round++) await store.collect();
    })();
    const ids = await Promise.all(Array.from({ length: 12 }, (_, number) => write(number)));
    await collecting;
    expect(await store.list()).toHaveLength(12);
    for (const id of ids) expect((await store.verify(id)).wrong).toEqual([]);
  });
});
