import { describe, expect, it } from 'vitest';
import { Fault } from '../../src/core/fault.ts';
import { PHASES } from '../../src/core/hook/phase.ts';
import { HALT, setLine } from '../../src/core/hook/signal.ts';
import { encodeToken } from '../../src/core/render/token.ts';
import { resumeHooks, startHook } from '../../src/hooks/run.ts';
import { FakeWorld, RUN } from './fake-world.ts';

const around = [{ scale: { app: 0 } }, { job: 'work' }, { scale: { app: 'ref+hook://previous' } }, { job: 'after' }];

describe('a hook run', () => {
  it('performs its actions in order and brings services back', async () => {
    const world = new FakeWorld({ app: 2 });
    const actions = world.plan('post_install', [{ job: 'check' }, { scale: { app: 0 } }, { job: 'work' }], {
      check: {},
      work: {},
    });
    const result = await world.run(world.start(actions).result);
    expect(result.outcome).toBe('succeeded');
    expect(world.story).toEqual(['check started', 'check ended 0', 'app 0', 'work started', 'work ended 0', 'app 2']);
  });

  it('halts on the marker: the rest is skipped, the phase is good, nothing was scaled', async () => {
    const world = new FakeWorld({ app: 1 });
    world.scripts.set('check', { lines: ['login fits', `  ${HALT} `] });
    const actions = world.plan('post_install', [{ job: 'check' }, ...around], { check: {}, work: {}, after: {} });
    const result = await world.run(world.start(actions).result);
    expect(result).toMatchObject({ outcome: 'halted', isGood: true, fault: null });
    expect(world.story).toEqual(['check started', 'check ended 0']);
    expect(result.state.captured).toEqual({});
  });

  it('does not halt on the marker of a job that failed', async () => {
    const world = new FakeWorld();
    world.scripts.set('check', { lines: [HALT], exitCode: 1 });
    const result = await world.run(world.start(world.plan('test', [{ job: 'check' }], { check: {} })).result);
    expect(result.outcome).toBe('failed');
  });

  it('takes outputs along and branches on them', async () => {
    const world = new FakeWorld({ app: 1 });
    world.scripts.set('check', { lines: [setLine('state', 'diverged')] });
    const actions = world.plan(
      'post_install',
      [
        { job: 'check' },
        {
          if: { value: 'ref+hook://outputs/state', equals: 'diverged' },
          // biome-ignore lint/suspicious/noThenProperty: a word of the hook language
          then: [{ job: 'work' }],
          else: [{ halt: true }],
        },
        { job: 'after' },
      ],
      {
        check: {},
        work: { environment: { STATE: 'ref+hook://outputs/state', NODES: 'ref+cluster://node-count' } },
        after: {},
      },
    );
    const result = await world.run(world.start(actions).result);
    expect(result.state.records.map((record) => `${record.id} ${record.result}`)).toEqual([
      '1 done',
      '2 done',
      '2/then/1 done',
      '3 done',
    ]);
    expect([...world.containers.values()].find((one) => one.job === 'work')?.environment).toEqual({
      STATE: 'diverged',
      NODES: '3',
    });
  });

  it('takes services and outputs of any name, also of those that objects have by themselves', async () => {
    const world = new FakeWorld({ constructor: 2 });
    world.scripts.set('check', { lines: [setLine('toString', 'on'), setLine('__proto__', 'own')] });
    const names = ['constructor', 'valueOf', '__proto__', 'toString'];
    const actions = world.plan('post_install', [{ scale: { constructor: 0 } }, { job: 'check' }, { job: 'work' }], {
      check: {},
      work: { environment: Object.fromEntries(names.map((name, at) => [`V${at}`, `ref+hook://outputs/${name}`])) },
    });
    const result = await world.run(world.start(actions).result);
    expect([result.outcome, world.counts.get('constructor')]).toEqual(['succeeded', 2]);
    expect([...world.containers.values()].find((one) => one.job === 'work')?.environment).toEqual({
      V0: '',
      V1: '',
      V2: 'own',
      V3: 'on',
    });
  });

  it('refuses an output that holds a secret', async () => {
    const world = new FakeWorld();
    world.scripts.set('check', { lines: [setLine('password', 'hunter2')] });
    const { state, outcome } = await world.run(
      world.start(world.plan('test', [{ job: 'check' }], { check: {} })).result,
    );
    expect(outcome).toBe('failed');
    expect(JSON.stringify(state)).not.toContain('hunter2');
    expect([...world.logs.values()].map((log) => log.text).join()).not.toContain('hunter2');
  });

  it('goes on after a failure where `on_failure: continue` says so', async () => {
    const world = new FakeWorld();
    world.scripts.set('check', { exitCode: 2 });
    const actions = world.plan('test', [{ job: 'check', on_failure: 'continue' }, { job: 'work' }], {
      check: {},
      work: {},
    });
    const { outcome, state } = await world.run(world.start(actions).result);
    expect([outcome, ...state.records.map((record) => record.result)]).toEqual(['succeeded', 'failed', 'done']);
  });

  it('tries again as often as told, with a container of its own each time, the old one gone first', async () => {
    const world = new FakeWorld();
    let tries = 0;
    world.scripts.set('work', () => ({ exitCode: ++tries < 3 ? 1 : 0 }));
    const names = new Set<string>();
    world.onCall = () => {
      for (const name of world.containers.keys()) names.add(name);
      expect(world.containers.size).toBeLessThanOrEqual(1);
    };
    const { outcome, state } = await world.run(
      world.start(world.plan('test', [{ job: 'work', retries: 2 }], { work: {} })).result,
    );
    expect([outcome, state.records[0]?.tries, names.size]).toEqual(['succeeded', 3, 3]);
  });

  it('runs an action with `once: revision` once per desired state, and remembers what it said', async () => {
    const world = new FakeWorld();
    world.scripts.set('seed', { lines: [setLine('key', 'k1')] });
    const actions = world.plan('post_install', [{ job: 'seed', once: 'revision' }, { job: 'work' }], {
      seed: {},
      work: { environment: { KEY: 'ref+hook://outputs/key' } },
    });
    for (const attempt of [1, 2]) await world.run(world.start(actions, { run: { attempt } }).result);
    expect(world.story.filter((line) => line === 'seed started')).toHaveLength(1);
    expect([...world.containers.values()].find((one) => one.job === 'work')?.environment).toEqual({ KEY: 'k1' });
    await world.run(world.start(actions, { run: { digest: 'd2' } }).result);
    expect(world.story.filter((line) => line === 'seed started')).toHaveLength(2);
  });

  it.each([
    [['succeeded'], 0, ['work removed']],
    [['succeeded'], 1, []],
    [['failed'], 1, ['work removed']],
    [['failed', 'succeeded'], 0, ['work removed']],
    ['before-creation', 0, []],
  ] as const)('removes a container as delete_policy %j says after exit code %d', async (policy, exitCode, removed) => {
    const world = new FakeWorld();
    world.scripts.set('work', { exitCode });
    await world.run(
      world.start(world.plan('test', [{ job: 'work' }], { work: { delete_policy: policy as 'failed' } })).result,
    );
    expect(world.story.filter((line) => line.endsWith('removed'))).toEqual(removed);
    expect([...world.logs.keys()]).toEqual(['test/1']);
  });

  it.each([
    ['failed', ['work started', 'work killed', 'work removed']],
    ['succeeded', ['work started', 'work killed']],
  ] as const)(
    'removes a container whose time was over with delete_policy %s as after a failure',
    async (policy, story) => {
      const world = new FakeWorld();
      world.scripts.set('work', { durationMs: 3_600_000 });
      await world.run(
        world.start(world.plan('test', [{ job: 'work', timeout: '30s' }], { work: { delete_policy: policy } })).result,
      );
      expect(world.story).toEqual(story);
    },
  );

  it('removes it after a crash that came before its removal', async () => {
    const world = new FakeWorld();
    world.onCall = (name) => {
      if (name === 'removeJob') world.process.die();
    };
    const actions = world.plan('test', [{ job: 'work' }], { work: { delete_policy: 'succeeded' } });
    await world.runOrDie(world.start(actions).result);
    expect(world.containers.size).toBe(1);
    world.onCall = () => {};
    world.restart();
    const [result] = await world.run(world.resume());
    expect([result?.outcome, world.containers.size]).toEqual(['succeeded', 0]);
  });

  it('says what is wrong with a scale target that has no value', async () => {
    const world = new FakeWorld({ app: 1 });
    world.plan('test', []);
    const actions = world.plan('test', [{ scale: { app: 'ref+cluster://leader-ip' } }]);
    const { fault } = await world.run(world.start(actions).result);
    expect(fault).toMatchObject({ code: 'HOOK_FAILED' });
    expect(fault?.message).toMatch(/app cannot be scaled: ref\+cluster:\/\/leader-ip has no value now/);
  });

  it('fails loudly on an unknown ref key', async () => {
    const world = new FakeWorld({ app: 1 });
    const actions = world.plan('test', [{ scale: { app: 'ref+cluster://node-cuont' } }]);
    const { fault } = await world.run(world.start(actions).result);
    expect(fault?.message).toMatch(/unknown key.*did you mean `node-count`/);
  });

  it('performs exec, http, backup, wait-healthy and sleep through their ports', async () => {
    const world = new FakeWorld({ app: 1 });
    world.unhealthy = ['app'];
    void world.clock.sleep(3_000).then(() => {
      world.unhealthy = [];
    });
    const actions = world.plan('post_update', [
      { 'wait-healthy': 'app' },
      { sleep: '10m' },
      { exec: { service: 'app', command: 'flush "the cache"' } },
      { http: { url: 'http://127.0.0.1/', method: 'POST' } },
      { backup: true },
    ]);
    const before = world.clock.nowMs();
    const { outcome } = await world.run(world.start(actions).result);
    expect(outcome).toBe('succeeded');
    expect(world.story).toEqual(['exec flush the cache', 'POST http://127.0.0.1/', 'backup']);
    expect(world.clock.nowMs() - before).toBeGreaterThan(600_000);
  });

  it('names a closed secret by its ref wherever an action is told, never by what stands for it', async () => {
    const world = new FakeWorld();
    world.httpStatus = 500;
    const closed = encodeToken('ref+vault://hook-key');
    const actions = world.plan('test', [{ http: { url: `http://127.0.0.1/${closed}` } }]);
    const { state, fault } = await world.run(world.start(actions).result);
    const told = [
      fault?.message,
      state.ended?.message,
      state.records[0]?.name,
      ...world.process.notes,
      world.logs.get('test/1')?.text,
      JSON.stringify(state.chart),
    ];
    for (const text of told) {
      expect(text).toContain('http://127.0.0.1/ref+vault://hook-key');
      expect(text).not.toContain(closed);
    }
  });

  it('gives what is on record when the same run is started again', async () => {
    const world = new FakeWorld({ app: 1 });
    const actions = world.plan('post_install', around, { work: {}, after: {} });
    const first = await world.run(world.start(actions).result);
    const calls = world.calls;
    expect(await world.run(world.start(actions).result)).toEqual(first);
    expect(world.calls).toBe(calls);
  });

  it('runs a phase without actions as a success', async () => {
    const world = new FakeWorld();
    for (const phase of PHASES)
      expect((await world.run(world.start([], { run: { phase } }).result)).outcome).toBe('succeeded');
  });

  it('runs nothing and restores when the journal cannot be written, and says so', async () => {
    const world = new FakeWorld({ app: 2 });
    const actions = world.plan('post_install', around, { work: {}, after: {} });
    const { journal } = world.process;
    const save = journal.save.bind(journal);
    let writes = 0;
    journal.save = (key, state) => {
      if (++writes > 5) throw new Fault('STATE_CORRUPT', 'the disk is full');
      save(key, state);
    };
    await expect(world.run(world.start(actions).result)).rejects.toThrow('the disk is full');
    expect(world.counts.get('app')).toBe(2);
    expect(world.running()).toEqual([]);
  });
});

