// `npm run build`: src/ as JavaScript in dist/, made anew, with dist/main.js an executable of its own.
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { main, root, run, say } from './set-up.mjs';

const dist = path.join(root, 'dist');
const entry = path.join(dist, 'main.js');
const firstLine = '#!/usr/bin/env node\n';

await main(async () => {
  const since = performance.now();
  rmSync(dist, { recursive: true, force: true });
  const code = await run('tsc', ['--project', 'tsconfig.build.json']);
  if (code !== 0) {
    say('build: the sources have type errors');
    return code;
  }
  if (!existsSync(entry)) {
    say('build: src/main.ts is missing, so there is no dist/main.js');
    return 1;
  }
  const text = readFileSync(entry, 'utf8');
  if (!text.startsWith('#!')) writeFileSync(entry, firstLine + text);
  chmodSync(entry, 0o755);
  say(`build: dist/main.js (${((performance.now() - since) / 1000).toFixed(1)} s)`);
  return 0;
});
