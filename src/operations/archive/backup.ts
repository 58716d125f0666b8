// Backup: one archive of one deployed stack: everything that its render was made from, and its data, read while it rests. It is whole or it
// failed; what could not be captured by design is named in it.
import { encodeManifest, type FileRecord, type Manifest, type ManifestVar } from '../../core/archive/manifest.ts';
import type { PayloadRecord } from '../../core/archive/payload.ts';
import { imageNamed } from '../../core/diff/index-observed.ts';
import { asFault, Fault } from '../../core/fault.ts';
import { operationPhases } from '../../core/hook/situation.ts';
import type { App } from '../../core/spec/app.ts';
import { effectiveVar } from '../../core/spec/app-vars.ts';
import {
  type Backup,
  bootOf,
  captures,
  effectiveSettings,
  type Holder,
  idleGlobs,
  isForRestic,
  leftOut,
  type Quiesce,
} from '../../core/spec/backup.ts';
import { parseDocument } from '../../core/spec/document.ts';
import type { LoadedStack } from '../../core/spec/loaded.ts';
import { isSecretScheme, parseMint, parseRef } from '../../core/spec/ref.ts';
import type { Desired } from '../../core/state/desired.ts';
import type { HookRecord, RunRecord } from '../../core/status/event.ts';
import type { ArchiveHouse } from '../../ports/archive-house.ts';
import type { BlobRepository } from '../../ports/blob-repository.ts';
import type { PayloadSource } from '../../ports/payloads.ts';
import type { FleetAt } from '../fleet-at.ts';
import { deployedSubject, type HookSubject } from '../hook-subject.ts';
import { backupOf } from '../hooks-of.ts';
import type { House } from '../house.ts';
import { holdLeases } from '../leases.ts';
import { InvalidStack, treeDirOf } from '../resolve.ts';
import { takeUpHooks, withHooks } from '../steps/run-hook.ts';
import type { Workbench } from '../workbench.ts';
import { madeCommit } from './archive-source.ts';
import { holdersOf, idleWords, mountsOf } from './data-holders.ts';
import { liveFleet } from './plan-restore.ts';
import { movedBy, rest, wake } from './quiesce.ts';

const FILE_BYTES = 50 * 1024 * 1024;

export interface BackupOptions {
  readonly signal: AbortSignal;
  readonly note?: (line: string) => void;
  readonly purpose?: 'backup' | 'safety';
  readonly trigger?: string;
  /** The caller holds the lease of the stack, and fires no hooks: for a safety archive inside of another operation. */
  readonly within?: boolean;
  /** Id of the move that it is made for: all of the stack is stopped before its data is read and stays so, and what comes after a backup
   * is left to whoever starts it again. */
  readonly move?: string;
}

export interface BackedUp {
  /** What a request pins. */
  readonly archive: string;
  readonly sizeBytes: number;
  readonly payloads: number;
}

/** The newest that succeeded, as the store remembers it under `lastBackupKey`. */
export interface LastBackup extends BackedUp {
  readonly atMs: number;
  readonly durationMs: number;
}

/** As if what comes after it had been done. */
const AFTER_A_BACKUP = {
  has: (phase: string) => operationPhases('backup').after.some((one) => one === phase),
  add() {},
};

/** How long one took to make, in ms. */
export const tookKey = (archive: string): string => `archive-took/${archive}`;

/** What the history says of a backup that succeeded. */
export const archivedMessage = (archive: string): string => `archive ${archive.slice(0, 12)}`;

export const lastBackupKey = (stack: string): string => `last-backup/${stack}`;

/** For the hook action `backup`: inside of an operation that holds the lease, and without hooks of its own. */
export const archiveMaker =
  (bench: Workbench) =>
  async (stack: string, signal: AbortSignal): Promise<void> => {
    await backup(bench, stack, { signal, trigger: 'hook', within: true });
  };

