// A stack that could never be deployed and left git again: nothing is said of it any more. One of which something may be there stays known.
import { afterEach, describe, expect, it } from 'vitest';
import { Controller, FLEET } from '../../src/controller/controller.ts';
import { windlass } from '../cli/fake-terminal.ts';
import { SimHouse } from '../sim/sim-house.ts';

const web = 'services:\n  web:\n    image: windlass-test/busybox:1\n';
const TABS = 'services:\n\tweb:\n\t\timage: x\n';

describe('a broken stack that was taken out of git', () => {
  const houses: SimHouse[] = [];
  afterEach(() => {
    for (const house of houses.splice(0)) house.dispose();
  });
  const open = (): SimHouse => {
    const sim = new SimHouse();
    houses.push(sim);
    return sim;
  };
  const known = (sim: SimHouse) => [...sim.house.store.allConditions().keys()].sort();

  it('vanishes under a controller', async () => {
    const sim = open();
    sim.source.push({ 'stacks/shop/compose.yaml': web, 'stacks/ghost/compose.yaml': TABS });
    const controller = new Controller({ house: sim.house, pollMs: 1_000, intervalMs: 1e9, log: () => {} });
    await sim.run(controller.start());
    try {
      const until = async (names: readonly string[]): Promise<void> => {
        for (let tries = 0; tries < 100 && String(known(sim)) !== String(names); tries++)
          await sim.run(sim.clock.sleep(500));
        expect(known(sim)).toEqual(names);
      };
      await until([FLEET, 'ghost', 'shop']);
      sim.source.push({ 'stacks/ghost': null });
      await until([FLEET, 'shop']);
    } finally {
      await sim.run(controller.stop());
    }
  });

  it('says of no stack that its uninstall failed while somebody else takes it away, and does it when that one gives up', async () => {
    const sim = open();
    sim.source.push({ 'stacks/shop/compose.yaml': web, 'stacks/away/compose.yaml': web });
    expect((await windlass(sim, ['apply', '--yes'])).code).toBe(0);
    sim.source.push({ 'stacks/away': null });
    sim.house.store.acquire('stack/away', 'elsewhere:1', 20_000, sim.clock.nowMs());
    const controller = new Controller({ house: sim.house, pollMs: 1e9, intervalMs: 1e9, log: () => {} });
    await sim.run(controller.start());
    try {
      await sim.run(sim.clock.sleep(10_000));
      expect(known(sim)).toContain('away');
      for (let tries = 0; tries < 60 && known(sim).includes('away'); tries++) await sim.run(sim.clock.sleep(1_000));
      const told = sim.house.store.events({ stack: 'away', limit: 9 }).map((one) => one.reason);
      expect(told).toContain('Uninstalled');
      expect(told).not.toContain('UninstallFailed');
    } finally {
      await sim.run(controller.stop());
    }
  });

  it('vanishes with the next apply, but not while the fleet cannot be read as a whole, nor while a person holds it', async () => {
    const sim = open();
    const apply = () => windlass(sim, ['apply', '--yes']);
    sim.source.push({ 'stacks/shop/compose.yaml': web, 'stacks/ghost/compose.yaml': TABS });
    expect((await apply()).code).toBe(1);
    sim.source.push({ 'stacks/ghost': null, 'fleet.yaml': 'nonsense: true\n' });
    await apply();
    expect(known(sim)).toContain('ghost');
    sim.source.push({ 'fleet.yaml': null });
    const hold = { kind: 'suspended', reason: 'soon', sinceMs: 0, untilMs: 0, service: '' } as const;
    sim.house.store.putHold('ghost', hold);
    await apply();
    expect(known(sim)).toContain('ghost');
    sim.house.store.deleteHold('ghost', 'suspended', '');
    expect((await apply()).code).toBe(0);
    expect(known(sim)).toEqual(['shop']);
  });

  it('stays known when it was deployed before it broke, and is uninstalled', async () => {
    const sim = open();
    const apply = () => windlass(sim, ['apply', '--yes', '--no-prune']);
    sim.source.push({ 'stacks/shop/compose.yaml': web, 'stacks/ghost/compose.yaml': web });
    expect((await apply()).code).toBe(0);
    sim.source.push({ 'stacks/ghost/compose.yaml': TABS });
    await apply();
    sim.source.push({ 'stacks/ghost': null });
    await apply();
    expect(known(sim)).toContain('ghost');
    const { code, err } = await windlass(sim, ['apply', '--yes']);
    expect([code, err]).toEqual([0, expect.stringContaining('uninstalled ghost')]);
    expect(known(sim)).toEqual(['shop']);
  });
});
