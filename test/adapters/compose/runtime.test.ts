// The runtime before an engine that misbehaves in ways a real one does only sometimes.
import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { RealClock } from '../../../src/adapters/clock/real-clock.ts';
import { openRuntime } from '../../../src/adapters/compose/runtime.ts';
import type { Run } from '../../../src/adapters/process/run.ts';
import type { EngineEvent } from '../../../src/core/state/observed.ts';
import type { Runtime } from '../../../src/ports/runtime.ts';
import { type FakeEngine, openFakeEngine } from './fake-engine.ts';

const noRun = (() => Promise.reject(new Error('no program may be started here'))) as unknown as Run;

const listed = (id: string, extra: object = {}) => ({
  Id: id,
  Names: [`/${id}`],
  Image: 'i:1',
  ImageID: 'sha256:i',
  Created: 10,
  Labels: {},
  State: 'running',
  Status: 'Up 2 seconds',
  Ports: [],
  ...extra,
});

let engine: FakeEngine;
let runtime: Runtime;

beforeEach(async () => {
  engine = await openFakeEngine();
  engine.on('GET /containers/json', []);
  engine.on('GET /networks', []);
  engine.on('GET /volumes', { Volumes: null });
  engine.on('GET /images/json', []);
  runtime = openRuntime({ host: engine.host, run: noRun, clock: new RealClock(), environment: {} });
});
afterEach(async () => {
  await runtime.close();
  await engine.stop();
});

describe('one look', () => {
  test.each([
    ['Up 3 minutes (healthy)', 'running', 'healthy', null],
    ['Up 3 minutes (unhealthy)', 'running', 'unhealthy', null],
    ['Up 1 second (health: starting)', 'running', 'starting', null],
    ['Up 3 minutes (Paused)', 'paused', 'none', null],
    ['Exited (137) 4 days ago', 'exited', 'none', 137],
    ['Restarting (1) Less than a second ago', 'restarting', 'none', 1],
    ['Created', 'created', 'none', null],
    ['Removal In Progress', 'removing', 'none', null],
  ])('reads the status "%s"', async (status, state, health, exitCode) => {
    engine.on('GET /containers/json', [listed('a', { Status: status, State: state })]);
    expect((await runtime.observe({ inspect: 'known' })).containers).toMatchObject([{ state, health, exitCode }]);
  });

  test('takes the container’s own name, not those of links, and bears missing fields', async () => {
    engine.on('GET /containers/json', [listed('a', { Names: ['/web/db', '/db'], Labels: null, Ports: null })]);
    expect((await runtime.observe({ inspect: 'known' })).containers).toMatchObject([
      { name: 'db', project: '', ports: [], networks: [], mounts: [] },
    ]);
  });

  test('fails when a single list fails: it never answers with less than there is', async () => {
    engine.on('GET /networks', (_request: unknown, response: ServerResponse) =>
      response.writeHead(500).end('{"message":"boom"}'),
    );
    await expect(runtime.observe({ inspect: 'known' })).rejects.toMatchObject({
      code: 'ENGINE_REFUSED',
      message: 'boom',
    });
  });

  test('leaves out what vanished between list and inspect', async () => {
    engine.on('GET /containers/json', [listed('a'), listed('b')]);
    engine.on('GET /containers/a/json', { Id: 'a', State: { StartedAt: 't' } });
    expect((await runtime.observe({ inspect: 'all' })).containers.map((container) => container.id)).toEqual(['a']);
  });

  test('inspects a few at a time, and only the projects that are asked for', async () => {
    let atOnce = 0;
    let most = 0;
    const ids = Array.from({ length: 40 }, (_, index) => `c${index}`);
    engine.on('GET /containers/json', [
      ...ids.map((id) => listed(id, { Labels: { 'com.docker.compose.project': 'p' } })),
      listed('other', { Labels: { 'com.docker.compose.project': 'q' } }),
    ]);
    for (const id of ids) {
      engine.on(`GET /containers/${id}/json`, (_request: unknown, response: ServerResponse) => {
        atOnce += 1;
        most = Math.max(most, atOnce);
        setTimeout(() => {
          atOnce -= 1;
          response.end(JSON.stringify({ Id: id }));
        }, 2);
      });
    }
    const { containers } = await runtime.observe({ inspect: ['p'] });
    expect(containers.filter((container) => container.detail !== null)).toHaveLength(40);
    expect(containers.find((container) => container.id === 'other')?.detail).toBeNull();
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(8);
  });
});

