import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Keep, type Retained, retain } from '../../../src/core/archive/retention.ts';

const DAY = 86_400_000;
const NOW = Date.parse('2026-12-01T12:00:00Z');
const at = (time: string, change: Partial<Retained> = {}): Retained => ({
  id: time,
  madeAtMs: Date.parse(`${time.length > 10 ? time : `${time}T03:00`}:00Z`),
  purpose: 'backup',
  verifiedAtMs: null,
  ...change,
});
const kept = (archives: readonly Retained[], keep: Keep | null, pins: Record<string, string> = {}) =>
  retain({ archives, keep, pins: new Map(Object.entries(pins)), nowMs: NOW })
    .filter((one) => one.isKept)
    .map((one) => one.id);
const days = (count: number): Retained[] =>
  Array.from({ length: count }, (_, index) => at(new Date(NOW - index * DAY).toISOString().slice(0, 10)));

describe('retention', () => {
  it('keeps everything when nothing is said', () => {
    expect(kept(days(30), null)).toHaveLength(30);
  });

  it('keeps the last ones', () => {
    expect(kept(days(10), { last: 3 })).toEqual(['2026-12-01', '2026-11-30', '2026-11-29']);
  });

  it('counts no damaged one, and takes none away', () => {
    const [newest, ...rest] = days(4);
    const archives = [{ ...newest!, isDamaged: true }, ...rest];
    expect(kept(archives, { last: 1 })).toEqual(['2026-12-01', '2026-11-30']);
    const why = retain({ archives, keep: { daily: 1 }, pins: new Map(), nowMs: NOW })[0]?.why;
    expect(why).toEqual([expect.stringMatching(/^DAMAGED/)]);
  });

  it('keeps the newest of each day', () => {
    const archives = [at('2026-11-30T01:00'), at('2026-11-30T23:00'), at('2026-11-29T05:00'), at('2026-11-28T05:00')];
    expect(kept(archives, { daily: 2 })).toEqual(['2026-11-30T23:00', '2026-11-29T05:00']);
  });

  it('keeps the newest of each week, from Monday to Sunday', () => {
    // 2026-11-30 is a Monday.
    const archives = [at('2026-11-30'), at('2026-11-29'), at('2026-11-23'), at('2026-11-22')];
    expect(kept(archives, { weekly: 3 })).toEqual(['2026-11-30', '2026-11-29', '2026-11-22']);
  });

  it('keeps the newest of each month, and skips months without any', () => {
    const archives = [at('2026-12-01'), at('2026-11-30'), at('2026-11-01'), at('2026-08-31')];
    expect(kept(archives, { monthly: 3 })).toEqual(['2026-12-01', '2026-11-30', '2026-08-31']);
  });

  it('keeps what any rule keeps', () => {
    expect(kept(days(60), { last: 2, daily: 3, weekly: 2, monthly: 2 })).toEqual([
      '2026-12-01',
      '2026-11-30',
      '2026-11-29',
    ]);
  });

  it('never collects what is pinned, the last verified one or the newest', () => {
    const archives = days(20).map((one, index) => ({ ...one, verifiedAtMs: index === 9 || index === 15 ? NOW : null }));
    const verdicts = retain({
      archives,
      keep: { last: 1 },
      pins: new Map([['2026-11-20', 'request 7']]),
      nowMs: NOW,
    });
    expect(verdicts.filter((one) => one.isKept).map((one) => [one.id, one.why])).toEqual([
      ['2026-12-01', ['one of the last 1', 'the newest']],
      ['2026-11-22', ['the last verified one']],
      ['2026-11-20', ['pinned by request 7']],
    ]);
    expect(verdicts.at(-1)?.why).toEqual(['beyond `keep`']);
  });

  it('neither counts a safety archive nor lets it go before its time', () => {
    const archives = [
      at('2026-12-01', { purpose: 'safety' }),
      at('2026-11-30'),
      at('2026-11-29'),
      at('2026-11-20', { purpose: 'safety' }),
      at('2026-11-19', { purpose: 'safety' }),
    ];
    expect(kept(archives, { last: 1 }, { '2026-11-19': 'request 8' })).toEqual([
      '2026-12-01',
      '2026-11-30',
      '2026-11-19',
    ]);
  });

  it('judges each archive once, and the same whatever their order', () => {
    const archive = fc.record({
      id: fc.uuid(),
      madeAtMs: fc.integer({ min: 0, max: NOW }),
      purpose: fc.constantFrom<'backup' | 'safety'>('backup', 'safety'),
      verifiedAtMs: fc.option(fc.integer({ min: 0, max: NOW })),
    });
    const count = fc.integer({ min: 0, max: 4 });
    const keeps = fc.record({ last: count, daily: count, weekly: count, monthly: count });
    fc.assert(
      fc.property(fc.uniqueArray(archive, { selector: (one) => one.id, maxLength: 30 }), keeps, (archives, keep) => {
        const judge = (list: readonly Retained[]) => retain({ archives: list, keep, pins: new Map(), nowMs: NOW });
        expect(judge(archives)).toEqual(judge([...archives].reverse()));
        expect(judge(archives)).toHaveLength(archives.length);
        const counted = archives.filter((one) => one.purpose === 'backup');
        const remaining = judge(archives).filter((one) => one.isKept);
        if (counted.length > 0) expect(remaining.length).toBeGreaterThan(0);
        expect(remaining.filter((one) => one.why.some((why) => why.startsWith('daily'))).length).toBeLessThanOrEqual(
          keep.daily,
        );
      }),
    );
  });

  it('once applied, collects nothing more', () => {
    const keep = { last: 2, daily: 5, weekly: 3, monthly: 2 };
    const archives = days(100);
    const first = new Set(kept(archives, keep));
    expect(
      kept(
        archives.filter((one) => first.has(one.id)),
        keep,
      ),
    ).toEqual([...first]);
  });
});
