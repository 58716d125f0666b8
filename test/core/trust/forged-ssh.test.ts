// SSH signatures, keys, certificates and revocation lists bent field by field, each with its verdict; ssh-keygen is
// asked too where it is right.

import { afterAll, describe, expect, it } from 'vitest';
import { type JudgeOptions, judge } from '../../../src/core/state/trust/judge.ts';
import { REASONS, type ReasonCode } from '../../../src/core/state/trust/reason.ts';
import { parseTrustRoots } from '../../../src/core/state/trust/roots.ts';
import {
  AT,
  commitPayload,
  DATED,
  type HandCertificate,
  type HandKey,
  type HandSignature,
  handCertify,
  handEcdsa,
  handEd25519,
  handRsa,
  handSign,
  insertSignature,
  Material,
  mpint,
  objectId,
  wire,
} from './material.ts';

const m = new Material();
afterAll(() => m.close());

const payload = commitPayload();
const ed = handEd25519();
const touch = handEd25519('ssh:');
const p256 = handEcdsa('nistp256');
const p384 = handEcdsa('nistp384');
const p521 = handEcdsa('nistp521');
const touch256 = handEcdsa('nistp256', 'ssh:');
const rsa = handRsa(2048);
const weak = handRsa(1024);
const unsound = withExponentOne();
const authority = handEd25519();
const named: Readonly<Record<string, HandKey>> = { ed, touch, p256, p384, p521, touch256, rsa, weak, unsound };

const signerLines = [
  ...Object.entries(named).map(([name, key]) => `${name} ${key.line}`),
  ...[authority, touch, touch256, p256, p384, p521, rsa, weak].map(
    (key) => `deploy@example.com cert-authority ${key.line}`,
  ),
].join('\n');

type Row = readonly [
  name: string,
  reason: ReasonCode,
  make: () => { readonly armor: string; readonly options?: JudgeOptions; readonly revoked?: Buffer },
  /** What ssh-keygen says of it, at the date of the commit. */
  sshKeygen?: 'good' | 'bad',
];

const by = (key: HandKey, bent?: HandSignature) => ({ armor: handSign(key, payload, bent) });
const flip = (raw: Buffer): Buffer => Buffer.concat([Buffer.of(raw[0]! ^ 1), raw.subarray(1)]);

const P256_ORDER = BigInt('0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551');
const ED25519_ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;

function toBytes(value: bigint, size: number): Buffer {
  return Buffer.from(value.toString(16).padStart(2 * size, '0'), 'hex');
}

/** The other signature of the same bytes that ECDSA allows. */
function negated(raw: Buffer): Buffer {
  const s = BigInt(`0x${raw.subarray(32).toString('hex')}`);
  return Buffer.concat([raw.subarray(0, 32), toBytes(P256_ORDER - s, 32)]);
}

/** s + L: the other encoding of the same number, which ssh-keygen lets pass. */
function unreduced(raw: Buffer): Buffer {
  const s = BigInt(`0x${Buffer.from(raw.subarray(32)).reverse().toString('hex')}`);
  return Buffer.concat([raw.subarray(0, 32), toBytes(s + ED25519_ORDER, 32).reverse()]);
}

/** With an exponent of 1 the padded digest is its own signature. */
function withExponentOne(): HandKey {
  const key = handRsa(2048);
  const modulus = key.blob.subarray(key.blob.length - 257);
  const blob = Buffer.concat([wire('ssh-rsa'), wire(Buffer.of(1)), wire(modulus)]);
  return { ...key, blob, line: `ssh-rsa ${blob.toString('base64')}` };
}

function ecdsaBlob(curve: string, point: Buffer, type = 'ecdsa-sha2-nistp256'): Buffer {
  return Buffer.concat([wire(type), wire(curve), wire(point)]);
}

