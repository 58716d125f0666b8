// The table of verdicts: commits and tags, honest and hostile, each with the verdict and reason that `judge` must give.
// Some rows are asked of ssh-keygen or git too, where those are known to agree.

import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Judgement, type JudgeOptions, judge } from '../../../src/core/state/trust/judge.ts';
import { REASONS, type ReasonCode } from '../../../src/core/state/trust/reason.ts';
import { parseTrustRoots, type TrustRootsInput } from '../../../src/core/state/trust/roots.ts';
import { PROGRAM, warmStart } from '../../program.ts';
import {
  AT,
  armor,
  commitPayload,
  DATED,
  type HandKey,
  handEd25519,
  handRsa,
  handSign,
  insertHeader,
  insertSignature,
  Material,
  objectId,
  signatureHeader,
  tagPayload,
  unarmor,
} from './material.ts';

const DAY = 86_400;
const m = new Material();
/** Public halves by name, `TYPE BASE64`. */
const pub: Record<string, string> = {};
/** OpenPGP fingerprints by name. */
const gpg: Record<string, string> = {};
const hand: Record<string, HandKey> = {};
let keyring = '';
/** A genuine signed commit that many rows bend. */
let genuine: Buffer;
let genuineArmor = '';
let pgpCommit: Buffer;
let pgpArmor = '';

interface Sample {
  readonly bytes: Buffer;
  readonly type?: string;
  readonly oid?: string;
  readonly roots?: TrustRootsInput;
  readonly at?: Date;
  readonly options?: JudgeOptions;
}

type Row = readonly [
  name: string,
  reason: ReasonCode,
  make: () => Sample,
  more?: { readonly principal?: string; readonly git?: 'good' | 'bad' },
];

const bytesOf = (text: string): Buffer => Buffer.from(text, 'latin1');
const ssh = (key: string, payload: Buffer, ...more: readonly string[]): Buffer =>
  insertSignature(payload, m.sshSign(key, payload, ...more));
const pgp = (key: string, payload: Buffer, dated = DATED, ...options: readonly string[]): Buffer =>
  insertSignature(payload, m.gpgSign(key, payload, dated, ...options));
const byHand = (key: string, bent: Parameters<typeof handSign>[2] = {}): Sample => {
  const payload = commitPayload();
  return { bytes: insertSignature(payload, handSign(hand[key]!, payload, bent)) };
};
const withArmor = (change: (text: string) => string): Sample => ({
  bytes: insertSignature(commitPayload(), change(genuineArmor)),
});
const signers = (...lines: readonly string[]): TrustRootsInput => ({ allowedSigners: `${lines.join('\n')}\n` });
const swap = (bytes: Buffer, from: string, to: string): Buffer => {
  const text = bytes.toString('latin1');
  if (!text.includes(from)) throw new Error(`no ${from} to replace`);
  return bytesOf(text.replace(from, () => to));
};

function defaultRoots(): TrustRootsInput {
  return {
    allowedSigners: [
      '# people',
      `alice@example.com ${pub['alice']} laptop`,
      `rsa@example.com ${pub['rsa']}`,
      `p256@example.com ${pub['p256']}`,
      `p384@example.com ${pub['p384']}`,
      `p521@example.com ${pub['p521']}`,
      `weak@example.com ${pub['weak']}`,
      `deploy@example.com cert-authority ${pub['ca']}`,
      ...Object.entries(hand).map(([name, key]) => `${name}@example.com ${key.line}`),
      '',
    ].join('\n'),
    keyring: Buffer.from(keyring),
  };
}

beforeAll(() => {
  for (const name of ['alice', 'stranger', 'ca', 'otherCa', 'guest']) pub[name] = m.sshKey(name);
  pub['rsa'] = m.sshKey('rsa', '-t', 'rsa', '-b', '2048');
  pub['weak'] = m.sshKey('weak', '-t', 'rsa', '-b', '1024');
  for (const bits of ['256', '384', '521']) pub[`p${bits}`] = m.sshKey(`p${bits}`, '-t', 'ecdsa', '-b', bits);
  hand['hand'] = handEd25519();
  hand['touch'] = handEd25519('ssh:');
  hand['handRsa'] = handRsa(2048);
  genuineArmor = m.sshSign('alice', commitPayload());
  genuine = insertSignature(commitPayload(), genuineArmor);

  gpg['ed'] = m.gpgKey('Ed <ed@example.com>', 'ed25519');
  gpg['rsa'] = m.gpgKey('Rsa <rsa@example.com>', 'rsa2048');
  gpg['weak'] = m.gpgKey('Weak <weak@example.com>', 'rsa1024');
  gpg['unknown'] = m.gpgKey('Unknown <unknown@example.com>', 'ed25519');
  gpg['expired'] = m.gpgKey('Expired <expired@example.com>', 'ed25519', 'sign', '20240530T000000');
  gpg['late'] = m.gpgKey('Late <late@example.com>', 'ed25519', 'sign', 'never');
  gpg['revoked'] = m.gpgKey('Revoked <revoked@example.com>', 'ed25519');
  gpg['retired'] = m.gpgKey('Retired <retired@example.com>', 'ed25519');
  gpg['certify'] = m.gpgKey('Certify <certify@example.com>', 'ed25519', 'cert');
  m.gpg(['--faked-system-time', '20240102T000000!', '--quick-add-key', gpg['certify'], 'ed25519', 'sign', 'never']);
  const exported = Object.entries(gpg).filter(([name]) => name !== 'unknown' && name !== 'late');
  keyring = m.gpgExport(...exported.map(([, fingerprint]) => fingerprint));
  pgpArmor = m.gpgSign(gpg['ed'], commitPayload());
  pgpCommit = insertSignature(commitPayload(), pgpArmor);

  m.git('init', '-q', 'repo');
}, 60_000);

afterAll(() => m.close());

