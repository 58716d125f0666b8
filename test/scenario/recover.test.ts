// Recovers on the simulated world: a group in its order, under other names, with a part that fails, on a bare machine, and cut at any point.
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { encodeGroup } from '../../src/core/archive/manifest.ts';
import { Fault } from '../../src/core/fault.ts';
import type { Recover } from '../../src/core/spec/request.ts';
import {
  planRecover,
  type RecoverPlan,
  type RecoverRequest,
  recover,
  recoverDigest,
  recoverRecord,
} from '../../src/operations/archive/recover.ts';
import { restoreRecord, unfinishedRestores } from '../../src/operations/archive/restore.ts';
import { deployedSubject } from '../../src/operations/hook-subject.ts';
import { changesOf, leasesOf, planWork, stackOf, workDigest } from '../../src/operations/trust/request-work.ts';
import { pluggedApp, uses } from './plugged-app.ts';
import { faultOf, never, Process, RestoreWorld } from './restore-world.ts';

const APPS: Record<string, string> = {
  ...pluggedApp('pg'),
  ...pluggedApp('api', { more: 'plugs: { db: { interface: it } }\n', environment: uses('db') }),
  ...pluggedApp('site', { more: 'plugs: { backend: { interface: it, optional: true } }\n', environment: ', A: b' }),
  'stacks/pg.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: pg\ngroup: shop\n',
  'stacks/api.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: api\ngroup: shop\nintegrate: { db: pg }\n',
  'stacks/site.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: site\ngroup: shop\nintegrate: { backend: api }\n',
  'stacks/mail.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: pg\ngroup: shop\n',
};
const STACKS = ['pg', 'api', 'site', 'mail'];
const service = (stack: string): string => (stack.startsWith('mail') ? 'pg' : stack.replace(/\d$/, ''));
const container = (stack: string): string => `${stack}-${service(stack)}-1`;

const worlds: RestoreWorld[] = [];
afterEach(() => {
  for (const world of worlds.splice(0)) world.dispose();
});

/** Deployed and archived as a group, and then everything newer. */
async function shop(files: Record<string, string> = APPS, stacks = STACKS) {
  const world = new RestoreWorld();
  worlds.push(world);
  world.sim.source.push(files);
  const first = await world.sim.apply();
  expect([...first!.failures.values()].map(String)).toEqual([]);
  const members: { stack: string; archive: string }[] = [];
  const old: Record<string, string> = {};
  for (const stack of stacks) {
    const secret = world.secrets.get(`stack/${stack} secret`)!;
    old[stack] = secret;
    members.push({
      stack,
      archive: await world.archive(stack, { volumes: { data: `old ${stack}` }, secrets: { secret } }),
    });
  }
  const edges = [
    { consumer: 'api', plug: 'db', provider: 'pg' },
    { consumer: 'site', plug: 'backend', provider: 'api' },
  ];
  const { bytes } = encodeGroup({
    format: 'windlass-group',
    version: 1,
    madeAtMs: world.sim.clock.nowMs(),
    group: 'shop',
    members,
    edges: edges.filter((one) => stacks.includes(one.consumer)),
    windlass: '0.0.0',
  });
  const archive = await world.archives.putManifest(bytes, 'signed\n');
  for (const stack of stacks) {
    world.secrets.set(`stack/${stack} secret`, `new ${stack}`);
    world.data.set(`${stack}_data`, `new ${stack}`);
  }
  const second = await world.sim.apply();
  expect([...second!.failures.values()].map(String)).toEqual([]);
  return { world, archive, old, members };
}

const planned = async (world: RestoreWorld, request: Partial<RecoverRequest> & { archive: string }) => {
  const answer = await world.sim.run(planRecover(world.bench, { stacks: STACKS, ...request }, never));
  if (answer.kind === 'wait') throw new Error(answer.why);
  return answer.plan;
};
const run = (world: RestoreWorld, plan: RecoverPlan, signal = never) =>
  world.sim.run(recover(world.bench, plan, { signal, backup: world.backup, id: 'q1' }));
