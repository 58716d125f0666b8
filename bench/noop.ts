// The no-op reconcile: judge every stack from one look at the engine. Peer: `docker compose up -d` per stack, what a loop of scripts does.
import { execFileSync } from 'node:child_process';
import { openSimRuntime } from '../src/adapters/sim/runtime.ts';
import { SimWorld } from '../src/adapters/sim/world.ts';
import { deploy } from '../src/operations/deploy.ts';
import type { Judged } from '../src/operations/survey.ts';
import { needsWork, Workbench } from '../src/operations/workbench.ts';
import { BenchFleet } from './fleet.ts';
import { median, type Row, round } from './rig.ts';

const REAL_LIMIT = 200;

export async function benchNoop(size: number): Promise<readonly Row[]> {
  const real = size <= REAL_LIMIT;
  const fleet = new BenchFleet(size);
  try {
    const opened = await fleet.open();
    const house = real ? opened : { ...opened, runtime: openSimRuntime(new SimWorld({ clock: opened.clock })) };
    const bench = new Workbench(house);
    const at = await bench.reader.read(await house.source.fetch());
    const names = [...at.fleet.stacks.keys()];
    const first = await bench.survey(names, at, await bench.look.fresh('all'));
    const judged = first.filter((one): one is Judged => one.kind === 'judged');
    if (judged.length !== size) throw new Error(`${judged.length} of ${size} stacks were judged`);
    const outcome = await deploy({ bench, judged, layers: [names], trigger: 'bench' });
    if (outcome.failures.size > 0) throw new Error([...outcome.failures.values()][0]?.message);

    const sweep = async (workbench: Workbench): Promise<number> => {
      const began = performance.now();
      const index = await workbench.look.fresh('known');
      const surveyed = await workbench.survey(names, at, index);
      const ms = performance.now() - began;
      const busy = surveyed.filter((one) => one.kind !== 'judged' || needsWork(one));
      if (busy.length > 0) throw new Error(`not a no-op: ${busy[0]?.name}`);
      return ms;
    };
    await sweep(bench);
    const warm = [await sweep(bench), await sweep(bench), await sweep(bench), await sweep(bench), await sweep(bench)];

    // Cold: nothing in memory, everything in the state store, as after a restart of the controller.
    const began = performance.now();
    const cold = new Workbench(house);
    const again = await cold.reader.read(await house.source.fetch());
    await cold.survey(names, again, await cold.look.fresh('all'));
    const coldMs = performance.now() - began;

    const peerMs = real ? await composeLoop(fleet) : null;
    const where = real ? 'real engine' : 'simulated list call, real git, state store and diff';
    return [
      {
        bench: 'noop-warm',
        stacks: size,
        oursMs: round(median(warm)),
        peer: real ? 'docker compose up -d, one after the other' : '',
        peerMs: peerMs === null ? null : round(peerMs),
        ratio: peerMs === null ? null : round(peerMs / median(warm)),
        budgetMs: 500,
        note: `${where}; median of 5`,
      },
      {
        bench: 'noop-cold',
        stacks: size,
        oursMs: round(coldMs),
        peer: '',
        peerMs: null,
        ratio: null,
        budgetMs: 10_000,
        note: where,
      },
    ];
  } finally {
    await fleet.dispose();
  }
}

/** Over the projects that run: every call finds nothing to do. */
async function composeLoop(fleet: BenchFleet): Promise<number> {
  const began = performance.now();
  for (const name of fleet.names)
    execFileSync('docker', ['compose', '-p', name, '-f', fleet.projectFile(name), 'up', '-d'], { stdio: 'ignore' });
  return performance.now() - began;
}
