// Restores on the simulated world: what is planned, what is replaced, what comes back after a failure, and a crash at every call.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { readManifest } from '../../src/core/archive/manifest.ts';
import { Fault } from '../../src/core/fault.ts';
import type { LoadedStack } from '../../src/core/spec/loaded.ts';
import { Archives } from '../../src/operations/archive/archives.ts';
import { backup } from '../../src/operations/archive/backup.ts';
import { backupStatusOf, isBackupDue } from '../../src/operations/archive/backup-due.ts';
import { generationOf, keep, keptData, sweepKept } from '../../src/operations/archive/generations.ts';
import {
  planRestore,
  type RestorePlan,
  type RestoreRequest,
  readArchive,
} from '../../src/operations/archive/plan-restore.ts';
import { restore, restoreRecord, resumeRestore, unfinishedRestores } from '../../src/operations/archive/restore.ts';
import { checkRoom } from '../../src/operations/archive/room.ts';
import { deployedSubject } from '../../src/operations/hook-subject.ts';
import { holdOf } from '../../src/operations/survey.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import type { Payloads } from '../../src/ports/payloads.ts';
import { crashPoints, faultOf, never, Process, RestoreWorld } from './restore-world.ts';

const COMPOSE = `services:
  web:
    image: windlass-test/busybox:1
    environment: { PASSWORD: $PASSWORD }
    volumes: [data:/data, ./conf:/conf, cache:/cache]
volumes:
  data: {}
  cache: {}
`;
const STACK = `apiVersion: windlass/v1
kind: Stack
vars: { PASSWORD: "@secret!" }
hooks:
${['install', 'update', 'restore'].map((one) => `  pre_${one}: [{ job: say }]\n  post_${one}: [{ job: say }]\n`).join('')}  post_deployed: [{ job: say }]
`;
const QUIET_STACK = STACK.replace(/^ {2}(?:pre|post)_(?:install|update).*\n/gm, '');
const JOB = 'apiVersion: windlass/v1\nkind: Job\nservice: web\nscript: echo hi\n';
const FILES = {
  'stacks/shop/compose.yaml': COMPOSE,
  'stacks/shop/stack.yaml': STACK,
  'stacks/shop/say.job.yaml': JOB,
};

const worlds: RestoreWorld[] = [];
afterEach(() => {
  for (const world of worlds.splice(0)) world.dispose();
});

/** Deployed at old data and secret, archived, and then everything newer. */
async function shop(
  change: Parameters<RestoreWorld['archive']>[1]['change'] = {},
  stack = STACK,
): Promise<{ world: RestoreWorld; archive: string }> {
  const world = new RestoreWorld();
  worlds.push(world);
  world.secrets.set('stack/shop PASSWORD', 'old secret');
  world.sim.source.push({ ...FILES, 'stacks/shop/stack.yaml': stack });
  const first = await world.sim.apply();
  expect([...first!.failures.values()].map(String)).toEqual([]);
  const archive = await world.archive('shop', {
    volumes: { data: 'old data' },
    left: ['cache'],
    folders: { 'stacks/shop/conf': 'old conf' },
    secrets: { PASSWORD: 'old secret' },
    ...(change ? { change } : {}),
  });
  world.secrets.set('stack/shop PASSWORD', 'new secret');
  world.sim.source.push({ 'stacks/shop/compose.yaml': COMPOSE.replace('busybox:1', 'web:1') });
  const second = await world.sim.apply();
  expect([...second!.failures.values()].map(String)).toEqual([]);
  world.data.set('shop_data', 'new data');
  world.data.set('shop_cache', 'cache');
  return { world, archive };
}

const planned = async (world: RestoreWorld, request: Partial<RestoreRequest> & { archive: string }) => {
  const answer = await world.sim.run(planRestore(world.bench, { stack: 'shop', ...request }, never));
  if (answer.kind === 'wait') throw new Error(answer.why);
  return answer.plan;
};
const run = (world: RestoreWorld, plan: RestorePlan, id = 'r1') =>
  world.sim.run(restore(world.bench, plan, { signal: never, backup: world.backup, id }));
const environment = (world: RestoreWorld, container: string): string => world.sim.world.container(container).spec.image;
const hooks = (world: RestoreWorld, stack = 'shop') =>
  world.sim.house.store.runs({ stack, limit: 1 })[0]?.hooks?.map((one) => one.phase);
const volumes = (world: RestoreWorld) => [...world.sim.world.engine.volumes.keys()].sort();

function expectNew(world: RestoreWorld, cache = 'cache'): void {
  expect(world.sees('shop-web-1', '/data')).toBe('old data');
  expect(world.sees('shop-web-1', '/conf')).toBe('old conf');
  expect(world.sees('shop-web-1', '/cache')).toBe(cache);
  expect(world.data.get('shop_cache')).toBe('cache');
  expect(environment(world, 'shop-web-1')).toBe('windlass-test/busybox:1');
  expect(world.secrets.get('stack/shop PASSWORD')).toBe('old secret');
  expect(world.data.get('shop_data')).toBe('new data');
}
function expectOld(world: RestoreWorld): void {
  expect(world.sees('shop-web-1', '/data')).toBe('new data');
  expect(world.sees('shop-web-1', '/conf')).toBe('');
  expect(environment(world, 'shop-web-1')).toBe('windlass-test/web:1');
  expect(world.secrets.get('stack/shop PASSWORD')).toBe('new secret');
  expect(volumes(world)).toEqual(['shop_cache', 'shop_data']);
  expect(generationOf(world.sim.house.store, 'shop')).toBeNull();
}

