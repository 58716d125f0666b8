// What is kept of archives, what goes, and what is believed of them: by rule, by a person's word, and by what reading them again found.
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { openSigningKey } from '../../src/adapters/archive/signing.ts';
import { readManifest } from '../../src/core/archive/manifest.ts';
import { Fault } from '../../src/core/fault.ts';
import { Archives } from '../../src/operations/archive/archives.ts';
import { backup } from '../../src/operations/archive/backup.ts';
import { backupGroup } from '../../src/operations/archive/backup-group.ts';
import { planRestore } from '../../src/operations/archive/plan-restore.ts';
import { putWrongWithOthers } from '../../src/operations/archive/proof.ts';
import { windlass } from '../cli/fake-terminal.ts';
import { SimArchives } from '../sim/sim-archives.ts';
import { SimHouse } from '../sim/sim-house.ts';

const never = new AbortController().signal;
const stack = (name: string): Record<string, string> => ({
  [`stacks/${name}/stack.yaml`]: 'apiVersion: windlass/v1\nkind: Stack\ngroup: all\nbackup: { keep: { last: 1 } }\n',
  [`stacks/${name}/compose.yaml`]:
    'services: { web: { image: "windlass-test/busybox:1", volumes: ["data:/data"] } }\nvolumes: { data: {} }\n',
});

const opened: SimHouse[] = [];
afterEach(() => {
  for (const sim of opened.splice(0)) sim.dispose();
});

async function desk() {
  const sim = new SimHouse();
  opened.push(sim);
  const disk = new SimArchives(sim);
  disk.volumes.set('one_data', { 'rows.txt': 'of both' });
  disk.volumes.set('two_data', { 'rows.txt': 'of both' });
  const at = await sim.bench.reader.read(sim.source.push({ ...stack('one'), ...stack('two') }));
  await sim.apply();
  const archives = new Archives(sim.house);
  return {
    sim,
    disk,
    at,
    archives,
    backUp: async (name: string, rows = 'of both') => {
      disk.volumes.set(`${name}_data`, { 'rows.txt': rows });
      await sim.clock.advance(60_000);
      return (await sim.run(backup(sim.bench, name, { signal: never }))).archive;
    },
    backUpAll: () => sim.run(backupGroup(sim.bench, 'all', never, () => {})),
    ids: async () => (await archives.list()).map(({ listed }) => listed.id).sort(),
    gone: async () => (await archives.prune(at, undefined, true)).flatMap((one) => (one.isKept ? [] : [one.id])),
    spoil: (path: string, bytes: string | Buffer) => {
      chmodSync(join(disk.directory, path), 0o600);
      writeFileSync(join(disk.directory, path), bytes);
    },
  };
}

