// OpenPGP packets (RFC 4880): splits keyrings into keys, and reads the fields of version 4 signatures that the rules
// judge. Synchronous and without cryptography: openpgp.ts verifies what this file reads.

import { createHash } from 'node:crypto';
import { decodePgpBody } from './armor.ts';
import { Refusal } from './refusal.ts';

export interface OpenPgpPacket {
  readonly tag: number;
  readonly body: Buffer;
}

export const TAG = {
  signature: 2,
  secretKey: 5,
  publicKey: 6,
  secretSubkey: 7,
  trust: 12,
  userId: 13,
  publicSubkey: 14,
  userAttribute: 17,
} as const;

/** Splits a sequence of packets with definite lengths; throws Error on anything else. */
export function splitPackets(bytes: Buffer): OpenPgpPacket[] {
  const packets: OpenPgpPacket[] = [];
  let at = 0;
  while (at < bytes.length) {
    const head = bytes[at++]!;
    if ((head & 0x80) === 0) throw new Error('not a packet header');
    const isNew = (head & 0x40) !== 0;
    const tag = isNew ? head & 0x3f : (head >> 2) & 0x0f;
    const [length, next] = isNew ? newLength(bytes, at) : oldLength(bytes, at, head & 3);
    if (tag === 0) throw new Error('packet tag 0');
    if (next + length > bytes.length) throw new Error('truncated packet');
    packets.push({ tag, body: bytes.subarray(next, next + length) });
    at = next + length;
  }
  return packets;
}

function readUint(bytes: Buffer, at: number, size: number): number {
  if (at + size > bytes.length) throw new Error('truncated length');
  return bytes.readUIntBE(at, size);
}

/** Lengths of packets in the new format and of subpackets; partial lengths are refused. */
function newLength(bytes: Buffer, at: number): [length: number, next: number] {
  const first = readUint(bytes, at, 1);
  if (first < 192) return [first, at + 1];
  if (first < 224) return [((first - 192) << 8) + readUint(bytes, at + 1, 1) + 192, at + 2];
  if (first === 255) return [readUint(bytes, at + 1, 4), at + 5];
  throw new Error('partial length');
}

function oldLength(bytes: Buffer, at: number, kind: number): [length: number, next: number] {
  if (kind === 3) throw new Error('indeterminate length');
  const size = 1 << kind;
  return [readUint(bytes, at, size), at + size];
}

export interface SignatureFields {
  readonly body: Buffer;
  readonly version: number;
  readonly type: number;
  readonly keyAlgorithm: number;
  readonly hashAlgorithm: number;
  /** Seconds since the epoch, from the signed area; null when absent or repeated. */
  readonly created: number | null;
  /** Seconds after `created`; null when the signature does not expire. */
  readonly expiresAfter: number | null;
  /** Seconds after the creation of the key; null when it does not expire. */
  readonly keyExpiresAfter: number | null;
  readonly keyFlags: number | null;
  /** 16 lower-case hex, and 40; either area, because they only help to find the key. */
  readonly issuerIds: readonly string[];
  readonly issuerFingerprints: readonly string[];
  /** First octet of the reason of a revocation; null when absent. */
  readonly revocationReason: number | null;
  readonly namesDesignatedRevoker: boolean;
  /** Bodies of embedded signatures (the back-signature of a subkey). */
  readonly embedded: readonly Buffer[];
  /** A critical subpacket or notation that is not understood, in either area. */
  readonly criticalUnknown: string | null;
}

const SUB = {
  created: 2,
  expires: 3,
  keyExpires: 9,
  revoker: 12,
  issuer: 16,
  notation: 20,
  keyFlags: 27,
  reason: 29,
  embedded: 32,
  issuerFingerprint: 33,
} as const;

/** Subpackets whose meaning is honoured, or can safely be passed over. */
const UNDERSTOOD: ReadonlySet<number> = new Set([
  2, 3, 4, 7, 9, 11, 12, 16, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 32, 33, 34,
]);

