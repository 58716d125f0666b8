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

it('a volume that a job names where there are none is told so', async () => {
  const jobs = { say: 'service: web\nvolumes: ["data:/x"]' };
  const { plan } = fleet('{test: [{job: say}]}', jobs, {
    'apps/shop/compose.yaml': `services: { web: { image: ${IMAGE} } }\n`,
  });
  expect((await plan()).out).toMatch(/VOLUME_UNKNOWN[^\n]*`data`[\s\S]*the project declares no volumes/);
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

describe('what hooks name wrongly has its line, in `plan` and in `validate` alike:', () => {
  const APP = `apiVersion: windlass/v1
kind: App
version: "1"
hooks:
  test:
    - sleep: 1s
      weight: 7
    - scale:
        web: 0
        wb: 0
  post_update:
    - if: { value: a, equals: a }
      then:
        - sleep: 1s
        - exec: { service: wx, command: a }
          weight: -1
    - scale: { migrate: 2 }
    - job: say
  post_install: [{ job: say }]
`;
  const STACK = `apiVersion: windlass/v1
kind: Stack
app: shop
hooks:
  test:
    - wait-healthy: [web, wy]
      weight: -5
    - wait-healthy: wz
`;
  const JOB = 'apiVersion: windlass/v1\nkind: Job\nservice: wj\nnetworks:\n  - inner\n  - iner\nscript: a\n';
  const OF_APP = [
    'ONE_SHOT_SCALED apps/shop/app.yaml:17:16',
    'SERVICE_UNKNOWN apps/shop/app.yaml:10:9',
    'SERVICE_UNKNOWN apps/shop/app.yaml:15:28',
    'SERVICE_UNKNOWN apps/shop/say.job.yaml:3:10',
    'NETWORK_UNKNOWN apps/shop/say.job.yaml:6:5',
    'SERVICE_UNKNOWN stacks/shop.yaml:6:27',
    'SERVICE_UNKNOWN stacks/shop.yaml:8:21',
  ];
  const FLEET = {
    'apps/shop/app.yaml': APP,
    'apps/shop/compose.yaml': template,
    'apps/shop/say.job.yaml': JOB,
    'stacks/shop.yaml': STACK,
  };
  const told = (text: string): string[] =>
    [...text.matchAll(/^(?:error|warning)\[(\w+)\]: .*\n {2}at +(\S+)$/gm)].map(([, code, at]) => `${code} ${at}`);
  const both = async (files: Record<string, string>): Promise<{ plan: string; validate: string }> => {
    const sim = new SimHouse();
    houses.push(sim);
    sim.source.push(files);
    const [plan, validate] = [await sim.run(windlass(sim, ['plan'])), await sim.run(windlass(sim, ['validate']))];
    expect([plan.code, validate.code]).toEqual([3, 3]);
    return { plan: plan.out, validate: validate.out };
  };

  it('in an app, its stack and its job, in branches and whatever the weights', async () => {
    const { plan, validate } = await both(FLEET);
    expect(told(plan).sort()).toEqual([...OF_APP].sort());
    expect(told(validate).sort()).toEqual([...OF_APP].sort());
    expect(validate).toContain('error[SERVICE_UNKNOWN]: unknown service `wb`');
    expect(plan).toContain('error[SERVICE_UNKNOWN]: unknown service `wb`');
  });

  it('in an app that came with Windlass', async () => {
    const sim = new SimHouse();
    houses.push(sim);
    const bundled = Object.fromEntries(
      Object.entries(FLEET).flatMap(([path, text]) => (path.startsWith('apps/') ? [[path.slice(5), text]] : [])),
    );
    Object.assign(sim.house.settings, { bundled });
    sim.source.push({ 'stacks/shop.yaml': STACK });
    expect(told((await sim.run(windlass(sim, ['validate']))).out).sort()).toEqual([...OF_APP].sort());
  });

  it('in a plain project, a one-shot that would run again', async () => {
    const wrong = await both({
      'stacks/shop/compose.yaml': template,
      'stacks/shop/stack.yaml': 'apiVersion: windlass/v1\nkind: Stack\nhooks:\n  test:\n    - scale: { migrate: 3 }\n',
    });
    for (const text of [wrong.plan, wrong.validate])
      expect(told(text)).toEqual(['ONE_SHOT_SCALED stacks/shop/stack.yaml:5:16']);
  });

  it('before a backup, beside the jobs that stand in for its dumps', async () => {
    const { plan } = await both({
      'apps/shop/app.yaml': app('{pre_backup: [{sleep: 1s}, {scale: {migrate: 3}, weight: 3}]}'),
      'apps/shop/compose.yaml': template,
      'apps/shop/dump.job.yaml': job('service: web\nscript: a'),
      'apps/shop/backup.yaml': 'apiVersion: windlass/v1\nkind: Backup\nvolumes: { include: [data] }\ndump: [dump]\n',
      'stacks/shop.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: shop\n',
    });
    expect(told(plan)).toEqual(['ONE_SHOT_SCALED apps/shop/app.yaml:5:44']);
  });
});

it('`validate` does not know what is deployed: before a change a service that is not declared is a warning, told once', async () => {
  const hooks = 'hooks:\n  pre_update: [{ scale: { old: 0 } }]\n';
  for (const files of [
    {
      'stacks/shop/compose.yaml': template,
      'stacks/shop/stack.yaml': `apiVersion: windlass/v1\nkind: Stack\n${hooks}`,
    },
    {
      'apps/shop/app.yaml': `apiVersion: windlass/v1\nkind: App\nversion: "1"\n`,
      'apps/shop/compose.yaml': template,
      'stacks/shop.yaml': `apiVersion: windlass/v1\nkind: Stack\napp: shop\n${hooks}`,
    },
  ]) {
    const sim = new SimHouse();
    houses.push(sim);
    sim.source.push(files);
    const { code, out, err } = await sim.run(windlass(sim, ['validate']));
    expect(out.match(/warning\[SERVICE_UNKNOWN\]: unknown service `old`/g)).toHaveLength(1);
    expect(out).toContain('unless it is deployed now, expected one of');
    expect([code, err.trim()]).toEqual([0, '1 stack: 0 errors, 1 warning']);
  }
});
