// Backups into a repository on the simulated world: it is asked before anything rests, one writer holds it until the manifest is stored,
// and services come back whatever it says.
import { createHash } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { DirStore } from '../../src/adapters/archive/dir-store.ts';
import { withRepository } from '../../src/adapters/archive/repository-store.ts';
import { Fault } from '../../src/core/fault.ts';
import { Archives } from '../../src/operations/archive/archives.ts';
import { backup } from '../../src/operations/archive/backup.ts';
import { putGeneration } from '../../src/operations/archive/generations.ts';
import { treeDirOf } from '../../src/operations/resolve.ts';
import type { BlobRepository } from '../../src/ports/blob-repository.ts';
import { windlass } from '../cli/fake-terminal.ts';
import { SimArchives } from '../sim/sim-archives.ts';
import { SimHouse } from '../sim/sim-house.ts';

const IMAGE = 'windlass-test/busybox:1';
const FILES = {
  'apps/shop/app.yaml': 'apiVersion: windlass/v1\nkind: App\nversion: "1"\n',
  'apps/shop/compose.yaml': `services:
  db:
    image: ${IMAGE}
    volumes: ["data:/data", "spool:/spool"]
volumes: { data: {}, spool: {} }
`,
  'apps/shop/backup.yaml': 'apiVersion: windlass/v1\nkind: Backup\ndump: [dump]\nrestic: [data]\n',
  'apps/shop/dump.job.yaml': 'apiVersion: windlass/v1\nkind: Job\nservice: db\nscript: echo dumped\n',
  'stacks/shop.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: shop\n',
};

/** Keeps what is put in memory, and every call with the state of the service at that moment. */
class FakeRepository implements BlobRepository {
  readonly calls: string[] = [];
  readonly blobs = new Map<string, Uint8Array>();
  refuses: Fault | null = null;
  breaks: Fault | null = null;
  state: () => string = () => '';

  async open() {
    this.#say('open');
    if (this.refuses) throw this.refuses;
    return {
      put: async (source: AsyncIterable<Uint8Array>) => {
        this.#say('put');
        const chunks: Uint8Array[] = [];
        for await (const chunk of source) chunks.push(chunk);
        if (this.breaks) throw this.breaks;
        const bytes = Buffer.concat(chunks);
        const digest = createHash('sha256').update(bytes).digest('hex');
        this.blobs.set(digest, bytes);
        return {
          blob: { digest, sizeBytes: bytes.length },
          restic: { repository: 'a'.repeat(64), snapshot: digest, tree: 'c'.repeat(64) },
        };
      },
      close: () => this.#say('close'),
    };
  }
  async look(): Promise<string> {
    return 'a'.repeat(64);
  }
  async holds(place: { readonly snapshot: string }): Promise<boolean> {
    return this.blobs.has(place.snapshot);
  }
  async *read(place: { readonly snapshot: string }): AsyncGenerator<Uint8Array> {
    yield this.blobs.get(place.snapshot)!;
  }
  async named(): Promise<void> {
    this.#say('named');
  }
  async unneeded(): Promise<void> {}
  async collect(): Promise<number> {
    return 0;
  }
  #say(call: string): void {
    this.calls.push(`${call} ${this.state()}`);
  }
}

const opened: SimHouse[] = [];
afterEach(() => {
  for (const sim of opened.splice(0)) sim.dispose();
});

async function desk(repository: FakeRepository | null = new FakeRepository()) {
  const sim = new SimHouse();
  opened.push(sim);
  const archives = new SimArchives(sim);
  archives.volumes.set('shop_data', { 'rows.txt': 'one two three' });
  archives.volumes.set('shop_spool', { 'queue.txt': 'four' });
  const house = sim.house.archives!;

  const holdsElsewhere = async (place: { readonly snapshot: string }) => (await repository?.holds(place)) ?? false;
  const store = withRepository(new DirStore({ directory: archives.directory, holdsElsewhere }), repository);
  archives.open({ archives: { ...house, store, repository } });
  sim.source.push(FILES);
  const outcome = await sim.apply();
  expect([...(outcome?.failures.values() ?? [])].map(String)).toEqual([]);
  sim.world.clearCalls();
  const state = () => sim.world.containersOf('shop').find((one) => one.name === 'shop-db-1')!.state;
  if (repository) repository.state = state;
  const run = () => sim.run(backup(sim.bench, 'shop', { signal: new AbortController().signal }));
  return { sim, archives, repository: repository!, run, state };
}

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error: unknown) => (error instanceof Fault ? error.code : String(error)),
  );

