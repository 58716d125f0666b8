import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { ProjectFolders } from '../../../src/adapters/files/project-folder.ts';
import { Fault } from '../../../src/core/fault.ts';
import type { FileToWrite, Written } from '../../../src/ports/files.ts';

const root = mkdtempSync(join(tmpdir(), 'windlass-files-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let directory = '';
let state = '';
let count = 0;
let files: ProjectFolders;
beforeEach(() => {
  count += 1;
  state = join(root, `state-${count}`);
  directory = join(state, 'stacks', 'shop', 'tree');
  mkdirSync(dirname(directory), { recursive: true });
  files = new ProjectFolders(state);
});

const objects = new Map<string, Buffer>();
function blob(text: string | Buffer): string {
  const bytes = Buffer.from(text);
  const oid = createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
  objects.set(oid, bytes);
  return oid;
}

type Mode = FileToWrite['mode'];
type How = Pick<FileToWrite, 'inPlace' | 'keepsEdits'>;
/** Path → content, or [content, mode], or [content, mode, in place or how]. */
type Wanted = Readonly<Record<string, string | readonly [string, Mode] | readonly [string, Mode, boolean | How]>>;

function filesOf(wanted: Wanted): FileToWrite[] {
  return Object.entries(wanted).map(([path, entry]) => {
    const [text, mode, inPlace] = typeof entry === 'string' ? [entry, '100644' as const] : entry;
    const how = typeof inPlace === 'boolean' ? { inPlace } : inPlace;
    return { path, mode, oid: blob(text), ...how };
  });
}

function write(wanted: Wanted, before: Written = {}): Promise<Written> {
  return files.materialize({
    directory,
    files: filesOf(wanted),
    before,
    read: async (oid) => objects.get(oid)!,
    isKnown: async (oid) => objects.has(oid),
  });
}

async function faultOf(work: Promise<unknown>): Promise<Fault> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(Fault);
  return error as Fault;
}

const at = (path: string): string => join(directory, path);
const textOf = (path: string): string => readFileSync(at(path), 'utf8');
const inodeOf = (path: string): number => lstatSync(at(path)).ino;

function everything(): readonly string[] {
  return (readdirSync(directory, { recursive: true }) as string[]).sort();
}

describe('the folder holds what git holds', () => {
  test('files, executables and links, with folders on the way', async () => {
    const written = await write({
      'compose.yaml': 'a',
      'bin/run': ['b', '100755'],
      'etc/link': ['../compose.yaml', '120000'],
    });
    expect(everything()).toEqual(['bin', 'bin/run', 'compose.yaml', 'etc', 'etc/link']);
    expect([textOf('compose.yaml'), textOf('bin/run'), readlinkSync(at('etc/link'))]).toEqual([
      'a',
      'b',
      '../compose.yaml',
    ]);
    expect([statSync(at('compose.yaml')).mode & 0o777, statSync(at('bin/run')).mode & 0o777]).toEqual([0o644, 0o755]);
    expect(Object.keys(written).sort()).toEqual(['bin/run', 'compose.yaml', 'etc/link']);
    expect(written['bin/run']).toMatch(new RegExp(`^100755 ${blob('b')} `));
  });

  test('names with spaces, letters of other scripts and line breaks', async () => {
    const wanted = { 'a b/c d': '1', 'käse/日本': '2', 'new\nline': '3', '-rf': '4', '$(x)': '5', '...': '6' };
    await write(wanted);
    for (const [path, text] of Object.entries(wanted)) expect(textOf(path)).toBe(text);
  });

  test('many files of one folder, some of them left by a crash as copies', async () => {
    for (let round = 0; round < 5; round += 1) {
      for (let left = 0; left < 20; left += 1) writeIn(`.wl-new-${left.toString(16).padStart(24, '0')}`, 'half');
      const wanted = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`f${at}`, `${round} ${at}`]));
      expect(Object.keys(await write(wanted))).toHaveLength(40);
      expect(everything()).toHaveLength(40);
    }
  });

  test('a tight umask does not keep the users of containers out', async () => {
    const before = process.umask(0o077);
    try {
      await write({ 'conf/app.ini': 'a' });
    } finally {
      process.umask(before);
    }
    const modes = ['', 'conf', 'conf/app.ini'].map((path) => statSync(at(path)).mode & 0o777);
    expect(modes).toEqual([0o755, 0o755, 0o644]);
  });

  test('an unchanged file keeps its inode and is not read again', async () => {
    const before = await write({ a: '1', b: '1' });
    const inodes = [inodeOf('a'), inodeOf('b')];
    let reads = 0;
    const after = await files.materialize({
      directory,
      files: filesOf({ a: '1', b: '2' }),
      before,
      read: async (oid) => {
        reads += 1;
        return objects.get(oid)!;
      },
    });
    expect(reads).toBe(1);
    expect(inodeOf('a')).toBe(inodes[0]);
    expect(inodeOf('b')).not.toBe(inodes[1]);
    expect(after['a']).toBe(before['a']);
    expect(textOf('b')).toBe('2');
  });

  test('a file that is right already keeps its inode, also when nothing is remembered of it', async () => {
    const before = await write({ a: '1' });
    const inode = inodeOf('a');
    expect(await write({ a: '1' }, {})).toEqual(before);
    expect(await write({ a: '1' }, { a: `100644 ${blob('1')} ?` })).toEqual(before);
    expect(inodeOf('a')).toBe(inode);
  });

  test('a file that somebody edited is written again, also with its old size and date', async () => {
    const before = await write({ a: 'good' });
    const { atime, mtime } = statSync(at('a'));
    writeFileSync(at('a'), 'evil');
    utimesSync(at('a'), atime, mtime);
    await write({ a: 'good' }, before);
    expect(textOf('a')).toBe('good');
  });

  test('a file of endless size in place of ours is not read', async () => {
    const before = await write({ a: 'good', b: 'good' });
    for (const path of ['a', 'b']) truncateSync(at(path), 2 ** 40);
    const startedAt = performance.now();
    expect(await files.edited({ directory, written: before, mounted: [at('a')] })).toEqual([at('a')]);
    expect((await faultOf(write({ a: 'good' }, { b: before['b']! }))).message).toContain('was not written by Windlass');
    await write({ a: 'good' }, before);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    expect(textOf('a')).toBe('good');
    rmSync(at('b'));
  });

  test('a change of the executable bit alone keeps the inode', async () => {
    const before = await write({ a: '1' });
    const inode = inodeOf('a');
    const after = await write({ a: ['1', '100755'] }, before);
    expect([inodeOf('a'), statSync(at('a')).mode & 0o777]).toEqual([inode, 0o755]);
    expect(after['a']).toMatch(/^100755 /);
  });

  test('other permissions that a container gave to a file are left', async () => {
    const before = await write({ a: '1' });
    chmodSync(at('a'), 0o600);
    await write({ a: '1' }, before);
    expect(statSync(at('a')).mode & 0o777).toBe(0o600);
  });

  test('a file may become a link, a folder or an executable, and back', async () => {
    const stages: Wanted[] = [
      { x: 'file' },
      { x: ['y', '120000'], y: 'y' },
      { 'x/inner': 'file' },
      { 'x/inner/deep': 'file' },
      { x: ['run', '100755'] },
      { 'x/inner': ['../y', '120000'], y: 'y' },
      { x: 'file' },
    ];
    let before: Written = {};
    for (const stage of stages) {
      before = await write(stage, before);
      expect(Object.keys(before).sort()).toEqual(Object.keys(stage).sort());
    }
    expect(everything()).toEqual(['x']);
    expect(textOf('x')).toBe('file');
  });

  test('an empty folder that the engine made for a missing mount gives way', async () => {
    mkdirSync(at('nginx.conf'), { recursive: true });
    await write({ 'nginx.conf': 'a' });
    expect(textOf('nginx.conf')).toBe('a');
  });
});

