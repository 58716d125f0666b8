import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { addressOf, findHost } from '../../../src/adapters/compose/host.ts';
import { registryAuth, registryOf } from '../../../src/adapters/compose/registry-auth.ts';
import type { Run } from '../../../src/adapters/process/run.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'windlass-host-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const configure = (config: object) => writeFileSync(join(folder, 'config.json'), JSON.stringify(config));

function addContext(name: string, host: string): void {
  const meta = join(folder, 'contexts', 'meta', createHash('sha256').update(name).digest('hex'));
  mkdirSync(meta, { recursive: true });
  writeFileSync(join(meta, 'meta.json'), JSON.stringify({ Name: name, Endpoints: { docker: { Host: host } } }));
}

describe('the engine that is spoken to', () => {
  test('is the usual socket when nothing is said', () => {
    expect(findHost({ DOCKER_CONFIG: folder })).toEqual({ url: 'unix:///var/run/docker.sock', certificates: null });
    writeFileSync(join(folder, 'config.json'), 'not JSON');
    expect(findHost({ DOCKER_CONFIG: folder }).url).toBe('unix:///var/run/docker.sock');
  });

  test('is that of the current context, which DOCKER_CONTEXT and then DOCKER_HOST overrule', () => {
    addContext('far', 'tcp://10.0.0.1:2375');
    addContext('near', 'unix:///near.sock');
    configure({ currentContext: 'far' });
    expect(findHost({ DOCKER_CONFIG: folder }).url).toBe('tcp://10.0.0.1:2375');
    expect(findHost({ DOCKER_CONFIG: folder, DOCKER_CONTEXT: 'near' }).url).toBe('unix:///near.sock');
    expect(findHost({ DOCKER_CONFIG: folder, DOCKER_CONTEXT: 'default' }).url).toBe('unix:///var/run/docker.sock');
    expect(findHost({ DOCKER_CONFIG: folder, DOCKER_CONTEXT: 'near', DOCKER_HOST: 'unix:///h' }).url).toBe('unix:///h');
  });

  test.each(['nowhere', '../../x'])('is not guessed when the context "%s" cannot be read', (name) => {
    expect(() => findHost({ DOCKER_CONFIG: folder, DOCKER_CONTEXT: name })).toThrow(
      expect.objectContaining({ code: 'ENGINE_UNREACHABLE' }),
    );
  });

  test('has an address', () => {
    expect(addressOf('unix:///a/b.sock')).toEqual({ kind: 'socket', path: '/a/b.sock' });
    expect(addressOf('tcp://[::1]:99')).toEqual({ kind: 'tcp', hostname: '::1', port: 99 });
    expect(addressOf('tcp://h')).toEqual({ kind: 'tcp', hostname: 'h', port: 2375 });
    expect(() => addressOf('ssh://h')).toThrow(expect.objectContaining({ code: 'ENGINE_UNREACHABLE' }));
  });
});

describe('credentials for a registry', () => {
  const signal = new AbortController().signal;
  const helper = (answer: object) =>
    (async (input: { program: string; input: string }) => ({
      exitCode: input.program === 'docker-credential-test' ? 0 : 1,
      stdout: JSON.stringify(answer),
      stderr: '',
    })) as unknown as Run;
  const ask = async (image: string, run: Run = helper({})) => {
    const text = await registryAuth(image, { DOCKER_CONFIG: folder }, run, signal);
    return text === null ? null : JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
  };

  test.each([
    ['nginx', 'https://index.docker.io/v1/'],
    ['library/nginx:1', 'https://index.docker.io/v1/'],
    ['docker.io/library/nginx', 'https://index.docker.io/v1/'],
    ['localhost/x', 'localhost'],
    ['r.example.org/x/y:1', 'r.example.org'],
    ['r:5000/x', 'r:5000'],
  ])('%s belongs to %s', (image, registry) => {
    expect(registryOf(image)).toBe(registry);
  });

  test('come from the file, from a helper, or are none', async () => {
    expect(await ask('r.example.org/x')).toBeNull();
    configure({ auths: { 'r.example.org': { auth: Buffer.from('me:se:cret').toString('base64') } } });
    expect(await ask('r.example.org/x')).toEqual({
      username: 'me',
      password: 'se:cret',
      serveraddress: 'r.example.org',
    });
    expect(await ask('other.example.org/x')).toBeNull();
    configure({ credHelpers: { 'r.example.org': 'test' } });
    expect(await ask('r.example.org/x', helper({ Username: '<token>', Secret: 't' }))).toEqual({
      identitytoken: 't',
      serveraddress: 'r.example.org',
    });
    configure({ credsStore: 'missing' });
    expect(await ask('r.example.org/x')).toBeNull();
  });
});
