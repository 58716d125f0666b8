// A controller in a process of its own, for `memory.ts`: everything is real but the engine. Says on stdout what it takes, one JSON line.
//   node bench/controller-process.ts REPOSITORY STATE-DIRECTORY STACK…
import { setTimeout as sleep } from 'node:timers/promises';
import { openSimRuntime } from '../src/adapters/sim/runtime.ts';
import { SimWorld } from '../src/adapters/sim/world.ts';
import { HEAP_LOOK_MS, keepHeapSmall } from '../src/cli/commands/run.ts';
import { Controller } from '../src/controller/controller.ts';
import { openHouse } from '../src/wire.ts';

const [repository = '', stateDir = '', ...names] = process.argv.slice(2);
const SWEEPS = 5;
const rssMib = (): number => Math.round(process.memoryUsage.rss() / 2 ** 20);

keepHeapSmall();
const opened = await openHouse({
  stateDir,
  source: { name: 'bench', url: repository, ref: 'main' },
  settleMs: 200,
  settleSamples: 2,
});
const world = new SimWorld({ clock: opened.clock });
const house = { ...opened, runtime: openSimRuntime(world) };
const controller = new Controller({ house, pollMs: 3_600_000, intervalMs: 3_600_000, log: () => {} });
let mostMib = 0;
const watch = setInterval(() => {
  mostMib = Math.max(mostMib, rssMib());
}, 100);
await controller.start();
// After a restart the conditions are there before the engine was looked at.
const isReady = (name: string): boolean =>
  world.containersOf(name).length > 0 &&
  house.store.conditions(name).some((one) => one.type === 'Ready' && one.status === 'True');
while (!names.every(isReady)) await sleep(1_000);
for (let sweep = 0; sweep < SWEEPS; sweep++) {
  await controller.sweep('bench', true);
  await sleep(200);
}
await sleep(4 * HEAP_LOOK_MS);
clearInterval(watch);
process.stdout.write(`${JSON.stringify({ mostMib, restMib: rssMib() })}\n`);
await controller.stop();
await opened.close();
process.exit(0);
