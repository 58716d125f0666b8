// Statement: a signed commit or tag whose last paragraph says, in eight trailers, what its signer wants. Parses and proves one object;
// writes the message of a new one. Whether a statement counts for something is decided elsewhere.
import { formatInstant, parseInstant } from '../../spec/request.ts';
import type { IgnoredCode, StatementRefusalCode } from './authority.ts';
import { readGitObject } from './git-object.ts';
import { type Judgement, judge, type RawGitObject } from './judge.ts';
import { decodeUtf8 } from './policy-file.ts';
import { type PolicySigners, principalOf } from './policy-signers.ts';
import { quote } from './refusal.ts';
import { inOneLine } from './unseen.ts';

export const STATEMENT_TYPES = ['request', 'approve', 'reject', 'withdraw', 'policy'] as const;
export type StatementType = (typeof STATEMENT_TYPES)[number];

/** What the trailers say. */
export interface StatementClaims {
  readonly type: StatementType;
  readonly fleet: string;
  /** The full ref. */
  readonly ref: string;
  readonly environment: string;
  /** SHA-256 of the file it speaks of; 64 hex, without the `sha256:` that is written. */
  readonly subject: string;
  /** SHA-256 of the policy in effect when it was made; 64 hex. For a statement about a policy: of the version before. */
  readonly policy: string;
  readonly expiresMs: number;
  readonly nonce: string;
}

export interface Statement extends StatementClaims {
  /** SHA-256 of the signed payload, 64 hex: the same words under another commit id are the same statement. */
  readonly id: string;
  /** Of the commit or tag; 40 hex. */
  readonly oid: string;
  readonly carrier: 'commit' | 'tag';
  /** Whose key signed; from the key alone. */
  readonly principal: string;
  readonly fingerprint: string;
  /** The date of the committer or tagger. */
  readonly datedMs: number;
}

/** Unproved words of one object. `none`: an object without any Windlass trailer, which is no statement and no mistake. */
export type StatementParse =
  | { readonly kind: 'none' }
  | {
      readonly kind: 'claims';
      readonly claims: StatementClaims;
      readonly carrier: 'commit' | 'tag';
      readonly datedMs: number;
    }
  | { readonly kind: 'refused'; readonly reason: IgnoredCode; readonly detail: string };

export type StatementReading =
  | { readonly kind: 'none'; readonly oid: string }
  | {
      readonly kind: 'statement';
      readonly statement: Statement;
      /** SHA-256 of the policy whose keys proved it, and when. */
      readonly judgedBy: string;
      readonly judgedAtMs: number;
    }
  | {
      readonly kind: 'refused';
      readonly oid: string;
      /** Null when the object could not be read. */
      readonly statementId: string | null;
      readonly reason: IgnoredCode;
      /** For people. */
      readonly detail: string;
      /** What it would say if it were signed rightly: unproved, to explain with; null when unreadable. */
      readonly claims: StatementClaims | null;
      /** Subjects that it names anywhere, also where trailers mean nothing, as a squash leaves them: unproved, to explain with. */
      readonly mentions: readonly string[];
    };

const KEYS = ['Type', 'Fleet', 'Ref', 'Environment', 'Subject', 'Policy', 'Expires', 'Nonce'] as const;
type Key = (typeof KEYS)[number];

/** Controls but tab and line feed, what is invisible or turns the direction of writing, and letters that show as a blank. */
const UNSEEN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

const LARGEST_BYTES = 1024 * 1024;
/** Every controller reads those about policies before it deploys, and whoever may push may write as many as they like. */
const LARGEST_POLICY_BYTES = 64 * 1024;
/** Any line that a person could take for a trailer of ours, also quoted, indented or in other case. */
const LOOKS_OURS = /windlass-[a-z]/i;
const LOOKS_LIKE_TRAILER = /^[\s>*-]*windlass-[a-z-]*\s*:/i;
const TRAILER = /^Windlass-([A-Za-z-]+): (\S(?:.*\S)?)$/;
/** Trailers of other tools may stand beside ours. */
const OTHER_TRAILER = /^[A-Za-z][A-Za-z0-9-]*: \S/;

const FORM: Readonly<Record<Key, RegExp>> = {
  Type: /^(?:request|approve|reject|withdraw|policy)$/,
  Fleet: /^[0-9a-zA-Z-]{8,64}$/,
  Ref: /^refs\/[^\s~^:?*[\\\x00-\x1f\x7f]{1,250}$/,
  Environment: /^[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]{0,98}[^\s\x00-\x1f\x7f])?$/,
  Subject: /^sha256:[0-9a-f]{64}$/,
  Policy: /^sha256:[0-9a-f]{64}$/,
  Expires: /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$/,
  Nonce: /^[0-9a-f]{32,64}$/,
};

type TrailerParse =
  | { readonly kind: 'none' }
  | { readonly kind: 'claims'; readonly claims: StatementClaims }
  | { readonly kind: 'refused'; readonly reason: StatementRefusalCode; readonly detail: string };

