import { describe, expect, it } from 'vitest';
import {
  type ArchiveEntry,
  checkEntries,
  ENTRY_CODES,
  ENTRY_LIMITS,
  EntryCheck,
  type EntryLimits,
} from '../../../src/core/archive/entry-check.ts';

const entry = (path: string, type = 'file', linkTarget: string | null = null, size = 0): ArchiveEntry => ({
  path,
  type,
  size,
  linkTarget,
});
const folder = (path: string) => entry(path, 'directory');
const link = (path: string, target: string) => entry(path, 'symlink', target);
const hard = (path: string, target: string) => entry(path, 'hardlink', target);
const code = (entries: readonly ArchiveEntry[], limits: Partial<EntryLimits> = {}): string | null =>
  checkEntries(entries, { ...ENTRY_LIMITS, ...limits })?.code ?? null;

describe('entries that may be written', () => {
  it.each<[string, readonly ArchiveEntry[]]>([
    [
      'a tree as tar writes it',
      [folder('./'), folder('./a/'), entry('./a/b'), link('./a/c', 'b'), hard('./d', './a/b')],
    ],
    ['a folder after what lies in it', [entry('a/b'), folder('a')]],
    ['names with odd but plain characters', [entry('a\\b'), entry('..a'), entry('a..'), entry(' '), entry('é\n')]],
    ['a link that means something only in the container', [link('current', '/srv/app/v1'), link('up', '../../x')]],
    ['a pipe, which a service left', [entry('spool/pipe', 'fifo')]],
    ['a hard link to a symlink', [link('a', 'b'), hard('c', 'a')]],
    ['a name of 255 bytes that are no UTF-8', [entry('\udcff'.repeat(255))]],
    ['nothing', []],
  ])('%s', (_, entries) => {
    expect(code(entries)).toBeNull();
  });
});

describe('entries that are refused', () => {
  it.each<[string, readonly ArchiveEntry[]]>([
    ['ENTRY_NAME_EMPTY', [entry('')]],
    ['ENTRY_NAME_EMPTY', [entry('./')]],
    ['ENTRY_NAME_NUL', [entry('a\0b')]],
    ['ENTRY_NAME_NUL', [link('a', 'b\0c')]],
    ['ENTRY_NAME_LONG', [entry('x'.repeat(256))]],
    ['ENTRY_NAME_LONG', [entry(`${'ä'.repeat(128)}`)]],
    ['ENTRY_NAME_LONG', [entry('\udcff'.repeat(256))]],
    ['ENTRY_DEVICE', [entry('tty', 'character-device')]],
    ['ENTRY_NAME_LONG', [entry(`${'x/'.repeat(2_100)}x`)]],
    ['ENTRY_ABSOLUTE', [entry('/etc/passwd')]],
    ['ENTRY_PARENT', [entry('../x')]],
    ['ENTRY_PARENT', [entry('a/../../x')]],
    ['ENTRY_PARENT', [folder('..')]],
    ['ENTRY_DEVICE', [entry('sda', 'block-device')]],
    ['ENTRY_TYPE_UNKNOWN', [entry('x', 'other')]],
    ['ENTRY_TYPE_UNKNOWN', [entry('x', 'socket')]],
    ['ENTRY_DUPLICATE', [entry('a'), entry('./a')]],
    ['ENTRY_DUPLICATE', [folder('a'), folder('a/')]],
    ['ENTRY_DUPLICATE', [folder('.'), folder('./')]],
    ['ENTRY_DUPLICATE', [entry('a/b'), link('a', '/etc')]],
    ['ENTRY_DUPLICATE', [folder('a'), link('a', '/etc'), entry('a/passwd')]],
    ['ENTRY_BELOW_FILE', [entry('a'), entry('a/b')]],
    ['ENTRY_BELOW_FILE', [entry('a'), hard('b', 'a'), entry('b/c')]],
    ['ENTRY_THROUGH_LINK', [link('a', 'b'), entry('a/c')]],
    ['ENTRY_THROUGH_LINK', [link('a', '/etc'), entry('a/cron.d/x')]],
    ['ENTRY_LINK_ESCAPE', [hard('a', '/etc/shadow')]],
    ['ENTRY_LINK_ESCAPE', [hard('a', '../shadow')]],
    ['ENTRY_LINK_DANGLING', [hard('a', 'b'), entry('b')]],
    ['ENTRY_LINK_DANGLING', [folder('b'), hard('a', 'b')]],
    ['ENTRY_LINK_DANGLING', [link('l', '/etc'), hard('a', 'l/shadow')]],
    ['ENTRY_LINK_DANGLING', [link('a', '')]],
    ['ENTRY_LINK_DANGLING', [entry('a', 'hardlink', null)]],
    ['ENTRY_SIZE_INVALID', [entry('a', 'file', null, -1)]],
    ['ENTRY_SIZE_INVALID', [entry('a', 'file', null, Number.NaN)]],
    ['ENTRY_SIZE_INVALID', [entry('a', 'file', null, 2 ** 60)]],
  ])('%s: %j', (expected, entries) => {
    expect(code(entries)).toBe(expected);
  });

  it('beyond the limits: one file, all files, their number', () => {
    const sized = (path: string, sizeBytes: number) => entry(path, 'file', null, sizeBytes);
    const limits = { maxFileBytes: 100, maxTotalBytes: 150, maxEntries: 3 };
    expect(code([sized('a', 101)], limits)).toBe('ENTRY_TOO_LARGE');
    expect(code([sized('a', 100), sized('b', 51)], limits)).toBe('ENTRIES_TOO_LARGE');
    expect(code([sized('a', 100), sized('b', 50), folder('c')], limits)).toBeNull();
    expect(code([folder('a'), folder('b'), folder('c'), folder('d')], limits)).toBe('ENTRIES_TOO_MANY');
  });

  it('when this host reads the tree itself: links that lead out of it', () => {
    const inside = (entries: readonly ArchiveEntry[]) => code(entries, { symlinks: 'inside' });
    expect(inside([link('a/b/c', '../../d')])).toBeNull();
    expect(inside([link('a', './b//c/..')])).toBeNull();
    for (const [path, target] of [
      ['a', '/etc'],
      ['a', '..'],
      ['a/b', '../../x'],
      ['a', 'b/../../x'],
      ['a/b', '../../a/x'],
    ] as const)
      expect(inside([link(path, target)]), `${path} → ${target}`).toBe('ENTRY_LINK_ESCAPE');
  });

  it('are named without moving the cursor of a terminal', () => {
    const mistake = new EntryCheck().add(entry(`/\u001b[2J${'x'.repeat(400)}`))!;
    expect(mistake.summary).not.toContain('\u001b');
    expect(mistake.path).toHaveLength(200);
    expect(mistake.summary).toContain(ENTRY_CODES.ENTRY_ABSOLUTE);
  });
});
