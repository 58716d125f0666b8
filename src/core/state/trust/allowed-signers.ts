// The allowed_signers file (ssh-keygen(1), ALLOWED SIGNERS), in full: parses it once and finds the lines of a key.
// A line that OpenSSH would skip silently grants nothing here and is reported with file and line.

import { decodeBase64 } from './armor.ts';
import { fitsPatternList, isLiteral } from './pattern.ts';
import { quote, Refusal } from './refusal.ts';
import { isCertificateType } from './ssh-certificate.ts';
import { parseSshKey, type SshKey } from './ssh-key.ts';
import { SshWire } from './ssh-wire.ts';

export interface SignerLine {
  /** `FILE:LINE`. */
  readonly place: string;
  /** The comma list of principals, in order, with `!` entries. */
  readonly patterns: readonly string[];
  /** Patterns of namespaces; null allows all. */
  readonly namespaces: readonly string[] | null;
  /** Seconds since the epoch, both inclusive; null is unbounded. */
  readonly validAfter: number | null;
  readonly validBefore: number | null;
  readonly isAuthority: boolean;
}

export interface TrustProblem {
  /** `FILE:LINE`, or the file's name. */
  readonly place: string;
  readonly message: string;
}

export interface AllowedSigners {
  /** Lines by key blob (base64). */
  readonly signers: ReadonlyMap<string, readonly SignerLine[]>;
  readonly authorities: ReadonlyMap<string, readonly SignerLine[]>;
  /** The keys of good lines by blob (base64), so that a signature by one need not import it again. */
  readonly keys: ReadonlyMap<string, SshKey>;
  /** Keys whose only trace is on a bad line: blob to problem. */
  readonly badKeys: ReadonlyMap<string, TrustProblem>;
  readonly problems: readonly TrustProblem[];
}

export type LocalOffset = (wallMs: number) => number;

export interface AllowedSignersOptions {
  /** How places name the file. */
  readonly fileName: string;
  /** Minutes east of UTC for a time without `Z`, asked with its wall clock read as UTC, in milliseconds. */
  readonly offsetMinutes: LocalOffset;
}

/** Never throws: bad lines become problems. */
export function parseAllowedSigners(text: string, options: AllowedSignersOptions): AllowedSigners {
  const signers = new Map<string, SignerLine[]>();
  const authorities = new Map<string, SignerLine[]>();
  const keys = new Map<string, SshKey>();
  const badKeys = new Map<string, TrustProblem>();
  const problems: TrustProblem[] = [];
  text.split('\n').forEach((raw, index) => {
    const content = raw.replace(/^[ \t\r]+|[ \t\r]+$/g, '');
    if (content === '' || content.startsWith('#')) return;
    const place = `${options.fileName}:${index + 1}`;
    try {
      const { line, key } = parseLine(content, place, options.offsetMinutes);
      const table = line.isAuthority ? authorities : signers;
      const id = key.blob.toString('base64');
      keys.set(id, key);
      table.set(id, [...(table.get(id) ?? []), line]);
    } catch (error) {
      const problem = { place, message: error instanceof Refusal ? error.message : 'malformed line' };
      problems.push(problem);
      for (const token of content.split(/[ \t]+/))
        if (/^AAAA[A-Za-z0-9+/]+={0,2}$/.test(token)) badKeys.set(token, problem);
    }
  });
  return { signers, authorities, keys, badKeys, problems };
}

function bad(message: string): Refusal {
  return new Refusal('bad-allowed-signers', message);
}

function parseLine(content: string, place: string, offsetMinutes: LocalOffset): { line: SignerLine; key: SshKey } {
  // U+FFFD stands for bytes that were no UTF-8: two such names would look the same.
  if (/[\0-\x08\x0a-\x1f\x7f\ufffd\ufeff]/.test(content)) throw bad('control character, or not UTF-8');
  const [principals, afterPrincipals] = takePrincipals(content);
  const patterns = principals.split(',').filter((pattern) => pattern !== '');
  if (patterns.length === 0) throw bad('no principals');
  if (!patterns.some((pattern) => !pattern.startsWith('!'))) throw bad('only negated principals');

  let rest = afterPrincipals;
  let settings: LineOptions = NO_OPTIONS;
  if (!looksLikeKeyType(firstToken(rest))) {
    const end = endOfOptions(rest);
    settings = parseOptions(rest.slice(0, end), offsetMinutes);
    rest = rest.slice(end).replace(/^[ \t]+/, '');
  }
  return { line: { place, patterns, ...settings }, key: parseKey(rest) };
}

function firstToken(text: string): string {
  return /^[^ \t]*/.exec(text)![0];
}

