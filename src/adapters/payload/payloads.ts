// Payloads on a real engine: picks the first way that can be gone, compresses and digests what it reads, and checks a blob as a whole
// before it makes a target for it. What was written counts only when it reads back equal; else the target is removed.
import { createHash } from 'node:crypto';
import { lstat, mkdir, readdir, realpath, rm } from 'node:fs/promises';
import { basename, dirname, join, relative, sep } from 'node:path';
import { ENTRY_LIMITS, EntryCheck } from '../../core/archive/entry-check.ts';
import type { PayloadRecord } from '../../core/archive/payload.ts';
import { type TarEntry, TarListing, type TarSummary } from '../../core/archive/tar-listing.ts';
import { Fault } from '../../core/fault.ts';
import type {
  PayloadFacts,
  PayloadReading,
  PayloadSource,
  Payloads,
  PayloadTarget,
  PayloadWritten,
  ReadPayloadOptions,
  WritePayloadOptions,
} from '../../ports/payloads.ts';
import { aborted, openApiClient } from '../compose/api-client.ts';
import { dockerConfigFolder, type Environment, findHost } from '../compose/host.ts';
import { ProcessError, type Programs } from '../process/run.ts';
import { diskAt } from './disk.ts';
import { openEngineArchive } from './engine-archive.ts';
import { openHelperContainer } from './helper-container.ts';
import { engineFolder, openHostPath } from './host-path.ts';
import { STALL_MS, within } from './stall.ts';
import { sweepHelpers } from './sweep-helpers.ts';
import { openVolumes } from './volumes.ts';
import { nameOf, type Place, type Way } from './way.ts';
import { compressed, decompressed, tooLarge } from './zstd-stream.ts';

export interface PayloadsOptions {
  /** As for the runtime. */
  readonly host?: string;
  readonly environment?: Environment;
  readonly programs: Programs;
  /** An image on the engine that has GNU tar; null = no helper containers. */
  readonly helperImage: string | null;
  /** Of this process: what it leaves when it is killed is known by it. */
  readonly owner?: string;
  /** Which ways are tried, in this order. */
  readonly ways?: readonly Exclude<PayloadRecord['way'], 'memory'>[];
  readonly callMs?: number;
  /** How long a read or write may stand still. Default 15 min. */
  readonly stallMs?: number;
  /** Whether this process may read and own everything. Default: whether it is root. */
  readonly isRoot?: boolean;
}

const DEFAULT_WAYS = ['host-path', 'helper-container', 'engine-api'] as const;
const DEFAULT_CALL_MS = 30_000;
const ANSWER_BYTES = 64 * 1024 * 1024;
const UNDO_MS = 60_000;

