// `windlass doctor` on archive stores and the restic repository: each is asked once, and what is wrong with it is told with its cure.
import { afterEach, expect, it } from 'vitest';
import type { CommandContext } from '../../src/cli/command.ts';
import { command } from '../../src/cli/commands/doctor.ts';
import { Fault } from '../../src/core/fault.ts';
import type { ArchiveStore } from '../../src/ports/archive.ts';
import type { BlobRepository } from '../../src/ports/blob-repository.ts';
import { Surface } from '../../src/surface.ts';
import { SimArchives } from '../sim/sim-archives.ts';
import { SimHouse } from '../sim/sim-house.ts';

const opened: SimHouse[] = [];
afterEach(() => {
  for (const sim of opened.splice(0)) sim.dispose();
});

const refusing = (code: 'ARCHIVE_DENIED' | 'ARCHIVE_UNREACHABLE'): ArchiveStore =>
  ({ manifest: () => Promise.reject(new Fault(code, 'the server says no')), freeBytes: async () => null }) as never;

async function checks(replica: ArchiveStore, look: BlobRepository['look']) {
  const sim = new SimHouse();
  opened.push(sim);
  new SimArchives(sim);
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
