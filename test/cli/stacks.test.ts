// Commands over a simulated house: what a person and a pipeline see, and with which code they end.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { formatStatuses } from '../../src/cli/views/status.ts';
import { Nudges } from '../../src/controller/nudges.ts';
import { SimHouse } from '../sim/sim-house.ts';
import { type TerminalOptions, windlass } from './fake-terminal.ts';

const IMAGE = 'windlass-test/busybox:1';
const web = (image = IMAGE, more = '') => `services:\n  web:\n    image: ${image}\n${more}`;
const PLAIN = { paint: (_style: unknown, text: string) => text };

const houses: SimHouse[] = [];
const dir = mkdtempSync(join(tmpdir(), 'wlt-cli-'));
afterEach(() => {
  for (const house of houses.splice(0)) house.dispose();
  rmSync(dir, { recursive: true, force: true });
});

interface Desk {
  readonly sim: SimHouse;
  run(line: string, options?: TerminalOptions): ReturnType<typeof windlass>;
  // biome-ignore lint/suspicious/noExplicitAny: each test says what it expects of it
  json(line: string): Promise<any>;
}

/** A fleet of two stacks; deployed unless said otherwise. */
async function fleet(files: Record<string, string> = {}, deployed = true): Promise<Desk> {
  const sim = new SimHouse();
  houses.push(sim);
  sim.source.push({ 'stacks/shop/compose.yaml': web(), 'stacks/blog/compose.yaml': web(), ...files });
  const run: Desk['run'] = (line, options) => windlass(sim, line.split(' '), options);
  if (deployed) {
    const { code, err } = await run('apply --yes');
    expect([code, err]).toEqual([0, err]);
    sim.world.clearCalls();
  }
  return { sim, run, json: async (line) => JSON.parse((await run(`${line} -o json`)).out) };
}

const digits = (text: string): string =>
  text
    .replaceAll(/sha256:[0-9a-f]{64}/g, 'sha256:…')
    .replaceAll(/@[0-9a-f]{7}\b/g, '@…')
    .replaceAll(/\b[0-9a-f]{16}\b/g, '…');

describe('plan', () => {
  it('shows what would be done, stack by stack, unchanged ones as a count', async () => {
    const { sim, run } = await fleet();
    sim.source.push({
      'stacks/shop/compose.yaml': web('windlass-test/web:1', '    environment: { MODE: fast }\n'),
      'stacks/new/compose.yaml': `${web()}  side:\n    image: ${IMAGE}\n`,
    });
    const { code, out, err } = await run('plan');
    expect([code, err]).toEqual([0, '']);
    expect(digits(out)).toBe(`revision main@…  change

new: not deployed yet
  + create side (new-side-1): the service is new
  + create web (new-web-1): the service is new

shop: desired state changed
  ~ recreate web (shop-web-1): its definition changed
      environment.MODE: + fast
      image: ${IMAGE} → windlass-test/web:1

1 in sync
Plan: 2 to create, 1 to recreate; digest sha256:…
`);
    expect(sim.world.mutatingCalls()).toEqual([]);
  });

  it('has nothing to do after an apply; --detailed-exitcode tells changes from none', async () => {
    const { sim, run } = await fleet();
    const before = await run('plan --detailed-exitcode');
    expect(before.code).toBe(0);
    expect(before.out).toMatch(/2 in sync\nPlan: nothing to do\n$/);
    sim.source.push({ 'stacks/shop/compose.yaml': web('windlass-test/web:1') });
    expect((await run('plan --detailed-exitcode')).code).toBe(2);
    expect((await run('plan')).code).toBe(0);
    expect((await run('plan blog --detailed-exitcode')).code).toBe(0);
  });

  it('of a wrong declaration says the place and ends with 3, whatever the others do', async () => {
    const { sim, run } = await fleet();
    sim.source.push({
      'stacks/shop/compose.yaml': 'services: [',
      'stacks/blog/compose.yaml': web('windlass-test/web:1'),
    });
    const { code, out } = await run('plan --detailed-exitcode');
    expect(code).toBe(3);
    expect(out).toMatch(/error\[YAML_INVALID\].*\n {2}at {7}stacks\/shop\/compose.yaml:\d+:\d+/);
    expect(out).toMatch(/Plan: 1 to recreate, 1 with errors/);
  });

  it('as JSON parses and bears the same digest', async () => {
    const { json, run } = await fleet({}, false);
    const plan = await json('plan');
    expect(plan).toMatchObject({
      windlass: 'plan-view',
      version: 1,
      counts: { create: 2 },
      guard: null,
      refused: null,
    });
    expect(plan.stacks.map((one: { stack: string; state: string }) => [one.stack, one.state])).toEqual([
      ['blog', 'install'],
      ['shop', 'install'],
    ]);
    expect((await run('plan')).out).toContain(plan.digest);
  });

  it('shows every step with --steps, and changes nothing', async () => {
    const { sim, run } = await fleet({}, false);
    const { out } = await run('plan --steps');
    for (const step of ['materialize', 'pull-images', 'converge', 'settle', 'record']) expect(out).toContain(step);
    expect(out).toMatch(/would execute/);
    expect(sim.world.mutatingCalls()).toEqual([]);
    expect(sim.house.store.attempt('shop')).toBeNull();
  });

  it('names a stack that is not there, and those that are', async () => {
    const { run } = await fleet();
    const { code, err } = await run('plan shp');
    expect(code).toBe(3);
    expect(err).toMatch(/error\[NOT_FOUND\]: there is no stack shp at main@.*\n {2}known {4}blog, shop/);
  });
});

