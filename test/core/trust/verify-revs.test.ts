// Revs of real repositories: what is found under which name, and what cannot change a verdict: replace refs, grafts,
// damaged objects, other object formats.

import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { deflateSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRawObjects, rawObjectSource } from '../../../src/adapters/git/raw-objects.ts';
import { readGitObject } from '../../../src/core/state/trust/git-object.ts';
import { formatRevJudgement, type VerifyRevsInput, verifyRevs } from '../../../src/core/state/trust/verify-revs.ts';
import { AT, commitPayload, DATED, insertSignature, Material, objectId, tagPayload } from './material.ts';

const m = new Material();
afterAll(() => m.close());

let signers = '';
let signed: Buffer;
let oid = '';
const tip: Record<string, string> = {};
const DATE = `${DATED} +0000`;

function store(repository: string, type: string, bytes: Buffer): string {
  const args = ['-C', repository, 'hash-object', '-t', type, '-w', '--stdin', '--literally'];
  return m.run('git', args, bytes).toString().trim();
}

/** Puts bytes under an id that need not be theirs. */
function plant(repository: string, id: string, content: Buffer): void {
  const file = m.file(join(repository, '.git/objects', id.slice(0, 2), id.slice(2)));
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
}

async function verify(revs: readonly string[], more: Partial<VerifyRevsInput> = {}) {
  const lines = [];
  const input = { gitDir: m.file('repo/.git'), allowedSigners: signers, at: AT, revs, readObject: rawObjectSource() };
  for await (const judgement of verifyRevs({ ...input, ...more })) lines.push(judgement);
  return lines;
}

async function reasonOf(rev: string, more: Partial<VerifyRevsInput> = {}): Promise<string> {
  const [judgement] = await verify([rev], more);
  return judgement!.reason;
}

beforeAll(() => {
  signers = `alice@example.com ${m.sshKey('alice')}\n`;
  m.git('init', '-q', '-b', 'main', 'repo');
  for (const [key, value] of [
    ['user.name', 'A'],
    ['user.email', 'a@example.com'],
    ['gpg.format', 'ssh'],
    ['user.signingKey', m.file('alice')],
    ['commit.gpgSign', 'true'],
  ])
    m.git('-C', 'repo', 'config', key!, value!);
  const dates = [`GIT_AUTHOR_DATE=${DATE}`, `GIT_COMMITTER_DATE=${DATE}`];
  for (const name of ['one', 'two', 'three']) {
    m.run('env', [...dates, 'git', '-C', 'repo', 'commit', '-q', '--allow-empty', '-m', name]);
    tip[name] = m.git('-C', 'repo', 'rev-parse', 'HEAD');
  }
  m.run('env', [...dates, 'git', '-C', 'repo', 'tag', '-s', '-m', 'v1', 'v1']);
  m.git('-C', 'repo', 'tag', 'light', tip['one']!);
  const payload = commitPayload({ parents: [tip['one']!] });
  signed = insertSignature(payload, m.sshSign('alice', payload));
  oid = store('repo', 'commit', signed);
  m.git('-C', 'repo', 'update-ref', 'refs/heads/feature/x', oid);
}, 60_000);

