// Put back: a deploy that failed before it touched a container leaves the project folder as that container knows it. A mounted file is seen
// at once, also by who was never made anew.
import { asFault } from '../core/fault.ts';
import type { DeployRun } from './deploy-run.ts';
import { areWritten, writeFilesBack } from './steps/materialize.ts';
import type { Judged } from './survey.ts';

/** Writes the files of what is deployed again. What cannot be put back is told as an event; it throws nothing. */
export async function putFilesBack(run: DeployRun, name: string): Promise<void> {
  const judged = run.judged.get(name);
  if (!judged) return;
  try {
    await putBack(run, name, judged);
  } catch {
    // Not even an event could be written: the disk is full, and what the deploy failed with is what has to be told.
  }
}

async function putBack(run: DeployRun, name: string, judged: Judged): Promise<void> {
  const { bench, house } = run;
  const { store, clock, redact } = house;
  const applied = store.applied(name);
  // Once converge has begun, some containers may be of the new revision.
  if (!applied || store.attempt(name)?.touched) return;
  try {
    const at = await bench.reader.read(applied.revision);
    const stack = at.fleet.stacks.get(name);
    if (stack && areWritten(store, stack)) return;
    const before = await bench.surveyor.one(name, at, judged.index);
    if (before.kind !== 'judged') throw before.kind === 'refused' ? before.fault : new Error(`it is broken there`);
    await writeFilesBack(run, before);
  } catch (error) {
    store.appendEvent({
      atMs: clock.nowMs(),
      stack: name,
      level: 'warning',
      reason: 'FilesAhead',
      message: redact(
        `its files are those of ${judged.at.revision.commit.slice(0, 7)}, which failed, and not of ${applied.revision.slice(0, 7)}, which runs: ${asFault(error, 'FILES_FAILED').message}`,
      ),
      revision: judged.at.revision.commit,
    });
  }
}
