// Drills on the simulated world: a restore is rehearsed beside what lives, which notices nothing of it, and nothing of it stays, wherever it is
// cut.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { DrillSchedule } from '../../src/controller/backup-schedule.ts';
import { Fault } from '../../src/core/fault.ts';
import { Archives, verifiedAtMs } from '../../src/operations/archive/archives.ts';
import { disownDrills, drill, sweepDrills } from '../../src/operations/archive/drill.ts';
import { drillStatusOf } from '../../src/operations/archive/drill-due.ts';
import { drillingRecords, lastDrill } from '../../src/operations/archive/drill-record.ts';
import { resumeRestore, unfinishedRestores } from '../../src/operations/archive/restore.ts';
import { pluggedApp, uses } from './plugged-app.ts';
import { faultOf, never, Process, RestoreWorld } from './restore-world.ts';

const HEAD = 'apiVersion: windlass/v1\n';
/** What would be noticed by others: a name and a port of their own. */
const noticed = (name: string): string =>
  `    container_name: the-${name}\n    ports: ["127.0.0.1:${name.length}080:80"]\n`;
const JOB = `${HEAD}kind: Job\nservice: api\nscript: echo hi\n`;
const FILES: Record<string, string> = {
  ...pluggedApp('pg', { service: noticed('pg') }),
  ...pluggedApp('api', {
    more: 'plugs: { db: { interface: it } }\nhooks: { test: [{ job: look }] }\n',
    environment: uses('db'),
    service: noticed('api'),
  }),
  'apps/api/look.job.yaml': JOB,
  'stacks/pg.yaml': `${HEAD}kind: Stack\napp: pg\n`,
  'stacks/api.yaml': `${HEAD}kind: Stack\napp: api\nintegrate: { db: pg }\nbackup: { keep: { last: 1 }, drill: { schedule: "0 5 * * *" } }\n`,
};

const worlds: RestoreWorld[] = [];
afterEach(() => {
  for (const world of worlds.splice(0)) world.dispose();
});

/** Deployed and archived, and then everything newer. */
async function shop(files = FILES, stacks = ['pg', 'api']) {
  const world = new RestoreWorld();
  worlds.push(world);
  world.sim.source.push(files);
  const first = await world.sim.apply();
  expect([...first!.failures.values()].map(String)).toEqual([]);
  const made: Record<string, string> = {};
  for (const stack of stacks) {
    const secret = world.secrets.get(`stack/${stack} secret`)!;
    made[stack] = await world.archive(stack, { volumes: { data: `old ${stack}` }, secrets: { secret } });
  }
  for (const stack of ['pg', 'api']) {
    world.secrets.set(`stack/${stack} secret`, `new ${stack}`);
    world.data.set(`${stack}_data`, `new ${stack}`);
  }
  const second = await world.sim.apply();
  expect([...second!.failures.values()].map(String)).toEqual([]);
  return { world, made };
}

const TOLD = /^(?:archive-drilled|last-drill|last-verified|drill-schedule|memory|salt)\b/;
/** Everything that lives: engine, vault, folders, and what is on record. */
function living(world: RestoreWorld) {
  const { engine } = world.sim.world;
  const { store } = world.sim.house;
  return {
    containers: [...engine.containers.values()].map((one) => JSON.stringify(one)).sort(),
    volumes: [...engine.volumes.keys()].sort(),
    networks: [...engine.networks.keys()].sort(),
    data: Object.fromEntries([...world.data].sort()),
    secrets: Object.fromEntries([...world.secrets].sort()),
    folders: readdirSync(join(world.sim.dir, 'stacks')).sort(),
    applied: store.allApplied(),
    holds: [...store.allHolds()].filter(([, list]) => list.length > 0),
    values: [...store.values('').entries()].filter(([key]) => !TOLD.test(key)).sort(([a], [b]) => (a < b ? -1 : 1)),
  };
}

const run = (world: RestoreWorld, note: (line: string) => void = () => {}) =>
  world.sim.run(drill(world.bench, 'api', { signal: never, note }));

