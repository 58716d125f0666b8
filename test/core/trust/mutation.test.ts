// Random damage: whatever is done to a signed object, to the roots or to what the reader hands over, judging neither
// throws nor accepts bytes that were not signed. Also measures many commits; it asserts nothing about time.

import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rawObjectSource } from '../../../src/adapters/git/raw-objects.ts';
import { readGitObject } from '../../../src/core/state/trust/git-object.ts';
import { judge } from '../../../src/core/state/trust/judge.ts';
import { parseTrustRoots, type TrustRoots } from '../../../src/core/state/trust/roots.ts';
import { verifyRevs } from '../../../src/core/state/trust/verify-revs.ts';
import {
  AT,
  commitPayload,
  DATED,
  handCertify,
  handEd25519,
  handSign,
  insertSignature,
  Material,
  objectId,
  tagPayload,
} from './material.ts';

const m = new Material();
afterAll(() => m.close());

const alice = handEd25519();
const authority = handEd25519();
const samples: { type: 'commit' | 'tag'; bytes: Buffer; payload: Buffer }[] = [];
let roots: TrustRoots;
let keyring: Buffer;
let krl: Buffer;
const signers = `alice ${alice.line}\ndeploy@example.com cert-authority ${authority.line}\n`;

beforeAll(async () => {
  const key = m.gpgKey('Ed <ed@example.com>', 'ed25519');
  keyring = m.gpg(['--export', key]);
  m.sshKey('lost');
  m.run('ssh-keygen', ['-q', '-k', '-f', m.file('krl'), m.file('lost.pub')]);
  krl = m.run('cat', [m.file('krl')]);
  roots = await parseTrustRoots({ allowedSigners: signers, keyring, revoked: krl });
  const payload = commitPayload();
  const tag = tagPayload();
  const keyBlob = handCertify(authority, alice);
  samples.push(
    { type: 'commit', payload, bytes: insertSignature(payload, handSign(alice, payload)) },
    { type: 'commit', payload, bytes: insertSignature(payload, handSign(alice, payload, { keyBlob })) },
    { type: 'commit', payload, bytes: insertSignature(payload, m.gpgSign(key, payload)) },
    { type: 'tag', payload: tag, bytes: Buffer.concat([tag, Buffer.from(handSign(alice, tag))]) },
  );
  for (const { type, bytes } of samples)
    expect((await judge({ oid: objectId(type, bytes), type, bytes }, roots, AT)).verdict).toBe('valid');
}, 60_000);

/** Cuts, doubles, replaces or inserts a stretch. */
const damage = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.nat(40),
  what: fc.oneof(
    fc.constant(Buffer.alloc(0)),
    fc.uint8Array({ maxLength: 4 }).map((bytes) => Buffer.from(bytes)),
    fc
      .constantFrom('\n', ' ', '\n\n', '=', 'A', '-----END SSH SIGNATURE-----\n', 'gpgsig x\n', 'tree 1\n')
      .map((text) => Buffer.from(text)),
    fc.constant(null),
  ),
});
const damages = fc.array(damage, { minLength: 1, maxLength: 3 });

function apply(
  bytes: Buffer,
  hits: readonly { readonly at: number; readonly length: number; readonly what: Buffer | null }[],
): Buffer {
  return hits.reduce((before, { at, length, what }) => {
    const start = Math.floor(at * before.length);
    const end = Math.min(before.length, start + length);
    const middle = what ?? Buffer.concat([before.subarray(start, end), before.subarray(start, end)]);
    return Buffer.concat([before.subarray(0, start), middle, before.subarray(end)]);
  }, bytes);
}

describe('random damage', () => {
  it('never accepts bytes that were not signed, and never throws', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(3), damages, fc.boolean(), async (which, hits, strict) => {
        const { type, bytes, payload } = samples[which]!;
        const bent = apply(bytes, hits);
        const judgement = await judge({ oid: objectId(type, bent), type, bytes: bent }, roots, AT, { strict });
        expect(judgement.reason).not.toBe('internal-error');
        if (judgement.verdict === 'invalid') return;
        const parsed = readGitObject(type, bent, { strict });
        expect(parsed.kind === 'parsed' && parsed.object.payload.equals(payload)).toBe(true);
      }),
      { numRuns: 1500 },
    );
  });

  it('never fails on damaged roots', async () => {
    const { type, bytes } = samples[2]!;
    const object = { oid: objectId(type, bytes), type, bytes };
    await fc.assert(
      fc.asyncProperty(fc.constantFrom('keyring', 'revoked', 'signers'), damages, async (what, hits) => {
        const bent = await parseTrustRoots({
          allowedSigners: what === 'signers' ? apply(Buffer.from(signers), hits).toString() : signers,
          keyring: what === 'keyring' ? apply(keyring, hits) : keyring,
          revoked: what === 'revoked' ? apply(krl, hits) : krl,
        });
        expect(bent.refusal?.code).not.toBe('internal-error');
        expect((await judge(object, bent, AT)).reason).not.toBe('internal-error');
      }),
      { numRuns: 500 },
    );
  });

  it('answers arbitrary bytes and arbitrary values with a refusal', async () => {
    const types = fc.constantFrom('commit', 'tag', 'blob', '');
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), types, async (bytes, type) => {
        const oid = objectId(type, Buffer.from(bytes));
        expect((await judge({ oid, type, bytes }, roots, AT)).verdict).toBe('invalid');
      }),
      { numRuns: 300 },
    );
    for (const nonsense of [null, undefined, 1, 'x', {}, { oid: 1, type: 'commit', bytes: null }])
      expect(await judge(nonsense as never, roots, AT)).toMatchObject({ verdict: 'invalid' });
    const { type, bytes } = samples[0]!;
    const object = { oid: objectId(type, bytes), type, bytes };
    expect((await judge(object, null as never, AT)).verdict).toBe('invalid');
    expect((await judge(object, roots, null as never)).verdict).toBe('invalid');
    expect((await judge(object, roots, new Date(Number.NaN))).reason).toBe('bad-time');
  });

  it('lets no damaged signature of a true payload claim another principal', async () => {
    await fc.assert(
      fc.asyncProperty(damages, async (hits) => {
        const payload = commitPayload();
        const bytes = insertSignature(payload, apply(Buffer.from(handSign(alice, payload)), hits).toString('latin1'));
        const judgement = await judge({ oid: objectId('commit', bytes), type: 'commit', bytes }, roots, AT);
        if (judgement.verdict !== 'invalid') expect(judgement.principal).toBe('alice');
      }),
      { numRuns: 500 },
    );
  });
});

describe('many commits', () => {
  it('judges 2,000 commits of one repository', async () => {
    m.git('init', '-q', '--bare', 'many');
    const commits = Array.from({ length: 2000 }, (_, n) => {
      const payload = commitPayload({ dated: DATED + n, message: `Change ${n}\n` });
      return insertSignature(payload, handSign(alice, payload));
    });
    m.storePack('many', 'commit', commits);
    const revs = commits.map((bytes) => objectId('commit', bytes));
    const start = performance.now();
    const verdicts = new Map<string, number>();
    const input = { gitDir: m.file('many'), allowedSigners: signers, at: AT, strict: true, revs };
    for await (const { verdict } of verifyRevs({ ...input, readObject: rawObjectSource() }))
      verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1);
    const elapsedMs = Math.round(performance.now() - start);
    expect(Object.fromEntries(verdicts)).toEqual({ valid: 2000 });
    console.log(`2,000 ed25519 commits read and judged in ${elapsedMs} ms`);
  }, 60_000);
});
