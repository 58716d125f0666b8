// Scheduled backups by a controller on the simulated clock: hours pass in a moment, archives are real files.
import { afterEach, describe, expect, it } from 'vitest';
import { formatStatus } from '../../src/cli/views/status.ts';
import { Controller } from '../../src/controller/controller.ts';
import { Fault } from '../../src/core/fault.ts';
import { Archives } from '../../src/operations/archive/archives.ts';
import { backup } from '../../src/operations/archive/backup.ts';
import { leaseName } from '../../src/operations/leases.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import { Surface } from '../../src/surface.ts';
import { SimArchives } from '../sim/sim-archives.ts';
import { SimHouse } from '../sim/sim-house.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const IMAGE = 'windlass-test/busybox:1';
const compose = `services:\n  web:\n    image: ${IMAGE}\n    volumes: ["data:/data"]\nvolumes: { data: {} }\n`;
const stack = (backup: string): string => `apiVersion: windlass/v1\nkind: Stack\nbackup: ${backup}\n`;
const HOURLY = '{ schedule: "0 * * * *", keep: { last: 2 } }';

const endings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** Time passes; while a real file is read or written it stands still. */
async function pass(sim: SimHouse, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 10_000) {
    await sim.clock.advance(Math.min(10_000, left));
    for (let quiet = 0; quiet < 3; quiet++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (process.getActiveResourcesInfo().some((name) => /^FSReq|Job|Request$/.test(name))) quiet = -1;
    }
  }
}

async function desk(files: Readonly<Record<string, string>> = { 'stacks/shop/stack.yaml': stack(HOURLY) }) {
  const sim = new SimHouse();
  endings.push(async () => sim.dispose());
  const archives = new SimArchives(sim);
  for (const name of ['shop', 'blog']) archives.volumes.set(`${name}_data`, { file: `of ${name}` });
  sim.source.push({ 'stacks/shop/compose.yaml': compose, ...files });
  const log: string[] = [];
  const start = async (): Promise<Controller> => {
    const controller = new Controller({
      house: sim.house,
      pollMs: HOUR,
      intervalMs: HOUR,
      log: (line) => void log.push(line),
    });
    await sim.run(controller.start());
    endings.push(() => sim.run(controller.stop()));
    return controller;
  };
  const controller = await start();
  // Deployed, and a few minutes past the hour.
  await pass(sim, 5 * MINUTE);
  const made = async (name = 'shop'): Promise<readonly number[]> =>
    (await new Archives(sim.house).list(name))
      .map(({ listed }) => (listed.kind === 'archive' ? Math.floor((listed.madeAtMs / HOUR) % 24) : -1))
      .reverse();
  const backups = (name = 'shop') =>
    sim.house.store
      .runs({ stack: name, limit: 100 })
      .filter((one) => one.operation === 'backup')
      .reverse();
  return { sim, archives, controller, start, log, made, backups };
}