describe('apply', () => {
  it('asks on a terminal; no is 4 and changes nothing', async () => {
    const { sim, run } = await fleet({}, false);
    for (const answer of ['n', 'nope', '']) {
      const { code, err } = await run('apply', { tty: true, answer });
      expect([answer, code]).toEqual([answer, 4]);
      expect(err).toMatch(/Do it\? \[y\/N\]/);
      expect(err).toMatch(/declined: nothing was changed/);
    }
    expect(sim.world.mutatingCalls()).toEqual([]);
  });

  it('does it after a yes', async () => {
    const { sim, run } = await fleet({}, false);
    const { code, out } = await run('apply', { tty: true, answer: 'yes', env: { NO_COLOR: '1' } });
    expect(code).toBe(0);
    expect(out).toMatch(/Plan: 2 to create/);
    expect(sim.world.containersOf('shop')).toHaveLength(1);
  });

  it('needs --yes where nobody can be asked', async () => {
    const { sim, run } = await fleet({}, false);
    const { code, out, err } = await run('apply');
    expect(code).toBe(3);
    expect(out).toMatch(/Plan: 2 to create/);
    expect(err).toMatch(/nobody is there to say yes\n {2}help {5}read the plan above, then give --yes/);
    expect(sim.world.mutatingCalls()).toEqual([]);
  });

  it('asks nothing when nothing changes', async () => {
    const { run } = await fleet();
    const { code, out, err } = await run('apply');
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(/Plan: nothing to do/);
  });

  it('of one stack leaves the others alone', async () => {
    const { sim, run } = await fleet({}, false);
    expect((await run('apply --yes --stack shop')).code).toBe(0);
    expect(sim.world.containersOf('blog')).toEqual([]);
    expect(sim.world.containersOf('shop')).toHaveLength(1);
  });

  it('as JSON answers its runs; the plan is words then', async () => {
    const { run } = await fleet({}, false);
    const { out, err } = await run('apply --yes -o json');
    expect(JSON.parse(out)).toMatchObject({ runs: [{ outcome: 'succeeded' }, { outcome: 'succeeded' }], failures: {} });
    expect(err).toMatch(/Plan: 2 to create/);
  });

  it('as NDJSON is a version line and one event a line', async () => {
    const { run } = await fleet({}, false);
    const lines = (await run('apply --yes -o ndjson')).out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines[0]).toMatchObject({ windlass: 'plan-events', version: 1 });
    expect(lines.at(-1)).toMatchObject({ event: 'run-end', ok: true });
  });

  it('ends with 1 when a service fails, and shows its last lines', async () => {
    const { run } = await fleet(
      { 'stacks/shop/compose.yaml': web(IMAGE, '    command: ["sh", "-c", "echo the disk is full; exit 1"]\n') },
      false,
    );
    const { code, err } = await run('apply --yes');
    expect(code).toBe(1);
    expect(err).toMatch(
      /error\[(SERVICE_CRASHED|ONE_SHOT_FAILED)\][\s\S]*stack {4}shop[\s\S]*\| the disk is full\n {2}help {5}read the last log lines/,
    );
    expect(err).toMatch(/1 deployed, 1 failed/);
  });

  it('deploys the others when one stack is wrong, and ends with 1', async () => {
    const { sim, run } = await fleet({ 'stacks/shop/compose.yaml': 'services: [' }, false);
    const { code, out } = await run('apply --yes');
    expect(code).toBe(1);
    expect(out).toMatch(/error\[YAML_INVALID\]/);
    expect(sim.world.containersOf('blog')).toHaveLength(1);
    expect((await run('apply')).code).toBe(1);
  });

  it('carries out a saved plan, and refuses it once the world has moved', async () => {
    const { sim, run } = await fleet({}, false);
    const file = join(mkdtempSync(join(tmpdir(), 'wlt-cli-')), 'plan.json');
    expect((await run(`plan --out ${file}`)).err).toMatch(/saved to .*apply it with/);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ windlass: 'plan', version: 1, stacks: [] });
    sim.source.push({ 'stacks/shop/compose.yaml': web('windlass-test/web:1') });
    const stale = await run(`apply ${file} --yes`);
    expect(stale.code).toBe(1);
    expect(stale.err).toMatch(/error\[PLAN_STALE\]/);
    expect(sim.world.mutatingCalls()).toEqual([]);
    await run(`plan --out ${file}`);
    expect((await run(`apply ${file} --yes`)).code).toBe(0);
    expect((await run(`apply ${file} --yes`)).code).toBe(1);
    rmSync(join(file, '..'), { recursive: true });
  });

  it('refuses a saved plan that would now uninstall what it did not show', async () => {
    const { sim, run } = await fleet({ 'stacks/third/compose.yaml': web(), 'stacks/fourth/compose.yaml': web() });
    const file = join(mkdtempSync(join(tmpdir(), 'wlt-cli-')), 'plan.json');
    await run(`plan --out ${file}`);
    sim.source.push({ 'stacks/third': null });
    expect((await run(`apply ${file} --yes`)).err).toMatch(/PLAN_STALE/);
    expect(sim.world.containersOf('third')).toHaveLength(1);
    rmSync(join(file, '..'), { recursive: true });
  });

  it('uninstalls what left the fleet and says so before; --no-prune leaves it', async () => {
    const { sim, run } = await fleet({ 'stacks/third/compose.yaml': web(), 'stacks/fourth/compose.yaml': web() });
    sim.source.push({ 'stacks/third': null });
    expect((await run('plan --detailed-exitcode')).out).toMatch(
      /third: left the fleet\n {2}- uninstall[\s\S]*1 to uninstall/,
    );
    expect((await run('apply --no-prune')).code).toBe(0);
    expect(sim.world.containersOf('third')).toHaveLength(1);
    const { code, err } = await run('apply --yes');
    expect([code, sim.world.containersOf('third')]).toEqual([0, []]);
    expect(err).toMatch(/uninstalled third; its volumes stay/);
  });

  it('leaves a suspended stack alone and says why, whoever suspended it', async () => {
    const { sim, run } = await fleet({
      'stacks/blog/stack.yaml': 'apiVersion: windlass/v1\nkind: Stack\nsuspend: { reason: holidays }\n',
    });
    await run('suspend shop --reason moving');
    sim.source.push({
      'stacks/shop/compose.yaml': web('windlass-test/web:1'),
      'stacks/blog/compose.yaml': web('windlass-test/web:1'),
    });
    sim.world.clearCalls();
    const { code, out } = await run('apply --yes');
    expect(code).toBe(0);
    expect(out).toMatch(/suspended: moving; it is left as it is/);
    expect(out).toMatch(/suspended: holidays; it is left as it is/);
    expect(out).toMatch(/Plan: 2 held\n/);
    expect(sim.world.mutatingCalls()).toEqual([]);
  });

  it('refuses a branch that does not go on from the accepted commit: 5, until a person accepts it', async () => {
    const { sim, run } = await fleet();
    const tip = sim.source.push({ 'stacks/shop/compose.yaml': web('windlass-test/web:1') }, []);
    for (const line of ['plan --detailed-exitcode', 'apply --yes']) {
      const { code, out } = await run(line);
      expect([line, code]).toEqual([line, 5]);
      expect(out).toMatch(/error\[HISTORY_REWRITTEN\][\s\S]*windlass trust accept TIP/);
    }
    expect(sim.world.mutatingCalls()).toEqual([]);
    expect((await run(`trust accept ${'0'.repeat(40)}`)).code).toBe(1);
    expect((await run(`trust accept ${tip.slice(0, 12)}`)).code).toBe(0);
    expect((await run('apply --yes')).code).toBe(0);
  });

  it('reconcile --wait does not wait at a controller for a branch that does not go on from the accepted commit', async () => {
    const { sim, run } = await fleet();
    sim.source.push({ 'stacks/shop/compose.yaml': web('windlass-test/web:1') }, []);
    const { store, clock } = sim.house;
    store.putValue('controller', { owner: 'another', sinceMs: clock.nowMs() });
    const nudges = new Nudges(store);
    const hears = setInterval(() => {
      for (const nudge of nudges.take()) nudges.done(nudge, clock.nowMs());
    }, 5);
    const { code, err } = await run('reconcile --all --wait --timeout 20s').finally(() => clearInterval(hears));
    expect([code, err]).toEqual([5, expect.stringMatching(/the controller looks\nerror\[HISTORY_REWRITTEN\]/)]);
  });

  it('a rewritten branch says nothing of what left the fleet or differs: prune and diff refuse it as plan does', async () => {
    const { sim, run } = await fleet();
    sim.source.push({ 'stacks/shop': null, 'stacks/other/compose.yaml': web() }, []);
    for (const line of ['prune', 'prune --confirm 0123456789abcdef', 'diff shop', 'diff other']) {
      const { code, out, err } = await run(line);
      expect([line, code, out]).toEqual([line, 5, '']);
      expect(err).toMatch(/^error\[HISTORY_REWRITTEN\]/);
    }
    expect(sim.world.mutatingCalls()).toEqual([]);
  });

  it('is told who works on the stack: 6', async () => {
    const { sim, run } = await fleet({}, false);
    sim.house.store.acquire('stack/shop', 'elsewhere:1', 60_000, sim.clock.nowMs());
    const { code, err } = await run('apply --yes');
    expect(code).toBe(6);
    expect(err).toMatch(/error\[LOCK_HELD\]: stack shop is being worked on by elsewhere:1/);
    const refused = await run('unlock shop');
    expect(refused.code).toBe(6);
    expect((await run('unlock')).out).toMatch(/stack\/shop {2}elsewhere:1 {2}held/);
    expect((await run('unlock shop --force')).code).toBe(0);
    expect((await run('unlock shop')).err).toMatch(/was not locked/);
    expect((await run('apply --yes')).code).toBe(0);
  });

  it('does not begin when it was stopped before', async () => {
    const { run, sim } = await fleet({}, false);
    const { code, err } = await run('apply --yes', { stop: AbortSignal.abort() });
    expect(code).toBe(1);
    expect(err).toBe('0 deployed, 2 stacks not begun\n');
    expect(sim.world.containersOf('shop')).toEqual([]);
  });

  it('goes on with what does not build on a stack that failed, layer by layer', async () => {
    const on = (name: string) => `apiVersion: windlass/v1\nkind: Stack\nintegrate: { db: ${name} }\n`;
    const { run, sim } = await fleet(
      {
        'stacks/ill/compose.yaml': web('windlass-test/nothing:1'),
        'stacks/ill-2/compose.yaml': web(),
        'stacks/ill-2/stack.yaml': on('ill'),
        'stacks/ill-3/compose.yaml': web(),
        'stacks/ill-3/stack.yaml': on('ill-2'),
        'stacks/shop-2/compose.yaml': web(),
        'stacks/shop-2/stack.yaml': on('shop'),
        'stacks/shop-3/compose.yaml': web(),
        'stacks/shop-3/stack.yaml': on('shop-2'),
      },
      false,
    );
    const { code, err } = await run('apply --yes');
    expect([code, err]).toEqual([1, expect.stringMatching(/\n4 deployed, 1 failed, 2 stacks not begun\n$/)]);
    for (const [name, count] of Object.entries({ shop: 1, blog: 1, 'shop-2': 1, 'shop-3': 1, 'ill-2': 0, 'ill-3': 0 }))
      expect([name, sim.world.containersOf(name).length]).toEqual([name, count]);
    sim.source.push({ 'stacks/ill/compose.yaml': web() });
    expect((await run('apply --yes')).err).toMatch(/\n3 deployed\n$/);
  });

  it('counts what was stopped in the middle as cancelled, and neither it nor a later layer or uninstall as failed or done', async () => {
    const { run, sim } = await fleet({ 'stacks/away/compose.yaml': web() });
    const provided = 'apiVersion: windlass/v1\nkind: Stack\nintegrate: { db: shop }\n';
    sim.source.push({
      'stacks/away': null,
      'stacks/shop/compose.yaml': web('windlass-test/web:1'),
      'stacks/blog/compose.yaml': web('windlass-test/web:1'),
      'stacks/late/compose.yaml': web(),
      'stacks/late/stack.yaml': provided,
    });
    const stop = new AbortController();
    const { runtime } = sim.house;
    const up: typeof runtime.up = (input) => {
      stop.abort();
      return runtime.up(input);
    };
    sim.house = { ...sim.house, runtime: { ...runtime, up } };
    const { code, err } = await run('apply --yes', { stop: stop.signal });
    expect(code).toBe(1);
    expect(err).toMatch(/\n0 deployed, 2 cancelled, 1 stack not begun, 1 stack not uninstalled\n$/);
    expect(err).not.toMatch(/error\[/);
    expect(sim.house.store.conditions('late')).toEqual([]);
    expect((await run('apply --yes')).err).toMatch(/\n3 deployed, 1 uninstalled\n$/);
  });
});

