// Backups on the simulated world with a real archive store: what is whole is listed and nothing else, services come back whatever happens,
// and no secret lies anywhere in clear.
import { afterEach, describe, expect, it, vi } from 'vitest';
import { CrashError } from '../../src/adapters/sim/world.ts';
import { ageEnvelope } from '../../src/adapters/vault/age.ts';
import { openVault } from '../../src/adapters/vault/embedded.ts';
import { identityFile } from '../../src/adapters/vault/identity.ts';
import { Fault } from '../../src/core/fault.ts';
import { Archives } from '../../src/operations/archive/archives.ts';
import { archiveMaker, backup, lastBackupKey } from '../../src/operations/archive/backup.ts';
import { backupGroup } from '../../src/operations/archive/backup-group.ts';
import { putGeneration } from '../../src/operations/archive/generations.ts';
import { stacksAtRest, wake } from '../../src/operations/archive/quiesce.ts';
import { holdLeases } from '../../src/operations/leases.ts';
import { treeDirOf } from '../../src/operations/resolve.ts';
import { takeUpHooks } from '../../src/operations/steps/run-hook.ts';
import { restoreOptions } from '../../src/operations/trust/request-work.ts';
import { windlass } from '../cli/fake-terminal.ts';
import { SimArchives } from '../sim/sim-archives.ts';
import { SimHouse } from '../sim/sim-house.ts';

const IMAGE = 'windlass-test/busybox:1';
const APP = {
  'apps/shop/app.yaml': 'apiVersion: windlass/v1\nkind: App\nversion: "1"\n',
  'apps/shop/compose.yaml': `services:
  db:
    image: ${IMAGE}
    volumes: ["data:/data"]
  cache:
    image: ${IMAGE}
    volumes: ["spool:/spool"]
  web:
    image: ${IMAGE}
    scale: 2
volumes: { data: {}, spool: {} }
`,
  'apps/shop/backup.yaml': `apiVersion: windlass/v1
kind: Backup
quiesce: { cache: pause }
dump: [dump]
`,
  'apps/shop/dump.job.yaml': 'apiVersion: windlass/v1\nkind: Job\nservice: db\nscript: echo dumped\n',
  'stacks/shop.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: shop\n',
};

const opened: SimHouse[] = [];
afterEach(() => {
  for (const sim of opened.splice(0)) sim.dispose();
});

async function desk(files: Readonly<Record<string, string>> = {}) {
  const sim = new SimHouse();
  opened.push(sim);
  const archives = new SimArchives(sim);
  archives.volumes.set('shop_data', { 'rows.txt': 'one two three' });
  archives.volumes.set('shop_spool', { 'queue.txt': 'four' });
  sim.source.push({ ...APP, ...files });
  const outcome = await sim.apply();
  expect([...(outcome?.failures.values() ?? [])].map(String)).toEqual([]);
  sim.world.clearCalls();
  return { sim, archives };
}

const run = (sim: SimHouse, signal = new AbortController().signal) => sim.run(backup(sim.bench, 'shop', { signal }));
const listed = async (sim: SimHouse) => (await new Archives(sim.house).list()).map((one) => one.listed);
const newest = (sim: SimHouse) => sim.house.store.runs({ stack: 'shop', limit: 1 })[0]!;
const states = (sim: SimHouse): readonly string[] =>
  sim.world
    .containersOf('shop')
    .filter((one) => /^shop-(db|cache|web)-\d$/.test(one.name))
    .map((one) => `${one.name} ${one.state}`)
    .sort();
const UP = ['shop-cache-1 running', 'shop-db-1 running', 'shop-web-1 running', 'shop-web-2 running'];

