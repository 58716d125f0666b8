// Tar envelope: the outer tar of a .bak or .bkg, written and read as a stream. Only plain files with names that we choose; it never
// touches the trees inside the blobs, and everything that our writer would not write is refused.
import { Fault } from '../../core/fault.ts';

const BLOCK = 512;
/** What eleven octal digits hold; a larger size stands in a pax record. */
const MAX_OCTAL = 0o77777777777;
/** A tar ends with two zero blocks and may be filled up to a record of twenty. */
const MAX_PADDING = 40 * BLOCK;
const MAX_PAX_BYTES = 1_024;
const SAFE_NAME = /^[a-z0-9][a-z0-9./-]{0,99}$/;

export interface EnvelopeFile {
  readonly name: string;
  readonly sizeBytes: number;
  readonly content: AsyncIterable<Uint8Array>;
}

/** The same files give the same bytes. A content of another size than said is ARCHIVE_DAMAGED. */
export async function* writeEnvelope(files: AsyncIterable<EnvelopeFile>): AsyncGenerator<Uint8Array> {
  for await (const { name, sizeBytes, content } of files) {
    if (!SAFE_NAME.test(name)) throw new Error(`no name for an envelope: ${name}`);
    yield headerOf(name, sizeBytes);
    let written = 0;
    for await (const chunk of content) {
      written += chunk.length;
      if (written > sizeBytes) break;
      yield chunk;
    }
    if (written !== sizeBytes)
      throw new Fault('ARCHIVE_DAMAGED', `${name} has not the ${sizeBytes} bytes that it should have`, {
        data: { name },
      });
    if (sizeBytes % BLOCK !== 0) yield Buffer.alloc(BLOCK - (sizeBytes % BLOCK));
  }
  yield Buffer.alloc(2 * BLOCK);
}

function headerOf(name: string, sizeBytes: number): Uint8Array {
  if (sizeBytes <= MAX_OCTAL) return block(name, sizeBytes, '0');
  const record = paxRecord('size', String(sizeBytes));
  const padded = Buffer.alloc(Math.ceil(record.length / BLOCK) * BLOCK);
  padded.write(record, 'latin1');
  // A reader that knows no pax sees a size of zero and stops at what follows, rather than at a wrong place.
  return Buffer.concat([block(`pax/${name}`.slice(0, 100), record.length, 'x'), padded, block(name, 0, '0')]);
}

/** `LENGTH KEY=VALUE\n`, where LENGTH counts itself. */
function paxRecord(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return `${length}${rest}`;
}

