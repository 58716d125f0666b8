// Data that a request has yet to bring: on a bare machine nothing is made empty in its place, before it ran or after it failed, until a person
// says so; and what it asks for is kept. Which requests there are is told by hand here: how they are judged is tested elsewhere.
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { openLedger } from '../../src/adapters/journal/ledger.ts';
import { Controller } from '../../src/controller/controller.ts';
import { encodeGroup } from '../../src/core/archive/manifest.ts';
import { Fault } from '../../src/core/fault.ts';
import type { Request } from '../../src/core/spec/request.ts';
import { Archives } from '../../src/operations/archive/archives.ts';
import { resumeRestore, unfinishedRestores } from '../../src/operations/archive/restore.ts';
import { holdLeases } from '../../src/operations/leases.ts';
import { accept } from '../../src/operations/lineage.ts';
import { awaitedStacks, settleAwaited } from '../../src/operations/trust/awaited.ts';
import { runRequests } from '../../src/operations/trust/run-requests.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import type { Ledger } from '../../src/ports/ledger.ts';
import type { Payloads } from '../../src/ports/payloads.ts';
import { Surface } from '../../src/surface.ts';
import { never, Process, RestoreWorld } from './restore-world.ts';

const told = vi.hoisted(() => ({ look: (): unknown => ({}) }));
vi.mock('../../src/operations/trust/look.ts', () => ({ lookAtTrust: async () => told.look() }));

const compose = (name: string): Record<string, string> => ({
  [`stacks/${name}/stack.yaml`]: 'apiVersion: windlass/v1\nkind: Stack\ngroup: shop\n',
  [`stacks/${name}/compose.yaml`]:
    'services: { web: { image: "windlass-test/busybox:1", volumes: ["data:/data"] } }\nvolumes: { data: {} }\n',
});
const FILES = { ...compose('one'), ...compose('two') };

const worlds: RestoreWorld[] = [];
const ledgers: Ledger[] = [];
afterEach(() => {
  for (const ledger of ledgers.splice(0)) ledger.close();
  for (const world of worlds.splice(0)) world.dispose();
});

/** A group archive of a machine that is gone, and a bare one whose fleet declares the same. */
async function bare() {
  const gone = new RestoreWorld();
  worlds.push(gone);
  gone.sim.source.push(FILES);
  await gone.sim.apply();
  const members = [];
  for (const stack of ['one', 'two'])
    members.push({ stack, archive: await gone.archive(stack, { volumes: { data: `old ${stack}` } }) });
  const { bytes } = encodeGroup({
    format: 'windlass-group',
    version: 1,
    madeAtMs: gone.sim.clock.nowMs(),
    group: 'shop',
    members,
    edges: [],
    windlass: '0.0.0',
  });
  const archive = await gone.archives.putManifest(bytes, 'signed\n');

  const world = new RestoreWorld(2);
  worlds.push(world);
  cpSync(join(gone.sim.dir, 'archives'), join(world.sim.dir, 'archives'), { recursive: true });
  const tip = world.sim.source.push(FILES);
  const ledger = openLedger({ directory: world.sim.dir, fleet: 'f' });
  ledgers.push(ledger);
  const trust = { deploy: 'none' as const, anchor: {} as never, ledger, files: async () => ({}) };
  const house = { ...world.sim.house, trust };
  world.bench = new Workbench(house);
  const request: Request = {
    apiVersion: 'windlass/v1',
    kind: 'Recover',
    stacks: ['one', 'two'],
    archive,
    reason: 'the machine burned down',
    expires: '2030-01-01T00:00:00Z',
  };
  const tell = (state: string): void => {
    told.look = () => ({
      requests: [
        {
          id: 'back',
          path: 'requests/back.yaml',
          bytes: new Uint8Array(),
          evaluation: {
            state,
            reason: state,
            detail: '',
            request,
            subject: 's',
            requester: null,
            approvals: [],
            nonces: ['n'],
          },
        },
      ],
      misnamed: [],
      passedOver: 0,
      there: new Set(['back']),
      objects: new Map(),
      chain: { effective: { sha256: 'p', bytes: new Uint8Array() } },
      ledger,
      tip,
    });
  };
  tell('ready');
  const run = () => world.sim.run(runRequests(world.bench, tip, never));
  const plan = async (options?: { withoutData?: boolean }) => {
    const { work, held } = await new Surface(house).plan([], options);
    return {
      work: work.map((one) => one.name).sort(),
      held: Object.fromEntries([...held].map(([name, { reason }]) => [name, reason])),
    };
  };
  return { world, house, ledger, tell, run, plan, tip, archive, members };
}

