// SSH public keys: parses a key blob, names it by fingerprint, verifies one raw SSH signature with it.
// Synchronous, over node:crypto. It decides nothing about who the key belongs to or when it may sign.

import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto';
import type { RefusalCode } from './reason.ts';
import { quote, Refusal } from './refusal.ts';
import { SshWire } from './ssh-wire.ts';

type Algorithm =
  | { readonly kind: 'ed25519' }
  | { readonly kind: 'rsa'; readonly bits: number; readonly isSound: boolean }
  | { readonly kind: 'ecdsa'; readonly hash: string; readonly sizeBytes: number };

export interface SshKey {
  /** Plain key type, as `ssh-ed25519`; never a certificate type. */
  readonly type: string;
  /** The plain public key blob. */
  readonly blob: Buffer;
  /** `SHA256:` and 43 base64 digits, as ssh-keygen prints it. */
  readonly fingerprint: string;
  readonly algorithm: Algorithm;
  readonly key: KeyObject;
  /** SHA-256 of the application of a security key; null for others. */
  readonly applicationHash: Buffer | null;
}

interface Curve {
  readonly name: string;
  readonly jwk: string;
  readonly hash: string;
  readonly sizeBytes: number;
}

const P256: Curve = { name: 'nistp256', jwk: 'P-256', hash: 'sha256', sizeBytes: 32 };
const CURVES: Readonly<Record<string, Curve>> = {
  'ecdsa-sha2-nistp256': P256,
  'ecdsa-sha2-nistp384': { name: 'nistp384', jwk: 'P-384', hash: 'sha384', sizeBytes: 48 },
  'ecdsa-sha2-nistp521': { name: 'nistp521', jwk: 'P-521', hash: 'sha512', sizeBytes: 66 },
  'sk-ecdsa-sha2-nistp256@openssh.com': P256,
};

const ED25519_TYPES = new Set(['ssh-ed25519', 'sk-ssh-ed25519@openssh.com']);
const LEAST_RSA_BITS = 2048;
const MOST_RSA_BITS = 16384;
const USER_PRESENT = 0x01;
const USER_VERIFIED = 0x04;

/** Types that this room can verify; others are refused as a type, not as malformed. */
export function isKnownKeyType(type: string): boolean {
  return type === 'ssh-rsa' || ED25519_TYPES.has(type) || Object.hasOwn(CURVES, type);
}

/** Parses a plain public key blob; throws Refusal (`code` when malformed, `key-type-refused` for other types). */
export function parseSshKey(blob: Buffer, code: RefusalCode = 'malformed-key'): SshKey {
  const wire = new SshWire(blob, code);
  const type = wire.name();
  const key = readKeyFields(wire, type, code);
  wire.end('the key');
  return { ...key, blob, fingerprint: fingerprintOf(blob) };
}