const point = p256.blob.subarray(-65);
const SIGNATURES: readonly Row[] = [
  ['Ed25519', 'ok', () => by(ed), 'good'],
  ['ECDSA P-256', 'ok', () => by(p256), 'good'],
  ['ECDSA P-384', 'ok', () => by(p384), 'good'],
  ['ECDSA P-521', 'ok', () => by(p521), 'good'],
  ['RSA', 'ok', () => by(rsa), 'good'],
  ['Ed25519 on a token', 'ok', () => by(touch), 'good'],
  ['ECDSA on a token', 'ok', () => by(touch256), 'good'],
  ['s negated (ECDSA is malleable)', 'ok', () => by(p256, { bend: negated }), 'good'],
  ['s unreduced in Ed25519', 'bad-signature', () => by(ed, { bend: unreduced })],
  ['a flipped bit in Ed25519', 'bad-signature', () => by(ed, { bend: flip }), 'bad'],
  ['a flipped bit in ECDSA', 'bad-signature', () => by(p256, { bend: flip }), 'bad'],
  ['a flipped bit in RSA', 'bad-signature', () => by(rsa, { bend: flip }), 'bad'],
  ['Ed25519 of 63 bytes', 'malformed-ssh-signature', () => by(ed, { bend: (raw) => raw.subarray(1) }), 'bad'],
  [
    'Ed25519 of 65 bytes',
    'malformed-ssh-signature',
    () => by(ed, { bend: (raw) => Buffer.concat([raw, Buffer.of(0)]) }),
    'bad',
  ],
  [
    'RSA with a zero in front',
    'malformed-ssh-signature',
    () => by(rsa, { bend: (raw) => Buffer.concat([Buffer.of(0), raw]) }),
    'bad',
  ],
  // Cut at its end: OpenSSH takes one without its leading zeros, and one in 256 has some.
  ['RSA that is short', 'malformed-ssh-signature', () => by(rsa, { bend: (raw) => raw.subarray(0, -1) }), 'bad'],
  ['RSA over SHA-256 named SHA-512', 'bad-signature', () => by(rsa, { digest: 'sha256' }), 'bad'],
  [
    'ECDSA with needless zeros',
    'malformed-ssh-signature',
    () => by(p256, { encoded: () => Buffer.concat([wire(Buffer.of(0, 1)), wire(Buffer.of(1))]) }),
  ],
  [
    'ECDSA with a negative number',
    'malformed-ssh-signature',
    () => by(p256, { encoded: () => Buffer.concat([wire(Buffer.of(0x80)), wire(Buffer.of(1))]) }),
    'bad',
  ],
  [
    'ECDSA with r = 0',
    'malformed-ssh-signature',
    () => by(p256, { encoded: () => Buffer.concat([wire(''), wire(Buffer.of(1))]) }),
    'bad',
  ],
  [
    'ECDSA with r beyond the order',
    'bad-signature',
    () => by(p256, { bend: (raw) => Buffer.concat([Buffer.alloc(32, 255), raw.subarray(32)]) }),
    'bad',
  ],
  [
    'ECDSA with a number too long',
    'malformed-ssh-signature',
    () => by(p256, { encoded: (raw) => Buffer.concat([mpint(Buffer.alloc(33, 1)), raw]) }),
    'bad',
  ],
  [
    'a third number in ECDSA',
    'malformed-ssh-signature',
    () => by(p256, { encoded: (raw) => Buffer.concat([raw, mpint(Buffer.of(1))]) }),
    'bad',
  ],
  ['a curve of another name', 'malformed-key', () => by(p256, { keyBlob: ecdsaBlob('nistp384', point) }), 'bad'],
  [
    'a point off the curve',
    'malformed-key',
    () =>
      by(p256, { keyBlob: ecdsaBlob('nistp256', Buffer.concat([point.subarray(0, 64), Buffer.of(point[64]! ^ 1)])) }),
    'bad',
  ],
  ['the point at infinity', 'malformed-key', () => by(p256, { keyBlob: ecdsaBlob('nistp256', Buffer.of(0)) }), 'bad'],
  [
    'a compressed point',
    'malformed-key',
    () =>
      by(p256, {
        keyBlob: ecdsaBlob('nistp256', Buffer.concat([Buffer.of(2 + (point[64]! & 1)), point.subarray(1, 33)])),
      }),
  ],
  [
    'an RSA key with needless zeros',
    'malformed-key',
    () =>
      by(rsa, {
        keyBlob: Buffer.concat([
          wire('ssh-rsa'),
          wire(Buffer.of(0, 1, 0, 1)),
          rsa.blob.subarray(wire('ssh-rsa').length + 7),
        ]),
      }),
  ],
  ['RSA of 1024 bits', 'weak-key', () => by(weak), 'good'],
  ['RSA with the exponent 1', 'weak-key', () => by(unsound, { bend: () => paddedDigest(payload) })],
  ['a DSA key', 'key-type-refused', () => by(ed, { keyBlob: Buffer.concat([wire('ssh-dss'), wire('x')]) }), 'bad'],
  ['an unknown key type', 'key-type-refused', () => by(ed, { keyBlob: wire('ssh-ed448') }), 'bad'],
  ['an empty key', 'key-type-refused', () => by(ed, { keyBlob: wire('') }), 'bad'],
  ['a cut key', 'malformed-key', () => by(ed, { keyBlob: ed.blob.subarray(0, -1) }), 'bad'],
  ['a token that was not touched', 'no-user-presence', () => by(touch256, { flags: 0 }), 'good'],
  ['a token with verification only', 'no-user-presence', () => by(touch, { flags: 4 })],
  [
    'a token with PIN where it is demanded',
    'ok',
    () => ({ ...by(touch, { flags: 5 }), options: { requireUserVerification: true } }),
  ],
  [
    'a touch written in afterwards',
    'bad-signature',
    () => by(touch, { flags: 0, writtenFlags: Buffer.from([1, 0, 0, 0, 7]) }),
    'bad',
  ],
  [
    'another counter written in',
    'bad-signature',
    () => by(touch256, { writtenFlags: Buffer.from([1, 0, 0, 0, 8]) }),
    'bad',
  ],
  ['a token signature for a web site', 'bad-signature', () => by(touch, { application: 'https://x' }), 'bad'],
  [
    'a token signature without its flags',
    'malformed-ssh-signature',
    () => by(touch, { writtenFlags: Buffer.alloc(0) }),
    'bad',
  ],
  [
    'a WebAuthn signature',
    'algorithm-mismatch',
    () => by(touch256, { algorithm: 'webauthn-sk-ecdsa-sha2-nistp256@openssh.com' }),
    'bad',
  ],
  ['a token signature of a plain key', 'algorithm-mismatch', () => by(ed, { algorithm: touch.type }), 'bad'],
  ['a plain signature of a token', 'algorithm-mismatch', () => by(touch, { algorithm: 'ssh-ed25519' }), 'bad'],
  ['an algorithm that is no name', 'malformed-ssh-signature', () => by(ed, { algorithm: 'ssh-ed25519\n' }), 'bad'],
  ['an empty algorithm', 'algorithm-mismatch', () => by(ed, { algorithm: '' }), 'bad'],
  ['the namespace git with a NUL', 'wrong-namespace', () => by(ed, { namespace: 'git\0' }), 'bad'],
  ['an empty namespace', 'wrong-namespace', () => by(ed, { namespace: '' }), 'bad'],
  ['the namespace GIT', 'wrong-namespace', () => by(ed, { namespace: 'GIT' }), 'bad'],
];

