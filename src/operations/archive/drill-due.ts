// Drill due: which stacks their schedules ask to be rehearsed now, and how their drills stand. Decides from what is on record; drills nothing.
import type { Fault } from '../../core/fault.ts';
import { backoffMs, DISTURBING } from '../../core/status/backoff.ts';
import { isDue, nextRunMs } from '../../core/status/schedule.ts';
import type { FleetAt } from '../fleet-at.ts';
import type { House } from '../house.ts';
import type { Workbench } from '../workbench.ts';
import { backupSettingsOf } from './archives.ts';
import { lastBackupKey } from './backup.ts';
import { type LastDrill, lastDrill, lastVerifiedKey } from './drill-record.ts';

export interface DrillStatus {
  /** Cron expression in UTC; null = no controller has seen one. */
  readonly schedule: string | null;
  readonly nextMs: number | null;
  readonly last: LastDrill | null;
  /** Of the last one that ended well. */
  readonly verified: { readonly archive: string; readonly atMs: number } | null;
}

/** As a controller last saw it. */
interface SeenSchedule {
  readonly schedule: string;
  /** Nothing is made up for the time before. */
  readonly sinceMs: number;
  readonly failures: number;
  /** Not before. */
  readonly nextMs: number;
}

const scheduleKey = (stack: string): string => `drill-schedule/${stack}`;
const seenOf = ({ store }: House, stack: string): SeenSchedule | null =>
  (store.value(scheduleKey(stack)) as SeenSchedule | undefined) ?? null;

/** Never done, it is due at the first time after its schedule was first seen; never while there is no archive. */
export function isDrillDue({ house }: Workbench, at: FleetAt, name: string): boolean {
  const { store, clock } = house;
  const declared = at.fleet.stacks.get(name);
  // One that cannot be read now is not judged: a rehearsal can wait.
  if (!declared) return false;
  const schedule = backupSettingsOf(declared).drill?.schedule;
  let seen = seenOf(house, name);
  if (schedule === undefined) {
    if (seen) store.deleteValue(scheduleKey(name));
    return false;
  }
  const nowMs = clock.nowMs();
  if (seen?.schedule !== schedule) {
    seen = { schedule, sinceMs: seen?.sinceMs ?? nowMs, failures: 0, nextMs: 0 };
    store.putValue(scheduleKey(name), seen);
  }
  if (store.value(lastBackupKey(name)) === undefined) return false;
  const last = lastDrill(store, name);
  const sinceMs = last?.outcome === 'verified' ? last.atMs : seen.failures > 0 ? 0 : (last?.atMs ?? seen.sinceMs);
  return isDue(schedule, Math.max(sinceMs, seen.sinceMs), nowMs) && seen.nextMs <= nowMs;
}

export function drillEnded({ house }: Workbench, name: string, fault: Fault | null): void {
  const { store, clock } = house;
  const seen = seenOf(house, name);
  if (!seen) return;
  const failures = fault === null ? 0 : seen.failures + 1;
  const nextMs = fault === null ? 0 : clock.nowMs() + backoffMs(failures, clock.random(), DISTURBING);
  store.putValue(scheduleKey(name), { ...seen, failures, nextMs });
}

/** For people, from what is on record. */
export function drillStatusOf({ house }: Workbench, name: string): DrillStatus | null {
  const { store, clock } = house;
  const last = lastDrill(store, name);
  const schedule = seenOf(house, name)?.schedule ?? null;
  if (last === null && schedule === null) return null;
  const verified = (store.value(lastVerifiedKey(name)) as DrillStatus['verified'] | undefined) ?? null;
  return { schedule, nextMs: schedule === null ? null : nextRunMs(schedule, clock.nowMs()), last, verified };
}
