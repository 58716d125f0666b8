// The restic repository on a real restic, and on scripts that lie in its place.
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type ProgramInput, type Programs, run, spawnStream } from '../../../src/adapters/process/run.ts';
import { ResticRepository, type ResticRepositoryOptions } from '../../../src/adapters/restic/repository.ts';
import type { InRepository } from '../../../src/core/archive/payload.ts';
import { Fault } from '../../../src/core/fault.ts';
import type { PutBlob } from '../../../src/ports/blob-repository.ts';
import { readAll, saidOf } from '../archive/store-fixture.ts';
import { ensureRestic, fakeRestic, makeWorld, PASSWORD, type ResticWorld } from './real-restic.ts';

const TIMEOUT_MS = 90_000;
const signal = new AbortController().signal;
const none = async (): Promise<ReadonlySet<string>> => new Set();

let world: ResticWorld;
beforeAll(ensureRestic, TIMEOUT_MS);
afterEach(() => world.dispose());

const begin = (how: 'made' | 'empty' = 'made'): ResticWorld => {
  world = makeWorld(how);
  return world;
};

const open = (more: Partial<ResticRepositoryOptions> = {}): ResticRepository =>
  new ResticRepository({
    programs: { run, spawnStream },
    redactor: { add() {} },
    repository: world.repository,
    passwordFile: world.passwordFile,
    cacheDirectory: join(world.dir, 'cache'),
    directory: join(world.dir, 'traces'),
    ...more,
  });

async function* chunksOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 300_000) yield bytes.subarray(at, at + 300_000);
}

