import { describe, expect, it } from 'vitest';
import { backoffMs } from '../../../src/core/status/backoff.ts';
import { nextHealMs, recentHeals } from '../../../src/core/status/heal.ts';

describe('backoff', () => {
  it('doubles from a second to five minutes', () => {
    const delays = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1_000].map((attempt) => backoffMs(attempt, 0.5) / 1_000);
    expect(delays).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
  });

  it('is spread by a fifth to both sides', () => {
    expect(backoffMs(1, 0)).toBe(800);
    expect(backoffMs(1, 0.999_999)).toBe(1_200);
    expect(backoffMs(50, 0)).toBe(240_000);
  });

  it.each([0, -3, 0.5])('takes an attempt of %s for the first one', (attempt) => {
    expect(backoffMs(attempt, 0.5)).toBe(1_000);
  });
});

describe('healing', () => {
  const HOUR = 3_600_000;
  it('is at once at first, and waits longer with each heal of the last hour', () => {
    expect(nextHealMs([], 0)).toBe(0);
    expect(nextHealMs([5_000], 5_001)).toBe(6_000);
    expect(nextHealMs([1_000, 5_000], 5_001)).toBe(7_000);
    expect(nextHealMs([1_000, 5_000], 1_000 + HOUR)).toBe(6_000);
    expect(nextHealMs([1_000], 1_000 + HOUR)).toBe(0);
  });

  it('keeps what counts and no more', () => {
    expect(recentHeals([0, 10, HOUR], HOUR + 5)).toEqual([10, HOUR]);
    expect(recentHeals(Array(500).fill(1), 2)).toHaveLength(100);
  });
});