describe('a file that is written in place', () => {
  test('keeps its inode, growing and shrinking', async () => {
    let before = await write({ conf: ['one', '100644', true] });
    const inode = inodeOf('conf');
    for (const text of ['a longer text', 'x', '']) {
      before = await write({ conf: [text, '100644', true] }, before);
      expect([textOf('conf'), inodeOf('conf')]).toEqual([text, inode]);
    }
    await write({ conf: ['run', '100755', true] }, before);
    expect([inodeOf('conf'), statSync(at('conf')).mode & 0o777]).toEqual([inode, 0o755]);
    expect(everything()).toEqual(['conf']);
  });

  test('is replaced when its inode has another name too, which must not change with it', async () => {
    const before = await write({ conf: ['one', '100644', true] });
    linkSync(at('conf'), join(root, `other-${count}`));
    await write({ conf: ['two', '100644', true] }, before);
    expect([textOf('conf'), readFileSync(join(root, `other-${count}`), 'utf8')]).toEqual(['two', 'one']);
  });
});

describe('only what Windlass wrote is removed', () => {
  test('a file that left the revision goes, with the folders that became empty', async () => {
    const before = await write({ 'a/b/c': '1', 'a/d': '2', e: '3' });
    expect(Object.keys(await write({ e: '3' }, before))).toEqual(['e']);
    expect(everything()).toEqual(['e']);
  });

  test('files of others stay, and so do their folders', async () => {
    const before = await write({ 'data/.keep': '' });
    writeFileSync(at('data/base.db'), 'rows');
    mkdirSync(at('data/empty'));
    await write({}, before);
    expect(everything()).toEqual(['data', 'data/base.db', 'data/empty']);
  });

  test('a file that a container changed meanwhile stays, without an error', async () => {
    const before = await write({ a: '1', b: '2', c: '3', d: ['a', '120000'] });
    writeFileSync(at('a'), 'mine now');
    rmSync(at('b'));
    mkdirSync(at('b'));
    rmSync(at('c'));
    rmSync(at('d'));
    symlinkSync('c', at('d'));
    expect(await write({}, before)).toEqual({});
    expect(everything()).toEqual(['a', 'b', 'd']);
    expect(textOf('a')).toBe('mine now');
  });

  test('a file that was only touched is still ours', async () => {
    const before = await write({ a: '1' });
    utimesSync(at('a'), 1, 1);
    await write({}, before);
    expect(everything()).toEqual([]);
  });

  test('a file that was meant to be written stays: a container may have made the very same', async () => {
    writeIn('a', 'intended');
    writeIn('b', 'of a container');
    writeIn('c', 'intended');
    const line = (facts: string): string => `100644 ${blob('intended')} ${facts}`;
    await write({}, { a: line('?'), b: line('?'), c: line('-') });
    expect(everything()).toEqual(['a', 'b', 'c']);
  });

  test('a file that a crash left before it was on record goes once it was found there and then left the revision', async () => {
    writeIn('a', 'intended');
    await write({}, await write({ a: 'intended' }, { a: `100644 ${blob('intended')} ?` }));
    expect(everything()).toEqual([]);
  });

  test('what was never there is no error', async () => {
    expect(await write({}, { 'gone/deep/a': `100644 ${blob('1')} x`, b: `100644 ${blob('1')} x` })).toEqual({});
  });
});