describe('revs', () => {
  it('finds full ids, short ids, HEAD, branches, tags, full refs and steps back', async () => {
    const revs = [tip['three']!, tip['three']!.slice(0, 12), 'HEAD', '@', 'main', 'refs/heads/main', 'heads/main'];
    for (const judgement of await verify(revs))
      expect(judgement).toMatchObject({ oid: tip['three'], verdict: 'valid' });
    for (const rev of ['light', 'HEAD~2', 'main~~', 'v1~2', 'HEAD^^', 'v1^{}~1^1', 'v1^0~2'])
      expect((await verify([rev]))[0]!.oid, rev).toBe(m.git('-C', 'repo', 'rev-parse', rev));
    expect((await verify(['feature/x']))[0]).toMatchObject({ oid, reason: 'ok' });
  });

  it('judges an annotated tag as a tag, and its commit when asked to peel', async () => {
    const tag = m.git('-C', 'repo', 'rev-parse', 'v1');
    const [asTag, peeled] = await verify(['v1', 'v1^{commit}']);
    expect(asTag).toMatchObject({ oid: tag, verdict: 'valid', principal: 'alice@example.com' });
    expect(peeled).toMatchObject({ oid: tip['three'], verdict: 'valid' });
  });

  it('prefers a tag to a branch of the same name, as git does', async () => {
    m.git('-C', 'repo', 'update-ref', 'refs/heads/both', tip['one']!);
    m.git('-C', 'repo', 'update-ref', 'refs/tags/both', tip['two']!);
    expect((await verify(['both']))[0]!.oid).toBe(tip['two']);
  });

  it('reads packed refs and packs, and bare repositories', async () => {
    m.git('clone', '-q', '--bare', 'repo', 'bare.git');
    m.git('-C', 'bare.git', 'gc', '-q');
    m.git('-C', 'bare.git', 'pack-refs', '--all');
    for (const judgement of await verify(['main', 'v1', 'feature/x'], { gitDir: m.file('bare.git') }))
      expect(judgement.verdict).toBe('valid');
  });

  it('reads deltas of both kinds, and short ids in packs', async () => {
    m.git('clone', '-q', '--bare', 'repo', 'deltas.git');
    const text = 'a line that deltas share\n'.repeat(400);
    const ids: string[] = [];
    for (let n = 0; n < 12; n++) {
      const payload = commitPayload({ parents: [tip['one']!], message: `Change ${n}\n\n${text}` });
      ids.push(store('deltas.git', 'commit', insertSignature(payload, m.sshSign('alice', payload))));
      m.git('-C', 'deltas.git', 'update-ref', `refs/heads/d${n}`, ids[n]!);
    }
    for (const useOffsets of ['true', 'false']) {
      m.git('-C', 'deltas.git', '-c', `repack.useDeltaBaseOffset=${useOffsets}`, 'repack', '-adfq', '--depth=50');
      const [index] = m.run('sh', ['-c', 'ls deltas.git/objects/pack/*.idx']).toString().split('\n');
      expect(m.git('verify-pack', '-v', index!)).toMatch(/chain length = \d/);
      const revs = [...ids, ...ids.map((id) => id.slice(0, 16))];
      const verdicts = (await verify(revs, { gitDir: m.file('deltas.git') })).map(({ reason }) => reason);
      expect(verdicts).toEqual(revs.map(() => 'ok'));
    }
  }, 60_000);

  it('opens work trees, linked work trees and repositories with alternates', async () => {
    m.git('-C', 'repo', 'worktree', 'add', '-q', '--detach', m.file('linked'), tip['one']!);
    m.git('clone', '-q', '--shared', '--bare', 'repo', 'shared.git');
    expect((await verify(['HEAD'], { gitDir: m.file('repo') }))[0]!.oid).toBe(tip['three']);
    expect((await verify(['HEAD'], { gitDir: m.file('linked') }))[0]!.oid).toBe(tip['one']);
    expect((await verify(['main'], { gitDir: m.file('linked/.git') }))[0]!.verdict).toBe('valid');
    for (const judgement of await verify(['main', tip['two']!.slice(0, 10)], { gitDir: m.file('shared.git') }))
      expect(judgement.verdict).toBe('valid');
  });

  it.each([
    '--upload-pack=touch x',
    '-h',
    '',
    ' ',
    'nothing',
    '../../../etc/passwd',
    'config',
    'description',
    'refs/../config',
    'HEAD@{1}',
    ':/one',
    'main:file',
    'main..light',
    'HEAD~9',
    'HEAD^2',
    'HEAD~99999999999999999999',
    '0'.repeat(40),
    '\0',
    'main\n',
    '日本',
  ])('refuses the rev %j as unknown', async (rev) => {
    expect(await verify([rev])).toMatchObject([{ rev, verdict: 'invalid', reason: 'unknown-rev' }]);
  });

  it('refuses a short id that fits several objects', async () => {
    const prefix = (bytes: Buffer): string => objectId('blob', bytes).slice(0, 4);
    const seen = new Map<string, Buffer>();
    for (let n = 0; ; n++) {
      const bytes = Buffer.from(`${n}`);
      const known = seen.get(prefix(bytes));
      seen.set(prefix(bytes), bytes);
      if (!known) continue;
      for (const one of [known, bytes]) store('repo', 'blob', one);
      expect(await reasonOf(prefix(bytes))).toBe('ambiguous-rev');
      return;
    }
  });

  it('refuses trees and blobs', async () => {
    expect(await reasonOf(store('repo', 'blob', Buffer.from('x')))).toBe('not-commit-or-tag');
    expect(await reasonOf(store('repo', 'tree', Buffer.alloc(0)))).toBe('not-commit-or-tag');
  });
});