describe('a secret of the fleet that a restored stack reads', () => {
  /** Archived while the fleet's secret is `old`. */
  async function reader() {
    const world = new RestoreWorld();
    worlds.push(world);
    world.secrets.set('fleet TOKEN', 'old');
    const compose = COMPOSE.replace('PASSWORD: $PASSWORD', 'TOKEN: $TOKEN');
    const stack = 'apiVersion: windlass/v1\nkind: Stack\ngroup: g\nvars: { TOKEN: "ref+vault://TOKEN" }\n';
    world.sim.source.push({ 'stacks/shop/compose.yaml': compose, 'stacks/shop/stack.yaml': stack });
    const first = await world.sim.apply();
    expect([...first!.failures.values()].map(String)).toEqual([]);
    const key = { scope: 'fleet', key: 'TOKEN' };
    const sealed = await world.blob(Buffer.from(JSON.stringify([{ ...key, value: 'old' }])).toString('base64'));
    const vault = { keys: [key], sealed, recipients: ['age1controller'] };
    const archive = await world.archive('shop', { volumes: { data: 'old data' }, change: { vault, group: 'g' } });
    return { world, archive };
  }
  const secretsOf = (world: RestoreWorld) => Object.fromEntries(world.secrets);
  const itemOf = (world: RestoreWorld) => restoreRecord(world.sim.house, 'r1')?.items['secret TOKEN'];

  it.each<[string, Record<string, string>, Record<string, string>]>([
    ['is left where it is the same', { 'fleet TOKEN': 'old' }, { 'fleet TOKEN': 'old' }],
    ['is the fleet’s again where it is gone', {}, { 'fleet TOKEN': 'old' }],
  ])('%s, so that a change of it reaches the stack', async (_, now, after) => {
    const { world, archive } = await reader();
    world.secrets.clear();
    for (const [key, value] of Object.entries(now)) world.secrets.set(key, value);
    await run(world, await planned(world, { archive }));
    expect(secretsOf(world)).toEqual(after);
    expect(itemOf(world)).toBeUndefined();
  });

  it.each<[string, Record<string, string>]>([
    ['the fleet', { 'fleet TOKEN': 'rotated' }],
    ['its group', { 'fleet TOKEN': 'old', 'group/g TOKEN': 'nearer' }],
    ['the stack itself', { 'fleet TOKEN': 'old', 'stack/shop TOKEN': 'nearest' }],
  ])('is a copy of its own where %s holds another one, which is said and left', async (_, now) => {
    const { world, archive } = await reader();
    for (const [key, value] of Object.entries(now)) world.secrets.set(key, value);
    const plan = await planned(world, { archive });
    expect(plan.lines.join('\n')).toMatch(/secret TOKEN came from fleet; another value is read there by now/);
    await run(world, plan);
    expect(secretsOf(world)).toEqual({ ...now, 'stack/shop TOKEN': 'old' });
    expect(itemOf(world)).toMatch(/stack\/shop has a copy of its own, which a change in fleet does not reach/);
  });

  it('is as it was after a restore that failed, also when it was changed meanwhile', async () => {
    const { world, archive } = await reader();
    world.secrets.set('fleet TOKEN', 'rotated');
    const plan = await planned(world, { archive });
    world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
    const put = world.secrets.set.bind(world.secrets);
    world.secrets.set = (key, value) => {
      // Somebody rotates it again while the restore is at work.
      put('fleet TOKEN', 'rotated again');
      return put(key, value);
    };
    await expect(run(world, plan)).rejects.toThrow('no');
    expect(secretsOf(world)).toEqual({ 'fleet TOKEN': 'rotated again' });
  });

  it('is what a person made it where it was gone, also after a restore that failed', async () => {
    const { world, archive } = await reader();
    world.secrets.clear();
    const plan = await planned(world, { archive });
    world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
    const put = world.secrets.set.bind(world.secrets);
    world.secrets.set = (key) => put(key, 'set by a person since');
    await expect(run(world, plan)).rejects.toThrow('no');
    expect(secretsOf(world)).toEqual({ 'fleet TOKEN': 'set by a person since' });
    expect(itemOf(world)).toBe('was set in fleet since, and stays so');
  });

  it.each(['before', 'after'] as const)(
    'is what a person made it where it was gone, and a restore was cut %s it was put back',
    async (when) => {
      const counting = await reader();
      counting.world.secrets.clear();
      const counted = await planned(counting.world, { archive: counting.archive });
      const process = new Process();
      counting.world.restart(process);
      await run(counting.world, counted);
      const { world, archive } = await reader();
      world.secrets.clear();
      const plan = await planned(world, { archive });
      world.restart(new Process(process.story.indexOf('vault.put') + 1, when));
      await expect(run(world, plan)).rejects.toThrow('the process');
      expect(secretsOf(world)).toEqual(when === 'before' ? {} : { 'fleet TOKEN': 'old' });
      world.secrets.set('fleet TOKEN', 'set by a person');
      world.restart();
      await world.sim.run(resumeRestore(world.bench, 'r1', { signal: never, backup: world.backup }));
      expect(secretsOf(world)).toEqual({ 'fleet TOKEN': 'set by a person', 'stack/shop TOKEN': 'old' });
      expect(itemOf(world)).toMatch(/stack\/shop has a copy of its own/);
    },
  );
});

