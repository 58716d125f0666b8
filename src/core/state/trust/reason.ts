// The closed table of reasons: each code fixes its verdict, so no caller can pair a refusal with `valid`.
// It holds words only; the rules that choose a code are in the files that refuse.

export type Verdict = 'valid' | 'valid-history-only' | 'invalid';

interface Reason {
  readonly verdict: Verdict;
  readonly help: string;
}

const invalid = (help: string) => ({ verdict: 'invalid', help }) as const;
const history = (help: string) => ({ verdict: 'valid-history-only', help }) as const;

/** Every code that a judgement can carry, with one sentence of help. */
export const REASONS = {
  ok: { verdict: 'valid', help: 'The signature holds and its key may sign now.' },

  // Good when it was made, not now: it proves history and never authorises.
  'signer-expired-since': history(
    'The valid-before of the allowed_signers line has passed; sign again with a current key.',
  ),
  'certificate-expired-since': history('The SSH certificate has expired since; sign again with a current certificate.'),
  'key-expired-since': history('The OpenPGP key or signing subkey has expired since; extend it and sign again.'),
  'key-retired-since': history('The key was revoked later as superseded or retired; sign again with its successor.'),
  'signature-expired-since': history('The signature set itself an expiry, which has passed; sign again.'),

  // What was asked, and the repository.
  'unknown-rev': invalid('No object, ref or tag has this name in the repository.'),
  'ambiguous-rev': invalid('The short id fits several objects; write more digits.'),
  'unreadable-object': invalid('The object is missing or damaged in the repository; run git fsck.'),
  'unreadable-repository': invalid('The directory is not a git repository or cannot be read; check --git-dir.'),
  'sha256-repository': invalid('Repositories with SHA-256 object ids are not supported; use a SHA-1 repository.'),
  'not-commit-or-tag': invalid('Only commits and annotated tags carry signatures; this is a tree or a blob.'),
  'object-too-large': invalid('The object is larger than a commit or tag may be.'),
  'oid-mismatch': invalid(
    'The bytes do not hash to the object id that was asked for; the repository is damaged or forged.',
  ),

  // The trust roots.
  'bad-time': invalid('The time to judge by is not a date; check --at.'),
  'bad-allowed-signers': invalid('The allowed signers file cannot be used as a whole; mend the line that is named.'),
  'bad-keyring': invalid('The keyring is damaged or holds secret keys; export the public keys again.'),
  'bad-revocation-list': invalid(
    'The revocation list cannot be read in full, so nothing is accepted; mend or restore it.',
  ),

  // The object.
  'nul-byte': invalid('The object contains a NUL byte, which hides text from readers.'),
  'malformed-object': invalid('The object does not follow the form of a commit or tag.'),
  'malformed-header': invalid('A header line is malformed.'),
  'missing-header': invalid('A required header is missing.'),
  'duplicate-header': invalid('A header that may occur once is repeated, so readers may disagree on its value.'),
  'header-order': invalid('The headers are not in the order that git writes.'),
  'bad-date': invalid('The date of the author, committer or tagger is malformed.'),
  'no-date': invalid('The tag names no tagger, so its signature cannot be placed in time.'),
  'no-signature': invalid('The object is not signed.'),
  'several-signatures': invalid('The object carries more than one signature.'),
  'extra-signature-header': invalid('The object has a header that starts with gpgsig beside its one signature.'),

  // The strict profile of statements.
  'not-single-parent': invalid('A statement is a commit with exactly one parent; merges and roots are none.'),
  'mergetag-header': invalid('A statement carries no mergetag.'),
  'encoding-header': invalid('A statement is UTF-8 and has no encoding header.'),
  'extra-blank-line': invalid('Exactly one blank line stands between the headers and the message of a statement.'),
  'tag-target': invalid('A statement tag points to a commit.'),
  'extra-tag-header': invalid('A statement tag has the headers object, type, tag and tagger only.'),

  // The armor.
  'unknown-signature-format': invalid('The signature is neither an SSH nor an OpenPGP signature.'),
  'x509-signature': invalid('X.509 signatures are not supported; sign with SSH or OpenPGP.'),
  'not-detached': invalid('The signature wraps a message; a detached signature is needed.'),
  'malformed-armor': invalid('The armor of the signature is not in its exact form.'),
  'several-armors': invalid('The signature field holds more than one armor.'),
  'trailing-armor': invalid('Text follows the end of the armor.'),
  'armor-header': invalid('The OpenPGP armor has a header other than Version or Comment.'),
  'armor-checksum': invalid('The checksum of the OpenPGP armor is wrong.'),
  'non-canonical-base64': invalid('The base64 of the armor is not canonical.'),
  'signature-too-large': invalid('The signature is larger than any genuine one.'),

  // SSH signatures.
  'malformed-ssh-signature': invalid('The SSH signature is not well formed.'),
  'ssh-signature-version': invalid('The SSH signature has a version other than 1.'),
  'wrong-namespace': invalid('The SSH signature was made for another purpose than git.'),
  'reserved-not-empty': invalid('The reserved field of the SSH signature is not empty.'),
  'hash-refused': invalid('The signature uses a hash algorithm that is not accepted; use SHA-256 or SHA-512.'),
  'malformed-key': invalid('The public key in the signature is not well formed.'),
  'key-type-refused': invalid('Keys of this type are not accepted; use Ed25519, ECDSA or RSA.'),
  'weak-key': invalid('The key is too weak; use Ed25519, ECDSA, or RSA of at least 2048 bits.'),
  'algorithm-mismatch': invalid('The signature algorithm does not belong to the key type.'),
  'sha1-signature': invalid('The signature was made with RSA and SHA-1; sign with rsa-sha2-512.'),
  'bad-signature': invalid('The signature does not belong to these bytes.'),
  'no-user-presence': invalid('The security key signed without a touch.'),
  'no-user-verification': invalid('The security key signed without a PIN or a fingerprint.'),
  'malformed-certificate': invalid('The SSH certificate is not well formed.'),
  'nested-certificate': invalid('The certificate was issued by another certificate; a plain authority key is needed.'),
  'certificate-type': invalid('The certificate is not a user certificate.'),
  'certificate-bad-signature': invalid('The certificate was not signed by the authority that it names.'),
  'certificate-critical-option': invalid('The certificate has a critical option; issue one without.'),
  'certificate-without-principals': invalid('The certificate names no principal; issue one with -n.'),
  'weak-authority': invalid('The certificate authority key is of a refused type or too weak.'),
  'authority-sha1': invalid('The certificate was signed with RSA and SHA-1; issue it with -t rsa-sha2-512.'),

  // Who signed.
  'unknown-key': invalid('The key is in no trust root; add it if its owner may sign.'),
  'unknown-authority': invalid('No cert-authority line names the authority of the certificate.'),
  'authority-key-signed': invalid('The key is listed as a certificate authority only and may not sign itself.'),
  'bad-signer-line': invalid('The allowed_signers line of this key is malformed; mend the line that is named.'),
  'namespace-not-allowed': invalid('The allowed_signers line of this key does not allow the namespace git.'),
  'wildcard-principal': invalid('The line of this key has only patterns as principals and names nobody; write a name.'),
  'principal-mismatch': invalid('No principal of the certificate fits the cert-authority line.'),
  revoked: invalid('The key is revoked.'),
  'revoked-authority': invalid('The certificate authority is revoked.'),
  'revoked-certificate': invalid('The certificate is revoked by serial number or key id.'),

  // When.
  'dated-in-future': invalid('The object or its signature is dated in the future.'),
  'not-yet-valid': invalid(
    'The key or certificate was not yet valid at the date of the object, or is not yet valid now.',
  ),
  'key-expired': invalid('The key, certificate or allowed_signers line had expired when the object was dated.'),
  'signature-expired': invalid('The signature had expired at the date of the object.'),
  'signature-date-mismatch': invalid(
    'The signature was made more than 300 s from the date of the committer or tagger.',
  ),

  // OpenPGP.
  'malformed-openpgp': invalid('The OpenPGP signature is not well formed.'),
  'several-signature-packets': invalid('The armor holds more than one OpenPGP packet.'),
  'signature-version': invalid('Only version 4 OpenPGP signatures are accepted.'),
  'not-binary-signature': invalid('The OpenPGP signature is not over binary data.'),
  'critical-subpacket': invalid('The OpenPGP signature has a critical subpacket or notation that is not understood.'),
  'no-signature-date': invalid('The OpenPGP signature has no creation time in its signed part, or several.'),
  'no-issuer': invalid('The OpenPGP signature does not say which key made it.'),
  'key-not-bound': invalid(
    'The OpenPGP key has no valid user id, or its subkey is not bound to it in both directions.',
  ),
  'weak-self-signature': invalid(
    'The OpenPGP key binds itself with a weak hash such as SHA-1; renew its self-signatures.',
  ),
  'key-cannot-sign': invalid('The OpenPGP key or subkey is not marked as a signing key.'),
  'key-unusable': invalid('The OpenPGP key has a form that cannot be judged safely.'),

  'internal-error': invalid('The verifier failed on this object, so it is refused; please report it.'),
} as const satisfies Record<string, Reason>;

export type ReasonCode = keyof typeof REASONS;

/** Codes that refuse: what a parser may throw. */
export type RefusalCode = {
  [K in ReasonCode]: (typeof REASONS)[K]['verdict'] extends 'invalid' ? K : never;
}[ReasonCode];
