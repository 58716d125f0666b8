// `npm run bench`: the figures of SPEC 15, ours beside the peer in one run, one row a figure.
//   npm run bench -- [--only NAME] [--stacks N] [--json]
// Real engine for up to 200 stacks; above that the list call is answered by the simulated world, and the row says so.
import { parseArgs } from 'node:util';
import { benchBackup } from './backup.ts';
import { benchDeploy } from './deploy.ts';
import { benchHeal } from './heal.ts';
import { benchMemory, type MemoryRow } from './memory.ts';
import { benchNoop } from './noop.ts';
import { bench as benchPlanEngine } from './plan-engine.ts';
import type { Row } from './rig.ts';
import { benchVersion } from './version.ts';

const { values } = parseArgs({
  options: { only: { type: 'string' }, stacks: { type: 'string' }, json: { type: 'boolean', default: false } },
});
const stacks = values.stacks === undefined ? undefined : Number(values.stacks);
if (stacks !== undefined && !(Number.isInteger(stacks) && stacks >= 1 && stacks <= 5_000)) {
  process.stderr.write('bench: --stacks takes a whole number from 1 to 5000\n');
  process.exit(3);
}

const ALL: Record<string, () => Promise<readonly (Row | MemoryRow)[]>> = {
  version: async () => [await benchVersion()],
  'plan-engine': async () => {
    const { bench, oursMs, cells } = await benchPlanEngine();
    return [
      {
        bench,
        stacks: cells,
        oursMs,
        peer: '',
        peerMs: null,
        ratio: null,
        budgetMs: 1_000,
        note: `${cells} cells of no-op steps`,
      },
    ];
  },
  noop: async () => {
    const sizes = stacks === undefined ? [1, 10, 1_000] : [stacks];
    const rows: Row[] = [];
    for (const size of sizes) rows.push(...(await benchNoop(size)));
    return rows;
  },
  deploy: () => benchDeploy(),
  heal: () => benchHeal(),
  memory: () => benchMemory(stacks ?? 1_000),
  backup: () => benchBackup(),
};

const names = values.only === undefined ? Object.keys(ALL) : [values.only];
if (!names.every((name) => name in ALL)) {
  process.stderr.write(`bench: --only takes one of ${Object.keys(ALL).join(', ')}\n`);
  process.exit(3);
}
for (const name of names) {
  process.stderr.write(`bench: ${name} …\n`);
  for (const row of await ALL[name]!()) {
    if (values.json) process.stdout.write(`${JSON.stringify(row)}\n`);
    else if ('oursMib' in row) {
      const budget = `budget ${row.budgetMib} MiB: ${row.oursMib <= row.budgetMib ? 'met' : 'MISSED'}`;
      process.stdout.write(
        `${row.bench.padEnd(28)} ${String(row.stacks).padStart(6)}   ${row.oursMib} MiB   ${budget}   ${row.note}\n`,
      );
    } else {
      const peer = row.peerMs === null ? '' : `   ${row.peer}: ${row.peerMs} ms   ${row.ratio} ×`;
      const budget =
        row.budgetMs === null ? '' : `   budget ${row.budgetMs} ms: ${row.oursMs <= row.budgetMs ? 'met' : 'MISSED'}`;
      process.stdout.write(
        `${row.bench.padEnd(28)} ${String(row.stacks).padStart(6)}   ${row.oursMs} ms${peer}${budget}   ${row.note}\n`,
      );
    }
  }
}
process.exit(0);
