// One object folder on disk, loose files and packs, read byte for byte. Sizes are known and bounded before anything is
// unfolded, and packs are read in place, so a hostile repository costs little. Ids are not checked here: the verifier
// hashes what it judges, so a mistake of this file can refuse an object and never forge one.

import fs from 'node:fs';
import path from 'node:path';
import { inflateSync } from 'node:zlib';
import { openRegular, readRegular } from './regular-file.ts';

export interface StoredObject {
  readonly type: string;
  readonly bytes: Buffer;
}

/** Why an object that is there cannot be read. */
export class StoreError extends Error {
  readonly kind: 'damaged' | 'too-large';

  constructor(kind: 'damaged' | 'too-large', message: string) {
    super(message);
    this.kind = kind;
  }
}

const LARGEST_INDEX_BYTES = 1024 * 1024 * 1024;
const TYPES: Readonly<Record<number, string>> = { 1: 'commit', 2: 'tree', 3: 'blob', 4: 'tag' };
const OFFSET_DELTA = 6;
const ID_DELTA = 7;
/** Git itself allows no deeper chains. */
const DEEPEST_CHAIN = 4095;
const BASE_CACHE_BYTES = 32 * 1024 * 1024;

interface Pack {
  readonly file: string;
  /** Index version 2: fan-out, ids, checksums, offsets. */
  readonly index: Buffer;
  readonly count: number;
}

interface Entry {
  readonly type: number;
  readonly size: number;
  /** Where the compressed bytes start. */
  readonly dataAt: number;
  /** Offset of the base, of deltas. */
  readonly baseAt: number | null;
}

/** `folder` is an `objects` directory; objects larger than `largestBytes` are refused. */
export class RawStore {
  readonly #folder: string;
  readonly #largestBytes: number;
  #packs: Pack[] | undefined;
  /** Bases of deltas, newest last. */
  readonly #bases = new Map<string, StoredObject>();
  #basesBytes = 0;

  constructor(folder: string, largestBytes: number) {
    this.#folder = folder;
    this.#largestBytes = largestBytes;
  }

  /** The object of a full id, or null. Throws StoreError. */
  read(oid: string): StoredObject | null {
    return this.#readPacked(oid) ?? this.#readLoose(oid) ?? this.#readRepacked(oid);
  }