function writeIn(path: string, text: string): void {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), text);
}

describe('what an app wrote is data', () => {
  test('and stays when git comes with a file of its name; nothing else is written then', async () => {
    const before = await write({ 'data/seed': '1' });
    writeFileSync(at('data/db'), 'precious');
    const wanted = { 'data/seed': '2', 'data/db': 'seed', other: '1' };
    // Also when a crash left the intention to write it.
    for (const line of [undefined, `100644 ${blob('seed')} ?`]) {
      const fault = await faultOf(write(wanted, line === undefined ? before : { ...before, 'data/db': line }));
      expect([fault.code, fault.message]).toEqual(['FILE_IN_THE_WAY', expect.stringMatching(/data\/db .*not in git/)]);
      expect(['data/seed', 'data/db'].map(textOf)).toEqual(['1', 'precious']);
      expect(existsSync(at('other'))).toBe(false);
    }
    renameSync(at('data/db'), at('data/db.mine'));
    await write(wanted, before);
    expect(['data/seed', 'data/db', 'data/db.mine'].map(textOf)).toEqual(['2', 'seed', 'precious']);
  });

  test('but for what git knows: it was ours, and the record of it was lost', async () => {
    await write({ a: '1' });
    await write({ a: '2' });
    expect(textOf('a')).toBe('2');
  });

  test('of a file that ignores changes too, until git has another one: then neither takes the place of the other', async () => {
    const seed = ['seed', '100644', { keepsEdits: true }] as const;
    const first = await write({ 'data/db': seed, conf: '1' });
    writeFileSync(at('data/db'), 'seed and rows');
    const second = await write({ 'data/db': seed, conf: '2' }, first);
    expect(['data/db', 'conf'].map(textOf)).toEqual(['seed and rows', '2']);
    const next = { 'data/db': ['other seed', '100644', { keepsEdits: true }] as const, conf: '3' };
    expect((await faultOf(write(next, second))).message).toMatch(/data\/db was changed here and in git/);
    expect(['data/db', 'conf'].map(textOf)).toEqual(['seed and rows', '2']);
    await write({}, second);
    expect(everything()).toEqual(['data', 'data/db']);
  });

  test('and so is a link, a pipe or a socket: git does not take its place', async () => {
    const before = await write({ 'conf/own.db': '1' });
    // Git holds the words of the target too, which makes the link none of its own.
    blob('own.db');
    const makers = [
      () => symlinkSync('own.db', at('conf/current')),
      () => symlinkSync('nowhere', at('conf/current')),
      () => execFileSync('mkfifo', [at('conf/current')]),
    ];
    for (const make of makers) {
      make();
      const was = inodeOf('conf/current');
      for (const how of [{}, { inPlace: true }])
        for (const entry of [['fromgit', '100644', how] as const, ['elsewhere', '120000', how] as const]) {
          const fault = await faultOf(write({ 'conf/own.db': '2', 'conf/current': entry }, before));
          expect([fault.code, fault.message]).toEqual([
            'FILE_IN_THE_WAY',
            expect.stringContaining('conf/current was not'),
          ]);
          expect([inodeOf('conf/current'), textOf('conf/own.db')]).toEqual([was, '1']);
        }
      rmSync(at('conf/current'));
    }
    symlinkSync('own.db', at('conf/current'));
    const inode = inodeOf('conf/current');
    await write({ 'conf/own.db': '2', 'conf/current': ['own.db', '120000'] }, before);
    expect([inodeOf('conf/current'), textOf('conf/own.db')]).toEqual([inode, '2']);
  });

  test('of a file that ignores changes also when it made a link or a pipe of it, until git has another one', async () => {
    const keeps = (text: string) => [text, '100644', { keepsEdits: true }] as const;
    for (const make of [() => symlinkSync('mine', at('a')), () => execFileSync('mkfifo', [at('a')])]) {
      const first = await write({ a: keeps('1'), b: '1' });
      rmSync(at('a'));
      make();
      const was = inodeOf('a');
      const second = await write({ a: keeps('1'), b: '2' }, first);
      expect([inodeOf('a'), textOf('b')]).toEqual([was, '2']);
      const fault = await faultOf(write({ a: keeps('2'), b: '3' }, second));
      expect([fault.code, fault.message]).toEqual(['FILE_IN_THE_WAY', expect.stringMatching(/a was changed here and/)]);
      await write({ b: '2' }, second);
      expect(inodeOf('a')).toBe(was);
      rmSync(at('a'));
    }
  });

  test('but a link that git had is followed while nobody changed it, also where changes are ignored', async () => {
    let before: Written = {};
    for (const how of [{}, { keepsEdits: true }])
      for (const target of ['x', 'y']) {
        before = await write({ a: [target, '120000', how], x: '1', y: '1' }, before);
        expect(readlinkSync(at('a'))).toBe(target);
      }
  });

  test('of a file that ignores changes is followed by git while nobody wrote it', async () => {
    const first = await write({ a: ['1', '100644', { keepsEdits: true }] });
    await write({ a: ['2', '100644', { keepsEdits: true }] }, first);
    expect(textOf('a')).toBe('2');
  });

  test('of a file that ignores changes stays also where it was before git had it', async () => {
    mkdirSync(directory, { recursive: true });
    writeFileSync(at('a'), 'restored');
    const seed = { a: ['seed', '100644', { keepsEdits: true }] as const };
    const first = await write(seed);
    writeFileSync(at('a'), 'restored, and more');
    const second = await write(seed, first);
    expect((await faultOf(write({ a: ['2', '100644', { keepsEdits: true }] }, second))).message).toContain('a was ');
    await write({}, second);
    expect(textOf('a')).toBe('restored, and more');
  });
});