describe('repositories', () => {
  it('gives replace refs and grafts no effect', async () => {
    const unsigned = store('repo', 'commit', commitPayload({ message: 'Forged\n' }));
    m.git('-C', 'repo', 'update-ref', `refs/replace/${oid}`, unsigned);
    m.git('-C', 'repo', 'update-ref', `refs/replace/${unsigned}`, oid);
    writeFileSync(m.file('repo/.git/info/grafts'), `${tip['three']}\n`);
    expect(await reasonOf(oid)).toBe('ok');
    expect(await reasonOf(unsigned)).toBe('no-signature');
    expect((await verify(['main~1']))[0]!.oid).toBe(tip['two']);
    m.git('-C', 'repo', 'update-ref', '-d', `refs/replace/${oid}`);
    m.git('-C', 'repo', 'update-ref', '-d', `refs/replace/${unsigned}`);
    writeFileSync(m.file('repo/.git/info/grafts'), '');
  });

  it('refuses a repository with SHA-256 ids, by its config and by the id asked for', async () => {
    m.git('init', '-q', '--object-format=sha256', 'wide');
    expect(await verify(['HEAD', oid], { gitDir: m.file('wide') })).toMatchObject([
      { reason: 'sha256-repository', verdict: 'invalid' },
      { reason: 'sha256-repository' },
    ]);
    expect(await reasonOf('a'.repeat(64))).toBe('sha256-repository');
  });

  it('refuses what is no repository', async () => {
    for (const gitDir of ['nowhere', '.'].map((name) => m.file(name)))
      expect(await reasonOf('HEAD', { gitDir })).toBe('unreadable-repository');
  });

  it('refuses objects whose bytes are not those of their id', async () => {
    plant('repo', 'a'.repeat(40), deflateSync(Buffer.concat([Buffer.from(`commit ${signed.length}\0`), signed])));
    expect(await reasonOf('a'.repeat(40))).toBe('oid-mismatch');
  });

  it.each([
    ['an empty file', Buffer.alloc(0)],
    ['no zlib stream', Buffer.from('hello')],
    ['a cut stream', deflateSync(Buffer.from('commit 3\0abc')).subarray(0, 8)],
    ['a wrong size', deflateSync(Buffer.from('commit 4\0abc'))],
    ['no header', deflateSync(Buffer.from('abc'))],
  ])('refuses a loose object that is %s', async (_name, content) => {
    plant('repo', 'b'.repeat(40), content);
    expect(await reasonOf('b'.repeat(40))).toBe('unreadable-object');
  });

  it('refuses a loose object that unfolds beyond the limit', async () => {
    const size = 80 * 1024 * 1024;
    plant('repo', 'c'.repeat(40), deflateSync(Buffer.concat([Buffer.from(`commit ${size}\0`), Buffer.alloc(size)])));
    expect(await reasonOf('c'.repeat(40))).toBe('object-too-large');
  });

  it('judges a long message like a short one', async () => {
    const payload = commitPayload({ message: 'long line\n'.repeat(500_000) });
    expect(await reasonOf(store('repo', 'commit', insertSignature(payload, m.sshSign('alice', payload))))).toBe('ok');
  });

  it('reads no ref through a link in a circle', async () => {
    symlinkSync(m.file('repo/.git/refs/heads/loop'), m.file('repo/.git/refs/heads/loop'));
    writeFileSync(m.file('repo/.git/refs/heads/round'), 'ref: refs/heads/round\n');
    expect(await reasonOf('loop')).toBe('unknown-rev');
    expect(await reasonOf('round')).toBe('unknown-rev');
    m.run('rm', [m.file('repo/.git/refs/heads/loop'), m.file('repo/.git/refs/heads/round')]);
  });
});

