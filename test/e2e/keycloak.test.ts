// The driving case of hooks on the real engine: Keycloak's administrator is put right when, and only when, the database holds another password.
// The server is a stand-in with Keycloak's commands; its accounts are in a real PostgreSQL.
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containersOf, docker, Fleet, inspect, sleep, watchEvents } from './fleet.ts';

const SSO = 'wlt-sso';
const DB = 'wlt-sso-db';
const SERVERS = [`${SSO}-keycloak-1`, `${SSO}-keycloak-2`];
const SEQUENCE = [
  'job keycloak-init',
  'scale keycloak to 0',
  'job keycloak-bootstrap-admin',
  'scale keycloak to ref+hook://previous',
  'job keycloak-recover-admin',
];

const APP = resolve(import.meta.dirname, '../../apps/keycloak');
const read = (name: string): string => readFileSync(join(APP, name), 'utf8');

/** The bundled app with a neighbour: a change of it is an update that leaves the server alone. */
const app = (neighbour: string): Record<string, string> => ({
  ...Object.fromEntries(readdirSync(APP).map((name) => [`apps/keycloak/${name}`, read(name)])),
  'apps/keycloak/compose.yaml': read('compose.yaml').replace(
    /^networks:$/m,
    `  neighbour:\n    image: windlass-test/web:1\n    environment: { WEB_NAME: ${neighbour} }\nnetworks:`,
  ),
});

interface Hook {
  readonly phase: string;
  readonly outcome: string;
  readonly message: string;
  readonly actions: readonly { readonly name: string; readonly result: string; readonly tail: readonly string[] }[];
}

interface Seen {
  readonly id: string;
  readonly startedAt: string;
  readonly status: string;
}

let fleet: Fleet;
let changes = 0;

const update = (): string => fleet.push(app(`n${++changes}`), 'change the neighbour');
const apply = () => fleet.windlass('apply', '--yes');
const sql = (statement: string, database = 'app'): string =>
  docker('exec', `${DB}-postgres-1`, 'psql', '-qtAX', '-U', 'app', '-d', database, '-c', statement);
const diverge = (): string => sql("update account set password = 'of somebody else' where name = 'admin'");
const accounts = (): readonly string[] => sql('select name from account order by id').split('\n');
const servers = (): readonly Seen[] =>
  SERVERS.map((name) => {
    const { Id, State } = inspect(name);
    return { id: Id, startedAt: State.StartedAt, status: State.Status };
  });
const statuses = (): readonly string[] => servers().map((one) => one.status);
const adminPassword = (): string => {
  const { Env } = inspect(SERVERS[0]!)['Config'] as { Env: readonly string[] };
  return Env.find((line) => line.startsWith('KC_BOOTSTRAP_ADMIN_PASSWORD='))?.replace(/^[^=]*=/, '') ?? '';
};
const isAdminRight = (): boolean => sql("select password from account where name = 'admin'") === adminPassword();

async function lastHooks(): Promise<readonly Hook[]> {
  const { out } = await fleet.windlass('history', SSO, '-o', 'json');
  const [run] = JSON.parse(out) as { hooks?: readonly Hook[] }[];
  return run?.hooks ?? [];
}

const shortly = (hooks: readonly Hook[]) =>
  hooks.map(({ phase, outcome, actions }) => [phase, outcome, ...actions.map((one) => `${one.name}: ${one.result}`)]);

/** Asks every server 20 times a second. */
function poll(): { end(): Promise<{ readonly answers: number; readonly failures: readonly string[] }> } {
  const addresses = SERVERS.map((name) => {
    const { Networks } = inspect(name)['NetworkSettings'] as { Networks: Record<string, { IPAddress: string }> };
    return Networks[`${SSO}_default`]?.IPAddress ?? '';
  });
  let answers = 0;
  const failures: string[] = [];
  let isOver = false;
  const asking = addresses.map(async (address) => {
    while (!isOver) {
      try {
        const answer = await fetch(`http://${address}:8080/`, { signal: AbortSignal.timeout(2_000) });
        if (answer.ok && (await answer.text()).includes('keycloak')) answers++;
        else failures.push(`${address}: ${answer.status}`);
      } catch (error) {
        failures.push(`${address}: ${error}`);
      }
      await sleep(50);
    }
  });
  return {
    async end() {
      isOver = true;
      await Promise.all(asking);
      return { answers, failures };
    },
  };
}