/** Reads the fields of a signature packet's body; throws Error unless it is a well-formed version 4 signature. */
export function readSignature(body: Buffer): SignatureFields {
  const version = body[0] ?? 0;
  if (version !== 4) throw new Error(`signature version ${version}`);
  if (body.length < 10) throw new Error('truncated signature');
  const hashedLength = body.readUInt16BE(4);
  const hashed = splitSubpackets(body, 6, hashedLength);
  const unhashedAt = 6 + hashedLength;
  const unhashedLength = readUint(body, unhashedAt, 2);
  const unhashed = splitSubpackets(body, unhashedAt + 2, unhashedLength);
  if (unhashedAt + 2 + unhashedLength + 2 > body.length) throw new Error('truncated signature');

  const values = (type: number) => hashed.filter((subpacket) => subpacket.type === type).map(({ value }) => value);
  const both = [...hashed, ...unhashed];
  const created = values(SUB.created);
  return {
    body,
    version,
    type: body[1]!,
    keyAlgorithm: body[2]!,
    hashAlgorithm: body[3]!,
    created: created.length === 1 && created[0]!.length === 4 ? created[0]!.readUInt32BE() : null,
    expiresAfter: readDuration(values(SUB.expires)),
    keyExpiresAfter: readDuration(values(SUB.keyExpires)),
    keyFlags: values(SUB.keyFlags)[0]?.[0] ?? null,
    issuerIds: both
      .filter(({ type, value }) => type === SUB.issuer && value.length === 8)
      .map(({ value }) => value.toString('hex')),
    issuerFingerprints: both
      .filter(({ type, value }) => type === SUB.issuerFingerprint && value[0] === 4 && value.length === 21)
      .map(({ value }) => value.toString('hex', 1)),
    revocationReason: values(SUB.reason)[0]?.[0] ?? null,
    namesDesignatedRevoker: values(SUB.revoker).length > 0,
    embedded: both.filter(({ type }) => type === SUB.embedded).map(({ value }) => value),
    criticalUnknown: findCritical(both),
  };
}

interface Subpacket {
  readonly type: number;
  readonly isCritical: boolean;
  readonly value: Buffer;
}

function splitSubpackets(body: Buffer, start: number, length: number): Subpacket[] {
  const end = start + length;
  if (end > body.length) throw new Error('truncated subpackets');
  const area = body.subarray(0, end);
  const subpackets: Subpacket[] = [];
  let at = start;
  while (at < end) {
    const [size, next] = newSubpacketLength(area, at);
    if (size === 0 || next + size > end) throw new Error('malformed subpacket');
    const head = area[next]!;
    subpackets.push({
      type: head & 0x7f,
      isCritical: (head & 0x80) !== 0,
      value: area.subarray(next + 1, next + size),
    });
    at = next + size;
  }
  return subpackets;
}

/** Subpackets have no partial lengths: 192 to 254 start a two-octet length. */
function newSubpacketLength(bytes: Buffer, at: number): [length: number, next: number] {
  const first = readUint(bytes, at, 1);
  if (first < 192) return [first, at + 1];
  if (first < 255) return [((first - 192) << 8) + readUint(bytes, at + 1, 1) + 192, at + 2];
  return [readUint(bytes, at + 1, 4), at + 5];
}

/** The shortest of repeated durations; zero means never. */
function readDuration(values: readonly Buffer[]): number | null {
  const durations = values
    .filter((value) => value.length === 4)
    .map((value) => value.readUInt32BE())
    .filter((value) => value !== 0);
  return durations.length === 0 ? null : Math.min(...durations);
}

function findCritical(subpackets: readonly Subpacket[]): string | null {
  for (const { type, isCritical } of subpackets) {
    if (isCritical && type === SUB.notation) return 'notation';
    if (isCritical && !UNDERSTOOD.has(type)) return `subpacket ${type}`;
  }
  return null;
}

/** Version 4 fingerprint of a key packet's body: 40 lower-case hex. */
export function fingerprintV4(body: Buffer): string {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(body.length & 0xffff);
  return createHash('sha1').update(Buffer.of(0x99)).update(length).update(body).digest('hex');
}

/** One key of a keyring, as packets; nothing is verified yet. */
export interface KeyBlock {
  readonly primary: Buffer;
  readonly direct: readonly Buffer[];
  readonly users: readonly { readonly id: Buffer; readonly signatures: readonly Buffer[] }[];
  readonly subkeys: readonly { readonly body: Buffer; readonly signatures: readonly Buffer[] }[];
}

export interface KeyringPackets {
  readonly blocks: readonly KeyBlock[];
  /** Every key revocation of the ring, and signatures that stand before any key. */
  readonly loose: readonly Buffer[];
}

/** Reads a keyring: armored (several blocks), binary, or a GnuPG keybox. Throws Refusal `bad-keyring`. */
export function readKeyring(content: Uint8Array): KeyringPackets {
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
  try {
    const blocks: KeyBlock[] = [];
    const loose: Buffer[] = [];
    for (const sequence of keyringSequences(bytes)) groupPackets(splitPackets(sequence), blocks, loose);
    return { blocks, loose };
  } catch (error) {
    throw new Refusal('bad-keyring', error instanceof Error ? error.message : 'unreadable');
  }
}

