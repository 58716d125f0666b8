// Clones and moves on the simulated world: beside the original, with its secrets or new ones, from what runs, and cut at any point.
import { afterEach, describe, expect, it } from 'vitest';
import { Fault } from '../../src/core/fault.ts';
import type { Move } from '../../src/core/spec/request.ts';
import { backup } from '../../src/operations/archive/backup.ts';
import {
  type CloneOptions,
  type ClonePlan,
  type CloneRequest,
  clone,
  cloneDigest,
  cloneRecord,
  planClone,
} from '../../src/operations/archive/clone.ts';
import { planRestore } from '../../src/operations/archive/plan-restore.ts';
import { stacksAtRest, wake } from '../../src/operations/archive/quiesce.ts';
import { restore, unfinishedRestores } from '../../src/operations/archive/restore.ts';
import type { House } from '../../src/operations/house.ts';
import { accept } from '../../src/operations/lineage.ts';
import { holdOf } from '../../src/operations/survey.ts';
import { changesOf, doWork, leasesOf, planWork, stackOf, workDigest } from '../../src/operations/trust/request-work.ts';
import { itemsOf } from '../../src/operations/trust/work-items.ts';
import { orphans } from '../../src/operations/uninstall.ts';
import { Surface } from '../../src/surface.ts';
import { never, Process, RestoreWorld } from './restore-world.ts';

const COMPOSE = `services:
  web:
    image: windlass-test/busybox:1
    environment: { PASSWORD: $PASSWORD }
    volumes: [data:/data]
volumes: { data: {} }
`;
const HOOKS = `hooks:
  pre_clone: [{ job: say }]
  post_clone: [{ job: say }]
  pre_move: [{ job: say }]
  post_move: [{ job: say }]
`;
const STACK = `apiVersion: windlass/v1
kind: Stack
vars: { PASSWORD: "@secret(20,hex)!" }
`;
const FILES = {
  'stacks/shop/compose.yaml': COMPOSE,
  'stacks/shop/stack.yaml': STACK + HOOKS,
  'stacks/shop/say.job.yaml': 'apiVersion: windlass/v1\nkind: Job\nservice: web\nscript: echo hi\n',
};

/** Of the calls, at which a process is made to die. */
const STRIDE = 7;
const worlds: RestoreWorld[] = [];
afterEach(() => {
  for (const world of worlds.splice(0)) world.dispose();
});

async function shop(files: Record<string, string> = FILES) {
  const world = new RestoreWorld();
  worlds.push(world);
  world.secrets.set('stack/shop PASSWORD', 'its secret');
  world.sim.source.push(files);
  const first = await world.sim.apply();
  expect([...first!.failures.values()].map(String)).toEqual([]);
  world.data.set('shop_data', 'live data');
  return world;
}

const archiveOf = async (world: RestoreWorld, data = 'old data') => {
  const at = await world.bench.reader.read(await world.sim.source.fetch());
  const { vars, hooks } = at.fleet.stacks.get('shop')!;
  const spec = { apiVersion: 'windlass/v1', kind: 'Stack', vars, hooks };
  return world.archive('shop', { volumes: { data }, secrets: { PASSWORD: 'its secret' }, change: { spec } });
};
const answerOf = (world: RestoreWorld, request: Partial<CloneRequest>) =>
  world.sim.run(planClone(world.bench, { kind: 'Clone', stack: 'shop', target: 'shop2', ...request }, never));
const planned = async (world: RestoreWorld, request: Partial<CloneRequest> = {}): Promise<ClonePlan> => {
  const answer = await answerOf(world, request);
  if (answer.kind === 'wait') throw new Error(answer.why);
  return answer.plan;
};
const made: string[] = [];
const run = (world: RestoreWorld, plan: ClonePlan, more: Partial<CloneOptions> = {}) =>
  world.sim.run(
    clone(world.bench, plan, {
      signal: never,
      backup: world.backup,
      id: 'q1',
      archiveLive: async (stack) => {
        made.push(stack);
        return archiveOf(world, world.data.get('shop_data'));
      },
      ...more,
    }),
  );
