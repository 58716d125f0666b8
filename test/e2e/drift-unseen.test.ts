// Rows of the drift matrix (ENGINE.md D 1.6) that `docker compose up` does not see or gets wrong, and changes in git that concern one service.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containersOf, docker, Fleet, inspect, until } from './fleet.ts';
import { repairs } from './repairs.ts';

const P = 'wlt-unseen';
const IMAGE = 'windlass-test/unseen:1';
const compose = `
x-base: &base
  image: ${IMAGE}
  command: sleep 2147483647
  init: true
  stop_grace_period: 0s
services:
  web:
    <<: *base
    ports: ["127.0.0.1::8080", "127.0.0.1::8081"]
    configs: [greeting]
  db:
    <<: *base
    env_file: ./db.env
    volumes: ["data:/data"]
    healthcheck: { test: ["CMD", "test", "!", "-e", "/ill"], interval: 1s, retries: 1 }
  side:
    <<: *base
    networks: { back: {} }
configs: { greeting: { content: hello } }
networks: { back: {} }
volumes: { data: {} }
`;

describe('drift that an `up` misses', () => {
  let fleet: Fleet;
  beforeAll(async () => {
    docker('tag', 'windlass-test/busybox:1', IMAGE);
    fleet = new Fleet();
    fleet.push({ [`stacks/${P}/compose.yaml`]: compose, [`stacks/${P}/db.env`]: 'SIZE=1\n' });
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code, applied.err).toBe(0);
  });
  afterAll(async () => {
    await fleet.dispose();
    docker('rmi', IMAGE);
  });

  const bend = (act: () => void, words: RegExp, recreated: readonly string[] = []) =>
    repairs(fleet, P, act, words, recreated);

  /** Pushes, applies, and says which containers are new and which are gone. */
  async function afterPush(text: string, more: Record<string, string> = {}) {
    const before = containersOf(P);
    fleet.push({ [`stacks/${P}/compose.yaml`]: text, ...more });
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code, applied.err).toBe(0);
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
    const after = containersOf(P);
    return {
      words: applied.out + applied.err,
      made: Object.keys(after).filter((name) => before[name] !== after[name]),
      gone: Object.keys(before).filter((name) => !(name in after)),
    };
  }

  /** A container as Compose would have made it, but for `number`; only created. */
  function createLike(name: string, number: number): void {
    const { Labels } = inspect(name)['Config'] as { Labels: Record<string, string> };
    const labels = { ...Labels, 'com.docker.compose.container-number': String(number) };
    docker('rm', '-f', `${P}-side-${number}`);
    docker(
      'create',
      '--init',
      '--name',
      `${P}-side-${number}`,
      '--network',
      `${P}_back`,
      '--network-alias',
      'side',
      ...Object.entries(labels).flatMap(([key, value]) => ['--label', `${key}=${value}`]),
      IMAGE,
      'sleep',
      '2147483647',
    );
  }

  it('starts what was created and never started', () =>
    bend(() => createLike(`${P}-side-1`, 1), /start side .*never started/, [`${P}-side-1`]));

  it('takes away what was scaled by hand', async () => {
    const before = containersOf(P);
    createLike(`${P}-side-1`, 2);
    docker('start', `${P}-side-2`);
    const plan = await fleet.windlass('plan', '--detailed-exitcode');
    expect(plan.out).toMatch(/remove side \(wlt-unseen-side-2\): fewer replicas/);
    expect((await fleet.windlass('apply', '--yes')).code).toBe(0);
    expect(containersOf(P)).toEqual(before);
  });

  it('gives the name back that an interrupted recreate left', () =>
    bend(
      () => docker('rename', `${P}-side-1`, `${inspect(`${P}-side-1`).Id.slice(0, 12)}_${P}-side-1`),
      /rename side/,
    ));

  it('makes anew what shares namespaces with a container of another stack once that is another one', async () => {
    const GUEST = 'wlt-unseen-guest';
    const guest = (name: string, how: string): string => `  ${name}: { <<: *base, ${how} }\n`;
    const base = `x-base: &base { image: ${IMAGE}, command: sleep 2147483647, init: true, stop_grace_period: 0s }\nservices:\n`;
    fleet.push({
      [`stacks/${GUEST}/compose.yaml`]: `${base}${guest('net', `network_mode: "container:${P}-side-1"`)}${guest('data', `volumes_from: ["container:${P}-side-1:ro"]`)}`,
    });
    const first = await fleet.windlass('apply', '--yes');
    expect(first.code, first.err).toBe(0);
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
    const before = containersOf(GUEST);
    docker('rm', '-f', `${P}-side-1`);
    expect((await fleet.windlass('apply', '--yes', '--stack', P)).code).toBe(0);
    const plan = await fleet.windlass('plan', '--detailed-exitcode');
    expect([plan.code, plan.out]).toEqual([
      2,
      expect.stringMatching(/recreate net .*namespace it shares is gone \(wlt-unseen-side-1\)/),
    ]);
    expect((await fleet.windlass('apply', '--yes')).code).toBe(0);
    const after = containersOf(GUEST);
    expect(after[`${GUEST}-data-1`]).toBe(before[`${GUEST}-data-1`]);
    const { NetworkMode } = inspect(`${GUEST}-net-1`)['HostConfig'] as { NetworkMode: string };
    expect(NetworkMode).toBe(`container:${inspect(`${P}-side-1`).Id}`);
    fleet.push({ [`stacks/${GUEST}`]: null });
    expect((await fleet.windlass('apply', '--yes')).code).toBe(0);
    expect(containersOf(GUEST)).toEqual({});
  });

  it('makes a network again that was made by hand with the same labels and other options', async () => {
    await bend(
      () => {
        const [{ Labels }] = JSON.parse(docker('network', 'inspect', `${P}_back`)) as [{ Labels: object }];
        docker('network', 'disconnect', '-f', `${P}_back`, `${P}-side-1`);
        docker('network', 'rm', `${P}_back`);
        const labels = Object.entries(Labels).flatMap(([key, value]) => ['--label', `${key}=${value}`]);
        docker('network', 'create', '--internal', ...labels, `${P}_back`);
        docker('network', 'connect', '--alias', 'side', `${P}_back`, `${P}-side-1`);
      },
      /recreate side .*made by hand with other options/,
      [`${P}-side-1`],
    );
    expect(docker('network', 'inspect', '-f', '{{.Internal}}', `${P}_back`)).toBe('false');
  });

  it('restarts a container whose published port lost its proxy, and nothing else', async () => {
    const started = () => inspect(`${P}-web-1`).State.StartedAt;
    const before = started();
    const others = containersOf(P);
    await bend(() => {
      const port = docker('port', `${P}-web-1`, '8080/tcp').split(':').at(-1)!;
      process.kill(proxyOf(port), 'SIGKILL');
    }, /restart web .*nothing listens on its published port/);
    expect(started()).not.toBe(before);
    expect(containersOf(P)).toEqual(others);
  });

  it('leaves an unhealthy container as it is', async () => {
    const before = containersOf(P);
    docker('exec', `${P}-db-1`, 'touch', '/ill');
    await until(
      () => docker('inspect', '-f', '{{.State.Health.Status}}', `${P}-db-1`),
      (health) => health === 'unhealthy',
    );
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
    expect(containersOf(P)).toEqual(before);
    docker('exec', `${P}-db-1`, 'rm', '/ill');
    await until(
      () => docker('inspect', '-f', '{{.State.Health.Status}}', `${P}-db-1`),
      (health) => health === 'healthy',
    );
  });

  it('changes nothing when the tag of what runs was deleted', async () => {
    const before = containersOf(P);
    docker('rmi', IMAGE);
    try {
      expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
      expect((await fleet.windlass('apply', '--yes')).code).toBe(0);
      expect(containersOf(P)).toEqual(before);
    } finally {
      docker('tag', 'windlass-test/busybox:1', IMAGE);
    }
  });

  it('leaves a container of nobody on its network, and says so', async () => {
    docker('run', '-d', '--init', '--name', `${P}-nobody`, '--network', `${P}_back`, IMAGE, 'sleep', '1000');
    try {
      const plan = await fleet.windlass('plan', '--detailed-exitcode');
      expect(plan.code).toBe(0);
      expect(plan.out + plan.err).toMatch(/wlt-unseen-nobody, which is of no project, is on network wlt-unseen_back/);
    } finally {
      docker('rm', '-f', `${P}-nobody`);
    }
  });

  it('makes only the service anew whose inline config changed', async () => {
    const { made, gone } = await afterPush(compose.replace('content: hello', 'content: goodbye'));
    expect({ made, gone }).toEqual({ made: [`${P}-web-1`], gone: [] });
    expect(docker('exec', `${P}-web-1`, 'cat', '/greeting')).toBe('goodbye');
    await afterPush(compose);
  });

  it('makes only the service anew whose env file changed', async () => {
    const { made, gone } = await afterPush(compose, { [`stacks/${P}/db.env`]: 'SIZE=2\n' });
    expect({ made, gone }).toEqual({ made: [`${P}-db-1`], gone: [] });
    expect(docker('inspect', '-f', '{{.Config.Env}}', `${P}-db-1`)).toMatch(/\bSIZE=2\b/);
  });

  it('touches nothing when only the order of starting changed', async () => {
    const { made, gone } = await afterPush(
      compose.replace('  web:\n    <<: *base\n', '  web:\n    <<: *base\n    depends_on: [db]\n'),
    );
    expect({ made, gone }).toEqual({ made: [], gone: [] });
  });

  it('takes away the container of a service that moved into an inactive profile', async () => {
    const { made, gone } = await afterPush(compose.replace('  side:\n', '  side:\n    profiles: [never]\n'));
    expect({ made, gone }).toEqual({ made: [], gone: [`${P}-side-1`] });
    expect((await afterPush(compose)).made).toEqual([`${P}-side-1`]);
  });

  it('takes away a network that left the file, and never a volume', async () => {
    const { made, gone } = await afterPush(
      compose
        .replace('    networks: { back: {} }\n', '')
        .replace('networks: { back: {} }\n', '')
        .replace('    volumes: ["data:/data"]\n', '')
        .replace('volumes: { data: {} }\n', ''),
    );
    expect({ made: made.sort(), gone }).toEqual({ made: [`${P}-db-1`, `${P}-side-1`], gone: [] });
    const filter = ['--filter', `label=com.docker.compose.project=${P}`, '--format', '{{.Name}}'];
    expect(docker('network', 'ls', ...filter)).toBe(`${P}_default`);
    expect(docker('volume', 'ls', ...filter)).toBe(`${P}_data`);
  });

  it('makes anew what shares the network of another one after it, and starts it anew when that one died', async () => {
    const shared = (v: number) =>
      compose
        .replace('  side:\n', `  side:\n    environment: { V: "${v}" }\n`)
        .replace('configs: { gr', '  inner:\n    <<: *base\n    network_mode: "service:side"\nconfigs: { gr');
    const pidOf = (name: string) => docker('inspect', '-f', '{{.State.Pid}}', name);
    const networkOf = (name: string) => readlinkSync(`/proc/${pidOf(name)}/ns/net`);
    expect((await afterPush(shared(1))).made).toContain(`${P}-inner-1`);
    expect((await afterPush(shared(2))).made.sort()).toEqual([`${P}-inner-1`, `${P}-side-1`]);
    expect(docker('exec', `${P}-inner-1`, 'ls', '/sys/class/net')).toMatch(/eth0/);
    await bend(() => docker('kill', `${P}-side-1`), /start side [\s\S]*restart inner .*started after it/);
    expect(networkOf(`${P}-inner-1`)).toBe(networkOf(`${P}-side-1`));
  });

  it('uses a volume of this name that somebody made by hand as it is, and says so', async () => {
    docker('volume', 'create', `${P}_byhand`);
    const { words } = await afterPush(
      `${compose.replace('volumes: { data: {} }', 'volumes: { data: {}, byhand: {} }').replace('    configs: [greeting]', '    volumes: ["byhand:/byhand"]')}`,
    );
    expect(words).toMatch(/volume wlt-unseen_byhand was not made by this project and is used as it is/);
    docker('rm', '-f', `${P}-web-1`);
    docker('volume', 'rm', `${P}_byhand`);
  });
});

/** Of the proxies of the engine, the one of this port on the host. */
function proxyOf(port: string): number {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    let words: string[];
    try {
      words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    } catch {
      continue;
    }
    if (words[0]?.endsWith('docker-proxy') && words[words.indexOf('-host-port') + 1] === port) return Number(pid);
  }
  throw new Error(`no proxy of port ${port}`);
}
