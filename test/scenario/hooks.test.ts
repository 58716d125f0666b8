// Hooks around operations on the simulated world: which phases run when, what a failure stops, what a crash leaves and a restart finishes.
import { afterEach, describe, expect, it } from 'vitest';
import { jobLabels } from '../../src/adapters/compose/one-shot-spec.ts';
import { behaviours } from '../../src/adapters/sim/behaviour.ts';
import { Controller } from '../../src/controller/controller.ts';
import { Fault } from '../../src/core/fault.ts';
import type { RunRecord } from '../../src/core/status/event.ts';
import { byHand } from '../../src/operations/by-hand.ts';
import { runByHand } from '../../src/operations/hook-by-hand.ts';
import { isHeld } from '../../src/operations/leases.ts';
import { manualRollback } from '../../src/operations/rollback.ts';
import { scaleStack } from '../../src/operations/scale-stack.ts';
import { takeUpHooks } from '../../src/operations/steps/run-hook.ts';
import { orphans, uninstall } from '../../src/operations/uninstall.ts';
import { SimHouse } from '../sim/sim-house.ts';

const compose = (image = 'windlass-test/busybox:1') =>
  `services:\n  web:\n    image: ${image}\n    scale: 2\n  side:\n    image: windlass-test/busybox:1\n`;
const job = (script: string) => `apiVersion: windlass/v1\nkind: Job\nservice: web\nscript: ${JSON.stringify(script)}\n`;
const stack = (hooks: string, more = '') => `apiVersion: windlass/v1\nkind: Stack\n${more}hooks:\n${hooks}`;

/** Every phase says its name. */
const ALL = ['install', 'update', 'scale', 'uninstall', 'rollback'].flatMap((operation) => [
  `pre_${operation}`,
  `post_${operation}`,
]);
const SAYING = [...ALL, 'post_deployed', 'test'].map((phase) => `  ${phase}: [{ job: say }]\n`).join('');

const houses: SimHouse[] = [];
const open = (seed = 1): SimHouse => {
  const sim = new SimHouse(seed);
  houses.push(sim);
  return sim;
};
afterEach(() => {
  for (const house of houses.splice(0)) house.dispose();
});

const files = (hooks: string, script = 'echo hi', image?: string) => ({
  'stacks/shop/compose.yaml': compose(image),
  'stacks/shop/stack.yaml': stack(hooks),
  'stacks/shop/say.job.yaml': job(script),
});

const newest = (sim: SimHouse): RunRecord => sim.house.store.runs({ stack: 'shop', limit: 1 })[0]!;
const phases = (sim: SimHouse): string =>
  (newest(sim).hooks ?? [])
    .map((one) => `${one.phase}${one.outcome === 'succeeded' ? '' : ` ${one.outcome}`}`)
    .join(' ');
const counts = (sim: SimHouse): Record<string, number> => {
  const found: Record<string, number> = {};
  for (const one of sim.world.containersOf('shop'))
    if (one.state === 'running' && !(jobLabels.owner in one.spec.labels))
      found[one.spec.labels['com.docker.compose.service'] ?? ''] =
        (found[one.spec.labels['com.docker.compose.service'] ?? ''] ?? 0) + 1;
  return found;
};
const succeeded = async (sim: SimHouse): Promise<void> => {
  const outcome = await sim.apply();
  expect([...outcome!.failures.values()].map(String)).toEqual([]);
};