describe('the settings of backups after a restore', () => {
  const saying = (backup: string) => ({ 'stacks/shop/stack.yaml': `${STACK}${backup}` });

  it('are those of git where git declares the stack, not those of the archive', async () => {
    const spec = { apiVersion: 'windlass/v1', kind: 'Stack', vars: { PASSWORD: '@secret!' } };
    const { world, archive } = await shop({ spec: { ...spec, backup: { restic: ['data'] } } });
    await run(world, await planned(world, { archive, safety: 'none' }));
    // What runs stays that of the archive: only the settings are another commit's.
    const running = world.sim.house.store.applied('shop')?.revision;
    const backUp = () => world.sim.run(backup(world.bench, 'shop', { signal: never }));
    const { archive: made } = await backUp();
    const read = readManifest((await world.archives.manifest(made)).bytes);
    if (read.kind !== 'archive') throw new Error('no archive');
    expect(read.manifest.payloads.map(({ format }) => format)).not.toContain('tar');

    const tip = world.sim.source.push(saying('backup: { schedule: "0 3 * * *", keep: { last: 1 }, restic: [data] }\n'));
    expect(world.sim.house.store.applied('shop')?.revision).toBe(running);
    expect((await faultOf(backUp())).code).toBe('REPOSITORY_REFUSED');
    const at = await world.bench.reader.read(tip);
    await isBackupDue(world.bench, at, 'shop');
    expect(backupStatusOf(world.bench, 'shop')?.schedule).toBe('0 3 * * *');
    const verdicts = await new Archives(world.sim.house).prune(at, 'shop', false);
    expect(verdicts.some(({ why }) => why.join().includes('last'))).toBe(true);
  });

  it('are those of what is deployed where git does not declare it any more', async () => {
    const spec = { apiVersion: 'windlass/v1', kind: 'Stack', vars: { PASSWORD: '@secret!' } };
    const { world, archive } = await shop({ spec: { ...spec, backup: { restic: ['data'] } } });
    await run(world, await planned(world, { archive, safety: 'none' }));
    world.sim.source.push({ 'stacks/shop/stack.yaml': null, 'stacks/shop/compose.yaml': null });
    const fault = await faultOf(world.sim.run(backup(world.bench, 'shop', { signal: never })));
    expect(fault.code).toBe('REPOSITORY_REFUSED');
  });
});

