// Generations: which volumes and folders a stack's data lies in since it was restored, and which of before are still kept. Live data is
// never written into: the reference is switched by one write, and the next deploy follows it.
import { projectContainers } from '../../core/diff/diff.ts';
import type { Generation } from '../../core/render/variant.ts';
import type { Store } from '../../ports/store.ts';
import type { Workbench } from '../workbench.ts';

/** How long the data of before a restore stays. Source: SPEC 11. */
export const GRACE_MS = 7 * 24 * 60 * 60_000;

export const NO_GENERATION: Generation = { volumes: {}, folders: {} };

const generationKey = (stack: string): string => `generation/${stack}`;

export const generationOf = (store: Store, stack: string): Generation | null =>
  (store.value(generationKey(stack)) as Generation | undefined) ?? null;

/** Null: as its files say. */
export function putGeneration(store: Store, stack: string, generation: Generation | null): void {
  if (generation === null) store.deleteValue(generationKey(stack));
  else store.putValue(generationKey(stack), generation);
}

/** After the last of its volumes is gone. Its folders may hold data that nobody asked to be removed. */
export function forgetVolumes(store: Store, stack: string): void {
  const { folders } = generationOf(store, stack) ?? NO_GENERATION;
  putGeneration(store, stack, Object.keys(folders).length === 0 ? null : { volumes: {}, folders });
}

/** What the other one does not name stays where it is. */
export const mergeGenerations = (before: Generation | null, after: Generation): Generation => ({
  volumes: { ...before?.volumes, ...after.volumes },
  folders: { ...before?.folders, ...after.folders },
});

/** Folders of a generation lie below the tree under a name of their own, so that a backup finds them there. */
const GENERATION_FOLDER = /^\.generation-\d+\//;
export const generationFolder = (number: number, path: string): string => `.generation-${number}/${path}`;
/** The path that a mounted folder has in the stack's files, whichever generation it was captured from. */
export const originalFolder = (path: string): string => path.replace(GENERATION_FOLDER, '');
export const generationVolume = (project: string, key: string, number: number): string =>
  `${project}_${key}_g${number}`;

/** The highest number that the live data of a stack, or what is kept of before, has in its name; 0 = none has one. */
export function newestGeneration(store: Store, stack: string): number {
  const live = generationOf(store, stack) ?? NO_GENERATION;
  const names = [
    ...Object.values(live.volumes),
    ...Object.values(live.folders),
    ...keptData(store)
      .filter((one) => one.stack === stack)
      .map((one) => one.name),
  ];
  const numbers = names.flatMap((name) => /(?:_g|\.generation-)(\d+)(?:\/|$)/.exec(name)?.[1] ?? []);
  return Math.max(0, ...numbers.map(Number));
}

/** Where the files of a stack are to lie: those below a mounted folder of another generation in that one too. */
export function filesInPlace<File extends { readonly path: string }>(
  files: readonly File[],
  generation: Generation | null,
): readonly File[] {
  const folders = Object.entries(generation?.folders ?? {});
  return files.flatMap((file) => [
    file,
    ...folders.flatMap(([path, to]) =>
      file.path.startsWith(`${path}/`) ? [{ ...file, path: to + file.path.slice(path.length) }] : [],
    ),
  ]);
}

/** Data of before a restore. */
export interface Kept {
  readonly kind: 'volume' | 'folder';
  /** Of the volume in the engine, or the absolute path of the folder. */
  readonly name: string;
  readonly stack: string;
  readonly restore: string;
  readonly sinceMs: number;
  readonly untilMs: number;
}

const keptKey = (name: string): string => `kept/${name}`;

export const keptData = (store: Store): readonly Kept[] => [...store.values('kept/').values()] as Kept[];
export const keep = (store: Store, kept: Kept): void => store.putValue(keptKey(kept.name), kept);
export const forgetKept = (store: Store, name: string): void => store.deleteValue(keptKey(name));