describe('the phases of an operation', () => {
  it('install, update, scale, no-op, drift, rollback and uninstall each run theirs', async () => {
    const sim = open();
    sim.source.push(files(SAYING));
    await succeeded(sim);
    expect(phases(sim)).toBe('pre_install post_install post_deployed');

    expect(await sim.apply()).toBeNull();
    const first = await sim.source.fetch();

    sim.source.push(files(SAYING, 'echo hi', 'windlass-test/web:1'));
    await succeeded(sim);
    expect(phases(sim)).toBe('pre_update post_update post_deployed');

    sim.source.push({ 'stacks/shop/compose.yaml': compose('windlass-test/web:1').replace('scale: 2', 'scale: 3') });
    await succeeded(sim);
    expect(phases(sim)).toBe('pre_scale post_scale');
    expect(counts(sim)).toEqual({ web: 3, side: 1 });

    sim.world.stop('shop-side-1');
    await succeeded(sim);
    expect(newest(sim).operation).toBe('heal');
    expect(phases(sim)).toBe('');

    const at = await sim.bench.reader.read(await sim.source.fetch());
    await manualRollback(sim.bench, 'shop', at, first);
    await succeeded(sim);
    expect(phases(sim)).toBe('pre_rollback post_rollback');
    expect(newest(sim).operation).toBe('rollback');
    expect(counts(sim)).toEqual({ web: 2, side: 1 });
    expect(await sim.apply()).toBeNull();

    const record = await sim.run(
      uninstall(sim.bench, sim.house.store.applied('shop')!, 'test', new AbortController().signal),
    );
    expect(record.hooks?.map((one) => one.phase)).toEqual(['pre_uninstall', 'post_uninstall']);
  });

  it('a change of hooks alone deploys nothing and runs nothing, and an uninstall runs the newest', async () => {
    const sim = open();
    sim.source.push(files('  post_install: [{ job: say }]\n'));
    await succeeded(sim);
    sim.world.clearCalls();
    sim.source.push({ 'stacks/shop/stack.yaml': stack('  pre_uninstall: [{ job: say }]\n') });
    await succeeded(sim);
    expect(sim.world.mutatingCalls()).toEqual([]);
    expect(phases(sim)).toBe('');
    expect(await sim.apply()).toBeNull();
    const record = await sim.run(
      uninstall(sim.bench, sim.house.store.applied('shop')!, 'test', new AbortController().signal),
    );
    expect(record.hooks?.map((one) => one.phase)).toEqual(['pre_uninstall']);
  });

  it('a failing pre phase stops the deploy before a container is touched, and is tried again', async () => {
    const sim = open();
    sim.source.push(files('  pre_update: [{ job: say }]\n'));
    await succeeded(sim);
    const before = sim.world.containersOf('shop').map((one) => one.id);
    sim.source.push(files('  pre_update: [{ job: say }]\n', 'echo no; exit 3', 'windlass-test/web:1'));
    const outcome = await sim.apply();
    expect(outcome?.failures.get('shop')?.code).toBe('HOOK_FAILED');
    expect(phases(sim)).toBe('pre_update failed');
    expect(newest(sim).hooks?.[0]?.actions[0]).toMatchObject({ name: 'job say', result: 'failed', tail: ['no'] });
    expect(
      sim.world
        .containersOf('shop')
        .filter((one) => !(jobLabels.owner in one.spec.labels))
        .map((one) => one.id),
    ).toEqual(before);
    sim.source.push(files('  pre_update: [{ job: say }]\n', 'echo yes', 'windlass-test/web:1'));
    await succeeded(sim);
    expect(phases(sim)).toBe('pre_update');
  });

  it('a failing post phase fails the deploy; the retry runs only what is not done', async () => {
    const sim = open();
    const hooks = '  pre_install: [{ job: say }]\n  post_install: [{ exec: { service: web, command: ["false"] } }]\n';
    sim.source.push(files(hooks));
    const outcome = await sim.apply();
    expect(outcome?.failures.get('shop')?.code).toBe('HOOK_FAILED');
    expect(phases(sim)).toBe('pre_install post_install failed');
    expect(sim.house.store.applied('shop')).toBeNull();
    sim.source.push({ 'stacks/shop/stack.yaml': stack(hooks.replace('"false"', '"true"')) });
    await succeeded(sim);
    expect(phases(sim)).toBe('post_install');
  });

  it('a count that a person changed in a pre phase is told, and the deploy brings the declared one', async () => {
    const sim = open();
    const hooks = '  pre_update: [{ scale: { web: 0 } }, { job: say }, { scale: { web: "ref+hook://previous" } }]\n';
    sim.source.push(files(hooks));
    await succeeded(sim);
    sim.source.push({
      ...files(hooks, 'sleep 20'),
      'stacks/shop/compose.yaml': compose().replace('  side:', '  side:\n    environment: { NEW: "1" }'),
    });
    const outcome = sim.apply();
    const job = () =>
      sim.world.containersOf('shop').some((one) => /pre_update-say/.test(one.name) && one.state === 'running');
    while (!job()) await sim.clock.sleep(100);
    sim.world.start('shop-web-2');
    expect([...(await outcome)!.failures.values()].map(String)).toEqual([]);
    expect(counts(sim)).toEqual({ web: 2, side: 1 });
    expect(sim.house.store.events({ stack: 'shop', limit: 50 }).map((one) => one.reason)).toContain('CountChanged');
  });

  it('a first deploy that failed is still the first when a mending commit comes', async () => {
    const sim = open();
    sim.source.push(files(SAYING));
    sim.world.behave('shop/side', behaviours.crashLoop);
    expect([...(await sim.apply())!.failures.keys()]).toEqual(['shop']);
    expect(phases(sim)).toBe('pre_install');
    sim.world.behave('shop/side', behaviours.serve);
    sim.source.push(files(SAYING, 'echo hi', 'windlass-test/web:1'));
    await succeeded(sim);
    expect(phases(sim)).toBe('pre_install post_install post_deployed');
    sim.source.push(files(SAYING));
    await succeeded(sim);
    expect(phases(sim)).toBe('pre_update post_update post_deployed');
  });

  it('a newer revision ends a pre phase after its current action, and everything is back', async () => {
    const sim = open();
    sim.source.push(files('  pre_update: [{ scale: { web: 0 } }, { job: say }, { job: say }]\n'));
    await succeeded(sim);
    sim.source.push(
      files('  pre_update: [{ scale: { web: 0 } }, { job: say }, { job: say }]\n', 'sleep 20', 'windlass-test/web:1'),
    );
    const superseded = new AbortController();
    const outcome = sim.apply({ superseded: new Map([['shop', superseded.signal]]) });
    const job = () =>
      sim.world.containersOf('shop').some((one) => /pre_update-say/.test(one.name) && one.state === 'running');
    while (!job()) await sim.clock.sleep(100);
    expect(counts(sim)).toEqual({ side: 1 });
    superseded.abort();
    expect((await outcome)?.failures.get('shop')?.data).toMatchObject({ outcome: 'superseded' });
    expect(newest(sim)).toMatchObject({ outcome: 'superseded' });
    expect(newest(sim).hooks?.[0]?.actions.map((one) => one.result)).toEqual(['done', 'done']);
    expect(counts(sim)).toEqual({ web: 2, side: 1 });
  });

  it('a suspend ends a pre phase after its current action, and everything is back; a post phase runs to its end', async () => {
    const hooks = (phase: string) => `  ${phase}: [{ scale: { web: 0 } }, { job: say }, { job: say }]\n`;
    const suspendIn = async (phase: string): Promise<SimHouse> => {
      const sim = open();
      sim.source.push(files(hooks(phase)));
      await succeeded(sim);
      const controller = new Controller({ house: sim.house, pollMs: 1_000, intervalMs: 1e9, log: () => {} });
      await sim.run(controller.start());
      const job = () =>
        sim.world.containersOf('shop').some((one) => one.name.includes(`${phase}-say`) && one.state === 'running');
      sim.source.push(files(hooks(phase), 'sleep 20', 'windlass-test/web:1'));
      for (let tries = 0; tries < 600 && !job(); tries++) await sim.run(sim.clock.sleep(100));
      sim.house.store.putHold('shop', {
        kind: 'suspended',
        reason: 'moving house',
        sinceMs: sim.clock.nowMs(),
        untilMs: 0,
        service: '',
      });
      for (let tries = 0; tries < 600 && newest(sim).outcome === 'running'; tries++)
        await sim.run(sim.clock.sleep(100));
      await sim.run(sim.clock.sleep(5_000));
      await sim.run(controller.stop());
      return sim;
    };
    const pre = await suspendIn('pre_update');
    expect(newest(pre)).toMatchObject({
      outcome: 'superseded',
      message: 'the stack was suspended',
      hooks: [{ outcome: 'superseded', message: 'the stack was suspended' }],
    });
    expect(newest(pre).hooks?.[0]?.actions.map((one) => one.result)).toEqual(['done', 'done']);
    expect(counts(pre)).toEqual({ web: 2, side: 1 });
    const ready = pre.house.store.conditions('shop').find((one) => one.type === 'Ready');
    expect(ready).toMatchObject({ reason: 'Suspended' });
    pre.house.store.deleteHold('shop', 'suspended', '');
    await succeeded(pre);

    const post = await suspendIn('post_update');
    expect(newest(post)).toMatchObject({ outcome: 'succeeded' });
    expect(newest(post).hooks?.[0]?.actions.map((one) => one.result)).toEqual(['done', 'done', 'done']);
  });

  it('a count that a person changes in a phase is told: an event, and with the run', async () => {
    const sim = open();
    sim.source.push(files('  test: [{ scale: { web: 0 } }, { job: say }]\n', 'sleep 20'));
    await succeeded(sim);
    const at = await sim.bench.reader.read(await sim.source.fetch());
    const run = runByHand(sim.bench, at, 'shop', 'test', { signal: new AbortController().signal });
    const job = () =>
      sim.world.containersOf('shop').some((one) => /test-say/.test(one.name) && one.state === 'running');
    while (!job()) await sim.clock.advance(100);
    const web = sim.world.containersOf('shop').find((one) => one.name === 'shop-web-1');
    await sim.run(sim.house.runtime.start(web!.id, new AbortController().signal));
    await sim.run(run);
    const said = 'web has 1 container where this hook left 0: left as it is';
    expect(counts(sim)).toEqual({ web: 1, side: 1 });
    expect(newest(sim).hooks?.[0]?.changed).toEqual([said]);
    expect(sim.house.store.events({ stack: 'shop', limit: 5 })).toContainEqual(
      expect.objectContaining({ reason: 'CountChanged', level: 'warning', message: `test: ${said}` }),
    );
  });

  it('a scale by hand is in the history with its hooks, and counts what they left', async () => {
    const sim = open();
    sim.source.push(files('  pre_scale: [{ job: say }]\n  post_scale: [{ job: say }]\n', 'sleep 20'));
    await succeeded(sim);
    sim.house.store.putHold('shop', { kind: 'suspended', reason: '', sinceMs: 0, untilMs: 0, service: '' });
    const [judged] = await sim.survey();
    if (judged?.kind !== 'judged') throw new Error('not judged');
    const { signal } = new AbortController();
    const scaling = scaleStack(sim.bench, judged, new Map([['web', 3]]), signal);
    while (!sim.world.containersOf('shop').some((one) => /pre_scale-say/.test(one.name) && one.state === 'running'))
      await sim.clock.advance(100);
    expect(newest(sim)).toMatchObject({ operation: 'scale', outcome: 'running' });
    const second = sim.world.containersOf('shop').find((one) => one.name === 'shop-web-2')!;
    await sim.run(sim.house.runtime.remove(second.id, signal));
    expect(await sim.run(scaling)).toEqual([{ service: 'web', before: 1, after: 3 }]);
    expect(newest(sim)).toMatchObject({ operation: 'scale', outcome: 'succeeded', changes: ['web: 1 → 3'] });
    expect(phases(sim)).toBe('pre_scale post_scale');
    expect(counts(sim)).toEqual({ web: 3, side: 1 });
  });

  it('a scale by hand that is done did not fail because it could not be told', async () => {
    const sim = open();
    sim.source.push(files('  post_uninstall: [{ job: say }]\n'));
    await succeeded(sim);
    sim.house.store.putHold('shop', { kind: 'suspended', reason: '', sinceMs: 0, untilMs: 0, service: '' });
    const [judged] = await sim.survey();
    if (judged?.kind !== 'judged') throw new Error('not judged');
    sim.house.store.appendEvent = () => {
      // Without the lease somebody else would take its run for one that was cut.
      if (!isHeld(sim.house, 'shop')) throw new Error('the lease is gone');
      throw new Error('the disk is full');
    };
    const scaling = scaleStack(sim.bench, judged, new Map([['web', 3]]), new AbortController().signal);
    await expect(sim.run(scaling)).rejects.toThrow('the disk is full');
    expect(newest(sim)).toMatchObject({ operation: 'scale', outcome: 'succeeded', changes: ['web: 2 → 3'] });
  });

  it('a volume that a job made before an uninstall is told as left behind', async () => {
    const sim = open();
    sim.source.push({
      'stacks/shop/compose.yaml': `${compose()}  idle: { image: windlass-test/busybox:1, scale: 0, volumes: ["dump:/d"] }\nvolumes: { dump: {} }\n`,
      'stacks/shop/stack.yaml': stack('  pre_uninstall: [{ job: say }]\n'),
      'stacks/shop/say.job.yaml': `${job('echo hi')}volumes: ["dump:/dump"]\n`,
    });
    await succeeded(sim);
    expect((await sim.bench.look.fresh('all')).observed.volumes).toEqual([]);
    await sim.run(uninstall(sim.bench, sim.house.store.applied('shop')!, 'test', new AbortController().signal));
    expect(orphans(sim.house).map((one) => one.volume)).toContain('shop_dump');
  });

  it('the line that says that hooks are done names what ran, not what might have', async () => {
    const sim = open();
    sim.source.push(files('  pre_install: [{ job: say }, { halt: enough }, { job: say, name: never }]\n'));
    const notes: (string | undefined)[] = [];
    await sim.apply({
      progress: {
        onStepEnd: (_phase, _target, step, _slot, _outcome, { note }) =>
          void (step === 'pre-hooks' && notes.push(note)),
      },
    });
    expect(notes).toEqual(['pre_install halted (halt: enough: enough), 2 of 3 actions ran: job say, halt: enough']);
  });

  it('a stack that leaves the fleet in a pre phase: the action ends, everything is back, and only then it is taken away', async () => {
    const sim = open();
    const hooks = '  pre_update: [{ scale: { web: 0 } }, { job: say }, { job: say }]\n';
    sim.source.push({ ...files(hooks), 'stacks/a/compose.yaml': compose(), 'stacks/b/compose.yaml': compose() });
    await succeeded(sim);
    const controller = new Controller({ house: sim.house, pollMs: 1_000, intervalMs: 1e9, log: () => {} });
    await sim.run(controller.start());
    sim.source.push(files(hooks, 'sleep 20', 'windlass-test/web:1'));
    const job = () =>
      sim.world.containersOf('shop').some((one) => /pre_update-say/.test(one.name) && one.state === 'running');
    const until = async (holds: () => boolean): Promise<void> => {
      for (let tries = 0; tries < 600 && !holds(); tries++) await sim.run(sim.clock.sleep(100));
      expect(holds()).toBe(true);
    };
    await until(job);
    sim.world.clearCalls();
    sim.source.push({ 'stacks/shop': null });
    await until(() => !sim.house.store.applied('shop'));
    expect(sim.world.containersOf('shop')).toEqual([]);
    const [taken, ended] = sim.house.store.runs({ stack: 'shop', limit: 2 });
    expect([taken, ended]).toMatchObject([
      { operation: 'uninstall', outcome: 'succeeded' },
      { operation: 'deploy', outcome: 'superseded' },
    ]);
    expect(ended!.hooks?.[0]?.actions.map((one) => one.result)).toEqual(['done', 'done']);
    expect(taken!.startedAtMs).toBeGreaterThanOrEqual(ended!.endedAtMs);
    await sim.run(controller.stop());
  });

  it('nothing else of the same process joins a deploy that is in work', async () => {
    const sim = open();
    sim.source.push(files('  pre_update: [{ job: say }]\n'));
    await succeeded(sim);
    sim.source.push(files('  pre_update: [{ job: say }]\n', 'sleep 20', 'windlass-test/web:1'));
    const outcome = sim.apply();
    while (!sim.world.containersOf('shop').some((one) => /pre_update-say/.test(one.name))) await sim.clock.sleep(100);
    const { signal } = new AbortController();
    const locked = { code: 'LOCK_HELD' };
    await expect(uninstall(sim.bench, sim.house.store.applied('shop')!, 'test', signal)).rejects.toMatchObject(locked);
    await expect(byHand(sim.bench, 'shop', 'stop', signal)).rejects.toMatchObject(locked);
    expect(sim.house.store.holds('shop')).toEqual([]);
    expect([...(await outcome)!.failures.values()]).toEqual([]);
  });

  it('a person runs a phase; what a deploy remembers does not change', async () => {
    const sim = open();
    sim.source.push(files('  test: [{ job: say }]\n'));
    await succeeded(sim);
    const at = await sim.bench.reader.read(await sim.source.fetch());
    const signal = new AbortController().signal;
    const record = await sim.run(runByHand(sim.bench, at, 'shop', 'test', { signal }));
    expect(record?.actions[0]?.tail).toEqual(['hi']);
    expect(newest(sim)).toMatchObject({ operation: 'test', outcome: 'succeeded' });
    expect(await sim.run(runByHand(sim.bench, at, 'shop', 'post_update', { signal }))).toBeNull();
    expect(await sim.apply()).toBeNull();
  });
});

