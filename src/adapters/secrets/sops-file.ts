// SOPS file: the format of SOPS (YAML or JSON with values sealed by AES-256-GCM) read without the program. Values are authentic only
// together: the MAC over all of them is verified before the first is given out. Format: getsops/sops, aes/cipher.go and sops.go.
import { createDecipheriv, createHash, timingSafeEqual } from 'node:crypto';
import { type Document, isAlias, isMap, isScalar, isSeq, type Node, parseAllDocuments, type Scalar } from 'yaml';

/** Why a file cannot be opened, for people; without a value. */
export class SopsError extends Error {
  override readonly name = 'SopsError';
}

export interface SealedKey {
  readonly recipient: string;
  /** The data key in an armored age file. */
  readonly sealed: string;
}

export interface SopsFile {
  readonly keys: readonly SealedKey[];
  /** Values by JSON pointer; those that are in the file in clear are null. Throws SopsError when the key or the MAC is wrong. */
  open(dataKey: Uint8Array): ReadonlyMap<string, string | null>;
}

interface Leaf {
  readonly path: readonly string[];
  readonly pointer: string;
  readonly node: Scalar;
}

const MAX_LEAVES = 10_000;
const MAX_DEPTH = 50;
const MAX_KEYS = 100;
/** `sha256("sops")`: begins the MAC of files that cover their sealed values only. */
const ONLY_SEALED = Buffer.from('8a3fd2ad54ce66527b1034f3d147be0b0b975b3bf44f72c6fdadec8176f27d69', 'hex');
const SEALED =
  /^ENC\[AES256_GCM,data:([A-Za-z0-9+/]*={0,2}),iv:([A-Za-z0-9+/]+={0,2}),tag:([A-Za-z0-9+/]+={0,2}),type:([a-z0-9]+)\]$/;

export function readSops(text: string): SopsFile {
  const documents = parseAllDocuments(text, { intAsBigInt: true, uniqueKeys: true, logLevel: 'silent' });
  const [document, more] = Array.isArray(documents) ? documents : [];
  if (!document || document.errors.length > 0) throw new SopsError('it is no valid YAML or JSON');
  if (more) throw new SopsError('it holds several YAML documents, which is not supported');
  const root = document.contents;
  if (!isMap(root)) throw new SopsError('it is no map');
  const leaves = leavesOf(root);
  const about = aboutOf(document);
  if (!isObject(about)) throw new SopsError('it has no `sops` part, so it is not encrypted');
  for (const name of ['encrypted_comment_regex', 'unencrypted_comment_regex'])
    if (about[name]) throw new SopsError(`it uses ${name}, which is not supported`);
  const groups = about['key_groups'];
  if (Array.isArray(groups) && groups.length > 1)
    throw new SopsError('its key is split over several key groups, which is not supported');
  const { mac, lastmodified } = about;
  if (typeof mac !== 'string' || typeof lastmodified !== 'string') throw new SopsError('it has no MAC');
  const keys = keysOf(Array.isArray(groups) && isObject(groups[0]) ? groups[0]['age'] : about['age']);
  const onlySealed = about['mac_only_encrypted'] === true;

  return {
    keys,
    open(dataKey) {
      if (dataKey.length !== 32) throw new SopsError('its data key has not 32 bytes');
      const hash = createHash('sha512');
      if (onlySealed) hash.update(ONLY_SEALED);
      const values = new Map<string, string | null>();
      for (const { path, pointer, node } of leaves) {
        const sealed = typeof node.value === 'string' && node.value.startsWith('ENC[AES256_GCM,');
        if (sealed) {
          const opened = openValue(String(node.value), dataKey, `${path.join(':')}:`, pointer);
          hash.update(opened.forMac);
          values.set(pointer, opened.text);
        } else {
          if (!onlySealed) hash.update(clearBytes(node));
          values.set(pointer, null);
        }
      }
      const expected = openValue(mac, dataKey, lastmodified, 'the MAC').text;
      const found = hash.digest('hex').toUpperCase();
      if (expected.length !== found.length || !timingSafeEqual(Buffer.from(expected), Buffer.from(found)))
        throw new SopsError('its MAC does not fit its values: it was changed without sops');
      return values;
    },
  };
}

