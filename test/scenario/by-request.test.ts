// Stacks that git does not declare, since a request made them, under the controller: watched, healed and told as all others.
import { afterEach, describe, expect, it } from 'vitest';
import { openStore } from '../../src/adapters/journal/store.ts';
import { Controller } from '../../src/controller/controller.ts';
import type { Purge } from '../../src/core/spec/request.ts';
import { madeCommit } from '../../src/operations/archive/archive-source.ts';
import { backup } from '../../src/operations/archive/backup.ts';
import { clone, planClone } from '../../src/operations/archive/clone.ts';
import { generationOf } from '../../src/operations/archive/generations.ts';
import { planRestore } from '../../src/operations/archive/plan-restore.ts';
import { restore } from '../../src/operations/archive/restore.ts';
import type { House } from '../../src/operations/house.ts';
import { leaseName } from '../../src/operations/leases.ts';
import { accept } from '../../src/operations/lineage.ts';
import { holdUnrestored } from '../../src/operations/trust/awaited.ts';
import { planPurge, purge } from '../../src/operations/trust/purge.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import type { Store } from '../../src/ports/store.ts';
import { Surface } from '../../src/surface.ts';
import { never, RestoreWorld } from './restore-world.ts';

const COMPOSE =
  'services: { web: { image: "windlass-test/busybox:1", volumes: ["data:/data"] } }\nvolumes: { data: {} }\n';
const FILES = {
  'stacks/shop/compose.yaml': COMPOSE,
  'stacks/shop/stack.yaml': 'apiVersion: windlass/v1\nkind: Stack\n',
};
const CONTAINER = 'shop2-web-1';
const purgeOf = (stack: string): Purge => ({
  apiVersion: 'windlass/v1',
  kind: 'Purge',
  stack,
  volumes: 'all',
  reason: 'no longer needed',
  expires: '2030-01-01T00:00:00Z',
});