/** Throws NOT_FOUND when the stack is not deployed, LOCK_HELD, PAYLOAD_* and ARCHIVE_*; then nothing is listed. */
export async function backup(bench: Workbench, stack: string, options: BackupOptions): Promise<BackedUp> {
  const { house } = bench;
  const { store, clock } = house;
  const { signal, purpose = 'backup' } = options;
  const applied = store.applied(stack);
  if (!applied) throw new Fault('NOT_FOUND', `stack ${stack} is not deployed, so there is nothing to back up`);
  const hooks: HookRecord[] = [];
  const begun: RunRecord = {
    id: clock.id(),
    stack,
    operation: 'backup',
    trigger: options.trigger ?? 'cli',
    revision: applied.revision,
    digest: applied.desired.digest,
    startedAtMs: clock.nowMs(),
    endedAtMs: 0,
    outcome: 'running',
    message: '',
    changes: [],
  };
  const end = (outcome: RunRecord['outcome'], message: string): void =>
    store.putRun({ ...begun, hooks, endedAtMs: clock.nowMs(), outcome, message: house.redact(message) });
  const leases = options.within ? null : holdLeases(house, [stack], undefined, { alone: true });
  const move = movedBy(bench, stack);
  if (move !== null && move !== options.move) {
    leases?.release();
    throw new Fault('LOCK_HELD', `stack ${stack} rests for the request ${move}, which moves it`);
  }
  try {
    store.putRun(begun);
    if (!options.within) await takeUpHooks(bench, [stack], options);
    await wake(bench, stack, signal, options.move);
    const subject = await deployedSubject(bench, applied, signal);
    // Also before the first hook: a password that is wrong is found out before a dump is made, not after it.
    if (!options.within) await tryRepository(bench, subject.stack, signal);
    const work = () => capture(bench, subject, purpose, options);
    const done = options.within
      ? await work()
      : await withHooks(
          bench,
          { ...subject, runs: 'this' },
          'backup',
          {
            ...options,
            attempt: begun.startedAtMs,
            ended: (hook) => void hooks.push(hook),
            ...(options.move === undefined ? {} : { completed: AFTER_A_BACKUP }),
          },
          work,
        );
    // A safety archive is kept for its restore only: it takes no scheduled backup's place.
    if (purpose === 'backup') {
      const last: LastBackup = { ...done, atMs: clock.nowMs(), durationMs: clock.nowMs() - begun.startedAtMs };
      store.putValue(lastBackupKey(stack), last);
    }
    store.putValue(tookKey(done.archive), clock.nowMs() - begun.startedAtMs);
    end('succeeded', archivedMessage(done.archive));
    return done;
  } catch (error) {
    const fault = asFault(error, 'ARCHIVE_FAILED');
    end(signal.aborted ? 'cancelled' : 'failed', fault.message);
    throw fault;
  } finally {
    leases?.release();
  }
}

