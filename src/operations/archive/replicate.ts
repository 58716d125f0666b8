// Replicate: copies to another store what it lacks, blobs before the manifest that names them; cut off anywhere, the next run goes on with
// what is missing. It makes no archive, removes none, and copies only what a key that counts here has signed.
import { type BlobRef, blobsOf, readManifest } from '../../core/archive/manifest.ts';
import { asFault, Fault } from '../../core/fault.ts';
import { backoffMs } from '../../core/status/backoff.ts';
import type { ArchiveStore, Listed } from '../../ports/archive.ts';
import type { ArchiveHouse, Replica } from '../../ports/archive-house.ts';
import type { House } from '../house.ts';
import { damagedKey } from './proof.ts';

/** Blobs under way at once: small ones wait for answers, large ones for memory. */
const WIDTH = 3;
const BLOB_TRIES = 3;
const BLOB_PAUSE_MS = 2_000;

export interface CopyOptions {
  readonly from: ArchiveStore;
  readonly to: ArchiveStore;
  readonly check: ArchiveHouse['check'];
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly signal: AbortSignal;
  /** What is there is read, and put again where it is damaged or missing; else it is taken for whole. */
  readonly repair?: boolean;
}

export interface Copied {
  /** Put by this call; what was there already is not counted. */
  readonly blobs: number;
  readonly sizeBytes: number;
  /** Manifests, of a group also those of its members. */
  readonly manifests: number;
}

/** One archive, or a group with its members. Faults: those of both stores, ARCHIVE_UNTRUSTED; then the archive is not listed in `to`. */
export async function copyArchive(id: string, options: CopyOptions): Promise<Copied> {
  const { from, to, check } = options;
  const { bytes, signature } = await from.manifest(id);
  check(bytes, signature);
  const read = readManifest(bytes);
  const isListed = await isThere(to, id);
  if (isListed && options.repair !== true) return { blobs: 0, sizeBytes: 0, manifests: 0 };
  let [blobs, sizeBytes, manifests] = [0, 0, 0];
  if (read.kind === 'group')
    for (const { archive } of read.manifest.members) {
      const member = await copyArchive(archive, options);
      blobs += member.blobs;
      sizeBytes += member.sizeBytes;
      manifests += member.manifests;
    }
  if (isListed && read.kind === 'group') return { blobs, sizeBytes, manifests };
  const wrong = isListed ? new Set((await to.verify(id, options.signal)).wrong.map((one) => one.digest)) : null;
  const all = blobsOf(read).filter((blob) => wrong === null || wrong.has(blob.digest));
  try {
    const queue = [...all];
    const work = async (): Promise<void> => {
      for (let blob = queue.shift(); blob !== undefined; blob = queue.shift())
        try {
          if (!(await copyBlob(blob, options, wrong !== null))) continue;
          blobs += 1;
          sizeBytes += blob.sizeBytes;
        } catch (error) {
          queue.length = 0;
          throw error;
        }
    };
    const ended = await Promise.allSettled(Array.from({ length: WIDTH }, work));
    for (const one of ended) if (one.status === 'rejected') throw one.reason;
    if (!isListed) await to.putManifest(bytes, signature);
  } finally {
    // Named by the manifest, or left for the next run: it finds them unless somebody collects there before.
    await to.release(all.map((blob) => blob.digest)).catch(() => {});
  }
  return { blobs, sizeBytes, manifests: manifests + (isListed ? 0 : 1) };
}

/** False when it was there. */
async function copyBlob(blob: BlobRef, options: CopyOptions, isWrong: boolean): Promise<boolean> {
  const { from, to, sleep, signal } = options;
  for (let tried = 1; ; tried++)
    try {
      if (!isWrong && (await to.hasBlob(blob.digest, blob.sizeBytes)))
        if (options.repair !== true || (await isRight(blob, options))) return false;
      await to.putBlob(from.readBlob(blob.digest, signal), signal, blob);
      return true;
    } catch (error) {
      if (asFault(error, 'ARCHIVE_FAILED').code !== 'ARCHIVE_UNREACHABLE' || tried >= BLOB_TRIES) throw error;
      await sleep(BLOB_PAUSE_MS * tried, signal);
    }
}

async function isRight({ digest }: BlobRef, { to, signal }: CopyOptions): Promise<boolean> {
  try {
    for await (const _ of to.readBlob(digest, signal));
    return true;
  } catch (error) {
    const { code } = asFault(error, 'ARCHIVE_FAILED');
    if (code === 'ARCHIVE_MISSING' || code === 'ARCHIVE_DAMAGED') return false;
    throw error;
  }
}

