// Types, lint and format, published schemas: one line each with its time, the tool's words only on failure.
import { spawn } from 'node:child_process';
import { isPresent, main, projectEnvironment, root } from './set-up.mjs';

const checks = [
  { name: 'types', command: ['tsc', '--noEmit'] },
  { name: 'lint and format', command: ['biome', 'check', '--colors=off'] },
  { name: 'schemas', command: ['node', 'scripts/schemas.ts', '--check'], needs: ['scripts', 'schemas.ts'] },
].filter((check) => check.needs === undefined || isPresent(...check.needs));

await main(async () => {
  let failed = 0;
  for (const { name, command } of checks) {
    const since = performance.now();
    const { code, output } = await capture(command);
    console.log(
      `check: ${name} ${code === 0 ? 'ok' : 'FAILED'} (${((performance.now() - since) / 1000).toFixed(1)} s)`,
    );
    if (code !== 0) {
      failed += 1;
      console.log(output.trimEnd().replace(/^/gm, '  '));
    }
  }
  return failed === 0 ? 0 : 1;
});

function capture([command, ...args]) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: root,
      env: projectEnvironment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output += text;
      });
    }
    child.on('error', reject);
    child.on('close', (code) => resolve({ code: code ?? 1, output }));
  });
}
