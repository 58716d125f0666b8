// Maintenance windows under the controller, on simulated time.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Controller } from '../../src/controller/controller.ts';
import type { Window } from '../../src/core/status/window.ts';
import { SimHouse } from '../sim/sim-house.ts';

const HOUR = 3_600_000;
const web = (image: string) => `services:\n  web:\n    image: windlass-test/${image}\n`;
const NIGHT: Window = { allow: '0 22 * * *', durationMs: 4 * HOUR, timezone: 'UTC' };

describe('a maintenance window', () => {
  let sim: SimHouse;
  let controller: Controller;
  beforeEach(async () => {
    sim = new SimHouse();
    // Two minutes before ten in the evening, whatever the clock began with.
    const day = 24 * HOUR;
    const nowMs = sim.clock.nowMs();
    await sim.clock.advance(Math.ceil(nowMs / day) * day + 22 * HOUR - 120_000 - nowMs);
  });
  afterEach(async () => {
    await sim.run(controller.stop());
    sim.dispose();
  });

  const condition = (type: string) => sim.house.store.conditions('shop').find((one) => one.type === type);
  const until = async (holds: () => boolean, step = 500): Promise<void> => {
    for (let tries = 0; tries < 600 && !holds(); tries++) await sim.run(sim.clock.sleep(step));
    expect(holds()).toBe(true);
  };
  const imageOf = () => sim.world.containersOf('shop').map((one) => one.spec.image)[0];

  /** Installed with everything open, then a push under the windows of `files` or of the controller. */
  async function pushUnder(windows: readonly Window[], files: Record<string, string>): Promise<void> {
    sim.source.push({ 'stacks/shop/compose.yaml': web('busybox:1') });
    await sim.apply();
    sim.house = { ...sim.house, settings: { ...sim.house.settings, windows } };
    controller = new Controller({ house: sim.house, pollMs: 1_000, intervalMs: 3_600_000, log: () => {} });
    await sim.run(controller.start());
    sim.source.push({ 'stacks/shop/compose.yaml': web('web:1'), ...files });
  }

  const cases: readonly [string, readonly Window[], Record<string, string>][] = [
    [
      'of a stack',
      [],
      {
        'stacks/shop/stack.yaml':
          'apiVersion: windlass/v1\nkind: Stack\nwindows: [{ allow: "0 22 * * *", duration: 4h, timezone: UTC }]\n',
      },
    ],
    ['of the controller', [NIGHT], {}],
  ];
  it.each(cases)('%s holds a change back until it opens, and heals drift meanwhile', async (_whose, windows, files) => {
    await pushUnder(windows, files);
    await until(() => condition('Ready')?.reason === 'OutsideWindow');
    expect(condition('Ready')?.message).toMatch(/T22:00:00/);
    const [running] = sim.world.containersOf('shop');
    sim.world.kill(running!.id);
    await until(() => sim.world.containersOf('shop').every((one) => one.state === 'running'));
    expect(imageOf()).toBe('windlass-test/busybox:1');
    expect(new Date(sim.clock.nowMs()).getUTCHours()).toBe(21);
    await until(() => imageOf() === 'windlass-test/web:1');
    expect(new Date(sim.clock.nowMs()).getUTCHours()).toBe(22);
  });

  it('is not needed to heal what runs while a newer file of it cannot be read', async () => {
    await pushUnder([], { 'stacks/shop/stack.yaml': 'apiVersion: windlass/v1\nkind: Stack\nnonsense: true\n' });
    await until(() => condition('Ready')?.reason === 'InvalidSpec' || condition('Stalled')?.reason === 'InvalidSpec');
    const [running] = sim.world.containersOf('shop');
    sim.world.kill(running!.id);
    await until(() => sim.world.containersOf('shop').every((one) => one.state === 'running'));
    expect(imageOf()).toBe('windlass-test/busybox:1');
    await until(() => condition('Stalled')?.reason === 'InvalidSpec');
  });

  it('of a stack counts instead of the one of the controller', async () => {
    await pushUnder([NIGHT], {
      'stacks/shop/stack.yaml':
        'apiVersion: windlass/v1\nkind: Stack\nwindows: [{ allow: "0 20 * * *", duration: 4h, timezone: UTC }]\n',
    });
    await until(() => imageOf() === 'windlass-test/web:1');
    expect(new Date(sim.clock.nowMs()).getUTCHours()).toBe(21);
  });
});