describe('L27: whatever a job does, its work is gone, replicas are back, the record says why', () => {
  const run = async (script: Parameters<FakeWorld['scripts']['set']>[1], limits = {}) => {
    const world = new FakeWorld({ app: 2 });
    world.scripts.set('work', script);
    const list = [{ scale: { app: 0 } }, { job: 'work', timeout: '30s' }, { job: 'after' }];
    const actions = world.plan('post_update', list, { work: {}, after: {} });
    const result = await world.run(world.start(actions, { run: { phase: 'post_update' }, limits }).result);
    return { world, result };
  };

  it.each([
    ['ends well', { exitCode: 0 }, 'succeeded', ''],
    ['fails', { exitCode: 7 }, 'failed', 'job work: exit code 7'],
    ['hangs', { durationMs: 3_600_000 }, 'failed', 'job work: it took longer than 30 s'],
  ])('when the job %s', async (_what, script, outcome, message) => {
    const { world, result } = await run(script);
    expect(result.state.ended).toMatchObject({ outcome, message });
    expect(world.counts.get('app')).toBe(2);
    expect(world.running()).toEqual([]);
    expect(world.story.includes('after started')).toBe(outcome === 'succeeded');
  });

  it('when it says why while it is ended: its last words are in the log, the record and the error', async () => {
    const { world, result } = await run({ durationMs: 3_600_000, lines: ['begun'], lastWords: ['rolled back'] });
    expect(result.state.ended).toMatchObject({ outcome: 'failed', message: 'job work: it took longer than 30 s' });
    expect(result.state.records.find((one) => one.name === 'job work')?.tail).toEqual(['begun', 'rolled back']);
    expect(result.fault?.data['log']).toEqual(['begun', 'rolled back']);
    expect([...world.logs.values()].map((one) => one.text)).toContain('begun\nrolled back');
  });

  it('when its output never comes to an end: it is read no longer than the job takes to end', async () => {
    const world = new FakeWorld({ app: 2 });
    world.scripts.set('work', { durationMs: 3_600_000 });
    const { ports } = world.process;
    const signals: AbortSignal[] = [];
    ports.watchJob = (_name, onLine, signal) => {
      signals.push(signal);
      onLine({ stream: 'stdout', text: 'begun' });
      return world.clock.sleep(1e9, signal).then(() => 0);
    };
    const result = await world.run(
      world.start(world.plan('test', [{ job: 'work', timeout: '30s' }], { work: {} })).result,
    );
    expect(result.state.ended).toMatchObject({ outcome: 'failed', message: 'job work: it took longer than 30 s' });
    expect(world.clock.nowMs() - result.state.startedAtMs).toBeLessThan(60_000);
    expect(signals.map((one) => one.aborted)).toEqual([true]);
  });

  it('when the job cannot be ended in its time, but a little later', async () => {
    const world = new FakeWorld({ app: 2 });
    const script = { durationMs: 3_600_000, unkillable: true };
    world.scripts.set('work', script);
    void world.clock.sleep(60_000).then(() => {
      script.unkillable = false;
    });
    const actions = world.plan('post_update', [{ scale: { app: 0 } }, { job: 'work', timeout: '30s', retries: 3 }], {
      work: {},
    });
    const result = await world.run(world.start(actions).result);
    expect(result.state.ended).toMatchObject({ outcome: 'failed' });
    expect(result.state.ended?.message).toMatch(/could not be ended and may still run/);
    // No try beside one that may still run.
    expect(world.story).toEqual(['app 0', 'work started', 'work killed', 'app 2']);
  });

  it('when the job can never be ended: that is said, nobody believes it to be well, and the counts are back', async () => {
    const { world, result } = await run({ durationMs: 36_000_000, unkillable: true });
    expect(result).toMatchObject({ outcome: 'restoreFailed', isGood: false });
    expect(result.fault).toMatchObject({ code: 'RESTORE_FAILED', retry: 'person' });
    expect(result.fault?.message).toMatch(/job work may still run and cannot be ended/);
    expect(world.counts.get('app')).toBe(2);
  });

  it('when the job may still run: nothing is begun beside it, not even where a failure is to go on', async () => {
    const world = new FakeWorld({ app: 2 });
    world.scripts.set('work', { durationMs: 36_000_000, unkillable: true });
    const list = [{ scale: { app: 0 } }, { job: 'work', timeout: '30s', on_failure: 'continue' as const }, ...around];
    const actions = world.plan('post_update', list, { work: {}, after: {} });
    const result = await world.run(world.start(actions).result);
    expect(result.outcome).toBe('restoreFailed');
    expect(world.story).toEqual(['app 0', 'work started', 'app 2']);
  });

  it('when a failure was to go on and the journal then fails: the record names what ended it', async () => {
    const world = new FakeWorld({ app: 2 });
    world.scripts.set('work', { exitCode: 1 });
    const actions = world.plan('post_update', [{ job: 'work', on_failure: 'continue' }, { job: 'after' }], {
      work: {},
      after: {},
    });
    const { journal } = world.process;
    const save = journal.save.bind(journal);
    let isFull = true;
    journal.save = (key, state) => {
      if (isFull && state.current?.id === '2') {
        isFull = false;
        throw new Fault('STATE_CORRUPT', 'the disk is full');
      }
      save(key, state);
    };
    const { state } = await world.run(world.start(actions).result);
    expect(state.ended).toMatchObject({ outcome: 'failed', message: 'the disk is full' });
    expect(world.story).not.toContain('after started');
  });

  it('when a scale hangs while restoring: its own deadline ends it, and the rest is restored', async () => {
    const world = new FakeWorld({ app: 2, other: 1 });
    const actions = world.plan('post_update', [{ scale: { app: 0, other: 0 } }]);
    const { ports } = world.process;
    const scale = ports.scale.bind(ports);
    ports.scale = (service, count, signal) =>
      service === 'app' && count === 2 ? world.clock.sleep(1e9, signal) : scale(service, count, signal);
    const result = await world.run(world.start(actions).result);
    expect(result.state.unrestored).toEqual([
      { service: 'app', captured: 2, found: 0, message: 'it took longer than 1 min' },
    ]);
    expect(world.counts.get('other')).toBe(1);
    // A person, or the next start of the controller, asks again.
    ports.scale = scale;
    const [again] = await world.run(world.resume());
    expect(again?.outcome).toBe('succeeded');
    expect(world.counts.get('app')).toBe(2);
  });

  it('when it is cancelled in the middle: the work is ended, not waited for', async () => {
    const world = new FakeWorld({ app: 2 });
    world.scripts.set('work', { durationMs: 3_600_000 });
    const abort = new AbortController();
    const actions = world.plan('post_update', [{ scale: { app: 0 } }, { job: 'work' }], { work: {} });
    void world.clock.sleep(5_000).then(() => abort.abort(new Error('shutting down')));
    const result = await world.run(world.start(actions, { signal: abort.signal }).result);
    expect(result).toMatchObject({ outcome: 'cancelled', fault: { code: 'CANCELLED' } });
    expect(world.story).toEqual(['app 0', 'work started', 'work killed', 'app 2']);
  });
});

