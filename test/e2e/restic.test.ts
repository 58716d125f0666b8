// Data of a stack in a restic repository, on the real engine and through the CLI: there and back with all that volumes hold, the second time
// at no cost, and refused before anything is touched when restic is too old or a pack is damaged.
import { execFileSync } from 'node:child_process';
import { createCipheriv, createHash } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createArguments } from '../../src/adapters/payload/tar-command.ts';
import { readManifest } from '../../src/core/archive/manifest.ts';
import type { PayloadRecord } from '../../src/core/archive/payload.ts';
import { Fault } from '../../src/core/fault.ts';
import { backup } from '../../src/operations/archive/backup.ts';
import { planRestore } from '../../src/operations/archive/plan-restore.ts';
import { restore } from '../../src/operations/archive/restore.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import { type OpenHouse, openHouse } from '../../src/wire.ts';
import { file, folder, type MadeEntry, tarOf } from '../adapters/payload/made-tar.ts';
import { ensureRestic, fakeRestic, makeWorld, type ResticWorld } from '../adapters/restic/real-restic.ts';
import { docker, Fleet, inspect } from './fleet.ts';

const STACK = 'wlt-restic';
const COPY = 'wlt-restic-copy';
const WEB = `${STACK}-web-1`;
const never = new AbortController().signal;
/** So much that a backup can be killed in its middle. */
const LARGE_BYTES = 48_000_000;

const TREE: readonly MadeEntry[] = [
  folder('./', { mode: 0o700, uid: 26, gid: 26 }),
  file('./-dash', 'd', { uid: 999, gid: 999, mode: 0o600 }),
  folder('./empty/', { mode: 0o1777, uid: 65534, gid: 65534 }),
  file('./new\nline', 'n', { uid: 999 }),
  file('./run', '#!/bin/sh\n', { mode: 0o6755, uid: 0, gid: 26 }),
  { path: './run-too', type: '1', link: './run', mode: 0o6755, gid: 26 },
  { path: './planted', type: '2', link: '/etc/passwd', mode: 0o777, uid: 999 },
  { path: './planted-folder', type: '2', link: '../../../../etc', mode: 0o777, uid: 999 },
  { path: './fifo', type: '6', mode: 0o600, uid: 999 },
  file('./tagged', 'x', {
    pax: [
      ['SCHILY.xattr.user.origin', 'here'],
      ['SCHILY.xattr.security.capability', Buffer.from('0100000200200000000000000000000000000000', 'hex')],
      ['mtime', '1650000000.123456789'],
    ],
  }),
  file('./ünï 日本', 'u', { uid: 65534, gid: 65534 }),
  { path: Buffer.from([0x2e, 0x2f, 0x6c, 0xe4, 0x74]), content: 'latin' },
];

let fleet: Fleet;
let world: ResticWorld;
let house: OpenHouse;
let bench: Workbench;

const good = async (...args: string[]): Promise<string> => {
  const { code, out, err } = await fleet.windlass(...args);
  expect(code, `${args.join(' ')}: ${out}${err}`).toBe(0);
  return out.trim();
};
async function payloadsOf(id: string): Promise<readonly PayloadRecord[]> {
  const read = readManifest((await house.archives!.store.manifest(id)).bytes);
  return read.kind === 'archive' ? read.manifest.payloads : [];
}
const archives = async (): Promise<number> => (await house.archives!.store.list()).length;
const mountpoint = (volume: string): string => docker('volume', 'inspect', '--format', '{{.Mountpoint}}', volume);
const snapshots = (): number => (JSON.parse(world.restic('snapshots', '--json')) as unknown[]).length;

