// OpenPGP: verifies the keys of a keyring once, then judges one detached signature against them.
//
// The one file of this room that awaits: openpgp.js is asynchronous throughout. It does arithmetic only; no file, clock,
// chance or environment is read, and every date is a parameter. openpgp.js is loaded on first use and verifies single
// packets; everything that it leaves open (type, dates, expiry, revocation, flags, binding) is decided here.

import type { TrustProblem } from './allowed-signers.ts';
import {
  fingerprintV4,
  type KeyBlock,
  type KeyringPackets,
  readKeyring,
  readSignature,
  type SignatureFields,
  splitPackets,
  TAG,
} from './openpgp-packet.ts';
import type { ReasonCode, RefusalCode } from './reason.ts';
import { Refusal } from './refusal.ts';
import { bitLength } from './ssh-key.ts';

/** Seconds between the signature's own time and the date of the object. */
const DATE_TOLERANCE_SECONDS = 300;

const TYPE = {
  binary: 0x00,
  certificationFirst: 0x10,
  certificationLast: 0x13,
  subkeyBinding: 0x18,
  keyBinding: 0x19,
  direct: 0x1f,
  keyRevocation: 0x20,
  subkeyRevocation: 0x28,
  userRevocation: 0x30,
} as const;
const SIGN_FLAG = 0x02;
/** RSA, RSA sign-only, ECDSA, EdDSA (legacy), Ed25519, Ed448. */
const KEY_ALGORITHMS: ReadonlySet<number> = new Set([1, 3, 19, 22, 27, 28]);
const DSA = 17;
/** SHA-256, SHA-384, SHA-512. */
const HASH_ALGORITHMS: ReadonlySet<number> = new Set([8, 9, 10]);
const LEAST_RSA_BITS = 2048;
/** Reasons that leave older signatures good: superseded, retired. */
const SOFT_REASONS: ReadonlySet<number> = new Set([1, 3]);

type Library = typeof import('openpgp');

/** The parts of openpgp.js packets that are used; its own declarations hide some as private. */
interface LibraryKey {
  read(body: Uint8Array): Promise<number>;
  getFingerprint(): string;
  readonly algorithm: number;
  readonly publicParams: { readonly n?: Uint8Array; readonly e?: Uint8Array; readonly oid?: { getName(): string } };
}
interface LibrarySignature {
  read(body: Uint8Array): void;
  verify(key: LibraryKey, type: number, data: object, date: null, detached: boolean, config: object): Promise<void>;
}

interface Revocation {
  readonly created: number;
  readonly isHard: boolean;
}

/** What a verified self-signature says. */
interface Claim {
  readonly created: number;
  /** When the signature itself expires; seconds since the epoch. */
  readonly expires: number | null;
  readonly keyExpiresAfter: number | null;
  readonly flags: number | null;
  /** Of a subkey binding: the subkey signed back. */
  readonly isSignedBack: boolean;
  /** Made with a hash that is not accepted (SHA-1 and older). */
  readonly isWeak: boolean;
}

interface KeyMaterial {
  readonly fingerprint: string;
  readonly created: number;
  readonly packet: LibraryKey;
  /** Why this key may sign nothing; null when it is strong. */
  readonly weakness: string | null;
}

interface Subkey {
  readonly material: KeyMaterial;
  readonly bindings: readonly Claim[];
  readonly revocations: readonly Revocation[];
}

interface UserClaims {
  readonly claims: readonly Claim[];
  readonly revocations: readonly Revocation[];
}

export interface OpenPgpKey {
  readonly primary: KeyMaterial;
  readonly revocations: readonly Revocation[];
  readonly direct: readonly Claim[];
  readonly users: readonly UserClaims[];
  readonly subkeys: readonly Subkey[];
  /** A property that cannot be honoured, so nothing by this key is accepted; null when there is none. */
  readonly unusable: string | null;
}

export interface Keyring {
  readonly keys: readonly OpenPgpKey[];
  readonly problems: readonly TrustProblem[];
  readonly library: Library | null;
}

export const EMPTY_KEYRING: Keyring = { keys: [], problems: [], library: null };

