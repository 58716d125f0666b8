// The round trip, as people make it: a fleet with a database and a server on it is archived, everything of it is destroyed, the state
// directory too, and it comes back on a bare machine by a request that was signed and approved through git. Both sides are compared field by
// field. Then the same beside the running original, under other names.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openHouse } from '../../src/wire.ts';
import { People } from '../cli/trust-people.ts';
import { PROGRAM } from '../program.ts';
import { containersOf, docker, inspect, sleep, until } from './fleet.ts';

const DB = 'wlt-rt-db';
const SSO = 'wlt-rt-sso';
const WEB = 'wlt-rt-web';
const FIRST = [DB, SSO, WEB] as const;
const second = (name: string): string => `${name}2`;
const ALL = FIRST.flatMap((name) => [name, second(name)]).flatMap((name) => [name, `${name}-boot1`]);
const HEAD = 'apiVersion: windlass/v1\nkind: Stack\ngroup: rt\n';
const FILES: Readonly<Record<string, string>> = {
  [`stacks/${DB}.yaml`]: `${HEAD}app: postgres\nvars: { image: "windlass-test/postgres:15", database: accounts, user: keeper }\n`,
  [`stacks/${SSO}.yaml`]: `${HEAD}app: keycloak\nvars: { image: "windlass-test/keycloak:1", realm: staff }\nintegrate: { database: ${DB} }\n`,
  [`stacks/${WEB}/stack.yaml`]: `${HEAD}vars: { TOKEN: "@secret(24,alnum)!", GREETING: "good \\"day\\" $$HOME" }\n`,
  [`stacks/${WEB}/compose.yaml`]: `services:
  web:
    image: windlass-test/busybox:1
    command: sleep 1d
    stop_grace_period: 0s
    user: "0"
    environment: { TOKEN: $TOKEN, GREETING: $GREETING, PLAIN: "1" }
    labels: { team: web }
    ports: ["127.0.0.1:18491:80", "127.0.0.1:18492:81/udp"]
    volumes: [data:/data, ./conf:/conf, ./uploads:/uploads]
volumes:
  data: { labels: { kept: "yes" } }
`,
  [`stacks/${WEB}/conf/site.conf`]: 'served from git\n',
};

type Side = Record<string, string>;
const people = new People();
const bare = people.file('fleet.git');
let anchor = '';
let machine = '';
let archive = '';
let trustKey = '';
let before: Side = {};
let log = '';
/** Everything that any process said, and the arguments of every process that was seen meanwhile. */
let said = '';
let stop = async (): Promise<void> => {};

function windlass(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  return new Promise((done) => {
    execFile(
      process.execPath,
      [PROGRAM, ...args],
      { cwd: people.folder, encoding: 'utf8', timeout: 120_000, maxBuffer: 64 << 20 },
      (error, out, err) => {
        said += out + err;
        done({ code: error ? Number(error.code ?? -1) : 0, out, err });
      },
    );
  });
}

/** From now on this machine is the one that the configuration is about. */
function become(name: string): void {
  machine = people.file(name);
  mkdirSync(machine, { mode: 0o700 });
  writeFileSync(
    people.file('windlass.yaml'),
    `apiVersion: windlass/v1\nkind: Controller\nstate: ${machine}\nsources: [{ url: "${bare}", poll: 1s }]\n${anchor}\n`,
  );
}

async function run(): Promise<void> {
  const child = spawn(process.execPath, [PROGRAM, 'run', '--settle', '500ms'], {
    cwd: people.folder,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  log = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const watching = setInterval(() => (said += processes()), 250);
  stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM');
      await once(child, 'close');
    }
    clearInterval(watching);
    said += log;
  };
}

/** Arguments of whatever runs outside of containers: what an app hands to itself is its own. */
function processes(): string {
  let found = '';
  const here = readlinkSync('/proc/self/ns/pid');
  for (const pid of readdirSync('/proc'))
    if (/^\d+$/.test(pid))
      try {
        if (readlinkSync(`/proc/${pid}/ns/pid`) !== here) continue;
        found += `arguments: ${readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').replaceAll('\n', ' ')}\n`;
      } catch {
        // It ended since it was listed, or it is none of ours: whatever this test starts runs as the one who reads here.
      }
  return found;
}

function destroy(projects: readonly string[]): void {
  const labels = projects.map((project) => `label=com.docker.compose.project=${project}`);
  for (const [list, remove] of [
    [
      ['ps', '-aq'],
      ['rm', '-fv'],
    ],
    [
      ['network', 'ls', '-q'],
      ['network', 'rm'],
    ],
    [
      ['volume', 'ls', '-q'],
      ['volume', 'rm', '-f'],
    ],
  ] as const)
    for (const label of labels) {
      const ids = docker(...list, '--filter', label)
        .split('\n')
        .filter(Boolean);
      if (ids.length > 0) docker(...remove, ...ids);
    }
}