export function openPayloads(options: PayloadsOptions): Payloads {
  const environment = options.environment ?? process.env;
  const host =
    options.host === undefined
      ? findHost(environment)
      : { ...findHost({ ...environment, DOCKER_HOST: options.host }), url: options.host };
  const limits = { deadlineMs: options.callMs ?? DEFAULT_CALL_MS, maxBytes: ANSWER_BYTES, maxSockets: 8 };
  const client = openApiClient(host, limits);
  const volumes = openVolumes(client);
  const { programs, helperImage, owner = '' } = options;
  const env = {
    PATH: environment['PATH'] ?? '/usr/local/bin:/usr/bin:/bin',
    HOME: environment['HOME'] ?? '/',
    DOCKER_HOST: host.url,
    DOCKER_CONFIG: dockerConfigFolder(environment),
    ...(host.certificates === null ? {} : { DOCKER_TLS_VERIFY: '1', DOCKER_CERT_PATH: host.certificates }),
  };
  const { stallMs = STALL_MS } = options;
  const all: Readonly<Record<(typeof DEFAULT_WAYS)[number], Way>> = {
    'host-path': openHostPath({ programs, client, isRoot: options.isRoot ?? process.getuid?.() === 0, stallMs }),
    'helper-container': openHelperContainer({ programs, client, env, image: helperImage, owner, stallMs }),
    'engine-api': openEngineArchive({ programs, client, env, image: helperImage, owner, stallMs }),
  };
  const ways = (options.ways ?? DEFAULT_WAYS).map((kind) => all[kind]);

  async function wayTo(
    place: Place,
    excludes: boolean,
    signal: AbortSignal,
    onStill?: (words: string) => void,
  ): Promise<Way> {
    const obstacles: string[] = [];
    for (const way of ways) {
      const looking = way.obstacle(place, { signal, excludes });
      const obstacle = await within(looking, stallMs, `the look at ${nameOf(place)} stood still`, onStill);
      if (obstacle === null) return way;
      obstacles.push(`${way.kind}: ${obstacle}`);
    }
    throw new Fault('PAYLOAD_NO_WAY', `${nameOf(place)} cannot be reached (${obstacles.join('; ')})`, {
      data: { obstacles },
    });
  }

  const lookedFor = <T>(looking: Promise<T>, path: string, onStill?: (words: string) => void): Promise<T> =>
    within(looking, stallMs, `the look at the folder ${path} stood still`, onStill);

  async function volumePlace(name: string, signal: AbortSignal): Promise<{ place: Place; createdAt: string }> {
    const found = await volumes.find(name, signal);
    if (found === null) {
      throw new Fault('PAYLOAD_MISSING', `there is no volume ${name}`, { data: { volume: name } });
    }
    const { mountpoint, driver, driverOpts, createdAt } = found;
    const liesAtMountpoint = driver === 'local' && driverOpts['device'] === undefined;
    return { place: { kind: 'volume', name, mountpoint, liesAtMountpoint }, createdAt };
  }

  async function* plainOf(
    source: PayloadSource,
    { signal, exclude = [], allowChanging = false, onStill }: ReadPayloadOptions,
    state: { way: Way | null; readonly notCaptured: string[] },
  ): AsyncGenerator<Buffer> {
    const isVolume = source.kind === 'volume';
    const { place, createdAt } = isVolume
      ? await volumePlace(source.name, signal)
      : { place: await lookedFor(folderPlace(source.path, source.within), source.path, onStill), createdAt: '' };
    const way = await wayTo(place, exclude.length > 0, signal, onStill);
    state.way = way;
    const onNotCaptured = (words: string): void => void state.notCaptured.push(words);
    yield* way.read(place, { signal, exclude, allowChanging, onNotCaptured, onStill });
    // A container that names a volume makes it: what was read may be a new and empty one.
    if (isVolume && (await volumes.find(source.name, signal))?.createdAt !== createdAt) {
      throw new Fault('PAYLOAD_MISSING', `${nameOf(place)} was removed while it was read`);
    }
  }

  function read(source: PayloadSource, readOptions: ReadPayloadOptions): PayloadReading {
    const { signal } = readOptions;
    const { promise: done, resolve, reject } = Promise.withResolvers<PayloadFacts>();
    // Whoever iterates the stream hears of the failure there.
    done.catch(() => {});
    async function* stream(): AsyncGenerator<Uint8Array> {
      let isSettled = false;
      try {
        if (signal.aborted) throw aborted(signal);
        const state = { way: null as Way | null, notCaptured: [] as string[] };
        const meter = new Meter({ onEntry: refuseDevice });
        const tar = meter.through(plainOf(source, readOptions, state));
        yield* readOptions.plain ? tar : compressed(tar);
        if (signal.aborted) throw aborted(signal);
        const { summary, ...plain } = meter.end();
        isSettled = true;
        resolve({
          ...plain,
          entries: summary.entries,
          root: summary.root,
          way: state.way!.kind,
          notCaptured: state.notCaptured,
        });
      } catch (error) {
        const fault = faultOf(error, signal);
        isSettled = true;
        reject(fault);
        throw fault;
      } finally {
        if (!isSettled) reject(new Fault('CANCELLED', 'the reading was left before its end'));
      }
    }
    return { stream: stream(), done };
  }

  /** A full pass over the blob before anything is made: whole, as recorded, and nothing in it that may not be written. */
  async function checkBlob(
    open: () => AsyncIterable<Uint8Array>,
    target: PayloadTarget,
    { signal, expected }: WritePayloadOptions,
  ): Promise<TarSummary> {
    const meter = new Meter({ onEntry: entryRules(target), fingerprint: true });
    const checked = meter.through(tarOf(untilAborted(open(), signal), expected));
    for await (const _ of checked);
    const { summary, plainDigest, plainBytes } = meter.end();
    const differs =
      plainDigest !== expected.plainDigest
        ? 'digest'
        : plainBytes !== expected.plainBytes
          ? 'size'
          : summary.entries.digest !== expected.entries.digest || summary.entries.count !== expected.entries.count
            ? 'list of entries'
            : JSON.stringify(summary.root) !== JSON.stringify(rootOf(expected.root))
              ? 'root'
              : null;
    if (differs !== null) {
      throw new Fault('PAYLOAD_CORRUPT', `the stored payload is not the recorded one: its ${differs} differs`, {
        data: { rule: 'RECORD' },
      });
    }
    return summary;
  }

  async function* extractable(
    open: () => AsyncIterable<Uint8Array>,
    target: PayloadTarget,
    { signal, expected }: WritePayloadOptions,
  ): AsyncGenerator<Buffer> {
    // Judged again, piece by piece before it is handed on: the blob may be another one by now.
    const meter = new Meter({ onEntry: entryRules(target) });
    yield* meter.through(tarOf(untilAborted(open(), signal), expected));
    if (meter.end().plainDigest !== expected.plainDigest) {
      throw new Fault('PAYLOAD_CORRUPT', 'the stored payload changed while it was written back', {
        data: { rule: 'RECORD' },
      });
    }
  }

  async function readAgain(way: Way, place: Place, signal: AbortSignal) {
    const meter = new Meter({ fingerprint: true });
    const options = { signal, exclude: [], allowChanging: false, onNotCaptured: () => {} };
    for await (const _ of meter.through(way.read(place, options)));
    return meter.end();
  }

  async function write(
    open: () => AsyncIterable<Uint8Array>,
    target: PayloadTarget,
    writeOptions: WritePayloadOptions,
  ): Promise<PayloadWritten> {
    const { signal, expected } = writeOptions;
    let undo: (() => Promise<void>) | null = null;
    try {
      if (signal.aborted) throw aborted(signal);
      const summary = await checkBlob(open, target, writeOptions);
      undo = await make(target, signal);
      const place =
        target.kind === 'volume'
          ? (await volumePlace(target.name, signal)).place
          : await lookedFor(folderPlace(target.path, target.within), target.path);
      const way = await wayTo(place, false, signal);
      if ((await readAgain(way, place, signal)).summary.entries.count !== 1) {
        // What is in there came from elsewhere and is not ours to remove.
        undo = null;
        throw new Fault('PAYLOAD_EXISTS', `${nameOf(place)} is not empty and is left as it is`);
      }
      const hasTrustedAttributes = summary.holds.trustedAttributes;
      const bytes = extractable(open, target, writeOptions);
      await way.write(place, bytes, { signal, root: summary.root, hasTrustedAttributes });
      const again = await readAgain(way, place, signal);
      const fingerprint = (one: TarSummary): string => one.fingerprint?.[way.fidelity] ?? '';
      const isSameTar = again.plainDigest === expected.plainDigest;
      if (!isSameTar && fingerprint(again.summary) !== fingerprint(summary)) {
        throw new Fault('PAYLOAD_UNVERIFIED', `what was written to ${nameOf(place)} does not read back equal`, {
          data: {
            entries: summary.entries.count,
            entriesFound: again.summary.entries.count,
            isListEqual: again.summary.entries.digest === summary.entries.digest,
          },
        });
      }
      if (signal.aborted) throw aborted(signal);
      undo = null;
      const notRestored = way.fidelity === 'exact' ? [] : lostByEngine(summary);
      return { way: way.kind, verifiedBy: isSameTar ? 'bytes' : 'content', notRestored };
    } catch (error) {
      const fault = faultOf(error, signal);
      const left = undo === null ? null : await undo().then(() => null, faultOfUndo);
      if (left === null || !(fault instanceof Fault)) throw fault;
      throw new Fault(fault.code, `${fault.message}; and what was written could not be removed: ${left}`, {
        data: { ...fault.data, left: target.kind === 'volume' ? target.name : target.path },
        cause: fault,
      });
    }
  }

  /** Gives back how to unmake it. */
  async function make(target: PayloadTarget, signal: AbortSignal): Promise<() => Promise<void>> {
    if (target.kind === 'volume') {
      await volumes.create(target, signal);
      return () => volumes.remove(target.name, AbortSignal.timeout(UNDO_MS));
    }
    const { path, within } = target;
    await parentWithin(path, within);
    await mkdir(path, { mode: 0o700 }).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
      // An empty one may have been made by Compose or by hand; more is somebody's data.
      const isFolder = (await lstat(path)).isDirectory();
      if (!isFolder || (await readdir(path)).length > 0) {
        throw new Fault('PAYLOAD_EXISTS', `${path} is there already and is not an empty folder`, { data: { path } });
      }
    });
    return () => rm(path, { recursive: true, force: true });
  }

  return {
    read,
    write,
    createVolume: (volume, signal) => volumes.create(volume, signal),
    removeVolume: (name, signal) => volumes.remove(name, signal),
    inspectVolume: (name, signal) => volumes.find(name, signal),
    volumeSizeBytes: (name, signal) => volumes.sizeBytes(name, signal),
    async diskOf(where, signal) {
      if (where !== 'volumes') return await diskAt(where.folder);
      const folder = await engineFolder(client, signal);
      return folder === null ? null : await diskAt(join(folder, 'volumes'));
    },
    sweepHelpers: (hasEnded, signal) => sweepHelpers(client, hasEnded, signal),
    close: () => client.close(),
  };
}