describe('a stack whose data a request is to bring', () => {
  it('is not made by an apply before that, which says why, unless it is told to', async () => {
    const { plan } = await bare();
    const why = 'the request back brings it back from an archive first';
    expect(await plan()).toEqual({ work: [], held: { one: why, two: why } });
    expect(await plan({ withoutData: true })).toEqual({ work: ['one', 'two'], held: {} });
  });

  it('is not made by a controller that starts while the newest commit is denied either', async () => {
    const { world, house, plan, tip } = await bare();
    await accept(house, tip);
    world.sim.source.push({ 'README.md': 'another history' }, []);
    const controller = new Controller({ house, pollMs: 1_000, intervalMs: 1_000, log: () => {} });
    await world.sim.run(controller.start());
    await world.sim.run(world.sim.clock.sleep(10_000));
    await world.sim.run(controller.stop());
    expect(house.store.conditions('@fleet')).toMatchObject([{ reason: 'HistoryRewritten' }]);
    expect(['one', 'two'].map((name) => house.store.attempt(name) ?? house.store.applied(name))).toEqual([null, null]);
    expect((await plan()).work).toEqual([]);
  });

  it('is awaited still while a copy of the request holds it, which anybody may push', async () => {
    const { house, plan, tip } = await bare();
    const { requests, ...rest } = told.look() as { requests: { evaluation: object }[] };
    const [one] = requests;
    const copied = { state: 'refused', reason: 'request-copied', requester: { principal: 'anna' } };
    const as = (missing: number) => ({
      ...rest,
      requests: [{ ...one, evaluation: { ...one?.evaluation, ...copied, missing } }],
    });
    told.look = () => as(0);
    settleAwaited(house, await awaitedStacks(house, tip));
    const why = 'the request back brings it back from an archive first';
    expect(await plan()).toEqual({ work: [], held: { one: why, two: why } });
    expect(house.store.holds('one')).toEqual([]);
    told.look = () => as(1);
    expect((await awaitedStacks(house, tip)).stacks).toEqual(new Map());
  });

  it('is not made either while it cannot be told what requests there are', async () => {
    const { plan } = await bare();
    told.look = () => {
      throw new Fault('GIT_OBJECT_MISSING', 'a commit is missing');
    };
    const why = 'whether a request brings it back from an archive first cannot be told: a commit is missing';
    expect(await plan()).toEqual({ work: [], held: { one: why, two: why } });
  });

  it('stays unmade after the request failed, until a person resumes it', async () => {
    const { world, house, ledger, tell, run, plan } = await bare();
    world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
    await run();
    expect(ledger.snapshot('back')).toMatchObject({ state: 'failed', reason: 'RESTORE_FAILED' });
    tell('refused');
    const lost = ['one', 'two'].filter((name) => house.store.applied(name) === null);
    expect(lost).toHaveLength(1);
    const [name = ''] = lost;
    expect(await plan()).toEqual({
      work: [],
      held: {
        [name]: `the request back did not bring it back from its archive; \`windlass resume ${name}\` deploys it without that data`,
        // What came back is held at what was restored.
        [name === 'one' ? 'two' : 'one']: expect.stringMatching(/^restored from archive/),
      },
    });
    new Surface(house).release(name);
    expect((await plan()).work).toEqual([name]);
  });

  it.each(['expired', 'rejected', 'withdrawn', 'refused', 'awaitingApprovals', 'taken out of git'])(
    'is not made empty after an authorised request was %s either, until a person resumes it',
    async (state) => {
      const { house, tell, plan, tip } = await bare();
      const look = async () => settleAwaited(house, await awaitedStacks(house, tip));
      await look();
      if (state === 'taken out of git') {
        const { requests: _, ...rest } = told.look() as { requests: unknown };
        told.look = () => ({ ...rest, requests: [] });
      } else tell(state);
      const held = Object.fromEntries(
        ['one', 'two'].map((name) => [
          name,
          `the request back did not bring it back from its archive; \`windlass resume ${name}\` deploys it without that data`,
        ]),
      );
      expect(await plan(), 'before a controller has looked').toEqual({ work: [], held });
      await look();
      await look();
      expect(await plan()).toEqual({ work: [], held });
      new Surface(house).release('one');
      await look();
      expect((await plan()).work).toEqual(['one']);
    },
  );

  it('is held by no request that was never authorised', async () => {
    const { house, tell, plan, tip } = await bare();
    for (const state of ['awaitingApprovals', 'expired']) {
      tell(state);
      settleAwaited(house, await awaitedStacks(house, tip));
      expect(await plan()).toEqual({ work: ['one', 'two'], held: {} });
    }
  });

  it('waits on while its request is cut off after its claim', async () => {
    const { world, house, ledger, tell, run, plan } = await bare();
    world.sim.world.failNext('up', new Fault('ENGINE_UNREACHABLE', 'gone'), 1);
    await run().catch(() => {});
    expect(ledger.snapshot('back')?.state).toBe('executing');
    tell('refused');
    expect((await plan()).work).toEqual([]);
    await run();
    expect(ledger.snapshot('back')?.state).toBe('succeeded');
    expect(['one', 'two'].map((name) => house.store.applied(name)?.stack)).toEqual(['one', 'two']);
    expect(world.sees('one-web-1', '/data')).toBe('old one');
  });
});

