// Parses the raw bytes of one commit or tag: headers, people and dates, message, signed payload, signature field.
// It refuses every construction on which two readers could disagree. It never decodes, normalises or re-writes bytes.

import { createHash } from 'node:crypto';
import type { RefusalCode } from './reason.ts';
import { quote, Refusal } from './refusal.ts';

export interface GitHeader {
  readonly name: string;
  /** Without the name; continuation lines are joined by LF, without their leading space. */
  readonly value: Buffer;
}

export interface GitPerson {
  readonly name: string;
  readonly email: string;
  /** Seconds since the epoch, as written. */
  readonly seconds: number;
  /** Minutes east of UTC, as written. */
  readonly offsetMinutes: number;
}

interface ParsedObject {
  readonly headers: readonly GitHeader[];
  /** Raw bytes after the blank line; for a tag without the signature block. */
  readonly message: Buffer;
  /** Exactly the bytes that the signature covers. */
  readonly payload: Buffer;
  /** The armor as stored, ending in LF unless a tag's last line does not; null when unsigned. */
  readonly signature: Buffer | null;
}

export interface GitCommit extends ParsedObject {
  readonly kind: 'commit';
  readonly tree: string;
  readonly parents: readonly string[];
  /** Null only outside the strict profile, for authors that old tools wrote wrongly. */
  readonly author: GitPerson | null;
  readonly committer: GitPerson;
}

export interface GitTag extends ParsedObject {
  readonly kind: 'tag';
  readonly target: string;
  readonly targetType: 'commit' | 'tree' | 'blob' | 'tag';
  readonly name: string;
  /** Null only outside the strict profile. */
  readonly tagger: GitPerson | null;
}

const LF = 0x0a;
const SPACE = 0x20;
const OID = /^[0-9a-f]{40}$/;
const PERSON = /^([^<>]*)<([^<>]*)> (0|[1-9][0-9]{0,14}) ([+-])([0-9]{2})([0-9]{2})$/;
/** Line starts by which git recognises a signature at the end of a tag. */
const ARMOR_STARTS = [
  '-----BEGIN PGP SIGNATURE-----',
  '-----BEGIN PGP MESSAGE-----',
  '-----BEGIN SIGNED MESSAGE-----',
  '-----BEGIN SSH SIGNATURE-----',
];

/** The object id: SHA-1 over `type SP size NUL content`, 40 hex. */
export function objectId(type: string, bytes: Uint8Array): string {
  return createHash('sha1').update(`${type} ${bytes.length}\0`).update(bytes).digest('hex');
}

interface HeaderSpan extends GitHeader {
  /** Offsets in the object, including continuation lines and the last LF. */
  readonly start: number;
  readonly end: number;
}

function splitHeaders(bytes: Buffer): { readonly headers: HeaderSpan[]; readonly bodyStart: number } {
  if (bytes.includes(0)) throw new Refusal('nul-byte', `at byte ${bytes.indexOf(0)}`);
  const blank = bytes.indexOf('\n\n', 0, 'latin1');
  if (blank <= 0 || bytes[0] === LF) throw new Refusal('malformed-object', 'no blank line after the headers');
  const headers: HeaderSpan[] = [];
  let at = 0;
  while (at <= blank) {
    const start = at;
    const lines: Buffer[] = [];
    for (;;) {
      const end = bytes.indexOf(LF, at);
      lines.push(bytes.subarray(lines.length === 0 ? at : at + 1, end));
      at = end + 1;
      if (at > blank || bytes[at] !== SPACE) break;
    }
    const first = lines[0]!;
    const space = first.indexOf(SPACE);
    const name = first.subarray(0, space < 0 ? first.length : space).toString('latin1');
    if (space <= 0 || !/^[!-~]+$/.test(name)) throw new Refusal('malformed-header', quote(first.toString('latin1')));
    lines[0] = first.subarray(space + 1);
    const value =
      lines.length === 1 ? lines[0] : Buffer.concat(lines.flatMap((line) => [Buffer.of(LF), line])).subarray(1);
    headers.push({ name, value, start, end: at });
  }
  return { headers, bodyStart: blank + 2 };
}