/** Never more than what the record names. */
function tarOf(
  blob: AsyncIterable<Uint8Array>,
  { format = 'tar+zstd', plainBytes }: WritePayloadOptions['expected'],
): AsyncIterable<Buffer> {
  return format === 'tar' ? bounded(blob, plainBytes) : decompressed(blob, plainBytes);
}

async function* bounded(plain: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Buffer> {
  let sizeBytes = 0;
  for await (const chunk of plain) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) throw tooLarge(maxBytes);
    yield Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
  }
}

/** Digest, size and listing of a plain tar as it passes. */
class Meter {
  readonly #listing: TarListing;
  readonly #hash = createHash('sha256');
  #sizeBytes = 0;

  constructor(options: ConstructorParameters<typeof TarListing>[0]) {
    this.#listing = new TarListing(options);
  }

  /** What the listing refuses is not handed on. */
  async *through(plain: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of plain) {
      this.#listing.write(chunk);
      this.#hash.update(chunk);
      this.#sizeBytes += chunk.length;
      yield chunk;
    }
  }

  end(): { summary: TarSummary; plainDigest: string; plainBytes: number } {
    return { summary: this.#listing.end(), plainDigest: this.#hash.digest('hex'), plainBytes: this.#sizeBytes };
  }
}

/** A folder of the project is read by this host itself (Compose resolves paths through its links): no link may lead out of it. */
function entryRules(target: PayloadTarget): (entry: TarEntry) => void {
  const check = new EntryCheck({ ...ENTRY_LIMITS, symlinks: target.kind === 'volume' ? 'leaf' : 'inside' });
  return (entry) => {
    const mistake = check.add(entry);
    if (mistake === null) return;
    throw new Fault('PAYLOAD_HOSTILE', `the archive is refused: ${mistake.summary}`, {
      data: { rule: mistake.code, path: mistake.path },
    });
  };
}

