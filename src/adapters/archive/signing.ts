// Signing: the controller's own key, which signs every manifest that it makes, and the check of such a signature. It lies in a
// private file. Which keys are trusted is decided elsewhere.
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto';
import { join } from 'node:path';
import { Fault } from '../../core/fault.ts';
import { createPrivateFile, type Refuse, readPrivateFile } from '../files/private-file.ts';

const WORD = 'windlass-signature-v1';
const KEY_FILE = 'archive-signing.pem';
/** What stands before the 32 bytes of an ed25519 key in its SPKI form. */
const SPKI_HEAD = Buffer.from('302a300506032b6570032100', 'hex');

export interface SigningKey {
  /** 32 bytes, base64. */
  readonly publicKey: string;
  /** First 16 hex digits of the SHA-256 of the public key: for people. */
  readonly keyId: string;
  /** One line of text: the public key and the signature of `bytes`. */
  sign(bytes: Uint8Array): string;
}

/** The key in `directory`, made when there is none. Throws SIGNING_KEY_WRONG when it cannot be trusted, read or made. */
export function openSigningKey(directory: string): SigningKey {
  const path = join(directory, KEY_FILE);
  const refuse: Refuse = (what, cause) =>
    new Fault('SIGNING_KEY_WRONG', `the signing key ${path} ${what}`, { data: { path }, cause });
  const key = parseKey(readPrivateFile(path, refuse) ?? createKey(path, refuse), refuse);
  const publicKey = rawPublic(createPublicKey(key)).toString('base64');
  return {
    publicKey,
    keyId: keyIdOf(publicKey),
    sign: (bytes) => `${WORD} ed25519 ${publicKey} ${sign(null, bytes, key).toString('base64')}\n`,
  };
}

export const keyIdOf = (publicKey: string): string =>
  createHash('sha256').update(Buffer.from(publicKey, 'base64')).digest('hex').slice(0, 16);

/**
 * The public key that made `signature` over `bytes`. Throws ARCHIVE_UNTRUSTED when it is none, is wrong, or is by a key that is not among
 * `trusted`; null trusts every key and only says whose it is.
 */
export function checkSignature(bytes: Uint8Array, signature: string, trusted: readonly string[] | null): string {
  const refuse = (why: string) => new Fault('ARCHIVE_UNTRUSTED', `the signature of the archive ${why}`);
  const match = /^windlass-signature-v1 ed25519 ([A-Za-z0-9+/]{43}=) ([A-Za-z0-9+/]{86}==)\n$/.exec(signature);
  if (!match) throw refuse('is malformed');
  const [, publicKey, made] = match as unknown as [string, string, string];
  const raw = Buffer.from(publicKey, 'base64');
  // One key has one spelling, or a list of trusted ones could be passed by.
  if (raw.toString('base64') !== publicKey) throw refuse('is malformed');
  let isRight: boolean;
  try {
    const key = createPublicKey({ key: Buffer.concat([SPKI_HEAD, raw]), format: 'der', type: 'spki' });
    isRight = verify(null, bytes, key, Buffer.from(made, 'base64'));
  } catch {
    isRight = false;
  }
  if (!isRight) throw refuse('does not fit its manifest');
  if (trusted !== null && !trusted.includes(publicKey))
    throw refuse(`was made by a key that is not trusted here (${keyIdOf(publicKey)})`);
  return publicKey;
}

const rawPublic = (key: KeyObject): Buffer => key.export({ format: 'der', type: 'spki' }).subarray(SPKI_HEAD.length);

/** Of two processes at once the first one's counts, for both. */
function createKey(path: string, refuse: Refuse): string {
  const text = generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;
  createPrivateFile(path, text, refuse);
  const there = readPrivateFile(path, refuse);
  if (there === null) throw refuse('is gone again');
  return there;
}

function parseKey(text: string, refuse: Refuse): KeyObject {
  let key: KeyObject;
  try {
    key = createPrivateKey(text);
  } catch {
    // Without the cause: it may repeat the text.
    throw refuse('does not hold a private key');
  }
  if (key.asymmetricKeyType !== 'ed25519') throw refuse('is no ed25519 key');
  return key;
}