/** One that dies at that call of its hooks or its work, and a second one of a process that comes after it. */
async function cutAndFinished(
  at: number,
  files: Record<string, string> = FILES,
  request: Partial<CloneRequest> = {},
): Promise<RestoreWorld> {
  const world = await shop(files);
  const plan = await planned(world, request);
  const dying = new Process(at, Math.floor(at / STRIDE) % 2 === 0 ? 'before' : 'after');
  world.restart(dying);
  made.length = 0;
  await run(world, plan).catch(() => {});
  world.restart();
  await run(world, plan).catch((error) => {
    throw new Error(`at ${at} (${dying.story.at(-1)}): ${error}`, { cause: error });
  });
  expect(made, `at ${at}`).toEqual(['shop']);
  return world;
}
/** As a request does it. */
const stopping = (world: RestoreWorld) => async (stack: string, move?: string) =>
  (await backup(world.bench, stack, { signal: never, ...(move === undefined ? {} : { move }) })).archive;
const statesOf = (world: RestoreWorld): string =>
  world.sim.world.containersOf('shop').find(({ name }) => name === 'shop-web-1')?.state ?? 'gone';
/** What would wake, or keep from being woken, whoever comes next. */
const left = (world: RestoreWorld): readonly string[] =>
  ['quiesced/', 'moving/'].flatMap((prefix) => [...world.sim.house.store.values(prefix).keys()]);
const jobsOf = (world: RestoreWorld) => cloneRecord(world.sim.house, 'q1')?.phases;

