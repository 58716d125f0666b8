// `windlass --version`: what each call of the CLI costs before it does anything.
import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { median, type Row, round } from './rig.ts';

export async function benchVersion(): Promise<Row> {
  const main = resolve(import.meta.dirname, '../src/main.ts');
  const times: number[] = [];
  for (let run = 0; run < 7; run++) {
    const began = performance.now();
    execFileSync(process.execPath, [main, '--version'], { stdio: 'ignore' });
    times.push(performance.now() - began);
  }
  const bare: number[] = [];
  for (let run = 0; run < 5; run++) {
    const began = performance.now();
    execFileSync(process.execPath, ['-e', '0'], { stdio: 'ignore' });
    bare.push(performance.now() - began);
  }
  return {
    bench: 'version',
    stacks: 0,
    oursMs: round(median(times)),
    peer: 'node -e 0',
    peerMs: round(median(bare)),
    ratio: round(median(bare) / median(times)),
    budgetMs: 150,
    note: 'median of 7',
  };
}