export interface OpenPgpQuestion {
  /** The bytes inside the armor. */
  readonly signature: Buffer;
  readonly payload: Buffer;
  /** Date of the committer or tagger; seconds since the epoch. */
  readonly dated: number;
  /** Our clock; seconds since the epoch. */
  readonly at: number;
  readonly skewSeconds: number;
  /** Fingerprints of the local revocation list. */
  readonly revoked: ReadonlySet<string>;
}

export interface OpenPgpAnswer {
  readonly reason: ReasonCode;
  readonly detail: string;
  /** Primary fingerprint, 40 upper-case hex; null until the signature has been proved. */
  readonly fingerprint: string | null;
}

let library: Promise<Library> | undefined;

function loadLibrary(): Promise<Library> {
  library ??= import('openpgp');
  return library;
}

/** Parses and verifies a keyring; throws Refusal `bad-keyring`. Keys that cannot be judged become problems. */
export async function loadKeyring(content: Uint8Array, fileName: string): Promise<Keyring> {
  const packets = readKeyring(content);
  if (packets.blocks.length === 0) return EMPTY_KEYRING;
  const openpgp = await loadLibrary();
  const keys: OpenPgpKey[] = [];
  const problems: TrustProblem[] = [];
  for (const block of mergeBlocks(packets.blocks)) {
    try {
      const key = await verifyKey(openpgp, block, packets);
      keys.push(key);
      if (key.unusable !== null)
        problems.push({ place: fileName, message: `${key.primary.fingerprint}: ${key.unusable}` });
    } catch (error) {
      const message = error instanceof Error ? error.message : 'unreadable';
      problems.push({ place: fileName, message: `${fingerprintV4(block.primary).toUpperCase()}: ${message}` });
    }
  }
  return { keys, problems, library: openpgp };
}

/** The same key twice in the ring is one key: a revocation in either copy counts. */
function mergeBlocks(blocks: readonly KeyBlock[]): KeyBlock[] {
  const merged = new Map<string, KeyBlock>();
  for (const block of blocks) {
    const id = block.primary.toString('latin1');
    const known = merged.get(id);
    merged.set(
      id,
      known
        ? {
            primary: block.primary,
            direct: [...known.direct, ...block.direct],
            users: mergeBy(known.users, block.users, (user) => user.id),
            subkeys: mergeBy(known.subkeys, block.subkeys, (subkey) => subkey.body),
          }
        : {
            ...block,
            users: mergeBy([], block.users, (user) => user.id),
            subkeys: mergeBy([], block.subkeys, (subkey) => subkey.body),
          },
    );
  }
  return [...merged.values()];
}

function mergeBy<T extends { readonly signatures: readonly Buffer[] }>(
  some: readonly T[],
  more: readonly T[],
  id: (item: T) => Buffer,
): T[] {
  const merged = new Map<string, T>();
  for (const item of [...some, ...more]) {
    const name = id(item).toString('latin1');
    const known = merged.get(name);
    merged.set(name, known ? { ...item, signatures: [...known.signatures, ...item.signatures] } : item);
  }
  return [...merged.values()];
}

async function readMaterial(openpgp: Library, body: Buffer): Promise<KeyMaterial> {
  if (body[0] !== 4) throw new Error(`key version ${body[0] ?? 0} is not supported`);
  const packet = new openpgp.PublicKeyPacket() as unknown as LibraryKey;
  const read = await packet.read(body);
  const fingerprint = fingerprintV4(body);
  if (read !== body.length || packet.getFingerprint() !== fingerprint) throw new Error('key packet is not canonical');
  return { fingerprint, created: body.readUInt32BE(1), packet, weakness: weaknessOf(packet) };
}

function weaknessOf(packet: LibraryKey): string | null {
  if (!KEY_ALGORITHMS.has(packet.algorithm)) return packet.algorithm === DSA ? 'dsa' : `algorithm ${packet.algorithm}`;
  const { n, e, oid } = packet.publicParams;
  if (n && e) {
    const bits = bitLength(n);
    if (bits < LEAST_RSA_BITS || bits > 16384) return `rsa of ${bits} bits`;
    if (bitLength(e) < 2 || bitLength(e) > 64 || (e.at(-1)! & 1) === 0 || (n.at(-1)! & 1) === 0)
      return 'rsa with an unsound exponent or modulus';
  }
  return oid && oid.getName() === 'secp256k1' ? 'curve secp256k1' : null;
}