describe('a clone', () => {
  it('of an archive runs beside the original, on secrets of its own', async () => {
    const world = await shop();
    const plan = await planned(world, { archive: await archiveOf(world) });
    expect(plan.lines.join('\n')).toMatch(/not taken along: what can be minted is minted anew/);
    expect(JSON.stringify(plan)).not.toContain('its secret');
    expect(plan.restore?.made.files.find((one) => one.path.endsWith('stack.yaml'))?.text).toContain('@secret(20,hex)!');
    const process = new Process();
    world.restart(process);
    expect(await run(world, plan)).toMatch(/^shop2 is a clone of shop from archive [0-9a-f]{12}$/);
    // One before it on the original, one after it on the clone.
    expect(process.story.filter((one) => one === 'oneShots.start')).toHaveLength(2);
    expect(world.sees('shop2-web-1', '/data')).toBe('old data');
    expect(world.sees('shop-web-1', '/data')).toBe('live data');
    expect(world.secrets.get('stack/shop2 PASSWORD')).toMatch(/^minted/);
    expect(world.secrets.get('stack/shop PASSWORD')).toBe('its secret');
    expect(world.safety).toEqual([]);
    expect(jobsOf(world)).toEqual(['pre_clone', 'post_clone']);
  });

  it.each([
    ['that was never restored', false],
    ['that was itself restored', true],
  ])('of an app’s instance %s mints what the app mints, from a backup as they are made', async (_, isRestored) => {
    const world = await shop({
      'apps/pg/app.yaml': `apiVersion: windlass/v1
kind: App
version: "1"
vars: { password: { secret: true, default: "@secret(20,hex)!" }, other: { secret: true } }
`,
      'apps/pg/compose.yaml': `services:
  web:
    image: windlass-test/busybox:1
    environment: { A: "{{ vars.password }}", B: "{{ vars.other }}" }
    volumes: ["data:/data"]
volumes: { data: {} }
`,
      'stacks/shop.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: pg\nvars: { other: "@secret(24,hex)!" }\n',
    });
    const archive = async (stack: string) => (await backup(world.bench, stack, { signal: never })).archive;
    if (isRestored) {
      const answer = await world.sim.run(
        planRestore(world.bench, { stack: 'shop', archive: await world.sim.run(archive('shop')) }, never),
      );
      if (answer.kind === 'wait') throw new Error(answer.why);
      await world.sim.run(restore(world.bench, answer.plan, { signal: never, backup: world.backup }));
    }
    const before = new Map(world.secrets);
    await run(world, await planned(world, { secrets: 'mint' }), { archiveLive: archive });
    for (const key of ['password', 'other']) {
      expect(world.secrets.get(`stack/shop2 ${key}`)).toMatch(/^minted/);
      expect(world.secrets.get(`stack/shop2 ${key}`)).not.toBe(before.get(`stack/shop ${key}`));
      expect(world.secrets.get(`stack/shop ${key}`)).toBe(before.get(`stack/shop ${key}`));
    }
    expect(world.policies).toMatchObject({ 'stack/shop2 password': '20 hex', 'stack/shop2 other': '24 hex' });
    expect(world.sees('shop2-web-1', '/data')).toBe('live data');
  });

  it('that boots twice is made with the secrets that it reads afterwards', async () => {
    const world = await shop();
    const spec = { apiVersion: 'windlass/v1', kind: 'Stack', vars: { PASSWORD: '@secret(20,hex)!' } };
    const data = { volumes: { data: 'old data' }, secrets: { PASSWORD: 'its secret' } };
    const twice = { boot: { kind: 'double' as const, why: 'its jobs rebuild data' }, restoreJobs: ['say'] };
    const archive = await world.archive('shop', { ...data, change: { spec, ...twice } });
    const made = new Map<string, string>();
    const { house } = world.sim;
    const up = house.runtime.up.bind(house.runtime);
    house.runtime.up = (input) => {
      made.set(input.project, String(/"PASSWORD": ?"([^"]*)"/.exec(input.model.text)?.[1]));
      return up(input);
    };
    await run(world, await planned(world, { archive }));
    expect([...made.keys()]).toEqual(['shop2-boot1', 'shop2']);
    expect(made.get('shop2-boot1')).toMatch(/^minted/);
    expect(made.get('shop2')).toBe(made.get('shop2-boot1'));
    expect(world.secrets.get('stack/shop2 PASSWORD')).toBe(made.get('shop2'));
    expect([...world.secrets.keys()].sort()).toEqual(['stack/shop PASSWORD', 'stack/shop2 PASSWORD']);
    expect([...house.store.values('secrets-of/').keys()]).toEqual([]);
  });

  it('takes the secrets along where it is told to', async () => {
    const world = await shop();
    await run(world, await planned(world, { archive: await archiveOf(world), secrets: 'copy' }));
    expect(world.secrets.get('stack/shop2 PASSWORD')).toBe('its secret');
  });

  it('without an archive is made of what runs', async () => {
    const world = await shop();
    made.length = 0;
    const plan = await planned(world);
    expect(plan.lines.join('\n')).toMatch(/shop is backed up first/);
    await run(world, plan);
    expect(made).toEqual(['shop']);
    expect(world.sees('shop2-web-1', '/data')).toBe('live data');
    await run(world, plan);
    expect(made).toEqual(['shop']);
  });

  it('that cannot be made of its archive any more leaves no pin on it', async () => {
    const world = await shop();
    const plan = await planned(world);
    const archiveLive = async (): Promise<string> => {
      world.sim.world.engine.addVolume('shop2_data', { 'com.docker.compose.project': 'shop2' });
      return archiveOf(world);
    };
    await expect(run(world, plan, { archiveLive })).rejects.toMatchObject({ code: 'PLAN_STALE' });
    expect(Object.fromEntries(world.sim.house.store.values('archive-pin/'))).toEqual({});
  });

  it('is another plan with other secrets, ports or names', async () => {
    const world = await shop();
    const archive = await archiveOf(world);
    const digest = async (request: Partial<CloneRequest>) => cloneDigest(await planned(world, { archive, ...request }));
    const all = [{}, { secrets: 'copy' as const }, { target: 'shop3' }, { ports: { web: ['8081:80'] } }];
    const digests = [];
    for (const request of all) digests.push(await digest(request));
    expect(new Set(digests).size).toBe(all.length);
    expect(await digest({})).toBe(digests[0]);
  });

  it('waits for a name that is free, a node that is there, and ports that are not the original’s', async () => {
    const world = await shop({
      ...FILES,
      'stacks/shop/compose.yaml': COMPOSE.replace('volumes: [data', 'ports: ["8080:80"]\n    volumes: [data'),
      'stacks/blog/compose.yaml': 'services: { web: { image: windlass-test/busybox:1 } }\n',
    });
    for (const [request, why] of [
      [{ target: 'blog' }, /something under the name blog already: a stack is deployed/],
      [{ target: 'shop' }, /names no other name/],
      [{ node: 'edge-1' }, /to the node edge-1 is not carried out by this version/],
      [{ stack: 'gone' }, /gone is not deployed, and the request names no archive/],
      [{}, /publishes the port 8080 of web, and both run side by side/],
    ] as const) {
      const answer = await answerOf(world, request);
      expect(answer.kind === 'wait' ? answer.why : 'planned').toMatch(why);
    }
    world.sim.world.engine.addVolume('shop2_data', { 'com.docker.compose.project': 'shop2' });
    const answer = await answerOf(world, { ports: { web: ['8081:80'] } });
    expect(answer.kind === 'wait' ? answer.why : 'planned').toMatch(/the volume shop2_data/);
  });

  it('under another host port keeps the address and the container’s port, where the service publishes one', async () => {
    const publishing = (ports: string) => ({
      ...FILES,
      'stacks/shop/compose.yaml': COMPOSE.replace('volumes: [data', `ports: ${ports}\n    volumes: [data`),
    });
    const world = await shop(publishing('["127.0.0.1:8080:80"]'));
    await run(world, await planned(world, { ports: { web: ['8081'] } }), { archiveLive: stopping(world) });
    expect(world.sim.house.store.applied('shop2')?.desired.services[0]?.ports).toEqual([
      { hostIp: '127.0.0.1', published: 8081, target: 80, protocol: 'tcp' },
    ]);
    const two = await shop(publishing('["127.0.0.1:8080:80", "8443:443"]'));
    const archive = await archiveOf(two);
    for (const request of [{}, { archive }])
      await expect(answerOf(two, { ...request, ports: { web: ['8081'] } })).rejects.toThrow(
        /the port 8081 of web does not say which .* write it as 8081:CONTAINERPORT/,
      );
    const none = await shop();
    await expect(answerOf(none, { ports: { web: ['8081'] } })).rejects.toMatchObject({ code: 'USAGE' });
  });

  it('tells which variables are others than those of its archive, and of none what it is', async () => {
    const told = async (secrets: 'copy' | 'mint', vars: Record<string, unknown>) => {
      const world = await shop({
        ...FILES,
        'stacks/shop/stack.yaml': `${STACK.trim().slice(0, -1)}, GREETING: hello }\n`,
      });
      await run(world, await planned(world, { secrets, vars }), { archiveLive: stopping(world) });
      return itemsOf(world.sim.house, 'q1').find((one) => one.item === 'beside its archive')?.state;
    };
    expect(await told('copy', {})).toMatch(/fields are the same, none differs$/);
    expect(await told('copy', { EXTRA: 'override', GREETING: 'bonjour' })).toMatch(
      /; 2 differ: var GREETING: another value; var EXTRA: not in the archive$/,
    );
    expect(await told('copy', { PASSWORD: 'in the clear' })).toMatch(/; 1 differ: var PASSWORD: another value$/);
    expect(await told('mint', {})).toMatch(/; 1 differ: var PASSWORD: minted anew$/);
  });

  it('leaves nothing of a target that does not come up', async () => {
    const world = await shop();
    const plan = await planned(world, { archive: await archiveOf(world), secrets: 'copy' });
    world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
    await expect(run(world, plan)).rejects.toMatchObject({ code: 'COMPOSE_FAILED' });
    expect(world.sim.world.containersOf('shop2')).toEqual([]);
    expect(world.secrets.has('stack/shop2 PASSWORD')).toBe(false);
    expect(world.sees('shop-web-1', '/data')).toBe('live data');
  });
});