function digestOf(path: string): string {
  const tar = execFileSync('tar', createArguments(path, []), {
    maxBuffer: 2 * LARGE_BYTES,
    env: { LC_ALL: 'C', PATH: process.env['PATH'] },
  });
  return createHash('sha256').update(tar).digest('hex');
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
const sizeBelow = (folder: string): number => filesBelow(folder).reduce((sum, path) => sum + statSync(path).size, 0);

/** Bytes that do not repeat, the same in each run. */
const noise = (sizeBytes: number): Buffer =>
  createCipheriv('aes-128-ctr', Buffer.alloc(16), Buffer.alloc(16)).update(Buffer.alloc(sizeBytes));

beforeAll(async () => {
  ensureRestic();
  world = makeWorld();
  fleet = new Fleet();
  fleet.owns(STACK, COPY);
  fleet.removeLeftovers();
  writeFileSync(
    join(fleet.dir, 'windlass.yaml'),
    `apiVersion: windlass/v1
kind: Controller
archives:
  restic:
    repository: ${world.repository}
    passwordFile: ${world.passwordFile}
`,
  );
  fleet.push({
    [`stacks/${STACK}/stack.yaml`]: 'apiVersion: windlass/v1\nkind: Stack\nbackup: { restic: ["**"] }\n',
    [`stacks/${STACK}/compose.yaml`]: `services:
  web:
    image: windlass-test/busybox:1
    command: sleep 1d
    user: "0"
    stop_grace_period: 0s
    volumes: [data:/data]
volumes: { data: {} }
`,
  });
  await good('apply', '--yes');
  const path = mountpoint(`${STACK}_data`);
  execFileSync('tar', ['-x', '-C', path, '--xattrs', '--xattrs-include=*', '--numeric-owner', '-p'], {
    input: tarOf(TREE),
  });
  writeFileSync(join(path, 'large'), noise(LARGE_BYTES));
  house = await openHouse({
    stateDir: fleet.state,
    source: { name: 'main', url: fleet.bare, ref: 'main' },
    settleMs: 500,
    settleSamples: 2,
    archives: { restic: { repository: world.repository, passwordFile: world.passwordFile } },
  });
  bench = new Workbench(house);
  await house.source.fetch();
});
afterAll(async () => {
  await house?.close();
  await fleet?.dispose();
  world?.dispose();
});

describe('a stack whose data lies in restic', () => {
  let first = '';

  it('is backed up whole: its archive names the full ids, and the store holds none of its data', async () => {
    first = await good('backup', STACK);
    const [payload] = await payloadsOf(first);
    expect(payload).toMatchObject({ format: 'tar', plainDigest: digestOf(mountpoint(`${STACK}_data`)) });
    expect(payload!.blob.digest).toBe(payload!.plainDigest);
    for (const id of Object.values(payload!.restic!)) expect(id).toMatch(/^[0-9a-f]{64}$/);
    expect(sizeBelow(join(fleet.state, 'archives'))).toBeLessThan(1_000_000);
    expect(inspect(WEB).State.Status).toBe('running');
    await good('backups', 'verify', first);
  });

  it('costs next to nothing the second time', async () => {
    const before = sizeBelow(world.repository);
    const second = await good('backup', STACK);
    expect(second).not.toBe(first);
    expect((await payloadsOf(second))[0]!.blob).toEqual((await payloadsOf(first))[0]!.blob);
    expect(sizeBelow(world.repository) - before).toBeLessThan(50_000);
  });

  it('is backed up after kill -9 in the middle of a backup, of which nothing is listed', async () => {
    const count = await archives();
    writeFileSync(join(mountpoint(`${STACK}_data`), 'large'), noise(LARGE_BYTES).reverse());
    const locks = join(world.repository, 'locks');
    await fleet.killed(['backup', STACK], () => readdirSync(locks).length > 0);
    expect(await archives()).toBe(count);
    const after = await good('backup', STACK);
    expect(inspect(WEB).State.Status).toBe('running');
    expect(await archives()).toBe(count + 1);
    expect((await payloadsOf(after))[0]!.plainDigest).toBe(digestOf(mountpoint(`${STACK}_data`)));
    await good('backups', 'prune', '--yes');
    // What the killed one left is gone, and what archives name is not.
    expect(snapshots()).toBe(count + 1);
    await good('backups', 'verify', first, after);
  });

  it('is restored as it was: owners, modes, links, attributes and every byte', async () => {
    const answer = await planRestore(bench, { stack: STACK, archive: first, target: COPY }, never);
    if (answer.kind === 'wait') throw new Error(answer.why);
    await restore(bench, answer.plan, {
      signal: never,
      backup: () => Promise.reject(new Error('nothing lives there')),
      id: 'copy',
    });
    const path = mountpoint(`${COPY}_data_g1`);
    expect(digestOf(path)).toBe((await payloadsOf(first))[0]!.plainDigest);
    const { uid, gid, mode } = statSync(path);
    expect([uid, gid, mode & 0o7777]).toEqual([26, 26, 0o700]);
    expect(statSync(join(path, 'run')).ino).toBe(statSync(join(path, 'run-too')).ino);
    expect(statSync(join(path, 'run')).mode & 0o7777).toBe(0o6755);
  });

  it('is left alone by a restic that is too old: nothing stops, and nothing is listed', async () => {
    const [count, started] = [await archives(), inspect(WEB).State.StartedAt];
    const bin = join(world.dir, 'bin');
    mkdirSync(bin);
    const fake = fakeRestic(
      bin,
      `echo "$@" >> ${world.dir}/asked; echo "restic 0.14.0 compiled with go1.19.8 on linux/amd64"`,
    );
    execFileSync('mv', [fake, join(bin, 'restic')]);
    const path = process.env['PATH'];
    process.env['PATH'] = `${bin}:${path}`;
    try {
      const { code, err } = await fleet.windlass('backup', STACK);
      expect([code, err]).toEqual([
        1,
        expect.stringMatching(/RESTIC_UNFIT.*restic 0\.14 is too old[\s\S]*help +install restic 0\.18/),
      ]);
    } finally {
      process.env['PATH'] = path;
    }
    expect(readFileSync(join(world.dir, 'asked'), 'utf8')).toBe('version\n');
    expect(await archives()).toBe(count);
    expect(inspect(WEB).State.StartedAt).toBe(started);
  });

  it('is not restored from a damaged pack: it is said before anything is touched', async () => {
    const volumes = docker('volume', 'ls', '-q', '--filter', `name=${STACK}`);
    const packs = filesBelow(join(world.repository, 'data'));
    for (const pack of packs) {
      const bytes = readFileSync(pack);
      bytes[bytes.length >> 1]! ^= 1;
      chmodSync(pack, 0o600);
      writeFileSync(pack, bytes);
    }
    const refused = await planRestore(bench, { stack: STACK, archive: first }, never).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(Fault);
    expect((refused as Fault).code).toBe('ARCHIVE_DAMAGED');
    expect(docker('volume', 'ls', '-q', '--filter', `name=${STACK}`)).toBe(volumes);
    expect(inspect(WEB).State.Status).toBe('running');
    const { code, out, err } = await fleet.windlass('backups', 'verify', first);
    expect([code, out + err]).toEqual([1, expect.stringMatching(/damaged/)]);
  });

  it('says what is missing when windlass.yaml names no repository', async () => {
    const without = await openHouse({
      stateDir: join(fleet.dir, 'state'),
      source: { name: 'main', url: fleet.bare, ref: 'main' },
    });
    try {
      const work = backup(new Workbench(without), STACK, { signal: never, within: true });
      await expect(work).rejects.toMatchObject({ code: 'REPOSITORY_REFUSED' });
    } finally {
      await without.close();
    }
  });
});