/** A signature by the primary key over key data: what it says, when it holds. */
type Checked =
  | { readonly kind: 'holds'; readonly fields: SignatureFields }
  | { readonly kind: 'foreign' | 'unsupported' };

/** `laxHash`: a revocation counts whatever its hash, for a weak one must not bring a key back. */
async function checkKeySignature(
  openpgp: Library,
  body: Buffer,
  issuer: KeyMaterial,
  types: (type: number) => boolean,
  data: object,
  laxHash: boolean,
): Promise<Checked> {
  let fields: SignatureFields;
  try {
    fields = readSignature(body);
  } catch {
    return { kind: mentionsIssuer(body, issuer) ? 'unsupported' : 'foreign' };
  }
  if (!types(fields.type) || !isIssuedBy(fields, issuer)) return { kind: 'foreign' };
  const outcome = await verifyPacket(openpgp, fields, issuer, data, laxHash);
  if (outcome === 'bad') return { kind: 'foreign' };
  if (outcome === 'unsupported' || fields.created === null || fields.criticalUnknown !== null)
    return { kind: 'unsupported' };
  return { kind: 'holds', fields };
}

/** For signatures in forms that are not read (version 3): does the issuer's key id occur in it? */
function mentionsIssuer(body: Buffer, issuer: KeyMaterial): boolean {
  return body.includes(Buffer.from(issuer.fingerprint.slice(-16), 'hex'));
}

function isIssuedBy(fields: SignatureFields, issuer: KeyMaterial): boolean {
  if (fields.issuerFingerprints.length > 0) return fields.issuerFingerprints.includes(issuer.fingerprint);
  return fields.issuerIds.includes(issuer.fingerprint.slice(-16));
}

async function verifyPacket(
  openpgp: Library,
  fields: SignatureFields,
  key: KeyMaterial,
  data: object,
  laxHash: boolean,
): Promise<'good' | 'bad' | 'unsupported'> {
  const config = laxHash
    ? { ...openpgp.config, rejectHashAlgorithms: new Set(), rejectMessageHashAlgorithms: new Set() }
    : openpgp.config;
  try {
    const packet = new openpgp.SignaturePacket() as unknown as LibrarySignature;
    packet.read(fields.body);
    await packet.verify(key.packet, fields.type, data, null, true, config);
    return 'good';
  } catch (error) {
    const message = error instanceof Error ? error.message : '';
    return /^(Signed digest did not match|Signature verification failed|Signature was not issued)/.test(message)
      ? 'bad'
      : 'unsupported';
  }
}

async function verifyKey(openpgp: Library, block: KeyBlock, ring: KeyringPackets): Promise<OpenPgpKey> {
  const primary = await readMaterial(openpgp, block.primary);
  const key = primary.packet;
  const notes = { unusable: null as string | null };

  const revocations = await collectRevocations(openpgp, ring.loose, primary, TYPE.keyRevocation, { key });
  const direct = await collectClaims(openpgp, block.direct, primary, (type) => type === TYPE.direct, { key }, notes);
  const users: UserClaims[] = [];
  for (const user of block.users) {
    const data = { key, userID: { write: () => user.id } };
    users.push({
      claims: await collectClaims(openpgp, user.signatures, primary, isCertification, data, notes),
      revocations: await collectRevocations(openpgp, user.signatures, primary, TYPE.userRevocation, data),
    });
  }
  const subkeys: Subkey[] = [];
  for (const { body, signatures } of block.subkeys) {
    const material = await readMaterial(openpgp, body).catch(() => null);
    if (!material) continue; // a subkey of a form that is not known signs nothing here
    const data = { key, bind: material.packet };
    subkeys.push({
      material,
      bindings: await collectBindings(openpgp, signatures, primary, material, data),
      revocations: await collectRevocations(openpgp, signatures, primary, TYPE.subkeyRevocation, data),
    });
  }
  return { primary, revocations, direct, users, subkeys, unusable: notes.unusable };
}

function isCertification(type: number): boolean {
  return type >= TYPE.certificationFirst && type <= TYPE.certificationLast;
}