const refused = (reason: StatementRefusalCode, detail = '') => ({ kind: 'refused', reason, detail }) as const;

/** The trailers of a message (of a tag: without its signature). Never throws. */
export function parseTrailers(message: Uint8Array): TrailerParse {
  const text = decodeUtf8(message);
  if (text === null)
    return LOOKS_OURS.test(Buffer.from(message).toString('latin1'))
      ? refused('message-form', 'not UTF-8')
      : { kind: 'none' };
  // A line may be hidden from some readers behind a carriage return or another line break of Unicode.
  const isOurs = text.split(/[\n\r\v\f\x85\u2028\u2029]/).some((line) => LOOKS_LIKE_TRAILER.test(line));
  if (!isOurs) return { kind: 'none' };
  if (UNSEEN.test(text)) return refused('message-form', 'a control character, or one that is not seen');
  if (!text.endsWith('\n')) return refused('message-form', 'no line break at the end');
  const lines = text.slice(0, -1).split('\n');
  const start = lines.lastIndexOf('') + 1;
  const paragraph = lines.slice(start);
  if (start < 2) return refused('trailers-not-last', 'no title above the trailers');
  const stray = lines.slice(0, start).find((line) => LOOKS_LIKE_TRAILER.test(line));
  if (stray !== undefined) return refused('trailers-not-last', quote(stray));

  const found = new Map<Key, string>();
  for (const line of paragraph) {
    if (!LOOKS_LIKE_TRAILER.test(line)) {
      if (!OTHER_TRAILER.test(line)) return refused('trailers-not-last', quote(line));
      continue;
    }
    const [, name = '', value = ''] = TRAILER.exec(line) ?? [];
    if (name === '') return refused('trailer-malformed', quote(line));
    const key = KEYS.find((one) => one === name);
    if (key === undefined) return refused('trailer-unknown', quote(`Windlass-${name}`));
    if (found.has(key)) return refused('trailer-duplicated', `Windlass-${key}`);
    if (!FORM[key].test(value)) return refused('trailer-malformed', quote(line));
    found.set(key, value);
  }
  const missing = KEYS.find((key) => !found.has(key));
  if (missing !== undefined) return refused('trailer-missing', `Windlass-${missing}`);
  const value = (key: Key): string => found.get(key) ?? '';
  const type = STATEMENT_TYPES.find((one) => one === value('Type'));
  const expiresMs = parseInstant(value('Expires'));
  if (type === undefined || expiresMs === null) return refused('trailer-malformed', quote(value('Expires')));
  return {
    kind: 'claims',
    claims: {
      type,
      fleet: value('Fleet'),
      ref: value('Ref'),
      environment: value('Environment'),
      subject: value('Subject').slice('sha256:'.length),
      policy: value('Policy').slice('sha256:'.length),
      expiresMs,
      nonce: value('Nonce'),
    },
  };
}