async function capture(
  bench: Workbench,
  subject: HookSubject,
  purpose: 'backup' | 'safety',
  { signal, note = () => {}, move }: BackupOptions,
): Promise<BackedUp> {
  const { house } = bench;
  const { archives, payloads, clock } = house;
  if (!archives || !payloads) throw new Fault('USAGE', 'there is no archive store here');
  const { stack, resolved } = subject;
  const { desired } = resolved;
  // All of it is stopped and goes on from there: its files are whole, and newer than any dump.
  const said = move === undefined ? backupOf(stack) : null;
  const settings = await settingsOf(bench, stack);
  const { captured, notCaptured } = await sourcesOf(house, subject, said, settings, signal);
  for (const one of notCaptured) note(`not in it: ${one}`);
  const inRestic = forRestic(settings, captured);
  // Before anything rests: who waits for its turn, or is refused, keeps no service from its work.
  const repository = inRestic.size === 0 ? null : await repositoryOf(archives).open(signal);
  const how = move === undefined ? restOf(subject, said, captured) : allStopped(desired);
  const records: PayloadRecord[] = [];
  const kept: string[] = [];
  try {
    try {
      await rest(bench, stack.name, desired.project, how, signal, move);
      for (const { source, holder, name } of captured) {
        const { kind } = holder;
        const exclude = leftOut(said, holder);
        note(`reading ${kind} ${holder.name}`);
        const onStill = (words: string): void => {
          note(`${words}; what rests for it rests as long`);
          tellStill(house, stack.name, words);
        };
        if (repository && inRestic.has(source)) {
          const reading = payloads.read(source, { signal, exclude, plain: true, onStill });
          const put = await repository.put(reading.stream, { stack: stack.name, signal });
          records.push({ kind, name, format: 'tar', ...put, ...(await reading.done) });
          continue;
        }
        const reading = payloads.read(source, { signal, exclude, onStill });
        const blob = await archives.store.putBlob(reading.stream, signal);
        kept.push(blob.digest);
        records.push({ kind, name, format: 'tar+zstd', blob, ...(await reading.done) });
      }
    } finally {
      // Also when it is called off, before or meanwhile: nothing stays at rest.
      if (move === undefined) await wake(bench, stack.name, new AbortController().signal);
    }
    const put = async (bytes: Uint8Array) => {
      const blob = await archives.store.putBlob(once(bytes), signal);
      kept.push(blob.digest);
      return blob;
    };
    const manifest = await manifestOf(bench, subject, said, { purpose, records, notCaptured, how, put });
    const { bytes } = encodeManifest(manifest);
    const archive = await archives.store.putManifest(bytes, archives.sign(bytes));
    note(`archive ${archive}`);
    const blobs = new Map(records.map((one) => [one.blob.digest, one.blob.sizeBytes]));
    const sizeBytes = [...blobs.values()].reduce((sum, size) => sum + size, 0);
    house.store.appendEvent({
      atMs: clock.nowMs(),
      stack: stack.name,
      level: 'info',
      reason: purpose === 'safety' ? 'SafetyArchive' : 'BackedUp',
      message: `archive ${archive}`,
      revision: subject.at.revision.commit,
    });
    return { archive, sizeBytes, payloads: records.length };
  } catch (error) {
    // What stands in the way of that is not worth hiding the failure; what still rests is woken by whoever comes next.
    if (move !== undefined) await wake(bench, stack.name, new AbortController().signal, move).catch(() => {});
    await archives.store.release(kept).catch(() => {});
    throw error;
  } finally {
    repository?.close();
  }
}

/** For whoever looks at the stack, also where nobody reads the notes: its services may be at rest meanwhile. */
function tellStill({ store, clock, redact }: House, stack: string, words: string): void {
  const message = redact(`the backup of ${stack}: ${words}`);
  try {
    store.appendEvent({ atMs: clock.nowMs(), stack, level: 'warning', reason: 'BackupStands', message, revision: '' });
  } catch {
    // Nobody waits for it: what cannot be written down now is told when it is given up.
  }
}

/** Throws REPOSITORY_REFUSED. */
function repositoryOf({ repository }: ArchiveHouse): BlobRepository {
  if (repository) return repository;
  throw new Fault(
    'REPOSITORY_REFUSED',
    'the stack keeps data in a restic repository, and windlass.yaml names none: set `archives.restic`',
  );
}

/** Whatever the repository refuses it refuses here, and waits for its turn. */
async function tryRepository(bench: Workbench, stack: LoadedStack, signal: AbortSignal): Promise<void> {
  const { archives } = bench.house;
  if (!archives || ((await settingsOf(bench, stack)).restic ?? []).length === 0) return;
  (await repositoryOf(archives).open(signal)).close();
}

type Settings = ReturnType<typeof effectiveSettings>;

/** As git says now, also while it runs from an older commit or from an archive: `backup:` is about archives, not about what runs. What git
 * does not declare, or nobody can read now, is kept as it is deployed. */
async function settingsOf(bench: Workbench, deployed: LoadedStack): Promise<Settings> {
  const of = (stack: LoadedStack): Settings =>
    effectiveSettings(backupOf(stack), stack.backup as Parameters<typeof effectiveSettings>[1]);
  try {
    const declared = (await liveFleet(bench))?.fleet.stacks.get(deployed.name);
    if (declared) return of(declared);
  } catch (error) {
    if (!(error instanceof Fault || error instanceof InvalidStack)) throw error;
  }
  return of(deployed);
}

