import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  type Backup,
  backupMistakes,
  bootOf,
  captures,
  effectiveSettings,
  type Holder,
  idleGlobs,
  isForRestic,
  leftOut,
} from '../../../src/core/spec/backup.ts';
import { checkText } from '../../../src/core/spec/check.ts';

const HEAD = 'apiVersion: windlass/v1\nkind: Backup\n';
const read = (body: string) => checkText('Backup', 'backup.yaml', HEAD + body);
const backup = (body: string): Backup => {
  const { value, diagnostics } = read(body);
  expect(diagnostics).toEqual([]);
  return value!;
};

const volume = (name: string): Holder => ({ kind: 'volume', name });
/** Of the app `shop`. */
const folder = (written: string): Holder => ({
  kind: 'bind',
  name: written.startsWith('../') ? `apps/${written.slice(3)}` : `apps/shop/${written}`,
  written,
});
const holder = (text: string): Holder => (/^\.\.?\//.test(text) ? folder(text.replace(/^\.\//, '')) : volume(text));

const WHOLE = `
quiesce: { db: stop, web: pause, cache: none }
volumes: { include: ["*data", "./uploads"], exclude: [cachedata] }
dump: [dump-db]
restore: [replay-db]
keep: { last: 3, daily: 7, weekly: 4, monthly: 12 }
schedule: "0 3 * * *"
drill: { schedule: "0 5 * * 0" }
`;

describe('backup.yaml', () => {
  it('in the README of the apps is one', () => {
    const text = readFileSync(join(import.meta.dirname, '../../../apps/README.md'), 'utf8');
    const [, example] = /```yaml\n(apiVersion: windlass\/v1\nkind: Backup\n[^`]*)```/.exec(text) ?? [];
    expect(checkText('Backup', 'README.md', example ?? '').diagnostics).toEqual([]);
  });

  it('is read whole', () => {
    expect(backup(WHOLE)).toMatchObject({ quiesce: { web: 'pause' }, restore: ['replay-db'], keep: { monthly: 12 } });
  });

  it.each([
    ['quiesce: { db: halt }', 'expected one of stop, pause, none'],
    ['dump: [dump-db, dump-db]', 'an item twice'],
    ['restore: []', 'wrong size'],
    ['keep: {}', 'wrong size'],
    ['keep: { last: 0 }', 'wrong value'],
    ['volumes: { includes: [a] }', 'unknown key'],
    ['x-windlass-restore: { singleBoot: maybe }', 'wrong type'],
    ['x-windlass-restore: {}', 'singleBoot'],
    ['schedule: nightly', 'cron expression'],
    ['exclude: { data: [] }', 'wrong size'],
    ['exclude: { data: ["/etc"] }', 'wrong value'],
    ['exclude: { data: ["a/../b"] }', 'wrong value'],
  ])('refuses %s', (body, words) => {
    const { value, diagnostics } = read(body);
    expect(value).toBeNull();
    expect(diagnostics.map((one) => `${one.summary} ${one.detail}`).join('\n')).toContain(words);
  });

  it('says what is left out of which volumes and folders', () => {
    const read = backup('exclude: { data: ["cache/*", dev], "./up*": [tmp] }\n');
    expect(['data', './uploads', 'other'].map((name) => leftOut(read, holder(name)))).toEqual([
      ['cache/*', 'dev'],
      ['tmp'],
      [],
    ]);
    expect(leftOut(null, volume('data'))).toEqual([]);
  });

  it('refuses jobs and services that there are not, and says which were meant', () => {
    const checked = read(WHOLE);
    const found = backupMistakes(
      checked.value!,
      { jobs: ['dump-db', 'replay-dbs'], services: ['db', 'web'] },
      checked.place,
    );
    expect(found.map((one) => [one.code, one.summary, one.help, one.place?.line])).toEqual([
      ['JOB_UNKNOWN', 'unknown job `replay-db`', 'did you mean `replay-dbs`?', 7],
      ['SERVICE_UNKNOWN', 'unknown service `cache`', undefined, 4],
    ]);
  });

  it.each([
    ['schedule: "0 0 30 2 *"', 'wrong value for `schedule`', /never comes/],
    ['drill: { schedule: "0 25 * * *" }', 'wrong value for `drill.schedule`', /found 0 25/],
  ])('refuses a schedule that cannot be kept: %s', (body, summary, detail) => {
    const checked = read(body);
    const found = backupMistakes(checked.value!, { jobs: [], services: null }, checked.place);
    expect(found).toMatchObject([
      { code: 'SPEC_INVALID', summary, detail: expect.stringMatching(detail), place: { line: 3 } },
    ]);
  });

  it('does not judge services before they are known', () => {
    const checked = read('quiesce: { db: stop }');
    expect(backupMistakes(checked.value!, { jobs: [], services: null }, checked.place)).toEqual([]);
  });
});

describe('what is captured', () => {
  it.each([
    [null, 'anything', true],
    ['', 'anything', true],
    ['volumes: { exclude: [cache] }', 'cache', false],
    ['volumes: { exclude: [cache] }', 'data', true],
    ['volumes: { include: ["*data"] }', 'pgdata', true],
    ['volumes: { include: ["*data"] }', 'media', false],
    ['volumes: { include: ["*data"], exclude: [tmpdata] }', 'tmpdata', false],
    ['volumes: { include: ["./uploads"] }', './uploads', true],
    ['volumes: { include: ["./uploads"] }', './uploads/deep', false],
    ['volumes: { include: ["./uploads"] }', '../uploads', false],
    ['volumes: { include: ["../uploads"] }', '../uploads', true],
    ['volumes: { include: ["./files/*"] }', './files/up', true],
    ['volumes: { include: ["./**"] }', './files/up', true],
    ['volumes: { include: ["apps/shop/uploads"] }', './uploads', true],
    ['volumes: { include: ["./apps/shop/uploads"] }', './uploads', true],
    ['volumes: { exclude: ["apps/*/uploads"] }', './uploads', false],
    // A volume and a folder may bear one name.
    ['volumes: { include: ["./uploads"] }', 'uploads', false],
    ['volumes: { include: [uploads] }', './uploads', false],
  ])('%s captures %s: %s', (body, name, expected) => {
    expect(captures(body === null ? null : backup(body), holder(name))).toBe(expected);
  });

  it('is told apart from what a glob means that means nothing', () => {
    const body = `volumes: { include: [data, dat, "./up", "./upp", "apps/shop/up", "**"], exclude: ["tmp*"] }
exclude: { data: [a], "./gone": [b] }
restic: ["./**", media]
`;
    const idle = idleGlobs(backup(body), [volume('data'), folder('up')]);
    expect(idle).toEqual([
      { glob: 'dat', path: ['volumes', 'include', 1] },
      { glob: './upp', path: ['volumes', 'include', 3] },
      { glob: 'tmp*', path: ['volumes', 'exclude', 0] },
      { glob: './gone', path: ['exclude', './gone'] },
      { glob: 'media', path: ['restic', 1] },
    ]);
    expect(idleGlobs({ restic: ['**'] }, [])).toEqual([]);
  });
});

describe('boots after a restore', () => {
  it.each([
    [null, false, 'single', 'files in volumes'],
    ['quiesce: { db: stop }', false, 'single', 'files in volumes'],
    ['restore: [replay]', false, 'double', 'rebuild data'],
    [null, true, 'double', 'pre_restore'],
    ['dump: [dump]', false, 'double', 'not known'],
    ['restore: [replay]\nx-windlass-restore: { singleBoot: true }', true, 'single', 'singleBoot: true'],
    ['x-windlass-restore: { singleBoot: false }', false, 'double', 'singleBoot: false'],
  ])('%s with a pre_restore hook %s: %s', (body, hasRestoreHook, kind, why) => {
    const boot = bootOf({ backup: body === null ? null : backup(body), hasRestoreHook });
    expect(boot.kind).toBe(kind);
    expect(boot.why).toContain(why);
  });
});

describe('what lies in restic', () => {
  it.each([
    ['', 'data', false],
    ['restic: []', 'data', false],
    ['restic: ["**"]', 'data', true],
    ['restic: ["**"]', './uploads/deep', true],
    ['restic: ["*"]', 'data', true],
    ['restic: [media, ./uploads]', 'data', false],
    ['restic: [media, ./uploads]', './uploads', true],
    ['restic: [media, ./uploads]', 'uploads', false],
  ])('%s: %s %s', (body, name, expected) => {
    expect(isForRestic(effectiveSettings(backup(body), null), holder(name))).toBe(expected);
  });

  it('is said by the stack rather than by its app', () => {
    expect(effectiveSettings(backup('restic: ["**"]'), { restic: [] })).toEqual({ restic: [] });
  });
});

describe('settings', () => {
  it('of the stack win over those of its app, key by key', () => {
    expect(effectiveSettings(backup(WHOLE), { keep: { last: 1 } })).toEqual({
      keep: { last: 1 },
      schedule: '0 3 * * *',
      drill: { schedule: '0 5 * * 0' },
    });
    expect(effectiveSettings(null, null)).toEqual({});
  });
});