describe('what a sequence made of a service beyond what there was', () => {
  const up = (world: FakeWorld) => world.plan('post_install', [{ scale: { app: 3 } }]);

  it('goes with the restore', async () => {
    const world = new FakeWorld({ app: 1 });
    expect((await world.run(world.start(up(world)).result)).outcome).toBe('succeeded');
    expect([world.counts.get('app'), world.there.get('app')]).toEqual([1, 1]);
  });

  it('that cannot be removed leaves the count right and the stack free, and is told', async () => {
    const world = new FakeWorld({ app: 1 });
    world.removeFault = () => new Fault('ENGINE_REFUSED', 'it is in use');
    expect((await world.run(world.start(up(world)).result)).outcome).toBe('succeeded');
    expect(world.counts.get('app')).toBe(1);
    expect(world.process.notes).toContain('what this hook made of app could not be removed: it is in use');
  });

  it('is not looked for where nothing was scaled up', async () => {
    const world = new FakeWorld({ app: 1 });
    const calls: string[] = [];
    world.onCall = (name) => void calls.push(name);
    await world.run(world.start(world.plan('post_install', [{ scale: { app: 0 } }])).result);
    expect(calls).not.toContain('removeOthers');
  });
});

describe('L29: the engine goes away in mid-sequence', () => {
  const actionsOf = (world: FakeWorld) => world.plan('post_update', around, { work: {}, after: {} });
  const outage = (world: FakeWorld, at: string, ms: number) => {
    let isOver = false;
    world.onCall = (name) => {
      if (name !== at || isOver) return;
      isOver = true;
      world.reachable = false;
      void world.clock.sleep(ms).then(() => {
        world.reachable = true;
      });
    };
  };

  it.each(['replicas', 'scale', 'startJob', 'watchJob'])(
    'is outlasted within the deadline when it happens at %s',
    async (at) => {
      const world = new FakeWorld({ app: 2 });
      outage(world, at, 120_000);
      const result = await world.run(world.start(actionsOf(world)).result);
      expect(result.outcome).toBe('succeeded');
      expect(world.story).toEqual(['app 0', 'work started', 'work ended 0', 'app 2', 'after started', 'after ended 0']);
    },
  );

  it('is said once, and once that it is back, while the job still runs; the log says once that it is read again', async () => {
    const world = new FakeWorld({ app: 2 });
    const lines = Array.from({ length: 15 }, (_, at) => `line ${at}`);
    world.scripts.set('work', { durationMs: 180_000, lines });
    void world.clock.sleep(10_000).then(() => {
      world.reachable = false;
    });
    void world.clock.sleep(100_000).then(() => {
      world.reachable = true;
    });
    const told: [number, string][] = [];
    const deps = world.process.deps();
    const note = (line: string) => void told.push([Math.round(world.clock.nowMs() / 1_000), line]);
    const actions = world.plan('test', [{ job: 'work' }], { work: {} });
    const startMs = Math.round(world.clock.nowMs() / 1_000);
    const { result } = startHook({ ...deps, note }, { run: { ...RUN, phase: 'test' }, revision: 'abc', actions });
    const { outcome, state } = await world.run(result);
    expect(outcome).toBe('succeeded');
    const engine = told.filter(([, line]) => line.includes('engine'));
    expect(engine.map(([, line]) => line)).toEqual([
      'the engine is away, it is waited for: the engine is away',
      'the engine is back',
    ]);
    expect(engine[1]![0] - startMs).toBeLessThan(115);
    expect(state.records[0]?.tail.slice(-16)).toEqual([
      '(the engine was away: the output is read again from its beginning)',
      ...lines,
    ]);
    expect([...world.logs.values()][0]?.text.match(/read again/g)).toHaveLength(1);
  });

  it('and the job ends meanwhile: how it ended counts', async () => {
    const world = new FakeWorld({ app: 2 });
    world.scripts.set('work', { durationMs: 30_000, lines: ['done'] });
    void world.clock.sleep(10_000).then(() => {
      world.reachable = false;
    });
    void world.clock.sleep(100_000).then(() => {
      world.reachable = true;
    });
    const { outcome, state } = await world.run(world.start(actionsOf(world)).result);
    expect(outcome).toBe('succeeded');
    expect(state.records.find((one) => one.name === 'job work')).toMatchObject({
      result: 'done',
      exitCode: 0,
      tries: 1,
    });
  });

  it.each([
    [0, 'done', ''],
    [3, 'failed', 'exit code 3'],
  ])(
    'longer than the time of a job that ended with %i meanwhile: how it ended counts',
    async (exitCode, result, message) => {
      const world = new FakeWorld({ app: 2 });
      world.scripts.set('work', { durationMs: 10_000, lines: ['begun', setLine('SAID', 'this')], exitCode });
      void world.clock.sleep(5_000).then(() => {
        world.reachable = false;
      });
      void world.clock.sleep(35_000).then(() => {
        world.reachable = true;
      });
      const { state } = await world.run(
        world.start(world.plan('test', [{ job: 'work', timeout: '30s' }], { work: {} })).result,
      );
      expect(state.records).toMatchObject([{ result, message, exitCode, tries: 1 }]);
      expect(state.outputs).toEqual(exitCode === 0 ? { SAID: 'this' } : {});
      expect(world.story).toEqual(['work started', `work ended ${exitCode}`]);
    },
  );

  it('longer than the time of a job that still runs: it is ended and has failed', async () => {
    const world = new FakeWorld({ app: 2 });
    world.scripts.set('work', { durationMs: 3_600_000 });
    void world.clock.sleep(5_000).then(() => {
      world.reachable = false;
    });
    void world.clock.sleep(35_000).then(() => {
      world.reachable = true;
    });
    const { state } = await world.run(
      world.start(world.plan('test', [{ job: 'work', timeout: '30s' }], { work: {} })).result,
    );
    expect(state.records).toMatchObject([
      { result: 'failed', message: 'it took longer than 30 s: the engine is away', tries: 1 },
    ]);
    expect(world.story).toEqual(['work started', 'work killed']);
  });

  it('is outlasted also while it is asked whether a service that is down has done its work', async () => {
    const world = new FakeWorld({ app: 0 });
    outage(world, 'hasFinished', 20_000);
    const result = await world.run(world.start(world.plan('test', [{ scale: { app: 1 } }])).result);
    expect(result.outcome).toBe('succeeded');
    expect(world.story).toEqual(['app 1', 'app 0']);
  });

  it('for good: restoreFailed with services and counts, and nothing else is tried', async () => {
    const world = new FakeWorld({ app: 2 });
    outage(world, 'startJob', 1e9);
    const { fault, state, outcome } = await world.run(world.start(actionsOf(world)).result);
    expect(outcome).toBe('restoreFailed');
    expect(fault).toMatchObject({ code: 'RESTORE_FAILED', data: { services: ['app=2'] } });
    expect(state.unrestored).toEqual([{ service: 'app', captured: 2, found: null, message: 'the engine is away' }]);
    expect(world.story).toEqual(['app 0']);
    // Back again: only the restore is done, the sequence is not taken up.
    world.reachable = true;
    const [again] = await world.run(world.resume());
    expect(again?.outcome).toBe('failed');
    expect(world.story).toEqual(['app 0', 'app 2']);
  });

  it('ends an exec whose connection was lost', async () => {
    const world = new FakeWorld();
    world.exec = () => {
      throw new Fault('ENGINE_UNREACHABLE', 'the engine is away');
    };
    const { outcome } = await world.run(
      world.start(world.plan('test', [{ exec: { service: 'app', command: ['vacuum'] } }])).result,
    );
    expect([outcome, ...world.story]).toEqual(['failed', 'exec vacuum', 'exec in app ended']);
  });
});

