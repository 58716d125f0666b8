// Recover, clone and move on the real engine: a group comes back under other names and on a machine that has nothing but its archives and keys;
// what runs is cloned with its dumps, and moved.
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSigningKey } from '../../src/adapters/archive/signing.ts';
import type { Request } from '../../src/core/spec/request.ts';
import { backupGroup } from '../../src/operations/archive/backup-group.ts';
import { doWork, planWork } from '../../src/operations/trust/request-work.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import { type OpenHouse, openHouse } from '../../src/wire.ts';
import { containersOf, docker, Fleet, inspect, sleep } from './fleet.ts';

const DB = 'wlt-rec-db';
const SITE = 'wlt-rec-site';
const PG = 'wlt-rec-pg';
const never = new AbortController().signal;
const FILES = {
  'apps/db/app.yaml': `apiVersion: windlass/v1
kind: App
version: "1"
vars: { password: { secret: true } }
provides: { sql: { host: "{{ stack.name }}", password: "{{ vars.password }}" } }
`,
  'apps/db/compose.yaml': `services:
  db:
    image: windlass-test/busybox:1
    command: sleep 1d
    user: "0"
    stop_grace_period: 0s
    environment: { PASSWORD: "{{ vars.password }}" }
    volumes: ["data:/data"]
volumes: { data: {} }
`,
  'apps/site/app.yaml': `apiVersion: windlass/v1
kind: App
version: "1"
plugs: { db: { interface: sql } }
`,
  'apps/site/compose.yaml': `services:
  web:
    image: windlass-test/busybox:1
    command: sleep 1d
    user: "0"
    stop_grace_period: 0s
    environment: { HOST: "{{ plugs.db.host }}", PASSWORD: "{{ plugs.db.password }}" }
    volumes: ["data:/data"]
volumes: { data: {} }
`,
  [`stacks/${DB}.yaml`]: 'apiVersion: windlass/v1\nkind: Stack\napp: db\ngroup: rec\n',
  [`stacks/${SITE}.yaml`]: `apiVersion: windlass/v1\nkind: Stack\napp: site\ngroup: rec\nintegrate: { db: ${DB} }\n`,
  [`stacks/${PG}.yaml`]:
    'apiVersion: windlass/v1\nkind: Stack\napp: postgres\nvars: { image: "windlass-test/postgres:15", database: shop, user: keeper }\n',
};
const LIFE = { apiVersion: 'windlass/v1' as const, reason: 'a test', expires: '2030-01-01T00:00:00Z' };
const exec = (container: string, ...command: string[]): string => docker('exec', container, ...command);
const environment = (container: string): Record<string, string> =>
  Object.fromEntries(
    (inspect(container)['Config'] as { Env: readonly string[] }).Env.map((line) => line.split('=') as [string, string]),
  );
/** Appends line after line as long as it is let; what it was told to be written is acknowledged. */
function writer(container: string) {
  const acknowledged: string[] = [];
  const first = Promise.withResolvers<void>();
  let isOver = false;
  const work = (async () => {
    for (let line = 1; !isOver; line++)
      await promisify(execFile)('docker', ['exec', container, 'sh', '-c', `echo ${line} >> /data/lines && sync`]).then(
        () => {
          acknowledged.push(String(line));
          first.resolve();
        },
        () => sleep(50),
      );
  })();
  return {
    begun: first.promise,
    async stop(): Promise<readonly string[]> {
      isOver = true;
      await work;
      return acknowledged;
    },
  };
}

