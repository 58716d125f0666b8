import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { plainName, type TarEntry, TarListing, type TarSummary } from '../../../src/core/archive/tar-listing.ts';
import { Fault } from '../../../src/core/fault.ts';
import {
  blocksOf,
  END,
  file,
  folder,
  headerOf,
  type MadeEntry,
  padding,
  tarOf,
} from '../../adapters/payload/made-tar.ts';

function list(tar: Buffer, pieces: readonly number[] = [tar.length]): { entries: TarEntry[]; summary: TarSummary } {
  const entries: TarEntry[] = [];
  const listing = new TarListing({ onEntry: (entry) => void entries.push(entry), fingerprint: true });
  let at = 0;
  for (let index = 0; at < tar.length; index += 1) {
    const size = Math.max(1, pieces[index % pieces.length]!);
    listing.write(tar.subarray(at, at + size));
    at += size;
  }
  return { entries, summary: listing.end() };
}

const refusal = (tar: Buffer): string => {
  try {
    list(tar);
  } catch (error) {
    if (error instanceof Fault) return `${error.code} ${error.data['rule']}`;
    throw error;
  }
  return 'taken';
};

const longPath = `./${'deep/'.repeat(60)}end`;
const TREE: readonly MadeEntry[] = [
  folder('./', { mode: 0o700, uid: 26, gid: 26 }),
  file('./a', 'content', { mode: 0o4755, uid: 999, gid: 65534, pax: { mtime: '1700000000.120000000' } }),
  { path: './b', type: '1', link: './a', mode: 0o4755, uid: 999, gid: 65534 },
  { path: './c', type: '2', link: '/somewhere', mode: 0o777 },
  { path: './d', type: '6' },
  folder('./empty/'),
  file('./zero'),
  file(longPath, 'deep'),
  file('./-dash\nnewline ü', 'odd', {
    pax: [
      ['SCHILY.xattr.user.b', '2'],
      ['SCHILY.xattr.user.a', '1'],
    ],
  }),
];

const sparse = (path: string, size: number, pieces: readonly (readonly [number, Buffer])[]): MadeEntry =>
  file(path, Buffer.concat(pieces.map(([, bytes]) => bytes)), {
    pax: [
      ['GNU.sparse.size', String(size)],
      ['GNU.sparse.numblocks', String(pieces.length)],
      ...pieces.flatMap(([offset, bytes]): [string, string][] => [
        ['GNU.sparse.offset', String(offset)],
        ['GNU.sparse.numbytes', String(bytes.length)],
      ]),
    ],
  });

