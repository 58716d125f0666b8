// Payloads on the real engine: every way there and back, with the owners, modes, links and attributes that real volumes hold.
import { execFile, execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  createReadStream,
  createWriteStream,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { zstdDecompressSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { openPayloads, type PayloadsOptions } from '../../src/adapters/payload/payloads.ts';
import { run, spawnStream } from '../../src/adapters/process/run.ts';
import { type TarEntry, TarListing } from '../../src/core/archive/tar-listing.ts';
import { Fault } from '../../src/core/fault.ts';
import type { PayloadFacts, PayloadReading, Payloads, PayloadTarget } from '../../src/ports/payloads.ts';
import { file, folder, type MadeEntry, tarOf } from '../adapters/payload/made-tar.ts';
import { docker, sleep, until } from './fleet.ts';

const P = 'wlt-payload';
const IMAGE = `${P}-tar:1`;
const HELPERS = 'label=dev.windlass.helper=payload';
const never = new AbortController().signal;
const long = Array.from({ length: 6 }, (_, index) => `${index}${'long'.repeat(12)}`).join('/');

/** A POSIX ACL as the kernel keeps it: the owner rwx, user 999 r, group r, mask r, others nothing. */
function acl(): Buffer {
  const entries: readonly (readonly [number, number, number])[] = [
    [1, 7, 0xffffffff],
    [2, 4, 999],
    [4, 4, 0xffffffff],
    [16, 4, 0xffffffff],
    [32, 0, 0xffffffff],
  ];
  const bytes = Buffer.alloc(4 + 8 * entries.length);
  bytes.writeUInt32LE(2);
  for (const [index, [tag, permissions, id]] of entries.entries()) {
    bytes.writeUInt16LE(tag, 4 + index * 8);
    bytes.writeUInt16LE(permissions, 6 + index * 8);
    bytes.writeUInt32LE(id, 8 + index * 8);
  }
  return bytes;
}

const TREE: readonly MadeEntry[] = [
  folder('./', { mode: 0o700, uid: 26, gid: 26 }),
  file('./-dash', 'd', { uid: 999, gid: 999, mode: 0o600 }),
  folder('./empty/', { mode: 0o1777, uid: 65534, gid: 65534 }),
  folder('./group/', { mode: 0o2750, uid: 999, gid: 26 }),
  file('./group/listed', 'acl', {
    uid: 999,
    gid: 26,
    mode: 0o740,
    pax: [['SCHILY.xattr.system.posix_acl_access', acl()]],
  }),
  file('./new\nline', 'n', { uid: 999 }),
  file('./run', '#!/bin/sh\n', { mode: 0o6755, uid: 0, gid: 26 }),
  { path: './run-too', type: '1', link: './run', mode: 0o6755, gid: 26 },
  { path: './soft', type: '2', link: '/var/lib/elsewhere', mode: 0o777, uid: 999 },
  { path: './fifo', type: '6', mode: 0o600, uid: 999 },
  file('./tagged', 'x', {
    pax: [
      ['SCHILY.xattr.user.origin', 'here'],
      ['SCHILY.xattr.user.binary', Buffer.from([0, 1, 255])],
      ['SCHILY.xattr.security.capability', Buffer.from('0100000200200000000000000000000000000000', 'hex')],
      ['mtime', '1650000000.123456789'],
    ],
  }),
  file('./zero'),
  file('./ünï 日本', 'u', { uid: 65534, gid: 65534 }),
  { path: Buffer.from([0x2e, 0x2f, 0x6c, 0xe4, 0x74]), content: 'latin' },
  file(`./${long}`, 'deep', { uid: 26 }),
];

const mountpoint = (volume: string): string => docker('volume', 'inspect', '--format', '{{.Mountpoint}}', volume);
const volumes = (): string[] => docker('volume', 'ls', '--quiet', '--filter', `name=${P}-`).split('\n').filter(Boolean);
const helpers = (): string => docker('ps', '--all', '--quiet', '--filter', HELPERS);

/** GNU tar of this machine in an image of its own. */
function buildImage(): void {
  const root = mkdtempSync(join(tmpdir(), `${P}-`));
  const tar = execFileSync('sh', ['-c', 'command -v tar'], { encoding: 'utf8' }).trim();
  const needed = execFileSync('ldd', [tar], { encoding: 'utf8' }).match(/\/\S+/g) ?? [];
  for (const path of [tar, ...needed]) {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    copyFileSync(path, join(root, path));
  }
  mkdirSync(join(root, 'bin'), { recursive: true });
  if (!existsSync(join(root, 'bin/tar'))) copyFileSync(tar, join(root, 'bin/tar'));
  const image = execFileSync('tar', ['-C', root, '-c', '.'], { maxBuffer: 64 * 1024 * 1024 });
  execFileSync('docker', ['import', '-', IMAGE], { input: image, stdio: ['pipe', 'ignore', 'pipe'] });
  rmSync(root, { recursive: true });
}

function filled(name: string, tree: readonly MadeEntry[] = TREE): string {
  docker('volume', 'create', name);
  const path = mountpoint(name);
  const xattrs = ['--xattrs', '--xattrs-include=*', '--numeric-owner', '-p'];
  execFileSync('tar', ['-x', '-C', path, ...xattrs], { input: tarOf(tree) });
  return path;
}

const opened: Payloads[] = [];
function payloads(way?: NonNullable<PayloadsOptions['ways']>[number], more: Partial<PayloadsOptions> = {}): Payloads {
  const made = openPayloads({
    programs: { run, spawnStream },
    helperImage: IMAGE,
    ...(way === undefined ? {} : { ways: [way] }),
    ...more,
  });
  opened.push(made);
  return made;
}

async function taken(reading: PayloadReading): Promise<{ blob: Buffer; facts: PayloadFacts }> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of reading.stream) chunks.push(chunk);
  return { blob: Buffer.concat(chunks), facts: await reading.done };
}
const read = (from: Payloads, name: string, exclude: readonly string[] = []) =>
  taken(from.read({ kind: 'volume', name }, { signal: never, exclude }));