describe('a drill', () => {
  it('restores the newest archives of the stack and its provider apart from them, runs the test hooks, and leaves nothing', async () => {
    const { world, made } = await shop();
    const before = living(world);
    const during: string[] = [];
    const done = await run(world, (line) => {
      if (line !== 'running the test hooks') return;
      for (const { id, spec } of world.sim.world.engine.containers.values()) {
        if (!/-drill/.test(spec.name)) continue;
        during.push(spec.name, world.sees(spec.name, '/data'));
        expect([id, spec.ports ?? []]).toEqual([id, []]);
      }
      expect(drillingRecords(world.sim.house.store)[0]?.archives).toEqual([made['pg'], made['api']]);
    });
    expect(during.sort()).toEqual(['api-drill-api-1', 'old api', 'old pg', 'pg-drill-pg-1'].sort());
    expect(done).toMatchObject({ archive: made['api'], outcome: 'verified' });
    expect(living(world)).toEqual(before);
    const [last] = world.sim.house.store.runs({ stack: 'api', limit: 1 });
    expect(last).toMatchObject({ operation: 'drill', outcome: 'succeeded', hooks: [{ phase: 'test' }] });
    // What was tested is verified; its provider was only needed.
    expect(verifiedAtMs(world.sim.house, made['api']!)).toBe(done.atMs);
    expect(verifiedAtMs(world.sim.house, made['pg']!)).toBeNull();
    expect(drillStatusOf(world.bench, 'api')?.verified).toEqual({ archive: made['api'], atMs: done.atMs });
  });

  it('verifies nothing when the test hooks are not content, says why, and leaves nothing either', async () => {
    const { world, made } = await shop({
      ...FILES,
      'apps/api/look.job.yaml': JOB.replace('echo hi', '"echo no; exit 3"'),
    });
    const before = living(world);
    const fault = await faultOf(run(world));
    expect(fault.code).toBe('HOOK_FAILED');
    expect(living(world)).toEqual(before);
    expect(lastDrill(world.sim.house.store, 'api')).toMatchObject({
      archive: made['api'],
      outcome: 'failed',
      code: 'HOOK_FAILED',
    });
    expect(verifiedAtMs(world.sim.house, made['api']!)).toBeNull();
    const { events } = { events: world.sim.house.store.events({ stack: 'api' }) };
    expect(events.at(-1)).toMatchObject({ level: 'error', reason: 'DrillFailed' });
  });

  it('never reaches a live provider: without an archive of that there is no drill', async () => {
    const { world } = await shop(FILES, ['api']);
    const before = living(world);
    const fault = await faultOf(run(world));
    expect([fault.code, fault.message]).toEqual(['ARCHIVE_MISSING', expect.stringMatching(/`db` needs the stack pg/)]);
    expect(living(world)).toEqual(before);
  });

  it('takes no secret but from the archive: one that it lacks fails the drill that a live vault would have saved', async () => {
    const { world } = await shop(FILES, ['pg']);
    await world.archive('api', { volumes: { data: 'old api' } });
    const before = living(world);
    const fault = await faultOf(run(world));
    expect([fault.code, fault.message]).toEqual([
      'VAULT_SECRET_MISSING',
      expect.stringMatching(/no secret secret for stack api-drill/),
    ]);
    expect(living(world)).toEqual(before);
  });

  it('makes nothing under a name that anybody bears', async () => {
    const { world } = await shop();
    world.sim.world.engine.addVolume('x', { 'com.docker.compose.project': 'pg-drill' });
    world.data.set('x', 'precious');
    const before = living(world);
    const fault = await faultOf(run(world));
    expect([fault.code, fault.message]).toEqual(['USAGE', expect.stringMatching(/name pg-drill.*the volume x/)]);
    expect(living(world)).toEqual(before);
  });

  it('keeps what it needs, and what it verified last, from retention', async () => {
    const { world, made } = await shop();
    const kept = async () => {
      const at = await world.bench.reader.read(await world.sim.source.fetch());
      const verdicts = await new Archives(world.bench.house).prune(at, 'api', false);
      return Object.fromEntries(verdicts.map(({ id, isKept, why }) => [id, isKept ? why : null]));
    };
    await run(world);
    await world.sim.clock.advance(1_000);
    const newer = await world.archive('api', { volumes: { data: 'newer api' }, secrets: { secret: 'x' } });
    await world.sim.clock.advance(1_000);
    const newest = await world.archive('api', { volumes: { data: 'newest api' }, secrets: { secret: 'x' } });
    expect(await kept()).toEqual({
      [newest]: expect.arrayContaining(['the newest']),
      [newer]: null,
      [made['api']!]: ['the last verified one'],
    });
    world.sim.house.store.putValue('drilling/1', {
      id: '1',
      stack: 'api',
      archives: [newer],
      names: [],
      pinsBefore: {},
    });
    expect((await kept())[newer]).toEqual(['pinned by the drill of api']);
  });
});

