import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FrameReader, LineCutter, PlainReader } from '../../../src/adapters/compose/lines.ts';

const frame = (stream: 1 | 2, text: string): Buffer => {
  const header = Buffer.from([stream, 0, 0, 0, 0, 0, 0, 0]);
  header.writeUInt32BE(Buffer.byteLength(text), 4);
  return Buffer.concat([header, Buffer.from(text)]);
};

const pieces = (bytes: Buffer, cuts: readonly number[]): Buffer[] => {
  const at = [
    0,
    ...[...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((left, right) => left - right),
    bytes.length,
  ];
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
};

describe('lines', () => {
  test('are the same wherever the stream was cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat()), (cuts) => {
        const cutter = new LineCutter();
        const lines = pieces(Buffer.from('one\r\nzwölf\n\nlast'), cuts).flatMap((piece) => cutter.push(piece));
        expect([...lines, ...cutter.flush()].map((line) => line.text)).toEqual(['one', 'zwölf', '', 'last']);
      }),
    );
  });

  test('are cut short above the limit, and the next one is whole again', () => {
    const cutter = new LineCutter(4);
    expect(cutter.push(Buffer.from('123456'))).toEqual([]);
    expect(cutter.push(Buffer.from('78\nab\n'))).toEqual([
      { text: '1234', cut: true },
      { text: 'ab', cut: false },
    ]);
    expect(cutter.flush()).toEqual([]);
  });

  test('of two mixed streams are kept apart, wherever frames and lines are cut', () => {
    const bytes = Buffer.concat([
      frame(1, 'ou'),
      frame(2, 'err\nmo'),
      frame(1, 't\nnext\n'),
      frame(2, 're\n'),
      frame(1, 'tail'),
    ]);
    fc.assert(
      fc.property(fc.array(fc.nat()), (cuts) => {
        const reader = new FrameReader();
        const lines = pieces(bytes, cuts).flatMap((piece) => reader.push(piece));
        expect([...lines, ...reader.flush()]).toEqual([
          { stream: 'stderr', text: 'err' },
          { stream: 'stdout', text: 'out' },
          { stream: 'stdout', text: 'next' },
          { stream: 'stderr', text: 'more' },
          { stream: 'stdout', text: 'tail' },
        ]);
      }),
    );
  });

  test('of a terminal are all standard output', () => {
    const reader = new PlainReader();
    expect(reader.push(Buffer.from('a\r\nb'))).toEqual([{ stream: 'stdout', text: 'a' }]);
    expect(reader.flush()).toEqual([{ stream: 'stdout', text: 'b' }]);
  });
});
