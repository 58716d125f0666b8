// Duties of every Runtime, checked on the simulated world and on a real engine.
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Fault } from '../../src/core/fault.ts';
import { hashesOf, hashWithIds } from '../../src/core/render/config-hash.ts';
import type { EngineEvent, ObservedContainer } from '../../src/core/state/observed.ts';
import type { LogLine, ResolveInput } from '../../src/ports/runtime.ts';
import { realWorld, simWorld, testLabel, type World } from './runtime-harness.ts';

type Loose = Record<string, unknown>;

const busybox = 'windlass-test/busybox:1';
const signal = () => AbortSignal.timeout(60_000);

const service = (extra: Loose = {}): Loose => ({
  image: busybox,
  command: ['sleep', '1000'],
  init: true,
  stop_grace_period: '0s',
  labels: testLabel,
  ...extra,
});

// Compose's own variables: escaped, so that this language leaves them alone.
const withVariables = `services:
  a:
    image: windlass-test/busybox:\${TAG}
    environment: {WHO: "\${WHO}"}
  p:
    image: x
    profiles: [extra]
`;
const withTag = `services: {a: {image: "x:\${TAG}", volumes: ["./d:/d"]}}`;
const withRequired = `services: {a: {image: "x:\${NOPE:?say it}"}}`;

const file = (services: Loose, extra: Loose = {}): string =>
  JSON.stringify({ services, networks: { default: { labels: testLabel } }, ...extra });

async function faultOf(work: Promise<unknown>): Promise<Fault> {
  const error: unknown = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(Fault);
  return error as Fault;
}

