// OpenPGP keys and signatures that gpg would not write, each with its verdict; gpgv is asked too where it is right.

import { afterAll, describe, expect, it } from 'vitest';
import { judge } from '../../../src/core/state/trust/judge.ts';
import { REASONS, type ReasonCode } from '../../../src/core/state/trust/reason.ts';
import { parseTrustRoots } from '../../../src/core/state/trust/roots.ts';
import {
  bound,
  CERTIFY,
  certifyUser,
  createdAt,
  expiresAfter,
  flags,
  issuer,
  issuerId,
  keyExpiresAfter,
  type PgpSignature,
  packet,
  pgpArmor,
  pgpKey,
  pgpSign,
  reason as revocationReason,
  ring,
  SIGN,
  signBack,
  signKey,
  signSubkey,
  sub,
} from './hand-pgp.ts';
import { AT, commitPayload, DATED, insertSignature, Material, objectId, unarmor } from './material.ts';

const m = new Material();
afterAll(() => m.close());

const payload = commitPayload();
const key = pgpKey();
const other = pgpKey();
const subkey = pgpKey(DATED - 950_000);
const plain = ring(key, certifyUser(key));
const now = AT.getTime() / 1000;
const DAY = 86_400;

const signed = (bent: PgpSignature = {}, type = 0, by = key): Buffer => packet(2, pgpSign(by, type, payload, bent));
const bySubkey = (): Buffer => signed({}, 0, subkey);
const withSubkey = (...signatures: readonly Buffer[]): Buffer =>
  ring(key, certifyUser(key), bound(subkey, ...signatures));
const goodBinding = (): Buffer => signSubkey(key, subkey, { hashed: [flags(SIGN), signBack(key, subkey)] });

type Row = readonly [
  name: string,
  reason: ReasonCode,
  make: () => { readonly signature: Buffer; readonly keyring?: Buffer; readonly gpgv?: 'good' | 'bad' },
];

