// `windlass backups` over several archives, one of which cannot be read: nothing that was found is kept from the person.
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { readManifest } from '../../src/core/archive/manifest.ts';
import { backup } from '../../src/operations/archive/backup.ts';
import { backupGroup } from '../../src/operations/archive/backup-group.ts';
import { SimArchives } from '../sim/sim-archives.ts';
import { SimHouse } from '../sim/sim-house.ts';
import { windlass } from './fake-terminal.ts';

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
  for (const name of ['one', 'two']) disk.volumes.set(`${name}_data`, { 'rows.txt': 'of both' });
  sim.source.push({ ...stack('one'), ...stack('two') });
  await sim.apply();
  const spoil = (path: string): void => {
    chmodSync(join(disk.directory, path), 0o600);
    writeFileSync(join(disk.directory, path), '{}');
  };
  return {
    sim,
    backUp: async (name: string, rows: string) => {
      disk.volumes.set(`${name}_data`, { 'rows.txt': rows });
      await sim.clock.advance(60_000);
      return (await sim.run(backup(sim.bench, name, { signal: never }))).archive;
    },
    backUpAll: () => sim.run(backupGroup(sim.bench, 'all', never, () => {})),
    spoilManifest: (id: string) => spoil(`manifests/${id}.json`),
    spoilData: (id: string) => {
      const read = readManifest(readFileSync(join(disk.directory, 'manifests', `${id}.json`)));
      const digest = read.kind === 'archive' ? (read.manifest.payloads[0]?.blob.digest ?? '') : '';
      spoil(`blobs/sha256/${digest.slice(0, 2)}/${digest}`);
    },
    run: (...argv: string[]) => windlass(sim, ['backups', ...argv]),
  };
}

const short = (id: string): string => id.slice(0, 12);

describe('`backups verify` of several', () => {
  it('tells of each, also of those beside one that cannot be read or is not there', async () => {
    const { backUp, spoilData, spoilManifest, run } = await desk();
    const wrong = await backUp('one', 'a');
    const unread = await backUp('one', 'b');
    const right = await backUp('one', 'c');
    spoilData(wrong);
    spoilManifest(unread);
    const { code, out } = await run('verify', wrong, unread, 'f'.repeat(12), right);
    expect(code).toBe(1);
    const lines = out.split('\n').filter((line) => !line.startsWith(' ') && line !== '');
    expect(lines).toEqual([
      `${short(wrong)}: damaged`,
      expect.stringMatching(`^${short(unread)}: could not be read: ARCHIVE_DAMAGED: `),
      `${'f'.repeat(12)}: could not be read: ARCHIVE_MISSING: there is no archive ${'f'.repeat(12)}`,
      expect.stringMatching(`^${short(right)}: right, `),
    ]);
    const told = JSON.parse((await run('verify', unread, right, '-o', 'json')).out);
    expect(told).toMatchObject([
      { id: unread, fault: { code: 'ARCHIVE_DAMAGED' } },
      { id: right, wrong: [] },
    ]);
    expect((await run('verify', right)).code).toBe(0);
  });

  it('reads none when one word is no id', async () => {
    const { sim, backUp, run } = await desk();
    const id = await backUp('one', 'a');
    const reads = vi.spyOn(sim.house.archives!.store, 'verify');
    expect(await run('verify', id, 'latest')).toMatchObject({ code: 3, err: expect.stringContaining('latest') });
    expect(reads).not.toHaveBeenCalled();
  });
});

describe('an archive that cannot be read', () => {
  it('is told by `prune` as what keeps all others, before anything is asked to go', async () => {
    const { sim, backUp, spoilManifest, run } = await desk();
    await backUp('one', 'a');
    const id = await backUp('two', 'b');
    expect((await run('prune', 'one')).code).toBe(0);
    spoilManifest(id);
    const { code, out, err } = await run('prune', 'one');
    expect(code).toBe(1);
    expect(out).toContain('kept');
    expect(err).toContain(`nothing can go while ${short(id)} cannot be read`);
    expect(await run('prune', 'one', '--yes')).toMatchObject({ code: 1, err: expect.stringContaining(short(id)) });
    Object.assign(sim.house.archives!, { replicas: [{ name: 'offsite', store: sim.house.archives!.store }] });
    const there = await run('prune', 'one', '--store', 'offsite');
    expect(there.err).toContain(`\`windlass backups remove ${short(id)} --store offsite\``);
  });

  it('is listed with those of each stack, since it may be one of them', async () => {
    const { backUp, backUpAll, spoilManifest, run } = await desk();
    const { archive } = await backUpAll();
    const id = await backUp('one', 'a');
    const other = await backUp('two', 'b');
    expect((await run('list', 'one')).code).toBe(0);
    spoilManifest(archive);
    const { code, out, err } = await run('list', 'one');
    expect(code).toBe(1);
    expect(out).toContain(short(id));
    expect(out).toContain(short(archive));
    expect(out).not.toContain(short(other));
    expect(err).toContain('1 archive cannot be read, and may be of one');
  });

  it('is listed under the stack that it is known to be of, in a row as short as any, and below it stands why', async () => {
    const { sim, backUp, spoilManifest, run } = await desk();
    const older = await backUp('one', 'a');
    const newer = await backUp('two', 'b');
    await backUp('one', 'c');
    for (const id of [older, newer]) spoilManifest(id);
    const { out, err } = await run('list');
    expect(Math.max(...out.split('\n').map((line) => line.length))).toBeLessThan(70);
    expect(out).toMatch(new RegExp(`^${short(older)}  one +damaged `, 'm'));
    expect(out).toMatch(new RegExp(`^${short(newer)}  two +damaged `, 'm'));
    expect(err).toMatch(new RegExp(`^${short(older)} of one cannot be read: \\w`, 'm'));
    expect(err).not.toContain('may be of');
    expect(JSON.parse((await run('list', '-o', 'json')).out)).toContainEqual(
      expect.objectContaining({ id: older, kind: 'damaged', wasOf: 'one' }),
    );
    // Another controller's state, over the same store.
    sim.house.store.runs = () => [];
    expect((await run('list')).out).toMatch(new RegExp(`^${short(older)}  unreadable  damaged `, 'm'));
  });
});

it('`backups import` of what was signed by a key that nobody trusts is refused as by trust, not as failed', async () => {
  const [there, here] = [await desk(), await desk()];
  const file = join(there.sim.dir, 'one.bak');
  await there.run('export', await there.backUp('one', 'a'), file);
  expect(await here.run('import', file)).toMatchObject({ code: 5, err: expect.stringContaining('ARCHIVE_UNTRUSTED') });
});

it('`backups show` prints the archive of a group as text, and its manifest with -o json', async () => {
  const { backUpAll, run } = await desk();
  const { archive, members } = await backUpAll();
  const { out } = await run('show', archive);
  expect(out).toMatch(new RegExp(`^archive    ${archive}\ngroup      all\nmade       .* by Windlass `));
  for (const one of members) expect(out).toContain(`member     ${one.stack}: ${one.archive}`);
  expect(JSON.parse((await run('show', archive, '-o', 'json')).out)).toMatchObject({
    id: archive,
    manifest: { group: 'all' },
  });
});