/** Of those that lie in the restic repository. */
const forRestic = (settings: Settings, captured: readonly Captured[]): ReadonlySet<PayloadSource> =>
  new Set(captured.filter(({ holder }) => isForRestic(settings, holder)).map(({ source }) => source));

interface Captured {
  readonly holder: Holder;
  /** Of the payload: key of the volume, or path of the mount below the tree, that of a generation with it. */
  readonly name: string;
  readonly source: PayloadSource;
  readonly services: readonly string[];
}

/** Volumes and folders of the project that hold data; what lies elsewhere or is left out is named, and what was meant to name something. */
async function sourcesOf(
  house: House,
  { stack, resolved }: HookSubject,
  said: Backup | null,
  settings: Settings,
  signal: AbortSignal,
): Promise<{ captured: readonly Captured[]; notCaptured: readonly string[] }> {
  const { desired } = resolved;
  const { stateDir } = house.settings;
  const { folders, elsewhere } = mountsOf(stateDir, stack, (await resolved.model(signal)).text);
  const captured: Captured[] = [];
  const notCaptured: string[] = [];
  const excluded = ({ kind, name }: Holder): void =>
    void notCaptured.push(`${kind} ${name} is excluded by backup.yaml`);
  for (const volume of desired.volumes) {
    const holder: Holder = { kind: 'volume', name: volume.key };
    if (volume.external) notCaptured.push(`volume ${volume.name} is external`);
    else if (!captures(said, holder)) excluded(holder);
    else
      captured.push({
        holder,
        name: volume.key,
        source: { kind: 'volume', name: volume.name },
        services: desired.services.filter((one) => one.volumes.includes(volume.name)).map((one) => one.name),
      });
  }
  notCaptured.push(...elsewhere);
  const tree = treeDirOf(stateDir, stack.name);
  for (const { holder, path, services, isOfGit } of folders) {
    if (isOfGit) continue;
    if (!captures(said, holder)) excluded(holder);
    else
      captured.push({
        holder,
        name: path,
        source: { kind: 'folder', path: `${tree}/${path}`, within: tree },
        services,
      });
  }
  for (const { holder } of captured)
    for (const path of leftOut(said, holder))
      notCaptured.push(`${path} of ${holder.kind} ${holder.name} is excluded by backup.yaml`);
  const { volumes, exclude } = said ?? {};
  const { restic } = settings;
  const globs = {
    ...(volumes ? { volumes } : {}),
    ...(exclude ? { exclude } : {}),
    ...(restic ? { restic } : {}),
  };
  notCaptured.push(...idleGlobs(globs, holdersOf(desired, folders)).map(idleWords));
  return { captured, notCaptured };
}

/** What is not named is stopped when it mounts what is captured. */
function restOf(
  { resolved }: HookSubject,
  said: Backup | null,
  captured: readonly Captured[],
): ReadonlyMap<string, Quiesce> {
  const users = new Set(captured.flatMap((one) => one.services));
  return new Map(
    resolved.desired.services.map((one) => [
      one.name,
      said?.quiesce?.[one.name] ?? (users.has(one.name) ? 'stop' : 'none'),
    ]),
  );
}

/** For a move: not only those that mount data. */
export const allStopped = ({ services }: Desired): ReadonlyMap<string, Quiesce> =>
  new Map(services.map(({ name }) => [name, 'stop']));