function refuseRepeated(headers: readonly HeaderSpan[], once: readonly string[]): void {
  for (const name of once) {
    if (headers.filter((header) => header.name === name).length > 1) throw new Refusal('duplicate-header', name);
  }
}

function singleLine(header: HeaderSpan): string {
  if (header.value.includes(LF)) throw new Refusal('malformed-header', `${header.name} has continuation lines`);
  return header.value.toString('latin1');
}

function readOid(header: HeaderSpan): string {
  const value = singleLine(header);
  if (/^[0-9a-f]{64}$/.test(value)) throw new Refusal('sha256-repository', header.name);
  if (!OID.test(value)) throw new Refusal('malformed-header', `${header.name} ${quote(value)}`);
  return value;
}

function readPerson(header: HeaderSpan): GitPerson {
  const value = singleLine(header);
  const match = PERSON.exec(value);
  if (!match) throw new Refusal('bad-date', `${header.name} ${quote(value)}`);
  const [, name = '', email = '', seconds = '', sign = '', hours = '', minutes = ''] = match;
  const offsetMinutes = Number(hours) * 60 + Number(minutes);
  return {
    name: Buffer.from(name, 'latin1').toString('utf8').trim(),
    email: Buffer.from(email, 'latin1').toString('utf8'),
    seconds: Number(seconds),
    offsetMinutes: sign === '-' ? -offsetMinutes : offsetMinutes,
  };
}

/** Takes the headers that must come first, in this order; whatever follows stays in `rest`. */
function takeInOrder(headers: readonly HeaderSpan[], names: readonly string[], repeatable: string) {
  const taken = new Map<string, HeaderSpan[]>();
  let at = 0;
  for (const name of names) {
    const found: HeaderSpan[] = [];
    while (headers[at]?.name === name && (found.length === 0 || name === repeatable)) found.push(headers[at++]!);
    taken.set(name, found);
  }
  const rest = headers.slice(at);
  for (const header of rest) {
    if (names.includes(header.name)) throw new Refusal('header-order', header.name);
  }
  return { taken, rest };
}

function requireOne(taken: ReadonlyMap<string, readonly HeaderSpan[]>, name: string): HeaderSpan {
  const header = taken.get(name)?.[0];
  if (!header) throw new Refusal('missing-header', name);
  return header;
}

/**
 * Parses a commit; throws Refusal. `strict` adds the profile of statements: exactly one parent, no mergetag, no
 * encoding, well-formed author, message not starting with a blank line.
 */
export function parseCommit(content: Uint8Array, options: { readonly strict: boolean }): GitCommit {
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
  const { headers, bodyStart } = splitHeaders(bytes);
  refuseRepeated(headers, ['tree', 'author', 'committer', 'encoding']);
  const signatures = headers.filter((header) => header.name === 'gpgsig');
  if (signatures.length > 1) throw new Refusal('several-signatures', `${signatures.length} gpgsig headers`);
  const extra = headers.find((header) => header.name.startsWith('gpgsig') && header.name !== 'gpgsig');
  if (extra) throw new Refusal('extra-signature-header', quote(extra.name));

  const { taken, rest } = takeInOrder(headers, ['tree', 'parent', 'author', 'committer'], 'parent');
  const tree = readOid(requireOne(taken, 'tree'));
  const parents = taken.get('parent')!.map(readOid);
  const authorHeader = requireOne(taken, 'author');
  const committer = readPerson(requireOne(taken, 'committer'));
  const author = readAuthor(authorHeader, options.strict);
  const message = bytes.subarray(bodyStart);

  if (options.strict) {
    if (parents.length !== 1) throw new Refusal('not-single-parent', `${parents.length} parents`);
    if (rest.some((header) => header.name === 'mergetag')) throw new Refusal('mergetag-header');
    if (rest.some((header) => header.name === 'encoding')) throw new Refusal('encoding-header');
    if (message[0] === LF) throw new Refusal('extra-blank-line');
  }

  const field = signatures[0];
  return {
    kind: 'commit',
    headers: headers.map(({ name, value }) => ({ name, value })),
    tree,
    parents,
    author,
    committer,
    message,
    payload: field ? Buffer.concat([bytes.subarray(0, field.start), bytes.subarray(field.end)]) : bytes,
    signature: field ? Buffer.concat([field.value, Buffer.of(LF)]) : null,
  };
}

