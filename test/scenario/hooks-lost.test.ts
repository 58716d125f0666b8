// Hooks of a stack whose commit is lost: its branch was rewritten and its objects are gone. What is on record is enough to take it away.
import { afterEach, describe, expect, it } from 'vitest';
import { Fault } from '../../src/core/fault.ts';
import { uninstall } from '../../src/operations/uninstall.ts';
import { windlass } from '../cli/fake-terminal.ts';
import { SimHouse } from '../sim/sim-house.ts';

const compose = (more = '') => `services:\n  web:\n    image: windlass-test/busybox:1\n${more}`;
const HOOKS = '  pre_uninstall: [{ job: say }]\n  post_uninstall: [{ job: say }]\n  test: [{ job: say }]\n';
const files = (hooks = HOOKS, more = '') => ({
  'stacks/shop/compose.yaml': compose(more),
  'stacks/shop/stack.yaml': `apiVersion: windlass/v1\nkind: Stack\nhooks:\n${hooks}`,
  'stacks/shop/say.job.yaml': 'apiVersion: windlass/v1\nkind: Job\nservice: web\nscript: echo hi\n',
});
const LOST = /its hooks cannot run: the commit [0-9a-f]{12} that it was deployed from is lost/;

const houses: SimHouse[] = [];
afterEach(() => {
  for (const house of houses.splice(0)) house.dispose();
});

/** Deployed from a commit of which nothing is left; then `next` is the whole history. */
async function lost(next: Record<string, string | null>) {
  const sim = new SimHouse();
  houses.push(sim);
  const commit = sim.source.push(files());
  await sim.apply();
  sim.source.push(next, []);
  sim.source.lose(commit);
  sim.crash();
  const run = (line: string) => sim.run(windlass(sim, line.split(' ')));
  return { sim, commit, run, applied: sim.house.store.applied('shop')! };
}
const GONE = { 'stacks/shop': null, 'stacks/other/compose.yaml': compose() };

describe('an uninstall', () => {
  it('takes the stack away and says that its hooks did not run: with the run and in an event', async () => {
    const { sim, applied } = await lost(GONE);
    const record = await sim.run(uninstall(sim.bench, applied, 'test', new AbortController().signal));
    expect(record).toMatchObject({ outcome: 'succeeded', message: expect.stringMatching(LOST) });
    expect(record.hooks).toEqual([]);
    expect(sim.world.containersOf('shop')).toEqual([]);
    expect(sim.house.store.applied('shop')).toBeNull();
    expect(sim.house.store.events({ stack: 'shop' })).toContainEqual(
      expect.objectContaining({ reason: 'HooksLost', level: 'warning', message: record.message }),
    );
  });

  it('is announced so by `plan` and `prune`, and told so when it is done', async () => {
    const { sim, run } = await lost(GONE);
    const plan = await run('plan');
    expect(plan.out).toMatch(/shop: left the fleet\n {2}- uninstall: [^\n]+\n {4}its hooks cannot run: the commit/);
    expect(JSON.parse((await run('plan -o json')).out).lostHooks).toEqual({ shop: expect.stringMatching(LOST) });
    const prune = await run('prune');
    expect(prune.out).toMatch(/- shop: containers and networks; volumes stay\n {4}its hooks cannot run/);
    const digest = /--confirm ([0-9a-f]+)/.exec(prune.err)?.[1];
    await run(`trust accept ${await sim.source.fetch()}`);
    expect((await run(`prune --confirm ${digest}`)).out).toMatch(
      /uninstalled shop; its volumes stay; its hooks cannot run/,
    );
  });

  it('names the hooks that it will run where the commit is there', async () => {
    const sim = new SimHouse();
    houses.push(sim);
    sim.source.push(files());
    await sim.apply();
    sim.source.push(GONE);
    const { out } = await sim.run(windlass(sim, ['plan']));
    expect(out).toMatch(
      /volumes stay\n {4}hook pre_uninstall before the change\n {6}1\. job say\n {4}hook post_uninstall after the change\n {6}1\. job say/,
    );
  });

  it('runs its hooks when git failed only once', async () => {
    const sim = new SimHouse();
    houses.push(sim);
    sim.source.push(files());
    await sim.apply();
    sim.source.push(GONE);
    sim.crash();
    const applied = sim.house.store.applied('shop')!;
    const read = sim.source.commit.bind(sim.source);
    let calls = 0;
    sim.source.commit = async (id) => {
      if (id === applied.revision && calls++ === 0) throw new Fault('GIT_OBJECT_MISSING', 'git ended');
      return read(id);
    };
    const record = await sim.run(uninstall(sim.bench, applied, 'test', new AbortController().signal));
    expect(record.hooks?.map((one) => one.phase)).toEqual(['pre_uninstall', 'post_uninstall']);
    expect(record.message).toBe('');
  });

  it.each<[string, (sim: SimHouse) => void, string]>([
    [
      'a source that does not answer',
      ({ source }) => {
        source.commit = () => Promise.reject(new Fault('GIT_UNREACHABLE', 'no answer'));
      },
      'no answer',
    ],
    [
      'a client of git that is killed each time',
      ({ source }) => {
        source.commit = () => Promise.reject(new Fault('GIT_OBJECT_MISSING', 'git ended while it read'));
      },
      'git ended while it read',
    ],
    [
      'a Compose that is killed each time',
      ({ house }) => {
        // What it says is the same as of a file that it refuses.
        const words = 'Docker Compose ended with exit code -1';
        house.runtime.resolve = () => Promise.reject(new Fault('COMPOSE_INVALID', words));
      },
      'Docker Compose ended with exit code -1',
    ],
  ])('is not done without its hooks for trouble that may pass: %s', async (_what, harm, words) => {
    const sim = new SimHouse();
    houses.push(sim);
    sim.source.push(files());
    await sim.apply();
    sim.source.push(GONE);
    const applied = sim.house.store.applied('shop')!;
    sim.crash();
    // As after an update of Compose: nothing that was resolved before is good any more.
    sim.house.store.putResolved({ ...sim.house.store.resolved('shop')!, inputDigest: 'other' });
    harm(sim);
    const work = uninstall(sim.bench, applied, 'test', new AbortController().signal);
    await expect(sim.run(work)).rejects.toThrow(words);
    expect(sim.house.store.applied('shop')).not.toBeNull();
    expect(sim.world.containersOf('shop')).not.toEqual([]);
  });
});

