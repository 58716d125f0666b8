// An archive store with a restic repository beside it: what lies there is listed, read, verified, carried out and collected as all else.
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { exportArchive, importArchive } from '../../../src/adapters/archive/bak.ts';
import { DirStore } from '../../../src/adapters/archive/dir-store.ts';
import { withRepository } from '../../../src/adapters/archive/repository-store.ts';
import { run, spawnStream } from '../../../src/adapters/process/run.ts';
import { ResticRepository } from '../../../src/adapters/restic/repository.ts';
import { encodeManifest } from '../../../src/core/archive/manifest.ts';
import type { PayloadRecord } from '../../../src/core/archive/payload.ts';
import { Fault } from '../../../src/core/fault.ts';
import type { ArchiveStore } from '../../../src/ports/archive.ts';
import { payloadOf, SAMPLE_TEXTS, sampleManifest, VOLUME_TEXT } from '../../core/archive/sample.ts';
import { ensureRestic, makeWorld, type ResticWorld } from '../restic/real-restic.ts';
import { chunksOf, codeOf, readAll } from './store-fixture.ts';

const TIMEOUT_MS = 90_000;
const signal = new AbortController().signal;

let world: ResticWorld;
const opened: ArchiveStore[] = [];
beforeAll(ensureRestic, TIMEOUT_MS);
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
  world.dispose();
});

function repositoryOf(): ResticRepository {
  return new ResticRepository({
    programs: { run, spawnStream },
    redactor: { add() {} },
    repository: world.repository,
    passwordFile: world.passwordFile,
    cacheDirectory: join(world.dir, 'cache'),
    directory: join(world.dir, 'archives', 'restic'),
  });
}

function open(repository: ResticRepository | null, directory = join(world.dir, 'archives')): ArchiveStore {
  const holdsElsewhere = async (place: NonNullable<PayloadRecord['restic']>) =>
    (await repository?.holds(place)) ?? false;
  const store = withRepository(new DirStore({ directory, holdsElsewhere }), repository);
  opened.push(store);
  return store;
}

const snapshots = (): number => (JSON.parse(world.restic('snapshots', '--json')) as unknown[]).length;

/** One archive whose volume lies in the repository; its small files lie in the store. */
async function putArchive(store: ArchiveStore, repository: ResticRepository, tar: Uint8Array, madeAtMs = 1) {
  for (const text of SAMPLE_TEXTS) if (text !== VOLUME_TEXT) await store.putBlob(chunksOf(text));
  const writer = await repository.open(signal);
  const put = await writer.put(chunksOf(tar), { stack: 'sso', signal });
  const payload: PayloadRecord = {
    ...payloadOf('data', ''),
    format: 'tar',
    plainDigest: put.blob.digest,
    plainBytes: put.blob.sizeBytes,
    ...put,
  };
  const { bytes } = encodeManifest(sampleManifest({ version: 2, payloads: [payload], madeAtMs }));
  const id = await store.putManifest(bytes, 'signed');
  writer.close();
  return { id, payload, bytes };
}

function begin() {
  world = makeWorld();
  const repository = repositoryOf();
  return { repository, store: open(repository) };
}