describe('what an app writes while its folder is written', () => {
  /** `meanwhile` happens once all is judged and the last copy is being made; what is told of a cut is in `cut`. */
  async function writeWhile(wanted: Wanted, before: Written, meanwhile: () => void, at = Object.keys(wanted).length) {
    let reads = 0;
    let cut: Written | null = null;
    const fault = await faultOf(
      files.materialize({
        directory,
        files: filesOf(wanted),
        before,
        read: async (oid) => {
          reads += 1;
          if (reads === at) await new Promise((resolve) => setTimeout(resolve, 20)).then(meanwhile);
          return objects.get(oid)!;
        },
        isKnown: async (oid) => objects.has(oid),
        cut: (written) => {
          cut = written;
        },
      }),
    );
    return { fault, cut: cut as Written | null };
  }

  test('is not replaced where nothing was before', async () => {
    const before = await write({ a: '1' });
    const wanted = { a: '2', 'data/db': 'seed', z: '1' };
    const { fault, cut } = await writeWhile(wanted, before, () => writeIn('data/db', 'precious'));
    expect([fault.code, fault.message]).toEqual(['FILE_IN_THE_WAY', expect.stringMatching(/data\/db .*meanwhile/)]);
    expect(textOf('data/db')).toBe('precious');
    expect(everything().filter((path) => path.includes('.wl-'))).toEqual([]);
    // What was put in place before is known as ours: the next write keeps it, the one of before takes it back.
    expect(parts(cut, 'a')).toBe(`100644 ${blob('2')}`);
    renameSync(at('data/db'), at('data/mine'));
    const inode = inodeOf('a');
    const done = await write(wanted, cut!);
    expect([inodeOf('a'), done['a']]).toEqual([inode, cut!['a']]);
  });

  test('is not replaced by a link either', async () => {
    const wanted = { a: ['b', '120000'], b: '1' } as const;
    const { fault } = await writeWhile(wanted, {}, () => writeIn('a', 'precious'));
    expect([fault.code, textOf('a')]).toEqual(['FILE_IN_THE_WAY', 'precious']);
  });

  test('is not replaced when it is a link', async () => {
    const { fault } = await writeWhile({ a: '1', z: '1' }, {}, () => symlinkSync('mine', at('a')));
    expect([fault.code, readlinkSync(at('a'))]).toEqual(['FILE_IN_THE_WAY', 'mine']);
  });

  test('is not replaced where a file that git knows was before', async () => {
    writeIn('a', '1');
    blob('1');
    const { fault, cut } = await writeWhile({ a: '2' }, {}, () => writeFileSync(at('a'), '7'));
    expect([fault.code, textOf('a'), cut]).toEqual(['FILE_IN_THE_WAY', '7', null]);
  });

  test.each([[false], [true]])('is not replaced where its mount keeps edits (in place: %s)', async (inPlace) => {
    const how = { keepsEdits: true, inPlace };
    const before = await write({ a: ['1', '100644', how] });
    const edit = () => writeFileSync(at('a'), 'rows');
    // In place there is a second reading, right before the file is written.
    for (const reading of inPlace ? [1, 2] : [1]) {
      const { fault } = await writeWhile({ a: ['2', '100644', how] }, before, edit, reading);
      expect([fault.code, textOf('a')]).toEqual(['FILE_IN_THE_WAY', 'rows']);
      writeFileSync(at('a'), '1');
    }
  });

  test('is replaced in a file that follows git, as any edit of it', async () => {
    const before = await write({ a: '1' });
    let isEdited = false;
    await files.materialize({
      directory,
      files: filesOf({ a: '2' }),
      before,
      read: async (oid) => {
        writeFileSync(at('a'), 'edit');
        isEdited = true;
        return objects.get(oid)!;
      },
    });
    expect([isEdited, textOf('a')]).toEqual([true, '2']);
  });

  test('is not read without end to be kept while it is written over', async () => {
    const before = await write({ a: ['1', '100644', true] });
    truncateSync(at('a'), 65 * 1024 * 1024);
    const fault = await faultOf(write({ a: ['2', '100644', true] }, before));
    expect([fault.code, fault.message]).toEqual(['FILE_IN_THE_WAY', expect.stringMatching(/a has grown to 65 MiB/)]);
    expect([statSync(at('a')).size, everything()]).toEqual([65 * 1024 * 1024, ['a']]);
  });

  test('keeps none of the others when what is in the way may be left', async () => {
    const keeps = (text: string) => [text, '100644', { keepsEdits: true }] as const;
    const before = await write({ a: '2', kept: keeps('2'), new: '1', 'sub/z': '2' });
    writeFileSync(at('kept'), 'rows');
    rmSync(at('sub'), { recursive: true });
    symlinkSync('elsewhere', at('sub'));
    const left: string[] = [];
    const wanted = { a: '1', kept: keeps('1'), 'late/db': 'seed', 'late/other': '1', 'sub/y': '1', 'sub/z': '1' };
    const done = await files.materialize({
      directory,
      files: filesOf(wanted),
      before,
      // The last one, when it was already looked whether it is there.
      read: async (oid) => {
        if (oid === blob('seed')) writeIn('late/db', 'precious');
        return objects.get(oid)!;
      },
      isKnown: async (oid) => objects.has(oid),
      left: (path, why) => left.push(`${path}: ${why}`),
    });
    expect(left.sort()).toEqual([
      expect.stringMatching(/^kept: .* kept was changed here and in git/),
      expect.stringMatching(/^late.db: .* late.db was made or changed by somebody else meanwhile/),
      expect.stringMatching(/^sub.y: .* sub is a link/),
      expect.stringMatching(/^sub.z: .* sub is a link/),
    ]);
    expect(['a', 'kept', 'late/db', 'late/other'].map(textOf)).toEqual(['1', 'rows', 'precious', '1']);
    expect(everything()).toEqual(['a', 'kept', 'late', 'late/db', 'late/other', 'sub']);
    // What is left is on record as it was, and what never was ours is not.
    expect(Object.keys(done).sort()).toEqual(['a', 'kept', 'late/other', 'sub/z']);
    expect([done['kept'], done['sub/z']]).toEqual([before['kept'], before['sub/z']]);
  });

  test('is told with what had to make room by then', async () => {
    const before = await write({ x: '1', a: '1' });
    writeIn('data/db', 'precious');
    const { fault, cut } = await writeWhile({ 'x/inner': '1', a: '1', 'data/db': 'seed' }, before, () => {});
    expect([fault.code, Object.keys(cut!), existsSync(at('x'))]).toEqual(['FILE_IN_THE_WAY', ['a'], true]);
    await write({ x: '1', a: '1' }, cut!);
    expect(['a', 'x'].map(textOf)).toEqual(['1', '1']);
  });

  test('leaves what was put in place before it to be taken back', async () => {
    const keeps = (text: string) => [text, '100644', { keepsEdits: true }] as const;
    const old = { a: '1', kept: keeps('1') };
    const before = await write(old);
    writeIn('same', 'of both');
    const wanted = { a: '2', kept: keeps('2'), new: '1', same: 'of both', 'sub/z': 'seed' };
    const { fault, cut } = await writeWhile(wanted, before, () => writeIn('sub/z', 'precious'), 4);
    expect([fault.code, ...['a', 'kept', 'new'].map(textOf)]).toEqual(['FILE_IN_THE_WAY', '2', '2', '1']);
    expect(Object.keys(cut!).sort()).toEqual(['a', 'kept', 'new']);
    expect(await write(old, cut!)).toMatchObject({ a: expect.any(String), kept: expect.any(String) });
    expect(everything()).toEqual(['a', 'kept', 'same', 'sub', 'sub/z']);
    expect(['a', 'kept', 'same', 'sub/z'].map(textOf)).toEqual(['1', '1', 'of both', 'precious']);
  });

  const parts = (written: Written | null, path: string) => written?.[path]?.split(' ').slice(0, 2).join(' ');
});