describe('a restore in place', () => {
  it('is not begun where its data does not fit beside what is live: on the disk of the engine, of the folders, or of both', async () => {
    const { world, archive } = await shop();
    const disk = (id: string, freeBytes: number) => ({ id, path: `/disk/${id}`, freeBytes });
    const reads = vi.spyOn(world.archives, 'verify');
    // A volume and a folder, of ten bytes each.
    for (const [volumes, folders, full] of [
      [disk('a', 9), disk('b', 1e9), 'a'],
      [disk('a', 1e9), disk('b', 9), 'b'],
      [disk('a', 19), disk('a', 19), 'a'],
      [null, disk('b', 9), 'b'],
    ] as const) {
      Object.assign(world.disks, { volumes, folders });
      expect(await faultOf(planned(world, { archive }))).toMatchObject({
        code: 'PAYLOAD_NO_SPACE',
        message: expect.stringContaining(`/disk/${full}`),
      });
    }
    // A request that waits for room is planned at each look, and an archive is large.
    expect(reads).not.toHaveBeenCalled();
    for (const [volumes, folders] of [
      [disk('a', 10), disk('b', 10)],
      [disk('a', 20), disk('a', 20)],
    ] as const) {
      Object.assign(world.disks, { volumes, folders });
      expect((await planned(world, { archive })).target).toBe('shop');
    }
  });

  it('is not begun where the disk that is mounted at the folder of its own stack is full', async () => {
    const { world, archive } = await shop();
    const disk = (id: string, freeBytes: number) => ({ id, path: `/disk/${id}`, freeBytes });
    Object.assign(world.disks, { volumes: disk('a', 1e9), folders: disk('b', 1e9) });
    const folder = join(world.sim.house.settings.stateDir, 'stacks', 'shop');
    world.mounted.set(folder, disk('c', 9));
    expect(await faultOf(planned(world, { archive }))).toMatchObject({
      code: 'PAYLOAD_NO_SPACE',
      message: expect.stringContaining('/disk/c'),
    });
    world.mounted.set(folder, disk('c', 10));
    Object.assign(world.disks, { folders: disk('b', 0) });
    expect((await planned(world, { archive })).target).toBe('shop');
  });

  it('counts the archive of the live data that is made before it, where that comes to the same disk', async () => {
    const { world, archive } = await shop();
    const mib = 1024 * 1024;
    const disk = (id: string, freeBytes: number) => ({ id, path: `/disk/${id}`, freeBytes });
    const directory = '/srv/archives';
    const archives = { ...world.sim.house.archives!, directory };
    const sizes: Record<string, number | null> = {};
    const payloads = Object.assign(Object.create(world.sim.house.payloads!) as Payloads, {
      volumeSizeBytes: async (name: string) => sizes[name] ?? null,
    });
    const bench = new Workbench({ ...world.sim.house, archives, payloads });
    const plan = (safety: 'archive' | 'none') =>
      world.sim.run(planRestore(bench, { stack: 'shop', archive, safety }, never));
    Object.assign(world.disks, { volumes: disk('a', 3 * mib), folders: disk('b', 1e9) });
    world.mounted.set(directory, disk('a', 3 * mib));
    sizes['shop_data'] = 3 * mib;
    expect(await faultOf(plan('archive'))).toMatchObject({
      code: 'PAYLOAD_NO_SPACE',
      message: expect.stringMatching(/archive of the live data .* up to 3\.0 MiB/),
    });
    expect((await plan('none')).kind).toBe('plan');
    // What is not known is left out, and so is what lies on another disk.
    sizes['shop_data'] = null;
    expect((await plan('archive')).kind).toBe('plan');
    sizes['shop_data'] = 3 * mib;
    world.mounted.set(directory, disk('d', 0));
    expect((await plan('archive')).kind).toBe('plan');
    world.mounted.set(directory, disk('a', 3 * mib));
    // Nor what an app keeps that says so in words which nobody can read now.
    const { manifest } = await readArchive(archives, archive);
    const room = () => world.sim.run(checkRoom(bench, [{ manifest, target: 'shop', safety: true }], never));
    await expect(room()).rejects.toMatchObject({ code: 'PAYLOAD_NO_SPACE' });
    const at = await bench.reader.read(world.sim.house.store.applied('shop')!.revision);
    const app = { name: 'shop', directory: 'apps/shop', texts: { 'backup.yaml': 'kind: [' } };
    const unread = { ...at.fleet.stacks.get('shop')!, layout: { kind: 'app', app } } as unknown as LoadedStack;
    bench.reader.read = async () => ({ ...at, fleet: { ...at.fleet, stacks: new Map([['shop', unread]]) } });
    await room();
  });

  it('asks the room of a store only where the engine’s is not to be seen and the store is here', async () => {
    const { world, archive } = await shop();
    const archives = { ...world.sim.house.archives!, store: world.archives };
    const full = new Proxy(world.archives, {
      get: (target, name) => {
        if (name === 'freeBytes') return async () => 5;
        const value = Reflect.get(target, name) as unknown;
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    const plannedOn = (isRemote: boolean) =>
      planRestore(
        new Workbench({ ...world.sim.house, archives: { ...archives, store: full, isRemote } }),
        { stack: 'shop', archive },
        never,
      );
    expect((await faultOf(world.sim.run(plannedOn(false)))).code).toBe('ARCHIVE_NO_SPACE');
    expect((await world.sim.run(plannedOn(true))).kind).toBe('plan');
    world.disks.volumes = { id: 'a', path: '/a', freeBytes: 1e9 };
    expect((await world.sim.run(plannedOn(false))).kind).toBe('plan');
  });

  it('changes nothing while it is planned, and says what it will do', async () => {
    const { world, archive } = await shop();
    world.sim.world.clearCalls();
    const process = new Process();
    world.restart(process);
    const plan = await planned(world, { archive });
    expect(world.sim.world.mutatingCalls()).toEqual([]);
    expect(process.story.filter((one) => !/putResolved|putValue/.test(one))).toEqual([]);
    expect(volumes(world)).toEqual(['shop_cache', 'shop_data']);
    const words = plan.lines.join('\n');
    expect(words).toMatch(/boots once: its data is files/);
    expect(words).toMatch(
      /volume shop_data \(up to 3\.0 MiB\) is replaced; what was written to it since .* is discarded/,
    );
    expect(words).toMatch(/volume shop_cache is not in the archive and stays as it is/);
    expect(words).toMatch(/secret PASSWORD of stack\/shop is put back/);
    expect(words).toMatch(/git differs: web image: windlass-test\/busybox:1 → windlass-test\/web:1/);
    expect(words).not.toMatch(/git differs: web environment/);
    // Where the data of a generation lies is nothing that git says.
    expect(words).not.toMatch(/git differs: .*(?:generation|tree)/);
    expect(JSON.stringify(plan)).not.toMatch(/old secret|new secret/);
    expect(plan.commit).toBe((await planned(world, { archive })).commit);
  });

  it('puts data, files and secrets back, keeps the data of before, and holds the stack', async () => {
    const { world, archive } = await shop();
    const plan = await planned(world, { archive });
    await run(world, plan);
    expectNew(world);
    expect(hooks(world)).toEqual(['pre_restore', 'post_restore', 'post_deployed']);
    expect(world.sim.house.store.runs({ stack: 'shop', limit: 1 })[0]?.operation).toBe('restore');
    expect(world.safety).toEqual(['shop']);
    expect(keptData(world.sim.house.store).map((one) => one.name)).toEqual(
      ['shop_data', join(world.sim.dir, 'stacks/shop/tree/stacks/shop/conf')].sort(),
    );
    expect(restoreRecord(world.sim.house, 'r1')).toMatchObject({ phase: 'done', vaultBefore: null });
    // Held at what was restored, until the stack is declared otherwise.
    const holds = world.sim.house.store.holds('shop');
    const declared = async () =>
      (await world.bench.reader.read(await world.sim.source.fetch())).fleet.stacks.get('shop')!;
    expect(holdOf(await declared(), holds, world.sim.clock.nowMs())?.kind).toBe('held');
    world.sim.source.push({ 'stacks/shop/compose.yaml': COMPOSE.replace('busybox:1', 'web:2') });
    expect(holdOf(await declared(), holds, world.sim.clock.nowMs())).toBeNull();
    // And then what git says runs on the restored data.
    const after = await world.sim.apply();
    expect([...after!.failures.values()].map(String)).toEqual([]);
    expect(world.sees('shop-web-1', '/data')).toBe('old data');
    expect(environment(world, 'shop-web-1')).toBe('windlass-test/web:2');
    expect(await world.sim.apply()).toBeNull();
  });

  it('can be read again by whatever works on the deployed stack, also by another process', async () => {
    const { world, archive } = await shop();
    await run(world, await planned(world, { archive }));
    world.restart();
    const applied = world.sim.house.store.applied('shop')!;
    const subject = await world.sim.run(deployedSubject(world.bench, applied, never));
    expect(subject.resolved.desired.digest).toBe(applied.desired.digest);
    expect(subject.resolved.desired.volumes.map((one) => one.name)).toEqual(['shop_cache', 'shop_data_g1']);
  });

  it('follows git when the request says so, and can be done again', async () => {
    const { world, archive } = await shop();
    // biome-ignore lint/suspicious/noThenProperty: the word of the file format
    await run(world, await planned(world, { archive, then: 'follow-git', safety: 'none' }));
    expectNew(world);
    expect(world.safety).toEqual([]);
    expect(world.sim.house.store.holds('shop')).toEqual([]);
    world.data.set('shop_data_g1', 'written since');
    const again = await planned(world, { archive });
    expect(again.lines.join('\n')).not.toMatch(/git differs: .*(?:generation|tree)/);
    await run(world, again, 'r2');
    expect(world.sees('shop-web-1', '/data')).toBe('old data');
    expect(volumes(world)).toEqual(['shop_cache', 'shop_data', 'shop_data_g1', 'shop_data_g2']);
    const pins = () => [...world.sim.house.store.values('archive-pin/').values()];
    expect(pins()).toContain('safety archive of the restore r2');
    // The grace period ends; what is in use stays.
    await world.sim.clock.advance(8 * 24 * 60 * 60_000);
    await world.sim.run(sweepKept(world.bench, never));
    expect(volumes(world)).toEqual(['shop_cache', 'shop_data_g2']);
    expect(keptData(world.sim.house.store)).toEqual([]);
    expect(pins()).toEqual(['the stack shop is restored from it']);
  });

  it('of folders alone, done twice, never touches the folder that the live stack mounts', async () => {
    const world = new RestoreWorld();
    worlds.push(world);
    const text = 'services:\n  web:\n    image: windlass-test/busybox:1\n    volumes: [./conf:/conf]\n';
    world.sim.source.push({ 'stacks/shop/compose.yaml': text });
    await world.sim.apply();
    const archive = await world.archive('shop', { volumes: {}, folders: { 'stacks/shop/conf': 'old conf' } });
    await run(world, await planned(world, { archive }));
    expect(world.sees('shop-web-1', '/conf')).toBe('old conf');
    const live = join(world.sim.dir, 'stacks/shop/tree/.generation-1/stacks/shop/conf');
    expect(existsSync(live)).toBe(true);
    await run(world, await planned(world, { archive, safety: 'none' }), 'r2');
    expect(world.sees('shop-web-1', '/conf')).toBe('old conf');
    expect(Object.values(generationOf(world.sim.house.store, 'shop')!.folders)).toEqual([
      '.generation-2/stacks/shop/conf',
    ]);
    // What was live until now is kept like a volume.
    expect(existsSync(live)).toBe(true);
    expect(keptData(world.sim.house.store).map((one) => one.name)).toContain(live);
  });

  it('is resumed by nobody while this process is at it', async () => {
    const { world, archive } = await shop();
    const plan = await planned(world, { archive });
    const backup = async (stack: string, purpose: 'safety') => {
      const again = resumeRestore(world.bench, 'r1', { signal: never, backup: world.backup });
      expect((await faultOf(again)).code).toBe('LOCK_HELD');
      expect(purpose).toBe('safety');
      return world.backup(stack);
    };
    await world.sim.run(restore(world.bench, plan, { signal: never, backup, id: 'r1' }));
    expectNew(world);
  });

  it('is forgotten after a season, unless it did not end or data of before is still kept for it', async () => {
    const { world } = await shop();
    const { store } = world.sim.house;
    const nowMs = world.sim.clock.nowMs();
    for (const [id, endedAtMs] of [
      ['old', nowMs],
      ['open', 0],
      ['needed', nowMs],
    ] as const)
      store.putValue(`restore/${id}`, { id, endedAtMs, startedAtMs: 1, plan: { target: 'shop' } });
    keep(store, {
      kind: 'volume',
      name: 'v',
      stack: 'shop',
      restore: 'needed',
      sinceMs: 1,
      untilMs: Number.MAX_SAFE_INTEGER,
    });
    await world.sim.run(sweepKept(world.bench, never));
    expect([...store.values('restore/').keys()]).toEqual(['restore/needed', 'restore/old', 'restore/open']);
    await world.sim.clock.advance(91 * 86_400_000);
    await world.sim.run(sweepKept(world.bench, never));
    expect([...store.values('restore/').keys()]).toEqual(['restore/needed', 'restore/open']);
  });

  it('never has live data swept away, whatever is listed as kept', async () => {
    const { world, archive } = await shop();
    await run(world, await planned(world, { archive }));
    const { store } = world.sim.house;
    const listed = { stack: 'shop', restore: 'r0', sinceMs: 0, untilMs: 1 } as const;
    for (const name of ['shop_data_g1', 'shop_cache']) keep(store, { kind: 'volume', name, ...listed });
    const folder = join(world.sim.dir, 'stacks/shop/tree/.generation-1/stacks/shop/conf');
    keep(store, { kind: 'folder', name: folder, ...listed });
    for (const one of world.sim.world.containersOf('shop')) world.sim.world.remove(one.name);
    expect(await world.sim.run(sweepKept(world.bench, never))).toEqual([]);
    expect(volumes(world)).toEqual(['shop_cache', 'shop_data', 'shop_data_g1']);
    expect(existsSync(folder)).toBe(true);
    // Of a stack that is gone nobody can tell any more which of them counts.
    store.deleteApplied('shop');
    await world.sim.clock.advance(8 * 24 * 60 * 60_000);
    expect(await world.sim.run(sweepKept(world.bench, never))).toEqual([]);
  });

  it('brings the data, files and secrets of before back when the new one does not come up', async () => {
    const { world, archive } = await shop();
    const plan = await planned(world, { archive });
    world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
    expect((await faultOf(run(world, plan))).message).toBe('no');
    expectOld(world);
    expect(restoreRecord(world.sim.house, 'r1')).toMatchObject({ phase: 'failed', fault: { code: 'COMPOSE_FAILED' } });
    expect(restoreRecord(world.sim.house, 'r1')?.items).toMatchObject({
      shop: 'runs on its data of before',
      'volume shop_data_g1': 'removed again',
    });
    expect(world.sim.house.store.holds('shop')).toEqual([]);
    expect(await world.sim.apply()).toBeNull();
  });

  it('brings everything back when a payload cannot be written, and when it is called off', async () => {
    const { world, archive } = await shop();
    const plan = await planned(world, { archive });
    const abort = new AbortController();
    const backup = async () => {
      abort.abort();
      return 'a'.repeat(64);
    };
    const work = restore(world.bench, plan, { signal: abort.signal, backup, id: 'r1' });
    expect((await faultOf(world.sim.run(work))).code).toBe('CANCELLED');
    expectOld(world);
  });

  it('is refused when the stack was changed since it was planned', async () => {
    const { world, archive } = await shop();
    const plan = await planned(world, { archive });
    world.sim.source.push({ 'stacks/shop/compose.yaml': COMPOSE.replace('busybox:1', 'web:2') });
    await world.sim.apply();
    expect((await faultOf(run(world, plan))).code).toBe('PLAN_STALE');
  });
});

describe('a restore to another name', () => {
  it('bootstraps beside the running original, with ports of its own, and goes away whole when it fails', async () => {
    const { world, archive } = await shop();
    const plan = await planned(world, { archive, target: 'shop2', ports: { web: ['8081:80'] } });
    expect(plan.lines.join('\n')).toMatch(/nothing is deployed as shop2.*\n.*|git does not declare shop2/);
    world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
    await faultOf(run(world, plan));
    expect(world.sim.world.containersOf('shop2')).toEqual([]);
    expect(world.secrets.has('stack/shop2 PASSWORD')).toBe(false);
    expect(world.sim.house.store.applied('shop2')).toBeNull();
    expect(volumes(world)).toEqual(['shop_cache', 'shop_data']);
    await run(world, await planned(world, { archive, target: 'shop2', ports: { web: ['8081:80'] } }), 'r2');
    expect(world.sees('shop2-web-1', '/data')).toBe('old data');
    expect(world.sees('shop2-web-1', '/conf')).toBe('old conf');
    expect(world.sim.world.container('shop2-web-1').spec.ports.map((one) => one.published)).toEqual([8081]);
    expect(world.secrets.get('stack/shop2 PASSWORD')).toBe('old secret');
    expect(world.secrets.get('stack/shop PASSWORD')).toBe('new secret');
    expect(world.sees('shop-web-1', '/data')).toBe('new data');
    expect(hooks(world, 'shop2')).toEqual(['pre_restore', 'post_restore', 'post_deployed']);
    // It is in no fleet, and must not be taken for one that left it.
    expect(world.sim.house.store.applied('shop2')?.prune).toBe(false);
  });

  it('needs its providers, or to be told otherwise', async () => {
    const { world, archive } = await shop({ integrate: { db: { provider: 'pg', app: 'postgres' } } });
    const fault = await faultOf(planned(world, { archive }));
    expect(fault.message).toMatch(/`db` needs the stack pg \(an instance of postgres\), which is not here/);
    expect((await planned(world, { archive, skipIntegration: ['db'] })).target).toBe('shop');
  });

  it('refuses a port that another stack has, before anything is touched', async () => {
    const { world, archive } = await shop();
    world.sim.world.addForeign('other', { publishedPort: 8081 });
    const fault = await faultOf(planned(world, { archive, target: 'shop2', ports: { web: ['8081:80'] } }));
    expect(fault.code).toBe('PORT_TAKEN');
  });
});

const APPS = {
  'apps/pg/app.yaml': `apiVersion: windlass/v1
kind: App
version: "15"
vars: { password: { secret: true } }
provides: { sql: { host: "{{ stack.name }}", password: "{{ vars.password }}" } }
`,
  'apps/pg/compose.yaml':
    'services: { pg: { image: windlass-test/busybox:1, environment: { P: "{{ vars.password }}" } } }\n',
  'apps/site/app.yaml': `apiVersion: windlass/v1
kind: App
version: "1"
vars: { title: { default: plain }, key: { secret: true } }
plugs: { db: { interface: sql } }
`,
  'apps/site/compose.yaml': `services:
  site:
    image: windlass-test/busybox:1
    environment: { HOST: "{{ plugs.db.host }}", PASSWORD: "{{ plugs.db.password }}", TITLE: "{{ vars.title }}", KEY: "{{ vars.key }}" }
    volumes: ["data:/data"]
volumes: { data: {} }
`,
  'stacks/pg.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: pg\n',
  'stacks/pg2.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: pg\n',
  'stacks/site.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: site\nintegrate: { db: pg }\n',
};

describe('a restore of an app', () => {
  const resolvedOf = async (world: RestoreWorld, name: string) => {
    const subject = await world.sim.run(deployedSubject(world.bench, world.sim.house.store.applied(name)!, never));
    const { text } = await subject.resolved.model(never);
    return JSON.parse(text).services.site.environment as Record<string, string>;
  };

  it('renders what was packaged with the secrets of its time, and finds its providers here', async () => {
    const world = new RestoreWorld();
    worlds.push(world);
    world.sim.source.push(APPS);
    const first = await world.sim.apply();
    expect([...first!.failures.values()].map(String)).toEqual([]);
    const key = world.secrets.get('stack/site key')!;
    const archive = await world.archive('site', { volumes: { data: 'old data' }, secrets: { key } });
    // The app goes on, and its secret is another one.
    world.secrets.set('stack/site key', 'another');
    world.sim.source.push({
      'apps/site/app.yaml': APPS['apps/site/app.yaml']
        .replace('"1"', '"2"')
        .replace('default: plain', 'default: fancy'),
    });
    await world.sim.apply();
    await run(world, await planned(world, { stack: 'site', archive }));
    const password = world.secrets.get('stack/pg password');
    expect(await resolvedOf(world, 'site')).toEqual({ HOST: 'pg', PASSWORD: password, TITLE: 'plain', KEY: key });
    expect(world.sees('site-site-1', '/data')).toBe('old data');
    expect([...world.secrets.keys()].sort()).toEqual(['stack/pg password', 'stack/pg2 password', 'stack/site key']);

    const request = { stack: 'site', target: 'site2', archive, integrate: { db: 'pg2' }, vars: { title: 'mine' } };
    await run(world, await planned(world, request), 'r2');
    expect(await resolvedOf(world, 'site2')).toEqual({
      HOST: 'pg2',
      PASSWORD: world.secrets.get('stack/pg2 password'),
      TITLE: 'mine',
      KEY: key,
    });
    expect(world.secrets.get('stack/site2 key')).toBe(key);

    world.sim.source.push({ 'stacks/pg.yaml': null, 'stacks/site.yaml': null });
    world.sim.house.store.deleteApplied('pg');
    const fault = await faultOf(planned(world, { stack: 'site', target: 'site3', archive }));
    expect(fault.message).toMatch(/needs the stack pg, which is not here/);
    const skipped = planned(world, { stack: 'site', target: 'site3', archive, skipIntegration: ['db'] });
    expect((await faultOf(skipped)).code).toBe('ARCHIVE_INVALID');
  });
});

describe('an archive that is not fit', () => {
  it('is refused: damaged, of another stack, unsigned', async () => {
    const { world, archive } = await shop();
    expect((await faultOf(planned(world, { archive, stack: 'blog' }))).code).toBe('USAGE');
    expect((await faultOf(planned(world, { archive: 'f'.repeat(64) }))).code).toBe('ARCHIVE_MISSING');
    const { writeFileSync, readdirSync } = await import('node:fs');
    const blobs = join(world.sim.dir, 'archives/blobs/sha256');
    const [folder = ''] = readdirSync(blobs);
    const [name = ''] = readdirSync(join(blobs, folder));
    writeFileSync(join(blobs, folder, name), 'x');
    expect((await faultOf(planned(world, { archive }))).code).toBe('ARCHIVE_DAMAGED');
  });

  it('of an older version is completed from what is declared, and the plan says so', async () => {
    const { world } = await shop();
    const archive = await world.archive('shop', {
      volumes: { data: 'older data' },
      without: ['spec', 'vars', 'files', 'layout', 'boot', 'replicas'],
    });
    const plan = await planned(world, { archive });
    expect(plan.lines.join('\n')).toMatch(/does not say `files`: taken from the stack shop as it is declared now/);
    expect(plan.boot.kind).toBe('double');
    await run(world, plan);
    expect(world.sees('shop-web-1', '/data')).toBe('older data');
  });
});

describe('an archive whose payloads find no place', () => {
  it('brings back every volume that it holds data of, also where it does not name them', async () => {
    const { world } = await shop();
    const archive = await world.archive('shop', {
      volumes: { data: 'older data', cache: 'older cache' },
      without: ['volumes'],
    });
    const plan = await planned(world, { archive });
    expect(plan.lines).toContain(
      'the archive does not say `volumes`: taken for those whose data it holds, each of the driver `local`',
    );
    await run(world, plan);
    expect(world.sees('shop-web-1', '/data')).toBe('older data');
    expect(world.sees('shop-web-1', '/cache')).toBe('older cache');
  });

  it('that does not name its volumes is refused where a first boot would have the live one', async () => {
    const { world } = await shop();
    const archive = await world.archive('shop', {
      volumes: { data: 'older data' },
      without: ['volumes'],
      change: DOUBLE,
    });
    const fault = await faultOf(planned(world, { archive }));
    expect(fault).toMatchObject({ code: 'ARCHIVE_INVALID', message: expect.stringContaining('the volume cache') });
  });

  it.each([
    ['the project folder', { folders: { '.': 'all of it' } }, '"."'],
    ['a folder that nothing mounts', { folders: { 'stacks/shop/gone': 'lost' } }, '"stacks/shop/gone"'],
    ['a volume that there is not', { volumes: { data: 'old', gone: 'lost' } }, '"gone"'],
    ['a volume that there is not, unnamed', { volumes: { gone: 'lost' }, without: ['volumes' as const] }, '"gone"'],
  ])('is refused before anything is touched: %s', async (_, content, name) => {
    const { world } = await shop();
    const archive = await world.archive('shop', { volumes: { data: 'old' }, ...content });
    const fault = await faultOf(planned(world, { archive }));
    expect(fault.code).toBe('ARCHIVE_INVALID');
    expect(fault.message).toContain(`${name} is mounted by nothing`);
    expectOld(world);
  });
});

const DOUBLE = { boot: { kind: 'double' as const, why: 'its jobs rebuild data' }, restoreJobs: ['say'] };

describe('a restore with two boots', () => {
  it('boots apart from everything first, runs its jobs there, and leaves nothing of it', async () => {
    const { world, archive } = await shop(DOUBLE);
    const plan = await planned(world, { archive });
    world.sim.world.clearCalls();
    expect(plan.lines.join('\n')).toMatch(
      /volume cache is not in the archive: it is made empty, for the first boot and say/,
    );
    await run(world, plan);
    expectNew(world, '');
    const ups = world.sim.world.calls.filter((one) => one.method === 'up').map((one) => one.target.split(':')[0]);
    expect(ups[0]).toContain('shop-boot1');
    expect(world.sim.world.containersOf('shop-boot1')).toEqual([]);
    expect(volumes(world)).toEqual(['shop_cache', 'shop_cache_g1', 'shop_data', 'shop_data_g1']);
    expect(world.sim.house.store.applied('shop-boot1')).toBeNull();
    expect(hooks(world)).toEqual(['pre_restore', 'post_restore', 'post_deployed']);
  });

  it('leaves the live stack alone when the first boot fails', async () => {
    const { world, archive } = await shop(DOUBLE);
    const plan = await planned(world, { archive });
    const before = world.sim.world.container('shop-web-1').id;
    world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
    await faultOf(run(world, plan));
    expectOld(world);
    expect(world.sim.world.container('shop-web-1').id).not.toBe('');
    expect(world.sim.world.containersOf('shop-boot1')).toEqual([]);
    expect(before).toBeTruthy();
  });
});

/** Of each kind of restore, a process dies at so many. */
const POINTS = 42;
describe('a crash', async () => {
  for (const [name, change] of [
    ['one boot', {}],
    ['two boots', DOUBLE],
  ] as const) {
    it(`at writes, payload and engine calls from the first to the last of a restore with ${name} ends in the new data whole or the old`, async () => {
      const counting = await shop(change, QUIET_STACK);
      const process = new Process();
      const plan = await planned(counting.world, { archive: counting.archive });
      counting.world.restart(process);
      await run(counting.world, plan);
      const all = crashPoints(process.story);
      expect(all.length).toBeGreaterThanOrEqual(POINTS);
      // From the first to the last, in turn before and after the call.
      const points = Array.from({ length: POINTS }, (_, index) => all[Math.floor((index * all.length) / POINTS)]!);
      for (const [index, at] of points.entries()) {
        const { world, archive } = await shop(change, QUIET_STACK);
        const again = await planned(world, { archive });
        const dying = new Process(at, index % 2 === 0 ? 'before' : 'after');
        world.restart(dying);
        await run(world, again).then(
          () => {},
          () => {},
        );
        world.restart();
        for (const { id } of unfinishedRestores(world.sim.house))
          await world.sim
            .run(resumeRestore(world.bench, id, { signal: never, backup: world.backup }))
            .catch((error) => {
              throw new Error(`at ${at} (${dying.story.at(-1)}): ${error}`, { cause: error });
            });
        const record = restoreRecord(world.sim.house, 'r1');
        try {
          if (record) {
            expect(record.phase).toBe('done');
            expectNew(world, 'boot' in change ? '' : 'cache');
          } else expectOld(world);
          expect(world.sim.world.containersOf('shop-boot1')).toEqual([]);
          expect(world.sim.house.store.attempt('shop')).toBeNull();
        } catch (error) {
          throw new Error(`at ${at} of ${process.calls} (${dying.story.at(-1)})`, { cause: error });
        }
        worlds.splice(worlds.indexOf(world), 1);
        world.dispose();
      }
    }, 600_000);
  }

  it('while it goes back ends in the old data whole', async () => {
    const failing = async (dying: Process) => {
      const { world, archive } = await shop({}, QUIET_STACK);
      const plan = await planned(world, { archive });
      world.restart(dying);
      world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
      await run(world, plan).catch(() => {});
      return world;
    };
    const counting = new Process();
    await failing(counting);
    const from = counting.story.indexOf('runtime.up') + 1;
    expect(from).toBeGreaterThan(20);
    const points = crashPoints(counting.story).filter((at) => at >= from);
    for (const [index, at] of points.entries()) {
      const dying = new Process(at, index % 2 === 0 ? 'before' : 'after');
      const world = await failing(dying);
      world.restart();
      for (const { id } of unfinishedRestores(world.sim.house))
        await world.sim.run(resumeRestore(world.bench, id, { signal: never, backup: world.backup })).catch(() => {});
      const record = restoreRecord(world.sim.house, 'r1');
      try {
        // It may die before it knows that it failed: then it goes on.
        if (record?.phase === 'done') expectNew(world);
        else {
          expect(record?.phase).toBe('failed');
          expectOld(world);
        }
      } catch (error) {
        throw new Error(`at ${at} (${dying.story.at(-1)})`, { cause: error });
      }
      worlds.splice(worlds.indexOf(world), 1);
      world.dispose();
    }
  }, 600_000);
});
