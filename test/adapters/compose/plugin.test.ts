import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Compose, openCompose } from '../../../src/adapters/compose/plugin.ts';
import { ProcessError } from '../../../src/adapters/process/process-error.ts';
import type { Run, RunInput, RunOutput } from '../../../src/adapters/process/run.ts';

let folder: string;
let calls: RunInput[];
let answer: Partial<RunOutput> | Error;
let onCall: (input: RunInput) => void;
let compose: Compose;

const limits = { resolveMs: 1, upMs: 2, buildMs: 3, modelBytes: 4 };
const run = (async (input: RunInput) => {
  calls.push(input);
  onCall(input);
  if (answer instanceof Error) throw answer;
  return { exitCode: 0, stdout: '', stderr: '', signal: null, durationMs: 0, ...answer };
}) as unknown as Run;

function install(...names: string[]): void {
  mkdirSync(join(folder, 'cli-plugins'), { recursive: true });
  for (const name of names) {
    writeFileSync(join(folder, 'cli-plugins', name), '');
    chmodSync(join(folder, 'cli-plugins', name), 0o755);
  }
}

const open = (environment: Record<string, string> = {}) =>
  openCompose({
    run,
    host: 'unix:///engine',
    limits,
    environment: { PATH: '/bin', HOME: '/home/w', DOCKER_CONFIG: folder, SECRET_OF_OURS: 'x', ...environment },
  });

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'windlass-plugin-'));
  install('docker-compose', 'docker-buildx');
  calls = [];
  answer = {};
  onCall = () => {};
  compose = open();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const signal = new AbortController().signal;
const up = (extra: object = {}) =>
  compose.up({
    project: 'p',
    projectDir: '/srv/p',
    model: { text: 'MODEL' },
    services: ['a', 'b'],
    forceRecreate: false,
    signal,
    ...extra,
  });
const resolve = (extra: object = {}) =>
  compose.resolve({
    project: 'p',
    directory: '/srv/p',
    files: ['/srv/p/compose.yaml'],
    profiles: [],
    environment: {},
    ...extra,
  });

describe('how Compose is called', () => {
  test('directly, with a clean environment and in the project’s folder', async () => {
    await up();
    expect(calls[0]).toMatchObject({
      program: join(folder, 'cli-plugins', 'docker-compose'),
      cwd: '/srv/p',
      input: 'MODEL',
      deadlineMs: 2,
    });
    expect(calls[0]?.env).toEqual({
      PATH: '/bin',
      HOME: '/home/w',
      DOCKER_HOST: 'unix:///engine',
      DOCKER_CONFIG: folder,
      COMPOSE_IGNORE_ORPHANS: '1',
    });
  });

  test('up names its services, and never pulls, builds, removes orphans or says yes', async () => {
    await up({ forceRecreate: true });
    const args = calls[0]!.args;
    expect(args.join(' ')).toBe(
      '-p p --project-directory /srv/p -f - --profile * --progress json up --detach --no-deps --pull never --no-build --remove-orphans=false --force-recreate -- a b',
    );
    await up({ noStart: true });
    expect(calls[1]!.args).toContain('--no-start');
    expect(calls.flatMap((call) => call.args)).not.toContain('--yes');
  });

  test('with no service there is nothing to do: Compose would take all of them', async () => {
    await up({ services: [] });
    await compose.build({ project: 'p', projectDir: '/srv/p', model: { text: '' }, services: [], signal });
    expect(calls).toEqual([]);
  });

  test('variables are handed on, except those that would steer Compose itself', async () => {
    await resolve({
      environment: {
        TAG: '1',
        COMPOSE_FILE: 'x',
        COMPOSE_PROFILES: 'x',
        DOCKER_HOST: 'tcp://x',
        DOCKER_TAG: '2',
        PATH: '/evil',
        LD_PRELOAD: 'x',
      },
    });
    expect(calls[0]?.env).toMatchObject({ TAG: '1', DOCKER_TAG: '2', PATH: '/bin', DOCKER_HOST: 'unix:///engine' });
    expect(Object.keys(calls[0]!.env).filter((name) => /^(COMPOSE_(FILE|PROFILES)|LD_)/.test(name))).toEqual([]);
  });

  test('overrides come last, from files that only we can read and that are gone afterwards', async () => {
    let path = '';
    onCall = (input) => {
      path = input.args.at(input.args.lastIndexOf('-f') + 1)!;
      expect(readFileSync(path, 'utf8')).toBe('{"services":{}}');
      expect(statSync(path).mode & 0o777).toBe(0o600);
    };
    answer = { stdout: 'TEXT\n' };
    expect(await resolve({ files: [], text: 'services: {}', overrides: ['{"services":{}}'], profiles: ['x'] })).toBe(
      'TEXT\n',
    );
    expect(calls[0]?.args.join(' ')).toMatch(
      /^-p p --project-directory \/srv\/p -f - -f \S+ --profile x config --format json$/,
    );
    expect(existsSync(path)).toBe(false);
  });

  test('down runs in an empty folder', async () => {
    onCall = (input) => expect(input.cwd).not.toBe('/srv/p');
    await compose.down('p', signal);
    expect(calls[0]?.args).toEqual(['-p', 'p', '--progress', 'json', 'down']);
  });

  test('a builder that is installed is left to Compose', async () => {
    const build = () =>
      compose.build({ project: 'p', projectDir: '/srv/p', model: { text: '' }, services: ['a'], signal });
    await build();
    expect(calls[0]?.env['DOCKER_BUILDKIT']).toBeUndefined();
  });

  test('the docker client stands in for a plugin that is not in the usual places', async () => {
    // The machine's own plugin folders may hold one; then it is found there, which is right as well.
    rmSync(join(folder, 'cli-plugins'), { recursive: true });
    mkdirSync(join(folder, 'bin'));
    writeFileSync(join(folder, 'bin', 'docker'), '');
    chmodSync(join(folder, 'bin', 'docker'), 0o755);
    compose = open({ PATH: join(folder, 'bin') });
    answer = { stdout: 'v2.40.3\n' };
    expect(await compose.version()).toBe('2.40.3');
    if (calls[0]?.program === join(folder, 'bin', 'docker')) expect(calls[0].args[0]).toBe('compose');
    else expect(calls[0]?.program).toMatch(/cli-plugins\/docker-compose$/);
  });
});

