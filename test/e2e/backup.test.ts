// Backups of bundled apps on the real engine, through the CLI as a user types it: a dump of a real PostgreSQL, volumes of stopped services,
// damage that is found, archives that are carried elsewhere.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { docker, Fleet, inspect } from './fleet.ts';

const PG = 'wlt-bk-pg';
const FRESH = 'wlt-bk-fresh';
const REDIS = 'wlt-bk-redis';
const FILES = 'wlt-bk-files';
const APPS = resolve(import.meta.dirname, '../../apps');

const stack = (app: string, image: string): string =>
  `apiVersion: windlass/v1\nkind: Stack\napp: ${app}\nvars: { image: "windlass-test/${image}" }\n`;
const server = (name: string): string => `${name}-postgres-1`;
/** The name goes by the environment: psql would read one with `=` as an address. */
const sql = (statement: string, database = 'app', name = PG): string =>
  docker(
    ...['exec', '-e', `PGDATABASE=${database}`, '-e', 'PGUSER=app', server(name)],
    ...['psql', '-qtAX', '-v', 'ON_ERROR_STOP=1', '-c', statement],
  );
const startedAt = (container: string): string => inspect(container).State.StartedAt;

interface Manifest {
  readonly payloads: readonly {
    readonly kind: string;
    readonly name: string;
    readonly blob: { readonly digest: string };
  }[];
  readonly notCaptured: readonly string[];
  readonly boot: { readonly kind: string };
  readonly restoreJobs: readonly string[];
  readonly vault: { readonly keys: readonly unknown[] };
}

let fleet: Fleet;
let elsewhere: Fleet;

const good = async (...args: string[]): Promise<string> => {
  const { code, out, err } = await fleet.windlass(...args);
  expect(code, `${args.join(' ')}: ${out}${err}`).toBe(0);
  return out.trim();
};
const show = async (id: string): Promise<{ readonly manifest: Manifest; readonly signedBy: string }> =>
  JSON.parse(await good('backups', 'show', id, '-o', 'json'));

/** Where a blob lies in the store. */
const blobFile = (digest: string): string => {
  const below = join(fleet.state, 'archives', 'blobs');
  const found = readdirSync(below, { recursive: true, encoding: 'utf8' }).find((path) => path.endsWith(digest));
  if (!found) throw new Error(`no blob ${digest}`);
  return join(below, found);
};

/** A folder with what a stored payload holds. */
function unpacked(blob: string): string {
  const folder = mkdtempSync(join(fleet.dir, 'payload-'));
  execFileSync('tar', ['-x', '--zstd', '--no-same-owner', '-f', blob, '-C', folder]);
  return folder;
}

beforeAll(async () => {
  fleet = new Fleet();
  elsewhere = new Fleet();
  fleet.owns(PG, FRESH, REDIS, FILES);
  fleet.removeLeftovers();
  fleet.push({
    [`stacks/${PG}.yaml`]: stack('postgres', 'postgres:15'),
    [`stacks/${FRESH}.yaml`]: stack('postgres', 'postgres:15'),
    [`stacks/${REDIS}.yaml`]: stack('redis', 'redis:7'),
    [`stacks/${FILES}.yaml`]: stack('files', 'busybox:1'),
  });
  await good('apply', '--yes');
  sql(
    "create table orders (id serial primary key, what text not null); insert into orders (what) values ('tea'), ('CREATE ROLE app;')",
  );
  sql("create role clerk login password 'of the clerk'; grant select on orders to clerk");
  sql('create database "odd name=1" owner clerk');
  sql("create table notes (line text); insert into notes values ('kept too')", 'odd name=1');
});
afterAll(async () => {
  await fleet.dispose();
  await elsewhere.dispose();
});

