// What a process that was killed in the middle of a hook left: `plan` says that it is there, `apply` brings it to its end first.
import { afterEach, describe, expect, it } from 'vitest';
import { Fault } from '../../src/core/fault.ts';
import type { Condition } from '../../src/core/status/condition.ts';
import type { Clock } from '../../src/ports/clock.ts';
import { SimArchives } from '../sim/sim-archives.ts';
import { SimHouse } from '../sim/sim-house.ts';
import { windlass } from './fake-terminal.ts';

/** Keeps alive what waits for it, as a dead process keeps its files from being closed by us. */
const forever = new Promise<void>(() => {});
const houses: SimHouse[] = [];
afterEach(() => {
  for (const house of houses.splice(0)) house.dispose();
});

const REST = '[{ scale: { side: 0 } }, { sleep: 20s }]';
const HOOKS = `  post_backup: ${REST}\n  pre_rollback: ${REST}\n  test: [{ sleep: 20s }, { sleep: 1s }]\n`;
const files = (value: string) => ({
  'stacks/shop/compose.yaml': `services:\n  web:\n    image: windlass-test/busybox:1\n    environment: { A: "${value}" }\n  side:\n    image: windlass-test/busybox:1\n`,
  'stacks/shop/stack.yaml': `apiVersion: windlass/v1\nkind: Stack\nhooks:\n${HOOKS}`,
  'stacks/other/compose.yaml': 'services:\n  web:\n    image: windlass-test/busybox:1\n',
});

/** Deployed; then `line` is killed in the middle of a sleep: nothing of that process goes on after it. */
async function killed(line: string, before: (sim: SimHouse) => Promise<void> = async () => {}) {
  const sim = new SimHouse();
  houses.push(sim);
  sim.source.push(files('1'));
  await sim.apply();
  await before(sim);
  let isDead = false;
  let isAsleep = false;
  const { clock, house } = sim;
  const mortal: Clock = {
    nowMs: () => clock.nowMs(),
    random: () => clock.random(),
    id: () => clock.id(),
    async sleep(ms, signal) {
      if (ms === 20_000) isAsleep = true;
      await clock.sleep(ms, signal);
      if (isDead) await new Promise(() => {});
    },
  };
  sim.house = { ...house, clock: mortal, settings: { ...house.settings, owner: 'dead' } };
  void windlass(sim, line.split(' '));
  while (!isAsleep) await sim.run(clock.sleep(100));
  isDead = true;
  sim.crash();
  Object.assign(sim.house.settings, { hasEnded: (owner: string) => owner === 'dead' });
  return { sim, run: (words: string) => sim.run(windlass(sim, words.split(' '))) };
}
const sides = (sim: SimHouse) =>
  sim.world.containersOf('shop').filter((one) => one.name.startsWith('shop-side') && one.state === 'running').length;
const newestHook = (sim: SimHouse) => sim.house.store.runs({ stack: 'shop', limit: 1 })[0];

describe('a suspended stack whose hooks were cut short', () => {
  const cut = async () => {
    const { sim, run } = await killed('hooks run shop post_backup');
    await run('suspend shop');
    expect(sides(sim)).toBe(0);
    return { sim, run };
  };

  it('gets its counts back by `apply`, which says so; the rest of it stays as it is', async () => {
    const { sim, run } = await cut();
    const { code, out, err } = await run('apply --yes');
    expect(out).toContain('shop: post_backup was interrupted\n    first this is brought to its end');
    expect(err).toContain('shop: post_backup was interrupted and is succeeded now');
    expect(code).toBe(0);
    expect(sides(sim)).toBe(1);
    expect([...sim.house.store.values('hook-run/').keys()]).toEqual([]);
    expect(newestHook(sim)).toMatchObject({ outcome: 'interrupted', hooks: [{ phase: 'post_backup' }] });
    expect((await run('plan --detailed-exitcode')).out).toContain('Plan: 1 held');
  });

  it('is only told of by `plan`, as data too', async () => {
    const { sim, run } = await cut();
    sim.world.clearCalls();
    const { code, out } = await run('plan --detailed-exitcode');
    expect(out).toContain('Plan: 1 interrupted stack to finish, 1 held');
    expect(code).toBe(2);
    expect(JSON.parse((await run('plan -o json')).out).interrupted).toEqual({ shop: ['post_backup was interrupted'] });
    expect(sim.world.mutatingCalls()).toEqual([]);
  });

  it('is left alone by an apply of another stack, by one that nobody says yes to, and while somebody works on it', async () => {
    const { sim, run } = await cut();
    await run('apply --yes --stack other');
    expect((await run('apply')).code).toBe(3);
    sim.house.store.breakLease('stack/shop');
    expect(sim.house.store.acquire('stack/shop', 'somebody', 600_000, sim.clock.nowMs())).not.toBeNull();
    expect((await run('apply --yes')).code).toBe(0);
    expect(sides(sim)).toBe(0);
    expect((await run('plan')).out).not.toContain('interrupted');
  });

  it('keeps nothing else from being deployed when the engine is away for the look at it afterwards', async () => {
    const { sim, run } = await cut();
    sim.source.push({ 'stacks/other/compose.yaml': 'services:\n  web:\n    image: windlass-test/busybox:2\n' });
    const { runtime, store } = sim.house;
    const observe = runtime.observe.bind(runtime);
    let isTold = false;
    runtime.observe = (options) => {
      const isLeft = store.values('hook-run/').size > 0;
      if (isLeft || isTold) return observe(options);
      isTold = true;
      return Promise.reject(new Fault('ENGINE_UNREACHABLE', 'away'));
    };
    const { code, err } = await run('apply --yes');
    expect([code, err]).toEqual([1, expect.stringMatching(/error\[ENGINE_UNREACHABLE\]: away\n {2}stack {4}shop/)]);
    expect(sides(sim)).toBe(1);
    expect(sim.world.container('other-web-1').spec.image).toBe('windlass-test/busybox:2');
  });

  it('gets them back after a rollback that was cut short, too', async () => {
    const { sim, run } = await killed('rollback shop --yes', async (one) => {
      one.source.push(files('2'));
      await one.apply();
    });
    await run('suspend shop');
    await run('apply --yes');
    expect(sides(sim)).toBe(1);
  });
});

