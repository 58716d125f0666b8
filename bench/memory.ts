// What the controller takes of memory at N stacks: first with everything to resolve and to deploy, then at rest; and the same after a restart.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { BenchFleet } from './fleet.ts';
import type { Row } from './rig.ts';

const BUDGET_MIB = 200;

export interface MemoryRow extends Omit<Row, 'oursMs' | 'peerMs' | 'budgetMs'> {
  readonly oursMib: number;
  readonly budgetMib: number;
}

export async function benchMemory(size: number): Promise<readonly MemoryRow[]> {
  const fleet = new BenchFleet(size);
  try {
    const measure = (bench: string, what: string): MemoryRow => {
      const { status, stdout, stderr } = spawnSync(
        process.execPath,
        [join(import.meta.dirname, 'controller-process.ts'), fleet.repo, join(fleet.dir, 'state'), ...fleet.names],
        { encoding: 'utf8' },
      );
      if (status !== 0) throw new Error(`the controller failed: ${stderr}`);
      const { restMib, mostMib } = JSON.parse(stdout) as { readonly restMib: number; readonly mostMib: number };
      return {
        bench,
        stacks: size,
        oursMib: restMib,
        peer: '',
        ratio: null,
        budgetMib: BUDGET_MIB,
        note: `RSS of the controller after two minutes at rest; ${what}: at most ${mostMib} MiB; simulated engine in the same process, all else real`,
      };
    };
    return [
      measure('memory-first', 'while all was resolved and deployed'),
      measure('memory-restarted', 'while all was judged and, the simulated engine being empty again, deployed'),
    ];
  } finally {
    await fleet.dispose();
  }
}
