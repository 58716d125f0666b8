import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { exportArchive, type ImportOptions, importArchive } from '../../../src/adapters/archive/bak.ts';
import { DirStore } from '../../../src/adapters/archive/dir-store.ts';
import { checkSignature, openSigningKey } from '../../../src/adapters/archive/signing.ts';
import { type EnvelopeFile, readEnvelope, writeEnvelope } from '../../../src/adapters/archive/tar-envelope.ts';
import { canonicalBytes } from '../../../src/core/archive/canonical.ts';
import { encodeGroup, encodeManifest, type Manifest } from '../../../src/core/archive/manifest.ts';
import { blobOf, payloadOf, SAMPLE_TEXTS, sampleGroup, sampleManifest } from '../../core/archive/sample.ts';
import { chunksOf, readAll, saidOf } from './store-fixture.ts';

let directory = '';
let here: DirStore;
let there: DirStore;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'wl-bak-'));
  here = new DirStore({ directory: join(directory, 'here') });
  there = new DirStore({ directory: join(directory, 'there') });
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

const putSample = async (store: DirStore, change: Partial<Manifest> = {}, signature = 'signed\n'): Promise<string> => {
  const manifest = sampleManifest(change);
  for (const text of SAMPLE_TEXTS) await store.putBlob(chunksOf(text));
  return await store.putManifest(encodeManifest(manifest).bytes, signature);
};
const putGroup = async (store: DirStore) => {
  const extra = 'zstd of the database';
  await store.putBlob(chunksOf(extra));
  const sso = await putSample(store);
  const pg = await putSample(store, { stack: 'pg', project: 'pg', payloads: [payloadOf('data', extra)] });
  const members = [
    { stack: 'pg', archive: pg },
    { stack: 'sso', archive: sso },
  ];
  const edges = [{ consumer: 'sso', plug: 'database', provider: 'pg' }];
  const group = await store.putManifest(encodeGroup(sampleGroup(members, { edges })).bytes, 'signed\n');
  return { group, pg, sso, extra };
};

const filesOf = (names: readonly string[]): readonly string[] => names.filter((name) => /[0-9a-f]{64}$/.test(name));

/** The files with another content at `index`. */
const put = (files: [string, Buffer][], index: number, content: Buffer): [string, Buffer][] =>
  files.map((file, at) => (at === index ? [file[0], content] : file));

/** An export, taken apart, changed and put together again. */
async function forged(bytes: Uint8Array, change: (files: [string, Buffer][]) => [string, Buffer][]): Promise<Buffer> {
  const files: [string, Buffer][] = [];
  for await (const file of readEnvelope(chunksOf(bytes))) files.push([file.name, await readAll(file.content)]);
  const changed = change(files);
  async function* again(): AsyncGenerator<EnvelopeFile> {
    for (const [name, content] of changed) yield { name, sizeBytes: content.length, content: chunksOf(content) };
  }
  return await readAll(writeEnvelope(again()));
}

const importing = (bytes: Uint8Array, options: ImportOptions = {}) => importArchive(there, chunksOf(bytes), options);