describe('L30: a person changes a count during the sequence', () => {
  const during = async (list: Parameters<FakeWorld['plan']>[1], count: number) => {
    const world = new FakeWorld({ app: 2 });
    world.scripts.set('work', {
      effect: () => {
        world.counts.set('app', count);
      },
    });
    const result = await world.run(world.start(world.plan('post_update', list, { work: {} })).result);
    return { world, result };
  };

  it('is said and left alone when everything is brought back', async () => {
    const { world, result } = await during([{ scale: { app: 0 } }, { job: 'work' }], 5);
    expect(world.counts.get('app')).toBe(5);
    expect(result.outcome).toBe('succeeded');
    expect(result.state.changed).toEqual([
      { service: 'app', captured: 2, expected: 0, found: 5, isOverwritten: false },
    ]);
    expect(world.process.notes.join('\n')).toMatch(/app has 5 containers where this hook left 0: left as it is/);
  });

  it('is said and left alone by a scale back to `previous`', async () => {
    const { world, result } = await during(
      [{ scale: { app: 0 } }, { job: 'work' }, { scale: { app: 'ref+hook://previous' } }],
      5,
    );
    expect(world.counts.get('app')).toBe(5);
    expect(result.state.changed).toHaveLength(1);
  });

  it('is said and overwritten by a scale to a number, which the sequence needs', async () => {
    const { world, result } = await during([{ scale: { app: 0 } }, { job: 'work' }, { scale: { app: 1 } }], 5);
    expect(result.state.changed).toMatchObject([{ found: 5, isOverwritten: true }]);
    expect(world.counts.get('app')).toBe(2);
  });

  it('is said a second time when what was left alone is then overwritten', async () => {
    const { world, result } = await during(
      [{ scale: { app: 0 } }, { job: 'work' }, { scale: { app: 'ref+hook://previous' } }, { scale: { app: 1 } }],
      5,
    );
    expect(result.state.changed.map((one) => [one.found, one.isOverwritten])).toEqual([
      [5, false],
      [5, true],
    ]);
    expect(world.counts.get('app')).toBe(2);
  });

  it('is nothing to tell when it is the count at hook entry', async () => {
    const { world, result } = await during([{ scale: { app: 0 } }, { job: 'work' }], 2);
    expect([world.counts.get('app'), result.state.changed]).toEqual([2, []]);
  });

  it('while the controller is dead: more is left alone, fewer is what a dead host leaves and is restored', async () => {
    for (const [found, expected] of [
      [5, 5],
      [0, 3],
    ] as const) {
      const world = new FakeWorld({ app: 3 });
      world.scripts.set('work', { durationMs: 10_000 });
      const actions = world.plan('post_update', [{ scale: { app: 1 } }, { job: 'work' }], { work: {} });
      world.onCall = (name) => {
        if (name === 'watchJob') world.process.die();
      };
      await world.runOrDie(world.start(actions).result);
      expect(world.running()).toEqual(['work']);
      world.onCall = () => {};
      world.counts.set('app', found);
      world.restart();
      const [result] = await world.run(world.resume());
      expect(world.counts.get('app')).toBe(expected);
      expect(result?.state.changed[0]).toMatchObject({ found, isOverwritten: found === 0 });
    }
  });
});

