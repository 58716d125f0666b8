// What people who come from Helm rely on, over the whole corridor on the simulated world. The table is in src/hooks/README.md.
import { afterEach, describe, expect, it } from 'vitest';
import { behaviours } from '../../src/adapters/sim/behaviour.ts';
import { windlass } from '../cli/fake-terminal.ts';
import { SimHouse } from '../sim/sim-house.ts';

const IMAGE = 'windlass-test/busybox:1';
const web = (more = '') => `services:\n  web:\n    image: ${IMAGE}\n${more}`;
const hooks = (phases: string): string => `apiVersion: windlass/v1\nkind: Stack\nhooks: ${phases}\n`;
const job = (script: string, more = ''): string =>
  `apiVersion: windlass/v1\nkind: Job\nservice: web\nscript: ${JSON.stringify(script)}\n${more}`;

const houses: SimHouse[] = [];
afterEach(() => {
  for (const house of houses.splice(0)) house.dispose();
});

/** A fleet with one stack, and Windlass on it. */
function fleet(files: Record<string, string>) {
  const sim = new SimHouse();
  houses.push(sim);
  sim.source.push(files);
  return {
    sim,
    push: (more: Record<string, string | null>) => sim.source.push(more),
    run: (...words: string[]) => sim.run(windlass(sim, words)),
    /** Names of the stack's containers, not those of its jobs. */
    running: (): readonly string[] =>
      sim.world
        .containersOf('shop')
        .filter((one) => one.state === 'running')
        .map((one) => one.name),
    phases: (): readonly string[] =>
      (sim.house.store.runs({ stack: 'shop', limit: 1 })[0]?.hooks ?? []).map((one) => `${one.phase} ${one.outcome}`),
    tails: (): readonly string[] =>
      (sim.house.store.runs({ stack: 'shop', limit: 1 })[0]?.hooks ?? []).flatMap((hook) =>
        hook.actions.flatMap((action) => action.tail),
      ),
  };
}

const shop = (phases: string, jobs: Record<string, string>, compose = web()): Record<string, string> => ({
  'stacks/shop/compose.yaml': compose,
  'stacks/shop/stack.yaml': hooks(phases),
  ...Object.fromEntries(Object.entries(jobs).map(([name, text]) => [`stacks/shop/${name}.job.yaml`, text])),
});