function block(name: string, sizeBytes: number, type: '0' | 'x'): Buffer {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, width: number) =>
    header.write(`${value.toString(8).padStart(width - 1, '0')}\0`, at, 'latin1');
  header.write(name, 0, 'latin1');
  octal(0o644, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(sizeBytes, 124, 12);
  octal(0, 136, 12);
  header.fill(' ', 148, 156);
  header.write(type, 156, 'latin1');
  header.write('ustar\x0000', 257, 'latin1');
  octal(0, 329, 8);
  octal(0, 337, 8);
  header.write(`${sumOf(header).toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return header;
}

/** The field of the sum itself counts as spaces. */
function sumOf(header: Uint8Array): number {
  let sum = 0;
  for (let index = 0; index < BLOCK; index++) sum += index >= 148 && index < 156 ? 0x20 : header[index]!;
  return sum;
}

/**
 * The files one after the other; each content must be read to its end before the next file is asked for. Faults: ARCHIVE_INVALID for what is
 * no tar or ends too early, ARCHIVE_HOSTILE for what our writer never writes.
 */
export async function* readEnvelope(source: AsyncIterable<Uint8Array>): AsyncGenerator<EnvelopeFile> {
  const reader = new Reader(source);
  const seen = new Set<string>();
  try {
    for (;;) {
      const header = await reader.exactly(BLOCK);
      if (isZero(header)) break;
      const file = await fileOf(header, reader);
      if (seen.has(file.name)) throw hostile(`has ${file.name} twice`);
      seen.add(file.name);
      let isRead = false;
      yield {
        name: file.name,
        sizeBytes: file.sizeBytes,
        content: (async function* () {
          yield* reader.upTo(file.sizeBytes);
          isRead = true;
        })(),
      };
      if (!isRead) throw new Error(`the content of ${file.name} was not read`);
      const padding = (BLOCK - (file.sizeBytes % BLOCK)) % BLOCK;
      if (!isZero(await reader.exactly(padding))) throw hostile('has something between its files');
    }
    if (!isZero(await reader.exactly(BLOCK))) throw new Fault('ARCHIVE_INVALID', 'the archive has no proper end');
    let padding = 0;
    for (let chunk = await reader.some(); chunk !== null; chunk = await reader.some()) {
      padding += chunk.length;
      if (padding > MAX_PADDING || !isZero(chunk)) throw hostile('has something behind its end');
    }
  } finally {
    await reader.close();
  }
}

async function fileOf(
  header: Uint8Array,
  reader: Reader,
): Promise<{ readonly name: string; readonly sizeBytes: number }> {
  const { name, sizeBytes, type } = parseHeader(header);
  if (type === '0') return { name, sizeBytes };
  if (sizeBytes === 0 || sizeBytes > MAX_PAX_BYTES) throw hostile('has a header that is too large');
  const record = Buffer.from(await reader.exactly(sizeBytes)).toString('latin1');
  if (!isZero(await reader.exactly((BLOCK - (sizeBytes % BLOCK)) % BLOCK)))
    throw hostile('has something between its files');
  const match = /^([0-9]{1,4}) size=([1-9][0-9]{0,15})\n$/.exec(record);
  const large = Number(match?.[2]);
  if (!match || Number(match[1]) !== record.length || !Number.isSafeInteger(large) || large <= MAX_OCTAL)
    throw hostile('has a header that is none of ours');
  const next = parseHeader(await reader.exactly(BLOCK));
  if (next.type !== '0' || next.sizeBytes !== 0) throw hostile('has a header that is none of ours');
  return { name: next.name, sizeBytes: large };
}

function parseHeader(bytes: Uint8Array): {
  readonly name: string;
  readonly sizeBytes: number;
  readonly type: '0' | 'x';
} {
  const header = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = (from: number, to: number) => header.toString('latin1', from, to);
  if (text(257, 263) !== 'ustar\0')
    throw new Fault(
      'ARCHIVE_INVALID',
      'this is no archive of Windlass, or not a whole one: what `windlass backups export` writes is imported',
    );
  const sum = /^([0-7]{6})\0 $/.exec(text(148, 156));
  if (!sum || Number.parseInt(sum[1]!, 8) !== sumOf(header))
    throw new Fault('ARCHIVE_INVALID', 'the archive is damaged: a header has a wrong sum');
  const type = text(156, 157);
  const shownName = JSON.stringify(text(0, 100).replace(/\0+$/, '')).slice(0, 120);
  if (type !== '0' && type !== 'x') throw hostile(`has ${shownName}, which is no plain file`);
  const name = /^([^\0]+)\0*$/.exec(text(0, 100))?.[1] ?? '';
  if (!SAFE_NAME.test(name)) throw hostile(`has a file that is none of ours: ${shownName}`);
  const size = /^([0-7]{11})\0$/.exec(text(124, 136));
  if (!size) throw hostile(`has ${shownName} with a size that is none`);
  if (text(157, 257) !== '\0'.repeat(100) || text(345, 500) !== '\0'.repeat(155))
    throw hostile(`has ${shownName} with a link or prefix`);
  return { name, sizeBytes: Number.parseInt(size[1]!, 8), type };
}

function isZero(bytes: Uint8Array): boolean {
  for (const byte of bytes) if (byte !== 0) return false;
  return true;
}

const hostile = (what: string): Fault => new Fault('ARCHIVE_HOSTILE', `the archive ${what}`);

/** Takes a stream of chunks apart at given lengths, without copying what is large. */
class Reader {
  readonly #iterator: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array(0);
  #isDone = false;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#iterator = source[Symbol.asyncIterator]();
  }

  /** What comes next; null at the end. */
  async some(): Promise<Uint8Array | null> {
    for (;;) {
      const rest = this.#rest;
      if (rest.length > 0) {
        this.#rest = new Uint8Array(0);
        return rest;
      }
      if (this.#isDone) return null;
      const step = await this.#iterator.next();
      if (step.done) this.#isDone = true;
      else this.#rest = step.value;
    }
  }

  async *upTo(length: number): AsyncGenerator<Uint8Array> {
    for (let left = length; left > 0; ) {
      const chunk = await this.some();
      if (chunk === null) throw new Fault('ARCHIVE_INVALID', 'the archive ends too early');
      const taken = chunk.subarray(0, left);
      this.#rest = chunk.subarray(taken.length);
      left -= taken.length;
      yield taken;
    }
  }

  /** Small things only. */
  async exactly(length: number): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    for await (const part of this.upTo(length)) parts.push(part);
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
  }

  async close(): Promise<void> {
    if (!this.#isDone) await this.#iterator.return?.();
    this.#isDone = true;
  }
}