describe('a .bak', () => {
  it('carries an archive into another store, under the same id', async () => {
    const id = await putSample(here);
    const imported = await importArchive(there, exportArchive(here, id));
    expect(imported).toEqual({
      kind: 'archive',
      id,
      archives: [id],
      blobs: 4,
      sizeBytes: SAMPLE_TEXTS.join('').length,
    });
    expect(await there.manifest(id)).toEqual(await here.manifest(id));
    expect((await there.verify(id)).wrong).toEqual([]);
    expect(await there.list()).toEqual(await here.list());
  });

  it('can be looked into with tar and sha256sum alone', async () => {
    const id = await putSample(here);
    const file = join(directory, 'sso.bak');
    await writeFile(file, exportArchive(here, id));
    const names = execFileSync('tar', ['-tf', file], { encoding: 'utf8' }).trim().split('\n');
    const digests = SAMPLE_TEXTS.map((text) => blobOf(text).digest).sort();
    expect(names).toEqual(['manifest.json', 'manifest.sig', ...digests.map((digest) => `blobs/${digest}`)]);
    execFileSync('tar', ['-xf', file, '-C', directory]);
    const sums = digests.map((digest) => `${digest}  blobs/${digest}\n`).join('');
    execFileSync('sha256sum', ['-c'], {
      cwd: directory,
      input: `${id}  manifest.json\n${sums}`,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    expect(await readdir(join(directory, 'blobs'))).toHaveLength(4);
  });

  it('is the same file whenever it is made', async () => {
    const id = await putSample(here);
    const first = await readAll(exportArchive(here, id));
    await importing(first);
    expect((await readAll(exportArchive(there, id))).equals(first)).toBe(true);
  });

  it('mends what has been damaged in the store', async () => {
    const id = await putSample(here);
    const bytes = await readAll(exportArchive(here, id));
    await importing(bytes);
    const { digest } = blobOf(SAMPLE_TEXTS[0]);
    const path = join(directory, 'there/blobs/sha256', digest.slice(0, 2), digest);
    await rm(path);
    await writeFile(path, 'x'.repeat(SAMPLE_TEXTS[0].length));
    expect((await there.verify(id)).wrong).toHaveLength(1);
    await importing(bytes);
    expect((await there.verify(id)).wrong).toEqual([]);
  });

  it('of a damaged archive has no end', async () => {
    const id = await putSample(here);
    const { digest } = blobOf(SAMPLE_TEXTS[0]);
    const path = join(directory, 'here/blobs/sha256', digest.slice(0, 2), digest);
    await rm(path);
    await writeFile(path, 'x'.repeat(SAMPLE_TEXTS[0].length));
    const file = join(directory, 'x.bak');
    await expect(writeFile(file, exportArchive(here, id))).rejects.toMatchObject({ code: 'ARCHIVE_DAMAGED' });
    expect(await saidOf(importing(await readFile(file)))).toMatch(/^ARCHIVE_(DAMAGED|INVALID)/);
    expect(await there.list()).toEqual([]);
    expect(await saidOf(readAll(exportArchive(here, 'f'.repeat(64))))).toMatch(/^ARCHIVE_MISSING/);
  });

  it('keeps its signature, which is asked for before any blob is stored', async () => {
    const key = openSigningKey(join(directory, 'ours'));
    const other = openSigningKey(join(directory, 'other'));
    const { bytes } = encodeManifest(sampleManifest());
    const id = await putSample(here, {}, key.sign(bytes));
    const file = await readAll(exportArchive(here, id));
    const trusting = (publicKey: string): ImportOptions => ({
      check: (manifest, signature) => checkSignature(manifest, signature, [publicKey]),
    });
    expect(await saidOf(importing(file, trusting(other.publicKey)))).toMatch(/^ARCHIVE_UNTRUSTED/);
    expect(await there.collect()).toEqual({ blobs: 0, sizeBytes: 0 });
    expect((await importing(file, trusting(key.publicKey))).id).toBe(id);
  });

  it('is refused when it is not the one that was asked for', async () => {
    const id = await putSample(here);
    const file = await readAll(exportArchive(here, id));
    expect(await saidOf(importing(file, { expectedId: 'a'.repeat(64) }))).toMatch(/^ARCHIVE_INVALID.*not aaa/);
    expect((await importing(file, { expectedId: id })).id).toBe(id);
  });

  it('stops when it is told to', async () => {
    const id = await putSample(here);
    const controller = new AbortController();
    const bytes = await readAll(exportArchive(here, id));
    async function* hanging() {
      yield bytes.subarray(0, -2_000);
      controller.abort();
      await new Promise(() => {});
    }
    expect(await saidOf(importArchive(there, hanging(), { signal: controller.signal }))).toMatch(/^CANCELLED/);
    expect(await there.list()).toEqual([]);
  });
});

describe('a .bak from a stranger', () => {
  const rawManifest = (manifest: unknown): [string, Buffer][] => [
    ['manifest.json', Buffer.from(canonicalBytes(manifest))],
    ['manifest.sig', Buffer.from('signed\n')],
  ];
  const text = Buffer.from('x');

  it.each<[string, (files: [string, Buffer][]) => [string, Buffer][], RegExp]>([
    ['without a blob', (files) => files.slice(0, -1), /^ARCHIVE_INVALID.*not whole/],
    ['without a signature', (files) => files.filter(([name]) => name !== 'manifest.sig'), /^ARCHIVE_HOSTILE/],
    ['with its manifest last', (files) => [...files.slice(1), files[0]!], /^ARCHIVE_INVALID/],
    [
      'with a blob that nobody names',
      (files) => [...files, [`blobs/${createHash('sha256').update(text).digest('hex')}`, text]],
      /^ARCHIVE_HOSTILE.*no manifest/,
    ],
    [
      'with a blob of another name',
      (files) => [...files.slice(0, 2), ['blobs/x', text], ...files.slice(2)],
      /^ARCHIVE_HOSTILE.*no manifest/,
    ],
    [
      'with a name that goes up',
      (files) => [...files.slice(0, 2), [`blobs/../${'a'.repeat(64)}`, text], ...files.slice(2)],
      /^ARCHIVE_HOSTILE.*no manifest/,
    ],
    ['with a second manifest', (files) => [...files, ['group.json', text]], /^ARCHIVE_HOSTILE/],
    [
      'with another size of a blob',
      (files) => put(files, 2, Buffer.concat([files[2]![1], text])),
      /^ARCHIVE_HOSTILE.*another size/,
    ],
    [
      'with another byte in a blob',
      (files) => put(files, 3, Buffer.from(files[3]![1]).fill('?', 0, 1)),
      /^ARCHIVE_DAMAGED/,
    ],
    [
      'with a manifest that is none',
      () => [
        ['manifest.json', text],
        ['manifest.sig', text],
      ],
      /^ARCHIVE_INVALID/,
    ],
    ['with a manifest of a newer version', () => rawManifest({ ...sampleManifest(), version: 9 }), /^ARCHIVE_TOO_NEW/],
    [
      'with a hostile manifest',
      () => rawManifest({ ...sampleManifest(), files: [{ path: '../x', mode: '100644', blob: blobOf('x') }] }),
      /^ARCHIVE_HOSTILE/,
    ],
    [
      'with the manifest of a group',
      () => rawManifest(sampleGroup([{ stack: 'a', archive: 'a'.repeat(64) }])),
      /^ARCHIVE_HOSTILE/,
    ],
    ['with a signature without end', (files) => put(files, 1, Buffer.alloc(5_000, 0x61)), /^ARCHIVE_HOSTILE/],
    ['with an empty signature', (files) => put(files, 1, Buffer.alloc(0)), /^ARCHIVE_INVALID/],
    ['that is empty', () => [], /^ARCHIVE_INVALID/],
  ])('%s is refused, and nothing is listed or kept', async (_, change, expected) => {
    const id = await putSample(here);
    const bytes = await forged(await readAll(exportArchive(here, id)), change);
    const said = await saidOf(importing(bytes));
    expect(said).toMatch(expected);
    expect(await there.list()).toEqual([]);
    expect(await readdir(join(directory, 'there/blobs'), { recursive: true }).then(filesOf, () => [])).toEqual([]);
    for (const text of SAMPLE_TEXTS) expect(await there.hasBlob(blobOf(text).digest)).toBe(false);
  });

  it('that is not whole takes away what it brought, and nothing that another archive names', async () => {
    const [shared, own] = ['zstd of the database', 'zstd of the cache'];
    await here.putBlob(chunksOf(own));
    for (const store of [here, there]) await store.putBlob(chunksOf(shared));
    const payloads = [payloadOf('data', shared), payloadOf('cache', own)];
    const known = await putSample(there, { stack: 'pg', project: 'pg', payloads: [payloadOf('data', shared)] });
    const id = await putSample(here, { payloads });
    const bytes = await forged(await readAll(exportArchive(here, id)), (files) => files.slice(0, -1));
    expect(await saidOf(importing(bytes))).toMatch(/^ARCHIVE_INVALID/);
    expect((await there.verify(known)).wrong).toEqual([]);
    expect(await there.hasBlob(blobOf(own).digest)).toBe(false);
  });

  it('with any one byte changed is refused when its signature is asked for', async () => {
    const key = openSigningKey(join(directory, 'ours'));
    const id = await putSample(here, {}, key.sign(encodeManifest(sampleManifest()).bytes));
    const whole = await readAll(exportArchive(here, id));
    const check: ImportOptions['check'] = (bytes, signature) => checkSignature(bytes, signature, [key.publicKey]);
    const places = fc.record({
      at: fc.integer({ min: 0, max: whole.length - 1 }),
      bit: fc.integer({ min: 0, max: 7 }),
    });
    await fc.assert(
      fc.asyncProperty(places, async ({ at, bit }) => {
        const bytes = Buffer.from(whole);
        bytes[at]! ^= 1 << bit;
        expect(await saidOf(importing(bytes, { check }))).toMatch(/^ARCHIVE_/);
        expect(await there.list()).toEqual([]);
      }),
      { numRuns: 60 },
    );
  });

  it('with another manifest is another archive, which the asked-for id shows', async () => {
    const id = await putSample(here);
    const bytes = await forged(await readAll(exportArchive(here, id)), (files) =>
      put(files, 0, Buffer.from(files[0]![1].toString().replace('sso', 'ssp'))),
    );
    expect(await saidOf(importing(bytes, { expectedId: id }))).toMatch(/^ARCHIVE_INVALID/);
    const { id: other } = await importing(bytes);
    expect(other).not.toBe(id);
    expect((await there.list()).map((one) => one.id)).toEqual([other]);
  });

  it('is refused wherever it is cut', async () => {
    const bytes = await readAll(exportArchive(here, await putSample(here)));
    for (let end = 0; end < bytes.length; end += 500)
      expect(await saidOf(importing(bytes.subarray(0, end))), String(end)).toMatch(/^ARCHIVE_(INVALID|DAMAGED)/);
    expect(await there.list()).toEqual([]);
  });
});

describe('a .bkg', () => {
  it('carries a group with its members, each shared blob once', async () => {
    const { group, pg, sso } = await putGroup(here);
    const file = join(directory, 'identity.bkg');
    await writeFile(file, exportArchive(here, group));
    const names = execFileSync('tar', ['-tf', file], { encoding: 'utf8' }).trim().split('\n');
    expect(names.slice(0, 6)).toEqual([
      'group.json',
      'group.sig',
      `archives/${pg}.json`,
      `archives/${pg}.sig`,
      `archives/${sso}.json`,
      `archives/${sso}.sig`,
    ]);
    expect(names).toHaveLength(6 + 5);
    const imported = await importing(await readFile(file));
    expect(imported).toMatchObject({ kind: 'group', id: group, archives: [pg, sso], blobs: 5 });
    expect((await there.verify(group)).wrong).toEqual([]);
    expect(await there.list()).toEqual(await here.list());
  });

  it.each<[string, (files: [string, Buffer][]) => [string, Buffer][], RegExp]>([
    ['without a member', (files) => [...files.slice(0, 4), ...files.slice(6)], /^ARCHIVE_HOSTILE/],
    ['with members swapped', (files) => put(put(files, 2, files[4]![1]), 4, files[2]![1]), /^ARCHIVE_DAMAGED/],
    ['without a blob', (files) => files.slice(0, -1), /^ARCHIVE_INVALID/],
    ['with an archive as group', (files) => put(files, 0, files[2]![1]), /^ARCHIVE_HOSTILE/],
  ])('%s is refused, and nothing is listed', async (_, change, expected) => {
    const { group } = await putGroup(here);
    const bytes = await forged(await readAll(exportArchive(here, group)), change);
    expect(await saidOf(importing(bytes))).toMatch(expected);
    expect(await there.list()).toEqual([]);
  });
});

describe('a large archive', () => {
  it('is put, exported and imported with flat memory', () => {
    const module = (name: string) => join(import.meta.dirname, '../../..', name);
    const script = `
      const { DirStore } = await import(process.argv[1]);
      const { exportArchive, importArchive } = await import(process.argv[2]);
      const { encodeManifest } = await import(process.argv[3]);
      const { sampleManifest, payloadOf, SAMPLE_TEXTS } = await import(process.argv[4]);
      const here = new DirStore({ directory: process.argv[5] + '/large-here' });
      const there = new DirStore({ directory: process.argv[5] + '/large-there' });
      async function* large() { for (let n = 0; n < 192; n++) yield Buffer.alloc(1 << 20, n); }
      async function* small(text) { yield Buffer.from(text); }
      for (const text of SAMPLE_TEXTS) await here.putBlob(small(text));
      const before = process.resourceUsage().maxRSS;
      const blob = await here.putBlob(large());
      const { bytes } = encodeManifest(sampleManifest({ payloads: [{ ...payloadOf('data', ''), blob }] }));
      const id = await here.putManifest(bytes, 'signed');
      await importArchive(there, exportArchive(here, id));
      const { wrong } = await there.verify(id);
      console.log(JSON.stringify({ wrong, grownKib: process.resourceUsage().maxRSS - before }));
    `;
    const said = execFileSync(
      process.execPath,
      [
        '--input-type=module',
        '-e',
        script,
        module('src/adapters/archive/dir-store.ts'),
        module('src/adapters/archive/bak.ts'),
        module('src/core/archive/manifest.ts'),
        module('test/core/archive/sample.ts'),
        directory,
      ],
      { encoding: 'utf8' },
    );
    const { wrong, grownKib } = JSON.parse(said) as { wrong: unknown[]; grownKib: number };
    expect(wrong).toEqual([]);
    expect(grownKib, 'KiB for 192 MiB').toBeLessThan(100 * 1024);
  }, 60_000);
});