it('no person runs a phase of a stack whose restore is not finished', async () => {
  const sim = open();
  sim.source.push(files('  test: [{ job: say }]\n'));
  await succeeded(sim);
  const at = await sim.bench.reader.read(await sim.source.fetch());
  sim.house.store.putValue('restore/r1', { id: 'r1', endedAtMs: 0, plan: { target: 'shop' } });
  const signal = new AbortController().signal;
  await expect(sim.run(runByHand(sim.bench, at, 'shop', 'test', { signal }))).rejects.toThrow(
    'the restore r1 of shop is not finished',
  );
  expect(newest(sim).operation).toBe('deploy');
});

describe('what a phase made of a service beyond what there was', () => {
  const HOOKS = '  post_update: [{ scale: { web: 4 } }, { job: say }, { scale: { web: 3 } }]\n';
  const deploy = async (sim: SimHouse): Promise<void> => {
    sim.source.push(files(HOOKS));
    await succeeded(sim);
    sim.source.push(files(HOOKS, 'echo hi', 'windlass-test/web:1'));
  };
  const webs = (sim: SimHouse): string[] =>
    sim.world
      .containersOf('shop')
      .map((one) => one.name)
      .filter((name) => /-web-\d+$/.test(name))
      .sort();

  it('goes with the restore, and the stack is what it is declared to be', async () => {
    const sim = open();
    await deploy(sim);
    await succeeded(sim);
    expect(webs(sim)).toEqual(['shop-web-1', 'shop-web-2']);
    const [judged] = await sim.survey();
    expect(judged).toMatchObject({ diff: { situation: 'same', changes: [] } });
  });

  it('goes whenever the controller is killed in it', async () => {
    const probe = open();
    await deploy(probe);
    const before = probe.world.count();
    await succeeded(probe);
    const calls = probe.world.count() - before;
    for (let at = 1; at <= calls; at++) {
      const sim = new SimHouse(at);
      try {
        await deploy(sim);
        sim.world.crashAt(at, at % 2 === 0 ? 'before' : 'after');
        await sim.apply().catch(() => {});
        sim.crash();
        await sim.clock.advance(60_000);
        const { signal } = new AbortController();
        await sim.run(takeUpHooks(sim.bench, null, { signal }));
        expect([at, webs(sim).filter((name) => /-web-[34]$/.test(name))]).toEqual([at, []]);
        for (let tries = 0; tries < 4 && (await sim.apply()) !== null; tries++);
        expect([at, webs(sim)]).toEqual([at, ['shop-web-1', 'shop-web-2']]);
      } finally {
        sim.dispose();
      }
    }
  }, 60_000);
});