describe('the event stream', () => {
  let stream: ServerResponse | null = null;
  const collect = async (signal: AbortSignal) => {
    const seen: EngineEvent[] = [];
    const done = (async () => {
      for await (const event of runtime.events(signal)) seen.push(event);
    })();
    done.catch(() => {});
    await expect.poll(() => seen.length).toBe(1);
    return { seen, done };
  };

  beforeEach(() => {
    stream = null;
    engine.on('GET /events', (_request: unknown, response: ServerResponse) => {
      stream = response;
      response.writeHead(200).flushHeaders();
    });
  });

  test('asks for the events by name', async () => {
    const controller = new AbortController();
    const { done } = await collect(controller.signal);
    const asked = engine.asked.find((line) => line.includes('/events'))!;
    const filters = JSON.parse(new URL(asked.split(' ')[1]!, 'http://x').searchParams.get('filters')!);
    expect(filters.event).toContain('health_status');
    expect(filters.event.join()).not.toContain('exec_');
    controller.abort();
    await done;
  });

  test('is cut into events wherever its bytes are cut; what is unreadable means: look at everything', async () => {
    const controller = new AbortController();
    const { seen, done } = await collect(controller.signal);
    const event = JSON.stringify({
      Type: 'container',
      Action: 'die',
      timeNano: 5_000_000_000,
      Actor: {
        ID: 'c',
        Attributes: { 'com.docker.compose.project': 'p', 'com.docker.compose.service': 's', exitCode: '3' },
      },
    });
    stream?.write(event.slice(0, 40));
    await new Promise((resolve) => setTimeout(resolve, 20));
    stream?.write(`${event.slice(40)}\n{oops\n`);
    await expect.poll(() => seen.length).toBe(3);
    expect(seen.slice(1)).toMatchObject([
      { kind: 'container', action: 'die', id: 'c', project: 'p', service: 's', exitCode: 3, atMs: 5_000 },
      { action: 'unreadable', project: '', id: '' },
    ]);
    controller.abort();
    await done;
  });

  test('names the project of networks and volumes that were seen before', async () => {
    engine.on('GET /networks', [{ Id: 'n', Name: 'p_default', Labels: { 'com.docker.compose.project': 'p' } }]);
    await runtime.observe({ inspect: 'known' });
    const controller = new AbortController();
    const { seen, done } = await collect(controller.signal);
    stream?.write(`${JSON.stringify({ Type: 'network', Action: 'destroy', Actor: { ID: 'n', Attributes: {} } })}\n`);
    await expect.poll(() => seen.length).toBe(2);
    expect(seen[1]).toMatchObject({ kind: 'network', action: 'destroy', project: 'p' });
    controller.abort();
    await done;
  });

  test('that breaks is ENGINE_UNREACHABLE, and what it let us know is void', async () => {
    engine.on('GET /containers/json', [listed('a')]);
    engine.on('GET /containers/a/json', { Id: 'a' });
    const { done } = await collect(new AbortController().signal);
    await runtime.observe({ inspect: 'all' });
    expect((await runtime.observe({ inspect: 'known' })).containers[0]?.detail).not.toBeNull();
    stream?.destroy();
    await expect(done).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    expect((await runtime.observe({ inspect: 'known' })).containers[0]?.detail).toBeNull();
  });

  test('that the engine ends in good order is broken all the same', async () => {
    const { done } = await collect(new AbortController().signal);
    stream?.end();
    await expect(done).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
  });
});

describe('a pull', () => {
  const answer = (...lines: object[]) => {
    engine.on('POST /images/create', (_request: unknown, response: ServerResponse) =>
      response.end(lines.map((line) => `${JSON.stringify(line)}\n`).join('')),
    );
  };
  const pull = (image: string) => runtime.pull(image, AbortSignal.timeout(5_000));

  test('asks for one tag only', async () => {
    answer({ status: 'done' });
    for (const image of ['a', 'r:5000/a/b:2', 'a@sha256:1234', 'a:1@sha256:1234']) await pull(image);
    expect(
      engine.asked
        .filter((line) => line.startsWith('POST'))
        .map((line) => Object.fromEntries(new URL(line.split(' ')[1]!, 'http://x').searchParams)),
    ).toEqual([
      { fromImage: 'a', tag: 'latest' },
      { fromImage: 'r:5000/a/b', tag: '2' },
      { fromImage: 'a', tag: 'sha256:1234' },
      { fromImage: 'a', tag: 'sha256:1234' },
    ]);
  });

  test('that fails in the middle of a good answer fails', async () => {
    answer({ status: 'Pulling' }, { error: 'connection reset by peer', errorDetail: {} });
    await expect(pull('a:1')).rejects.toMatchObject({ code: 'IMAGE_PULL_FAILED', data: { image: 'a:1' } });
    answer({ error: 'manifest unknown: manifest unknown' });
    await expect(pull('a:1')).rejects.toMatchObject({ code: 'IMAGE_MISSING', data: { image: 'a:1' } });
  });
});

describe('the end of a marked command', () => {
  const refuse = (status: number, message: string) =>
    engine.on('POST /containers/a/exec', (_request: unknown, response: ServerResponse) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ message })),
    );
  const end = () => runtime.endMarked('a', 'MARK=1', AbortSignal.timeout(5_000));

  test.each([
    [404, 'No such container: a'],
    [409, 'container a is not running'],
    [409, 'Container a is restarting, wait until the container is running'],
  ])('has come with that of its container: %s %s', async (status, message) => {
    refuse(status, message);
    await expect(end()).resolves.toBeUndefined();
  });

  test('is not known while its container is paused, in which it only sleeps', async () => {
    refuse(409, 'Container a is paused, unpause the container before exec');
    await expect(end()).rejects.toMatchObject({ code: 'ENGINE_REFUSED' });
  });
});
