// Takes the armor off a signature. It accepts the exact form only: one armor, LF, canonical base64, nothing after END.
// It knows nothing of what the bytes mean.

import { quote, Refusal } from './refusal.ts';

const LARGEST_ARMOR_BYTES = 256 * 1024;
const SSH_BEGIN = '-----BEGIN SSH SIGNATURE-----';
const SSH_END = '-----END SSH SIGNATURE-----';
const PGP_BEGIN = '-----BEGIN PGP SIGNATURE-----';
const PGP_END = '-----END PGP SIGNATURE-----';

export interface ArmorOptions {
  /** Adds: body lines of one width, at most 76; a final LF; no blank line after END. */
  readonly strict: boolean;
}

export type Unarmored =
  | { readonly format: 'ssh'; readonly bytes: Buffer }
  | { readonly format: 'openpgp'; readonly bytes: Buffer };

/** What the first line claims to be; decides nothing else. */
export function signatureFormat(armor: Buffer): 'ssh' | 'openpgp' | 'none' {
  const start = armor.toString('latin1', 0, 40);
  if (start.startsWith(SSH_BEGIN)) return 'ssh';
  return start.startsWith(PGP_BEGIN) || start.startsWith('-----BEGIN PGP MESSAGE-----') ? 'openpgp' : 'none';
}

/** Decodes the signature field of a commit or the signature block of a tag; throws Refusal. */
export function unarmor(armor: Buffer, options: ArmorOptions): Unarmored {
  const text = armor.toString('latin1');
  if (armor.length > LARGEST_ARMOR_BYTES) throw new Refusal('signature-too-large', `${armor.length} bytes`);
  if (text.startsWith('-----BEGIN PGP MESSAGE-----')) throw new Refusal('not-detached');
  if (text.startsWith('-----BEGIN SIGNED MESSAGE-----')) throw new Refusal('x509-signature');
  if (text.startsWith(SSH_BEGIN)) return { format: 'ssh', bytes: unarmorSsh(text, options) };
  if (text.startsWith(PGP_BEGIN)) return { format: 'openpgp', bytes: unarmorPgp(text, options) };
  throw new Refusal('unknown-signature-format', quote(text.slice(0, 40)));
}

/** The lines between BEGIN and END, after the checks that both formats share. */
function bodyLines(text: string, begin: string, end: string, options: ArmorOptions, mayTrailBlank: boolean): string[] {
  if (text.includes('\r')) throw new Refusal('malformed-armor', 'carriage return');
  if ((text.match(/^[ \t]*-----BEGIN /gm) ?? []).length > 1) throw new Refusal('several-armors');
  const lines = text.split('\n');
  const endsInLf = lines.at(-1) === '';
  if (endsInLf) lines.pop();
  if (lines[0] !== begin) throw new Refusal('malformed-armor', quote(lines[0] ?? ''));
  const endAt = lines.indexOf(end);
  if (endAt < 0) throw new Refusal('malformed-armor', 'no END line');
  const after = lines.slice(endAt + 1);
  // Forges write one blank continuation line after an OpenPGP armor; it carries nothing.
  const isForgeHabit = mayTrailBlank && !options.strict && after.length === 1 && after[0] === '';
  if (after.length > 0 && !isForgeHabit) throw new Refusal('trailing-armor', quote(after[0] ?? ''));
  if (!endsInLf && options.strict) throw new Refusal('malformed-armor', 'no line end after the END line');
  return lines.slice(1, endAt);
}

function decodeLines(lines: readonly string[], options: ArmorOptions): Buffer {
  if (lines.length === 0) throw new Refusal('malformed-armor', 'empty');
  if (lines.some((line) => line === '')) throw new Refusal('malformed-armor', 'blank line in the base64');
  if (options.strict) {
    const width = lines[0]!.length;
    const last = lines.at(-1)!;
    if (width > 76 || last.length > width || lines.slice(0, -1).some((line) => line.length !== width)) {
      throw new Refusal('malformed-armor', 'uneven or overlong base64 lines');
    }
  }
  return decodeBase64(lines.join(''));
}

/** Canonical base64 only: alphabet, padding and trailing bits. Throws Refusal. */
export function decodeBase64(text: string): Buffer {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(text)) throw new Refusal('non-canonical-base64');
  const bytes = Buffer.from(text, 'base64');
  if (bytes.toString('base64') !== text) throw new Refusal('non-canonical-base64', 'trailing bits');
  return bytes;
}

function unarmorSsh(text: string, options: ArmorOptions): Buffer {
  return decodeLines(bodyLines(text, SSH_BEGIN, SSH_END, options, false), options);
}

function unarmorPgp(text: string, options: ArmorOptions): Buffer {
  return decodePgpBody(bodyLines(text, PGP_BEGIN, PGP_END, options, true), options);
}

/** Armor headers, blank line, base64, optional checksum. Throws Refusal. */
export function decodePgpBody(lines: readonly string[], options: ArmorOptions): Buffer {
  const blank = lines.indexOf('');
  if (blank < 0) throw new Refusal('malformed-armor', 'no blank line after the armor headers');
  for (const header of lines.slice(0, blank)) {
    if (!/^(Version|Comment): [ -~\x80-\xff]*$/.test(header)) throw new Refusal('armor-header', quote(header));
  }
  const body = lines.slice(blank + 1);
  const checksum = /^=[A-Za-z0-9+/]{4}$/.test(body.at(-1) ?? '') ? body.pop()! : null;
  const bytes = decodeLines(body, options);
  if (checksum !== null && decodeBase64(checksum.slice(1)).readUIntBE(0, 3) !== crc24(bytes)) {
    throw new Refusal('armor-checksum');
  }
  return bytes;
}

/** RFC 4880, section 6.1. */
function crc24(bytes: Uint8Array): number {
  let crc = 0xb704ce;
  for (const byte of bytes) {
    crc ^= byte << 16;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x800000 ? ((crc << 1) ^ 0x864cfb) & 0xffffff : crc << 1;
  }
  return crc;
}
