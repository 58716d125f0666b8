// The controller without its engine: what could not be looked at is unknown, for every stack and for the fleet, however it came about.
import { afterEach, describe, expect, it } from 'vitest';
import { Controller, FLEET } from '../../src/controller/controller.ts';
import { Fault } from '../../src/core/fault.ts';
import { SimHouse } from '../sim/sim-house.ts';

const web = (image = 'busybox:1') => `services:\n  web:\n    image: windlass-test/${image}\n`;
const STACKS = ['blog', 'shop', 'wiki'];

describe('an engine that is away', () => {
  const open: { sim: SimHouse; controller: Controller }[] = [];
  afterEach(async () => {
    for (const { sim, controller } of open.splice(0)) {
      await sim.run(controller.stop());
      sim.dispose();
    }
  });

  async function deployed(): Promise<SimHouse> {
    const sim = new SimHouse();
    sim.source.push(Object.fromEntries(STACKS.map((stack) => [`stacks/${stack}/compose.yaml`, web()])));
    const { sim: one, controller } = await started(sim);
    await until(one, () => STACKS.every((stack) => words(one, stack) === 'True Succeeded'));
    await one.run(controller.stop());
    open.pop();
    return one;
  }
  async function started(sim: SimHouse) {
    const controller = new Controller({ house: sim.house, pollMs: 1_000, intervalMs: 1e9, log: () => {} });
    const both = { sim, controller };
    open.push(both);
    await sim.run(controller.start());
    return both;
  }
  const until = async (sim: SimHouse, holds: () => boolean): Promise<void> => {
    for (let tries = 0; tries < 200 && !holds(); tries++) await sim.run(sim.clock.sleep(500));
    expect(holds()).toBe(true);
  };
  const words = (sim: SimHouse, stack: string, type = 'Ready'): string => {
    const found = sim.house.store.conditions(stack).find((one) => one.type === type);
    return `${found?.status} ${found?.reason}`;
  };
  const all = (sim: SimHouse) => [...STACKS, FLEET].map((stack) => words(sim, stack));

  it('is unknown for every stack and the fleet when the controller starts without it, and no old value stays', async () => {
    const sim = await deployed();
    expect(words(sim, FLEET)).toBe('True Succeeded');
    sim.world.setReachable(false);
    await started(sim);
    await sim.run(sim.clock.sleep(3_000));
    expect(all(sim)).toEqual(Array(4).fill('Unknown EngineUnreachable'));
    expect(STACKS.map((stack) => words(sim, stack, 'Healthy'))).toEqual(Array(3).fill('Unknown EngineUnreachable'));
    expect(STACKS.map((stack) => words(sim, stack, 'Drifted').split(' ')[0])).toEqual(Array(3).fill('Unknown'));
    sim.world.setReachable(true);
    await until(sim, () => all(sim).every((one) => one === 'True Succeeded'));
    const told = sim.house.store.events({ stack: FLEET, limit: 10 }).map((one) => one.reason);
    expect(told).toEqual(['EngineUnreachable', 'EngineRecovered']);
  });

  it('is unknown also for the fleet when it goes under a running controller, and for what is pushed meanwhile', async () => {
    const sim = await deployed();
    await started(sim);
    sim.world.setReachable(false);
    await until(sim, () => all(sim).every((one) => one === 'Unknown EngineUnreachable'));
    sim.source.push({ 'stacks/late/compose.yaml': web() });
    await until(sim, () => words(sim, 'late') === 'Unknown EngineUnreachable');
    sim.world.setReachable(true);
    await until(sim, () => [...all(sim), words(sim, 'late')].every((one) => one === 'True Succeeded'));
  });

  it('is unknown, never false, for a stack that was being deployed', async () => {
    const sim = await deployed();
    await started(sim);
    sim.source.push({ 'stacks/shop/compose.yaml': web('web:1') });
    const seen = new Set<string>();
    sim.world.failNext('up', new Fault('ENGINE_UNREACHABLE', 'gone'), 1);
    await until(sim, () => {
      seen.add(words(sim, 'shop'));
      return seen.has('Unknown EngineUnreachable') && words(sim, 'shop') === 'True Succeeded';
    });
    expect([...seen].filter((one) => one.startsWith('False'))).toEqual([]);
  });
});