const SSH: readonly Row[] = [
  ['an ed25519 signature', 'ok', () => ({ bytes: genuine }), { principal: 'alice@example.com', git: 'good' }],
  [
    'an RSA signature',
    'ok',
    () => ({ bytes: ssh('rsa', commitPayload()) }),
    { principal: 'rsa@example.com', git: 'good' },
  ],
  ['an ECDSA P-256 signature', 'ok', () => ({ bytes: ssh('p256', commitPayload()) }), { git: 'good' }],
  ['an ECDSA P-384 signature', 'ok', () => ({ bytes: ssh('p384', commitPayload()) }), { git: 'good' }],
  ['an ECDSA P-521 signature', 'ok', () => ({ bytes: ssh('p521', commitPayload()) }), { git: 'good' }],
  ['a signature over SHA-256', 'ok', () => ({ bytes: ssh('alice', commitPayload(), 'git', '-O', 'hashalg=sha256') })],
  ['a key touched on a token', 'ok', () => byHand('touch'), { principal: 'touch@example.com' }],
  ['a token key without a touch', 'no-user-presence', () => byHand('touch', { flags: 0 })],
  [
    'a token key without a PIN where one is demanded',
    'no-user-verification',
    () => ({ ...byHand('touch'), options: { requireUserVerification: true } }),
  ],
  ['no signature', 'no-signature', () => ({ bytes: commitPayload() }), { git: 'bad' }],
  ['a key that nobody listed', 'unknown-key', () => ({ bytes: ssh('stranger', commitPayload()) })],
  [
    'a changed message',
    'bad-signature',
    () => ({ bytes: swap(genuine, 'Change a thing', 'Change a King') }),
    { git: 'bad' },
  ],
  ['a changed tree', 'bad-signature', () => ({ bytes: swap(genuine, 'tree 4b', 'tree 4c') }), { git: 'bad' }],
  ['a changed parent', 'bad-signature', () => ({ bytes: swap(genuine, 'parent 1', 'parent 2') }), { git: 'bad' }],
  [
    'a changed date',
    'bad-signature',
    () => ({ bytes: swap(genuine, '1717000000 +0000\ngpgsig', '1717000001 +0000\ngpgsig') }),
  ],
  ['another namespace', 'wrong-namespace', () => ({ bytes: ssh('alice', commitPayload(), 'file') }), { git: 'bad' }],
  ['RSA of 1024 bits', 'weak-key', () => ({ bytes: ssh('weak', commitPayload()) })],
  ['RSA with SHA-1', 'sha1-signature', () => byHand('handRsa', { algorithm: 'ssh-rsa', digest: 'sha1' })],
  ['RSA with SHA-256', 'ok', () => byHand('handRsa', { algorithm: 'rsa-sha2-256', digest: 'sha256' })],
  ['an algorithm of another key type', 'algorithm-mismatch', () => byHand('hand', { algorithm: 'rsa-sha2-512' })],
  ['a signature made by hand', 'ok', () => byHand('hand')],
  ['another magic', 'malformed-ssh-signature', () => byHand('hand', { magic: 'SSHSIX' })],
  ['version 2', 'ssh-signature-version', () => byHand('hand', { version: 2 })],
  ['a reserved field with content', 'reserved-not-empty', () => byHand('hand', { reserved: 'x' })],
  ['hash sha1', 'hash-refused', () => byHand('hand', { hash: 'sha1' })],
  ['hash sha384', 'hash-refused', () => byHand('hand', { hash: 'sha384' })],
  ['bytes after the signature blob', 'malformed-ssh-signature', () => byHand('hand', { trailing: Buffer.of(0) })],
  [
    'bytes inside the inner signature',
    'malformed-ssh-signature',
    () => byHand('hand', { trailingInside: Buffer.of(0) }),
  ],
  [
    'bytes after the key',
    'malformed-key',
    () => byHand('hand', { keyBlob: Buffer.concat([hand['hand']!.blob, Buffer.of(0)]) }),
  ],
  [
    'the key of somebody else',
    'bad-signature',
    () => byHand('hand', { keyBlob: Buffer.from(pub['alice']!.split(' ')[1]!, 'base64') }),
  ],
  [
    'a future date',
    'dated-in-future',
    () => ({ bytes: ssh('alice', commitPayload({ dated: AT.getTime() / 1000 + 301 })) }),
  ],
  [
    'a date within the skew',
    'ok',
    () => ({ bytes: ssh('alice', commitPayload({ dated: AT.getTime() / 1000 + 299 })) }),
  ],
  ['a time that is no date', 'bad-time', () => ({ bytes: genuine, at: new Date(Number.NaN) })],
];