describe('a backup of PostgreSQL', () => {
  let id = '';
  let dump = '';

  it('holds a dump of its roles and databases; the server is not stopped for it', async () => {
    const before = startedAt(server(PG));
    id = await good('backup', PG);
    expect(id).toMatch(/^[0-9a-f]{64}$/);
    expect(startedAt(server(PG))).toBe(before);
    const { manifest } = await show(id);
    expect(manifest).toMatchObject({
      payloads: [{ kind: 'volume', name: 'dump' }],
      notCaptured: ['volume data is excluded by backup.yaml'],
      boot: { kind: 'double' },
      restoreJobs: ['postgres-replay'],
      vault: { keys: [{ scope: `stack/${PG}`, key: 'password' }] },
    });
    dump = join(unpacked(blobFile(manifest.payloads[0]!.blob.digest)), 'latest');
    const texts = readdirSync(dump).map((name) => readFileSync(join(dump, name), 'utf8'));
    expect(texts.some((text) => text.includes('tea\n'))).toBe(true);
    expect(texts.some((text) => text.includes('kept too'))).toBe(true);
    expect(texts.some((text) => text.includes('CREATE ROLE clerk'))).toBe(true);
    expect(await good('get', PG)).toMatch(/^backup {4}[0-9a-f]{12}, \d+s ago, .* never verified$/m);
  });

  it('whose dump fails is a failed backup: nothing more is listed, and the earlier dump is left alone', async () => {
    docker('exec', server(PG), 'sh', '-c', 'mkdir /tmp/aside && mv /usr/lib/postgresql/15/bin/pg_dump /tmp/aside/');
    try {
      const { code, err } = await fleet.windlass('backup', PG);
      expect([code, err]).toEqual([1, expect.stringMatching(/postgres-dump/)]);
    } finally {
      docker('exec', server(PG), 'sh', '-c', 'mv /tmp/aside/pg_dump /usr/lib/postgresql/15/bin/');
    }
    expect(JSON.parse(await good('backups', 'list', PG, '-o', 'json'))).toHaveLength(1);
    expect(docker('exec', server(PG), 'ls', '/dump')).toMatch(/latest/);
  });

  it('is replayed by its `restore` job: into a new server, and again over what is there; the password is that of the stack', async () => {
    docker('exec', server(FRESH), 'sh', '-c', 'rm -rf /dump/latest && mkdir /dump/latest');
    docker('cp', `${dump}/.`, `${server(FRESH)}:/dump/latest`);
    const { script } = parse(readFileSync(join(APPS, 'postgres/postgres-replay.job.yaml'), 'utf8')) as {
      script: string;
    };
    for (let round = 0; round < 2; round++) {
      expect(docker('exec', server(FRESH), 'sh', '-e', '-c', script)).toBe('replayed 2 databases');
      expect(sql('select what from orders order by id', 'app', FRESH)).toBe('tea\nCREATE ROLE app;');
      expect(sql('select line from notes', 'odd name=1', FRESH)).toBe('kept too');
      expect(sql("select has_table_privilege('clerk', 'orders', 'select')", 'app', FRESH)).toBe('t');
      expect(sql("select pg_get_userbyid(datdba) from pg_database where datname = 'odd name=1'", 'app', FRESH)).toBe(
        'clerk',
      );
      sql('delete from orders', 'app', FRESH);
    }
    // Over the network, with its own password and not with that of the stack that was dumped.
    const { out, code } = await fleet.windlass('stack', 'test', FRESH);
    expect([code, out]).toEqual([0, expect.any(String)]);
  });

  it('is read again as a whole; one byte that flipped is found, and which blob it is', async () => {
    expect(await good('backups', 'verify', id.slice(0, 12))).toMatch(/: right, \d+ blobs/);
    expect(await good('get', PG)).toMatch(/^backup .* read again \d+s ago, never verified$/m);
    const { digest } = (await show(id)).manifest.payloads[0]!.blob;
    const file = blobFile(digest);
    const bytes = readFileSync(file);
    const flip = (): void => {
      bytes[bytes.length >> 1]! ^= 1;
      chmodSync(file, 0o600);
      writeFileSync(file, bytes);
      chmodSync(file, 0o400);
    };
    flip();
    const { code, out } = await fleet.windlass('backups', 'verify', id);
    expect([code, out]).toEqual([1, `${id.slice(0, 12)}: damaged\n  blob ${digest}: damaged\n`]);
    flip();
    await good('backups', 'verify', id);
  });

  it('goes as one file that tar lists and sha256sum checks; elsewhere it is taken once its signer is trusted', async () => {
    const file = join(fleet.dir, 'pg.bak');
    await good('backups', 'export', id, file);
    const names = execFileSync('tar', ['-tf', file], { encoding: 'utf8' }).trim().split('\n');
    const { manifest, signedBy } = await show(id);
    const { digest } = manifest.payloads[0]!.blob;
    const blob = names.find((name) => name.endsWith(digest));
    expect(blob).toBeDefined();
    const folder = join(fleet.dir, 'by-hand');
    mkdirSync(folder);
    execFileSync('tar', ['-xf', file, '-C', folder, blob!]);
    expect(execFileSync('sha256sum', [join(folder, blob!)], { encoding: 'utf8' })).toMatch(new RegExp(`^${digest} `));

    elsewhere.push({ 'README.md': 'nothing is here yet' });
    const refused = await elsewhere.windlass('backups', 'import', file);
    expect(refused.code).toBe(5);
    expect(refused.err).toMatch(/ARCHIVE_UNTRUSTED/);
    expect(JSON.parse((await elsewhere.windlass('backups', 'list', '-o', 'json')).out)).toEqual([]);
    const taken = await elsewhere.windlass('backups', 'import', file, '--trust-key', signedBy);
    expect([taken.code, taken.out.trim()]).toEqual([0, id]);
    expect(await elsewhere.windlass('backups', 'verify', id)).toMatchObject({
      code: 0,
      out: expect.stringMatching(/right/),
    });
  });
});

describe('a backup of volumes', () => {
  it.each([
    [REDIS, `${REDIS}-redis-1`],
    [FILES, `${FILES}-files-1`],
  ])('of %s is read while the server is stopped; it runs again and its tests pass', async (name, container) => {
    const before = startedAt(container);
    const id = await good('backup', name);
    expect(startedAt(container)).not.toBe(before);
    expect(inspect(container).State.Status).toBe('running');
    const { manifest } = await show(id);
    expect(manifest).toMatchObject({ payloads: [{ name: 'data' }], notCaptured: [], boot: { kind: 'single' } });
    const held = readdirSync(unpacked(blobFile(manifest.payloads[0]!.blob.digest)));
    expect(held).toContain(name === REDIS ? 'appendonlydir' : 'index.html');
    await good('stack', 'test', name);
    await good('backups', 'verify', id);
  });
});