describe('a container cannot lead us out of the folder', () => {
  const outside = join(root, 'outside');
  beforeEach(() => {
    rmSync(outside, { recursive: true, force: true });
    mkdirSync(outside);
    writeFileSync(join(outside, 'precious'), 'keep');
  });

  test('a link in place of a folder is refused by name', async () => {
    mkdirSync(directory, { recursive: true });
    symlinkSync(outside, at('conf'));
    const fault = await faultOf(write({ 'conf/precious': 'overwritten' }));
    expect([fault.code, fault.message]).toEqual(['FILE_IN_THE_WAY', expect.stringContaining('conf is a link')]);
    expect(fault.help).toContain('move what the message names away');
    expect(readFileSync(join(outside, 'precious'), 'utf8')).toBe('keep');
  });

  test('a file in place of a folder is refused by name', async () => {
    writeIn('yy', 'theirs');
    const fault = await faultOf(write({ 'yy/inner': 'x' }));
    expect([fault.code, fault.message]).toEqual(['FILE_IN_THE_WAY', expect.stringContaining('yy is not a folder')]);
    expect(textOf('yy')).toBe('theirs');
  });

  test('a link in place of a file of ours is replaced, not followed', async () => {
    for (const inPlace of [false, true]) {
      const before = await write({ a: ['old', '100644', inPlace] });
      rmSync(at('a'));
      symlinkSync(join(outside, 'precious'), at('a'));
      await write({ a: ['new', '100644', inPlace] }, before);
      expect([textOf('a'), lstatSync(at('a')).isFile()]).toEqual(['new', true]);
    }
    expect(readFileSync(join(outside, 'precious'), 'utf8')).toBe('keep');
  });

  test('nothing is removed through a link', async () => {
    const before = await write({ 'conf/precious': 'keep' });
    renameSync(at('conf'), at('moved'));
    symlinkSync(outside, at('conf'));
    await write({}, before);
    expect(existsSync(join(outside, 'precious'))).toBe(true);
  });

  test('a pipe or socket in place of a file does not make us wait', async () => {
    mkdirSync(directory, { recursive: true });
    execFileSync('mkfifo', [at('a'), at('b')]);
    const before = { a: `100644 ${blob('1')} x`, b: `100644 ${blob('1')} x` };
    await write({ a: 'new' }, before);
    expect(textOf('a')).toBe('new');
    expect(existsSync(at('b'))).toBe(true);
    expect(await files.edited({ directory, written: before, mounted: [at('b')] })).toEqual([at('b')]);
  });

  test.each([['/etc/passwd'], ['../../x'], ['sub/../../../x'], ['sub/../x'], ['..\0'], ['']])(
    'a link to %j is not made',
    async (target) => {
      const fault = await faultOf(write({ 'a/link': [target, '120000'] }));
      expect(fault.code).toBe('FILES_FAILED');
      expect(fault.message).toContain('a/link');
    },
  );

  test.each(['../x', '/x', 'a/../x', 'a//x', './x', '.git/config', 'a/.GIT/x', 'x\0', '', 'odd\udcff'])(
    'the path %j is not written',
    async (path) => {
      expect((await faultOf(write({ [path]: 'x' }))).code).toBe('FILES_FAILED');
      expect(existsSync(directory)).toBe(false);
    },
  );
});