const environmentOf = async (world: RestoreWorld, stack: string): Promise<Record<string, string>> => {
  const subject = await world.sim.run(deployedSubject(world.bench, world.sim.house.store.applied(stack)!, never));
  return JSON.parse((await subject.resolved.model(never)).text).services[service(stack)].environment;
};
const statesOf = (world: RestoreWorld) =>
  Object.fromEntries(
    Object.entries(recoverRecord(world.sim.house, 'q1')?.outcomes ?? {}).map(([name, { state }]) => [name, state]),
  );
const heldWhy = (world: RestoreWorld, stack: string) => world.sim.house.store.holds(stack).map((one) => one.reason);

describe('a recover', () => {
  it('is not begun where each stack alone would fit, and all of them do not', async () => {
    const { world, archive } = await shop();
    for (const [freeBytes, code] of [
      [39, 'PAYLOAD_NO_SPACE'],
      [40, null],
    ] as const) {
      world.disks.volumes = { id: 'a', path: '/a', freeBytes };
      const work = planned(world, { archive });
      if (code === null) expect((await work).archive).toBe(archive);
      else expect((await faultOf(work)).code).toBe(code);
    }
  });

  it('changes nothing while it is planned, says what it will do, and is planned the same again', async () => {
    const { world, archive, old } = await shop();
    const process = new Process();
    world.restart(process);
    const plan = await planned(world, { archive });
    expect(process.story.filter((one) => !/putResolved|putValue/.test(one))).toEqual([]);
    expect(plan.lines[0]).toMatch(/recover 4 stacks from .*: mail, pg; then api; then site/);
    expect(plan.lines.join('\n')).toMatch(/api: volume api_data .* is replaced/);
    for (const secret of Object.values(old)) expect(JSON.stringify(plan)).not.toContain(secret);
    expect(JSON.parse(JSON.stringify(plan))).toEqual(plan);
    expect(recoverDigest(await planned(world, { archive }))).toBe(recoverDigest(plan));
    expect(recoverDigest(await planned(world, { archive, safety: 'none' }))).not.toBe(recoverDigest(plan));
  });

  it('restores a group in its order, each on the secrets of its time, and says so of each', async () => {
    const { world, archive, old } = await shop();
    const plan = await planned(world, { archive });
    const words = await run(world, plan);
    expect(words).toMatch(/^mail: done .*; pg: done .*; api: done .*; site: done/);
    for (const stack of STACKS) {
      expect(world.sees(container(stack), '/data')).toBe(`old ${stack}`);
      expect((await environmentOf(world, stack))['SECRET']).toBe(old[stack]);
      expect(restoreRecord(world.sim.house, `q1-${stack}`)?.phase).toBe('done');
      expect(heldWhy(world, stack)).toEqual([expect.stringMatching(/^restored from archive/)]);
    }
    expect(await environmentOf(world, 'api')).toMatchObject({ HOST: 'pg', PASSWORD: old['pg'] });
    expect(world.safety).toEqual(['mail', 'pg', 'api', 'site']);
    // A second call has nothing left to do.
    world.sim.world.clearCalls();
    expect(await run(world, plan)).toBe(words);
    expect(world.sim.world.mutatingCalls()).toEqual([]);
  });

  it('makes renamed stacks beside the originals, on each other', async () => {
    const { world, archive, old } = await shop();
    const rename = { pg: 'pg2', api: 'api2', site: 'site2' };
    await run(world, await planned(world, { archive, stacks: ['pg', 'api', 'site'], rename }));
    for (const stack of ['pg', 'api', 'site']) {
      expect(world.sees(container(`${stack}2`), '/data')).toBe(`old ${stack}`);
      expect(world.sees(container(stack), '/data')).toBe(`new ${stack}`);
      expect(world.secrets.get(`stack/${stack} secret`)).toBe(`new ${stack}`);
    }
    expect(await environmentOf(world, 'api2')).toMatchObject({ HOST: 'pg2', PASSWORD: old['pg'] });
    expect(world.safety).toEqual([]);
    // Each of them can be read again without what its provider is now.
    world.sim.house.store.deleteValue(`restored/${world.sim.house.store.applied('pg2')!.revision}`);
    world.restart();
    expect(await environmentOf(world, 'api2')).toMatchObject({ HOST: 'pg2' });
  });

  it('renames a provider alone, and its consumers follow it in place', async () => {
    const { world, archive } = await shop();
    await run(world, await planned(world, { archive, stacks: ['pg', 'api'], rename: { pg: 'pg2' } }));
    expect(await environmentOf(world, 'api')).toMatchObject({ HOST: 'pg2' });
    expect(world.sees('pg-pg-1', '/data')).toBe('new pg');
  });

  it('leaves skipped plugs unconnected, and needs a provider that is not skipped', async () => {
    const { world, archive } = await shop();
    world.sim.source.push({ 'stacks/api.yaml': null, 'stacks/pg.yaml': null, 'stacks/site.yaml': null });
    for (const stack of ['api', 'pg', 'site']) world.sim.house.store.deleteApplied(stack);
    const wanted = { archive, stacks: ['site'], rename: { site: 'site2' } };
    expect((await faultOf(planned(world, wanted))).message).toMatch(/`backend` needs the stack api/);
    const plan = await planned(world, { ...wanted, skipIntegration: ['backend'] });
    await run(world, plan);
    expect(world.sees('site2-site-1', '/data')).toBe('old site');
  });

  it('takes the archive of a single stack for a group of one', async () => {
    const { world, members } = await shop();
    const archive = members.find((one) => one.stack === 'mail')!.archive;
    await run(world, await planned(world, { archive, stacks: ['mail'] }));
    expect(world.sees('mail-pg-1', '/data')).toBe('old mail');
    expect((await faultOf(planned(world, { archive, stacks: ['pg'] }))).code).toBe('NOT_FOUND');
  });

  it('finds damage in any of them, and an unsigned group, before anything is touched', async () => {
    const { world, archive, members } = await shop();
    const { readFileSync, writeFileSync } = await import('node:fs');
    const { bytes } = await world.archives.manifest(members[2]!.archive);
    const { digest } = JSON.parse(Buffer.from(bytes).toString()).payloads[0].blob;
    const path = join(world.sim.dir, 'archives/blobs/sha256', digest.slice(0, 2), digest);
    const whole = readFileSync(path);
    writeFileSync(path, 'x');
    expect((await faultOf(planned(world, { archive }))).code).toBe('ARCHIVE_DAMAGED');
    writeFileSync(path, whole);
    const group = encodeGroup({
      format: 'windlass-group',
      version: 1,
      madeAtMs: 1,
      group: 'evil',
      members,
      edges: [],
      windlass: '',
    });
    const unsigned = await world.archives.putManifest(group.bytes, 'mine\n');
    expect((await faultOf(planned(world, { archive: unsigned }))).code).toBe('ARCHIVE_UNTRUSTED');
  });

  it('works on a bare machine: nothing is applied, no commit is known, and the vault is empty', async () => {
    const { world, archive, old } = await shop();
    const bare = new RestoreWorld(2);
    worlds.push(bare);
    cpSync(join(world.sim.dir, 'archives'), join(bare.sim.dir, 'archives'), { recursive: true });
    bare.restart();
    await run(bare, await planned(bare, { archive }));
    for (const stack of STACKS) {
      expect(bare.sees(container(stack), '/data')).toBe(`old ${stack}`);
      expect(bare.secrets.get(`stack/${stack} secret`)).toBe(old[stack]);
    }
    expect(await environmentOf(bare, 'api')).toMatchObject({ HOST: 'pg', PASSWORD: old['pg'] });
  });
});