describe('verifyRevs', () => {
  it('writes the seven fields of the contract, in order', async () => {
    const [judgement] = await verify([oid]);
    const fields = ['rev', 'oid', 'verdict', 'format', 'principal', 'fingerprint', 'reason'];
    expect(Object.keys(JSON.parse(formatRevJudgement(judgement!)))).toEqual(fields);
    expect(judgement!.fingerprint).toBe(
      m
        .run('ssh-keygen', ['-lf', m.file('alice.pub')])
        .toString()
        .split(' ')[1],
    );
  });

  it('answers every rev, in order, when reading fails', async () => {
    const readObject = (_dir: string, rev: string) =>
      rev === 'b' ? Promise.reject(new Error('gone')) : openRawObjects(m.file('repo')).read(rev);
    const all = await verify([oid, 'b', oid], { readObject });
    expect(all.map(({ reason }) => reason)).toEqual(['ok', 'internal-error', 'ok']);
  });

  it('refuses when the reader throws at once or answers nonsense', async () => {
    const throwing = () => {
      throw new Error('at once');
    };
    expect(await reasonOf(oid, { readObject: throwing })).toBe('internal-error');
    for (const nonsense of [null, {}, { kind: 'object' }, { kind: 'object', oid, type: 'commit' }]) {
      const readObject = () => Promise.resolve(nonsense as never);
      expect((await verify([oid], { readObject }))[0]!.verdict).toBe('invalid');
    }
  });

  it('refuses every rev while a root cannot be read', async () => {
    const reasons = (await verify([oid, 'main'], { revoked: null })).map(({ reason }) => reason);
    expect(reasons).toEqual(['bad-revocation-list', 'bad-revocation-list']);
  });

  it('tells once what the roots hold that grants nothing', async () => {
    const told: unknown[] = [];
    const allowedSigners = `${signers}bob no-such-option ssh-ed25519 AAAA\n`;
    await verify([oid, oid], { allowedSigners, onRoots: ({ problems }) => told.push(...problems) });
    expect(told).toMatchObject([{ place: 'allowed_signers:2' }]);
  });
});

describe('readGitObject', () => {
  it('gives headers, parents, people with their zones, message and signature', () => {
    const parsed = readGitObject('commit', signed, { strict: true });
    if (parsed.kind !== 'parsed' || parsed.object.kind !== 'commit') throw new Error('not parsed');
    const { headers, parents, committer, message, payload } = parsed.object;
    expect(headers.map(({ name }) => name)).toEqual(['tree', 'parent', 'author', 'committer', 'gpgsig']);
    expect(parents).toEqual([tip['one']]);
    expect(committer).toEqual({ name: 'A U Thor', email: 'author@example.com', seconds: DATED, offsetMinutes: 0 });
    expect(message.toString()).toBe('Change a thing\n');
    expect(payload).toEqual(commitPayload({ parents: [tip['one']!] }));
  });

  it('reads zones on both sides of Greenwich', () => {
    const offset = (zone: string): number => {
      const parsed = readGitObject('commit', commitPayload({ committer: `A <a@b> 1 ${zone}` }), { strict: true });
      if (parsed.kind !== 'parsed' || parsed.object.kind !== 'commit') throw new Error('not parsed');
      return parsed.object.committer.offsetMinutes;
    };
    expect(['+0530', '-0330', '+0000'].map(offset)).toEqual([330, -210, 0]);
  });

  it('answers a refusal instead of throwing', () => {
    expect(readGitObject('commit', Buffer.from('x'), { strict: true })).toMatchObject({ kind: 'refused' });
    expect(readGitObject('tag', tagPayload({ tagger: null }), { strict: true })).toMatchObject({ reason: 'no-date' });
  });
});
