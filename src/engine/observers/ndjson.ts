// NDJSON for machines: a first line that names the format and its version, then one JSON object per event.
import { type Clock, systemClock } from '../clock.ts';
import type { Observer } from '../observer.ts';

export const NDJSON_HEADER = { windlass: 'plan-events', version: 1 } as const;

export interface NdjsonOptions {
  /** Gets each line without its line end. */
  readonly write: (line: string) => void;
  readonly clock?: Clock;
}

export function ndjsonObserver({ write, clock = systemClock }: NdjsonOptions): Required<Observer> {
  let begun = false;
  const emit = (event: string, fields: object) => {
    if (!begun) write(JSON.stringify(NDJSON_HEADER));
    begun = true;
    write(JSON.stringify({ event, at: clock.now(), ...fields }));
  };
  const failed = (error: Error | undefined) => (error ? { error: { name: error.name, message: error.message } } : {});
  return {
    onPlanning: (phase, step) => emit('planning', { phase, step }),
    onRunStart: (operation, phases) => emit('run-start', { operation, phases }),
    onPhaseStart: (index, total, phase) => emit('phase-start', { index, total, phase }),
    onTargetStart: (phase, target, slot) => emit('target-start', { phase, target, slot }),
    onStepStart: (phase, target, step, slot) => emit('step-start', { phase, target, step, slot }),
    onNote: (phase, target, step, slot, line) => emit('note', { phase, target, step, slot, line }),
    onStepEnd: (phase, target, step, slot, outcome, { executed, elapsedMs, note, detail, error }) =>
      emit('step-end', { phase, target, step, slot, outcome, executed, elapsedMs, note, detail, ...failed(error) }),
    onTargetEnd: (phase, target, slot, error) => emit('target-end', { phase, target, slot, ...failed(error) }),
    onPhaseEnd: (index, total, phase, error) => emit('phase-end', { index, total, phase, ...failed(error) }),
    onRunEnd: (error) => emit('run-end', { ok: error === undefined, ...failed(error) }),
  };
}
