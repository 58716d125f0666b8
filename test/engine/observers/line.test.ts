import { describe, expect, test } from 'vitest';
import { lineObserver } from '../../../src/engine/observers/line.ts';
import { gate, HandClock, planOf, step } from '../fixture.ts';

describe('the line log', () => {
  test('writes one plain line per ended cell', async () => {
    const lines: string[] = [];
    const plan = planOf([
      step('look', [], { applicable: () => false }),
      step('same', [], { check: () => ({ satisfied: true, note: 'up to date' }) }),
      step('up', [], { execute: (ctx) => ctx.note('pulling\n1/2') }),
      step('down', [], { execute: () => Promise.reject(new Error('no\nway')) }),
    ]).build();
    const clock = new HandClock();
    await plan.run({ clock, progress: lineObserver({ write: (line) => lines.push(line), clock }) });
    expect(lines).toEqual([
      '[only] a look: not applicable (0.0 s)',
      '[only] a same: satisfied (0.0 s): up to date',
      '[only] a up: pulling 1/2',
      '[only] a up: done (0.0 s)',
      '[only] a down: failed (0.0 s): no way',
      'failed: no way',
    ]);
    expect(clock.waiting).toBe(0);
  });

  test('calls a run that was stopped cancelled, not failed', async () => {
    const lines: string[] = [];
    const stop = new AbortController();
    const clock = new HandClock();
    const plan = planOf([step('up', [], { execute: () => stop.abort() }), step('later', [])]).build();
    const progress = lineObserver({ write: (line) => lines.push(line), clock });
    await expect(plan.run({ clock, stop: stop.signal, progress })).resolves.toHaveProperty('error');
    expect(lines.at(-1)).toBe('cancelled: 1 cells finished, 0 failed, 1 not done');
  });

  test('names every 10 s what is running and for how long, and is silent after the run', async () => {
    const lines: string[] = [];
    const clock = new HandClock();
    const work = { a: gate(), b: gate() };
    const running = planOf([step('up', [], { execute: (_ctx, { id }) => work[id as 'a' | 'b'].promise })], ['a', 'b'])
      .build()
      .execute({ clock, progress: lineObserver({ write: (line) => lines.push(line), clock }) });
    await clock.advance(10_000);
    expect(lines).toEqual(['[only] still running: a up (10 s), b up (10 s)']);
    work.a.resolve();
    await clock.advance(15_000);
    expect(lines.slice(1)).toEqual(['[only] a up: done (10 s)', '[only] still running: b up (20 s)']);
    work.b.resolve();
    await running;
    await clock.advance(60_000);
    expect(lines.slice(3)).toEqual(['[only] b up: done (25 s)', 'done']);
    expect(clock.waiting).toBe(0);
  });
});
