// Requests on the real engine, as people make them: their own keys, a pull request's branch, a merge, a controller that watches.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, normalize } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { People } from '../cli/trust-people.ts';
import { PROGRAM } from '../program.ts';
import { docker, until } from './fleet.ts';

const PROJECT = 'wlt-trust-shop';
const VOLUME = `${PROJECT}_data`;
const COMPOSE = `services:
  web:
    image: windlass-test/busybox:1
    command: sleep 2147483647
    network_mode: none
    init: true
    stop_grace_period: 0s
    volumes: [data:/data]
volumes: { data: {} }
`;

class Road {
  readonly people = new People();
  readonly bare = this.people.file('fleet.git');
  readonly #ends: (() => Promise<unknown>)[] = [];
  url = this.bare;
  #anchor = '';
  log = '';

  constructor() {
    this.people.sh('git', 'init', '-q', '--bare', '-b', 'main', this.bare);
    this.people.git('remote', 'add', 'origin', this.bare);
  }

  /** The plain files of the repository, as any web server would give them. */
  async serve(): Promise<void> {
    const server: Server = createServer((request, response) => {
      const file = join(this.bare, normalize(decodeURIComponent((request.url ?? '/').split('?')[0] ?? '/')));
      if (!file.startsWith(this.bare) || !existsSync(file)) return void response.writeHead(404).end();
      response.end(readFileSync(file));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    this.#ends.push(() => new Promise((resolve) => server.close(resolve)));
  }

  async begin(): Promise<void> {
    const { people } = this;
    people.commitFile(`stacks/${PROJECT}/compose.yaml`, COMPOSE, 'Begin');
    const { armored } = people.gpgKey('dora');
    const admins = [...['anna', 'bert', 'cleo'].map((one) => `${one}=${people.file(`${one}.pub`)}`), `dora=${armored}`];
    people.be('anna');
    const said = await people.windlass([
      'trust',
      'init',
      ...admins.flatMap((one) => ['--admin', one]),
      '--threshold',
      '2',
    ]);
    if (said.code !== 0) throw new Error(said.err);
    this.#anchor = said.out;
    this.push();
    writeFileSync(
      people.file('windlass.yaml'),
      `apiVersion: windlass/v1\nkind: Controller\nstate: ${people.file('state')}\nsources: [{ url: "${this.url}", poll: 1s }]\n${this.#anchor}\n`,
    );
  }

  push(): void {
    this.people.git('push', '-q', 'origin', 'main');
    execFileSync('git', ['update-server-info'], { cwd: this.bare });
  }

  /** Signs with an OpenPGP key from now on. */
  beDora(): void {
    const { fingerprint } = {
      fingerprint:
        this.people.sh('gpg', '--batch', '--with-colons', '--list-keys').match(/^fpr:+([0-9A-F]{40}):/m)?.[1] ?? '',
    };
    this.people.git('config', 'gpg.format', 'openpgp');
    this.people.git('config', 'user.signingkey', fingerprint);
  }

  windlass(...args: string[]): Promise<{ code: number; out: string; err: string }> {
    return new Promise((done) => {
      execFile(
        process.execPath,
        [PROGRAM, ...args],
        { cwd: this.people.folder, encoding: 'utf8', timeout: 120_000 },
        (error, out, err) => done({ code: error ? Number(error.code ?? -1) : 0, out, err }),
      );
    });
  }

  async run(): Promise<() => Promise<void>> {
    const child = spawn(process.execPath, [PROGRAM, 'run', '--settle', '1s'], {
      cwd: this.people.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const take = (chunk: Buffer): void => {
      this.log += chunk.toString();
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    const end = async (): Promise<void> => {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGTERM');
        await once(child, 'close');
      }
    };
    this.#ends.unshift(end);
    await until(
      () => this.log,
      (log) => log.includes('Deployed') || / ready$/m.test(log),
    );
    return end;
  }

  async close(): Promise<void> {
    for (const end of this.#ends) await end();
    const ids = docker('ps', '-aq', '--filter', `label=com.docker.compose.project=${PROJECT}`)
      .split('\n')
      .filter(Boolean);
    if (ids.length > 0) docker('rm', '-f', ...ids);
    const volumes = docker('volume', 'ls', '-q', '--filter', `label=com.docker.compose.project=${PROJECT}`)
      .split('\n')
      .filter(Boolean);
    if (volumes.length > 0) docker('volume', 'rm', ...volumes);
    this.people.close();
  }
}

const roads: Road[] = [];
afterEach(async () => {
  for (const road of roads.splice(0)) await road.close();
});
const open = (): Road => {
  const road = new Road();
  roads.push(road);
  return road;
};
/** '' in the moment in which it is made anew. */
const image = (): string => docker('ps', '-a', '--filter', `name=^/${PROJECT}-web-1$`, '--format', '{{.Image}}');
const isThere = (): boolean => docker('volume', 'ls', '-q').split('\n').includes(VOLUME);

describe('the road of a purge', () => {
  it.each(['a local path', 'http on loopback'])(
    'over %s: request, branch, two approvals, merge: once, and never again',
    async (way) => {
      const road = open();
      const { people } = road;
      if (way !== 'a local path') await road.serve();
      await road.begin();
      await road.run();
      await until(isThere, Boolean);
      people.git('rm', '-q', '-r', `stacks/${PROJECT}`);
      people.git('commit', '-q', '--no-gpg-sign', '-m', 'Retire the shop');
      road.push();
      await until(
        () => road.log,
        (log) => log.includes('Uninstalled'),
      );
      expect(isThere()).toBe(true);

      people.git('switch', '-q', '-c', 'pr');
      expect(
        (
          await people.say(
            'anna',
            'request',
            'purge',
            PROJECT,
            '--volumes',
            'all',
            '--reason',
            'retired',
            '--id',
            'one',
          )
        ).code,
      ).toBe(0);
      expect((await people.say('bert', 'approve', 'one')).code).toBe(0);
      people.git('switch', '-q', 'main');
      people.git('merge', '-q', '--no-ff', '--no-gpg-sign', '-m', 'Merge pull request #1', 'pr');
      road.push();
      await until(
        async () => (await road.windlass('requests', 'one')).out,
        (out) => /awaitingApprovals/.test(out),
      );
      expect(isThere()).toBe(true);

      road.beDora();
      const said = await people.windlass(['approve', 'one', '--yes', '-o', 'json']);
      expect([said.code, said.err]).toEqual([0, expect.any(String)]);
      road.push();
      await until(isThere, (there) => !there);
      await until(
        async () => (await road.windlass('requests', 'one')).out,
        (out) => /state {6}succeeded/.test(out),
      );
      const receipt = JSON.parse((await road.windlass('requests', 'one', '--receipt')).out) as {
        statements: unknown[];
      };
      expect(receipt.statements).toHaveLength(3);

      docker('volume', 'create', '--label', `com.docker.compose.project=${PROJECT}`, VOLUME);
      people.commitFile('requests/two.yaml', people.read('requests/one.yaml'));
      people.git('commit', '-q', '--allow-empty', '--no-gpg-sign', '-m', 'Again');
      road.push();
      await until(
        async () => (await road.windlass('requests')).out,
        (out) => /two +\S+ +refused/.test(out),
      );
      expect(isThere()).toBe(true);
    },
  );

  it('squashed it is refused with the cure, and the cure works', async () => {
    const road = open();
    const { people } = road;
    await road.begin();
    await road.run();
    await until(isThere, Boolean);
    people.git('rm', '-q', '-r', `stacks/${PROJECT}`);
    people.git('commit', '-q', '--no-gpg-sign', '-m', 'Retire the shop');
    people.git('switch', '-q', '-c', 'pr');
    await people.say('anna', 'request', 'purge', PROJECT, '--volumes', 'all', '--reason', 'retired', '--id', 'one');
    await people.say('bert', 'approve', 'one');
    people.git('switch', '-q', 'main');
    people.git('merge', '-q', '--squash', 'pr');
    people.git('commit', '-q', '--no-gpg-sign', '-m', 'Purge (#1)');
    road.push();
    const told = await until(
      async () => (await road.windlass('requests', 'one')).out,
      (out) => /request-unsigned/.test(out),
    );
    expect(told).toMatch(/signs one by commit, or by an annotated tag/);
    expect(isThere()).toBe(true);
    for (const [name, verb] of [
      ['anna', 'request'],
      ['bert', 'approve'],
      ['cleo', 'approve'],
    ] as const) {
      const said = await people.say(
        name,
        ...(verb === 'request' ? ['request', 'sign', 'one', '--tag'] : ['approve', 'one', '--tag']),
      );
      expect([name, said.code, said.err]).toEqual([name, 0, expect.any(String)]);
    }
    road.push();
    people.git('push', '-q', 'origin', '--tags');
    await until(isThere, (there) => !there);
  });

  it('a controller that wants signed deploys leaves an unsigned tip alone, says so, and goes on with a signed one', async () => {
    const road = open();
    const { people } = road;
    await road.begin();
    const config = people.file('windlass.yaml');
    writeFileSync(config, readFileSync(config, 'utf8').replace('deploy: none', 'deploy: head'));
    await road.run();
    await until(isThere, Boolean);
    people.commitFile(`stacks/${PROJECT}/compose.yaml`, COMPOSE.replace('busybox:1', 'busybox:2'));
    people.git('commit', '-q', '--amend', '--no-gpg-sign', '--no-edit');
    road.push();
    await until(
      async () => (await road.windlass('get', PROJECT)).out,
      (out) => /Verified +False +NotVerified/.test(out),
    );
    expect(image()).toBe('windlass-test/busybox:1');
    const applied = await road.windlass('apply', '--yes');
    expect([applied.code, applied.out]).toEqual([5, expect.stringMatching(/NOT_VERIFIED/)]);
    people.be('anna');
    people.git('commit', '-q', '--allow-empty', '-S', '-m', 'Vouch for it');
    road.push();
    await until(image, (found) => found === 'windlass-test/busybox:2');
    await until(
      async () => (await road.windlass('get', PROJECT)).out,
      (out) => /Verified +True +Verified.*anna/.test(out),
    );
  });
});
