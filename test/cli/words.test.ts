// Words of the command line: help, mistakes, completion, and what needs no house at all.
import { execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { DIAGNOSTICS, REASON_WORDS } from '../../src/cli/explanations.ts';
import { GLOBAL_FLAGS } from '../../src/cli/help.ts';
import { COMMANDS } from '../../src/cli/registry.ts';
import { FAULTS } from '../../src/core/fault.ts';
import { PROGRAM, warmStart } from '../program.ts';
import { windlass } from './fake-terminal.ts';
import { filesBelow } from './files-below.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const run = promisify(execFile);

describe('help', () => {
  it.each(COMMANDS.map((one) => [one.words.join(' '), one] as const))(
    'of %s shows usage and an example of it',
    async (words, one) => {
      const { code, out, err } = await windlass(null, [...one.words, '--help']);
      expect(code).toBe(0);
      expect(err).toBe('');
      expect(out).toContain(`usage:   windlass ${words}`);
      expect(out).toContain(`example: windlass ${words}`);
      for (const name of Object.keys(one.flags ?? {})) expect(out).toContain(`--${name}`);
    },
  );

  it('of reconcile says that a stack or --all is asked for, and what is looked at', async () => {
    const { out } = await windlass(null, ['reconcile', '--help']);
    expect(out).toMatch(/usage: +windlass reconcile STACK \| --all/);
    expect(out).toMatch(/fetch and judge the requests now/);
  });

  it('shows examples that the parser understands', async () => {
    for (const one of COMMANDS) {
      const argv = (one.example.split(/ [|>] /)[0] ?? '').match(/"[^"]*"|\S+/g)?.slice(1) ?? [];
      const { code, err } = await windlass(null, [...argv.map((word) => word.replaceAll('"', '')), '--help']);
      expect([one.example, code, err]).toEqual([one.example, 0, '']);
    }
  });

  it('without a command lists all of them, on stderr, and is a mistake', async () => {
    const { code, out, err } = await windlass(null, []);
    expect(code).toBe(3);
    expect(out).toBe('');
    for (const one of COMMANDS) expect(err).toContain(`  ${one.words.join(' ')}`);
  });

  it.each([['--help'], ['-h'], ['help']])('with %s is data', async (word) => {
    const { code, out, err } = await windlass(null, [word]);
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(/^windlass: keeps/);
    for (const name of Object.keys(GLOBAL_FLAGS)) expect(out).toContain(`--${name}`);
  });

  it('of a group lists its verbs', async () => {
    expect((await windlass(null, ['stack', '--help'])).out).toMatch(/stack start STACK[\s\S]*stack scale STACK/);
    expect((await windlass(null, ['help', 'stack'])).code).toBe(0);
    expect((await windlass(null, ['stack'])).code).toBe(3);
  });

  it('by word is the help of the command', async () => {
    expect((await windlass(null, ['help', 'stack', 'scale'])).out).toContain('usage:   windlass stack scale');
    expect((await windlass(null, ['help', 'apply'])).out).toContain('usage:   windlass apply');
  });

  it('never names a flag of its own like one of every command', () => {
    for (const one of COMMANDS)
      for (const [name, flag] of Object.entries(one.flags ?? {})) {
        expect(GLOBAL_FLAGS[name], name).toBeUndefined();
        if (flag.short) expect(Object.values(GLOBAL_FLAGS).map((other) => other.short)).not.toContain(flag.short);
      }
  });
});

describe('a mistake in the words', () => {
  it.each([
    [['aply'], /no command aply; did you mean apply\?/],
    [['stop', 'shop'], /no command stop; did you mean stack stop\?/],
    [['stack', 'scal', 'shop'], /no command stack scal; did you mean stack scale\?[\s\S]*known {4}start, stop/],
    [['zzzzzzzz'], /no command zzzzzzzz\n {2}help {5}windlass --help/],
    [['plan', '--sorce', 'x'], /no flag --sorce; did you mean --source\?\n {2}help {5}windlass plan --help/],
    [['plan', '--sorce=x'], /no flag --sorce; did you mean --source\?/],
    [['--nonsense'], /no flag --nonsense/],
    [['apply', '-z'], /no flag -z/],
    [['apply', '--stack'], /--stack/],
    [['apply', '--yes=no'], /--yes/],
    [['diff'], /an argument is missing\n {2}usage {4}windlass diff STACK\n {2}example {2}windlass diff shop/],
    [['diff', 'a', 'b'], /b is one argument too many/],
    [['get', '-o', 'yaml'], /-o takes json, not yaml/],
    [['get', '-o', 'ndjson'], /-o takes json, not ndjson/],
    [['apply', '-o', 'yaml'], /-o takes json or ndjson, not yaml/],
    [['completion', 'bash', '-o', 'json'], /takes no -o/],
    [['completion', 'csh'], /no completion for csh/],
    [['reconcile'], /name a stack, or give --all/],
    [['reconcile', 'shop', '--all'], /not both/],
    [['validate', '.', '--source', '.'], /not both/],
    [['wait', 'shop', '--for', 'Redy'], /--for takes one of Ready/],
    [['wait', 'shop', '--timeout', 'soon'], /--timeout takes a duration/],
    [['wait', 'shop', '--revision', 'main'], /--revision takes a commit id/],
    [['history', '--limit', 'all'], /--limit takes a whole number/],
    [['run', '--poll', '0'], /--poll is at least 1s/],
    [['stack', 'scale', 'shop', 'web'], /say SERVICE=N/],
    [['stack', 'scale', 'shop', 'web=-1'], /say SERVICE=N/],
    [['stack', 'scale', 'shop', 'web=9999'], /at most 1000/],
    [['trust', 'accept', 'main'], /at least 12 hex digits/],
    [['rollback', 'shop', '--to', 'main'], /full commit id/],
    [['schema', 'Stak'], /did you mean Stack\?/],
    [['explain', 'IMAGE_MISING'], /did you mean IMAGE_MISSING\?/],
    [['unlock', '--force'], /--force is for one stack/],
    [['apply', 'no-such-file'], /the plan no-such-file cannot be read[\s\S]*--stack NAME/],
    [['apply', 'package.json'], /not a plan that/],
  ] as const)('%j is told with its cure, exit 3', async (argv, words) => {
    const { code, out, err } = await windlass(null, argv);
    expect(err).toMatch(words);
    expect(err).toMatch(/^error\[USAGE\]: /);
    expect([code, out]).toEqual([3, '']);
  });
});

describe('flags of every command', () => {
  it('may stand before, between and after the words', async () => {
    for (const argv of [
      ['--state', 'get', 'explain', 'IMAGE_MISSING'],
      ['-o', 'json', 'explain', 'IMAGE_MISSING'],
      ['-ojson', 'explain', 'IMAGE_MISSING'],
      ['--output=json', 'explain', 'IMAGE_MISSING'],
      ['explain', '--state', 'x', 'IMAGE_MISSING'],
    ]) {
      const { code, out } = await windlass(null, argv);
      expect([argv, code]).toEqual([argv, 0]);
      expect(out).toContain('IMAGE_MISSING');
    }
    expect((await windlass(null, ['catalog', '--state', 'show', 'list'])).code).toBe(0);
  });
});

describe('completion', () => {
  it('of bash is a script that bash accepts and that answers', async () => {
    const { out } = await windlass(null, ['completion', 'bash']);
    const ask = async (...words: string[]): Promise<string[]> => {
      const line = words.map((word) => `'${word}'`).join(' ');
      const { stdout } = await run('bash', [
        '-c',
        `${out}\nCOMP_WORDS=(windlass ${line}); COMP_CWORD=${words.length}; _windlass; printf '%s\\n' "\${COMPREPLY[@]}"`,
      ]);
      return stdout.split('\n').filter(Boolean);
    };
    expect(await ask('pl')).toEqual(['plan']);
    expect(await ask('stack', 'st')).toEqual(['start', 'stop']);
    expect(await ask('apply', '--y')).toEqual(['--yes']);
    expect(await ask('stack', 'scale', '--sta')).toEqual(['--state']);
    expect(await ask('apply', 'pla')).toEqual([]);
  });

  it.each(['bash', 'zsh', 'fish'])('of %s names every command', async (shell) => {
    const { code, out } = await windlass(null, ['completion', shell]);
    expect(code).toBe(0);
    for (const one of COMMANDS) for (const word of one.words) expect(out).toMatch(new RegExp(`\\b${word}\\b`));
  });
});

describe('explain', () => {
  it('knows every fault, diagnostic, reason and cause', async () => {
    for (const code of [
      ...Object.keys(FAULTS),
      ...Object.keys(DIAGNOSTICS),
      ...Object.keys(REASON_WORDS),
      'image-moved',
    ])
      expect([code, (await windlass(null, ['explain', code])).code]).toEqual([code, 0]);
  });

  it('takes a code as it was printed', async () => {
    expect((await windlass(null, ['explain', 'error[VOLUME_CHANGED]'])).out).toMatch(/^VOLUME_CHANGED: /);
    expect((await windlass(null, ['explain', 'volume-changed'])).out).toMatch(/VOLUME_CHANGED[\s\S]*volume-changed/);
  });

  it('misses no code that a diagnostic can carry', () => {
    const used = new Set<string>();
    for (const file of ['core/spec', 'core/render'].flatMap((room) => filesBelow(join(ROOT, 'src', room))))
      for (const match of readFileSync(file, 'utf8').matchAll(/code: '([A-Z_]+)'|error\(\s*'([A-Z_]+)'/g))
        used.add(match[1] ?? match[2] ?? '');
    expect(used.size).toBeGreaterThan(20);
    const unexplained = [...used].filter((code) => !(code in DIAGNOSTICS) && !(code in FAULTS));
    expect(unexplained, 'give each a sentence in src/cli/explanations.ts').toEqual([]);
  });
});

describe('without a house', () => {
  const dir = mkdtempSync(join(tmpdir(), 'wlt-cli-'));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  it('schema prints the published one', async () => {
    const { out } = await windlass(null, ['schema', 'stack']);
    expect(JSON.parse(out)).toEqual(JSON.parse(readFileSync(join(ROOT, 'schemas/stack.json'), 'utf8')));
  });

  it('catalog lists and shows bundled apps', async () => {
    const bundled = { 'web/app.yaml': 'name: web\nversion: "1"\ndescription: A page\n', 'web/files/app.yaml': 'x' };
    expect((await windlass(null, ['catalog', 'list'], { bundled })).out).toBe(
      'APP  VERSION  DESCRIPTION\nweb  1        A page\n',
    );
    expect(JSON.parse((await windlass(null, ['catalog', 'list', '-o', 'json'], { bundled })).out)).toHaveLength(1);
    expect((await windlass(null, ['catalog', 'show', 'web'], { bundled })).out).toMatch(/^# web\/app.yaml\nname: web/);
    expect((await windlass(null, ['catalog', 'show', 'nix'], { bundled })).code).toBe(3);
  });

  it('init writes into a git work tree only, and overwrites nothing', async () => {
    const none = join(dir, 'none');
    expect((await windlass(null, ['init', none])).err).toMatch(/no git work tree/);
    const tree = join(dir, 'tree');
    mkdirSync(join(tree, '.git'), { recursive: true });
    const first = await windlass(null, ['init', tree]);
    expect(first.code).toBe(0);
    expect(first.out.trim().split('\n')).toHaveLength(3);
    const again = await windlass(null, ['init', tree]);
    expect(again.code).toBe(3);
    expect(again.err).toMatch(/fleet.yaml, stacks\/hello\/compose.yaml.* there already; nothing was written/);
  });
});

describe('the process', () => {
  const node = (argv: readonly string[], { cwd = tmpdir(), ...env }: Record<string, string> = {}) =>
    run(process.execPath, [PROGRAM, ...argv], {
      env: { PATH: process.env['PATH'] ?? '', ...warmStart, ...env },
      cwd,
    }).then(
      ({ stdout, stderr }) => ({ code: 0, out: stdout, err: stderr }),
      (error: { code: number; stdout: string; stderr: string }) => ({
        code: error.code,
        out: error.stdout,
        err: error.stderr,
      }),
    );

  it('says its version and ends with the code of the command', async () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    expect(await node(['--version'])).toEqual({ code: 0, out: `windlass ${version}\n`, err: '' });
    expect((await node(['nonsense'])).code).toBe(3);
  });

  it('teaches how to name a repository', async () => {
    const { code, err } = await node(['plan']);
    expect(code).toBe(3);
    expect(err).toMatch(/no repository is named\n {2}help {5}give --source URL-OR-PATH.*WINDLASS_SOURCE/);
  });

  it('validates the clone around it when none is named, whatever its branch is called', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'wlt-cli-'));
    const git = (...args: string[]) =>
      run('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.org', ...args], { cwd: dir });
    await git('init', '-q', '-b', 'trunk');
    writeFileSync(join(dir, 'fleet.yaml'), 'apiVersion: windlass/v1\nkind: Fleat\n');
    await git('add', '.');
    await git('commit', '-q', '--no-gpg-sign', '-m', 'first');
    for (const argv of [['validate'], ['validate', dir], ['validate', '--source', '.']]) {
      const { code, out } = await node(argv, { cwd: dir, XDG_STATE_HOME: dir });
      expect([argv, code]).toEqual([argv, 3]);
      expect(out).toMatch(/error\[KIND_UNKNOWN\][\s\S]*fleet.yaml:2:7/);
    }
    // As CI leaves it.
    await git('checkout', '-q', '--detach');
    expect((await node(['validate'], { cwd: dir })).out).toMatch(/error\[KIND_UNKNOWN\]/);
    // Nothing is followed that no push moves.
    expect((await node(['plan', '--source', '.', '--ref', 'HEAD'], { cwd: dir, XDG_STATE_HOME: dir })).err).toMatch(
      /has no branch checked out\n {2}help {5}name one with --ref/,
    );
    rmSync(dir, { recursive: true });
  }, 60_000);

  it('refuses a windlass.yaml that asks for signatures, and names what it does not do', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'wlt-cli-'));
    const config = (more: string) =>
      writeFileSync(
        join(dir, 'windlass.yaml'),
        `apiVersion: windlass/v1\nkind: Controller\nstate: ${dir}/state\n${more}`,
      );
    config('trust: { deploy: head }\n');
    expect(await node(['get'], { cwd: dir })).toMatchObject({
      code: 3,
      err: expect.stringMatching(/trust.deploy: head/),
    });
    config('notify: [{ url: "https://example.org/hook" }]\n');
    expect((await node(['get'], { cwd: dir })).err).toMatch(
      /warning: windlass.yaml says what this version does not do: notify/,
    );
    config('nonsense: 1\n');
    const wrong = await node(['get'], { cwd: dir });
    expect([wrong.code, wrong.err]).toEqual([3, expect.stringMatching(/at {7}windlass.yaml:4:1/)]);
    rmSync(dir, { recursive: true });
  });

  it('is quiet when the reader of its data goes away', async () => {
    const child = spawn(process.execPath, [PROGRAM, 'schema', 'App'], { stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.destroy();
    let err = '';
    child.stderr.on('data', (chunk: Buffer) => {
      err += chunk.toString();
    });
    const code = await new Promise((done) => child.once('close', done));
    expect([code, err]).toEqual([0, '']);
  });
});