function takePrincipals(content: string): [string, string] {
  const match = content.startsWith('"')
    ? /^"([^"]*)"[ \t]+(.*)$/.exec(content)
    : /^([^ \t"]+)[ \t]+(.*)$/.exec(content);
  if (!match) throw bad('no principals, or an unbalanced quote');
  return [match[1]!, match[2]!];
}

/** Any word that could only be meant as a key type, so that an unsupported type is reported as such. */
function looksLikeKeyType(token: string): boolean {
  return /^(?:sk-)?(?:ssh|ecdsa|webauthn)-[a-z0-9@.-]+$/.test(token);
}

/** Parses `TYPE BASE64 [comment]`: a plain public key of any strength. Throws Refusal. */
export function parseKeyLine(text: string): SshKey {
  const [type = '', encoded = ''] = text.split(/[ \t]+/);
  if (type === '' || encoded === '') throw bad('no key');
  let blob: Buffer;
  try {
    blob = decodeBase64(encoded);
  } catch {
    throw bad('the key is not base64');
  }
  const inner = new SshWire(blob, 'bad-allowed-signers').name();
  if (inner !== type) throw bad(`a key of type ${quote(inner)} is announced as ${quote(type)}`);
  return parseSshKey(blob, 'bad-allowed-signers');
}

function parseKey(text: string): SshKey {
  const type = firstToken(text);
  if (isCertificateType(type)) throw bad('a certificate in the place of a key');
  try {
    return parseKeyLine(text);
  } catch (error) {
    if (error instanceof Refusal && error.code === 'key-type-refused')
      throw bad(`key type ${quote(type)} is not accepted`);
    throw error;
  }
}

function endOfOptions(text: string): number {
  let isQuoted = false;
  let at = 0;
  for (; at < text.length; at++) {
    if (text[at] === '\\' && text[at + 1] === '"') at++;
    else if (text[at] === '"') isQuoted = !isQuoted;
    else if (!isQuoted && (text[at] === ' ' || text[at] === '\t')) break;
  }
  if (isQuoted) throw bad('unbalanced quote in the options');
  if (at >= text.length) throw bad('no key');
  return at;
}

type LineOptions = Pick<SignerLine, 'namespaces' | 'validAfter' | 'validBefore' | 'isAuthority'>;
const NO_OPTIONS: LineOptions = { namespaces: null, validAfter: null, validBefore: null, isAuthority: false };

function parseOptions(text: string, offsetMinutes: LocalOffset): LineOptions {
  const seen = new Map<string, string>();
  let rest = text;
  for (;;) {
    const match = /^(?:(cert-authority)|(namespaces|valid-after|valid-before)="((?:\\"|[^"])*)")(?=,|$)/i.exec(rest);
    if (!match) throw bad(`unknown or malformed option at ${quote(rest)}`);
    const name = (match[1] ?? match[2]!).toLowerCase();
    if (seen.has(name) && name !== 'cert-authority') throw bad(`option ${name} twice`);
    seen.set(name, (match[3] ?? '').replace(/\\"/g, '"'));
    rest = rest.slice(match[0].length);
    if (rest === '') break;
    rest = rest.slice(1);
  }
  const validAfter = seen.has('valid-after') ? parseTime(seen.get('valid-after')!, offsetMinutes) : null;
  const validBefore = seen.has('valid-before') ? parseTime(seen.get('valid-before')!, offsetMinutes) : null;
  if (validAfter !== null && validBefore !== null && validBefore <= validAfter) {
    throw bad('valid-before is not after valid-after');
  }
  const namespaces = seen.get('namespaces');
  return {
    namespaces: namespaces === undefined ? null : namespaces.split(','),
    validAfter,
    validBefore,
    isAuthority: seen.has('cert-authority'),
  };
}

/** `YYYYMMDD[HHMM[SS]]` with `Z` or `UTC`, or local by `offsetMinutes`; seconds since the epoch. Throws Refusal. */
function parseTime(text: string, offsetMinutes: LocalOffset): number {
  const match = /^(\d{4})(\d{2})(\d{2})(?:(\d{2})(\d{2})(\d{2})?)?(Z|UTC)?$/i.exec(text);
  if (!match) throw bad(`time ${quote(text)}`);
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map((part) => Number(part ?? 0)) as number[];
  const milliseconds = Date.UTC(year!, month! - 1, day!, hour!, minute!, second!);
  const written = new Date(milliseconds);
  const isReal =
    year! >= 1970 &&
    written.getUTCMonth() === month! - 1 &&
    written.getUTCDate() === day! &&
    written.getUTCHours() === hour! &&
    written.getUTCMinutes() === minute! &&
    written.getUTCSeconds() === second!;
  if (!isReal) throw bad(`time ${quote(text)} does not exist`);
  return milliseconds / 1000 - (match[7] ? 0 : offsetMinutes(milliseconds) * 60);
}

/** The name that a plain key's line gives: its first literal that no negation excludes; null when it names nobody. */
export function principalOfLine(line: SignerLine): string | null {
  return line.patterns.find((pattern) => isLiteral(pattern) && fitsPatternList(pattern, line.patterns)) ?? null;
}

/** The first principal of a certificate that the line allows, in the order of the line's patterns. */
export function principalOfCertificate(line: SignerLine, principals: readonly string[]): string | null {
  for (const pattern of line.patterns) {
    if (pattern.startsWith('!')) continue;
    const principal = principals.find(
      (name) => fitsPatternList(name, [pattern]) && fitsPatternList(name, line.patterns),
    );
    if (principal !== undefined) return principal;
  }
  return null;
}

export function allowsGit(line: SignerLine): boolean {
  return line.namespaces === null || fitsPatternList('git', line.namespaces);
}