async function isThere(store: ArchiveStore, id: string): Promise<boolean> {
  try {
    await store.manifest(id);
    return true;
  } catch (error) {
    const { code } = asFault(error, 'ARCHIVE_FAILED');
    // A damaged one is written anew.
    if (code === 'ARCHIVE_MISSING' || code === 'ARCHIVE_DAMAGED') return false;
    throw error;
  }
}

// --- what is on record

/** Runs that failed, one after the other. */
export interface FailingReplica {
  readonly failures: number;
  readonly sinceMs: number;
  /** Not before. */
  readonly nextMs: number;
  readonly code: string;
  /** Redacted. */
  readonly message: string;
}

export interface ReplicaStatus {
  readonly name: string;
  /** When the last run ended well; null = never. */
  readonly lastMs: number | null;
  readonly failing: FailingReplica | null;
  /** Archives that were seen there. */
  readonly has: ReadonlySet<string>;
}

const lastKey = (name: string): string => `replica-last/${name}`;
const failingKey = (name: string): string => `replica-failing/${name}`;
const hasPrefix = (name: string): string => `replica-has/${name}/`;

/** From what is on record: no store is asked. */
export function replicaStatuses({ archives, store }: Pick<House, 'archives' | 'store'>): readonly ReplicaStatus[] {
  return (archives?.replicas ?? []).map(({ name }) => ({
    name,
    lastMs: (store.value(lastKey(name)) as number | undefined) ?? null,
    failing: (store.value(failingKey(name)) as FailingReplica | undefined) ?? null,
    has: new Set([...store.values(hasPrefix(name)).keys()].map((key) => key.slice(hasPrefix(name).length))),
  }));
}

/** Is everything there, as far as is known? Safety archives are for their restore only. */
export const lacksAny = (status: ReplicaStatus, listed: readonly Listed[]): boolean =>
  listed.some((one) => isWanted(one) && !status.has.has(one.id));

const isWanted = (one: Listed): boolean => one.kind === 'group' || (one.kind === 'archive' && one.purpose === 'backup');

// --- a run

export interface Replicated extends Copied {
  readonly replica: string;
  /** Archives and groups that were copied. */
  readonly archives: readonly string[];
  /** Of single archives; the others went on. */
  readonly failures: readonly { readonly id: string; readonly code: string; readonly message: string }[];
}

export interface ReplicateOptions {
  readonly signal: AbortSignal;
  readonly note?: (line: string) => void;
  /** Only these, also safety archives, and what is there of them is read and repaired; default: every backup and group. */
  readonly ids?: readonly string[];
}

/** Of the archive itself: another one may still be copied. */
const OF_THE_ARCHIVE: ReadonlySet<string> = new Set([
  'ARCHIVE_MISSING',
  'ARCHIVE_DAMAGED',
  'ARCHIVE_INVALID',
  'ARCHIVE_HOSTILE',
  'ARCHIVE_TOO_NEW',
  'ARCHIVE_UNTRUSTED',
]);

/** Looks what the replica lacks and copies that, the newest first. Throws what keeps it from going on; what was copied is on record then. */
export async function replicate(house: House, replica: Replica, options: ReplicateOptions): Promise<Replicated> {
  const { archives, store, clock } = house;
  if (!archives) throw new Fault('USAGE', 'there is no archive store here');
  const { signal, note = () => {} } = options;
  const prefix = hasPrefix(replica.name);
  const from = archives.own ?? archives.store;
  const before = await from.list();
  const there = new Set((await replica.store.list()).flatMap((one) => (one.kind === 'damaged' ? [] : [one.id])));
  // What was removed there, by whomever, is no longer on record as being there; nor is what is gone here.
  const known = new Set(before.map((one) => one.id));
  for (const key of store.values(prefix).keys()) {
    const id = key.slice(prefix.length);
    if (!there.has(id) || !known.has(id)) store.deleteValue(key);
  }
  const wanted = options.ids ?? before.filter(isWanted).map((one) => one.id);
  const sum = { blobs: 0, sizeBytes: 0, manifests: 0 };
  const copied: string[] = [];
  const failures: { id: string; code: string; message: string }[] = [];
  const check = (bytes: Uint8Array, signature: string): string => archives.check(bytes, signature);
  const sleep = (ms: number, of: AbortSignal) => clock.sleep(ms, of);
  for (const id of wanted) {
    signal.throwIfAborted();
    const repair = options.ids !== undefined;
    if (!there.has(id) || repair)
      try {
        const one = await copyArchive(id, { from, to: replica.store, check, sleep, signal, repair });
        sum.blobs += one.blobs;
        sum.sizeBytes += one.sizeBytes;
        sum.manifests += one.manifests;
        if (one.manifests + one.blobs > 0) copied.push(id);
        note(`${replica.name}: archive ${id.slice(0, 12)}: ${one.blobs} blobs copied`);
      } catch (error) {
        const fault = asFault(error, 'ARCHIVE_FAILED');
        if (!OF_THE_ARCHIVE.has(fault.code)) throw fault;
        // Removed here since it was listed: nothing is left to copy.
        if (fault.code === 'ARCHIVE_MISSING' && options.ids === undefined && !(await stillHas(from, id))) continue;
        failures.push({ id, code: fault.code, message: house.redact(fault.message) });
        continue;
      }
    store.putValue(`${prefix}${id}`, clock.nowMs());
  }
  return { replica: replica.name, ...sum, archives: copied, failures };
}