/** What an object says, unproved. A merge, a root or a tag of something else than a commit is never a statement. Never throws. */
export function parseStatement(object: Pick<RawGitObject, 'type' | 'bytes'>): StatementParse {
  try {
    const { type, bytes } = object;
    if (type !== 'commit' && type !== 'tag') return { kind: 'none' };
    if (!LOOKS_OURS.test(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')))
      return { kind: 'none' };
    if (bytes.length > LARGEST_BYTES)
      return { kind: 'refused', reason: 'object-too-large', detail: `${bytes.length} bytes` };
    const read = readGitObject(type, bytes, { strict: true });
    if (read.kind === 'refused') {
      // An ordinary merge whose title speaks of us is nobody's mistake; one that carries trailers is.
      const loose = readGitObject(type, bytes, { strict: false });
      if (loose.kind === 'parsed' && parseTrailers(loose.object.message).kind === 'none') return { kind: 'none' };
      return { kind: 'refused', reason: read.reason, detail: read.detail };
    }
    const trailers = parseTrailers(read.object.message);
    if (trailers.kind !== 'claims') return trailers;
    const person = read.object.kind === 'commit' ? read.object.committer : read.object.tagger;
    if (person === null) return { kind: 'refused', reason: 'no-date', detail: '' };
    if (trailers.claims.type === 'policy' && bytes.length > LARGEST_POLICY_BYTES)
      return { kind: 'refused', reason: 'object-too-large', detail: `${bytes.length} bytes` };
    return { kind: 'claims', claims: trailers.claims, carrier: read.object.kind, datedMs: person.seconds * 1000 };
  } catch (error) {
    return { kind: 'refused', reason: 'internal-error', detail: error instanceof Error ? error.message : '' };
  }
}

const MOST_MENTIONS = 20;

/** Subjects that the text names anywhere, in the form of a trailer. */
export function mentionsOf({ bytes }: Pick<RawGitObject, 'bytes'>): readonly string[] {
  if (!(bytes instanceof Uint8Array) || bytes.length > LARGEST_BYTES) return [];
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
  const found = new Set<string>();
  for (const [, subject = ''] of text.matchAll(/Windlass-Subject: sha256:([0-9a-f]{64})\b/g)) {
    if (found.size >= MOST_MENTIONS) break;
    found.add(subject);
  }
  return [...found];
}

/** Why its signer says it: the paragraph `Reason: …` of the message, on one line, bounded, with what is not seen written out. Null when there is none. */
export function reasonOf({ type, bytes }: Pick<RawGitObject, 'type' | 'bytes'>): string | null {
  if ((type !== 'commit' && type !== 'tag') || bytes.length > LARGEST_BYTES) return null;
  const read = readGitObject(type, bytes, { strict: true });
  const text = read.kind === 'parsed' ? decodeUtf8(read.object.message) : null;
  const paragraphs = text?.split('\n\n').slice(1, -1) ?? [];
  const said = paragraphs.find((paragraph) => paragraph.startsWith('Reason: '));
  if (said === undefined) return null;
  // Line by line: one pattern over all of it would take hours for a long row of blanks, which anybody may push.
  const lines = said.slice('Reason: '.length).split('\n');
  return inOneLine(
    lines
      .map((line) => line.trim())
      .filter((line) => line !== '')
      .join(' '),
  );
}

/** Parses one object and proves who signed it, by the keys of one policy, now. Never rejects. */
export function verifyStatement(
  object: RawGitObject,
  signers: PolicySigners,
  now: Date,
  clockSkewMs: number,
): Promise<StatementReading> {
  const refuse = (
    reason: IgnoredCode,
    detail: string,
    judgement?: Judgement,
    claims: StatementClaims | null = null,
  ) => ({
    kind: 'refused' as const,
    oid: String(object.oid),
    statementId: judgement?.payloadSha256 ?? null,
    reason,
    detail,
    claims,
    mentions: mentionsOf(object),
  });
  const parse = parseStatement(object);
  if (parse.kind === 'none') return Promise.resolve({ kind: 'none', oid: object.oid });
  if (parse.kind === 'refused') return Promise.resolve(refuse(parse.reason, parse.detail));
  const { claims, carrier, datedMs } = parse;
  return judge(object, signers.roots, now, {
    strict: true,
    skewSeconds: clockSkewMs / 1000,
    largestBytes: LARGEST_BYTES,
  })
    .then((judgement): StatementReading => {
      const { reason, detail, fingerprint, payloadSha256 } = judgement;
      if (reason !== 'ok') return refuse(reason, detail, judgement, claims);
      const principal = principalOf(signers, judgement);
      if (principal === null || fingerprint === null || payloadSha256 === null)
        return refuse('signer-unnamed', fingerprint ?? '', judgement, claims);
      const statement = {
        ...claims,
        id: payloadSha256,
        oid: object.oid,
        carrier,
        principal,
        fingerprint,
        datedMs,
      };
      return { kind: 'statement', statement, judgedBy: signers.sha256, judgedAtMs: now.getTime() };
    })
    .catch((error: unknown) => refuse('internal-error', error instanceof Error ? error.message : ''));
}

/** The message of a new statement, for `git commit -F` or `git tag -F`. Throws a plain error when a part has no valid form. */
export function formatStatement(input: StatementClaims & { readonly title: string; readonly body?: string }): string {
  const values: Record<Key, string> = {
    Type: input.type,
    Fleet: input.fleet,
    Ref: input.ref,
    Environment: input.environment,
    Subject: `sha256:${input.subject}`,
    Policy: `sha256:${input.policy}`,
    Expires: formatInstant(input.expiresMs),
    Nonce: input.nonce,
  };
  const paragraphs = [
    input.title,
    ...(input.body === undefined || input.body === '' ? [] : [input.body.replace(/\n+$/, '')]),
    KEYS.map((key) => `Windlass-${key}: ${values[key]}`).join('\n'),
  ];
  const message = `${paragraphs.join('\n\n')}\n`;
  if (input.title === '' || input.title.includes('\n')) throw new Error('the title of a statement is one line');
  const parsed = parseTrailers(Buffer.from(message));
  const wrong = parsed.kind === 'refused' ? `${parsed.reason} ${parsed.detail}` : '';
  const isSame =
    parsed.kind === 'claims' && KEYS.every((key) => FORM[key].test(values[key])) && sameClaims(parsed.claims, input);
  if (!isSame) throw new Error(`a statement cannot say this: ${wrong}`);
  return message;
}

const sameClaims = (a: StatementClaims, b: StatementClaims): boolean =>
  a.type === b.type &&
  a.fleet === b.fleet &&
  a.ref === b.ref &&
  a.environment === b.environment &&
  a.subject === b.subject &&
  a.policy === b.policy &&
  a.expiresMs === b.expiresMs &&
  a.nonce === b.nonce;