const OBJECTS: readonly Row[] = [
  [
    'a merge',
    'ok',
    () => ({ bytes: ssh('alice', commitPayload({ parents: ['1', '2'].map((digit) => digit.repeat(40)) })) }),
  ],
  ['a root commit', 'ok', () => ({ bytes: ssh('alice', commitPayload({ parents: [] })) })],
  ['an encoding header', 'ok', () => ({ bytes: ssh('alice', commitPayload({ extra: 'encoding ISO-8859-1\n' })) })],
  ['a mergetag', 'ok', () => ({ bytes: ssh('alice', commitPayload({ extra: 'mergetag object 1\n type commit\n' })) })],
  [
    'a signed commit around a signed mergetag',
    'ok',
    () => ({
      bytes: ssh('alice', commitPayload({ extra: signatureHeader(`object 1\n\n${genuineArmor}`, 'mergetag') })),
    }),
  ],
  ['gpgsig twice', 'several-signatures', () => ({ bytes: insertSignature(genuine, genuineArmor) })],
  [
    'gpgsig beside gpgsig-sha256',
    'extra-signature-header',
    () => ({ bytes: insertHeader(genuine, signatureHeader(genuineArmor, 'gpgsig-sha256')) }),
  ],
  ['gpgsig beside gpgsigx', 'extra-signature-header', () => ({ bytes: insertHeader(genuine, 'gpgsigx y\n') })],
  [
    'gpgsig-sha256 alone',
    'extra-signature-header',
    () => ({ bytes: insertHeader(commitPayload(), signatureHeader(genuineArmor, 'gpgsig-sha256')) }),
  ],
  ['tree twice', 'duplicate-header', () => ({ bytes: swap(genuine, 'parent', `tree ${'5'.repeat(40)}\nparent`) })],
  ['author twice', 'duplicate-header', () => ({ bytes: insertHeader(genuine, 'author E <e@example.com> 1 +0000\n') })],
  [
    'committer twice',
    'duplicate-header',
    () => ({ bytes: insertHeader(genuine, 'committer E <e@example.com> 1 +0000\n') }),
  ],
  [
    'a parent after the committer',
    'header-order',
    () => ({ bytes: insertHeader(genuine, `parent ${'2'.repeat(40)}\n`) }),
  ],
  [
    'an author before the tree',
    'header-order',
    () => {
      const [tree, parent, author, ...rest] = commitPayload().toString().split('\n');
      return { bytes: ssh('alice', Buffer.from([author, tree, parent, ...rest].join('\n'))) };
    },
  ],
  ['no committer', 'missing-header', () => ({ bytes: swap(genuine, 'committer ', 'commiter ') })],
  ['a NUL in the message', 'nul-byte', () => ({ bytes: ssh('alice', commitPayload({ message: 'Good\0 evil\n' })) })],
  ['an object cut in the headers', 'malformed-object', () => ({ bytes: genuine.subarray(0, 120) })],
  ['an empty object', 'malformed-object', () => ({ bytes: Buffer.alloc(0) })],
  [
    'a header without a value',
    'malformed-header',
    () => ({ bytes: swap(genuine, 'committer A U Thor', 'committer\nx A U Thor') }),
  ],
  ['a date with a sign', 'bad-date', () => ({ bytes: ssh('alice', commitPayload({ committer: 'A <a@b> -1 +0000' })) })],
  [
    'a committer with two mail addresses',
    'bad-date',
    () => ({ bytes: ssh('alice', commitPayload({ committer: 'A <a@b> <c@d> 1717000000 +0000' })) }),
  ],
  ['a SHA-256 tree', 'sha256-repository', () => ({ bytes: ssh('alice', commitPayload({ tree: 'a'.repeat(64) })) })],
  ['a SHA-256 id', 'sha256-repository', () => ({ bytes: genuine, oid: 'a'.repeat(64) })],
  ['bytes of another id', 'oid-mismatch', () => ({ bytes: genuine, oid: 'a'.repeat(40) })],
  ['a blob', 'not-commit-or-tag', () => ({ bytes: genuine, type: 'blob' })],
  ['an object beyond the limit', 'object-too-large', () => ({ bytes: genuine, options: { largestBytes: 100 } })],
  ['a wrapped payload', 'bad-signature', wrapped],
  [
    'an annotated tag',
    'ok',
    () => ({ type: 'tag', bytes: Buffer.concat([tagPayload(), Buffer.from(m.sshSign('alice', tagPayload()))]) }),
    { principal: 'alice@example.com', git: 'good' },
  ],
  ['an unsigned tag', 'no-signature', () => ({ type: 'tag', bytes: tagPayload() })],
  [
    'a changed tag',
    'bad-signature',
    () => ({
      type: 'tag',
      bytes: Buffer.concat([swap(tagPayload(), 'tag v1', 'tag v2'), Buffer.from(m.sshSign('alice', tagPayload()))]),
    }),
    { git: 'bad' },
  ],
  [
    'a tag with text after the armor',
    'trailing-armor',
    () => ({
      type: 'tag',
      bytes: Buffer.concat([tagPayload(), Buffer.from(`${m.sshSign('alice', tagPayload())}evil\n`)]),
    }),
  ],
  [
    'a tag with two armors',
    'several-signatures',
    () => ({
      type: 'tag',
      bytes: Buffer.concat([tagPayload(), Buffer.from(m.sshSign('alice', tagPayload()).repeat(2))]),
    }),
  ],
  [
    'a tag with a gpgsig header',
    'extra-signature-header',
    () => ({ type: 'tag', bytes: insertHeader(tagPayload(), signatureHeader(genuineArmor)) }),
  ],
  [
    'a tag without a tagger',
    'no-date',
    () => ({ type: 'tag', bytes: Buffer.concat([tagPayload({ tagger: null }), Buffer.from(genuineArmor)]) }),
  ],
];

/** A genuine payload and signature, kept inside the message of a commit whose own text is the attacker's. */
function wrapped(): Sample {
  const evil = commitPayload({ message: `Evil\n\n${commitPayload().toString()}` });
  return { bytes: insertSignature(evil, genuineArmor) };
}

const ARMOR: readonly Row[] = [
  ['CRLF', 'malformed-armor', () => withArmor((text) => text.replaceAll('\n', '\r\n'))],
  ['text after END', 'trailing-armor', () => withArmor((text) => `${text}evil\n`)],
  ['a blank line after END', 'trailing-armor', () => withArmor((text) => `${text}\n`)],
  ['a second armor', 'several-armors', () => withArmor((text) => text + text)],
  ['a second END', 'trailing-armor', () => withArmor((text) => `${text}evil\n-----END SSH SIGNATURE-----\n`)],
  ['text before BEGIN', 'unknown-signature-format', () => withArmor((text) => `x\n${text}`)],
  ['no END', 'malformed-armor', () => withArmor((text) => text.replace(/-----END.*\n/, ''))],
  [
    'a space after BEGIN',
    'malformed-armor',
    () => withArmor((text) => text.replace('SIGNATURE-----\n', 'SIGNATURE----- \n')),
  ],
  ['a space in the base64', 'non-canonical-base64', () => withArmor((text) => text.replace('U1NIU0lH', 'U1NI U0lH'))],
  [
    'a blank line in the base64',
    'malformed-armor',
    () => withArmor((text) => text.replace('U1NIU0lH', 'U1NIU0lH\n\n')),
  ],
  ['url-safe base64', 'non-canonical-base64', () => withArmor((text) => text.replace('U1NIU0lH', 'U1NIU0l-'))],
  ['trailing bits in the base64', 'non-canonical-base64', () => withArmor(looseBits)],
  [
    'missing padding',
    'non-canonical-base64',
    () => withArmor((text) => text.replace(/=+\n/, '\n').replace('U1NI', 'U1N')),
  ],
  ['other line widths', 'ok', () => withArmor((text) => armor('SSH', unarmor(text), 40))],
  [
    'X.509',
    'x509-signature',
    () => withArmor(() => '-----BEGIN SIGNED MESSAGE-----\nTUlJ\n-----END SIGNED MESSAGE-----\n'),
  ],
  ['no armor at all', 'unknown-signature-format', () => withArmor(() => 'signed, Alice\n')],
  ['an armor beyond the limit', 'signature-too-large', () => withArmor(() => armor('SSH', Buffer.alloc(300_000)))],
];