function keyringSequences(bytes: Buffer): Buffer[] {
  if (bytes.length === 0) return [];
  if (bytes.length >= 32 && bytes[4] === 1 && bytes.toString('latin1', 8, 12) === 'KBXf') return keyboxSequences(bytes);
  if ((bytes[0]! & 0x80) !== 0 && bytes[0] !== 0xef) return [bytes];
  return armoredSequences(bytes.toString('latin1'));
}

function armoredSequences(text: string): Buffer[] {
  const lines = text.split('\n').map((line) => line.replace(/[ \t\r]+$/, ''));
  const sequences: Buffer[] = [];
  let start = -1;
  lines.forEach((line, index) => {
    if (/^-----BEGIN PGP PRIVATE KEY BLOCK-----/.test(line)) throw new Error('holds a private key');
    if (line === '-----BEGIN PGP PUBLIC KEY BLOCK-----') {
      if (start >= 0) throw new Error('armor inside an armor');
      start = index;
    } else if (line === '-----END PGP PUBLIC KEY BLOCK-----') {
      if (start < 0) throw new Error('END without BEGIN');
      sequences.push(decodePgpBody(withoutHeaders(lines.slice(start + 1, index)), { strict: false }));
      start = -1;
    }
  });
  if (start >= 0) throw new Error('armor without END');
  if (sequences.length === 0 && text.trim() !== '') throw new Error('neither armored nor binary OpenPGP keys');
  return sequences;
}

/** A keyring is the admin's own file: whatever armor headers its exporter wrote are passed over. */
function withoutHeaders(lines: readonly string[]): readonly string[] {
  const blank = lines.indexOf('');
  return blank < 0 ? lines : lines.slice(blank);
}

/** GnuPG keybox: blobs with a length, a type, and the offset and length of the key inside. */
function keyboxSequences(bytes: Buffer): Buffer[] {
  const sequences: Buffer[] = [];
  let at = 0;
  while (at < bytes.length) {
    const length = readUint(bytes, at, 4);
    if (length < 5 || at + length > bytes.length) throw new Error('truncated keybox');
    const blob = bytes.subarray(at, at + length);
    const isKey = blob[4] === 2;
    const isEphemeral = isKey && (readUint(blob, 6, 2) & 2) !== 0;
    if (isKey && !isEphemeral) {
      const keyAt = readUint(blob, 8, 4);
      const keyLength = readUint(blob, 12, 4);
      if (keyAt + keyLength > blob.length) throw new Error('truncated keybox');
      sequences.push(blob.subarray(keyAt, keyAt + keyLength));
    }
    at += length;
  }
  return sequences;
}

/** GnuPG's trust notes, markers, padding. */
const PASSED_OVER: ReadonlySet<number> = new Set([TAG.trust, 10, 21]);

function isKeyRevocation(body: Buffer): boolean {
  return body[0] === 3 ? body[2] === 0x20 : body[1] === 0x20;
}

function groupPackets(packets: readonly OpenPgpPacket[], blocks: KeyBlock[], loose: Buffer[]): void {
  let block: {
    primary: Buffer;
    direct: Buffer[];
    users: { id: Buffer; signatures: Buffer[] }[];
    subkeys: { body: Buffer; signatures: Buffer[] }[];
  } | null = null;
  let signatures = loose;
  for (const { tag, body } of packets) {
    if (tag === TAG.secretKey || tag === TAG.secretSubkey) throw new Error('holds a secret key');
    if (tag === TAG.publicKey) {
      block = { primary: body, direct: [], users: [], subkeys: [] };
      blocks.push(block);
      signatures = block.direct;
    } else if (tag === TAG.signature) {
      signatures.push(body);
      // Wherever it stands, also behind a subkey or in front of every key, a revocation certificate counts.
      if (signatures !== loose && isKeyRevocation(body)) loose.push(body);
    } else if (tag === TAG.userId && block) {
      block.users.push({ id: body, signatures: [] });
      signatures = block.users.at(-1)!.signatures;
    } else if (tag === TAG.publicSubkey && block) {
      block.subkeys.push({ body, signatures: [] });
      signatures = block.subkeys.at(-1)!.signatures;
    } else if (PASSED_OVER.has(tag)) {
      // no evidence
    } else if (tag === TAG.userAttribute && block) {
      signatures = []; // pictures bind nothing
    } else {
      throw new Error(`packet ${tag} in a keyring`);
    }
  }
}
