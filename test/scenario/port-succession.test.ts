// A published port changes hands within one commit: what runs is taken away only for something that comes.
import { afterEach, describe, expect, it } from 'vitest';
import { Controller } from '../../src/controller/controller.ts';
import { windlass } from '../cli/fake-terminal.ts';
import { SimHouse } from '../sim/sim-house.ts';

const on = (port: number, image = 'busybox:1') =>
  `services:\n  w:\n    image: windlass-test/${image}\n    ports: ["127.0.0.1:${port}:80"]\n`;
const PLAIN = 'services:\n  w:\n    image: windlass-test/busybox:1\n';

describe('a port that changes hands', () => {
  const houses: SimHouse[] = [];
  afterEach(() => {
    for (const house of houses.splice(0)) house.dispose();
  });
  async function deployed(files: Record<string, string>): Promise<SimHouse> {
    const sim = new SimHouse();
    houses.push(sim);
    sim.source.push(files);
    expect((await windlass(sim, ['apply', '--yes'])).code).toBe(0);
    return sim;
  }
  const run = (sim: SimHouse, line: string) => windlass(sim, line.split(' '));
  const running = (sim: SimHouse) =>
    ['old', 'new', 'a', 'b'].filter((stack) => sim.world.containersOf(stack).some((one) => one.state === 'running'));
  const renamed = (image?: string) => ({ 'stacks/old': null, 'stacks/new/compose.yaml': on(28091, image) });

  it('a stack that is renamed: one apply takes the old one away right before the new one comes, and the plan says so', async () => {
    const sim = await deployed({ 'stacks/old/compose.yaml': on(28091), 'stacks/a/compose.yaml': PLAIN });
    sim.source.push(renamed());
    const plan = await run(sim, 'plan');
    expect(plan.code).toBe(0);
    expect(plan.out).toContain('volumes stay; right before new comes, which takes its port 28091/tcp over');
    const { code, err } = await run(sim, 'apply --yes');
    expect([code, err]).toEqual([0, expect.stringContaining('uninstalled old')]);
    expect(err).toContain('1 deployed, 1 uninstalled');
    expect(running(sim)).toEqual(['new', 'a']);
    expect((await run(sim, 'plan')).out).toContain('nothing to do');
  });

  it('the old one runs on when the new one cannot come, and apply says so', async () => {
    const sim = await deployed({ 'stacks/old/compose.yaml': on(28091), 'stacks/a/compose.yaml': PLAIN });
    sim.source.push(renamed('web:7'));
    const { code, err } = await run(sim, 'apply --yes');
    expect(code).toBe(1);
    expect(err).toContain('left old running: new, which takes its port 28091/tcp over, was not deployed');
    expect(running(sim)).toEqual(['old', 'a']);
    sim.world.addImage('windlass-test/web:7');
    expect((await run(sim, 'apply --yes')).code).toBe(0);
    expect(running(sim)).toEqual(['new', 'a']);
  });

  it('is refused where the old one is to stay', async () => {
    const sim = await deployed({ 'stacks/old/compose.yaml': on(28091), 'stacks/a/compose.yaml': PLAIN });
    sim.source.push(renamed());
    for (const line of ['apply --yes --no-prune', 'apply --yes --stack new']) {
      const { code, err, out } = await run(sim, line);
      expect(code).toBe(1);
      expect(out + err).toContain('which stack old has; that stack left the fleet and is not taken away yet');
      expect(running(sim)).toEqual(['old', 'a']);
    }
  });

  it('the controller brings the new one, and until it can, the old one runs', async () => {
    const sim = await deployed({ 'stacks/old/compose.yaml': on(28091), 'stacks/a/compose.yaml': PLAIN });
    const controller = new Controller({ house: sim.house, pollMs: 1_000, intervalMs: 1e9, log: () => {} });
    await sim.run(controller.start());
    try {
      sim.source.push(renamed('web:7'));
      const failed = () => sim.house.store.runs({ stack: 'new', limit: 9 }).some((one) => one.outcome === 'failed');
      for (let tries = 0; tries < 100 && !failed(); tries++) await sim.run(sim.clock.sleep(100));
      expect(failed()).toBe(true);
      expect(running(sim)).toEqual(['old', 'a']);
      sim.world.addImage('windlass-test/web:7');
      const ready = () => sim.house.store.conditions('new').find((one) => one.type === 'Ready')?.status;
      for (let tries = 0; tries < 100 && ready() !== 'True'; tries++) await sim.run(sim.clock.sleep(500));
      expect(running(sim)).toEqual(['new', 'a']);
      expect(sim.house.store.events({ stack: 'old', limit: 9 }).map((one) => one.reason)).toContain('Uninstalled');
    } finally {
      await sim.run(controller.stop());
    }
  });

  it('nothing that is declared goes for a stack that a person took back to an older commit', async () => {
    const sim = await deployed({ 'stacks/a/compose.yaml': on(28091) });
    sim.source.push({ 'stacks/a/compose.yaml': on(28092) });
    await run(sim, 'apply --yes');
    sim.source.push({ 'stacks/b/compose.yaml': on(28091) });
    await run(sim, 'apply --yes');
    expect(running(sim)).toEqual(['a', 'b']);
    await run(sim, 'rollback a --yes');
    const controller = new Controller({ house: sim.house, pollMs: 1_000, intervalMs: 1e9, log: () => {} });
    await sim.run(controller.start());
    await sim.run(sim.clock.sleep(60_000));
    await sim.run(controller.stop());
    expect(running(sim)).toContain('b');
    expect(sim.house.store.events({ stack: 'b', limit: 50 }).map((one) => one.reason)).not.toContain('Uninstalled');
  });

  it('a drifted stack gets its port back from one that left the fleet', async () => {
    const sim = await deployed({ 'stacks/a/compose.yaml': on(28091) });
    for (const one of sim.world.containersOf('a'))
      await sim.run(sim.house.runtime.stop(one.id, new AbortController().signal));
    sim.source.push({ 'stacks/a': null, 'stacks/old/compose.yaml': on(28091) });
    await run(sim, 'apply --yes --no-prune');
    expect(running(sim)).toEqual(['old']);
    sim.source.push({ 'stacks/a/compose.yaml': on(28091), 'stacks/old': null });
    const controller = new Controller({ house: sim.house, pollMs: 1_000, intervalMs: 1e9, log: () => {} });
    await sim.run(controller.start());
    for (let tries = 0; tries < 60 && String(running(sim)) !== 'a'; tries++) await sim.run(sim.clock.sleep(500));
    await sim.run(controller.stop());
    expect(running(sim)).toEqual(['a']);
  });

  it('two stacks that swap their ports in one commit are told to do it in two', async () => {
    const sim = await deployed({ 'stacks/a/compose.yaml': on(28091), 'stacks/b/compose.yaml': on(28092) });
    sim.source.push({ 'stacks/a/compose.yaml': on(28092), 'stacks/b/compose.yaml': on(28091) });
    const { code, out } = await run(sim, 'plan');
    expect(code).toBe(1);
    expect(out).toContain(
      'stack a wants port 28092/tcp, which stack b has; b waits in its turn for what a has: let one of them publish a free port in a commit of its own first, then swap',
    );
    expect(running(sim)).toEqual(['a', 'b']);
  });
});

