// `windlass hooks show|graph|log` over a simulated house: what a person reads of the sequences that a commit declares.
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { SimHouse } from '../sim/sim-house.ts';
import { windlass } from './fake-terminal.ts';

const APPS = resolve(import.meta.dirname, '../../apps');
const filesOf = (app: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(join(APPS, app)).map((name) => [`apps/${app}/${name}`, readFileSync(join(APPS, app, name), 'utf8')]),
  );
const stack = (body: string): string => `apiVersion: windlass/v1\nkind: Stack\n${body}`;

const houses: SimHouse[] = [];
afterEach(() => {
  for (const house of houses.splice(0)) house.dispose();
});

function fleet(files: Record<string, string> = {}) {
  const sim = new SimHouse();
  houses.push(sim);
  sim.source.push({
    ...filesOf('postgres'),
    ...filesOf('keycloak'),
    'stacks/pg.yaml': stack('app: postgres\n'),
    'stacks/sso.yaml': stack('app: keycloak\nintegrate: {database: pg}\n'),
    ...files,
  });
  return {
    sim,
    run: (line: string) => windlass(sim, line.split(' ')),
    // biome-ignore lint/suspicious/noExplicitAny: each test says what it expects of it
    json: async (line: string): Promise<any> =>
      JSON.parse((await windlass(sim, [...line.split(' '), '-o', 'json'])).out),
  };
}