async function eventually<T>(read: () => Promise<T> | T, isRight: (value: T) => boolean): Promise<T> {
  const untilMs = Date.now() + 10_000;
  for (;;) {
    const value = await read();
    if (isRight(value) || Date.now() > untilMs) return value;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

describe.each([
  ['simulated world', simWorld],
  ['real engine', realWorld],
])('%s', (_name, open) => {
  let world: World;

  beforeAll(() => {
    world = open();
  });
  afterAll(async () => {
    await world.close();
  });

  const resolve = (input: Partial<ResolveInput> & Pick<ResolveInput, 'project' | 'directory'>) =>
    world.runtime.resolve({ files: [], profiles: [], environment: {}, ...input });

  /** Resolves and ups; all services unless named. */
  async function up(
    at: { project: string; directory: string },
    text: string,
    options: {
      services?: readonly string[];
      force?: boolean;
      noStart?: boolean;
      signal?: AbortSignal;
      note?: (line: string) => void;
    } = {},
  ): Promise<string> {
    const model = await resolve({ ...at, text });
    await world.runtime.up({
      project: at.project,
      projectDir: at.directory,
      model: { text: model },
      services: options.services ?? Object.keys((JSON.parse(model) as { services: Loose }).services),
      forceRecreate: options.force ?? false,
      noStart: options.noStart ?? false,
      signal: options.signal ?? signal(),
      ...(options.note ? { note: options.note } : {}),
    });
    return model;
  }

  async function containers(
    project: string,
    inspect: 'known' | 'all' = 'known',
  ): Promise<readonly ObservedContainer[]> {
    const observed = await world.runtime.observe({ inspect: inspect === 'all' ? [project] : inspect });
    return observed.containers.filter((container) => container.project === project);
  }

  async function one(project: string, name: string, inspect: 'known' | 'all' = 'known'): Promise<ObservedContainer> {
    const found = (await containers(project, inspect)).filter((container) => container.service === name);
    expect(found).toHaveLength(1);
    return found[0]!;
  }

  /** Events from now on; `stop` ends the stream. */
  async function listen(): Promise<{ readonly seen: EngineEvent[]; stop(): Promise<void> }> {
    const controller = new AbortController();
    const seen: EngineEvent[] = [];
    const done = (async () => {
      for await (const event of world.runtime.events(controller.signal)) seen.push(event);
    })();
    await eventually(
      () => seen.length,
      (count) => count > 0,
    );
    return {
      seen,
      async stop() {
        controller.abort();
        await done;
      },
    };
  }

  describe('looking', () => {
    test('the engine says who it is', async () => {
      const info = await world.runtime.info();
      expect(info.id).not.toBe('');
      expect(info.apiVersion).toMatch(/^1\.\d+$/);
      expect(info.composeVersion).toMatch(/^\d+\.\d+\.\d+/);
      expect((await world.runtime.observe({ inspect: 'known' })).engineId).toBe(info.id);
    });

    test('what is up is observed, and its labels are the hashes that we compute', async () => {
      const at = world.project();
      const text = file(
        {
          web: service({
            image: 'windlass-test/web:1',
            command: null,
            ports: ['127.0.0.1::8080'],
            volumes: ['data:/data'],
            environment: { B: 'x<&>$$y', A: '1' },
            healthcheck: { test: ['CMD', 'true'], interval: '1s', start_period: '0s' },
            networks: { default: null, back: { aliases: ['other'] } },
            deploy: { replicas: 2 },
          }),
          side: service({
            depends_on: ['web'],
            network_mode: 'service:web',
            labels: { ...testLabel, '10': 'a', '2': 'b$$c' },
          }),
        },
        {
          volumes: { data: { driver: 'local', driver_opts: { type: 'tmpfs', device: 'tmpfs' }, labels: testLabel } },
          networks: { default: { labels: testLabel }, back: { internal: true, driver: 'bridge', labels: testLabel } },
        },
      );
      const model = await up(at, text);
      const hashes = hashesOf(model);
      const observed = await eventually(
        () => world.runtime.observe({ inspect: [at.project] }),
        (seen) =>
          seen.containers.filter(({ project, health }) => project === at.project && health === 'healthy').length >= 2,
      );
      const ours = observed.containers.filter((container) => container.project === at.project);
      const web = ours
        .filter((container) => container.service === 'web')
        .sort((left, right) => left.number - right.number);
      expect(
        web.map(({ name, number, state, health, exitCode, oneOff }) => ({
          name,
          number,
          state,
          health,
          exitCode,
          oneOff,
        })),
      ).toEqual(
        [1, 2].map((number) => ({
          name: `${at.project}-web-${number}`,
          number,
          state: 'running',
          health: 'healthy',
          exitCode: null,
          oneOff: false,
        })),
      );
      expect(web.map((container) => container.configHash)).toEqual([
        hashes.services.get('web')?.hash,
        hashes.services.get('web')?.hash,
      ]);
      expect(web[0]).toMatchObject({ image: 'windlass-test/web:1', workingDir: at.directory, stoppedByHand: false });
      expect(web[0]?.networks.map((network) => network.name).sort()).toEqual([
        `${at.project}_back`,
        `${at.project}_default`,
      ]);
      expect(web[0]?.mounts).toMatchObject([{ kind: 'volume', name: `${at.project}_data`, destination: '/data' }]);
      expect(web[0]?.ports).toMatchObject([{ hostIp: '127.0.0.1', target: 8080, protocol: 'tcp' }]);
      expect(web[0]?.ports[0]?.published).toBeGreaterThan(0);
      expect(web[0]?.detail?.aliases[`${at.project}_back`]).toEqual(
        expect.arrayContaining(['web', 'other', `${at.project}-web-1`]),
      );
      expect(web[0]?.detail?.resources).toEqual({
        memoryBytes: 0,
        memoryReservationBytes: 0,
        nanoCpus: 0,
        cpuShares: 0,
        cpuset: '',
        pidsLimit: 0,
        restart: 'no',
      });
      expect(web[0]?.detail?.startedAt).toMatch(/^20/);

      const side = ours.find((container) => container.service === 'side');
      expect(hashes.services.get('side')).toMatchObject({ needsIds: true, parents: ['web'] });
      // Which of two replicas lends its namespace is the engine's listing order, and so not ours to say.
      const lent = web.map((one) => hashWithIds(hashes.services.get('side')!, new Map([['web', one.id]])));
      expect(lent).toContain(side?.configHash);

      expect(
        Object.fromEntries(
          observed.networks
            .filter((network) => network.project === at.project)
            .map(({ key, configHash }) => [key, configHash]),
        ),
      ).toEqual(Object.fromEntries(hashes.networks));
      expect(observed.volumes.filter((volume) => volume.project === at.project)).toEqual([
        { name: `${at.project}_data`, project: at.project, key: 'data', configHash: hashes.volumes.get('data') },
      ]);
      const image = observed.images.find((candidate) => candidate.tags.includes('windlass-test/web:1'));
      expect(web[0]?.imageId).toBe(image?.id);
    });

    test('a container that Compose did not make is observed too', async () => {
      const { project } = world.project();
      const id = await world.person.makeContainer(`${project}-foreign`, {});
      const observed = await world.runtime.observe({ inspect: 'known' });
      expect(observed.containers.find((container) => container.id === id)).toMatchObject({
        name: `${project}-foreign`,
        project: '',
        service: '',
        number: 0,
        configHash: '',
        state: 'running',
        detail: null,
      });
    });

    test('an engine that cannot be reached is a fault and never an empty answer', async () => {
      const lost = world.lost();
      expect((await faultOf(lost.observe({ inspect: 'all' }))).code).toBe('ENGINE_UNREACHABLE');
      expect((await faultOf(lost.start('x', signal()))).code).toBe('ENGINE_UNREACHABLE');
      expect((await faultOf(lost.down('wlt-none', signal()))).code).toBe('ENGINE_UNREACHABLE');
      expect((await faultOf(lost.events(signal())[Symbol.asyncIterator]().next())).code).toBe('ENGINE_UNREACHABLE');
      const at = world.project();
      const model = await resolve({ ...at, text: file({ a: service() }) });
      const work = lost.up({
        project: at.project,
        projectDir: at.directory,
        model: { text: model },
        services: ['a'],
        forceRecreate: false,
        signal: signal(),
      });
      expect((await faultOf(work)).code).toBe('ENGINE_UNREACHABLE');
    });

    test('a cancelled call says so', async () => {
      expect((await faultOf(world.runtime.observe({ inspect: 'known', signal: AbortSignal.abort() }))).code).toBe(
        'CANCELLED',
      );
    });
  });

  describe('resolving', () => {
    test('files, .env, variables, profiles and overrides come together', async () => {
      const at = world.project();
      writeFileSync(join(at.directory, '.env'), 'TAG=1\nWHO=file\n');
      writeFileSync(join(at.directory, 'compose.yaml'), withVariables);
      writeFileSync(join(at.directory, 'more.yaml'), 'services:\n  a:\n    labels: {more: "1"}\n');
      const text = await resolve({
        ...at,
        files: [join(at.directory, 'compose.yaml'), join(at.directory, 'more.yaml')],
        overrides: [JSON.stringify({ services: { a: { labels: { ours: '2' } } } })],
        environment: { WHO: 'caller', COMPOSE_PROFILES: 'extra', COMPOSE_PROJECT_NAME: 'stolen' },
      });
      const model = JSON.parse(text);
      expect(model).toMatchObject({
        name: at.project,
        services: {
          a: { image: 'windlass-test/busybox:1', environment: { WHO: 'caller' }, labels: { more: '1', ours: '2' } },
        },
      });
      expect(Object.keys(model.services)).toEqual(['a']);
      const extra = await resolve({ ...at, files: [join(at.directory, 'compose.yaml')], profiles: ['extra'] });
      expect(Object.keys(JSON.parse(extra).services)).toEqual(['a', 'p']);
    });

    test('a text is read with the .env of its folder and with overrides', async () => {
      const at = world.project();
      writeFileSync(join(at.directory, '.env'), 'TAG=7\n');
      const text = await resolve({
        ...at,
        text: withTag,
        overrides: ['{"services":{"a":{"labels":{"o":"1"}}}}'],
      });
      expect(JSON.parse(text).services.a).toMatchObject({
        image: 'x:7',
        labels: { o: '1' },
        volumes: [{ source: join(at.directory, 'd') }],
      });
    });

    test('what was resolved resolves to the same hashes', async () => {
      const at = world.project();
      const text = await resolve({ ...at, text: file({ a: service({ environment: { A: 'a$$b<' }, ports: ['80'] }) }) });
      const again = await resolve({ ...at, text });
      expect(hashesOf(again).services.get('a')?.hash).toBe(hashesOf(text).services.get('a')?.hash);
    });

    test.each([
      ['an unknown key', 'services: {a: {imagee: x}}', /imagee/],
      ['a missing variable', withRequired, /NOPE is missing a value: say it/],
      ['an undefined dependency', 'services: {a: {image: x, depends_on: [zz]}}', /zz/],
      ['an undefined network', 'services: {a: {image: x, networks: [zz]}}', /zz/],
    ])('%s is COMPOSE_INVALID in the words of Compose, without our folders', async (_what, text, words) => {
      const at = world.project();
      const fault = await faultOf(resolve({ ...at, text }));
      expect(fault.code).toBe('COMPOSE_INVALID');
      expect(fault.message).toMatch(words);
      expect(JSON.stringify([fault.message, fault.data])).not.toContain(at.directory);
    });
  });

  describe('converging', () => {
    test('a second up changes nothing, a changed definition recreates its service alone', async () => {
      const at = world.project();
      const notes: string[] = [];
      await up(at, file({ a: service(), b: service() }), { note: (line) => notes.push(line) });
      expect(notes.join('\n')).toMatch(/Started/);
      const before = await containers(at.project);
      await up(at, file({ a: service(), b: service() }));
      expect((await containers(at.project)).map((container) => container.id)).toEqual(
        before.map((container) => container.id),
      );
      await up(at, file({ a: service({ environment: { NEW: '1' } }), b: service() }));
      const idOf = (list: readonly ObservedContainer[], name: string) =>
        list.find((container) => container.service === name)?.id;
      const after = await containers(at.project);
      expect(idOf(after, 'a')).not.toBe(idOf(before, 'a'));
      expect(idOf(after, 'b')).toBe(idOf(before, 'b'));
      await up(at, file({ a: service({ environment: { NEW: '1' } }), b: service() }), { services: ['b'], force: true });
      const forced = await containers(at.project);
      expect(idOf(forced, 'a')).toBe(idOf(after, 'a'));
      expect(idOf(forced, 'b')).not.toBe(idOf(after, 'b'));
    });

    test('only named services are touched: a finished one-shot is not run again, a stopped one stays', async () => {
      const at = world.project();
      const text = file({
        job: service({ command: ['sh', '-c', 'exit 0'] }),
        stays: service(),
        web: service({ depends_on: ['job', 'stays'] }),
      });
      await up(at, text);
      await eventually(
        () => one(at.project, 'job'),
        (job) => job.state === 'exited',
      );
      await world.person.stop((await one(at.project, 'stays')).id);
      const before = await containers(at.project, 'all');
      await up(at, text, { services: ['web'], force: true });
      const after = await containers(at.project, 'all');
      for (const name of ['job', 'stays']) {
        const of = (list: readonly ObservedContainer[]) => list.find((container) => container.service === name);
        expect(of(after)?.id).toBe(of(before)?.id);
        expect(of(after)?.state).toBe('exited');
        expect(of(after)?.detail?.startedAt).toBe(of(before)?.detail?.startedAt);
      }
      expect((await one(at.project, 'job')).exitCode).toBe(0);
    });

    test('named services start in the order of their dependencies, and conditions among them hold', async () => {
      const at = world.project();
      const text = file({
        a: service({ depends_on: { b: { condition: 'service_completed_successfully' } } }),
        b: service({ command: ['sh', '-c', 'sleep 1; exit 0'], depends_on: { c: { condition: 'service_started' } } }),
        c: service(),
      });
      await up(at, text);
      const started = new Map(
        (await containers(at.project, 'all')).map((container) => [container.service, container.detail]),
      );
      expect(Date.parse(started.get('c')!.startedAt)).toBeLessThanOrEqual(Date.parse(started.get('b')!.startedAt));
      expect(Date.parse(started.get('a')!.startedAt)).toBeGreaterThanOrEqual(Date.parse(started.get('b')!.finishedAt));
    });

    test('who asks to be started anew with its dependency is, when both are named', async () => {
      const at = world.project();
      const text = (value: string) =>
        file({
          a: service({ environment: { VALUE: value } }),
          b: service({ depends_on: { a: { condition: 'service_started', restart: true } } }),
        });
      await up(at, text('1'));
      const before = await one(at.project, 'b', 'all');
      await up(at, text('2'), { services: ['a'] });
      const unnamed = await one(at.project, 'b', 'all');
      expect([unnamed.id, unnamed.detail?.startedAt]).toEqual([before.id, before.detail?.startedAt]);
      await up(at, text('3'));
      const named = await one(at.project, 'b', 'all');
      expect(named.id).toBe(before.id);
      expect(named.state).toBe('running');
      expect(Date.parse(named.detail!.startedAt)).toBeGreaterThan(Date.parse(before.detail!.startedAt));
    });

    test('a dependency that is not named is not waited for', async () => {
      const at = world.project();
      await up(at, file({ a: service({ depends_on: { b: { condition: 'service_healthy' } } }), b: service() }), {
        services: ['a'],
      });
      expect((await containers(at.project)).map((container) => [container.service, container.state])).toEqual([
        ['a', 'running'],
      ]);
    });

    test('a one-shot that fails is named, and what waits for it stays created', async () => {
      const at = world.project();
      const fault = await faultOf(
        up(
          at,
          file({
            job: service({ command: ['sh', '-c', 'exit 7'] }),
            web: service({ depends_on: { job: { condition: 'service_completed_successfully' } } }),
          }),
        ),
      );
      expect(fault).toMatchObject({ code: 'ONE_SHOT_FAILED', data: { service: 'job', exitCode: 7 } });
      expect(await one(at.project, 'web')).toMatchObject({ state: 'created', exitCode: null });
      expect(await one(at.project, 'job')).toMatchObject({ state: 'exited', exitCode: 7 });
    });

    test('an image that is not there is named, and nothing is started', async () => {
      const at = world.project();
      const fault = await faultOf(up(at, file({ a: service(), b: service({ image: 'windlass-test/none:1' }) })));
      expect(fault).toMatchObject({ code: 'IMAGE_MISSING', data: { image: 'windlass-test/none:1' } });
      expect((await containers(at.project)).filter((container) => container.state === 'running')).toEqual([]);
    });

    test('a port that another container holds is named, and the container stays created', async () => {
      const [first, second] = [world.project(), world.project()];
      const port = await freePort();
      const text = file({ a: service({ ports: [`127.0.0.1:${port}:80`] }) });
      await up(first, text);
      expect(await faultOf(up(second, text))).toMatchObject({ code: 'PORT_TAKEN', data: { port } });
      expect((await one(second.project, 'a')).state).toBe('created');
    });

    test('a network that a person made in its place is a conflict', async () => {
      const at = world.project();
      await world.person.makeNetwork(`${at.project}_default`);
      expect(await faultOf(up(at, file({ a: service() })))).toMatchObject({
        code: 'NETWORK_CONFLICT',
        data: { network: `${at.project}_default` },
      });
    });

    test('a changed volume definition is refused, and the volume stays', async () => {
      const at = world.project();
      const text = (labels: Loose) =>
        file(
          { a: service({ volumes: ['data:/data'] }) },
          { volumes: { data: { labels: { ...testLabel, ...labels } } } },
        );
      const model = await up(at, text({}));
      expect(await faultOf(up(at, text({ more: '1' })))).toMatchObject({
        code: 'VOLUME_CHANGED',
        data: { volume: `${at.project}_data` },
      });
      const { volumes } = await world.runtime.observe({ inspect: 'known' });
      expect(volumes.find((volume) => volume.name === `${at.project}_data`)?.configHash).toBe(
        hashesOf(model).volumes.get('data'),
      );
    });

    test('replicas are added and the surplus goes', async () => {
      const at = world.project();
      await up(at, file({ a: service({ deploy: { replicas: 2 } }) }));
      expect((await containers(at.project)).map((container) => container.number).sort()).toEqual([1, 2]);
      await up(at, file({ a: service({ deploy: { replicas: 1 } }) }));
      expect((await containers(at.project)).map((container) => container.number)).toEqual([1]);
    });

    test('a volume gets its owner between creation and first start', async () => {
      const at = world.project();
      const text = file({ a: service({ volumes: ['data:/data'] }) }, { volumes: { data: { labels: testLabel } } });
      await up(at, text, { noStart: true });
      expect((await one(at.project, 'a')).state).toBe('created');
      await world.runtime.chownVolume(`${at.project}_data`, { mode: '2750', uid: 26, gid: 27 }, busybox, signal());
      await up(at, text);
      const a = await one(at.project, 'a');
      expect(await world.person.volumeOwner(`${at.project}_data`, a.id, '/data')).toBe('26 27 2750');
      expect(
        (await world.runtime.observe({ inspect: 'known' })).containers.filter(
          (container) => container.labels['dev.windlass.helper'],
        ),
      ).toEqual([]);
      expect(
        (
          await faultOf(
            world.runtime.chownVolume(`${at.project}_none`, { mode: '0750', uid: 1, gid: 1 }, busybox, signal()),
          )
        ).data['status'],
      ).toBe(404);
    });

    test('a cancelled up says so and leaves what it did', async () => {
      const at = world.project();
      const controller = new AbortController();
      const slow = { test: ['CMD', 'false'], interval: '60s', start_period: '60s' };
      const work = up(
        at,
        file({
          a: service({ healthcheck: slow }),
          b: service({ depends_on: { a: { condition: 'service_healthy' } } }),
        }),
        {
          signal: controller.signal,
          note: (line) => {
            if (/-a-1 Started/.test(line)) controller.abort();
          },
        },
      );
      expect((await faultOf(work)).code).toBe('CANCELLED');
      expect((await one(at.project, 'a')).state).toBe('running');
      expect((await one(at.project, 'b')).state).toBe('created');
    });

    test('services are stopped alone, started as they are, and tell what they share', async () => {
      const at = world.project();
      const a = service();
      const text = await up(at, file({ a, b: service({ network_mode: 'service:a' }) }));
      const [first, second] = [await one(at.project, 'a', 'all'), await one(at.project, 'b', 'all')];
      expect(first.detail?.shares).toEqual([]);
      expect(second.detail?.shares).toEqual([{ what: 'network', id: first.id }]);
      const about = { project: at.project, projectDir: at.directory, signal: signal() };
      await world.runtime.stopServices({ ...about, model: { text }, services: ['b'] });
      expect((await one(at.project, 'a')).state).toBe('running');
      expect((await one(at.project, 'b')).state).toBe('exited');
      const other = await resolve({ ...at, text: file({ a: { ...a, user: '0' } }) });
      await world.runtime.stopServices({ ...about, model: { text: other }, services: ['a'] });
      await world.runtime.up({
        ...about,
        model: { text: other },
        services: ['a'],
        forceRecreate: false,
        noRecreate: true,
      });
      expect(await one(at.project, 'a')).toMatchObject({ id: first.id, state: 'running' });
    });

    test('down removes containers and networks, also what Compose does not see, and leaves volumes', async () => {
      const at = world.project();
      await up(at, file({ a: service({ volumes: ['data:/data'] }) }, { volumes: { data: { labels: testLabel } } }));
      await world.person.makeContainer(`${at.project}-unseen`, {
        'com.docker.compose.project': at.project,
        'com.docker.compose.service': 'z',
      });
      await world.runtime.down(at.project, signal());
      const after = await world.runtime.observe({ inspect: 'known' });
      expect(after.containers.filter((container) => container.project === at.project)).toEqual([]);
      expect(after.networks.filter((network) => network.project === at.project)).toEqual([]);
      expect(after.volumes.filter((volume) => volume.project === at.project)).toHaveLength(1);
      await world.runtime.down(at.project, signal());
      await world.runtime.removeVolume(`${at.project}_data`, signal());
      await world.runtime.removeVolume(`${at.project}_data`, signal());
      expect(
        (await world.runtime.observe({ inspect: 'known' })).volumes.filter((volume) => volume.project === at.project),
      ).toEqual([]);
    });

    test('a service is built, and its image carries the labels of the build', async () => {
      const at = world.project();
      mkdirSync(join(at.directory, 'app'));
      writeFileSync(join(at.directory, 'app', 'Dockerfile'), `FROM ${busybox}\nCOPY Dockerfile /built\n`);
      const labels = { ...testLabel, 'dev.windlass.project': at.project };
      const text = file({ a: service({ image: undefined, build: { context: './app', labels } }) });
      const model = await resolve({ ...at, text });
      await world.runtime.build({
        project: at.project,
        projectDir: at.directory,
        model: { text: model },
        services: ['a'],
        signal: signal(),
      });
      const { images } = await world.runtime.observe({ inspect: 'known' });
      expect(images.find((image) => image.tags.some((tag) => tag.startsWith(`${at.project}-a`)))?.labels).toMatchObject(
        labels,
      );
      await up(at, text);
      expect((await one(at.project, 'a')).state).toBe('running');
    });
  });

  describe('drift and its cures', () => {
    let at: { project: string; directory: string };
    const network = () => `${at.project}_default`;
    const text = file({
      a: service({ mem_limit: '64m', restart: 'no', networks: { default: { aliases: ['other'] } } }),
    });

    beforeAll(async () => {
      at = world.project();
      await up(at, text);
    });

    test('a container that a person stopped is known as such until it is started', async () => {
      const { seen, stop } = await listen();
      const { id } = await one(at.project, 'a');
      // What follows a call of ours at once may be its echo.
      await new Promise((resolve) => setTimeout(resolve, 600));
      await world.person.stop(id);
      const stopped = await eventually(
        () => one(at.project, 'a'),
        (a) => a.state === 'exited' && a.stoppedByHand,
      );
      expect(stopped).toMatchObject({ state: 'exited', stoppedByHand: true });
      expect(stopped.exitCode).not.toBeNull();
      await world.runtime.start(id, signal());
      // The engine tells of the containers of others too.
      await eventually(() => seen.some((event) => event.id === id && event.action === 'start'), Boolean);
      expect(await one(at.project, 'a')).toMatchObject({ id, state: 'running', stoppedByHand: false });
      await world.runtime.stop(id, signal());
      await eventually(
        () => seen.filter((event) => event.id === id && event.action === 'stop').length,
        (count) => count === 2,
      );
      expect(await one(at.project, 'a')).toMatchObject({ state: 'exited', stoppedByHand: false });
      await world.runtime.start(id, signal());
      await stop();
      await new Promise((resolve) => setTimeout(resolve, 600));
    });

    test('a killed container is seen with its exit code, in an event of its project', async () => {
      const { seen, stop } = await listen();
      const { id } = await one(at.project, 'a');
      await world.person.kill(id);
      await eventually(() => seen.some((event) => event.id === id && event.action === 'die'), Boolean);
      expect(seen[0]).toMatchObject({ project: '', action: 'connected' });
      expect(seen.find((event) => event.id === id && event.action === 'die')).toMatchObject({
        kind: 'container',
        id,
        project: at.project,
        service: 'a',
        exitCode: 137,
      });
      expect(await one(at.project, 'a')).toMatchObject({ state: 'exited', exitCode: 137, stoppedByHand: true });
      await world.runtime.restart(id, signal());
      expect((await one(at.project, 'a')).state).toBe('running');
      await stop();
    });

    test('a paused container makes up fail and is unpaused', async () => {
      const { id } = await one(at.project, 'a');
      await world.person.pause(id);
      expect((await one(at.project, 'a')).state).toBe('paused');
      expect(await faultOf(up(at, text))).toMatchObject({ code: 'ENGINE_REFUSED', data: { reason: 'paused' } });
      await world.runtime.unpause(id, signal());
      expect(await one(at.project, 'a')).toMatchObject({ id, state: 'running' });
    });

    test('a renamed container is seen, missed by up, and renamed back', async () => {
      const { id, name } = await one(at.project, 'a');
      await world.person.rename(id, `${at.project}-elsewhere`);
      await up(at, text);
      expect(await one(at.project, 'a')).toMatchObject({ id, name: `${at.project}-elsewhere` });
      await world.runtime.rename(id, name, signal());
      expect((await one(at.project, 'a')).name).toBe(name);
    });

    test('a disconnected container is seen and connected again with its aliases', async () => {
      const { id } = await one(at.project, 'a');
      await world.person.disconnect(id, network());
      expect((await one(at.project, 'a')).networks).toEqual([]);
      await world.person.connect(id, network());
      expect((await one(at.project, 'a', 'all')).detail?.aliases[network()]).not.toContain('other');
      await world.runtime.disconnect(id, network(), signal());
      await world.runtime.connect(id, network(), ['a', 'other'], signal());
      const back = await one(at.project, 'a', 'all');
      expect(back.networks.map((each) => each.name)).toEqual([network()]);
      expect(back.detail?.aliases[network()]).toEqual(expect.arrayContaining(['a', 'other']));
    });

    test('limits that a person changed are seen and set back; a limit cannot be lifted', async () => {
      const { id, detail } = await one(at.project, 'a', 'all');
      const wanted = detail!.resources;
      expect(wanted).toMatchObject({ memoryBytes: 64 * 2 ** 20, restart: 'no' });
      await world.person.update(id, 'always');
      expect((await one(at.project, 'a', 'all')).detail?.resources).toMatchObject({
        memoryBytes: 128 * 2 ** 20,
        restart: 'always',
      });
      await world.runtime.update(id, wanted, signal());
      expect((await one(at.project, 'a', 'all')).detail?.resources).toEqual(wanted);
      expect(await faultOf(world.runtime.update(id, { ...wanted, memoryBytes: 0 }, signal()))).toMatchObject({
        code: 'ENGINE_REFUSED',
        data: { reason: 'recreate', fields: ['memoryBytes'] },
      });
    });

    test('details are remembered while events are read, and void after an event', async () => {
      const { id } = await one(at.project, 'a', 'all');
      expect((await one(at.project, 'a')).detail).toBeNull();
      const { seen, stop } = await listen();
      await one(at.project, 'a', 'all');
      expect((await one(at.project, 'a')).detail).not.toBeNull();
      await world.person.update(id, 'always');
      await eventually(() => seen.some((event) => event.project === at.project && event.action === 'update'), Boolean);
      expect((await one(at.project, 'a')).detail).toBeNull();
      expect((await one(at.project, 'a', 'all')).detail?.resources.restart).toBe('always');
      await stop();
      expect((await one(at.project, 'a')).detail).toBeNull();
    });

    test('a signal reaches the container', async () => {
      const { id } = await one(at.project, 'a');
      await world.runtime.kill(id, 'HUP', signal());
      await world.runtime.stop(id, signal());
      expect((await one(at.project, 'a')).state).toBe('exited');
      expect((await faultOf(world.runtime.kill(id, 'KILL', signal()))).code).toBe('ENGINE_REFUSED');
    });

    test('a removed container is absent, and removing it again is success', async () => {
      const { id } = await one(at.project, 'a');
      await world.runtime.remove(id, signal());
      expect(await containers(at.project)).toEqual([]);
      await world.runtime.remove(id, signal());
      const { networks } = await world.runtime.observe({ inspect: 'known' });
      const networkId = networks.find((each) => each.name === network())!.id;
      await world.runtime.removeNetwork(networkId, signal());
      await world.runtime.removeNetwork(networkId, signal());
      expect((await faultOf(world.runtime.start(id, signal()))).data['status']).toBe(404);
    });
  });

  describe('logs and commands', () => {
    let at: { project: string; directory: string };
    let id: string;

    beforeAll(async () => {
      at = world.project();
      await up(at, file({ a: service({ command: ['sh', '-c', 'echo one; echo two >&2; echo three; sleep 1000'] }) }));
      id = (await one(at.project, 'a')).id;
    });

    const read = async (options: Parameters<typeof world.runtime.logs>[1]): Promise<LogLine[]> => {
      const lines: LogLine[] = [];
      for await (const line of world.runtime.logs(id, options)) lines.push(line);
      return lines;
    };

    test('logs tell both streams and keep to the tail', async () => {
      const all = await eventually(
        () => read({ tail: 10 }),
        (lines) => lines.length === 3,
      );
      expect(all).toHaveLength(3);
      expect(all.filter((line) => line.stream === 'stderr')).toEqual([{ stream: 'stderr', text: 'two' }]);
      expect(await read({ tail: 1 })).toHaveLength(1);
      expect(await read({ tail: 10, sinceMs: Date.now() + 60_000 })).toEqual([]);
    });

    test('a followed log ends when its reader is called off', async () => {
      const controller = new AbortController();
      const lines: LogLine[] = [];
      for await (const line of world.runtime.logs(id, { tail: 10, follow: true, signal: controller.signal })) {
        lines.push(line);
        if (lines.length === 3) controller.abort();
      }
      expect(lines).toHaveLength(3);
    });

    const exec = async (command: readonly string[], deadline: AbortSignal = signal()) => {
      const lines: LogLine[] = [];
      const result = await world.runtime.exec(id, { command, signal: deadline, onLine: (line) => lines.push(line) });
      return { ...result, lines };
    };

    test('a command gives its lines and its exit code', async () => {
      const answer = await exec(['sh', '-c', 'echo out; echo err >&2; exit 5']);
      expect(answer).toMatchObject({ exitCode: 5, timedOut: false });
      expect(answer.lines).toEqual(
        expect.arrayContaining([
          { stream: 'stdout', text: 'out' },
          { stream: 'stderr', text: 'err' },
        ]),
      );
    });

    test('a command that is not there ends with 126 or 127', async () => {
      expect([126, 127]).toContain((await exec(['/nope'])).exitCode);
    });

    test('a command that ignores its end is ended with its children', async () => {
      const answer = await exec(['sh', '-c', 'trap "" TERM; sleep 900 & sleep 901'], AbortSignal.timeout(300));
      expect(answer.timedOut).toBe(true);
      expect((await exec(['ps'])).lines.filter((line) => /sleep 90[01]/.test(line.text))).toEqual([]);
      expect((await one(at.project, 'a')).state).toBe('running');
    });

    test('a command in a stopped container is refused', async () => {
      await world.runtime.stop(id, signal());
      expect((await faultOf(exec(['true']))).code).toBe('ENGINE_REFUSED');
    });
  });
});

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
