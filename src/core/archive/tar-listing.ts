// Tar listing: reads a plain tar stream as it passes and says what is in it: entries, their canonical digest and, when asked, a
// fingerprint of all content that does not depend on how a tar program lays it out. It keeps no file's bytes and judges no
// entry: `onEntry` does, before any byte of the entry has been handed on.
import { isUtf8 } from 'node:buffer';
import { createHash, type Hash } from 'node:crypto';
import { Fault } from '../fault.ts';

export type TarEntryType = 'file' | 'directory' | 'symlink' | 'hardlink' | 'fifo' | 'character-device' | 'block-device';

export interface TarEntry {
  /** As in the archive. Bytes that are no UTF-8 are kept as lone surrogates U+DC80…U+DCFF, so two names never become one. */
  readonly path: string;
  readonly type: TarEntryType;
  /** Permission bits, with setuid, setgid and sticky. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Of the file as it will lie on the disk; more than what is stored when it has holes. 0 for all that is no file. */
  readonly size: number;
  /** Symbolic and hard links only. */
  readonly linkTarget: string | null;
  /** Seconds since 1970, decimal, up to nanoseconds. */
  readonly mtime: string;
  /** Extended attributes and ACLs as name and Latin-1 value, sorted by name. */
  readonly attributes: readonly (readonly [string, string])[];
}

export interface TarSummary {
  readonly entries: { readonly count: number; readonly digest: string };
  readonly root: { readonly uid: number; readonly gid: number; readonly mode: string } | null;
  /** Sum of the files' sizes. */
  readonly sizeBytes: number;
  /** What only some ways can write. */
  readonly holds: { readonly setuid: boolean; readonly attributes: boolean; readonly trustedAttributes: boolean };
  /**
   * Null unless asked for. `exact`: names, types, modes, owners, times, links, attributes, content. `portable`: the same
   * without what the engine's archive API loses: setuid and setgid, attributes, parts of seconds, the root's own time.
   */
  readonly fingerprint: { readonly exact: string; readonly portable: string } | null;
}

export interface TarListingOptions {
  readonly onEntry?: (entry: TarEntry) => void;
  readonly fingerprint?: boolean;
}

const BLOCK = 512;
const MAX_EXTENDED_BYTES = 64 * 1024 * 1024;
const ZERO_BLOCK = Buffer.alloc(BLOCK);

const TYPES: Readonly<Record<string, TarEntryType>> = {
  '0': 'file',
  '\0': 'file',
  '1': 'hardlink',
  '2': 'symlink',
  '3': 'character-device',
  '4': 'block-device',
  '5': 'directory',
  '6': 'fifo',
};

/** Lines of the canonical list, in the order of the stream: JSON arrays of the fields of an entry. */
const lineOf = (entry: TarEntry, name: string): string =>
  `${JSON.stringify([name, entry.type, entry.mode.toString(8), entry.uid, entry.gid, entry.size, entry.linkTarget, entry.mtime, entry.attributes])}\n`;

/** `./a/b/` → `a/b`; the root is `.`. Says nothing about whether a name is a good one. */
export function plainName(path: string): string {
  const name = path.replace(/^(?:\.\/+)+/, '').replace(/\/+$/, '');
  return name === '' && !path.startsWith('/') ? '.' : name;
}

export class TarListing {
  readonly #options: TarListingOptions;
  readonly #list = createHash('sha256');
  readonly #exact: Hash | null;
  readonly #portable: Hash | null;
  readonly #header = Buffer.alloc(BLOCK);
  #headerFilled = 0;
  #state: 'header' | 'body' | 'extended' | 'padding' | 'end' = 'header';
  #left = 0;
  #paddingLeft = 0;
  #zeroBlocks = 0;
  #extended: Buffer[] = [];
  #extendedType = '';
  #pax: Map<string, Buffer> | null = null;
  #sparse: readonly (readonly [number, number])[] | null = null;
  #longName: Buffer | null = null;
  #longLink: Buffer | null = null;
  #current: TarEntry | null = null;
  #content: ContentDigest | null = null;
  #count = 0;
  #sizeBytes = 0;
  #root: TarSummary['root'] = null;
  #holds = { setuid: false, attributes: false, trustedAttributes: false };

