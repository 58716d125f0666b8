// Whole corridor on the simulated world: load → resolve → observe → diff → plan → converge → settle → record.
import { afterEach, describe, expect, it } from 'vitest';
import { behaviours } from '../../src/adapters/sim/behaviour.ts';
import { Fault } from '../../src/core/fault.ts';
import { everDeployed, goneOf } from '../../src/operations/gone.ts';
import { manualRollback, rollbackTarget } from '../../src/operations/rollback.ts';
import { settleStack } from '../../src/operations/settle-stack.ts';
import type { Judged } from '../../src/operations/survey.ts';
import { uninstall } from '../../src/operations/uninstall.ts';
import { SimHouse } from '../sim/sim-house.ts';

const two = (image = 'windlass-test/busybox:1') =>
  `services:\n  web:\n    image: ${image}\n  side:\n    image: windlass-test/busybox:1\n`;

describe('converging', () => {
  const houses: SimHouse[] = [];
  const open = (): SimHouse => {
    const house = new SimHouse();
    houses.push(house);
    return house;
  };
  afterEach(() => {
    for (const house of houses.splice(0)) house.dispose();
  });
  const deployed = async (): Promise<SimHouse> => {
    const sim = open();
    sim.source.push({ 'stacks/shop/compose.yaml': two(), 'stacks/blog/compose.yaml': two() });
    const outcome = await sim.apply();
    expect([...outcome!.failures.values()].map(String)).toEqual([]);
    sim.world.clearCalls();
    return sim;
  };

  it('two runs without a change: the second makes no mutating engine call', async () => {
    const sim = await deployed();
    expect(await sim.apply()).toBeNull();
    expect(sim.world.mutatingCalls()).toEqual([]);
  });

  it('a README commit in a repository of stacks deploys nothing', async () => {
    const sim = await deployed();
    sim.source.push({ 'README.md': 'hello', 'stacks/shop/NOTES.md': 'note' });
    expect(await sim.apply()).toBeNull();
    expect(sim.world.mutatingCalls()).toEqual([]);
  });

  it('one service removed from a stack: only its container goes, and the next run is a no-op', async () => {
    const sim = await deployed();
    sim.source.push({ 'stacks/shop/compose.yaml': 'services:\n  web:\n    image: windlass-test/busybox:1\n' });
    await sim.apply();
    expect(sim.world.mutatingCalls().map((call) => call.method)).toEqual(['remove']);
    sim.world.clearCalls();
    expect(await sim.apply()).toBeNull();
  });

  it.each([
    ['its name', 'data: { name: two }', 'data', 'two'],
    ['its key', 'store:', 'store', 'shop_store'],
  ])('a volume that is asked for by another name (%s) is left with its data, and that is told once', async (...row) => {
    const [, definition, key, name] = row;
    const sim = open();
    const compose = (uses: string, volumes: string) =>
      `services:\n  web:\n    image: windlass-test/busybox:1\n    volumes: ["${uses}:/d"]\nvolumes: { ${volumes} }\n`;
    sim.source.push({ 'stacks/shop/compose.yaml': compose('data', 'data: { name: one }') });
    await sim.apply();
    sim.source.push({ 'stacks/shop/compose.yaml': compose(key, definition) });
    const words = `volume one with the data of web (/d) is left; web gets the empty volume ${name}`;
    const [judged] = await sim.survey();
    expect(judged?.kind === 'judged' && judged.diff.warnings).toEqual([words]);
    const outcome = await sim.apply();
    expect([...outcome!.failures.values()].map(String)).toEqual([]);
    const told = () =>
      sim.house.store.events({ stack: 'shop', afterSeq: 0, limit: 100 }).filter((one) => one.reason === 'VolumeLeft');
    expect(told()).toMatchObject([{ stack: 'shop', level: 'warning', message: words }]);
    expect([...sim.world.engine.volumes.keys()].sort()).toEqual(['one', name].sort());
    expect(await sim.apply()).toBeNull();
    expect(told()).toHaveLength(1);
  });

  it('a changed service is recreated and its neighbour is not', async () => {
    const sim = await deployed();
    const before = new Map(sim.world.containersOf('shop').map((one) => [one.name, one.id]));
    sim.source.push({ 'stacks/shop/compose.yaml': two('windlass-test/web:1') });
    await sim.apply();
    const after = new Map(sim.world.containersOf('shop').map((one) => [one.name, one.id]));
    expect(after.get('shop-side-1')).toBe(before.get('shop-side-1'));
    expect(after.get('shop-web-1')).not.toBe(before.get('shop-web-1'));
  });

  it('what runs instead of a refused revision speaks of the refused one, even after a newer push', async () => {
    const sim = await deployed();
    const good = await sim.source.fetch();
    sim.source.push({ 'stacks/shop/compose.yaml': two('windlass-test/web:1') });
    const at = await sim.bench.reader.read(await sim.source.fetch());
    await manualRollback(sim.bench, 'shop', at, good);
    const shop = (await sim.survey()).find((one) => one.name === 'shop') as Judged;
    expect(shop.at.revision.commit).toBe(good);
    sim.source.push({ 'README.md': 'newer' });
    const newest = await sim.source.fetch();
    settleStack(sim.house, 'shop', { judged: shop, newest, outcome: { kind: 'in-sync' }, failures: 0 });
    const ready = sim.house.store.conditions('shop').find((one) => one.type === 'Ready');
    expect(ready).toMatchObject({ reason: 'RolledBack', revision: at.revision.commit });
  });

  it('goes back to what came before when the commit of what runs is lost', async () => {
    const sim = await deployed();
    const first = await sim.source.fetch();
    sim.source.push({ 'stacks/shop/compose.yaml': two('windlass-test/web:1') });
    await sim.apply();
    const second = await sim.source.fetch();
    sim.source.push({ 'stacks/shop/compose.yaml': two('windlass-test/web:2') });
    const newest = await sim.source.fetch();
    const at = await sim.bench.reader.read(newest);
    expect(await rollbackTarget(sim.bench, 'shop', at)).toBe(second);
    sim.crash();
    // That git did not answer is no proof that it is lost, and there is another way back than the one that was meant.
    const { commit } = sim.source;
    sim.source.commit = async (id) => {
      if (id === second) throw new Fault('GIT_OBJECT_MISSING', 'fleet: fatal: out of memory');
      return commit.call(sim.source, id);
    };
    const again = await sim.bench.reader.read(newest);
    await expect(rollbackTarget(sim.bench, 'shop', again)).rejects.toThrow('out of memory');
    sim.source.commit = commit;
    sim.source.lose(second);
    expect(await rollbackTarget(sim.bench, 'shop', again)).toBe(first);
  });

  it('a stack whose first deploy never ended well is taken away when it leaves the fleet', async () => {
    const sim = open();
    sim.world.behave('shop/web', behaviours.crashLoop);
    sim.source.push({ 'stacks/shop/compose.yaml': two(), 'stacks/blog/compose.yaml': two() });
    expect((await sim.apply())?.failures.has('shop')).toBe(true);
    expect(sim.house.store.applied('shop')).toBeNull();
    expect(sim.world.containersOf('shop')).toHaveLength(2);
    sim.source.push({ 'stacks/shop': null });
    const at = await sim.bench.reader.read(await sim.source.fetch());
    const gone = goneOf(at.fleet, everDeployed(sim.house.store), 0.3);
    expect([gone.guard, gone.removable.map((one) => one.stack)]).toEqual([null, ['shop']]);
    await sim.run(uninstall(sim.bench, gone.removable[0]!, 'test', new AbortController().signal));
    expect(sim.world.containersOf('shop')).toEqual([]);
    expect(everDeployed(sim.house.store).map((one) => one.stack)).toEqual(['blog']);
  });

  it('a broken file stops its own stack only', async () => {
    const sim = await deployed();
    sim.source.push({
      'stacks/shop/compose.yaml': 'services: [',
      'stacks/blog/compose.yaml': two('windlass-test/web:1'),
    });
    const surveyed = await sim.survey();
    expect(surveyed.find((one) => one.name === 'shop')?.kind).toBe('invalid');
    await sim.apply();
    expect(sim.world.mutatingCalls().every((call) => !call.target.includes('shop'))).toBe(true);
    expect(sim.house.store.applied('shop')).not.toBeNull();
  });

  it('an engine that does not answer is unknown, never empty', async () => {
    const sim = await deployed();
    sim.world.setReachable(false);
    await expect(sim.survey()).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    sim.world.setReachable(true);
    expect(await sim.apply()).toBeNull();
  });

  it('a one-shot that fails fails the deploy, with its exit code', async () => {
    const sim = await deployed();
    sim.source.push({
      'stacks/shop/compose.yaml': `${two()}  job:\n    image: windlass-test/busybox:1\n    x-windlass: {oneShot: true}\n`,
    });
    sim.world.behave('shop/job', { kind: 'exit', code: 3, afterMs: 100 });
    const outcome = await sim.apply();
    expect(outcome?.failures.get('shop')).toMatchObject({ code: 'ONE_SHOT_FAILED' });
    expect(sim.house.store.applied('shop')?.desired.services.map((one) => one.name)).toEqual(['side', 'web']);
  });

  it('a crash loop is a failure inside the settle window, and is not deployed again each time', async () => {
    const sim = open();
    sim.world.behave('shop/web', behaviours.crashLoop);
    sim.source.push({
      'stacks/shop/compose.yaml': `services:\n  web:\n    image: windlass-test/busybox:1\n    restart: always\n`,
    });
    expect((await sim.apply())?.failures.get('shop')).toMatchObject({ code: 'SERVICE_CRASHED' });
    sim.world.clearCalls();
    expect((await sim.apply())?.failures.get('shop')).toMatchObject({ code: 'SERVICE_CRASHED' });
    expect(sim.world.mutatingCalls()).toEqual([]);
  });

  it('two stacks that publish the same port: a fault names both, and the others go on', async () => {
    const sim = open();
    const web = 'services:\n  web:\n    image: windlass-test/web:1\n    ports: ["127.0.0.1:28090:8080"]\n';
    sim.source.push({ 'stacks/a/compose.yaml': web, 'stacks/b/compose.yaml': web, 'stacks/c/compose.yaml': two() });
    const refused = (await sim.survey()).filter((one) => one.kind === 'refused');
    expect(refused.map((one) => (one.kind === 'refused' ? one.fault.message : ''))).toEqual([
      'stack b wants port 28090/tcp, which stack a has',
    ]);
    await sim.apply();
    expect(sim.world.containersOf('c')).toHaveLength(2);
    expect(sim.world.containersOf('b')).toHaveLength(0);
  });

  it('a port that a container outside the fleet has is named', async () => {
    const sim = open();
    sim.world.addForeign('squatter', { publishedPort: 28090 });
    sim.source.push({
      'stacks/a/compose.yaml': 'services:\n  web:\n    image: windlass-test/web:1\n    ports: ["28090:8080"]\n',
    });
    const [one] = await sim.survey();
    expect(one?.kind === 'refused' && one.fault.message).toBe(
      'stack a wants port 28090/tcp, which container squatter has',
    );
  });
});

