// Leases within one process: the store tells processes apart, and nothing finer.
import { afterEach, describe, expect, it } from 'vitest';
import { holdLeases, isShut, leaseName } from '../../src/operations/leases.ts';
import { SimHouse } from '../sim/sim-house.ts';

const houses: SimHouse[] = [];
afterEach(() => {
  for (const sim of houses.splice(0)) sim.dispose();
});

function desk() {
  const sim = new SimHouse();
  houses.push(sim);
  const hold = (alone = false) => holdLeases(sim.house, ['shop'], undefined, { alone });
  const isHeld = (): boolean => sim.house.store.leases().some((one) => one.name === leaseName('shop'));
  return { sim, hold, isHeld };
}

describe('a lease', () => {
  it('is kept while an operation that runs inside of another ends', () => {
    const { hold, isHeld } = desk();
    const outer = hold();
    hold().release();
    expect(isHeld()).toBe(true);
    outer.release();
    outer.release();
    expect(isHeld()).toBe(false);
  });

  it.each([
    [true, false],
    [false, true],
    [true, true],
  ])('of one that stands alone is shared with nobody, whoever came first (%s, %s)', (first, second) => {
    const { sim, hold, isHeld } = desk();
    const held = hold(first);
    expect(isShut(sim.house, 'shop')).toBe(first);
    expect(() => hold(second)).toThrow(expect.objectContaining({ code: 'LOCK_HELD' }));
    // What was refused took nothing with it.
    expect(() => holdLeases(sim.house, ['blog', 'shop'], undefined, { alone: true })).toThrow();
    expect(sim.house.store.leases().map((one) => one.name)).toEqual([leaseName('shop')]);
    held.release();
    expect([isHeld(), isShut(sim.house, 'shop')]).toEqual([false, false]);
    hold(second).release();
  });
});