describe('hooks show', () => {
  it('prints the sequence of every phase that has one, and asks the engine for nothing', async () => {
    const { sim, run } = fleet();
    const sequence = `#  ACTION                             TIMEOUT
1  job keycloak-init                  2m       container like keycloak
2  scale keycloak to 0                5m
3  job keycloak-bootstrap-admin       5m       container like keycloak
4  scale keycloak to ref+hook://previous  5m
5  job keycloak-recover-admin         5m       container like keycloak`;
    const { code, out, err } = await run('hooks show sso');
    expect([code, err]).toEqual([0, '']);
    const plain = (text: string): string => text.replaceAll(/ +/g, ' ').trim();
    expect(plain(out)).toBe(
      plain(
        [
          ...['post_install', 'post_update', 'post_restore'].map((phase) => `${phase}\n${sequence}`),
          'test\n# ACTION TIMEOUT\n1 job keycloak-test 2m container like keycloak',
        ].join('\n\n'),
      ),
    );
    expect(sim.world.calls.length).toBe(0);
  });

  it('merges the actions of the app and of the stack by weight, and says what is unusual of each', async () => {
    const { run } = fleet({
      'stacks/sso.yaml': stack(`app: keycloak
integrate: {database: pg}
hooks:
  post_update:
    - { http: { url: "http://example.org/down", method: POST }, name: tell, weight: -5, on_failure: continue, retries: 2, timeout: 1m30s }
    - { wait-healthy: true, weight: 5, once: revision }
`),
    });
    const { out } = await run('hooks show sso post_update');
    expect(out.split('\n').map((line) => line.trimEnd().replaceAll(/ {2,}/g, '  '))).toEqual([
      'post_update',
      '#  ACTION  TIMEOUT',
      '1  tell: POST http://example.org/down  1m30s  weight -5, 2 retries, goes on after a failure',
      '2  job keycloak-init  2m  container like keycloak',
      '3  scale keycloak to 0  5m',
      '4  job keycloak-bootstrap-admin  5m  container like keycloak',
      '5  scale keycloak to ref+hook://previous  5m',
      '6  job keycloak-recover-admin  5m  container like keycloak',
      '7  wait until all services are healthy  5m  weight 5, once for each desired state',
      '',
    ]);
  });

  it('shows both ways of a condition, numbered below it', async () => {
    const { run } = fleet({
      'plain/compose.yaml': 'services:\n  web:\n    image: windlass-test/busybox:1\n',
      'plain/stack.yaml': stack(`hooks:
  test:
    - if: { value: "ref+cluster://node-count", equals: 1 }
      then: [{ halt: one node }]
      else: [{ sleep: 250ms }, { sleep: 2h }]
`),
    });
    const { out } = await run('hooks show plain');
    expect(out.split('\n').map((line) => line.trimEnd().replaceAll(/ {2,}/g, '  '))).toEqual([
      'test',
      '#  ACTION  TIMEOUT',
      '1  if ref+cluster://node-count is "1"  5m',
      '1/then/1  halt: one node  5m',
      '1/else/1  sleep 250ms  5m',
      '1/else/2  sleep 2h  2h10s',
      '',
    ]);
  });

  it('gives the whole of each action as JSON, with secrets as refs and runtime refs as they are', async () => {
    const { json } = fleet({
      'plain/compose.yaml': 'services:\n  web:\n    image: windlass-test/busybox:1\n',
      'plain/stack.yaml': stack('hooks: {post_deployed: [{job: tell}]}\n'),
      'plain/tell.job.yaml': `apiVersion: windlass/v1
kind: Job
service: web
command: tell
environment: { KEY: "ref+vault://tell-key", PREVIOUS: "ref+node://ip" }
`,
    });
    const [phase] = await json('hooks show plain');
    expect(phase).toMatchObject({
      phase: 'post_deployed',
      actions: [
        {
          id: '1',
          kind: 'job',
          onFailure: 'abort',
          job: { command: ['tell'], environment: { KEY: 'ref+vault://tell-key', PREVIOUS: 'ref+node://ip' } },
        },
      ],
    });
  });

  it('of a stack without hooks says so; in JSON it is an empty list', async () => {
    const { run, json } = fleet({
      'plain/compose.yaml': 'services:\n  web:\n    image: windlass-test/busybox:1\n',
    });
    const { code, out, err } = await run('hooks show plain');
    expect([code, out, err]).toEqual([0, '', 'no hook runs for plain\n']);
    expect(await json('hooks show plain')).toEqual([]);
  });

  it('of a broken stack shows what is wrong with it, with its place', async () => {
    const { run } = fleet({
      'stacks/sso.yaml': stack(
        'app: keycloak\nintegrate: {database: pg}\nhooks: {post_update: [{job: keycloak-int}]}\n',
      ),
    });
    const { code, err } = await run('hooks show sso');
    expect(code).toBe(3);
    expect(err).toMatch(/error\[JOB_UNKNOWN\][\s\S]*stacks\/sso\.yaml:5:\d+[\s\S]*did you mean `keycloak-init`/);
  });

  it('shows what is wrong with a template in a job', async () => {
    const { run } = fleet({
      ...Object.fromEntries(
        Object.entries(filesOf('keycloak')).map(([path, text]) => [
          path,
          path.endsWith('recover-admin.job.yaml')
            ? text.replace('ref+hook://outputs/admin', '{{ vars.nobody.name }}')
            : text,
        ]),
      ),
    });
    const { code, err } = await run('hooks show sso');
    expect(code).toBe(3);
    expect(err).toMatch(/error\[TEMPLATE_FAILED\]: job keycloak-recover-admin/);
    const validated = await run('validate');
    expect(validated.out.match(/TEMPLATE_FAILED/g)).toHaveLength(1);
    expect(validated.out).toMatch(/keycloak-recover-admin\.job\.yaml[\s\S]*in [A-Z_]+: .*vars\.nobody\.name/);
  });

  it.each([
    ['hooks show nobody', 3, /NOT_FOUND.*there is no stack nobody/],
    [
      'hooks show sso post_updates',
      3,
      /there is no hook phase post_updates; did you mean post_update[?]\n[\s\S]*post_update,/,
    ],
    ['hooks graph sso', 3, /STACK PHASE/],
  ])('%s is refused', async (line, expected, words) => {
    const { code, err } = await fleet().run(line);
    expect([code, err]).toEqual([expected, expect.stringMatching(words)]);
  });
});

describe('the phase before a backup', () => {
  it('shows the jobs that backup.yaml calls dump, which run in it', async () => {
    const { run, json } = fleet();
    expect((await run('hooks show pg pre_backup')).out).toMatch(/^pre_backup\n.*\n1 +job postgres-dump/);
    expect(await json('hooks graph pg pre_backup')).toMatchObject({ id: 'pg:pre_backup', initial: 'a1' });
  });
});