describe('a backup', () => {
  it('leaves out of each volume what backup.yaml excludes, and the archive says so', async () => {
    const { sim, archives } = await desk({
      'apps/shop/backup.yaml': `${APP['apps/shop/backup.yaml']}exclude: { data: [cache, "run/*.sock"] }\n`,
    });
    const { archive } = await run(sim);
    expect([...archives.excluded]).toEqual([
      ['shop_data', ['cache', 'run/*.sock']],
      ['shop_spool', []],
    ]);
    const { read } = await new Archives(sim.house).show(archive);
    expect(read.manifest).toMatchObject({
      notCaptured: [
        'cache of volume data is excluded by backup.yaml',
        'run/*.sock of volume data is excluded by backup.yaml',
      ],
    });
  });

  it('is made by the hook action `backup` before the update that it stands in', async () => {
    const { sim } = await desk({
      'stacks/shop.yaml':
        'apiVersion: windlass/v1\nkind: Stack\napp: shop\nhooks: { pre_update: [{ backup: true }] }\n',
    });
    sim.bench.makeArchive = archiveMaker(sim.bench);
    sim.source.push({
      'apps/shop/compose.yaml': APP['apps/shop/compose.yaml'].replace(
        'scale: 2',
        'scale: 2\n    environment: { N: "2" }',
      ),
    });
    const outcome = await sim.apply();
    expect([...(outcome?.failures.values() ?? [])].map(String)).toEqual([]);
    expect(await listed(sim)).toMatchObject([{ kind: 'archive', stack: 'shop', purpose: 'backup' }]);
    expect(states(sim)).toEqual(UP);
  });

  it('of the live data before a restore is told as that of the request which asks for the restore', async () => {
    const { sim } = await desk();
    const leases = holdLeases(sim.house, ['shop']);
    const { signal } = new AbortController();
    await sim.run(restoreOptions(sim.bench, { signal }, 'request back').backup('shop', 'safety'));
    leases.release();
    expect(newest(sim)).toMatchObject({ operation: 'backup', trigger: 'request back', outcome: 'succeeded' });
    expect(await listed(sim)).toMatchObject([{ stack: 'shop', purpose: 'safety' }]);
  });

  it('reads each volume while those who write it rest, and lists one whole archive', async () => {
    const { sim, archives } = await desk();
    const during: (readonly string[])[] = [];
    archives.during = () => void during.push(states(sim));
    const { archive } = await run(sim);
    // The dump job ran first; web mounts nothing, so it goes on.
    const resting = ['shop-cache-1 paused', 'shop-db-1 exited', 'shop-web-1 running', 'shop-web-2 running'];
    expect(during).toEqual([resting, resting]);
    expect(states(sim)).toEqual(UP);
    expect(await listed(sim)).toMatchObject([{ kind: 'archive', id: archive, stack: 'shop', purpose: 'backup' }]);
    expect(newest(sim)).toMatchObject({ operation: 'backup', outcome: 'succeeded', hooks: [{ phase: 'pre_backup' }] });
    const { read } = await new Archives(sim.house).show(archive);
    expect(read.manifest).toMatchObject({
      stack: 'shop',
      quiesced: [
        { service: 'cache', how: 'pause' },
        { service: 'db', how: 'stop' },
        { service: 'web', how: 'none' },
      ],
      notCaptured: [],
      boot: { kind: 'double' },
    });
    expect((await new Archives(sim.house).verify(archive, new AbortController().signal)).wrong).toEqual([]);
  });

  it('that is made again of the same data shares its payloads, and is an archive of its own', async () => {
    const { sim, archives } = await desk();
    await run(sim);
    const blobs = (): readonly string[] => [...archives.files().keys()].filter((path) => path.startsWith('blobs/'));
    const before = blobs();
    await sim.clock.advance(60_000);
    await run(sim);
    expect(blobs()).toEqual(before);
    expect(await listed(sim)).toHaveLength(2);
  });

  it.each([
    ['a volume that is gone', ({ archives }: Desk) => void archives.volumes.delete('shop_spool'), 'PAYLOAD_MISSING'],
    [
      'a file that cannot be read',
      ({ archives }: Desk) =>
        void archives.broken.set('shop_data', new Fault('PAYLOAD_FAILED', 'rows.txt: permission denied')),
      'PAYLOAD_FAILED',
    ],
    [
      'a file that changed meanwhile',
      ({ archives }: Desk) => void archives.broken.set('shop_spool', new Fault('PAYLOAD_CHANGED', 'queue.txt changed')),
      'PAYLOAD_CHANGED',
    ],
    [
      'a dump that breaks off',
      ({ sim }: Desk) => {
        sim.source.push({
          'apps/shop/dump.job.yaml': `${APP['apps/shop/dump.job.yaml'].replace('echo dumped', 'exit 3')}`,
        });
      },
      'HOOK_FAILED',
    ],
  ] as [string, (desk: Desk) => void, string][])(
    'with %s fails, lists nothing, and everything runs again',
    async (_, spoil, code) => {
      const one = await desk();
      const { sim, archives } = one;
      spoil(one);
      await sim.apply();
      await expect(run(sim)).rejects.toMatchObject({ code });
      expect(await listed(sim)).toEqual([]);
      expect(states(sim)).toEqual(UP);
      expect(stacksAtRest(sim.bench)).toEqual([]);
      expect(newest(sim)).toMatchObject({
        operation: 'backup',
        outcome: 'failed',
        message: expect.stringMatching(/./),
      });
      expect(sim.house.store.value(lastBackupKey('shop'))).toBeUndefined();
      // What was read before is nobody's.
      await sim.house.archives!.store.collect();
      expect([...archives.files().keys()].filter((path) => path.startsWith('blobs/'))).toEqual([]);
    },
  );

  it('whose data does not come says so in its notes and among the events, while its services rest', async () => {
    const { sim } = await desk();
    const payloads = sim.house.payloads!;
    const words = 'the reading of the volume shop_data stood still for 60 s';
    const read = payloads.read.bind(payloads);
    vi.spyOn(payloads, 'read').mockImplementation((source, options) => {
      options.onStill?.(words);
      return read(source, options);
    });
    const notes: string[] = [];
    await sim.run(
      backup(sim.bench, 'shop', { signal: new AbortController().signal, note: (line) => void notes.push(line) }),
    );
    expect(notes).toContain(`${words}; what rests for it rests as long`);
    const events = sim.house.store.events({ stack: 'shop' }).filter(({ reason }) => reason === 'BackupStands');
    expect(events[0]).toMatchObject({ level: 'warning', message: `the backup of shop: ${words}` });
  });

  it('that is called off lists nothing, and everything runs again', async () => {
    const { sim, archives } = await desk();
    const abort = new AbortController();
    archives.during = () => abort.abort(new Fault('CANCELLED', 'called off'));
    await expect(run(sim, abort.signal)).rejects.toThrow();
    expect(await listed(sim)).toEqual([]);
    expect(states(sim)).toEqual(UP);
    expect(newest(sim)).toMatchObject({ operation: 'backup', outcome: 'cancelled' });
  });

  it('of a stack that is not deployed is refused', async () => {
    const { sim } = await desk();
    await expect(backup(sim.bench, 'blog', { signal: new AbortController().signal })).rejects.toMatchObject({
      code: 'NOT_FOUND',
    });
  });

  it('leaves what was stopped before as it was', async () => {
    const { sim } = await desk();
    sim.world.stop('shop-cache-1');
    await run(sim);
    expect(states(sim)).toEqual(UP.with(0, 'shop-cache-1 exited'));
  });
});