  constructor(options: TarListingOptions = {}) {
    this.#options = options;
    this.#exact = options.fingerprint ? createHash('sha256') : null;
    this.#portable = options.fingerprint ? createHash('sha256') : null;
  }

  /** Throws PAYLOAD_CORRUPT for what is no tar, PAYLOAD_HOSTILE for what no tar of ours holds, or what `onEntry` throws. */
  write(chunk: Uint8Array): void {
    const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let at = 0;
    while (at < bytes.length) {
      if (this.#state === 'header' || this.#state === 'end') {
        const take = Math.min(BLOCK - this.#headerFilled, bytes.length - at);
        bytes.copy(this.#header, this.#headerFilled, at, at + take);
        this.#headerFilled += take;
        at += take;
        if (this.#headerFilled === BLOCK) {
          this.#headerFilled = 0;
          this.#block();
        }
      } else if (this.#state === 'padding') {
        const take = Math.min(this.#paddingLeft, bytes.length - at);
        this.#paddingLeft -= take;
        at += take;
        if (this.#paddingLeft === 0) this.#state = 'header';
      } else {
        const take = Math.min(this.#left, bytes.length - at);
        const piece = bytes.subarray(at, at + take);
        if (this.#state === 'extended') this.#extended.push(Buffer.from(piece));
        else this.#content?.data(piece);
        this.#left -= take;
        at += take;
        if (this.#left === 0) this.#bodyEnded();
      }
    }
  }

  end(): TarSummary {
    if (this.#state !== 'end' || this.#headerFilled !== 0 || this.#zeroBlocks < 2) {
      throw corrupt('the tar stream ends before its end mark', 'TAR_TRUNCATED');
    }
    return {
      entries: { count: this.#count, digest: this.#list.digest('hex') },
      root: this.#root,
      sizeBytes: this.#sizeBytes,
      holds: this.#holds,
      fingerprint:
        this.#exact === null || this.#portable === null
          ? null
          : { exact: this.#exact.digest('hex'), portable: this.#portable.digest('hex') },
    };
  }

  #block(): void {
    const header = this.#header;
    if (header.equals(ZERO_BLOCK)) {
      if (this.#pax !== null || this.#longName !== null || this.#longLink !== null) {
        throw corrupt('an extended header belongs to no entry', 'TAR_HEADER');
      }
      this.#zeroBlocks += 1;
      if (this.#zeroBlocks >= 2) this.#state = 'end';
      return;
    }
    if (this.#zeroBlocks > 0) throw corrupt('something follows the end mark of the tar stream', 'TAR_TRAILING');
    if (!isChecksumRight(header)) throw corrupt('a header of the tar stream has a wrong checksum', 'TAR_CHECKSUM');
    const type = header.toString('latin1', 156, 157);
    const stored = numberAt(header, 124, 12);
    if (type === 'x' || type === 'L' || type === 'K') {
      if (stored > MAX_EXTENDED_BYTES) throw hostile('an extended header is too large', 'TAR_HEADER_SIZE');
      this.#extendedType = type;
      this.#extended = [];
      this.#begin('extended', stored);
      return;
    }
    const kind = TYPES[type];
    if (kind === undefined) throw hostile(`an entry is of the type ${JSON.stringify(type)}`, 'TAR_TYPE');
    this.#entry(header, kind, stored);
  }

  #begin(state: 'body' | 'extended', size: number): void {
    this.#left = size;
    this.#paddingLeft = (BLOCK - (size % BLOCK)) % BLOCK;
    this.#state = state;
    if (size === 0) this.#bodyEnded();
  }

  #bodyEnded(): void {
    if (this.#state === 'extended') this.#keepExtended();
    else this.#entryEnded();
    this.#state = this.#paddingLeft > 0 ? 'padding' : 'header';
  }

  #keepExtended(): void {
    const body = Buffer.concat(this.#extended);
    this.#extended = [];
    const again = () => hostile('an entry has two extended headers of one kind', 'TAR_HEADER_TWICE');
    if (this.#extendedType === 'x') {
      if (this.#pax !== null) throw again();
      [this.#pax, this.#sparse] = paxRecords(body);
      return;
    }
    const name = body.at(-1) === 0 ? body.subarray(0, -1) : body;
    if (this.#extendedType === 'L') {
      if (this.#longName !== null) throw again();
      this.#longName = name;
    } else {
      if (this.#longLink !== null) throw again();
      this.#longLink = name;
    }
  }

  #entry(header: Buffer, type: TarEntryType, storedInHeader: number): void {
    const pax = this.#pax ?? new Map<string, Buffer>();
    const decimal = (key: string, otherwise: number): number => {
      const value = pax.get(key);
      if (value === undefined) return otherwise;
      const number = Number(value.toString('latin1'));
      if (!/^\d+$/.test(value.toString('latin1')) || !Number.isSafeInteger(number)) {
        throw corrupt(`the extended header ${key} holds no number`, 'TAR_VALUE');
      }
      return number;
    };
    const stored = decimal('size', storedInHeader);
    const isSparse = pax.has('GNU.sparse.size');
    if (pax.has('GNU.sparse.major') || pax.has('GNU.sparse.map') || pax.has('GNU.sparse.name')) {
      throw hostile('a file with holes is stored in a form that is not written here', 'TAR_TYPE');
    }
    if (type !== 'file' && type !== 'directory' && type !== 'hardlink' && stored !== 0) {
      throw hostile(`an entry of the type ${type} has content`, 'TAR_TYPE');
    }
    if ((type === 'directory' || type === 'hardlink') && stored !== 0) {
      throw hostile(`an entry of the type ${type} has content`, 'TAR_TYPE');
    }
    const attributes: [string, string][] = [];
    for (const [key, value] of pax) {
      if (key.startsWith('SCHILY.xattr.') || key.startsWith('SCHILY.acl.')) {
        attributes.push([key.slice('SCHILY.'.length), value.toString('latin1')]);
      }
    }
    attributes.sort(([left], [right]) => (left < right ? -1 : 1));
    const isLink = type === 'symlink' || type === 'hardlink';
    const entry: TarEntry = {
      path: decodeName(pax.get('path') ?? this.#longName ?? ustarName(header)),
      type,
      mode: numberAt(header, 100, 8) & 0o7777,
      uid: decimal('uid', numberAt(header, 108, 8)),
      gid: decimal('gid', numberAt(header, 116, 8)),
      size: type === 'file' ? decimal('GNU.sparse.size', stored) : 0,
      linkTarget: isLink ? decodeName(pax.get('linkpath') ?? this.#longLink ?? textAt(header, 157, 100)) : null,
      mtime: timeOf(pax.get('mtime')?.toString('latin1') ?? String(numberAt(header, 136, 12))),
      attributes,
    };
    const sparse = isSparse ? (this.#sparse ?? []) : null;
    if (sparse !== null) checkSparse(sparse, entry.size, stored);
    this.#pax = null;
    this.#sparse = null;
    this.#longName = null;
    this.#longLink = null;
    this.#options.onEntry?.(entry);
    this.#current = entry;
    this.#content = this.#exact !== null && type === 'file' ? new ContentDigest(entry.size, sparse) : null;
    this.#begin('body', stored);
  }

  #entryEnded(): void {
    const entry = this.#current!;
    const name = plainName(entry.path);
    this.#current = null;
    this.#count += 1;
    this.#sizeBytes += entry.size;
    if (name === '.' && entry.type === 'directory') {
      this.#root = { uid: entry.uid, gid: entry.gid, mode: entry.mode.toString(8).padStart(4, '0') };
    }
    if (entry.type === 'file' && (entry.mode & 0o6000) !== 0) this.#holds.setuid = true;
    if (entry.attributes.length > 0) this.#holds.attributes = true;
    if (entry.attributes.some(([key]) => key.startsWith('xattr.trusted.'))) this.#holds.trustedAttributes = true;
    const line = lineOf(entry, name);
    this.#list.update(line);
    if (this.#exact === null) return;
    const content = this.#content?.end() ?? '-';
    this.#content = null;
    this.#exact.update(line).update(`${content}\n`);
    const isRoot = name === '.';
    const portable: TarEntry = {
      ...entry,
      mode: entry.type === 'directory' ? entry.mode : entry.mode & 0o1777,
      mtime: isRoot ? '' : entry.mtime.replace(/\..*/, ''),
      linkTarget: entry.type === 'hardlink' ? plainName(entry.linkTarget ?? '') : entry.linkTarget,
      attributes: [],
    };
    this.#portable?.update(lineOf(portable, name)).update(`${content}\n`);
  }
}

/** SHA-256 of a file's non-zero blocks and where they lie: the same for holes and for zeros that were written out. */
class ContentDigest {
  static readonly #size = 4096;
  static readonly #zeros = Buffer.alloc(ContentDigest.#size);
  readonly #hash = createHash('sha256');
  readonly #pieces: readonly (readonly [number, number])[];
  readonly #fileSize: number;
  readonly #block = Buffer.alloc(ContentDigest.#size);
  #filled = 0;
  #at = 0;
  #hashedUntil = 0;
  #piece = 0;
  #pieceLeft: number;

  constructor(size: number, sparse: readonly (readonly [number, number])[] | null) {
    this.#fileSize = size;
    this.#pieces = sparse ?? [[0, size]];
    this.#pieceLeft = this.#pieces[0]?.[1] ?? 0;
    this.#hole(this.#pieces[0]?.[0] ?? size);
  }

  data(bytes: Buffer): void {
    let rest = bytes;
    while (rest.length > 0) {
      while (this.#pieceLeft === 0) this.#nextPiece();
      const take = Math.min(this.#pieceLeft, rest.length);
      this.#bytes(rest.subarray(0, take));
      this.#pieceLeft -= take;
      rest = rest.subarray(take);
    }
  }

  end(): string {
    while (this.#piece < this.#pieces.length) this.#nextPiece();
    this.#hole(this.#fileSize - this.#at);
    if (this.#filled > 0) this.#whole(this.#block.subarray(0, this.#filled), this.#at - this.#filled);
    return this.#hash.digest('hex');
  }

  #nextPiece(): void {
    this.#piece += 1;
    const next = this.#pieces[this.#piece];
    this.#hole((next?.[0] ?? this.#fileSize) - this.#at);
    this.#pieceLeft = next?.[1] ?? 0;
  }

  #hole(length: number): void {
    if (length <= 0) return;
    const size = ContentDigest.#size;
    if (this.#filled > 0) {
      const take = Math.min(length, size - this.#filled);
      this.#bytes(ContentDigest.#zeros.subarray(0, take));
      this.#hole(length - take);
      return;
    }
    const tail = length % size;
    this.#at += length - tail;
    if (tail > 0) this.#bytes(ContentDigest.#zeros.subarray(0, tail));
  }

  #bytes(bytes: Buffer): void {
    const size = ContentDigest.#size;
    let at = 0;
    if (this.#filled > 0) {
      at = Math.min(size - this.#filled, bytes.length);
      bytes.copy(this.#block, this.#filled, 0, at);
      this.#filled += at;
      this.#at += at;
      if (this.#filled < size) return;
      this.#filled = 0;
      this.#whole(this.#block, this.#at - size);
    }
    // Runs of blocks that are not zero go into the hash at once.
    let runFrom = at;
    for (; at + size <= bytes.length; at += size) {
      if (bytes[at] === 0 && bytes.subarray(at, at + size).equals(ContentDigest.#zeros)) {
        this.#run(bytes.subarray(runFrom, at), this.#at - (at - runFrom));
        runFrom = at + size;
      }
      this.#at += size;
    }
    this.#run(bytes.subarray(runFrom, at), this.#at - (at - runFrom));
    this.#filled = bytes.copy(this.#block, 0, at);
    this.#at += this.#filled;
  }

  #whole(block: Buffer, from: number): void {
    if (!block.equals(ContentDigest.#zeros.subarray(0, block.length))) this.#run(block, from);
  }

  #run(bytes: Buffer, from: number): void {
    if (bytes.length === 0) return;
    if (from !== this.#hashedUntil) this.#hash.update(`\n@${from}\n`);
    this.#hash.update(bytes);
    this.#hashedUntil = from + bytes.length;
  }
}

function isChecksumRight(header: Buffer): boolean {
  let sum = 8 * 32;
  for (let at = 0; at < BLOCK; at += 1) if (at < 148 || at >= 156) sum += header[at]!;
  return numberAt(header, 148, 8) === sum;
}

function textAt(header: Buffer, at: number, length: number): Buffer {
  const field = header.subarray(at, at + length);
  const end = field.indexOf(0);
  return Buffer.from(end === -1 ? field : field.subarray(0, end));
}

function ustarName(header: Buffer): Buffer {
  const name = textAt(header, 0, 100);
  // In the old GNU form other things lie where POSIX has the prefix.
  if (header.toString('latin1', 257, 263) !== 'ustar\0') return name;
  const prefix = textAt(header, 345, 155);
  return prefix.length === 0 ? name : Buffer.concat([prefix, Buffer.from('/'), name]);
}

/** Octal text, or the binary form for what is too large for it. */
function numberAt(header: Buffer, at: number, length: number): number {
  if (header[at] === 0x80) {
    let value = 0n;
    for (let index = at + 1; index < at + length; index += 1) value = value * 256n + BigInt(header[index]!);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw hostile('a header holds a number without measure', 'TAR_VALUE');
    return Number(value);
  }
  const text = header
    .toString('latin1', at, at + length)
    .replace(/[\0 ]+$/, '')
    .trimStart();
  if (text === '') return 0;
  if (!/^[0-7]+$/.test(text)) throw corrupt('a header of the tar stream holds no number', 'TAR_VALUE');
  return Number.parseInt(text, 8);
}

function timeOf(text: string): string {
  const match = /^(-?\d+)(?:\.(\d*?)0*)?$/.exec(text);
  if (match === null) throw corrupt('a modification time is no number', 'TAR_VALUE');
  return match[2] ? `${match[1]}.${match[2]}` : match[1]!;
}

/** `LENGTH KEY=VALUE\n` …, where a later record of a key wins; the map of a file's holes is made of repeated keys. */
function paxRecords(body: Buffer): [Map<string, Buffer>, readonly (readonly [number, number])[]] {
  const records = new Map<string, Buffer>();
  const sparse: [number, number][] = [];
  let offset: number | null = null;
  for (let at = 0; at < body.length; ) {
    const wrong = () => corrupt('an extended header cannot be read', 'TAR_VALUE');
    const space = body.indexOf(0x20, at);
    if (space === -1 || space - at > 10) throw wrong();
    const digits = body.toString('latin1', at, space);
    const end = at + Number(digits);
    if (!/^[1-9]\d*$/.test(digits) || end > body.length || end <= space + 2 || body[end - 1] !== 0x0a) throw wrong();
    const equals = body.indexOf(0x3d, space);
    if (equals === -1 || equals >= end) throw wrong();
    const key = body.toString('utf8', space + 1, equals);
    const value = body.subarray(equals + 1, end - 1);
    at = end;
    if (key === 'GNU.sparse.offset') offset = Number(value.toString('latin1'));
    else if (key === 'GNU.sparse.numbytes') {
      if (offset === null) throw wrong();
      sparse.push([offset, Number(value.toString('latin1'))]);
      offset = null;
    } else records.set(key, Buffer.from(value));
  }
  return [records, sparse];
}

function checkSparse(pieces: readonly (readonly [number, number])[], size: number, stored: number): void {
  let until = 0;
  let sum = 0;
  for (const [offset, length] of pieces) {
    const good = Number.isSafeInteger(offset) && Number.isSafeInteger(length) && offset >= until && length >= 0;
    if (!good || offset + length > size) throw hostile('the holes of a file overlap or lie beyond it', 'TAR_SPARSE');
    until = offset + length;
    sum += length;
  }
  if (sum !== stored) throw hostile('the holes of a file do not add up', 'TAR_SPARSE');
}

function decodeName(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString('utf8');
  return bytes
    .toString('latin1')
    .replace(/[\u0080-\u00ff]/g, (char) => String.fromCharCode(0xdc00 + char.charCodeAt(0)));
}

function corrupt(summary: string, rule: string): Fault {
  return new Fault('PAYLOAD_CORRUPT', summary, { data: { rule } });
}

function hostile(summary: string, rule: string): Fault {
  return new Fault('PAYLOAD_HOSTILE', summary, { data: { rule } });
}