const SIGNATURES: readonly Row[] = [
  ['a signature by hand', 'ok', () => ({ signature: signed(), gpgv: 'good' })],
  ['SHA-512', 'ok', () => ({ signature: signed({ hash: 'sha512' }), gpgv: 'good' })],
  ['SHA-1', 'hash-refused', () => ({ signature: signed({ hash: 'sha1' }) })],
  ['a text signature', 'not-binary-signature', () => ({ signature: signed({}, 1) })],
  ['a certification in its place', 'not-binary-signature', () => ({ signature: certifyUser(key) })],
  ['version 3', 'signature-version', () => ({ signature: signed({ version: 3 }) })],
  ['version 6', 'signature-version', () => ({ signature: signed({ version: 6 }) })],
  ['the number of DSA', 'weak-key', () => ({ signature: signed({ algorithm: 17 }) })],
  ['the number of an encryption key', 'key-type-refused', () => ({ signature: signed({ algorithm: 18 }) })],
  ['no creation time', 'no-signature-date', () => ({ signature: signed({ only: [issuer(key)] }) })],
  [
    'a creation time that is not signed',
    'no-signature-date',
    () => ({ signature: signed({ only: [issuer(key)], unhashed: [createdAt(DATED)] }) }),
  ],
  ['two creation times', 'no-signature-date', () => ({ signature: signed({ hashed: [createdAt(DATED + 1)] }) })],
  ['another creation time that is not signed', 'ok', () => ({ signature: signed({ unhashed: [createdAt(1)] }) })],
  ['no issuer', 'no-issuer', () => ({ signature: signed({ only: [createdAt(DATED)] }) })],
  [
    'an issuer that is not signed',
    'ok',
    () => ({ signature: signed({ only: [createdAt(DATED)], unhashed: [issuerId(key)] }), gpgv: 'good' }),
  ],
  [
    'the issuer of somebody else',
    'unknown-key',
    () => ({ signature: signed({ only: [createdAt(DATED), issuer(other)] }) }),
  ],
  ['an unknown subpacket', 'ok', () => ({ signature: signed({ hashed: [sub(101, [1])] }) })],
  [
    'an unknown critical subpacket',
    'critical-subpacket',
    () => ({ signature: signed({ hashed: [sub(101, [1], true)] }), gpgv: 'bad' }),
  ],
  [
    'an unknown critical subpacket that is not signed',
    'critical-subpacket',
    () => ({ signature: signed({ unhashed: [sub(101, [1], true)] }) }),
  ],
  ['an expiry ahead', 'ok', () => ({ signature: signed({ hashed: [expiresAfter(1000 * DAY)] }) })],
  ['an expiry since', 'signature-expired-since', () => ({ signature: signed({ hashed: [expiresAfter(DAY)] }) })],
  [
    'an expiry before the date of the commit',
    'signature-expired',
    () => ({ signature: signed({ created: DATED - 200, hashed: [expiresAfter(100)] }) }),
  ],
  [
    'a packet in front',
    'not-detached',
    () => ({ signature: Buffer.concat([packet(11, Buffer.from('b\0\0\0\0\0x')), signed()]) }),
  ],
  [
    'a marker packet behind',
    'not-detached',
    () => ({ signature: Buffer.concat([signed(), packet(10, Buffer.from('PGP'))]) }),
  ],
  ['a second packet', 'several-signature-packets', () => ({ signature: Buffer.concat([signed(), signed()]) })],
  ['a partial length', 'malformed-openpgp', () => ({ signature: Buffer.concat([Buffer.of(0xc2, 0xe8), signed()]) })],
  [
    'an indeterminate length',
    'malformed-openpgp',
    () => ({ signature: Buffer.concat([Buffer.of(0x8b), signed().subarray(6)]) }),
  ],
  [
    'a header in the old format',
    'ok',
    () => {
      const body = signed().subarray(6);
      return { signature: Buffer.concat([Buffer.of(0x89, body.length >> 8, body.length & 255), body]), gpgv: 'good' };
    },
  ],
  ['a byte behind the packet', 'malformed-openpgp', () => ({ signature: Buffer.concat([signed(), Buffer.of(0)]) })],
  [
    'a byte behind the numbers',
    'bad-signature',
    () => ({ signature: packet(2, Buffer.concat([pgpSign(key, 0, payload), Buffer.of(0)])) }),
  ],
  [
    'subpackets beyond the packet',
    'malformed-openpgp',
    () => ({ signature: packet(2, Buffer.from('040016080fff0000000000', 'hex')) }),
  ],
  ['an empty packet', 'signature-version', () => ({ signature: packet(2, Buffer.alloc(0)) })],
  [
    'other bytes',
    'bad-signature',
    () => ({ signature: packet(2, pgpSign(key, 0, commitPayload({ message: 'Other\n' }))), gpgv: 'bad' }),
  ],
];

