// Policy file: what makes one unusable, told at its place.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readPolicy, versionOfPath } from '../../../src/core/state/trust/policy-file.ts';
import { deploySigners, ruleFor } from '../../../src/core/state/trust/policy-rule.ts';
import { signersOf } from '../../../src/core/state/trust/policy-signers.ts';
import { verifyStatement } from '../../../src/core/state/trust/statement.ts';
import {
  admins,
  anchorOf,
  keys,
  NOW,
  type PolicyText,
  policyBytes,
  policyOf,
  principals,
  restoreRule,
  SKEW,
  say,
} from './court.ts';
import { commitPayload, handEd25519, handRsa, insertSignature, Material, objectId } from './material.ts';

const path = 'trust/policy/v0001.yaml';
const problems = (text: PolicyText, at = path) =>
  readPolicy({ path: at, bytes: policyBytes(text) }).diagnostics.map(
    ({ severity, summary }) => `${severity === 'warning' ? 'warning: ' : ''}${summary}`,
  );

describe('a policy file', () => {
  it('is read with its digest', () => {
    expect(readPolicy({ path, bytes: policyBytes() }).diagnostics).toEqual([]);
    expect(policyOf().sha256).toMatch(/^[0-9a-f]{64}$/);
  });

  it.each<readonly [string, PolicyText, string]>([
    [
      'an admin who is no principal',
      { admins: { members: ['ana'], threshold: 1 } },
      '`ana` is no principal of this policy',
    ],
    [
      'a requester who is none',
      { rules: [{ ...restoreRule, requesters: ['zoe'] }] },
      '`zoe` is no principal of this policy',
    ],
    [
      'an approver who is none',
      { rules: [{ ...restoreRule, approvers: ['bert', 'zoe'] }] },
      '`zoe` is no principal of this policy',
    ],
    [
      'a threshold above the admins',
      { admins: { ...admins, threshold: 4 } },
      'the threshold of the admins can never be met',
    ],
    [
      'a threshold above the approvers',
      { rules: [{ ...restoreRule, threshold: 4 }] },
      'the threshold can never be met',
    ],
    [
      'a threshold that counts whoever asks',
      { rules: [{ ...restoreRule, requesters: ['anna'], threshold: 3 }] },
      'the threshold can never be met',
    ],
    [
      'a threshold that some can never meet',
      { rules: [{ ...restoreRule, threshold: 3 }] },
      'warning: the threshold can never be met when anna ask',
    ],
    [
      'a rule without approvers',
      { rules: [{ operation: 'purge', stacks: ['*'], requesters: ['anna'], threshold: 1 }] },
      '`approvers` is missing in the rule for purge',
    ],
    [
      'a rule without a threshold',
      { rules: [{ operation: 'purge', stacks: ['*'], requesters: ['anna'], approvers: ['bert'] }] },
      '`threshold` is missing in the rule for purge',
    ],
    [
      'a deploy rule with approvers',
      { rules: [{ operation: 'deploy', stacks: ['*'], requesters: ['anna'], approvers: ['bert'] }] },
      '`approvers` means nothing for deploy',
    ],
    ['a rule with exclusions only', { rules: [{ ...restoreRule, stacks: ['!shop'] }] }, 'the rule names no stack'],
    [
      'one key under two names',
      { principals: { ...principals, dora: { ssh: [`${keys.anna.line} me`] } } },
      'a key of `dora` is also a key of `anna`',
    ],
    [
      'a key that is none',
      { principals: { ...principals, dora: { ssh: ['ssh-ed25519 AAAAAAAAAAAAAAAAAAAAAAAA'] } } },
      'a key that cannot be used',
    ],
    ['a weak key', { principals: { ...principals, dora: { ssh: [handRsa(1024).line] } } }, 'a key that is too weak'],
    ['a version 1 with one before it', { previous: 'f'.repeat(64) }, 'version 1 has no version before it'],
    ['a version without the one before', { version: 2 }, 'version 2 does not name the version before it'],
  ])('is told of %s', (_, text, expected) => {
    expect(problems(text, text.version === 2 ? 'trust/policy/v0002.yaml' : path)).toEqual([expected]);
  });

  it.each<readonly [string, PolicyText]>([
    ['no threshold', { admins: { members: ['anna'], threshold: 0 } }],
    ['no members', { admins: { members: [], threshold: 1 } }],
    ['a rule threshold of none', { rules: [{ ...restoreRule, threshold: 0 }] }],
    ['no requesters', { rules: [{ ...restoreRule, requesters: [] }] }],
    ['no approvers', { rules: [{ ...restoreRule, approvers: [] }] }],
    ['an unknown operation', { rules: [{ ...restoreRule, operation: 'destroy' as never }] }],
    ['an unknown word', { rules: [{ ...restoreRule, autoApprove: true } as never] }],
    ['a person without keys', { principals: { ...principals, dora: {} } }],
    ['a name that is a pattern', { principals: { ...principals, '*': { ssh: [keys.dora.line] } } }],
    ['a name of two words', { principals: { ...principals, 'a b': { ssh: [handEd25519().line] } } }],
    ['a name of the language', JSON.parse(`{"principals": {"__proto__": {"ssh": ["${keys.dora.line}"]}}}`)],
    ['a key with options', { principals: { ...principals, dora: { ssh: [`cert-authority ${keys.dora.line}`] } } }],
  ])('is refused by its schema with %s', (_, text) => {
    expect(readPolicy({ path, bytes: policyBytes(text) }).version).toBeNull();
  });

  it('is told at the line and column of the mistake', () => {
    const bytes = policyBytes({ admins: { members: ['anna', 'ber'], threshold: 1 } });
    const lines = bytes.toString().split('\n');
    const [diagnostic] = readPolicy({ path, bytes }).diagnostics;
    expect(diagnostic?.help).toBe('did you mean `bert`?');
    const line = lines.findIndex((text) => text.includes('"ber"')) + 1;
    expect(diagnostic?.place).toEqual({ file: path, line, column: lines[line - 1]!.indexOf('"ber"') + 1 });
  });

  it('has the number of its name, in one form only', () => {
    expect(readPolicy({ path: 'trust/policy/v0003.yaml', bytes: policyBytes() }).version).toBeNull();
    expect(['v0001', 'v0012', 'v12345'].map((name) => versionOfPath(`trust/policy/${name}.yaml`))).toEqual([
      1, 12, 12345,
    ]);
    for (const name of ['v1', 'v00001', 'v0000', 'v01', 'V0001', 'v0001.old', 'x/v0001'])
      expect(versionOfPath(`trust/policy/${name}.yaml`)).toBeNull();
  });

  it('is refused when it is no text, or too much of it', () => {
    for (const bytes of [Buffer.from([0xff, 0xfe]), Buffer.alloc(1024 * 1024 + 1, 32), Buffer.from('a: [')])
      expect(readPolicy({ path, bytes }).version).toBeNull();
  });
});