describe('the work of a request', () => {
  it('lets each restore hold its own leases, and tells of each', async () => {
    const { world, archive } = await shop();
    const asked: Recover = {
      apiVersion: 'windlass/v1',
      kind: 'Recover',
      stacks: ['api', 'pg'],
      archive,
      rename: { api: 'api2' },
      reason: 'a look at the data of before',
      expires: '2027-01-01T00:00:00Z',
    };
    const answer = await world.sim.run(planWork(world.bench, asked, never));
    if (answer.kind === 'wait') throw new Error(answer.why);
    const { work } = answer;
    expect([work.operation, stackOf(work), leasesOf(work)]).toEqual(['recover', 'pg', []]);
    expect(workDigest(work)).toMatch(/^[0-9a-f]{64}$/);
    expect(changesOf(work)[0]).toMatch(/^recover 2 stacks from [0-9a-f]{12}: pg; then api2$/);
    // What stands in the way is waited for; nothing is spent.
    const circle = await world.sim.run(planWork(world.bench, { ...asked, rename: { api: 'pg' } }, never));
    expect(circle).toMatchObject({ kind: 'wait', why: expect.stringMatching(/both be recovered as pg/) });
  });
});

describe('a recover of which a part fails', () => {
  it('blocks only what needs that part, brings its data back, and names each', async () => {
    const { world, archive } = await shop();
    const plan = await planned(world, { archive });
    const { house } = world.sim;
    house.store.putHold('site', { kind: 'held', reason: 'by hand', sinceMs: 1, untilMs: 0, service: '' });
    const safety = world.backup;
    const backup = async (stack: string) => {
      if (stack === 'api') world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
      return safety(stack);
    };
    const work = () => world.sim.run(recover(world.bench, plan, { signal: never, backup, id: 'q1' }));
    const fault = await faultOf(work());
    expect(fault.code).toBe('RESTORE_FAILED');
    expect(fault.message).toMatch(/mail: done .*; pg: done .*; api: failed \(no\); site: blocked \(it needs api/);
    expect(statesOf(world)).toEqual({ mail: 'done', pg: 'done', api: 'failed', site: 'blocked' });
    expect(world.sees('pg-pg-1', '/data')).toBe('old pg');
    expect(world.sees('mail-pg-1', '/data')).toBe('old mail');
    expect(world.sees('api-api-1', '/data')).toBe('new api');
    expect(world.sees('site-site-1', '/data')).toBe('new site');
    expect(heldWhy(world, 'api')).toEqual([]);
    expect(heldWhy(world, 'site')).toEqual(['by hand']);
    // What ended has ended.
    world.sim.world.clearCalls();
    expect((await faultOf(work())).message).toBe(fault.message);
    expect(world.sim.world.mutatingCalls()).toEqual([]);
  });

  it('runs the hooks of each where it is deployed, and changes nothing where the first of them fails', async () => {
    const hooks = 'hooks: { pre_recover: [{ job: say }], post_recover: [{ job: say }] }\n';
    const files = {
      ...APPS,
      'apps/pg/say.job.yaml': 'apiVersion: windlass/v1\nkind: Job\nservice: pg\nscript: echo hi\n',
    };
    const { world, archive } = await shop({ ...files, 'stacks/mail.yaml': APPS['stacks/mail.yaml'] + hooks }, ['mail']);
    const wanted = { archive, stacks: ['mail'] };
    const process = new Process();
    world.restart(process);
    await run(world, await planned(world, wanted));
    const at = (name: string) => process.story.flatMap((one, index) => (one === name ? [index] : []));
    const [pre = 0, post = 0] = at('oneShots.start');
    expect(at('oneShots.start')).toHaveLength(2);
    expect(at('payloads.write').every((index) => index > pre && index < post)).toBe(true);
    expect(recoverRecord(world.sim.house, 'q1')?.outcomes['mail']?.phases).toEqual(['pre_recover', 'post_recover']);

    const no = files['apps/pg/say.job.yaml'].replace('echo hi', '"echo no; exit 3"');
    const other = await shop(
      { ...files, 'apps/pg/say.job.yaml': no, 'stacks/mail.yaml': APPS['stacks/mail.yaml'] + hooks },
      ['mail', 'pg'],
    );
    const both = await planned(other.world, { archive: other.archive, stacks: ['mail', 'pg'] });
    const fault = await faultOf(run(other.world, both));
    expect(fault.message).toMatch(/mail: failed .*; pg: done/);
    expect(restoreRecord(other.world.sim.house, 'q1-mail')).toBeNull();
    expect(other.world.sees('mail-pg-1', '/data')).toBe('new mail');
    expect(heldWhy(other.world, 'mail')).toEqual([]);
  });

  it('is refused when one of its stacks was changed since it was planned', async () => {
    const { world, archive } = await shop();
    const plan = await planned(world, { archive });
    world.sim.source.push({
      'apps/site/app.yaml': APPS['apps/site/app.yaml']!.replace('"1"', '"2"'),
      'apps/site/compose.yaml': APPS['apps/site/compose.yaml']!.replace('A: b', 'A: c'),
    });
    await world.sim.apply();
    expect((await faultOf(run(world, plan))).code).toBe('PLAN_STALE');
    expect(recoverRecord(world.sim.house, 'q1')).toBeNull();
  });
});

describe('a recover that is cut', () => {
  it('by its signal is gone on with by a second call, and what was called off is begun again', async () => {
    const { world, archive } = await shop();
    const plan = await planned(world, { archive });
    const abort = new AbortController();
    const backup = async (stack: string) => {
      if (stack === 'api') abort.abort();
      return world.backup(stack);
    };
    const work = recover(world.bench, plan, { signal: abort.signal, backup, id: 'q1' });
    expect((await faultOf(world.sim.run(work))).code).toBe('CANCELLED');
    expect(world.sees('pg-pg-1', '/data')).toBe('old pg');
    expect(world.sees('api-api-1', '/data')).toBe('new api');
    expect(heldWhy(world, 'site')).toEqual(['the recover q1 is under way']);
    await run(world, plan);
    expect(Object.values(statesOf(world))).toEqual(['done', 'done', 'done', 'done']);
    expect(restoreRecord(world.sim.house, 'q1-api')?.phase).toBe('failed');
    expect(restoreRecord(world.sim.house, 'q1-api-2')?.phase).toBe('done');
  });

  const TWO = ['pg', 'api'];
  it('at any call is finished by a second one, and no stack is done twice', async () => {
    const counting = await shop(APPS, TWO);
    const process = new Process();
    const plan = await planned(counting.world, { archive: counting.archive, stacks: TWO });
    counting.world.restart(process);
    await run(counting.world, plan);
    const points = process.calls;
    expect(points).toBeGreaterThanOrEqual(60);
    for (let at = 1; at <= points; at += 11) {
      const { world, archive } = await shop(APPS, TWO);
      const again = await planned(world, { archive, stacks: TWO });
      const dying = new Process(at, Math.floor(at / 11) % 2 === 0 ? 'before' : 'after');
      world.restart(dying);
      await run(world, again).then(
        () => {},
        () => {},
      );
      world.restart();
      await run(world, again).catch((error) => {
        throw new Error(`at ${at} (${dying.story.at(-1)}): ${error}`, { cause: error });
      });
      expect(unfinishedRestores(world.sim.house)).toEqual([]);
      for (const stack of TWO) {
        expect(world.sees(container(stack), '/data'), `at ${at}`).toBe(`old ${stack}`);
        expect(world.sim.world.engine.volumes.has(`${stack}_data_g2`)).toBe(false);
        expect(heldWhy(world, stack)).toEqual([expect.stringMatching(/^restored from archive/)]);
      }
    }
  }, 120_000);
});