const KEYS: readonly Row[] = [
  ['a signing subkey', 'ok', () => ({ signature: bySubkey(), keyring: withSubkey(goodBinding()), gpgv: 'good' })],
  [
    'a back-signature that is not signed over',
    'ok',
    () => ({
      signature: bySubkey(),
      keyring: withSubkey(
        signSubkey(key, subkey, { hashed: [flags(SIGN)], unhashed: [issuerId(key), signBack(key, subkey)] }),
      ),
      gpgv: 'good',
    }),
  ],
  [
    'a subkey that did not sign back',
    'key-not-bound',
    () => ({
      signature: bySubkey(),
      keyring: withSubkey(signSubkey(key, subkey, { hashed: [flags(SIGN)] })),
      gpgv: 'bad',
    }),
  ],
  [
    'a subkey that signed back for another key',
    'key-not-bound',
    () => ({
      signature: bySubkey(),
      keyring: withSubkey(signSubkey(key, subkey, { hashed: [flags(SIGN), signBack(other, subkey)] })),
      gpgv: 'bad',
    }),
  ],
  [
    'a back-signature over SHA-1',
    'key-not-bound',
    () => ({
      signature: bySubkey(),
      keyring: withSubkey(signSubkey(key, subkey, { hashed: [flags(SIGN), signBack(key, subkey, { hash: 'sha1' })] })),
    }),
  ],
  [
    'a binding older than its subkey',
    'key-not-bound',
    () => ({
      signature: bySubkey(),
      keyring: withSubkey(
        signSubkey(key, subkey, { created: DATED - 960_000, hashed: [flags(SIGN), signBack(key, subkey)] }),
      ),
    }),
  ],
  [
    'a subkey bound by a stranger',
    'key-not-bound',
    () => ({
      signature: bySubkey(),
      keyring: withSubkey(signSubkey(key, subkey, { hashed: [flags(SIGN), signBack(key, subkey)] }, 0x18, other)),
      gpgv: 'bad',
    }),
  ],
  [
    'a subkey without a binding',
    'key-not-bound',
    () => ({ signature: bySubkey(), keyring: withSubkey(), gpgv: 'bad' }),
  ],
  [
    'a subkey for encryption',
    'key-cannot-sign',
    () => ({
      signature: bySubkey(),
      keyring: withSubkey(signSubkey(key, subkey, { hashed: [flags(0x0c), signBack(key, subkey)] })),
    }),
  ],
  [
    'a primary key that only certifies',
    'key-cannot-sign',
    () => ({ signature: signed(), keyring: ring(key, certifyUser(key, { hashed: [flags(CERTIFY)] })) }),
  ],
  [
    'a key without flags',
    'key-cannot-sign',
    () => ({ signature: signed(), keyring: ring(key, certifyUser(key, { hashed: [] })) }),
  ],
  [
    'an Ed25519 key bound with SHA-1',
    'key-not-bound',
    () => ({ signature: signed(), keyring: ring(key, certifyUser(key, { hash: 'sha1' })) }),
  ],
  [
    'an Ed25519 subkey bound with SHA-1',
    'key-not-bound',
    () => ({
      signature: bySubkey(),
      keyring: withSubkey(signSubkey(key, subkey, { hash: 'sha1', hashed: [flags(SIGN), signBack(key, subkey)] })),
    }),
  ],
  ['an RSA key bound with SHA-1', 'weak-self-signature', weaklyBound],
  ['a key without a user id', 'key-not-bound', () => ({ signature: signed(), keyring: packet(6, key.body) })],
  [
    'a user id that only a stranger certified',
    'key-not-bound',
    () => ({ signature: signed(), keyring: ring(key, certifyUser(key, {}, 0x13, other)) }),
  ],
  [
    'a revoked user id',
    'key-not-bound',
    () => ({
      signature: signed(),
      keyring: ring(key, certifyUser(key), certifyUser(key, { created: DATED - 1, hashed: [] }, 0x30)),
    }),
  ],
  [
    'a user id certified again after its revocation',
    'ok',
    () => ({
      signature: signed(),
      keyring: ring(
        key,
        certifyUser(key),
        certifyUser(key, { created: DATED - 1000, hashed: [] }, 0x30),
        certifyUser(key, { created: DATED - 500 }),
      ),
    }),
  ],
  [
    'a key made after the signature',
    'not-yet-valid',
    () => {
      const young = pgpKey(DATED + 10);
      return { signature: signed({}, 0, young), keyring: ring(young, certifyUser(young, { created: DATED + 10 })) };
    },
  ],
  [
    'a subkey expired since',
    'key-expired-since',
    () => ({
      signature: bySubkey(),
      keyring: withSubkey(
        signSubkey(key, subkey, { hashed: [flags(SIGN), signBack(key, subkey), keyExpiresAfter(950_000 + DAY)] }),
      ),
    }),
  ],
  [
    'a subkey expired at the signature',
    'key-expired',
    () => ({
      signature: bySubkey(),
      keyring: withSubkey(
        signSubkey(key, subkey, { hashed: [flags(SIGN), signBack(key, subkey), keyExpiresAfter(950_000 - 1)] }),
      ),
    }),
  ],
  [
    'a living subkey of a key expired since',
    'key-expired-since',
    () => ({
      signature: bySubkey(),
      keyring: ring(
        key,
        certifyUser(key, { hashed: [flags(SIGN), keyExpiresAfter(1_000_000 + DAY)] }),
        bound(subkey, goodBinding()),
      ),
    }),
  ],
  [
    'an expiry extended later',
    'ok',
    () => ({
      signature: signed(),
      keyring: ring(
        key,
        certifyUser(key, { hashed: [flags(SIGN), keyExpiresAfter(1_000_000 + DAY)] }),
        certifyUser(key, { created: DATED + 1000, hashed: [flags(SIGN), keyExpiresAfter(1_000_000 + 1000 * DAY)] }),
      ),
    }),
  ],
  [
    'an expiry extended after the time of judging',
    'key-expired-since',
    () => ({
      signature: signed(),
      keyring: ring(
        key,
        certifyUser(key, { hashed: [flags(SIGN), keyExpiresAfter(1_000_000 + DAY)] }),
        certifyUser(key, { created: now + 1000, hashed: [flags(SIGN)] }),
      ),
    }),
  ],
  [
    'an expiry shortened later',
    'key-expired',
    () => ({
      signature: signed(),
      keyring: ring(
        key,
        certifyUser(key),
        certifyUser(key, { created: DATED + 1000, hashed: [flags(SIGN), keyExpiresAfter(10)] }),
      ),
    }),
  ],
  [
    'a key whose only self-signature was renewed after the signature',
    'ok',
    () => ({ signature: signed(), keyring: ring(key, certifyUser(key, { created: now + 1000 })) }),
  ],
];