async function manifestOf(
  bench: Workbench,
  subject: HookSubject,
  said: Backup | null,
  more: {
    readonly purpose: 'backup' | 'safety';
    readonly records: readonly PayloadRecord[];
    readonly notCaptured: readonly string[];
    readonly how: ReadonlyMap<string, Quiesce>;
    readonly put: (bytes: Uint8Array) => Promise<{ digest: string; sizeBytes: number }>;
  },
): Promise<Manifest> {
  const { house } = bench;
  const { source, clock, settings, payloads } = house;
  const { stack, at, resolved } = subject;
  const { desired } = resolved;
  const { put, records } = more;
  const fileOf = async (path: string, mode: string, bytes: Uint8Array): Promise<FileRecord> => ({
    path,
    mode: mode as FileRecord['mode'],
    blob: await put(bytes),
  });
  const files: FileRecord[] = [];
  for (const { path, mode, oid } of stack.files)
    if (mode !== '160000') files.push(await fileOf(path, mode, await source.blob(oid, FILE_BYTES)));
  const info = await house.runtime.info();
  const index = await bench.look.fresh('known');
  const volumes: Manifest['volumes'][number][] = [];
  for (const volume of desired.volumes) {
    const found = await payloads!.inspectVolume(volume.name, new AbortController().signal);
    volumes.push({
      key: volume.key,
      name: volume.name,
      external: volume.external,
      driver: found?.driver ?? 'local',
      driverOpts: { ...found?.driverOpts },
      labels: { ...found?.labels },
      payload: records.some((one) => one.kind === 'volume' && one.name === volume.key) ? volume.key : null,
    });
  }
  const minted = mintedAnew(house, at, stack);
  const boot = bootOf({ backup: said, hasRestoreHook: (stack.hooks['pre_restore'] ?? []).length > 0 });
  return {
    format: 'windlass-archive',
    version: records.some((one) => one.format === 'tar') ? 2 : 1,
    madeAtMs: clock.nowMs(),
    stack: stack.name,
    payloads: [...records],
    purpose: more.purpose,
    project: desired.project,
    group: stack.group,
    node: stack.node,
    runtime: stack.runtime,
    revision: { source: at.revision.source, ref: at.revision.ref, commit: at.revision.commit },
    spec: asMinted(await documentOf(house, at, stack), minted),
    layout:
      stack.layout.kind === 'app'
        ? { kind: 'app' }
        : {
            kind: 'compose',
            directory: stack.layout.directory,
            files: [...stack.layout.files],
            profiles: [...stack.layout.profiles],
          },
    app: await appOf(house, at, stack, fileOf),
    vars: Object.fromEntries(
      Object.entries(stack.vars).map(([name, value]) => [name, varOf(stack, name, minted.get(name) ?? value)]),
    ),
    ports: Object.fromEntries(Object.entries(stack.ports).map(([service, list]) => [service, [...list]])),
    replicas: { ...stack.replicas },
    integrate: Object.fromEntries(
      Object.entries(stack.integrate).map(([plug, provider]) => {
        const layout = at.fleet.stacks.get(provider)?.layout;
        return [plug, { provider, app: layout?.kind === 'app' ? layout.app.name : null }];
      }),
    ),
    files,
    images: desired.services.map((service) => {
      const image = imageNamed(index, service.image);
      return {
        service: service.name,
        reference: service.image,
        digest: image?.digests[0] ?? null,
        imageId: image?.id ?? null,
      };
    }),
    volumes,
    owners: desired.owners.map(({ volume, mode, uid, gid }) => ({ volume, mode, uid, gid })),
    vault: await sealedOf(house, subject, put),
    boot,
    restoreJobs: [...(said?.restore ?? [])],
    quiesced: [...more.how].map(([service, how]) => ({ service, how })),
    notCaptured: [...more.notCaptured, ...records.flatMap((one) => one.notCaptured)],
    engine: { version: info.version, apiVersion: info.apiVersion, composeVersion: info.composeVersion },
    windlass: settings.version,
  };
}

