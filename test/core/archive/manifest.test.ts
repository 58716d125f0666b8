import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { canonicalBytes } from '../../../src/core/archive/canonical.ts';
import {
  archiveIdOf,
  blobsOf,
  encodeGroup,
  encodeManifest,
  MAX_MANIFEST_BYTES,
  type Manifest,
  readManifest,
} from '../../../src/core/archive/manifest.ts';
import { Fault } from '../../../src/core/fault.ts';
import { blobOf, payloadOf, SAMPLE_TEXTS, sampleGroup, sampleManifest } from './sample.ts';

const codeOf = (read: () => unknown): string => {
  try {
    read();
  } catch (error) {
    if (error instanceof Fault) return `${error.code} ${error.message}`;
    throw error;
  }
  return 'nothing';
};
const readValue = (value: unknown): string => codeOf(() => readManifest(canonicalBytes(value)));
const without = (...fields: string[]): Record<string, unknown> =>
  Object.fromEntries(Object.entries(sampleManifest()).filter(([field]) => !fields.includes(field)));

describe('a manifest', () => {
  it('is read as it was made, under the SHA-256 of its bytes', () => {
    const { id, bytes } = encodeManifest(sampleManifest());
    expect(id).toBe(createHash('sha256').update(bytes).digest('hex'));
    expect(readManifest(bytes)).toEqual({ kind: 'archive', id, manifest: sampleManifest(), derived: [] });
  });

  it('has one id, in whatever order its fields were set', () => {
    const turned = Object.fromEntries(Object.entries(sampleManifest()).reverse()) as unknown as Manifest;
    expect(encodeManifest(turned).id).toBe(encodeManifest(sampleManifest()).id);
  });

  it('has another id when anything in it differs', () => {
    const ids = new Set(
      [{}, { madeAtMs: 1 }, { replicas: { web: 3 } }, { notCaptured: ['xattrs of data'] }].map(
        (change) => encodeManifest(sampleManifest(change)).id,
      ),
    );
    expect(ids.size).toBe(4);
  });

  it('names every blob once, in order', () => {
    const twice = sampleManifest({
      payloads: [payloadOf('data', 'zstd of a tar'), payloadOf('copy', 'zstd of a tar')],
    });
    const read = readManifest(encodeManifest(twice).bytes);
    expect(blobsOf(read)).toEqual(SAMPLE_TEXTS.map(blobOf).sort((a, b) => (a.digest < b.digest ? -1 : 1)));
  });

  it('names a bind mount by its path in the project folder, which may be the folder itself', () => {
    const bind = (name: string) => ({ ...payloadOf(name, 'x'), kind: 'bind' as const });
    const { payloads } = sampleManifest();
    const { bytes } = encodeManifest(
      sampleManifest({ payloads: [...payloads, bind('.'), bind('./data'), bind('conf/a')] }),
    );
    expect(readManifest(bytes)).toMatchObject({ kind: 'archive', derived: [] });
  });

  it('that could not be read again is never made', () => {
    expect(() => encodeManifest({ ...sampleManifest(), stack: 'No Name' })).toThrow(/could not be read again: \/stack/);
    expect(() => encodeManifest(sampleManifest({ spec: { x: undefined } }))).toThrow();
    expect(() => encodeManifest(without('vars') as unknown as Manifest)).toThrow(/vars/);
  });
});

describe('an older manifest', () => {
  it('says which fields are derived anew', () => {
    const bytes = canonicalBytes(without('vars', 'ports', 'project', 'boot', 'vault'));
    const read = readManifest(bytes);
    expect(read).toMatchObject({
      kind: 'archive',
      derived: ['project', 'vars', 'ports', 'vault', 'boot'],
      manifest: { project: 'sso', vars: {}, boot: { kind: 'double' } },
    });
    expect(read.id).toBe(archiveIdOf(bytes));
  });

  it('without its volumes is read with one for each payload of a volume', () => {
    const read = readManifest(canonicalBytes(without('volumes')));
    expect(read).toMatchObject({
      derived: ['volumes'],
      manifest: { volumes: [{ key: 'data', name: 'sso_data', external: false, driver: 'local', payload: 'data' }] },
    });
  });

  it('is read with nothing but its identity', () => {
    const { format, version, madeAtMs, stack, payloads } = sampleManifest();
    const read = readManifest(canonicalBytes({ format, version, madeAtMs, stack, payloads }));
    expect(read.kind === 'archive' && read.derived).toHaveLength(Object.keys(sampleManifest()).length - 5);
  });

  it.each(['format', 'version', 'madeAtMs', 'stack', 'payloads'])('without %s is none', (field) => {
    expect(readValue(without(field))).toMatch(/^ARCHIVE_INVALID/);
  });
});