describe('a mounted folder', () => {
  const COMPOSE = APP['apps/shop/compose.yaml'].replace(
    '["data:/data"]',
    '["data:/data", "./files/up:/up", "./files/cfg:/cfg"]',
  );
  const NAME = 'apps/shop/files/up';
  const said = (more: string): Record<string, string> => ({
    'apps/shop/compose.yaml': COMPOSE,
    'apps/shop/backup.yaml': `apiVersion: windlass/v1\nkind: Backup\n${more}`,
  });
  const tree = (sim: SimHouse): string => treeDirOf(sim.house.settings.stateDir, 'shop');

  /** As it is after a restore with a generation, where the folder lies elsewhere below the tree. */
  async function mounted(more: string, generation: number | null) {
    const { sim, archives } = await desk(said(more));
    const place = (path: string): string => (generation === null ? path : `.generation-${generation}/${path}`);
    for (const path of [NAME, 'apps/shop/files/cfg']) archives.volumes.set(`${tree(sim)}/${place(path)}`, { a: path });
    if (generation !== null) {
      const folders = { [NAME]: place(NAME), 'apps/shop/files/cfg': place('apps/shop/files/cfg') };
      putGeneration(sim.house.store, 'shop', { volumes: {}, folders });
      sim.crash();
      archives.open();
    }
    const notes: string[] = [];
    const signal = new AbortController().signal;
    const { archive } = await sim.run(backup(sim.bench, 'shop', { signal, note: (line) => void notes.push(line) }));
    const { read } = await new Archives(sim.house).show(archive);
    if (read.kind !== 'archive') throw new Error('it is no archive of a stack');
    const { payloads, notCaptured } = read.manifest;
    const excluded = [...archives.excluded].flatMap(([name, paths]) => (paths.length > 0 ? [[name, paths]] : []));
    return { notes, notCaptured, read: payloads.map(({ name }) => name), excluded, place, tree: tree(sim) };
  }

  describe.each([
    ['where it was at first', null],
    ['after two restores', 2],
  ])('%s', (_, generation) => {
    it.each(['./files/up', NAME, `./${NAME}`, './files/u*'])('is captured as `%s` says', async (glob) => {
      const found = await mounted(`volumes: { include: [data, "${glob}"] }\n`, generation);
      expect(found.read).toEqual(['data', found.place(NAME)]);
      expect(found.notes).toContain(`reading bind ${NAME}`);
      expect(found.notCaptured).toEqual([
        'volume spool is excluded by backup.yaml',
        'bind apps/shop/files/cfg is excluded by backup.yaml',
      ]);
      expect(found.notes).toContain('not in it: bind apps/shop/files/cfg is excluded by backup.yaml');
    });

    it.each(['./files/up', NAME])('is left out as `%s` says, and the archive says so', async (glob) => {
      const found = await mounted(`volumes: { exclude: ["${glob}"] }\n`, generation);
      expect(found.read).toEqual(['data', 'spool', found.place('apps/shop/files/cfg')]);
      expect(found.notCaptured).toEqual([`bind ${NAME} is excluded by backup.yaml`]);
    });

    it.each(['./files/up', NAME])('loses below `%s` what backup.yaml excludes', async (glob) => {
      const found = await mounted(`exclude: { "${glob}": ["cache/*"] }\n`, generation);
      expect(found.excluded).toEqual([[`${found.tree}/${found.place(NAME)}`, ['cache/*']]]);
      expect(found.notCaptured).toEqual([`cache/* of bind ${NAME} is excluded by backup.yaml`]);
    });
  });

  it('that no glob means is told of by the backup, in the archive, and by validate at its place', async () => {
    const more = 'volumes:\n  include: ["**", "./files/upp"]\nexclude: { dta: [x] }\n';
    const found = await mounted(more, null);
    const words = [
      '`./files/upp` of `volumes.include` matches no volume and no mounted folder',
      '`dta` of `exclude` matches no volume and no mounted folder',
    ];
    expect(found.notCaptured).toEqual(words);
    expect(found.notes).toContain(`not in it: ${words[0]}`);

    const { sim } = await desk(said(more));
    const { code, out } = await sim.run(windlass(sim, ['validate']));
    expect(code).not.toBe(0);
    expect(out).toMatch(/apps\/shop\/backup\.yaml:4:19/);
    expect(out).toContain('did you mean `./files/up`?');
    expect(out).toMatch(/apps\/shop\/backup\.yaml:5:12/);
    expect(out).toContain('did you mean `data`?');
  });

  it('that the `restic` of a stack means is looked for where that stands', async () => {
    const { sim } = await desk({
      ...said(''),
      'stacks/shop.yaml': 'apiVersion: windlass/v1\nkind: Stack\napp: shop\nbackup: { restic: [data, "./files/ub"] }\n',
    });
    const { out } = await sim.run(windlass(sim, ['validate']));
    expect(out).toMatch(/stacks\/shop\.yaml:4:26/);
    expect(out).toContain('did you mean `./files/up`?');
  });
});