describe('what cannot be had twice', () => {
  const houses: SimHouse[] = [];
  afterEach(() => {
    for (const house of houses.splice(0)) house.dispose();
  });
  const fleet = (files: Readonly<Record<string, string>>) => {
    const sim = new SimHouse();
    houses.push(sim);
    sim.source.push(
      Object.fromEntries(Object.entries(files).map(([name, text]) => [`stacks/${name}/compose.yaml`, text])),
    );
    return { sim, run: (line: string) => windlass(sim, line.split(' ')) };
  };
  const web = (more: string) => `services:\n  w:\n    image: windlass-test/busybox:1\n    ${more}\n`;
  const NAMED = web('container_name: proxy');

  it('a container name of two stacks goes to who has it, else to the first, and the other one is told', async () => {
    const { sim, run } = fleet({ b: NAMED });
    expect((await run('apply --yes')).code).toBe(0);
    sim.source.push({ 'stacks/a/compose.yaml': NAMED, 'stacks/c/compose.yaml': web('container_name: other') });
    const { out } = await run('plan');
    expect(out).toContain('stack a wants the container name proxy, which stack b has');
    expect(out).toMatch(/NAME_TAKEN[\s\S]*another `container_name`/);
    const { code, out: said } = await run('validate');
    expect([code, said]).toEqual([
      0,
      expect.stringContaining('stack b wants the container name proxy, which stack a has'),
    ]);
    await run('apply --yes');
    expect([...sim.world.engine.containers.values()].map((one) => one.spec.name).sort()).toEqual(['other', 'proxy']);
    expect((await run('plan b c')).out).toContain('nothing to do');
  });

  it('a name that another stack gives up in the same commit is not taken before: nothing is taken away for it', async () => {
    const OTHER = web('container_name: other');
    const { sim, run } = fleet({ a: web('user: "0"'), b: NAMED });
    await run('apply --yes');
    const before = sim.world.containersOf('a').map((one) => one.id);
    sim.source.push({ 'stacks/a/compose.yaml': NAMED, 'stacks/b/compose.yaml': OTHER });
    const why =
      'stack a wants the container name proxy, which stack b has; b gives it up in this commit: a can be deployed after it';
    expect((await run('plan')).out).toContain(why);
    const first = await run('apply --yes');
    expect([first.code, first.out]).toEqual([1, expect.stringContaining(why)]);
    expect(sim.world.containersOf('a').map((one) => one.id)).toEqual(before);
    expect((await run('apply --yes')).code).toBe(0);
    expect(sim.world.containersOf('a').map((one) => one.spec.name)).toEqual(['proxy']);
    sim.source.push({ 'stacks/a/compose.yaml': OTHER, 'stacks/b/compose.yaml': NAMED });
    expect((await run('plan')).out).toContain(
      'let one of them take another container name in a commit of its own first',
    );
  });

  it('a name of a stack that leaves the fleet in the same commit is taken over right after it went', async () => {
    const { sim, run } = fleet({ old: NAMED });
    await run('apply --yes');
    sim.source.push({ 'stacks/new/compose.yaml': NAMED, 'stacks/old/compose.yaml': null });
    expect((await run('plan')).out).toContain('right before new comes, which takes its container name proxy over');
    expect((await run('apply --yes')).code).toBe(0);
    expect(sim.world.containersOf('new').map((one) => one.spec.name)).toEqual(['proxy']);
    expect(sim.world.containersOf('old')).toEqual([]);
  });

  it.each([
    ['replicas', web('ports: ["127.0.0.1:38320:80"]\n    scale: 2'), 'for each of 2 replicas of w'],
    [
      'two services',
      `${web('ports: ["38320:80"]')}  x:\n    image: windlass-test/busybox:1\n    ports: ["38320:81"]\n`,
      'for w and for x',
    ],
  ])('a port for several containers of one stack is told by plan and validate: %s', async (_, compose, words) => {
    const { sim, run } = fleet({ a: compose });
    const summary = `stack a wants port 38320/tcp ${words}`;
    expect((await run('plan')).out).toContain(summary);
    const { code, out } = await run('validate');
    expect([code, out]).toEqual([3, expect.stringContaining(summary)]);
    expect((await run('apply --yes')).code).not.toBe(0);
    expect(sim.world.engine.containers.size).toBe(0);
  });

  it.each([
    ['a port that the engine chooses', web('ports: ["80"]\n    scale: 2')],
    ['two addresses', web('ports: ["127.0.0.1:38320:80", "127.0.0.2:38320:80"]')],
    ['the network of the host', web('ports: ["38320:80"]\n    network_mode: host\n    scale: 2')],
    ['none at all', web('ports: ["38320:80"]\n    scale: 0')],
  ])('%s is no clash', async (_, compose) => {
    const { run } = fleet({ a: compose });
    expect((await run('plan')).out).not.toContain('PORT_TAKEN');
    expect((await run('validate')).out).not.toContain('PORT_TAKEN');
  });
});
