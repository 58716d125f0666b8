// What the log of `windlass run` says.
import { expect, it } from 'vitest';
import { SimHouse } from '../sim/sim-house.ts';
import { windlass } from './fake-terminal.ts';

it('the log of a controller tells each action of the hooks of a deploy', async () => {
  const sim = new SimHouse();
  try {
    sim.source.push({
      'stacks/shop/compose.yaml': 'services:\n  web:\n    image: windlass-test/busybox:1\n',
      'stacks/shop/stack.yaml':
        'apiVersion: windlass/v1\nkind: Stack\nhooks:\n  pre_install: [{ sleep: 1s }]\n  post_install: [{ sleep: 2s }]\n',
    });
    const stop = new AbortController();
    const run = windlass(sim, ['run'], { stop: stop.signal });
    const isDone = () => sim.house.store.runs({ stack: 'shop', outcome: 'succeeded' }).length > 0;
    for (let tries = 0; tries < 600 && !isDone(); tries++) await sim.run(sim.clock.sleep(100));
    stop.abort();
    const { err } = await sim.run(run);
    expect(err).toMatch(/shop: 1 sleep 1s\n[\s\S]*shop: 1 sleep 1s: done\n[\s\S]*shop: 1 sleep 2s: done\n/);
    expect(err).not.toMatch(/converge|container is new/);
  } finally {
    sim.dispose();
  }
});