describe('a clone that is cut', () => {
  it('at any call of its hooks or its work is finished by a second one', async () => {
    const counting = await shop();
    const process = new Process();
    const plan = await planned(counting);
    counting.restart(process);
    await run(counting, plan);
    for (let at = 2; at <= process.calls; at += STRIDE) {
      const world = await cutAndFinished(at);
      expect(jobsOf(world)).toEqual(['pre_clone', 'post_clone']);
      expect(world.sees('shop2-web-1', '/data'), `at ${at}`).toBe('live data');
      expect(world.sees('shop-web-1', '/data')).toBe('live data');
      expect([...world.sim.house.store.values('hook-run/').keys()]).toEqual([]);
    }
  }, 240_000);
});

describe('a move', () => {
  const request = { kind: 'Move' as const };

  it('that is asked for by a request is planned, named by its digest, and done once', async () => {
    const world = await shop();
    const asked: Move = {
      apiVersion: 'windlass/v1',
      kind: 'Move',
      stack: 'shop',
      target: 'shop2',
      archive: await archiveOf(world),
      reason: 'a better name',
      expires: '2027-01-01T00:00:00Z',
    };
    const answer = await world.sim.run(planWork(world.bench, asked, never));
    if (answer.kind === 'wait') throw new Error(answer.why);
    const { work } = answer;
    expect(workDigest(work)).toMatch(/^[0-9a-f]{64}$/);
    expect([work.operation, stackOf(work), leasesOf(work)]).toEqual(['move', 'shop2', []]);
    expect(changesOf(work)[0]).toBe('move shop to shop2');
    const done = await world.sim.run(doWork(world.bench, 'q1', work, { signal: never }));
    expect(await world.sim.run(doWork(world.bench, 'q1', work, { signal: never }))).toBe(done);
    expect(world.sees('shop2-web-1', '/data')).toBe('old data');
    const later = await world.sim.run(planWork(world.bench, { ...asked, target: 'shop3' }, never));
    expect(later.kind === 'wait' ? later.why : 'planned').toBe('the stack shop is not deployed');
  });

  it('takes the source away once the target is ready; its volumes stay, and git does not bring it back', async () => {
    const world = await shop();
    const plan = await planned(world, request);
    expect(plan.lines.join('\n')).toMatch(/once shop2 is ready, shop is uninstalled and held/);
    expect(await run(world, plan)).toMatch(/^shop runs as shop2/);
    expect(world.sees('shop2-web-1', '/data')).toBe('live data');
    expect(world.secrets.get('stack/shop2 PASSWORD')).toBe('its secret');
    expect(world.sim.world.containersOf('shop')).toEqual([]);
    expect(world.data.get('shop_data')).toBe('live data');
    expect(orphans(world.sim.house).map((one) => one.volume)).toEqual(['shop_data']);
    expect(world.sim.house.store.applied('shop')).toBeNull();
    expect(jobsOf(world)).toEqual(['pre_move', 'post_move']);
    const at = await world.bench.reader.read(await world.sim.source.fetch());
    const hold = holdOf(at.fleet.stacks.get('shop')!, world.sim.house.store.holds('shop'), world.sim.clock.nowMs());
    expect(hold).toMatchObject({
      kind: 'held',
      reason: expect.stringMatching(/^it was moved to shop2: `git rm -r stacks\/shop`, or resume shop/),
    });
    expect(itemsOf(world.sim.house, 'q1').find((one) => one.item === 'shop')?.state).toMatch(
      /^taken away; its volumes are orphaned, and git still declares it: `git rm -r stacks\/shop`/,
    );
  });

  it('holds the name of the source also where what git declares under it cannot be read', async () => {
    const world = await shop();
    const plan = await planned(world, request);
    world.sim.source.push({ ...FILES, 'stacks/shop/stack.yaml': 'kind: [' });
    await world.sim.run(accept(world.sim.house, await world.sim.source.fetch()));
    await run(world, plan, { archiveLive: stopping(world) });
    world.sim.source.push(FILES);
    const at = await world.bench.reader.read(await world.sim.source.fetch());
    const hold = holdOf(at.fleet.stacks.get('shop')!, world.sim.house.store.holds('shop'), world.sim.clock.nowMs());
    expect(hold).toMatchObject({
      kind: 'held',
      reason: expect.stringMatching(/^it was moved to shop2: take its decl/),
    });
  });

  it('leaves the source as it is when the target does not come up', async () => {
    const world = await shop();
    const plan = await planned(world, request);
    world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
    await expect(run(world, plan)).rejects.toMatchObject({ code: 'COMPOSE_FAILED' });
    expect(world.sees('shop-web-1', '/data')).toBe('live data');
    expect(world.sim.house.store.holds('shop')).toEqual([]);
    expect(orphans(world.sim.house)).toEqual([]);
    expect(left(world)).toEqual([]);
    expect(itemsOf(world.sim.house, 'q1').find((one) => one.item === 'shop')?.state).toBe(
      'runs again as it did before',
    );
  });

  it.each([false, true])(
    'stops the source before it is archived until the target is ready (named: %s)',
    async (isNamed) => {
      const world = await shop();
      const plan = await planned(world, { ...request, ...(isNamed ? { archive: await archiveOf(world) } : {}) });
      expect(plan.lines.join('\n')).toMatch(
        isNamed
          ? /shop is stopped, and shop2 is made from that archive: what was written to shop since/
          : /shop is stopped, archived as it is then with all of its volumes, and stays stopped/,
      );
      const seen: string[] = [];
      const { runtime, payloads } = world.sim.house;
      const up = runtime.up.bind(runtime);
      runtime.up = (input) => {
        seen.push(`${input.project} beside ${statesOf(world)}`);
        return up(input);
      };
      const read = payloads!.read.bind(payloads);
      payloads!.read = (...words) => {
        seen.push(`read of ${statesOf(world)}`);
        return read(...words);
      };
      await run(world, plan, { archiveLive: stopping(world) });
      expect(seen).toEqual([...(isNamed ? [] : ['read of exited']), 'shop2 beside exited']);
      expect(left(world)).toEqual([]);
      expect(world.sim.world.containersOf('shop')).toEqual([]);
    },
  );

  const PUBLISHED = {
    ...FILES,
    'stacks/shop/compose.yaml': COMPOSE.replace('volumes: [data', 'ports: ["8080:80"]\n    volumes: [data'),
  };
  const portsOf = (world: RestoreWorld, name: string): readonly number[] =>
    world.sim.world.container(name).spec.ports.map((one) => one.published);

  it.each([false, true])('keeps the ports, which the source has let go by then (named: %s)', async (isNamed) => {
    const world = await shop(PUBLISHED);
    // The name that comes first in a survey is not who gets the port.
    const asked = { ...request, target: 'zoo', ...(isNamed ? { archive: await archiveOf(world) } : {}) };
    const beside = await answerOf(world, { ...asked, kind: 'Clone' }).then(JSON.stringify, String);
    expect(beside).toMatch(isNamed ? /zoo wants port 8080/ : /publishes the port 8080 of web, and both run/);
    const { runtime } = world.sim.house;
    const up = runtime.up.bind(runtime);
    const meanwhile: string[] = [];
    runtime.up = async (input) => {
      const done = await up(input);
      const [source] = (await new Surface(world.sim.house).plan(['shop'])).surveyed;
      meanwhile.push(`${input.project} beside shop ${source?.kind}`);
      return done;
    };
    await run(world, await planned(world, asked), { archiveLive: stopping(world) });
    expect(meanwhile).toEqual(['zoo beside shop judged']);
    expect([portsOf(world, 'zoo-web-1'), world.sim.world.container('zoo-web-1').state]).toEqual([[8080], 'running']);
    expect(world.sim.world.containersOf('shop')).toEqual([]);
    // Git still declares the source, which is held and takes the port from nobody, whoever of both runs at the moment.
    const desk = new Surface(world.sim.house);
    const before = await world.sim.run(desk.plan());
    expect(before.surveyed.map(({ kind, name }) => `${name} ${kind}`)).toEqual(['shop judged']);
    expect([...before.held.keys()]).toEqual(['shop']);
    world.sim.source.push({ ...PUBLISHED, 'stacks/zoo/compose.yaml': PUBLISHED['stacks/shop/compose.yaml'] });
    for (const isUp of [true, false]) {
      if (!isUp) world.sim.world.stop('zoo-web-1');
      const { surveyed } = await world.sim.run(desk.plan());
      expect(surveyed.map(({ kind, name }) => `${name} ${kind}`).sort()).toEqual(['shop judged', 'zoo judged']);
    }
    world.sim.house.store.deleteHold('shop', 'held', '');
    world.sim.world.start('zoo-web-1');
    const resumed = (await world.sim.run(desk.plan(['shop']))).surveyed[0];
    expect(resumed?.kind === 'refused' ? resumed.fault.code : resumed?.kind).toBe('PORT_TAKEN');
  });

  it('of a clone keeps the ports that the clone was given', async () => {
    const world = await shop(PUBLISHED);
    const archiveLive = stopping(world);
    await run(world, await planned(world, { ports: { web: ['8081:80'] } }), { archiveLive });
    const asked = { ...request, stack: 'shop2', target: 'shop3' };
    await run(world, await planned(world, asked), { archiveLive, id: 'q2' });
    expect([portsOf(world, 'shop3-web-1'), portsOf(world, 'shop-web-1')]).toEqual([[8081], [8080]]);
    expect(world.sim.world.containersOf('shop2')).toEqual([]);
  });

  it('gives the ports back to the source when the target does not come up on them', async () => {
    const world = await shop(PUBLISHED);
    const plan = await planned(world, request);
    const { runtime } = world.sim.house;
    const seen: string[] = [];
    const up = runtime.up.bind(runtime);
    runtime.up = async (input) => {
      const done = await up(input);
      if (input.project !== 'shop2') return done;
      seen.push(`${world.sim.world.container('shop2-web-1').state} on ${portsOf(world, 'shop2-web-1')}`);
      throw new Fault('COMPOSE_FAILED', 'it came, and then not');
    };
    await expect(run(world, plan, { archiveLive: stopping(world) })).rejects.toMatchObject({ code: 'COMPOSE_FAILED' });
    expect(seen[0]).toBe('running on 8080');
    expect(world.sim.world.containersOf('shop2')).toEqual([]);
    expect([statesOf(world), portsOf(world, 'shop-web-1'), left(world)]).toEqual(['running', [8080], []]);
  });

  it('takes the volumes along as they are then, also of an app that keeps a dump in its archives', async () => {
    const world = await shop({
      'apps/pg/app.yaml': 'apiVersion: windlass/v1\nkind: App\nversion: "1"\n',
      'apps/pg/compose.yaml': `services:
  web:
    image: windlass-test/busybox:1
    volumes: ["data:/data", "dump:/dump"]
volumes: { data: {}, dump: {} }
`,
      'apps/pg/backup.yaml': `apiVersion: windlass/v1
kind: Backup
quiesce: { web: none }
volumes: { include: [dump] }
`,
      'stacks/shop.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: pg\n',
    });
    await run(world, await planned(world, request), { archiveLive: stopping(world) });
    expect(world.sees('shop2-web-1', '/data')).toBe('live data');
  });

  it('leaves the source with the hold that it had when the target does not come up', async () => {
    const world = await shop();
    const plan = await planned(world, request);
    const hold = { kind: 'held' as const, reason: 'not now', sinceMs: 1, untilMs: 0, service: '' };
    world.sim.house.store.putHold('shop', hold);
    world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
    await expect(run(world, plan, { archiveLive: stopping(world) })).rejects.toMatchObject({ code: 'COMPOSE_FAILED' });
    expect(statesOf(world)).toBe('running');
    expect(world.sim.house.store.holds('shop')).toEqual([hold]);
    expect(left(world)).toEqual([]);
  });

  it.each([
    ['is on record', 'running'],
    ['was not written down yet', 'running'],
    ['is on record', 'restarting'],
  ] as const)(
    'that is gone on with archives a source anew that came up again meanwhile, as by a restart of the engine: the first archive %s, the source is %s',
    async (which, state) => {
      const world = await shop({ ...FILES, 'stacks/shop/stack.yaml': STACK });
      const plan = await planned(world, request);
      const away = new Fault('ENGINE_UNREACHABLE', 'it restarts');
      const isOnRecord = which === 'is on record';
      if (isOnRecord) world.sim.world.failNext('up', away, 1);
      const made: string[] = [];
      const archiveLive = async (stack: string, move?: string) => {
        made.push(await stopping(world)(stack, move));
        if (!isOnRecord && made.length === 1) throw away;
        return made.at(-1) ?? '';
      };
      await expect(run(world, plan, { archiveLive })).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
      expect([statesOf(world), left(world).length, made.length]).toEqual(['exited', 2, 1]);
      expect(cloneRecord(world.sim.house, 'q1')?.archive).toBe(isOnRecord ? made[0] : null);
      world.sim.world.start('shop-web-1');
      world.sim.world.container('shop-web-1').state = state;
      world.data.set('shop_data', 'written since');
      await run(world, plan, { archiveLive });
      expect(world.sees('shop2-web-1', '/data')).toBe('written since');
      expect(made[1]).not.toBe(made[0]);
      expect([left(world), world.sim.world.containersOf('shop')]).toEqual([[], []]);
    },
  );

  it('is not ended by a resume of its source, nor is that backed up, while it is at work; where nobody goes on with it it is woken', async () => {
    const world = await shop({ ...FILES, 'stacks/shop/stack.yaml': STACK });
    const plan = await planned(world, request);
    world.sim.world.failNext('up', new Fault('ENGINE_UNREACHABLE', 'it restarts'), 1);
    await expect(run(world, plan, { archiveLive: stopping(world) })).rejects.toMatchObject({
      code: 'ENGINE_UNREACHABLE',
    });
    const { house } = world.sim;
    // Its archive would be taken for that of the move, which holds all volumes.
    await expect(world.sim.run(stopping(world)('shop'))).rejects.toMatchObject({ code: 'LOCK_HELD' });
    const at = (state: string) =>
      new Surface({ ...house, trust: { ledger: { snapshot: () => ({ state }) } } } as unknown as House);
    for (const surface of [at('executing'), new Surface(house)])
      expect(() => surface.release('shop')).toThrow(/the request q1, which moves shop, is not finished/);
    expect([house.store.holds('shop').length, stacksAtRest(world.bench)]).toEqual([1, []]);
    expect(at('indeterminate').release('shop')).toHaveLength(1);
    expect([house.store.holds('shop').length, stacksAtRest(world.bench)]).toEqual([0, ['shop']]);
    await world.sim.run(wake(world.bench, 'shop', never));
    expect([statesOf(world), left(world)]).toEqual(['running', []]);
  });

  it('that fails says of a source that cannot be started now that it rests, and leaves it to whoever wakes it', async () => {
    const world = await shop({ ...FILES, 'stacks/shop/stack.yaml': STACK });
    const plan = await planned(world, request);
    world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
    world.sim.world.failNext('start', new Fault('ENGINE_REFUSED', 'not now'), 1);
    await expect(run(world, plan, { archiveLive: stopping(world) })).rejects.toMatchObject({ code: 'COMPOSE_FAILED' });
    expect(statesOf(world)).toBe('exited');
    expect(itemsOf(world.sim.house, 'q1').find((one) => one.item === 'shop')?.state).toMatch(/^rests yet: .*not now/);
    expect(stacksAtRest(world.bench)).toEqual(['shop']);
    await world.sim.run(wake(world.bench, 'shop', never));
    expect(statesOf(world)).toBe('running');
  });

  it('waits while others integrate the source, and for a node', async () => {
    const app = 'apiVersion: windlass/v1\nkind: App\nversion: "1"\n';
    const world = await shop({
      'apps/pg/app.yaml': `${app}provides: { sql: { host: "{{ stack.name }}" } }\n`,
      'apps/pg/compose.yaml': 'services: { pg: { image: windlass-test/busybox:1 } }\n',
      'apps/site/app.yaml': `${app}plugs: { db: { interface: sql } }\n`,
      'apps/site/compose.yaml':
        'services: { s: { image: windlass-test/busybox:1, environment: { H: "{{ plugs.db.host }}" } } }\n',
      'stacks/shop.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: pg\n',
      'stacks/site.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: site\nintegrate: { db: shop }\n',
    });
    const answer = await answerOf(world, request);
    expect(answer.kind === 'wait' ? answer.why : 'planned').toMatch(/the stack site integrates shop/);
    const other = await answerOf(world, { ...request, node: 'edge-1' });
    expect(other.kind === 'wait' ? other.why : 'planned').toMatch(/a move to the node edge-1 is not carried out/);
  });

  it.each([
    ['that is cut at any call takes along whatever the source wrote before it was stopped for good', false],
    ['that fails and is cut at any call leaves the source running', true],
  ])(
    '%s',
    async (_, isFailing) => {
      // Hooks that were cut run again as hooks do; here it is about the data.
      const quiet = { ...FILES, 'stacks/shop/stack.yaml': STACK };
      const failing = (world: RestoreWorld): void => {
        if (isFailing) world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
      };
      const counting = await shop(quiet);
      const process = new Process();
      const plan = await planned(counting, request);
      counting.restart(process);
      failing(counting);
      await run(counting, plan, { archiveLive: stopping(counting) }).catch(() => {});
      expect(process.calls).toBeGreaterThanOrEqual(40);
      for (let at = 1; at <= process.calls; at += STRIDE) {
        const world = await shop(quiet);
        const same = await planned(world, request);
        const dying = new Process(at, Math.floor(at / STRIDE) % 2 === 0 ? 'before' : 'after');
        world.restart(dying);
        failing(world);
        await run(world, same, { archiveLive: stopping(world) }).catch(() => {});
        const why = `at ${at} (${dying.story.at(-1)})`;
        world.restart();
        // As a controller does that comes after it.
        for (const stack of stacksAtRest(world.bench)) await world.sim.run(wake(world.bench, stack, never));
        if (statesOf(world) === 'running') world.data.set('shop_data', 'written since');
        const failed = await world.sim
          .run(
            clone(world.bench, same, { signal: never, backup: world.backup, id: 'q1', archiveLive: stopping(world) }),
          )
          .then(
            () => null,
            (error: unknown) => error,
          );
        expect(unfinishedRestores(world.sim.house), why).toEqual([]);
        expect(left(world), why).toEqual([]);
        const { store } = world.sim.house;
        if (failed !== null || store.applied('shop2') === null) {
          expect(isFailing ? '' : String(failed), why).toBe('');
          expect(statesOf(world), why).toBe('running');
          expect(store.holds('shop'), why).toEqual([]);
          expect(world.sim.world.containersOf('shop2'), why).toEqual([]);
        } else {
          expect(world.sees('shop2-web-1', '/data'), why).toBe(world.data.get('shop_data'));
          expect(world.sim.world.containersOf('shop'), why).toEqual([]);
          expect(
            store.holds('shop').map((one) => one.reason),
            why,
          ).toEqual([expect.stringMatching(/^it was moved to shop2/)]);
        }
        worlds.splice(worlds.indexOf(world), 1);
        world.dispose();
      }
    },
    240_000,
  );
});
