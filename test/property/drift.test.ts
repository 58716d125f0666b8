// Whatever a person does to the containers of a stack, one apply brings it back, the plan after it is empty, no deploy touches data,
// and what is not ours is left alone.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DeployRun } from '../../src/operations/deploy-run.ts';
import { deploySteps } from '../../src/operations/steps/registry.ts';
import { SimHouse } from '../sim/sim-house.ts';

const compose = `services:
  web: {image: windlass-test/web:1, networks: {default: {aliases: [www]}, back: {}}, mem_limit: 64m}
  side: {image: windlass-test/busybox:1, deploy: {replicas: 2}}
  db: {image: windlass-test/busybox:1, volumes: ["data:/data"], networks: [back]}
networks: {back: {}}
volumes: {data: {}}
`;

const act = fc.tuple(
  fc.constantFrom('kill', 'stop', 'remove', 'rename', 'pause', 'disconnect', 'reconnect', 'update', 'moveTag', 'start'),
  fc.nat(3),
);

describe('drift', () => {
  it('of any kind and number is healed by one apply, and the next plan is empty', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(act, { minLength: 1, maxLength: 6 }), fc.nat(), async (acts, seed) => {
        const sim = new SimHouse(seed);
        try {
          const stranger = sim.world.addForeign('stranger', { network: 'bridge' });
          sim.source.push({ 'stacks/shop/compose.yaml': compose });
          await sim.apply();
          for (const [what, which] of acts) bend(sim, what, which);
          const outcome = await sim.apply();
          expect([...(outcome?.failures.values() ?? [])].map(String)).toEqual([]);
          sim.world.clearCalls();
          expect(await sim.apply()).toBeNull();
          expect(sim.world.mutatingCalls()).toEqual([]);
          // Compose numbers a new replica after the highest one, so only the services are compared.
          expect(
            sim.world
              .containersOf('shop')
              .map((one) => `${one.name.split('-')[1]} ${one.state}`)
              .sort(),
          ).toEqual(['db running', 'side running', 'side running', 'web running']);
          expect(sim.world.container('stranger').id).toBe(stranger);
        } finally {
          sim.dispose();
        }
      }),
      { numRuns: 40 },
    );
  });

  it('is never healed by a step that touches data', () => {
    const run = {
      house: { store: {}, clock: {}, settings: {}, files: {}, runtime: {}, source: {} },
      judged: new Map(),
    } as unknown as DeployRun;
    expect(deploySteps(run).map((step) => step.touches)).not.toContain('data');
  });
});

function bend(sim: SimHouse, what: string, which: number): void {
  const all = sim.world.containersOf('shop');
  const one = all[which % Math.max(1, all.length)];
  if (!one) return;
  try {
    if (what === 'kill') sim.world.kill(one.id);
    if (what === 'stop') sim.world.stop(one.id);
    if (what === 'remove') sim.world.remove(one.id);
    if (what === 'rename') sim.world.rename(one.id, `mine-${which}`);
    if (what === 'pause') sim.world.pause(one.id);
    if (what === 'start') sim.world.start(one.id);
    if (what === 'disconnect') sim.world.disconnect(one.id, 'shop_back');
    if (what === 'reconnect') {
      sim.world.disconnect(one.id, 'shop_default');
      sim.world.connect(one.id, 'shop_default');
    }
    if (what === 'update') sim.world.update(one.id, { memoryBytes: 128 * 2 ** 20 });
    if (what === 'moveTag') sim.world.moveTag('windlass-test/web:1', String(which));
  } catch {
    // not possible in this state: a person would be told so too
  }
}