const sql = (stack: string, statement: string): string =>
  docker('exec', `${stack}-postgres-1`, 'psql', '-qtAX', '-U', 'keeper', '-d', 'accounts', '-c', statement);

/** Everything of the three stacks that a user would miss, as one line a field. `as`: under which names they run. */
async function look(as: (name: string) => string): Promise<Side> {
  const side: Side = {};
  /** By the names of the first side; a volume of a later generation is the same volume. */
  const plain = (text: string): string => {
    let said = text;
    for (const name of FIRST) said = said.replaceAll(as(name), name);
    return said
      .replaceAll(machine, '/state')
      .replace(/_g\d+\b/g, '')
      .replace(/\.generation-\d+\//g, '');
  };
  const put = (field: string, value: unknown): void => {
    side[plain(field)] = plain(typeof value === 'string' ? value : JSON.stringify(value));
  };
  const house = await openHouse({ stateDir: machine, source: { name: 'main', url: bare, ref: 'main' } });
  for (const name of FIRST) {
    const stack = as(name);
    for (const container of Object.keys(containersOf(stack))) {
      const { Config, HostConfig, Image, State, NetworkSettings, Mounts } = inspect(container) as unknown as {
        Config: { Env: string[]; User: string; Labels: Record<string, string> };
        HostConfig: { PortBindings: object; RestartPolicy: object };
        Image: string;
        State: { Status: string };
        NetworkSettings: { Networks: Record<string, { Aliases: string[] | null }> };
        Mounts: { Type: string; Name?: string; Source: string; Destination: string; RW: boolean }[];
      };
      put(`${container} image`, Image);
      put(`${container} state`, State.Status);
      put(`${container} user`, Config.User);
      put(`${container} restart`, HostConfig.RestartPolicy);
      put(`${container} ports`, HostConfig.PortBindings);
      for (const line of Config.Env.sort()) put(`${container} env ${line.split('=')[0]}`, line.replace(/^[^=]*=/, ''));
      for (const [network, { Aliases }] of Object.entries(NetworkSettings.Networks))
        put(`${container} network ${network}`, (Aliases ?? []).filter((one) => !/^[0-9a-f]{12}$/.test(one)).sort());
      for (const one of Mounts)
        put(`${container} mount ${one.Destination}`, `${one.Type} ${one.Name ?? one.Source} ${one.RW}`);
      for (const [label, value] of Object.entries(Config.Labels))
        if (!/^(?:com\.docker\.compose|dev\.windlass)\./.test(label)) put(`${container} label ${label}`, value);
      for (const label of ['project', 'service', 'container-number', 'oneoff'])
        put(`${container} label ${label}`, Config.Labels[`com.docker.compose.${label}`] ?? '');
      put(`${container} label stack`, Config.Labels['dev.windlass.stack'] ?? '');
    }
    for (const volume of docker('volume', 'ls', '-q', '--filter', `label=com.docker.compose.project=${stack}`)
      .split('\n')
      .filter(Boolean)) {
      const { Labels } = JSON.parse(docker('volume', 'inspect', volume))[0] as { Labels: Record<string, string> };
      for (const [label, value] of Object.entries(Labels))
        if (!/^com\.docker\.compose\.(?:version|config-hash)$|^dev\.windlass\./.test(label))
          put(`volume ${volume} label ${label}`, value);
      put(
        `volume ${volume} root`,
        docker(
          ...['run', '--rm', '--network', 'none', '-v', `${volume}:/v:ro`, 'windlass-test/busybox:1'],
          ...['stat', '-c', '%u:%g %a', '/v'],
        ),
      );
    }
    for (const { scope, key } of await house.vault!.list())
      if (scope === `stack/${stack}`) put(`vault ${scope} ${key}`, (await house.vault!.find(key, [scope])) ?? '');
  }
  await house.close();
  const [db, sso, web] = FIRST.map(as) as [string, string, string];
  put('rows of orders', sql(db, 'select * from orders order by id'));
  put('rows of realm', sql(db, 'select name from realm order by name'));
  put('rows of account', sql(db, "select name, password from account where name = 'admin'"));
  put('owner of orders', sql(db, "select tableowner from pg_tables where tablename = 'orders'"));
  put('roles', sql(db, "select rolname, rolsuper from pg_roles where rolname !~ '^pg_' order by 1"));
  const seen = 'for f in /data /data/* /conf /conf/* /uploads /uploads/*; do stat -c "%n %u:%g %a %F %Y" "$f"; done';
  for (const line of docker('exec', `${web}-web-1`, 'sh', '-c', seen).split('\n')) {
    const [path = '', owner, mode, ...rest] = line.split(' ');
    // A folder's time changes with what is made in it; that of the mounted one is not data.
    const isFolder = rest.join(' ').startsWith('directory');
    put(`file ${path}`, [owner, mode, ...(isFolder ? ['directory'] : rest)].join(' '));
    if (!isFolder) put(`file ${path} content`, docker('exec', `${web}-web-1`, 'cat', path));
  }
  const login = 'PGPASSWORD="$KC_DB_PASSWORD" psql -h "$HOST" -U "$KC_DB_USERNAME" -d accounts -qtAXc "select 1"';
  put('the edge works', docker('exec', '-e', `HOST=${db}`, `${sso}-keycloak-1`, 'sh', '-c', login));
  return side;
}

/** What differs, and in words how much was compared. */
function report(title: string, left: Side, right: Side): readonly string[] {
  const fields = [...new Set([...Object.keys(left), ...Object.keys(right)])].sort();
  const differing = fields.filter((field) => left[field] !== right[field]);
  const kinds = new Map<string, number>();
  for (const field of fields) {
    const kind =
      /(?:^| )(image|env|ports|network|mount|label|root|vault|rows|file|state)\b/.exec(field)?.[1] ?? 'other';
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  const secret = (field: string): boolean => /env .*(?:PASSWORD|TOKEN)|^vault|rows of account/.test(field);
  const shown = (field: string, value: string | undefined): string =>
    value === undefined ? 'absent' : secret(field) ? '(a secret)' : value;
  console.log(
    [
      `${title}: ${fields.length} fields compared (${[...kinds].map(([kind, count]) => `${count} ${kind}`).join(', ')}), ${differing.length} differ`,
      ...differing.map((field) => `  ${field}: ${shown(field, left[field])} → ${shown(field, right[field])}`),
    ].join('\n'),
  );
  return differing;
}

/** Asked for on a branch, approved by two others, merged. */
async function ask(id: string, ...words: string[]): Promise<void> {
  people.git('switch', '-q', '-c', `pr-${id}`);
  const said = await people.say('anna', 'request', ...words, '--reason', 'the host burned down', '--id', id);
  expect([said.code, said.err]).toEqual([0, expect.any(String)]);
  for (const name of ['bert', 'cleo'] as const) {
    const approved = await people.say(name, 'approve', id);
    expect([approved.code, approved.err]).toEqual([0, expect.any(String)]);
  }
  people.git('switch', '-q', 'main');
  people.git('merge', '-q', '--no-ff', '--no-gpg-sign', '-m', `Merge ${id}`, `pr-${id}`);
}

const push = (): string => people.git('push', '-q', 'origin', 'main');
const told = async (id: string): Promise<string> => (await windlass('requests', id)).out;
/** By the controller's own log: whoever asks all the time slows it down. */
async function ended(id: string): Promise<string> {
  await until(
    () => log,
    (said) => new RegExp(`request ${id} (succeeded|failed|indeterminate|refused|expired)`).test(said),
    300_000,
  ).catch((error) => {
    throw new Error(`${error}\n${log}`);
  });
  return told(id);
}

beforeAll(async () => {
  destroy(ALL);
  people.sh('git', 'init', '-q', '--bare', '-b', 'main', bare);
  people.git('remote', 'add', 'origin', bare);
  for (const [path, text] of Object.entries(FILES)) people.commitFile(path, text);
  const admins = ['anna', 'bert', 'cleo'].flatMap((one) => ['--admin', `${one}=${people.file(`${one}.pub`)}`]);
  people.be('anna');
  const said = await people.windlass(['trust', 'init', ...admins, '--threshold', '2']);
  expect([said.code, said.err]).toEqual([0, expect.any(String)]);
  anchor = said.out;
  push();
  become('machine-1');
  await run();
  await until(
    () => log,
    (said) => FIRST.every((name) => said.includes(` ${name}: Deployed`)),
    300_000,
  );
}, 400_000);

afterAll(async () => {
  await stop();
  destroy(ALL);
  people.close();
});

describe('the round trip', () => {
  it('begins with a group that is archived, carried out, and destroyed with its state directory', async () => {
    sql(DB, "create table orders (id int primary key, what text); insert into orders values (1, 'tea'), (2, 'Käse')");
    sql(DB, 'create role reader login; grant select on orders to reader');
    docker(
      ...['exec', `${WEB}-web-1`, 'sh', '-c'],
      'echo rows > /data/file; chown 999:26 /data/file; chmod 640 /data/file; chown 65534:65534 /data; chmod 711 /data; echo up > /uploads/one; chown 26:26 /uploads/one; chmod 4755 /uploads/one',
    );
    const made = await windlass('backup', '--group', 'rt');
    expect([made.code, made.err]).toEqual([0, expect.any(String)]);
    archive = made.out.trim();
    before = await look((name) => name);
    const exported = await windlass('backups', 'export', archive, people.file('rt.bkg'));
    expect(exported.code).toBe(0);
    trustKey = /--trust-key (\S+)/.exec(exported.err)?.[1] ?? '';
    copyFileSync(`${machine}/age.key`, people.file('age.key'));
    await stop();
    destroy(ALL);
    rmSync(machine, { recursive: true, force: true });
  }, 400_000);

  it('takes nothing in on a bare machine that does not know who signed, and says what to do', async () => {
    become('machine-2');
    copyFileSync(people.file('age.key'), `${machine}/age.key`);
    chmodSync(`${machine}/age.key`, 0o600);
    const refused = await windlass('backups', 'import', people.file('rt.bkg'));
    expect([refused.code, refused.err]).toEqual([5, expect.stringMatching(/ARCHIVE_UNTRUSTED[\s\S]*--trust-key/)]);
    const taken = await windlass('backups', 'import', people.file('rt.bkg'), '--trust-key', trustKey);
    expect([taken.code, taken.out.trim()]).toEqual([0, archive]);
    // From here on it remembers what ran: requests that are signed later are its own.
    const accepted = await windlass('trust', 'accept', people.git('rev-parse', 'main'));
    expect([accepted.code, accepted.err]).toEqual([0, expect.any(String)]);
    await sleep(1_100);
  }, 200_000);

  it('ends on the bare machine with what there was: rows, ports, passwords, edges, owners, files', async () => {
    await ask('back', 'recover', '--archive', archive, '--stacks', FIRST.join(','));
    push();
    await run();
    const out = await ended('back');
    console.log(out);
    expect(out, log).toMatch(/state {6}succeeded/);
    // Nobody but the recover touches what it makes on the way.
    expect(log).not.toMatch(/-boot1: /);
    // What is to be recovered was not deployed empty before.
    expect(log).not.toMatch(new RegExp(`${DB}: deploy`));
    const differing = report('recovered on a bare machine', before, await look((name) => name));
    expect(differing).toEqual([]);
  }, 400_000);

  it('comes back beside the running original, under other names, without touching it', async () => {
    const ids = FIRST.flatMap((name) => Object.values(containersOf(name)));
    await ask(
      'beside',
      ...['recover', '--archive', archive, '--stacks', `${DB},${SSO}`],
      ...['--rename', `${DB}=${second(DB)}`, '--rename', `${SSO}=${second(SSO)}`],
    );
    const group = JSON.parse((await windlass('backups', 'show', archive, '-o', 'json')).out) as {
      manifest: { members: { stack: string; archive: string }[] };
    };
    const ofWeb = group.manifest.members.find((one) => one.stack === WEB)!.archive;
    await ask(
      'copy',
      ...['restore', WEB, '--archive', ofWeb, '--target', second(WEB)],
      ...['--port', 'web=127.0.0.1:18493:80', '--port', 'web=127.0.0.1:18494:81/udp'],
    );
    push();
    for (const id of ['beside', 'copy']) expect(await ended(id), log).toMatch(/state {6}succeeded/);
    const differing = report('beside the original', before, await look(second));
    // Ports are those that the request names.
    expect(differing).toEqual([`${WEB}-web-1 ports`]);
    expect(FIRST.flatMap((name) => Object.values(containersOf(name)))).toEqual(ids);
  }, 400_000);

  it('told no secret to anybody: output, logs, arguments, events, plans, receipts, manifests, the state directory', async () => {
    const secrets = Object.entries(before).flatMap(([field, value]) => (field.startsWith('vault ') ? [value] : []));
    expect(secrets).toHaveLength(3);
    for (const words of [
      ['events', '-o', 'json'],
      ['history', '-o', 'json', '--limit', '500'],
      ['requests', '-o', 'json'],
      ['requests', 'back', '--receipt'],
      ['plan', '--steps'],
      ['plan', '--out', people.file('plan.json')],
      ['get', DB, '-o', 'json'],
    ])
      await windlass(...words);
    const listed = JSON.parse((await windlass('backups', 'list', '-o', 'json')).out) as { id: string }[];
    for (const { id } of listed) expect((await windlass('backups', 'show', id, '-o', 'json')).code).toBe(0);
    await stop();
    const forms = secrets.flatMap((value) => [
      value,
      Buffer.from(value).toString('base64').replace(/=+$/, ''),
      encodeURIComponent(value),
    ]);
    const holds = (text: string | Buffer): boolean => forms.some((form) => text.includes(form));
    expect(said.split('\n').filter(holds)).toEqual([]);
    const files = [
      people.file('plan.json'),
      ...readdirSync(machine, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name)),
    ];
    expect(files.length).toBeGreaterThan(20);
    expect(files.filter((file) => holds(readFileSync(file)))).toEqual([]);
  }, 400_000);
});