describe('on the real engine', () => {
  let fleet: Fleet;
  let house: OpenHouse;
  let bench: Workbench;
  let archive: string;
  let password: string;

  const open = (stateDir: string, url: string, trustedKeys: readonly string[] = []) =>
    openHouse({
      stateDir,
      source: { name: 'main', url, ref: 'main' },
      settleMs: 500,
      settleSamples: 2,
      archives: { trustedKeys },
    });
  const done = async (on: Workbench, id: string, request: Request): Promise<string> => {
    const answer = await planWork(on, request, never);
    if (answer.kind === 'wait') throw new Error(answer.why);
    return doWork(on, id, answer.work, { signal: never });
  };

  beforeAll(async () => {
    fleet = new Fleet();
    fleet.owns(DB, SITE, PG);
    for (const name of [`${DB}2`, `${SITE}2`, `${DB}3`, `${DB}4`, `${PG}2`, `${PG}2-boot1`]) fleet.owns(name);
    fleet.removeLeftovers();
    fleet.push(FILES);
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code, applied.err).toBe(0);
    house = await open(fleet.state, fleet.bare);
    bench = new Workbench(house);
    await house.source.fetch();
    exec(`${DB}-db-1`, 'sh', '-c', 'echo old > /data/file; chown 70:70 /data/file');
    exec(`${SITE}-web-1`, 'sh', '-c', 'echo old > /data/file');
    password = environment(`${DB}-db-1`)['PASSWORD']!;
    archive = (await backupGroup(bench, 'rec', never, () => {})).archive;
    exec(`${DB}-db-1`, 'sh', '-c', 'echo new > /data/file');
  }, 120_000);
  afterAll(async () => {
    await house?.close();
    await fleet.dispose();
  });

  it('a group comes back under other names, on each other, beside what runs', async () => {
    const before = inspect(`${DB}-db-1`);
    const words = await done(bench, 'names', {
      ...LIFE,
      kind: 'Recover',
      stacks: [SITE, DB],
      archive,
      rename: { [DB]: `${DB}2`, [SITE]: `${SITE}2` },
    });
    expect(words).toMatch(/wlt-rec-db2: done .*; wlt-rec-site2: done/);
    expect(exec(`${DB}2-db-1`, 'cat', '/data/file')).toBe('old');
    expect(exec(`${DB}2-db-1`, 'stat', '-c', '%u:%g', '/data/file')).toBe('70:70');
    expect(environment(`${SITE}2-web-1`)).toMatchObject({ HOST: `${DB}2`, PASSWORD: password });
    expect(exec(`${DB}-db-1`, 'cat', '/data/file')).toBe('new');
    expect(inspect(`${DB}-db-1`).State.StartedAt).toBe(before.State.StartedAt);
  }, 120_000);

  it('what runs is cloned on a secret of its own, and the clone is moved', async () => {
    const ports = { db: ['127.0.0.1:18497:5432'] };
    const clone = { ...LIFE, kind: 'Clone' as const, stack: DB, target: `${DB}3`, ports };
    expect(await done(bench, 'clone', clone)).toMatch(/is a clone of wlt-rec-db from archive/);
    expect(exec(`${DB}3-db-1`, 'cat', '/data/file')).toBe('new');
    const minted = environment(`${DB}3-db-1`)['PASSWORD']!;
    expect(minted).toMatch(/^.{32}$/);
    expect(minted).not.toBe(password);
    const move = { ...LIFE, kind: 'Move' as const, stack: `${DB}3`, target: `${DB}4` };
    const writing = writer(`${DB}3-db-1`);
    await writing.begun;
    expect(await done(bench, 'move', move)).toMatch(/wlt-rec-db3 runs as wlt-rec-db4/);
    const acknowledged = await writing.stop();
    // What the source took is there, up to the last line before it was stopped.
    expect(exec(`${DB}4-db-1`, 'cat', '/data/lines').split('\n')).toEqual(expect.arrayContaining([...acknowledged]));
    expect(exec(`${DB}4-db-1`, 'cat', '/data/file')).toBe('new');
    expect(environment(`${DB}4-db-1`)['PASSWORD']).toBe(minted);
    expect(docker('port', `${DB}4-db-1`)).toBe('5432/tcp -> 127.0.0.1:18497');
    expect(containersOf(`${DB}3`)).toEqual({});
    expect(docker('volume', 'ls', '-q', '--filter', `label=com.docker.compose.project=${DB}3`)).not.toBe('');
    const refused = await planWork(bench, { ...move, stack: DB, target: `${DB}5` }, never);
    expect(refused).toMatchObject({ kind: 'wait', why: expect.stringMatching(/integrates wlt-rec-db/) });
  }, 180_000);

  it('a database that is made again from its dump lets in who has the secret of the clone', async () => {
    const sql = (stack: string, statement: string): string =>
      exec(`${stack}-postgres-1`, 'psql', '-qtAX', '-U', 'keeper', '-d', 'shop', '-c', statement);
    sql(PG, "create table orders (what text); insert into orders values ('tea')");
    const clone = { ...LIFE, kind: 'Clone' as const, stack: PG, target: `${PG}2` };
    expect(await done(bench, 'dump', clone)).toMatch(/is a clone of wlt-rec-pg from archive/);
    const vault = house.vault!;
    const minted = await vault.find('password', [`stack/${PG}2`]);
    expect(minted).not.toBe(await vault.find('password', [`stack/${PG}`]));
    const login = (password: string): string =>
      exec(
        ...([`${PG}2-postgres-1`, 'env', `PGPASSWORD=${password}`, 'psql', '-h', 'postgres', '-U', 'keeper'] as const),
        ...['-d', 'shop', '-qtAXc', 'select what from orders'],
      );
    expect(login(minted!)).toBe('tea');
    expect(() => login('another')).toThrow(/password authentication failed/);
    const tested = await fleet.windlass('stack', 'test', `${PG}2`);
    expect(tested.code, tested.err).toBe(0);
    expect((await vault.list()).filter(({ scope }) => scope.endsWith('-boot1'))).toEqual([]);
  }, 180_000);

  it('a machine that has nothing but the archives and the keys has the group again', async () => {
    for (const project of [DB, SITE]) {
      docker('rm', '-fv', ...Object.values(containersOf(project)));
      const label = `label=com.docker.compose.project=${project}`;
      for (const name of docker('volume', 'ls', '-q', '--filter', label).split('\n').filter(Boolean))
        docker('volume', 'rm', name);
    }
    const state = join(fleet.dir, 'bare-state');
    mkdirSync(state, { mode: 0o700 });
    for (const name of ['archives', 'age.key'])
      cpSync(join(fleet.state, name), join(state, name), { recursive: true, preserveTimestamps: true });
    const empty = join(fleet.dir, 'empty.git');
    fleet.git(fleet.dir, 'init', '-q', '--bare', '-b', 'main', empty);
    const bare = await open(state, empty, [openSigningKey(fleet.state).publicKey]);
    try {
      const on = new Workbench(bare);
      await done(on, 'bare', { ...LIFE, kind: 'Recover', stacks: [DB, SITE], archive });
      expect(exec(`${DB}-db-1`, 'cat', '/data/file')).toBe('old');
      expect(exec(`${SITE}-web-1`, 'cat', '/data/file')).toBe('old');
      expect(environment(`${SITE}-web-1`)).toMatchObject({ HOST: DB, PASSWORD: password });
    } finally {
      await bare.close();
    }
  }, 120_000);
});