describe('the listing of a tar', () => {
  it('names every entry with its owner, mode, size, link, time and attributes', () => {
    const { entries, summary } = list(tarOf(TREE));
    expect(entries.map((entry) => [plainName(entry.path), entry.type, entry.size])).toEqual([
      ['.', 'directory', 0],
      ['a', 'file', 7],
      ['b', 'hardlink', 0],
      ['c', 'symlink', 0],
      ['d', 'fifo', 0],
      ['empty', 'directory', 0],
      ['zero', 'file', 0],
      [longPath.slice(2), 'file', 4],
      ['-dash\nnewline ü', 'file', 3],
    ]);
    expect(entries[1]).toMatchObject({ mode: 0o4755, uid: 999, gid: 65534, mtime: '1700000000.12' });
    expect(entries[2]?.linkTarget).toBe('./a');
    expect(entries[8]?.attributes).toEqual([
      ['xattr.user.a', '1'],
      ['xattr.user.b', '2'],
    ]);
    expect(summary).toMatchObject({
      entries: { count: 9 },
      root: { uid: 26, gid: 26, mode: '0700' },
      sizeBytes: 14,
      holds: { setuid: true, attributes: true, trustedAttributes: false },
    });
  });

  it('is the same whatever pieces the stream comes in', () => {
    const tar = tarOf(TREE);
    const whole = list(tar);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 1500 }), { minLength: 1, maxLength: 20 }), (pieces) => {
        expect(list(tar, pieces)).toEqual(whole);
      }),
      { numRuns: 100 },
    );
  });

  it('reads the long names of GNU tar', () => {
    const long = `./${'n'.repeat(200)}`;
    const named = (type: string, text: string) => {
      const body = Buffer.from(`${text}\0`);
      return [
        headerOf({ path: '', type }, Buffer.from('././@LongLink'), Buffer.alloc(0), body.length),
        body,
        padding(body.length),
      ];
    };
    const entry = headerOf({ path: '', type: '2' }, Buffer.from(long.slice(0, 100)), Buffer.alloc(0), 0);
    const { entries } = list(Buffer.concat([...named('L', long), ...named('K', `${long}/target`), entry, END]));
    expect(entries).toMatchObject([{ path: long, linkTarget: `${long}/target` }]);
  });

  it('keeps two names that are no UTF-8 apart', () => {
    const { entries } = list(
      tarOf([file('x'), { path: Buffer.from([0x61, 0xe4]) }, { path: Buffer.from([0x61, 0xe5]) }]),
    );
    expect(new Set(entries.map((entry) => entry.path)).size).toBe(3);
    expect(entries[1]?.path).toBe('a\udce4');
  });

  const changes: readonly (readonly [string, MadeEntry])[] = [
    ['mode', file('./f', 'x', { mode: 0o600 })],
    ['uid', file('./f', 'x', { uid: 1 })],
    ['gid', file('./f', 'x', { gid: 1 })],
    ['time', file('./f', 'x', { mtime: 5 })],
    ['part of a second', file('./f', 'x', { pax: { mtime: '1700000000.5' } })],
    ['attribute', file('./f', 'x', { pax: { 'SCHILY.xattr.user.a': '1' } })],
    ['size', file('./f', 'xx')],
    ['name', file('./g', 'x')],
    ['type', folder('./f')],
  ];
  it.each(changes)('has another digest of its list when one %s differs', (_, changed) => {
    const digest = (entry: MadeEntry) => list(tarOf([entry])).summary.entries.digest;
    expect(digest(changed)).not.toBe(digest(file('./f', 'x')));
  });

  it('has another fingerprint when only content differs, and the same list', () => {
    const [one, other] = ['x', 'y'].map((content) => list(tarOf([file('./f', content)])).summary);
    expect(other?.entries).toEqual(one?.entries);
    expect(other?.fingerprint?.exact).not.toBe(one?.fingerprint?.exact);
    expect(other?.fingerprint?.portable).not.toBe(one?.fingerprint?.portable);
  });

  it('has a fingerprint that holes and the zeros in their place share', () => {
    const fingerprint = (entry: MadeEntry) => list(tarOf([entry])).summary.fingerprint;
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(20_000), fc.integer({ min: 1, max: 9_000 })), { maxLength: 5 }),
        fc.nat(20_000),
        (gaps, tail) => {
          const pieces: [number, Buffer][] = [];
          let at = 0;
          for (const [gap, length] of gaps) {
            // Zeros inside of what is stored, too.
            const bytes = Buffer.alloc(length, length % 3);
            pieces.push([at + gap, bytes]);
            at += gap + length;
          }
          const size = at + tail;
          const dense = Buffer.alloc(size);
          for (const [offset, bytes] of pieces) bytes.copy(dense, offset);
          expect(fingerprint(sparse('./f', size, pieces))).toEqual(fingerprint(file('./f', dense)));
          if (size > 0) {
            dense[size - 1] = 9;
            expect(fingerprint(sparse('./f', size, pieces))).not.toEqual(fingerprint(file('./f', dense)));
          }
        },
      ),
      { numRuns: 200 },
    );
  });

  it('leaves out of the portable fingerprint what the engine loses, and nothing else', () => {
    const portable = (entry: MadeEntry) => list(tarOf([entry])).summary.fingerprint?.portable;
    const plain = portable(file('./f', 'x', { mode: 0o755 }));
    expect(portable(file('./f', 'x', { mode: 0o6755 }))).toBe(plain);
    expect(
      portable(file('./f', 'x', { mode: 0o755, pax: { mtime: '1700000000.5', 'SCHILY.xattr.user.a': '1' } })),
    ).toBe(plain);
    expect(portable(file('./f', 'x', { mode: 0o754 }))).not.toBe(plain);
    expect(portable(file('./f', 'x', { mode: 0o755, uid: 1 }))).not.toBe(plain);
    expect(portable(file('./f', 'x', { mode: 0o755, mtime: 4 }))).not.toBe(plain);
  });

  const head = blocksOf(file('./f', 'content'));
  const wrongSum = Buffer.from(tarOf([file('./f', 'content')]));
  wrongSum[0] = 0x21;
  const refusals: readonly (readonly [string, string, Buffer])[] = [
    ['that is empty', 'PAYLOAD_CORRUPT TAR_TRUNCATED', Buffer.alloc(0)],
    ['that ends in a header', 'PAYLOAD_CORRUPT TAR_TRUNCATED', tarOf(TREE).subarray(0, 700)],
    ['that ends in a file', 'PAYLOAD_CORRUPT TAR_TRUNCATED', Buffer.concat(head).subarray(0, 515)],
    ['without an end mark', 'PAYLOAD_CORRUPT TAR_TRUNCATED', Buffer.concat(head)],
    ['with half an end mark', 'PAYLOAD_CORRUPT TAR_TRUNCATED', Buffer.concat([...head, Buffer.alloc(512)])],
    ['with something behind its end', 'PAYLOAD_CORRUPT TAR_TRAILING', Buffer.concat([...head, END, ...head, END])],
    ['with a changed header', 'PAYLOAD_CORRUPT TAR_CHECKSUM', wrongSum],
    ['that is something else', 'PAYLOAD_CORRUPT TAR_VALUE', Buffer.alloc(2048, 'x')],
    ['with a type nobody knows', 'PAYLOAD_HOSTILE TAR_TYPE', tarOf([{ path: 'f', type: 'S' }])],
    ['with a global header', 'PAYLOAD_HOSTILE TAR_TYPE', tarOf([{ path: 'f', type: 'g' }])],
    [
      'with content in a symlink',
      'PAYLOAD_HOSTILE TAR_TYPE',
      tarOf([{ path: 'f', type: '2', link: 'x', content: 'y' }]),
    ],
    ['with a wrong extended header', 'PAYLOAD_CORRUPT TAR_VALUE', tarOf([file('f', '', { pax: { size: '-4' } })])],
    [
      'with a header without measure',
      'PAYLOAD_HOSTILE TAR_HEADER_SIZE',
      tarOf([{ path: 'f', type: 'x', size: 2 ** 30 }]),
    ],
    ['with holes beyond a file', 'PAYLOAD_HOSTILE TAR_SPARSE', tarOf([sparse('f', 4, [[4, Buffer.from('x')]])])],
    [
      'with holes that overlap',
      'PAYLOAD_HOSTILE TAR_SPARSE',
      tarOf([
        sparse('f', 9, [
          [4, Buffer.from('x')],
          [2, Buffer.from('y')],
        ]),
      ]),
    ],
  ];
  it.each(refusals)('refuses a tar %s: %s', (_, code, tar) => {
    expect(refusal(tar)).toBe(code);
  });

  it('hands nothing of an entry on before it was judged', () => {
    const listing = new TarListing({
      onEntry: ({ path }) => {
        if (path === 'bad') throw new Error('refused');
      },
    });
    expect(() => listing.write(tarOf([file('good', 'x'), file('bad', 'y')]))).toThrow('refused');
  });
});
