// Duties of one-shots and of the hook ports over a runtime, on the simulated world and on a real engine.
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RealClock } from '../../src/adapters/clock/real-clock.ts';
import { openApiClient } from '../../src/adapters/compose/api-client.ts';
import { findHost } from '../../src/adapters/compose/host.ts';
import { openOneShots } from '../../src/adapters/compose/one-shot.ts';
import { openRuntime } from '../../src/adapters/compose/runtime.ts';
import { openStore } from '../../src/adapters/journal/store.ts';
import { run } from '../../src/adapters/process/run.ts';
import { openSimOneShots } from '../../src/adapters/sim/one-shot.ts';
import { openSimRuntime } from '../../src/adapters/sim/runtime.ts';
import { SimWorld } from '../../src/adapters/sim/world.ts';
import { Fault } from '../../src/core/fault.ts';
import type { ContainerJob } from '../../src/core/hook/job.ts';
import { jobOf } from '../../src/core/hook/job.ts';
import { planActions } from '../../src/core/hook/plan-actions.ts';
import { hashesOf } from '../../src/core/render/config-hash.ts';
import type { Desired, DesiredService } from '../../src/core/state/desired.ts';
import { storeJournal } from '../../src/hooks/journal.ts';
import { hookPortsOn, sweepJobs } from '../../src/hooks/on-runtime.ts';
import { startHook } from '../../src/hooks/run.ts';
import type { HookPorts } from '../../src/ports/hooks.ts';
import type { OneShotInput, OneShots } from '../../src/ports/one-shots.ts';
import type { Runtime } from '../../src/ports/runtime.ts';
import { hook } from '../../src/refs/hook.ts';
import { createRefs } from '../../src/refs/registry.ts';

const busybox = 'windlass-test/busybox:1';
const clock = new RealClock();
const signal = () => AbortSignal.timeout(60_000);

const openClient = () => openApiClient(findHost(process.env), { deadlineMs: 30_000, maxBytes: 2 ** 24, maxSockets: 4 });

interface World {
  readonly runtime: Runtime;
  readonly oneShots: OneShots;
  close(projects: readonly string[]): Promise<void>;
}

function simWorld(): World {
  const world = new SimWorld({ clock, seed: 'one-shots' });
  const runtime = openSimRuntime(world);
  return { runtime, oneShots: openSimOneShots(world), close: () => runtime.close() };
}

function realWorld(): World {
  const runtime = openRuntime({ run, clock });
  const oneShots = openOneShots({ clock });
  return {
    runtime,
    oneShots,
    async close(projects) {
      const client = openClient();
      for (const project of projects) {
        const filters = JSON.stringify({ label: [`com.docker.compose.project=${project}`] });
        const list = (path: string) =>
          client.json<{ Id: string }[]>({ method: 'GET', path, query: { all: 1, filters } });
        for (const { Id } of await list('/containers/json'))
          await client.send({ method: 'DELETE', path: `/containers/${Id}`, query: { force: 1, v: 1 }, accept: [404] });
        for (const { Id } of await list('/networks'))
          await client.send({ method: 'DELETE', path: `/networks/${Id}`, accept: [404] });
        const { Volumes } = await client.json<{ Volumes: { Name: string }[] | null }>({
          method: 'GET',
          path: '/volumes',
          query: { filters },
        });
        for (const { Name } of Volumes ?? [])
          await client.send({ method: 'DELETE', path: `/volumes/${Name}`, accept: [404] });
      }
      client.close();
      oneShots.close();
      await runtime.close();
    },
  };
}