function claimOf(fields: SignatureFields, isSignedBack: boolean): Claim {
  return {
    created: fields.created!,
    expires: fields.expiresAfter === null ? null : fields.created! + fields.expiresAfter,
    keyExpiresAfter: fields.keyExpiresAfter,
    flags: fields.keyFlags,
    isSignedBack,
    isWeak: !HASH_ALGORITHMS.has(fields.hashAlgorithm),
  };
}

async function collectClaims(
  openpgp: Library,
  bodies: readonly Buffer[],
  primary: KeyMaterial,
  types: (type: number) => boolean,
  data: object,
  notes: { unusable: string | null },
): Promise<Claim[]> {
  const claims: Claim[] = [];
  for (const body of bodies) {
    if (isDesignatedRevoker(body, primary))
      notes.unusable = 'names a designated revoker, whose word could not be heard';
    const checked = await checkKeySignature(openpgp, body, primary, types, data, false);
    if (checked.kind === 'holds' && checked.fields.created! >= primary.created)
      claims.push(claimOf(checked.fields, false));
  }
  return claims;
}

function isDesignatedRevoker(body: Buffer, primary: KeyMaterial): boolean {
  try {
    const fields = readSignature(body);
    return fields.namesDesignatedRevoker && isIssuedBy(fields, primary);
  } catch {
    return false;
  }
}

/** A revocation that mentions the key but cannot be checked counts as a hard one: silence must not bring a key back. */
async function collectRevocations(
  openpgp: Library,
  bodies: readonly Buffer[],
  primary: KeyMaterial,
  type: number,
  data: object,
): Promise<Revocation[]> {
  const revocations: Revocation[] = [];
  for (const body of bodies) {
    const isVersion3 = body[0] === 3;
    if ((isVersion3 ? body[2] : body[1]) !== type) continue;
    const checked = await checkKeySignature(openpgp, body, primary, (found) => found === type, data, true);
    if (checked.kind === 'unsupported') revocations.push({ created: 0, isHard: true });
    if (checked.kind !== 'holds') continue;
    const { created, revocationReason } = checked.fields;
    const isHard = revocationReason === null || !SOFT_REASONS.has(revocationReason);
    revocations.push({ created: created!, isHard });
  }
  return revocations;
}

async function collectBindings(
  openpgp: Library,
  bodies: readonly Buffer[],
  primary: KeyMaterial,
  subkey: KeyMaterial,
  data: object,
): Promise<Claim[]> {
  const bindings: Claim[] = [];
  for (const body of bodies) {
    const checked = await checkKeySignature(openpgp, body, primary, (type) => type === TYPE.subkeyBinding, data, false);
    // As GnuPG: a signature older than the key that it speaks of, or that made it, is none.
    const isOlder = (fields: SignatureFields) => fields.created! < Math.max(primary.created, subkey.created);
    if (checked.kind !== 'holds' || isOlder(checked.fields)) continue;
    let isSignedBack = false;
    for (const embedded of checked.fields.embedded) {
      const back = await checkKeySignature(openpgp, embedded, subkey, (type) => type === TYPE.keyBinding, data, false);
      isSignedBack ||= back.kind === 'holds' && HASH_ALGORITHMS.has(back.fields.hashAlgorithm) && !isOlder(back.fields);
    }
    bindings.push(claimOf(checked.fields, isSignedBack));
  }
  return bindings;
}

/** Judges one detached signature; throws Refusal while nothing is proved, answers afterwards. */
export async function judgeOpenPgp(keyring: Keyring, question: OpenPgpQuestion): Promise<OpenPgpAnswer> {
  const fields = readOnlySignature(question.signature);
  checkForm(fields);
  const candidates = findCandidates(keyring, fields);
  if (candidates.length === 0)
    throw new Refusal(mentionsUnreadable(keyring, fields) ? 'key-unusable' : 'unknown-key', issuerOf(fields));
  const openpgp = keyring.library!;
  const literal = { text: null, getBytes: () => question.payload };
  const answers: OpenPgpAnswer[] = [];
  for (const candidate of candidates) {
    if ((await verifyPacket(openpgp, fields, candidate.material, literal, false)) !== 'good') continue;
    const { reason, detail } = decide(candidate, fields, question);
    answers.push({ reason, detail, fingerprint: candidate.key.primary.fingerprint.toUpperCase() });
  }
  // One subkey may hang on two primary keys: a revocation of either outweighs the other's good standing.
  const answer =
    answers.find(({ reason }) => reason === 'revoked') ?? answers.find(({ reason }) => reason === 'ok') ?? answers[0];
  if (!answer) throw new Refusal('bad-signature');
  return answer;
}

