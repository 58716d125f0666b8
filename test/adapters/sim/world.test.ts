// What tests of other rooms rely on in the simulated world, beyond the duties that it shares with a real engine.
import { describe, expect, test } from 'vitest';
import { SimulatedClock } from '../../../src/adapters/clock/simulated-clock.ts';
import { behaviours } from '../../../src/adapters/sim/behaviour.ts';
import { openSimRuntime } from '../../../src/adapters/sim/runtime.ts';
import { CrashError, SimWorld } from '../../../src/adapters/sim/world.ts';
import { Fault } from '../../../src/core/fault.ts';
import { hashesOf } from '../../../src/core/render/config-hash.ts';
import type { EngineEvent } from '../../../src/core/state/observed.ts';
import type { Runtime } from '../../../src/ports/runtime.ts';

const { signal } = new AbortController();

function setUp(files: Readonly<Record<string, string>> = {}) {
  const clock = new SimulatedClock();
  const world = new SimWorld({ clock, readFile: (path) => files[path] ?? null });
  return { clock, world, runtime: openSimRuntime(world) };
}

const web = (extra: object = {}) => ({ image: 'windlass-test/web:1', ...extra });

async function resolve(runtime: Runtime, services: object, extra: object = {}, project = 'shop'): Promise<string> {
  return runtime.resolve({
    project,
    directory: `/srv/${project}`,
    files: [],
    text: JSON.stringify({ services, ...extra }),
    profiles: [],
    environment: {},
  });
}

async function up(runtime: Runtime, services: object, extra: object = {}, project = 'shop'): Promise<void> {
  const text = await resolve(runtime, services, extra, project);
  await runtime.up({
    project,
    projectDir: `/srv/${project}`,
    model: { text },
    services: Object.keys(services),
    forceRecreate: false,
    signal,
  });
}

const states = async (runtime: Runtime) =>
  Object.fromEntries(
    (await runtime.observe({ inspect: 'known' })).containers.map(({ service, state, health, exitCode }) => [
      service,
      [state, health, exitCode],
    ]),
  );

describe('time', () => {
  test('passes only by the clock: health, ends and restarts come at their moments', async () => {
    const { clock, world, runtime } = setUp();
    world.behave('shop/slow', behaviours.slowStart(5_000));
    world.behave('shop/sick', behaviours.unhealthy);
    world.behave('shop/loop', behaviours.crashLoop);
    world.behave('shop/once', behaviours.exit0);
    const healthcheck = { test: 'true' };
    await up(runtime, {
      slow: web({ healthcheck }),
      sick: web({ healthcheck }),
      loop: web({ restart: 'always' }),
      once: web(),
    });
    expect(await states(runtime)).toEqual({
      slow: ['running', 'starting', null],
      sick: ['running', 'starting', null],
      loop: ['running', 'none', null],
      once: ['running', 'none', null],
    });
    await clock.advance(1_000);
    expect(await states(runtime)).toMatchObject({
      slow: ['running', 'starting', null],
      sick: ['running', 'unhealthy', null],
      once: ['exited', 'none', 0],
    });
    await clock.advance(4_000);
    expect((await states(runtime))['slow']).toEqual(['running', 'healthy', null]);
    const [loop] = (await runtime.observe({ inspect: 'all' })).containers.filter(
      (container) => container.service === 'loop',
    );
    expect(loop?.detail?.restartCount).toBeGreaterThan(3);
    expect(loop?.state).toBe('restarting');
  });

  test('wakes who listens, though nobody asks', async () => {
    const { clock, world, runtime } = setUp();
    world.behave('shop/web', { kind: 'exit', code: 3, afterMs: 700 });
    await up(runtime, { web: web() });
    const seen: EngineEvent[] = [];
    const controller = new AbortController();
    const done = (async () => {
      for await (const event of runtime.events(controller.signal)) seen.push(event);
    })();
    await clock.advance(1_000);
    expect(seen.map((event) => event.action)).toEqual(['connected', 'die']);
    expect(seen[1]).toMatchObject({ project: 'shop', service: 'web', exitCode: 3 });
    controller.abort();
    await done;
  });

  test('the same seed and calls give the same ids', async () => {
    const ids = async () => {
      const { runtime } = setUp();
      await up(runtime, { web: web() });
      return (await runtime.observe({ inspect: 'known' })).containers.map((container) => container.id);
    };
    expect(await ids()).toEqual(await ids());
  });
});