/** Sets a bit that canonical base64 leaves at zero. */
function looseBits(text: string): string {
  const bytes = unarmor(text);
  const padded = Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 3)) % 3 || 1)]);
  const encoded = padded.toString('base64');
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  const at = encoded.replace(/=+$/, '').length - 1;
  const bent = alphabet[alphabet.indexOf(encoded[at]!) + 1]!;
  return `-----BEGIN SSH SIGNATURE-----\n${encoded.slice(0, at)}${bent}${encoded.slice(at + 1)}\n-----END SSH SIGNATURE-----\n`;
}

const by = (line: string): Sample => ({ bytes: genuine, roots: signers(line) });
const ROOTS: readonly Row[] = [
  ['several principals', 'ok', () => by(`first@x,second@x ${pub['alice']}`), { principal: 'first@x' }],
  ['a quoted principal', 'ok', () => by(`"first@x,second@x" ${pub['alice']}`), { principal: 'first@x' }],
  ['a pattern before a name', 'ok', () => by(`*@x,second@x ${pub['alice']}`), { principal: 'second@x' }],
  ['only a pattern', 'wildcard-principal', () => by(`*@example.com ${pub['alice']}`)],
  ['the pattern of everybody', 'wildcard-principal', () => by(`* ${pub['alice']}`)],
  ['a name that is negated', 'wildcard-principal', () => by(`!alice@x,alice@x ${pub['alice']}`)],
  ['the namespace git', 'ok', () => by(`alice namespaces="file,git" ${pub['alice']}`), { principal: 'alice' }],
  ['a namespace pattern', 'ok', () => by(`alice namespaces="g*" ${pub['alice']}`)],
  ['another namespace only', 'namespace-not-allowed', () => by(`alice namespaces="file" ${pub['alice']}`)],
  ['a namespace that is negated', 'namespace-not-allowed', () => by(`alice namespaces="!git,*" ${pub['alice']}`)],
  ['valid-after before the commit', 'ok', () => by(`alice valid-after="20240101" ${pub['alice']}`)],
  ['valid-after after the commit', 'not-yet-valid', () => by(`alice valid-after="20240530Z" ${pub['alice']}`)],
  ['valid-after ahead of now', 'not-yet-valid', () => by(`alice valid-after="20250101" ${pub['alice']}`)],
  ['valid-before behind the commit', 'key-expired', () => by(`alice valid-before="20240529Z" ${pub['alice']}`)],
  [
    'valid-before between commit and now',
    'signer-expired-since',
    () => by(`alice valid-before="20240530120000Z" ${pub['alice']}`),
    { principal: 'alice' },
  ],
  ['valid-before ahead', 'ok', () => by(`alice valid-before="20250101",valid-after="20240101" ${pub['alice']}`)],
  [
    'an expired line beside a current one',
    'ok',
    () => by(`old valid-before="20240530Z" ${pub['alice']}\nnew ${pub['alice']}`),
    { principal: 'new' },
  ],
  [
    'times upside down',
    'bad-signer-line',
    () => by(`alice valid-after="20250101",valid-before="20240101" ${pub['alice']}`),
  ],
  ['a time that does not exist', 'bad-signer-line', () => by(`alice valid-before="20240231" ${pub['alice']}`)],
  ['an unknown option', 'bad-signer-line', () => by(`alice no-such-option ${pub['alice']}`)],
  ['an unbalanced quote', 'bad-signer-line', () => by(`alice namespaces="git ${pub['alice']}`)],
  ['a line without a key', 'unknown-key', () => by('alice')],
  ['bytes that are not UTF-8 in a name', 'bad-signer-line', () => by(`al\ufffdce ${pub['alice']}`)],
  ['a bad line beside a good one', 'ok', () => by(`alice no-such-option ${pub['alice']}\nalice ${pub['alice']}`)],
  [
    'a bad line where those refuse all',
    'bad-allowed-signers',
    () => ({ bytes: genuine, roots: { ...signers('x nonsense', `alice ${pub['alice']}`), refuseBadLines: true } }),
  ],
  ['the key as an authority only', 'authority-key-signed', () => by(`alice cert-authority ${pub['alice']}`)],
  ['comments, blank lines and CRLF', 'ok', () => by(`# c\r\n\r\n  alice ${pub['alice']} note\r\n`)],
  ['no allowed signers', 'unknown-key', () => ({ bytes: genuine, roots: {} })],
  [
    'allowed signers that cannot be read',
    'bad-allowed-signers',
    () => ({ bytes: genuine, roots: { allowedSigners: null } }),
  ],
];

const revoked = (content: Buffer | string | null, bytes = genuine): Sample => ({
  bytes,
  roots: { ...defaultRoots(), revoked: typeof content === 'string' ? Buffer.from(content) : content },
});
/** A KRL made by ssh-keygen of files or of a specification. */
function krl(name: string, ...from: readonly string[]): Buffer {
  m.run('ssh-keygen', ['-q', '-k', '-f', m.file(name), ...from]);
  return m.run('cat', [m.file(name)]);
}
const fingerprint = (key: string): string =>
  m
    .run('ssh-keygen', ['-lf', m.file(`${key}.pub`)])
    .toString()
    .split(' ')[1]!;

