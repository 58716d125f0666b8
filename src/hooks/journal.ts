// Journal: the runs of hooks in the state store, whose named values are on disk when their write returns.
import type { HookState } from '../core/hook/run-state.ts';
import type { HookJournal, KeptLog, RanOnce } from '../ports/hooks.ts';
import type { Store } from '../ports/store.ts';

const RUN = 'hook-run/';
const ONCE = 'hook-once/';
const LOG = 'hook-log/';

const placeOf = (stack: string, phase: string): string => `${LOG}${stack}/${phase}/`;

export function storeJournal(store: Pick<Store, 'value' | 'putValue' | 'deleteValue' | 'values'>): HookJournal {
  return {
    load: (key) => (store.value(RUN + key) as HookState | undefined) ?? null,
    save: (key, state) => store.putValue(RUN + key, state),
    clear: (key) => store.deleteValue(RUN + key),
    all: () => [...store.values(RUN).values()] as HookState[],
    ranOnce: (key) => (store.value(ONCE + key) as RanOnce | undefined) ?? null,
    saveRanOnce(key, ran) {
      store.putValue(ONCE + key, ran);
      // The key ends in the digest of the action: earlier wordings of it are of no use any more.
      const place = ONCE + key.slice(0, key.lastIndexOf('/') + 1);
      for (const other of store.values(place).keys())
        if (other !== ONCE + key && other.lastIndexOf('/') === place.length - 1) store.deleteValue(other);
    },
    saveLog: (run, log) => store.putValue(placeOf(run.stack, run.phase) + log.id, log),
    clearLogs(run) {
      for (const key of store.values(placeOf(run.stack, run.phase)).keys()) store.deleteValue(key);
    },
    logs: (stack, phase) =>
      ([...store.values(placeOf(stack, phase)).values()] as KeptLog[]).sort((left, right) =>
        left.id.localeCompare(right.id, 'en', { numeric: true }),
      ),
  };
}
