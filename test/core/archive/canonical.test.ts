import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalText, depthOf } from '../../../src/core/archive/canonical.ts';

describe('canonical JSON', () => {
  it.each<[unknown, string]>([
    [{ b: 1, a: [true, null, 'x'] }, '{"a":[true,null,"x"],"b":1}'],
    // The examples of RFC 8785.
    [[333333333.3333333, 4.5, 2e-3, 1e-27], '[333333333.3333333,4.5,0.002,1e-27]'],
    [
      { '€': 1, '\r': 2, '\ufb33': 3, '1': 4, '😀': 5, '\u0080': 6, ö: 7 },
      '{"\\r":2,"1":4,"\u0080":6,"ö":7,"€":1,"😀":5,"\ufb33":3}',
    ],
    ['\u000f\n"\\/<script>', '"\\u000f\\n\\"\\\\/<script>"'],
    [-0, '0'],
  ])('of %j is one text', (value, expected) => {
    expect(canonicalText(value)).toBe(expected);
  });

  it.each([
    [undefined],
    [Number.NaN],
    [Number.POSITIVE_INFINITY],
    [2 ** 53],
    ['\ud800'],
    [{ a: undefined }],
    [() => 1],
    [1n],
  ])('refuses %s, which JSON cannot hold exactly', (value) => {
    expect(() => canonicalText(value)).toThrow();
  });

  it('gives every value back, and the same text for the same value', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        let text: string;
        try {
          text = canonicalText(value);
        } catch {
          return;
        }
        expect(canonicalText(JSON.parse(text))).toBe(text);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it('refuses what is nested too deep, before and after parsing', () => {
    let value: unknown = 1;
    for (let index = 0; index < 70; index++) value = [value];
    expect(() => canonicalText(value)).toThrow(/deeper/);
    expect(depthOf(JSON.stringify(value))).toBe(70);
    expect(depthOf('"[[[\\"[[["')).toBe(0);
    expect(depthOf('"[[[')).toBe(0);
  });
});