/** What happened to containers of the stack, in order: `start wlt-sso-keycloak-1`; job containers by the name of their job. */
async function lifeDuring(work: () => Promise<unknown>): Promise<readonly string[]> {
  const watch = await watchEvents();
  await work();
  return (await watch.end())
    .filter(
      ({ Type, Action, Actor }) =>
        Type === 'container' &&
        Actor.Attributes['com.docker.compose.project'] === SSO &&
        /^(?:start|die|destroy)$/.test(Action) &&
        !/neighbour/.test(Actor.Attributes['name'] ?? ''),
    )
    .map(({ Action, Actor }) => {
      const owner = Actor.Attributes['dev.windlass.job'] ?? '';
      return `${Action} ${/^\S+\/\S+$/.test(owner) ? owner.replace(/.*\//, '') : Actor.Attributes['name']}`;
    });
}

beforeAll(async () => {
  fleet = new Fleet();
  fleet.owns(SSO, DB);
  fleet.removeLeftovers();
  // The database of a killed run of this test has another password.
  const volumes = docker('volume', 'ls', '-q', '--filter', `label=com.docker.compose.project=${DB}`)
    .split('\n')
    .filter(Boolean);
  if (volumes.length > 0) docker('volume', 'rm', ...volumes);
  const head = 'apiVersion: windlass/v1\nkind: Stack\n';
  fleet.push({
    ...app('n0'),
    [`stacks/${DB}.yaml`]: `${head}app: postgres\nvars: { image: "windlass-test/postgres:15" }\n`,
    [`stacks/${SSO}.yaml`]: `${head}app: keycloak
vars: { image: "windlass-test/keycloak:1" }
integrate: { database: ${DB} }
replicas: { keycloak: 2 }
`,
  });
});

afterAll(() => fleet?.dispose());