/** EMSA-PKCS1-v1_5 of the SSHSIG over SHA-512, to 2048 bits. */
function paddedDigest(message: Buffer): Buffer {
  const inner = m.run('openssl', ['dgst', '-sha512', '-binary'], message);
  const signed = Buffer.concat([Buffer.from('SSHSIG'), wire('git'), wire(''), wire('sha512'), wire(inner)]);
  const digest = m.run('openssl', ['dgst', '-sha512', '-binary'], signed);
  const info = Buffer.concat([Buffer.from('3051300d060960864801650304020305000440', 'hex'), digest]);
  return Buffer.concat([Buffer.of(0, 1), Buffer.alloc(256 - 3 - info.length, 255), Buffer.of(0), info]);
}

/** A commit signed by `subject` under a certificate. */
function certified(bent: HandCertificate = {}, ca = authority, subject = ed, how: HandSignature = {}) {
  return by(subject, { ...how, keyBlob: handCertify(ca, subject, bent) });
}

const option = (name: string, value = ''): Buffer => Buffer.concat([wire(name), wire(value)]);
const seconds = BigInt(AT.getTime() / 1000);
const CERTIFICATES: readonly Row[] = [
  ['a certificate by hand', 'ok', () => certified(), 'good'],
  ['a certificate of an ECDSA key', 'ok', () => certified({}, authority, p256), 'good'],
  ['a certificate of an RSA key', 'ok', () => certified({}, authority, rsa), 'good'],
  ['a certificate of a token', 'ok', () => certified({}, authority, touch), 'good'],
  ['a certificate of an ECDSA token', 'ok', () => certified({}, authority, touch256), 'good'],
  ['an ECDSA authority', 'ok', () => certified({}, p384), 'good'],
  ['an RSA authority', 'ok', () => certified({}, rsa), 'good'],
  ['an authority on a token', 'ok', () => certified({}, touch256), 'good'],
  ['an extension', 'ok', () => certified({ extensions: option('permit-pty') }), 'good'],
  ['a critical option', 'certificate-critical-option', () => certified({ critical: option('verify-required') })],
  [
    'an unknown critical option',
    'certificate-critical-option',
    () => certified({ critical: option('no-such-option@example.com', 'x') }),
  ],
  ['critical options cut short', 'malformed-certificate', () => certified({ critical: wire('x') }), 'bad'],
  ['extensions cut short', 'malformed-certificate', () => certified({ extensions: wire('x') }), 'bad'],
  ['a reserved field with content', 'malformed-certificate', () => certified({ reserved: 'x' })],
  ['bytes behind the certificate', 'malformed-certificate', () => certified({ trailing: Buffer.of(0) }), 'bad'],
  ['a host certificate', 'certificate-type', () => certified({ kind: 2 }), 'bad'],
  ['a certificate of no kind', 'certificate-type', () => certified({ kind: 0 }), 'bad'],
  ['no principals', 'certificate-without-principals', () => certified({ principals: [] }), 'bad'],
  ['an empty principal', 'malformed-certificate', () => certified({ principals: ['', 'deploy@example.com'] })],
  ['a principal with a line end', 'malformed-certificate', () => certified({ principals: ['deploy@example.com\n'] })],
  ['a principal that is a pattern', 'principal-mismatch', () => certified({ principals: ['*'] }), 'bad'],
  ['the second principal fits', 'ok', () => certified({ principals: ['x', 'deploy@example.com'] }), 'good'],
  ['a certificate by itself', 'unknown-authority', () => certified({}, ed), 'bad'],
  [
    'the authority of somebody else',
    'certificate-bad-signature',
    () => certified({ authorityBlob: authority.blob }, ed),
    'bad',
  ],
  [
    'a certificate as authority',
    'nested-certificate',
    () => certified({ authorityBlob: handCertify(authority, authority) }),
    'bad',
  ],
  [
    'an authority of type DSA',
    'weak-authority',
    () => certified({ authorityBlob: Buffer.concat([wire('ssh-dss'), wire('x')]) }),
    'bad',
  ],
  ['an authority of 1024 bits', 'weak-authority', () => certified({}, weak)],
  [
    'an authority that signs with SHA-1',
    'authority-sha1',
    () => certified({ algorithm: 'ssh-rsa', digest: 'sha1' }, rsa),
  ],
  ['a weak key, well certified', 'weak-key', () => certified({}, authority, weak)],
  [
    'a certificate type of another key',
    'malformed-certificate',
    () => certified({ type: 'ecdsa-sha2-nistp256-cert-v01@openssh.com' }),
    'bad',
  ],
  [
    'a certificate type that does not exist',
    'key-type-refused',
    () => certified({ type: 'x-cert-v01@openssh.com' }),
    'bad',
  ],
  [
    'the certificate type as algorithm',
    'algorithm-mismatch',
    () => certified({}, authority, ed, { algorithm: 'ssh-ed25519-cert-v01@openssh.com' }),
  ],
  ['valid from this second', 'ok', () => certified({ validAfter: BigInt(DATED) }), 'good'],
  ['valid from the next second', 'not-yet-valid', () => certified({ validAfter: BigInt(DATED + 1) }), 'bad'],
  ['valid until this second', 'certificate-expired-since', () => certified({ validBefore: seconds })],
  ['valid until the next second', 'ok', () => certified({ validBefore: seconds + 1n })],
  ['expired in the second of the commit', 'key-expired', () => certified({ validBefore: BigInt(DATED) }), 'bad'],
  ['a life upside down', 'not-yet-valid', () => certified({ validAfter: seconds, validBefore: 1n }), 'bad'],
  ['a life without end', 'ok', () => certified({ validAfter: 0n, validBefore: 2n ** 64n - 1n }), 'good'],
];

