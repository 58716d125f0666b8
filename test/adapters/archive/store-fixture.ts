// What the tests of archive stores have in common: bytes in and out, what was thrown, and the doubles with their places.
import { afterEach, beforeEach } from 'vitest';
import type { RemoteStore } from '../../../src/adapters/archive/remote-store.ts';
import type { S3Place } from '../../../src/adapters/archive/s3-call.ts';
import { pinnedKey } from '../../../src/adapters/archive/sftp-host-key.ts';
import type { SftpPlace } from '../../../src/adapters/archive/sftp-link.ts';
import { encodeManifest } from '../../../src/core/archive/manifest.ts';
import { Fault } from '../../../src/core/fault.ts';
import type { ArchiveStore } from '../../../src/ports/archive.ts';
import { SAMPLE_TEXTS, sampleManifest } from '../../core/archive/sample.ts';
import { ACCESS_KEY, type S3Double, SECRET_KEY } from './s3-double.ts';
import { type SftpDouble, USER } from './sftp-double.ts';

export async function* chunksOf(...chunks: (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield Buffer.from(chunk as string);
}

/** So many, of the same blobs. */
export async function putArchives(store: ArchiveStore, count: number): Promise<void> {
  for (const text of SAMPLE_TEXTS) await store.putBlob(chunksOf(text));
  for (let madeAtMs = 1; madeAtMs <= count; madeAtMs++)
    await store.putManifest(encodeManifest(sampleManifest({ madeAtMs })).bytes, 'signed');
}

export async function readAll(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of source) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const thrownBy = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => null,
    (error: unknown) => error,
  );

/** Throws when it is none. */
export async function faultOf(work: Promise<unknown>): Promise<Fault> {
  const error = await thrownBy(work);
  if (error instanceof Fault) return error;
  throw new Error(`no Fault but ${String(error)}`);
}

/** Of what is no Fault its words; `null` when nothing was thrown. */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await thrownBy(work);
  return error instanceof Fault ? error.code : String(error);
}

/** The same, and what the Fault says. */
export async function saidOf(work: Promise<unknown>): Promise<string> {
  const error = await thrownBy(work);
  return error instanceof Fault ? `${error.code} ${error.message}` : String(error);
}

interface Double {
  /** Behaves as a good server from now on. */
  calm(): void;
  stop(): Promise<void>;
}

/** A server for each test of the suite around it, and the stores that are opened on it; both are gone after the test. */
export function eachOnDouble<D extends Double>(start: () => Promise<D>) {
  let double: D | null = null;
  const opened: RemoteStore[] = [];
  beforeEach(async () => {
    double = await start();
  });
  afterEach(async () => {
    double?.calm();
    for (const store of opened.splice(0)) await store.close();
    await double?.stop();
  });
  return {
    get double(): D {
      if (double === null) throw new Error('there is no server before the test begins');
      return double;
    },
    set double(other: D) {
      double = other;
    },
    keep: (store: RemoteStore): RemoteStore => {
      opened.push(store);
      return store;
    },
  };
}

export const s3PlaceOf = (double: S3Double, change: Partial<S3Place> = {}): S3Place => ({
  endpoint: double.endpoint,
  bucket: double.bucket,
  region: double.region,
  prefix: '',
  pathStyle: true,
  ca: null,
  credentials: async () => ({ accessKeyId: ACCESS_KEY, secretAccessKey: SECRET_KEY }),
  ...change,
});

export const sftpPlaceOf = (double: SftpDouble, change: Partial<SftpPlace> = {}): SftpPlace => ({
  host: '127.0.0.1',
  port: double.port,
  username: USER,
  path: '/archives',
  hostKeys: async () => pinnedKey(double.fingerprint),
  login: async () => ({ privateKey: double.clientKey }),
  ...change,
});

/** Everything that only asks. */
export const asks = (
  store: {
    hasBlob(digest: string): Promise<boolean>;
    manifest(id: string): Promise<unknown>;
    list(): Promise<unknown>;
    readBlob(digest: string): AsyncIterable<Uint8Array>;
  },
  digest: string,
): readonly (() => Promise<unknown>)[] => [
  () => store.hasBlob(digest),
  () => store.manifest('b'.repeat(64)),
  () => store.list(),
  () => readAll(store.readBlob(digest)),
];
