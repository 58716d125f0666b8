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
const APP = 'wlt-restore-app';
const DUMPED = {
  'apps/dumped/app.yaml': 'apiVersion: windlass/v1\nkind: App\nversion: "1"\n',
  'apps/dumped/backup.yaml':
    'apiVersion: windlass/v1\nkind: Backup\nvolumes: { include: [dump] }\nquiesce: { db: none }\ndump: [dump]\nrestore: [replay]\n',
  'apps/dumped/dump.job.yaml':
    'apiVersion: windlass/v1\nkind: Job\ncontext: exec\nservice: db\nscript: cp /data/file /dump/file\n',
  'apps/dumped/replay.job.yaml':
    'apiVersion: windlass/v1\nkind: Job\ncontext: exec\nservice: db\nscript: test ! -e /data/file && cp /dump/file /data/file\n',
  'apps/dumped/compose.yaml': `services:
  db:
    image: windlass-test/busybox:1
    container_name: ${APP}-db
    command: sleep 1d
    user: "0"
    stop_grace_period: 0s
    ports: ["127.0.0.1:18475:80"]
    volumes: ["data:/data:rw:0750:7:8", "dump:/dump"]
volumes: { data: {}, dump: {} }
`,
  [`stacks/${APP}.yaml`]: 'apiVersion: windlass/v1\nkind: Stack\napp: dumped\n',
};
const PG = 'wlt-restore-pg';
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
    fleet.owns(STACK, OTHER, APP, `${APP}-boot1`, PG, `${PG}-boot1`, `${PG}-2`, `${PG}-2-boot1`);
    fleet.removeLeftovers();
    fleet.push({
      [`stacks/${STACK}/stack.yaml`]:
        'apiVersion: windlass/v1\nkind: Stack\nvars: { PASSWORD: "@secret(20,alnum)!" }\n',
      [`stacks/${STACK}/compose.yaml`]: compose('1'),
      [`stacks/${STACK}/conf/from-git`]: 'first\n',
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
    fleet.push({ [`stacks/${STACK}/compose.yaml`]: compose('2'), [`stacks/${STACK}/conf/from-git`]: 'second\n' });
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
    expect(exec(`${STACK}-web-1`, 'cat', '/conf/from-git')).toBe('second');
    await run('in-place');
    expect(exec(`${STACK}-web-1`, 'cat', '/conf/from-git')).toBe('first');
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
    expect(exec(`${STACK}-web-1`, 'cat', '/conf/from-git')).toBe('second');
  }, 120_000);

  it('boots twice where a dump is replayed, on a volume that nothing wrote to before', async () => {
    fleet.push(DUMPED);
    const applied = await fleet.windlass('apply', '--stack', APP, '--yes');
    expect(applied.code, applied.err).toBe(0);
    await house.source.fetch();
    exec(`${APP}-db`, 'sh', '-c', 'echo old > /data/file');
    const made = (await backup(bench, APP, { signal: never })).archive;
    exec(`${APP}-db`, 'sh', '-c', 'echo new > /data/file');
    const answer = await planRestore(bench, { stack: APP, archive: made }, never);
    if (answer.kind === 'wait') throw new Error(answer.why);
    expect(answer.plan.boot.kind).toBe('double');
    await restore(bench, answer.plan, { signal: never, backup: safety, id: 'double' });
    expect(exec(`${APP}-db`, 'cat', '/data/file')).toBe('old');
    expect(exec(`${APP}-db`, 'stat', '-c', '%u:%g %a', '/data')).toBe('7:8 750');
    expect(docker('ps', '-aq', '--filter', `label=com.docker.compose.project=${APP}-boot1`)).toBe('');
    expect(docker('volume', 'ls', '-q', '--filter', `name=${APP}-boot1`)).toBe('');
    expect(docker('network', 'ls', '-q', '--filter', `name=${APP}-boot1`)).toBe('');
    expect(
      docker(
        'run',
        '--rm',
        '--network',
        'none',
        '-v',
        `${APP}_data:/data`,
        'windlass-test/busybox:1',
        'cat',
        '/data/file',
      ),
    ).toBe('new');
  }, 180_000);

  it('replays a PostgreSQL server over its newer self, and beside it with the same password', async () => {
    fleet.push({
      [`stacks/${PG}.yaml`]:
        'apiVersion: windlass/v1\nkind: Stack\napp: postgres\nvars: { image: "windlass-test/postgres:15" }\n',
    });
    const applied = await fleet.windlass('apply', '--stack', PG, '--yes');
    expect(applied.code, applied.err).toBe(0);
    await house.source.fetch();
    /** Over the network, so that the password counts. */
    const sql = (stack: string, statement: string): string =>
      exec(
        `${stack}-postgres-1`,
        'sh',
        '-c',
        `PGPASSWORD="$POSTGRES_PASSWORD" psql -h "$(hostname -i)" -qtAX -U app -d app -c "${statement}"`,
      );
    sql(PG, 'create table t (v text); create role reader');
    sql(PG, "insert into t values ('old')");
    const made = (await backup(bench, PG, { signal: never })).archive;
    sql(PG, "update t set v = 'new'; create table more (v text)");
    for (const target of [`${PG}-2`, PG]) {
      const answer = await planRestore(bench, { stack: PG, target, archive: made }, never);
      if (answer.kind === 'wait') throw new Error(answer.why);
      expect(answer.plan.boot.kind).toBe('double');
      await restore(bench, answer.plan, { signal: never, backup: safety, id: `to-${target}` });
      expect(sql(target, 'select v from t')).toBe('old');
      expect(sql(target, "select count(*) from pg_tables where tablename = 'more'")).toBe('0');
      expect(sql(target, "select count(*) from pg_roles where rolname = 'reader'")).toBe('1');
      if (target !== PG) expect(sql(PG, 'select v from t')).toBe('new');
    }
  }, 300_000);

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