describe('a crash in a backup', async () => {
  const calls = async (): Promise<number> => {
    const { sim } = await desk();
    const before = sim.world.count();
    await run(sim);
    return sim.world.count() - before;
  };

  it('at each engine call leaves nothing half listed; whoever starts next brings the services back, and the next backup is whole', async () => {
    const count = await calls();
    expect(count).toBeGreaterThan(5);
    for (let at = 1; at <= count; at++)
      for (const when of ['before', 'after'] as const) {
        const where = `${when} call ${at} of ${count}`;
        const { sim, archives } = await desk();
        sim.world.crashAt(at, when);
        await expect(run(sim), where).rejects.toSatisfy(
          (error: Error) => error instanceof CrashError || (error as { cause?: unknown }).cause instanceof CrashError,
        );
        sim.crash();
        archives.open();
        const before = await listed(sim);
        expect(before.length, where).toBeLessThanOrEqual(1);
        // As a starting controller does; the lease of the dead process runs out.
        await sim.clock.advance(31_000);
        const signal = new AbortController().signal;
        await sim.run(takeUpHooks(sim.bench, ['shop'], { signal }));
        await sim.run(wake(sim.bench, 'shop', signal));
        expect(states(sim), where).toEqual(UP);
        expect(stacksAtRest(sim.bench), where).toEqual([]);
        const { archive } = await run(sim);
        expect((await new Archives(sim.house).verify(archive, signal)).wrong, where).toEqual([]);
        expect(await listed(sim), where).toHaveLength(before.length + 1);
        sim.dispose();
        opened.splice(opened.indexOf(sim), 1);
      }
  }, 120_000);
});

