// Restore on the real engine: data that was archived comes back in place of newer data, and beside the running original under another name.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Fault } from '../../src/core/fault.ts';
import { backup } from '../../src/operations/archive/backup.ts';
import { keptData } from '../../src/operations/archive/generations.ts';
import { planRestore, type RestoreRequest } from '../../src/operations/archive/plan-restore.ts';
import { restore, restoreRecord } from '../../src/operations/archive/restore.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import { type OpenHouse, openHouse } from '../../src/wire.ts';
import { docker, Fleet, inspect } from './fleet.ts';

const STACK = 'wlt-restore';
const OTHER = 'wlt-restore-copy';
const never = new AbortController().signal;
const exec = (container: string, ...command: string[]): string => docker('exec', container, ...command);

const compose = (image: string) => `services:
  web:
    image: windlass-test/busybox:${image}
    command: sleep 1d
    stop_grace_period: 0s
    user: "0"
    environment: { PASSWORD: $PASSWORD }
    ports: ["127.0.0.1:18473:80"]
    volumes: [data:/data, ./conf:/conf]
volumes:
  data: { labels: { kept: "yes" } }
`;

describe('a restore', () => {
  let fleet: Fleet;
  let house: OpenHouse;
  let bench: Workbench;
  let archive: string;

  const planned = async (request: Partial<RestoreRequest> = {}) => {
    const answer = await planRestore(bench, { stack: STACK, archive, ...request }, never);
    if (answer.kind === 'wait') throw new Error(answer.why);
    return answer.plan;
  };
  const safety = async (stack: string): Promise<string> =>
    (await backup(bench, stack, { signal: never, purpose: 'safety', within: true })).archive;
  const run = async (id: string, request: Partial<RestoreRequest> = {}) =>
    restore(bench, await planned(request), { signal: never, backup: safety, id });

  beforeAll(async () => {
    fleet = new Fleet();
    fleet.owns(STACK, OTHER);
    fleet.removeLeftovers();
    fleet.push({
      [`stacks/${STACK}/stack.yaml`]:
        'apiVersion: windlass/v1\nkind: Stack\nvars: { PASSWORD: "@secret(20,alnum)!" }\n',
      [`stacks/${STACK}/compose.yaml`]: compose('1'),
    });
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code, applied.err).toBe(0);
    house = await openHouse({
      stateDir: fleet.state,
      source: { name: 'main', url: fleet.bare, ref: 'main' },
      settleMs: 500,
      settleSamples: 2,
    });
    bench = new Workbench(house);
    await house.source.fetch();
    exec(
      `${STACK}-web-1`,
      'sh',
      '-c',
      'echo old > /data/file; chown 999:26 /data/file; chmod 600 /data/file; echo old > /conf/file',
    );
    archive = (await backup(bench, STACK, { signal: never })).archive;
    exec(`${STACK}-web-1`, 'sh', '-c', 'echo new > /data/file; touch /data/more; echo new > /conf/file');
    fleet.push({ [`stacks/${STACK}/compose.yaml`]: compose('2') });
    const again = await fleet.windlass('apply', '--yes');
    expect(again.code, again.err).toBe(0);
    await house.source.fetch();
  }, 180_000);
  afterAll(async () => {
    await house?.close();
    await fleet.dispose();
  });

  const secret = (container: string): string =>
    (inspect(container)['Config'] as { Env: readonly string[] }).Env.find((line) => line.startsWith('PASSWORD='))!;

  it('goes to a second name beside the running original, with a port of its own', async () => {
    const before = inspect(`${STACK}-web-1`);
    const clash = await planned({ target: OTHER }).catch((error: unknown) => error);
    expect((clash as Fault).code).toBe('PORT_TAKEN');
    await run('copy', { target: OTHER, ports: { web: ['127.0.0.1:18474:80'] } });
    expect(exec(`${OTHER}-web-1`, 'cat', '/data/file', '/conf/file')).toBe('old\nold');
    expect(exec(`${OTHER}-web-1`, 'stat', '-c', '%u:%g %a', '/data/file')).toBe('999:26 600');
    expect(exec(`${OTHER}-web-1`, 'ls', '/data')).toBe('file');
    expect(docker('port', `${OTHER}-web-1`)).toBe('80/tcp -> 127.0.0.1:18474');
    expect(secret(`${OTHER}-web-1`)).toBe(secret(`${STACK}-web-1`));
    expect(inspect(`${STACK}-web-1`).Id).toBe(before.Id);
    expect(inspect(`${STACK}-web-1`).State.StartedAt).toBe(before.State.StartedAt);
    expect(exec(`${STACK}-web-1`, 'cat', '/data/file')).toBe('new');
  }, 120_000);

  it('takes the place of newer data, which stays beside it', async () => {
    await run('in-place');
    expect(restoreRecord(house, 'in-place')?.phase).toBe('done');
    expect(exec(`${STACK}-web-1`, 'cat', '/data/file', '/conf/file')).toBe('old\nold');
    expect(exec(`${STACK}-web-1`, 'ls', '/data')).toBe('file');
    expect((inspect(`${STACK}-web-1`)['Config'] as { Image: string }).Image).toBe('windlass-test/busybox:1');
    expect(
      keptData(house.store)
        .map((one) => one.kind)
        .sort(),
    ).toEqual(['folder', 'volume']);
    const kept = docker(
      'run',
      '--rm',
      '--network',
      'none',
      '-v',
      `${STACK}_data:/data`,
      'windlass-test/busybox:1',
      'ls',
      '/data',
    );
    expect(kept).toBe('file\nmore');
    expect(docker('volume', 'inspect', '-f', '{{.Labels.kept}}', `${STACK}_data_g1`)).toBe('yes');
    // Held: git asks for another image, and an apply leaves the stack alone.
    const { commit } = (await planned()) ?? {};
    expect(commit).toBe(house.store.applied(STACK)?.revision);
    const got = await fleet.windlass('get', STACK);
    expect(got.out + got.err).not.toMatch(/error/i);
    // Compose itself finds its volumes as it made them: a new look changes nothing.
    const at = await bench.reader.read(house.store.applied(STACK)!.revision);
    const [one] = await bench.survey([STACK], at, await bench.look.fresh([STACK]));
    expect(one?.kind === 'judged' && one.diff.changes).toEqual([]);
  }, 120_000);

  it('can be archived and restored again, and deploys from git go on with the restored data', async () => {
    const second = (await backup(bench, STACK, { signal: never })).archive;
    exec(`${STACK}-web-1`, 'sh', '-c', 'echo newer > /data/file; echo newer > /conf/file');
    // biome-ignore lint/suspicious/noThenProperty: the word of the file format
    await run('again', { archive: second, then: 'follow-git' });
    expect(exec(`${STACK}-web-1`, 'cat', '/data/file', '/conf/file')).toBe('old\nold');
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code, applied.err).toBe(0);
    expect((inspect(`${STACK}-web-1`)['Config'] as { Image: string }).Image).toBe('windlass-test/busybox:2');
    expect(exec(`${STACK}-web-1`, 'cat', '/data/file', '/conf/file')).toBe('old\nold');
  }, 120_000);

  it('brings the live data back when the restored stack does not come up', async () => {
    exec(`${STACK}-web-1`, 'sh', '-c', 'echo live > /data/file');
    const plan = await planned();
    const failing = new Workbench({
      ...house,
      runtime: new Proxy(house.runtime, {
        get(target, key) {
          if (key === 'up' && failures-- > 0) return () => Promise.reject(new Fault('COMPOSE_FAILED', 'no'));
          return Reflect.get(target, key, target);
        },
      }),
    });
    let failures = 1;
    const work = restore(failing, plan, { signal: never, backup: safety, id: 'failing' });
    await expect(work).rejects.toThrow('no');
    expect(exec(`${STACK}-web-1`, 'cat', '/data/file', '/conf/file')).toBe('live\nold');
    expect(docker('volume', 'ls', '-q', '--filter', `name=${STACK}_data_g`).split('\n').sort()).toEqual([
      `${STACK}_data_g1`,
      `${STACK}_data_g2`,
    ]);
    expect(restoreRecord(house, 'failing')?.phase).toBe('failed');
  }, 120_000);
});
