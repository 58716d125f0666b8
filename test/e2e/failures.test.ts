// What goes wrong is told in its own words and disturbs nothing else.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containersOf, docker, Fleet, inspect, until } from './fleet.ts';

const web = (image = 'windlass-test/busybox:1', command = 'sleep 2147483647', more = '') =>
  `services:\n  web:\n    image: ${image}\n    command: ${command}\n    network_mode: none\n    init: true\n    stop_grace_period: 0s\n${more}`;
const GOOD = 'wlt-fail-good';
const BAD = 'wlt-fail-bad';

describe('what fails', () => {
  let fleet: Fleet;
  let good: Record<string, string>;
  beforeAll(async () => {
    fleet = new Fleet();
    fleet.push({ [`stacks/${GOOD}/compose.yaml`]: web() });
    expect((await fleet.windlass('apply', '--yes')).code).toBe(0);
    good = containersOf(GOOD);
  });
  afterAll(() => fleet.dispose());

  const rows: readonly [string, string, RegExp, number][] = [
    [
      'an image that is nowhere',
      web('windlass-test/nowhere:1', 'sleep 1', '    pull_policy: never\n'),
      /IMAGE_MISSING.*windlass-test\/nowhere:1/s,
      1,
    ],
    [
      'a crash loop',
      web('windlass-test/busybox:1', `sh -c 'echo going down; exit 1'`, '    restart: always\n'),
      /SERVICE_CRASHED.*going down/s,
      1,
    ],
    [
      'a failing one-shot',
      web('windlass-test/busybox:1', `sh -c 'echo cannot migrate; exit 3'`, '    x-windlass: {oneShot: true}\n'),
      /ONE_SHOT_FAILED.*exit code 3.*cannot migrate/s,
      1,
    ],
    [
      'an unhealthy service',
      web(
        'windlass-test/busybox:1',
        'sleep 2147483647',
        '    healthcheck: {test: ["CMD", "false"], interval: 200ms, retries: 2}\n',
      ),
      /SERVICE_UNHEALTHY/,
      1,
    ],
    ['a file that is no YAML', 'services: [', /stacks\/wlt-fail-bad\/compose\.yaml:1:\d+/, 1],
    ['a file that Compose refuses', 'services:\n  web:\n    imagee: x\n', /imagee/, 1],
  ];
  it.each(rows)('%s stops its own stack only', async (_name, text, words, code) => {
    fleet.push({ [`stacks/${BAD}/compose.yaml`]: text });
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.out + applied.err).toMatch(words);
    expect(applied.code).toBe(code);
    expect(containersOf(GOOD)).toEqual(good);
  });

  it('a mending push cures it', async () => {
    fleet.push({ [`stacks/${BAD}/compose.yaml`]: web() });
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code, applied.err).toBe(0);
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
  });

  it('a validate names the mistake with exit code 3', async () => {
    fleet.push({ [`stacks/${BAD}/compose.yaml`]: 'services: [' });
    const validated = await fleet.windlass('validate');
    expect(validated.code).toBe(3);
    expect(validated.out).toMatch(/compose\.yaml:1:\d+/);
    fleet.push({ [`stacks/${BAD}/compose.yaml`]: web() });
  });

  it('a foreign project of the same name is refused until it is adopted', async () => {
    const name = 'wlt-fail-foreign';
    fleet.owns(name);
    docker(
      'run',
      '-d',
      '--init',
      '--name',
      `${name}-web-1`,
      '--label',
      `com.docker.compose.project=${name}`,
      '--label',
      'com.docker.compose.service=web',
      '--label',
      'com.docker.compose.config-hash=x',
      '--label',
      'com.docker.compose.container-number=1',
      '--label',
      'com.docker.compose.oneoff=False',
      '--label',
      'com.docker.compose.project.working_dir=/home/somebody',
      'windlass-test/busybox:1',
      'sleep',
      '1000',
    );
    const before = containersOf(name);
    fleet.push({ [`stacks/${name}/compose.yaml`]: web() });
    const refused = await fleet.windlass('apply', '--yes');
    expect(refused.out).toMatch(/PROJECT_CONFLICT.*adopt: true/s);
    expect(refused.code).toBe(1);
    expect(containersOf(name)).toEqual(before);
    fleet.push({ [`stacks/${name}/stack.yaml`]: 'apiVersion: windlass/v1\nkind: Stack\nadopt: true\n' });
    const plan = await fleet.windlass('plan');
    expect(plan.out).toMatch(/adopts project/);
    expect((await fleet.windlass('apply', '--yes')).code).toBe(0);
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
  });

  it('a port that another stack or a stranger has is named with its holder', async () => {
    const stranger = 'wlt-fail-stranger';
    // Quiet when a killed run left none.
    docker('rm', '-f', stranger);
    const ports = (port: number): string =>
      web().replace('    network_mode: none\n', `    ports: ["127.0.0.1:${port}:80"]\n`);
    const names = ['wlt-fail-port-a', 'wlt-fail-port-b', 'wlt-fail-port-c'] as const;
    docker(
      'run',
      '-d',
      '--init',
      '--name',
      stranger,
      '-p',
      '127.0.0.1:38472:80',
      'windlass-test/busybox:1',
      'sleep',
      '1000',
    );
    try {
      fleet.push({
        [`stacks/${names[0]}/compose.yaml`]: ports(38_471),
        [`stacks/${names[1]}/compose.yaml`]: ports(38_471),
        [`stacks/${names[2]}/compose.yaml`]: ports(38_472),
      });
      const applied = await fleet.windlass('apply', '--yes');
      expect(applied.code).toBe(1);
      const said = applied.out + applied.err;
      expect(said).toMatch(/PORT_TAKEN.*wlt-fail-port-[ab] wants port \S*38471\S*, which .*wlt-fail-port-[ab]/);
      expect(said).toMatch(/PORT_TAKEN.*38472.*wlt-fail-stranger/);
      expect(containersOf(GOOD)).toEqual(good);
    } finally {
      docker('rm', '-f', stranger);
      fleet.push(Object.fromEntries(names.map((name) => [`stacks/${name}`, null])));
      await fleet.windlass('apply', '--yes');
    }
  });

  it('an engine that does not answer changes nothing and is named', async () => {
    const down = await fleet.windlass('apply', '--yes', '--host', 'unix:///nonexistent/docker.sock');
    expect(down.code).toBe(1);
    expect(down.err).toMatch(/ENGINE_UNREACHABLE/);
    expect(containersOf(GOOD)).toEqual(good);
  });

  it('a saved plan is refused when the engine moved since', async () => {
    fleet.push({ [`stacks/${GOOD}/compose.yaml`]: web('windlass-test/busybox:2') });
    expect((await fleet.windlass('plan', '--out', 'p.json')).code).toBe(0);
    docker('kill', `${GOOD}-web-1`);
    const stale = await fleet.windlass('apply', 'p.json', '--yes');
    expect(stale.code).toBe(1);
    expect(stale.err).toMatch(/PLAN_STALE/);
    expect((await fleet.windlass('plan', '--out', 'p.json')).code).toBe(0);
    expect((await fleet.windlass('apply', 'p.json', '--yes')).code).toBe(0);
  });

  it('nobody to say yes is a usage error, an unknown flag too, and both say what to do', async () => {
    fleet.push({ [`stacks/${GOOD}/compose.yaml`]: web() });
    const asked = await fleet.windlass('apply');
    expect([asked.code, asked.err]).toEqual([3, expect.stringContaining('--yes')]);
    const flag = await fleet.windlass('plan', '--detailed-exitcodes');
    expect([flag.code, flag.err]).toEqual([3, expect.stringContaining('--detailed-exitcode')]);
    const command = await fleet.windlass('aply');
    expect([command.code, command.err]).toEqual([3, expect.stringContaining('apply')]);
    const stack = await fleet.windlass('diff', 'nope');
    expect([stack.code, stack.err]).toEqual([3, expect.stringContaining('NOT_FOUND')]);
  });
});