describe('a schedule', () => {
  it('makes a backup at each of its times, and keeps as many as it says', async () => {
    const { sim, made, backups } = await desk();
    expect(await made()).toEqual([]);
    await pass(sim, HOUR);
    expect(await made()).toEqual([1]);
    await pass(sim, 3 * HOUR);
    expect(backups().map((one) => `${one.trigger} ${one.outcome}`)).toEqual(Array(4).fill('schedule succeeded'));
    expect(await made()).toEqual([3, 4]);
    // Each within a minute and a half of its time.
    for (const one of backups()) expect(one.startedAtMs % HOUR).toBeLessThan(1.5 * MINUTE);
  });

  it('may be that of the app; what the stack says wins', async () => {
    const files = {
      'apps/kept/app.yaml': 'apiVersion: windlass/v1\nkind: App\nversion: "1"\n',
      'apps/kept/compose.yaml': compose,
      'apps/kept/backup.yaml': 'apiVersion: windlass/v1\nkind: Backup\nschedule: "0 * * * *"\nkeep: { last: 1 }\n',
      'stacks/blog.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: kept\nbackup: { keep: { last: 3 } }\n',
    };
    const { sim, made } = await desk(files);
    await pass(sim, 4 * HOUR);
    expect(await made('blog')).toEqual([2, 3, 4]);
    expect(await made('shop')).toEqual([]);
  });

  it('that was missed while no controller ran is made up once', async () => {
    const { sim, controller, start, made, backups } = await desk();
    await sim.run(controller.stop());
    await pass(sim, 6 * HOUR);
    expect(await made()).toEqual([]);
    await start();
    await pass(sim, 10 * MINUTE);
    expect(await made()).toEqual([6]);
    await pass(sim, 30 * MINUTE);
    expect(backups()).toHaveLength(1);
  });

  it('is kept by a backup that a person made after its time, and not by one from before', async () => {
    const { sim, start, controller, backups } = await desk();
    await pass(sim, 40 * MINUTE);
    const byHand = () => sim.run(backup(sim.bench, 'shop', { signal: new AbortController().signal }));
    await byHand();
    await pass(sim, 25 * MINUTE);
    expect(backups().map((one) => one.trigger)).toEqual(['cli', 'schedule']);
    await sim.run(controller.stop());
    await pass(sim, HOUR);
    await byHand();
    await start();
    await pass(sim, 5 * MINUTE);
    expect(backups().map((one) => one.trigger)).toEqual(['cli', 'schedule', 'cli']);
  });

  it('of two stacks makes one after the other, and both', async () => {
    const { sim, archives, made } = await desk({
      'stacks/shop/stack.yaml': stack(HOURLY),
      'stacks/blog/stack.yaml': stack(HOURLY),
      'stacks/blog/compose.yaml': compose,
    });
    let atOnce = 0;
    let most = 0;
    archives.during = async () => {
      most = Math.max(most, ++atOnce);
      await sim.clock.sleep(2 * MINUTE);
      atOnce--;
    };
    await pass(sim, HOUR + 5 * MINUTE);
    expect([await made('shop'), await made('blog')]).toEqual([[1], [1]]);
    expect(most).toBe(1);
  });

  it('waits while somebody else works on the stack', async () => {
    const { sim, made, backups, log } = await desk();
    await pass(sim, 50 * MINUTE);
    const { store, clock } = sim.house;
    store.acquire(leaseName('shop'), 'somebody', 20 * MINUTE, clock.nowMs());
    await pass(sim, 15 * MINUTE);
    expect(await made()).toEqual([]);
    await pass(sim, 10 * MINUTE);
    expect(await made()).toEqual([1]);
    expect(backups().map((one) => one.outcome)).toEqual(['succeeded']);
    expect(log.filter((line) => line.includes('BackupFailed'))).toEqual([]);
  });
});

