// Plan of a restore: reads every blob, renders what the archive holds under the name of its target, and looks at everything that could stand
// in its way, before anything is touched. Changes nothing, and remembers an archive that it found damaged; its answer is plain JSON without
// secrets.
import { blobsOf, type Manifest, type ReadArchive, readManifest } from '../../core/archive/manifest.ts';
import { fieldChanges } from '../../core/diff/diff.ts';
import { imageNamed } from '../../core/diff/index-observed.ts';
import { asFault, Fault } from '../../core/fault.ts';
import type { Generation } from '../../core/render/variant.ts';
import { formatSize } from '../../core/size.ts';
import type { Applied } from '../../core/state/applied.ts';
import type { DesiredService, DesiredVolume } from '../../core/state/desired.ts';
import { canonicalJson, sha256 } from '../../engine/digest.ts';
import type { ArchiveHouse } from '../../ports/archive-house.ts';
import type { Payloads } from '../../ports/payloads.ts';
import type { FleetAt } from '../fleet-at.ts';
import type { House } from '../house.ts';
import { acceptedKey } from '../lineage.ts';
import { treeDirOf } from '../resolve.ts';
import type { Judged } from '../survey.ts';
import { Workbench } from '../workbench.ts';
import { ArchiveSource, type MadeCommit } from './archive-source.ts';
import { mountsOf } from './data-holders.ts';
import { formatDiscard, instant, isElsewhere, measured, type Replaced, replacedBy, volumesMade } from './discards.ts';
import {
  generationFolder,
  generationOf,
  generationVolume,
  mergeGenerations,
  newestGeneration,
  originalFolder,
} from './generations.ts';
import { madeStack, type Overrides, refuseBarePorts, scopeFor } from './made-stack.ts';
import { putWrongWithOthers } from './proof.ts';
import { checkRoom } from './room.ts';
import { copiesTold, openVaultValues, vaultWith, vaultWrites } from './vault-values.ts';

export interface RestoreRequest extends Overrides {
  readonly stack: string;
  /** Default: the stack itself. */
  readonly target?: string;
  /** Full id. */
  readonly archive: string;
  /** Default `archive`. */
  readonly safety?: 'archive' | 'none';
  /** Default `hold`. */
  readonly then?: 'hold' | 'follow-git';
}

export interface StagedVolume {
  readonly key: string;
  /** In the engine. */
  readonly name: string;
  /** Name of the payload; null = made empty, for the first boot and its jobs to fill. */
  readonly payload: string | null;
  /** Compose's hash of its definition, for its label. */
  readonly hash: string;
  readonly driverOpts: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
}

export interface StagedFolder {
  /** Below the tree, as the files of the stack mount it. */
  readonly path: string;
  /** Below the tree. */
  readonly to: string;
  readonly payload: string;
}

/** Plain JSON without secrets. */
export interface RestorePlan {
  readonly archive: string;
  readonly stack: string;
  readonly target: string;
  readonly commit: string;
  readonly made: MadeCommit;
  /** Digest of what is deployed under the target's name; null = nothing is. */
  readonly live: string | null;
  readonly safety: boolean;
  readonly followGit: boolean;
  readonly boot: Manifest['boot'];
  readonly restoreJobs: readonly string[];
  readonly volumes: readonly StagedVolume[];
  readonly folders: readonly StagedFolder[];
  /** Where the restored data will lie. */
  readonly generation: Generation;
  /** Data that is live now and is replaced. */
  readonly replaced: readonly Replaced[];
  /** Keys that are put back into the vault, under the target's name. */
  readonly vaultKeys: readonly { readonly scope: string; readonly key: string }[];
  /** For people; not part of what the digest names. */
  readonly lines: readonly string[];
}

export type RestorePlanned =
  | { readonly kind: 'plan'; readonly plan: RestorePlan }
  /** Nothing is wrong; it can be done later. */
  | { readonly kind: 'wait'; readonly why: string };

/** Names everything that the restore will do; what is told of sizes and ages is left out. */
export const restoreDigest = ({ lines: _lines, ...content }: RestorePlan): string => sha256(canonicalJson(content));

interface Tools {
  readonly archives: ArchiveHouse;
  readonly payloads: Payloads;
}

