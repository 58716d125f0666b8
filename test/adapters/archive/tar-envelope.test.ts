import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type EnvelopeFile, readEnvelope, writeEnvelope } from '../../../src/adapters/archive/tar-envelope.ts';
import { Fault } from '../../../src/core/fault.ts';

async function* chunksOf(...chunks: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}
async function* filesOf(files: Readonly<Record<string, Uint8Array>>): AsyncGenerator<EnvelopeFile> {
  for (const [name, bytes] of Object.entries(files)) yield { name, sizeBytes: bytes.length, content: chunksOf(bytes) };
}
const readAll = async (source: AsyncIterable<Uint8Array>): Promise<Buffer> => {
  const chunks: Uint8Array[] = [];
  for await (const chunk of source) chunks.push(chunk);
  return Buffer.concat(chunks);
};
const written = (files: Readonly<Record<string, Uint8Array>>) => readAll(writeEnvelope(filesOf(files)));
const readBack = async (...chunks: Uint8Array[]): Promise<Record<string, Buffer>> => {
  const found: Record<string, Buffer> = {};
  for await (const file of readEnvelope(chunksOf(...chunks))) found[file.name] = await readAll(file.content);
  return found;
};
const codeOf = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => null,
    (error: unknown) => error,
  );
  return error instanceof Fault ? `${error.code} ${error.message}` : String(error);
};

const SAMPLE = {
  'manifest.json': Buffer.from('{}'),
  'blobs/abc': Buffer.alloc(1_500, 7),
  empty: Buffer.alloc(0),
  exact: Buffer.alloc(512, 1),
};

describe('the envelope', () => {
  it('gives back what was put in, however the stream is cut', async () => {
    const bytes = await written(SAMPLE);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 2_000 }), { minLength: 1, maxLength: 20 }), async (cuts) => {
        const chunks: Uint8Array[] = [];
        for (let at = 0, turn = 0; at < bytes.length; turn++) {
          const end = at + cuts[turn % cuts.length]!;
          chunks.push(bytes.subarray(at, end));
          at = end;
        }
        expect(await readBack(...chunks)).toEqual(SAMPLE);
      }),
      { numRuns: 50 },
    );
  });

  it('is the same for the same files', async () => {
    expect((await written(SAMPLE)).equals(await written(SAMPLE))).toBe(true);
  });

  it('is filled up by other tools, which is no harm', async () => {
    expect(await readBack(await written(SAMPLE), Buffer.alloc(8_192))).toEqual(SAMPLE);
  });

  it('holds files of more than eight gigabytes', async () => {
    const piece = Buffer.alloc(64 * 1024 * 1024);
    const sizeBytes = 129 * piece.length + 5;
    async function* zeros() {
      for (let count = 0; count < 129; count++) yield piece;
      yield piece.subarray(0, 5);
    }
    async function* large(): AsyncGenerator<EnvelopeFile> {
      yield { name: 'blobs/large', sizeBytes, content: zeros() };
      yield { name: 'after', sizeBytes: 3, content: chunksOf(Buffer.from('end')) };
    }
    const found: [string, number, number][] = [];
    for await (const file of readEnvelope(writeEnvelope(large()))) {
      let length = 0;
      for await (const chunk of file.content) length += chunk.length;
      found.push([file.name, file.sizeBytes, length]);
    }
    expect(found).toEqual([
      ['blobs/large', sizeBytes, sizeBytes],
      ['after', 3, 3],
    ]);
  });

  it.each([4, 6])('does not end well when a content of 5 bytes has %i', async (length) => {
    async function* wrong(): AsyncGenerator<EnvelopeFile> {
      yield { name: 'a', sizeBytes: 5, content: chunksOf(Buffer.alloc(length)) };
    }
    expect(await codeOf(readAll(writeEnvelope(wrong())))).toMatch(/^ARCHIVE_DAMAGED/);
  });

  it('ends the source when it is left early', async () => {
    let isEnded = false;
    const bytes = await written(SAMPLE);
    async function* source() {
      try {
        yield bytes.subarray(0, 700);
        yield bytes.subarray(700);
      } finally {
        isEnded = true;
      }
    }
    for await (const _ of readEnvelope(source())) break;
    expect(isEnded).toBe(true);
  });
});