describe('a scheduled backup that fails', () => {
  it('is told once, tried again with growing pauses, shown, and never takes an archive away', async () => {
    const { sim, archives, made, backups } = await desk();
    await pass(sim, 2 * HOUR);
    expect(await made()).toEqual([1, 2]);
    archives.broken.set('shop_data', new Fault('PAYLOAD_FAILED', 'file: permission denied'));
    await pass(sim, 95 * MINUTE);
    const failed = backups().filter((one) => one.outcome === 'failed');
    const pauses = failed.slice(1).map((one, index) => (one.startedAtMs - failed[index]!.startedAtMs) / MINUTE);
    expect(pauses.length).toBeGreaterThanOrEqual(4);
    for (const [index, pause] of pauses.entries()) {
      expect(pause).toBeGreaterThanOrEqual(0.8 * 2 ** index);
      expect(pause).toBeLessThanOrEqual(1.2 * 2 ** index + 1.5);
    }
    expect(await made()).toEqual([1, 2]);
    const events = () => sim.house.store.events({ stack: 'shop' }).filter((one) => one.reason === 'BackupFailed');
    expect(events()).toMatchObject([{ level: 'error', message: 'file: permission denied' }]);
    const surface = new Surface(sim.house);
    const status = await surface.statusOf('shop');
    expect(status.backup).toMatchObject({
      schedule: '0 * * * *',
      failing: { failures: failed.length, code: 'PAYLOAD_FAILED' },
    });
    const shown = formatStatus({ paint: (_, text) => text }, status, undefined, sim.clock.nowMs());
    expect(shown).toMatch(/^backup {4}[0-9a-f]{12}, 1h\d*m? ago, \d+ B, took \S+, never verified$/m);
    expect(shown).toMatch(/^schedule {2}0 \* \* \* \* UTC, next 2026-01-01T04:00Z$/m);
    expect(shown).toMatch(/^failing {3}\d tries for \d+m: PAYLOAD_FAILED file: permission denied$/m);

    archives.broken.clear();
    await pass(sim, HOUR);
    expect((await made()).length).toBe(2);
    expect((await surface.statusOf('shop')).backup?.failing).toBeNull();
    expect(events()).toHaveLength(1);
    expect(sim.world.containersOf('shop').map((one) => one.state)).toEqual(['running']);
  });

  it('does not keep the stack from being deployed', async () => {
    const { sim, archives } = await desk();
    archives.volumes.delete('shop_data');
    await pass(sim, HOUR);
    sim.source.push({ 'stacks/shop/compose.yaml': compose.replace(IMAGE, 'windlass-test/web:1') });
    await pass(sim, 75 * MINUTE);
    expect(sim.world.containersOf('shop').map((one) => `${one.spec.image} ${one.state}`)).toEqual([
      'windlass-test/web:1 running',
    ]);
  });

  it('because the controller stops is made by the next one; nothing stays at rest', async () => {
    const { sim, archives, controller, start, made, backups } = await desk();
    let reading: () => void = () => {};
    const begun = new Promise<void>((resolve) => {
      reading = resolve;
    });
    let isSlow = true;
    archives.during = async () => {
      if (!isSlow) return;
      reading();
      await sim.clock.sleep(10 * MINUTE);
    };
    await pass(sim, 56 * MINUTE);
    await begun;
    expect(sim.world.containersOf('shop').map((one) => one.state)).toEqual(['exited']);
    await sim.run(controller.stop());
    expect(sim.world.containersOf('shop').map((one) => one.state)).toEqual(['running']);
    expect(backups().map((one) => one.outcome)).toEqual(['cancelled']);
    expect(await made()).toEqual([]);
    isSlow = false;
    await start();
    await pass(sim, 5 * MINUTE);
    expect(await made()).toEqual([1]);
  });
});

it.each(['a request', 'another process'])(
  'what rests for a backup of %s is not healed, nor is that said',
  async (by) => {
    const { sim, archives, log, backups } = await desk({});
    log.splice(0);
    let isReading = false;
    archives.during = async () => {
      isReading = true;
      // Shorter than a lease: its heartbeat is not of the simulated clock.
      await sim.clock.sleep(25_000);
      isReading = false;
    };
    const { house } = sim;
    // Which leases are of the same process is known by the store that they were taken in.
    const theirs = { ...house, store: Object.create(house.store), settings: { ...house.settings, owner: 'another' } };
    const bench = by === 'a request' ? sim.bench : new Workbench(theirs);
    const made = backup(bench, 'shop', { signal: new AbortController().signal });
    while (!isReading) await pass(sim, 1);
    await pass(sim, 20_000);
    expect([isReading, sim.world.container('shop-web-1').state]).toEqual([true, 'exited']);
    await pass(sim, 20_000);
    await made;
    expect(backups().map(({ outcome }) => outcome)).toEqual(['succeeded']);
    expect(sim.world.container('shop-web-1').state).toBe('running');
    const { conditions } = new Surface(house).status().find(({ name }) => name === 'shop')!;
    expect(conditions.find(({ type }) => type === 'Ready')?.status).toBe('True');
    expect(conditions.find(({ type }) => type === 'Reconciling')?.status).toBe('False');
    // Nor that it drifted, and does no more.
    expect(log.filter((line) => /shop: (heal|deploy|Drift)/.test(line))).toEqual([]);
  },
);