const REVOKED: readonly Row[] = [
  ['a key in the list', 'revoked', () => revoked(`# lost\n${pub['alice']} laptop\n`)],
  ['a fingerprint in the list', 'revoked', () => revoked(`${fingerprint('alice')}\n`)],
  ['another key in the list', 'ok', () => revoked(`${pub['stranger']}\n`)],
  ['an empty list', 'ok', () => revoked('')],
  ['a list that is missing', 'bad-revocation-list', () => revoked(null)],
  ['a line that is neither', 'bad-revocation-list', () => revoked('alice@example.com\n')],
  ['a binary file that is no KRL', 'bad-revocation-list', () => revoked(Buffer.of(1, 0, 2))],
  ['a KRL with the key', 'revoked', () => revoked(krl('krl1', m.file('alice.pub')))],
  [
    'a KRL with the SHA-256 of the key',
    'revoked',
    () => revoked(krl('krl2', m.write('spec2', `sha256: ${pub['alice']}\n`))),
  ],
  [
    'a KRL with the SHA-1 of the key',
    'revoked',
    () => revoked(krl('krl3', m.write('spec3', `sha1: ${pub['alice']}\n`))),
  ],
  ['a KRL with another key', 'ok', () => revoked(krl('krl4', m.file('stranger.pub')))],
  ['a KRL that is cut', 'bad-revocation-list', () => revoked(krl('krl5', m.file('alice.pub')).subarray(0, -3))],
  [
    'a KRL with the serial number',
    'revoked-certificate',
    () =>
      revoked(krl('krl6', '-s', m.file('ca.pub'), m.write('spec6', 'serial: 5-9\n')), certified('serial', ['-z', '7'])),
  ],
  [
    'a KRL with another serial number',
    'ok',
    () =>
      revoked(
        krl('krl7', '-s', m.file('ca.pub'), m.write('spec7', 'serial: 5-9\n')),
        certified('serial2', ['-z', '10']),
      ),
  ],
  [
    'a KRL with the key id',
    'revoked-certificate',
    () => revoked(krl('krl8', '-s', m.file('ca.pub'), m.write('spec8', 'id: job\n')), certified('byid')),
  ],
  ['a list with the authority', 'revoked-authority', () => revoked(`${pub['ca']}\n`, certified('byca'))],
  ['a list with the certified key', 'revoked', () => revoked(`${pub['guest']}\n`, certified('bykey'))],
  ['an OpenPGP fingerprint in the list', 'revoked', () => revoked(`${gpg['ed']}\n`, pgpCommit)],
];

const YEAR = '20240101000000Z:20250101000000Z';
/** A commit signed with a certificate of the key `guest`. */
function certified(
  name: string,
  args: readonly string[] = [],
  validity = YEAR,
  principals = 'deploy@example.com',
  authority = 'ca',
): Buffer {
  const named = principals === '' ? [] : ['-n', principals];
  const certificate = m.certify(authority, 'guest', name, '-I', 'job', ...named, '-V', validity, ...args);
  return ssh(certificate, commitPayload());
}

const CERTIFICATES: readonly Row[] = [
  ['a valid certificate', 'ok', () => ({ bytes: certified('c1') }), { principal: 'deploy@example.com', git: 'good' }],
  ['a certificate without end', 'ok', () => ({ bytes: certified('c2', [], 'always:forever') })],
  [
    'a certificate expired since',
    'certificate-expired-since',
    () => ({ bytes: certified('c3', [], '20240101000000Z:20240530000000Z') }),
  ],
  [
    'a certificate expired at the commit',
    'key-expired',
    () => ({ bytes: certified('c4', [], '20240101000000Z:20240201000000Z') }),
  ],
  [
    'a certificate of the future',
    'not-yet-valid',
    () => ({ bytes: certified('c5', [], '20240530000000Z:20250101000000Z') }),
  ],
  [
    'another authority',
    'unknown-authority',
    () => ({ bytes: certified('c6', [], YEAR, 'deploy@example.com', 'otherCa') }),
    { git: 'bad' },
  ],
  ['a critical option', 'certificate-critical-option', () => ({ bytes: certified('c7', ['-O', 'force-command=x']) })],
  ['no principal', 'certificate-without-principals', () => ({ bytes: certified('c8', [], YEAR, '') })],
  [
    'a principal that the line does not allow',
    'principal-mismatch',
    () => ({ bytes: certified('c9', [], YEAR, 'root@example.com') }),
  ],
  ['a host certificate', 'certificate-type', () => ({ bytes: certified('c10', ['-h']) })],
  [
    'a pattern of certificate principals',
    'ok',
    () => ({
      bytes: certified('c11', [], YEAR, 'a@other,b@example.com'),
      roots: signers(`*@example.com cert-authority ${pub['ca']}`),
    }),
    { principal: 'b@example.com' },
  ],
  ['a weak authority', 'weak-authority', () => ({ bytes: certified('c12', [], YEAR, 'deploy@example.com', 'weak') })],
  [
    'the authority as a plain signer',
    'unknown-authority',
    () => ({ bytes: certified('c13'), roots: signers(`x ${pub['ca']}`) }),
  ],
];