describe('an archive that a person wants gone', () => {
  it('of a group goes without its members, which `keep` then decides of', async () => {
    const { archives, at, backUp, backUpAll, gone, ids } = await desk();
    const { archive, members } = await backUpAll();
    await backUp('one', 'newer');
    await backUp('two', 'newer');
    expect(await gone()).toEqual([]);
    expect(await archives.removeOne(at, archive, false)).toMatchObject({
      warnings: [expect.stringContaining('members stay')],
    });
    expect(await ids()).toContain(archive);
    await archives.removeOne(at, archive, true);
    expect(await ids()).not.toContain(archive);
    expect((await gone()).sort()).toEqual(members.map((one) => one.archive).sort());
  });

  it('stays while something needs it, whatever the person says', async () => {
    const { sim, archives, at, backUp, backUpAll } = await desk();
    const { archive, members } = await backUpAll();
    const [member] = members;
    const lone = await backUp('one', 'newer');
    for (const [id, needs, put] of [
      [member?.archive ?? '', `the group archive ${archive.slice(0, 12)}`, () => {}],
      [lone, 'the drill of one', () => sim.house.store.putValue('drilling/d', { stack: 'one', archives: [lone] })],
    ] as const) {
      put();
      await expect(archives.removeOne(at, id, true)).rejects.toMatchObject({
        code: 'ARCHIVE_IN_USE',
        message: expect.stringContaining(needs),
      });
    }
    expect((await archives.list()).map(({ listed }) => listed.id)).toEqual(expect.arrayContaining([archive, lone]));
  });

  it('is told of with what is lost: the newest, the only one, the only one that was found right', async () => {
    const { archives, at, backUp } = await desk();
    const first = await backUp('one', 'first');
    expect((await archives.removeOne(at, first, false)).warnings).toEqual(['there is no other archive of one here']);
    const second = await backUp('one', 'second');
    await archives.verify(second, never);
    expect((await archives.removeOne(at, first, false)).warnings).toEqual([]);
    expect((await archives.removeOne(at, second, false)).warnings).toEqual([
      'it is the newest one of one',
      'it is the only one of one that was found right',
    ]);
  });

  it('may be one that cannot be read, which keeps everything else until it is gone', async () => {
    const { archives, at, backUp, gone, ids, spoil } = await desk();
    const old = await backUp('one', 'old');
    await backUp('one', 'new');
    const bad = await backUp('two');
    spoil(`manifests/${bad}.json`, '{}');
    await expect(gone()).rejects.toMatchObject({ code: 'ARCHIVE_DAMAGED' });
    expect(await ids()).toHaveLength(3);
    expect(await archives.removeOne(at, bad, true)).toMatchObject({ what: expect.stringContaining('cannot be read') });
    expect(await ids()).not.toContain(bad);
    expect(await gone()).toEqual([old]);
  });

  it('is told as gone also when one that was named after it stays', async () => {
    const { sim, backUp, ids } = await desk();
    const [first, second] = [await backUp('one', 'first'), await backUp('one', 'second')];
    sim.house.store.putValue('drilling/d', { stack: 'one', archives: [second] });
    const done = await windlass(sim, ['backups', 'remove', first, second, '--yes']);
    expect([done.code === 0, await ids()]).toEqual([false, [second]]);
    expect(done.out).toContain(`${first.slice(0, 12)}  removed`);
    expect(done.err).toContain('ARCHIVE_IN_USE');
  });

  it('is told as gone also when the room that it took could not be freed', async () => {
    const { sim, backUp, ids } = await desk();
    const [first, second] = [await backUp('one', 'first'), await backUp('one', 'second')];
    const last = await backUp('one', 'last');
    const { store } = sim.house;
    const collect = vi.spyOn(sim.house.archives!.store, 'collect');
    const fails = async (words: readonly string[], gone: string): Promise<void> => {
      collect.mockRejectedValueOnce(new Fault('ARCHIVE_UNREACHABLE', 'the store does not answer'));
      const { code, err } = await windlass(sim, ['backups', ...words, '--yes']);
      expect(code).not.toBe(0);
      expect(err).toMatch(/ARCHIVE_UNREACHABLE.*the store does not answer/);
      expect(err).toContain(`the archive ${gone.slice(0, 12)} is removed; what was to follow failed`);
    };
    store.putValue(`archive-pin/${second}`, 'a person');
    await fails(['prune'], first);
    store.deleteValue(`archive-pin/${second}`);
    await fails(['remove', second], second);
    expect(await ids()).toEqual([last]);
  });

  it('is nothing that status goes on telling of', async () => {
    const { sim, archives, at, backUp } = await desk();
    const id = await backUp('one');
    await archives.removeOne(at, id, true);
    expect([...sim.house.store.values('last-backup/').keys()]).toEqual([]);
  });
});

