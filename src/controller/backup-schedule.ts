// Backup schedule: makes the backups that are due, one at a time, and keeps to `keep` after each. A stack's backup runs inside its own pass, so
// that no deploy waits for a lease meanwhile; one that fails is tried again, with growing pauses of its own. Drills touch nothing that lives:
// they run beside the passes, one at a time.
import { asFault, type Fault } from '../core/fault.ts';
import { Archives } from '../operations/archive/archives.ts';
import { backup } from '../operations/archive/backup.ts';
import { backupFailed, backupSucceeded, isBackupDue } from '../operations/archive/backup-due.ts';
import { drill, sweepDrills } from '../operations/archive/drill.ts';
import { drillEnded, isDrillDue } from '../operations/archive/drill-due.ts';
import type { FleetAt } from '../operations/fleet-at.ts';
import type { Workbench } from '../operations/workbench.ts';

/** How often it is looked which stacks are due. */
export const BACKUP_LOOK_MS = 30_000;

export interface BackupScheduleOptions {
  readonly bench: Workbench;
  /** A pass of the stack is wanted. */
  readonly hint: (stack: string) => void;
  readonly say: (stack: string, level: 'info' | 'error', reason: string, message: string) => void;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

export class BackupSchedule {
  readonly #options: BackupScheduleOptions;
  #isWorking = false;

  constructor(options: BackupScheduleOptions) {
    this.#options = options;
  }

  /** Asks for a pass of each stack that is due. */
  async look(at: FleetAt | null): Promise<void> {
    const { bench, hint, signal } = this.#options;
    if (!at || this.#isWorking) return;
    for (const name of at.fleet.layers.flat().concat([...at.fleet.broken.keys()]))
      if (!signal.aborted && (await isBackupDue(bench, at, name))) hint(name);
  }

  /** Within the stack's pass: backs it up when it is due and no other stack is being backed up. Never throws. */
  async take(at: FleetAt, name: string): Promise<void> {
    const { bench, log, signal } = this.#options;
    if (signal.aborted || this.#isWorking) return;
    this.#isWorking = true;
    try {
      if (!(await isBackupDue(bench, at, name))) return;
      const note = (line: string): void => log(`${name}: ${line}`);
      const done = await backup(bench, name, { signal, note, trigger: 'schedule' });
      backupSucceeded(bench, name);
      log(`${name}: BackedUp: archive ${done.archive.slice(0, 12)}`);
      await this.#keep(at, name);
    } catch (error) {
      const fault = asFault(error, 'ARCHIVE_FAILED');
      // Whoever works on the stack now is waited for.
      if (signal.aborted || fault.code === 'CANCELLED' || fault.code === 'LOCK_HELD') return;
      this.#failed(name, fault);
    } finally {
      this.#isWorking = false;
    }
    await this.look(at);
  }

  #failed(name: string, fault: Fault): void {
    const { bench, log, say } = this.#options;
    const message = bench.house.redact(fault.message);
    if (backupFailed(bench, name, fault)) say(name, 'error', 'BackupFailed', message);
    else log(`error ${name}: BackupFailed: ${message}`);
  }

  /** An archive more than wanted is no failure of the backup. */
  async #keep(at: FleetAt, name: string): Promise<void> {
    const { bench, log } = this.#options;
    if (!at.fleet.stacks.has(name)) return;
    try {
      const gone = (await new Archives(bench.house).prune(at, name, true)).filter((one) => !one.isKept);
      for (const { id, why } of gone) log(`${name}: removed archive ${id.slice(0, 12)}: ${why.join(', ')}`);
    } catch (error) {
      const { message } = asFault(error, 'ARCHIVE_FAILED');
      log(`error ${name}: archives beyond \`keep\` could not be removed: ${bench.house.redact(message)}`);
    }
  }
}

export class DrillSchedule {
  readonly #options: Omit<BackupScheduleOptions, 'hint'>;

  constructor(options: Omit<BackupScheduleOptions, 'hint'>) {
    this.#options = options;
  }

  /** Makes those that are due, one after the other. Never throws. */
  async look(at: FleetAt | null): Promise<void> {
    const { bench, log, signal } = this.#options;
    if (!at || !bench.house.archives || !bench.house.payloads) return;
    await this.sweep();
    try {
      for (const name of at.fleet.layers.flat())
        if (!signal.aborted && isDrillDue(bench, at, name)) await this.#drill(name);
    } catch (error) {
      if (!signal.aborted) log(`error drills: ${bench.house.redact(asFault(error, 'ENGINE_REFUSED').message)}`);
    }
  }

  /** Takes away what a killed drill left. Never throws. */
  async sweep(): Promise<void> {
    const { bench, log, signal } = this.#options;
    try {
      for (const name of await sweepDrills(bench, signal)) log(`${name}: what an interrupted drill left is taken away`);
    } catch (error) {
      if (!signal.aborted) log(`error drills: ${bench.house.redact(asFault(error, 'ENGINE_REFUSED').message)}`);
    }
  }

  async #drill(name: string): Promise<void> {
    const { bench, log, signal } = this.#options;
    try {
      const done = await drill(bench, name, { signal, trigger: 'schedule', note: (line) => log(`${name}: ${line}`) });
      drillEnded(bench, name, null);
      log(`${name}: Drilled: archive ${done.archive.slice(0, 12)}: ${done.message}`);
    } catch (error) {
      const fault = asFault(error, 'RESTORE_FAILED');
      // Called off, or a person's is under way: it stays due.
      if (signal.aborted || fault.code === 'CANCELLED' || fault.code === 'LOCK_HELD') return;
      drillEnded(bench, name, fault);
      log(`error ${name}: DrillFailed: ${bench.house.redact(fault.message)}`);
    }
  }
}
