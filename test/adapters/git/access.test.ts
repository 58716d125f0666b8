// A private source, from the settings of the controller to the request on the wire.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { credentialsFrom } from '../../../src/adapters/git/access.ts';
import { PROGRAM, warmStart } from '../../program.ts';
import { faultOf, type GitServer, makeBench, serve } from './fixture.ts';

const bench = makeBench();
let server: GitServer;
let url: string;
const token = `tok-${randomBytes(12).toString('hex')}`;
const basic = (user: string) => `Basic ${Buffer.from(`${user}:${token}`).toString('base64')}`;

beforeEach(async () => {
  server = await serve(bench.folder);
  url = `${server.url}/fleet`;
  // Without a stack no engine is asked.
  bench.repository.commit('one', { 'README.md': 'nothing yet\n' });
});
afterEach(() => server.close());

function validate(env: NodeJS.ProcessEnv, ...args: string[]): Promise<{ code: number; text: string }> {
  const state = join(bench.folder, 'state');
  return new Promise((done) => {
    execFile(
      process.execPath,
      [PROGRAM, 'validate', '--state', state, ...args],
      {
        cwd: bench.folder,
        env: { PATH: process.env['PATH'], HOME: bench.folder, ...warmStart, ...env },
        timeout: 20_000,
      },
      (error, out, err) => done({ code: typeof error?.code === 'number' ? error.code : 0, text: out + err }),
    );
  });
}

const configure = (lines: string) =>
  writeFileSync(join(bench.folder, 'windlass.yaml'), `apiVersion: windlass/v1\nkind: Controller\n${lines}`);

describe('a private source', () => {
  it('opens with the user and the password file of windlass.yaml, and the password rests nowhere else', async () => {
    server.options = { authorization: basic('robot') };
    writeFileSync(join(bench.folder, 'token'), `${token}\n`);
    configure(`sources: [{ url: "${url}", username: robot, passwordFile: ./token }]\n`);
    const { code, text } = await validate({});
    expect([code, text]).toEqual([0, expect.stringContaining('0 stacks')]);
    expect(server.requests.length).toBeGreaterThan(0);
    const kept = readdirSync(bench.folder, { recursive: true, withFileTypes: true })
      .filter((one) => one.isFile() && one.name !== 'token')
      .filter((one) => readFileSync(join(one.parentPath, one.name)).includes(token));
    expect(kept).toEqual([]);
  });

  it('opens with a password in the environment, for a quick start', async () => {
    server.options = { authorization: basic('x-access-token') };
    const { code, text } = await validate({ WINDLASS_SOURCE_PASSWORD: token }, '--source', url);
    expect([code, text]).toEqual([0, expect.stringContaining('0 stacks')]);
  });

  it('is refused with a wrong password, which is not shown', async () => {
    server.options = { authorization: 'Basic other' };
    const { code, text } = await validate({ WINDLASS_SOURCE_PASSWORD: token }, '--source', url);
    expect(code).toBe(1);
    expect(text).toMatch(/GIT_AUTH/);
    expect(text).not.toContain(token);
  });

  it('of windlass.yaml gives its password to no other repository', async () => {
    server.options = { authorization: 'Basic other' };
    writeFileSync(join(bench.folder, 'token'), token);
    configure('sources: [{ url: "https://git.example.org/fleet", passwordFile: ./token }]\n');
    expect((await validate({}, '--source', url)).code).toBe(1);
    expect(server.requests.length).toBeGreaterThan(0);
    expect(server.requests.every(({ authorization }) => authorization === undefined)).toBe(true);
  });
});

describe('the password file', () => {
  const read = (path: string) => credentialsFrom({ passwordFile: path }, { WINDLASS_SOURCE_PASSWORD: 'not this' })();

  it('is read anew at each fetch', async () => {
    const path = join(bench.folder, 'token');
    const credentials = credentialsFrom({ username: 'robot', passwordFile: path }, {});
    writeFileSync(path, 'one\n');
    expect(await credentials()).toEqual({ username: 'robot', password: 'one' });
    writeFileSync(path, 'two\r\n');
    expect(await credentials()).toEqual({ username: 'robot', password: 'two' });
  });

  it.each([
    ['is not there', undefined, /cannot be read: ENOENT/],
    ['is empty', '', /does not hold one password/],
    ['holds two lines', `${token}\nmore\n`, /does not hold one password/],
    ['is large', token.repeat(2_000), /too large/],
  ])('that %s opens nothing, and what was read is not shown', async (_what, content, words) => {
    const path = join(bench.folder, 'token');
    if (content !== undefined) writeFileSync(path, content);
    const fault = await faultOf(read(path));
    expect(fault.code).toBe('GIT_AUTH');
    expect(fault.message).toMatch(words);
    expect(fault.message).not.toContain(token);
  });

  it('may not be a folder', async () => {
    mkdirSync(join(bench.folder, 'folder'));
    expect((await faultOf(read(join(bench.folder, 'folder')))).message).toMatch(/is no file/);
  });
});