describe('an archive that work under way reads', () => {
  it.each([
    [
      'a recover whose turn it is not yet',
      'request-intent/r',
      (archive: string) => ({ operation: 'recover', plan: { archive: 'g', layers: [[{ restore: { archive } }]] } }),
    ],
    ['a restore', 'request-intent/r', (archive: string) => ({ operation: 'restore', plan: { archive } })],
    ['a clone that is not planned yet', 'clone/r', (archive: string) => ({ id: 'r', archive, endedAtMs: 0 })],
  ] as const)('is kept for %s, also when its request is gone from the tip', async (_, key, value) => {
    const { sim, archives, at, backUp, gone } = await desk();
    const old = await backUp('one', 'old');
    await backUp('one', 'new');
    sim.house.store.putValue(key, value(old));
    expect((await archives.prune(at, 'one', false)).find((one) => one.id === old)).toMatchObject({
      isKept: true,
      why: ['pinned by the request r'],
    });
    sim.house.store.deleteValue(key);
    expect(await gone()).toEqual([old]);
  });

  it.each([
    ['its intent', 'request-intent/r', (archive: string) => ({ operation: 'restore', plan: { archive } })],
    ['the record of its clone', 'clone/r', (archive: string) => ({ id: 'r', archive, endedAtMs: 0 })],
  ] as const)('is nothing that a request which is over keeps, although %s was left behind', async (_, key, value) => {
    const { sim, at, backUp } = await desk();
    const old = await backUp('one', 'old');
    await backUp('one', 'new');
    sim.house.store.putValue(key, value(old));
    const keptWhile = async (state: string): Promise<boolean | undefined> => {
      const trust = { deploy: 'none', ledger: { snapshot: (id: string) => (id === 'r' ? { state } : null) } };
      const archives = new Archives({ ...sim.house, trust: trust as never });
      return (await archives.prune(at, 'one', false)).find((one) => one.id === old)?.isKept;
    };
    expect([await keptWhile('scheduled'), await keptWhile('executing'), await keptWhile('failed')]).toEqual([
      true,
      true,
      false,
    ]);
  });
});

describe('a member of a group that is being backed up', () => {
  it('is kept until the group names it, and for no more than a day when that was cut', async () => {
    const { sim, disk, archives, at, backUp, backUpAll } = await desk();
    const underWay: unknown[] = [];
    disk.during = (name) => {
      if (name === 'two_data') underWay.push(...sim.house.store.values('grouping/').values());
    };
    const { members } = await backUpAll();
    expect(underWay).toMatchObject([{ archives: [members[0]?.archive] }]);
    expect([...sim.house.store.values('grouping/').keys()]).toEqual([]);
    disk.during = () => {};

    const old = await backUp('one', 'old');
    await backUp('one', 'new');
    sim.house.store.putValue('grouping/g', { group: 'all', sinceMs: sim.clock.nowMs(), archives: [old] });
    const verdict = async () => (await archives.prune(at, 'one', false)).find((one) => one.id === old);
    expect(await verdict()).toMatchObject({ isKept: true, why: ['pinned by the backup of the group all'] });
    await sim.clock.advance(86_400_000);
    expect(await verdict()).toMatchObject({ isKept: false });
    await backUpAll();
    expect([...sim.house.store.values('grouping/').keys()]).toEqual([]);
  });

  it('is kept although somebody else backs up the same group meanwhile, and does not get far', async () => {
    const { sim, disk, backUpAll } = await desk();
    const kept = () => [...sim.house.store.values('grouping/').values()];
    const seen: unknown[] = [];
    disk.during = async (name) => {
      if (name !== 'two_data') return;
      disk.during = () => {};
      seen.push(...kept());
      await expect(backupGroup(sim.bench, 'all', never, () => {})).rejects.toMatchObject({ code: 'LOCK_HELD' });
      expect(kept()).toEqual(seen);
    };
    await backUpAll();
    expect(seen).toHaveLength(1);
  });
});

describe('what `prune` says', () => {
  it('is that an archive stays which a group came to name meanwhile', async () => {
    const { sim, archives, at, backUp, ids } = await desk();
    const old = await backUp('one', 'old');
    await backUp('one', 'new');
    const { store } = sim.house.archives!;
    vi.spyOn(store, 'remove').mockRejectedValueOnce(new Fault('ARCHIVE_IN_USE', 'a group names it'));
    expect((await archives.prune(at, 'one', true)).find(({ id }) => id === old)).toMatchObject({
      isKept: true,
      why: ['pinned by a group archive that was stored meanwhile'],
    });
    expect(await ids()).toContain(old);
    expect((await archives.prune(at, 'one', true)).find(({ id }) => id === old)).toMatchObject({ isKept: false });
    expect(await ids()).not.toContain(old);
  });
});

