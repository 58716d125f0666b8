// The s3 store against a server that fails as servers do. What every store keeps to is in the contract suite.
import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { RemoteStore } from '../../../src/adapters/archive/remote-store.ts';
import { S3Objects } from '../../../src/adapters/archive/s3-objects.ts';
import { encodeManifest } from '../../../src/core/archive/manifest.ts';
import { Fault } from '../../../src/core/fault.ts';
import { blobOf, SAMPLE_TEXTS, sampleManifest } from '../../core/archive/sample.ts';
import { ACCESS_KEY, type S3Call, S3Double } from './s3-double.ts';
import { asks, chunksOf, eachOnDouble, faultOf, putArchives, readAll, s3PlaceOf } from './store-fixture.ts';

const PATIENCE = { tries: 3, deadlineMs: 400, pauseMs: 2 };
const KIB = 1024;

const withSecret = (secretAccessKey: string) => async () => ({ accessKeyId: ACCESS_KEY, secretAccessKey });

describe('the s3 store', () => {
  const bench = eachOnDouble(S3Double.start);
  let double: S3Double;
  beforeEach(() => {
    double = bench.double;
  });

  const open = (
    change: {
      bucket?: string;
      secret?: string;
      region?: string;
      idleMs?: number;
      mostKeys?: number;
      isThin?: boolean;
    } = {},
  ): RemoteStore => {
    const objects = new S3Objects({
      place: s3PlaceOf(double, {
        prefix: 'windlass',
        ...(change.bucket === undefined ? {} : { bucket: change.bucket }),
        ...(change.region === undefined ? {} : { region: change.region }),
        ...(change.secret === undefined ? {} : { credentials: withSecret(change.secret) }),
      }),
      patience: PATIENCE,
      partBytes: 64 * KIB,
      copyPartBytes: 100 * KIB,
      idleMs: change.idleMs ?? 300,
      ...(change.isThin ? {} : { slowestBytesPerMs: 1_000 }),
      ...(change.mostKeys === undefined ? {} : { mostKeys: change.mostKeys }),
    });
    return bench.keep(new RemoteStore({ objects, patience: PATIENCE }));
  };

  const isBlob = (call: S3Call): boolean => call.key.includes('/blobs/');

  it('says which of key, region and bucket is refused, and never the secret', async () => {
    for (const [change, words] of [
      [{ secret: 'another secret of mine' }, 'SignatureDoesNotMatch'],
      [{ bucket: 'elsewhere' }, 'no such bucket'],
      [{ region: 'us-east-1' }, 'AuthorizationHeaderMalformed'],
    ] as const) {
      const store = open(change);
      for (const work of [...asks(store, 'a'.repeat(64)), () => store.putBlob(chunksOf('x'))]) {
        const fault = await faultOf(work());
        if (words !== 'AuthorizationHeaderMalformed') expect(fault.code).toBe('ARCHIVE_DENIED');
        expect(fault.message).toContain(words);
        expect(JSON.stringify([fault.message, fault.data, String(fault.cause)])).not.toContain('another secret');
      }
    }
  });

  it.each([
    ['403', { kind: 'answer', status: 403, code: 'AccessDenied' }, 'ARCHIVE_DENIED'],
    ['503 for ever', { kind: 'answer', status: 503, code: 'SlowDown' }, 'ARCHIVE_UNREACHABLE'],
    ['a cut connection', { kind: 'cut', when: 'before' }, 'ARCHIVE_UNREACHABLE'],
    ['silence', { kind: 'hang' }, 'ARCHIVE_UNREACHABLE'],
    ['the 404 of a proxy', { kind: 'page', status: 404 }, 'ARCHIVE_FAILED'],
    ['a redirect', { kind: 'answer', status: 301, code: 'PermanentRedirect' }, 'ARCHIVE_DENIED'],
    ['a missing bucket', { kind: 'answer', status: 404, code: 'NoSuchBucket' }, 'ARCHIVE_DENIED'],
  ] as const)('never takes %s for something that is not there', async (_, how, code) => {
    const store = open();
    const { digest } = await store.putBlob(chunksOf('there'));
    double.behave = () => how;
    for (const work of asks(store, digest)) expect((await faultOf(work())).code).toBe(code);
  });

  it('asks again when the reason of a refusal breaks off, rather than judge by a half of it', async () => {
    const store = open();
    double.behave = ({ nth }) => (nth === 1 ? { kind: 'answer', status: 404, breaksOff: true } : null);
    expect(await store.hasBlob('b'.repeat(64))).toBe(false);
    expect(double.calls).toHaveLength(2);
  });

  it('says at once what is not there', async () => {
    const store = open();
    expect((await faultOf(store.manifest('b'.repeat(64)))).code).toBe('ARCHIVE_MISSING');
    expect(await store.hasBlob('b'.repeat(64))).toBe(false);
    expect(double.calls).toHaveLength(2);
  });

  it.each([
    ['busy', { kind: 'answer', status: 503, code: 'SlowDown' }],
    ['gone before the call', { kind: 'cut', when: 'before' }],
    ['gone after the work was done', { kind: 'cut', when: 'after' }],
    ['silent', { kind: 'hang' }],
  ] as const)('tries again when the server is %s, and goes on', async (_, how) => {
    const store = open();
    double.behave = (call) => (call.nth === 1 && (isBlob(call) || call.key.includes('/incoming/')) ? how : null);
    const content = randomBytes(300 * KIB);
    const blob = await store.putBlob(chunksOf(content));
    expect((await readAll(store.readBlob(blob.digest))).equals(content)).toBe(true);
    const announced = blobOf('announced');
    expect(await store.putBlob(chunksOf('announced'), undefined, announced)).toEqual(announced);
    // One whose name never came back cannot be called off, and holds nothing.
    for (const upload of double.uploads.values()) expect(upload.parts.size).toBe(0);
  });

  it('goes on where a read broke off', async () => {
    const store = open();
    const content = randomBytes(700 * KIB);
    const { digest } = await store.putBlob(chunksOf(content));
    let cuts = 0;
    double.behave = (call) => {
      const isRead = call.method === 'GET' && isBlob(call) && call.headers.range !== 'bytes=0-0';
      return isRead && cuts++ < 8 ? { kind: 'cut-body', atByte: 70 * KIB } : null;
    };
    expect((await readAll(store.readBlob(digest))).equals(content)).toBe(true);
    expect(cuts).toBeGreaterThan(5);
  });

  it('gives up a read that stands still, and says so', async () => {
    const store = open();
    const { digest } = await store.putBlob(chunksOf(randomBytes(700 * KIB)));
    double.behave = (call) =>
      call.method === 'GET' && isBlob(call) && call.headers.range !== 'bytes=0-0' ? { kind: 'hang' } : null;
    const fault = await faultOf(readAll(store.readBlob(digest)));
    expect(fault.code).toBe('ARCHIVE_UNREACHABLE');
    expect(fault.message).toContain('said nothing');
  });

  it('gives up a list and a read that come byte by byte, although they never stand still', async () => {
    const store = open();
    const { digest } = await store.putBlob(chunksOf(randomBytes(60 * KIB)));
    double.behave = (call) =>
      call.method === 'GET' && (call.query.has('list-type') || (isBlob(call) && call.headers.range !== 'bytes=0-0'))
        ? { kind: 'drip', everyMs: 20 }
        : null;
    const before = double.calls.length;
    expect(await faultOf(store.list())).toMatchObject({ code: 'ARCHIVE_UNREACHABLE' });
    // Not as often as there are tries.
    expect(double.calls.length - before).toBeLessThan(PATIENCE.tries);
    const fault = await faultOf(readAll(store.readBlob(digest)));
    expect(fault).toMatchObject({ code: 'ARCHIVE_UNREACHABLE', message: expect.stringContaining('less than 16 KiB') });
  });

  it('does not blame the server while the reader takes his time', async () => {
    const store = open({ idleMs: 60 });
    const content = randomBytes(300 * KIB);
    const { digest } = await store.putBlob(chunksOf(content));
    const chunks: Uint8Array[] = [];
    for await (const chunk of store.readBlob(digest)) {
      if (chunks.length === 0) await new Promise((resolve) => setTimeout(resolve, 200));
      chunks.push(chunk);
    }
    expect(Buffer.concat(chunks).equals(content)).toBe(true);
  });

  it('notices other content of the same length at the end of a read', async () => {
    const store = open();
    const { digest } = await store.putBlob(chunksOf(randomBytes(9 * KIB)));
    double.behave = (call) => (isBlob(call) ? { kind: 'spoil' } : null);
    expect((await faultOf(readAll(store.readBlob(digest)))).code).toBe('ARCHIVE_DAMAGED');
  });

  it('gives a thin line the time that a large part needs, and no more', async () => {
    const store = open({ isThin: true });
    const content = randomBytes(60 * KIB);
    // Longer than the deadline of a call; 60 KiB may take half a second more.
    double.behave = (call) => (call.method === 'PUT' && isBlob(call) ? { kind: 'late', afterMs: 550 } : null);
    const blob = await store.putBlob(chunksOf(content));
    expect(blob.sizeBytes).toBe(content.length);
    double.behave = (call) => (call.method === 'PUT' && isBlob(call) ? { kind: 'hang' } : null);
    expect((await faultOf(store.putBlob(chunksOf(randomBytes(60 * KIB))))).code).toBe('ARCHIVE_UNREACHABLE');
  });

  it.each([
    ['in one call', 150],
    ['in parts', 333],
  ])('copies a blob of unknown digest to its place %s, and leaves nothing beside it', async (_, kib) => {
    const store = open();
    const content = randomBytes(kib * KIB + 7);
    const { digest } = await store.putBlob(chunksOf(content.subarray(0, 100), content.subarray(100)));
    const key = `windlass/blobs/sha256/${digest.slice(0, 2)}/${digest}`;
    expect((await double.content(key)).equals(content)).toBe(true);
    expect([...double.objects.keys()].filter((one) => one.includes('/incoming/'))).toEqual([]);
    expect(double.uploads.size).toBe(0);
  });

  it('puts an announced blob under its digest at once, and only when it is what was announced', async () => {
    const store = open();
    const content = randomBytes(200 * KIB);
    const { digest, sizeBytes } = await open().putBlob(chunksOf(content));
    const key = `windlass/blobs/sha256/${digest.slice(0, 2)}/${digest}`;
    double.objects.delete(key);
    const other = Buffer.from(content);
    other[other.length - 1]! ^= 1;
    const fault = await faultOf(store.putBlob(chunksOf(other), undefined, { digest, sizeBytes }));
    expect(fault.code).toBe('ARCHIVE_DAMAGED');
    expect(double.objects.has(key)).toBe(false);
    expect(double.uploads.size, 'it was called off').toBe(0);
    await store.putBlob(chunksOf(content), undefined, { digest, sizeBytes });
    expect(double.objects.has(key)).toBe(true);
    expect(double.calls.some((call) => call.headers['x-amz-copy-source'] && call.nth > 1)).toBe(false);
  });

  it.each(['known', 'refused', 'ignored'] as const)(
    'lists an archive once on a server where If-None-Match is %s',
    async (conditions) => {
      double.conditions = conditions;
      const store = open();
      for (const text of SAMPLE_TEXTS) await store.putBlob(chunksOf(text));
      const { bytes, id } = encodeManifest(sampleManifest());
      await store.putManifest(bytes, 'signed');
      await open().putManifest(bytes, 'signed by another');
      expect(await store.manifest(id)).toMatchObject({ signature: 'signed' });
      expect(await store.list()).toHaveLength(1);
    },
  );

  it('writes over no manifest that somebody else was faster to put', async () => {
    const store = open();
    for (const text of SAMPLE_TEXTS) await store.putBlob(chunksOf(text));
    const { bytes, id } = encodeManifest(sampleManifest());
    let raced = false;
    double.behave = (call) => {
      if (call.method === 'PUT' && call.key.endsWith('.json') && !raced) {
        raced = true;
        void double.replace(call.key, bytes);
      }
      return null;
    };
    expect(await store.putManifest(bytes, 'signed')).toBe(id);
    const puts = double.calls.filter((call) => call.method === 'PUT' && call.key.endsWith('.json'));
    expect(puts.every((call) => call.headers['if-none-match'] === '*')).toBe(true);
  });

  it('lists nothing when the manifest does not get through', async () => {
    const store = open();
    for (const text of SAMPLE_TEXTS) await store.putBlob(chunksOf(text));
    double.behave = (call) =>
      call.method === 'PUT' && call.key.endsWith('.json') ? { kind: 'answer', status: 503, code: 'SlowDown' } : null;
    const { bytes } = encodeManifest(sampleManifest());
    expect((await faultOf(store.putManifest(bytes, 'signed'))).code).toBe('ARCHIVE_UNREACHABLE');
    double.behave = () => null;
    expect(await store.list()).toEqual([]);
    await store.putManifest(bytes, 'signed');
    expect(await store.list()).toHaveLength(1);
  });

  it('reads a list of many pages to its end, and trusts none that stops early', async () => {
    double.pageSize = 3;
    const store = open();
    await putArchives(store, 8);
    expect(await open().list()).toHaveLength(8);
    double.behave = (call) =>
      call.query.has('continuation-token') ? { kind: 'late-error', code: 'InternalError' } : null;
    expect((await faultOf(open().list())).code).toBe('ARCHIVE_UNREACHABLE');
  });

  it('refuses a list that is longer than any store has, rather than hold it or a part of it', async () => {
    double.pageSize = 3;
    const store = open();
    await putArchives(store, 4);
    const fault = await faultOf(open({ mostKeys: 7 }).list());
    expect(fault).toMatchObject({ code: 'ARCHIVE_FAILED', message: expect.stringContaining('more than 7') });
    expect(await open({ mostKeys: 8 }).list()).toHaveLength(4);
  });

  it('calls off old uploads of every page, and none that is young or not its own', async () => {
    double.pageSize = 2;
    const old = Date.now() - 8 * 86_400_000;
    for (let at = 0; at < 7; at++)
      double.uploads.set(`old-${at}`, { key: `windlass/incoming/${at}.part`, beganMs: old, parts: new Map() });
    double.uploads.set('young', { key: 'windlass/incoming/9.part', beganMs: Date.now(), parts: new Map() });
    double.uploads.set('strange', { key: 'windlass/photos/1.jpg', beganMs: old, parts: new Map() });
    await open().collect();
    expect([...double.uploads.keys()].sort()).toEqual(['strange', 'young']);
  });

  it('takes an error under the status 200 for an error', async () => {
    const store = open();
    double.behave = (call) =>
      call.method === 'POST' && call.query.has('uploadId') ? { kind: 'late-error', code: 'InternalError' } : null;
    expect((await faultOf(store.putBlob(chunksOf(randomBytes(200 * KIB))))).code).toBe('ARCHIVE_UNREACHABLE');
    expect([...double.objects.keys()].filter((key) => key.includes('/blobs/'))).toEqual([]);
  });

  it('says that the server is full', async () => {
    const store = open();
    double.behave = (call) =>
      call.method === 'PUT' && isBlob(call) ? { kind: 'answer', status: 507, code: 'XMinioStorageFull' } : null;
    expect((await faultOf(store.putBlob(chunksOf('x')))).code).toBe('ARCHIVE_NO_SPACE');
  });

  it('calls off the upload of a source that fails, and collects what a killed writer left once its note is old', async () => {
    const store = open();
    const failing = async function* () {
      yield randomBytes(200 * KIB);
      throw new Fault('PAYLOAD_FAILED', 'the source broke');
    };
    expect((await faultOf(store.putBlob(failing()))).code).toBe('PAYLOAD_FAILED');
    expect(double.uploads.size).toBe(0);

    const { digest } = await store.putBlob(chunksOf('kept by a living writer'));
    const other = open();
    expect(await other.collect()).toEqual({ blobs: 0, sizeBytes: 0 });
    // As after kill -9: the note stays, and grows old.
    for (const [key, object] of double.objects)
      if (key.includes('/notes/writers/')) double.objects.set(key, { ...object, atMs: Date.now() - 61 * 60_000 });
    expect(await other.collect()).toMatchObject({ blobs: 1 });
    expect(await other.hasBlob(digest)).toBe(false);
  });

  it('waits for a collector that is at work, and for none that died long ago', async () => {
    const store = open();
    const key = 'windlass/notes/collectors/other';
    await double.replace(key, Buffer.from('{}'));
    let isPut = false;
    const putting = store.putBlob(chunksOf('x')).then(() => {
      isPut = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(isPut).toBe(false);
    double.objects.set(key, { ...double.objects.get(key)!, atMs: Date.now() - 11 * 60_000 });
    await putting;
    expect(isPut).toBe(true);
  });
});