describe('validate', () => {
  it('prints every mistake with place, detail and help, in the order of the files', async () => {
    const { run } = await fleet(
      {
        'stacks/blog/stack.yaml': 'apiVersion: windlass/v1\nkind: Stack\ndrfit: heal\n',
        'stacks/shop/stack.yaml': 'apiVersion: windlass/v1\nkind: Stack\nprune: maybe\n',
      },
      false,
    );
    const { code, out, err } = await run('validate');
    expect(code).toBe(3);
    expect(out).toMatchInlineSnapshot(`
      "error[SPEC_INVALID]: unknown key \`drfit\`
        at       stacks/blog/stack.yaml:3:1
        stack    blog
        detail   expected one of apiVersion, kind, name, description, app, version, group, vars, integrate, ports, replicas, node, runtime, drift, prune, adopt, onFailure, timeout, windows, suspend, backup, hooks
        help     did you mean \`drift\`?

      error[SPEC_INVALID]: wrong type for \`prune\`
        at       stacks/shop/stack.yaml:3:8
        stack    shop
        detail   expected true or false; found the string "maybe"

      "
    `);
    expect(err).toBe('2 stacks: 2 errors, 0 warnings\n');
  });

  it('reads requests and policies too, with their places; what is wrong there stops no stack', async () => {
    const files = {
      'requests/back.yaml':
        'apiVersion: windlass/v1\nkind: Restore\nstack: shop\narchive: newest\nexpires: 2030-01-01T00:00:00Z\n',
      'requests/Bad_Name.yaml': 'kind: Restore\n',
      'trust/policy/v0001.yaml': 'apiVersion: windlass/v1\nkind: Policy\nverison: 1\n',
      'trust/README.md': 'not read',
    };
    const { sim, run } = await fleet(files);
    const { code, out } = await run('validate');
    expect(code).toBe(3);
    expect(out.match(/^ {2}at .*$/gm)?.map((line) => line.trim())).toEqual(
      expect.arrayContaining([
        'at       requests/Bad_Name.yaml',
        'at       requests/back.yaml:4:10',
        'at       trust/policy/v0001.yaml:3:1',
      ]),
    );
    expect(sim.world.containersOf('shop')).toHaveLength(1);
    expect((await run('get')).out).toMatch(/shop +True/);
  });

  it('of a good fleet says nothing but the count', async () => {
    const { run } = await fleet({}, false);
    expect(await run('validate')).toEqual({ code: 0, out: '', err: '2 stacks: 0 errors, 0 warnings\n' });
  });

  it('cannot check what Compose cannot be asked for: 1, said once', async () => {
    const { sim, run } = await fleet({}, false);
    sim.world.setReachable(false);
    const { code, err } = await run('validate');
    expect(code).toBe(1);
    expect(err.match(/error\[ENGINE_UNREACHABLE\]/g)).toHaveLength(1);
    expect(err).toMatch(/2 could not be checked/);
  });

  it('as JSON parses', async () => {
    const { json } = await fleet({ 'stacks/shop/compose.yaml': 'services: [' }, false);
    expect(await json('validate')).toMatchObject({
      stacks: 2,
      diagnostics: [{ code: 'NAME_UNKNOWN' }, { code: 'YAML_INVALID', stack: 'shop' }],
      faults: [],
    });
  });
});