/** The stack's own document as it stands in the commit; {} when it has none. */
async function documentOf(house: House, at: FleetAt, stack: LoadedStack): Promise<Record<string, unknown>> {
  const { file } = stack.place;
  const entry = at.listing.entries.find((one) => one.path === file);
  if (!entry || !/(^|\/)(stack\.ya?ml|stacks\/[^/]+\.ya?ml)$/.test(file)) return {};
  const text = Buffer.from(await house.source.blob(entry.oid, FILE_BYTES)).toString('utf8');
  const value = parseDocument(file, text).parsed?.value;
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

/** A restored stack takes out of the vault what its original had minted: variable → how that asked for it. A clone mints it anew. */
function mintedAnew({ store }: House, at: FleetAt, stack: LoadedStack): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const made = madeCommit(store, at.revision.commit);
  if (made === null) return found;
  const declared = stack.layout.kind === 'app' ? ((stack.layout.app.spec as Partial<App>).vars ?? {}) : {};
  for (const [name, value] of Object.entries(stack.vars)) {
    if (value !== `ref+vault://stack/${stack.name}/${name}`) continue;
    const variable = declared[name];
    const asked = made.minted?.[name] ?? (variable && effectiveVar(variable, null));
    if (typeof asked === 'string' && parseMint(asked) !== null) found.set(name, asked);
  }
  return found;
}

function asMinted(document: Record<string, unknown>, minted: ReadonlyMap<string, string>): Record<string, unknown> {
  if (minted.size === 0) return document;
  return { ...document, vars: { ...(document['vars'] as Record<string, unknown>), ...Object.fromEntries(minted) } };
}

async function appOf(
  house: House,
  at: FleetAt,
  stack: LoadedStack,
  fileOf: (path: string, mode: string, bytes: Uint8Array) => Promise<FileRecord>,
): Promise<Manifest['app']> {
  if (stack.layout.kind !== 'app') return null;
  const { app } = stack.layout;
  const source: FileRecord[] = [];
  if (app.origin === 'bundled') {
    for (const [path, text] of Object.entries(house.settings.bundled))
      if (path.startsWith(`${app.name}/`)) source.push(await fileOf(`apps/${path}`, '100644', Buffer.from(text)));
  } else
    for (const { path, mode, oid } of at.listing.entries)
      if (path.startsWith(`${app.directory}/`) && mode !== '160000')
        source.push(await fileOf(path, mode, await house.source.blob(oid, FILE_BYTES)));
  return {
    name: app.name,
    version: app.version,
    catalog: { origin: app.origin, directory: app.directory },
    source,
  };
}

/** Secrets stand in the manifest by their place in the vault, never by value and never by a hash of it. */
function varOf(stack: LoadedStack, name: string, value: unknown): ManifestVar {
  if (typeof value !== 'string') return { kind: 'plain', value };
  const mint = parseMint(value);
  if (mint && !('wrong' in mint)) return { kind: 'secret', scope: `stack/${stack.name}`, key: name };
  const ref = parseRef(value);
  if (!ref || !isSecretScheme(ref.scheme)) return { kind: 'plain', value };
  return { kind: 'ref', ref: value };
}

/** Values of every vault key that the stack itself reads, sealed to the controller and the configured recipients. */
async function sealedOf(
  house: House,
  { stack, resolved }: HookSubject,
  put: (bytes: Uint8Array) => Promise<{ digest: string; sizeBytes: number }>,
): Promise<Manifest['vault']> {
  const { vault, envelope, archives } = house;
  const own = resolved.secrets.filter((one) => one.scheme === 'vault' && one.stack === stack.name);
  const values: { scope: string; key: string; value: string }[] = [];
  for (const { key, scopes } of own)
    for (const scope of scopes) {
      const value = (await vault?.find(key, [scope])) ?? null;
      if (value === null) continue;
      values.push({ scope, key, value });
      break;
    }
  if (values.length === 0) return { keys: [], sealed: null, recipients: [] };
  if (!envelope) throw new Fault('USAGE', 'secrets cannot be sealed here: there is no age identity');
  const recipients = [...new Set([await envelope.recipient(), ...(archives?.recipients ?? [])])].sort();
  const sealed = await put(Buffer.from(await envelope.seal(recipients, JSON.stringify(values))));
  return { keys: values.map(({ scope, key }) => ({ scope, key })), sealed, recipients };
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