const OPENPGP: readonly Row[] = [
  ['an ed25519 signature', 'ok', () => ({ bytes: pgpCommit }), { git: 'good' }],
  ['an RSA signature', 'ok', () => ({ bytes: pgp(gpg['rsa']!, commitPayload()) }), { git: 'good' }],
  ['a signing subkey', 'ok', () => ({ bytes: pgp(gpg['certify']!, commitPayload()) }), { git: 'good' }],
  [
    'a tag',
    'ok',
    () => ({ type: 'tag', bytes: Buffer.concat([tagPayload(), Buffer.from(m.gpgSign(gpg['ed']!, tagPayload()))]) }),
    { git: 'good' },
  ],
  ['a binary keyring', 'ok', () => ({ bytes: pgpCommit, roots: { keyring: m.gpg(['--export', gpg['ed']!]) } })],
  ['a GnuPG keybox', 'ok', () => ({ bytes: pgpCommit, roots: { keyring: m.run('cat', [m.file('g/pubring.kbx')]) } })],
  ['an unknown key', 'unknown-key', () => ({ bytes: pgp(gpg['unknown']!, commitPayload()) })],
  ['RSA of 1024 bits', 'weak-key', () => ({ bytes: pgp(gpg['weak']!, commitPayload()) })],
  [
    'a changed message',
    'bad-signature',
    () => ({ bytes: swap(pgpCommit, 'Change a thing', 'Change a King') }),
    { git: 'bad' },
  ],
  ['a key expired since', 'key-expired-since', () => ({ bytes: pgp(gpg['expired']!, commitPayload()) })],
  ['a key expired at the commit', 'key-expired', expiredBefore],
  [
    'a signature that expired since',
    'signature-expired-since',
    () => ({ bytes: pgp(gpg['ed']!, commitPayload(), DATED, '--default-sig-expire', '1d') }),
  ],
  ['a compromised key', 'revoked', () => revokedRing('revoked', 1, '20240530T000000')],
  ['a key revoked without a reason', 'revoked', () => revokedRing('revoked', 0, '20240530T000000')],
  ['a key superseded since', 'key-retired-since', () => revokedRing('retired', 2, '20240530T000000')],
  ['a key superseded before', 'revoked', () => revokedRing('retired', 2, '20240501T000000')],
  [
    'a signature 301 s before the commit',
    'signature-date-mismatch',
    () => ({ bytes: pgp(gpg['ed']!, commitPayload(), DATED - 301) }),
  ],
  ['a signature 299 s after the commit', 'ok', () => ({ bytes: pgp(gpg['ed']!, commitPayload(), DATED + 299) })],
  [
    'a back-dated commit',
    'signature-date-mismatch',
    () => ({ bytes: pgp(gpg['ed']!, commitPayload({ dated: DATED - DAY }), DATED) }),
  ],
  ['a signature of the future', 'dated-in-future', () => ({ bytes: pgpCommit, at: new Date((DATED - 301) * 1000) })],
  [
    'two signature packets',
    'several-signature-packets',
    () => ({
      bytes: insertSignature(commitPayload(), armor('PGP', Buffer.concat([unarmor(pgpArmor), unarmor(pgpArmor)]))),
    }),
  ],
  ['two armors', 'several-armors', () => ({ bytes: insertSignature(commitPayload(), pgpArmor + pgpArmor) })],
  [
    'a text-mode signature',
    'not-binary-signature',
    () => ({ bytes: pgp(gpg['ed']!, commitPayload(), DATED, '--textmode') }),
  ],
  ['SHA-1', 'hash-refused', () => ({ bytes: pgp(gpg['rsa']!, commitPayload(), DATED, '--digest-algo', 'SHA1') })],
  [
    'a signature that wraps its message',
    'not-detached',
    () => ({ bytes: pgp(gpg['ed']!, commitPayload(), DATED, '--sign') }),
  ],
  [
    'a critical notation',
    'critical-subpacket',
    () => ({ bytes: pgp(gpg['ed']!, commitPayload(), DATED, '--sig-notation', '!x@example.com=1') }),
  ],
  ['a notation', 'ok', () => ({ bytes: pgp(gpg['ed']!, commitPayload(), DATED, '--sig-notation', 'x@example.com=1') })],
  [
    'a wrong checksum',
    'armor-checksum',
    () => ({ bytes: insertSignature(commitPayload(), pgpArmor.replace(/\n=..../, '\n=AAAA')) }),
  ],
  [
    'a strange armor header',
    'armor-header',
    () => ({ bytes: insertSignature(commitPayload(), pgpArmor.replace('\n\n', '\nHash: SHA512\n\n')) }),
  ],
  [
    'a comment in the armor',
    'ok',
    () => ({ bytes: insertSignature(commitPayload(), pgpArmor.replace('\n\n', '\nComment: hello\n\n')) }),
  ],
  ['the blank line of a forge', 'ok', () => ({ bytes: insertSignature(commitPayload(), `${pgpArmor}\n`) })],
  [
    'a cut packet',
    'malformed-openpgp',
    () => ({ bytes: insertSignature(commitPayload(), armor('PGP', unarmor(pgpArmor).subarray(0, -4))) }),
  ],
  [
    'a keyring with a secret key',
    'bad-keyring',
    () => ({ bytes: pgpCommit, roots: { keyring: m.gpg(['--export-secret-keys', gpg['ed']!]) } }),
  ],
  ['a keyring that cannot be read', 'bad-keyring', () => ({ bytes: pgpCommit, roots: { keyring: null } })],
  ['a keyring of noise', 'bad-keyring', () => ({ bytes: pgpCommit, roots: { keyring: Buffer.from('noise') } })],
  ['no keyring', 'unknown-key', () => ({ bytes: pgpCommit, roots: {} })],
];

/** Signed first; afterwards the key is given an end that lies before the signature. */
function expiredBefore(): Sample {
  const bytes = pgp(gpg['late']!, commitPayload());
  m.gpg(['--faked-system-time', '20240301T000000!', '--quick-set-expire', gpg['late']!, '20240401T000000']);
  return { bytes, roots: { keyring: Buffer.from(m.gpgExport(gpg['late']!)) } };
}

function revokedRing(key: string, reason: number, made: string): Sample {
  const revocation = m.gpgRevocation(gpg[key]!, reason, made);
  return { bytes: pgp(gpg[key]!, commitPayload()), roots: { keyring: Buffer.from(`${keyring}\n${revocation}`) } };
}

