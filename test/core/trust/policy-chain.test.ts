// Policy chain: which version is in effect, and why a later one is not.
import { describe, expect, it } from 'vitest';
import type { RawGitObject } from '../../../src/core/state/trust/judge.ts';
import {
  effectivePolicy,
  type PolicyChainInput,
  type PolicyMemory,
} from '../../../src/core/state/trust/policy-chain.ts';
import { policyPath } from '../../../src/core/state/trust/policy-file.ts';
import {
  admins,
  anchorOf,
  DAY,
  evaluate,
  HOUR,
  keys,
  type Name,
  NOW,
  type PolicyText,
  policyBytes,
  policyOf,
  principals,
  requestBytes,
  resigned,
  restoreRule,
  type SaidMore,
  say,
  secondKeys,
  sha256Of,
} from './court.ts';
import { handRsa } from './material.ts';

const first = policyBytes();
const wider = { ...restoreRule, stacks: ['*'] };
const second = policyBytes({ version: 2, previous: sha256Of(first), rules: [wider] });
const file = (version: number, bytes: Buffer) => ({ path: policyPath(version), bytes });
const memory = (version: number, bytes: Buffer, more: Partial<PolicyMemory> = {}): PolicyMemory => ({
  anchor: anchorOf().policySha256,
  version,
  sha256: sha256Of(bytes),
  bytes,
  ...more,
});
/** An admin signs `next` while `before` is in effect. */
const sign = (who: Name, next: Buffer, before: Buffer = first, more: SaidMore = {}): RawGitObject =>
  say(who, 'policy', sha256Of(next), sha256Of(before), more);

const chain = (more: Partial<PolicyChainInput> = {}) =>
  effectivePolicy({
    anchor: anchorOf(),
    files: [file(1, first)],
    last: null,
    objects: [],
    now: new Date(NOW),
    ...more,
  });

/** `VERSION REASON` of what is in effect and what is not. */
async function told(more: Partial<PolicyChainInput> = {}): Promise<string> {
  const { effective, drift } = await chain(more);
  return `${effective?.version ?? 'none'} ${drift === null ? '-' : `${drift.version}:${drift.reason}`}`;
}

describe('version 1', () => {
  it('is in effect when it is the one that the anchor names', async () => {
    expect(await told()).toBe('1 -');
  });

  it('is nothing when it is another one, is missing, is not valid or of another fleet', async () => {
    expect(await told({ files: [file(1, policyBytes({ rules: [wider] }))] })).toBe('none 1:policy-not-anchored');
    expect(await told({ files: [] })).toBe('none 1:policy-file-absent');
    const broken = policyBytes({ admins: { members: ['nobody'], threshold: 1 } });
    expect(await told({ files: [file(1, broken)], anchor: anchorOf({ policySha256: sha256Of(broken) }) })).toBe(
      'none 1:policy-invalid',
    );
    const foreign = policyBytes({ fleet: 'fleet-other' });
    expect(await told({ files: [file(1, foreign)], anchor: anchorOf({ policySha256: sha256Of(foreign) }) })).toBe(
      'none 1:policy-other-fleet',
    );
  });

  it('says where a version that is not valid is wrong', async () => {
    const broken = policyBytes({ admins: { members: ['nobody'], threshold: 1 } });
    const { drift } = await chain({ files: [file(1, broken)], anchor: anchorOf({ policySha256: sha256Of(broken) }) });
    expect(drift?.detail).toMatch(/^trust\/policy\/v0001\.yaml:\d+:\d+: `nobody` is no principal/);
  });
});