describe('OpenPGP keys of a policy', () => {
  const m = new Material();
  afterAll(() => m.close());
  let anna = '';
  let armored = '';
  let other = '';
  beforeAll(() => {
    anna = m.gpgKey('Anna <anna@example.com>', 'ed25519');
    const bert = m.gpgKey('Bert <bert@example.com>', 'ed25519');
    armored = m.gpgExport(anna);
    other = m.gpgExport(bert);
  });
  const withKeys = (openpgp: readonly unknown[]): PolicyText => ({
    principals: { ...principals, anna: { openpgp } },
  });

  it('name their owner by the primary fingerprint', async () => {
    const policy = policyOf(withKeys([{ fingerprint: anna.toLowerCase(), key: armored }]));
    const signers = await signersOf(policy, anchorOf().revoked);
    expect(signers.principals.get(anna)).toBe('anna');
    const unsigned = say('anna', 'request', 'a'.repeat(64), policy.sha256, { isUnsigned: true });
    const message = Buffer.from(unsigned.bytes).toString().split('\n\n').slice(1).join('\n\n');
    const dated = NOW / 1000 - 3600;
    const payload = commitPayload({ message, dated });
    const bytes = insertSignature(payload, m.gpgSign(anna, payload, dated));
    const object = { oid: objectId('commit', bytes), type: 'commit', bytes };
    const reading = await verifyStatement(object, signers, new Date(NOW), SKEW);
    expect(reading).toMatchObject({ kind: 'statement', statement: { principal: 'anna', fingerprint: anna } });
    const revoked = await signersOf(policy, Buffer.from(`${anna}\n`));
    expect(await verifyStatement(object, revoked, new Date(NOW), SKEW)).toMatchObject({
      kind: 'refused',
      reason: 'revoked',
    });
  });

  it('are one key in each entry, with the fingerprint that is said, and under one name', () => {
    expect(problems(withKeys([`${armored}\n${other}`]))).toEqual(['an OpenPGP entry without exactly one key']);
    expect(problems(withKeys([{ fingerprint: 'F'.repeat(40), key: armored }]))).toEqual([
      'the fingerprint is not that of the key',
    ]);
    expect(
      problems({ principals: { ...principals, anna: { openpgp: [armored] }, dora: { openpgp: [armored] } } }),
    ).toEqual(['a key of `dora` is also a key of `anna`']);
    expect(
      problems(withKeys(['-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n'])),
    ).toEqual(['a key that cannot be used']);
  });
});

describe('a rule', () => {
  const policy = policyOf({
    rules: [
      { operation: 'deploy', stacks: ['db-*'], requesters: ['cleo'] },
      { operation: 'deploy', stacks: ['*', '!vault'], requesters: ['anna', 'bert'] },
      restoreRule,
    ],
  }).policy;

  it('is the first that names operation and stack', () => {
    expect(ruleFor(policy, 'restore', 'shop')?.index).toBe(2);
    expect(ruleFor(policy, 'restore', 'other')).toBeNull();
    expect(ruleFor(policy, 'purge', 'shop')).toBeNull();
  });

  it('says who may sign deploys, and nobody when none holds', () => {
    expect(deploySigners(policy, 'db-main')).toEqual(['cleo']);
    expect(deploySigners(policy, 'shop')).toEqual(['anna', 'bert']);
    expect(deploySigners(policy, 'vault')).toEqual([]);
  });
});
