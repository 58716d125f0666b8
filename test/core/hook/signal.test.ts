import { describe, expect, it } from 'vitest';
import { HALT, MAX_OUTPUT_LENGTH, readSignal, setLine } from '../../../src/core/hook/signal.ts';

describe('a signal', () => {
  it.each([
    [HALT, { kind: 'halt' }],
    [`  ${HALT}\t\r`, { kind: 'halt' }],
    ['::windlass:set a=b::', { kind: 'set', name: 'a', value: 'b' }],
    [setLine('LONG_name-1', 'x = y :: z'), { kind: 'set', name: 'LONG_name-1', value: 'x = y :: z' }],
    ['::windlass:set a=::', { kind: 'set', name: 'a', value: '' }],
  ])('is read from %j', (line, signal) => expect(readSignal(line)).toEqual(signal));

  it.each([
    `echo ${HALT}`,
    `${HALT} and more`,
    '::windlass:halt:',
    '::Windlass:halt::',
    '::shc-hook:halt::',
    'halt',
    '',
  ])('is not read from %j', (line) => expect(readSignal(line)).toBeNull());

  it.each([
    '::windlass:halt ::',
    '::windlass:Halt::',
    '::windlass:set a::',
    '::windlass:set 1a=b::',
    '::windlass:set a b=c::',
    '::windlass:halt::::windlass:halt::',
    setLine('a', 'x'.repeat(MAX_OUTPUT_LENGTH + 1)),
  ])('is said to be unknown for %j', (line) => expect(readSignal(line)).toMatchObject({ kind: 'unknown' }));
});