describe('a failure leaves the folder as it was', () => {
  test('a missing object', async () => {
    const before = await write({ a: '1', b: '1', c: '1' });
    const wanted = filesOf({ a: '2', b: '2', 'new/d': '2' });
    const fault = await faultOf(
      files.materialize({
        directory,
        files: wanted,
        before,
        read: async (oid) => {
          if (oid === wanted[2]!.oid && wanted[2]!.path === 'new/d') throw new Fault('GIT_OBJECT_MISSING', 'gone');
          return objects.get(oid)!;
        },
      }),
    );
    expect(fault.code).toBe('GIT_OBJECT_MISSING');
    expect(['a', 'b', 'c'].map(textOf)).toEqual(['1', '1', '1']);
    expect(everything().filter((path) => path.includes('.wl-'))).toEqual([]);
  });

  test('being called off', async () => {
    const controller = new AbortController();
    const wanted = filesOf({ a: '1', b: '2' });
    const fault = await faultOf(
      files.materialize({
        directory,
        files: wanted,
        before: {},
        signal: controller.signal,
        read: async (oid) => {
          controller.abort(new Error('newer commit'));
          controller.signal.throwIfAborted();
          return objects.get(oid)!;
        },
      }),
    );
    expect(fault.code).toBe('CANCELLED');
    expect(everything()).toEqual([]);
  });

  test('a folder with files where a file should be', async () => {
    const before = await write({ a: '1' });
    writeIn('b/theirs', 'x');
    const fault = await faultOf(write({ a: '1', b: '2' }, before));
    expect([fault.code, fault.message]).toEqual([
      'FILE_IN_THE_WAY',
      expect.stringContaining('b is a folder that holds'),
    ]);
    expect(everything()).toEqual(['a', 'b', 'b/theirs']);
  });

  test('a full disk', async () => {
    const small = join(root, `small-${count}`);
    mkdirSync(small);
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', small]);
    if (mounted.status !== 0) {
      console.log('a full disk: not tried, this user may not mount a tmpfs');
      return;
    }
    try {
      directory = join(small, 'tree');
      const before = await write({ a: 'old', conf: ['old', '100644', true] });
      const big = 'x'.repeat(200_000);
      const fault = await faultOf(write({ a: 'new', conf: [big, '100644', true], z: big }, before));
      expect(fault.code).toBe('FILES_FAILED');
      expect(fault.message).toContain('the disk is full');
      expect([textOf('a'), textOf('conf'), everything()]).toEqual(['old', 'old', ['a', 'conf']]);
      // There is room for the copy, but not for the growth of the file beside it.
      const second = await faultOf(write({ a: 'old', conf: ['y'.repeat(150_000), '100644', true] }, before));
      expect(second.message).toContain('the disk is full');
      expect([textOf('conf'), everything()]).toEqual(['old', ['a', 'conf']]);
    } finally {
      spawnSync('umount', [small]);
    }
  });

  test('copies that a crash left are taken away by the next write', async () => {
    const before = await write({ 'sub/a': '1' });
    writeIn('sub/.wl-new-0123456789abcdef01234567', 'half');
    writeIn('sub/.wl-new-of-a-container', 'theirs');
    await write({ 'sub/a': '2' }, before);
    expect(everything()).toEqual(['sub', 'sub/.wl-new-of-a-container', 'sub/a']);
  });
});