const u32 = (value: number): Buffer =>
  Buffer.from([value >>> 24, value >>> 16, value >>> 8, value].map((byte) => byte & 255));
const u64 = (value: bigint): Buffer => toBytes(value, 8);
/** A KRL of the given sections. */
function krl(sections: readonly Buffer[], version = 1): Buffer {
  const head = [Buffer.from('SSHKRL\n\0'), u32(version), u64(1n), u64(0n), u64(0n), wire(''), wire('')];
  return Buffer.concat([...head, ...sections]);
}
const section = (type: number, content: Buffer): Buffer => Buffer.concat([Buffer.of(type), wire(content)]);
const certificates = (ca: Buffer | string, ...parts: readonly Buffer[]): Buffer =>
  section(1, Buffer.concat([wire(ca), wire(''), ...parts]));
const extension = (critical: number): Buffer => Buffer.concat([wire('x@example.com'), Buffer.of(critical), wire('')]);
const list = (...sections: readonly Buffer[]) => ({ ...certified({ serial: 42n }), revoked: krl(sections) });

const LISTS: readonly Row[] = [
  ['an empty KRL', 'ok', () => list()],
  [
    'a serial number',
    'revoked-certificate',
    () => list(certificates(authority.blob, section(0x20, Buffer.concat([u64(7n), u64(42n)])))),
  ],
  ['another serial number', 'ok', () => list(certificates(authority.blob, section(0x20, u64(41n))))],
  ['a serial number of another authority', 'ok', () => list(certificates(p256.blob, section(0x20, u64(42n))))],
  ['a serial number of every authority', 'revoked-certificate', () => list(certificates('', section(0x20, u64(42n))))],
  [
    'a range to the serial number',
    'revoked-certificate',
    () => list(certificates('', section(0x21, Buffer.concat([u64(40n), u64(42n)])))),
  ],
  [
    'a range below the serial number',
    'ok',
    () => list(certificates('', section(0x21, Buffer.concat([u64(40n), u64(41n)])))),
  ],
  [
    'a range upside down',
    'bad-revocation-list',
    () => list(certificates('', section(0x21, Buffer.concat([u64(42n), u64(40n)])))),
  ],
  [
    'a bitmap with the serial number',
    'revoked-certificate',
    () => list(certificates('', section(0x22, Buffer.concat([u64(40n), mpint(Buffer.of(0b101))])))),
  ],
  [
    'a bitmap around the serial number',
    'ok',
    () => list(certificates('', section(0x22, Buffer.concat([u64(40n), mpint(Buffer.of(0b11011))])))),
  ],
  [
    'the serial number 0, which OpenSSH never matches',
    'revoked-certificate',
    () => ({ ...certified({ serial: 0n }), revoked: krl([certificates('', section(0x20, u64(0n)))]) }),
  ],
  ['a key id', 'revoked-certificate', () => list(certificates('', section(0x23, wire('by hand'))))],
  ['another key id', 'ok', () => list(certificates('', section(0x23, wire('by han'))))],
  ['the certified key', 'revoked', () => list(section(2, wire(ed.blob)))],
  ['the authority', 'revoked-authority', () => list(section(2, wire(authority.blob)))],
  ['an extension', 'ok', () => list(section(255, extension(0)))],
  ['a critical extension', 'bad-revocation-list', () => list(section(255, extension(1)))],
  [
    'a critical extension of a certificate section',
    'bad-revocation-list',
    () => list(certificates('', section(0x39, extension(1)))),
  ],
  ['an unknown section', 'bad-revocation-list', () => list(section(6, Buffer.alloc(0)))],
  [
    'an unknown certificate section',
    'bad-revocation-list',
    () => list(certificates('', section(0x24, Buffer.alloc(0)))),
  ],
  ['a signed list', 'bad-revocation-list', () => list(Buffer.concat([Buffer.of(4), wire(ed.blob), wire('x')]))],
  ['a fingerprint of 19 bytes', 'bad-revocation-list', () => list(section(3, wire(Buffer.alloc(19))))],
  ['a byte behind the list', 'bad-revocation-list', () => list(Buffer.of(2))],
  ['format version 2', 'bad-revocation-list', () => ({ ...certified(), revoked: krl([], 2) })],
  ['only the magic', 'bad-revocation-list', () => ({ ...certified(), revoked: Buffer.from('SSHKRL\n\0') })],
];

