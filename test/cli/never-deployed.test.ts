// What a person is told who does something by hand to a stack that was never deployed, or that nobody knows.
import { afterEach, describe, expect, it } from 'vitest';
import { SimHouse } from '../sim/sim-house.ts';
import { windlass } from './fake-terminal.ts';

const houses: SimHouse[] = [];
afterEach(() => {
  for (const house of houses.splice(0)) house.dispose();
});

function fleet(script = 'echo hi') {
  const sim = new SimHouse();
  houses.push(sim);
  sim.source.push({
    'stacks/shop/compose.yaml': 'services:\n  web:\n    image: windlass-test/busybox:1\n',
    'stacks/shop/say.job.yaml': `apiVersion: windlass/v1\nkind: Job\nservice: web\nscript: ${script}\n`,
    'stacks/shop/stack.yaml':
      'apiVersion: windlass/v1\nkind: Stack\nhooks:\n  test: [{ scale: { web: 0 } }]\n  post_install: [{ job: say }]\n',
  });
  const run = (line: string) => sim.run(windlass(sim, line.split(' ')));
  return { sim, run };
}

const BY_HAND = [
  'hooks run NAME test',
  'hooks run NAME post_update',
  'stack test NAME',
  'stack scale NAME web=0',
  'stack stop NAME',
  'stack start NAME',
  'stack restart NAME',
  'rollback NAME --yes',
  'backup NAME',
  'logs NAME',
];

describe('by hand', () => {
  it.each(BY_HAND)(
    '`windlass %s` of a stack that was never deployed says so and what to do, and leaves nothing',
    async (line) => {
      const { sim, run } = fleet();
      const { code, err } = await run(line.replace('NAME', 'shop'));
      expect(err).toContain('error[NOT_FOUND]: stack shop is not deployed: `windlass apply --stack shop` deploys it');
      expect(code).toBe(3);
      expect(sim.house.store.runs({})).toEqual([]);
      expect(sim.house.store.leases()).toEqual([]);
      expect(sim.house.store.holds('shop')).toEqual([]);
      expect(sim.world.mutatingCalls()).toEqual([]);
    },
  );

  it.each([
    ...BY_HAND,
    'suspend NAME',
    'resume NAME',
    'hooks show NAME',
    'hooks graph NAME test',
    'hooks log NAME test',
  ])('`windlass %s` of a stack that nobody knows says which one was probably meant', async (line) => {
    const { sim, run } = fleet();
    await sim.apply();
    const { code, err } = await run(line.replace('NAME', 'shpo'));
    expect(err).toMatch(/^error\[NOT_FOUND\]: there is no stack shpo at main@.*; did you mean shop\?$/m);
    expect(code).toBe(3);
    expect(sim.house.store.runs({ stack: 'shpo' })).toEqual([]);
    expect(sim.house.store.holds('shpo')).toEqual([]);
  });

  it.each(BY_HAND.filter((line) => !line.startsWith('logs')))(
    '`windlass %s` leaves a project of that name alone that somebody else runs, here or from another state directory',
    async (line) => {
      const { sim, run } = fleet();
      await sim.apply();
      // As this state directory would find it that never deployed it.
      sim.house.store.forget('shop');
      for (const { spec } of sim.world.containersOf('shop'))
        Object.assign(spec.labels, { 'com.docker.compose.project.working_dir': '/srv/shop' });
      expect((await run('plan')).out).toContain('error[PROJECT_CONFLICT]');
      await run('suspend shop');
      const before = sim.house.store.runs({}).length;
      sim.world.clearCalls();
      const { code, err } = await run(line.replace('NAME', 'shop'));
      expect(err).toContain('error[NOT_FOUND]: stack shop is not deployed: `windlass apply --stack shop` deploys it');
      expect(code).toBe(3);
      expect(sim.world.mutatingCalls()).toEqual([]);
      expect(sim.world.containersOf('shop').map((one) => one.state)).toContain('running');
      expect(sim.house.store.holds('shop').map((one) => one.kind)).toEqual(['suspended']);
      expect(sim.house.store.runs({})).toHaveLength(before);
    },
  );

  it('a suspended stack that was never deployed is not scaled', async () => {
    const { run } = fleet();
    await run('suspend shop');
    expect((await run('stack scale shop web=0')).err).toContain('stack shop is not deployed');
  });

  it('a hook phase of a stack that cannot be read and was never deployed says what is wrong in its file', async () => {
    const { sim, run } = fleet();
    sim.source.push({ 'stacks/shop/stack.yaml': 'kind: [' });
    const { code, err } = await run('hooks run shop test');
    expect(err).toContain('stacks/shop/stack.yaml:1:');
    expect(code).toBe(3);
  });

  it('a hook phase runs after a first deploy that failed', async () => {
    const { sim, run } = fleet('exit 3');
    expect([...(await sim.apply())!.failures.keys()]).toEqual(['shop']);
    const { code, err } = await run('hooks run shop test');
    expect(err).toContain('test of shop: succeeded');
    expect(code).toBe(0);
  });
});