describe('a crash of the controller', () => {
  it('at any engine call of a rollout: the next run converges, and what is not ours is untouched', async () => {
    const count = async (sim: SimHouse): Promise<number> => {
      sim.source.push({ 'stacks/shop/compose.yaml': two(), 'stacks/blog/compose.yaml': two() });
      await sim.apply();
      sim.source.push({
        'stacks/shop/compose.yaml': `${two('windlass-test/web:1')}networks: {back: {}}\n`,
        'stacks/blog/compose.yaml': two('windlass-test/web:2'),
      });
      const before = sim.world.count();
      await sim.apply();
      return sim.world.count() - before;
    };
    const probe = new SimHouse();
    const calls = await count(probe);
    probe.dispose();
    expect(calls).toBeGreaterThan(5);
    for (let at = 1; at <= calls; at++)
      for (const when of ['before', 'during', 'after'] as const) {
        const sim = new SimHouse(at);
        try {
          const stranger = sim.world.addForeign('stranger');
          sim.source.push({ 'stacks/shop/compose.yaml': two(), 'stacks/blog/compose.yaml': two() });
          await sim.apply();
          sim.source.push({
            'stacks/shop/compose.yaml': `${two('windlass-test/web:1')}networks: {back: {}}\n`,
            'stacks/blog/compose.yaml': two('windlass-test/web:2'),
          });
          sim.world.crashAt(at, when);
          await sim.apply().catch(() => {});
          sim.crash();
          await sim.clock.advance(60_000);
          for (let tries = 0; tries < 3 && (await sim.apply()) !== null; tries++);
          expect(await sim.apply(), `crash ${when} call ${at}`).toBeNull();
          expect(
            sim.world
              .containersOf('shop')
              .map((one) => [one.name, one.state])
              .sort(),
          ).toEqual([
            ['shop-side-1', 'running'],
            ['shop-web-1', 'running'],
          ]);
          expect(sim.world.container('stranger').id).toBe(stranger);
          expect(sim.house.store.attempt('shop')).toBeNull();
        } finally {
          sim.dispose();
        }
      }
  }, 60_000);
});
