// Backup due: which stacks their schedules ask to be backed up now, and how their backups stand. Decides from what is on record; makes none.
import type { Fault } from '../../core/fault.ts';
import { backoffMs, DISTURBING } from '../../core/status/backoff.ts';
import { isDue, nextRunMs } from '../../core/status/schedule.ts';
import type { FleetAt } from '../fleet-at.ts';
import type { House } from '../house.ts';
import type { Workbench } from '../workbench.ts';
import { backupSettingsOf, readAtMs, verifiedAtMs } from './archives.ts';
import { type LastBackup, lastBackupKey } from './backup.ts';

/** Tries of a scheduled backup that failed, one after the other. */
export interface FailingBackup {
  readonly failures: number;
  readonly sinceMs: number;
  /** Not before. */
  readonly nextMs: number;
  readonly code: string;
  /** Redacted. */
  readonly message: string;
}

export interface BackupStatus {
  /** Cron expression in UTC; null = no controller has seen one. */
  readonly schedule: string | null;
  readonly nextMs: number | null;
  readonly last: (LastBackup & { readonly readAtMs: number | null; readonly verifiedAtMs: number | null }) | null;
  readonly failing: FailingBackup | null;
}

const failingKey = (stack: string): string => `backup-failing/${stack}`;
const scheduleKey = (stack: string): string => `backup-schedule/${stack}`;

/** As a controller last saw it. */
interface SeenSchedule {
  readonly schedule: string;
  /** Nothing is made up for the time before. */
  readonly sinceMs: number;
}

const lastOf = ({ store }: House, stack: string): LastBackup | null =>
  (store.value(lastBackupKey(stack)) as LastBackup | undefined) ?? null;
const seenOf = ({ store }: House, stack: string): SeenSchedule | null =>
  (store.value(scheduleKey(stack)) as SeenSchedule | undefined) ?? null;
const failingOf = ({ store }: House, stack: string): FailingBackup | null =>
  (store.value(failingKey(stack)) as FailingBackup | undefined) ?? null;

/** Null for a stack without a schedule, and for one that is not deployed. A stack that cannot be read now keeps the one that it was deployed with. */
async function scheduleOf(bench: Workbench, at: FleetAt, name: string): Promise<string | null> {
  const { store } = bench.house;
  const declared = at.fleet.stacks.get(name);
  if (declared) {
    const { schedule } = backupSettingsOf(declared);
    return schedule !== undefined && store.applied(name) ? schedule : null;
  }
  const applied = at.fleet.broken.has(name) ? store.applied(name) : null;
  if (!applied) return null;
  const before = await bench.reader.read(applied.revision).catch(() => null);
  const known = before?.fleet.stacks.get(name);
  return (known && backupSettingsOf(known).schedule) ?? null;
}

/** Is the stack to be backed up now? Never done, it is due at the first time after its schedule was first seen. */
export async function isBackupDue(bench: Workbench, at: FleetAt, name: string): Promise<boolean> {
  const { house } = bench;
  const { store, clock } = house;
  const schedule = await scheduleOf(bench, at, name);
  let seen = seenOf(house, name);
  if (schedule === null) {
    if (seen) store.deleteValue(scheduleKey(name));
    return false;
  }
  const nowMs = clock.nowMs();
  if (seen?.schedule !== schedule) {
    seen = { schedule, sinceMs: seen?.sinceMs ?? nowMs };
    store.putValue(scheduleKey(name), seen);
  }
  const sinceMs = lastOf(house, name)?.atMs ?? seen.sinceMs;
  return isDue(schedule, sinceMs, nowMs) && (failingOf(house, name)?.nextMs ?? 0) <= nowMs;
}

/** Returns whether people must be told: the first time, and when it fails otherwise than before. */
export function backupFailed({ house }: Workbench, name: string, fault: Fault): boolean {
  const { clock, store, redact } = house;
  const before = failingOf(house, name);
  const failures = (before?.failures ?? 0) + 1;
  const nowMs = clock.nowMs();
  const failing: FailingBackup = {
    failures,
    sinceMs: before?.sinceMs ?? nowMs,
    nextMs: nowMs + backoffMs(failures, clock.random(), DISTURBING),
    code: fault.code,
    message: redact(fault.message),
  };
  store.putValue(failingKey(name), failing);
  return before?.code !== fault.code;
}

export const backupSucceeded = ({ house: { store } }: Workbench, name: string): void =>
  store.deleteValue(failingKey(name));

/** For people, from what is on record: nothing is fetched and nobody is asked. */
export function backupStatusOf({ house }: Workbench, name: string): BackupStatus | null {
  const last = lastOf(house, name);
  const failing = failingOf(house, name);
  const schedule = seenOf(house, name)?.schedule ?? null;
  if (last === null && failing === null && schedule === null) return null;
  return {
    schedule,
    nextMs: schedule === null ? null : nextRunMs(schedule, house.clock.nowMs()),
    last: last && {
      ...last,
      readAtMs: readAtMs(house, last.archive),
      verifiedAtMs: verifiedAtMs(house, last.archive),
    },
    failing,
  };
}
