import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { DEFAULT_SOURCE_LIMITS } from '../../../src/adapters/git/repository.ts';
import { redactor } from '../../../src/adapters/process/redact.ts';
import { type Programs, type RunInput, run, spawnStream } from '../../../src/adapters/process/run.ts';
import type { Source } from '../../../src/ports/source.ts';
import { faultOf, type GitServer, makeBench, serve, type TestRepository } from './fixture.ts';

const bench = makeBench();
const { openHere } = bench;
let folder = '';
let mirror = '';
let repository: TestRepository;
beforeEach(() => {
  ({ folder, mirror, repository } = bench);
});

const _textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8');
const pathsOf = async (source: Source, commit: string): Promise<readonly string[]> =>
  (await source.list(commit)).entries.map(({ path }) => path);

/** Counts and shows what is run. */
function watched(): { readonly programs: Programs; readonly runs: RunInput[] } {
  const runs: RunInput[] = [];
  const watchedRun = ((input: RunInput) => {
    runs.push(input);
    return run(input);
  }) as Programs['run'];
  return { runs, programs: { run: watchedRun, spawnStream } };
}

const _fetchesOf = (runs: readonly RunInput[]): number => runs.filter(({ args }) => args.includes('fetch')).length;

describe('over http', () => {
  let server: GitServer;
  beforeEach(async () => {
    server = await serve(folder);
  });
  afterEach(() => server.close());

  test.each([['look' as const], ['none' as const]])(
    'with the client "%s": fetches, sees changes, and knows when there are none',
    async (client) => {
      const first = repository.commit('one', { a: '1' });
      const source = openHere({ url: `${server.url}/fleet`, client });
      expect(await source.fetch()).toBe(first);
      expect(await source.fetch()).toBe(first);
      repository.commit('two', { a: '2' });
      const third = repository.commit('three', { b: '3' });
      expect(await source.fetch()).toBe(third);
      expect(await pathsOf(source, third)).toEqual(['a', 'b']);
      expect(await source.descends(third, first)).toBe(true);
      repository.git('branch', '-m', 'main', 'trunk');
      expect((await faultOf(source.fetch())).code).toBe('GIT_REF_MISSING');
      expect(
        (await faultOf(openHere({ url: `${server.url}/gone`, client, mirror: join(folder, 'g.git') }).fetch())).code,
      ).toBe('GIT_UNREACHABLE');
      expect(await source.tip()).toBe(third);
    },
  );

  test.each([['look' as const], ['none' as const]])(
    'L26: with the client "%s" a token opens the door and shows nowhere',
    async (client) => {
      const token = `tok-${randomBytes(12).toString('hex')}`;
      const header = `Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`;
      server.options = { authorization: header };
      const tip = repository.commit('one');
      const url = `${server.url}/fleet`;
      const { programs, runs } = watched();
      const source = openHere({ url, client, programs, credentials: async () => ({ password: token }) });
      expect(await source.fetch()).toBe(tip);
      expect(server.requests.every(({ authorization }) => authorization === header)).toBe(true);
      expect(JSON.stringify(runs.map(({ args }) => args))).not.toContain(token);
      const kept = spawnSync('grep', ['-rlaF', '-e', token, '-e', header, mirror], { encoding: 'utf8' }).stdout;
      expect(kept).toBe('');
    },
  );

  test.each([['look' as const], ['none' as const]])(
    'with the client "%s" a wrong token is told apart, without being shown',
    async (client) => {
      server.options = { authorization: 'Basic other' };
      repository.commit('one');
      const token = `tok-${randomBytes(12).toString('hex')}`;
      for (const credentials of [{}, { password: token }]) {
        const fault = await faultOf(
          openHere({ url: `${server.url}/fleet`, client, credentials: async () => credentials }).fetch(),
        );
        expect(fault.code).toBe('GIT_AUTH');
        expect(JSON.stringify([fault.message, fault.data, String(fault.cause)])).not.toContain(token);
      }
      expect(redactor.redact(token)).toBe('[redacted]');
    },
  );

  test.each([['look' as const], ['none' as const]])(
    'with the client "%s" a token does not follow to another host',
    async (client) => {
      repository.commit('one');
      const other = await serve(folder);
      server.options = { redirectTo: other.url };
      const source = openHere({
        url: `${server.url}/fleet`,
        client,
        credentials: async () => ({ password: 'a-secret-token' }),
      });
      const fault = await faultOf(source.fetch());
      expect(fault.code).toBe('GIT_REFUSED');
      expect(other.requests).toEqual([]);
      await other.close();
    },
  );

  test.each([['look' as const], ['none' as const]])(
    'with the client "%s" a source that does not answer is given up',
    async (client) => {
      repository.commit('one');
      server.options = { hold: new Promise(() => {}) };
      const limits = { ...DEFAULT_SOURCE_LIMITS, fetchMs: 400 };
      const fault = await faultOf(openHere({ url: `${server.url}/fleet`, client, limits }).fetch());
      expect([fault.code, fault.message]).toEqual(['GIT_UNREACHABLE', expect.stringContaining('did not answer')]);
    },
  );

  test.each([['look' as const], ['none' as const]])(
    'with the client "%s" a fetch that is called off ends',
    async (client) => {
      repository.commit('one');
      server.options = { hold: new Promise(() => {}) };
      const controller = new AbortController();
      const source = openHere({ url: `${server.url}/fleet`, client });
      setTimeout(() => controller.abort(new Error('enough')), 200);
      expect((await faultOf(source.fetch(controller.signal))).code).toBe('CANCELLED');
      const startedAt = performance.now();
      await source.close();
      expect(performance.now() - startedAt).toBeLessThan(4_000);
    },
  );

  test.each([['look' as const], ['none' as const]])(
    'with the client "%s" more bytes than may come in are refused',
    async (client) => {
      repository.commit('one', { big: randomBytes(2_000_000) });
      const limits = { ...DEFAULT_SOURCE_LIMITS, fetchBytes: 500_000 };
      const source = openHere({ url: `${server.url}/fleet`, client, limits });
      expect((await faultOf(source.fetch())).code).toBe('GIT_TOO_LARGE');
      expect(await source.tip()).toBeNull();
    },
  );

  test('a host that is not there is unreachable', async () => {
    await server.close();
    const fault = await faultOf(openHere({ url: `${server.url}/fleet` }).fetch());
    expect(fault.code).toBe('GIT_UNREACHABLE');
  });
});