it('a sequence that was cut short in a stack in which nothing differs is finished by `apply`', async () => {
  const { sim, run } = await killed('hooks run shop test');
  const { code, out, err } = await run('apply --yes');
  expect(out).toContain('Plan: 1 interrupted stack to finish');
  expect(err).toContain('shop: test was interrupted and is succeeded now');
  expect(code).toBe(0);
  expect(newestHook(sim)).toMatchObject({
    operation: 'test',
    outcome: 'interrupted',
    hooks: [{ outcome: 'succeeded' }],
  });
  expect((await run('apply --yes')).out).toContain('Plan: nothing to do');
});

it('a stack whose services a hook could not bring back is not Ready until they are, also while it is suspended', async () => {
  const sim = new SimHouse();
  houses.push(sim);
  const run = (words: string) => sim.run(windlass(sim, words.split(' ')));
  sim.source.push(files('1'));
  await run('apply --yes');
  const conditions = async () => {
    const { conditions: all } = JSON.parse((await run('get shop -o json')).out) as { conditions: Condition[] };
    return all
      .filter(({ type }) => type === 'Ready' || type === 'Stalled')
      .map(({ status, reason }) => [status, reason]);
  };
  const { start, up } = sim.house.runtime;
  const refuse = () => Promise.reject(new Fault('ENGINE_REFUSED', 'no'));
  Object.assign(sim.house.runtime, { start: refuse, up: refuse });
  const { code, err } = await run('hooks run shop post_backup');
  expect(err).toContain('error[RESTORE_FAILED]');
  expect(err).toContain('`windlass apply` then brings them back');
  expect(code).toBe(1);
  const down = [
    ['False', 'RestoreFailed'],
    ['True', 'RestoreFailed'],
  ];
  expect(await conditions()).toEqual(down);
  expect((await run('apply --yes')).code).toBe(1);
  expect(await conditions()).toEqual(down);
  await run('suspend shop');
  expect((await run('apply --yes')).code).toBe(1);
  expect(await conditions()).toEqual(down);
  Object.assign(sim.house.runtime, { start, up });
  expect((await run('apply --yes')).code).toBe(0);
  expect(sides(sim)).toBe(1);
  await run('resume shop');
  await run('hooks run shop post_backup');
  expect((await conditions())[1]).toEqual(['False', 'Idle']);
});

it('a stack that a killed backup left at rest is not Ready until it is back', async () => {
  const sim = new SimHouse();
  houses.push(sim);
  const disk = new SimArchives(sim);
  disk.volumes.set('shop_data', { 'rows.txt': 'all of them' });
  const run = (words: string) => sim.run(windlass(sim, words.split(' ')));
  sim.source.push({
    'stacks/shop/compose.yaml':
      'services: { web: { image: "windlass-test/busybox:1", volumes: ["data:/data"] } }\nvolumes: { data: {} }\n',
  });
  await run('apply --yes');
  let isReading = false;
  disk.during = () => {
    isReading = true;
    return forever;
  };
  Object.assign(sim.house.settings, { owner: 'dead' });
  void windlass(sim, ['backup', 'shop']);
  while (!isReading) await sim.run(sim.clock.sleep(100));
  const ready = async () => {
    const { conditions } = JSON.parse((await run('get shop -o json')).out) as { conditions: Condition[] };
    const { status, reason, message } = conditions.find(({ type }) => type === 'Ready')!;
    return { status, reason, message };
  };
  // While it is at work nothing is wrong.
  expect((await ready()).status).toBe('True');
  sim.crash();
  disk.open();
  disk.during = () => {};
  Object.assign(sim.house.settings, { owner: 'next', hasEnded: (owner: string) => owner === 'dead' });
  expect(sim.world.container('shop-web-1').state).toBe('exited');
  expect(await ready()).toEqual({
    status: 'False',
    reason: 'RestoreFailed',
    message: expect.stringContaining('a backup was interrupted'),
  });
  expect((await run('apply --yes')).code).toBe(0);
  expect(sim.world.container('shop-web-1').state).toBe('running');
  expect((await ready()).status).toBe('True');
});