describe('the next version', () => {
  const files = [file(1, first), file(2, second)];

  it('takes effect when enough distinct admins signed its hash', async () => {
    const { effective, drift } = await chain({ files, objects: [sign('anna', second), sign('bert', second)] });
    expect([effective?.version, effective?.sha256, drift]).toEqual([2, sha256Of(second), null]);
  });

  it('waits, with who signed and who may', async () => {
    const { effective, drift } = await chain({ files, objects: [sign('anna', second)] });
    expect(effective?.version).toBe(1);
    expect(drift).toMatchObject({
      version: 2,
      reason: 'policy-unsigned',
      signed: ['anna'],
      mayStillSign: ['bert', 'cleo'],
      missing: 1,
    });
  });

  it.each<readonly [string, () => readonly RawGitObject[]]>([
    ['nobody', () => []],
    ['one admin with two keys', () => [sign('bert', second), sign('bert', second, first, { key: secondKeys.bert })]],
    [
      'one admin twice, by the same words under two ids',
      () => {
        const once = sign('anna', second);
        return [once, resigned(once, keys.anna)];
      },
    ],
    ['one admin and somebody who is none', () => [sign('anna', second), sign('dora', second)]],
    ['one admin and a stranger', () => [sign('anna', second), sign('mallory', second)]],
    [
      'one admin, and another one unsigned',
      () => [sign('anna', second), sign('bert', second, first, { isUnsigned: true })],
    ],
    ['admins of whom one speaks of another file', () => [sign('anna', second), sign('bert', first)]],
    [
      'admins of whom one approved it as if it were a request',
      () => [sign('anna', second), say('bert', 'approve', sha256Of(second), sha256Of(first))],
    ],
    ['admins of whom one names another policy before it', () => [sign('anna', second), sign('bert', second, second)]],
    [
      'admins of whom one speaks to another fleet',
      () => [sign('anna', second), sign('bert', second, first, { fleet: 'fleet-other' })],
    ],
    [
      'admins of whom one speaks to another ref',
      () => [sign('anna', second), sign('bert', second, first, { ref: 'refs/heads/other' })],
    ],
    [
      'admins of whom one speaks to another environment',
      () => [sign('anna', second), sign('bert', second, first, { environment: 'staging' })],
    ],
    ['admins of whom one has expired', () => [sign('anna', second), sign('bert', second, first, { expiresMs: NOW })]],
    [
      'admins of whom one is future-dated',
      () => [sign('anna', second), sign('bert', second, first, { datedMs: NOW + HOUR })],
    ],
    [
      'admins of whom one signed a merge',
      () => [sign('anna', second), sign('bert', second, first, { parents: ['1'.repeat(40), '2'.repeat(40)] })],
    ],
  ])('has no effect by %s', async (_, objects) => {
    expect(await told({ files, objects: objects() })).toBe('1 2:policy-unsigned');
  });

  it('has no effect by an admin whose key is revoked, or when the revocations cannot be read', async () => {
    const objects = [sign('anna', second), sign('bert', second)];
    const revoked = Buffer.from(`${keys.bert.line}\n`);
    expect(await told({ files, objects, anchor: anchorOf({ revoked }) })).toBe('1 2:policy-unsigned');
    expect(await told({ files, objects, anchor: anchorOf({ revoked: null }) })).toBe('1 2:policy-unsigned');
  });

  it('has no effect with a wrong back hash, number, fleet or content', async () => {
    const bent = async (text: PolicyText) => {
      const next = policyBytes({ version: 2, previous: sha256Of(first), ...text });
      return told({ files: [file(1, first), file(2, next)], objects: [sign('anna', next), sign('bert', next)] });
    };
    expect(await bent({})).toBe('2 -');
    expect(await bent({ previous: 'f'.repeat(64) })).toBe('1 2:policy-back-hash');
    expect(await bent({ version: 3 })).toBe('1 2:policy-invalid');
    expect(await bent({ fleet: 'fleet-other' })).toBe('1 2:policy-other-fleet');
    expect(await bent({ admins: { members: ['anna'], threshold: 2 } })).toBe('1 2:policy-invalid');
  });

  it('has no effect above a gap', async () => {
    const third = policyBytes({ version: 3, previous: sha256Of(second) });
    const objects = [sign('anna', third, second), sign('bert', third, second)];
    expect(await told({ files: [file(1, first), file(3, third)], objects })).toBe('1 3:policy-gap');
  });

  it('has no effect when two files claim its number', async () => {
    const objects = [sign('anna', second), sign('bert', second)];
    const twice = [file(1, first), file(2, second), file(2, policyBytes({ version: 2, previous: sha256Of(first) }))];
    expect(await told({ files: twice, objects })).toBe('1 2:policy-altered');
  });

  it('has no effect when its name is written in another way', async () => {
    const objects = [sign('anna', second), sign('bert', second)];
    const named = { path: 'trust/policy/v00002.yaml', bytes: second };
    expect(await told({ files: [file(1, first), named], objects })).toBe('1 -');
  });

  it('climbs several versions, each signed under the one before', async () => {
    const third = policyBytes({ version: 3, previous: sha256Of(second) });
    const both = (next: Buffer, before: Buffer) => [sign('anna', next, before), sign('cleo', next, before)];
    const all = { files: [file(1, first), file(2, second), file(3, third)] };
    expect(await told({ ...all, objects: [...both(second, first), ...both(third, second)] })).toBe('3 -');
    expect(await told({ ...all, objects: both(third, second) })).toBe('1 2:policy-unsigned');
    expect(await told({ ...all, objects: both(second, first) })).toBe('2 3:policy-unsigned');
  });
});