describe('a drill that is cut', () => {
  it('at any call is taken away by whoever comes next, and what lives never notices', async () => {
    const counting = await shop();
    const process = new Process();
    counting.world.restart(process);
    await run(counting.world);
    const points = process.calls;
    expect(points).toBeGreaterThanOrEqual(60);
    for (let at = 1; at <= points; at += 7) {
      const { world } = await shop();
      const before = living(world);
      const dying = new Process(at, Math.floor(at / 7) % 2 === 0 ? 'before' : 'after');
      world.restart(dying);
      await run(world).then(
        () => {},
        () => {},
      );
      world.restart();
      const told = `at ${at} (${dying.story.at(-1)})`;
      // As a controller starts: no restore of it is finished, no hook of it is taken up.
      disownDrills(world.sim.house);
      expect(unfinishedRestores(world.sim.house), told).toEqual([]);
      await world.sim.run(sweepDrills(world.bench, never));
      expect(living(world), told).toEqual(before);
      expect(existsSync(join(world.sim.dir, 'stacks', 'api-drill')), told).toBe(false);
      if (at % 4 === 0) expect((await run(world)).outcome, told).toBe('verified');
      worlds.splice(worlds.indexOf(world), 1);
      world.dispose();
    }
  }, 240_000);

  it('is one that nobody is at: a controller that starts meanwhile leaves it alone', async () => {
    const { world } = await shop();
    const swept: unknown[] = [];
    const done = await run(world, (line) => {
      if (line !== 'running the test hooks') return;
      disownDrills(world.sim.house);
      swept.push(sweepDrills(world.bench, never));
    });
    expect([done.outcome, await Promise.all(swept)]).toEqual(['verified', [[]]]);
  });

  it('by its signal is called off, is nobody’s failure, and leaves nothing', async () => {
    const { world } = await shop();
    const before = living(world);
    const stop = new AbortController();
    const work = drill(world.bench, 'api', {
      signal: stop.signal,
      note: (line) => {
        if (/written and verified/.test(line)) stop.abort(new Fault('CANCELLED', 'the controller stops'));
      },
    });
    expect((await faultOf(world.sim.run(work))).code).toBe('CANCELLED');
    expect(living(world)).toEqual(before);
    expect(lastDrill(world.sim.house.store, 'api')).toBeNull();
  });
});

describe('a schedule of drills', () => {
  it('makes one at each of its times, tries a failed one again later, and none while there is no archive', async () => {
    const { world } = await shop();
    const log: string[] = [];
    const schedule = new DrillSchedule({
      bench: world.bench,
      say: () => {},
      log: (line) => void log.push(line),
      signal: never,
    });
    const at = await world.bench.reader.read(await world.sim.source.fetch());
    const look = () => world.sim.run(schedule.look(at));
    const drills = () =>
      world.sim.house.store.runs({ stack: 'api', limit: 50 }).filter((one) => one.operation === 'drill').length;
    const day = 86_400_000;
    await look();
    await world.sim.clock.advance(day);
    await look();
    expect(drills()).toBe(0);
    world.sim.house.store.putValue('last-backup/api', {
      archive: '',
      sizeBytes: 0,
      payloads: 1,
      atMs: 1,
      durationMs: 1,
    });
    await look();
    await look();
    expect([drills(), log.at(-1)]).toEqual([1, expect.stringMatching(/^api: Drilled: archive/)]);
    world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
    await world.sim.clock.advance(day);
    await look();
    await look();
    expect([drills(), log.at(-1)]).toEqual([2, expect.stringMatching(/^error api: DrillFailed/)]);
    await world.sim.clock.advance(2 * 60_000);
    await look();
    expect([drills(), log.at(-1)]).toEqual([3, expect.stringMatching(/^api: Drilled/)]);
  });

  it('that was interrupted is no restore that anybody could finish', async () => {
    const { world } = await shop();
    await expect(resumeRestore(world.bench, 'drill/1-0', { signal: never, backup: world.backup })).rejects.toThrow(
      /there is no restore/,
    );
  });
});