describe('L31: halt, then a later deploy', () => {
  it('runs normally', async () => {
    const world = new FakeWorld({ app: 1 });
    let isFirst = true;
    world.scripts.set('check', () => ({ lines: isFirst ? [HALT] : [] }));
    const actions = world.plan('post_update', [{ job: 'check' }, ...around], { check: {}, work: {}, after: {} });
    expect((await world.run(world.start(actions, { run: { digest: 'd1' } }).result)).outcome).toBe('halted');
    isFirst = false;
    const later = await world.run(world.start(actions, { run: { digest: 'd2' } }).result);
    expect(later.outcome).toBe('succeeded');
    expect(later.state.records).toHaveLength(5);
  });
});

describe('L33: what a job prints', () => {
  it('is bounded with its head and its tail, in flat memory, over 100,000 lines', async () => {
    const world = new FakeWorld();
    world.scripts.set('loud', {
      lines: {
        *[Symbol.iterator]() {
          for (let line = 1; line <= 100_000; line++) yield `line ${line} of a long story about hunter2`;
          yield setLine('end', 'reached');
        },
      },
    });
    const heap = process.memoryUsage().heapUsed;
    const { outcome, state } = await world.run(world.start(world.plan('test', [{ job: 'loud' }], { loud: {} })).result);
    expect(process.memoryUsage().heapUsed - heap).toBeLessThan(64 * 1024 * 1024);
    expect([outcome, state.outputs]).toEqual(['succeeded', { end: 'reached' }]);
    const text = world.logs.get('test/1')?.text ?? '';
    expect(text.length).toBeLessThan(256 * 1024);
    expect(text.split('\n').length).toBeLessThanOrEqual(2_001);
    expect(text).toMatch(/^line 1 of .*\n/);
    expect(text).toMatch(/line 100000 of/);
    expect(text).toMatch(/… \[98\d\d\d lines left out\]/);
    expect(text).not.toContain('hunter2');
    expect(JSON.stringify(state).length).toBeLessThan(20_000);
  });

  it('is no halt when a line merely contains the marker', async () => {
    const world = new FakeWorld();
    world.scripts.set('check', { lines: [`echo '${HALT}'`, `${HALT} now`, `${HALT}${HALT}`, '::windlass:HALT::'] });
    const actions = world.plan('test', [{ job: 'check' }, { job: 'work' }], { check: {}, work: {} });
    expect((await world.run(world.start(actions).result)).outcome).toBe('succeeded');
    expect(world.logs.get('test/1')?.text).toMatch(/not a signal that Windlass knows/);
  });
});