describe('a change of the admins', () => {
  const people = { ...principals, emil: { ssh: [keys.emil.line] } };
  const handed = policyBytes({
    version: 2,
    previous: sha256Of(first),
    principals: people,
    admins: { members: ['dora', 'emil'], threshold: 2 },
  });
  const files = [file(1, first), file(2, handed)];
  const old = [sign('anna', handed), sign('bert', handed)];

  it('needs the old ones and the new ones', async () => {
    expect(await told({ files, objects: old })).toBe('1 2:policy-unsigned');
    expect(await told({ files, objects: [...old, sign('dora', handed)] })).toBe('1 2:policy-unsigned');
    expect(await told({ files, objects: [sign('dora', handed), sign('emil', handed)] })).toBe('1 2:policy-unsigned');
    expect(await told({ files, objects: [...old, sign('dora', handed), sign('emil', handed)] })).toBe('2 -');
  });

  it('is also another threshold, and another key of an admin', async () => {
    const lower = policyBytes({ version: 2, previous: sha256Of(first), admins: { ...admins, threshold: 1 } });
    const one = [file(1, first), file(2, lower)];
    expect(await told({ files: one, objects: [sign('anna', lower)] })).toBe('1 2:policy-unsigned');
    expect(await told({ files: one, objects: [sign('anna', lower), sign('bert', lower)] })).toBe('2 -');

    const renewed = policyBytes({
      version: 2,
      previous: sha256Of(first),
      principals: { ...principals, anna: { ssh: [secondKeys.anna.line] }, bert: { ssh: [keys.emil.line] } },
    });
    const two = [file(1, first), file(2, renewed)];
    const before = [sign('anna', renewed), sign('bert', renewed)];
    // Under the new keys neither of them has signed yet.
    expect(await told({ files: two, objects: before })).toBe('1 2:policy-unsigned');
    const after = [
      sign('anna', renewed, first, { key: secondKeys.anna }),
      sign('bert', renewed, first, { key: keys.emil }),
    ];
    expect(await told({ files: two, objects: [...before, ...after] })).toBe('2 -');
  });
});

describe('self-grant', () => {
  const granted = policyBytes({
    version: 2,
    previous: sha256Of(first),
    principals: { ...principals, mallory: { ssh: [keys.mallory.line] } },
    admins: { members: ['mallory'], threshold: 1 },
    rules: [
      { ...restoreRule, requesters: ['mallory'], approvers: ['mallory'], threshold: 1, requesterMayApprove: true },
    ],
  });

  it('a version that its author alone signs has no effect, and what it would grant is refused', async () => {
    const { effective, drift } = await chain({
      files: [file(1, first), file(2, granted)],
      objects: [sign('mallory', granted)],
    });
    expect([effective?.version, drift?.reason]).toEqual([1, 'policy-unsigned']);
    const bytes = requestBytes();
    const own = (type: 'request' | 'approve') => say('mallory', type, sha256Of(bytes), sha256Of(granted));
    const found = await evaluate({ policy: effective, bytes, objects: [own('request'), own('approve')] });
    expect([found.state, found.reason]).toEqual(['refused', 'request-unsigned']);
    expect(found.ignored.map(({ reason }) => reason)).toEqual(['unknown-key', 'unknown-key']);
  });
});