describe('a payload in a restic repository', () => {
  const id = (digit: string) => digit.repeat(64);
  const restic = { repository: id('a'), snapshot: id('b'), tree: id('c') };
  const plain = { ...payloadOf('data', 'x'), format: 'tar' as const, blob: blobOf('tar') };
  const payload = { ...plain, plainDigest: plain.blob.digest, plainBytes: plain.blob.sizeBytes, restic };
  const sample = (change: object) =>
    sampleManifest({ version: 2, payloads: [{ ...payload, ...change }] as (typeof payload)[] });

  it('is read as it was written, and its blob is named as every other', () => {
    const { id, bytes } = encodeManifest(sample({}));
    const read = readManifest(bytes);
    expect(read).toMatchObject({ id, manifest: { payloads: [payload] } });
    expect(blobsOf(read)).toContainEqual(payload.blob);
  });

  it.each<[string, object, string]>([
    ['of a blob that is not its tar', { plainDigest: id('d') }, 'ARCHIVE_HOSTILE'],
    ['of another size than its tar', { plainBytes: 7 }, 'ARCHIVE_HOSTILE'],
    ['that is compressed', { format: 'tar+zstd' }, 'ARCHIVE_HOSTILE'],
    ['with the short id of a snapshot', { restic: { ...restic, snapshot: 'bbbbbbbb' } }, 'ARCHIVE_INVALID'],
    ['with `latest`', { restic: { ...restic, snapshot: 'latest' } }, 'ARCHIVE_INVALID'],
    ['without the id of its tree', { restic: { repository: id('a'), snapshot: id('b') } }, 'ARCHIVE_INVALID'],
  ])('%s is refused', (_, change, code) => {
    expect(readValue(sample(change))).toMatch(new RegExp(`^${code} `));
  });

  it('is of no older version', () => {
    expect(readValue({ ...sample({}), version: 1 })).toMatch(/^ARCHIVE_HOSTILE /);
  });
});

