// Step: the stack's project folder holds the files of the revision.

import { join } from 'node:path';
import { Fault } from '../../core/fault.ts';
import type { Generation } from '../../core/render/variant.ts';
import type { LoadedStack } from '../../core/spec/loaded.ts';
import type { Step } from '../../engine/step.ts';
import type { FileToWrite } from '../../ports/files.ts';
import type { Source } from '../../ports/source.ts';
import type { Store } from '../../ports/store.ts';
import { filesInPlace, generationOf } from '../archive/generations.ts';
import { type DeployRun, type DeployTarget, judgedOf } from '../deploy-run.ts';
import { FILE_BYTES, filesToWrite, treeDirOf } from '../resolve.ts';
import { editedKey, type Judged } from '../survey.ts';

/**
 * Files whose readers are only signalled keep their inode; everything else is replaced by rename. What only services mount that are to take no
 * notice of changes is theirs once it is there.
 */
function filesOf(judged: Judged, treeDir: string, generation: Generation | null): readonly FileToWrite[] {
  const mounts = judged.resolved.desired.services.flatMap((service) => service.mounts);
  return filesInPlace(filesToWrite(judged.stack), generation).map((file) => {
    const path = `${treeDir}/${file.path}`;
    const over = mounts.filter(({ source }) => source === path || path.startsWith(`${source}/`));
    if (over.some((mount) => mount.source === path && mount.onChange.kind === 'signal'))
      return { ...file, inPlace: true };
    const isTheirs = over.length > 0 && over.every((mount) => mount.onChange.kind === 'ignore');
    return isTheirs ? { ...file, keepsEdits: true } : file;
  });
}

async function isInGit(source: Pick<Source, 'blob'>, oid: string): Promise<boolean> {
  try {
    await source.blob(oid, FILE_BYTES);
    return true;
  } catch (error) {
    if (error instanceof Fault && error.code === 'GIT_TOO_LARGE') return true;
    if (error instanceof Fault && error.code === 'GIT_OBJECT_MISSING') return false;
    throw error;
  }
}

/** A file that was only intended before a crash ends in `?` and is written again. */
const isWritten = (line: string | undefined, entry: { readonly mode: string; readonly oid: string }): boolean =>
  line?.startsWith(`${entry.mode} ${entry.oid}`) === true && !line.endsWith('?');

export function materialize(run: DeployRun): Step<DeployTarget> {
  const { files, store } = run.house;
  return {
    name: 'materialize',
    title: 'write the files of the revision',
    touches: 'runtime',
    deadlineMs: 10 * 60_000,
    applicable: () => true,
    async check(ctx, { payload }) {
      const judged = await judgedOf(run, ctx, payload.stack);
      const edited = judged.diff.changes.some((change) => change.cause === 'file-edited');
      // After an execute the folder was just written: what is edited again meanwhile is the next pass's.
      const there = await files.exists(judged.resolved.desired.projectDir);
      return { satisfied: areWritten(store, judged.stack) && there && (ctx.fresh || !edited) };
    },
    async execute(ctx, { payload }) {
      const judged = await judgedOf(run, ctx, payload.stack);
      await noteFound(run, judged);
      await writeFiles(run, judged, ctx.signal);
    },
  };
}

/** By what is on record alone. */
export function areWritten(store: Store, stack: LoadedStack): boolean {
  const written = store.written(stack.name);
  const wanted = filesInPlace(stack.files, generationOf(store, stack.name));
  return (
    wanted.length === Object.keys(written).length && wanted.every((entry) => isWritten(written[entry.path], entry))
  );
}

const foundKey = (stack: string): string => `found/${stack}`;

/** Which files of the revision lie there already, though it is not known that we wrote them: the record of what is written cannot tell later, and
 * were the service's the very same, they would be taken from it when the deploy fails and others are put back. */
async function noteFound(
  { house: { files, store, settings } }: Pick<DeployRun, 'house'>,
  judged: Judged,
): Promise<void> {
  const { name, stack } = judged;
  // Nothing is put back then.
  if (!store.applied(name)) return store.deleteValue(foundKey(name));
  const directory = treeDirOf(settings.stateDir, name);
  const written = store.written(name);
  const before = foundIn(store, name);
  const found: string[] = [];
  for (const { path } of filesInPlace(stack.files, generationOf(store, name))) {
    const isNew = !written[path] || written[path].endsWith('?');
    // What cannot be looked at may be there. What an earlier try found is on record as written since.
    if (isNew ? await files.exists(join(directory, path)).catch(() => true) : before.has(path)) found.push(path);
  }
  if (found.length > 0 || before.size > 0) store.putValue(foundKey(name), found);
}

const foundIn = (store: Store, stack: string): ReadonlySet<string> =>
  new Set((store.value(foundKey(stack)) as readonly string[] | undefined) ?? []);

/** The files of what is deployed, in place of those of a revision that failed; what was there before that one stays. Answers why some could not
 * be written, each by itself: what the service wrote meanwhile keeps none of the others. */
export async function writeFilesBack(
  run: Pick<DeployRun, 'house' | 'bench'>,
  judged: Judged,
): Promise<readonly string[]> {
  const { store } = run.house;
  const { name, stack } = judged;
  const wanted = new Set(filesInPlace(stack.files, generationOf(store, name)).map(({ path }) => path));
  const found = foundIn(store, name);
  const written = Object.entries(store.written(name)).filter(([path]) => wanted.has(path) || !found.has(path));
  store.putWritten(name, Object.fromEntries(written));
  const left: string[] = [];
  await writeFiles(run, judged, undefined, (_path, why) => left.push(why));
  store.deleteValue(foundKey(name));
  return left;
}

async function writeFiles(
  { house, bench }: Pick<DeployRun, 'house' | 'bench'>,
  judged: Judged,
  signal?: AbortSignal,
  left?: (path: string, why: string) => void,
): Promise<void> {
  const { files, store, settings, source } = house;
  const { name } = judged;
  // On record before the files are mended: the containers that saw the edit are still to be made anew, also after a crash.
  const edits = await bench.surveyor.edited(name, judged.resolved);
  if (edits.length > 0) store.putValue(editedKey(name), edits);
  const directory = treeDirOf(settings.stateDir, name);
  const before = store.written(name);
  const wanted = filesOf(judged, directory, generationOf(store, name));
  // Listed before they are written: what a crash leaves of them may be written over, but is never taken away by that alone.
  const intended = Object.fromEntries(
    wanted.filter((file) => !before[file.path]).map((file) => [file.path, `${file.mode} ${file.oid} ?`]),
  );
  store.putWritten(name, { ...before, ...intended });
  const written = await files.materialize({
    directory,
    files: wanted,
    before: store.written(name),
    read: (oid) => source.blob(oid, FILE_BYTES),
    isKnown: (oid) => isInGit(source, oid),
    cut: (placed) => store.putWritten(name, placed),
    ...(left ? { left } : {}),
    ...(signal ? { signal } : {}),
  });
  store.putWritten(name, written);
  await files.ensureFolder(judged.resolved.desired.projectDir);
}