test.runIf(process.getuid?.() === 0)(
  'L15: as an ordinary user, files of root in the folder are no obstacle',
  async () => {
    const script = `
    import { ProjectFolders } from ${JSON.stringify(join(import.meta.dirname, '../../../src/adapters/files/project-folder.ts'))};
    const [state, directory, before, files, contents] = JSON.parse(process.argv[1]);
    process.setgid(65_534);
    process.setuid(65_534);
    const written = await new ProjectFolders(state).materialize({ directory, files, before, read: async (oid) => Buffer.from(contents[oid]) });
    process.stdout.write(JSON.stringify(written));
  `;
    const asNobody = (wanted: Wanted, before: Written): Written => {
      const contents = Object.fromEntries(filesOf(wanted).map(({ oid }) => [oid, objects.get(oid)!.toString()]));
      const argument = JSON.stringify([state, directory, before, filesOf(wanted), contents]);
      const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script, argument], {
        uid: 65_534,
        gid: 65_534,
        encoding: 'utf8',
      });
      expect(stderr.replaceAll(/.*Warning.*\n/g, '')).toBe('');
      expect(status).toBe(0);
      return JSON.parse(stdout) as Written;
    };
    chmodSync(root, 0o755);
    for (const folder of [state, join(state, 'stacks'), dirname(directory), join(state, 'scratch')]) {
      mkdirSync(folder, { recursive: true });
      execFileSync('chown', ['65534:65534', folder]);
    }
    blob('1');
    blob('2');
    const before = asNobody({ a: '1', b: '1', mounted: '1' }, {});
    const inode = inodeOf('mounted');
    // A container, running as root, made its own files and took over two of ours.
    writeIn('secret.key', 'root only');
    chmodSync(at('secret.key'), 0o600);
    execFileSync('chown', ['0:0', at('a'), at('b')]);
    chmodSync(at('a'), 0o600);
    const after = asNobody({ a: '2', mounted: '1' }, before);
    expect([textOf('a'), textOf('secret.key'), inodeOf('mounted')]).toEqual(['2', 'root only', inode]);
    expect(everything()).toEqual(['a', 'mounted', 'secret.key']);
    expect(Object.keys(after).sort()).toEqual(['a', 'mounted']);
  },
);