describe('what fails under the controller', () => {
  const rows = {
    'wlt-failc-image': ['ImageMissing', web('windlass-test/nowhere:1', 'sleep 1', '    pull_policy: never\n')],
    'wlt-failc-loop': ['CrashLoop', web('windlass-test/busybox:1', `sh -c 'exit 1'`, '    restart: always\n')],
    'wlt-failc-once': [
      'OneShotFailed',
      web('windlass-test/busybox:1', `sh -c 'echo cannot migrate; exit 3'`, '    x-windlass: {oneShot: true}\n'),
    ],
    'wlt-failc-port': [
      'PortConflict',
      web().replace('    network_mode: none\n', '    ports: ["127.0.0.1:38473:80"]\n'),
    ],
    'wlt-failc-broken': ['InvalidSpec', 'services: ['],
    'wlt-failc-foreign': ['Conflict', web()],
  } as const;
  const names = Object.keys(rows) as (keyof typeof rows)[];
  const FINE = 'wlt-failc-fine';
  const STRANGER = 'wlt-failc-stranger';
  let fleet: Fleet;
  beforeAll(() => {
    fleet = new Fleet();
    fleet.owns('wlt-failc-foreign');
    docker('rm', '-f', STRANGER);
    const started = ['run', '-d', '--init', '--name'];
    const sleeps = ['windlass-test/busybox:1', 'sleep', '1000'];
    docker(...started, STRANGER, '-p', '127.0.0.1:38473:80', ...sleeps);
    docker(
      ...started,
      'wlt-failc-foreign-web-1',
      ...Object.entries({
        project: 'wlt-failc-foreign',
        service: 'web',
        'config-hash': 'x',
        'container-number': '1',
        oneoff: 'False',
        'project.working_dir': '/home/somebody',
      }).flatMap(([key, value]) => ['--label', `com.docker.compose.${key}=${value}`]),
      ...sleeps,
    );
  });
  afterAll(async () => {
    docker('rm', '-f', STRANGER); // Quiet when it is gone already.
    await fleet.dispose();
  });

  /** Stack → the reason of its Ready condition, with its status. */
  const ready = async (): Promise<Record<string, string>> => {
    const all = JSON.parse((await fleet.windlass('get', '-o', 'json')).out) as {
      name: string;
      conditions: { type: string; status: string; reason: string }[];
    }[];
    return Object.fromEntries(
      all.map((one) => {
        const found = one.conditions.find((condition) => condition.type === 'Ready');
        return [one.name, `${found?.status} ${found?.reason}`];
      }),
    );
  };

  it('is told as a condition each, disturbs no stack beside it, and mends itself with the cause', async () => {
    fleet.push({
      [`stacks/${FINE}/compose.yaml`]: web(),
      ...Object.fromEntries(names.map((name) => [`stacks/${name}/compose.yaml`, rows[name][1]])),
    });
    const foreign = containersOf('wlt-failc-foreign');
    fleet.start('--poll', '2s', '--interval', '1h');
    // A retry hides the reason while it runs, so each is looked for until it was seen.
    const seen: Record<string, string> = {};
    await until(
      async () => {
        const now = await ready();
        for (const name of names) if (now[name] === `False ${rows[name][0]}`) seen[name] = rows[name][0];
        return [now[FINE], names.filter((name) => !seen[name]).map((name) => `${name}: ${now[name]}`)] as const;
      },
      ([fine, missing]) => fine === 'True Succeeded' && missing.length === 0,
    );
    const fine = inspect(`${FINE}-web-1`);
    expect(containersOf('wlt-failc-foreign')).toEqual(foreign);

    docker('rm', '-f', STRANGER);
    fleet.push({
      ...Object.fromEntries(
        names.filter((name) => name !== 'wlt-failc-port').map((name) => [`stacks/${name}/compose.yaml`, web()]),
      ),
      'stacks/wlt-failc-foreign/stack.yaml': 'apiVersion: windlass/v1\nkind: Stack\nadopt: true\n',
    });
    await until(ready, (now) => [FINE, ...names].every((name) => now[name] === 'True Succeeded'));
    const after = inspect(`${FINE}-web-1`);
    expect([after.Id, after.State.StartedAt]).toEqual([fine.Id, fine.State.StartedAt]);
  });
});
