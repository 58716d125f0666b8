import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { checkedObject, type ObjectReader } from '../../../src/adapters/git/object-reader.ts';
import { TreeReader } from '../../../src/adapters/git/tree-reader.ts';
import { faultOf, treeBytes } from './fixture.ts';

const BLOB = '1'.repeat(40);

/** Objects in memory. */
class Shelf implements ObjectReader {
  readonly objects = new Map<string, Buffer>();
  reads = 0;

  tree(entries: Parameters<typeof treeBytes>[0]): string {
    return this.put(treeBytes(entries));
  }

  put(bytes: Buffer): string {
    const oid = createHash('sha1').update(`tree ${bytes.length}\0`).update(bytes).digest('hex');
    this.objects.set(oid, bytes);
    return oid;
  }

  async read(oid: string) {
    this.reads += 1;
    return checkedObject(oid, 'tree', this.objects.get(oid)!);
  }

  async close() {}
}

async function refusal(entries: Parameters<typeof treeBytes>[0]): Promise<string> {
  const shelf = new Shelf();
  const fault = await faultOf(new TreeReader(shelf).list('c', shelf.tree(entries)));
  expect(fault.code).toBe('GIT_REFUSED');
  return fault.message;
}

describe('a hostile tree is refused, with its reason', () => {
  test.each([
    [
      'twice',
      [
        ['100644', 'a', BLOB],
        ['100644', 'a', BLOB],
      ],
    ],
    [
      'twice',
      [
        ['100644', 'a', BLOB],
        ['100644', 'a-', BLOB],
        ['40000', 'a', BLOB],
      ],
    ],
    [
      'not sorted',
      [
        ['100644', 'b', BLOB],
        ['100644', 'a', BLOB],
      ],
    ],
    [
      'not sorted',
      [
        ['40000', 'a', BLOB],
        ['100644', 'a.', BLOB],
      ],
    ],
    ['without a name', [['100644', '', BLOB]]],
    ['a slash', [['100644', 'a/b', BLOB]]],
    ['named "."', [['40000', '.', BLOB]]],
    ['named ".."', [['40000', '..', BLOB]]],
    ['keeps for itself', [['40000', '.git', BLOB]]],
    ['keeps for itself', [['40000', '.GIT', BLOB]]],
    ['keeps for itself', [['40000', '.git ', BLOB]]],
    ['keeps for itself', [['40000', '.git::$INDEX_ALLOCATION', BLOB]]],
    ['keeps for itself', [['40000', 'GIT~1', BLOB]]],
    ['keeps for itself', [['40000', '.g\u200cit', BLOB]]],
    ['the mode', [['777', 'a', BLOB]]],
    ['the mode', [['10064x', 'a', BLOB]]],
    ['the mode', [['020644', 'a', BLOB]]],
  ] as const)('%s: %j', async (reason, entries) => {
    expect(await refusal(entries)).toContain(reason);
  });

  test('cut off', async () => {
    const whole = treeBytes([['100644', 'a', BLOB]]);
    for (const length of [1, 6, 7, 8, 20, whole.length - 1]) {
      const shelf = new Shelf();
      const oid = shelf.put(whole.subarray(0, length));
      expect((await faultOf(new TreeReader(shelf).list('c', oid))).message).toContain('cut off');
    }
  });

  test('too deep', async () => {
    const shelf = new Shelf();
    let oid = shelf.tree([['100644', 'a', BLOB]]);
    for (let depth = 0; depth < 66; depth += 1) oid = shelf.tree([['40000', 'a', oid]]);
    expect((await faultOf(new TreeReader(shelf).list('c', oid))).message).toContain('folders deep');
  });

  test('folded into itself so that it unfolds to thousands of millions of files', async () => {
    const shelf = new Shelf();
    let oid = shelf.tree([['100644', 'a', BLOB]]);
    for (let depth = 0; depth < 30; depth += 1) {
      oid = shelf.tree([
        ['40000', 'a', oid],
        ['40000', 'b', oid],
      ]);
    }
    const startedAt = performance.now();
    expect((await faultOf(new TreeReader(shelf).list('c', oid))).message).toContain('more than 200000 files');
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });

  test('too many files', async () => {
    const shelf = new Shelf();
    const many = Array.from({ length: 3_000 }, (_, at) => ['100644', `f${String(at).padStart(6, '0')}`, BLOB] as const);
    const folders = Array.from(
      { length: 70 },
      (_, at) =>
        ['40000', `d${String(at).padStart(3, '0')}`, shelf.tree([...many, ['100644', `g${at}`, BLOB]])] as const,
    );
    expect((await faultOf(new TreeReader(shelf).list('c', shelf.tree(folders)))).message).toContain('more than 200000');
  });
});

test('modes of old tools are read as git reads them', async () => {
  const shelf = new Shelf();
  const empty = shelf.tree([]);
  const oid = shelf.tree([
    ['100664', 'a', BLOB],
    ['100775', 'b', BLOB],
    ['120000', 'c', BLOB],
    ['160000', 'd', BLOB],
    ['040000', 'e', empty],
  ]);
  const { entries, trees } = await new TreeReader(shelf).list('c', oid);
  expect(entries.map(({ path, mode }) => `${mode} ${path}`)).toEqual(['100644 a', '100755 b', '120000 c', '160000 d']);
  expect(trees.get('e')).toBe(empty);
});

test('two names that are not UTF-8 stay two names, and no other file has them', async () => {
  const shelf = new Shelf();
  const oid = shelf.tree(
    [
      ['100644', 'k\u00e4se', BLOB],
      ['100644', Buffer.from([0x6b, 0xe4, 0x73]), BLOB],
      ['100644', Buffer.from([0x6b, 0xf5, 0xc3, 0xa4]), BLOB],
      ['100644', 'k\ufffd', BLOB],
    ].sort(([, left], [, right]) => Buffer.compare(Buffer.from(left as string), Buffer.from(right as string))) as never,
  );
  const { entries } = await new TreeReader(shelf).list('c', oid);
  expect(entries.map(({ path }) => path).sort()).toEqual(['k\u00e4se', 'k\udce4s', 'k\udcf5\u00e4', 'k\ufffd'].sort());
});

test('a commit that touches one folder costs only the trees on its way', async () => {
  const shelf = new Shelf();
  const folder = (text: string) =>
    shelf.tree([['100644', 'compose.yaml', createHash('sha1').update(text).digest('hex')]]);
  const stacks = Array.from(
    { length: 1_000 },
    (_, at) => ['40000', `s${String(at).padStart(4, '0')}`, folder(`${at}`)] as const,
  );
  const reader = new TreeReader(shelf);
  const rootOf = (entries: typeof stacks) => shelf.tree([['40000', 'stacks', shelf.tree(entries)]]);
  await reader.list('one', rootOf(stacks));
  shelf.reads = 0;
  const changed = stacks.map((entry) => (entry[1] === 's0500' ? (['40000', 's0500', folder('new')] as const) : entry));
  await reader.list('two', rootOf(changed));
  expect(shelf.reads).toBe(3);
});