describe('hooks log', () => {
  const files = (script: string) => ({
    'stacks/shop/compose.yaml': 'services: { web: { image: "windlass-test/busybox:1" } }',
    'stacks/shop/stack.yaml': stack('hooks: { test: [{ job: say }, { job: say, name: again }] }\n'),
    'stacks/shop/say.job.yaml': `apiVersion: windlass/v1\nkind: Job\nservice: web\nscript: ${JSON.stringify(script)}\n`,
  });

  it('prints the whole of what each action printed in the newest run of a phase, or of one action', async () => {
    const lines = Array.from({ length: 40 }, (_, at) => `line ${at}`);
    const { sim, run, json } = fleet(files(lines.map((line) => `echo ${line}`).join('; ')));
    await sim.apply();
    expect((await run('hooks log shop test')).err).toBe('test of shop has not run\n');
    expect((await run('stack test shop')).code).toBe(0);
    const { code, out } = await run('hooks log shop test 1');
    expect([code, out]).toEqual([0, `${lines.join('\n')}\n`]);
    expect((await json('hooks log shop test')).map((one: { name: string }) => one.name)).toEqual(['job say', 'again']);
    // A run that ends earlier leaves nothing of the one before.
    sim.source.push(files('echo no; exit 3'));
    await sim.apply();
    expect((await run('stack test shop')).code).toBe(1);
    expect((await run('hooks log shop test')).out).toBe('1 job say\nno\n');
  });

  it.each([
    ['hooks log nobody test', /NOT_FOUND/],
    ['hooks log sso tests', /there is no hook phase tests/],
    ['hooks log sso test 7', /NOT_FOUND.*no action 7 ran when test of sso last did/],
  ])('%s is refused', async (line, words) => {
    const { code, err } = await fleet().run(line);
    expect([code, err]).toEqual([3, expect.stringMatching(words)]);
  });
});