const write = (to: Payloads, blob: Buffer, expected: PayloadFacts, target: PayloadTarget, signal = never) =>
  to.write(
    async function* () {
      yield blob;
    },
    target,
    { signal, expected },
  );
async function faultOf(work: Promise<unknown>): Promise<Fault> {
  try {
    await work;
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
  throw new Error('it was no mistake');
}

function entriesOf(blob: Buffer): Map<string, TarEntry> {
  const entries = new Map<string, TarEntry>();
  new TarListing({ onEntry: (entry) => void entries.set(entry.path, entry) }).write(zstdDecompressSync(blob));
  return entries;
}

describe('payloads on the real engine', () => {
  beforeAll(buildImage);
  afterEach(() => {
    for (const one of opened.splice(0)) one.close();
    const left = volumes();
    if (left.length > 0) docker('volume', 'rm', '--force', ...left);
  });
  afterAll(() => void docker('image', 'rm', '--force', IMAGE));

  it('brings back owners, modes, setuid, links, attributes, ACLs, capabilities, odd names and holes by the host path', async () => {
    const path = filled(`${P}-a`);
    truncateSync(join(path, 'zero'), 5_000_000);
    const { blob, facts } = await read(payloads('host-path'), `${P}-a`);
    expect(facts).toMatchObject({ root: { uid: 26, gid: 26, mode: '0700' }, way: 'host-path', notCaptured: [] });
    const entries = entriesOf(blob);
    expect(entries.get('./run')).toMatchObject({ mode: 0o6755, uid: 0, gid: 26, type: 'file' });
    expect(entries.get('./run-too')).toMatchObject({ type: 'hardlink', linkTarget: './run' });
    expect(entries.get('./zero')).toMatchObject({ size: 5_000_000 });
    const attributes = entries.get('./tagged')?.attributes.map(([name]) => name);
    expect(attributes).toEqual(['xattr.security.capability', 'xattr.user.binary', 'xattr.user.origin']);
    expect(entries.get('./group/listed')?.attributes.map(([name]) => name)).toContain('acl.access');
    expect(entries.has(`./${long}`)).toBe(true);

    const target = { kind: 'volume', name: `${P}-b`, labels: { 'dev.example': 'kept' } } as const;
    const written = await write(payloads('host-path'), blob, facts, target);
    expect(written).toEqual({ way: 'host-path', verifiedBy: 'bytes', notRestored: [] });
    const copy = mountpoint(`${P}-b`);
    const seen = (at: string, name: string) => {
      const { uid, gid, mode, size } = lstatSync(join(at, name));
      return { uid, gid, mode: mode & 0o7777, size };
    };
    expect(seen(copy, '.')).toMatchObject({ uid: 26, gid: 26, mode: 0o700 });
    expect(seen(copy, 'run')).toEqual({ uid: 0, gid: 26, mode: 0o6755, size: 10 });
    expect(seen(copy, 'empty')).toMatchObject({ uid: 65534, gid: 65534, mode: 0o1777 });
    expect(seen(copy, 'group')).toMatchObject({ uid: 999, gid: 26, mode: 0o2750 });
    expect(readdirSync(copy).sort()).toEqual(readdirSync(path).sort());
    const labels = docker('volume', 'inspect', '--format', '{{index .Labels "dev.example"}}', `${P}-b`);
    expect(labels).toBe('kept');
  });

  it('reads the same bytes by the host path and through a helper container, and the helper brings them back', async () => {
    const path = filled(`${P}-a`);
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(path, 'socket'), resolve));
    const host = await read(payloads('host-path'), `${P}-a`);
    const again = await read(payloads(), `${P}-a`);
    const helper = await read(payloads('helper-container'), `${P}-a`);
    server.close();
    expect(again).toEqual(host);
    expect(helper.facts).toEqual({ ...host.facts, way: 'helper-container' });
    expect(helper.blob.equals(host.blob)).toBe(true);
    expect(helper.facts.notCaptured).toEqual(['socket socket']);
    const written = await write(payloads('helper-container'), helper.blob, helper.facts, {
      kind: 'volume',
      name: `${P}-b`,
    });
    expect(written).toEqual({ way: 'helper-container', verifiedBy: 'bytes', notRestored: [] });
    expect((await read(payloads('host-path'), `${P}-b`)).facts.plainDigest).toBe(host.facts.plainDigest);
    expect(helpers()).toBe('');
  });

  it('says what the archive API of the engine does not see', async () => {
    filled(`${P}-a`);
    const { blob, facts } = await read(payloads('engine-api'), `${P}-a`);
    expect(facts.way).toBe('engine-api');
    expect(facts.root).toEqual({ uid: 26, gid: 26, mode: '0700' });
    expect(facts.notCaptured).toEqual([
      'extended attributes other than file capabilities',
      'access control lists',
      'parts of seconds of modification times',
      'sockets, and whatever the engine could not read: it does not say',
    ]);
    expect(entriesOf(blob).get('./group/listed')?.attributes).toEqual([]);
    const written = await write(payloads('engine-api'), blob, facts, { kind: 'volume', name: `${P}-b` });
    expect(written).toMatchObject({
      way: 'engine-api',
      notRestored: ['setuid and setgid bits of files', expect.anything()],
    });
    expect(helpers()).toBe('');
  });

  it('writes through the engine what was read by the host path, says what that loses, and gives the root its owner', async () => {
    const path = filled(`${P}-a`);
    truncateSync(join(path, 'zero'), 5_000_000);
    const { blob, facts } = await read(payloads('host-path'), `${P}-a`);
    const written = await write(payloads('engine-api'), blob, facts, { kind: 'volume', name: `${P}-b` });
    expect(written).toEqual({
      way: 'engine-api',
      verifiedBy: 'content',
      notRestored: [
        'setuid and setgid bits of files',
        'extended attributes and access control lists, which cannot be verified',
      ],
    });
    const root = lstatSync(mountpoint(`${P}-b`));
    expect([root.uid, root.gid, root.mode & 0o7777]).toEqual([26, 26, 0o700]);
  });

  it('reads a volume that the engine mounts only for containers through a helper', async () => {
    const device = mkdtempSync(join(tmpdir(), `${P}-`));
    writeFileSync(join(device, 'f'), 'x');
    const opts = { type: 'none', o: 'bind', device };
    docker(
      'volume',
      'create',
      ...Object.entries(opts).flatMap(([key, value]) => ['--opt', `${key}=${value}`]),
      `${P}-a`,
    );
    const { blob, facts } = await read(payloads(), `${P}-a`);
    expect(facts).toMatchObject({ way: 'helper-container', entries: { count: 2 } });
    const target = { kind: 'volume', name: `${P}-b`, driverOpts: opts } as const;
    expect((await faultOf(write(payloads(), blob, facts, target))).code).toBe('PAYLOAD_EXISTS');
    expect(readdirSync(device)).toEqual(['f']);
    rmSync(join(device, 'f'));
    docker('volume', 'rm', `${P}-b`);
    expect(await write(payloads(), blob, facts, target)).toMatchObject({ way: 'helper-container' });
    expect(readdirSync(device)).toEqual(['f']);
    rmSync(device, { recursive: true });
  });

  it('reads and writes a bind mount through a helper', async () => {
    const within = mkdtempSync(join(tmpdir(), `${P}-`));
    const path = join(within, 'with, comma "and quote');
    mkdirSync(path);
    writeFileSync(join(path, 'f'), 'x');
    const { blob, facts } = await taken(
      payloads('helper-container').read({ kind: 'folder', path, within }, { signal: never }),
    );
    const target: PayloadTarget = { kind: 'folder', path: join(within, 'copy'), within };
    expect(await write(payloads('helper-container'), blob, facts, target)).toMatchObject({ verifiedBy: 'bytes' });
    expect(readdirSync(join(within, 'copy'))).toEqual(['f']);
    rmSync(within, { recursive: true });
  });

  it('leaves out what is excluded in a helper as on the host, and goes by no way that cannot', async () => {
    filled(`${P}-a`);
    const host = await read(payloads('host-path'), `${P}-a`, ['group', '*line']);
    const helper = await read(payloads('helper-container'), `${P}-a`, ['group', '*line']);
    expect(helper.blob.equals(host.blob)).toBe(true);
    expect([...entriesOf(host.blob).keys()].filter((name) => /group|line/.test(name))).toEqual([]);
    expect((await faultOf(read(payloads('engine-api'), `${P}-a`, ['group']))).code).toBe('PAYLOAD_NO_WAY');
  });

  it('says that the place is full, by every way, and leaves nothing', async () => {
    const { blob, facts } = await (async () => {
      noise(join(filled(`${P}-a`, []), 'noise'), 2);
      return read(payloads('host-path'), `${P}-a`);
    })();
    const driverOpts = { type: 'tmpfs', device: 'tmpfs', o: 'size=256k' };
    for (const way of ['helper-container', 'engine-api'] as const) {
      const target: PayloadTarget = { kind: 'volume', name: `${P}-b`, driverOpts };
      const fault = await faultOf(write(payloads(way), blob, facts, target));
      expect([fault.code, fault.message], way).toEqual(['PAYLOAD_NO_SPACE', expect.stringContaining(`/${P}-b/`)]);
    }
    const within = mkdtempSync(join(tmpdir(), `${P}-`));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', within]);
    try {
      const target: PayloadTarget = { kind: 'folder', path: join(within, 'copy'), within };
      const fault = await faultOf(write(payloads('host-path'), blob, facts, target));
      expect([fault.code, fault.message]).toEqual([
        'PAYLOAD_NO_SPACE',
        expect.stringContaining(`${within}/copy: tar: `),
      ]);
      expect(readdirSync(within)).toEqual([]);
    } finally {
      execFileSync('umount', [within]);
      rmSync(within, { recursive: true });
    }
    expect([volumes(), helpers()]).toEqual([[`${P}-a`], '']);
  });

  it('captures no device node, since no restore takes one', async () => {
    const path = filled(`${P}-a`);
    execFileSync('mknod', [join(path, 'null'), 'c', '1', '3']);
    const fault = await faultOf(read(payloads(), `${P}-a`));
    expect(fault.code).toBe('PAYLOAD_FAILED');
    expect(fault.message).toContain('./null');
    expect((await read(payloads(), `${P}-a`, ['null'])).facts.notCaptured).toEqual([]);
  });

  it('says of an image without GNU tar, and of one that is not there, that no way goes through them', async () => {
    filled(`${P}-a`);
    const without = payloads('helper-container', { helperImage: 'windlass-test/busybox:1' });
    expect((await faultOf(read(without, `${P}-a`))).message).toContain('has no GNU tar');
    const absent = payloads('helper-container', { helperImage: `${P}-none:1` });
    expect((await faultOf(read(absent, `${P}-a`))).message).toContain('is not on the engine');
  });

  it('fails for a missing volume by every way and does not make one', async () => {
    for (const way of ['host-path', 'helper-container', 'engine-api'] as const) {
      expect((await faultOf(read(payloads(way), `${P}-none`))).code).toBe('PAYLOAD_MISSING');
    }
    expect(volumes()).toEqual([]);
  });

  it('fails when the helper is killed in the middle, and when it is called off, and leaves no helper', async () => {
    const path = filled(`${P}-a`);
    noise(join(path, 'noise'), 64);
    const half = async (signal: AbortSignal, act: () => unknown) => {
      const reading = payloads('helper-container').read({ kind: 'volume', name: `${P}-a` }, { signal });
      let acted = false;
      for await (const _ of reading.stream) {
        if (!acted) act();
        acted = true;
        await sleep(5);
      }
    };
    // Not waited for: the engine ends a container only when somebody reads what it has still to say.
    const killed = await faultOf(half(never, () => void execFile('docker', ['kill', helpers()])));
    expect(['PAYLOAD_FAILED', 'PAYLOAD_CORRUPT']).toContain(killed.code);
    expect(helpers()).toBe('');
    const abort = new AbortController();
    expect((await faultOf(half(abort.signal, () => abort.abort()))).code).toBe('CANCELLED');
    expect(helpers()).toBe('');
  });

  it.each(['host-path', 'helper-container', 'engine-api'] as const)(
    'leaves no volume, helper or process when a write by %s is called off',
    async (way) => {
      const path = filled(`${P}-a`);
      noise(join(path, 'noise'), 32);
      const { blob, facts } = await read(payloads('host-path'), `${P}-a`);
      const abort = new AbortController();
      let passes = 0;
      const work = payloads(way).write(
        async function* () {
          passes += 1;
          for (let at = 0; at < blob.length; at += 1_000_000) {
            if (passes === 2 && at > 8_000_000) abort.abort();
            yield blob.subarray(at, at + 1_000_000);
          }
        },
        { kind: 'volume', name: `${P}-b` },
        { signal: abort.signal, expected: facts },
      );
      expect((await faultOf(work)).code).toBe('CANCELLED');
      expect(volumes()).toEqual([`${P}-a`]);
      expect(helpers()).toBe('');
    },
  );

  it('writes into no volume that is there', async () => {
    filled(`${P}-a`);
    const { blob, facts } = await read(payloads(), `${P}-a`);
    docker('volume', 'create', `${P}-b`);
    const fault = await faultOf(write(payloads(), blob, facts, { kind: 'volume', name: `${P}-b` }));
    expect(fault.code).toBe('PAYLOAD_EXISTS');
    expect(readdirSync(mountpoint(`${P}-b`))).toEqual([]);
  });

  it('keeps its memory flat over 256 MiB there and back', async () => {
    docker('volume', 'create', `${P}-a`);
    noise(join(mountpoint(`${P}-a`), 'noise'), 256);
    const dir = mkdtempSync(join(tmpdir(), `${P}-`));
    const blob = join(dir, 'blob');
    const one = payloads('host-path');
    // What is loaded and warmed up once is none of the growth.
    filled(`${P}-c`);
    await read(one, `${P}-c`);
    const before = process.memoryUsage().rss;
    let most = before;
    const timer = setInterval(() => {
      most = Math.max(most, process.memoryUsage().rss);
    }, 10);
    const reading = one.read({ kind: 'volume', name: `${P}-a` }, { signal: never });
    await pipeline(reading.stream, createWriteStream(blob));
    const facts = await reading.done;
    expect(facts.plainBytes).toBeGreaterThan(256 * 1024 * 1024);
    const target = { kind: 'volume', name: `${P}-b` } as const;
    await one.write(() => createReadStream(blob), target, { signal: never, expected: facts });
    clearInterval(timer);
    rmSync(dir, { recursive: true });
    expect((most - before) / 1024 / 1024).toBeLessThan(150);
  });

  it('estimates the size of a volume', async () => {
    const path = filled(`${P}-a`);
    noise(join(path, 'noise'), 2);
    const size = await until(
      () => payloads().volumeSizeBytes(`${P}-a`, never),
      (bytes) => bytes !== null,
    );
    expect(size).toBeGreaterThan(2 * 1024 * 1024);
    expect(await payloads().volumeSizeBytes(`${P}-none`, never)).toBeNull();
  });
});

/** Bytes that do not compress. */
function noise(path: string, mebibytes: number): void {
  const handle = openSync(path, 'w');
  const seed = randomBytes(1024 * 1024);
  for (let at = 0; at < mebibytes; at += 1) {
    const key = createHash('sha256').update(String(at)).digest();
    for (let index = 0; index < seed.length; index += 32) seed[index] = (seed[index]! + key[(index >> 5) % 32]!) & 255;
    writeSync(handle, at % 8 === 0 ? randomBytes(1024 * 1024) : seed);
  }
  closeSync(handle);
}
