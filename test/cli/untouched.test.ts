// Stacks that an apply or a pass by hand does nothing to: what is said of them afterwards is what a controller would say.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { SimHouse } from '../sim/sim-house.ts';
import { windlass } from './fake-terminal.ts';

const IMAGE = 'windlass-test/busybox:1';
const web = (image = IMAGE) => `services:\n  web:\n    image: ${image}\n`;
const on = (name: string) => `apiVersion: windlass/v1\nkind: Stack\nintegrate: { db: ${name} }\n`;
const SHOP = 'stacks/shop/compose.yaml';

const houses: SimHouse[] = [];
afterEach(() => {
  for (const house of houses.splice(0)) house.dispose();
});

async function fleet(files: Record<string, string> = {}) {
  const sim = new SimHouse();
  houses.push(sim);
  sim.source.push({ [SHOP]: web(), 'stacks/blog/compose.yaml': web(), ...files });
  const run = (line: string) => windlass(sim, line.split(' '));
  const conditions = async (name: string): Promise<readonly string[]> => {
    const { conditions } = JSON.parse((await run(`get ${name} -o json`)).out) as {
      conditions: readonly { type: string; status: string; reason: string }[];
    };
    return conditions.map(({ type, status, reason }) => `${type} ${status} ${reason}`);
  };
  return { sim, run, conditions };
}

describe('a commit that was refused and taken back', () => {
  const broken = async ({ sim, run, conditions }: Awaited<ReturnType<typeof fleet>>) => {
    sim.source.push({ [SHOP]: 'services: [' });
    expect((await run('apply --yes')).code).not.toBe(0);
    expect(await conditions('shop')).toContain('Ready False InvalidSpec');
    sim.source.push({ [SHOP]: web() });
  };
  const leftBehind = async ({ sim, run, conditions }: Awaited<ReturnType<typeof fleet>>) => {
    mkdirSync(join(sim.dir, 'stacks/shop/tree/stacks/shop/data'), { recursive: true });
    writeFileSync(join(sim.dir, 'stacks/shop/tree/stacks/shop/data/db'), 'precious');
    sim.source.push({ [SHOP]: null, 'shop/compose.yaml': web(IMAGE.replace('busybox', 'web')) });
    expect((await run('apply --yes')).code).toBe(1);
    expect(await conditions('shop')).toContain('Ready False VolumeChanged');
    sim.source.push({ [SHOP]: web(), 'shop/compose.yaml': null });
  };

  for (const [what, refused] of Object.entries({ 'a broken file': broken, 'data that would stay behind': leftBehind }))
    for (const line of ['apply --yes', 'apply --yes --stack shop', 'reconcile shop'])
      it(`for ${what} is over with \`${line}\`, which finds nothing to do`, async () => {
        const desk = await fleet();
        const { run, conditions, sim } = desk;
        await run('apply --yes');
        await refused(desk);
        const tip = await sim.house.source.fetch();
        expect((await run(line)).code).toBe(0);
        expect(await conditions('shop')).toEqual(
          expect.arrayContaining(['Ready True Succeeded', expect.stringMatching(/^Stalled False/)]),
        );
        expect(sim.house.store.conditions('shop')[0]?.revision).toBe(tip);
        expect((await run('wait shop --for Ready --timeout 1s')).code).toBe(0);
      });

  it('is over beside a stack that is deployed, and stays as it is for an apply of that one alone', async () => {
    const desk = await fleet();
    const { run, conditions, sim } = desk;
    await run('apply --yes');
    await broken(desk);
    sim.source.push({ 'stacks/blog/compose.yaml': web('windlass-test/web:1') });
    expect((await run('apply --yes --stack blog')).code).toBe(0);
    expect(await conditions('shop')).toContain('Ready False InvalidSpec');
    sim.source.push({ 'stacks/blog/compose.yaml': web() });
    expect((await run('apply --yes')).err).toMatch(/\n1 deployed\n$/);
    expect(await conditions('shop')).toContain('Ready True Succeeded');
  });

  it('leaves a held stack its own words, and one that somebody works on theirs', async () => {
    const desk = await fleet();
    const { run, conditions, sim } = desk;
    await run('apply --yes');
    await broken(desk);
    const elsewhere = sim.house.store.acquire('stack/shop', 'elsewhere:1', 60_000, sim.clock.nowMs());
    expect(elsewhere).not.toBeNull();
    await run('apply --yes');
    expect(await conditions('shop')).toContain('Ready False InvalidSpec');
    sim.house.store.breakLease('stack/shop');
    await run('suspend shop --reason moving');
    expect((await run('apply --yes')).code).toBe(0);
    expect(await conditions('shop')).toContain('Ready Unknown Suspended');
  });
});

it('a pass by hand says of a broken stack that it is, as an apply does', async () => {
  const { sim, run, conditions } = await fleet();
  await run('apply --yes');
  sim.source.push({ [SHOP]: 'services: [' });
  expect((await run('reconcile shop')).code).toBe(1);
  expect(await conditions('shop')).toContain('Ready False InvalidSpec');
});

it('what was not begun since its provider failed has a row that names that provider, also a provider that waits itself', async () => {
  const { sim, run, conditions } = await fleet({
    'stacks/ill/compose.yaml': web('windlass-test/nothing:1'),
    'stacks/next/compose.yaml': web(),
    'stacks/next/stack.yaml': on('ill'),
    'stacks/last/compose.yaml': web(),
    'stacks/last/stack.yaml': on('next'),
  });
  expect((await run('apply --yes')).err).toMatch(/1 failed, 2 stacks not begun\n$/);
  const { out } = await run('get');
  expect(out).toMatch(/^next .*DependencyNotReady.*$/m);
  expect(out).toMatch(/^last .*DependencyNotReady.*$/m);
  expect((await run('get next')).out).toContain('waits for ill');
  expect((await run('get last')).out).toContain('waits for next');
  expect(await conditions('next')).toContain('Ready False DependencyNotReady');
  sim.source.push({ 'stacks/ill/compose.yaml': web() });
  expect((await run('apply --yes')).err).toMatch(/\n3 deployed\n$/);
  expect(await conditions('last')).toContain('Ready True Succeeded');
});

describe('plan --detailed-exitcode', () => {
  it('ends with 2 when an apply would only finish a deploy', async () => {
    const { sim, run } = await fleet();
    await run('apply --yes');
    const applied = sim.house.store.applied('shop')!;
    sim.house.store.putAttempt({
      stack: 'shop',
      digest: applied.desired.digest,
      revision: applied.revision,
      count: 1,
      startedAtMs: sim.clock.nowMs(),
      operation: 'update',
      completedPhases: [],
      converged: false,
      lastFault: null,
    });
    const { code, out } = await run('plan --detailed-exitcode');
    expect([code, out]).toEqual([2, expect.stringContaining('Plan: 1 deploy to finish')]);
    expect((await run('plan')).code).toBe(0);
    expect((await run('apply --yes')).err).toMatch(/1 deployed/);
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
  });

  it('ends with 2 when an apply would only remember a stack', async () => {
    const { sim, run } = await fleet();
    await run('apply --yes');
    const applied = sim.house.store.applied('shop')!;
    sim.house.store.putApplied({ ...applied, hooks: 'other' });
    const { code, out } = await run('plan --detailed-exitcode');
    expect([code, out]).toEqual([2, expect.stringContaining('Plan: 1 stack to remember')]);
    expect((await run('apply --yes')).err).toMatch(/1 deployed/);
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
  });
});