describe.each([
  ['simulated world', simWorld, false],
  ['real engine', realWorld, true],
] as const)('one-shots on the %s', (_name, open, isReal) => {
  // What the simulated world does not play.
  const onReal = isReal ? test : () => {};
  let world: World;
  const root = mkdtempSync(join(tmpdir(), 'wlt-one-shots-'));
  const projects: string[] = [];
  beforeAll(() => {
    world = open();
  });
  afterAll(async () => {
    await world.close(projects);
    rmSync(root, { recursive: true, force: true });
  });

  async function stackOf(extra: Readonly<Record<string, unknown>> = {}, replicas = 1) {
    const project = `wlt-${randomBytes(4).toString('hex')}`;
    projects.push(project);
    const directory = join(root, project);
    mkdirSync(directory);
    const definition = {
      services: {
        app: {
          image: busybox,
          command: ['sleep', '1000'],
          init: true,
          stop_grace_period: '0s',
          environment: { COLOUR: 'green', PRICE: '5$$' },
          volumes: ['data:/data'],
          networks: ['inner'],
          ...extra,
        },
      },
      networks: { inner: { internal: true } },
      volumes: { data: {} },
      ...(extra['configs'] ? { configs: { motd: { content: 'be well\n' } } } : {}),
    };
    const text = await world.runtime.resolve({
      project,
      directory,
      files: [],
      text: JSON.stringify(definition),
      profiles: [],
      environment: {},
    });
    const hashes = hashesOf(text);
    const service = {
      name: 'app',
      image: busybox,
      replicas,
      hasHealthcheck: extra['healthcheck'] !== undefined,
      oneShot: null,
    } as unknown as DesiredService;
    const named = (kind: 'networks' | 'volumes', key: string) => ({
      key,
      name: `${project}_${key}`,
      external: false,
      hash: hashes[kind].get(key) ?? '',
    });
    const desired = {
      stack: project,
      project,
      projectDir: directory,
      composeVersion: '2.40.3',
      services: [service],
      networks: [named('networks', 'inner')],
      volumes: [named('volumes', 'data')],
      owners: [],
    } as unknown as Desired;
    const model = { text };
    const up = () =>
      world.runtime.up({
        project,
        projectDir: directory,
        model,
        services: ['app'],
        forceRecreate: false,
        signal: signal(),
      });
    const ports: HookPorts = hookPortsOn(
      { ...world, http: () => Promise.reject(new Error('no requests here')) },
      {
        home: root,
        desired,
        model: async () => model,
        jobs: { desired, model: async () => model },
        open: async (values) =>
          Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value.replace('CLOSED', 'opened')])),
      },
    );
    return { project, desired, model, up, ports };
  }

  type Stack = Awaited<ReturnType<typeof stackOf>>;
  const shot = (
    stack: Stack,
    name: string,
    command: readonly string[],
    more: Partial<OneShotInput> = {},
  ): OneShotInput => ({
    name: `${stack.project}-${name}`,
    owner: `${stack.project}/test/job`,
    home: root,
    desired: stack.desired,
    model: stack.model,
    service: 'app',
    image: null,
    entrypoint: null,
    command,
    user: null,
    workingDir: null,
    environment: {},
    networks: null,
    volumes: null,
    ttlMs: null,
    ...more,
  });
  const sh = (script: string) => ['sh', '-c', script];

  async function finish(input: OneShotInput): Promise<{ exitCode: number; lines: string[] }> {
    const lines: string[] = [];
    await world.oneShots.start(input, signal());
    const exitCode = await world.oneShots.watch(input.name, (line) => lines.push(line.text), signal());
    return { exitCode, lines };
  }

  const observedOf = async (project: string) => {
    const observed = await world.runtime.observe({ inspect: 'known', signal: signal() });
    return {
      containers: observed.containers.filter((one) => one.project === project),
      networks: observed.networks.filter((one) => one.project === project),
      volumes: observed.volumes.filter((one) => one.project === project),
    };
  };

  test('run to their end and give output and exit code, before anything of the stack is there', async () => {
    const stack = await stackOf();
    const input = shot(stack, 'one', sh('echo hello; echo oops >&2; sleep 0.2; exit 3'));
    expect(await world.oneShots.find(input.name, signal())).toEqual({ kind: 'absent' });
    const { exitCode, lines } = await finish(input);
    expect([exitCode, ...lines.sort()]).toEqual([3, 'hello', 'oops']);
    expect(await world.oneShots.find(input.name, signal())).toEqual({ kind: 'ended', exitCode: 3 });
    // Again: it is this very try, which is not repeated.
    await world.oneShots.start(input, signal());
    expect(await world.oneShots.find(input.name, signal())).toEqual({ kind: 'ended', exitCode: 3 });
    await world.oneShots.remove(input.name, signal());
    await world.oneShots.remove(input.name, signal());
    expect(await world.oneShots.find(input.name, signal())).toEqual({ kind: 'absent' });
  });

  test('make networks and volumes that `up` then finds as its own', async () => {
    const stack = await stackOf();
    await finish(shot(stack, 'one', sh('true')));
    const before = await observedOf(stack.project);
    expect(before.networks).toMatchObject([{ name: `${stack.project}_inner`, key: 'inner', internal: true }]);
    expect(before.volumes).toMatchObject([{ name: `${stack.project}_data`, key: 'data' }]);
    await stack.up();
    const after = await observedOf(stack.project);
    expect(after.networks).toEqual(before.networks);
    expect(after.volumes).toEqual(before.volumes);
    // The job's container is none of the stack's.
    expect(after.containers.filter((one) => !one.oneOff)).toHaveLength(1);
    expect(after.containers.filter((one) => one.oneOff)).toHaveLength(1);
  });

  test('remove what an earlier try left, running or not', async () => {
    const stack = await stackOf();
    const old = shot(stack, 'old', sh('sleep 1000'));
    await world.oneShots.start(old, signal());
    expect(await world.oneShots.find(old.name, signal())).toEqual({ kind: 'running' });
    await finish(shot(stack, 'new', sh('true')));
    expect(await world.oneShots.find(old.name, signal())).toEqual({ kind: 'absent' });
  });

  test('remove nothing of another project, although stack, phase and job are called the same', async () => {
    const [one, other] = [await stackOf(), await stackOf()];
    const theirs = shot(other, 'job', sh('sleep 1000'), { owner: 'shop/test/say' });
    await world.oneShots.start(theirs, signal());
    await finish(shot(one, 'job', sh('true'), { owner: 'shop/test/say' }));
    expect(await world.oneShots.find(theirs.name, signal())).toEqual({ kind: 'running' });
    await world.oneShots.kill(theirs.name, signal());
  });

  test('touch nothing that another controller made for a project of the same name', async () => {
    const stack = await stackOf();
    const home = `${root}-of-another`;
    const desired = { ...stack.desired, projectDir: join(home, stack.project) };
    const theirs = shot(stack, 'theirs', sh('true'), { home, desired, ttlMs: 0 });
    await finish(theirs);
    await finish(shot(stack, 'ours', sh('true'), { ttlMs: 0 }));
    expect(await world.oneShots.find(theirs.name, signal())).toMatchObject({ kind: 'ended' });
    await sweepJobs({ ...world, clock }, root, signal());
    expect(await world.oneShots.find(theirs.name, signal())).toMatchObject({ kind: 'ended' });
    expect(await world.oneShots.find(`${stack.project}-ours`, signal())).toEqual({ kind: 'absent' });
    await sweepJobs({ ...world, clock }, home, signal());
    expect(await world.oneShots.find(theirs.name, signal())).toEqual({ kind: 'absent' });
  });

  test('are told apart when their time is over', async () => {
    const stack = await stackOf();
    const input = shot(stack, 'kept', sh('true'), { ttlMs: 60_000, owner: `${stack.project}/kept` });
    await finish(input);
    const containers = (await observedOf(stack.project)).containers;
    const mine = async (nowMs: number) =>
      (await world.oneShots.expired(root, nowMs, signal())).filter((id) => containers.some((one) => one.id === id));
    expect(await mine(Date.now())).toEqual([]);
    expect(await mine(Date.now() + 61_000)).toHaveLength(1);
    const later = { ...world, clock: { nowMs: () => Date.now() + 61_000 } };
    expect(await sweepJobs(later, root, signal())).not.toEqual([]);
    expect(await world.oneShots.find(input.name, signal())).toEqual({ kind: 'absent' });
  });

  test('a missing image is said by its name', async () => {
    const stack = await stackOf();
    const failure = await world.oneShots
      .start(shot(stack, 'one', sh('true'), { image: 'windlass-test/none:9' }), signal())
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(Fault);
    expect((failure as Fault).code).toBe('IMAGE_MISSING');
  });

  test('what the project does not have is refused', async () => {
    const stack = await stackOf();
    const start = (more: Partial<OneShotInput>) => world.oneShots.start(shot(stack, 'one', sh('true'), more), signal());
    await expect(start({ service: 'web' })).rejects.toThrow('no service web');
    await expect(start({ networks: ['outer'] })).rejects.toThrow('no network outer');
    await expect(start({ volumes: ['other:/x'] })).rejects.toThrow('no volume other');
    await expect(start({ volumes: ['a:b:c:d'] })).rejects.toThrow('not a mount');
  });

  test('the hook ports scale by stopping and starting, so that nothing of a container is lost', async () => {
    const stack = await stackOf();
    const { ports } = stack;
    await stack.up();
    const [before] = (await observedOf(stack.project)).containers;
    expect(await ports.replicas('app', signal())).toBe(1);
    expect(await ports.unhealthy(null, signal())).toEqual([]);
    await ports.scale('app', 0, signal());
    expect(await ports.replicas('app', signal())).toBe(0);
    expect(await ports.unhealthy(['app'], signal())).toEqual(['app']);
    await ports.scale('app', 1, signal());
    const after = (await observedOf(stack.project)).containers;
    expect(after).toMatchObject([{ id: before?.id, state: 'running' }]);
    // Beyond what there is: made by Compose, and the first stays as it is.
    await ports.scale('app', 3, signal());
    const three = (await observedOf(stack.project)).containers;
    expect(three).toHaveLength(3);
    expect(three.find((one) => one.number === 1)?.id).toBe(before?.id);
    expect(new Set(three.map((one) => one.configHash)).size).toBe(1);
    await ports.scale('app', 1, signal());
    expect(await ports.replicas('app', signal())).toBe(1);
    const idsOf = async () => (await observedOf(stack.project)).containers.map((one) => one.id).sort();
    await ports.removeOthers('app', await ports.numbers('app', signal()), signal());
    expect(await idsOf()).toEqual(three.map((one) => one.id).sort());
    await ports.removeOthers('app', [1], signal());
    expect(await idsOf()).toEqual([before?.id]);
    // What runs is never removed.
    await ports.removeOthers('app', [], signal());
    expect(await idsOf()).toEqual([before?.id]);
    // A misspelled service would be "down" while the work runs beside the live one.
    for (const work of [
      () => ports.replicas('ap', signal()),
      () => ports.scale('ap', 0, signal()),
      () => ports.unhealthy(['app', 'ap'], signal()),
    ])
      await expect(work()).rejects.toThrow('the stack has no service ap');
  });

  test('the hook ports run a job with its secrets opened, and an exec', async () => {
    const stack = await stackOf();
    await stack.up();
    const job: ContainerJob = {
      context: 'container',
      name: 'check',
      service: 'app',
      image: null,
      entrypoint: null,
      command: sh('sleep 0.1; echo ::windlass:halt::'),
      user: null,
      workingDir: null,
      networks: null,
      volumes: null,
      environment: { PASSWORD: 'CLOSED' },
      timeoutMs: null,
      retries: null,
      deleteAfter: { success: false, failure: false },
      ttlMs: null,
    };
    const name = `${stack.project}-check-1`;
    await stack.ports.startJob({ name, owner: `${stack.project}/check`, job }, signal());
    const lines: string[] = [];
    expect(await stack.ports.watchJob(name, (line) => lines.push(line.text), signal())).toBe(0);
    expect(lines).toEqual(['::windlass:halt::']);
    await stack.ports.removeJob(name, signal());
    const request = { service: 'app', command: sh('echo there; exit 4'), user: null, environment: {}, mark: 'm1' };
    expect(await stack.ports.exec(request, (line) => lines.push(line.text), signal())).toBe(4);
    expect(lines.at(-1)).toBe('there');
  });

  onReal(
    'a diverged server is stopped, bootstrapped offline, brought back and recovered; the next time nothing is touched',
    async () => {
      const stack = await stackOf({
        stop_grace_period: '5s',
        command: sh(`trap 'rm -f /data/up; exit 0' TERM; touch /data/up; while :; do sleep 0.1; done`),
      });
      await stack.up();
      const scripts = {
        check: '[ -e /data/up ] || exit 1; [ ! -e /data/ok ] || echo ::windlass:halt::',
        bootstrap: '[ ! -e /data/up ] || exit 9; touch /data/temporary',
        recover: 'sleep 0.5; [ -e /data/up ] && [ -e /data/temporary ] && rm /data/temporary && touch /data/ok',
      };
      const jobs = new Map(
        Object.entries(scripts).map(([name, script]) => [
          name,
          jobOf(name, { apiVersion: 'windlass/v1', kind: 'Job', service: 'app', script }),
        ]),
      );
      const actions = planActions({
        phase: 'post_install',
        lists: [
          [
            { job: 'check' },
            { scale: { app: 0 } },
            { job: 'bootstrap' },
            { scale: { app: 'ref+hook://previous' } },
            { job: 'recover' },
          ],
        ],
        jobs,
      });
      const store = openStore({ directory: join(root, stack.project) });
      const nothing = () => '';
      const refs = createRefs({ hook, node: nothing, cluster: nothing, dns: nothing, stack: nothing });
      const deps = { ports: stack.ports, journal: storeJournal(store), clock, refs, redact: (text: string) => text };
      const runOf = (attempt: number) => ({
        run: {
          stack: stack.project,
          project: stack.project,
          operation: 'install',
          phase: 'post_install',
          digest: 'd',
          attempt,
        } as const,
        revision: 'r',
        actions,
      });
      const first = await startHook(deps, runOf(1)).result;
      expect(first.state.ended).toMatchObject({ outcome: 'succeeded', message: '' });
      const detailOf = async () => {
        const { containers } = await world.runtime.observe({ inspect: [stack.project], signal: signal() });
        return containers.filter((one) => one.project === stack.project && !one.oneOff);
      };
      const before = await detailOf();
      expect((await startHook(deps, runOf(2)).result).outcome).toBe('halted');
      expect(await detailOf()).toEqual(before);
      store.close();
    },
  );

  onReal('take image, environment, volumes, networks, user and configs from their service', async () => {
    const motd = { source: 'motd', target: '/etc/motd', mode: 0o440, uid: '65534', gid: '7' };
    const stack = await stackOf({ user: '65534', configs: [motd] });
    const script =
      'echo $COLOUR $PRICE $EXTRA; id -u; cat /etc/motd; stat -c "%a %u %g" /etc/motd; ls -d /data; ls /sys/class/net | wc -l; touch /data/x 2>/dev/null || echo read-only';
    const { lines } = await finish(shot(stack, 'one', sh(script), { environment: { EXTRA: 'a b' } }));
    expect(lines.slice(0, 6)).toEqual(['green 5$ a b', '65534', 'be well', '440 65534 7', '/data', '2']);
    const other = await finish(
      shot(stack, 'two', sh('id -u; ls /sys/class/net; ls -d /data || true; ls -d /mine'), {
        user: '0',
        networks: [],
        volumes: ['/mine'],
      }),
    );
    expect(other.lines.filter((line) => !line.includes('No such'))).toEqual(['0', 'lo', '/mine']);
  });

  onReal('are not over before they have begun, whatever their time', async () => {
    const stack = await stackOf();
    const client = openClient();
    const { Id } = await client.json<{ Id: string }>({
      method: 'POST',
      path: '/containers/create',
      query: { name: `${stack.project}-made` },
      body: {
        Image: busybox,
        Labels: { 'com.docker.compose.project': stack.project, 'dev.windlass.job.ttl': '1000' },
      },
    });
    client.close();
    expect(await world.oneShots.expired(root, Date.now(), signal())).not.toContain(Id);
  });

  onReal('a scale that is ended in the middle has ended: nothing goes down after it', async () => {
    const stack = await stackOf({
      init: false,
      stop_grace_period: '4s',
      command: sh(`trap '' TERM; while :; do sleep 1; done`),
    });
    await stack.up();
    const stop = new AbortController();
    const scaling = stack.ports.scale('app', 0, stop.signal);
    setTimeout(() => stop.abort(new Error('enough')), 500);
    await scaling.catch(() => {});
    const count = await stack.ports.replicas('app', signal());
    await new Promise((resolve) => setTimeout(resolve, 6_000));
    expect(await stack.ports.replicas('app', signal())).toBe(count);
  });

  onReal('a job that ignores SIGTERM is ended with its children', async () => {
    const stack = await stackOf();
    const mark = `/tmp/${stack.project}`;
    const input = shot(
      stack,
      'deaf',
      sh(`trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo up; wait; wait ${mark}`),
    );
    await world.oneShots.start(input, signal());
    const watching = world.oneShots.watch(input.name, () => {}, signal());
    const begun = Date.now();
    await world.oneShots.kill(input.name, signal());
    expect(Date.now() - begun).toBeLessThan(15_000);
    expect(await watching).toBe(137);
    expect(await world.oneShots.find(input.name, signal())).toEqual({ kind: 'ended', exitCode: 137 });
    const { readdirSync, readFileSync } = await import('node:fs');
    const left = readdirSync('/proc').filter((pid) => {
      try {
        return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(mark);
      } catch {
        return false;
      }
    });
    expect(left).toEqual([]);
  });

  onReal('a watch reads on while the job is ended, to its last word', async () => {
    const stack = await stackOf();
    const input = shot(
      stack,
      'words',
      sh('trap "echo one; sleep 1; echo two; exit 3" TERM; echo begun; sleep 1000 & wait'),
    );
    await world.oneShots.start(input, signal());
    const lines: string[] = [];
    let isBegun = () => {};
    const begun = new Promise<void>((resolve) => {
      isBegun = resolve;
    });
    const watched = world.oneShots.watch(
      input.name,
      ({ text }) => {
        lines.push(text);
        isBegun();
      },
      signal(),
    );
    await begun;
    await world.oneShots.kill(input.name, signal());
    expect(await watched).toBe(3);
    expect(lines).toEqual(['begun', 'one', 'two']);
  });

  onReal('a watch that is aborted leaves the job running, and a later one reads all of it', async () => {
    const stack = await stackOf();
    const input = shot(stack, 'long', sh('echo one; sleep 2; echo two'));
    await world.oneShots.start(input, signal());
    const stop = new AbortController();
    const watching = world.oneShots.watch(input.name, () => stop.abort(new Error('enough')), stop.signal);
    await expect(watching).rejects.toThrow();
    const lines: string[] = [];
    expect(await world.oneShots.watch(input.name, (line) => lines.push(line.text), signal())).toBe(0);
    expect(lines).toEqual(['one', 'two']);
  });

  onReal('100,000 lines arrive whole', async () => {
    const stack = await stackOf();
    let count = 0;
    let last = '';
    const input = shot(stack, 'loud', sh('i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo "line $i"; done'));
    await world.oneShots.start(input, signal());
    await world.oneShots.watch(
      input.name,
      (line) => {
        count++;
        last = line.text;
      },
      signal(),
    );
    expect([count, last]).toEqual([100_000, 'line 100000']);
  });

  onReal('an exec that a dead controller left is ended also where there is no shell', async () => {
    const stack = await stackOf();
    await stack.up();
    const request = {
      service: 'app',
      command: ['/bin/busybox', 'sh', '-c', 'rm /bin/sh; exec sleep 900'],
      user: null,
      environment: {},
      mark: 'left-2',
    };
    const running = stack.ports.exec(request, () => {}, signal());
    running.catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 500));
    await stack.ports.endExec(request, signal());
    expect([137, 143]).toContain(await running);
  });

  onReal('an exec that a dead controller left is found by its mark and ended', async () => {
    const stack = await stackOf();
    await stack.up();
    const request = {
      service: 'app',
      command: sh(`trap '' TERM; echo up; sleep 900 & while :; do sleep 1; done`),
      user: null,
      environment: {},
      mark: 'left-1',
    };
    const running = stack.ports.exec(request, () => {}, signal());
    running.catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 500));
    await stack.ports.endExec(request, signal());
    expect(await running).toBe(137);
    await stack.ports.endExec(request, signal());
  });
});
