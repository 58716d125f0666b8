// With replicas: an archive store that reads from its replicas what it lacks itself, as a restore does. Whatever is written, listed or removed
// is its own; a replica that cannot be asked is never taken for one that lacks it.
import { Fault } from '../../core/fault.ts';
import type { ArchiveStore, Verification } from '../../ports/archive.ts';
import type { Replica } from '../../ports/archive-house.ts';

export function withReplicas(store: ArchiveStore, replicas: readonly Replica[]): ArchiveStore {
  if (replicas.length === 0) return store;

  async function firstOf<T>(missing: unknown, ask: (store: ArchiveStore) => Promise<T>): Promise<T> {
    let failed: unknown = null;
    for (const replica of replicas)
      try {
        return await ask(replica.store);
      } catch (error) {
        if (!isMissing(error)) failed ??= error;
      }
    throw failed ?? missing;
  }

  async function* readBlob(digest: string, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    let { read, step } = await begin(store, digest, signal).catch((missing: unknown) => {
      if (!isMissing(missing)) throw missing;
      return firstOf(missing, (one) => begin(one, digest, signal));
    });
    try {
      for (; !step.done; step = await read.next()) yield step.value;
    } finally {
      await read.return?.();
    }
  }

  /** What it lacks is read where it is. */
  async function verify(id: string, signal?: AbortSignal): Promise<Verification> {
    let own: Verification;
    try {
      own = await store.verify(id, signal);
    } catch (missing) {
      if (!isMissing(missing)) throw missing;
      return await firstOf(missing, (one) => one.verify(id, signal));
    }
    const wrong: Verification['wrong'][number][] = [];
    let { blobs, sizeBytes } = own;
    for (const one of own.wrong)
      if (one.what !== 'missing') wrong.push(one);
      else
        try {
          if (one.kind === 'blob') for await (const chunk of readBlob(one.digest, signal)) sizeBytes += chunk.length;
          else {
            const member = await verify(one.digest, signal);
            blobs += member.blobs;
            sizeBytes += member.sizeBytes;
            wrong.push(...member.wrong);
          }
        } catch (error) {
          if (isMissing(error)) wrong.push(one);
          else if (isDamaged(error)) wrong.push({ ...one, what: 'damaged' });
          else throw error;
        }
    return { ...own, blobs, sizeBytes, wrong };
  }

  return {
    putBlob: (source, signal, expected) => store.putBlob(source, signal, expected),
    hasBlob: (digest, sizeBytes) => store.hasBlob(digest, sizeBytes),
    readBlob,
    release: (digests) => store.release(digests),
    putManifest: (bytes, signature) => store.putManifest(bytes, signature),
    async manifest(id) {
      try {
        return await store.manifest(id);
      } catch (missing) {
        if (!isMissing(missing)) throw missing;
        return await firstOf(missing, (one) => one.manifest(id));
      }
    },
    list: () => store.list(),
    remove: (id) => store.remove(id),
    collect: (pins) => store.collect(pins),
    verify,
    freeBytes: () => store.freeBytes(),
    async close() {
      try {
        await store.close();
      } finally {
        for (const replica of replicas) await replica.store.close();
      }
    },
  };
}

/** A blob that is missing is known to be so with its first chunk. */
async function begin(store: ArchiveStore, digest: string, signal: AbortSignal | undefined) {
  const read = store.readBlob(digest, signal)[Symbol.asyncIterator]();
  return { read, step: await read.next() };
}

const isDamaged = (error: unknown): boolean => error instanceof Fault && error.code === 'ARCHIVE_DAMAGED';
const isMissing = (error: unknown): boolean => error instanceof Fault && error.code === 'ARCHIVE_MISSING';
