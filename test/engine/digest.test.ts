import { describe, expect, test } from 'vitest';
import { assertFresh, canonicalJson, planDigest, StalePlanError } from '../../src/engine/digest.ts';
import { planOf, step } from './fixture.ts';

describe('canonical JSON', () => {
  test.each<[unknown, string]>([
    [{ b: 1, a: [true, null, 'x'] }, '{"a":[true,null,"x"],"b":1}'],
    [{ b: undefined, a: { d: 1, c: 2 } }, '{"a":{"c":2,"d":1}}'],
    [{ 10: 1, 9: 2, a: 3 }, '{"10":1,"9":2,"a":3}'],
    ['é\n', '"é\\n"'],
    [-0, '0'],
  ])('of %j is %s', (value, text) => {
    expect(canonicalJson(value)).toBe(text);
  });

  const cycle: unknown[] = [];
  cycle.push(cycle);
  test.each([
    [Number.NaN],
    [undefined],
    [() => 1],
    [1n],
    [Symbol('s')],
    [new Map()],
    [new Date()],
    [cycle],
    [[undefined]],
  ])('refuses %s rather than losing it', (value) => {
    expect(() => canonicalJson(value)).toThrow(/canonical JSON cannot hold/);
  });

  test('takes a value that occurs twice without a cycle', () => {
    const shared = { x: 1 };
    expect(canonicalJson([shared, shared])).toBe('[{"x":1},{"x":1}]');
  });
});

describe('the digest of a plan', () => {
  const plan = planOf([step('s')])
    .build()
    .toData();
  const digest = planDigest({ plan, desired: 'd1', observed: { z: 1, a: 2 } });

  test('is the same for the same facts in another order', () => {
    expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(planDigest({ observed: { a: 2, z: 1 }, desired: 'd1', plan: JSON.parse(JSON.stringify(plan)) })).toBe(
      digest,
    );
  });

  test.each([
    [
      'its steps',
      {
        plan: planOf([step('other')])
          .build()
          .toData(),
        desired: 'd1',
        observed: { z: 1, a: 2 },
      },
    ],
    ['what is desired', { plan, desired: 'd2', observed: { z: 1, a: 2 } }],
    ['what was observed', { plan, desired: 'd1', observed: { z: 1, a: 3 } }],
  ])('changes with %s', (_name, parts) => {
    expect(planDigest(parts)).not.toBe(digest);
  });

  test('of a saved plan must still be the current one', () => {
    expect(() => assertFresh(digest, digest)).not.toThrow();
    expect(() => assertFresh(digest, 'sha256:0')).toThrow(StalePlanError);
    expect(() => assertFresh(digest, 'sha256:0')).toThrow('the plan is stale');
  });
});