describe('what a failed action said', () => {
  const files = (hooks: string, script: string) => ({
    'stacks/shop/compose.yaml': 'services: { web: { image: "windlass-test/busybox:1" } }',
    'stacks/shop/stack.yaml': stack(`hooks: { ${hooks} }\n`),
    'stacks/shop/say.job.yaml': `apiVersion: windlass/v1\nkind: Job\nservice: web\nscript: ${JSON.stringify(script)}\n`,
  });
  const many = `${Array.from({ length: 30 }, (_, at) => `echo line ${at}`).join('; ')}; exit 3`;

  it('is shown below the failure of a test and in the history of its stack: the last lines, and where there are more', async () => {
    const { sim, run } = fleet(files('test: [{ job: say }]', many));
    await sim.apply();
    const { code, err } = await run('stack test shop');
    expect(code).toBe(1);
    expect(err).toMatch(/error\[HOOK_FAILED\]: test of shop failed: job say: exit code 3/);
    expect(err).toMatch(/ {2}read +windlass hooks log shop test 1\n/);
    expect(err).toContain('  | line 20\n');
    expect(err).toContain('  | line 29\n');
    expect(err).not.toContain('line 19\n');
    expect(err).not.toContain('the sequence is tried again');
    const { out } = await run('history shop');
    expect(out).toMatch(
      /\n {2}job say: exit code 3\n {2}\| line 25\n[\s\S]*\| line 29\n {2}all of it: windlass hooks log shop test\n$/,
    );
    expect((await run('history')).out).not.toContain('line 29');
  });

  it.each([[false], [true]])('moves no cursor and turns no line round, on a terminal: %s', async (tty) => {
    const { sim } = fleet(files('test: [{ job: say, name: "a\\u202eb" }]', 'echo x\u001b[2Jy\u0085z\u202ew; exit 3'));
    await sim.apply();
    const { err } = await windlass(sim, ['stack', 'test', 'shop'], { tty });
    expect(err).toContain('test of shop failed: ab: exit code 3');
    expect(err.replaceAll(/\u001b\[\d+m/g, '')).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
  });

  it('that is passed over is not hidden by the success of its phase', async () => {
    const { sim, run } = fleet(files('test: [{ job: say, on_failure: continue }]', 'exit 3'));
    await sim.apply();
    const { code, err } = await run('stack test shop');
    expect(code).toBe(0);
    expect(err).toContain('test of shop: succeeded (job say failed and was passed over: exit code 3)\n');
    expect((await run('history shop')).out).toContain(
      'test succeeded (job say failed and was passed over: exit code 3)',
    );
  });
});

describe('suspend', () => {
  it('says what becomes of a deploy that is under way, and says nothing of one when there is none', async () => {
    const { sim, run } = fleet({ 'plain/compose.yaml': 'services: { web: { image: "windlass-test/busybox:1" } }' });
    await sim.apply();
    expect((await run('suspend plain')).err).toBe('plain is suspended\n');
    const { store } = sim.house;
    const [newest] = store.runs({ stack: 'plain', limit: 1 });
    store.putRun({ ...newest!, id: 'next', outcome: 'running', endedAtMs: 0 });
    expect((await run('suspend plain')).err).toBe('plain is suspended\n');
    store.acquire('stack/plain', 'another', 60_000, sim.clock.nowMs());
    expect((await run('suspend plain')).err).toMatch(
      /^plain is suspended\n {2}a deploy of it is under way: .*end after their current action.*it runs to its end\n$/,
    );
  });
});

describe('rollback', () => {
  const say = 'apiVersion: windlass/v1\nkind: Job\nservice: web\nscript: echo hi\n';
  const hooks = ['pre', 'post'].map((when) => `  ${when}_rollback: [{ job: say }, { wait-healthy: true }]\n`).join('');
  const compose = (image: string) => `services:\n  web:\n    image: windlass-test/${image}\n`;

  it.each([
    ['of what was deployed', false],
    ['of what failed', true],
  ])('%s shows the hooks around it before it asks, and runs those', async (_what, isFailing) => {
    const sim = new SimHouse();
    houses.push(sim);
    const files = { 'stacks/shop/stack.yaml': stack(`hooks:\n${hooks}`), 'stacks/shop/say.job.yaml': say };
    sim.source.push({ ...files, 'stacks/shop/compose.yaml': compose('busybox:1') });
    const run = (line: string) => windlass(sim, line.split(' '));
    expect((await run('apply --yes')).code).toBe(0);
    sim.source.push({ 'stacks/shop/compose.yaml': compose('web:1') });
    if (isFailing) sim.world.failNext('up');
    expect((await run('apply --yes')).code === 0).toBe(!isFailing);
    const { err } = await run('rollback shop');
    const shown = ['before', 'after'].flatMap((when) => [
      `    hook ${when === 'before' ? 'pre' : 'post'}_rollback ${when} the change`,
      '      1. job say',
      '      2. wait until all services are healthy',
    ]);
    expect(err.split('\n').filter((line) => /^ {4,}(hook|\d\.)/.test(line))).toEqual(shown);
    expect((await run('rollback shop --yes')).code).toBe(0);
    const [newest] = sim.house.store.runs({ stack: 'shop', limit: 1 });
    expect(newest?.hooks?.map((one) => one.phase)).toEqual(['pre_rollback', 'post_rollback']);
  });
});

describe('hooks graph', () => {
  it('draws the machine that would run: every way out passes restoring', async () => {
    const { code, out } = await fleet().run('hooks graph sso post_update');
    expect(code).toBe(0);
    expect(out).toMatch(/^stateDiagram-v2\n {2}\[\*\] --> a1\n {2}a1: 1 job keycloak-init\n/);
    expect(out).toContain('  a1 --> a2\n');
    expect(out).toContain('  a4: 4 scale keycloak to ref+hook#58;//previous\n');
    const edges = [...out.matchAll(/^ {2}(\w+) --> (\w+)/gm)].map((match) => [match[1], match[2]]);
    const endings = ['succeeded', 'halted', 'failed', 'cancelled', 'superseded', 'restoreFailed'];
    expect(edges.filter(([from, to]) => endings.includes(to ?? '') && from !== 'restoring')).toEqual([]);
  });

  it('gives the machine itself as JSON', async () => {
    const chart = await fleet().json('hooks graph sso post_install');
    expect(chart).toMatchObject({ id: 'sso:post_install', initial: 'a1', states: { a5: { invoke: { src: 'job' } } } });
  });

  it('of a phase in which nothing runs says so', async () => {
    const { code, out, err } = await fleet().run('hooks graph sso pre_update');
    expect([code, out, err]).toEqual([0, '', 'no hook runs in pre_update for sso\n']);
  });
});
