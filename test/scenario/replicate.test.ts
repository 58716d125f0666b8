// Replication between stores: what is copied, what is not, what is on record, and what a crash in the middle leaves.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DirStore } from '../../src/adapters/archive/dir-store.ts';
import { RemoteStore } from '../../src/adapters/archive/remote-store.ts';
import { S3Objects } from '../../src/adapters/archive/s3-objects.ts';
import { withReplicas } from '../../src/adapters/archive/with-replicas.ts';
import { Replication } from '../../src/controller/replication.ts';
import { encodeGroup, encodeManifest, type Manifest } from '../../src/core/archive/manifest.ts';
import { Fault } from '../../src/core/fault.ts';
import { bringBack, replicaStatuses, replicate, replicateOnRecord } from '../../src/operations/archive/replicate.ts';
import type { House } from '../../src/operations/house.ts';
import type { ArchiveStore } from '../../src/ports/archive.ts';
import { ACCESS_KEY, S3Double, SECRET_KEY } from '../adapters/archive/s3-double.ts';
import { chunksOf, faultOf, s3PlaceOf } from '../adapters/archive/store-fixture.ts';
import { blobOf, payloadOf, SAMPLE_TEXTS, sampleGroup, sampleManifest } from '../core/archive/sample.ts';
import { memoryFolder } from '../sim/memory-folder.ts';
import { SimHouse } from '../sim/sim-house.ts';

const signal = new AbortController().signal;
const MIB = 1024 * 1024;