/** Better no archive than one that no restore takes. */
function refuseDevice({ path, type }: TarEntry): void {
  if (type !== 'character-device' && type !== 'block-device') return;
  throw new Fault(
    'PAYLOAD_FAILED',
    `${path} is a device node, which is never restored: name it in \`exclude:\` of the stack's backup.yaml`,
    {
      data: { path },
    },
  );
}

function lostByEngine({ holds }: TarSummary): string[] {
  return [
    ...(holds.setuid ? ['setuid and setgid bits of files'] : []),
    ...(holds.attributes ? ['extended attributes and access control lists, which cannot be verified'] : []),
  ];
}

const rootOf = (root: PayloadRecord['root']) =>
  root === null ? null : { uid: root.uid, gid: root.gid, mode: root.mode };

/** A folder that no link leads to from inside the project folder. */
async function folderPlace(path: string, within: string): Promise<Place> {
  const missing = (why: string) => new Fault('PAYLOAD_MISSING', `the folder ${path} ${why}`, { data: { path } });
  const facts = await lstat(path).catch(() => null);
  if (facts === null) throw missing('is not there');
  if (!facts.isDirectory()) throw missing('is no folder');
  const real = await parentWithin(path, within);
  return { kind: 'folder', path: real };
}

async function parentWithin(path: string, within: string): Promise<string> {
  const parent = await realpath(dirname(path)).catch(() => null);
  const outer = await realpath(within).catch(() => null);
  if (parent === null || outer === null) {
    throw new Fault('PAYLOAD_MISSING', `the folder ${path} has no parent`, { data: { path } });
  }
  const real = join(parent, basename(path));
  const below = relative(outer, real);
  if (below === '' || below === '..' || below.startsWith(`..${sep}`)) {
    throw new Fault('PAYLOAD_FAILED', `the folder ${path} lies outside of ${within}`, { data: { path } });
  }
  return real;
}

async function* untilAborted(source: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for await (const chunk of source) {
    if (signal.aborted) throw aborted(signal);
    yield chunk;
  }
}

/** The caller's end goes before whatever broke because of it. Our own mistakes stay what they are. */
function faultOf(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return aborted(signal);
  const isOfTheWorld = error instanceof ProcessError || (error instanceof Error && 'code' in error);
  if (error instanceof Fault || !isOfTheWorld) return error;
  const { code } = error as NodeJS.ErrnoException;
  const isFull = code === 'ENOSPC' || code === 'EDQUOT';
  return new Fault(isFull ? 'PAYLOAD_NO_SPACE' : 'PAYLOAD_FAILED', error.message, { cause: error });
}

const faultOfUndo = (error: unknown): string => (error instanceof Error ? error.message : String(error));
