import { describe, expect, test } from 'vitest';
import { columnsOf, cut, duration, oneLine, pad } from '../../src/engine/display.ts';

describe('text on a terminal', () => {
  test.each([
    ['abc', 3],
    ['日本', 4],
    ['é', 1],
    ['e\u0301', 1],
    ['👍', 2],
    ['👩‍👩‍👧', 2],
    ['❤️', 2],
    ['', 0],
  ])('%s takes %i columns', (text, columns) => {
    expect(columnsOf(text)).toBe(columns);
  });

  test.each<[string, number, string]>([
    ['abc', 3, 'abc'],
    ['abcd', 3, 'ab…'],
    ['日本語', 5, '日本…'],
    ['日本語', 4, '日…'],
    ['abc', 1, '…'],
    ['abc', 0, ''],
    ['abc', -2, ''],
  ])('%s in %i columns is %s', (text, width, result) => {
    expect(cut(text, width)).toBe(result);
  });

  test('is padded by columns, not by characters', () => {
    expect(pad('日', 4)).toBe('日  ');
  });

  test('loses escape sequences and line ends', () => {
    expect(oneLine('\x1b[31mred\x1b[0m\r\n\tnext\u0007')).toBe('red next');
  });

  test.each([
    [0, '0.0 s'],
    [420, '0.4 s'],
    [9_960, '10 s'],
    [59_400, '59 s'],
    [59_600, '1 m 00 s'],
    [185_000, '3 m 05 s'],
    [7_200_000, '2 h 00 m'],
  ])('%i ms are %s', (ms, text) => {
    expect(duration(ms)).toBe(text);
  });
});