describe('keycloak', () => {
  it('runs post_install at its first deploy: the password fits, so the realm is made and the sequence halts', async () => {
    const ran = await apply();
    expect([ran.code, ran.err]).toEqual([0, ran.err]);
    expect(statuses()).toEqual(['running', 'running']);
    expect(shortly(await lastHooks())).toEqual([['post_install', 'halted', 'job keycloak-init: halted']]);
    expect(sql('select name from realm order by name').split('\n')).toEqual(['main', 'master']);
    expect(isAdminRight()).toBe(true);
  });

  it('bears bootstrap-admin only while no server runs: so the stand-in asks as much of the sequence as the real one', () => {
    const command =
      'kc.sh bootstrap-admin user --no-prompt --username intruder --password:env KC_BOOTSTRAP_ADMIN_PASSWORD';
    expect(() => docker('exec', SERVERS[0]!, 'sh', '-c', `/opt/keycloak/bin/${command}`)).toThrow(/a server runs/);
    expect(accounts()).toEqual(['admin']);
  });

  it('stops nothing at an update while the password fits: one job, and every request is answered', async () => {
    const before = servers();
    const polled = poll();
    update();
    const life = await lifeDuring(async () => expect((await apply()).code).toBe(0));
    const { answers, failures } = await polled.end();
    expect(failures).toEqual([]);
    expect(answers).toBeGreaterThan(40);
    expect(servers()).toEqual(before);
    expect(life).toEqual(['start keycloak-init', 'die keycloak-init', 'destroy keycloak-init']);
    expect(shortly(await lastHooks())).toEqual([['post_update', 'halted', 'job keycloak-init: halted']]);
  });

  it('when the database holds another password: down, a temporary administrator, up again, recovered, as many as before', async () => {
    const before = servers();
    diverge();
    update();
    const life = await lifeDuring(async () => expect((await apply()).code).toBe(0));
    expect(shortly(await lastHooks())).toEqual([
      ['post_update', 'succeeded', ...SEQUENCE.map((name) => `${name}: done`)],
    ]);
    expect(isAdminRight()).toBe(true);
    expect(accounts()).toEqual(['admin']);

    const [first = '', second = ''] = SERVERS;
    const order = life.filter((line) => !line.startsWith('destroy'));
    const at = (line: string): number => order.indexOf(line);
    const bootstrap = at('start keycloak-bootstrap-admin');
    expect(at('die keycloak-init')).toBeLessThan(Math.min(at(`die ${first}`), at(`die ${second}`)));
    expect(Math.max(at(`die ${first}`), at(`die ${second}`))).toBeLessThan(bootstrap);
    expect(at('die keycloak-bootstrap-admin')).toBeLessThan(Math.min(at(`start ${first}`), at(`start ${second}`)));
    expect(Math.max(at(`start ${first}`), at(`start ${second}`))).toBeLessThan(at('start keycloak-recover-admin'));
    expect(order).toHaveLength(10);

    // The same containers: nothing of them was lost.
    expect(statuses()).toEqual(['running', 'running']);
    expect(servers().map((one) => one.id)).toEqual(before.map((one) => one.id));
  });

  it('has nothing to do afterwards, and the next update halts again', async () => {
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
    update();
    expect((await apply()).code).toBe(0);
    expect(shortly(await lastHooks())).toEqual([['post_update', 'halted', 'job keycloak-init: halted']]);
  });

  it('stops nothing when it cannot know: no database, the first job fails, and so does the update', async () => {
    const before = servers();
    sql('alter database app allow_connections false', 'postgres');
    sql("select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = 'app'", 'postgres');
    update();
    let code = -1;
    let words = '';
    const life = await lifeDuring(async () => {
      const ran = await apply();
      code = ran.code;
      words = ran.out + ran.err;
    });
    sql('alter database app allow_connections true', 'postgres');
    expect([code, words]).toEqual([1, expect.stringMatching(/HOOK_FAILED.*keycloak-init/s)]);
    expect(servers()).toEqual(before);
    expect(life).toEqual(['start keycloak-init', 'die keycloak-init']);
    const [hook] = await lastHooks();
    expect(shortly(hook ? [hook] : [])).toEqual([['post_update', 'failed', 'job keycloak-init: failed']]);
    expect(hook?.actions[0]?.tail.join('\n')).toMatch(/unknown_error/);
  });

  it('runs the phase that failed, and only that, when it is tried again', async () => {
    const before = servers();
    const life = await lifeDuring(async () => expect((await apply()).code).toBe(0));
    expect(servers()).toEqual(before);
    expect(life.filter((line) => line.startsWith('start'))).toEqual(['start keycloak-init']);
    expect(shortly(await lastHooks())).toEqual([['post_update', 'halted', 'job keycloak-init: halted']]);
  });

  it('brings the server back when the work in the middle fails; the next try recovers it', async () => {
    diverge();
    sql('alter table account add constraint none check (not temporary)');
    update();
    const failed = await apply();
    expect([failed.code, failed.err]).toEqual([1, expect.stringMatching(/keycloak-bootstrap-admin/)]);
    expect(statuses()).toEqual(['running', 'running']);
    expect(shortly(await lastHooks())).toEqual([
      [
        'post_update',
        'failed',
        'job keycloak-init: done',
        'scale keycloak to 0: done',
        'job keycloak-bootstrap-admin: failed',
      ],
    ]);
    expect(isAdminRight()).toBe(false);
    sql('alter table account drop constraint none');
    expect((await apply()).code).toBe(0);
    expect(shortly(await lastHooks())).toEqual([
      ['post_update', 'succeeded', ...SEQUENCE.map((name) => `${name}: done`)],
    ]);
    expect(isAdminRight()).toBe(true);
  });

  it('is brought back and recovered by the controller that starts next when Windlass is killed while the server is down', async () => {
    diverge();
    update();
    await fleet.killed(['apply', '--yes'], () => statuses().every((status) => status === 'exited'));
    expect(statuses()).toEqual(['exited', 'exited']);
    const controller = fleet.start();
    try {
      await controller.line(/post_update was interrupted and is succeeded now/);
      await controller.line(new RegExp(`${SSO}: Deployed`));
    } finally {
      await controller.kill('SIGTERM');
    }
    expect(statuses()).toEqual(['running', 'running']);
    expect(isAdminRight()).toBe(true);
    expect(accounts()).toEqual(['admin']);
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
  });

  it('tells the password to nobody: not in the history, not in events, not in the plan', async () => {
    const password = adminPassword();
    expect(password.length).toBeGreaterThan(16);
    for (const words of [
      ['history', SSO, '-o', 'json'],
      ['events', '-o', 'json'],
      ['render', SSO],
    ])
      expect((await fleet.windlass(...words)).out).not.toContain(password);
    update();
    const planned = await fleet.windlass('plan', '--steps');
    expect(planned.code).toBe(0);
    expect(planned.out).not.toContain(password);
  });

  it('leaves no job container behind', () => {
    const left = Object.keys(containersOf(SSO)).filter(
      (name) => !SERVERS.includes(name) && !name.includes('neighbour'),
    );
    expect(left).toEqual([]);
  });
});