describe('`hooks run`', () => {
  it('runs what is declared now where that is the very same', async () => {
    const { run } = await lost({});
    const { code, err } = await run('hooks run shop test');
    expect(err).toContain('test of shop: succeeded');
    expect(code).toBe(0);
  });

  it.each([
    ['its service', files(HOOKS, '    environment: { A: b }\n')],
    ['its hooks', files(HOOKS.replace('test', 'post_update'))],
  ])('says what is lost and the cure where something else is declared now: %s', async (_what, next) => {
    const { sim, commit, run } = await lost(next);
    const before = sim.house.store.runs({}).length;
    const { code, err } = await run('hooks run shop test');
    expect(err).toContain(
      `error[GIT_OBJECT_MISSING]: no hook of shop can be run: the commit ${commit.slice(0, 12)} that it was deployed from is lost`,
    );
    expect(err).toContain('cure     `windlass apply --stack shop` deploys what is declared now');
    expect(code).toBe(1);
    expect(sim.house.store.runs({})).toHaveLength(before);
  });

  it('says so too of a stack that left the fleet', async () => {
    const { run } = await lost(GONE);
    expect((await run('hooks run shop test')).err).toContain('cure     it left the fleet: `windlass prune`');
  });
});

it('what this Windlass cannot read any more of the commit is lost too: the stack is taken away', async () => {
  const sim = new SimHouse();
  houses.push(sim);
  const app = (more: string) => ({
    shop: Object.fromEntries(
      Object.entries({
        'app.yaml': `apiVersion: windlass/v1\nkind: App\nversion: "1"\n${more}hooks: { pre_uninstall: [{ sleep: 1s }] }\n`,
        'compose.yaml': compose(),
      }).map(([name, text]) => [`shop/${name}`, text]),
    ),
  });
  const withApp = (more: string) => Object.assign(sim.house.settings, { bundled: app(more).shop });
  withApp('');
  sim.source.push({ 'stacks/shop.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: shop\n' });
  await sim.apply();
  const applied = sim.house.store.applied('shop')!;
  sim.crash();
  withApp('vars: { host: { required: true } }\n');
  sim.source.push({ 'stacks/shop.yaml': null, 'stacks/other/compose.yaml': compose() });
  const record = await sim.run(uninstall(sim.bench, applied, 'test', new AbortController().signal));
  expect(record).toMatchObject({ outcome: 'succeeded', message: expect.stringMatching(LOST) });
});
