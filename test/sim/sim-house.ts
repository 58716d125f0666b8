// A house whose world is simulated: engine, source and clock in memory; the state store and the project folders are real files.
// `crash()` throws everything in memory away and opens the house again over the same disk, as after kill -9.
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { SimulatedClock } from '../../src/adapters/clock/simulated-clock.ts';
import { ProjectFolders } from '../../src/adapters/files/project-folder.ts';
import { openStore } from '../../src/adapters/journal/store.ts';
import { openSimOneShots } from '../../src/adapters/sim/one-shot.ts';
import { openSimRuntime } from '../../src/adapters/sim/runtime.ts';
import { SimWorld } from '../../src/adapters/sim/world.ts';
import { Fault } from '../../src/core/fault.ts';
import { type DeployOptions, type DeployOutcome, deploy } from '../../src/operations/deploy.ts';
import type { House } from '../../src/operations/house.ts';
import type { Judged, Surveyed } from '../../src/operations/survey.ts';
import { needsWork, Workbench } from '../../src/operations/workbench.ts';
import { memoryFolder } from './memory-folder.ts';
import { MemorySource } from './memory-source.ts';

export class SimHouse {
  readonly dir = mkdtempSync(join(memoryFolder(), 'wlt-sim-'));
  readonly clock: SimulatedClock;
  readonly world: SimWorld;
  readonly source = new MemorySource();
  readonly hidden: string[] = [];
  house: House;
  bench: Workbench;

  constructor(seed = 1) {
    this.clock = new SimulatedClock({ seed });
    this.world = new SimWorld({ clock: this.clock, seed: String(seed) });
    this.house = this.#open();
    this.bench = new Workbench(this.house);
  }

  #open(): House {
    return {
      clock: this.clock,
      files: new ProjectFolders(this.dir),
      runtime: openSimRuntime(this.world),
      oneShots: openSimOneShots(this.world),
      net: { http: () => Promise.reject(new Fault('HOOK_FAILED', 'no network here')), lookup: async () => [] },
      store: openStore({ directory: this.dir }),
      vault: null,
      payloads: null,
      archives: null,
      trust: null,
      source: this.source,
      settings: {
        stateDir: this.dir,
        settleMs: 1_000,
        settleSamples: 2,
        pruneLimit: 0.3,
        concurrency: 4,
        timeoutMs: 600_000,
        windows: [],
        version: '0.0.0',
        nodes: { local: { hostname: 'sim', ip: '10.0.0.1' } },
        bundled: {},
        owner: 'test',
        hasEnded: () => false,
      },
      redact: (text) => this.hidden.reduce((out, one) => out.replaceAll(one, '[redacted]'), text),
      hide: (value) => void this.hidden.push(value),
    };
  }

  crash(): void {
    this.house.store.close();
    this.house = this.#open();
    this.bench = new Workbench(this.house);
  }

  async survey(): Promise<readonly Surveyed[]> {
    const at = await this.bench.reader.read(await this.source.fetch());
    return this.bench.survey(
      [...at.fleet.stacks.keys(), ...at.fleet.broken.keys()],
      at,
      await this.bench.look.fresh('all'),
    );
  }

  /** One apply of everything that can be judged, with simulated time running along. */
  async apply(more: Pick<DeployOptions, 'superseded' | 'progress'> = {}): Promise<DeployOutcome | null> {
    const judged = (await this.survey()).filter((one): one is Judged => one.kind === 'judged').filter(needsWork);
    const [first] = judged;
    if (!first) return null;
    return this.run(deploy({ ...more, bench: this.bench, judged, layers: first.at.fleet.layers, trigger: 'test' }));
  }

  /** Lets simulated time pass until `work` ends: it stands still while a real file is read or a key is made, so that no
   * deadline passes meanwhile. */
  async run<T>(work: Promise<T>): Promise<T> {
    let ended = false;
    const end = (): void => {
      ended = true;
    };
    work.then(end, end);
    while (!ended) {
      await new Promise((resolve) => setImmediate(resolve));
      if (!ended && !process.getActiveResourcesInfo().some((name) => /^FSReq|Job|Request$/.test(name)))
        await this.clock.advance(50);
    }
    return work;
  }

  dispose(): void {
    this.house.store.close();
    rmSync(this.dir, { recursive: true, force: true });
  }
}
