import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { REDACTED, Redactor } from '../../../src/adapters/process/redact.ts';

function hiding(...values: string[]): Redactor {
  const redactor = new Redactor();
  for (const value of values) redactor.add(value);
  return redactor;
}

describe('a secret value is unprintable', () => {
  const value = 'p@ss w$rd/&"ü';
  const redactor = hiding(value);
  test.each([
    ['as it is', value],
    ['URL-encoded', encodeURIComponent(value)],
    ['URL-encoded in lower case', encodeURIComponent(value).replace(/%../g, (found) => found.toLowerCase())],
    ['form-encoded', new URLSearchParams({ v: value }).toString().slice(2)],
    ['JSON-escaped', JSON.stringify(value)],
    ['JSON-escaped as Go does', 'p@ss w$rd/\\u0026\\"ü'],
    ['as Compose writes it', 'p@ss w$$rd/\\u0026\\"ü'],
    ['with the doubled dollar of Compose', value.replaceAll('$', '$$$$')],
    ['in base64', Buffer.from(value).toString('base64')],
    ['in URL-safe base64', Buffer.from(value).toString('base64url')],
  ])('%s', (_form, printed) => {
    const shown = redactor.redact(`before ${printed} after`);
    expect(shown.startsWith(`before `)).toBe(true);
    expect(shown.endsWith(' after')).toBe(true);
    expect(shown).toContain(REDACTED);
    expect(shown).not.toContain(printed.slice(1, -1));
  });

  test('inside longer base64 data, at any place', () => {
    for (const [before, after] of [
      ['user:', ''],
      ['a', 'b'],
      ['ab', 'cd'],
      ['abc', '\n'],
    ]) {
      const shown = redactor.redact(Buffer.from(`${before}${value}${after}`).toString('base64'));
      expect(shown).toContain(REDACTED);
    }
  });

  test('each line of a value with several lines, but not its frame', () => {
    const key = '-----BEGIN KEY-----\nAAAABBBBCCCCDDDD\nEEEEFFFFGGGGHHHH\n-----END KEY-----\n';
    const shown = hiding(key).redact('-----BEGIN KEY-----\nx EEEEFFFFGGGGHHHH');
    expect(shown).toBe(`-----BEGIN KEY-----\nx ${REDACTED}`);
  });
});

test.each([
  ['in its middle', 'before corr\nect-horse after', `before ${REDACTED}\n after`],
  ['over three lines', 'x corr\r\nect-\r\nhorse y\r\nz', `x ${REDACTED}\r\n\r\n y\r\nz`],
  ['in base64, as programs wrap it', `${'Y29ycmVjdC1o'}\n${'b3JzZQ=='}\n`, `${REDACTED}\n\n`],
  ['and not where there is none', 'one\ncorrect\n\nhorse\n', 'one\ncorrect\n\nhorse\n'],
  ['beside one in a single line', 'a\ncorrect-horse\nb corr\nect-horse', `a\n${REDACTED}\nb ${REDACTED}\n`],
])('a secret broken over lines is hidden: %s', (_where, printed, shown) => {
  expect(hiding('correct-horse').redact(printed)).toBe(shown);
});

test('the longest of two overlapping secrets is hidden whole', () => {
  expect(hiding('token', 'token-long-one').redact('a token-long-one b token c')).toBe(`a ${REDACTED} b ${REDACTED} c`);
});

test('values under four characters are left alone', () => {
  expect(hiding('abc', '').redact('abc abc')).toBe('abc abc');
});

test('a text without secrets is returned as it is', () => {
  expect(hiding('secret-value').redact('nothing here')).toBe('nothing here');
  expect(new Redactor().redact('nothing here')).toBe('nothing here');
});

test('whatever surrounds it, the value never comes through', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 4, unit: 'grapheme' }), fc.string(), fc.string(), (value, before, after) => {
      const redactor = hiding(value);
      const shown = redactor.redact(`${before}${value}${after}`);
      // The mark itself, or what surrounds it, may happen to hold a short value.
      return shown.replaceAll(REDACTED, '\u0000').includes(value) === false || value.includes('\u0000');
    }),
  );
});

test('redacting is quick with thousands of secrets', () => {
  const redactor = new Redactor();
  for (let at = 0; at < 2_000; at += 1) redactor.add(`secret-number-${at}-${at * 7919}`);
  const text = 'a line of a log without anything to hide, as most of them are\n'.repeat(16_000);
  const startedAt = performance.now();
  redactor.redact(text);
  console.log(`redact 1 MB with 2,000 secrets: ${Math.round(performance.now() - startedAt)} ms`);
});
