// Evaluation of requests: the honest way, and each attack, with the reason that it must end in.
import { beforeAll, describe, expect, it } from 'vitest';
import { formatInstant } from '../../../src/core/spec/request.ts';
import { evaluateRequest } from '../../../src/core/state/trust/evaluate-request.ts';
import type { RawGitObject } from '../../../src/core/state/trust/judge.ts';
import type { PolicyVersion } from '../../../src/core/state/trust/policy-file.ts';
import { signersOf } from '../../../src/core/state/trust/policy-signers.ts';
import {
  anchorOf,
  type Case,
  DAY,
  evaluate,
  HOUR,
  keys,
  type Name,
  NOW,
  nonce,
  policyOf,
  principals,
  readingsOf,
  requestBytes,
  resigned,
  restoreRule,
  type SaidMore,
  say,
  secondKeys,
  sha256Of,
} from './court.ts';
import { commitPayload, handEd25519, handSign, insertSignature, objectId } from './material.ts';

const bytes = requestBytes();
const subject = sha256Of(bytes);
let policy: PolicyVersion;
beforeAll(() => {
  policy = policyOf();
});

const ask = (who: Name = 'anna', more: SaidMore = {}) => say(who, 'request', subject, policy.sha256, more);
const approve = (who: Name, more: SaidMore = {}) =>
  say(who, 'approve', subject, policy.sha256, { datedMs: NOW - 90 * 60_000, ...more });
const reject = (who: Name, more: SaidMore = {}) => say(who, 'reject', subject, policy.sha256, more);
const withdraw = (who: Name, more: SaidMore = {}) =>
  say(who, 'withdraw', subject, policy.sha256, { datedMs: NOW - HOUR, ...more });
const honest = () => [ask(), approve('bert'), approve('cleo')];

const messageOf = ({ bytes: raw }: RawGitObject): string =>
  Buffer.from(raw).toString().split('\n\n').slice(1).join('\n\n');

/** State, reason, and the reasons of what was ignored, in order. */
async function standing(one: Case): Promise<string> {
  const { state, reason, ignored } = await evaluate(one);
  return [state, reason, ...ignored.map((each) => each.reason)].join(' ');
}

describe('a request that is asked for and approved', () => {
  it('is ready, and says what a claim must spend', async () => {
    const objects = honest();
    const found = await evaluate({ objects });
    expect(found).toMatchObject({
      state: 'ready',
      reason: 'authorised',
      id: 'orders',
      subject,
      missing: 0,
      mayStillSign: [],
      rules: [0],
      ignored: [],
      requester: { principal: 'anna', oid: objects[0]!.oid },
    });
    expect(found.approvals.map(({ principal }) => principal).sort()).toEqual(['bert', 'cleo']);
    expect(new Set(found.nonces).size).toBe(3);
    expect(found.request).toMatchObject({ kind: 'Restore', stack: 'shop' });
  });

  it('may be approved by security keys, which were touched, and not by one that was not', async () => {
    const token = handEd25519('ssh:');
    const by = policyOf({ principals: { ...principals, bert: { ssh: [`${token.line} bert@token`] } } });
    const asked = say('anna', 'request', subject, by.sha256);
    const cleo = say('cleo', 'approve', subject, by.sha256, { datedMs: NOW - HOUR });
    const touched = say('bert', 'approve', subject, by.sha256, { datedMs: NOW - HOUR, key: token });
    expect(await standing({ policy: by, objects: [asked, touched, cleo] })).toBe('ready authorised');
    const payload = Buffer.from(commitPayload({ message: messageOf(touched), dated: (NOW - HOUR) / 1000 }));
    const signed = insertSignature(payload, handSign(token, payload, { flags: 0 }));
    const untouched = { oid: objectId('commit', signed), type: 'commit' as const, bytes: signed };
    const { state, ignored } = await evaluate({ policy: by, objects: [asked, untouched, cleo] });
    expect([state, ignored.map(({ reason }) => reason)]).toEqual(['awaitingApprovals', ['no-user-presence']]);
  });

  it('may be approved by annotated tags', async () => {
    expect(
      await standing({ objects: [ask('anna', { asTag: true }), approve('bert', { asTag: true }), approve('cleo')] }),
    ).toBe('ready authorised');
  });

  it('waits, and names who may still sign and how many must', async () => {
    expect(await evaluate({ objects: [ask(), approve('bert')] })).toMatchObject({
      state: 'awaitingApprovals',
      reason: 'approvals-missing',
      missing: 1,
      mayStillSign: ['cleo'],
      isFinal: false,
    });
  });

  it('passes ordinary commits over', async () => {
    expect(
      await standing({ objects: [...honest(), say('bert', 'approve', subject, '', { message: 'Fix a typo\n' })] }),
    ).toBe('ready authorised');
  });

  it('counts the approval of whoever asks when the rule says so', async () => {
    const open = policyOf({ rules: [{ ...restoreRule, requesterMayApprove: true }] });
    const by = (who: Name, type: 'request' | 'approve') => say(who, type, subject, open.sha256);
    expect(
      await standing({ policy: open, objects: [by('anna', 'request'), by('anna', 'approve'), by('bert', 'approve')] }),
    ).toBe('ready authorised');
  });

  it('is asked for anew under the same id after the file was changed', async () => {
    const changed = requestBytes({ reason: 'another one' });
    const again = (who: Name, type: 'request' | 'approve') => say(who, type, sha256Of(changed), policy.sha256);
    expect(
      await standing({
        bytes: changed,
        objects: [...honest(), again('anna', 'request'), again('bert', 'approve'), again('cleo', 'approve')],
      }),
    ).toBe('ready authorised');
  });
});