describe('a request that waits for room', () => {
  it('says so once, however the room there is goes up and down, and tells how much there is now', async () => {
    const { world, house, ledger, tip } = await bare();
    let free = 4;
    const diskOf = async (): Promise<never> => {
      free += 0.1;
      throw new Fault('PAYLOAD_NO_SPACE', `the data needs 9.0 MiB at /d, and ${free.toFixed(1)} MiB are free`);
    };
    const payloads = Object.assign(Object.create(house.payloads) as Payloads, { diskOf });
    const bench = new Workbench({ ...house, payloads });
    for (let looks = 0; looks < 3; looks++) await world.sim.run(runRequests(bench, tip, never));
    expect(ledger.snapshot('back')).toMatchObject({ reason: 'waits', detail: expect.stringContaining('4.3 MiB') });
    const told = house.store.events({}).filter(({ message }) => message.includes('waits'));
    expect(told.map(({ message }) => message)).toEqual([expect.stringContaining('4.1 MiB')]);
  });
});

describe('a name that a request was to make', () => {
  it('is no stack when the request failed and git declares none such, and is held from the moment it does', async () => {
    const { world, house, ledger, run, members } = await bare();
    const { requests, ...more } = told.look() as { requests: { evaluation: { request: Request } }[] };
    const [one] = requests;
    const archive = members[0]?.archive;
    const request = { ...one?.evaluation.request, kind: 'Clone', stack: 'one', target: 'uno', archive };
    told.look = () => ({ ...more, requests: [{ ...one, evaluation: { ...one?.evaluation, request } }] });
    world.sim.world.failNext('up', new Fault('COMPOSE_FAILED', 'no'), 1);
    await run();
    expect(ledger.snapshot('back')?.state).toBe('failed');
    expect(house.store.holds('uno')).toHaveLength(1);
    const surface = new Surface(house);
    surface.settleLeftOut(await surface.plan());
    expect(surface.status().map(({ name }) => name)).not.toContain('uno');
    world.sim.source.push({ 'stacks/uno/compose.yaml': 'services: { web: { image: windlass-test/busybox:1 } }\n' });
    const { work, held } = await surface.plan(['uno']);
    expect([work, held.get('uno')?.reason]).toEqual([[], expect.stringContaining('did not bring it back')]);
  });
});

