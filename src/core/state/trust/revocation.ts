// The local revocation list: a binary KRL, or text with one key or fingerprint a line. It answers whether a key, an
// authority, a certificate or an OpenPGP key is revoked. A list that cannot be read in full refuses everything.

import { createHash } from 'node:crypto';
import { decodeBase64 } from './armor.ts';
import { isKeyRevocationList, type KeyRevocationList, parseKeyRevocationList } from './krl.ts';
import { quote, Refusal } from './refusal.ts';
import { isCertificateType, parseSshCertificate, type SshCertificate } from './ssh-certificate.ts';
import type { SshKey } from './ssh-key.ts';
import { SshWire } from './ssh-wire.ts';

export interface RevocationList extends KeyRevocationList {
  /** Primary or subkey fingerprints, 40 lower-case hex. */
  readonly openpgp: ReadonlySet<string>;
}

export const NOTHING_REVOKED: RevocationList = {
  keys: new Set(),
  sha1: new Set(),
  sha256: new Set(),
  certificates: [],
  openpgp: new Set(),
};

/** Parses either form; throws Refusal `bad-revocation-list` naming file and line. An empty file revokes nothing. */
export function parseRevocationList(content: Uint8Array, fileName: string): RevocationList {
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
  if (isKeyRevocationList(bytes)) return { ...NOTHING_REVOKED, ...parseKeyRevocationList(bytes) };
  const keys = new Set<string>();
  const sha256 = new Set<string>();
  const openpgp = new Set<string>();
  const text = decodeText(bytes, fileName);
  text.split('\n').forEach((raw, index) => {
    const line = raw.replace(/^[ \t\r]+|[ \t\r]+$/g, '');
    if (line === '' || line.startsWith('#')) return;
    const entry = parseEntry(line);
    if (!entry)
      throw new Refusal(
        'bad-revocation-list',
        `${fileName}:${index + 1}: neither a key nor a fingerprint: ${quote(line)}`,
      );
    if (entry.kind === 'key') keys.add(entry.value);
    else if (entry.kind === 'sha256') sha256.add(entry.value);
    else openpgp.add(entry.value);
  });
  return { keys, sha1: new Set(), sha256, certificates: [], openpgp };
}

function decodeText(bytes: Buffer, fileName: string): string {
  if (bytes.includes(0)) throw new Refusal('bad-revocation-list', `${fileName}: binary, but not an OpenSSH list`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Refusal('bad-revocation-list', `${fileName}: not UTF-8`);
  }
}

interface Entry {
  readonly kind: 'key' | 'sha256' | 'openpgp';
  readonly value: string;
}

function parseEntry(line: string): Entry | null {
  const [first = '', second = ''] = line.split(/[ \t]+/);
  if (/^SHA256:[A-Za-z0-9+/]{43}$/.test(first)) {
    const digest = Buffer.from(first.slice(7), 'base64');
    const isCanonical = digest.toString('base64') === `${first.slice(7)}=`;
    return isCanonical ? { kind: 'sha256', value: digest.toString('hex') } : null;
  }
  // With or without gpg's spaces; text may follow a fingerprint written in one word.
  const packed = /^(?:0x)?([0-9a-f]{40})$/i.exec(first) ?? /^(?:0x)?([0-9a-f]{40})$/i.exec(line.replace(/[ \t]+/g, ''));
  if (packed) return { kind: 'openpgp', value: packed[1]!.toLowerCase() };
  if (!/^[a-z][a-z0-9@.-]+$/.test(first)) return null;
  return parseKeyEntry(first, second);
}

/** A public key of any type, even one that is refused anyway; of a certificate, the key that it certifies. */
function parseKeyEntry(type: string, encoded: string): Entry | null {
  try {
    const blob = decodeBase64(encoded);
    const wire = new SshWire(blob, 'bad-revocation-list');
    if (wire.name() !== type || wire.isAtEnd) return null;
    const plain = isCertificateType(type) ? parseSshCertificate(blob).key.blob : blob;
    return { kind: 'key', value: plain.toString('base64') };
  } catch {
    return null;
  }
}

export function isKeyRevoked(list: RevocationList, key: SshKey): boolean {
  return (
    list.keys.has(key.blob.toString('base64')) ||
    (list.sha1.size > 0 && list.sha1.has(createHash('sha1').update(key.blob).digest('hex'))) ||
    (list.sha256.size > 0 && list.sha256.has(createHash('sha256').update(key.blob).digest('hex')))
  );
}

/** By serial or key id, in the sections of its authority and in those of every authority. */
export function isCertificateRevoked(list: RevocationList, certificate: SshCertificate): boolean {
  const authority = certificate.authority.blob.toString('base64');
  return list.certificates.some(
    (section) =>
      (section.authority === null || section.authority === authority) &&
      (section.serials.has(certificate.serial) ||
        section.ranges.some(([least, most]) => least <= certificate.serial && certificate.serial <= most) ||
        section.keyIds.has(certificate.keyId)),
  );
}