const strictly = (bytes: Buffer, type = 'commit'): Sample => ({ bytes, type, options: { strict: true } });
const signedTag = (fields: Parameters<typeof tagPayload>[0]): Buffer => {
  const payload = tagPayload(fields);
  return Buffer.concat([payload, Buffer.from(m.sshSign('alice', payload))]);
};
const STRICT: readonly Row[] = [
  ['an SSH statement', 'ok', () => strictly(genuine)],
  ['an OpenPGP statement', 'ok', () => strictly(pgpCommit)],
  ['a tag', 'ok', () => strictly(signedTag({}), 'tag')],
  [
    'a merge',
    'not-single-parent',
    () => strictly(ssh('alice', commitPayload({ parents: ['1', '2'].map((digit) => digit.repeat(40)) }))),
  ],
  ['a root commit', 'not-single-parent', () => strictly(ssh('alice', commitPayload({ parents: [] })))],
  ['a mergetag', 'mergetag-header', () => strictly(ssh('alice', commitPayload({ extra: 'mergetag object 1\n' })))],
  [
    'an encoding header',
    'encoding-header',
    () => strictly(ssh('alice', commitPayload({ extra: 'encoding ISO-8859-1\n' }))),
  ],
  ['two blank lines', 'extra-blank-line', () => strictly(ssh('alice', commitPayload({ message: '\nHello\n' })))],
  ['a malformed author', 'bad-date', () => strictly(ssh('alice', commitPayload({ author: 'nobody' })))],
  [
    'a tag with a header of its own',
    'extra-tag-header',
    () => {
      const payload = insertHeader(tagPayload(), 'note x\n');
      return strictly(Buffer.concat([payload, Buffer.from(m.sshSign('alice', payload))]), 'tag');
    },
  ],
  ['a tag of a blob', 'tag-target', () => strictly(signedTag({ type: 'blob' }), 'tag')],
  [
    'uneven base64 lines',
    'malformed-armor',
    () => strictly(insertSignature(commitPayload(), genuineArmor.replace('U1NIU0lH', 'U1NIU0lH\n'))),
  ],
  ['the blank line of a forge', 'trailing-armor', () => strictly(insertSignature(commitPayload(), `${pgpArmor}\n`))],
];

async function judgeSample(sample: Sample): Promise<Judgement> {
  const type = sample.type ?? 'commit';
  const oid = sample.oid ?? objectId(type, sample.bytes);
  const roots = await parseTrustRoots(sample.roots ?? defaultRoots());
  return judge({ oid, type, bytes: sample.bytes }, roots, sample.at ?? AT, sample.options);
}

/** What git says of the same object with the same roots. */
function askGit(sample: Sample): 'good' | 'bad' {
  const type = sample.type ?? 'commit';
  const oid = m
    .run('git', ['-C', 'repo', 'hash-object', '-t', type, '-w', '--stdin', '--literally'], sample.bytes)
    .toString()
    .trim();
  const file = m.write('signers', defaultRoots().allowedSigners!);
  const verb = type === 'tag' ? 'verify-tag' : 'verify-commit';
  const { code } = m.attempt('git', ['-C', 'repo', '-c', `gpg.ssh.allowedSignersFile=${file}`, verb, oid]);
  return code === 0 ? 'good' : 'bad';
}

const TABLE: Readonly<Record<string, readonly Row[]>> = {
  SSH,
  objects: OBJECTS,
  armor: ARMOR,
  'allowed signers': ROOTS,
  revocation: REVOKED,
  'SSH certificates': CERTIFICATES,
  OpenPGP: OPENPGP,
  statements: STRICT,
};

for (const [title, rows] of Object.entries(TABLE))
  describe(title, () => {
    for (const [name, reason, make, more = {}] of rows)
      it(`${name}: ${reason}`, async () => {
        const sample = make();
        const judgement = await judgeSample(sample);
        expect(`${judgement.reason} ${judgement.detail}`).toMatch(new RegExp(`^${reason} `));
        expect(judgement.verdict).toBe(REASONS[reason].verdict);
        if (more.principal !== undefined) expect(judgement.principal).toBe(more.principal);
        if (judgement.verdict === 'invalid') expect(judgement.principal).toBeNull();
        if (more.git) expect(askGit(sample), 'what git says').toBe(more.git);
      });
  });

