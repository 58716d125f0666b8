import { describe, expect, it } from 'vitest';
import { backoffMs, DISTURBING } from '../../../src/core/status/backoff.ts';
import { isDue, nextRunMs, problemOfSchedule } from '../../../src/core/status/schedule.ts';

const at = (text: string): number => Date.parse(`2026-06-${text}Z`);

describe('a schedule', () => {
  it.each([
    ['not before its time', '01T03:00', '02T02:59:59', false],
    ['from its time on', '01T03:00', '02T03:00', true],
    ['still long after it, when nobody was there', '01T03:00', '09T12:00', true],
    ['not again after it was done', '02T03:00:01', '02T23:59', false],
    ['not because it was done by hand shortly before', '02T02:59:59', '02T02:59:59', false],
    ['after the clock was set back by years', '28T00:00', '02T03:00', false],
  ])('is due %s', (_, last, now, expected) => {
    expect(isDue('0 3 * * *', at(last), at(now))).toBe(expected);
  });

  it('is counted in UTC, and its next time comes after the instant that is named', () => {
    expect(nextRunMs('0 3 * * *', at('01T03:00'))).toBe(at('02T03:00'));
    expect(nextRunMs('30 4 * * 1', at('01T00:00'))).toBe(at('01T04:30'));
  });

  it.each([
    ['0 3 * * *', null],
    ['  0 3 * * *  ', null],
    ['0 0 29 2 *', null],
    ['0 0 30 2 *', /never comes/],
    ['61 3 * * *', /minute|range|61/i],
    ['0 0 3 * * *', /part|6|second/i],
  ])('%s is kept or refused at load', (schedule, expected) => {
    if (expected === null) expect(problemOfSchedule(schedule)).toBeNull();
    else expect(problemOfSchedule(schedule)).toMatch(expected);
  });
});

describe('the pause after a failed backup', () => {
  it('doubles from a minute to an hour', () => {
    expect([1, 2, 3, 6, 7, 50].map((failures) => backoffMs(failures, 0.5, DISTURBING) / 60_000)).toEqual([
      1, 2, 4, 32, 60, 60,
    ]);
  });
});
