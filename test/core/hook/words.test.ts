import { expect, it } from 'vitest';
import { wordsOf } from '../../../src/core/hook/words.ts';

it.each([
  ['a b  c', ['a', 'b', 'c']],
  ['sh -c "echo $HOME; ls"', ['sh', '-c', 'echo $HOME; ls']],
  [`say 'it "is"' ""`, ['say', 'it "is"', '']],
  ['a\\ b "c\\"d"', ['a b', 'c"d']],
  [`pre'fix'ed`, ['prefixed']],
  ['', []],
])('%j is cut into its words', (text, words) => expect(wordsOf(text)).toEqual(words));

it('a quote that is not closed is a mistake', () => expect(() => wordsOf('a "b')).toThrow('not closed'));