describe('calls', () => {
  test('are written down, and which of them change something', async () => {
    const { world, runtime } = setUp();
    await up(runtime, { web: web() });
    await runtime.observe({ inspect: 'all' });
    expect(world.calls.map(({ number, method, mutating, outcome }) => [number, method, mutating, outcome])).toEqual([
      [1, 'resolve', false, 'done'],
      [2, 'up', true, 'done'],
      [3, 'observe', false, 'done'],
    ]);
    expect(world.mutatingCalls().map((call) => call.target)).toEqual(['shop: web']);
  });

  test('fail where they were told to, without effect', async () => {
    const { world, runtime } = setUp();
    world.failAt(2, new Fault('ENGINE_TIMEOUT', 'late'));
    await expect(up(runtime, { web: web() })).rejects.toMatchObject({ code: 'ENGINE_TIMEOUT' });
    expect(world.containersOf('shop')).toEqual([]);
    world.failNext('pull', new Fault('IMAGE_PULL_FAILED', 'no'));
    await expect(runtime.pull('x', signal)).rejects.toMatchObject({ code: 'IMAGE_PULL_FAILED' });
    await up(runtime, { web: web() });
  });

  test.each([
    ['before', 0, 0],
    ['during', 2, 0],
    ['after', 2, 2],
  ] as const)('end the process %s their effect, and nothing of it works afterwards', async (when, made, running) => {
    const { world, runtime } = setUp();
    world.crashAt(1, when, 'mutating');
    await expect(up(runtime, { a: web(), b: web() })).rejects.toBeInstanceOf(CrashError);
    await expect(runtime.observe({ inspect: 'known' })).rejects.toBeInstanceOf(CrashError);
    expect(world.containersOf('shop')).toHaveLength(made);
    expect(world.containersOf('shop').filter((container) => container.state === 'running')).toHaveLength(running);
    const next = openSimRuntime(world);
    await up(next, { a: web(), b: web() });
    expect(world.containersOf('shop').map((container) => container.state)).toEqual(['running', 'running']);
  });

  test('during an outage are refused, streams break, and all is back afterwards', async () => {
    const { clock, world, runtime } = setUp();
    await up(runtime, { web: web() });
    const stream = (async () => {
      for await (const _ of runtime.events(signal)) {
        // Only its end matters.
      }
    })();
    stream.catch(() => {});
    await clock.advance(10);
    world.setReachable(false);
    await expect(stream).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    await expect(runtime.observe({ inspect: 'known' })).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    await expect(resolve(runtime, { web: web() })).resolves.toContain('"web"');
    world.setReachable(true);
    expect(await states(runtime)).toEqual({ web: ['running', 'none', null] });
  });
});

describe('up', () => {
  test('recreates users of a moved tag and keeps the old one when the tag is gone', async () => {
    const { world, runtime } = setUp();
    await up(runtime, { web: web() });
    const before = world.containersOf('shop')[0]!.id;
    const moved = world.moveTag('windlass-test/web:1', '2');
    expect((await runtime.observe({ inspect: 'known' })).containers[0]?.image).toMatch(/^sha256:/);
    await up(runtime, { web: web() });
    expect(world.containersOf('shop')[0]).toMatchObject({ spec: { imageId: moved } });
    expect(world.containersOf('shop')[0]?.id).not.toBe(before);
    world.untag('windlass-test/web:1');
    await expect(up(runtime, { web: web({ labels: { n: '1' } }) })).rejects.toMatchObject({ code: 'IMAGE_MISSING' });
    expect(world.containersOf('shop')[0]?.state).toBe('running');
  });

  test('after a network change reconnects without aliases, as the real one does', async () => {
    const { runtime } = setUp();
    await up(runtime, { web: web() });
    await up(runtime, { web: web() }, { networks: { default: { labels: { n: '1' } } } });
    const [container] = (await runtime.observe({ inspect: 'all' })).containers;
    expect(container?.state).toBe('running');
    expect(container?.detail?.aliases['shop_default']).toEqual(['shop-web-1']);
  });

  test('waits for health by the clock', async () => {
    const { clock, world, runtime } = setUp();
    world.behave('shop/db', behaviours.slowStart(3_000));
    const work = up(runtime, {
      db: web({ healthcheck: { test: 'true' } }),
      web: web({ depends_on: { db: { condition: 'service_healthy' } } }),
    });
    await clock.advance(2_000);
    expect((await states(runtime))['web']).toEqual(['created', 'none', null]);
    await clock.advance(2_000);
    await work;
    expect((await states(runtime))['web']).toEqual(['running', 'none', null]);
  });

  test('a pull brings what was published', async () => {
    const { world, runtime } = setUp();
    await expect(runtime.pull('far/web:3', signal)).rejects.toMatchObject({ code: 'IMAGE_MISSING' });
    world.publish('far/web:3');
    await runtime.pull('far/web:3', signal);
    await up(runtime, { web: { image: 'far/web:3' } });
  });

  test('a port that a program outside holds is taken', async () => {
    const { world, runtime } = setUp();
    world.occupyPort(80);
    await expect(up(runtime, { web: web({ ports: ['80:80'] }) })).rejects.toMatchObject({
      code: 'PORT_TAKEN',
      data: { port: 80 },
    });
    world.freePort(80);
    await up(runtime, { web: web({ ports: ['80:80'] }) });
  });
});