function aboutOf(document: Document.Parsed): unknown {
  try {
    return (document.toJS({ maxAliasCount: 0 }) as Record<string, unknown>)['sops'];
  } catch {
    throw new SopsError('its `sops` part cannot be read');
  }
}

function keysOf(list: unknown): readonly SealedKey[] {
  if (!Array.isArray(list) || list.length === 0) throw new SopsError('it is not encrypted to any age recipient');
  return list.slice(0, MAX_KEYS).map((one) => {
    if (!isObject(one) || typeof one['enc'] !== 'string') throw new SopsError('its list of age recipients is damaged');
    return { recipient: String(one['recipient'] ?? ''), sealed: one['enc'] };
  });
}

/** In the order of the file: it counts for the MAC. Items of a list have the path of the list. */
function leavesOf(root: Node): readonly Leaf[] {
  const leaves: Leaf[] = [];
  const walk = (node: unknown, path: readonly string[], pointer: string, depth: number): void => {
    if (depth > MAX_DEPTH || leaves.length >= MAX_LEAVES) throw new SopsError('it is too large or too deep');
    if (node === null || node === undefined) return;
    if (isAlias(node)) throw new SopsError('it holds a YAML alias, which is not supported');
    if (isMap(node))
      for (const { key, value } of node.items) {
        const name = isScalar(key) ? (typeof key.value === 'string' ? key.value : (key.source ?? '')) : null;
        if (name === null) throw new SopsError('it holds a key that is no text');
        if (depth === 0 && name === 'sops') continue;
        walk(value, [...path, name], `${pointer}/${escapeStep(name)}`, depth + 1);
      }
    else if (isSeq(node))
      for (const [at, item] of node.items.entries()) walk(item, path, `${pointer}/${at}`, depth + 1);
    else if (isScalar(node) && node.value !== null) leaves.push({ path, pointer, node });
  };
  walk(root, [], '', 0);
  return leaves;
}

export const escapeStep = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1');

function openValue(
  sealed: string,
  dataKey: Uint8Array,
  about: string,
  what: string,
): { readonly text: string; readonly forMac: Uint8Array } {
  const parts = SEALED.exec(sealed);
  const [data, iv, tag] = [1, 2, 3].map((at) => Buffer.from(parts?.[at] ?? '', 'base64'));
  // A shorter tag would be taken too, and could be guessed.
  if (!parts || !data || !iv || !tag || tag.length !== 16 || iv.length < 12 || iv.length > 64)
    throw new SopsError(`${what} is no sealed value`);
  let clear: Buffer;
  try {
    const decipher = createDecipheriv('aes-256-gcm', dataKey, iv, { authTagLength: 16 });
    decipher.setAAD(Buffer.from(about, 'utf8'));
    decipher.setAuthTag(tag);
    clear = Buffer.concat([decipher.update(data), decipher.final()]);
  } catch {
    // Without the cause: nothing of the value may get into a message.
    throw new SopsError(`${what} cannot be opened: it was moved or changed without sops`);
  }
  const text = clear.toString('utf8');
  if (parts[4] === 'bool') {
    const yes = /^(1|t|true)$/i.test(text);
    return { text: String(yes), forMac: Buffer.from(yes ? 'True' : 'False') };
  }
  if (!['str', 'int', 'int64', 'float', 'bytes'].includes(parts[4] ?? ''))
    throw new SopsError(`${what} is of the unknown type ${parts[4]}`);
  if (!Buffer.from(text, 'utf8').equals(clear)) throw new SopsError(`${what} is not UTF-8 text`);
  return { text, forMac: clear };
}

/** As SOPS writes a clear value into the MAC. */
function clearBytes({ value }: Scalar): Uint8Array {
  if (typeof value === 'boolean') return Buffer.from(value ? 'True' : 'False');
  if (typeof value === 'number') return Buffer.from(plainNumber(value));
  return Buffer.from(String(value), 'utf8');
}

/** Shortest digits without an exponent. */
function plainNumber(value: number): string {
  const match = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(String(value));
  if (!match) return String(value);
  const [, sign = '', first = '', rest = '', power = '0'] = match;
  const digits = first + rest;
  const point = 1 + Number(power);
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`;
  return `${sign}${digits.padEnd(point, '0')}`;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
