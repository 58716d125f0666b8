// What hooks name is held against the resolved stack when a deploy is planned: nothing is changed when something of it is wrong.
import { afterEach, describe, expect, it } from 'vitest';
import { Fault } from '../../src/core/fault.ts';
import { runByHand } from '../../src/operations/hook-by-hand.ts';
import { windlass } from '../cli/fake-terminal.ts';
import { SimHouse } from '../sim/sim-house.ts';

const IMAGE = 'windlass-test/busybox:1';
const app = (hooks: string): string =>
  `apiVersion: windlass/v1\nkind: App\nversion: "1"\nvars: { host: { default: web }, pw: { secret: true, default: "@secret!" } }\nhooks: ${hooks}\n`;
const job = (more: string): string => `apiVersion: windlass/v1\nkind: Job\n${more}\n`;
const template = `services:
  web: { image: ${IMAGE}, networks: [inner], volumes: ["data:/data"], depends_on: { migrate: { condition: service_completed_successfully } } }
  migrate: { image: ${IMAGE}, command: ["true"] }
networks: { inner: {} }
volumes: { data: {} }
`;

const houses: SimHouse[] = [];
afterEach(() => {
  for (const house of houses.splice(0)) house.dispose();
});

function fleet(hooks: string, jobs: Record<string, string> = {}, files: Record<string, string> = {}) {
  const sim = new SimHouse();
  houses.push(sim);
  sim.source.push({
    'apps/shop/app.yaml': app(hooks),
    'apps/shop/compose.yaml': template,
    'stacks/shop.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: shop\n',
    ...Object.fromEntries(Object.entries(jobs).map(([name, text]) => [`apps/shop/${name}.job.yaml`, job(text)])),
    ...files,
  });
  return { sim, plan: () => sim.run(windlass(sim, ['plan'])) };
}

describe('the plan of an app refuses, before anything is changed,', () => {
  it.each([
    ['a service that is scaled', '{test: [{scale: {wb: 0}}]}', {}, /SERVICE_UNKNOWN.*`wb`[\s\S]*did you mean `web`/],
    [
      'a service in a branch',
      '{test: [{if: {value: a, equals: a}, then: [{wait-healthy: wb}]}]}',
      {},
      /SERVICE_UNKNOWN.*`wb`/,
    ],
    ['the service of a job', '{test: [{job: say}]}', { say: 'service: wb' }, /SERVICE_UNKNOWN.*`wb`/],
    [
      'the service of an exec',
      '{test: [{job: say}]}',
      { say: 'context: exec\nservice: wb\ncommand: a' },
      /SERVICE_UNKNOWN.*`wb`/,
    ],
    [
      'a network',
      '{test: [{job: say}]}',
      { say: 'service: web\nnetworks: [iner]' },
      /NETWORK_UNKNOWN[\s\S]*did you mean `inner`/,
    ],
    [
      'a volume',
      '{test: [{job: say}]}',
      { say: 'service: web\nvolumes: ["dat:/x"]' },
      /VOLUME_UNKNOWN[\s\S]*did you mean `data`/,
    ],
    [
      'a one-shot that would run again',
      '{test: [{scale: {migrate: 3}}]}',
      {},
      /ONE_SHOT_SCALED[\s\S]*write what is to run again as a job/,
    ],
    [
      'a URL that a template made wrong',
      '{test: [{http: {url: "http://{{ vars.host }}:port/"}}]}',
      {},
      /HOOK_CALL_INVALID[\s\S]*http:\/\/web:port/,
    ],
    [
      'a header that a template made two of',
      '{test: [{http: {url: "http://a/", headers: {A: "{{ \\"b\\\\nC: d\\" }}"}}}]}',
      {},
      /HOOK_CALL_INVALID[\s\S]*header A/,
    ],
  ])('%s', async (_what, hooks, jobs, words) => {
    const { sim, plan } = fleet(hooks, jobs as Record<string, string>);
    const { err, out } = await plan();
    expect(`${err}${out}`).toMatch(words);
    expect(await sim.apply()).toBeNull();
    expect(sim.world.mutatingCalls()).toEqual([]);
  });

  it('nothing of what is right', async () => {
    const { sim } = fleet(
      '{post_install: [{job: say}, {scale: {migrate: "ref+hook://previous", web: 0}}], test: [{http: {url: "http://{{ vars.host }}/{{ vars.pw }}"}}]}',
      { say: 'service: web\nnetworks: [inner]\nvolumes: ["data:/data:ro", "./x:/x", /cache]\nscript: "true"' },
    );
    const outcome = await sim.apply();
    expect([...(outcome?.failures.values() ?? [])].map(String)).toEqual([]);
    expect(sim.house.store.applied('shop')).not.toBeNull();
  });
});

it('a service that only what is deployed has may be named before a change, and not after it', async () => {
  const two = (more: string) => `services:\n  web:\n    image: ${IMAGE}\n${more}`;
  const files = (hooks: string, more: string) => ({
    'stacks/shop/compose.yaml': two(more),
    'stacks/shop/stack.yaml': `apiVersion: windlass/v1\nkind: Stack\nhooks: ${hooks}\n`,
  });
  const sim = new SimHouse();
  houses.push(sim);
  sim.source.push(files('{}', `  old:\n    image: ${IMAGE}\n`));
  await sim.apply();
  sim.source.push(files('{pre_update: [{scale: {old: 0}}]}', '    environment: { A: b }\n'));
  expect([...((await sim.apply())?.failures.values() ?? [])].map(String)).toEqual([]);
  expect(sim.house.store.applied('shop')?.desired.services.map((one) => one.name)).toEqual(['web']);
});

it('a service that nobody called a one-shot, and that ended well, is not started again by a scale', async () => {
  const sim = new SimHouse();
  houses.push(sim);
  const scale = (target: string) => ({
    'stacks/shop/compose.yaml': `services:\n  web:\n    image: ${IMAGE}\n  init:\n    image: ${IMAGE}\n    command: ["true"]\n`,
    'stacks/shop/stack.yaml': `apiVersion: windlass/v1\nkind: Stack\nhooks: {test: [{scale: {init: ${target}}}]}\n`,
  });
  sim.source.push(scale('"ref+cluster://node-count"'));
  await sim.apply();
  expect(sim.house.store.applied('shop')?.roles).toMatchObject({ init: 'completed' });
  const at = await sim.bench.reader.read(await sim.source.fetch());
  sim.world.clearCalls();
  const { signal } = new AbortController();
  const failure = await sim.run(runByHand(sim.bench, at, 'shop', 'test', { signal }).catch((error: unknown) => error));
  expect(failure).toBeInstanceOf(Fault);
  expect(String(failure)).toContain('init runs to its end once, and has: scaled to 1 it would run again');
  expect(sim.world.mutatingCalls()).toEqual([]);
  sim.source.push(scale('1'));
  expect((await sim.survey()).map((one) => one.kind)).toEqual(['invalid']);
});