describe('a backup into a repository', () => {
  it('asks it before anything rests, and holds it until the manifest is stored', async () => {
    const { sim, repository, run, state } = await desk();
    const { archive } = await run();
    expect(repository.calls).toEqual([
      // Once before the dump is made, for what can be refused.
      'open running',
      'close running',
      'open running',
      'put exited',
      'named running',
      'close running',
    ]);
    expect(state()).toBe('running');
    const { read } = await new Archives(sim.house).show(archive);
    expect(read.manifest).toMatchObject({
      version: 2,
      payloads: [
        { name: 'data', format: 'tar', restic: { repository: 'a'.repeat(64) } },
        { name: 'spool', format: 'tar+zstd' },
      ],
    });
    expect((await new Archives(sim.house).verify(archive, new AbortController().signal)).wrong).toEqual([]);
  });

  it('is made as the newest applied commit says, be it all that this commit says', async () => {
    const { sim, repository, run } = await desk();
    const compose = `${FILES['apps/shop/compose.yaml']}x-note: 1\n`.replace('spool:/spool', 'spool:/queue');
    sim.source.push({ ...FILES, 'apps/shop/compose.yaml': compose });
    expect((await windlass(sim, ['apply', '--yes'])).out).toMatch(/recreate/);
    sim.source.push({
      ...FILES,
      'apps/shop/compose.yaml': compose,
      'stacks/shop.yaml': `${FILES['stacks/shop.yaml']}backup: { restic: [] }\n`,
    });
    expect((await windlass(sim, ['apply'])).out).toMatch(/Plan: nothing to do/);
    await run();
    expect(repository.calls.filter((one) => /^(open|put)/.test(one))).toEqual([]);
  });

  it('holds the mounted folder that a plain project means as its Compose file writes it, also after a restore', async () => {
    const { sim, archives, repository } = await desk();
    const up = 'stacks/blog/uploads';
    sim.source.push({
      ...FILES,
      'stacks/blog/compose.yaml': `services:\n  web:\n    image: ${IMAGE}\n    volumes: ["./uploads:/up", "./log:/log"]\n`,
      'stacks/blog/stack.yaml': 'apiVersion: windlass/v1\nkind: Stack\nbackup: { restic: ["./uploads"] }\n',
    });
    await sim.run(windlass(sim, ['apply', '--yes']));
    const tree = treeDirOf(sim.house.settings.stateDir, 'blog');
    for (const folder of [up, `.generation-3/${up}`, 'stacks/blog/log'])
      archives.volumes.set(`${tree}/${folder}`, { 'a.txt': folder });
    const kept = async (): Promise<unknown> => {
      const signal = new AbortController().signal;
      const { archive } = await sim.run(backup(sim.bench, 'blog', { signal }));
      const { read } = await new Archives(sim.house).show(archive);
      return read.kind === 'archive' && read.manifest.payloads.map(({ name, restic }) => [name, restic !== undefined]);
    };
    const log = ['stacks/blog/log', false];
    expect(await kept()).toEqual([[up, true], log]);
    putGeneration(sim.house.store, 'blog', { volumes: {}, folders: { [up]: `.generation-3/${up}` } });
    archives.open({ archives: sim.house.archives });
    expect(await kept()).toEqual([[`.generation-3/${up}`, true], log]);
    expect(repository.blobs.size).toBe(2);
  });

  it('that is refused touches nothing: no hook runs, nothing rests, nothing is listed', async () => {
    const { sim, repository, run } = await desk();
    repository.refuses = new Fault('RESTIC_UNFIT', 'restic 0.14 is too old');
    expect(await codeOf(run())).toBe('RESTIC_UNFIT');
    expect(repository.calls).toEqual(['open running']);
    expect(sim.world.calls.filter((call) => call.mutating)).toEqual([]);
    expect(await new Archives(sim.house).list()).toEqual([]);
    expect(sim.house.store.runs({ stack: 'shop', limit: 1 })[0]).toMatchObject({ outcome: 'failed' });
  });

  it('without a repository in windlass.yaml says so, and touches nothing', async () => {
    const { sim, run } = await desk(null);
    expect(await codeOf(run())).toBe('REPOSITORY_REFUSED');
    expect(sim.world.calls.filter((call) => call.mutating)).toEqual([]);
  });

  it.each(['in it', 'before it'])(
    'that breaks off %s lists nothing, wakes the service and lets the next one in',
    async (where) => {
      const { sim, archives, repository, run, state } = await desk();
      if (where === 'in it') repository.breaks = new Fault('ARCHIVE_NO_SPACE', 'full');
      else archives.broken.set('shop_data', new Fault('PAYLOAD_CHANGED', 'rows.txt changed'));
      expect(await codeOf(run())).toBe(where === 'in it' ? 'ARCHIVE_NO_SPACE' : 'PAYLOAD_CHANGED');
      expect(state()).toBe('running');
      expect(repository.calls.at(-1)).toBe('close running');
      expect(await new Archives(sim.house).list()).toEqual([]);
      repository.breaks = null;
      archives.broken.clear();
      await run();
      expect(await new Archives(sim.house).list()).toHaveLength(1);
    },
  );
});
