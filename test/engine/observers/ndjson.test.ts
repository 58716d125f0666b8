import { describe, expect, test } from 'vitest';
import { ndjsonObserver } from '../../../src/engine/observers/ndjson.ts';
import { HandClock, planOf, step } from '../fixture.ts';

describe('NDJSON events', () => {
  test('begin with the version line, once, and are one JSON object a line', async () => {
    const lines: string[] = [];
    const clock = new HandClock();
    const events = ndjsonObserver({ write: (line) => lines.push(line), clock });
    const plan = planOf([
      step('up', [], {
        check: () => ({ satisfied: false, note: 'a\nb' }),
        execute: (ctx) => ctx.note('half\nway'),
        verify() {},
      }),
      step('down', [], { execute: () => Promise.reject(new TypeError('no')) }),
    ]).build(events);
    await plan.run({ clock, progress: events });
    expect(lines[0]).toBe('{"windlass":"plan-events","version":1}');
    expect(lines.every((line) => !line.includes('\n'))).toBe(true);
    const error = { name: 'TypeError', message: 'no' };
    const cell = { at: 0, phase: 'only', target: 'a', slot: 0 };
    expect(lines.slice(1).map((line) => JSON.parse(line))).toEqual([
      { event: 'planning', at: 0, phase: 'only', step: 'up' },
      { event: 'planning', at: 0, phase: 'only', step: 'down' },
      {
        event: 'run-start',
        at: 0,
        operation: 'test',
        phases: [{ name: 'only', targets: 1, steps: 2, concurrency: 4 }],
      },
      { event: 'phase-start', at: 0, index: 0, total: 1, phase: 'only' },
      { event: 'target-start', ...cell },
      { event: 'step-start', ...cell, step: 'up' },
      { event: 'note', ...cell, step: 'up', line: 'half\nway' },
      { event: 'step-end', ...cell, step: 'up', outcome: 'done', executed: true, elapsedMs: 0, note: 'a\nb' },
      { event: 'step-start', ...cell, step: 'down' },
      { event: 'step-end', ...cell, step: 'down', outcome: 'failed', executed: true, elapsedMs: 0, error },
      { event: 'target-end', ...cell, error },
      { event: 'phase-end', at: 0, index: 0, total: 1, phase: 'only', error },
      { event: 'run-end', at: 0, ok: false, error },
    ]);
  });
});