describe('a crash of the controller in a deploy with hooks', () => {
  const HOOKS =
    '  pre_update: [{ scale: { web: 0 } }, { job: say }]\n' +
    '  post_update: [{ scale: { side: 0 } }, { job: say, once: revision }, { scale: { side: "ref+hook://previous" } }]\n';

  it('at any engine call: the next run finishes it, and every count is back', async () => {
    const deploy = async (sim: SimHouse): Promise<void> => {
      sim.source.push(files(HOOKS));
      await sim.apply();
      sim.source.push(files(HOOKS, 'echo hi; sleep 1', 'windlass-test/web:1'));
    };
    const probe = open();
    await deploy(probe);
    const before = probe.world.count();
    await succeeded(probe);
    const calls = probe.world.count() - before;
    expect(calls).toBeGreaterThan(20);
    for (let at = 1; at <= calls; at++)
      for (const when of ['before', 'after'] as const) {
        const sim = new SimHouse(at);
        try {
          await deploy(sim);
          sim.world.crashAt(at, when);
          await sim.apply().catch(() => {});
          sim.crash();
          await sim.clock.advance(60_000);
          for (let tries = 0; tries < 4 && (await sim.apply()) !== null; tries++);
          const where = `crash ${when} call ${at}`;
          expect(await sim.apply(), where).toBeNull();
          expect([where, counts(sim)]).toEqual([where, { web: 2, side: 1 }]);
          expect([...sim.house.store.values('hook-run/').keys()], where).toEqual([]);
          const done = sim.house.store
            .runs({ stack: 'shop', limit: 10 })
            .flatMap((run) => run.hooks ?? [])
            .filter((one) => one.outcome === 'succeeded' && one.phase.endsWith('_update'));
          expect([where, done.map((one) => one.phase).sort()]).toEqual([where, ['post_update', 'pre_update']]);
        } finally {
          sim.dispose();
        }
      }
  }, 120_000);

  it('in an uninstall, at any engine call: no phase runs again that is done, and history tells each once', async () => {
    const hooks = '  pre_uninstall: [{ job: say }, { scale: { web: 0 } }]\n  post_uninstall: [{ job: say }]\n';
    const { signal } = new AbortController();
    const deploy = async (sim: SimHouse): Promise<void> => {
      sim.source.push(files(hooks, 'echo hi; sleep 1'));
      await succeeded(sim);
    };
    const remove = (sim: SimHouse) => sim.run(uninstall(sim.bench, sim.house.store.applied('shop')!, 'test', signal));
    const probe = open();
    await deploy(probe);
    const before = probe.world.count();
    await remove(probe);
    const calls = probe.world.count() - before;
    expect(calls).toBeGreaterThan(10);
    for (let at = 1; at <= calls; at++) {
      const sim = new SimHouse(at);
      try {
        await deploy(sim);
        sim.world.crashAt(at, 'before');
        await remove(sim).catch(() => {});
        sim.crash();
        await sim.clock.advance(60_000);
        // As a controller begins.
        await sim.run(takeUpHooks(sim.bench, null, { signal }));
        if (sim.house.store.applied('shop')) await remove(sim);
        const told = sim.house.store
          .runs({ stack: 'shop', limit: 10 })
          .flatMap((run) => run.hooks ?? [])
          // A job that ran when the controller died is ended, and its phase failed.
          .filter((one) => one.outcome === 'succeeded')
          .map((one) => one.phase);
        expect([at, told.sort()]).toEqual([at, ['post_uninstall', 'pre_uninstall']]);
      } finally {
        sim.dispose();
      }
    }
  }, 120_000);

  it.each([
    ['post_update', 'while an older one is deployed'],
    ['post_install', 'while nothing was deployed before'],
  ])('in %s, and its commit is lost %s: what it scaled is back all the same, it failed and says why', async (phase) => {
    const hooks = `  ${phase}: [{ scale: { web: 0 } }, { job: say }]\n`;
    const sim = open();
    if (phase === 'post_update') {
      sim.source.push(files(hooks));
      await succeeded(sim);
    }
    const commit = sim.source.push(files(hooks, 'sleep 20', 'windlass-test/web:1'));
    sim.apply().catch(() => {});
    const job = () =>
      sim.world.containersOf('shop').some((one) => one.name.includes(`${phase}-say`) && one.state === 'running');
    while (!job()) await sim.clock.sleep(100);
    expect(counts(sim)).toEqual({ side: 1 });
    sim.crash();
    sim.source.push(files(hooks, 'echo hi', 'windlass-test/web:1'), []);
    sim.source.lose(commit);
    const { signal } = new AbortController();
    const [result] = await sim.run(takeUpHooks(sim.bench, ['shop'], { signal }));
    expect(result?.state.ended).toMatchObject({ outcome: 'failed', message: expect.stringContaining('brought back') });
    expect(counts(sim)).toEqual({ web: 2, side: 1 });
    expect(job()).toBe(false);
    expect([...sim.house.store.values('hook-run/').keys()]).toEqual([]);
    expect(sim.house.store.events({ stack: 'shop', limit: 50 }).map((one) => one.message)).toContainEqual(
      expect.stringMatching(new RegExp(`^${phase}: taken up again, failed: .*no commit ${commit}`)),
    );
    await succeeded(sim);
    expect(phases(sim)).toContain(phase);
  });

  it('no history says for ever that a killed run is running: whoever works on the stack next ends it', async () => {
    const sim = open();
    sim.source.push(files('  post_install: [{ job: say }]\n', 'sleep 20'));
    sim.apply().catch(() => {});
    while (!sim.world.containersOf('shop').some((one) => /post_install-say/.test(one.name))) await sim.clock.sleep(100);
    const [killed] = sim.house.store.runs({ stack: 'shop' });
    sim.crash();
    sim.house.store.putRun({ ...killed!, id: 'r', operation: 'restore', trigger: 'request r' });
    await sim.apply();
    const outcomeOf = (id: string) => sim.house.store.runs({ stack: 'shop' }).find((one) => one.id === id)?.outcome;
    expect(outcomeOf(killed!.id)).toBe('interrupted');
    // Its record is older than its lease, and who carries it out may be alive.
    expect(outcomeOf('r')).toBe('running');
  });

  it('no history guesses how a run ended that a full disk did not take: who knows it writes it down when there is room', async () => {
    const sim = open();
    sim.source.push(files('  post_install: [{ job: say }]\n', 'exit 3'));
    const { store } = sim.house;
    const putRun = store.putRun.bind(store);
    let isFull = true;
    store.putRun = (run) => {
      if (isFull && run.endedAtMs !== 0) throw new Fault('FILES_FAILED', 'the disk is full');
      putRun(run);
    };
    const putAttempt = store.putAttempt.bind(store);
    store.putAttempt = (attempt) => {
      if (isFull && attempt.lastFault) throw new Fault('FILES_FAILED', 'the disk is full');
      putAttempt(attempt);
    };
    await sim.apply();
    const { id, outcome } = newest(sim);
    expect(outcome).toBe('running');
    isFull = false;
    await sim.apply();
    expect(store.runs({ stack: 'shop' }).find((one) => one.id === id)).toMatchObject({
      outcome: 'failed',
      message: 'post_install of shop failed: job say: exit code 3',
    });
  });

  it('a run of a process that is alive stays `running` when a controller starts', async () => {
    const sim = open();
    sim.source.push(files('  post_install: [{ job: say }]\n', 'sleep 20'));
    const outcome = sim.apply();
    while (!sim.world.containersOf('shop').some((one) => /post_install-say/.test(one.name))) await sim.clock.sleep(100);
    const controller = new Controller({ house: sim.house, pollMs: 1e9, intervalMs: 1e9, log: () => {} });
    await controller.start();
    expect(newest(sim).outcome).toBe('running');
    await sim.run(controller.stop());
    await outcome;
    expect(newest(sim).outcome).toBe('succeeded');
  });

  describe('when a controller starts', () => {
    const hooks =
      '  pre_update: [{ scale: { web: 0 } }, { job: say, retries: 1 }, { scale: { web: "ref+hook://previous" } }]\n';
    const open: { sim: SimHouse; controller: Controller }[] = [];
    afterEach(async () => {
      for (const { sim, controller } of open.splice(0)) {
        await sim.run(controller.stop());
        sim.dispose();
      }
    });

    /** Killed in the job of a pre phase, with the service down for it. */
    async function killed(script: string): Promise<SimHouse> {
      const sim = new SimHouse(1);
      sim.source.push({ ...files(hooks), 'stacks/other/compose.yaml': compose() });
      await succeeded(sim);
      sim.source.push(files(hooks, script, 'windlass-test/web:1'));
      sim.apply().catch(() => {});
      while (counts(sim)['web'] !== undefined) await sim.clock.sleep(100);
      await sim.clock.advance(500);
      sim.crash();
      return sim;
    }
    const start = async (sim: SimHouse): Promise<void> => {
      const controller = new Controller({ house: sim.house, pollMs: 1_000, intervalMs: 1e9, log: () => {} });
      open.push({ sim, controller });
      await sim.run(controller.start());
    };
    const until = async (sim: SimHouse, holds: () => boolean): Promise<void> => {
      for (let tries = 0; tries < 900 && !holds(); tries++) await sim.run(sim.clock.sleep(500));
      expect(holds()).toBe(true);
    };
    const running = (sim: SimHouse): string[] =>
      sim.world
        .containersOf('shop')
        .filter((one) => /^shop-web-\d+$/.test(one.name))
        .map((one) => one.spec.image);
    const ended = (sim: SimHouse): string[] =>
      sim.house.store
        .runs({ stack: 'shop', limit: 10 })
        .flatMap((run) => run.hooks ?? [])
        .map((one) => `${one.phase} ${one.outcome}${one.message === '' ? '' : `: ${one.message}`}`);

    it('a pre phase gives way to a newer revision that came meanwhile: restored, superseded, and the newer one runs its own', async () => {
      const sim = await killed('sleep 200');
      sim.source.push(files(hooks, 'echo newer', 'windlass-test/web:2'));
      await start(sim);
      await until(sim, () => sim.house.store.attempt('shop') === null);
      expect(ended(sim).sort()).toEqual(['pre_update succeeded', 'pre_update superseded: a newer revision arrived']);
      expect(running(sim)).toEqual(['windlass-test/web:2', 'windlass-test/web:2']);
      expect(counts(sim)).toEqual({ web: 2, side: 1 });
    });

    it('a pre phase goes on when nothing newer came, nor anything that can be read', async () => {
      const sim = await killed('sleep 20');
      sim.source.push({ 'stacks/shop/stack.yaml': 'nonsense: [' });
      await start(sim);
      await until(sim, () => ended(sim).length > 0);
      expect(ended(sim)).toEqual(['pre_update succeeded']);
    });

    describe('a rollback', () => {
      const back = `${hooks}${hooks.replace('pre_update', 'pre_rollback')}`;
      const asked = (sim: SimHouse) => sim.source.fetch().then((commit) => sim.bench.reader.read(commit));

      /** Deployed, changed, and on its way back. */
      async function goingBack(script = 'sleep 20'): Promise<SimHouse> {
        const sim = new SimHouse(1);
        const first = sim.source.push({ ...files(back, script), 'stacks/other/compose.yaml': compose() });
        await succeeded(sim);
        sim.source.push(files(back, 'echo hi', 'windlass-test/web:1'));
        await succeeded(sim);
        await manualRollback(sim.bench, 'shop', await asked(sim), first);
        return sim;
      }
      async function killedOnItsWayBack(): Promise<SimHouse> {
        const sim = await goingBack();
        sim.apply().catch(() => {});
        while (counts(sim)['web'] !== undefined) await sim.clock.sleep(100);
        await sim.clock.advance(500);
        sim.crash();
        return sim;
      }
      const ofRollback = (sim: SimHouse) => ended(sim).filter((one) => one.startsWith('pre_rollback'));

      it('gives way to a newer revision of the stack that came meanwhile', async () => {
        const sim = await killedOnItsWayBack();
        sim.source.push(files(back, 'echo newer', 'windlass-test/web:2'));
        await start(sim);
        await until(sim, () => running(sim).every((image) => image === 'windlass-test/web:2'));
        await until(sim, () => sim.house.store.attempt('shop') === null);
        expect(ofRollback(sim)).toEqual(['pre_rollback superseded: a newer revision arrived']);
        expect(counts(sim)).toEqual({ web: 2, side: 1 });
      });

      it('goes on when what was refused is still what is asked for, whatever else was pushed', async () => {
        const sim = await killedOnItsWayBack();
        sim.source.push({ 'stacks/other/compose.yaml': compose('windlass-test/web:1') });
        await start(sim);
        await until(sim, () => ofRollback(sim).length > 0);
        expect(ofRollback(sim)).toEqual(['pre_rollback succeeded']);
        await until(sim, () => sim.house.store.attempt('shop') === null);
        expect(running(sim)).toEqual(['windlass-test/busybox:1', 'windlass-test/busybox:1']);
      });

      it('takes the place of the interrupted phase of what it refuses', async () => {
        const sim = await killed('sleep 200');
        const commit = await asked(sim);
        await manualRollback(sim.bench, 'shop', commit, sim.house.store.applied('shop')!.revision);
        await start(sim);
        await until(sim, () => ended(sim).length > 0);
        expect(ended(sim)).toEqual(['pre_update superseded: a newer revision arrived']);
      });

      it('that is under way is ended by a newer revision of its stack, and by no push to another one', async () => {
        const sim = await goingBack('sleep 10');
        await start(sim);
        const isDown = () => counts(sim)['web'] === undefined;
        await until(sim, isDown);
        sim.source.push({ 'stacks/other/compose.yaml': compose('windlass-test/web:1') });
        await until(sim, () => ofRollback(sim).length > 0);
        expect(ofRollback(sim)).toEqual(['pre_rollback succeeded']);

        const other = await goingBack('sleep 10');
        await start(other);
        await until(other, () => counts(other)['web'] === undefined);
        other.source.push(files(back, 'echo newer', 'windlass-test/web:2'));
        await until(other, () => ofRollback(other).length > 0);
        expect(ofRollback(other)).toEqual(['pre_rollback superseded: a newer revision arrived']);
      });
    });

    it.each(['apply', 'controller'])(
      'a phase whose job may not run twice has failed, and its deploy with it; nothing of it is begun anew by the %s',
      async (who) => {
        const twice = '  pre_update: [{ scale: { web: 0 } }, { job: say }, { job: second }]\n';
        const second = { 'stacks/shop/second.job.yaml': job('sleep 200') };
        const sim = new SimHouse(1);
        sim.source.push({ ...files(twice), ...second });
        await succeeded(sim);
        sim.source.push({ ...files(twice, 'echo hi', 'windlass-test/web:1'), ...second });
        sim.apply().catch(() => {});
        const begun = (name: string) =>
          sim.world.containersOf('shop').filter((one) => one.name.startsWith(`shop-pre_update-${name}`));
        while (begun('second').length === 0) await sim.clock.sleep(100);
        sim.crash();
        const [first] = begun('say');
        const why = 'pre_update of shop failed: job second: the controller died while it ran';
        const failed = () =>
          sim.house.store.runs({ stack: 'shop', limit: 9 }).filter((one) => one.outcome === 'failed');
        if (who === 'apply') {
          expect([...(await sim.apply())!.failures.values()].map((one) => [one.code, one.message])).toEqual([
            ['HOOK_FAILED', why],
          ]);
          houses.push(sim);
        } else {
          await start(sim);
          const ready = () => sim.house.store.conditions('shop').find((one) => one.type === 'Ready');
          await until(sim, () => ready()?.status === 'False');
          expect(ready()?.message).toBe(why);
        }
        expect(begun('say').map((one) => one.id)).toEqual([first!.id]);
        expect(counts(sim)).toEqual({ web: 2, side: 1 });
        expect(failed().map((one) => one.message)).toEqual([why]);
        expect(sim.house.store.attempt('shop')?.lastFault?.message).toBe(why);
        // A further try is one like any other.
        if (who === 'controller') await until(sim, () => begun('second').length > 0);
      },
    );

    it('other stacks are deployed while the hooks of one are taken up; that one waits', async () => {
      const sim = await killed('sleep 200');
      const other = { 'stacks/other/compose.yaml': compose('windlass-test/web:1') };
      sim.source.push(other);
      await start(sim);
      await until(sim, () => sim.world.containersOf('other').some((one) => one.spec.image === 'windlass-test/web:1'));
      await until(sim, () => sim.house.store.attempt('other') === null);
      expect(ended(sim)).toEqual([]);
      await until(sim, () => sim.house.store.attempt('shop') === null);
      expect(ended(sim)).toEqual(['pre_update succeeded']);
      expect(running(sim)).toEqual(['windlass-test/web:1', 'windlass-test/web:1']);
    });
  });

  it('in a phase that a person runs: it counts for no deploy that is on record', async () => {
    const sim = open();
    sim.source.push(files('  post_install: [{ job: say }]\n', 'exit 3'));
    await sim.apply();
    sim.source.push({ 'stacks/shop/say.job.yaml': job('sleep 20') });
    const at = await sim.bench.reader.read(await sim.source.fetch());
    const { signal } = new AbortController();
    const byHand = runByHand(sim.bench, at, 'shop', 'post_install', { signal });
    byHand.catch(() => {});
    while (!sim.world.containersOf('shop').some((one) => /post_install-say/.test(one.name) && one.state === 'running'))
      await sim.clock.advance(100);
    sim.crash();
    await sim.run(takeUpHooks(sim.bench, null, { signal }));
    expect(sim.house.store.attempt('shop')?.completedPhases).not.toContain('post_install');
    await succeeded(sim);
    expect(phases(sim)).toBe('post_install');
  });
});