function readOnlySignature(bytes: Buffer): SignatureFields {
  let packets: ReturnType<typeof splitPackets>;
  try {
    packets = splitPackets(bytes);
  } catch (error) {
    throw new Refusal('malformed-openpgp', error instanceof Error ? error.message : '');
  }
  const [first] = packets;
  if (!first) throw new Refusal('malformed-openpgp', 'empty');
  if (packets.some(({ tag }) => tag !== TAG.signature))
    throw new Refusal('not-detached', `packets ${packets.map(({ tag }) => tag).join(' ')}`);
  if (packets.length > 1) throw new Refusal('several-signature-packets', `${packets.length} packets`);
  if (first.body[0] !== 4) throw new Refusal('signature-version', `version ${first.body[0] ?? 0}`);
  try {
    return readSignature(first.body);
  } catch (error) {
    throw new Refusal('malformed-openpgp', error instanceof Error ? error.message : '');
  }
}

function checkForm(fields: SignatureFields): void {
  if (fields.type !== TYPE.binary) throw new Refusal('not-binary-signature', `type ${fields.type}`);
  if (!KEY_ALGORITHMS.has(fields.keyAlgorithm)) {
    throw new Refusal(
      fields.keyAlgorithm === DSA ? 'weak-key' : 'key-type-refused',
      `algorithm ${fields.keyAlgorithm}`,
    );
  }
  if (!HASH_ALGORITHMS.has(fields.hashAlgorithm)) throw new Refusal('hash-refused', `hash ${fields.hashAlgorithm}`);
  if (fields.criticalUnknown !== null) throw new Refusal('critical-subpacket', fields.criticalUnknown);
  if (fields.created === null) throw new Refusal('no-signature-date');
  if (fields.issuerIds.length === 0 && fields.issuerFingerprints.length === 0) throw new Refusal('no-issuer');
}

function issuerOf(fields: SignatureFields): string {
  return `issuer ${(fields.issuerFingerprints[0] ?? fields.issuerIds[0] ?? '').toUpperCase()}`;
}

function mentionsUnreadable(keyring: Keyring, fields: SignatureFields): boolean {
  return keyring.problems.some(({ message }) => {
    const fingerprint = message.slice(0, 40).toLowerCase();
    return fields.issuerFingerprints.includes(fingerprint) || fields.issuerIds.includes(fingerprint.slice(-16));
  });
}

interface Candidate {
  readonly key: OpenPgpKey;
  readonly material: KeyMaterial;
  /** Null when the primary key itself signed. */
  readonly subkey: Subkey | null;
}

function findCandidates(keyring: Keyring, fields: SignatureFields): Candidate[] {
  return keyring.keys.flatMap((key) =>
    [
      { key, material: key.primary, subkey: null },
      ...key.subkeys.map((subkey) => ({ key, material: subkey.material, subkey })),
    ].filter(({ material }) => isIssuedBy(fields, material)),
  );
}

interface Decision {
  readonly reason: ReasonCode;
  readonly detail: string;
}

