// Rollback: go back to the last deployed revision's render and remember which desired state was refused, so that the loop does not try
// it again until it changes.
import type { Fault } from '../core/fault.ts';
import type { Judged } from './survey.ts';
import { type Refused, refusedKey, type Workbench } from './workbench.ts';

/** False when there is nothing to go back to. */
export async function rollBack(bench: Workbench, judged: Judged, fault: Fault): Promise<boolean> {
  const { store, redact, clock } = bench.house;
  const { applied } = judged;
  if (!applied || applied.desired.digest === judged.resolved.desired.digest) return false;
  const instead = await bench.reader.read(applied.revision);
  if (!instead.fleet.stacks.has(judged.name)) return false;
  store.putValue(refusedKey(judged.name), {
    digest: judged.resolved.desired.digest,
    revision: judged.at.revision.commit,
    instead: applied.revision,
    reason: redact(fault.message),
  } satisfies Refused);
  store.appendEvent({
    atMs: clock.nowMs(),
    stack: judged.name,
    level: 'warning',
    reason: 'RolledBack',
    message: `${judged.at.revision.commit.slice(0, 7)} failed; going back to ${applied.revision.slice(0, 7)}`,
    revision: judged.at.revision.commit,
  });
  return true;
}
