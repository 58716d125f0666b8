// README-approvals.md: each command that it shows is one that the parser understands.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { LEFT_BRANCH } from '../../src/core/request/life.ts';
import { checkText } from '../../src/core/spec/check.ts';
import { AUTHORITY } from '../../src/core/state/trust/authority.ts';
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
  expect(value).toMatchObject({ kind: 'Controller', trust: { deploy: 'head', anchor: { ref: 'refs/heads/main' } } });
});