describe('L34: a newer revision during a phase', () => {
  const during = async (phase: 'pre_update' | 'post_update' | 'post_deployed' | 'pre_scale', when = 50) => {
    const world = new FakeWorld({ app: 2 });
    const actions = world.plan(phase, around, { work: {}, after: {} });
    const handle = world.start(actions, { run: { phase } });
    let answer: boolean | null = null;
    void world.clock.sleep(when).then(() => {
      answer = handle.supersede();
    });
    const result = await world.run(handle.result);
    return { world, result, answer };
  };

  it.each(['pre_update', 'pre_scale'] as const)(
    '%s: the current action ends, the rest is cancelled, the snapshot restored',
    async (phase) => {
      const { world, result, answer } = await during(phase);
      expect([answer, result.outcome, result.isGood]).toEqual([true, 'superseded', false]);
      expect(world.story).toEqual(['app 0', 'work started', 'work ended 0', 'app 2']);
      expect(world.journaled()[0]?.ended?.outcome).toBe('superseded');
    },
  );

  it.each(['post_update', 'post_deployed'] as const)('%s: the sequence runs to its end first', async (phase) => {
    const { world, result, answer } = await during(phase);
    expect([answer, result.outcome]).toEqual([false, 'succeeded']);
    expect(world.story.at(-1)).toBe('after ended 0');
  });

  it('at its very start: nothing but the action that has begun', async () => {
    const world = new FakeWorld({ app: 2 });
    const handle = world.start(world.plan('pre_update', around, { work: {}, after: {} }), {
      run: { phase: 'pre_update' },
    });
    handle.supersede();
    expect((await world.run(handle.result)).outcome).toBe('superseded');
    expect(world.story).toEqual(['app 0', 'app 2']);
  });

  it('suspended in any phase by a person: the current action ends and everything is restored', async () => {
    for (const phase of ['pre_update', 'post_update'] as const) {
      const world = new FakeWorld({ app: 2 });
      const handle = world.start(world.plan(phase, around, { work: {}, after: {} }), { run: { phase } });
      void world.clock.sleep(50).then(() => handle.cancel());
      expect((await world.run(handle.result)).outcome).toBe('cancelled');
      expect(world.story).toEqual(['app 0', 'work started', 'work ended 0', 'app 2']);
    }
  });
});

