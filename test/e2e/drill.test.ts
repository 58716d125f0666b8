// A drill on the real engine: a server on a real PostgreSQL is rehearsed from its archives beside the running originals, which notice nothing;
// nothing of it stays, also after kill -9.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containersOf, docker, Fleet, inspect, sleep, watchEvents } from './fleet.ts';

const DB = 'wlt-dr-db';
const SSO = 'wlt-dr-sso';
const SCRATCH = [DB, SSO].flatMap((name) => [`${name}-drill`, `${name}-drill-boot1`]);
const label = (project: string): string => `label=com.docker.compose.project=${project}`;
const left = (): string =>
  SCRATCH.map((project) =>
    [
      ['ps', '-aq'],
      ['network', 'ls', '-q'],
      ['volume', 'ls', '-q'],
    ]
      .map((list) => docker(...list, '--filter', label(project)))
      .join(''),
  ).join('');

interface Facts {
  readonly HostConfig: { readonly PortBindings: object | null };
  readonly NetworkSettings: { readonly Networks: Record<string, object> };
}

let fleet: Fleet;

beforeAll(async () => {
  fleet = new Fleet();
  fleet.owns(DB, SSO, ...SCRATCH);
  fleet.removeLeftovers();
  const head = 'apiVersion: windlass/v1\nkind: Stack\ngroup: dr\n';
  fleet.push({
    [`stacks/${DB}.yaml`]: `${head}app: postgres\nvars: { image: "windlass-test/postgres:15" }\nports: { postgres: ["127.0.0.1:18496:5432"] }\n`,
    [`stacks/${SSO}.yaml`]: `${head}app: keycloak\nvars: { image: "windlass-test/keycloak:1" }\nintegrate: { database: ${DB} }\n`,
  });
  const applied = await fleet.windlass('apply', '--yes');
  expect(applied.code, applied.err).toBe(0);
  const made = await fleet.windlass('backup', '--group', 'dr');
  expect(made.code, made.err).toBe(0);
}, 300_000);
afterAll(() => fleet?.dispose());

describe('a drill', () => {
  it('restores both apart from the originals, runs the test hooks, verifies the archive, and is gone', async () => {
    const live = [`${DB}-postgres-1`, `${SSO}-keycloak-1`];
    const before = live.map((name) => inspect(name).State);
    const secrets = (await fleet.windlass('vault', 'list', '-o', 'json')).out;
    const watch = await watchEvents();
    const seen = new Map<string, Facts>();
    const networks = new Map<string, boolean>();
    let isOver = false;
    const drilling = fleet.windlass('backups', 'drill', SSO, '-o', 'json').finally(() => (isOver = true));
    while (!isOver) {
      for (const project of SCRATCH) {
        for (const [name, id] of Object.entries(containersOf(project)))
          try {
            seen.set(name, inspect(id) as unknown as Facts);
          } catch (error) {
            // Listed, and removed a moment later: the drill makes and takes away all the time.
            if (!/No such (?:object|container)/i.test(String(error))) throw error;
          }
        for (const line of docker('network', 'ls', '--filter', label(project), '--format', '{{.Name}} {{.Internal}}')
          .split('\n')
          .filter(Boolean))
          networks.set(line.split(' ')[0]!, line.endsWith(' true'));
      }
      await sleep(200);
    }
    const done = await drilling;
    expect(done.code, done.err).toBe(0);
    const events = (await watch.end()).filter(({ Actor }) => live.includes(Actor.Attributes['name'] ?? ''));
    expect(JSON.parse(done.out)).toMatchObject({ outcome: 'verified', message: expect.stringMatching(/`test` hooks/) });

    const names = [...seen.keys()];
    expect(names).toEqual(expect.arrayContaining([`${DB}-drill-postgres-1`, `${SSO}-drill-keycloak-1`]));
    for (const [name, { HostConfig, NetworkSettings }] of seen) {
      expect([name, Object.keys(HostConfig.PortBindings ?? {})]).toEqual([name, []]);
      for (const network of Object.keys(NetworkSettings.Networks))
        expect(network).toMatch(/-drill(?:-boot1)?_default$/);
    }
    expect([...networks.values()].every(Boolean), JSON.stringify([...networks])).toBe(true);
    expect(networks.size).toBeGreaterThanOrEqual(2);

    expect(left()).toBe('');
    expect(live.map((name) => inspect(name).State)).toEqual(
      before.map((state) => expect.objectContaining({ Status: 'running', StartedAt: state.StartedAt })),
    );
    expect(events).toEqual([]);
    expect((await fleet.windlass('vault', 'list', '-o', 'json')).out).toBe(secrets);

    const listed = JSON.parse((await fleet.windlass('backups', 'list', SSO, '-o', 'json')).out) as {
      verifiedAtMs: number | null;
    }[];
    expect(listed).toEqual([expect.objectContaining({ verifiedAtMs: expect.any(Number) })]);
    const shown = (await fleet.windlass('get', SSO)).out;
    expect(shown).toMatch(/^drill +[0-9a-f]{12}, verified \S+ ago, took /m);
    expect((await fleet.windlass('history', SSO)).out).toMatch(/drill +\S* *succeeded/);
  }, 300_000);

  it('that was killed is taken away by the controller that starts next', async () => {
    await fleet.killed(['backups', 'drill', DB], () => Object.keys(containersOf(`${DB}-drill-boot1`)).length > 0);
    expect(left()).not.toBe('');
    const controller = fleet.start();
    try {
      await controller.line(/what an interrupted drill left is taken away/, 120_000);
      expect(left()).toBe('');
    } finally {
      await controller.kill('SIGTERM');
    }
    expect(inspect(`${DB}-postgres-1`).State.Status).toBe('running');
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
  }, 300_000);
});