export function toolsOf({ archives, payloads }: House): Tools {
  if (!archives) throw new Fault('USAGE', 'there is no archive store here');
  if (!payloads) throw new Fault('USAGE', 'volumes cannot be reached from here');
  return { archives, payloads };
}

/** Throws ARCHIVE_* for an archive that is not whole or not trusted, and the Fault of whatever stands in the way. Touches nothing. */
export async function planRestore(
  bench: Workbench,
  request: RestoreRequest,
  signal: AbortSignal,
  /** Providers that are restored before it → their made commits, which the source of `bench` knows. */
  beside: ReadonlyMap<string, string> = new Map(),
  /** What is stopped before the restore begins, and runs again only when nothing of it stays: its ports are free. */
  stopped: readonly Applied[] = [],
): Promise<RestorePlanned> {
  const { house } = bench;
  const { archives, payloads } = toolsOf(house);
  const { store } = house;
  const target = request.target ?? request.stack;
  const { id, manifest, derived } = await readArchive(archives, request.archive);
  if (manifest.stack !== request.stack)
    throw new Fault(
      'USAGE',
      `the archive ${id.slice(0, 12)} is one of the stack ${manifest.stack}, not of ${request.stack}`,
    );
  if (manifest.runtime !== 'compose')
    throw new Fault('USAGE', `the archive is of a stack on ${manifest.runtime}, which is not restored by this version`);
  // First: what does not fit is asked for again and again, and reading all of it takes long.
  await checkRoom(bench, [{ manifest, target, safety: request.safety !== 'none' }], signal);
  const verified = await archives.store.verify(id, signal);
  if (verified.wrong.length > 0) {
    const own = archives.own ?? archives.store;
    // That it is damaged is what is told, also where the others that share it cannot be.
    const untold = await putWrongWithOthers(store, own, id, verified.wrong, house.clock.nowMs()).then(
      () => '',
      (error: unknown) => `; which others share that is not known: ${asFault(error, 'ARCHIVE_FAILED').message}`,
    );
    throw new Fault(
      'ARCHIVE_DAMAGED',
      `${verified.wrong.length === 1 ? '1 blob' : `${verified.wrong.length} blobs`} of the archive ${id.slice(0, 12)} ${verified.wrong.length === 1 ? 'is' : 'are'} missing or damaged${untold}`,
      {
        data: { archive: id, digests: verified.wrong.map((one) => one.digest) },
      },
    );
  }
  // Opened once, so that it is known to open; nothing of it is kept.
  const isMinted = request.secrets === 'mint';
  const values = isMinted ? [] : await openVaultValues(house, manifest, signal);

  const live = await liveFleet(bench);
  const {
    made,
    integrate,
    lines: said,
  } = await madeStack({
    bench,
    archive: id,
    manifest,
    derived,
    target,
    overrides: request,
    live,
    beside,
    archives: archives.store,
    signal,
  });
  const lines = [...said];
  const waiting = Object.values(integrate).find(
    (provider) => !beside.has(provider) && store.applied(provider) === null,
  );
  if (waiting !== undefined) return { kind: 'wait', why: `its provider ${waiting} is not deployed yet` };

  const applied = store.applied(target);
  const staged = await stagedOf(payloads, manifest, target, newestGeneration(house.store, target), signal);
  const generation: Generation = {
    volumes: Object.fromEntries(staged.volumes.map(({ key, name }) => [key, name])),
    folders: Object.fromEntries(staged.folders.map(({ path, to }) => [path, to])),
  };
  const offering = new ArchiveSource(house.source, store, archives.store);
  const commit = offering.offer(made, mergeGenerations(generationOf(store, target), generation));
  const { vault } = house;
  const content = { values, stack: manifest.stack, target, group: manifest.group };
  const { writes } = await vaultWrites(content, async (key, scope) => (await vault?.find(key, [scope])) ?? null);
  const planning = { ...house, source: offering, vault: vault && vaultWith(vault, writes, house.clock) };
  for (const { item, state } of copiesTold(writes)) lines.push(`${item} ${state}`);
  const judged = await judge(new Workbench(planning), target, commit, stopped);
  const layout = manifest.layout;
  if (layout.kind === 'compose' && judged.stack.layout.kind === 'compose') {
    const read = judged.stack.layout.files;
    if (JSON.stringify(read) !== JSON.stringify(layout.files))
      throw new Fault(
        'ARCHIVE_INVALID',
        `its Compose files would be read as ${read.join(', ')}, not as ${layout.files.join(', ')}`,
      );
  }
  const { desired } = judged.resolved;
  refuseBarePorts(request.ports, (service, port) => {
    const { ports = [] } = desired.services.find(({ name }) => name === service) ?? {};
    return ports.length === 1 && ports[0]?.published === port;
  });
  const volumes: StagedVolume[] = [];
  for (const one of staged.volumes) {
    const wanted = desired.volumes.find(({ key }) => key === one.key);
    if (wanted && !wanted.external) volumes.push({ ...one, hash: wanted.hash });
    else if (one.payload !== null && !isReshaped(request)) throw homeless('volume', one.payload);
    else lines.push(`volume ${one.key} is in the archive, but the stack does not mount it: left out`);
  }
  if (derived.includes('volumes')) refuseUntoldVolumes(manifest, desired.volumes);
  const shown = await judged.resolved.shown(signal);
  const mounted = new Set(mountsOf(house.settings.stateDir, judged.stack, shown).folders.map(({ path }) => path));
  const folders: StagedFolder[] = [];
  for (const one of staged.folders) {
    if (mounted.has(one.to)) folders.push(one);
    else if (!isReshaped(request)) throw homeless('bind', one.payload);
    else lines.push(`folder ${one.path} is in the archive, but the stack does not mount it: left out`);
  }
  const plan: RestorePlan = {
    archive: id,
    stack: manifest.stack,
    target,
    commit,
    made,
    live: applied?.desired.digest ?? null,
    safety: applied !== null && request.safety !== 'none',
    followGit: request.then === 'follow-git',
    boot: { ...manifest.boot },
    restoreJobs: [...manifest.restoreJobs],
    volumes,
    folders,
    generation: {
      volumes: Object.fromEntries(volumes.map(({ key, name }) => [key, name])),
      folders: Object.fromEntries(folders.map(({ path, to }) => [path, to])),
    },
    replaced: replacedBy(house, applied, {
      volumes: Object.keys(generation.volumes),
      folders: folders.map(({ path }) => path),
    }),
    vaultKeys: isMinted
      ? []
      : manifest.vault.keys.map(({ scope, key }) => ({ scope: scopeFor(scope, manifest.stack, target), key })),
    lines: [],
  };
  const told = [
    ...(await words(bench, plan, manifest, live, signal)),
    ...(await whereGitDiffers(bench, judged, live, signal)),
    ...imageWords(judged, manifest),
    ...lines,
  ];
  return { kind: 'plan', plan: { ...plan, lines: told } };
}