describe('an envelope from a stranger', () => {
  /** Changes a header and makes its sum right again. */
  const forged = async (change: (header: Buffer) => void, at = 0): Promise<Buffer> => {
    const bytes = await written(SAMPLE);
    const header = bytes.subarray(at, at + 512);
    change(header);
    header.fill(' ', 148, 156);
    const sum = header.reduce((total, byte) => total + byte, 0);
    header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
    return bytes;
  };
  const named = (name: string) => (header: Buffer) => {
    header.fill(0, 0, 100);
    header.write(name, 0, 'latin1');
  };

  it.each<[string, (header: Buffer) => void, string]>([
    ['a symlink', (header) => header.write('2', 156), 'HOSTILE'],
    ['a hard link', (header) => header.write('1', 156), 'HOSTILE'],
    ['a folder', (header) => header.write('5', 156), 'HOSTILE'],
    ['a device', (header) => header.write('3', 156), 'HOSTILE'],
    ['a long name of GNU', (header) => header.write('L', 156), 'HOSTILE'],
    ['global headers', (header) => header.write('g', 156), 'HOSTILE'],
    ['a pax header of other content', (header) => header.write('x', 156), 'HOSTILE'],
    ['an absolute name', named('/etc/passwd'), 'HOSTILE'],
    ['a name that goes up', named('../up'), 'HOSTILE'],
    ['a name with other letters', named('A b'), 'HOSTILE'],
    ['no name', named(''), 'HOSTILE'],
    ['a name behind a NUL', named('a\0b'), 'HOSTILE'],
    ['a prefix', (header) => header.write('usr', 345), 'HOSTILE'],
    ['a target', (header) => header.write('usr', 157), 'HOSTILE'],
    ['a negative size', (header) => header.write('-0000000001\0', 124), 'HOSTILE'],
    ['a size in base 256', (header) => header.writeUInt8(0x80, 124), 'HOSTILE'],
    ['a size without end', (header) => header.write('77777777777\0', 124), 'INVALID the archive ends too early'],
    ['another format', (header) => header.write('ustar  \0', 257), 'INVALID'],
    ['the name of a file before it', named('blobs/abc'), 'HOSTILE the archive has blobs/abc twice'],
  ])('with %s is refused', async (what, change, code) => {
    const at = what.startsWith('the name') ? 1024 + 512 + 1536 : 0;
    expect(await codeOf(readBack(await forged(change, at)))).toMatch(new RegExp(`^ARCHIVE_${code}`));
  });

  it('that goes up inside of a plain name writes nothing, since names are never paths', async () => {
    // `..` is made of letters that a name may have: whoever reads compares the whole name with those that it expects.
    expect(Object.keys(await readBack(await forged(named('blobs/../x'))))).toContain('blobs/../x');
  });

  it('is refused when a bit of a header is changed', async () => {
    const bytes = await written(SAMPLE);
    bytes[3]! ^= 1;
    expect(await codeOf(readBack(bytes))).toMatch(/^ARCHIVE_INVALID.*wrong sum/);
  });

  it('is refused wherever it is cut', async () => {
    const bytes = await written(SAMPLE);
    for (let end = 0; end < bytes.length; end += 256)
      expect(await codeOf(readBack(bytes.subarray(0, end))), String(end)).toMatch(/^ARCHIVE_INVALID/);
    expect(await codeOf(readBack(bytes.subarray(0, -1)))).toMatch(/^ARCHIVE_INVALID/);
  });

  it('is refused with something between its files or behind its end', async () => {
    const bytes = await written(SAMPLE);
    const between = Buffer.from(bytes);
    between[512 + 2] = 1;
    expect(await codeOf(readBack(between))).toMatch(/^ARCHIVE_HOSTILE.*between/);
    expect(await codeOf(readBack(bytes, Buffer.from('x')))).toMatch(/^ARCHIVE_HOSTILE.*behind/);
    expect(await codeOf(readBack(bytes, Buffer.alloc(100_000)))).toMatch(/^ARCHIVE_HOSTILE.*behind/);
    expect(await codeOf(readBack(bytes, await written(SAMPLE)))).toMatch(/^ARCHIVE_HOSTILE.*behind/);
  });

  it.each(['words', '', '\x28\xb5\x2f\xfd'.repeat(200)])('that is none is refused: %j', async (text) => {
    expect(await codeOf(readBack(Buffer.from(text.padEnd(600), 'latin1')))).toMatch(
      /^ARCHIVE_INVALID this is no archive of Windlass/,
    );
  });
});
