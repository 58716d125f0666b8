// OpenSSH key revocation lists (PROTOCOL.krl): parses the binary form in full. Whatever it does not understand refuses
// the list as a whole, because an unread entry could be the revocation that matters.

import { Refusal } from './refusal.ts';
import { SshWire } from './ssh-wire.ts';

export interface RevokedCertificates {
  /** Blob of the authority (base64); null when the section speaks of every authority. */
  readonly authority: string | null;
  readonly serials: ReadonlySet<bigint>;
  /** Inclusive. */
  readonly ranges: readonly (readonly [bigint, bigint])[];
  readonly keyIds: ReadonlySet<string>;
}

export interface KeyRevocationList {
  /** Plain key blobs, base64. */
  readonly keys: ReadonlySet<string>;
  /** Hex digests of plain key blobs. */
  readonly sha1: ReadonlySet<string>;
  readonly sha256: ReadonlySet<string>;
  readonly certificates: readonly RevokedCertificates[];
}

const MAGIC = Buffer.from('SSHKRL\n\0', 'latin1');
const CODE = 'bad-revocation-list';

const SECTION = { certificates: 1, keys: 2, sha1: 3, signature: 4, sha256: 5, extension: 255 } as const;
const CERTIFICATE_SECTION = {
  serialList: 0x20,
  serialRange: 0x21,
  serialBitmap: 0x22,
  keyIds: 0x23,
  extension: 0x39,
} as const;
/** OpenSSH's own cap; a bitmap beyond it is no honest list. */
const LARGEST_BITMAP_BYTES = 0x800000 / 8;

export function isKeyRevocationList(bytes: Uint8Array): boolean {
  return bytes.length >= MAGIC.length && MAGIC.equals(bytes.subarray(0, MAGIC.length));
}

/** Parses a binary list; throws Refusal. */
export function parseKeyRevocationList(bytes: Buffer): KeyRevocationList {
  const wire = new SshWire(bytes, CODE);
  wire.bytes(MAGIC.length);
  const version = wire.uint32();
  if (version !== 1) throw new Refusal(CODE, `format version ${version}`);
  wire.uint64(); // the list's own version
  wire.uint64(); // when it was made
  wire.uint64(); // flags, none defined
  wire.string(); // reserved
  wire.string(); // comment
  const keys = new Set<string>();
  const sha1 = new Set<string>();
  const sha256 = new Set<string>();
  const certificates: RevokedCertificates[] = [];
  while (!wire.isAtEnd) {
    const type = wire.uint8();
    const section = new SshWire(wire.string(), CODE);
    if (type === SECTION.certificates) certificates.push(parseCertificates(section));
    else if (type === SECTION.keys) readAll(section, (blob) => keys.add(blob.toString('base64')));
    else if (type === SECTION.sha1) readAll(section, (digest) => sha1.add(hexDigest(digest, 20)));
    else if (type === SECTION.sha256) readAll(section, (digest) => sha256.add(hexDigest(digest, 32)));
    else if (type === SECTION.extension) skipExtension(section);
    else
      throw new Refusal(
        CODE,
        type === SECTION.signature ? 'a signed list, whose signer is unknown' : `section ${type}`,
      );
  }
  return { keys, sha1, sha256, certificates };
}

function readAll(section: SshWire, take: (value: Buffer) => void): void {
  while (!section.isAtEnd) take(section.string());
}

function hexDigest(digest: Buffer, length: number): string {
  if (digest.length !== length) throw new Refusal(CODE, `fingerprint of ${digest.length} bytes`);
  return digest.toString('hex');
}

function skipExtension(section: SshWire): void {
  const name = section.string().toString('latin1');
  const critical = section.uint8();
  section.string();
  section.end('the extension');
  if (critical !== 0) throw new Refusal(CODE, `critical extension ${JSON.stringify(name)}`);
}

function parseCertificates(section: SshWire): RevokedCertificates {
  const authority = section.string();
  section.string(); // reserved
  const serials = new Set<bigint>();
  const ranges: [bigint, bigint][] = [];
  const keyIds = new Set<string>();
  while (!section.isAtEnd) {
    const type = section.uint8();
    const part = new SshWire(section.string(), CODE);
    if (type === CERTIFICATE_SECTION.serialList) {
      while (!part.isAtEnd) serials.add(part.uint64());
    } else if (type === CERTIFICATE_SECTION.serialRange) {
      const least = part.uint64();
      const most = part.uint64();
      part.end('the serial range');
      if (least > most) throw new Refusal(CODE, 'serial range upside down');
      ranges.push([least, most]);
    } else if (type === CERTIFICATE_SECTION.serialBitmap) {
      ranges.push(...readBitmap(part));
    } else if (type === CERTIFICATE_SECTION.keyIds) {
      readAll(part, (keyId) => keyIds.add(keyId.toString('utf8')));
    } else if (type === CERTIFICATE_SECTION.extension) {
      skipExtension(part);
    } else {
      throw new Refusal(CODE, `certificate section ${type}`);
    }
  }
  return { authority: authority.length === 0 ? null : authority.toString('base64'), serials, ranges, keyIds };
}

/** Bit n of the bitmap (big-endian integer) revokes serial `offset + n`; runs of bits become ranges. */
function readBitmap(part: SshWire): [bigint, bigint][] {
  const offset = part.uint64();
  const bitmap = part.positiveInteger();
  part.end('the serial bitmap');
  if (bitmap.length > LARGEST_BITMAP_BYTES) throw new Refusal(CODE, 'serial bitmap too large');
  const ranges: [bigint, bigint][] = [];
  let start = -1;
  const bits = bitmap.length * 8;
  for (let bit = 0; bit <= bits; bit++) {
    const byte = bitmap[bitmap.length - 1 - (bit >> 3)] ?? 0;
    const isSet = bit < bits && ((byte >> (bit & 7)) & 1) === 1;
    if (isSet && start < 0) start = bit;
    if (!isSet && start >= 0) {
      ranges.push([offset + BigInt(start), offset + BigInt(bit - 1)]);
      start = -1;
    }
  }
  return ranges;
}
