// Line log for output that is not a terminal: one plain line per ended cell and per note, and a heartbeat that names what runs.
import { type Clock, every, systemClock, type Timer } from '../clock.ts';
import { duration, oneLine } from '../display.ts';
import { CancelledError } from '../fan-out.ts';
import type { Observer } from '../observer.ts';

export interface LineOptions {
  /** Gets each line without its line end. */
  readonly write: (line: string) => void;
  readonly clock?: Clock;
  /** Default 10 s. */
  readonly heartbeatMs?: number;
}

export function lineObserver({ write, clock = systemClock, heartbeatMs = 10_000 }: LineOptions): Observer {
  const running = new Map<number, { readonly what: string; readonly since: number }>(); // by slot
  let heartbeat: Timer | undefined;
  let phase = '';
  const say = (text: string) => write(oneLine(text));
  return {
    onRunStart() {
      heartbeat?.cancel();
      heartbeat = every(clock, heartbeatMs, () => {
        if (running.size === 0) return;
        const rows = [...running.values()].map(({ what, since }) => `${what} (${duration(clock.now() - since)})`);
        say(`[${phase}] still running: ${rows.join(', ')}`);
      });
    },
    onPhaseStart(_index, _total, name) {
      phase = name;
    },
    onStepStart(_phase, targetId, step, slot) {
      running.set(slot, { what: `${targetId} ${step}`, since: clock.now() });
    },
    onNote(name, targetId, step, _slot, line) {
      say(`[${name}] ${targetId} ${step}: ${line}`);
    },
    onStepEnd(name, targetId, step, slot, outcome, { error, note, elapsedMs }) {
      running.delete(slot);
      const words = outcome === 'skipped' ? 'not applicable' : outcome;
      const why = error?.message ?? note;
      say(`[${name}] ${targetId} ${step}: ${words} (${duration(elapsedMs)})${why ? `: ${why}` : ''}`);
    },
    onRunEnd(error) {
      heartbeat?.cancel();
      running.clear();
      // Who was stopped did not fail; its message says so by itself.
      const ended = error instanceof CancelledError ? error.message : `failed: ${error?.message}`;
      say(error ? ended : 'done');
    },
  };
}