describe('get', () => {
  it('shows a row a stack', async () => {
    const { sim, run } = await fleet();
    const { code, out, err } = await run('get');
    expect(code).toBe(0);
    const revision = sim.source.head!.slice(0, 7);
    expect(out).toBe(`NAME  READY  REASON     REVISION  HEALTHY  DRIFTED  AGE  MESSAGE
blog  True   Succeeded  ${revision}   True     False    0s   runs what ${revision} asks for
shop  True   Succeeded  ${revision}   True     False    0s   runs what ${revision} asks for
`);
    expect(err).toMatch(/no controller runs on this state directory/);
  });

  it('shows one stack in full', async () => {
    const { run, json } = await fleet();
    await run('suspend shop --until 2h --reason moving');
    const { out } = await run('get shop');
    expect(out).toMatch(
      /^stack {5}shop\ndeployed {2}[0-9a-f]{12}, 0s ago\nservice {3}web {2}windlass-test\/busybox:1 {2}×1/,
    );
    expect(out).toMatch(/hold {6}suspended until \d{4}-.*: moving/);
    expect(out).toMatch(/last run {2}deploy succeeded/);
    expect(out).toMatch(/CONDITION {3,}STATUS/);
    expect(await json('get shop')).toMatchObject({
      name: 'shop',
      holds: [{ kind: 'suspended' }],
      lastRun: { outcome: 'succeeded' },
    });
    expect(await json('get')).toHaveLength(2);
  });

  it('of a stack that is not there is a mistake', async () => {
    const { run } = await fleet();
    expect((await run('get nix')).code).toBe(3);
  });

  it('stays one line a stack, whatever a message holds', () => {
    const name = 'shop';
    const ready = {
      type: 'Ready',
      status: 'False',
      reason: 'Failed',
      message: 'a\nb\u001b[31mc',
      revision: '',
      sinceMs: 0,
    } as const;
    const text = formatStatuses(
      { ...PLAIN, width: 60 },
      [{ name, conditions: [ready], applied: null, attempt: null, holds: [] }],
      5_000,
    );
    expect(text.split('\n')).toHaveLength(2);
    expect(text).not.toContain('\u001b');
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(60);
  });
});

