// Uninstall: takes a stack's containers and networks away. Volumes stay and are listed as orphaned; files that others wrote stay too.
// It works from what is on record. Only hooks need the commit that the stack was deployed from: where that is lost, this is said.
import { projectContainers } from '../core/diff/diff.ts';
import { asFault } from '../core/fault.ts';
import type { Applied } from '../core/state/applied.ts';
import type { HookRecord, RunRecord } from '../core/status/event.ts';
import { forgetInstalling } from './gone.ts';
import { deployedOrLost } from './hook-subject.ts';
import type { House } from './house.ts';
import { holdLeases } from './leases.ts';
import { treeDirOf } from './resolve.ts';
import { cutOf, takeUpHooks, uninstallPhases, withHooks } from './steps/run-hook.ts';
import type { Workbench } from './workbench.ts';

export interface Orphan {
  readonly volume: string;
  readonly stack: string;
  readonly sinceMs: number;
}

/** Throws a Fault; a second call after a crash finishes what is left. */
export async function uninstall(
  bench: Workbench,
  applied: Applied,
  trigger: string,
  signal: AbortSignal,
): Promise<RunRecord> {
  const { house, look } = bench;
  const { runtime, store, clock, files, settings } = house;
  const leases = holdLeases(house, [applied.stack], undefined, { first: true });
  const index = await look.fresh('known').catch((error) => {
    leases.release();
    throw error;
  });
  const hooks: HookRecord[] = [];
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
    const taken = await takeUpHooks(bench, [applied.stack], { signal });
    const cut = taken.map((one) => cutOf(one, applied.desired.digest, 'uninstall')).find(Boolean);
    if (cut) throw cut;
    const completed = uninstallPhases(store, applied.stack);
    const subject = applied.hooks ? await deployedOrLost(bench, applied, signal) : null;
    const message = subject !== null && 'lost' in subject ? withoutHooks(subject.lost) : '';
    if (subject !== null && !('lost' in subject)) {
      const ended = (hook: HookRecord): void => {
        hooks.push(hook);
        store.putRun({ ...record, hooks });
      };
      const options = { signal, attempt: record.startedAtMs, ended, completed };
      await withHooks(bench, subject, 'uninstall', options, takeAway);
    } else await takeAway();
    completed.clear();
    if (message !== '') tell('HooksLost', message);
    const done: RunRecord = { ...record, hooks, endedAtMs: clock.nowMs(), outcome: 'succeeded', message };
    store.forget(applied.stack);
    forgetInstalling(store, applied.stack);
    store.putRun(done);
    return done;
  } catch (error) {
    const fault = asFault(error, 'ENGINE_REFUSED');
    const message = house.redact(fault.message);
    store.putRun({ ...record, hooks, endedAtMs: clock.nowMs(), outcome: 'failed', message });
    throw fault;
  } finally {
    leases.release();
  }

  function tell(reason: string, message: string): void {
    const { stack, revision } = applied;
    store.appendEvent({ atMs: clock.nowMs(), stack, level: 'warning', reason, message, revision });
  }

  async function takeAway(): Promise<void> {
    // After the hooks: a job may have made a volume.
    const { observed } = await look.fresh('known');
    for (const volume of observed.volumes)
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
  }
}

export const withoutHooks = (lost: string): string => `its hooks cannot run: ${lost}`;

export function orphans(house: Pick<House, 'store'>): readonly Orphan[] {
  return [...house.store.values('orphaned/').values()] as Orphan[];
}
