// `windlass run` on the real engine: pushes converge, drift heals, people are heard, a killed controller goes on.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containersOf, docker, Fleet, inspect, type Running, until } from './fleet.ts';

const service = (image: string, more = '') => `    image: ${image}
    command: sleep 2147483647
    network_mode: none
    init: true
    stop_grace_period: 0s
${more}`;
const one = (image = 'windlass-test/busybox:1', more = '') => `services:\n  web:\n${service(image, more)}`;

interface Run {
  readonly stack: string;
  readonly operation: string;
  readonly outcome: string;
  readonly revision: string;
}

describe('the controller', () => {
  const A = 'wlt-ctl-a';
  const B = 'wlt-ctl-b';
  const C = 'wlt-ctl-c';
  const D = 'wlt-ctl-d';
  let fleet: Fleet;
  let controller: Running;
  const ready = async (stack: string, ...more: string[]) => {
    const waited = await fleet.windlass('wait', stack, '--revision', 'head', '--timeout', '60s', ...more);
    expect(waited.code, waited.out + waited.err).toBe(0);
  };
  const runs = async (stack: string): Promise<readonly Run[]> =>
    JSON.parse((await fleet.windlass('history', stack, '-o', 'json', '--limit', '200')).out);
  const running = (name: string): boolean => {
    try {
      return inspect(name).State.Status === 'running';
    } catch {
      return false;
    }
  };

  beforeAll(async () => {
    fleet = new Fleet();
    fleet.push({
      [`stacks/${A}/compose.yaml`]: one(),
      [`stacks/${B}/compose.yaml`]: one(
        'windlass-test/busybox:1',
        '    volumes: ["data:/data"]\nvolumes: {data: {}}\n',
      ),
      [`stacks/${C}/compose.yaml`]: one(),
      [`stacks/${D}/compose.yaml`]: one(),
    });
    controller = fleet.start('--poll', '2s', '--interval', '1h');
    for (const stack of [A, B, C, D]) await ready(stack);
  });
  afterAll(() => fleet.dispose());

  it('converges a push to a local repository without any command', async () => {
    fleet.push({ [`stacks/${A}/compose.yaml`]: one('windlass-test/busybox:2') });
    await until(
      () => docker('inspect', '-f', '{{.Config.Image}} {{.State.Status}}', `${A}-web-1`),
      (seen) => seen === 'windlass-test/busybox:2 running',
    );
    await ready(A);
  });

  it('deploys the newest of ten pushes in a second, once or twice', async () => {
    const before = (await runs(A)).length;
    let last = '';
    for (let push = 0; push < 10; push++)
      last = fleet.push({
        [`stacks/${A}/compose.yaml`]: one('windlass-test/busybox:1', `    environment: {N: "${push}"}\n`),
      });
    await ready(A);
    const fresh = (await runs(A)).slice(0, -before || undefined);
    expect(fresh.length).toBeLessThanOrEqual(3);
    expect(fresh[0]).toMatchObject({ revision: last, outcome: 'succeeded' });
    expect(docker('exec', `${A}-web-1`, 'sh', '-c', 'echo $N')).toBe('9');
  });

  it('heals what was killed, and touches no other container', async () => {
    const others = { ...containersOf(A), ...containersOf(C) };
    const since = Object.keys(others).map((name) => inspect(name).State.StartedAt);
    docker('kill', `${B}-web-1`);
    await until(() => running(`${B}-web-1`), Boolean);
    expect({ ...containersOf(A), ...containersOf(C) }).toEqual(others);
    expect(Object.keys(others).map((name) => inspect(name).State.StartedAt)).toEqual(since);
    await until(
      async () => (await runs(B))[0],
      (run) => run?.operation === 'heal' && run.outcome === 'succeeded',
    );
  });

  it('leaves a suspended stack alone and takes it up again', async () => {
    expect((await fleet.windlass('suspend', C, '--reason', 'moving')).code).toBe(0);
    docker('kill', `${C}-web-1`);
    fleet.push({ [`stacks/${C}/compose.yaml`]: one('windlass-test/busybox:2') });
    await fleet.windlass('reconcile', C);
    expect(running(`${C}-web-1`)).toBe(false);
    expect((await fleet.windlass('get', C)).out).toMatch(/Suspended/);
    expect((await fleet.windlass('resume', C)).code).toBe(0);
    await until(() => running(`${C}-web-1`), Boolean);
    await ready(C);
  });

  it('leaves a stack stopped that a person stopped', async () => {
    expect((await fleet.windlass('stack', 'stop', C)).code).toBe(0);
    await fleet.windlass('reconcile', C);
    expect(running(`${C}-web-1`)).toBe(false);
    expect((await fleet.windlass('stack', 'start', C)).code).toBe(0);
    await until(() => running(`${C}-web-1`), Boolean);
  });

  it('goes on after kill -9 in the middle of a rollout, and after each start again', async () => {
    for (let kill = 0; kill < 5; kill++) {
      fleet.push({
        [`stacks/${A}/compose.yaml`]: one('windlass-test/busybox:1', `    environment: {K: "${kill}"}\n`),
        [`stacks/${C}/compose.yaml`]: one('windlass-test/busybox:1', `    environment: {K: "${kill}"}\n`),
      });
      await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 1_500));
      await controller.kill('SIGKILL');
      controller = fleet.start('--poll', '2s', '--interval', '1h');
      for (const stack of [A, C]) {
        await ready(stack);
        expect(docker('exec', `${stack}-web-1`, 'sh', '-c', 'echo $K')).toBe(String(kill));
        expect(Object.keys(containersOf(stack))).toEqual([`${stack}-web-1`]);
      }
    }
  });

  it('changes nothing while the source is gone, and goes on when it is back', async () => {
    const before = containersOf(A);
    const { renameSync } = await import('node:fs');
    renameSync(fleet.bare, `${fleet.bare}.away`);
    await controller.line(/SourceUnreachable/);
    expect(containersOf(A)).toEqual(before);
    renameSync(`${fleet.bare}.away`, fleet.bare);
    await controller.line(/SourceRecovered/);
    fleet.push({ [`stacks/${A}/compose.yaml`]: one('windlass-test/busybox:2') });
    await ready(A);
  });

  it('one broken file stops its own stack only, and a mending push cures it', async () => {
    fleet.push({
      [`stacks/${A}/compose.yaml`]: 'services: [',
      [`stacks/${C}/compose.yaml`]: one('windlass-test/busybox:2'),
    });
    await ready(C);
    await until(
      async () => (await fleet.windlass('get', A)).out,
      (out) => /Ready +False +InvalidSpec/.test(out),
    );
    expect(running(`${A}-web-1`)).toBe(true);
    fleet.push({ [`stacks/${A}/compose.yaml`]: one() });
    await ready(A);
  });

  it('rolls back when the stack asks for it, and tries again only something new', async () => {
    const manifest = 'apiVersion: windlass/v1\nkind: Stack\nonFailure: rollback\n';
    fleet.push({ [`stacks/${A}/stack.yaml`]: manifest });
    await ready(A);
    fleet.push({
      [`stacks/${A}/compose.yaml`]: one('windlass-test/busybox:1', '    environment: {BAD: "1"}\n').replace(
        'sleep 2147483647',
        'sh -c "exit 3"',
      ),
    });
    await until(
      async () => (await fleet.windlass('get', A)).out,
      (out) => /RolledBack/.test(out),
    );
    await until(() => running(`${A}-web-1`), Boolean);
    fleet.push({ [`stacks/${A}/compose.yaml`]: one('windlass-test/busybox:1', '    environment: {GOOD: "1"}\n') });
    await ready(A);
  });

  it('uninstalls a stack that left the fleet; its volume stays and is listed', async () => {
    fleet.push({ [`stacks/${B}`]: null });
    await until(
      () => Object.keys(containersOf(B)).length,
      (count) => count === 0,
    );
    expect(docker('volume', 'ls', '-q', '--filter', `label=com.docker.compose.project=${B}`)).toBe(`${B}_data`);
    expect((await fleet.windlass('prune')).out).toMatch(new RegExp(`${B}_data`));
  });

  it('waits for a word when most stacks vanish at once', async () => {
    fleet.push({ [`stacks/${C}`]: null, [`stacks/${D}`]: null });
    await until(
      async () => (await fleet.windlass('get')).out,
      (out) => /PruneGuarded/.test(out),
    );
    expect(running(`${C}-web-1`)).toBe(true);
    const listed = await fleet.windlass('prune', '-o', 'json');
    const { digest } = JSON.parse(listed.out) as { digest: string };
    expect((await fleet.windlass('prune', '--confirm', 'wrong')).code).toBe(1);
    expect((await fleet.windlass('prune', '--confirm', digest)).code).toBe(0);
    expect(containersOf(C)).toEqual({});
  });

  it('ends within seconds on SIGTERM', async () => {
    const began = Date.now();
    await controller.kill('SIGTERM');
    expect(Date.now() - began).toBeLessThan(15_000);
    expect(controller.lines.at(-1)).toMatch(/stopped/);
  });
});