describe('colour', () => {
  const ESCAPE = /\u001b\[/;
  it('is for a terminal only, and not with NO_COLOR or a dumb one', async () => {
    const { run } = await fleet();
    expect((await run('get', { tty: true })).out).toMatch(ESCAPE);
    expect((await run('get', { tty: false })).out).not.toMatch(ESCAPE);
    expect((await run('get', { tty: true, env: { NO_COLOR: '1' } })).out).not.toMatch(ESCAPE);
    expect((await run('get', { tty: true, env: { TERM: 'dumb' } })).out).not.toMatch(ESCAPE);
  });

  it('is the only escape that reaches a terminal', async () => {
    const { sim, run } = await fleet();
    const [container] = sim.world.containersOf('shop');
    sim.house.store.appendEvent({
      atMs: 0,
      stack: 'shop',
      level: 'info',
      reason: 'X',
      message: 'a\u001b[2Jb\u001b[8mc\u0007',
      revision: '',
    });
    expect(container).toBeDefined();
    const { out } = await run('events', { tty: true });
    expect(out).toMatch(/X a/);
    expect(out).not.toMatch(/\u001b\[2J|\u001b\[8m|\u0007/);
  });
});

describe('secrets', () => {
  it('are redacted in data, words and JSON alike', async () => {
    const { sim, run } = await fleet();
    sim.house.store.appendEvent({
      atMs: 0,
      stack: 'shop',
      level: 'info',
      reason: 'X',
      message: 'pass"word',
      revision: '',
    });
    const redact = (text: string): string => text.replaceAll('pass"word', '[redacted]').replaceAll('shop', '[stack]');
    const json = await run('events -o json', { redact });
    expect(JSON.parse(json.out).at(-1).message).toBe('[redacted]');
    expect((await run('events', { redact })).out).toMatch(/\[redacted\]/);
    expect((await run('plan shop2', { redact })).err).not.toMatch(/shop/);
  });
});

describe('one stack', () => {
  it('diff shows every field and ends with 2 when there is one', async () => {
    const { sim, run, json } = await fleet();
    expect(await run('diff shop')).toEqual({ code: 0, out: 'shop: in sync\n', err: '' });
    sim.source.push({ 'stacks/shop/compose.yaml': web('windlass-test/web:1') });
    const { code, out } = await run('diff shop');
    expect(code).toBe(2);
    expect(out).toMatch(/image: windlass-test\/busybox:1 → windlass-test\/web:1/);
    expect(await json('diff shop')).toMatchObject({ stack: 'shop', situation: 'update' });
    sim.source.push({ 'stacks/shop/compose.yaml': 'services: [' });
    expect((await run('diff shop')).code).toBe(3);
  });

  it('render prints what Compose is given', async () => {
    const { run, json } = await fleet();
    expect((await run('render shop')).out).toMatch(/^services:\n {2}web:|name: shop/m);
    expect(await json('render shop')).toMatchObject({ services: { web: { image: IMAGE } } });
  });

  it('history, events, trace and logs find it', async () => {
    const { sim, run, json } = await fleet();
    expect((await run('history shop')).out).toMatch(
      /^WHEN +STACK +OPERATION[\s\S]*shop +deploy +[0-9a-f]{7} +succeeded/,
    );
    expect(await json('history shop')).toHaveLength(1);
    expect((await json('events shop')).map((one: { reason: string }) => one.reason)).toContain('Deployed');
    const traced = await json('trace shop-web-1');
    expect(traced).toMatchObject([{ service: 'web', stack: 'shop', revision: sim.source.head, signer: null }]);
    expect((await run('trace nothing')).code).toBe(3);
    expect((await run('logs shop')).code).toBe(0);
    expect((await run('logs shop nope')).code).toBe(3);
  });

  it('wait ends at once for what is true, with 1 at the end of the time, and with 3 for nobody', async () => {
    const { run } = await fleet();
    expect((await run('wait shop')).out).toBe('shop: Ready Succeeded\n');
    expect((await run('wait shop --for drifted --timeout 2s')).code).toBe(1);
    expect((await run('wait nix --timeout 2s')).code).toBe(3);
    expect((await run('wait shop --revision head')).code).toBe(0);
    expect((await run('wait shop --revision 0000000 --timeout 1s')).err).toMatch(/shop is not Ready/);
  });

  it('reconcile does one pass itself when no controller runs', async () => {
    const { sim, run } = await fleet();
    sim.source.push({ 'stacks/shop/compose.yaml': web('windlass-test/web:1'), 'stacks/blog': null });
    const { code, err } = await run('reconcile shop');
    expect(code).toBe(0);
    expect(err).toMatch(/no controller runs on this state directory: one pass from here/);
    expect(sim.world.containersOf('shop')[0]?.spec.image).toBe('windlass-test/web:1');
    expect((await run('reconcile --all')).code).toBe(0);
    expect(sim.world.containersOf('blog')).toHaveLength(1);
  });

  it('stop is remembered, and start forgets it', async () => {
    const { sim, run, json } = await fleet();
    expect((await run('stack stop shop')).out).toBe('shop-web-1\n');
    expect((await run('apply --yes')).out).toMatch(/stopped: stopped by a person; it is left as it is/);
    expect(sim.world.containersOf('shop')[0]?.state).toBe('exited');
    expect(await json('stack start shop')).toEqual({ stack: 'shop', act: 'start', containers: ['shop-web-1'] });
    expect((await run('stack restart shop')).err).toMatch(/1 container\n/);
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
    expect((await run('stack stop nix')).code).toBe(3);
  });

  it('suspend refuses a time that is none or over', async () => {
    const { run } = await fleet();
    expect((await run('suspend shop --until tomorrow')).code).toBe(3);
    expect((await run('suspend shop --until 1999-01-01')).err).toMatch(/in the past/);
    expect((await run('suspend nix')).code).toBe(3);
    expect((await run('resume shop')).err).toBe('shop follows git\n');
  });

  it('scale is refused for what runs to its end once', async () => {
    const once = '  once:\n    image: windlass-test/busybox:1\n    x-windlass: { oneShot: true }\n';
    const { sim, run } = await fleet({ 'stacks/shop/compose.yaml': web(IMAGE, once) }, false);
    sim.world.behave('shop/once', { kind: 'exit', code: 0, afterMs: 100 });
    expect((await run('apply --yes')).code).toBe(0);
    await run('suspend shop');
    sim.world.clearCalls();
    const { code, err } = await run('stack scale shop once=2');
    expect([code, err]).toEqual([3, expect.stringMatching(/once runs to its end once; a scale would run it again/)]);
    expect(sim.world.mutatingCalls()).toEqual([]);
  });

  it('scale is refused while the stack follows git, and counts while it is suspended', async () => {
    const { sim, run, json } = await fleet();
    const refused = await run('stack scale shop web=3');
    expect(refused.code).toBe(3);
    expect(refused.err).toMatch(/follows git.*`windlass suspend shop` first/);
    await run('suspend shop');
    expect((await run('stack scale shop web=3')).out).toBe('web: 1 → 3\n');
    expect(sim.world.containersOf('shop')).toHaveLength(3);
    expect(await json('stack scale shop web=1')).toEqual({
      stack: 'shop',
      scaled: [{ service: 'web', before: 3, after: 1 }],
    });
    expect(sim.world.containersOf('shop').map((one) => one.name)).toEqual(['shop-web-1']);
    expect((await run('stack scale shop nope=2')).err).toMatch(/has no service nope; it has web/);
    await run('stack scale shop web=2');
    await run('resume shop');
    expect((await run('apply --yes')).code).toBe(0);
    expect(sim.world.containersOf('shop')).toHaveLength(1);
  });

  it('scale deploys nothing that waits in git', async () => {
    const { sim, run } = await fleet();
    await run('suspend shop');
    sim.source.push({ 'stacks/shop/compose.yaml': web('windlass-test/web:1') });
    sim.world.clearCalls();
    const { code, err } = await run('stack scale shop web=2');
    expect(code).toBe(3);
    expect(err).toMatch(/differs from git in more than its count/);
    expect(sim.world.mutatingCalls()).toEqual([]);
  });

  it('rollback shows what it would do, asks, and stays until git changes', async () => {
    const { sim, run } = await fleet();
    expect((await run('rollback shop --yes')).err).toMatch(/deployed only once/);
    sim.source.push({ 'stacks/shop/compose.yaml': web('windlass-test/web:1') });
    await run('apply --yes');
    sim.world.clearCalls();
    const asked = await run('rollback shop', { tty: true, answer: 'n', env: { NO_COLOR: '1' } });
    expect(asked.code).toBe(4);
    expect(asked.err).toMatch(/back to [0-9a-f]{12}[\s\S]*~ recreate web[\s\S]*web:1 → windlass-test\/busybox:1/);
    expect(sim.world.mutatingCalls()).toEqual([]);
    expect(await run('rollback shop')).toMatchObject({ code: 3 });
    expect((await run('rollback shop --yes')).code).toBe(0);
    expect(sim.world.containersOf('shop')[0]?.spec.image).toBe(IMAGE);
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
  });

  it('rollback after a push that never deployed holds what was deployed last; asked again, it goes further back', async () => {
    const { sim, run } = await fleet();
    const deploy = async (image: string): Promise<string> => {
      const commit = sim.source.push({ 'stacks/shop/compose.yaml': web(image) });
      await run('apply --yes');
      return commit;
    };
    const good = [await deploy('windlass-test/web:1'), await deploy('windlass-test/web:2')];
    const bad = await deploy('windlass-test/none:1');
    expect(sim.house.store.applied('shop')?.revision).toBe(good[1]);
    sim.world.clearCalls();
    const first = await run('rollback shop --yes');
    expect([first.code, first.err]).toEqual([0, expect.stringContaining(`from    ${bad.slice(0, 12)}`)]);
    expect(first.err).toContain('which was not deployed: the stack stays as it was before');
    expect(first.err).toContain(`back to ${good[1]?.slice(0, 12)}`);
    expect(sim.world.mutatingCalls()).toEqual([]);
    expect(sim.world.containersOf('shop')[0]?.spec.image).toBe('windlass-test/web:2');
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
    const second = await run('rollback shop --yes');
    expect([second.code, second.err]).toEqual([0, expect.stringContaining(`back to ${good[0]?.slice(0, 12)}`)]);
    expect(sim.world.containersOf('shop')[0]?.spec.image).toBe('windlass-test/web:1');
  });
});

describe('get of one stack', () => {
  it('names what is deployed without a word on how it is: that is what the conditions tell', async () => {
    const { sim, run } = await fleet();
    sim.house.store.putHold('shop', { kind: 'suspended', reason: '', sinceMs: 0, untilMs: 0, service: '' });
    for (const one of sim.world.containersOf('shop')) sim.world.kill(one.id);
    const { out } = await run('get shop');
    expect(out).toMatch(/service +web {2}windlass-test\/busybox:1 {2}×1\n/);
    expect(out).not.toContain('running');
  });
});

describe('prune', () => {
  it('lists what left at once, and lets it go for the digest only', async () => {
    const { sim, run, json } = await fleet({ 'stacks/third/compose.yaml': web() });
    sim.source.push({ 'stacks/third': null, 'stacks/blog': null });
    expect((await run('plan')).out).toMatch(
      /blog: left the fleet\n {4}waits for a word[\s\S]*prune waits: 2 of 3 stacks/,
    );
    await run('apply --yes');
    expect(sim.world.containersOf('blog')).toHaveLength(1);
    const { removable, digest } = await json('prune');
    expect(removable.sort()).toEqual(['blog', 'third']);
    expect((await run('prune --confirm wrong')).code).toBe(1);
    const { code, out } = await run(`prune --confirm ${digest}`);
    expect(code).toBe(0);
    expect(out).toMatch(/uninstalled blog; its volumes stay/);
    expect(sim.world.containersOf('blog')).toEqual([]);
    expect((await run('prune')).err).toMatch(/nothing left the fleet/);
  });

  it('removes nothing for any word while the fleet cannot be read as a whole', async () => {
    const { sim, run, json } = await fleet();
    sim.source.push({ 'stacks/blog': null, 'fleet.yaml': 'apiVersion: windlass/v1\nkind: Fleet\nnonsense: 1\n' });
    const { digest, guard } = await json('prune');
    expect(guard).toMatch(/cannot be read as a whole/);
    expect((await run(`prune --confirm ${digest}`)).err).toMatch(/PRUNE_GUARD/);
    expect(sim.world.containersOf('blog')).toHaveLength(1);
  });
});

describe('doctor', () => {
  it('says ok line by line, or what fails with its cure', async () => {
    const { sim, run, json } = await fleet();
    const { code, out } = await run('doctor');
    const checks = ['state', 'engine', 'compose', 'source', 'clock', 'trust', 'locks', 'controller'];
    expect([code, out.match(/(?<=^ok {3})\w+/gm)]).toEqual([0, checks]);
    sim.world.setReachable(false);
    sim.source.reachable = false;
    const bad = await run('doctor');
    expect(bad.code).toBe(1);
    expect(bad.out).toMatch(/FAIL engine .*\n +help: check that the Docker engine runs/);
    expect(bad.out).toMatch(/FAIL source .*\n +help: check the address/);
    expect((await json('doctor')).filter((one: { ok: boolean }) => !one.ok)).not.toEqual([]);
  });
});