describe('what reading archives again found', () => {
  it('counts for every archive that shares a blob, and for the members of a group', async () => {
    const { sim, disk, archives, backUpAll, spoil } = await desk();
    const { archive, members } = await backUpAll();
    expect((await archives.verify(archive, never)).wrong).toEqual([]);
    const proved = async () =>
      (await archives.list()).flatMap(({ listed, readAtMs }) => (readAtMs === null ? [] : [listed.id]));
    expect(await proved()).toHaveLength(3);
    const [one] = members;
    const manifest = readManifest(readFileSync(join(disk.directory, 'manifests', `${one?.archive}.json`)));
    const digest = manifest.kind === 'archive' ? (manifest.manifest.payloads[0]?.blob.digest ?? '') : '';
    spoil(`blobs/sha256/${digest.slice(0, 2)}/${digest}`, 'spoilt');
    expect((await archives.verify(one?.archive ?? '', never)).wrong).toMatchObject([{ digest, what: 'damaged' }]);
    expect(await proved()).toEqual([archive]);
    expect((await archives.verify(archive, never)).wrong).toHaveLength(1);
    expect(await proved()).toEqual([]);
    expect([...sim.house.store.values('archive-drilled/').keys()]).toEqual([]);
  });

  it('is on record, and the reading fails, where it cannot be told which others share what is wrong', async () => {
    const { sim, disk, archives, backUpAll, spoil } = await desk();
    const { members } = await backUpAll();
    const [one = '', two = ''] = members.map(({ archive }) => archive);
    const manifest = readManifest(readFileSync(join(disk.directory, 'manifests', `${one}.json`)));
    const digest = manifest.kind === 'archive' ? (manifest.manifest.payloads[0]?.blob.digest ?? '') : '';
    spoil(`blobs/sha256/${digest.slice(0, 2)}/${digest}`, 'spoilt');
    const { store } = sim.house.archives!;
    const read = store.manifest.bind(store);
    let asked = 0;
    const reading = vi.spyOn(store, 'manifest').mockImplementation(async (id) => {
      // The list reads it first.
      if (id === two && ++asked > 1) throw new Fault('ARCHIVE_UNREACHABLE', 'the store does not answer');
      return read(id);
    });
    const damaged = async () =>
      (await archives.list()).flatMap(({ listed, damagedAtMs }) => (damagedAtMs === null ? [] : [listed.id]));
    await expect(archives.verify(one, never)).rejects.toMatchObject({ code: 'ARCHIVE_UNREACHABLE' });
    expect(await damaged()).toEqual([one]);
    reading.mockRestore();
    await archives.verify(one, never);
    expect((await damaged()).sort()).toEqual([one, two].sort());
  });

  it('is told of one that is damaged, in the list and by `prune`, and keeps a good one in its place', async () => {
    const { sim, disk, archives, backUp, ids, spoil } = await desk();
    const good = await backUp('one', 'older');
    const before = new Set(disk.files().keys());
    const id = await backUp('one', 'newer');
    const path = [...disk.files().keys()].find((one) => one.startsWith('blobs/') && !before.has(one)) ?? '';
    const whole = readFileSync(join(disk.directory, path));
    expect((await windlass(sim, ['backups', 'prune', '--yes'])).out).toContain(`${good.slice(0, 12)}  one  removed`);
    const kept = await backUp('one', 'newest but one');
    spoil(path, 'spoilt');
    expect((await windlass(sim, ['backups', 'verify', id])).out).toMatch(/damaged/);
    const list = await windlass(sim, ['backups', 'list']);
    expect([list.code, list.out]).toEqual([
      1,
      expect.stringMatching(new RegExp(`${id.slice(0, 12)} .*DAMAGED \\d+s ago`)),
    ]);
    // Newer than the good one, were it counted, it would be kept in its place.
    await sim.clock.advance(60_000);
    sim.house.store.putValue(`archive-damaged/${kept}`, 1);
    const last = await backUp('one', 'last');
    sim.house.store.putValue(`archive-damaged/${last}`, 1);
    sim.house.store.deleteValue(`archive-damaged/${kept}`);
    const pruned = await windlass(sim, ['backups', 'prune', '--yes']);
    expect(pruned.out).toMatch(new RegExp(`${last.slice(0, 12)}  one  kept: DAMAGED, and counted for none`));
    expect(pruned.out).toMatch(new RegExp(`${kept.slice(0, 12)}  one  kept: one of the last 1, the newest`));
    expect(await ids()).toEqual([id, kept, last].sort());
    spoil(path, whole);
    expect((await windlass(sim, ['backups', 'verify', id])).out).toMatch(/right/);
    const damaged = (await archives.list()).filter((one) => one.damagedAtMs !== null);
    expect(damaged.map(({ listed }) => listed.id)).toEqual([last]);
  });

  it('counts also when a restore found it: what is planned from a damaged archive proves nothing of it', async () => {
    const { sim, disk, archives, backUp, spoil } = await desk();
    const id = await backUp('one');
    await archives.verify(id, never);
    sim.house.store.putValue(`archive-drilled/${id}`, 1);
    const [path = ''] = [...disk.files().keys()].filter((one) => one.startsWith('blobs/'));
    spoil(path, 'spoilt');
    await expect(planRestore(sim.bench, { stack: 'one', archive: id }, never)).rejects.toMatchObject({
      code: 'ARCHIVE_DAMAGED',
    });
    expect((await archives.list())[0]).toMatchObject({ readAtMs: null, verifiedAtMs: null });
  });

  it('counts for what shares it also when a restore found it, and is told where those cannot be read', async () => {
    const { sim, disk, archives, backUpAll, spoil } = await desk();
    const { members } = await backUpAll();
    const [one = '', two = ''] = members.map(({ archive }) => archive);
    for (const id of [one, two]) await archives.verify(id, never);
    const damaged = async () =>
      (await archives.list()).flatMap(({ listed, damagedAtMs }) => (damagedAtMs === null ? [] : [listed.id])).sort();
    const manifest = readManifest(readFileSync(join(disk.directory, 'manifests', `${one}.json`)));
    const digest = manifest.kind === 'archive' ? (manifest.manifest.payloads[0]?.blob.digest ?? '') : '';
    spoil(`blobs/sha256/${digest.slice(0, 2)}/${digest}`, 'spoilt');
    const plan = () => planRestore(sim.bench, { stack: 'one', archive: one }, never);
    const { store } = sim.house.archives!;
    const listing = vi.spyOn(store, 'list').mockRejectedValueOnce(new Fault('ARCHIVE_UNREACHABLE', 'no answer'));
    await expect(plan()).rejects.toMatchObject({
      code: 'ARCHIVE_DAMAGED',
      message: expect.stringContaining('which others share that is not known: no answer'),
    });
    listing.mockRestore();
    expect(await damaged()).toEqual([one]);
    await expect(plan()).rejects.toMatchObject({ code: 'ARCHIVE_DAMAGED' });
    expect(await damaged()).toEqual([one, two].sort());
  });

  it('in a replica says nothing of what is here', async () => {
    const { sim, archives, backUpAll } = await desk();
    const { members } = await backUpAll();
    const digests = members.map(({ archive }) => archive);
    const house = sim.house.archives!;
    const wrong = digests.map((digest) => ({ kind: 'manifest' as const, digest, what: 'damaged' as const }));
    await putWrongWithOthers(sim.house.store, house.store, 'f'.repeat(64), wrong, 1);
    expect((await archives.list()).filter((one) => one.damagedAtMs !== null)).toEqual([]);
  });
});

describe('a key of another controller', () => {
  it('is trusted once its archive is in, and not when the import failed', async () => {
    const [here, there] = [await desk(), await desk()];
    const id = await there.backUp('one');
    const file = join(there.sim.dir, 'one.bak');
    await there.archives.exportTo(id, file, never);
    const key = openSigningKey(there.sim.dir).publicKey;
    const broken = join(there.sim.dir, 'broken.bak');
    writeFileSync(broken, readFileSync(file).subarray(0, -3_000));
    await expect(here.archives.importFrom(broken, key, never)).rejects.toThrow('ends too early');
    await expect(here.archives.importFrom(file, undefined, never)).rejects.toMatchObject({ code: 'ARCHIVE_UNTRUSTED' });
    expect(readdirSync(here.sim.dir)).not.toContain('manifests');
    await expect(here.archives.importFrom(file, 'no key', never)).rejects.toMatchObject({ code: 'USAGE' });
    expect((await here.archives.importFrom(file, key, never)).id).toBe(id);
    expect((await here.archives.show(id)).signedBy).toBe(key);
  });
});