test('killed at any file, the next write makes the folder what it should be', async () => {
  const script = `
    import { ProjectFolders } from ${JSON.stringify(join(import.meta.dirname, '../../../src/adapters/files/project-folder.ts'))};
    const [state, directory, before, files, contents, killAt] = JSON.parse(process.argv[1]);
    let reads = 0;
    const read = async (oid) => {
      reads += 1;
      if (reads === killAt) process.kill(process.pid, 'SIGKILL');
      return Buffer.from(contents[oid]);
    };
    await new ProjectFolders(state).materialize({ directory, files, before, read });
  `;
  const old: Wanted = { a: '1', 'sub/b': ['1', '100644', true], 'sub/c': '1', 'gone/d': '1' };
  const wanted: Wanted = { a: '2', 'sub/b': ['2', '100644', true], 'sub/c': ['../a', '120000'], 'new/e': '2' };
  const contents = Object.fromEntries(filesOf(wanted).map(({ oid }) => [oid, objects.get(oid)!.toString()]));
  // Four are staged; the fifth reading is that of the file that is written in place, after others were put there.
  for (let killAt = 1; killAt <= 5; killAt += 1) {
    rmSync(directory, { recursive: true, force: true });
    const before = await write(old);
    const argument = JSON.stringify([state, directory, before, filesOf(wanted), contents, killAt]);
    const { signal } = spawnSync(process.execPath, ['--input-type=module', '-e', script, argument]);
    expect(signal).toBe('SIGKILL');
    const written = await write(wanted, before);
    expect(Object.keys(written).sort()).toEqual(Object.keys(wanted).sort());
    expect(everything()).toEqual(['a', 'new', 'new/e', 'sub', 'sub/b', 'sub/c']);
    expect(['a', 'sub/b', 'sub/c', 'new/e'].map(textOf)).toEqual(['2', '2', '2', '2']);
  }
});

describe('a mounted file is edited', () => {
  test('when its content, its kind or its executable bit changed, or it is gone', async () => {
    const written = await write({ a: '1', b: '1', c: '1', d: '1', 'sub/e': '1', 'sub/f': '1', g: '1' });
    const mounted = ['a', 'b', 'c', 'd', 'sub', 'g'].map(at);
    expect(await files.edited({ directory, written, mounted })).toEqual([]);
    writeFileSync(at('a'), '2');
    chmodSync(at('b'), 0o755);
    rmSync(at('c'));
    rmSync(at('d'));
    symlinkSync('a', at('d'));
    writeFileSync(at('sub/f'), '2');
    expect(await files.edited({ directory, written, mounted })).toEqual(['a', 'b', 'c', 'd', 'sub'].map(at));
    expect(await files.edited({ directory, written, mounted: [directory] })).toEqual([directory]);
  });

  test('not when it was touched, nor when others added files, nor when it was never written', async () => {
    const written = { ...(await write({ 'sub/a': '1' })), z: `100644 ${blob('1')} ?` };
    utimesSync(at('sub/a'), 1, 1);
    writeIn('sub/theirs', 'x');
    for (let look = 0; look < 2; look += 1) {
      expect(await files.edited({ directory, written, mounted: [at('sub'), at('z'), '/etc/hosts'] })).toEqual([]);
    }
    writeFileSync(at('sub/a'), '2');
    expect(await files.edited({ directory, written, mounted: [at('sub')] })).toEqual([at('sub')]);
  });
});

describe('a scratch folder', () => {
  test('is empty, only ours, with a name nobody guesses, and goes when it is disposed of', async () => {
    const scratch = await files.scratch();
    expect(scratch.directory).toMatch(/\/wl-scratch-[0-9a-f]{32}$/);
    expect([readdirSync(scratch.directory), statSync(scratch.directory).mode & 0o777]).toEqual([[], 0o700]);
    expect(statSync(dirname(scratch.directory)).mode & 0o077).toBe(0);
    await files.materialize({
      directory: scratch.directory,
      files: filesOf({ 'a/b': '1' }),
      before: {},
      read: async (oid) => objects.get(oid)!,
    });
    expect(readFileSync(join(scratch.directory, 'a/b'), 'utf8')).toBe('1');
    await scratch.dispose();
    await scratch.dispose();
    expect(readdirSync(join(state, 'scratch'))).toEqual([]);
  });

  test('of a crashed run is taken away by the next one, of a living one it is not', async () => {
    const script = `
      import { ProjectFolders } from ${JSON.stringify(join(import.meta.dirname, '../../../src/adapters/files/project-folder.ts'))};
      const { directory } = await new ProjectFolders(process.argv[1]).scratch();
      process.stdout.write(directory);
      process.kill(process.pid, 'SIGKILL');
    `;
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script, state], { encoding: 'utf8' });
    expect(existsSync(stdout)).toBe(true);
    const living = await files.scratch();
    await new ProjectFolders(state).scratch();
    expect([existsSync(stdout), existsSync(living.directory)]).toEqual([false, true]);
  });
});

test('what cannot be looked at is not taken for missing', async () => {
  expect(await files.exists(root)).toBe(true);
  expect(await files.exists(join(root, 'nothing'))).toBe(false);
  expect((await faultOf(files.exists(join(root, 'x'.repeat(300))))).code).toBe('FILES_FAILED');
});

test('the cost of a thousand files is printed', async () => {
  const wanted = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`d${at % 50}/f${at}`, `text ${at}`]));
  const took = async (name: string, work: () => Promise<unknown>): Promise<void> => {
    const startedAt = performance.now();
    await work();
    console.log(`${name}: ${(performance.now() - startedAt).toFixed(1)} ms`);
  };
  let written: Written = {};
  await took('write 1,000 files', async () => {
    written = await write(wanted);
  });
  await took('write them again', () => write(wanted, written));
  await took('look for edits', () => files.edited({ directory, written, mounted: [directory] }));
});