describe('a request whose stack somebody else has', () => {
  it('is not spent by that: it goes on when the stack is let go', async () => {
    const { world, house, ledger, tell, run } = await bare();
    const leases = holdLeases(house, ['two'], undefined, { alone: true });
    await run();
    expect(ledger.snapshot('back')?.state).toBe('executing');
    leases.release();
    tell('refused');
    await run();
    expect(ledger.snapshot('back')?.state).toBe('succeeded');
    expect(world.sees('two-web-1', '/data')).toBe('old two');
  });
});

describe('a request that was killed in its restore', () => {
  const kinds: readonly (readonly [string, Record<string, unknown>, string])[] = [
    ['Restore', { kind: 'Restore', stack: 'one' }, 'one'],
    ['Recover', {}, 'one'],
    ['Clone', { kind: 'Clone', stack: 'one', target: 'uno' }, 'uno'],
  ];

  it('is told in the log with each change of its state, at the moment of that', async () => {
    const { world, house, ledger, members } = await bare();
    const { requests, ...more } = told.look() as {
      requests: { id: string; evaluation: { request: Request } }[];
      tip: string;
    };
    const [one] = requests;
    const both = members.map(({ stack, archive }, nth) => {
      const request = { ...one?.evaluation.request, kind: 'Restore', stack, archive, stacks: undefined };
      const evaluation = { ...one?.evaluation, request, subject: `s${nth}`, nonces: [`n${nth}`] };
      return { ...one, id: `back-${stack}`, evaluation };
    });
    told.look = () => ({ ...more, requests: both, there: new Set(both.map(({ id }) => id)) });
    const log: string[] = [];
    const states = () => both.map(({ id }) => ledger.snapshot(id ?? '')?.state);
    const tell = (line: string): void => {
      log.push(`${line.replace(/:.*/, '')} | ${states().join(' ')}`);
    };
    const bench = new Workbench({ ...world.sim.house, trust: house.trust });
    await world.sim.run(runRequests(bench, more.tip, never, () => false, tell));
    expect(log).toEqual([
      'request back-one scheduled | scheduled ',
      'request back-two scheduled | scheduled scheduled',
      'request back-one executing | executing scheduled',
      'request back-one succeeded | succeeded scheduled',
      'request back-two executing | succeeded executing',
      'request back-two succeeded | succeeded succeeded',
    ]);
  });

  it.each(kinds)('is not taken for done by the record of another of that name: %s', async (kind, change, target) => {
    const { world, house, ledger, members } = await bare();
    const { requests, ...more } = told.look() as { requests: { evaluation: { request: Request } }[]; tip: string };
    const [one] = requests;
    const archive = kind === 'Recover' ? {} : { archive: members[0]?.archive };
    const request = { ...one?.evaluation.request, ...archive, ...change };
    told.look = () => ({ ...more, requests: [{ ...one, evaluation: { ...one?.evaluation, request } }] });
    const name = kind === 'Restore' ? 'back' : `back-${target}`;
    house.store.putValue(`restore/${name}`, {
      id: name,
      phase: 'done',
      endedAtMs: 1,
      startedAtMs: 1,
      items: {},
      fault: null,
      plan: {},
    });
    await world.sim.run(runRequests(new Workbench({ ...world.sim.house, trust: house.trust }), more.tip, never));
    expect(ledger.snapshot('back')).toMatchObject({ state: 'scheduled', reason: 'waits' });
    expect(ledger.snapshot('back')?.detail).toBe(`there was a restore ${name} already; ask anew under another id`);
    expect(ledger.claimOf('back')).toBeNull();
  });

  it.each(kinds)('waits while the controller takes it up, and ends as that ends: %s', async (kind, change, target) => {
    const { world, house, ledger, members } = await bare();
    const { requests, ...more } = told.look() as { requests: { evaluation: { request: Request } }[]; tip: string };
    const [one] = requests;
    const archive = kind === 'Recover' ? {} : { archive: members[0]?.archive };
    const request = { ...one?.evaluation.request, ...archive, ...change };
    told.look = () => ({ ...more, requests: [{ ...one, evaluation: { ...one?.evaluation, request } }] });
    const open = (): Workbench => new Workbench({ ...world.sim.house, trust: house.trust });
    const run = (bench: Workbench, busy?: (stack: string) => boolean) =>
      world.sim.run(runRequests(bench, more.tip, never, busy));
    // Dies before the data is written.
    const story = new Process();
    world.restart(story);
    story.dieAt = 'payloads.write';
    await expect(run(open())).rejects.toThrow('the process');
    expect(ledger.snapshot('back')?.state).toBe('executing');

    world.restart();
    let goOn = (): void => {};
    const gate = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const payloads: Payloads = {
      ...world.sim.house.payloads!,
      write: async (...args) => {
        await gate;
        return world.payloads().write(...args);
      },
    };
    const bench = new Workbench({ ...world.sim.house, payloads, trust: house.trust });
    const [left] = unfinishedRestores(bench.house);
    expect(left?.plan.target).toBe(target);
    const finishing = holdLeases(bench.house, [target], undefined, { first: true });
    await run(bench);
    await run(bench, (stack) => stack === target);
    expect(ledger.snapshot('back')?.state).toBe('executing');
    finishing.release();
    const resumed = resumeRestore(bench, left?.id ?? '', { signal: never, backup: world.backup });
    await run(bench);
    expect(ledger.snapshot('back')?.state).toBe('executing');
    goOn();
    await world.sim.run(resumed);
    await run(open());
    expect(ledger.snapshot('back')).toMatchObject({ state: 'succeeded' });
    expect(world.sees(`${target}-web-1`, '/data')).toBe('old one');
  });
});

