// OpenPGP keys and signatures built packet by packet, for the forms that gpg refuses to write.

import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { armor, DATED } from './material.ts';

export const HASH = { sha1: 2, sha256: 8, sha384: 9, sha512: 10 } as const;

export interface PgpKey {
  readonly body: Buffer;
  readonly fingerprint: string;
  readonly privateKey: KeyObject;
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

function mpi(value: Buffer): Buffer {
  const bytes = value.subarray(
    Math.max(
      0,
      value.findIndex((byte) => byte !== 0),
    ),
  );
  return Buffer.concat([u16(bytes.length * 8 - Math.clz32(bytes[0]!) + 24), bytes]);
}

/** An Ed25519 key (legacy EdDSA), made at `created`. */
export function pgpKey(created = DATED - 1_000_000): PgpKey {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const point = Buffer.from(publicKey.export({ format: 'jwk' }).x!, 'base64url');
  const oid = Buffer.from('2b06010401da470f01', 'hex');
  const body = Buffer.concat([
    Buffer.of(4),
    u32(created),
    Buffer.of(22, oid.length),
    oid,
    mpi(Buffer.concat([Buffer.of(0x40), point])),
  ]);
  return { body, fingerprint: createHash('sha1').update(keyData(body)).digest('hex'), privateKey };
}

function keyData(body: Buffer): Buffer {
  return Buffer.concat([Buffer.of(0x99), u16(body.length), body]);
}

export function packet(tag: number, body: Buffer): Buffer {
  return Buffer.concat([Buffer.of(0xc0 | tag, 255), u32(body.length), body]);
}

export function sub(type: number, value: Buffer | number[], isCritical = false): Buffer {
  const bytes = Buffer.from(value as number[]);
  return Buffer.concat([Buffer.of(255), u32(bytes.length + 1), Buffer.of(type | (isCritical ? 0x80 : 0)), bytes]);
}

export const createdAt = (seconds: number): Buffer => sub(2, u32(seconds));
export const expiresAfter = (seconds: number): Buffer => sub(3, u32(seconds));
export const keyExpiresAfter = (seconds: number): Buffer => sub(9, u32(seconds));
export const flags = (bits: number): Buffer => sub(27, [bits]);
export const reason = (code: number): Buffer => sub(29, [code]);
export const issuer = (key: PgpKey): Buffer =>
  sub(33, Buffer.concat([Buffer.of(4), Buffer.from(key.fingerprint, 'hex')]));
export const issuerId = (key: PgpKey): Buffer => sub(16, Buffer.from(key.fingerprint.slice(-16), 'hex'));

export interface PgpSignature {
  readonly created?: number;
  /** Instead of creation time and issuer. */
  readonly only?: readonly Buffer[];
  readonly hashed?: readonly Buffer[];
  readonly unhashed?: readonly Buffer[];
  readonly hash?: keyof typeof HASH;
  readonly version?: number;
  readonly algorithm?: number;
}

/** The body of a signature packet over `data`. */
export function pgpSign(key: PgpKey, type: number, data: Buffer, bent: PgpSignature = {}): Buffer {
  const hash = bent.hash ?? 'sha256';
  const hashed = Buffer.concat([
    ...(bent.only ?? [createdAt(bent.created ?? DATED), issuer(key)]),
    ...(bent.hashed ?? []),
  ]);
  const unhashed = Buffer.concat(bent.unhashed ?? (bent.only ? [] : [issuerId(key)])); // gpg wants the short id
  const head = Buffer.concat([
    Buffer.of(bent.version ?? 4, type, bent.algorithm ?? 22, HASH[hash]),
    u16(hashed.length),
    hashed,
  ]);
  const digest = createHash(hash)
    .update(data)
    .update(head)
    .update(Buffer.of(4, 0xff))
    .update(u32(head.length))
    .digest();
  const raw = sign(null, digest, key.privateKey);
  return Buffer.concat([
    head,
    u16(unhashed.length),
    unhashed,
    digest.subarray(0, 2),
    mpi(raw.subarray(0, 32)),
    mpi(raw.subarray(32)),
  ]);
}

export const SIGN = 0x02;
export const CERTIFY = 0x01;
export const USER = 'Hand <hand@example.com>';

export function certifyUser(key: PgpKey, bent: PgpSignature = {}, type = 0x13, by = key): Buffer {
  const id = Buffer.from(USER);
  const data = Buffer.concat([keyData(key.body), Buffer.of(0xb4), u32(id.length), id]);
  return packet(2, pgpSign(by, type, data, { created: DATED - 900_000, hashed: [flags(SIGN | CERTIFY)], ...bent }));
}

/** Key-level signatures: direct (0x1f) and revocation (0x20). */
export function signKey(key: PgpKey, type: number, bent: PgpSignature = {}, by = key): Buffer {
  return packet(2, pgpSign(by, type, keyData(key.body), bent));
}

export function signBack(key: PgpKey, subkey: PgpKey, bent: PgpSignature = {}): Buffer {
  const data = Buffer.concat([keyData(key.body), keyData(subkey.body)]);
  return sub(32, pgpSign(subkey, 0x19, data, { created: DATED - 900_000, ...bent }));
}

/** A binding (0x18) or revocation (0x28) of a subkey. */
export function signSubkey(key: PgpKey, subkey: PgpKey, bent: PgpSignature = {}, type = 0x18, by = key): Buffer {
  const data = Buffer.concat([keyData(key.body), keyData(subkey.body)]);
  return packet(2, pgpSign(by, type, data, { created: DATED - 900_000, ...bent }));
}

/** The key, its user id and what follows, ready for a keyring. */
export function ring(key: PgpKey, ...more: readonly Buffer[]): Buffer {
  return Buffer.concat([packet(6, key.body), packet(13, Buffer.from(USER)), ...more]);
}

export const bound = (subkey: PgpKey, ...signatures: readonly Buffer[]): Buffer =>
  Buffer.concat([packet(14, subkey.body), ...signatures]);

export const pgpArmor = (...packets: readonly Buffer[]): string => armor('PGP', Buffer.concat(packets));