/** Throws ARCHIVE_UNTRUSTED for a signature that does not count here. */
export async function readArchive(archives: ArchiveHouse, id: string): Promise<ReadArchive> {
  const { bytes, signature } = await archives.store.manifest(id);
  archives.check(bytes, signature);
  const read = readManifest(bytes);
  if (read.kind !== 'archive')
    throw new Fault('USAGE', `${id.slice(0, 12)} is the archive of a group; its stacks are recovered, not restored`);
  return read;
}

/** What is declared here now: the accepted commit, or the last one that was fetched; null when there is none, as on a bare machine. */
export async function liveFleet(bench: Workbench): Promise<FleetAt | null> {
  const { source, store } = bench.house;
  const accepted = store.value(acceptedKey(source.spec.name));
  const commit = typeof accepted === 'string' ? accepted : await source.tip();
  return commit === null ? null : bench.reader.read(commit);
}

/** The stack at a made commit, or the Fault that says why it cannot be deployed. */
export async function judge(
  bench: Workbench,
  stack: string,
  commit: string,
  stopped: readonly Applied[] = [],
): Promise<Judged> {
  const at = await bench.reader.read(commit);
  const leaving = { now: stopped, all: stopped };
  const [one] = await bench.surveyor.survey([stack], at, await bench.look.fresh([stack]), leaving);
  if (one?.kind === 'judged') return one;
  if (one?.kind === 'refused') throw one.fault;
  const [wrong] = one?.diagnostics ?? at.fleet.diagnostics;
  throw new Fault('ARCHIVE_INVALID', `the stack cannot be restored so: ${wrong?.summary ?? 'it cannot be read'}`, {
    data: { stack, code: wrong?.code ?? '', detail: wrong?.detail ?? '' },
  });
}