const TABLE = {
  'SSH signatures by hand': SIGNATURES,
  'SSH certificates by hand': CERTIFICATES,
  'revocation lists by hand': LISTS,
};

for (const [title, rows] of Object.entries(TABLE))
  describe(title, () => {
    for (const [name, reason, make, sshKeygen] of rows)
      it(`${name}: ${reason}`, async () => {
        const { armor, options, revoked } = make();
        const roots = await parseTrustRoots({ allowedSigners: signerLines, ...(revoked ? { revoked } : {}) });
        const bytes = insertSignature(payload, armor);
        const judgement = await judge({ oid: objectId('commit', bytes), type: 'commit', bytes }, roots, AT, options);
        expect(`${judgement.reason} ${judgement.detail}`).toMatch(new RegExp(`^${reason} `));
        expect(judgement.verdict).toBe(REASONS[reason].verdict);
        if (sshKeygen) expect(askSshKeygen(armor), 'what ssh-keygen says').toBe(sshKeygen);
      });
  });

/** As git asks it: find the principals at the date of the commit, then verify for the first. */
function askSshKeygen(armor: string): 'good' | 'bad' {
  const signature = m.write('sig', armor);
  const signers = m.write('signers', `${signerLines}\n`);
  const time = `-Overify-time=${new Date(DATED * 1000).toISOString().replace(/[-:T]|\.\d+Z/g, '')}Z`;
  const found = m.attempt('ssh-keygen', ['-Y', 'find-principals', '-f', signers, '-s', signature, time]);
  const principal = found.text.split('\n')[0]!;
  if (found.code !== 0) return 'bad';
  const args = ['-Y', 'verify', '-n', 'git', '-f', signers, '-I', principal, '-s', signature, time];
  return m.attempt('ssh-keygen', args, payload).code === 0 ? 'good' : 'bad';
}