describe('an archive that a request names', () => {
  it('is kept with its members while the request may still be carried out, whatever `keep` says', async () => {
    const { world, house, ledger, run, archive, members } = await bare();
    const keep = { ...FILES };
    keep['stacks/one/stack.yaml'] += 'backup: { keep: { last: 1 } }\n';
    const at = await world.bench.reader.read(world.sim.source.push(keep));
    await world.sim.clock.advance(600_000);
    await world.archive('one', { volumes: { data: 'newer' } });
    // Without the group, which keeps its members anyway.
    await world.archives.remove(archive);
    const why = async () => {
      const verdicts = await new Archives(house).prune(at, 'one', false);
      return verdicts.find(({ id }) => id === members[0]?.archive);
    };
    expect(await why()).toMatchObject({ isKept: false });
    const { requests, ...more } = told.look() as { requests: { evaluation: { request: Request } }[] };
    const [one] = requests;
    const request = { ...one?.evaluation.request, kind: 'Restore', stack: 'one', archive: members[0]?.archive };
    told.look = () => ({ ...more, requests: [{ ...one, evaluation: { ...one?.evaluation, request } }] });
    expect(await why()).toMatchObject({ isKept: true, why: ['pinned by the request back'] });
    await run();
    expect(ledger.snapshot('back')?.state).toBe('succeeded');
    expect(await why()).toMatchObject({ isKept: true, why: ['pinned by the stack one is restored from it'] });
    told.look = () => {
      throw new Fault('GIT_OBJECT_MISSING', 'a commit is missing');
    };
    await expect(new Archives(house).prune(at, 'one', true)).rejects.toThrow('a commit is missing');
    expect((await world.archives.list()).map(({ id }) => id)).toContain(members[0]?.archive);
  });

  it('is kept while another one cannot be read, which may be a group that names it', async () => {
    const { world, house, tell, archive, members } = await bare();
    tell('refused');
    const keep = { ...FILES };
    keep['stacks/one/stack.yaml'] += 'backup: { keep: { last: 1 } }\n';
    const at = await world.bench.reader.read(world.sim.source.push(keep));
    await world.sim.clock.advance(600_000);
    await world.archive('one', { volumes: { data: 'newer' } });
    const path = join(world.sim.dir, 'archives', 'manifests', `${archive}.json`);
    const { chmodSync, writeFileSync } = await import('node:fs');
    chmodSync(path, 0o600);
    writeFileSync(path, '{"format":"windlass-group","version":9}');
    const verdicts = await new Archives(house).prune(at, 'one', false);
    expect(verdicts.find(({ id }) => id === members[0]?.archive)).toMatchObject({
      isKept: true,
      why: [`pinned by ${archive.slice(0, 12)}, which cannot be read`],
    });
  });
});