async function put(repository: ResticRepository, bytes: Uint8Array): Promise<PutBlob> {
  const writer = await repository.open(signal);
  try {
    return await writer.put(chunksOf(bytes), { stack: 'shop', signal });
  } finally {
    writer.close();
  }
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const idsOf = (): string[] => (JSON.parse(world.restic('snapshots', '--json')) as { id: string }[]).map(({ id }) => id);
const tracesOf = (): string[] =>
  readdirSync(join(world.dir, 'traces')).filter((name) => /^(begun|unneeded)-/.test(name));

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

const sizeBelow = (folder: string): number => filesBelow(folder).reduce((sum, file) => sum + statSync(file).size, 0);

/** Changes one byte in the middle of the largest pack. */
function flipByte(): void {
  const packs = filesBelow(join(world.repository, 'data')).sort((a, b) => statSync(b).size - statSync(a).size);
  const path = packs[0]!;
  const bytes = readFileSync(path);
  bytes[bytes.length >> 1]! ^= 1;
  chmodSync(path, 0o600);
  writeFileSync(path, bytes);
}

/** A person's restic that waits for its input, and holds its lock until `end` kills it. */
async function somebodyAtWork() {
  const child = spawn('restic', ['backup', '--stdin', '--stdin-filename', 'hand', '-q'], {
    stdio: ['pipe', 'ignore', 'inherit'],
    env: {
      ...process.env,
      RESTIC_REPOSITORY: world.repository,
      RESTIC_PASSWORD_FILE: world.passwordFile,
      RESTIC_CACHE_DIR: join(world.dir, 'cache'),
    },
  });
  while (readdirSync(join(world.repository, 'locks')).length === 0) await sleep(50);
  const end = async (): Promise<void> => {
    child.kill('SIGKILL');
    await new Promise((done) => child.once('exit', done));
  };
  return { pid: child.pid, end };
}

describe('a restic repository', { timeout: TIMEOUT_MS }, () => {
  it('is made at its first use, and gives back what was put, under full ids', async () => {
    begin('empty');
    const bytes = randomBytes(5_000_000);
    const { blob, restic } = await put(open(), bytes);
    expect(blob).toEqual({ digest: sha256(bytes), sizeBytes: bytes.length });
    expect(Object.values(restic).every((id) => /^[0-9a-f]{64}$/.test(id))).toBe(true);
    expect((await readAll(open().read(restic, blob))).equals(bytes)).toBe(true);
    expect(await open().holds(restic)).toBe(true);
    expect(idsOf()).toEqual([restic.snapshot]);
    expect(world.restic('list', 'locks').trim()).toBe('');
  });

  it('stores equal data once, and of changed data what changed', async () => {
    begin();
    const bytes = randomBytes(12_000_000);
    const first = await put(open(), bytes);
    const before = sizeBelow(world.repository);
    const second = await put(open(), bytes);
    expect(sizeBelow(world.repository) - before).toBeLessThan(20_000);
    expect(second.blob).toEqual(first.blob);
    expect(second.restic.snapshot).not.toBe(first.restic.snapshot);
    bytes[6_000_000]! ^= 1;
    const third = await put(open(), bytes);
    expect(third.blob.digest).not.toBe(first.blob.digest);
    expect(sizeBelow(world.repository) - before).toBeLessThan(9_000_000);
  });

  it('never shows the password: not in arguments, nor in the environment; and hands on nothing of ours', async () => {
    begin();
    const seen: ProgramInput[] = [];
    const programs: Programs = {
      run: ((input: Parameters<typeof run>[0]) => {
        seen.push(input);
        return run(input);
      }) as typeof run,
      spawnStream: (input) => {
        seen.push(input);
        return spawnStream(input);
      },
    };
    process.env['WLT_SECRET_OF_OURS'] = 'ours';
    const { restic, blob } = await put(open({ programs }), Buffer.from('x'));
    await readAll(open({ programs }).read(restic, blob));
    delete process.env['WLT_SECRET_OF_OURS'];
    expect(seen.length).toBeGreaterThan(5);
    expect(JSON.stringify(seen.map(({ args, env }) => [args, env]))).not.toContain(PASSWORD);
    for (const { args, env } of seen) {
      expect(
        Object.keys(env).filter((name) => !/^(PATH|HOME|LANG|RESTIC_(REPOSITORY|PASSWORD_FILE|CACHE_DIR))$/.test(name)),
      ).toEqual([]);
      expect(args.join(' ')).not.toContain(world.repository);
    }
  });

  it('gives a backend what its file says, hides it everywhere, and takes nothing from there that steers restic', async () => {
    begin();
    const environmentFile = join(world.dir, 'environment');
    const hidden: string[] = [];
    const redactor = { add: (value: string) => void hidden.push(value) };
    writeFileSync(environmentFile, 'AWS_SECRET_ACCESS_KEY=much-secret\n', { mode: 0o600 });
    const program = fakeRestic(world.dir, `echo "$AWS_SECRET_ACCESS_KEY" > ${world.dir}/seen; exec restic "$@"`);
    await put(open({ environmentFile, redactor, program }), Buffer.from('x'));
    expect(readFileSync(join(world.dir, 'seen'), 'utf8')).toBe('much-secret\n');
    expect(hidden).toContain('much-secret');
    writeFileSync(environmentFile, 'RESTIC_PASSWORD_COMMAND=/bin/evil\n');
    expect(await saidOf(put(open({ environmentFile, redactor }), Buffer.from('x')))).toMatch(
      /^REPOSITORY_REFUSED .*RESTIC_PASSWORD_COMMAND/,
    );
  });

  it('lets one write at a time', async () => {
    begin();
    const first = await open().open(signal);
    expect(await saidOf(open({ turnMs: 50 }).open(signal))).toMatch(/^LOCK_HELD/);
    const waiting = new AbortController();
    const second = open().open(waiting.signal);
    await sleep(1_500);
    waiting.abort();
    expect(await saidOf(second)).toMatch(/^CANCELLED/);
    first.close();
    (await open().open(signal)).close();
  });
});

describe('what is not right', { timeout: TIMEOUT_MS }, () => {
  it.each([
    ['is not there', null, /^RESTIC_UNFIT .*no such program/],
    ['is 0.14', 'echo "restic 0.14.0 compiled with go1.19.8 on linux/amd64"', /^RESTIC_UNFIT restic 0\.14 is too old/],
    ['is 0.9', 'echo "restic 0.9.6 compiled"', /^RESTIC_UNFIT restic 0\.9 is too old/],
    ['says no version', 'echo hello', /^RESTIC_UNFIT/],
    ['fails', 'echo "restic 0.18.0 compiled"; exit 1', /^RESTIC_UNFIT/],
  ])('a restic that %s is refused before anything is touched', async (_, script, said) => {
    begin('empty');
    const program =
      script === null ? join(world.dir, 'absent') : fakeRestic(world.dir, `echo "$1" >> ${world.dir}/calls; ${script}`);
    expect(await saidOf(open({ program }).open(signal))).toMatch(said);
    const place: InRepository = { repository: 'a'.repeat(64), snapshot: 'b'.repeat(64), tree: 'c'.repeat(64) };
    expect(await saidOf(readAll(open({ program }).read(place, { digest: 'd'.repeat(64), sizeBytes: 1 })))).toMatch(
      said,
    );
    expect(existsSync(world.repository)).toBe(false);
    if (script !== null) expect(readFileSync(join(world.dir, 'calls'), 'utf8')).toBe('version\nversion\n');
  });

  it('1.0 and 0.19 are new enough', async () => {
    begin();
    for (const version of ['1.0.0', '0.19.0-dev'])
      (
        await open({
          program: fakeRestic(
            world.dir,
            `[ "$1" != version ] || exec echo "restic ${version} compiled"; exec restic "$@"`,
          ),
        }).open(signal)
      ).close();
  });

  it('a flipped byte in a pack is found while it is read', async () => {
    begin();
    const { blob, restic } = await put(open(), randomBytes(3_000_000));
    flipByte();
    expect(await saidOf(readAll(open().read(restic, blob)))).toMatch(/^ARCHIVE_DAMAGED/);
  });

  it('a pack that is gone is damage, and a snapshot that is gone is missing', async () => {
    begin();
    const { blob, restic } = await put(open(), randomBytes(3_000_000));
    for (const file of filesBelow(join(world.repository, 'data'))) if (statSync(file).size > 500_000) rmSync(file);
    expect(await saidOf(readAll(open().read(restic, blob)))).toMatch(/^ARCHIVE_DAMAGED/);
    world.restic('forget', restic.snapshot);
    expect(await saidOf(readAll(open().read(restic, blob)))).toMatch(/^ARCHIVE_MISSING .*no longer holds/);
    expect(await open().holds(restic)).toBe(false);
    const elsewhere = { ...restic, repository: 'e'.repeat(64) };
    expect(await saidOf(readAll(open().read(elsewhere, blob)))).toMatch(
      /^ARCHIVE_MISSING .*lies in the restic repository eee/,
    );
  });

  it('another snapshot, tree, digest or size than the archive names is refused', async () => {
    begin();
    const one = await put(open(), Buffer.from('one'));
    const two = await put(open(), Buffer.from('two'));
    const more = await put(open(), Buffer.from('more'));
    const read = (place: InRepository, blob = one.blob) => saidOf(readAll(open().read(place, blob)));
    expect(await read(two.restic)).toMatch(/^ARCHIVE_DAMAGED .*not what its digest says/);
    expect(await read({ ...one.restic, tree: two.restic.tree })).toMatch(/^ARCHIVE_DAMAGED .*another tree/);
    expect(await read(more.restic)).toMatch(/^ARCHIVE_DAMAGED .*more than/);
    expect(await read(one.restic)).toBe('null');
  });

  it('a wrong password, a public one and none are each said', async () => {
    begin();
    writeFileSync(world.passwordFile, 'wrong\n');
    expect(await saidOf(open().open(signal))).toMatch(/^REPOSITORY_REFUSED the password in .* does not open/);
    chmodSync(world.passwordFile, 0o644);
    expect(await saidOf(open().open(signal))).toMatch(/^REPOSITORY_REFUSED .*mode 644.*chmod 600/);
    rmSync(world.passwordFile);
    expect(await saidOf(open().open(signal))).toMatch(/^REPOSITORY_REFUSED .*ENOENT/);
  });

  it('a repository that vanished is never begun anew, and another one in its place is not taken', async () => {
    begin();
    const { restic } = await put(open(), Buffer.from('x'));
    renameSync(world.repository, `${world.repository}-away`);
    mkdirSync(world.repository);
    expect(await saidOf(open().open(signal))).toMatch(/^REPOSITORY_REFUSED .*now there is none: bring it back/);
    expect(readdirSync(world.repository)).toEqual([]);
    world.restic('init');
    expect(await saidOf(open().open(signal))).toMatch(
      new RegExp(`^REPOSITORY_REFUSED .*was the restic repository ${restic.repository}, and now there is [0-9a-f]{64}`),
    );
  });
});

describe('a payload that does not come to its end', { timeout: TIMEOUT_MS }, () => {
  it('leaves no snapshot when its source fails, whose error goes first', async () => {
    begin();
    const wrong = new Fault('PAYLOAD_CHANGED', 'it changed');
    const writer = await open().open(signal);
    async function* half(): AsyncGenerator<Uint8Array> {
      yield randomBytes(2_000_000);
      throw wrong;
    }
    await expect(writer.put(half(), { stack: 'shop', signal })).rejects.toBe(wrong);
    expect(idsOf()).toEqual([]);
    const after = await writer.put(chunksOf(Buffer.from('x')), { stack: 'shop', signal });
    writer.close();
    expect(idsOf()).toEqual([after.restic.snapshot]);
  });

  it('leaves no snapshot and no process when it is called off', async () => {
    begin();
    const controller = new AbortController();
    let pid = 0;
    const programs: Programs = {
      run,
      spawnStream: async (input) => {
        const child = await spawnStream(input);
        pid = child.pid;
        return child;
      },
    };
    const writer = await open({ programs }).open(signal);
    async function* hangs(): AsyncGenerator<Uint8Array> {
      yield randomBytes(2_000_000);
      controller.abort();
      yield randomBytes(2_000_000);
      throw controller.signal.reason;
    }
    expect(await saidOf(writer.put(hangs(), { stack: 'shop', signal: controller.signal }))).not.toBe('null');
    writer.close();
    expect(() => process.kill(-pid, 0)).toThrow(/ESRCH/);
    expect(idsOf()).toEqual([]);
  });

  it('is ended with all that it started when it stands still', async () => {
    begin();
    const pids = join(world.dir, 'pids');
    const program = fakeRestic(
      world.dir,
      `[ "$1" = backup ] || exec restic "$@"; sleep 600 & echo $$ $! > ${pids}; trap '' TERM; wait; sleep 600`,
    );
    const writer = await open({ program, stallMs: 300 }).open(signal);
    expect(await saidOf(writer.put(chunksOf(randomBytes(2_000_000)), { stack: 'shop', signal }))).toMatch(
      /^ARCHIVE_FAILED restic takes no more data for 0.3 s and was ended/,
    );
    writer.close();
    for (const pid of readFileSync(pids, 'utf8').trim().split(' '))
      expect(() => process.kill(Number(pid), 0), pid).toThrow(/ESRCH/);
  });

  it('ends at once when the disk is full, which restic would try again for a quarter of an hour', async () => {
    begin();
    const said = 'Save(<data/dddbb1eca0>) failed: write /repository/data/dd/x: no space left on device';
    const program = fakeRestic(
      world.dir,
      `[ "$1" = backup ] || exec restic "$@"; cat >/dev/null; echo "${said}" >&2; exec sleep 600`,
    );
    const writer = await open({ program }).open(signal);
    const work = writer.put(chunksOf(randomBytes(1_000_000)), { stack: 'shop', signal });
    expect(await saidOf(work)).toBe(`ARCHIVE_NO_SPACE ${said}`);
    writer.close();
  });

  it.each([
    ['ends with 3 although it names a snapshot', 'restic "$@"; exit 3', /^ARCHIVE_FAILED .*exit code 3/],
    [
      'reads only a part and says that all is well',
      'head -c 1000 | restic "$@"',
      /^ARCHIVE_FAILED .*and 1000 are there/,
    ],
    [
      'names a snapshot that is not there',
      `cat >/dev/null; echo '{"message_type":"summary","snapshot_id":"${'ab'.repeat(32)}"}'`,
      /^ARCHIVE_FAILED .*none are there/,
    ],
    [
      'names a short id',
      `cat >/dev/null; echo '{"message_type":"summary","snapshot_id":"abababab"}'`,
      /^ARCHIVE_FAILED .*did not say which/,
    ],
    ['says nothing', 'cat >/dev/null', /^ARCHIVE_FAILED .*did not say which/],
    ['floods', 'cat >/dev/null; yes "{}" | head -c 5000000', /^ARCHIVE_FAILED/],
    [
      'has no room',
      'cat >/dev/null; echo "Fatal: write: no space left on device" >&2; exit 1',
      /^ARCHIVE_NO_SPACE .*no space left/,
    ],
    ['dies at once', 'exit 1', /^ARCHIVE_FAILED/],
  ])('counts for nothing when restic %s', async (_, script, said) => {
    begin();
    const program = fakeRestic(world.dir, `[ "$1" = backup ] || exec restic "$@"; ${script}`);
    const writer = await open({ program }).open(signal);
    expect(await saidOf(writer.put(chunksOf(randomBytes(1_000_000)), { stack: 'shop', signal }))).toMatch(said);
    writer.close();
  });

  it('goes with the next collection when restic stored it nevertheless', async () => {
    begin();
    const program = fakeRestic(world.dir, '[ "$1" = backup ] || exec restic "$@"; restic "$@"; exit 3');
    const writer = await open({ program }).open(signal);
    expect(await saidOf(writer.put(chunksOf(randomBytes(1_000_000)), { stack: 'shop', signal }))).toMatch(/^ARCHIVE_/);
    writer.close();
    expect(idsOf()).toHaveLength(1);
    await open().collect(none);
    expect([idsOf(), tracesOf()]).toEqual([[], []]);
  });

  it('is taken away after kill -9 of its writer, and the next one works', async () => {
    begin();
    const before = await put(open(), Buffer.from('before'));
    const child = spawn(
      process.execPath,
      [
        resolve(import.meta.dirname, 'crashing-writer.ts'),
        join(world.dir, 'traces'),
        world.repository,
        world.passwordFile,
        join(world.dir, 'cache'),
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    await new Promise<void>((done) => child.stdout.once('data', () => done()));
    child.kill('SIGKILL');
    await new Promise((done) => child.once('exit', done));
    const after = await put(open(), Buffer.from('after'));
    // The orphaned restic sees the end of its input and may yet store what it has got: nobody names it.
    for (let tries = 0; world.restic('list', 'locks', '--no-lock').trim() !== '' && tries < 50; tries++)
      await sleep(200);
    expect(tracesOf().length).toBe(3);
    await open().collect(async () => new Set([before.restic.snapshot, after.restic.snapshot]));
    expect(idsOf().sort()).toEqual([before.restic.snapshot, after.restic.snapshot].sort());
    expect(tracesOf()).toEqual([]);
    expect((await readAll(open().read(after.restic, after.blob))).toString()).toBe('after');
  });
});

describe('a look at a restic repository', { timeout: TIMEOUT_MS }, () => {
  it('says whether it can be used, and makes nothing', async () => {
    begin('empty');
    expect(await open().look(signal)).toBeNull();
    expect(existsSync(world.repository)).toBe(false);
    const { restic } = await put(open(), Buffer.from('x'));
    expect(await open().look(signal)).toBe(restic.repository);
    rmSync(world.repository, { recursive: true });
    expect(await saidOf(open().look(signal))).toMatch(/^REPOSITORY_REFUSED .*there is none/);
    chmodSync(world.passwordFile, 0o644);
    expect(await saidOf(open().look(signal))).toMatch(/^REPOSITORY_REFUSED .*chmod 600/);
  });
});

describe('collecting', { timeout: TIMEOUT_MS }, () => {
  it('removes what was said to be unneeded and frees its space, never what a manifest names', async () => {
    begin();
    const repository = open();
    const [gone, named] = [
      await put(repository, randomBytes(4_000_000)),
      await put(repository, randomBytes(1_000_000)),
    ];
    await repository.named([gone.restic, named.restic]);
    expect(tracesOf()).toEqual([]);
    await repository.unneeded([gone.restic, named.restic]);
    const before = sizeBelow(world.repository);
    expect(await repository.collect(async () => new Set([named.restic.snapshot]))).toBe(1);
    expect(idsOf()).toEqual([named.restic.snapshot]);
    expect(before - sizeBelow(world.repository)).toBeGreaterThan(3_000_000);
    expect(tracesOf()).toEqual([]);
    expect(await readAll(repository.read(named.restic, named.blob))).toHaveLength(1_000_000);
  });

  it('removes nothing that has no trace, not even when no manifest can be found', async () => {
    begin();
    const repository = open();
    const { restic } = await put(repository, Buffer.from('named'));
    await repository.named([restic]);
    writeFileSync(join(world.dir, 'by-hand'), 'by hand');
    world.restic('backup', '--tag', 'windlass', '--host', 'windlass', join(world.dir, 'by-hand'));
    const other = open({ directory: join(world.dir, 'traces-of-another') });
    await put(other, Buffer.from('of another controller'));
    await repository.unneeded([{ ...restic, snapshot: 'f'.repeat(64) }]);
    expect(await repository.collect(none)).toBe(0);
    expect(idsOf()).toHaveLength(3);
  });

  it('removes nothing when it is not known what is named', async () => {
    begin();
    const repository = open();
    const { restic } = await put(repository, Buffer.from('x'));
    await repository.unneeded([restic]);
    const said = await saidOf(repository.collect(() => Promise.reject(new Fault('ARCHIVE_DAMAGED', 'unreadable'))));
    expect(said).toMatch(/^ARCHIVE_DAMAGED/);
    expect(idsOf()).toEqual([restic.snapshot]);
    expect(tracesOf()).toHaveLength(2);
  });

  it('clears the lock of a dead process of ours, and respects that of a living one', async () => {
    begin();
    const repository = open();
    const { restic } = await put(repository, Buffer.from('x'));
    await repository.unneeded([restic]);
    const { pid, end } = await somebodyAtWork();
    expect(await saidOf(repository.collect(none))).toMatch(new RegExp(`^REPOSITORY_LOCKED .*process ${pid} on `));
    expect(idsOf()).toEqual([restic.snapshot]);
    // To add something needs no other lock than a shared one.
    await put(repository, Buffer.from('beside'));
    await end();
    expect(readdirSync(join(world.repository, 'locks'))).toHaveLength(1);
    expect(await repository.collect(none)).toBe(2);
    expect(readdirSync(join(world.repository, 'locks'))).toEqual([]);
  });

  it('needs no lock to read, so that none ever blocks a restore', async () => {
    begin();
    const { restic, blob } = await put(open(), Buffer.from('x'));
    const { end } = await somebodyAtWork();
    const writer = await open().open(signal);
    expect((await readAll(open().read(restic, blob))).toString()).toBe('x');
    writer.close();
    await end();
  });
});
