// Whatever statements are thrown together, a request is ready only by enough people whom the rule names; and more noes never make a yes.
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type EvaluateRequestInput,
  evaluateRequest,
  type SeenStatement,
} from '../../../src/core/state/trust/evaluate-request.ts';
import type { RawGitObject } from '../../../src/core/state/trust/judge.ts';
import type { PolicyVersion } from '../../../src/core/state/trust/policy-file.ts';
import { STATEMENT_TYPES } from '../../../src/core/state/trust/statement.ts';
import {
  anchorOf,
  DAY,
  ENVIRONMENT,
  FLEET,
  HOUR,
  type Name,
  NOW,
  nonce,
  policyOf,
  REF,
  readingsOf,
  requestBytes,
  restoreRule,
  type SaidMore,
  say,
  secondKeys,
  sha256Of,
} from './court.ts';

const bytes = requestBytes();
const subject = sha256Of(bytes);
let policy: PolicyVersion;
beforeAll(() => {
  policy = policyOf({
    rules: [{ ...restoreRule, requesters: ['anna', 'dora'], approvers: ['bert', 'cleo'], threshold: 2 }],
  });
});

const evaluate = (statements: readonly SeenStatement[], more: Partial<EvaluateRequestInput> = {}) =>
  evaluateRequest({
    path: 'requests/orders.yaml',
    bytes,
    tip: { tip: '2'.repeat(40), descendsFromGenesis: true, descendsFromAccepted: true, isRegularBlob: true },
    statements,
    policy,
    anchor: anchorOf(),
    spent: { ids: new Set(), subjects: new Set(), nonces: new Set(), sinceMs: 0 },
    nowMs: NOW,
    ...more,
  });

/** How one statement is made; the flaws are drawn seldom enough that whole ones are common. */
interface Draw {
  readonly who: Name;
  readonly type: (typeof STATEMENT_TYPES)[number];
  readonly flaw: keyof typeof FLAWS;
  readonly isSecondKey: boolean;
  readonly seenMs: number;
  readonly datedMs: number;
}

const FLAWS = {
  none: {},
  tag: { asTag: true },
  unsigned: { isUnsigned: true },
  merge: { parents: ['1'.repeat(40), '2'.repeat(40)] },
  fleet: { fleet: 'fleet-other' },
  ref: { ref: 'refs/heads/other' },
  environment: { environment: 'staging' },
  policy: { policy: 'f'.repeat(64) },
  subject: { subject: 'f'.repeat(64) },
  expired: { expiresMs: NOW - HOUR },
  future: { datedMs: NOW + DAY },
  nonce: { nonce: 'e'.repeat(32) },
} as const satisfies Record<string, SaidMore>;

const draw = (
  who: readonly Name[],
  types = STATEMENT_TYPES as readonly (typeof STATEMENT_TYPES)[number][],
): fc.Arbitrary<Draw> =>
  fc.record({
    who: fc.constantFrom(...who),
    type: fc.constantFrom(...types),
    flaw: fc.oneof(
      { weight: 5, arbitrary: fc.constant('none' as const) },
      { weight: 1, arbitrary: fc.constantFrom(...(Object.keys(FLAWS) as (keyof typeof FLAWS)[])) },
    ),
    isSecondKey: fc.boolean(),
    seenMs: fc.integer({ min: NOW - 3 * HOUR, max: NOW }),
    datedMs: fc.integer({ min: -300, max: -60 }).map((minutes) => NOW + minutes * 60_000),
  });

function objectOf({ who, type, flaw, isSecondKey, datedMs }: Draw): RawGitObject {
  const key = isSecondKey && (who === 'anna' || who === 'bert') ? { key: secondKeys[who] } : {};
  return say(who, type, subject, policy.sha256, { datedMs, ...key, ...FLAWS[flaw] });
}

const judged = (draws: readonly Draw[]) =>
  readingsOf({
    policy,
    objects: draws.map(objectOf),
    seenMs: draws.length === 0 ? [null] : draws.map(({ seenMs }) => seenMs),
  });

