// Every row of the drift matrix (ENGINE.md D 1.6) on the real engine: the right verdict, the right repair, nothing else touched.
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containersOf, docker, Fleet, inspect } from './fleet.ts';
import { repairs } from './repairs.ts';

const P = 'wlt-drift';
const compose = `
x-base: &base
  image: windlass-test/drift:1
  command: sleep 2147483647
  init: true
  stop_grace_period: 0s
services:
  web:
    <<: *base
    mem_limit: 64m
    networks: { default: { aliases: [www] }, back: {} }
    volumes: ["./site.conf:/etc/site.conf:ro"]
  db:
    <<: *base
    volumes: ["data:/data"]
  once:
    <<: *base
    command: "true"
  after:
    <<: *base
    depends_on: { once: { condition: service_completed_successfully } }
networks: { back: {} }
volumes: { data: {} }
`;

describe('drift on the real engine', () => {
  let fleet: Fleet;
  beforeAll(async () => {
    // A tag of its own: one of these tests moves it, and other suites run beside this one.
    docker('tag', 'windlass-test/busybox:1', 'windlass-test/drift:1');
    fleet = new Fleet();
    fleet.push({ [`stacks/${P}/compose.yaml`]: compose, [`stacks/${P}/site.conf`]: 'one\n' });
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code, applied.err).toBe(0);
  });
  afterAll(() => fleet.dispose());

  async function bend(act: () => void, words: RegExp, recreated: readonly string[] = []): Promise<void> {
    const once = () => inspect(`${P}-once-1`).State.StartedAt;
    const ran = once();
    await repairs(fleet, P, act, words, recreated);
    // The one-shot never runs again by itself.
    if (!recreated.includes(`${P}-once-1`)) expect(once()).toBe(ran);
  }

  it('a no-op makes no mutating call', async () => {
    const again = await fleet.windlass('plan', '--detailed-exitcode');
    expect(again.code, again.out + again.err).toBe(0);
  });
  it('starts what was stopped', () => bend(() => docker('stop', '-t', '0', `${P}-db-1`), /start db .*stopped/));
  it('starts what was killed', () => bend(() => docker('kill', `${P}-db-1`), /start db .*stopped/));
  it('creates what was removed', () => bend(() => docker('rm', '-f', `${P}-db-1`), /create db .*gone/, [`${P}-db-1`]));
  it('unpauses what was paused', () => bend(() => docker('pause', `${P}-db-1`), /unpause db/));
  it('gives a renamed container its name back', () =>
    bend(() => docker('rename', `${P}-db-1`, `${P}-mine`), /rename db/));
  it('sets a changed limit back', () =>
    bend(() => docker('update', '--memory', '128m', '--memory-swap', '256m', `${P}-web-1`), /update web .*limits/));
  it('sets a changed restart policy back', () =>
    bend(() => docker('update', '--restart', 'always', `${P}-db-1`), /update db/));
  it('makes anew what got a limit that cannot be taken away', () =>
    bend(() => docker('update', '--memory', '128m', '--memory-swap', '256m', `${P}-db-1`), /recreate db .*limits/, [
      `${P}-db-1`,
    ]));
  it('leaves a network that is not its own', () =>
    bend(() => docker('network', 'connect', 'bridge', `${P}-db-1`), /disconnect db/));
  it('joins its network again', async () => {
    await bend(() => docker('network', 'disconnect', `${P}_back`, `${P}-web-1`), /connect web .*not on its network/);
  });
  it('gives lost aliases back', async () => {
    await bend(() => {
      docker('network', 'disconnect', `${P}_default`, `${P}-web-1`);
      docker('network', 'connect', `${P}_default`, `${P}-web-1`);
    }, /connect web .*no longer resolves/);
    expect(docker('exec', `${P}-db-1`, 'nslookup', 'www', '127.0.0.11')).toMatch(/Address/);
  });
  it('makes a deleted network again, with the containers that need it', () =>
    bend(
      () => {
        docker('network', 'disconnect', '-f', `${P}_back`, `${P}-web-1`);
        docker('network', 'rm', `${P}_back`);
      },
      /recreate web .*network is gone/,
      [`${P}-web-1`],
    ));
  it('removes a container that bears its labels but was not made by Compose', async () => {
    docker(
      'run',
      '-d',
      '--init',
      '--name',
      `${P}-stranger`,
      '--label',
      `com.docker.compose.project=${P}`,
      '--label',
      'com.docker.compose.service=db',
      'windlass-test/busybox:1',
      'sleep',
      '1000',
    );
    const plan = await fleet.windlass('plan', '--detailed-exitcode');
    expect(plan.out).toMatch(/remove db \(wlt-drift-stranger\)/);
    expect((await fleet.windlass('apply', '--yes')).code).toBe(0);
    expect(Object.keys(containersOf(P))).not.toContain(`${P}-stranger`);
  });
  it('follows a tag that moved on the engine, and back', async () => {
    const one = docker('image', 'inspect', '-f', '{{.Id}}', 'windlass-test/drift:1');
    try {
      // The one-shot follows its tag too, and so runs again: that is a new image, not a rerun.
      await bend(
        () => docker('tag', 'windlass-test/busybox:2', 'windlass-test/drift:1'),
        /recreate db .*tag now names another image/,
        ['after', 'db', 'once', 'web'].map((name) => `${P}-${name}-1`),
      );
    } finally {
      docker('tag', one, 'windlass-test/drift:1');
      expect((await fleet.windlass('apply', '--yes')).code).toBe(0);
    }
  });
  it('writes a mounted file again that was edited by hand, and makes only its service anew', async () => {
    const file = join(fleet.state, 'stacks', P, 'tree', 'stacks', P, 'site.conf');
    await bend(() => writeFileSync(file, 'hacked\n'), /recreate web .*edited by hand/, [`${P}-web-1`]);
    expect(docker('exec', `${P}-web-1`, 'cat', '/etc/site.conf')).toBe('one');
  });
  it('notices a mounted file that was replaced by rename', async () => {
    const file = join(fleet.state, 'stacks', P, 'tree', 'stacks', P, 'site.conf');
    await bend(
      () => {
        writeFileSync(`${file}.new`, 'hacked\n');
        renameSync(`${file}.new`, file);
      },
      /recreate web .*edited by hand/,
      [`${P}-web-1`],
    );
  });
  it('heals several drifts of one stack in one go', () =>
    bend(() => {
      docker('pause', `${P}-db-1`);
      docker('kill', `${P}-web-1`);
    }, /unpause db/));
  it('removes only the container of a service that left the file', async () => {
    const before = containersOf(P);
    fleet.push({
      [`stacks/${P}/compose.yaml`]: compose.replace(/ {2}after:[\s\S]*?networks: \{ back/, 'networks: { back'),
    });
    expect((await fleet.windlass('apply', '--yes')).code).toBe(0);
    const { [`${P}-after-1`]: gone, ...rest } = before;
    expect(gone).toBeDefined();
    expect(containersOf(P)).toEqual(rest);
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
  });
  it('makes a changed network anew without losing names', async () => {
    fleet.push({
      [`stacks/${P}/compose.yaml`]: compose.replace(
        'networks: { back: {} }',
        'networks: { back: { labels: { a: b } } }',
      ),
    });
    expect((await fleet.windlass('apply', '--yes')).code).toBe(0);
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
    expect(docker('exec', `${P}-db-1`, 'nslookup', 'web', '127.0.0.11')).toMatch(/Address/);
  });
  it('refuses a changed volume and touches nothing', async () => {
    const before = containersOf(P);
    fleet.push({
      [`stacks/${P}/compose.yaml`]: compose.replace('volumes: { data: {} }', 'volumes: { data: { labels: { a: b } } }'),
    });
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code).toBe(1);
    expect(applied.out + applied.err).toMatch(/VOLUME_CHANGED/);
    expect(containersOf(P)).toEqual(before);
    fleet.push({ [`stacks/${P}/compose.yaml`]: compose });
    expect((await fleet.windlass('apply', '--yes')).code).toBe(0);
  });
  it('refuses a network that was made by hand', async () => {
    const other = 'wlt-drift-net';
    fleet.push({ [`stacks/${other}/compose.yaml`]: compose.replace('"./site.conf:/etc/site.conf:ro"', '"data:/x"') });
    docker('network', 'create', `${other}_default`);
    try {
      const applied = await fleet.windlass('apply', '--yes', '--stack', other);
      expect(applied.code).toBe(1);
      expect(applied.out + applied.err).toMatch(/NETWORK_CONFLICT/);
      expect(containersOf(other)).toEqual({});
    } finally {
      docker('network', 'rm', `${other}_default`);
      fleet.push({ [`stacks/${other}`]: null });
    }
  });
});
