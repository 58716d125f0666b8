// `windlass doctor` on archive stores and the restic repository: each is asked once, and what is wrong with it is told with its cure.
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import type { CommandContext } from '../../src/cli/command.ts';
import { command } from '../../src/cli/commands/doctor.ts';
import { Fault } from '../../src/core/fault.ts';
import { backup } from '../../src/operations/archive/backup.ts';
import type { ArchiveStore } from '../../src/ports/archive.ts';
import type { BlobRepository } from '../../src/ports/blob-repository.ts';
import { Surface } from '../../src/surface.ts';
import { SimArchives } from '../sim/sim-archives.ts';
import { SimHouse } from '../sim/sim-house.ts';

const never = new AbortController().signal;
const opened: SimHouse[] = [];
afterEach(() => {
  for (const sim of opened.splice(0)) sim.dispose();
});

const refusing = (code: 'ARCHIVE_DENIED' | 'ARCHIVE_UNREACHABLE'): ArchiveStore =>
  ({
    manifest: () => Promise.reject(new Fault(code, 'the server says no')),
    freeBytes: async () => null,
    list: async () => [],
  }) as never;

async function checks(
  replica: ArchiveStore,
  look: BlobRepository['look'],
  before: (sim: SimHouse, disk: SimArchives) => Promise<void> = async () => {},
) {
  const sim = new SimHouse();
  opened.push(sim);
  await before(sim, new SimArchives(sim));
  const archives = {
    ...sim.house.archives!,
    replicas: [{ name: 'offsite', store: replica }],
    repository: { look } as BlobRepository,
  };
  const told: { check: string; ok: boolean; says: string; help: string }[] = [];
  const io = { json: (value: typeof told) => void told.push(...value) };
  const context = {
    io,
    json: true,
    surface: async () => new Surface({ ...sim.house, archives }),
    now: new AbortController().signal,
  };
  const code = await command.run(context as unknown as CommandContext);
  return { code, told: (name: string) => told.find((one) => one.check === name) };
}

it('asks the archive store, each replica and the restic repository', async () => {
  const missing = refusing('ARCHIVE_DENIED');
  missing.manifest = () => Promise.reject(new Fault('ARCHIVE_MISSING', 'there is no archive 0000'));
  const { told } = await checks(missing, async () => null);
  expect(told('archives')).toMatchObject({ ok: true, says: expect.stringMatching(/^it answers, \d+ GiB free$/) });
  expect(told('replica offsite')).toMatchObject({ ok: true, says: 'it answers' });
  expect(told('restic')).toMatchObject({ ok: true, says: 'it opens; the first backup makes it' });
});

it('fails with the cure of what refuses, and never takes it for an empty store', async () => {
  const refuse = () => Promise.reject(new Fault('REPOSITORY_REFUSED', 'another one'));
  const { code, told } = await checks(refusing('ARCHIVE_DENIED'), refuse);
  expect(code).not.toBe(0);
  expect(told('archives')).toMatchObject({ ok: true });
  expect(told('replica offsite')).toMatchObject({ ok: false, help: expect.stringContaining('credentials') });
  expect(told('restic')).toMatchObject({
    ok: false,
    says: 'another one',
    help: expect.stringContaining('archives.restic'),
  });
});

it('tells of archives that cannot be read, which keep everything from going, and of those found damaged', async () => {
  const ids: string[] = [];
  const answering = refusing('ARCHIVE_DENIED');
  answering.manifest = () => Promise.reject(new Fault('ARCHIVE_MISSING', 'there is no archive 0000'));
  const unread = 'e'.repeat(64);
  answering.list = async () => [{ kind: 'damaged', id: unread, code: 'ARCHIVE_DAMAGED', why: 'it is cut off' }];
  const backUp = async (sim: SimHouse, disk: SimArchives): Promise<void> => {
    disk.volumes.set('shop_data', { 'rows.txt': 'a' });
    sim.source.push({
      'stacks/shop/compose.yaml':
        'services: { web: { image: "windlass-test/busybox:1", volumes: ["data:/data"] } }\nvolumes: { data: {} }\n',
    });
    await sim.apply();
    for (let count = 0; count < 2; count++) {
      await sim.clock.advance(60_000);
      ids.push((await sim.run(backup(sim.bench, 'shop', { signal: never }))).archive);
    }
  };
  const spoilt = await checks(
    answering,
    async () => null,
    async (sim, disk) => {
      await backUp(sim, disk);
      const path = join(disk.directory, 'manifests', `${ids[0]}.json`);
      chmodSync(path, 0o600);
      writeFileSync(path, '{}');
      sim.house.store.putValue(`archive-damaged/${ids[1]}`, 1);
    },
  );
  expect(spoilt.code).not.toBe(0);
  expect(spoilt.told('archives')).toMatchObject({
    ok: false,
    says: `it answers, and 1 archive cannot be read: ${ids[0]?.slice(0, 12)}; 1 archive found to be damaged: ${ids[1]?.slice(0, 12)}`,
    help: expect.stringContaining('windlass backups list'),
  });
  expect(spoilt.told('replica offsite')).toMatchObject({
    ok: false,
    says: `it answers, and 1 archive cannot be read: ${unread.slice(0, 12)}`,
    help: expect.stringContaining('`windlass backups list --store offsite`'),
  });
  const whole = await checks(refusing('ARCHIVE_DENIED'), async () => null, backUp);
  expect(whole.told('archives')).toMatchObject({ ok: true });
});
