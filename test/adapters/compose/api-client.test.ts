import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type ApiClient, openApiClient } from '../../../src/adapters/compose/api-client.ts';
import { type FakeEngine, openFakeEngine } from './fake-engine.ts';

let engine: FakeEngine;
let client: ApiClient;

const connect = () =>
  openApiClient({ url: engine.host, certificates: null }, { deadlineMs: 2_000, maxBytes: 1_000, maxSockets: 4 });
const get = (path: string, extra = {}) => client.json({ method: 'GET', path, ...extra });

async function start(version: Record<string, string> = {}): Promise<void> {
  engine = await openFakeEngine(version);
  client = connect();
}

beforeEach(() => start());
afterEach(async () => {
  client.close();
  await engine.stop();
});

describe('the version that is spoken', () => {
  test('is asked once and is the engine’s own', async () => {
    engine.on('GET /things', []);
    await Promise.all([get('/things'), get('/things')]);
    await get('/things');
    expect(engine.asked.filter((line) => line.includes('/version'))).toHaveLength(1);
    expect(engine.asked.at(-1)).toBe('GET /v1.45/things');
  });

  test.each([
    ['newer than ours: ours', { ApiVersion: '1.99', MinAPIVersion: '1.44' }, 'GET /v1.51/things'],
    ['old', { ApiVersion: '1.41', MinAPIVersion: '1.12' }, 'GET /v1.41/things'],
  ])('%s', async (_what, version, asked) => {
    await engine.stop();
    await start(version);
    engine.on('GET /things', []);
    await get('/things');
    expect(engine.asked.at(-1)).toBe(asked);
  });

  test.each([
    ['too old', { ApiVersion: '1.40', MinAPIVersion: '1.12' }, 'ENGINE_TOO_OLD'],
    ['too new', { ApiVersion: '2.10', MinAPIVersion: '2.0' }, 'ENGINE_REFUSED'],
  ])('an engine that is %s is refused', async (_what, version, code) => {
    await engine.stop();
    await start(version);
    await expect(get('/things')).rejects.toMatchObject({ code });
  });

  test('is asked again after the engine was lost', async () => {
    engine.on('GET /things', []);
    await get('/things');
    engine.on('GET /things', (request: { socket: { destroy(): void } }) => request.socket.destroy());
    await expect(get('/things')).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
    engine.on('GET /things', []);
    await get('/things');
    expect(engine.asked.filter((line) => line.includes('/version'))).toHaveLength(2);
  });
});

describe('answers', () => {
  test('that are refusals carry the engine’s words and the status', async () => {
    engine.on('POST /x', (_request: unknown, response: { writeHead(n: number): { end(text: string): void } }) =>
      response.writeHead(409).end('{"message":"No such image: a:1"}'),
    );
    await expect(client.send({ method: 'POST', path: '/x' })).rejects.toMatchObject({
      code: 'IMAGE_MISSING',
      message: 'No such image: a:1',
      data: { status: 409, image: 'a:1' },
    });
    expect((await client.send({ method: 'POST', path: '/x', accept: [409] })).status).toBe(409);
    await expect(get('/nowhere')).rejects.toMatchObject({ code: 'ENGINE_REFUSED', data: { status: 404 } });
  });

  test('that do not come are ENGINE_TIMEOUT', async () => {
    engine.on('GET /slow', () => {});
    await expect(get('/slow', { deadlineMs: 50 })).rejects.toMatchObject({ code: 'ENGINE_TIMEOUT' });
  });

  test('that nobody waits for any more are CANCELLED, or late when a deadline called them off', async () => {
    engine.on('GET /slow', () => {});
    await expect(get('/slow', { signal: AbortSignal.abort(new Error('enough')) })).rejects.toMatchObject({
      code: 'CANCELLED',
    });
    await expect(get('/slow', { signal: AbortSignal.timeout(50) })).rejects.toMatchObject({ code: 'ENGINE_TIMEOUT' });
  });

  test('that are too large are refused, not read', async () => {
    engine.on('GET /big', (_request: unknown, response: { end(text: string): void }) =>
      response.end('x'.repeat(5_000)),
    );
    await expect(get('/big')).rejects.toMatchObject({
      code: 'ENGINE_REFUSED',
      message: expect.stringMatching(/larger than 1000/),
    });
  });

  test('that are cut off are an engine that is lost, never a short answer', async () => {
    engine.on('GET /cut', (_request: unknown, response: { write(text: string): void; destroy(): void }) => {
      response.write('[1,2]');
      setTimeout(() => response.destroy(), 20);
    });
    await expect(get('/cut')).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
  });

  test('that are not JSON are refused', async () => {
    engine.on('GET /html', (_request: unknown, response: { end(text: string): void }) => response.end('<html>'));
    await expect(get('/html')).rejects.toMatchObject({ code: 'ENGINE_REFUSED' });
  });
});

test('an engine that is not there is ENGINE_UNREACHABLE', async () => {
  await engine.stop();
  await expect(get('/things')).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE', data: { host: engine.host } });
  await expect(client.stream({ method: 'GET', path: '/events' })).rejects.toMatchObject({ code: 'ENGINE_UNREACHABLE' });
  await start();
});
