// What "running well" means: what counts, and what does not.
import { describe, expect, it } from 'vitest';
import { healthOf } from '../../../src/core/status/health.ts';
import { container, desired, service } from '../diff/world.ts';

const one = (number: number, over: Parameters<typeof container>[0] = {}) =>
  container({ id: `c${number}`, name: `shop-web-${number}`, number, ...over });
const ended = { state: 'exited', exitCode: 143 } as const;
const stateOf = (containers: readonly ReturnType<typeof container>[], replicas = 1) =>
  healthOf(desired([service({ replicas })]), containers, null).state;

describe('the health of a service', () => {
  it('is that of as many containers as there are to be: what ended of more says nothing', () => {
    expect(stateOf([one(3, ended), one(1), one(2, ended)])).toBe('healthy');
  });

  it('says nothing of one that ended beside another one of its number', () => {
    expect(stateOf([one(1, { ...ended, id: 'old' }), one(1), one(2)], 2)).toBe('healthy');
    expect(stateOf([one(1, { ...ended, id: 'old' }), one(1, ended)])).toBe('failed');
  });

  it('fails when one of those that count has ended, whatever else runs', () => {
    expect(stateOf([one(1, ended), one(2)])).toBe('failed');
    expect(stateOf([one(1), one(2, ended)], 2)).toBe('failed');
  });

  it('fails with one that runs and is not well, also where it is one too many', () => {
    expect(stateOf([one(1), one(2, { state: 'restarting' })])).toBe('failed');
  });
});
