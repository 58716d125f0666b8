// Put back: a deploy that failed before it touched a container leaves the project folder as that container knows it. A mounted file is seen
// at once, also by who was never made anew.
import { asFault } from '../core/fault.ts';
import type { DeployRun } from './deploy-run.ts';
import { areWritten, writeFilesBack } from './steps/materialize.ts';
import type { Judged } from './survey.ts';

/** Files in the way that one event names. */
const MOST_TOLD = 5;

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
  const { commit } = judged.at.revision;
  const applied = store.applied(name);
  // Once converge has begun, some containers may be of the new revision.
  if (!applied || store.attempt(name)?.touched) return;
  const [failed, runs] = [`${commit.slice(0, 7)}, which failed`, `${applied.revision.slice(0, 7)}, which runs`];
  const tell = (what: string): void => {
    store.appendEvent({
      atMs: clock.nowMs(),
      stack: name,
      level: 'warning',
      reason: 'FilesAhead',
      message: redact(what),
      revision: commit,
    });
  };
  try {
    const at = await bench.reader.read(applied.revision);
    const stack = at.fleet.stacks.get(name);
    if (stack && areWritten(store, stack)) return;
    const before = await bench.surveyor.one(name, at, judged.index);
    if (before.kind !== 'judged') throw before.kind === 'refused' ? before.fault : new Error(`it is broken there`);
    const left = await writeFilesBack(run, before);
    if (left.length === 0) return;
    const more = left.length > MOST_TOLD ? [`and ${left.length - MOST_TOLD} more`] : [];
    tell(
      `some of its files could not be put back to ${runs}, from ${failed}: ${[...left.slice(0, MOST_TOLD), ...more].join('; ')}`,
    );
  } catch (error) {
    tell(`its files are those of ${failed}, and not of ${runs}: ${asFault(error, 'FILES_FAILED').message}`);
  }
}
