// Replication: copies archives to the replicas, beside all other work. A replica that fails is tried again, with growing pauses of its own; no
// backup waits for it and none fails with it.
import { asFault } from '../core/fault.ts';
import { lacksAny, replicaStatuses, replicateOnRecord } from '../operations/archive/replicate.ts';
import type { House } from '../operations/house.ts';

/** How often it is looked whether a replica lacks an archive. */
export const REPLICA_LOOK_MS = 30_000;
/** So often each replica is asked what it really has. */
const WHOLE_LOOK_MS = 6 * 3600_000;

export interface ReplicationOptions {
  readonly house: House;
  readonly say: (level: 'info' | 'error', reason: string, message: string) => void;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}

export class Replication {
  readonly #options: ReplicationOptions;

  constructor(options: ReplicationOptions) {
    this.#options = options;
  }

  /** Never throws. */
  async look(): Promise<void> {
    const { house, log, signal } = this.#options;
    const replicas = house.archives?.replicas ?? [];
    if (!house.archives || replicas.length === 0 || signal.aborted) return;
    try {
      const listed = await house.archives.store.list();
      const nowMs = house.clock.nowMs();
      for (const status of replicaStatuses(house)) {
        const replica = replicas.find((one) => one.name === status.name);
        const isDue =
          status.failing === null
            ? lacksAny(status, listed) || nowMs - (status.lastMs ?? 0) > WHOLE_LOOK_MS
            : status.failing.nextMs <= nowMs;
        if (replica && isDue && !signal.aborted) await this.#run(replica);
      }
    } catch (error) {
      if (!signal.aborted)
        log(`error replicas: ${house.redact(asFault(error, 'ARCHIVE_FAILED').message)}; tried again later`);
    }
  }

  async #run(replica: Parameters<typeof replicateOnRecord>[1]): Promise<void> {
    const { house, say, log, signal } = this.#options;
    const { done, fault, isNews } = await replicateOnRecord(house, replica, { signal, note: log });
    if (fault === null) {
      const count = done?.archives.length ?? 0;
      const message = `replica ${replica.name} holds every archive${count > 0 ? `; ${count} were copied` : ''}`;
      if (isNews) say('info', 'Replicated', message);
      else if (count > 0) log(message);
      return;
    }
    if (signal.aborted || fault.code === 'CANCELLED') return;
    const message = `replica ${replica.name}: ${house.redact(fault.message)}`;
    if (isNews) say('error', 'ReplicationFailed', message);
    else log(`error ReplicationFailed: ${message}`);
  }
}