  /** Full ids that start with the 4 to 39 hex digits. */
  startingWith(short: string): string[] {
    const found = new Set<string>();
    for (const name of listing(path.join(this.#folder, short.slice(0, 2))))
      if (/^[0-9a-f]{38}$/.test(name) && name.startsWith(short.slice(2))) found.add(short.slice(0, 2) + name);
    for (const pack of this.#listPacks()) {
      for (let at = lowerBound(pack, Buffer.from(short.padEnd(40, '0'), 'hex')); at < pack.count; at++) {
        const oid = idAt(pack, at).toString('hex');
        if (!oid.startsWith(short)) break;
        found.add(oid);
      }
    }
    return [...found];
  }

  #listPacks(): Pack[] {
    this.#packs ??= listing(path.join(this.#folder, 'pack'))
      .filter((name) => /^pack-.*\.idx$/.test(name))
      .flatMap((name) => openPack(path.join(this.#folder, 'pack', name)));
    return this.#packs;
  }

  /** Housekeeping may have moved the object into a new pack since the packs were listed. */
  #readRepacked(oid: string): StoredObject | null {
    this.#packs = undefined;
    return this.#readPacked(oid);
  }

  #readLoose(oid: string): StoredObject | null {
    const file = path.join(this.#folder, oid.slice(0, 2), oid.slice(2));
    let deflated: Buffer;
    try {
      if (fs.statSync(file).size > this.#largestBytes) throw new StoreError('too-large', 'loose object');
      deflated = readRegular(file, this.#largestBytes);
    } catch (error) {
      if (error instanceof StoreError) throw error;
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw new StoreError('damaged', String(error));
    }
    const wrapped = inflate(deflated, this.#largestBytes + 64);
    const end = wrapped.indexOf(0);
    const match = /^([a-z]+) (0|[1-9][0-9]*)$/.exec(wrapped.toString('latin1', 0, Math.max(0, Math.min(end, 64))));
    if (!match || Number(match[2]) !== wrapped.length - end - 1) throw new StoreError('damaged', 'loose header');
    return { type: match[1]!, bytes: wrapped.subarray(end + 1) };
  }

  #readPacked(oid: string): StoredObject | null {
    const id = Buffer.from(oid, 'hex');
    for (const pack of this.#listPacks()) {
      const at = lowerBound(pack, id);
      if (at >= pack.count || !idAt(pack, at).equals(id)) continue;
      const fd = openFile(pack.file);
      if (fd === null) continue;
      try {
        return this.#unfold(pack, fd, offsetAt(pack, at));
      } finally {
        fs.closeSync(fd);
      }
    }
    return null;
  }

  /** Walks down to the undeltified base, then applies the deltas upwards. */
  #unfold(pack: Pack, fd: number, offset: number): StoredObject {
    const packBytes = fs.fstatSync(fd).size;
    const deltas: { readonly key: string; readonly entry: Entry }[] = [];
    let at = offset;
    let base: StoredObject | undefined;
    while (!base) {
      const key = `${pack.file}:${at}`;
      base = this.#bases.get(key);
      if (base) break;
      const entry = readEntry(pack, fd, at, packBytes);
      if (entry.size > this.#largestBytes) throw new StoreError('too-large', `${entry.size} bytes`);
      if (entry.baseAt === null) {
        const type = TYPES[entry.type];
        if (type === undefined) throw new StoreError('damaged', `pack entry of type ${entry.type}`);
        base = { type, bytes: readData(fd, entry, packBytes) };
        this.#keep(key, base);
      } else {
        deltas.push({ key, entry });
        if (deltas.length > DEEPEST_CHAIN) throw new StoreError('damaged', 'delta chain without end');
        at = entry.baseAt;
      }
    }
    for (const { key, entry } of deltas.reverse()) {
      base = { type: base.type, bytes: applyDelta(base.bytes, readData(fd, entry, packBytes), this.#largestBytes) };
      this.#keep(key, base);
    }
    return base;
  }

  #keep(key: string, object: StoredObject): void {
    this.#bases.set(key, object);
    this.#basesBytes += object.bytes.length + key.length + 200;
    for (const [oldest, { bytes }] of this.#bases) {
      if (this.#basesBytes <= BASE_CACHE_BYTES) break;
      this.#bases.delete(oldest);
      this.#basesBytes -= bytes.length + oldest.length + 200;
    }
  }
}

function listing(folder: string): string[] {
  try {
    return fs.readdirSync(folder);
  } catch {
    return [];
  }
}

function openFile(file: string): number | null {
  try {
    return openRegular(file);
  } catch {
    return null; // removed by housekeeping since
  }
}

/** A pack with an index that cannot be used holds nothing for us. */
function openPack(indexFile: string): Pack[] {
  let index: Buffer;
  try {
    index = readRegular(indexFile, LARGEST_INDEX_BYTES);
  } catch {
    return [];
  }
  if (index.length < 1072 || index.readUInt32BE(0) !== 0xff744f63 || index.readUInt32BE(4) !== 2) return [];
  const count = index.readUInt32BE(8 + 4 * 255);
  if (index.length < 1032 + count * 28 + 40) return [];
  return [{ file: indexFile.replace(/\.idx$/, '.pack'), index, count }];
}

function idAt({ index }: Pack, at: number): Buffer {
  return index.subarray(1032 + 20 * at, 1032 + 20 * at + 20);
}

/** First place whose id is not below `id`. */
function lowerBound(pack: Pack, id: Buffer): number {
  const first = id[0]!;
  let low = first === 0 ? 0 : pack.index.readUInt32BE(8 + 4 * (first - 1));
  let high = Math.min(pack.index.readUInt32BE(8 + 4 * first), pack.count);
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (idAt(pack, middle).compare(id) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

function offsetAt({ index, count }: Pack, at: number): number {
  const offset = index.readUInt32BE(1032 + 24 * count + 4 * at);
  if (offset < 0x80000000) return offset;
  const wideAt = 1032 + 28 * count + 8 * (offset - 0x80000000);
  if (wideAt + 8 > index.length) throw new StoreError('damaged', 'pack index');
  return Number(index.readBigUInt64BE(wideAt));
}

function readAt(fd: number, at: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, fs.readSync(fd, bytes, 0, length, at));
}

function readEntry(pack: Pack, fd: number, at: number, packBytes: number): Entry {
  if (at < 12 || at >= packBytes - 20) throw new StoreError('damaged', 'pack offset');
  const head = readAt(fd, at, 64);
  let next = 0;
  let byte = byteAt(head, next++);
  const type = (byte >> 4) & 7;
  let size = byte & 15;
  for (let unit = 16; byte & 0x80; unit *= 128) {
    byte = byteAt(head, next++);
    size += (byte & 0x7f) * unit;
    if (!Number.isSafeInteger(size)) throw new StoreError('damaged', 'pack entry size');
  }
  let baseAt: number | null = null;
  if (type === OFFSET_DELTA) {
    byte = byteAt(head, next++);
    let back = byte & 0x7f;
    while (byte & 0x80) {
      byte = byteAt(head, next++);
      back = (back + 1) * 128 + (byte & 0x7f);
    }
    if (back <= 0 || back >= at) throw new StoreError('damaged', 'delta base');
    baseAt = at - back;
  } else if (type === ID_DELTA) {
    const id = head.subarray(next, next + 20);
    next += 20;
    const place = id.length === 20 ? lowerBound(pack, id) : pack.count;
    if (place >= pack.count || !idAt(pack, place).equals(id)) throw new StoreError('damaged', 'delta base missing');
    baseAt = offsetAt(pack, place);
  }
  return { type, size, dataAt: at + next, baseAt };
}

function byteAt(bytes: Buffer, at: number): number {
  const byte = bytes[at];
  if (byte === undefined) throw new StoreError('damaged', 'truncated');
  return byte;
}

/** The compressed length is not recorded: what honest compression can need is read first, the rest only if it must. */
function readData(fd: number, { size, dataAt }: Entry, packBytes: number): Buffer {
  const left = packBytes - 20 - dataAt;
  const likely = Math.min(left, size + (size >> 8) + 1024);
  let bytes: Buffer;
  try {
    bytes = inflate(readAt(fd, dataAt, likely), size);
  } catch (error) {
    if (likely === left) throw error;
    bytes = inflate(readAt(fd, dataAt, Math.min(left, 2 * size + 1024 * 1024)), size);
  }
  if (bytes.length !== size) throw new StoreError('damaged', 'pack entry length');
  return bytes;
}

/** Bytes behind the end of the stream are left alone. */
function inflate(deflated: Buffer, largestBytes: number): Buffer {
  try {
    return inflateSync(deflated, { maxOutputLength: Math.max(1, largestBytes) });
  } catch (error) {
    const isLarge = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
    throw new StoreError(isLarge ? 'too-large' : 'damaged', error instanceof Error ? error.message : 'zlib');
  }
}

function applyDelta(base: Buffer, delta: Buffer, largestBytes: number): Buffer {
  let at = 0;
  const readSize = (): number => {
    let size = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = byteAt(delta, at++);
      size += (byte & 0x7f) * unit;
      if (!Number.isSafeInteger(size)) throw new StoreError('damaged', 'delta size');
      if ((byte & 0x80) === 0) return size;
    }
  };
  if (readSize() !== base.length) throw new StoreError('damaged', 'delta for another base');
  const size = readSize();
  if (size > largestBytes) throw new StoreError('too-large', `${size} bytes`);
  const result = Buffer.alloc(size);
  let filled = 0;
  while (at < delta.length) {
    const code = byteAt(delta, at++);
    let from = delta;
    let start = at;
    let length = code;
    if (code & 0x80) {
      start = 0;
      length = 0;
      for (let bit = 0; bit < 4; bit++) if (code & (1 << bit)) start += byteAt(delta, at++) * 2 ** (8 * bit);
      for (let bit = 0; bit < 3; bit++) if (code & (16 << bit)) length += byteAt(delta, at++) * 2 ** (8 * bit);
      if (length === 0) length = 0x10000;
      from = base;
    } else {
      at += length;
    }
    if (length === 0 || start + length > from.length || filled + length > size)
      throw new StoreError('damaged', 'delta');
    from.copy(result, filled, start, start + length);
    filled += length;
  }
  if (filled !== size) throw new StoreError('damaged', 'delta length');
  return result;
}
