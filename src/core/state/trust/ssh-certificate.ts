// OpenSSH user certificates (PROTOCOL.certkeys): parses one and checks everything that does not depend on time or on
// the trust roots. Validity, principals and the authority's standing are judged by the caller.

import { quote, Refusal } from './refusal.ts';
import { fingerprintOf, parseSshKey, readKeyFields, type SshKey, verifyWithSshKey, weaknessOf } from './ssh-key.ts';
import { SshWire, sshString } from './ssh-wire.ts';

export interface SshCertificate {
  readonly serial: bigint;
  readonly keyId: string;
  readonly principals: readonly string[];
  /** Seconds since the epoch: valid from `validAfter`, no longer at `validBefore`. */
  readonly validAfter: bigint;
  readonly validBefore: bigint;
  readonly kind: number;
  readonly criticalOptions: readonly string[];
  readonly authority: SshKey;
  /** What the authority signed, and its signature. */
  readonly signedBytes: Buffer;
  readonly authoritySignature: Buffer;
}

const SUFFIX = '-cert-v01@openssh.com';
const USER = 1;

export function isCertificateType(type: string): boolean {
  return type.endsWith(SUFFIX);
}

/** `sk-ssh-ed25519-cert-v01@openssh.com` certifies a key of type `sk-ssh-ed25519@openssh.com`. */
function plainType(type: string): string {
  const stem = type.slice(0, -SUFFIX.length);
  return stem.startsWith('sk-') ? `${stem}@openssh.com` : stem;
}

/** Parses a certificate blob; throws Refusal. */
export function parseSshCertificate(blob: Buffer): { readonly key: SshKey; readonly certificate: SshCertificate } {
  const code = 'malformed-certificate';
  const wire = new SshWire(blob, code);
  const type = wire.name();
  wire.string(); // nonce
  const keyStart = wire.offset;
  const fields = readKeyFields(wire, plainType(type), code);
  const keyBlob = Buffer.concat([sshString(fields.type), blob.subarray(keyStart, wire.offset)]);
  const serial = wire.uint64();
  const kind = wire.uint32();
  const keyId = wire.string().toString('utf8');
  const principals = readPrincipals(wire.string());
  const validAfter = wire.uint64();
  const validBefore = wire.uint64();
  const criticalOptions = readOptions(wire.string());
  readOptions(wire.string()); // extensions grant logins; they say nothing about signatures
  if (wire.string().length > 0) throw new Refusal(code, 'reserved field is not empty');
  const authorityBlob = wire.string();
  const signedBytes = blob.subarray(0, wire.offset);
  const authoritySignature = wire.string();
  wire.end('the certificate');
  return {
    key: { ...fields, blob: keyBlob, fingerprint: fingerprintOf(keyBlob) },
    certificate: {
      serial,
      keyId,
      principals,
      validAfter,
      validBefore,
      kind,
      criticalOptions,
      authority: parseAuthority(authorityBlob),
      signedBytes,
      authoritySignature,
    },
  };
}

function parseAuthority(blob: Buffer): SshKey {
  const type = new SshWire(blob, 'malformed-certificate').name();
  if (isCertificateType(type)) throw new Refusal('nested-certificate', type);
  try {
    return parseSshKey(blob, 'malformed-certificate');
  } catch (error) {
    if (error instanceof Refusal && error.code === 'key-type-refused')
      throw new Refusal('weak-authority', error.message);
    throw error;
  }
}

function readPrincipals(bytes: Buffer): string[] {
  const wire = new SshWire(bytes, 'malformed-certificate');
  const principals: string[] = [];
  while (!wire.isAtEnd) {
    const raw = wire.string();
    const principal = raw.toString('utf8');
    if (raw.length === 0 || /[\0-\x1f\x7f\ufffd]/.test(principal)) {
      throw new Refusal('malformed-certificate', `principal ${quote(principal)}`);
    }
    principals.push(principal);
  }
  return principals;
}

function readOptions(bytes: Buffer): string[] {
  const wire = new SshWire(bytes, 'malformed-certificate');
  const names: string[] = [];
  while (!wire.isAtEnd) {
    names.push(wire.string().toString('latin1'));
    wire.string();
  }
  return names;
}

/** Checks what holds at any time: user kind, no critical option, principals, and the authority's signature. */
export function checkCertificate(certificate: SshCertificate): void {
  const { authority } = certificate;
  verifyWithSshKey(authority, certificate.authoritySignature, certificate.signedBytes, {
    codes: {
      malformed: 'malformed-certificate',
      bad: 'certificate-bad-signature',
      sha1: 'authority-sha1',
      mismatch: 'certificate-bad-signature',
    },
  });
  const weakness = weaknessOf(authority);
  if (weakness !== null) throw new Refusal('weak-authority', weakness);
  if (certificate.kind !== USER) throw new Refusal('certificate-type', `type ${certificate.kind}`);
  if (certificate.criticalOptions.length > 0) {
    throw new Refusal('certificate-critical-option', quote(certificate.criticalOptions.join(',')));
  }
  if (certificate.principals.length === 0) throw new Refusal('certificate-without-principals');
}