export function fingerprintOf(blob: Uint8Array): string {
  return `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;
}

/** The fields that follow the type in a key blob, and in a certificate after its nonce. */
export function readKeyFields(
  wire: SshWire,
  type: string,
  code: RefusalCode,
): Pick<SshKey, 'type' | 'algorithm' | 'key' | 'applicationHash'> {
  if (!isKnownKeyType(type)) throw new Refusal('key-type-refused', quote(type));
  const { algorithm, jwk } = readMaterial(wire, type, code);
  const applicationHash = type.startsWith('sk-') ? createHash('sha256').update(wire.string()).digest() : null;
  return { type, algorithm, key: importJwk(jwk, code), applicationHash };
}

function readMaterial(
  wire: SshWire,
  type: string,
  code: RefusalCode,
): { algorithm: Algorithm; jwk: Record<string, string> } {
  if (ED25519_TYPES.has(type)) {
    const point = wire.string();
    if (point.length !== 32) throw new Refusal(code, `ed25519 key of ${point.length} bytes`);
    return { algorithm: { kind: 'ed25519' }, jwk: { kty: 'OKP', crv: 'Ed25519', x: point.toString('base64url') } };
  }
  if (type === 'ssh-rsa') {
    const exponent = wire.positiveInteger();
    const modulus = wire.positiveInteger();
    const bits = bitLength(modulus);
    if (bits > MOST_RSA_BITS) throw new Refusal(code, `rsa modulus of ${bits} bits`);
    // An exponent of 1 or an even one makes every signature forgeable; a huge one makes verification slow.
    const isOdd = (exponent.at(-1)! & 1) === 1 && (modulus.at(-1)! & 1) === 1;
    const isSound = isOdd && exponent.length <= 8 && bitLength(exponent) > 1;
    if (exponent.length > 8) throw new Refusal(code, 'rsa exponent over 64 bits');
    return {
      algorithm: { kind: 'rsa', bits, isSound },
      jwk: { kty: 'RSA', e: exponent.toString('base64url'), n: modulus.toString('base64url') },
    };
  }
  const curve = CURVES[type]!;
  const name = wire.name();
  if (name !== curve.name) throw new Refusal(code, `curve ${quote(name)} in a key of type ${type}`);
  const point = wire.string();
  if (point.length !== 1 + 2 * curve.sizeBytes || point[0] !== 0x04)
    throw new Refusal(code, 'point is not uncompressed');
  return {
    algorithm: { kind: 'ecdsa', hash: curve.hash, sizeBytes: curve.sizeBytes },
    jwk: {
      kty: 'EC',
      crv: curve.jwk,
      x: point.subarray(1, 1 + curve.sizeBytes).toString('base64url'),
      y: point.subarray(1 + curve.sizeBytes).toString('base64url'),
    },
  };
}

/** Refuses points that are not on the curve. */
function importJwk(jwk: Record<string, string>, code: RefusalCode): KeyObject {
  try {
    return createPublicKey({ key: jwk, format: 'jwk' });
  } catch {
    throw new Refusal(code, 'not a point of the curve, or not a usable modulus');
  }
}

export function bitLength(magnitude: Uint8Array): number {
  const first = magnitude.findIndex((byte) => byte !== 0);
  return first < 0 ? 0 : (magnitude.length - first) * 8 - (Math.clz32(magnitude[first]!) - 24);
}

/** Why the key may sign nothing, or null. */
export function weaknessOf(key: SshKey): string | null {
  if (key.algorithm.kind !== 'rsa') return null;
  if (key.algorithm.bits < LEAST_RSA_BITS) return `rsa of ${key.algorithm.bits} bits`;
  return key.algorithm.isSound ? null : 'rsa with an unsound exponent or modulus';
}

export interface VerifyOptions {
  /** Security keys must also have checked a PIN or a fingerprint. */
  readonly requireUserVerification?: boolean;
  /** Codes by who is verified: the signer's signature, or the authority's on a certificate. */
  readonly codes: {
    readonly malformed: RefusalCode;
    readonly bad: RefusalCode;
    readonly sha1: RefusalCode;
    readonly mismatch: RefusalCode;
  };
}

/** Verifies a signature blob over `data`; throws Refusal unless it holds. */
export function verifyWithSshKey(key: SshKey, signatureBlob: Buffer, data: Buffer, options: VerifyOptions): void {
  const { codes } = options;
  const wire = new SshWire(signatureBlob, codes.malformed);
  const name = wire.name();
  const signature = wire.string();
  const isSecurityKey = key.applicationHash !== null;
  const flags = isSecurityKey && name === key.type ? wire.uint8() : 0;
  const counter = isSecurityKey && name === key.type ? wire.bytes(4) : Buffer.alloc(0);
  if (key.type === 'ssh-rsa' && name === 'ssh-rsa') throw new Refusal(codes.sha1);
  const isRsaName = key.type === 'ssh-rsa' && (name === 'rsa-sha2-256' || name === 'rsa-sha2-512');
  if (!isRsaName && name !== key.type) throw new Refusal(codes.mismatch, `${quote(name)} by a key of type ${key.type}`);
  wire.end('the signature');

  const signed = key.applicationHash
    ? Buffer.concat([key.applicationHash, Buffer.of(flags), counter, createHash('sha256').update(data).digest()])
    : data;
  if (!holds(key, name, signature, signed, codes.malformed)) throw new Refusal(codes.bad);
  if (isSecurityKey && (flags & USER_PRESENT) === 0) throw new Refusal('no-user-presence');
  if (isSecurityKey && options.requireUserVerification === true && (flags & USER_VERIFIED) === 0) {
    throw new Refusal('no-user-verification');
  }
}

function holds(key: SshKey, name: string, signature: Buffer, data: Buffer, malformed: RefusalCode): boolean {
  const { algorithm } = key;
  switch (algorithm.kind) {
    case 'ed25519':
      if (signature.length !== 64) throw new Refusal(malformed, `ed25519 signature of ${signature.length} bytes`);
      return verify(null, data, key.key, signature);
    case 'rsa':
      // Exactly the modulus' length: a shorter or longer form of the same number is another encoding of the signature.
      if (signature.length !== Math.ceil(algorithm.bits / 8)) throw new Refusal(malformed, 'rsa signature length');
      return verify(name === 'rsa-sha2-512' ? 'sha512' : 'sha256', data, key.key, signature);
    case 'ecdsa': {
      const wire = new SshWire(signature, malformed);
      const r = wire.positiveInteger();
      const s = wire.positiveInteger();
      wire.end('the ecdsa signature');
      const { sizeBytes } = algorithm;
      if (r.length > sizeBytes || s.length > sizeBytes) throw new Refusal(malformed, 'ecdsa number too large');
      const fixed = Buffer.alloc(2 * sizeBytes);
      r.copy(fixed, sizeBytes - r.length);
      s.copy(fixed, 2 * sizeBytes - s.length);
      // (r, n-s) verifies too, and OpenSSH writes either: never key anything on the bytes of a signature.
      return verify(algorithm.hash, data, { key: key.key, dsaEncoding: 'ieee-p1363' }, fixed);
    }
  }
}
