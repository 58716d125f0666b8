// A stack that a request made, on a real engine under a running controller: what stops it, or dies while it is at rest, does not keep it down.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clone, planClone } from '../../src/operations/archive/clone.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import { openHouse } from '../../src/wire.ts';
import { docker, Fleet, until } from './fleet.ts';

const STACK = 'wlt-byreq';
const TARGET = 'wlt-byreq2';
const COMPOSE = `services:
  web:
    image: windlass-test/busybox:1
    command: sleep 1d
    network_mode: none
    stop_grace_period: 0s
    user: "0"
    volumes: [data:/data]
volumes: { data: {} }
`;
const { signal } = new AbortController();

describe('a stack that lives by a request', () => {
  let fleet: Fleet;
  const stateOf = (): string => docker('inspect', '-f', '{{.State.Status}}', `${TARGET}-web-1`);
  const runs = async () =>
    JSON.parse((await fleet.windlass('history', TARGET, '-o', 'json')).out) as { operation: string; outcome: string }[];
  const ready = async (): Promise<string> =>
    JSON.parse((await fleet.windlass('get', TARGET, '-o', 'json')).out)
      .conditions.filter((one: { type: string }) => /^(Ready|Healthy)$/.test(one.type))
      .map((one: { status: string }) => one.status)
      .join(' ');

  beforeAll(async () => {
    fleet = new Fleet();
    fleet.owns(STACK, TARGET);
    fleet.removeLeftovers();
    fleet.push({ [`stacks/${STACK}/compose.yaml`]: COMPOSE });
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code, applied.err).toBe(0);
    // Large enough for a backup of it to be met at work.
    docker('exec', `${STACK}-web-1`, 'sh', '-c', 'dd if=/dev/urandom of=/data/big bs=1M count=256 2>/dev/null');
    const made = await fleet.windlass('backup', STACK);
    expect(made.code, made.err).toBe(0);
    const archive = made.out.trim();
    const source = { name: 'main', url: fleet.bare, ref: 'main' };
    const house = await openHouse({ stateDir: fleet.state, source, settleMs: 100, settleSamples: 2 });
    try {
      const bench = new Workbench(house);
      const answer = await planClone(bench, { kind: 'Clone', stack: STACK, target: TARGET, archive }, signal);
      if (answer.kind === 'wait') throw new Error(answer.why);
      const never = () => Promise.reject(new Error('not asked for'));
      await clone(bench, answer.plan, { signal, id: 'q1', backup: never, archiveLive: never });
    } finally {
      await house.close();
    }
  }, 300_000);
  afterAll(() => fleet.dispose());

  it('comes back after a stop by hand, and after a backup of it that is killed', async () => {
    const controller = fleet.start('--interval', '1h');
    await until(ready, (now) => now === 'True True', 30_000);
    docker('stop', `${TARGET}-web-1`);
    await until(
      async () => stateOf(),
      (now) => now === 'running',
      30_000,
    );
    await until(ready, (now) => now === 'True True', 30_000);

    await fleet.killed(['backup', TARGET], () => stateOf() === 'exited');
    await until(
      async () => stateOf(),
      (now) => now === 'running',
      30_000,
    );
    await until(runs, (all) => all.find((run) => run.operation === 'backup')?.outcome === 'interrupted', 30_000);
    await until(ready, (now) => now === 'True True', 30_000);
    await controller.kill('SIGTERM');
    expect((await fleet.windlass('diff', TARGET)).code).toBe(0);
  }, 180_000);

  it('is no reason to wait for a pipe that is to be imported', async () => {
    const pipe = join(fleet.state, 'pipe');
    execFileSync('mkfifo', [pipe]);
    expect((await fleet.windlass('backups', 'import', pipe)).err).toMatch(/is no regular file/);
  });
});