const stillHas = async (store: ArchiveStore, id: string): Promise<boolean> =>
  (await store.list()).some((one) => one.id === id);

/** A run and what becomes of it on record. `isNews`: people must be told, the first time and when it fails otherwise than before. */
export async function replicateOnRecord(
  house: House,
  replica: Replica,
  options: ReplicateOptions,
): Promise<{ readonly done: Replicated | null; readonly fault: Fault | null; readonly isNews: boolean }> {
  const { store, clock } = house;
  const before = (store.value(failingKey(replica.name)) as FailingReplica | undefined) ?? null;
  let done: Replicated | null = null;
  let fault: Fault | null = null;
  try {
    done = await replicate(house, replica, options);
    const [first] = done.failures;
    if (first !== undefined)
      fault = new Fault('ARCHIVE_FAILED', `archive ${first.id.slice(0, 12)} could not be copied: ${first.message}`);
  } catch (error) {
    fault = asFault(error, 'ARCHIVE_FAILED');
    if (options.signal.aborted || fault.code === 'CANCELLED') return { done, fault, isNews: false };
  }
  if (fault === null) {
    store.putValue(lastKey(replica.name), clock.nowMs());
    store.deleteValue(failingKey(replica.name));
    return { done, fault, isNews: before !== null };
  }
  const failures = (before?.failures ?? 0) + 1;
  const failing: FailingReplica = {
    failures,
    sinceMs: before?.sinceMs ?? clock.nowMs(),
    nextMs: clock.nowMs() + backoffMs(failures, clock.random()),
    code: fault.code,
    message: house.redact(fault.message),
  };
  store.putValue(failingKey(replica.name), failing);
  return { done, fault, isNews: before?.code !== fault.code };
}

/** The other way: an archive of a replica into the store; what is there is read, and repaired. `also`: keys that count this time. Throws
 * ARCHIVE_UNTRUSTED, and the Faults of both. */
export async function bringBack(
  house: House,
  replica: Replica,
  id: string,
  signal: AbortSignal,
  also: readonly string[] = [],
): Promise<Copied> {
  const { archives, clock } = house;
  if (!archives) throw new Fault('USAGE', 'there is no archive store here');
  const to = archives.own ?? archives.store;
  const copied = await copyArchive(id, {
    from: replica.store,
    to,
    check: (bytes, signature) => archives.check(bytes, signature, also),
    sleep: (ms, of) => clock.sleep(ms, of),
    signal,
    repair: true,
  });
  const read = readManifest((await to.manifest(id)).bytes);
  const members = read.kind === 'group' ? read.manifest.members.map((one) => one.archive) : [];
  for (const one of [id, ...members]) house.store.deleteValue(damagedKey(one));
  return copied;
}

/** Throws USAGE with the names that there are. */
export function replicaNamed({ archives }: Pick<House, 'archives'>, name: string): Replica {
  const replicas = archives?.replicas ?? [];
  const found = replicas.find((one) => one.name === name);
  if (found) return found;
  const names = replicas.map((one) => one.name).join(', ');
  throw new Fault(
    'USAGE',
    names === ''
      ? `there is no replica ${name}: windlass.yaml names none under archives.replicas`
      : `there is no replica ${name}; there are ${names}`,
  );
}