describe('a hook of Helm, here', () => {
  it('pre_install runs before anything of the stack is there; when it fails nothing is made', async () => {
    const { run, running, phases } = fleet(
      shop('{pre_install: [{job: check}], post_install: [{job: seed}]}', { check: job('exit 1'), seed: job('true') }),
    );
    const { code, err } = await run('apply', '--yes');
    expect([code, err]).toEqual([1, expect.stringMatching(/HOOK_FAILED.*pre_install/s)]);
    expect(running()).toEqual([]);
    expect(phases()).toEqual(['pre_install failed']);
  });

  it('pre_update that fails leaves what runs as it is', async () => {
    const { run, push, sim, running, phases } = fleet(shop('{pre_update: [{job: check}]}', { check: job('exit 1') }));
    expect((await run('apply', '--yes')).code).toBe(0);
    const before = sim.world.container('shop-web-1').id;
    push({ 'stacks/shop/compose.yaml': web('    environment: { MODE: fast }\n') });
    expect((await run('apply', '--yes')).code).toBe(1);
    expect(running()).toEqual(['shop-web-1']);
    expect(sim.world.container('shop-web-1').id).toBe(before);
    expect(phases()).toEqual(['pre_update failed']);
  });

  it('post_install waits until everything is ready, as with --wait', async () => {
    const check = '    healthcheck: { test: ["CMD", "true"] }\n';
    // Without `service`: the simulated world lets a job of a service behave as the service does.
    const seed = job('true').replace('service: web', `image: ${IMAGE}`);
    const { run, sim, phases } = fleet(shop('{post_install: [{job: seed}]}', { seed }, web(check)));
    sim.world.behave('shop/web', behaviours.slowStart(20_000));
    expect((await run('apply', '--yes')).code).toBe(0);
    const [hook] = sim.house.store.runs({ stack: 'shop', limit: 1 })[0]?.hooks ?? [];
    const { startedAtMs } = sim.world.container('shop-web-1');
    expect((hook?.startedAtMs ?? 0) - startedAtMs).toBeGreaterThanOrEqual(20_000);
    expect(phases()).toEqual(['post_install succeeded']);
  });

  it('a post_install that fails fails the deploy, and is what the next try begins with', async () => {
    const { run, push, sim, running, phases } = fleet(shop('{post_install: [{job: seed}]}', { seed: job('exit 3') }));
    const { code, err } = await run('apply', '--yes');
    expect([code, err]).toEqual([1, expect.stringMatching(/HOOK_FAILED.*seed/s)]);
    expect(running()).toEqual(['shop-web-1']);
    sim.world.clearCalls();
    push({ 'stacks/shop/seed.job.yaml': job('true') });
    expect((await run('apply', '--yes')).code).toBe(0);
    expect(phases()).toEqual(['post_install succeeded']);
    expect(sim.world.mutatingCalls().map((call) => call.method)).not.toContain('up');
  });

  it('pre_uninstall runs while the stack is there, post_uninstall when it is gone', async () => {
    const { run, push, sim } = fleet({
      ...shop('{pre_uninstall: [{job: drain}], post_uninstall: [{job: tell}]}', {
        drain: job('echo draining'),
        tell: job('echo gone'),
      }),
      'stacks/blog/compose.yaml': web(),
      'stacks/news/compose.yaml': web(),
      'stacks/wiki/compose.yaml': web(),
    });
    expect((await run('apply', '--yes')).code).toBe(0);
    push({
      'stacks/shop/compose.yaml': null,
      'stacks/shop/stack.yaml': null,
      'stacks/shop/drain.job.yaml': null,
      'stacks/shop/tell.job.yaml': null,
    });
    const { code, err } = await run('apply', '--yes');
    expect([code, err]).toEqual([0, err]);
    const ran = sim.house.store.runs({ stack: 'shop', limit: 1 })[0];
    expect([ran?.operation, ...(ran?.hooks ?? []).map((one) => `${one.phase} ${one.outcome}`)]).toEqual([
      'uninstall',
      'pre_uninstall succeeded',
      'post_uninstall succeeded',
    ]);
    expect(sim.world.containersOf('shop').filter((one) => one.name === 'shop-web-1')).toEqual([]);
  });

  it('pre_rollback and post_rollback run instead of update hooks', async () => {
    const { run, push, phases } = fleet(
      shop('{pre_update: [{job: a}], pre_rollback: [{job: a}], post_rollback: [{job: a}]}', { a: job('true') }),
    );
    expect((await run('apply', '--yes')).code).toBe(0);
    push({ 'stacks/shop/compose.yaml': web('    environment: { MODE: fast }\n') });
    expect((await run('apply', '--yes')).code).toBe(0);
    expect(phases()).toEqual(['pre_update succeeded']);
    const { code, err } = await run('rollback', 'shop', '--yes');
    expect([code, err]).toEqual([0, err]);
    expect(phases()).toEqual(['pre_rollback succeeded', 'post_rollback succeeded']);
  });

  it('sees the values of the stack: the environment of a job of an app is a template', async () => {
    const app = 'apiVersion: windlass/v1\nkind: App\nversion: "1"\n';
    const { sim, run } = fleet({
      'apps/shop/app.yaml': `${app}vars: {size: {default: "10"}}\nhooks: {post_install: [{job: seed}]}\n`,
      'apps/shop/compose.yaml': web(),
      'apps/shop/seed.job.yaml': job('true', 'environment: { SIZE: "{{ vars.size }}", OF: "{{ stack.name }}" }\n'),
      'stacks/shop.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: shop\nvars: {size: "20"}\n',
    });
    const shown = JSON.parse((await run('hooks', 'show', 'shop', '-o', 'json')).out);
    expect(shown[0].actions[0].job.environment).toEqual({ SIZE: '20', OF: 'shop' });
    expect((await run('apply', '--yes')).code).toBe(0);
    expect(sim.house.store.runs({ stack: 'shop', limit: 1 })[0]?.hooks).toHaveLength(1);
  });

  it('may stand in several phases: lists are shared by anchor and alias', async () => {
    const { run, push, phases } = fleet(
      shop('\n  post_install: &seed [{job: seed}]\n  post_update: *seed', { seed: job('echo seeded') }),
    );
    expect((await run('apply', '--yes')).code).toBe(0);
    expect(phases()).toEqual(['post_install succeeded']);
    push({ 'stacks/shop/compose.yaml': web('    environment: { MODE: fast }\n') });
    expect((await run('apply', '--yes')).code).toBe(0);
    expect(phases()).toEqual(['post_update succeeded']);
  });

  it('keeps what a job said in the history, whatever its delete_policy', async () => {
    const { sim, run, tails } = fleet(
      shop('{post_install: [{job: seed}]}', { seed: job('echo 12 rows', 'delete_policy: succeeded\n') }),
    );
    expect((await run('apply', '--yes')).code).toBe(0);
    expect(tails()).toEqual(['12 rows']);
    expect(sim.world.containersOf('shop').map((one) => one.name)).toEqual(['shop-web-1']);
  });

  it('is not run by a heal, nor when nothing is to be done', async () => {
    const { sim, run, phases } = fleet(
      shop('{pre_update: [{job: a}], post_update: [{job: a}], post_deployed: [{job: a}]}', { a: job('true') }),
    );
    expect((await run('apply', '--yes')).code).toBe(0);
    sim.world.remove('shop-web-1');
    expect((await run('apply', '--yes')).code).toBe(0);
    expect((await run('apply', '--yes')).code).toBe(0);
    const [newest] = sim.house.store.runs({ stack: 'shop', limit: 1 });
    expect(newest).toMatchObject({ operation: 'heal', outcome: 'succeeded' });
    expect(phases()).toEqual([]);
  });
});
