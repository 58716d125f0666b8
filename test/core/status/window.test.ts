import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { inWindow, problemOfWindow, type Window } from '../../../src/core/status/window.ts';

const HOUR = 3_600_000;
const window = (allow: string, hours: number, timezone = 'Europe/Berlin'): Window => ({
  allow,
  durationMs: hours * HOUR,
  timezone,
});
const nightly = window('0 22 * * *', 4);

function ask(windows: readonly Window[], at: string): string {
  const { open, nextOpenMs } = inWindow(windows, Date.parse(at));
  if (open) return 'open';
  return nextOpenMs === null ? 'never' : new Date(nextOpenMs).toISOString().replace('.000Z', 'Z');
}

describe('a window', () => {
  it.each([
    ['is closed a millisecond before it opens', nightly, '2026-06-01T19:59:59.999Z', '2026-06-01T20:00:00Z'],
    ['is open from its first moment', nightly, '2026-06-01T20:00:00Z', 'open'],
    ['is open past midnight', nightly, '2026-06-01T23:59:59.999Z', 'open'],
    ['is closed from its last moment', nightly, '2026-06-02T00:00:00Z', '2026-06-02T20:00:00Z'],
    ['opens an hour later in UTC in winter', nightly, '2026-12-01T20:30:00Z', '2026-12-01T21:00:00Z'],
    ['lasts in real time when the clocks go forward', nightly, '2026-03-29T00:59:59Z', 'open'],
    ['ends then an hour later on the wall', nightly, '2026-03-29T01:00:00Z', '2026-03-29T20:00:00Z'],
    ['lasts in real time when the clocks go back', nightly, '2026-10-24T23:59:59Z', 'open'],
    ['ends then an hour earlier on the wall', nightly, '2026-10-25T00:00:00Z', '2026-10-25T21:00:00Z'],
    [
      'opens after the gap when its time does not exist',
      window('30 2 * * *', 1),
      '2026-03-29T00:00:00Z',
      '2026-03-29T01:00:00Z',
    ],
    ['opens once when its time comes twice', window('30 2 * * *', 0.5), '2026-10-25T01:35:00Z', '2026-10-26T01:30:00Z'],
    ['may open on weekdays only', window('0 8 * * 1-5', 2), '2026-06-06T07:00:00Z', '2026-06-08T06:00:00Z'],
    ['may last longer than until its next opening', window('0 * * * *', 5), '2026-06-01T12:34:56Z', 'open'],
    ['that never comes never opens', window('0 0 30 2 *', 1), '2026-06-01T00:00:00Z', 'never'],
  ])('%s', (_, one, at, expected) => {
    expect(ask([one], at)).toBe(expected);
  });

  it('without any, changes may always be made', () => {
    expect(ask([], '2026-06-01T00:00:00Z')).toBe('open');
  });

  it('of several, one that is open is enough, and the next to open counts', () => {
    const both = [nightly, window('0 12 * * *', 1, 'UTC')];
    expect(ask(both, '2026-06-01T12:30:00Z')).toBe('open');
    expect(ask(both, '2026-06-01T20:30:00Z')).toBe('open');
    expect(ask(both, '2026-06-01T13:00:00Z')).toBe('2026-06-01T20:00:00Z');
    expect(ask(both, '2026-06-02T00:00:00Z')).toBe('2026-06-02T12:00:00Z');
  });

  it('is open at the instant that was told as the next one, and closed just before', () => {
    const anyWindow = fc.record({
      allow: fc.constantFrom('0 22 * * *', '*/7 3 * * *', '30 2 * * 0', '15 1,13 1 * *'),
      durationMs: fc.integer({ min: 1_000, max: 30 * HOUR }),
      timezone: fc.constantFrom('Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'UTC'),
    });
    const anyInstant = fc.integer({ min: Date.UTC(2026, 0), max: Date.UTC(2027, 0) });
    fc.assert(
      fc.property(anyWindow, anyInstant, (one, atMs) => {
        const { open, nextOpenMs } = inWindow([one], atMs);
        if (open || nextOpenMs === null) return;
        expect(nextOpenMs).toBeGreaterThan(atMs);
        expect(inWindow([one], nextOpenMs).open).toBe(true);
        expect(inWindow([one], nextOpenMs - 1).open).toBe(false);
      }),
      { numRuns: 200 },
    );
  });
});

describe('the check at load', () => {
  it.each([
    ['a good window', nightly, null],
    ['words instead of cron', window('nightly', 1), /five/],
    ['seconds', window('0 0 22 * * *', 1), /5 parts/],
    ['a minute that is none', window('61 * * * *', 1), /minute/],
    ['a time zone that is none', window('0 22 * * *', 1, 'Mars/Olympus'), /no time zone 'Mars\/Olympus'/],
    ['no duration', window('0 22 * * *', 0), /duration/],
    ['an endless duration', window('0 22 * * *', Number.NaN), /duration/],
  ])('%s', (_, one, expected) => {
    if (expected === null) expect(problemOfWindow(one)).toBeNull();
    else expect(problemOfWindow(one)).toMatch(expected);
  });
});
