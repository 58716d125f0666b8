import { stripVTControlCharacters } from 'node:util';
import { describe, expect, test } from 'vitest';
import { columnsOf } from '../../../src/engine/display.ts';
import { liveObserver } from '../../../src/engine/observers/live.ts';
import { gate, HandClock, planOf, settle, step } from '../fixture.ts';

/** A terminal that understands just what the observer writes: cursor up, clear to the end, cursor on and off. */
class Screen {
  columns = 40;
  rows = 24;
  lines: string[] = [''];
  cursor = true;
  widest = 0;
  #at = 0;

  write(text: string) {
    for (const part of text.match(/\x1b\[[?\d]*[a-zA-Z]|\n|\r|[^\x1b\n\r]+/g) ?? []) {
      const up = /^\x1b\[(\d+)A$/.exec(part);
      if (up) this.#at -= Number(up[1]);
      else if (part === '\x1b[J') this.lines = [...this.lines.slice(0, this.#at), ''];
      else if (part === '\x1b[?25l') this.cursor = false;
      else if (part === '\x1b[?25h') this.cursor = true;
      else if (part === '\n') this.lines[++this.#at] ??= '';
      else if (part !== '\r') this.lines[this.#at] += stripVTControlCharacters(part);
      if (this.#at < 0) throw new Error('above the top');
      this.widest = Math.max(this.widest, columnsOf(this.lines[this.#at] ?? ''));
    }
  }

  get shown() {
    return this.lines.filter((line) => line !== '');
  }
}

const setUp = (ids: string[], concurrency: number) => {
  const clock = new HandClock();
  const screen = new Screen();
  const observer = liveObserver({ stream: screen, clock });
  const work = new Map(ids.map((id) => [id, gate()]));
  const plan = planOf(
    [
      step('up', [], {
        execute(ctx, target) {
          if (target.id === 'noisy') ctx.note('layer \x1b[2J 1/3 '.repeat(20));
          return work.get(target.id)?.promise;
        },
      }),
    ],
    ids,
    concurrency,
  ).build();
  return { clock, screen, observer, work, plan };
};

describe('live rows', () => {
  test('show one row per worker slot with its elapsed time, drawn over in place', async () => {
    const { clock, screen, observer, work, plan } = setUp(['a', 'b', 'c'], 2);
    const running = plan.execute({ clock, progress: observer });
    await clock.advance(1_500);
    expect(screen.shown).toEqual(['[1/1] only  0/3', '  a  up  1.5 s', '  b  up  1.5 s']);
    work.get('b')?.resolve();
    await clock.advance(1_000);
    expect(screen.shown).toEqual(['✓ b  1.5 s', '[1/1] only  1/3', '  a  up  2.5 s', '  c  up  1.0 s']);
    work.get('c')?.resolve();
    await clock.advance(100);
    expect(screen.shown.slice(-2)).toEqual(['  a  up  2.6 s', '  ·']);
    work.get('a')?.resolve();
    await running;
    expect(screen.shown).toEqual(['✓ b  1.5 s', '✓ c  1.0 s', '✓ a  2.6 s', '✓ only  3/3']);
    expect(clock.waiting).toBe(0);
  });

  test('hide the cursor while they run and give it back at the end', async () => {
    const { clock, screen, observer, work, plan } = setUp(['a'], 1);
    const listeners = process.listenerCount('exit');
    const running = plan.execute({ clock, progress: observer });
    await settle();
    expect(screen.cursor).toBe(false);
    expect(process.listenerCount('exit')).toBe(listeners + 1);
    work.get('a')?.resolve();
    await running;
    expect(screen.cursor).toBe(true);
    expect(process.listenerCount('exit')).toBe(listeners);
  });

  test('give the cursor back on abort, and leave what failed on the screen', async () => {
    const { clock, screen, observer, work, plan } = setUp(['a', 'b'], 1);
    const abort = new AbortController();
    const running = plan.run({ clock, progress: observer, signal: abort.signal });
    await settle();
    abort.abort();
    work.get('a')?.reject(new Error('killed'));
    await running;
    expect(screen.cursor).toBe(true);
    expect(screen.shown.slice(0, 2)).toEqual(['✗ a  up: killed', '✗ only  1/2: killed']);
    expect(screen.shown.at(-1)).toMatch(/^✗ cancelled: 0 cells finished/);
  });

  test('give the cursor back when asked in the middle', async () => {
    const { clock, screen, observer, work, plan } = setUp(['a'], 1);
    const running = plan.execute({ clock, progress: observer });
    await settle();
    observer.restore();
    expect(screen.cursor).toBe(true);
    work.get('a')?.resolve();
    await running;
  });

  test.each([1, 8, 20, 80])('are never wider than a terminal of %i columns', async (columns) => {
    const { clock, screen, observer, work, plan } = setUp(['noisy', '日本語日本語日本語日本語'], 2);
    screen.columns = columns;
    const running = plan.run({ clock, progress: observer });
    await clock.advance(300);
    work.get('noisy')?.reject(new Error('long '.repeat(50)));
    for (const one of work.values()) one.resolve();
    await running;
    expect(screen.widest).toBeLessThanOrEqual(Math.max(1, columns - 1));
  });

  test.each([1, 5, 24])('fit on a terminal of %i lines', async (rows) => {
    const ids = Array.from({ length: 50 }, (_, at) => `t${at}`);
    const { clock, screen, observer, work, plan } = setUp(ids, 50);
    screen.rows = rows;
    const running = plan.execute({ clock, progress: observer });
    await clock.advance(200);
    expect(screen.shown.length).toBeLessThanOrEqual(Math.max(2, rows - 2));
    expect(screen.shown.at(-1)).toMatch(/^ {2}… and \d+ more rows$/);
    for (const one of work.values()) one.resolve();
    await running;
  });
});
