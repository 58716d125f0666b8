// `windlass run` on the real engine: pushes converge, drift heals, people are heard, a killed controller goes on.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PROGRAM } from '../program.ts';
import { containersOf, docker, Fleet, inspect, type Running, until } from './fleet.ts';

const service = (image: string, more = '') => `    image: ${image}
    command: sleep 2147483647
    network_mode: none
    init: true
    stop_grace_period: 0s
${more}`;
const one = (image = 'windlass-test/busybox:1', more = '') => `services:\n  web:\n${service(image, more)}`;
/** Two services on a network: one to bend, one beside it that must not notice. */
const pair = `services:
  web: &base
    image: windlass-test/busybox:1
    command: sleep 2147483647
    init: true
    stop_grace_period: 0s
  beside:
    <<: *base
`;

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
  const BENT = ['stopped', 'paused', 'renamed', 'disconnected'].map((how) => `wlt-ctl-${how}`);
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
      ...Object.fromEntries(BENT.map((stack) => [`stacks/${stack}/compose.yaml`, pair])),
    });
    controller = fleet.start('--poll', '2s', '--interval', '1h');
    for (const stack of [A, B, C, D, ...BENT]) await ready(stack);
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
    const commits = Array.from({ length: 10 }, (_, push) => {
      writeFileSync(
        join(fleet.clone, `stacks/${A}/compose.yaml`),
        one('windlass-test/busybox:1', `    environment: {N: "${push}"}\n`),
      );
      fleet.git(fleet.clone, 'commit', '-q', '-a', '-m', `Push ${push}`);
      return fleet.git(fleet.clone, 'rev-parse', 'HEAD');
    });
    const last = commits.at(-1) ?? '';
    // Their objects first, so that the ten moves of the branch fit into a second also on a busy machine.
    fleet.git(fleet.clone, 'push', '-q', 'origin', `${last}:refs/heads/ahead`);
    for (const commit of commits) fleet.git(fleet.bare, 'update-ref', 'refs/heads/main', commit);
    await ready(A);
    const fresh = (await runs(A)).slice(0, -before || undefined);
    expect(fresh.length).toBeGreaterThanOrEqual(1);
    expect(fresh.length).toBeLessThanOrEqual(2);
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

  it('heals what was stopped, paused, renamed and disconnected without making anything anew', async () => {
    const [stopped, paused, renamed, disconnected] = BENT.map((stack) => `${stack}-web-1`) as [
      string,
      string,
      string,
      string,
    ];
    const before = Object.assign({}, ...[A, B, C, D, ...BENT].map(containersOf)) as Record<string, string>;
    const since = (name: string): string => inspect(name).State.StartedAt;
    const untouched = Object.keys(before).filter((name) => name !== stopped);
    const started = untouched.map(since);
    docker('stop', '-t', '0', stopped);
    docker('pause', paused);
    docker('rename', renamed, `${renamed}-mine`);
    docker('network', 'disconnect', `${BENT[3]}_default`, disconnected);
    await until(
      () => [
        running(stopped),
        running(paused),
        running(renamed),
        docker('inspect', '-f', '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}', disconnected),
      ],
      (seen) => seen.slice(0, 3).every(Boolean) && seen[3] === `${BENT[3]}_default`,
    );
    for (const stack of BENT) {
      const [run] = await until(
        () => runs(stack),
        ([last]) => last?.operation === 'heal' && last.outcome !== 'running',
      );
      expect(run).toMatchObject({ outcome: 'succeeded' });
    }
    expect(Object.assign({}, ...[A, B, C, D, ...BENT].map(containersOf))).toEqual(before);
    expect(untouched.map(since)).toEqual(started);
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
  });

  it('says what happened, to people and to machines', async () => {
    const commit = fleet.push(
      { [`stacks/${D}/compose.yaml`]: one('windlass-test/busybox:2') },
      'Take the second image',
    );
    const reconciled = await fleet.windlass('reconcile', D, '--wait', '--timeout', '60s');
    expect(reconciled.code, reconciled.err).toBe(0);
    expect(reconciled.out).toMatch(new RegExp(`${D}: Ready`));
    const got = JSON.parse((await fleet.windlass('get', D, '-o', 'json')).out) as { conditions: object[] };
    expect(got.conditions).toContainEqual(
      expect.objectContaining({ type: 'Ready', status: 'True', reason: 'Succeeded', revision: commit }),
    );
    expect((await runs(D))[0]).toMatchObject({ stack: D, operation: 'deploy', outcome: 'succeeded', revision: commit });
    const events = JSON.parse((await fleet.windlass('events', D, '-o', 'json')).out) as object[];
    expect(events.at(-1)).toMatchObject({ stack: D, revision: commit });
    const [traced] = JSON.parse((await fleet.windlass('trace', `${D}-web-1`, '-o', 'json')).out);
    expect(traced).toMatchObject({
      container: `${D}-web-1`,
      service: 'web',
      stack: D,
      revision: commit,
      subject: 'Take the second image',
    });
    const late = await fleet.windlass('wait', D, '--for', 'Drifted', '--timeout', '1s');
    expect([late.code, late.err]).toEqual([1, expect.stringContaining('is not Drifted')]);
  });

  it('is alone on its state directory', async () => {
    const second = await fleet.windlass('run');
    expect([second.code, second.err]).toEqual([6, expect.stringContaining('LOCK_HELD')]);
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
    for (let kill = 0; kill < 2; kill++) {
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

  it('waits for a word when all stacks vanish at once', async () => {
    const all = [A, C, D, ...BENT];
    fleet.push(Object.fromEntries(all.map((stack) => [`stacks/${stack}`, null])));
    await until(
      async () => (await fleet.windlass('get')).out,
      (out) => /PruneGuarded/.test(out),
    );
    for (const stack of all) expect(running(`${stack}-web-1`)).toBe(true);
    const listed = await fleet.windlass('prune', '-o', 'json');
    const { digest } = JSON.parse(listed.out) as { digest: string };
    expect((await fleet.windlass('prune', '--confirm', 'wrong')).code).toBe(1);
    expect((await fleet.windlass('prune', '--confirm', digest)).code).toBe(0);
    for (const stack of all) expect(containersOf(stack)).toEqual({});
  });

  it('ends within seconds on SIGTERM, with exit code 0', async () => {
    const began = Date.now();
    await controller.kill('SIGTERM');
    expect(Date.now() - began).toBeLessThan(10_000);
    expect(controller.lines.at(-1)).toMatch(/stopped/);
    const child = spawn(process.execPath, [PROGRAM, 'run', '--source', fleet.bare, '--state', fleet.state], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let words = '';
    child.stderr.on('data', (chunk) => {
      words += chunk;
    });
    await until(
      () => words,
      (said) => / ready$/m.test(said),
    );
    child.kill('SIGTERM');
    expect(await once(child, 'close')).toEqual([0, null]);
  });
});