describe('no combination of statements', () => {
  it('by people who may not approve is ever ready', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(draw(['anna', 'dora', 'mallory', 'emil']), { maxLength: 8 }), async (draws) => {
        expect(evaluate(await judged(draws)).state).not.toBe('ready');
      }),
      { numRuns: 150 },
    );
  });

  it('by one approver alone, with whoever else, is ever ready', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(draw(['anna', 'dora', 'mallory', 'bert']), { maxLength: 8 }), async (draws) => {
        expect(evaluate(await judged(draws)).state).not.toBe('ready');
      }),
      { numRuns: 150 },
    );
  });

  it('is ready without a whole request and a whole approval by each of two approvers, and none is with a rejection', async () => {
    let ready = 0;
    await fc.assert(
      fc.asyncProperty(
        // The core of an honest request, each part of it flawed now and then, so that some are ready in every run.
        fc
          .tuple(
            draw(['anna'], ['request']),
            draw(['bert'], ['approve']),
            draw(['cleo'], ['approve']),
            fc.array(draw(['anna', 'bert', 'cleo', 'dora'], ['request', 'approve', 'approve', 'withdraw']), {
              maxLength: 5,
            }),
          )
          .map(([asked, first, second, more]) => [asked, first, second, ...more]),
        async (draws) => {
          const statements = await judged(draws);
          const found = evaluate(statements);
          const isWhole = ({ flaw }: Draw) => ['none', 'tag', 'nonce'].includes(flaw);
          const by = (type: Draw['type']) =>
            new Set(draws.filter((one) => one.type === type && isWhole(one)).map(({ who }) => who));
          if (found.state !== 'ready') return;
          ready += 1;
          expect(by('request').has('anna') || by('request').has('dora')).toBe(true);
          expect(by('approve').has('bert') && by('approve').has('cleo')).toBe(true);
          expect(new Set(found.approvals.map(({ principal }) => principal)).size).toBe(found.approvals.length);
          expect(new Set(found.nonces).size).toBe(found.nonces.length);
          const [no] = await judged([
            { who: 'cleo', type: 'reject', flaw: 'none', isSecondKey: false, seenMs: NOW, datedMs: NOW - HOUR },
          ]);
          expect(evaluate([...statements, no!]).state).toBe('rejected');
          expect(evaluate(statements, { policy: null }).state).toBe('refused');
          expect(
            evaluate(statements, {
              spent: { ids: new Set(['orders']), subjects: new Set(), nonces: new Set(), sinceMs: 0 },
            }).state,
          ).toBe('refused');
          const spent = {
            ids: new Set<string>(),
            subjects: new Set<string>(),
            nonces: new Set(found.nonces),
            sinceMs: 0,
          };
          expect(evaluate(statements, { spent }).nonces.filter((one) => spent.nonces.has(one))).toEqual([]);
        },
      ),
      { numRuns: 300 },
    );
    expect(ready).toBeGreaterThan(0);
  });

  it('is judged otherwise in another order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(draw(['anna', 'bert', 'cleo', 'dora', 'mallory']), { maxLength: 8 }),
        fc.infiniteStream(fc.nat()),
        async (draws, noise) => {
          const statements = await judged(draws);
          const shuffled = statements
            .map((one) => ({ one, rank: noise.next().value as number }))
            .sort((a, b) => a.rank - b.rank)
            .map(({ one }) => one);
          const words = ({
            state,
            reason,
            missing,
            untilMs,
            requester,
            approvals,
            nonces,
          }: ReturnType<typeof evaluate>) => ({
            state,
            reason,
            missing,
            untilMs,
            requester,
            approvals,
            nonces,
          });
          expect(words(evaluate(shuffled))).toEqual(words(evaluate(statements)));
        },
      ),
      { numRuns: 100 },
    );
  });
});

it('readings of any shape end in a standing that is never ready', () => {
  const statement = fc.record(
    {
      type: fc.constantFrom('request', 'approve', 'reject', 'withdraw', 'policy', 'force'),
      fleet: fc.constantFrom(FLEET, ''),
      ref: fc.constant(REF),
      environment: fc.constant(ENVIRONMENT),
      subject: fc.constantFrom(subject, ''),
      policy: fc.string({ maxLength: 2 }),
      expiresMs: fc.oneof(fc.constant(NOW + HOUR), fc.double()),
      nonce: fc.constantFrom(nonce(), nonce()),
      id: fc.string({ maxLength: 3 }),
      oid: fc.string({ maxLength: 3 }),
      principal: fc.constantFrom('anna', 'bert', 'cleo', 'constructor', '__proto__', 'toString'),
      datedMs: fc.oneof(fc.constant(NOW - HOUR), fc.double()),
    },
    { requiredKeys: [] },
  );
  const seen = fc.record({
    reading: fc.oneof(
      fc.record({
        kind: fc.constant('statement'),
        statement,
        judgedBy: fc.constantFrom(policy.sha256, ''),
        judgedAtMs: fc.oneof(fc.constant(NOW), fc.double()),
      }),
      fc.record(
        { kind: fc.constantFrom('none', 'refused', 'other'), oid: fc.string(), mentions: fc.constant([subject]) },
        { requiredKeys: ['kind'] },
      ),
    ),
    firstSeenMs: fc.oneof(fc.constant(NOW - HOUR), fc.constant(null), fc.double()),
  });
  fc.assert(
    fc.property(fc.array(seen, { maxLength: 8 }), (statements) => {
      // None of them names the policy in effect, so none can count.
      const found = evaluate(statements as unknown as readonly SeenStatement[]);
      expect(found.state).not.toBe('ready');
    }),
  );
});