describe('windlass trust verify', () => {
  const verify = (...args: readonly string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, 'trust', 'verify', ...args], {
      cwd: m.dir,
      encoding: 'utf8',
      env: { PATH: process.env['PATH'], HOME: m.dir, TZ: 'UTC', ...warmStart },
    });
    return { status, stdout, stderr };
  };
  const write = (bytes: Buffer, type = 'commit'): string =>
    m.run('git', ['-C', 'repo', 'hash-object', '-t', type, '-w', '--stdin', '--literally'], bytes).toString().trim();
  let common: readonly string[];

  beforeAll(() => {
    m.write('allowed', defaultRoots().allowedSigners!);
    m.write('keyring.asc', keyring);
    common = [
      '--git-dir',
      'repo',
      '--allowed-signers',
      'allowed',
      '--keyring',
      'keyring.asc',
      '--at',
      AT.toISOString(),
    ];
    const tag = Buffer.concat([tagPayload(), Buffer.from(m.sshSign('alice', tagPayload()))]);
    m.git('-C', 'repo', 'update-ref', 'refs/heads/good', write(genuine));
    m.git('-C', 'repo', 'update-ref', 'refs/tags/v1', write(tag, 'tag'));
    m.git('-C', 'repo', 'update-ref', 'refs/heads/bare', write(commitPayload()));
    write(pgpCommit);
  });

  it('writes one line of JSON a rev, in order, and exits 0 when all are valid', () => {
    const pgpId = objectId('commit', pgpCommit);
    const { status, stdout, stderr } = verify(...common, '--json', 'good', 'v1', pgpId.slice(0, 10));
    expect(stderr).toBe('');
    expect(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual([
      {
        rev: 'good',
        oid: objectId('commit', genuine),
        verdict: 'valid',
        format: 'ssh',
        principal: 'alice@example.com',
        fingerprint: fingerprint('alice'),
        reason: 'ok',
      },
      expect.objectContaining({ rev: 'v1', verdict: 'valid', format: 'ssh' }),
      {
        rev: pgpId.slice(0, 10),
        oid: pgpId,
        verdict: 'valid',
        format: 'openpgp',
        principal: null,
        fingerprint: gpg['ed'],
        reason: 'ok',
      },
    ]);
    expect(status).toBe(0);
    expect(verify(...common, '-o', 'json', 'good', 'v1', pgpId.slice(0, 10)).stdout).toBe(stdout);
  });

  it('judges the rest when one rev is bad, and exits 5', () => {
    const { status, stdout } = verify(...common, '--json', 'nowhere', 'bare', 'good', 'good^{tree}');
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.map(({ reason }) => reason)).toEqual(['unknown-rev', 'no-signature', 'ok', 'unknown-rev']);
    expect(status).toBe(5);
  });

  it('exits 5 for what proves history only', () => {
    m.write('old', `alice valid-before="20240530" ${pub['alice']}\n`);
    const args = [
      '--git-dir',
      'repo',
      '--allowed-signers',
      'old',
      '--at',
      String(AT.getTime() / 1000),
      '--json',
      'good',
    ];
    const { status, stdout } = verify(...args);
    expect(JSON.parse(stdout)).toMatchObject({ verdict: 'valid-history-only', principal: 'alice' });
    expect(status).toBe(5);
  });

  it('refuses every rev when the named revocation list is missing', () => {
    const { status, stdout, stderr } = verify(...common, '--revoked', 'nowhere', '--json', 'good');
    expect(JSON.parse(stdout)).toMatchObject({ verdict: 'invalid', reason: 'bad-revocation-list' });
    expect(stderr).toContain('nowhere');
    expect(status).toBe(5);
  });

  it('says a readable line without --json, and warns of lines that grant nothing', () => {
    m.write('mixed', `bob nonsense\nalice ${pub['alice']}\n`);
    const { status, stdout, stderr } = verify(
      '--git-dir',
      'repo/.git',
      '--allowed-signers',
      'mixed',
      '--at',
      '2024-06-01',
      'good',
    );
    expect(stdout).toMatch(/^valid good \([0-9a-f]{12}\) {2}alice ssh SHA256:/);
    expect(stderr).toContain('mixed:1');
    expect(status).toBe(0);
  });

  it('waits for no pipe and reads no device, neither as a root nor in the repository', () => {
    m.run('mkfifo', ['pipe']);
    for (const [flag, file] of [
      ['--allowed-signers', 'pipe'],
      ['--keyring', '/dev/zero'],
    ] as const)
      expect(verify('--git-dir', 'repo', flag, file, 'good')).toMatchObject({
        status: 3,
        stderr: expect.stringMatching(/cannot be read: it is no regular file/),
      });
    expect(verify(...common, '--revoked', 'pipe', 'good').status).toBe(5);
    const odd = 'ab'.repeat(20);
    mkdirSync(join(m.dir, 'repo/.git/objects/ab'), { recursive: true });
    m.run('mkfifo', [`repo/.git/objects/ab/${odd.slice(2)}`, 'repo/.git/refs/heads/pipe']);
    const { stdout } = verify(...common, '--json', odd, 'pipe');
    expect(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).reason),
    ).toEqual(['unreadable-object', 'unknown-rev']);
    rmSync(join(m.dir, 'repo/.git/refs/heads/pipe'));
  });

  it('takes unreadable roots, a bad time and no rev as usage errors', () => {
    for (const args of [
      ['--allowed-signers', 'nowhere', 'good'],
      ['--keyring', 'repo', 'good'],
      ['--at', '2024-02-30', 'good'],
      ['--at', 'yesterday', 'good'],
      ['--json'],
    ])
      expect(verify('--git-dir', 'repo', ...args), args.join(' ')).toMatchObject({ status: 3, stdout: '' });
  });

  it('reads packed objects and refs, through a .git file too', () => {
    const loose = [genuine, pgpCommit].map((bytes) => `${objectId('commit', bytes)}\n`).join('');
    m.run('git', ['-C', 'repo', 'pack-objects', '-q', '.git/objects/pack/pack'], loose);
    m.git('-C', 'repo', 'prune-packed', '-q');
    m.git('-C', 'repo', 'pack-refs', '--all');
    m.write('pointer', `gitdir: ${m.file('repo/.git')}\n`);
    const { stdout } = verify(
      ...common,
      '--git-dir',
      'pointer',
      '--json',
      'good',
      'refs/tags/v1',
      objectId('commit', genuine),
    );
    expect(stdout.match(/"verdict":"valid"/g)).toHaveLength(3);
  });

  it('refuses directories that are no repository', () => {
    const { status, stdout } = verify('--git-dir', 'nowhere', '--json', 'good');
    expect(JSON.parse(stdout)).toMatchObject({ oid: null, reason: 'unreadable-repository' });
    expect(status).toBe(5);
  });
});

describe('judge', () => {
  it('answers for whatever is given to it', async () => {
    const roots = await parseTrustRoots(defaultRoots());
    for (const nonsense of [null, undefined, {}, { oid: 1, type: 'commit', bytes: null }, { oid: '', type: 'tag' }]) {
      const judgement = await judge(nonsense as never, roots, AT);
      expect(judgement.verdict).toBe('invalid');
    }
    expect(
      await judge({ oid: objectId('commit', genuine), type: 'commit', bytes: genuine }, null as never, AT),
    ).toMatchObject({ verdict: 'invalid', reason: 'internal-error' });
  });

  it('accepts no single flipped byte of a signed commit', async () => {
    const roots = await parseTrustRoots(defaultRoots());
    for (const bytes of [genuine, pgpCommit])
      for (let at = 0; at < bytes.length; at++) {
        const bent = Buffer.from(bytes);
        bent[at]! ^= 1 << (at % 8);
        const judgement = await judge({ oid: objectId('commit', bent), type: 'commit', bytes: bent }, roots, AT);
        if (judgement.verdict !== 'invalid') accepted.push(`${at}: ${bent.toString('latin1', at - 8, at + 8)}`);
        expect(judgement.reason, `byte ${at}`).not.toBe('internal-error');
      }
    expect(accepted).toEqual([]);
  });
  const accepted: string[] = [];
});
