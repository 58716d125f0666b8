// Step: the stack's project folder holds the files of the revision.
import type { Step } from '../../engine/step.ts';
import type { FileToWrite } from '../../ports/files.ts';
import { filesInPlace, generationOf } from '../archive/generations.ts';
import { type DeployRun, type DeployTarget, judgedOf } from '../deploy-run.ts';
import { FILE_BYTES, filesToWrite, treeDirOf } from '../resolve.ts';
import { editedKey, type Judged } from '../survey.ts';

/** Files whose readers are only signalled keep their inode; everything else is replaced by rename. */
function filesOf(judged: Judged, treeDir: string): readonly FileToWrite[] {
  const inPlace = new Set(
    judged.resolved.desired.services.flatMap((service) =>
      service.mounts.filter((mount) => mount.onChange.kind === 'signal').map((mount) => mount.source),
    ),
  );
  return filesToWrite(judged.stack).map((file) =>
    inPlace.has(`${treeDir}/${file.path}`) ? { ...file, inPlace: true } : file,
  );
}

/** A file that was only intended before a crash ends in `?` and is written again. */
const isWritten = (line: string | undefined, entry: { readonly mode: string; readonly oid: string }): boolean =>
  line?.startsWith(`${entry.mode} ${entry.oid}`) === true && !line.endsWith('?');

export function materialize(run: DeployRun): Step<DeployTarget> {
  const { files, store, settings, source } = run.house;
  return {
    name: 'materialize',
    title: 'write the files of the revision',
    touches: 'runtime',
    deadlineMs: 10 * 60_000,
    applicable: () => true,
    async check(ctx, { payload }) {
      const judged = await judgedOf(run, ctx, payload.stack);
      const written = store.written(payload.stack);
      const wanted = filesInPlace(judged.stack.files, generationOf(store, payload.stack));
      const same =
        wanted.length === Object.keys(written).length && wanted.every((entry) => isWritten(written[entry.path], entry));
      const edited = judged.diff.changes.some((change) => change.cause === 'file-edited');
      // After an execute the folder was just written: what is edited again meanwhile is the next pass's.
      const there = await files.exists(judged.resolved.desired.projectDir);
      return { satisfied: same && there && (ctx.fresh || !edited) };
    },
    async execute(ctx, { payload }) {
      const judged = await judgedOf(run, ctx, payload.stack);
      // On record before the files are mended: the containers that saw the edit are still to be made anew, also after a crash.
      const edits = await run.bench.surveyor.edited(payload.stack, judged.resolved);
      if (edits.length > 0) store.putValue(editedKey(payload.stack), edits);
      const directory = treeDirOf(settings.stateDir, payload.stack);
      const before = store.written(payload.stack);
      const wanted = filesInPlace(filesOf(judged, directory), generationOf(store, payload.stack));
      // Listed before they are written: after a crash they are still known as ours.
      const intended = Object.fromEntries(
        wanted.filter((file) => !before[file.path]).map((file) => [file.path, `${file.mode} ${file.oid} ?`]),
      );
      store.putWritten(payload.stack, { ...before, ...intended });
      const written = await files.materialize({
        directory,
        files: wanted,
        before: store.written(payload.stack),
        read: (oid) => source.blob(oid, FILE_BYTES),
        signal: ctx.signal,
      });
      store.putWritten(payload.stack, written);
      await files.ensureFolder(judged.resolved.desired.projectDir);
    },
  };
}