describe('a backup of a group', () => {
  const plain = `services:\n  web:\n    image: ${IMAGE}\n`;
  const member = (more: string): string => `apiVersion: windlass/v1\nkind: Stack\ngroup: all\n${more}`;
  const GROUP = {
    'stacks/shop.yaml': member('app: shop\n'),
    'stacks/side/compose.yaml': plain,
    'stacks/side/stack.yaml': member(''),
    'stacks/alone/compose.yaml': plain,
  };

  it('is one archive a stack and one that names them', async () => {
    const { sim } = await desk(GROUP);
    const done = await sim.run(backupGroup(sim.bench, 'all', new AbortController().signal, () => {}));
    expect(done.members.map((one) => one.stack).sort()).toEqual(['shop', 'side']);
    const all = await listed(sim);
    expect(all.filter((one) => one.kind === 'group')).toMatchObject([{ id: done.archive, group: 'all' }]);
    expect(all).toHaveLength(3);
    // What the group names is pinned.
    await expect(sim.house.archives!.store.remove(done.members[0]!.archive)).rejects.toMatchObject({
      code: 'ARCHIVE_IN_USE',
    });
  });

  it('of which one stack fails is not listed as a group', async () => {
    const { sim, archives } = await desk(GROUP);
    archives.volumes.delete('shop_data');
    await expect(sim.run(backupGroup(sim.bench, 'all', new AbortController().signal, () => {}))).rejects.toMatchObject({
      code: 'PAYLOAD_MISSING',
    });
    expect((await listed(sim)).filter((one) => one.kind === 'group')).toEqual([]);
    expect(states(sim)).toEqual(UP);
  });
});

describe('secrets', () => {
  it('lie in no blob, manifest, event, history or state in clear; sealed, they are in the archive', async () => {
    const sim = new SimHouse();
    opened.push(sim);
    const redactor = { add: (value: string) => void sim.hidden.push(value) };
    const identity = identityFile({ directory: sim.dir, redactor });
    const vault = openVault({ directory: sim.dir, clock: sim.clock, redactor, identity });
    const archives = new SimArchives(sim);
    const envelope = ageEnvelope(identity);
    archives.open({ vault, envelope });
    archives.volumes.set('shop_data', { 'rows.txt': 'rows' });
    archives.volumes.set('shop_spool', {});
    sim.source.push({
      ...APP,
      'apps/shop/app.yaml': `${APP['apps/shop/app.yaml']}vars: { password: { secret: true }, token: { secret: true } }\n`,
      'apps/shop/compose.yaml': APP['apps/shop/compose.yaml'].replace(
        '    scale: 2\n',
        '    scale: 2\n    environment: { PASSWORD: "{{ vars.password }}", TOKEN: "{{ vars.token }}" }\n',
      ),
      'apps/shop/dump.job.yaml': `${APP['apps/shop/dump.job.yaml'].replace('echo dumped', 'echo "with $PASSWORD"')}environment: { PASSWORD: "{{ vars.password }}" }\n`,
      'stacks/shop.yaml': `${APP['stacks/shop.yaml']}vars: { password: "@secret(40,alnum)!", token: "ref+vault://the-token" }\n`,
    });
    const token = 'a-token-that-a-person-put-into-the-vault';
    await vault.put('the-token', 'stack/shop', token);
    const outcome = await sim.apply();
    expect([...(outcome?.failures.values() ?? [])].map(String)).toEqual([]);
    const password = (await vault.find('password', ['stack/shop']))!;
    expect(password).toHaveLength(40);
    const { archive } = await run(sim);

    const { read } = await new Archives(sim.house).show(archive);
    if (read.kind !== 'archive') throw new Error('no archive');
    expect(read.manifest.vars).toMatchObject({
      password: { kind: 'secret', scope: 'stack/shop', key: 'password' },
      token: { kind: 'ref', ref: 'ref+vault://the-token' },
    });
    expect(read.manifest.vault.keys).toEqual(
      expect.arrayContaining([
        { scope: 'stack/shop', key: 'password' },
        { scope: 'stack/shop', key: 'the-token' },
      ]),
    );
    const sealed = archives
      .files()
      .get(`blobs/sha256/${read.manifest.vault.sealed!.digest.slice(0, 2)}/${read.manifest.vault.sealed!.digest}`);
    expect(sealed?.toString()).toMatch(/^-----BEGIN AGE ENCRYPTED FILE-----/);

    // Every byte below the state directory: store, journal, events, history, archive store, project folders.
    for (const value of [password, token])
      for (const form of [value, Buffer.from(value).toString('base64').replace(/=+$/, ''), encodeURIComponent(value)])
        for (const [path, bytes] of archives.files(sim.dir))
          expect(bytes.includes(form), `${path} holds it`).toBe(false);
    vault.close();
  });
});

type Desk = Awaited<ReturnType<typeof desk>>;