/** What is mounted may then depend on what the request says, and the plan tells what is left out. */
const isReshaped = ({ vars = {}, integrate = {}, skipIntegration = [] }: Overrides): boolean =>
  Object.keys(vars).length + Object.keys(integrate).length + skipIntegration.length > 0;

/** Left out in silence, it would be taken for restored. */
const homeless = (kind: 'volume' | 'bind', name: string): Fault =>
  new Fault('ARCHIVE_INVALID', `the payload ${kind} ${JSON.stringify(name)} is mounted by nothing of the stack`, {
    data: { payload: name },
  });

/** A first boot rebuilds the volumes that the archive holds no data of; an archive that does not name them would let it have the live ones. */
function refuseUntoldVolumes(manifest: Manifest, wanted: readonly DesiredVolume[]): void {
  if (manifest.boot.kind !== 'double') return;
  const untold = wanted.find(({ key, external }) => !external && manifest.volumes.every((one) => one.key !== key));
  if (untold !== undefined)
    throw new Fault(
      'ARCHIVE_INVALID',
      `the archive does not say \`volumes\` and is booted twice, and it holds no data of the volume ${untold.key}: whether the first boot is to rebuild that is not known`,
      { data: { volume: untold.key } },
    );
}

/** Names that nothing bears yet, whether volumes or folders: the live ones are of an earlier generation. */
async function stagedOf(payloads: Payloads, manifest: Manifest, target: string, taken: number, signal: AbortSignal) {
  const data = volumesMade(manifest);
  for (const one of data)
    if (isElsewhere(one))
      throw new Fault(
        'PAYLOAD_NO_WAY',
        `volume ${one.key} lies outside of the engine (driver ${one.driver}${one.driverOpts['device'] ? `, device ${one.driverOpts['device']}` : ''}): a second one would be the same data, so it is not restored beside it`,
        { data: { volume: one.name } },
      );
  let number = taken + 1;
  for (; ; number++) {
    const found = await Promise.all(
      data.map((one) => payloads.inspectVolume(generationVolume(target, one.key, number), signal)),
    );
    if (found.every((one) => one === null)) break;
  }
  return {
    volumes: data.map((one) => ({
      key: one.key,
      name: generationVolume(target, one.key, number),
      payload: one.payload,
      driverOpts: { ...one.driverOpts },
      labels: Object.fromEntries(
        Object.entries(one.labels).filter(([name]) => !/^(com\.docker\.compose|dev\.windlass)\./.test(name)),
      ),
    })),
    folders: manifest.payloads
      .filter((one) => one.kind === 'bind')
      .map((one) => {
        const path = originalFolder(one.name);
        return { path, to: generationFolder(number, path), payload: one.name };
      }),
  };
}