/** The rules after the arithmetic, first match wins: revocation, strength, binding, then dates. */
function decide(candidate: Candidate, fields: SignatureFields, question: OpenPgpQuestion): Decision {
  const { key, material, subkey } = candidate;
  const { at, dated, skewSeconds } = question;
  const made = fields.created!;
  const refuse = (reason: RefusalCode, detail = ''): Decision => ({ reason, detail });

  const listed = [key.primary.fingerprint, material.fingerprint].find((fingerprint) =>
    question.revoked.has(fingerprint),
  );
  if (listed !== undefined) return refuse('revoked', `${listed} is in the revocation list`);
  const revocations = [...key.revocations, ...(subkey?.revocations ?? [])];
  if (revocations.some(({ isHard, created }) => isHard || made >= created))
    return refuse('revoked', 'by a revocation in the keyring');
  if (key.unusable !== null) return refuse('key-unusable', key.unusable);
  const weakness = key.primary.weakness ?? material.weakness;
  if (weakness !== null) return refuse('weak-key', weakness);

  const latest = at + skewSeconds;
  const standing = standingOf(key, latest);
  if (!standing) return refuse('key-not-bound', 'no valid self-signature on a user id');
  const binding = subkey ? latestClaim(subkey.bindings, latest) : null;
  if (subkey && !binding) return refuse('key-not-bound', 'no valid binding of the subkey');
  if ([standing, binding].some((claim) => claim?.isWeak === true)) return refuse('weak-self-signature');
  if (!hasSignFlag(binding ? binding.flags : standing.flags)) return refuse('key-cannot-sign');
  if (binding && !binding.isSignedBack) return refuse('key-not-bound', 'the subkey did not sign back');

  if (dated > latest || made > latest) return refuse('dated-in-future');
  if (Math.abs(made - dated) > DATE_TOLERANCE_SECONDS)
    return refuse('signature-date-mismatch', `${made - dated} s apart`);
  if (made < key.primary.created || made < material.created)
    return refuse('not-yet-valid', 'signed before the key was made');
  const expires = Math.min(
    standing.expires,
    binding ? (binding.keyExpiresAfter === null ? Infinity : material.created + binding.keyExpiresAfter) : Infinity,
    binding?.expires ?? Infinity,
  );
  if (made >= expires) return refuse('key-expired');
  const signatureExpires = fields.expiresAfter === null ? Infinity : made + fields.expiresAfter;
  if (dated >= signatureExpires) return refuse('signature-expired');

  if (revocations.length > 0) return { reason: 'key-retired-since', detail: '' };
  if (at >= expires) return { reason: 'key-expired-since', detail: '' };
  if (at >= signatureExpires) return { reason: 'signature-expired-since', detail: '' };
  return { reason: 'ok', detail: '' };
}

function hasSignFlag(flags: number | null): boolean {
  return flags !== null && (flags & SIGN_FLAG) !== 0;
}

/**
 * The newest claim that is not dated after `latest`; of several in one second, the one that grants least. When all are
 * younger, the oldest: tools replace self-signatures on renewal, and a renewed key must still prove its old signatures.
 */
function latestClaim(claims: readonly Claim[], latest: number): Claim | null {
  const known = claims.filter((claim) => claim.created <= latest);
  const [first = null] =
    known.length > 0
      ? known.toSorted((a, b) => b.created - a.created || lifetime(a) - lifetime(b))
      : claims.toSorted((a, b) => a.created - b.created || lifetime(a) - lifetime(b));
  return first;
}

function lifetime(claim: Claim): number {
  return Math.min(claim.keyExpiresAfter ?? Infinity, claim.expires ?? Infinity);
}

interface Standing {
  readonly flags: number | null;
  /** Seconds since the epoch, or Infinity. */
  readonly expires: number;
  readonly isWeak: boolean;
}

/**
 * What the primary key may do, by its newest self-signatures, as GnuPG reads them: flags from the newest one that has
 * some, expiry from the newest one that sets it. Null when no user id stands (or, without user ids, no direct-key signature).
 */
function standingOf(key: OpenPgpKey, latest: number): Standing | null {
  const claims: Claim[] = [];
  for (const user of key.users) {
    const claim = latestClaim(user.claims, latest);
    if (claim && !user.revocations.some(({ created }) => created === 0 || created >= claim.created)) claims.push(claim);
  }
  if (key.users.length > 0 && claims.length === 0) return null;
  const direct = latestClaim(key.direct, latest);
  if (direct) claims.push(direct);
  if (claims.length === 0) return null;
  const newestFirst = claims.toSorted((a, b) => b.created - a.created || lifetime(a) - lifetime(b));
  const flags = newestFirst.find((claim) => claim.flags !== null)?.flags ?? null;
  const keyExpiresAfter = newestFirst.find((claim) => claim.keyExpiresAfter !== null)?.keyExpiresAfter ?? null;
  const keyExpires = keyExpiresAfter === null ? Infinity : key.primary.created + keyExpiresAfter;
  const claimsExpire = Math.max(...claims.map((claim) => claim.expires ?? Infinity));
  return { flags, expires: Math.min(keyExpires, claimsExpire), isWeak: newestFirst[0]!.isWeak };
}
