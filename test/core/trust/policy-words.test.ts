// What people are told of policies: rules as sentences, differences between versions, and the texts that versions begin with.
import { describe, expect, it } from 'vitest';
import { formatAnchorBlock, formatAnchorHint, readAnchorHint } from '../../../src/core/state/trust/anchor-hint.ts';
import { nextPolicy } from '../../../src/core/state/trust/next-policy.ts';
import { policyPath, readPolicy } from '../../../src/core/state/trust/policy-file.ts';
import { policyChanges, ruleInWords } from '../../../src/core/state/trust/policy-words.ts';
import { rulesFor } from '../../../src/core/state/trust/request-rules.ts';
import { publicKeyOf, starterPolicy } from '../../../src/core/state/trust/starter-policy.ts';
import { DAY, keys, type PolicyText, policyOf, principals, restoreRule, secondKeys } from './court.ts';

const words = (before: PolicyText, after: PolicyText) =>
  policyChanges(policyOf(before).policy, policyOf(after).policy).map(({ sign, text }) => `${sign} ${text}`);
const admins = { members: ['anna', 'bert', 'cleo'], threshold: 2 };
const deploy = { operation: 'deploy', stacks: ['*'], requesters: ['anna'] } as const;

describe('a rule in words', () => {
  it('says who asks, how many of whom approve, how long it lives and when it runs', () => {
    expect(
      ruleInWords({ ...restoreRule, stacks: ['shop'], requesters: ['anna'], approvers: ['bert'], threshold: 1 }),
    ).toBe('restore of shop: asked for by anna; 1 of bert approve');
    expect(
      ruleInWords({
        ...{
          operation: 'purge',
          stacks: ['*', '!db'],
          requesters: ['anna'],
          approvers: ['anna', 'bert'],
          threshold: 2,
        },
        ...{ requesterMayApprove: true, maxLifetime: '7d', minDelay: '1h' },
      } as Parameters<typeof ruleInWords>[0]),
    ).toBe(
      'purge of *, !db: asked for by anna; 2 of anna, bert approve, whoever asks included; lives at most 7d; runs 1h after the last approval',
    );
    expect(ruleInWords({ ...deploy, stacks: ['*'], requesters: ['anna', 'bert'] })).toBe(
      'deploy of *: signed by one of anna, bert',
    );
  });
});

describe('the difference of two policies', () => {
  it('is nothing for the same content', () => {
    expect(words({}, {})).toEqual([]);
  });

  it.each<[string, PolicyText, PolicyText, readonly (string | RegExp)[]]>([
    [
      'a new person',
      { principals: { ...principals } },
      { principals: { ...principals, emil: { ssh: [keys.emil.line] } } },
      [/^\+ principal emil with ssh SHA256:/],
    ],
    [
      'a new key and a lost one',
      {},
      { principals: { ...principals, cleo: { ssh: [secondKeys.cleo.line] } } },
      [/^\+ key of cleo: ssh SHA256:/, /^- key of cleo: ssh SHA256:/],
    ],
    [
      'another threshold',
      { admins },
      { admins: { ...admins, threshold: 3 } },
      ['~ admins who must sign a version: 2 → 3'],
    ],
    ['an admin who goes', { admins }, { admins: { members: ['anna', 'bert'], threshold: 2 } }, ['- admin cleo']],
    [
      'a new rule',
      { rules: [restoreRule] },
      { rules: [restoreRule, deploy] },
      ['+ rule 2: deploy of *: signed by one of anna'],
    ],
    [
      'another order',
      { rules: [restoreRule, deploy] },
      { rules: [deploy, restoreRule] },
      ['~ the order of the rules: the first that fits holds'],
    ],
  ])('tells %s', (_, before, after, lines) => {
    const found = words(before, after);
    expect(found).toHaveLength(lines.length);
    for (const [index, line] of lines.entries())
      if (typeof line === 'string') expect(found[index]).toBe(line);
      else expect(found[index]).toMatch(line);
  });
});