function readAuthor(header: HeaderSpan, strict: boolean): GitPerson | null {
  if (strict) return readPerson(header);
  const value = singleLine(header);
  return PERSON.test(value) ? readPerson(header) : null;
}

/** Parses an annotated tag; throws Refusal. `strict` demands a tagger, a commit as target and no further headers. */
export function parseTag(content: Uint8Array, options: { readonly strict: boolean }): GitTag {
  const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
  const { headers, bodyStart } = splitHeaders(bytes);
  refuseRepeated(headers, ['object', 'type', 'tag', 'tagger', 'encoding']);
  const extra = headers.find((header) => header.name.startsWith('gpgsig'));
  if (extra) throw new Refusal('extra-signature-header', quote(extra.name));

  const { taken, rest } = takeInOrder(headers, ['object', 'type', 'tag', 'tagger'], '');
  const target = readOid(requireOne(taken, 'object'));
  const targetType = singleLine(requireOne(taken, 'type'));
  if (targetType !== 'commit' && targetType !== 'tree' && targetType !== 'blob' && targetType !== 'tag') {
    throw new Refusal('malformed-header', `type ${quote(targetType)}`);
  }
  const name = singleLine(requireOne(taken, 'tag'));
  if (name === '') throw new Refusal('malformed-header', 'tag without a name');
  const taggerHeader = taken.get('tagger')?.[0];
  const tagger = taggerHeader ? readPerson(taggerHeader) : null;

  // Git takes the last line that starts an armor as the start of the signature; with several, readers may disagree.
  const starts = armorStarts(bytes);
  if (starts.length > 1) throw new Refusal('several-signatures', `${starts.length} armor lines in the tag`);
  const start = starts[0];
  if (start !== undefined && start < bodyStart)
    throw new Refusal('malformed-header', 'an armor line among the headers');
  const message = bytes.subarray(bodyStart, start ?? bytes.length);

  if (options.strict) {
    if (!tagger) throw new Refusal('no-date');
    if (targetType !== 'commit') throw new Refusal('tag-target', targetType);
    if (rest.length > 0) throw new Refusal('extra-tag-header', quote(rest[0]!.name));
    if (message[0] === LF) throw new Refusal('extra-blank-line');
  }

  return {
    kind: 'tag',
    headers: headers.map(({ name, value }) => ({ name, value })),
    target,
    targetType,
    name: Buffer.from(name, 'latin1').toString('utf8'),
    tagger,
    message,
    payload: bytes.subarray(0, start ?? bytes.length),
    signature: start === undefined ? null : bytes.subarray(start),
  };
}

export type ParsedGitObject =
  | { readonly kind: 'parsed'; readonly object: GitCommit | GitTag }
  | { readonly kind: 'refused'; readonly reason: RefusalCode; readonly detail: string };

/** As parseCommit and parseTag, but total: for readers outside this room, such as that of statements. */
export function readGitObject(
  type: 'commit' | 'tag',
  content: Uint8Array,
  options: { readonly strict: boolean },
): ParsedGitObject {
  try {
    return { kind: 'parsed', object: type === 'commit' ? parseCommit(content, options) : parseTag(content, options) };
  } catch (error) {
    if (error instanceof Refusal) return { kind: 'refused', reason: error.code, detail: error.message };
    return { kind: 'refused', reason: 'internal-error', detail: String(error) };
  }
}

function armorStarts(bytes: Buffer): number[] {
  const starts: number[] = [];
  for (
    let at = bytes.indexOf('-----BEGIN ', 0, 'latin1');
    at >= 0;
    at = bytes.indexOf('-----BEGIN ', at + 1, 'latin1')
  ) {
    if (at > 0 && bytes[at - 1] !== LF) continue;
    const line = bytes.toString('latin1', at, at + 40);
    if (ARMOR_STARTS.some((start) => line.startsWith(start))) starts.push(at);
  }
  return starts;
}