function weaklyBound() {
  const made = ['--cert-digest-algo', 'SHA1', '--faked-system-time', '20240101T000000!'];
  m.gpg([...made, '--quick-gen-key', 'Old <old@example.com>', 'rsa2048', 'sign', 'never']);
  const text = m.gpgSign('Old <old@example.com>', payload);
  return { signature: unarmor(text), keyring: m.gpg(['--export', 'Old <old@example.com>']) };
}

const revoke = (bent: PgpSignature = {}, by = key): Buffer =>
  signKey(key, 0x20, { created: DATED + 1000, ...bent }, by);
const REVOCATIONS: readonly Row[] = [
  [
    'a revocation without a reason',
    'revoked',
    () => ({ signature: signed(), keyring: Buffer.concat([packet(6, key.body), revoke(), plain]) }),
  ],
  [
    'a revocation as retired, later',
    'key-retired-since',
    () => ({
      signature: signed(),
      keyring: Buffer.concat([packet(6, key.body), revoke({ hashed: [revocationReason(3)] }), plain]),
    }),
  ],
  [
    'a revocation as retired, earlier',
    'revoked',
    () => ({
      signature: signed(),
      keyring: Buffer.concat([
        packet(6, key.body),
        revoke({ created: DATED - 1, hashed: [revocationReason(3)] }),
        plain,
      ]),
    }),
  ],
  [
    'a revocation in front of the ring',
    'revoked',
    () => ({ signature: signed(), keyring: Buffer.concat([revoke(), plain]) }),
  ],
  [
    'a revocation behind the ring',
    'revoked',
    () => ({ signature: signed(), keyring: Buffer.concat([plain, revoke()]) }),
  ],
  [
    'a revocation behind a subkey',
    'revoked',
    () => ({ signature: signed(), keyring: Buffer.concat([withSubkey(goodBinding()), revoke()]) }),
  ],
  [
    'a revocation over SHA-1',
    'revoked',
    () => ({ signature: signed(), keyring: Buffer.concat([revoke({ hash: 'sha1' }), plain]) }),
  ],
  [
    'a revocation with an unknown critical subpacket',
    'revoked',
    () => ({ signature: signed(), keyring: Buffer.concat([revoke({ hashed: [sub(101, [1], true)] }), plain]) }),
  ],
  [
    'a revocation by a stranger',
    'ok',
    () => ({ signature: signed(), keyring: Buffer.concat([plain, revoke({}, other)]) }),
  ],
  [
    'a revocation that a stranger forged in the name of the key',
    'ok',
    () => ({
      signature: signed(),
      keyring: Buffer.concat([plain, revoke({ only: [createdAt(DATED), issuer(key)] }, other)]),
    }),
  ],
  [
    'a version 3 revocation in the name of the key',
    'revoked',
    () => ({
      signature: signed(),
      keyring: Buffer.concat([
        plain,
        packet(
          2,
          Buffer.concat([
            Buffer.from('03052065000000', 'hex'),
            Buffer.from(key.fingerprint.slice(-16), 'hex'),
            Buffer.from('1602000000', 'hex'),
          ]),
        ),
      ]),
    }),
  ],
  [
    'a revoked copy of the key further on',
    'revoked',
    () => ({
      signature: signed(),
      keyring: Buffer.concat([plain, ring(other, certifyUser(other)), packet(6, key.body), revoke()]),
    }),
  ],
  [
    'a revoked subkey',
    'revoked',
    () => ({
      signature: bySubkey(),
      keyring: withSubkey(goodBinding(), signSubkey(key, subkey, { created: DATED + 1 }, 0x28)),
    }),
  ],
  [
    'a subkey retired later',
    'key-retired-since',
    () => ({
      signature: bySubkey(),
      keyring: withSubkey(
        goodBinding(),
        signSubkey(key, subkey, { created: DATED + 1, hashed: [revocationReason(1)] }, 0x28),
      ),
    }),
  ],
  [
    'the primary key beside a revoked subkey',
    'ok',
    () => ({
      signature: signed(),
      keyring: withSubkey(goodBinding(), signSubkey(key, subkey, { created: DATED + 1 }, 0x28)),
      gpgv: 'good',
    }),
  ],
  [
    'a subkey of a revoked key',
    'revoked',
    () => ({ signature: bySubkey(), keyring: Buffer.concat([revoke(), withSubkey(goodBinding())]) }),
  ],
  [
    'a subkey shared by a revoked key and a good one',
    'revoked',
    () => ({
      signature: bySubkey(),
      keyring: Buffer.concat([
        ring(
          other,
          certifyUser(other),
          bound(subkey, signSubkey(other, subkey, { hashed: [flags(SIGN), signBack(other, subkey)] })),
        ),
        revoke(),
        withSubkey(goodBinding()),
      ]),
    }),
  ],
  [
    'a designated revoker',
    'key-unusable',
    () => ({
      signature: signed(),
      keyring: ring(
        key,
        certifyUser(key, {
          hashed: [flags(SIGN), sub(12, Buffer.concat([Buffer.of(0x80, 22), Buffer.from(other.fingerprint, 'hex')]))],
        }),
      ),
    }),
  ],
];