describe('the first policy', () => {
  const admin = (name: string, line: string) => ({ name, keys: [{ kind: 'ssh', line } as const] });

  it.each([
    [['anna'], 1],
    [['anna', 'bert'], 1],
    [['anna', 'bert'], 2],
    [['true', '007', 'a@b.c+d', 'null'], 3],
  ] as const)('of %j with threshold %i is valid without a warning', (names, threshold) => {
    const lines = Object.values(keys).map((key) => key.line);
    const text = starterPolicy({
      fleet: 'fleet-1234',
      admins: names.map((name, at) => admin(name, lines[at]!)),
      threshold,
    });
    const { version, diagnostics } = readPolicy({ path: policyPath(1), bytes: Buffer.from(text) });
    expect(diagnostics).toEqual([]);
    expect(version?.policy.admins).toEqual({ members: names, threshold });
    const next = readPolicy({ path: policyPath(2), bytes: Buffer.from(nextPolicy(version!)) });
    expect(next.diagnostics).toEqual([]);
    expect(next.version?.policy).toEqual({ ...version!.policy, version: 2, previous: version!.sha256 });
  });
});

describe('a key file', () => {
  it.each([
    ['', /0 lines/],
    ['hello world', /\S/],
    ['-----BEGIN OPENSSH PRIVATE KEY-----\nx\n', /secret key/],
    [`${keys.anna.line}\n${keys.bert.line}\n`, /2 lines/],
    ['-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n', /\S/],
  ])('%j is refused', (text, wrong) => {
    const read = publicKeyOf(text);
    expect('wrong' in read ? read.wrong : 'taken').toMatch(wrong);
    expect('wrong' in read).toBe(true);
  });

  it('may have comments and Windows line ends', () => {
    expect(publicKeyOf(`# mine\r\n${keys.anna.line} anna@laptop\r\n`)).toEqual({
      key: { kind: 'ssh', line: `${keys.anna.line} anna@laptop` },
    });
  });
});

describe('the anchor hint', () => {
  const hint = {
    fleet: 'fleet-1234',
    ref: 'refs/heads/main',
    environment: 'the "first"',
    genesis: 'a'.repeat(40),
    policy: 'b'.repeat(64),
  };

  it('reads as it was written', () => {
    expect(readAnchorHint(Buffer.from(formatAnchorHint(hint)))).toEqual({ hint });
    expect(formatAnchorBlock(hint)).toContain('trust:\n  deploy: none\n  anchor:\n    fleet: "fleet-1234"\n');
  });

  it.each([
    ['', /\S/],
    ['kind: Policy\n', /no kind: TrustAnchor/],
    [formatAnchorHint({ ...hint, genesis: 'main' }), /`genesis` is missing or malformed/],
    [formatAnchorHint({ ...hint, ref: 'refs/heads/a b' }), /`ref` is missing or malformed/],
  ])('is refused as %j', (text, wrong) => {
    const read = readAnchorHint(Buffer.from(text));
    expect('wrong' in read ? read.wrong : '').toMatch(wrong);
  });
});

describe('the rules for a request', () => {
  const life = { reason: 'x', expires: '2026-12-01T00:00:00Z', apiVersion: 'windlass/v1' } as const;

  it('are those of every stack that it touches, and only whom all of them let ask may ask', () => {
    const policy = policyOf({
      rules: [
        { ...restoreRule, stacks: ['shop'], requesters: ['anna', 'dora'], maxLifetime: '2h' },
        { ...restoreRule, stacks: ['db-*'], requesters: ['dora'], approvers: ['bert', 'cleo'], threshold: 1 },
      ],
    });
    const archive = 'c'.repeat(64);
    const rules = rulesFor({ ...life, kind: 'Restore', stack: 'shop', target: 'db-1', archive }, policy, DAY);
    expect(rules).toMatchObject({
      requesters: ['dora'],
      approvers: ['anna', 'bert', 'cleo'],
      threshold: 2,
      mostMs: 7_200_000,
      without: [],
    });
    expect(rulesFor({ ...life, kind: 'Restore', stack: 'other', archive }, policy, DAY).without).toEqual(['other']);
  });
});
