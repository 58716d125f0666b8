// SSHSIG (PROTOCOL.sshsig): parses the blob inside the armor and verifies it over the signed payload.
// Synchronous. Whether the key may sign is not decided here.

import { createHash } from 'node:crypto';
import { quote, Refusal } from './refusal.ts';
import { isCertificateType, parseSshCertificate, type SshCertificate } from './ssh-certificate.ts';
import { parseSshKey, type SshKey, verifyWithSshKey } from './ssh-key.ts';
import { SshWire, sshString } from './ssh-wire.ts';

const MAGIC = 'SSHSIG';
const NAMESPACE = 'git';

export interface SshSignature {
  /** The key that signed; of a certificate, the certified key. */
  readonly key: SshKey;
  readonly certificate: SshCertificate | null;
  readonly hash: 'sha256' | 'sha512';
  readonly signatureBlob: Buffer;
}

/** Parses the blob; throws Refusal. Keys found in `known` (by base64 of their blob) are not imported again. */
export function parseSshSignature(blob: Buffer, known: ReadonlyMap<string, SshKey>): SshSignature {
  const wire = new SshWire(blob, 'malformed-ssh-signature');
  if (wire.bytes(MAGIC.length).toString('latin1') !== MAGIC) throw new Refusal('malformed-ssh-signature', 'magic');
  const version = wire.uint32();
  if (version !== 1) throw new Refusal('ssh-signature-version', `version ${version}`);
  const keyBlob = wire.string();
  const namespace = wire.string().toString('latin1');
  const reserved = wire.string();
  const hash = wire.string().toString('latin1');
  const signatureBlob = wire.string();
  wire.end('the signature');
  if (namespace !== NAMESPACE) throw new Refusal('wrong-namespace', quote(namespace));
  if (reserved.length > 0) throw new Refusal('reserved-not-empty');
  if (hash !== 'sha256' && hash !== 'sha512') throw new Refusal('hash-refused', quote(hash));
  const type = new SshWire(keyBlob, 'malformed-key').name();
  const parsed = isCertificateType(type)
    ? parseSshCertificate(keyBlob)
    : { key: known.get(keyBlob.toString('base64')) ?? parseSshKey(keyBlob), certificate: null };
  return { ...parsed, hash, signatureBlob };
}

/** Throws Refusal unless the signature is over exactly `payload`. */
export function verifySshSignature(
  signature: SshSignature,
  payload: Uint8Array,
  options: { readonly requireUserVerification: boolean },
): void {
  const signed = Buffer.concat([
    Buffer.from(MAGIC),
    sshString(NAMESPACE),
    sshString(''),
    sshString(signature.hash),
    sshString(createHash(signature.hash).update(payload).digest()),
  ]);
  verifyWithSshKey(signature.key, signature.signatureBlob, signed, {
    ...options,
    codes: {
      malformed: 'malformed-ssh-signature',
      bad: 'bad-signature',
      sha1: 'sha1-signature',
      mismatch: 'algorithm-mismatch',
    },
  });
}