describe('a stack that lives by a request', () => {
  const ends: (() => unknown)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end();
  });

  async function cloned(): Promise<RestoreWorld> {
    const world = new RestoreWorld();
    ends.push(() => world.dispose());
    world.sim.source.push(FILES);
    await world.sim.apply();
    const archive = await world.archive('shop', { volumes: { data: 'old' } });
    const asked = { kind: 'Clone' as const, stack: 'shop', target: 'shop2', archive };
    const answer = await world.sim.run(planClone(world.bench, asked, never));
    if (answer.kind === 'wait') throw new Error(answer.why);
    const options = { signal: never, backup: world.backup, id: 'q1', archiveLive: async () => archive };
    await world.sim.run(clone(world.bench, answer.plan, options));
    return world;
  }
  async function controlled(world: RestoreWorld, change: Partial<House> = {}, intervalMs = 1e9): Promise<string[]> {
    const log: string[] = [];
    const house = { ...world.sim.house, ...change };
    const controller = new Controller({ house, pollMs: 1_000, intervalMs, log: (line) => log.push(line) });
    ends.push(() => world.sim.run(controller.stop()));
    await world.sim.run(controller.start());
    return log;
  }
  const until = async (world: RestoreWorld, holds: () => boolean, steps = 60): Promise<void> => {
    for (let tries = 0; tries < steps && !holds(); tries++) await world.sim.run(world.sim.clock.sleep(500));
    expect(holds()).toBe(true);
  };
  const stateOf = (world: RestoreWorld) => world.sim.world.container(CONTAINER).state;
  const condition = (world: RestoreWorld, type: string, stack = 'shop2') => {
    const found = world.sim.house.store.conditions(stack).find((one) => one.type === type);
    return `${found?.status} ${found?.reason}`;
  };
  const backupRun = (world: RestoreWorld, stack: string) =>
    world.sim.house.store.runs({ stack }).find((run) => run.operation === 'backup')?.outcome;

  /** Another process that begins a backup of it and hangs while the service is at rest. */
  async function hungBackup(world: RestoreWorld, stack: string): Promise<void> {
    const store: Store = openStore({ directory: world.sim.dir });
    ends.push(() => store.close());
    const { house } = world.sim;
    const reading = Promise.withResolvers<void>();
    const payloads: House['payloads'] = {
      ...world.payloads(),
      read: () => {
        reading.resolve();
        return {
          stream: (async function* () {
            yield await new Promise<Uint8Array>(() => {});
          })(),
          done: new Promise(() => {}),
        };
      },
    };
    const other: House = { ...house, store, payloads, settings: { ...house.settings, owner: 'other' } };
    void backup(new Workbench(other), stack, { signal: never }).catch(() => {});
    await world.sim.run(reading.promise);
    // Its heartbeat beats in real time, and the clock here runs ahead of that.
    expect(store.renew(leaseName(stack), 'other', 1e9, world.sim.clock.nowMs())).toBe(true);
  }

  it('is healed when it is stopped by hand, and told as it is', async () => {
    const world = await cloned();
    await controlled(world);
    expect(condition(world, 'Ready')).toBe('True Succeeded');
    world.sim.world.stop(CONTAINER);
    await until(world, () => stateOf(world) === 'running' && condition(world, 'Ready') === 'True Succeeded');
    expect(condition(world, 'Drifted')).toBe('False DriftHealed');
    expect(world.sees(CONTAINER, '/data')).toBe('old');
    expect(condition(world, 'Ready')).toBe('True Succeeded');
  });

  it.each([{ isolated: true }, { enclosed: [] }])(
    'is not what a first boot or a drill makes on its way: %o',
    async (kind) => {
      const world = await cloned();
      const { store } = world.sim.house;
      const { revision } = store.applied('shop2')!;
      store.putValue(`restored/${revision}`, { ...madeCommit(store, revision)!, ...kind });
      const log = await controlled(world);
      world.sim.world.stop(CONTAINER);
      for (let steps = 0; steps < 20; steps++) await world.sim.run(world.sim.clock.sleep(500));
      expect([stateOf(world), log.filter((line) => line.includes('shop2'))]).toEqual(['exited', []]);
    },
  );

  it('is looked at when the controller starts, and by the interval where no event tells of it', async () => {
    const world = await cloned();
    world.sim.world.stop(CONTAINER);
    const mute = (signal: AbortSignal) =>
      (async function* () {
        yield* [];
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      })();
    const runtime = Object.assign(Object.create(world.sim.house.runtime), { events: mute });
    await controlled(world, { runtime }, 5_000);
    await until(world, () => stateOf(world) === 'running');
    world.sim.world.stop(CONTAINER);
    await until(world, () => stateOf(world) === 'running');
  });

  it('that a person stopped stays stopped, and says so', async () => {
    const world = await cloned();
    world.sim.house.store.putHold('shop2', { kind: 'stopped', reason: '', sinceMs: 0, untilMs: 0, service: '' });
    await controlled(world);
    world.sim.world.stop(CONTAINER);
    await until(world, () => condition(world, 'Ready') === 'False Stopped');
    await world.sim.run(world.sim.clock.sleep(20_000));
    expect(stateOf(world)).toBe('exited');
  });

  it.each(['shop2', 'shop'])(
    'or not: %s works again, and its backup is interrupted, when the process of that dies',
    async (stack) => {
      const world = await cloned();
      const dead = new Set<string>();
      const settings = { ...world.sim.house.settings, hasEnded: (owner: string) => dead.has(owner) };
      await controlled(world, { settings });
      await hungBackup(world, stack);
      const state = () => world.sim.world.container(`${stack}-web-1`).state;
      expect(state()).toBe('exited');
      await world.sim.run(world.sim.clock.sleep(3_000));
      expect([state(), backupRun(world, stack)]).toEqual(['exited', 'running']);
      dead.add('other');
      await until(world, () => state() === 'running' && backupRun(world, stack) === 'interrupted');
      await until(world, () => condition(world, 'Ready', stack) === 'True Succeeded');
    },
  );

  it('works again after a backup that died also while it is held', async () => {
    const world = await cloned();
    world.sim.house.store.putHold('shop', { kind: 'held', reason: 'by hand', sinceMs: 0, untilMs: 0, service: '' });
    const dead = new Set<string>();
    const settings = { ...world.sim.house.settings, hasEnded: (owner: string) => dead.has(owner) };
    await controlled(world, { settings });
    await hungBackup(world, 'shop');
    dead.add('other');
    await until(world, () => world.sim.world.container('shop-web-1').state === 'running');
    expect(condition(world, 'Ready', 'shop')).toBe('False Held');
  });

  it('whose archive cannot be read is told so, and holds nothing else up', async () => {
    const world = await cloned();
    world.restart();
    const { archives } = world.sim.house;
    const readBlob = async function* (): AsyncGenerator<Uint8Array> {
      yield* [];
      throw new Error('the disk is gone');
    };
    const store = Object.assign(Object.create(world.archives), { readBlob });
    const log = await controlled(world, { archives: { ...archives!, store } });
    await until(world, () => /^False/.test(condition(world, 'Ready')));
    await world.sim.run(world.sim.clock.sleep(10_000));
    expect(condition(world, 'Ready', 'shop')).toBe('True Succeeded');
    expect(log.length).toBeLessThan(20);
  });

  it('is held at what was restored once git declares it, until a later commit to it, and that for good', async () => {
    const world = await cloned();
    await controlled(world);
    const shown = () => new Surface(world.sim.house).status().find(({ name }) => name === 'shop2')?.holds;
    const push = (image: string) => world.sim.source.push({ ...FILES, 'stacks/shop2/compose.yaml': image });
    const first = COMPOSE.replace('busybox:1', 'web:1');
    expect(shown()).toEqual([]);
    push(first);
    await until(world, () => condition(world, 'Ready') === 'False Held');
    expect(shown()).toMatchObject([
      {
        kind: 'held',
        reason: expect.stringMatching(
          /^restored from archive [0-9a-f]{12}; a later commit to it or `windlass resume shop2` deploys/,
        ),
      },
    ]);
    const image = () => world.sim.world.container(CONTAINER).spec.image;
    world.sim.source.push({ ...FILES, 'stacks/shop2/compose.yaml': first, 'README.md': 'not to it' });
    await world.sim.run(world.sim.clock.sleep(5_000));
    expect([image(), shown()?.length]).toEqual(['windlass-test/busybox:1', 1]);
    push(COMPOSE.replace('busybox:1', 'web:2'));
    await until(world, () => image() === 'windlass-test/web:2');
    push(first);
    await until(world, () => image() === 'windlass-test/web:1' && /^True/.test(condition(world, 'Ready')));
    expect(world.sees(CONTAINER, '/data')).toBe('old');
    expect(shown()).toEqual([]);
  });

  const purged = async (world: RestoreWorld) => {
    const { house, look } = world.bench;
    const facts = await world.sim.run(planPurge(house, look, purgeOf('shop2'), never));
    return facts.kind === 'wait' ? facts.why : await world.sim.run(purge(house, facts.plan, never));
  };
  const names = (world: RestoreWorld) => new Surface(world.sim.house).status().map(({ name }) => name);

  it('goes by the word of a person, and its data then by a signed request; nothing of it comes back', async () => {
    const world = await cloned();
    await world.sim.run(accept(world.sim.house, await world.sim.source.fetch()));
    const surface = new Surface(world.sim.house);
    const { gone, byRequest } = await surface.prunable();
    expect([gone.removable, gone.kept.map(({ stack }) => stack), byRequest]).toEqual([[], ['shop2'], ['shop2']]);
    expect((await world.sim.run(surface.plan())).byRequest).toEqual(['shop2']);
    expect(await purged(world)).toMatch(
      /container shop2-web-1: `windlass prune shop2` takes its containers away first$/,
    );
    await expect(surface.prunable(['shop'])).rejects.toMatchObject({ code: 'USAGE' });
    await expect(surface.prunable(['shop3'])).rejects.toMatchObject({ code: 'NOT_FOUND' });

    const { digest } = (await surface.prunable(['shop2'])).gone;
    await expect(world.sim.run(surface.prune(digest, never, never))).rejects.toMatchObject({ code: 'PLAN_STALE' });
    const { removed, failures } = await world.sim.run(surface.prune(digest, never, never, ['shop2']));
    expect([removed.map(({ stack }) => stack), failures]).toEqual([['shop2'], new Map()]);
    const { store } = world.sim.house;
    expect([names(world), store.values('restored/').size, store.values('archive-pin/').size]).toEqual([['shop'], 0, 0]);
    expect(world.sim.world.container('shop-web-1').state).toBe('running');
    const volumes = () => [...world.sim.world.engine.volumes.keys()].filter((name) => name.startsWith('shop2'));
    expect(volumes()).toHaveLength(1);
    expect(generationOf(store, 'shop2')).not.toBeNull();
    await purged(world);
    expect([volumes(), generationOf(store, 'shop2'), names(world)]).toEqual([[], null, ['shop']]);
  });

  it.each([{ isolated: true }, { enclosed: [] }])(
    'is not taken from the work that makes it by a name: %o',
    async (kind) => {
      const world = await cloned();
      const { store } = world.sim.house;
      const { revision } = store.applied('shop2')!;
      store.putValue(`restored/${revision}`, { ...madeCommit(store, revision)!, ...kind });
      await expect(new Surface(world.sim.house).prunable(['shop2'])).rejects.toMatchObject({ code: 'LOCK_HELD' });
    },
  );

  it('is forgotten when nothing of it is left, and does not come up empty', async () => {
    const world = await cloned();
    await world.sim.run(accept(world.sim.house, await world.sim.source.fetch()));
    const { store, runtime } = world.sim.house;
    store.putHold('shop2', { kind: 'stopped', reason: '', sinceMs: 0, untilMs: 0, service: '' });
    await world.sim.run(runtime.down('shop2', never));
    await purged(world);
    expect([names(world), store.holds('shop2'), generationOf(store, 'shop2')]).toEqual([['shop'], [], null]);
    await controlled(world);
    await world.sim.run(world.sim.clock.sleep(5_000));
    expect(names(world).filter((name) => !name.startsWith('@'))).toEqual(['shop']);
    expect([...world.sim.world.engine.volumes.keys()]).toEqual(['shop_data']);
  });

  it('or was to, and did not: it is held whenever git declares it, and no stack while git does not', async () => {
    const world = await cloned();
    const { house } = world.sim;
    world.sim.source.push({ ...FILES, 'stacks/late/compose.yaml': COMPOSE });
    holdUnrestored(house, 'q9', ['ghost', 'late']);
    house.store.putHold('mine', { kind: 'suspended', reason: '', sinceMs: 0, untilMs: 0, service: '' });
    await controlled(world);
    await until(world, () => condition(world, 'Ready', 'late') === 'False Held');
    const shown = () => names(world).filter((name) => !name.startsWith('@'));
    expect(shown()).toEqual(['late', 'mine', 'shop', 'shop2']);
    world.sim.source.push({ 'stacks/late/compose.yaml': null });
    await until(world, () => !shown().includes('late'));
    world.sim.source.push({ 'stacks/late/compose.yaml': COMPOSE });
    await until(world, () => condition(world, 'Ready', 'late') === 'False Held');
    expect(house.store.applied('late')).toBe(null);
  });

  it('is rendered as it is deployed', async () => {
    const world = await cloned();
    expect(await world.sim.run(new Surface(world.sim.house).render('shop2'))).toMatchObject({
      name: 'shop2',
      services: { web: { image: 'windlass-test/busybox:1' } },
    });
  });

  it('differs from what was made for it, not from git', async () => {
    const world = await cloned();
    const surface = new Surface(world.sim.house);
    const diff = async () => {
      const one = await world.sim.run(surface.diff('shop2'));
      return one.kind === 'judged' ? one.diff.changes.map(({ cause }) => cause) : one.kind;
    };
    expect(await diff()).toEqual([]);
    world.sim.world.stop(CONTAINER);
    expect(await diff()).toHaveLength(1);
    await expect(surface.plan(['shop2'])).rejects.toThrow(/^git declares no stack shop2, which lives by a request/);
    await expect(surface.diff('shop3')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});

describe('a stack that was restored', () => {
  it('and whose volumes were purged since has the folders that were restored, when git declares it again', async () => {
    const world = new RestoreWorld();
    try {
      const { house } = world.sim;
      const files = {
        ...FILES,
        'stacks/shop/compose.yaml': COMPOSE.replace('"data:/data"', '"data:/data", "./conf:/conf"'),
      };
      const push = async (next: Record<string, string | null>) => {
        world.sim.source.push(next);
        await world.sim.run(accept(house, await house.source.fetch()));
      };
      await push(files);
      await world.sim.apply();
      const archive = await world.archive('shop', {
        volumes: { data: 'old' },
        folders: { 'stacks/shop/conf': 'old conf' },
      });
      const answer = await world.sim.run(planRestore(world.bench, { stack: 'shop', archive }, never));
      if (answer.kind === 'wait') throw new Error(answer.why);
      await world.sim.run(restore(world.bench, answer.plan, { signal: never, backup: world.backup, id: 'r1' }));
      const { folders } = generationOf(house.store, 'shop')!;
      expect(Object.keys(folders)).toHaveLength(1);
      await push({ 'stacks/shop': null });
      const surface = new Surface(house);
      const { gone } = await surface.prunable(['shop']);
      await world.sim.run(surface.prune(gone.digest, never, never, ['shop']));
      const facts = await world.sim.run(planPurge(house, world.bench.look, purgeOf('shop'), never));
      if (facts.kind === 'wait') throw new Error(facts.why);
      await world.sim.run(purge(house, facts.plan, never));
      expect([...world.sim.world.engine.volumes.keys()]).toEqual([]);
      expect(generationOf(house.store, 'shop')).toEqual({ volumes: {}, folders });
    } finally {
      world.dispose();
    }
  });

  it.each(['apply', 'take'] as const)('is held no more once a commit has ended that, by %s', async (how) => {
    const world = new RestoreWorld();
    try {
      const declare = (image: string) =>
        world.sim.source.push({ ...FILES, 'stacks/shop/compose.yaml': COMPOSE.replace('busybox:1', image) });
      declare('busybox:1');
      await world.sim.apply();
      const archive = await world.archive('shop', { volumes: { data: 'old' } });
      declare('web:1');
      await world.sim.apply();
      const answer = await world.sim.run(planRestore(world.bench, { stack: 'shop', archive }, never));
      if (answer.kind === 'wait') throw new Error(answer.why);
      await world.sim.run(restore(world.bench, answer.plan, { signal: never, backup: world.backup, id: 'r1' }));
      const surface = new Surface(world.sim.house);
      const seen = async () => {
        const view = await world.sim.run(surface.plan());
        const taken = how === 'take' ? surface.take(view) : surface.apply(view, { prune: false, trigger: 'test' });
        await world.sim.run(taken as Promise<unknown>);
        return [world.sim.world.container('shop-web-1').spec.image, world.sim.house.store.holds('shop').length];
      };
      // As it was declared when it was restored: nobody changed it.
      expect(await seen()).toEqual(['windlass-test/busybox:1', 1]);
      declare('web:2');
      const runs = (image: string) => `windlass-test/${how === 'apply' ? image : 'busybox:1'}`;
      expect(await seen()).toEqual([runs('web:2'), 0]);
      declare('web:1');
      expect(await seen()).toEqual([runs('web:1'), 0]);
      expect((await world.sim.run(surface.plan())).held).toEqual(new Map());
    } finally {
      world.dispose();
    }
  });
});