const PINNED = /^safety archive of the restore (.+)$/;
export const safetyPin = (restore: string): string => `safety archive of the restore ${restore}`;

/** As long as the data of before stays, so does its archive; then retention decides. */
function releaseSafetyArchives(store: Store, nowMs: number): void {
  for (const [key, why] of store.values('archive-pin/')) {
    const [, restore] = PINNED.exec(String(why)) ?? [];
    if (restore === undefined) continue;
    const record = store.value(`restore/${restore}`) as { readonly endedAtMs: number } | undefined;
    if (!record || (record.endedAtMs > 0 && record.endedAtMs + GRACE_MS <= nowMs)) store.deleteValue(key);
  }
}

/** What became of a request is told for so long; its receipt stays. */
const RECORD_MS = 90 * 24 * 60 * 60_000;

/** Records hold whole plans. Those of a restore that did not end stay, and those that data of before is still kept for. */
function trimRecords(store: Store, nowMs: number): void {
  const needed = new Set(keptData(store).map((one) => one.restore));
  for (const about of ['restore/', 'recover/', 'clone/', 'discards/'])
    for (const [key, value] of store.values(about)) {
      const { id, endedAtMs } = value as { readonly id: string; readonly endedAtMs: number };
      if (endedAtMs > 0 && endedAtMs + RECORD_MS <= nowMs && !needed.has(id)) store.deleteValue(key);
    }
}

/** Is it the data that the stack runs on, or may it be? In doubt it is. */
function isLive({ house: { store, settings } }: Workbench, one: Kept): boolean {
  const applied = store.applied(one.stack);
  // Nothing says any more which data counts: a person has to.
  if (applied === null) return true;
  const generation = generationOf(store, one.stack) ?? NO_GENERATION;
  if (one.kind === 'volume') {
    if (Object.values(generation.volumes).includes(one.name)) return true;
    return store.allApplied().some(({ desired }) => desired.volumes.some((volume) => volume.name === one.name));
  }
  const path = one.name.slice(`${settings.stateDir}/stacks/${one.stack}/tree/`.length);
  if (Object.values(generation.folders).includes(path)) return true;
  return !GENERATION_FOLDER.test(path) && generation.folders[path] === undefined;
}

/** Removes what was kept long enough and that nothing uses. What cannot be removed stays listed and is tried again. */
export async function sweepKept(bench: Workbench, signal: AbortSignal): Promise<readonly string[]> {
  const { store, clock, payloads, files, runtime } = bench.house;
  releaseSafetyArchives(store, clock.nowMs());
  trimRecords(store, clock.nowMs());
  const due = keptData(store).filter((one) => one.untilMs <= clock.nowMs());
  if (due.length === 0 || payloads === null) return [];
  const { containers } = (await bench.look.fresh('known')).observed;
  const removed: string[] = [];
  const remove = async (one: Kept): Promise<void> => {
    if (isLive(bench, one)) return;
    const users = containers.filter((container) =>
      container.mounts.some((mount) => mount.name === one.name || mount.source === one.name),
    );
    // Ended jobs are kept for their logs alone.
    if (users.some((user) => !user.oneOff || user.state === 'running')) return;
    for (const user of users) await runtime.remove(user.id, signal);
    if (one.kind === 'volume') await payloads.removeVolume(one.name, signal);
    else await files.removeFolder(one.name);
    store.deleteValue(`owned/${one.name}`);
    forgetKept(store, one.name);
    removed.push(one.name);
  };
  let failed: { readonly error: unknown } | null = null;
  for (const one of due)
    try {
      await remove(one);
    } catch (error) {
      // One that cannot go keeps no other from going.
      failed ??= { error };
    }
  if (failed !== null) throw failed.error;
  return removed;
}

export async function containersOf(bench: Workbench, project: string) {
  return projectContainers(await bench.look.fresh('known'), project);
}