describe('what Compose says', () => {
  const said = (...lines: string[]) => ({ exitCode: 1, stderr: lines.join('\n') });

  test('of a wrong file: its own words, without warnings and our folders', async () => {
    answer = said(
      'time="2026-01-01T00:00:00Z" level=warning msg="The \\"Q\\" variable is not set."',
      "validating /srv/p/compose.yaml: services.a additional properties 'imagee' not allowed",
    );
    await expect(resolve()).rejects.toMatchObject({
      code: 'COMPOSE_INVALID',
      message: "validating compose.yaml: services.a additional properties 'imagee' not allowed",
      data: { exitCode: 1, lines: ["validating compose.yaml: services.a additional properties 'imagee' not allowed"] },
    });
  });

  test('of a wrong file: all of what it says, in one bounded line', async () => {
    answer = said(
      'invalid interpolation format for services.a.image.',
      'You may need to escape any $ with another $.',
      '${NOPE',
    );
    await expect(resolve()).rejects.toMatchObject({
      message: 'invalid interpolation format for services.a.image. You may need to escape any $ with another $. ${NOPE',
    });
    answer = said('include cycle detected:', ...Array.from({ length: 500 }, () => ' include /srv/p/b.yaml'));
    const fault = await resolve().catch((error: Error) => error);
    expect(fault).toMatchObject({ message: expect.stringMatching(/^include cycle detected: include b\.yaml /) });
    expect((fault as Error).message.length).toBe(1_000);
  });

  test('in progress lines becomes notes, and its last error the fault', async () => {
    const notes: string[] = [];
    onCall = (input) => {
      for (const line of ['{"id":"Container p-a-1","status":"Starting"}', '', '{"error":true,"message":"x"}'])
        input.onLine?.('stderr', line);
    };
    answer = said(
      '{"id":"Container p-a-1","status":"Starting"}',
      '{"level":"warning","msg":"w"}',
      '{"error":true,"message":"Error response from daemon: No such image: nope:1"}',
    );
    await expect(up({ note: (line: string) => notes.push(line) })).rejects.toMatchObject({
      code: 'IMAGE_MISSING',
      message: 'No such image: nope:1',
      data: { image: 'nope:1', lines: ['Error response from daemon: No such image: nope:1'] },
    });
    expect(notes).toEqual(['Container p-a-1 Starting']);
  });

  test('in a question about a volume is a refusal, though it ends well', async () => {
    answer = {
      exitCode: 0,
      stdout: 'Volume "p_v" exists but doesn\'t match configuration in compose file. Recreate (data will be lost)?',
    };
    await expect(up()).rejects.toMatchObject({ code: 'VOLUME_CHANGED', data: { volume: 'p_v' } });
  });

  test('of a failed build: its last lines', async () => {
    answer = {
      exitCode: 1,
      stdout: '',
      stderr:
        '#6 ERROR: process did not complete\n------\nfailed to solve: process "x" did not complete successfully: exit code: 3\n',
    };
    await expect(
      compose.build({ project: 'p', projectDir: '/srv/p', model: { text: '' }, services: ['a'], signal }),
    ).rejects.toMatchObject({
      code: 'BUILD_FAILED',
      message: 'failed to solve: process "x" did not complete successfully: exit code: 3',
    });
  });

  const ended = (kind: 'missing' | 'deadline' | 'output' | 'cancelled') =>
    new ProcessError(kind, `words of ${kind}`, { program: 'x', args: [], stderr: 'late words', durationMs: 1 });

  test.each([
    ['missing', 'COMPOSE_MISSING'],
    ['deadline', 'ENGINE_TIMEOUT'],
    ['output', 'COMPOSE_INVALID'],
  ] as const)('nothing, because of "%s"', async (kind, code) => {
    answer = ended(kind);
    await expect(resolve()).rejects.toMatchObject({ code });
  });

  test('nothing, because it was called off', async () => {
    answer = ended('cancelled');
    await expect(up({ signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'CANCELLED' });
  });
});
