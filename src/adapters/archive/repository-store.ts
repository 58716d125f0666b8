// Repository store: an archive store whose payloads may lie in a repository beside it. Under one digest there is one blob, wherever it
// lies: who reads, exports, copies or verifies an archive need not know. The store's own copy, if it has one, goes first.
import { readManifest } from '../../core/archive/manifest.ts';
import type { InRepository } from '../../core/archive/payload.ts';
import { Fault } from '../../core/fault.ts';
import type { ArchiveStore, Verification } from '../../ports/archive.ts';
import type { BlobRepository } from '../../ports/blob-repository.ts';

interface Kept {
  readonly sizeBytes: number;
  readonly places: readonly InRepository[];
}

/** `repository` null: there is none, and what lies in one is said to be out of reach. */
export function withRepository(store: ArchiveStore, repository: BlobRepository | null): ArchiveStore {
  const readId = async (id: string) => readManifest((await store.manifest(id)).bytes);

  /** Of all archives: digest → where it lies. Manifests are small, and this is asked only for what the store itself has not. */
  async function keptIn(): Promise<ReadonlyMap<string, Kept>> {
    const found = new Map<string, Kept>();
    // One that is removed meanwhile names nothing any more.
    for (const { kind, id } of await store.list())
      if (kind === 'archive') noteKept(found, await readId(id).catch(whenMissing));
    return found;
  }

  async function* readKept(digest: string, missing: unknown, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const kept = (await keptIn()).get(digest);
    if (kept === undefined) throw missing;
    if (repository === null)
      throw new Fault(
        'REPOSITORY_REFUSED',
        'this payload lies in a restic repository, and windlass.yaml names none: set `archives.restic`',
        { data: { digest, repository: kept.places[0]?.repository ?? null } },
      );
    const { sizeBytes, places } = kept;
    let error: unknown = missing;
    for (const place of places) {
      let isBegun = false;
      try {
        for await (const chunk of repository.read(place, { digest, sizeBytes }, signal)) {
          isBegun = true;
          yield chunk;
        }
        return;
      } catch (cause) {
        // The same data may lie in a later snapshot as well; what was begun cannot be taken back.
        if (isBegun || !isGone(cause)) throw cause;
        error = cause;
      }
    }
    throw error;
  }

  async function* readBlob(digest: string, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
    const own = store.readBlob(digest, signal)[Symbol.asyncIterator]();
    let isOver = false;
    try {
      let step: IteratorResult<Uint8Array>;
      try {
        step = await own.next();
      } catch (error) {
        isOver = true;
        if (!isMissing(error)) throw error;
        yield* readKept(digest, error, signal);
        return;
      }
      for (; !step.done; step = await own.next()) yield step.value;
      isOver = true;
    } finally {
      if (!isOver) await own.return?.();
    }
  }

  async function hasBlob(digest: string, sizeBytes?: number): Promise<boolean> {
    if (await store.hasBlob(digest, sizeBytes)) return true;
    if (repository === null) return false;
    for (const place of (await keptIn()).get(digest)?.places ?? []) if (await repository.holds(place)) return true;
    return false;
  }

  /** What the store lacks is read where it lies. */
  async function verify(id: string, signal?: AbortSignal): Promise<Verification> {
    const verification = await store.verify(id, signal);
    const kept = new Map<string, Kept>();
    const read = await readId(id);
    if (read.kind === 'archive') noteKept(kept, read);
    else
      for (const { archive } of read.manifest.members) {
        const member = await readId(archive).catch(() => null);
        if (member?.kind === 'archive') noteKept(kept, member);
      }
    const wrong: Verification['wrong'][number][] = [];
    let sizeBytes = verification.sizeBytes;
    for (const one of verification.wrong) {
      if (one.kind !== 'blob' || one.what !== 'missing' || !kept.has(one.digest)) wrong.push(one);
      else
        try {
          for await (const chunk of readBlob(one.digest, signal)) sizeBytes += chunk.length;
        } catch (error) {
          // A repository that cannot be asked tells nothing of what is in it.
          if (!isMissing(error) && !isDamaged(error)) throw error;
          wrong.push({ digest: one.digest, kind: 'blob', what: isMissing(error) ? 'missing' : 'damaged' });
        }
    }
    return { ...verification, sizeBytes, wrong };
  }

  return {
    putBlob: (source, signal, expected) => store.putBlob(source, signal, expected),
    hasBlob,
    readBlob,
    release: (digests) => store.release(digests),
    async putManifest(bytes, signature) {
      const id = await store.putManifest(bytes, signature);
      await repository?.named(placesOf(readManifest(bytes)));
      return id;
    },
    manifest: (id) => store.manifest(id),
    list: () => store.list(),
    async remove(id) {
      // Before it goes: afterwards nobody knows what it named. Of a damaged one that is not known already: space is lost, nothing else.
      const places = repository === null ? [] : placesOf(await readId(id).catch(whenUnreadable));
      await repository?.unneeded(places);
      return await store.remove(id);
    },
    async collect(pins = []) {
      const collected = await store.collect(pins);
      await repository?.collect(async () => {
        const snapshots = new Set<string>();
        for (const listed of await store.list()) {
          if (listed.kind === 'damaged')
            throw new Fault(
              'ARCHIVE_DAMAGED',
              `the manifest of ${listed.id} cannot be read, so it is not known which snapshots are needed`,
              { data: { archive: listed.id } },
            );
          for (const { snapshot } of placesOf(await readId(listed.id))) snapshots.add(snapshot);
        }
        return snapshots;
      });
      return collected;
    },
    verify,
    freeBytes: () => store.freeBytes(),
    close: () => store.close(),
  };
}

type Read = ReturnType<typeof readManifest>;

const placesOf = (read: Read | null): readonly InRepository[] =>
  read?.kind === 'archive' ? read.manifest.payloads.flatMap(({ restic }) => restic ?? []) : [];

function noteKept(found: Map<string, Kept>, read: Read | null): void {
  for (const { blob, restic } of read?.kind === 'archive' ? read.manifest.payloads : []) {
    if (restic === undefined) continue;
    const { sizeBytes, places } = found.get(blob.digest) ?? { sizeBytes: blob.sizeBytes, places: [] };
    found.set(blob.digest, { sizeBytes, places: [...places, restic] });
  }
}

const isMissing = (error: unknown): boolean => error instanceof Fault && error.code === 'ARCHIVE_MISSING';
const isDamaged = (error: unknown): boolean => error instanceof Fault && error.code === 'ARCHIVE_DAMAGED';
const isGone = (error: unknown): boolean => isMissing(error) || isDamaged(error);

/** A store that does not answer now says it in a moment. */
function whenUnreadable(error: unknown): null {
  if (error instanceof Fault && error.code !== 'ARCHIVE_UNREACHABLE' && error.code !== 'ARCHIVE_DENIED') return null;
  throw error;
}

function whenMissing(error: unknown): null {
  if (isMissing(error)) return null;
  throw error;
}