describe('never back', () => {
  const objects = [sign('anna', second), sign('bert', second)];

  it('keeps the version in effect when the tree lacks it', async () => {
    expect(await told({ last: memory(2, second), objects })).toBe('2 2:policy-rolled-back');
    expect(await told({ files: [], last: memory(2, second) })).toBe('2 2:policy-rolled-back');
  });

  it('keeps the version in effect when the tree holds another of its number, however it is signed', async () => {
    const other = policyBytes({ version: 2, previous: sha256Of(first) });
    const signed = [sign('anna', other), sign('bert', other)];
    expect(await told({ files: [file(1, first), file(2, other)], last: memory(2, second), objects: signed })).toBe(
      '2 2:policy-altered',
    );
  });

  it('does not climb while the version in effect is missing or altered', async () => {
    const third = policyBytes({ version: 3, previous: sha256Of(second) });
    const signed = [sign('anna', third, second), sign('bert', third, second)];
    expect(await told({ files: [file(1, first), file(3, third)], last: memory(2, second), objects: signed })).toBe(
      '2 2:policy-rolled-back',
    );
    expect(await told({ files: [file(2, second), file(3, third)], last: memory(2, second), objects: signed })).toBe(
      '3 -',
    );
  });

  it('takes no version for the one in effect behind which one stands whose signatures have expired, where the memory is lost', async () => {
    const files = [file(1, first), file(2, second)];
    const late = { expiresMs: NOW - HOUR };
    const expired = [sign('anna', second, first, late), sign('bert', second, first, late)];
    expect(await told({ files, objects: expired })).toBe('1 2:policy-unsigned');
    const lost = { files, refusesExpired: true };
    expect(await told({ ...lost, objects: expired })).toBe('none 2:policy-signatures-expired');
    expect(await told({ ...lost, objects: [...expired, sign('anna', second), sign('bert', second)] })).toBe('2 -');
    // What was never signed by enough, whoever pushed it, takes nothing away.
    expect(await told({ ...lost, objects: [expired[0]!] })).toBe('1 2:policy-unsigned');
    expect(await told({ ...lost, objects: [sign('mallory', second), sign('dora', second)] })).toBe(
      '1 2:policy-unsigned',
    );
  });

  it('goes on from what is remembered, without its signatures', async () => {
    expect(await told({ files: [file(1, first), file(2, second)], last: memory(2, second) })).toBe('2 -');
  });

  it('trusts no memory that is damaged, and none of another anchor', async () => {
    const files = [file(1, first), file(2, second)];
    expect(await told({ files, last: memory(2, second, { sha256: 'f'.repeat(64) }) })).toBe(
      'none 2:policy-memory-damaged',
    );
    expect(await told({ files, last: memory(3, second) })).toBe('none 3:policy-memory-damaged');
    expect(await told({ files, last: memory(2, second, { anchor: 'f'.repeat(64) }) })).toBe('1 2:policy-unsigned');
    const foreign = policyBytes({ version: 2, previous: sha256Of(first), fleet: 'fleet-other' });
    expect(await told({ files, last: memory(2, foreign) })).toBe('none 2:policy-other-fleet');
  });
});

it('whatever goes wrong inside leaves nothing, or what was in effect, in effect', async () => {
  expect(await told({ files: null as never })).toBe('none 0:policy-error');
  const files = [file(1, first), file(2, second)];
  expect(await told({ files, objects: null as never })).toBe('1 2:policy-error');
  expect(await told({ files, objects: [sign('anna', second), sign('bert', second)], now: new Date(Number.NaN) })).toBe(
    '1 2:policy-unsigned',
  );
});

it('holds RSA keys as well', async () => {
  const rsa = handRsa(2048);
  const text: PolicyText = { principals: { ...principals, anna: { ssh: [rsa.line] } } };
  const bytes = policyBytes(text);
  const next = policyBytes({ ...text, version: 2, previous: sha256Of(bytes) });
  expect(policyOf(text).version).toBe(1);
  expect(
    await told({
      anchor: anchorOf({ policySha256: sha256Of(bytes) }),
      files: [file(1, bytes), file(2, next)],
      objects: [sign('anna', next, bytes, { key: rsa, expiresMs: NOW + 400 * DAY }), sign('bert', next, bytes)],
    }),
  ).toBe('2 -');
});
