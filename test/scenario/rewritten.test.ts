// A branch that was rewritten under a running controller: what its end is told as.
import { afterEach, expect, it } from 'vitest';
import { Controller, FLEET } from '../../src/controller/controller.ts';
import { accept } from '../../src/operations/lineage.ts';
import { SimHouse } from '../sim/sim-house.ts';

const web = (image: string) => ({
  'stacks/shop/compose.yaml': `services:\n  web:\n    image: windlass-test/${image}\n`,
});
const open: { sim: SimHouse; controller: Controller }[] = [];
afterEach(async () => {
  for (const { sim, controller } of open.splice(0)) {
    await sim.run(controller.stop());
    sim.dispose();
  }
});

/** The last words about the fleet after `mend`. */
async function toldAfter(mend: (sim: SimHouse, denied: string, first: string) => unknown): Promise<string> {
  const sim = new SimHouse();
  const controller = new Controller({ house: sim.house, pollMs: 1_000, intervalMs: 1e9, log: () => {} });
  open.push({ sim, controller });
  const reason = (): string | undefined => sim.house.store.conditions(FLEET)[0]?.reason;
  const until = async (wanted: string): Promise<void> => {
    for (let tries = 0; tries < 100 && reason() !== wanted; tries++) await sim.run(sim.clock.sleep(500));
    expect(reason()).toBe(wanted);
  };
  const first = sim.source.push(web('busybox:1'));
  await sim.run(controller.start());
  await until('Succeeded');
  const denied = sim.source.push(web('busybox:2'), []);
  await until('HistoryRewritten');
  await mend(sim, denied, first);
  await until('Succeeded');
  const last = sim.house.store.events({ stack: FLEET, limit: 1 })[0];
  return `${last?.reason}: ${last?.message}`;
}

it('that a person accepted it is told as that', async () => {
  expect(await toldAfter((sim, denied) => sim.run(accept(sim.house, denied, { rewritten: true })))).toBe(
    'SourceRecovered: the rewritten history was accepted',
  );
});

it('that the branch goes on from what was accepted is told as that', async () => {
  expect(await toldAfter((sim, _, first) => sim.source.push(web('busybox:3'), [first]))).toBe(
    'SourceRecovered: the newest commit goes on from an accepted one again',
  );
});