async function words(
  bench: Workbench,
  plan: RestorePlan,
  manifest: Manifest,
  live: FleetAt | null,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { store, clock } = bench.house;
  const { target } = plan;
  const bytes = blobsOf({ kind: 'archive', id: plan.archive, manifest, derived: [] }).reduce(
    (sum, one) => sum + one.sizeBytes,
    0,
  );
  const lines = [
    `restore ${plan.stack}${target === plan.stack ? '' : ` as ${target}`} from ${plan.archive.slice(0, 12)}, made ${instant(manifest.madeAtMs)}, ${formatSize(bytes)}, all of it read and found right`,
    plan.boot.kind === 'double'
      ? `boots twice: ${plan.boot.why}${plan.restoreJobs.length > 0 ? ` (${plan.restoreJobs.join(', ')})` : ''}; the first time apart from everything, publishing nothing`
      : `boots once: ${plan.boot.why}`,
  ];
  const current = store.applied(target);
  if (current) {
    const last = store.value(`last-backup/${target}`) as { readonly atMs?: number } | undefined;
    lines.push(
      plan.safety ? 'the live data is archived first' : 'the live data is NOT archived first: `safety: none`',
      last?.atMs
        ? `the newest archive of the live data is of ${instant(last.atMs)}`
        : 'there is no archive of the live data yet',
    );
    const keptUntil = instant(clock.nowMs() + 7 * 24 * 60 * 60_000);
    for (const discard of await measured(bench.house, target, plan.replaced, manifest.madeAtMs, signal))
      lines.push(`${formatDiscard(discard)}, and it stays as it is until ${keptUntil}`);
    for (const one of current.desired.volumes)
      if (!one.external && !Object.hasOwn(plan.generation.volumes, one.key))
        lines.push(`volume ${one.name} is not in the archive and stays as it is`);
  } else lines.push(`nothing is deployed as ${target}: it is made anew`);
  for (const one of plan.volumes)
    if (one.payload === null)
      lines.push(
        `volume ${one.key} is not in the archive: it is made empty, for the first boot${plan.restoreJobs.length > 0 ? ` and ${plan.restoreJobs.join(', ')}` : ''} to fill`,
      );
  for (const said of manifest.notCaptured) lines.push(`not in the archive: ${said}`);
  for (const { scope, key } of plan.vaultKeys) lines.push(`secret ${key} of ${scope} is put back into the vault`);
  const declared = live?.fleet.stacks.get(target);
  lines.push(
    plan.followGit
      ? declared
        ? 'afterwards it follows git: what git declares is deployed on the restored data'
        : `git does not declare ${target}: it stays as it is restored`
      : declared
        ? `afterwards it is held as it is restored, until ${declared.place.file} changes or somebody resumes it`
        : `git does not declare ${target}: add it to the fleet to keep it up to date`,
  );
  return lines;
}

/** The tag that the archive names may be another image by now; the digest is known, not kept. */
function imageWords({ index }: Judged, manifest: Manifest): readonly string[] {
  return manifest.images.flatMap(({ service, reference, imageId }) => {
    const there = imageNamed(index, reference);
    if (!there) return [`image ${reference} of ${service} is not on the engine: it is pulled, or built`];
    if (imageId !== null && there.id !== imageId)
      return [`image ${reference} of ${service} is another one now than when the archive was made`];
    return [];
  });
}

const MOST_DIFFERENCES = 20;

/** What the first deploy from git would change again. */
async function whereGitDiffers(
  bench: Workbench,
  judged: Judged,
  live: FleetAt | null,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const declared = live?.fleet.stacks.get(judged.name);
  if (!live || !declared) return [];
  let services: readonly DesiredService[];
  try {
    services = (await bench.resolver.resolve(declared, live, signal)).desired.services;
  } catch (error) {
    signal.throwIfAborted();
    return [`what git declares cannot be compared: ${bench.house.redact((error as Error).message)}`];
  }
  const restored = judged.resolved.desired.services;
  // Where the data of a generation lies is nothing that git says: it is the folder that it declares.
  const tree = `${treeDirOf(bench.house.settings.stateDir, judged.name)}/`;
  const declaredAs = (value: string | null): string =>
    value === null ? 'nothing' : value.startsWith(tree) ? tree + originalFolder(value.slice(tree.length)) : value;
  const lines: string[] = [];
  for (const service of services) {
    const before = restored.find((one) => one.name === service.name);
    if (!before) lines.push(`git differs: it has the service ${service.name} too`);
    // A secret that differs now is that of the archive afterwards.
    else
      for (const { path, ...values } of fieldChanges(before, service)) {
        const [old, after] = [declaredAs(values.before), declaredAs(values.after)];
        if (old !== after && !/\.dev\.windlass\./.test(path))
          lines.push(`git differs: ${service.name} ${path}: ${old} → ${after}`);
      }
  }
  for (const { name } of restored)
    if (!services.some((one) => one.name === name)) lines.push(`git differs: it has no service ${name}`);
  return lines.length <= MOST_DIFFERENCES
    ? lines
    : [...lines.slice(0, MOST_DIFFERENCES), `git differs in ${lines.length - MOST_DIFFERENCES} more places`];
}