function flipByte(): void {
  const packs = readdirSync(join(world.repository, 'data'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort((a, b) => statSync(b).size - statSync(a).size);
  const path = packs[0]!;
  const bytes = readFileSync(path);
  bytes[bytes.length >> 1]! ^= 1;
  chmodSync(path, 0o600);
  writeFileSync(path, bytes);
}

describe('an archive whose data lies in restic', { timeout: TIMEOUT_MS }, () => {
  it('is listed, read under the digest of its tar, and found right', async () => {
    const { repository, store } = begin();
    const tar = randomBytes(2_000_000);
    const { id, payload } = await putArchive(store, repository, tar);
    expect(await store.list()).toMatchObject([{ kind: 'archive', id }]);
    expect(
      existsSync(join(world.dir, 'archives/blobs/sha256', payload.blob.digest.slice(0, 2), payload.blob.digest)),
    ).toBe(false);
    expect((await readAll(store.readBlob(payload.blob.digest))).equals(tar)).toBe(true);
    expect(await store.hasBlob(payload.blob.digest)).toBe(true);
    expect(await store.verify(id)).toMatchObject({ id, wrong: [] });
    expect((await store.verify(id)).sizeBytes).toBeGreaterThan(tar.length);
  });

  it('is damaged when a byte of a pack flipped, and verifying says which blob', async () => {
    const { repository, store } = begin();
    const { id, payload } = await putArchive(store, repository, randomBytes(2_000_000));
    flipByte();
    expect((await store.verify(id)).wrong).toEqual([{ digest: payload.blob.digest, kind: 'blob', what: 'damaged' }]);
    world.restic('forget', payload.restic!.snapshot);
    expect((await store.verify(id)).wrong).toEqual([{ digest: payload.blob.digest, kind: 'blob', what: 'missing' }]);
  });

  it('is never called right nor wrong when restic cannot be asked', async () => {
    const { repository, store } = begin();
    const { id, payload } = await putArchive(store, repository, Buffer.from('tar'));
    const without = open(null);
    expect(await codeOf(without.verify(id))).toBe('REPOSITORY_REFUSED');
    expect(await codeOf(readAll(without.readBlob(payload.blob.digest)))).toBe('REPOSITORY_REFUSED');
    expect(await codeOf(readAll(without.readBlob('0'.repeat(64))))).toBe('ARCHIVE_MISSING');
    writeFileSync(world.passwordFile, 'wrong');
    expect(await codeOf(store.verify(id))).toBe('REPOSITORY_REFUSED');
  });

  it('is not taken in where its data is nowhere', async () => {
    const { repository, store } = begin();
    const { bytes, payload } = await putArchive(store, repository, Buffer.from('tar'));
    const other = open(null, join(world.dir, 'other'));
    for (const text of SAMPLE_TEXTS) await other.putBlob(chunksOf(text));
    expect(await codeOf(other.putManifest(bytes, 'signed'))).toBe('ARCHIVE_MISSING');
    world.restic('forget', payload.restic!.snapshot);
    const again = open(repositoryOf(), join(world.dir, 'again'));
    for (const text of SAMPLE_TEXTS) await again.putBlob(chunksOf(text));
    expect(await codeOf(again.putManifest(bytes, 'signed'))).toBe('ARCHIVE_MISSING');
  });

  it('is whole as .bak: where there is no restic it is the same archive, under the same id', async () => {
    const { repository, store } = begin();
    const tar = randomBytes(700_000);
    const { id, payload } = await putArchive(store, repository, tar);
    const bak = await readAll(exportArchive(store, id));
    const other = open(null, join(world.dir, 'other'));
    expect(await importArchive(other, chunksOf(bak))).toMatchObject({ id });
    expect(await other.verify(id)).toMatchObject({ wrong: [] });
    expect((await readAll(other.readBlob(payload.blob.digest))).equals(tar)).toBe(true);
    await other.collect();
    expect((await readAll(other.readBlob(payload.blob.digest))).equals(tar), 'its own copy is no blob too many').toBe(
      true,
    );
    flipByte();
    expect(await codeOf(readAll(exportArchive(store, id)))).toBe('ARCHIVE_DAMAGED');
  });

  it('is read from any snapshot that holds the same data', async () => {
    const { repository, store } = begin();
    const tar = randomBytes(500_000);
    const one = await putArchive(store, repository, tar, 1);
    const two = await putArchive(store, repository, tar, 2);
    expect(one.payload.blob).toEqual(two.payload.blob);
    world.restic('forget', two.payload.restic!.snapshot);
    expect((await readAll(store.readBlob(two.payload.blob.digest))).equals(tar)).toBe(true);
  });

  it('gives its space back once it is removed, and those beside it keep theirs', async () => {
    const { repository, store } = begin();
    const gone = await putArchive(store, repository, randomBytes(300_000), 1);
    const stays = await putArchive(store, repository, randomBytes(300_000), 2);
    await store.collect();
    expect(snapshots()).toBe(2);
    expect(await store.remove(gone.id)).toBe(true);
    expect(snapshots()).toBe(2);
    await store.collect();
    expect(snapshots()).toBe(1);
    expect(await store.verify(stays.id)).toMatchObject({ wrong: [] });
  });

  it('keeps its data when a manifest cannot be read, and when the manifests are not there', async () => {
    const { repository, store } = begin();
    const one = await putArchive(store, repository, randomBytes(300_000), 1);
    const two = await putArchive(store, repository, randomBytes(300_000), 2);
    await store.remove(one.id);
    const path = join(world.dir, 'archives/manifests', `${two.id}.json`);
    chmodSync(path, 0o600);
    writeFileSync(path, 'spoiled');
    expect(await codeOf(store.collect())).toBe('ARCHIVE_DAMAGED');
    expect(snapshots()).toBe(2);
    await open(repositoryOf(), join(world.dir, 'unmounted')).collect();
    // What was removed on purpose may go; what is only not found may not.
    expect(JSON.stringify(JSON.parse(world.restic('snapshots', '--json')))).toContain(two.payload.restic!.snapshot);
  });

  it('is not listed, and leaves nothing, when its data could not be read to the end', async () => {
    const { repository, store } = begin();
    const writer = await repository.open(signal);
    async function* half(): AsyncGenerator<Uint8Array> {
      yield randomBytes(100_000);
      throw new Fault('PAYLOAD_FAILED', 'half');
    }
    expect(await codeOf(writer.put(half(), { stack: 'sso', signal }))).toBe('PAYLOAD_FAILED');
    writer.close();
    expect(await store.list()).toEqual([]);
    await store.collect();
    expect(snapshots()).toBe(0);
  });
});