describe.each([
  ['OpenPGP signatures by hand', SIGNATURES],
  ['OpenPGP keys by hand', KEYS],
  ['OpenPGP revocations by hand', REVOCATIONS],
])('%s', (_title, rows) => {
  it.each(rows)('%s: %s', async (_name, reason, make) => {
    const { signature, keyring = plain, gpgv } = make();
    const roots = await parseTrustRoots({ keyring });
    expect(roots.refusal).toBeNull();
    const bytes = insertSignature(payload, pgpArmor(signature));
    const judgement = await judge({ oid: objectId('commit', bytes), type: 'commit', bytes }, roots, AT);
    expect(`${judgement.reason} ${judgement.detail}`).toMatch(new RegExp(`^${reason} `));
    expect(judgement.verdict).toBe(REASONS[reason].verdict);
    if (judgement.verdict !== 'invalid') {
      const signer = [key, other].map(({ fingerprint }) => fingerprint.toUpperCase());
      expect(signer).toContain(judgement.fingerprint);
    }
    if (gpgv) expect(askGpgv(keyring, signature), 'what gpgv says').toBe(gpgv);
  });
});

/** Only an unqualified GOODSIG is good: gpgv also exits 0 for expired and revoked keys. */
function askGpgv(keyring: Buffer, signature: Buffer): 'good' | 'bad' {
  const files = [m.write('ring.gpg', keyring), m.write('detached.sig', signature), m.write('payload', payload)];
  const { text } = m.attempt('gpgv', ['--status-fd', '1', '--keyring', ...files]);
  return /^\[GNUPG:\] GOODSIG /m.test(text) ? 'good' : 'bad';
}