it('names the commit that lost the signature of a request, also in a squash', async () => {
  const unsigned = ask('anna', { isUnsigned: true });
  expect((await evaluate({ objects: [unsigned] })).detail).toBe(`${unsigned.oid}: no-signature`);
  const message = Buffer.from(ask().bytes).toString().split('\n\n').slice(1).join('\n\n');
  const squash = ask('anna', {
    isUnsigned: true,
    message: `Restore shop (#12)\n\n* ${message}\nCo-authored-by: A <a@b.c>\n`,
  });
  expect((await evaluate({ objects: [squash] })).detail).toBe(`${squash.oid}: trailers-not-last`);
  expect((await evaluate({ objects: [approve('bert', { isUnsigned: true })] })).detail).toBe('');
});

it('says what is wrong with a file in one bounded line, whatever its words are', async () => {
  const key = `x\\n2026-11-01 request two: succeeded\\u202e${'y'.repeat(100_000)}`;
  const text = requestBytes().toString().replace('{', `{ "${key}": 1,`);
  const { state, reason, detail } = await evaluate({ bytes: Buffer.from(text) });
  expect([state, reason, detail.length < 600]).toEqual(['refused', 'request-invalid', true]);
  expect(detail).not.toMatch(/[\p{Cc}\u202e]/u);
  expect(detail).toMatch(/unknown key `x\\u\{a\}2026-11-01 request two: succeeded\\u\{202e\}yyy/);
});

describe('a memory that begins late', () => {
  const at = NOW - HOUR;
  it('counts nothing that was signed before it, for that may have run', async () => {
    expect(await standing({ objects: honest(), spent: { sinceMs: at } })).toBe(
      'refused request-predates-ledger predates-ledger predates-ledger predates-ledger',
    );
    expect(await standing({ objects: honest(), spent: { sinceMs: null } })).toMatch(/^refused request-predates-ledger/);
    const objects = [ask('anna', { datedMs: at }), ask(), approve('bert', { datedMs: at }), approve('cleo')];
    expect(await standing({ objects, spent: { sinceMs: at } })).toBe(
      'awaitingApprovals approvals-missing predates-ledger predates-ledger',
    );
  });

  it('says that it may have run before anything else, whatever words anybody adds and whatever has become of its signers', async () => {
    const told = async (objects: readonly RawGitObject[], more: Partial<Case> = {}) =>
      (await evaluate({ objects, spent: { sinceMs: at }, ...more })).reason;
    const malformed = say('mallory', 'request', subject, policy.sha256, {
      message: `Ask\n\nWindlass-Type: request\nWindlass-Subject: sha256:${subject}\n`,
    });
    const unsigned = ask('anna', { isUnsigned: true });
    expect(await told([malformed, unsigned, ...honest()])).toBe('request-predates-ledger');
    expect(await told([unsigned, approve('bert')])).toBe('request-predates-ledger');
    const next = policyOf({ version: 2, previous: policy.sha256 });
    expect(await told(honest(), { policy: next })).toBe('request-predates-ledger');
    expect(await told([malformed, unsigned])).toBe('request-unsigned');
  });

  it('counts what is signed again, and still hears whoever said no before', async () => {
    const again = () => [
      ask('anna', { datedMs: at }),
      approve('bert', { datedMs: at + 1000 }),
      approve('cleo', { datedMs: at }),
    ];
    expect(await standing({ objects: again(), spent: { sinceMs: at } })).toBe('ready authorised');
    expect(
      await standing({ objects: [...again(), reject('bert', { datedMs: at - HOUR })], spent: { sinceMs: at } }),
    ).toBe('rejected rejected-by-approver');
  });
});

describe('time', () => {
  const slow = () => policyOf({ rules: [{ ...restoreRule, minDelay: '2h' }] });
  const by = (rule: PolicyVersion, who: Name, type: 'request' | 'approve', more: SaidMore = {}) =>
    say(who, type, subject, rule.sha256, { datedMs: NOW - 5 * HOUR, ...more });

  it('runs the delay from when the last needed approval was first seen', async () => {
    const rule = slow();
    const objects = [by(rule, 'anna', 'request'), by(rule, 'bert', 'approve'), by(rule, 'cleo', 'approve')];
    const seenMs = [NOW - 4 * HOUR, NOW - 3 * HOUR, NOW - HOUR];
    expect(await evaluate({ policy: rule, objects, seenMs })).toMatchObject({
      state: 'scheduled',
      reason: 'delay-running',
      detail: `until ${formatInstant(NOW + HOUR)}`,
      untilMs: NOW + HOUR,
    });
    expect(await standing({ policy: rule, objects, seenMs, nowMs: NOW + HOUR })).toBe('ready authorised');
    expect(await standing({ policy: rule, objects, seenMs, nowMs: NOW + HOUR - 1 })).toBe('scheduled delay-running');
  });

  it('does not start the delay anew for an approval on top', async () => {
    const rule = slow();
    const objects = [
      by(rule, 'dora', 'request'),
      by(rule, 'anna', 'approve'),
      by(rule, 'bert', 'approve'),
      by(rule, 'cleo', 'approve'),
    ];
    const seenMs = [NOW - 4 * HOUR, NOW - 3 * HOUR, NOW - 3 * HOUR, NOW - 60_000];
    expect(await standing({ policy: rule, objects, seenMs })).toBe('ready authorised');
  });

  it('does not run before notBefore', async () => {
    const later = requestBytes({ notBefore: formatInstant(NOW + HOUR) });
    const of = (who: Name, type: 'request' | 'approve') => say(who, type, sha256Of(later), policy.sha256);
    const objects = [of('anna', 'request'), of('bert', 'approve'), of('cleo', 'approve')];
    expect(await evaluate({ bytes: later, objects })).toMatchObject({
      state: 'scheduled',
      reason: 'not-before',
      detail: `until ${formatInstant(NOW + HOUR)}`,
      untilMs: NOW + HOUR,
    });
  });

  it('expires in its very second, for good', async () => {
    expect(await evaluate({ objects: honest(), nowMs: NOW + DAY })).toMatchObject({
      state: 'expired',
      reason: 'request-expired',
      isFinal: true,
    });
  });

  it.each([
    ['7d of the anchor', anchorOf(), 'maxLifetime' as const, '30d', NOW + 8 * DAY],
    ['2h of the rule', anchorOf(), 'maxLifetime' as const, '2h', NOW + HOUR],
  ])('refuses a life longer than %s', async (_, anchor, word, life, expiresMs) => {
    const rule = policyOf({ rules: [{ ...restoreRule, [word]: life }] });
    const long = requestBytes({ expires: formatInstant(expiresMs) });
    const of = (who: Name, type: 'request' | 'approve') =>
      say(who, type, sha256Of(long), rule.sha256, { expiresMs: NOW + 60_000 });
    const objects = [of('anna', 'request'), of('bert', 'approve'), of('cleo', 'approve')];
    expect(await standing({ policy: rule, anchor, bytes: long, objects })).toBe('refused lifetime-too-long');
  });

  it('refuses a statement that lives longer than its rule allows', async () => {
    const rule = policyOf({ rules: [{ ...restoreRule, maxLifetime: '3h' }] });
    const short = requestBytes({ expires: formatInstant(NOW + HOUR) });
    const of = (who: Name, type: 'request' | 'approve', expiresMs: number) =>
      say(who, type, sha256Of(short), rule.sha256, { expiresMs });
    const objects = [
      of('anna', 'request', NOW + HOUR),
      of('bert', 'approve', NOW + HOUR),
      of('cleo', 'approve', NOW + HOUR + 1000),
    ];
    expect(await standing({ policy: rule, bytes: short, objects })).toBe(
      'awaitingApprovals approvals-missing statement-lifetime',
    );
    expect(
      await standing({ policy: rule, bytes: short, objects: [of('anna', 'request', NOW + DAY), ...objects.slice(1)] }),
    ).toBe('refused lifetime-too-long');
    // The cure: who asked for too long asks again.
    expect(
      await standing({ policy: rule, bytes: short, objects: [of('anna', 'request', NOW + DAY), ...objects] }),
    ).toBe('awaitingApprovals approvals-missing statement-lifetime statement-lifetime');
  });
});

describe('each attack ends in its own reason', () => {
  const rows: readonly (readonly [string, string, () => Case | Promise<Case>])[] = [
    [
      'a request in an unsigned commit',
      'refused request-unsigned no-signature',
      () => ({ objects: [ask('anna', { isUnsigned: true })] }),
    ],
    ['a request that nobody signed at all', 'refused request-unsigned', () => ({ objects: [] })],
    [
      'approvals without anybody who asks',
      'refused request-unsigned nobody-asks nobody-asks',
      () => ({ objects: [approve('bert'), approve('cleo')] }),
    ],
    [
      'a stranger who asks',
      'refused request-unsigned unknown-key',
      () => ({ objects: [ask('mallory'), approve('bert')].slice(0, 1) }),
    ],
    [
      'a principal who may not ask',
      'refused requester-not-allowed',
      () => ({ objects: [ask('bert'), approve('anna'), approve('cleo')] }),
    ],
    [
      'a principal who may not approve',
      'awaitingApprovals approvals-missing not-an-approver',
      () => ({ objects: [ask(), approve('bert'), approve('dora')] }),
    ],
    [
      'whoever asks and approves too',
      'awaitingApprovals approvals-missing requester-may-not-approve',
      () => ({ objects: [ask(), approve('anna'), approve('bert')] }),
    ],
    [
      'whoever asks and approves with a second key',
      'awaitingApprovals approvals-missing requester-may-not-approve',
      () => ({ objects: [ask(), approve('anna', { key: secondKeys.anna }), approve('bert')] }),
    ],
    [
      'one person who approves with two keys',
      'awaitingApprovals approvals-missing same-person',
      () => ({ objects: [ask(), approve('bert'), approve('bert', { key: secondKeys.bert })] }),
    ],
    [
      'the same approval under another commit id',
      'awaitingApprovals approvals-missing statement-repeated',
      () => {
        const once = approve('bert', { nonce: 'a'.repeat(32) });
        return { objects: [ask(), once, resigned(once, keys.bert)] };
      },
    ],
    [
      'an approval by a revoked key',
      'awaitingApprovals approvals-missing revoked',
      () => ({
        anchor: anchorOf({ revoked: Buffer.from(`${keys.cleo.line}\n`) }),
        objects: honest(),
      }),
    ],
    [
      'a request by a revoked key',
      'refused request-unsigned revoked',
      () => ({ anchor: anchorOf({ revoked: Buffer.from(`${keys.anna.line}\n`) }), objects: [ask()] }),
    ],
    [
      'a revocation list that cannot be read',
      'refused request-unsigned bad-revocation-list bad-revocation-list bad-revocation-list',
      () => ({ anchor: anchorOf({ revoked: null }), objects: honest() }),
    ],
    [
      'a stolen key that the policy has retired, with a back-dated statement',
      'awaitingApprovals approvals-missing unknown-key',
      () => {
        const renewed = policyOf({ principals: { ...principals, cleo: { ssh: [secondKeys.cleo.line] } } });
        const of = (who: Name, type: 'request' | 'approve', more: SaidMore = {}) =>
          say(who, type, subject, renewed.sha256, more);
        return {
          policy: renewed,
          objects: [
            of('anna', 'request'),
            of('bert', 'approve'),
            of('cleo', 'approve', { key: keys.cleo, datedMs: NOW - 100 * DAY }),
          ],
        };
      },
    ],
    [
      'a back-dated approval',
      'awaitingApprovals approvals-missing dated-before-request',
      () => ({ objects: [ask(), approve('bert'), approve('cleo', { datedMs: NOW - 3 * DAY })] }),
    ],
    [
      'a back-dated request',
      'refused lifetime-too-long',
      () => ({ objects: [ask('anna', { datedMs: NOW - 30 * DAY }), approve('bert'), approve('cleo')] }),
    ],
    [
      'a future-dated approval',
      'awaitingApprovals approvals-missing dated-in-future',
      () => ({ objects: [ask(), approve('bert'), approve('cleo', { datedMs: NOW + HOUR })] }),
    ],
    [
      'an approval that was future-dated when it was first seen',
      'awaitingApprovals approvals-missing dated-after-seen',
      () => ({ objects: [ask(), approve('bert'), approve('cleo', { datedMs: NOW - 60_000 })], seenMs: [NOW - HOUR] }),
    ],
    [
      'a statement made for another fleet',
      'awaitingApprovals approvals-missing other-fleet',
      () => ({ objects: [ask(), approve('bert'), approve('cleo', { fleet: 'fleet-other' })] }),
    ],
    [
      'a statement cherry-picked from another ref',
      'awaitingApprovals approvals-missing other-ref',
      () => ({ objects: [ask(), approve('bert'), approve('cleo', { ref: 'refs/heads/staging' })] }),
    ],
    [
      'a statement made for another environment',
      'awaitingApprovals approvals-missing other-environment',
      () => ({ objects: [ask(), approve('bert'), approve('cleo', { environment: 'staging' })] }),
    ],
    [
      'a whole request of another fleet',
      'refused request-unsigned other-fleet other-fleet other-fleet',
      () => ({
        objects: [
          ask('anna', { fleet: 'fleet-other' }),
          approve('bert', { fleet: 'fleet-other' }),
          approve('cleo', { fleet: 'fleet-other' }),
        ],
      }),
    ],
    [
      'a file that was altered after it was approved',
      'refused request-unsigned',
      () => ({ bytes: requestBytes({ archive: 'b'.repeat(64) }), objects: honest() }),
    ],
    [
      'a file that was altered in one blank only',
      'refused request-unsigned',
      () => ({ bytes: Buffer.concat([bytes, Buffer.from('\n')]), objects: honest() }),
    ],
    [
      'a file that was altered, which the requester alone signs anew',
      'awaitingApprovals approvals-missing',
      () => {
        const altered = requestBytes({ archive: 'b'.repeat(64) });
        return { bytes: altered, objects: [...honest(), say('anna', 'request', sha256Of(altered), policy.sha256)] };
      },
    ],
    [
      'a policy in the statement that is not in effect',
      'awaitingApprovals approvals-missing other-policy',
      () => ({ objects: [ask(), approve('bert'), approve('cleo', { policy: 'f'.repeat(64) })] }),
    ],
    [
      'a request that grants itself a policy',
      'refused request-unsigned other-policy',
      () => ({ objects: [ask('anna', { policy: 'f'.repeat(64) })] }),
    ],
    [
      'statements judged by another policy than the one in effect',
      'refused request-unsigned judged-elsewhere',
      async () => ({
        objects: [ask()],
        signers: await signersOf(policyOf({ rules: [] }), new Uint8Array()),
      }),
    ],
    [
      'an expired approval',
      'awaitingApprovals approvals-missing statement-expired',
      () => ({ objects: [ask(), approve('bert'), approve('cleo', { expiresMs: NOW })] }),
    ],
    [
      'an approval that was first seen after it had expired',
      'awaitingApprovals approvals-missing statement-expired',
      () => ({
        objects: [ask(), approve('bert'), approve('cleo', { expiresMs: NOW - 2 * HOUR })],
        seenMs: [NOW - HOUR],
      }),
    ],
    [
      'an approval that was first seen after its expiry, by a clock that went back since',
      'awaitingApprovals approvals-missing seen-too-late',
      () => ({
        objects: [ask(), approve('bert'), approve('cleo', { expiresMs: NOW + 30_000 })],
        seenMs: [NOW - HOUR, NOW - HOUR, NOW + 60_000],
      }),
    ],
    [
      'an approval whose first sight is not recorded',
      'awaitingApprovals approvals-missing not-seen',
      () => ({ objects: honest(), seenMs: [NOW - HOUR, NOW - HOUR, null] }),
    ],
    [
      'an approval first seen in the future',
      'awaitingApprovals approvals-missing seen-in-future',
      () => ({ objects: honest(), seenMs: [NOW - HOUR, NOW - HOUR, NOW + HOUR] }),
    ],
    [
      'two approvals with one nonce',
      'awaitingApprovals approvals-missing nonce-duplicated',
      () => {
        const one = nonce();
        return { objects: [ask(), approve('bert', { nonce: one }), approve('cleo', { nonce: one })] };
      },
    ],
    [
      'an approval with the nonce of the request',
      'awaitingApprovals approvals-missing nonce-duplicated',
      () => {
        const one = nonce();
        return { objects: [ask('anna', { nonce: one }), approve('bert', { nonce: one }), approve('cleo')] };
      },
    ],
    [
      'an approval whose nonce was spent',
      'awaitingApprovals approvals-missing nonce-spent',
      () => {
        const one = nonce();
        return {
          objects: [ask(), approve('bert'), approve('cleo', { nonce: one })],
          spent: { nonces: new Set([one]) },
        };
      },
    ],
    [
      'a request whose nonce was spent',
      'refused nonce-replayed nonce-spent',
      () => {
        const one = nonce();
        return { objects: [ask('anna', { nonce: one })], spent: { nonces: new Set([one]) } };
      },
    ],
    [
      'an id that was claimed',
      'refused request-claimed',
      () => ({ objects: honest(), spent: { ids: new Set(['orders']) } }),
    ],
    [
      'a copy of a claimed file under another id',
      'refused request-replayed',
      () => ({ path: 'requests/again.yaml', objects: honest(), spent: { subjects: new Set([subject]) } }),
    ],
    [
      'a merge commit as a statement',
      'awaitingApprovals approvals-missing not-single-parent',
      () => ({ objects: [ask(), approve('bert'), approve('cleo', { parents: ['1'.repeat(40), '2'.repeat(40)] })] }),
    ],
    [
      'a root commit as a statement',
      'awaitingApprovals approvals-missing not-single-parent',
      () => ({ objects: [ask(), approve('bert'), approve('cleo', { parents: [] })] }),
    ],
    [
      'a tip that does not descend from genesis',
      'refused tip-not-from-genesis',
      () => ({ objects: honest(), tip: { descendsFromGenesis: false } }),
    ],
    [
      'a rewritten history',
      'refused history-rewritten',
      () => ({ objects: honest(), tip: { descendsFromAccepted: false } }),
    ],
    [
      'a file that an unsigned commit removed, or made a link',
      'refused request-not-regular',
      () => ({ objects: honest(), tip: { isRegularBlob: false } }),
    ],
    [
      'a path beside the requests',
      'refused request-path',
      () => ({ objects: honest(), path: 'requests/old/orders.yaml' }),
    ],
    ['a path of another form', 'refused request-path', () => ({ objects: honest(), path: 'requests/Orders.yaml' })],
    ['no policy in effect', 'refused policy-absent', () => ({ objects: honest(), policy: null })],
    [
      'a policy of another fleet',
      'refused fleet-mismatch',
      () => ({ objects: honest(), policy: policyOf({ fleet: 'fleet-other' }) }),
    ],
    ['a clock that tells no time', 'refused clock-unusable', () => ({ objects: [], nowMs: Number.NaN })],
    [
      'a file that is no request',
      'refused request-invalid',
      () => ({ bytes: Buffer.from('services: {}\n'), objects: [] }),
    ],
    [
      'a file of the size of a bomb',
      'refused request-too-large',
      () => ({ bytes: Buffer.alloc(1024 * 1024 + 1, 32), objects: [] }),
    ],
  ];

  it.each(rows)('%s: %s', async (_, expected, make) => {
    expect(await standing(await make())).toBe(expected);
  });

  it('a policy without rules, or whose rules name other stacks, other operations or only exclusions, allows nothing', async () => {
    for (const rules of [
      [],
      [{ ...restoreRule, stacks: ['other'] }],
      [{ ...restoreRule, operation: 'purge' as const }],
      [{ operation: 'deploy' as const, stacks: ['*'], requesters: ['anna'] }],
      [{ ...restoreRule, stacks: ['*', '!shop'] }],
    ]) {
      const bare = policyOf({ rules });
      expect(await standing({ policy: bare, objects: [say('anna', 'request', subject, bare.sha256)] })).toBe(
        'refused rule-absent',
      );
    }
  });

  it('a rule that slipped through without people is refused', async () => {
    const objects = honest();
    for (const bent of [{ approvers: [] }, { threshold: 0 }, { requesters: [] }, { threshold: undefined }]) {
      const hollow = { ...policy, policy: { ...policy.policy, rules: [{ ...policy.policy.rules[0]!, ...bent }] } };
      expect(await standing({ policy: hollow as PolicyVersion, objects })).toBe('refused rule-empty');
    }
  });

  it('whatever goes wrong inside is a refusal', async () => {
    const broken = {
      path: 'requests/orders.yaml',
      bytes,
      tip: null,
      statements: null,
      policy,
      anchor: anchorOf(),
      nowMs: NOW,
    };
    expect(evaluateRequest(broken as never)).toMatchObject({ state: 'refused', reason: 'authority-error' });
    expect(evaluateRequest(undefined as never)).toMatchObject({ state: 'refused', reason: 'authority-error' });
  });

  it('a statement about a policy says nothing about a request, though it names its bytes', async () => {
    const objects = [...honest().slice(0, 2), say('cleo', 'policy', subject, policy.sha256)];
    expect(await standing({ objects })).toBe('awaitingApprovals approvals-missing not-about-requests');
  });

  it('a reading that names nobody of the policy does not count, however it came about', async () => {
    const [asked, first, second] = await readingsOf({ objects: honest() });
    for (const principal of ['zoe', 'constructor', '__proto__']) {
      if (second?.reading.kind !== 'statement') throw new Error('a statement was expected');
      const named = {
        ...second,
        reading: { ...second.reading, statement: { ...second.reading.statement, principal } },
      };
      const found = evaluateRequest({
        path: 'requests/orders.yaml',
        bytes,
        tip: { tip: '', descendsFromGenesis: true, descendsFromAccepted: true, isRegularBlob: true },
        statements: [asked!, first!, named],
        policy,
        anchor: anchorOf(),
        spent: { ids: new Set(), subjects: new Set(), nonces: new Set(), sinceMs: 0 },
        nowMs: NOW,
      });
      expect([found.state, found.ignored[0]?.reason]).toEqual(['awaitingApprovals', 'signer-unnamed']);
    }
  });

  it('facts that are not plainly true are false', async () => {
    for (const tip of [{ descendsFromAccepted: 'yes' }, { isRegularBlob: undefined }, { descendsFromGenesis: 1 }])
      expect((await evaluate({ objects: honest(), tip: tip as never })).state).toBe('refused');
  });

  it('a reading that is not of now does not count', async () => {
    const objects = honest();
    const statements = await readingsOf({ objects, nowMs: NOW - HOUR });
    const found = evaluateRequest({
      path: 'requests/orders.yaml',
      bytes,
      tip: { tip: '', descendsFromGenesis: true, descendsFromAccepted: true, isRegularBlob: true },
      statements,
      policy,
      anchor: anchorOf(),
      spent: { ids: new Set(), subjects: new Set(), nonces: new Set(), sinceMs: 0 },
      nowMs: NOW,
    });
    expect([found.state, ...found.ignored.map(({ reason }) => reason)]).toEqual([
      'refused',
      ...Array(3).fill('judged-stale'),
    ]);
  });
});

describe('those who say no', () => {
  it.each<readonly [string, string, () => readonly RawGitObject[]]>([
    ['an approver rejects it', 'rejected rejected-by-approver', () => [...honest(), reject('bert')]],
    [
      'a late rejection by a third approver holds',
      'rejected rejected-by-approver',
      () => [ask('dora'), approve('anna'), approve('bert'), reject('cleo')],
    ],
    [
      'a rejection under an older policy holds',
      'rejected rejected-by-approver',
      () => [...honest(), reject('cleo', { policy: 'f'.repeat(64) })],
    ],
    [
      'a rejection that has expired holds',
      'rejected rejected-by-approver',
      () => [...honest(), reject('cleo', { expiresMs: NOW - 1000 })],
    ],
    ['a rejection by somebody else does not', 'ready authorised not-an-approver', () => [...honest(), reject('dora')]],
    ['a rejection by a stranger does not', 'ready authorised unknown-key', () => [...honest(), reject('mallory')]],
    [
      'a rejection in another environment does not',
      'ready authorised other-environment',
      () => [...honest(), reject('bert', { environment: 'staging' })],
    ],
    ['whoever asked withdraws it', 'withdrawn withdrawn-by-requester', () => [...honest(), withdraw('anna')]],
    [
      'an approver withdraws the own approval only',
      'awaitingApprovals approvals-missing approval-withdrawn',
      () => [...honest(), withdraw('bert')],
    ],
    [
      'an approval of the same second as its withdrawal does not count',
      'awaitingApprovals approvals-missing approval-withdrawn',
      () => [...honest(), withdraw('bert', { datedMs: NOW - 90 * 60_000 })],
    ],
    [
      'an approver who approves once more counts',
      'ready authorised approval-withdrawn',
      () => [
        ...honest(),
        withdraw('bert', { datedMs: NOW - 80 * 60_000 }),
        approve('bert', { datedMs: NOW - 70 * 60_000 }),
      ],
    ],
    [
      'a withdrawal by somebody who said nothing changes nothing',
      'ready authorised nothing-to-withdraw',
      () => [...honest(), withdraw('dora')],
    ],
  ])('%s', async (_, expected, objects) => {
    expect(await standing({ objects: objects() })).toBe(expected);
  });

  it('counts a withdrawal whichever of the two is carried here first', async () => {
    const objects = [...honest(), withdraw('bert')];
    expect(await standing({ objects, seenMs: [NOW - HOUR, NOW, NOW - HOUR, NOW - 2 * HOUR] })).toBe(
      'awaitingApprovals approvals-missing approval-withdrawn',
    );
  });

  it('is heard even when its first sight is not recorded', async () => {
    expect(
      await standing({ objects: [...honest(), reject('cleo')], seenMs: [NOW - HOUR, NOW - HOUR, NOW - HOUR, null] }),
    ).toBe('rejected rejected-by-approver');
  });

  it('says for good only what nothing can change', async () => {
    expect((await evaluate({ objects: [...honest(), reject('cleo')] })).isFinal).toBe(true);
    expect((await evaluate({ objects: [...honest(), withdraw('anna')] })).isFinal).toBe(true);
    expect((await evaluate({ objects: [], spent: { ids: new Set(['orders']) } })).isFinal).toBe(true);
    expect((await evaluate({ objects: [] })).isFinal).toBe(false);
    expect((await evaluate({ objects: honest(), tip: { descendsFromAccepted: false } })).isFinal).toBe(false);
  });
});

describe('the rule that holds', () => {
  const strictRule = {
    ...restoreRule,
    stacks: ['db-*'],
    threshold: 2,
    requesters: ['dora'],
    approvers: ['bert', 'cleo'],
  };
  const looseRule = { ...restoreRule, stacks: ['*'], threshold: 1, requesters: ['dora'], approvers: ['anna'] };
  const run = (layered: PolicyVersion, file: Buffer, who: readonly Name[], asker: Name = 'dora') =>
    standing({
      policy: layered,
      bytes: file,
      objects: [
        say(asker, 'request', sha256Of(file), layered.sha256),
        ...who.map((name) => say(name, 'approve', sha256Of(file), layered.sha256)),
      ],
    });

  it('is the first that names the operation and the stack; a wider one behind it opens nothing', async () => {
    const layered = policyOf({ rules: [strictRule, looseRule] });
    const file = requestBytes({ stack: 'db-main' });
    expect(await run(layered, file, ['anna'])).toBe('awaitingApprovals approvals-missing not-an-approver');
    expect(await run(layered, file, ['bert', 'cleo'])).toBe('ready authorised');
    expect(await run(layered, requestBytes(), ['anna'])).toBe('ready authorised');
  });

  it('holds for the target as for the source, each by its own rule', async () => {
    const layered = policyOf({ rules: [strictRule, looseRule] });
    const file = requestBytes({ stack: 'shop', target: 'db-main' });
    expect(await run(layered, file, ['anna'])).toBe('awaitingApprovals approvals-missing');
    expect(await run(layered, file, ['bert', 'cleo'])).toBe('awaitingApprovals approvals-missing');
    expect(await run(layered, file, ['anna', 'bert', 'cleo'])).toBe('ready authorised');
  });

  it('refuses a group of which one stack, or one new name, is named by no rule', async () => {
    const recover = (more: Record<string, unknown>) =>
      requestBytes({ kind: 'Recover', stack: undefined, stacks: ['db-a', 'db-b'], ...more });
    const grouped = policyOf({ rules: [{ ...strictRule, operation: 'recover' }] });
    expect(await run(grouped, recover({}), ['bert', 'cleo'])).toBe('ready authorised');
    expect(await run(grouped, recover({ stacks: ['db-a', 'shop'] }), ['bert', 'cleo'])).toBe('refused rule-absent');
    expect(await run(grouped, recover({ rename: { 'db-a': 'shop' } }), ['bert', 'cleo'])).toBe('refused rule-absent');
  });

  it('refuses when whoever asks may ask for one of the stacks only', async () => {
    const split = policyOf({ rules: [strictRule, { ...looseRule, requesters: ['anna'], approvers: ['bert'] }] });
    const file = requestBytes({ stack: 'shop', target: 'db-main' });
    expect(await run(split, file, ['bert', 'cleo'], 'dora')).toBe('refused requester-not-allowed');
    expect(await run(split, file, ['bert', 'cleo'], 'anna')).toBe('refused requester-not-allowed');
  });

  it('lets nobody who asked approve, not even a second asker', async () => {
    const open = policyOf({ rules: [{ ...restoreRule, threshold: 1 }] });
    const of = (who: Name, type: 'request' | 'approve') => say(who, type, subject, open.sha256);
    expect(
      await standing({ policy: open, objects: [of('dora', 'request'), of('anna', 'request'), of('anna', 'approve')] }),
    ).toMatch(/^awaitingApprovals approvals-missing/);
  });
});
