// Live rows for a terminal: one row per worker slot with its elapsed time, redrawn in place; what changed or failed stays above them.
// The cursor is given back at the end of the run, on abort, and when the process exits in between.
import { type Clock, every, systemClock, type Timer } from '../clock.ts';
import { cut, duration, oneLine, paint } from '../display.ts';
import type { Observer, PhaseOutline } from '../observer.ts';

export interface LiveOptions {
  readonly stream: { write(text: string): unknown; readonly columns?: number; readonly rows?: number };
  readonly clock?: Clock;
  /** How often the rows are redrawn; default 100 ms. */
  readonly redrawMs?: number;
}

interface Row {
  readonly targetId: string;
  step: string;
  note: string;
  readonly since: number;
  changed: boolean;
}

export function liveObserver({ stream, clock = systemClock, redrawMs = 100 }: LiveOptions): Observer & {
  /** Gives the cursor back; safe to call at any time. */
  restore(): void;
} {
  const rows = new Map<number, Row>();
  let outlines: readonly PhaseOutline[] = [];
  let phase: { readonly title: string; readonly targets: number; readonly slots: number } | undefined;
  let ended = 0;
  let kept: string[] = []; // lines to leave above the rows
  let drawn = 0; // lines below them, to be drawn over
  let ticking: Timer | undefined;
  let hidden = false;

  const width = () => Math.max(1, (stream.columns ?? 80) - 1); // a full last column would wrap
  const draw = () => {
    const height = Math.max(1, (stream.rows ?? 24) - 2);
    const lines: string[] = [];
    if (phase) {
      lines.push(`${phase.title}  ${ended}/${phase.targets}`);
      const shown = phase.slots < height ? phase.slots : Math.max(0, height - 2);
      for (let slot = 0; slot < shown; slot++) lines.push(`  ${words(rows.get(slot))}`);
      if (shown < phase.slots) lines.push(`  … and ${phase.slots - shown} more rows`);
    }
    const up = drawn > 0 ? `\x1b[${drawn}A` : '';
    stream.write(
      `${up}\r\x1b[J${[...kept, ...lines.map((line) => cut(line, width()))].map((line) => `${line}\n`).join('')}`,
    );
    kept = [];
    drawn = lines.length;
  };
  const words = (row: Row | undefined) =>
    row ? `${row.targetId}  ${row.step}  ${duration(clock.now() - row.since)}${row.note ? `  ${row.note}` : ''}` : '·';
  const keep = (mark: '✓' | '✗', text: string) => {
    const line = cut(`${mark} ${oneLine(text)}`, width());
    kept.push(paint(mark === '✓' ? 'green' : 'red', mark) + line.slice(mark.length));
  };
  const restore = () => {
    process.off('exit', restore);
    if (hidden) stream.write('\x1b[?25h');
    hidden = false;
  };

  return {
    restore,
    onRunStart(_operation, phases) {
      outlines = phases;
      hidden = true;
      process.once('exit', restore);
      stream.write('\x1b[?25l');
      ticking?.cancel();
      ticking = every(clock, redrawMs, draw);
    },
    onPhaseStart(index, total, name) {
      const outline = outlines[index];
      const targets = outline?.targets ?? 0;
      phase = {
        title: `[${index + 1}/${total}] ${oneLine(name)}`,
        targets,
        slots: Math.min(targets, outline?.concurrency ?? 0),
      };
      ended = 0;
      draw();
    },
    onTargetStart(_phase, targetId, slot) {
      rows.set(slot, { targetId: oneLine(targetId), step: '', note: '', since: clock.now(), changed: false });
    },
    onStepStart(_phase, _targetId, step, slot) {
      const row = rows.get(slot);
      if (row) Object.assign(row, { step: oneLine(step), note: '' });
    },
    onNote(_phase, _targetId, _step, slot, line) {
      const row = rows.get(slot);
      if (row) row.note = oneLine(line);
    },
    onStepEnd(_phase, targetId, step, slot, outcome, { executed, error }) {
      const row = rows.get(slot);
      if (row && executed) row.changed = true;
      if (outcome === 'failed') keep('✗', `${targetId}  ${step}: ${error?.message}`);
    },
    onTargetEnd(_phase, targetId, slot, error) {
      const row = rows.get(slot);
      if (row?.changed && !error) keep('✓', `${targetId}  ${duration(clock.now() - row.since)}`);
      rows.delete(slot);
      ended++;
    },
    onPhaseEnd(_index, _total, name, error) {
      keep(error ? '✗' : '✓', `${name}  ${ended}/${phase?.targets ?? ended}${error ? `: ${error.message}` : ''}`);
      phase = undefined;
      draw();
    },
    onRunEnd(error) {
      ticking?.cancel();
      phase = undefined;
      rows.clear();
      if (error) keep('✗', error.message);
      draw();
      restore();
    },
  };
}