describe('resolve', () => {
  test('gives the form that Compose gives', async () => {
    const { runtime } = setUp();
    const text = await resolve(
      runtime,
      {
        web: web({
          command: 'serve --name "a b"',
          environment: ['B=2', 'A=x<$$y'],
          ports: ['127.0.0.1:8080-8081:80-81/udp'],
          volumes: ['data:/d:ro', './x:/x'],
          depends_on: ['db'],
          configs: ['c'],
          secrets: ['s'],
          mem_limit: '64m',
          deploy: { replicas: 2 },
          'x-own': 1,
        }),
        db: { image: 'db', network_mode: 'service:web', profiles: [] },
      },
      { volumes: { data: null, unused: {} }, configs: { c: { content: 'hi' } }, secrets: { s: { file: './s.txt' } } },
    );
    expect(JSON.parse(text)).toEqual({
      configs: { c: { name: 'shop_c', content: 'hi' } },
      name: 'shop',
      networks: { default: { name: 'shop_default', ipam: {} } },
      secrets: { s: { name: 'shop_s', file: '/srv/shop/s.txt' } },
      services: {
        db: {
          profiles: [],
          command: null,
          depends_on: { web: { condition: 'service_started', restart: true, required: true } },
          entrypoint: null,
          image: 'db',
          network_mode: 'service:web',
        },
        web: {
          command: ['serve', '--name', 'a b'],
          configs: [{ source: 'c' }],
          depends_on: { db: { condition: 'service_started', required: true } },
          deploy: { replicas: 2, resources: {}, placement: {} },
          entrypoint: null,
          environment: { A: 'x<$$y', B: '2' },
          image: 'windlass-test/web:1',
          mem_limit: '67108864',
          networks: { default: null },
          ports: [
            { mode: 'ingress', host_ip: '127.0.0.1', target: 80, published: '8080', protocol: 'udp' },
            { mode: 'ingress', host_ip: '127.0.0.1', target: 81, published: '8081', protocol: 'udp' },
          ],
          secrets: [{ source: 's', target: '/run/secrets/s' }],
          volumes: [
            { type: 'volume', source: 'data', target: '/d', read_only: true, volume: {} },
            { type: 'bind', source: '/srv/shop/x', target: '/x', bind: { create_host_path: true } },
          ],
        },
      },
      volumes: { data: { name: 'shop_data' } },
    });
    expect(text).toContain('\\u003c');
    expect(hashesOf(text).services.get('db')?.parents).toEqual(['web']);
  });

  test('lays files over each other and reads env files', async () => {
    const { runtime } = setUp({
      '/srv/shop/compose.yaml': `services:\n  web:\n    image: a:\${TAG}\n    env_file: web.env\n    ports: ["80"]\n    command: one\n`,
      '/srv/shop/over.yaml': 'services:\n  web:\n    environment: {B: own}\n    ports: ["81"]\n    command: two\n',
      '/srv/shop/web.env': 'A=1\nB=file\n',
      '/srv/shop/.env': 'TAG=9\n',
    });
    const text = await runtime.resolve({
      project: 'shop',
      directory: '/srv/shop',
      files: ['/srv/shop/compose.yaml', '/srv/shop/over.yaml'],
      profiles: [],
      environment: {},
    });
    const { services } = JSON.parse(text);
    expect(services.web).toMatchObject({ image: 'a:9', environment: { A: '1', B: 'own' }, command: ['two'] });
    expect(services.web.ports.map((port: { target: number }) => port.target)).toEqual([80, 81]);
  });
});

test('a look sees each of 2,000 containers', async () => {
  const { runtime } = setUp();
  await up(runtime, { web: web({ deploy: { replicas: 20 } }) });
  for (let index = 0; index < 99; index += 1)
    await up(runtime, { web: web({ deploy: { replicas: 20 } }) }, {}, `p${index}`);
  expect((await runtime.observe({ inspect: 'all' })).containers).toHaveLength(2_000);
});
