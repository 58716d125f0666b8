// Uninstall: takes a stack's containers and networks away. Volumes stay and are listed as orphaned; files that others wrote stay too.

import { projectContainers } from '../core/diff/diff.ts';
import { asFault } from '../core/fault.ts';
import type { Applied } from '../core/state/applied.ts';
import type { RunRecord } from '../core/status/event.ts';
import type { House } from './house.ts';
import { holdLeases } from './leases.ts';
import type { Look } from './look.ts';
import { treeDirOf } from './resolve.ts';

export interface Orphan {
  readonly volume: string;
  readonly stack: string;
  readonly sinceMs: number;
}

/** Throws a Fault; a second call after a crash finishes what is left. */
export async function uninstall(
  house: House,
  look: Look,
  applied: Applied,
  trigger: string,
  signal: AbortSignal,
): Promise<RunRecord> {
  const { runtime, store, clock, files, settings } = house;
  const leases = holdLeases(house, [applied.stack]);
  const index = await look.fresh('known').catch((error) => {
    leases.release();
    throw error;
  });
  const record: RunRecord = {
    id: clock.id(),
    stack: applied.stack,
    operation: 'uninstall',
    trigger,
    revision: applied.revision,
    digest: applied.desired.digest,
    startedAtMs: clock.nowMs(),
    endedAtMs: 0,
    outcome: 'running',
    message: '',
    changes: projectContainers(index, applied.project).map((one) => `remove ${one.service} (${one.name})`),
  };
  try {
    store.putRun(record);
    for (const volume of index.observed.volumes)
      if (volume.project === applied.project)
        store.putValue(`orphaned/${volume.name}`, {
          volume: volume.name,
          stack: applied.stack,
          sinceMs: clock.nowMs(),
        } satisfies Orphan);
    await runtime.down(applied.project, signal);
    await files.materialize({
      directory: treeDirOf(settings.stateDir, applied.stack),
      files: [],
      before: store.written(applied.stack),
      read: () => Promise.reject(new Error('nothing is written by an uninstall')),
      signal,
    });
    const done: RunRecord = { ...record, endedAtMs: clock.nowMs(), outcome: 'succeeded' };
    store.forget(applied.stack);
    store.putRun(done);
    return done;
  } catch (error) {
    const fault = asFault(error, 'ENGINE_REFUSED');
    store.putRun({ ...record, endedAtMs: clock.nowMs(), outcome: 'failed', message: house.redact(fault.message) });
    throw fault;
  } finally {
    leases.release();
  }
}

export function orphans(house: Pick<House, 'store'>): readonly Orphan[] {
  return [...house.store.values('orphaned/').values()] as Orphan[];
}
