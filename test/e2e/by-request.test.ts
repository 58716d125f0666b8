// A stack that a request made, on a real engine under a running controller: what stops it, or dies while it is at rest, does not keep it down.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Purge } from '../../src/core/spec/request.ts';
import { clone, planClone } from '../../src/operations/archive/clone.ts';
import { planRestore } from '../../src/operations/archive/plan-restore.ts';
import { restore } from '../../src/operations/archive/restore.ts';
import { planPurge, purge } from '../../src/operations/trust/purge.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import { openHouse } from '../../src/wire.ts';
import { containersOf, docker, Fleet, until } from './fleet.ts';

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
const GOES = 'wlt-byreq3';
const { signal } = new AbortController();
const unasked = () => Promise.reject(new Error('not asked for'));

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

  const within = async (work: (bench: Workbench) => Promise<void>): Promise<void> => {
    const source = { name: 'main', url: fleet.bare, ref: 'main' };
    const house = await openHouse({ stateDir: fleet.state, source, settleMs: 100, settleSamples: 2 });
    try {
      await work(new Workbench(house));
    } finally {
      await house.close();
    }
  };
  /** How it stands, what it is told to run, and how many holds are shown of it. */
  const stands = async (stack: string): Promise<string> => {
    const { conditions, holds } = JSON.parse((await fleet.windlass('get', stack, '-o', 'json')).out);
    const { status, reason } = conditions.find((one: { type: string }) => one.type === 'Ready');
    const command = JSON.parse(docker('inspect', '-f', '{{json .Config.Cmd}}', `${stack}-web-1`)).join(' ');
    return `${status} ${reason}: ${command}, ${holds.length} holds`;
  };

  beforeAll(async () => {
    fleet = new Fleet();
    fleet.owns(STACK, TARGET, GOES);
    fleet.removeLeftovers();
    fleet.push({ [`stacks/${STACK}/compose.yaml`]: COMPOSE });
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code, applied.err).toBe(0);
    // Large enough for a backup of it to be met at work.
    docker('exec', `${STACK}-web-1`, 'sh', '-c', 'dd if=/dev/urandom of=/data/big bs=1M count=256 2>/dev/null');
    const made = await fleet.windlass('backup', STACK);
    expect(made.code, made.err).toBe(0);
    const archive = made.out.trim();
    await within(async (bench) => {
      for (const target of [TARGET, GOES]) {
        const answer = await planClone(bench, { kind: 'Clone', stack: STACK, target, archive }, signal);
        if (answer.kind === 'wait') throw new Error(answer.why);
        await clone(bench, answer.plan, { signal, id: `q-${target}`, backup: unasked, archiveLive: unasked });
      }
      const answer = await planRestore(bench, { stack: STACK, archive, safety: 'none' }, signal);
      if (answer.kind === 'wait') throw new Error(answer.why);
      await restore(bench, answer.plan, { signal, id: 'r1', backup: unasked });
    });
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

  it.each([
    ['that was restored', STACK, '1d'],
    ['that git declares only afterwards', TARGET, '4d'],
  ])(
    'or one %s is held until a later commit to it, which ends that for good',
    async (_, stack, first) => {
      const declare = (time: string) =>
        fleet.push({ [`stacks/${stack}/compose.yaml`]: COMPOSE.replace('sleep 1d', `sleep ${time}`) });
      declare(first);
      const controller = fleet.start('--interval', '1h', '--poll', '1s');
      const becomes = (wanted: RegExp) =>
        until(
          () => stands(stack),
          (now) => wanted.test(now),
          60_000,
        );
      await becomes(/^False Held: sleep 1d, 1 holds$/);
      declare('2d');
      await becomes(/^True Succeeded: sleep 2d, 0 holds$/);
      declare(first);
      await becomes(new RegExp(`^True Succeeded: sleep ${first}, 0 holds$`));
      await controller.kill('SIGTERM');
    },
    240_000,
  );

  it('goes by `prune` and its name, and its data by a purge after that', async () => {
    const request: Purge = {
      apiVersion: 'windlass/v1',
      kind: 'Purge',
      stack: GOES,
      volumes: 'all',
      reason: 'no longer needed',
      expires: '2030-01-01T00:00:00Z',
    };
    const volumes = () => docker('volume', 'ls', '-q', '--filter', `label=com.docker.compose.project=${GOES}`);
    const purged = async (): Promise<string> => {
      let why = '';
      await within(async ({ house, look }) => {
        const facts = await planPurge(house, look, request, signal);
        if (facts.kind === 'wait') why = facts.why;
        else await purge(house, facts.plan, signal);
      });
      return why;
    };
    expect((await fleet.windlass('plan')).out).toMatch(
      new RegExp(`${GOES}: lives by a request.*windlass prune ${GOES}`),
    );
    expect((await fleet.windlass('render', GOES)).out).toMatch(/sleep/);
    expect(await purged()).toMatch(new RegExp(`windlass prune ${GOES}. takes its containers away first$`));
    const listed = await fleet.windlass('prune', GOES);
    const [, confirm = ''] = /prune .* --confirm ([0-9a-f]{16})/.exec(listed.err) ?? [];
    const done = await fleet.windlass('prune', GOES, '--confirm', confirm);
    expect([done.code, done.err]).toEqual([0, '']);
    expect([Object.keys(containersOf(GOES)), volumes()]).toEqual([[], expect.stringMatching(GOES)]);
    expect(await purged()).toBe('');
    expect([volumes(), (await fleet.windlass('get', GOES)).code]).toEqual(['', 3]);
  }, 120_000);

  it('is no reason to wait for a pipe that is to be imported', async () => {
    const pipe = join(fleet.state, 'pipe');
    execFileSync('mkfifo', [pipe]);
    expect((await fleet.windlass('backups', 'import', pipe)).err).toMatch(/is no regular file/);
  });
});