describe('L35: a job of a previous run is still there', () => {
  it.each([
    ['running', { durationMs: 3_600_000 }],
    ['ended well', {}],
  ])('%s, and is never taken for the job of this run', async (_what, script) => {
    const world = new FakeWorld();
    world.scripts.set('work', script);
    const actions = world.plan('test', [{ job: 'work' }], { work: {} });
    world.onCall = (name) => {
      if (name === 'watchJob') world.process.die();
    };
    await world.runOrDie(world.start(actions).result);
    world.onCall = () => {};
    const [old] = [...world.containers.keys()];
    expect(old).toBeDefined();
    // Another attempt, before anybody took up the old one.
    world.restart();
    world.scripts.set('work', { exitCode: 5 });
    const { state } = await world.run(world.start(actions, { run: { attempt: 2 } }).result);
    expect(state.records[0]).toMatchObject({ result: 'failed', exitCode: 5 });
    expect(world.containers.has(old ?? '')).toBe(false);
    expect(world.running()).toEqual([]);
  });
});

describe('the start of a controller', () => {
  it('takes up every stack, and one that cannot be taken up does not hold the others', async () => {
    const world = new FakeWorld({ app: 2 });
    world.scripts.set('work', { durationMs: 10_000 });
    const actions = world.plan('post_update', around, { work: {}, after: {} });
    world.onCall = (name) => {
      if (name === 'watchJob') world.process.die();
    };
    for (const stack of ['one', 'two', 'three']) {
      world.restart();
      await world.runOrDie(world.start(actions, { run: { stack, project: stack } }).result);
    }
    world.onCall = () => {};
    await world.clock.advance(60_000);
    world.restart();
    const { journal } = world.process;
    const resumed = resumeHooks(journal, (state) => {
      if (state.run.stack === 'one') throw new Fault('NOT_FOUND', 'no such stack any more');
      return state.run.stack === 'two' ? null : world.process.deps();
    });
    await expect(world.run(resumed)).rejects.toThrow('no such stack any more');
    expect(world.journaled().map((state) => `${state.run.stack} ${state.ended?.outcome}`)).toEqual([
      'one undefined',
      'two undefined',
      'three succeeded',
    ]);
  });

  it('may decide that an interrupted sequence is not taken up: everything is restored and it failed', async () => {
    const world = new FakeWorld({ app: 2 });
    const actions = world.plan('pre_update', around, { work: {}, after: {} });
    world.onCall = (name) => {
      if (name === 'watchJob') world.process.die();
    };
    await world.runOrDie(world.start(actions).result);
    world.onCall = () => {};
    const { journal } = world.restart();
    const [result] = await world.run(
      resumeHooks(journal, () => world.process.deps(), {
        decide: async () => ({ ending: 'failed', why: 'its commit is lost' }),
      }),
    );
    expect(result?.state.ended).toMatchObject({
      outcome: 'failed',
      message: 'its commit is lost',
    });
    expect(world.counts.get('app')).toBe(2);
    expect(world.story).not.toContain('after started');
  });
});