describe('a manifest from a stranger', () => {
  const sample = () => sampleManifest();
  it.each<[string, unknown, string]>([
    ['that a newer version made', { ...sample(), version: 3 }, 'ARCHIVE_TOO_NEW'],
    ['with version 0', { ...sample(), version: 0 }, 'ARCHIVE_INVALID'],
    ['with a field that nobody knows', { ...sample(), extra: 1 }, 'ARCHIVE_INVALID'],
    ['of another program', { format: 'restic' }, 'ARCHIVE_INVALID'],
    ['that is a list', [], 'ARCHIVE_INVALID'],
    ['that is nothing', null, 'ARCHIVE_INVALID'],
    [
      'with a short digest',
      { ...sample(), payloads: [{ ...payloadOf('a', 'b'), plainDigest: 'abc' }] },
      'ARCHIVE_INVALID',
    ],
    [
      'with a negative size',
      { ...sample(), payloads: [{ ...payloadOf('a', 'b'), plainBytes: -1 }] },
      'ARCHIVE_INVALID',
    ],
    [
      'with a payload twice',
      { ...sample(), payloads: [...sample().payloads, payloadOf('data', 'x')] },
      'ARCHIVE_HOSTILE',
    ],
    ['with a volume without its payload', { ...sample(), payloads: [] }, 'ARCHIVE_HOSTILE'],
    ['with a payload without its volume', { ...sample(), volumes: [] }, 'ARCHIVE_HOSTILE'],
    [
      'with one blob of two sizes',
      { ...sample(), files: [{ path: 'a', mode: '100644', blob: { ...blobOf('zstd of a tar'), sizeBytes: 1 } }] },
      'ARCHIVE_HOSTILE',
    ],
    [
      'with a bind mount outside',
      { ...sample(), payloads: [...sample().payloads, { ...payloadOf('../x', 'x'), kind: 'bind' }] },
      'ARCHIVE_HOSTILE',
    ],
    [
      'with an absolute Compose file',
      { ...sample(), layout: { kind: 'compose', directory: '', files: ['/etc/passwd'], profiles: [] } },
      'ARCHIVE_HOSTILE',
    ],
    ['with vault keys but no values', { ...sample(), vault: { ...sample().vault, sealed: null } }, 'ARCHIVE_HOSTILE'],
  ])('%s is refused', (_, value, code) => {
    expect(readValue(value)).toMatch(new RegExp(`^${code} `));
  });

  it.each(['/etc/passwd', '../up', 'a/../b', 'a//b', './a', 'a/', 'x'.repeat(256)])(
    'never names the file %s',
    (path) => {
      const files = [{ path, mode: '100644', blob: blobOf('x') }];
      expect(readValue({ ...sampleManifest(), files })).toMatch(/^ARCHIVE_HOSTILE/);
      const app = { ...sampleManifest().app!, source: files };
      expect(readValue({ ...sampleManifest(), app })).toMatch(/^ARCHIVE_HOSTILE/);
    },
  );

  it('never has a file twice or below a file', () => {
    const file = (path: string) => ({ path, mode: '100644', blob: blobOf('x') });
    expect(readValue({ ...sampleManifest(), files: [file('a'), file('a')] })).toMatch(/HOSTILE.*twice/);
    expect(readValue({ ...sampleManifest(), files: [file('a/b'), file('a')] })).toMatch(/HOSTILE.*below a file/);
  });

  const text = Buffer.from(encodeManifest(sampleManifest()).bytes).toString();
  it.each([
    ['with white space', text.replace(':', ': ')],
    ['with a key twice', text.replace('"version":1', '"version":1,"version":1')],
    ['in another order', JSON.stringify(sampleManifest())],
    ['with another spelling of a letter', text.replace('"sso"', '"ss\\u006f"')],
    ['with another spelling of a number', text.replace('"version":1', '"version":1e0')],
    ['with a mark before it', `\ufeff${text}`],
    ['cut short', text.slice(0, -1)],
    ['nested without end', `${'['.repeat(100_000)}${']'.repeat(100_000)}`],
    ['that is empty', ''],
  ])('%s is not canonical', (_, written) => {
    expect(codeOf(() => readManifest(Buffer.from(written)))).toMatch(
      /^ARCHIVE_INVALID the manifest is not canonical JSON/,
    );
  });

  it('that is no UTF-8 or larger than any is refused', () => {
    expect(codeOf(() => readManifest(Buffer.from([0x22, 0xff, 0x22])))).toMatch(/^ARCHIVE_INVALID/);
    expect(codeOf(() => readManifest(Buffer.alloc(MAX_MANIFEST_BYTES + 1, 0x20)))).toMatch(/^ARCHIVE_INVALID.*bytes/);
  });
});

describe('the manifest of a group', () => {
  const a = 'a'.repeat(64);
  const b = 'b'.repeat(64);
  const members = [
    { stack: 'pg', archive: a },
    { stack: 'sso', archive: b },
  ];
  const edges = [{ consumer: 'sso', plug: 'database', provider: 'pg' }];

  it('is read as it was made', () => {
    const { id, bytes } = encodeGroup(sampleGroup(members, { edges }));
    expect(readManifest(bytes)).toEqual({ kind: 'group', id, manifest: sampleGroup(members, { edges }) });
  });

  it.each([
    ['without members', { members: [] }, 'ARCHIVE_INVALID'],
    ['with a stack twice', { members: [members[0], { stack: 'pg', archive: b }] }, 'ARCHIVE_HOSTILE'],
    ['with an archive twice', { members: [members[0], { stack: 'sso', archive: a }] }, 'ARCHIVE_HOSTILE'],
    ['with an edge of a stranger', { edges: [{ consumer: 'web', plug: 'db', provider: 'pg' }] }, 'ARCHIVE_HOSTILE'],
  ])('%s is refused', (_, change, code) => {
    expect(readValue({ ...sampleGroup(members), ...change })).toMatch(new RegExp(`^${code}`));
  });
});
