// README-approvals.md: each command that it shows is one that the parser understands, and who types them one by one gets to the end.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LEFT_BRANCH } from '../../src/core/request/life.ts';
import { checkText } from '../../src/core/spec/check.ts';
import { AUTHORITY } from '../../src/core/state/trust/authority.ts';
import { PROGRAM, warmStart } from '../program.ts';
import { windlass } from './fake-terminal.ts';

const text = readFileSync(join(resolve(import.meta.dirname, '../..'), 'README-approvals.md'), 'utf8');
const blocks = [...text.matchAll(/```sh\n([\s\S]*?)```/g)].flatMap(([, block = '']) => block.split('\n'));
const lines = blocks.filter((line) => line.startsWith('windlass ')).map((line) => line.replace(/ +#.*| > .*/g, ''));

it('shows commands', () => {
  expect(lines.length).toBeGreaterThan(8);
});

it.each(lines)('%s is understood', async (line) => {
  const argv = (line.match(/"[^"]*"|\S+/g) ?? []).slice(1).map((word) => word.replaceAll('"', ''));
  const { code, err } = await windlass(null, [...argv, '--help']);
  expect([code, err]).toEqual([0, '']);
});

it('every reason that a statement or request can have is explained', async () => {
  expect(AUTHORITY).toHaveProperty([LEFT_BRANCH]);
  for (const code of Object.keys(AUTHORITY)) expect((await windlass(null, ['explain', code])).code, code).toBe(0);
});

it('calls the program in a way that works in another folder, and says nothing but what it was asked', () => {
  const [, script = ''] = /alias windlass="node \/path\/to\/windlass\/(\S+)"/.exec(text) ?? [];
  const root = resolve(import.meta.dirname, '../..');
  const asked = { cwd: tmpdir(), encoding: 'utf8' as const, stdio: 'pipe' as const };
  const plain = execFileSync(process.execPath, [join(root, script), 'explain', 'request-copied', '-o', 'json'], asked);
  expect(text).toContain('npm --prefix /path/to/windlass --silent run windlass --');
  const npm = ['--prefix', root, '--silent', 'run', 'windlass', '--', 'explain', 'request-copied', '-o', 'json'];
  for (const out of [plain, execFileSync('npm', npm, asked)]) expect(JSON.parse(out)).toBeTruthy();
}, 60_000);

it('shows a whole windlass.yaml that is valid', () => {
  const [, yaml = ''] = /```yaml\n([\s\S]*?)```/.exec(text) ?? [];
  const { value, diagnostics } = checkText('Controller', 'windlass.yaml', yaml);
  expect(diagnostics).toEqual([]);
  expect(value).toMatchObject({ kind: 'Controller', trust: { deploy: 'none', anchor: { ref: 'refs/heads/main' } } });
});

describe('who types what the page shows', () => {
  const shown = (heading: string, has: string): string => {
    const section = text.slice(text.indexOf(`\n${heading}\n`));
    const found = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].find(([, block]) => block?.includes(has));
    return found?.[1] ?? `false # ${heading} shows no ${has}`;
  };
  /** Each begins with a comment that says whose it is. */
  const parts = (block: string): readonly string[] => block.split(/^(?=# )/m);

  it('gets a request to where it runs, also under `head`, whoever merges', () => {
    const folder = mkdtempSync(join(tmpdir(), 'wl-page-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const at = (...path: readonly string[]): string => join(folder, ...path);
    mkdirSync(at('bin'));
    // Nobody is there to say yes.
    const yes = 'case "$1" in request|approve) set -- "$@" --yes;; esac';
    writeFileSync(at('bin/windlass'), `#!/bin/sh\n${yes}\nexec "${process.execPath}" "${PROGRAM}" "$@"\n`, {
      mode: 0o755,
    });
    const sh = (who: string, cwd: string, script: string) => {
      const env = {
        PATH: `${at('bin')}:${process.env['PATH']}`,
        HOME: at(who),
        GIT_CONFIG_NOSYSTEM: '1',
        DOCKER_HOST: 'unix:///nowhere.sock',
        ...warmStart,
      };
      const { status, stdout, stderr } = spawnSync('bash', ['-ec', script], { cwd, env, encoding: 'utf8' });
      return { code: status, out: stdout.trim(), err: stderr };
    };
    const types = (who: string, script: string): string => {
      const { code, out, err } = sh(who, at(who, 'fleet'), script);
      expect([who, script, code, code === 0 ? '' : err]).toEqual([who, script, 0, '']);
      return out;
    };

    const [once = '', ofOne = ''] = parts(shown('## Set up', 'windlass trust init'));
    const people = ['forge', 'anna', 'bert', 'cleo'];
    for (const who of people) {
      mkdirSync(at(who, '.ssh'), { recursive: true, mode: 0o700 });
      const key = `ssh-keygen -q -t ed25519 -N "" -f ${at(who, '.ssh/id_ed25519')}`;
      const name = `git config --global user.name ${who}; git config --global user.email ${who}@example.org`;
      // A forge signs nothing with anybody's key.
      expect(sh(who, folder, who === 'forge' ? name : `${key}; ${name}; ${once}`).code).toBe(0);
      if (who === 'forge') {
        const begin =
          'mkdir -p stacks/shop && printf "services: { web: { image: nginx } }\\n" > stacks/shop/compose.yaml';
        const bare = `git init -q --bare -b main ${at('fleet.git')} && git clone -q ${at('fleet.git')} fleet && cd fleet`;
        const push = 'git add . && git commit -q -m Begin && git push -q origin HEAD:main';
        expect(sh(who, at(who), `${bare} && git switch -q -C main && ${begin} && ${push}`)).toMatchObject({ code: 0 });
      } else sh(who, at(who), `git clone -q ${at('fleet.git')} fleet`);
    }
    for (const [file, who] of [
      ['anna.pub', 'anna'],
      ['bert.pub', 'bert'],
      ['cleo.asc', 'cleo'],
    ] as const)
      cpSync(at(who, '.ssh/id_ed25519.pub'), at('anna/fleet', file));
    types('anna', ofOne);

    writeFileSync(at('revoked'), '');
    const anchor = readFileSync(at('anna/anchor.txt'), 'utf8').replace(/^[\s\S]*?(?= {2}anchor:)/, '');
    const [, sample = ''] = /```yaml\n(apiVersion[\s\S]*?)```/.exec(text) ?? [];
    const config = sample.replace('/etc/windlass/revoked', at('revoked')).replace(/ {2}anchor:[\s\S]*/, anchor);
    writeFileSync(at('windlass.yaml'), config);
    writeFileSync(at('head.yaml'), config.replace('deploy: none', 'deploy: head'));
    const controller = (words: string, { file = 'windlass.yaml', state = 'state', source = 'fleet.git' } = {}) =>
      sh('forge', folder, `windlass ${words} --config ${file} --state ${at(state)} --source ${at(source)}`);
    // As `windlass run` does with the first commit that it sees.
    expect(controller(`trust accept ${types('anna', 'git rev-parse HEAD')}`).code).toBe(0);

    const [leave = '', ask = '', approve = ''] = parts(shown('## Ask and approve', 'windlass request purge'));
    types('anna', leave);
    types('anna', ask);
    const [file = ''] = readdirSync(at('anna/fleet/requests'));
    const id = file.replace('.yaml', '');
    for (const who of ['bert', 'cleo']) types(who, approve.replace('purge-shop-20261201-4f2a', id));
    expect(types('cleo', 'git log --format=%B%x00 --no-walk=unsorted origin/main')).toContain('Retire the shop');

    const ready = { code: 0, out: expect.stringContaining('state      ready'), err: '' };
    cpSync(at('fleet.git'), at('copy.git'), { recursive: true });
    cpSync(at('state'), at('copy-state'), { recursive: true });
    const inClone = { file: 'head.yaml', state: 'copy-state', source: 'copy.git' };
    types('bert', `git remote set-url origin ${at('copy.git')}\n${shown('### Signed deploys', 'git merge')}`);
    expect(controller(`requests ${id}`, inClone)).toMatchObject(ready);

    types(
      'forge',
      'git pull -q && git merge -q --no-ff -m "Merge pull request 1" origin/ask/purge-shop && git push -q',
    );
    expect(controller(`requests ${id}`)).toMatchObject(ready);
    const stuck = controller(`requests ${id}`, { file: 'head.yaml' });
    expect(stuck.err).toMatch(/not accepted \(NotVerified: .*git commit -S --allow-empty/s);
    types('anna', shown('### Signed deploys', '--allow-empty'));
    expect(controller(`requests ${id}`, { file: 'head.yaml' })).toMatchObject(ready);
  }, 300_000);
});
