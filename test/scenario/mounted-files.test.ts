// What a service sees of its project folder while a deploy goes wrong, and what it wrote there itself.
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Fault } from '../../src/core/fault.ts';
import type { DeployOutcome } from '../../src/operations/deploy.ts';
import { SimHouse } from '../sim/sim-house.ts';

const compose = (more = '') => `services:
  web:
    image: windlass-test/busybox:1
    volumes: ["./conf:/conf", "./data:/data"]
${more}`;
const BUILT = '  other: { image: built, build: ./conf }\n';
const HOOK = 'apiVersion: windlass/v1\nkind: Stack\nhooks: { pre_update: [{ http: { url: "http://10.0.0.9/" } }] }\n';

describe('the mounted files of a stack', () => {
  let sim: SimHouse;
  const at = (path: string): string => join(sim.dir, 'stacks/shop/tree/stacks/shop', path);
  const conf = (): string => readFileSync(at('conf/c'), 'utf8');
  const push = (files: Record<string, string>): string =>
    sim.source.push(Object.fromEntries(Object.entries(files).map(([path, text]) => [`stacks/shop/${path}`, text])));
  const codes = (outcome: DeployOutcome | null) => [...outcome!.failures.values()].map(({ code }) => code);

  beforeEach(async () => {
    sim = new SimHouse();
    push({ 'compose.yaml': compose(), 'conf/c': '1' });
    expect(codes(await sim.apply())).toEqual([]);
    expect(conf()).toBe('1');
  });
  afterEach(() => sim.dispose());

  it('are what they were after a pull that fails, and were so while it went on', async () => {
    push({ 'compose.yaml': compose('  other: { image: "windlass-test/nothing:1" }\n'), 'conf/c': '2' });
    let seen = '';
    const progress = {
      onStepStart: (_phase: string, _target: string, step: string) => {
        seen += `${step} ${conf()};`;
      },
    };
    expect(codes(await sim.apply({ progress }))).toEqual(['IMAGE_MISSING']);
    expect([conf(), seen]).toEqual(['1', expect.stringContaining('pull-images 1;')]);
  });

  it.each([
    ['a build', { 'compose.yaml': compose(BUILT) }, () => sim.world.failNext('build')],
    ['a hook before the change', { 'stack.yaml': HOOK }, () => {}],
  ] as const)('are put back after %s that fails; the next try writes them', async (_what, files, harm) => {
    harm();
    push({ ...files, 'conf/c': '2', 'conf/new': 'x' });
    expect(codes(await sim.apply())).toHaveLength(1);
    expect(conf()).toBe('1');
    expect(() => readFileSync(at('conf/new'))).toThrow(/ENOENT/);
    expect(sim.house.store.events({ stack: 'shop' }).filter(({ reason }) => reason === 'FilesAhead')).toEqual([]);
    push({ 'stack.yaml': HOOK.replace(/hooks.*/, '') });
    expect(codes(await sim.apply())).toEqual([]);
    expect([conf(), readFileSync(at('conf/new'), 'utf8')]).toEqual(['2', 'x']);
  });

  it('are of the new revision once a container may be, also after the next try fails sooner', async () => {
    push({ 'conf/c': '2' });
    sim.world.failNext('up');
    expect(codes(await sim.apply())).toHaveLength(1);
    expect(conf()).toBe('2');
    push({ 'compose.yaml': compose(BUILT), 'conf/c': '3' });
    sim.world.failNext('build');
    expect(codes(await sim.apply())).toHaveLength(1);
    expect(conf()).toBe('3');
  });

  it('that cannot be put back are told', async () => {
    push({ 'compose.yaml': compose(BUILT), 'conf/c': '2' });
    const { source } = sim;
    const read = source.blob.bind(source);
    sim.world.failNext('build');
    const progress = {
      onStepStart: (_phase: string, _target: string, step: string) => {
        if (step !== 'build-images') return;
        source.blob = async (oid, most) => {
          const bytes = await read(oid, most);
          if (Buffer.from(bytes).toString() === '1') throw new Error('the disk is gone');
          return bytes;
        };
      },
    };
    expect(codes(await sim.apply({ progress }))).toHaveLength(1);
    expect(sim.house.store.events({ stack: 'shop' }).map(({ reason, message }) => [reason, message])).toContainEqual([
      'FilesAhead',
      expect.stringMatching(/its files are those of .* the disk is gone/),
    ]);
  });

  it('that can neither be put back nor told of hide no failure, and leave the stack free', async () => {
    push({ 'compose.yaml': compose(BUILT), 'conf/c': '2' });
    const { source } = sim;
    const { store } = sim.house;
    const [read, tell] = [source.blob.bind(source), store.appendEvent.bind(store)];
    sim.world.failNext('build');
    const progress = {
      onStepStart: (_phase: string, _target: string, step: string) => {
        if (step !== 'build-images') return;
        source.blob = () => Promise.reject(new Error('the disk is gone'));
        store.appendEvent = () => {
          throw new Error('the disk is full');
        };
      },
    };
    const outcome = await sim.apply({ progress });
    expect([...outcome!.failures.values()].map(({ message }) => message)).toEqual(['injected fault']);
    [source.blob, store.appendEvent] = [read, tell];
    expect(codes(await sim.apply())).toEqual([]);
    expect(conf()).toBe('2');
  });

  it.each(['start', 'end'])(
    'that a full disk keeps from being noted at their %s are no refusal of the engine',
    async (when) => {
      push({ 'conf/c': '2' });
      const { store } = sim.house;
      const note = store.journal.bind(store);
      store.journal = (entry) => {
        if (entry.step === 'materialize' && entry.event === when)
          throw new Fault('FILES_FAILED', 'state.db could not be written: the disk is full');
        note(entry);
      };
      const outcome = await sim.apply();
      expect(codes(outcome)).toEqual(['FILES_FAILED']);
      expect([...outcome!.failures.values()][0]!.message).toMatch(/journal did not take .* the disk is full/);
      expect(store.attempt('shop')?.lastFault?.code).toBe('FILES_FAILED');
    },
  );

  it('that the service wrote itself are no deploy’s to replace', async () => {
    mkdirSync(at('data'), { recursive: true });
    writeFileSync(at('data/db'), 'precious');
    push({ 'data/db': 'seed', 'conf/c': '2' });
    const outcome = await sim.apply();
    expect(codes(outcome)).toEqual(['FILE_IN_THE_WAY']);
    expect([...outcome!.failures.values()][0]!.message).toMatch(/data\/db was not written by Windlass/);
    expect([readFileSync(at('data/db'), 'utf8'), conf()]).toEqual(['precious', '1']);
  });

  it('that the service writes while they are written stay; what was in place by then is put back', async () => {
    push({ 'conf/c': '2', 'conf/new': 'x', 'data/db': 'seed' });
    const { source } = sim;
    const read = source.blob.bind(source);
    source.blob = async (oid, most) => {
      const bytes = await read(oid, most);
      if (Buffer.from(bytes).toString() === 'seed' && isApplying) {
        mkdirSync(at('data'), { recursive: true });
        writeFileSync(at('data/db'), 'precious');
      }
      return bytes;
    };
    let isApplying = false;
    const progress = {
      onStepStart: (_phase: string, _target: string, step: string) => {
        isApplying = step === 'materialize';
      },
    };
    expect(codes(await sim.apply({ progress }))).toEqual(['FILE_IN_THE_WAY']);
    expect([readFileSync(at('data/db'), 'utf8'), conf()]).toEqual(['precious', '1']);
    expect(() => readFileSync(at('conf/new'))).toThrow(/ENOENT/);
    source.blob = read;
    renameSync(at('data/db'), at('data/mine'));
    expect(codes(await sim.apply())).toEqual([]);
    expect([readFileSync(at('data/db'), 'utf8'), conf()]).toEqual(['seed', '2']);
  });

  it('that the service wrote itself stay also where a refused commit has the very same', async () => {
    mkdirSync(at('data'), { recursive: true });
    writeFileSync(at('data/db'), 'precious');
    writeFileSync(at('data/same'), 'of both');
    push({ 'data/db': 'seed', 'data/same': 'of both' });
    expect(codes(await sim.apply())).toEqual(['FILE_IN_THE_WAY']);
    expect(['db', 'same'].map((name) => readFileSync(at(`data/${name}`), 'utf8'))).toEqual(['precious', 'of both']);
  });

  it.each(['at once', 'by a later try'])(
    'so do those of a commit that fails later and is put back %s',
    async (when) => {
      mkdirSync(at('data'), { recursive: true });
      writeFileSync(at('data/same'), 'of both');
      push({ 'compose.yaml': compose(BUILT), 'data/same': 'of both', 'data/new': 'x', 'conf/c': '2' });
      const { source } = sim;
      const read = source.blob.bind(source);
      if (when !== 'at once') {
        const progress = {
          onStepStart: (_phase: string, _target: string, step: string) => {
            if (step === 'build-images') source.blob = () => Promise.reject(new Error('the disk is gone'));
          },
        };
        sim.world.failNext('build');
        expect(codes(await sim.apply({ progress }))).toHaveLength(1);
        expect(conf()).toBe('2');
        source.blob = read;
        sim.crash();
        push({ 'conf/c': '3' });
      }
      sim.world.failNext('build');
      expect(codes(await sim.apply())).toHaveLength(1);
      expect([readFileSync(at('data/same'), 'utf8'), conf()]).toEqual(['of both', '1']);
      expect(() => readFileSync(at('data/new'))).toThrow(/ENOENT/);
      expect(codes(await sim.apply())).toEqual([]);
      expect([readFileSync(at('data/same'), 'utf8'), conf()]).toEqual(['of both', when === 'at once' ? '2' : '3']);
    },
  );

  it('do not stay behind with what the service wrote there when its folder moves: that is refused, until they are moved', async () => {
    const moved = { 'stacks/shop/compose.yaml': null, 'stacks/shop/conf/c': null };
    const to = { 'shop/compose.yaml': compose(), 'shop/conf/c': '1' };
    mkdirSync(at('data/deep'), { recursive: true });
    writeFileSync(at('data/deep/db'), 'precious');
    sim.source.push({ ...moved, ...to });
    sim.world.clearCalls();
    const [refused] = await sim.survey();
    expect(refused).toMatchObject({
      kind: 'refused',
      fault: { code: 'DATA_LEFT_BEHIND', message: expect.stringContaining('and data/deep/db would stay behind') },
    });
    expect([await sim.apply(), sim.world.mutatingCalls()]).toEqual([null, []]);
    const there = join(sim.dir, 'stacks/shop/tree/shop');
    mkdirSync(there, { recursive: true });
    renameSync(at('data'), join(there, 'data'));
    expect(codes(await sim.apply())).toEqual([]);
    expect(readFileSync(join(there, 'data/deep/db'), 'utf8')).toBe('precious');
  });

  it('that were moved along by hand are not left behind where the new folder lies in the old one', async () => {
    mkdirSync(at('data'), { recursive: true });
    writeFileSync(at('data/db'), 'precious');
    const to = { 'stacks/shop/app/compose.yaml': compose(), 'stacks/shop/app/conf/c': '1' };
    const fleet = 'apiVersion: windlass/v1\nkind: Fleet\ndiscover: ["stacks/*/app"]\n';
    const stack = 'apiVersion: windlass/v1\nkind: Stack\nname: shop\n';
    sim.source.push({
      'stacks/shop/compose.yaml': null,
      'stacks/shop/conf/c': null,
      'stacks/shop/app/stack.yaml': stack,
      'fleet.yaml': fleet,
      ...to,
    });
    const [refused] = await sim.survey();
    expect(refused).toMatchObject({ kind: 'refused', fault: { code: 'DATA_LEFT_BEHIND' } });
    mkdirSync(at('app'), { recursive: true });
    renameSync(at('data'), at('app/data'));
    expect(codes(await sim.apply())).toEqual([]);
    expect(readFileSync(at('app/data/db'), 'utf8')).toBe('precious');
  });

  it('that the service rewrites at each start are told as that, and wait for a person', async () => {
    const { runtime } = sim.house;
    const up = runtime.up.bind(runtime);
    runtime.up = async (input) => {
      await up(input);
      writeFileSync(at('conf/c'), `started ${sim.clock.nowMs()}`);
    };
    push({ 'conf/c': '2' });
    const [fault] = [...(await sim.apply())!.failures.values()];
    expect(fault).toMatchObject({ code: 'FILE_REWRITTEN', retry: 'person', help: expect.stringContaining('ignore') });
  });

  it('that ignore changes and were rewritten meanwhile keep none of the others from being put back, and are told', async () => {
    const ignoring = compose('    x-windlass: { onFileChange: ignore }\n');
    push({ 'compose.yaml': ignoring, 'data/db': 'seed' });
    expect(codes(await sim.apply())).toEqual([]);
    const newer = ignoring.replace('busybox:1', 'web:1');
    push({ 'compose.yaml': newer, 'stack.yaml': HOOK, 'data/db': 'seed 2', 'data/x': 'new', 'conf/c': '2' });
    const steps: string[] = [];
    const progress = {
      onStepStart: (_phase: string, _target: string, step: string) => {
        if (steps.at(-1) === 'materialize') writeFileSync(at('data/db'), 'seed 2 and rows');
        steps.push(step);
      },
    };
    expect(codes(await sim.apply({ progress }))).toEqual(['HOOK_FAILED']);
    expect([readFileSync(at('data/db'), 'utf8'), conf()]).toEqual(['seed 2 and rows', '1']);
    expect(() => readFileSync(at('data/x'))).toThrow(/ENOENT/);
    const told = sim.house.store.events({ stack: 'shop' }).filter(({ reason }) => reason === 'FilesAhead');
    expect(told.map(({ message }) => message)).toEqual([
      expect.stringMatching(
        /^some of its files could not be put back .* stacks.shop.data.db was changed here and in git/,
      ),
    ]);
    push({ 'stack.yaml': HOOK.replace(/hooks.*/, '') });
    expect(codes(await sim.apply())).toEqual([]);
    expect(['data/db', 'data/x', 'conf/c'].map((path) => readFileSync(at(path), 'utf8'))).toEqual([
      'seed 2 and rows',
      'new',
      '2',
    ]);
    expect(await sim.apply()).toBeNull();
  });

  it('that ignore changes keep what the service made of them, whatever else is deployed', async () => {
    const ignoring = compose('    x-windlass: { onFileChange: ignore }\n');
    push({ 'compose.yaml': ignoring, 'data/db': 'seed' });
    expect(codes(await sim.apply())).toEqual([]);
    writeFileSync(at('data/db'), 'seed and rows');
    expect(await sim.apply()).toBeNull();
    push({ 'compose.yaml': ignoring.replace('busybox:1', 'web:1'), 'conf/c': '2' });
    expect(codes(await sim.apply())).toEqual([]);
    expect([readFileSync(at('data/db'), 'utf8'), conf()]).toEqual(['seed and rows', '2']);
    expect(await sim.apply()).toBeNull();
  });
});