describe('replication', () => {
  let folder: string;
  let double: S3Double;
  let sim: SimHouse;
  let main: DirStore;
  let remote: RemoteStore;
  let house: House;

  const openRemote = (): RemoteStore =>
    new RemoteStore({
      objects: new S3Objects({
        place: s3PlaceOf(double),
        patience: { tries: 2, deadlineMs: 2_000, pauseMs: 2 },
      }),
      patience: { tries: 2, deadlineMs: 2_000, pauseMs: 2 },
    });

  const houseWith = (own: ArchiveStore): House => ({
    ...sim.house,
    archives: {
      own,
      store: withReplicas(own, [{ name: 'offsite', store: remote }]),
      replicas: [{ name: 'offsite', store: remote }],
      sign: () => 'signed',
      check: (_bytes, signature) => {
        if (signature !== 'signed') throw new Fault('ARCHIVE_UNTRUSTED', 'nobody of ours signed it');
        return 'key';
      },
      recipients: [],
      exportTo: () => Promise.reject(new Error('not here')),
      importFrom: () => Promise.reject(new Error('not here')),
    },
  });

  beforeEach(async () => {
    folder = await mkdtemp(join(memoryFolder(), 'wl-replicate-'));
    double = await S3Double.start();
    sim = new SimHouse(1);
    main = new DirStore({ directory: join(folder, 'main') });
    remote = openRemote();
    house = houseWith(main);
  });
  afterEach(async () => {
    double.behave = () => null;
    await main.close();
    await remote.close();
    await sim.dispose();
    await double.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const offsite = () => house.archives!.replicas![0]!;

  const archive = async (change: Partial<Manifest> = {}, signature = 'signed'): Promise<string> => {
    for (const text of SAMPLE_TEXTS) await main.putBlob(chunksOf(text));
    return await main.putManifest(encodeManifest(sampleManifest(change)).bytes, signature);
  };

  it('copies what is missing, once, and blobs that archives share once', async () => {
    const ids = [await archive({ madeAtMs: 1 }), await archive({ madeAtMs: 2 })];
    expect(await replicate(house, offsite(), { signal })).toMatchObject({
      archives: [ids[1], ids[0]],
      blobs: SAMPLE_TEXTS.length,
      failures: [],
    });
    for (const id of ids) expect((await remote.verify(id)).wrong).toEqual([]);
    const puts = () => double.calls.filter((call) => call.method === 'PUT' && /blobs|manifests/.test(call.key)).length;
    const before = puts();
    expect(await replicate(house, offsite(), { signal })).toMatchObject({ archives: [], blobs: 0 });
    expect(puts(), 'the second run writes nothing').toBe(before);
    expect(replicaStatuses(house)).toMatchObject([{ name: 'offsite', has: new Set(ids) }]);
  });

  it('copies a group after its members, and no safety archive', async () => {
    const sso = await archive();
    const pg = await archive({ stack: 'pg', project: 'pg' });
    await archive({ madeAtMs: 5, purpose: 'safety' });
    const { bytes, id } = encodeGroup(
      sampleGroup([
        { stack: 'sso', archive: sso },
        { stack: 'pg', archive: pg },
      ]),
    );
    await main.putManifest(bytes, 'signed');
    await replicate(house, offsite(), { signal });
    expect((await remote.list()).map((one) => one.id).sort()).toEqual([sso, pg, id].sort());
    expect(await remote.verify(id)).toMatchObject({ blobs: SAMPLE_TEXTS.length, wrong: [] });
  });

  it('copies nothing that nobody of ours signed, nor what is damaged, and goes on with the others', async () => {
    const good = await archive({ madeAtMs: 1 });
    const strange = await archive({ madeAtMs: 2 }, 'signed by somebody');
    const { done, fault } = await replicateOnRecord(house, offsite(), { signal });
    expect(done?.failures).toMatchObject([{ id: strange, code: 'ARCHIVE_UNTRUSTED' }]);
    expect(fault?.message).toContain(strange.slice(0, 12));
    expect((await remote.list()).map((one) => one.id)).toEqual([good]);
  });

  it('says once that a replica cannot be reached, tries again with growing pauses, and says when it is whole again', async () => {
    await archive();
    const said: string[] = [];
    const replication = new Replication({
      house,
      say: (level, reason, message) => void said.push(`${level} ${reason} ${message}`),
      log: () => {},
      signal,
    });
    double.behave = () => ({ kind: 'answer', status: 403, code: 'AccessDenied' });
    await replication.look();
    const [status] = replicaStatuses(house);
    expect(status?.failing).toMatchObject({ failures: 1, code: 'ARCHIVE_DENIED' });
    const calls = double.calls.length;
    await replication.look();
    expect(double.calls.length, 'not before the pause is over').toBe(calls);
    await sim.clock.advance(400_000);
    await replication.look();
    expect(replicaStatuses(house)[0]?.failing?.failures).toBe(2);
    expect(said).toHaveLength(1);
    expect(said[0]).toMatch(/^error ReplicationFailed replica offsite: .*AccessDenied/);
    expect(said.join()).not.toContain(SECRET_KEY);
    double.behave = () => null;
    await sim.clock.advance(700_000);
    await replication.look();
    expect(said[1]).toMatch(/^info Replicated replica offsite holds every archive/);
    expect(replicaStatuses(house)[0]).toMatchObject({ failing: null, lastMs: sim.clock.nowMs() });
    const quiet = double.calls.length;
    await replication.look();
    expect(double.calls.length, 'nothing is lacking, so nobody is asked').toBe(quiet);
  });

  it('copies again what was lost there, once the replica is looked at as a whole', async () => {
    const id = await archive();
    const replication = new Replication({ house, say: () => {}, log: () => {}, signal });
    await replication.look();
    double.objects.clear();
    await sim.clock.advance(7 * 3600_000);
    await replication.look();
    expect((await remote.verify(id)).wrong).toEqual([]);
  });

  it('repairs by name what is damaged on either side', async () => {
    const id = await archive();
    await replicate(house, offsite(), { signal });
    const spoil = async (): Promise<void> => {
      const [key = ''] = [...double.objects.keys()].filter((one) => one.startsWith('blobs/'));
      const bytes = await double.content(key);
      bytes[0]! ^= 1;
      await double.replace(key, bytes);
    };
    await spoil();
    expect((await remote.verify(id)).wrong).toHaveLength(1);
    expect(await replicate(house, offsite(), { signal, ids: [id] })).toMatchObject({ blobs: 1, failures: [] });
    expect((await remote.verify(id)).wrong).toEqual([]);
    await rm(join(folder, 'main', 'blobs', 'sha256'), { recursive: true, force: true });
    expect(await bringBack(house, offsite(), id, signal)).toMatchObject({ blobs: SAMPLE_TEXTS.length });
    expect((await main.verify(id)).wrong).toEqual([]);
  });

  it('brings back what lies damaged under its name, also where no archive names it any more', async () => {
    const id = await archive();
    await replicate(house, offsite(), { signal });
    await main.remove(id);
    const { digest } = blobOf(SAMPLE_TEXTS[0] ?? '');
    const path = join(folder, 'main', 'blobs', 'sha256', digest.slice(0, 2), digest);
    await chmod(path, 0o600);
    await writeFile(path, 'x'.repeat((SAMPLE_TEXTS[0] ?? '').length));
    expect(await bringBack(house, offsite(), id, signal)).toMatchObject({ manifests: 1, blobs: 1 });
    expect((await main.verify(id)).wrong).toEqual([]);
  });

  it('puts a blob again of which only a part got there, though nothing names it there yet', async () => {
    const id = await archive();
    const { digest } = blobOf(SAMPLE_TEXTS[0] ?? '');
    await double.replace(`blobs/sha256/${digest.slice(0, 2)}/${digest}`, Buffer.from('p'));
    expect(await replicate(house, offsite(), { signal })).toMatchObject({ failures: [], archives: [id] });
    expect((await remote.verify(id)).wrong).toEqual([]);
  });

  it('brings an archive back to a bare machine, and restores through a replica without doing so', async () => {
    const id = await archive();
    await replicate(house, offsite(), { signal });
    const bare = new DirStore({ directory: join(folder, 'bare') });
    const there = houseWith(bare);
    expect(await there.archives!.store.manifest(id), 'read through').toMatchObject({ id });
    expect(await bare.list()).toEqual([]);
    expect(await bringBack(there, offsite(), id, signal)).toMatchObject({ manifests: 1, blobs: SAMPLE_TEXTS.length });
    expect((await bare.verify(id)).wrong).toEqual([]);
    await bare.close();
  });

  it('refuses to bring back what somebody else put into the bucket', async () => {
    for (const text of SAMPLE_TEXTS) await remote.putBlob(chunksOf(text));
    const id = await remote.putManifest(encodeManifest(sampleManifest()).bytes, 'signed by a thief');
    const fault = await faultOf(bringBack(house, offsite(), id, signal));
    expect(fault.code).toBe('ARCHIVE_UNTRUSTED');
    expect(await main.list()).toEqual([]);
  });

  describe('in a process of its own', () => {
    const children: ChildProcess[] = [];
    afterEach(() => {
      for (const child of children.splice(0)) child.kill('SIGKILL');
    });

    const start = (id: string): { readonly child: ChildProcess; readonly ended: Promise<string | null> } => {
      const child = spawn(
        process.execPath,
        [
          join(import.meta.dirname, 'replicating-process.ts'),
          ...[join(folder, 'main'), double.endpoint, double.bucket, double.region, ACCESS_KEY, SECRET_KEY, id],
        ],
        { stdio: ['ignore', 'pipe', 'inherit'] },
      );
      children.push(child);
      let out = '';
      child.stdout!.on('data', (chunk) => {
        out += String(chunk);
      });
      const ended = new Promise<string | null>((resolve) =>
        child.on('exit', (code) => resolve(code === 0 ? out : null)),
      );
      return { child, ended };
    };

    const large = async (blobs: readonly Uint8Array[]): Promise<string> => {
      for (const text of SAMPLE_TEXTS) await main.putBlob(chunksOf(text));
      const payloads = [];
      for (const [at, bytes] of blobs.entries()) {
        const { digest, sizeBytes } = await main.putBlob(chunksOf(bytes));
        payloads.push({ ...payloadOf(`data${at}`, ''), blob: { digest, sizeBytes } });
      }
      return await main.putManifest(encodeManifest(sampleManifest({ payloads })).bytes, 'signed');
    };

    it('goes on after kill -9 at any blob, without what was copied being copied again, and lists nothing before the end', async () => {
      const contents = Array.from({ length: 12 }, () => randomBytes(2 * MIB));
      const id = await large(contents);
      const putsOf = () => double.calls.filter((call) => call.method === 'PUT' && call.key.startsWith('blobs/')).length;
      const total = contents.length + SAMPLE_TEXTS.length - 1;
      let kills = 0;
      for (; ; kills++) {
        const before = putsOf();
        const { child, ended } = start(id);
        double.behave = (call) => {
          if (kills < 4 && call.method === 'PUT' && call.key.startsWith('blobs/') && putsOf() > before + 3)
            child.kill('SIGKILL');
          return null;
        };
        if ((await ended) !== null) break;
        expect(await openRemote().list(), 'not listed before it is whole').toEqual([]);
      }
      expect(kills).toBeGreaterThanOrEqual(2);
      expect((await openRemote().verify(id)).wrong).toEqual([]);
      // Those under way when it was killed may be put twice.
      expect(putsOf()).toBeLessThanOrEqual(total + kills * 4);
    }, 120_000);

    it('copies half a GiB in flat memory', async () => {
      const hash = createHash('sha256');
      const block = randomBytes(4 * MIB);
      const generated = async function* (): AsyncGenerator<Uint8Array> {
        for (let at = 0; at < 128; at++) {
          block.writeUInt32BE(at, 0);
          const chunk = Buffer.from(block);
          hash.update(chunk);
          yield chunk;
        }
      };
      for (const text of SAMPLE_TEXTS) await main.putBlob(chunksOf(text));
      const blob = await main.putBlob(generated());
      expect(blob.sizeBytes).toBe(512 * MIB);
      const payloads = [{ ...payloadOf('data', ''), blob }];
      const id = await main.putManifest(encodeManifest(sampleManifest({ payloads })).bytes, 'signed');
      const said = await start(id).ended;
      expect(said).not.toBeNull();
      const { mostBytes } = JSON.parse(said!) as { mostBytes: number };
      expect(mostBytes / MIB).toBeLessThan(320);
      expect(await openRemote().verify(id)).toMatchObject({ wrong: [] });
      expect(blob.digest).toBe(hash.digest('hex'));
    }, 180_000);
  });
});