describe('over ssh', () => {
  const path = process.env['PATH'];
  beforeEach(() => {
    // In place of ssh: notes its arguments and environment, then does what the far side would do.
    const bin = join(folder, 'bin');
    mkdirSync(bin);
    writeFileSync(
      join(bin, 'ssh'),
      `#!/bin/sh
printf '%s\\n' "$@" > "${folder}/ssh-arguments"
env > "${folder}/ssh-environment"
if [ -e "${folder}/ssh-says" ]; then cat "${folder}/ssh-says" >&2; exit 255; fi
for last; do :; done
eval "exec $last"
`,
    );
    chmodSync(join(bin, 'ssh'), 0o755);
    process.env['PATH'] = `${bin}:${path}`;
    process.env['WINDLASS_TEST_SECRET'] = 'not-for-git';
  });
  afterEach(() => {
    process.env['PATH'] = path;
    delete process.env['WINDLASS_TEST_SECRET'];
  });

  test.each([
    ['git@example.org:{}', 'git@example.org'],
    ['ssh://git@example.org:2222{}', 'git@example.org'],
  ])(
    '%s is fetched with strict host keys, no configuration, no prompt and nothing of our environment',
    async (url, host) => {
      const tip = repository.commit('one');
      const known = join(folder, 'my known_hosts');
      const source = openHere({
        url: url.replace('{}', repository.path),
        credentials: async () => ({ sshKeyFile: '/keys/deploy key', knownHostsFile: known }),
      });
      expect(await source.fetch()).toBe(tip);
      const words = readFileSync(join(folder, 'ssh-arguments'), 'utf8').split('\n');
      for (const word of [
        '/dev/null',
        'BatchMode=yes',
        'StrictHostKeyChecking=yes',
        `UserKnownHostsFile="${known}"`,
        '/keys/deploy key',
        'IdentitiesOnly=yes',
        host,
      ]) {
        expect(words).toContain(word);
      }
      const environment = readFileSync(join(folder, 'ssh-environment'), 'utf8');
      expect(environment).not.toContain('not-for-git');
      expect(environment).toContain(`HOME=${mirror}`);
    },
  );

  test.each([
    ['Host key verification failed.', 'GIT_AUTH', 'known hosts'],
    ['git@example.org: Permission denied (publickey).', 'GIT_AUTH', 'does not let us in'],
    ['ssh: connect to host example.org port 22: Connection refused', 'GIT_UNREACHABLE', 'Connection refused'],
    ['ssh: Could not resolve hostname example.org: Name or service not known', 'GIT_UNREACHABLE', 'resolve'],
  ])('%j is %s', async (says, code, words) => {
    repository.commit('one');
    writeFileSync(join(folder, 'ssh-says'), `${says}\n`);
    const fault = await faultOf(openHere({ url: 'git@example.org:fleet' }).fetch());
    expect([fault.code, fault.message]).toEqual([code, expect.stringContaining(words)]);
  });

  test('a key file with a name that ssh could misread is refused', async () => {
    const credentials = async () => ({ sshKeyFile: '/keys/%h$(id)' });
    expect((await faultOf(openHere({ url: 'git@example.org:fleet', credentials }).fetch())).code).toBe('USAGE');
  });

  test('without a git client it is said what to install', async () => {
    const fault = await faultOf(openHere({ url: 'git@example.org:fleet', client: 'none' }).fetch());
    expect(fault.message).toContain('install git');
  });
});
