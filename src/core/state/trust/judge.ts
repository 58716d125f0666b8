// judge: one object, the trust roots and a time in; one judgement out. Total: whatever goes wrong is a refusal, and a
// verdict comes from the table of reasons only. Synchronous for SSH; the promise is there for OpenPGP.

import { createHash } from 'node:crypto';
import {
  type AllowedSigners,
  allowsGit,
  principalOfCertificate,
  principalOfLine,
  type SignerLine,
} from './allowed-signers.ts';
import { signatureFormat, unarmor } from './armor.ts';
import { type GitCommit, type GitTag, objectId, parseCommit, parseTag } from './git-object.ts';
import { judgeOpenPgp, type OpenPgpAnswer } from './openpgp.ts';
import { REASONS, type ReasonCode, type RefusalCode, type Verdict } from './reason.ts';
import { Refusal } from './refusal.ts';
import { isCertificateRevoked, isKeyRevoked, type RevocationList } from './revocation.ts';
import type { TrustRoots } from './roots.ts';
import { checkCertificate, type SshCertificate } from './ssh-certificate.ts';
import { weaknessOf } from './ssh-key.ts';
import { parseSshSignature, type SshSignature, verifySshSignature } from './ssh-signature.ts';

export interface RawGitObject {
  /** The id that was asked for: 40 hex. */
  readonly oid: string;
  readonly type: string;
  /** The raw content, without git's `type size NUL` header. */
  readonly bytes: Uint8Array;
}

export interface JudgeOptions {
  /** The profile of statements; default false. */
  readonly strict?: boolean;
  /** Security keys must have checked a PIN or a fingerprint; default false. */
  readonly requireUserVerification?: boolean;
  /** How far ahead of `at` a date may be; default 300. */
  readonly skewSeconds?: number;
  /** Default 64 MiB. */
  readonly largestBytes?: number;
}

export interface Judgement {
  readonly oid: string | null;
  readonly verdict: Verdict;
  readonly format: 'ssh' | 'openpgp' | 'none';
  /** Null unless the verdict accepts, and always for OpenPGP, whose names come from policy. */
  readonly principal: string | null;
  /** The key that made the signature, once that is proved: `SHA256:…`, or the primary key's 40 hex. */
  readonly fingerprint: string | null;
  readonly reason: ReasonCode;
  /** What was found; for people, never to be matched on. */
  readonly detail: string;
  /** SHA-256 of the signed payload, hex: the id of a statement. Null until the object parses. */
  readonly payloadSha256: string | null;
}

const SKEW_SECONDS = 300;
const LARGEST_BYTES = 64 * 1024 * 1024;

/** What is known so far; refusals report it. */
interface Findings {
  readonly oid: string | null;
  format: Judgement['format'];
  fingerprint: string | null;
  payloadSha256: string | null;
}

interface Clock {
  /** Seconds since the epoch. */
  readonly at: number;
  readonly skewSeconds: number;
}

interface Outcome {
  readonly reason: ReasonCode;
  readonly principal: string | null;
  readonly detail: string;
}

/** Judges one object. Never rejects and never throws. */
export function judge(
  object: RawGitObject,
  roots: TrustRoots,
  at: Date,
  options: JudgeOptions = {},
): Promise<Judgement> {
  const findings: Findings = { oid: null, format: 'none', fingerprint: null, payloadSha256: null };
  try {
    Object.assign(findings, { oid: typeof object.oid === 'string' ? object.oid : null });
    const outcome = judgeObject(object, roots, at, options, findings);
    if (!(outcome instanceof Promise)) return Promise.resolve(settle(findings, outcome));
    return outcome.then(
      (answer) => settle(findings, answer),
      (error) => settle(findings, outcomeOfError(error)),
    );
  } catch (error) {
    return Promise.resolve(settle(findings, outcomeOfError(error)));
  }
}

/** A judgement for what never became an object: unknown revs, unreadable repositories. */
export function refuseUnread(reason: RefusalCode, detail: string, oid: string | null = null): Judgement {
  return settle({ oid, format: 'none', fingerprint: null, payloadSha256: null }, { reason, principal: null, detail });
}

function outcomeOfError(error: unknown): Outcome {
  if (error instanceof Refusal) return { reason: error.code, principal: null, detail: error.message };
  return { reason: 'internal-error', principal: null, detail: error instanceof Error ? error.message : String(error) };
}

/** The one place where a verdict is written. */
function settle(findings: Findings, outcome: Outcome): Judgement {
  const { verdict } = REASONS[outcome.reason];
  return {
    oid: findings.oid,
    verdict,
    format: findings.format,
    principal: verdict === 'invalid' ? null : outcome.principal,
    fingerprint: findings.fingerprint,
    reason: outcome.reason,
    detail: outcome.detail,
    payloadSha256: findings.payloadSha256,
  };
}

function judgeObject(
  object: RawGitObject,
  roots: TrustRoots,
  at: Date,
  options: JudgeOptions,
  findings: Findings,
): Outcome | Promise<Outcome> {
  if (roots.refusal) throw new Refusal(roots.refusal.code, roots.refusal.detail);
  const clock = { at: at.getTime() / 1000, skewSeconds: options.skewSeconds ?? SKEW_SECONDS };
  if (!Number.isFinite(clock.at) || !Number.isFinite(clock.skewSeconds)) throw new Refusal('bad-time');
  const strict = options.strict === true;

  const parsed = parseObject(object, strict, options.largestBytes ?? LARGEST_BYTES);
  findings.payloadSha256 = createHash('sha256').update(parsed.payload).digest('hex');
  if (!parsed.signature) throw new Refusal('no-signature');
  findings.format = signatureFormat(parsed.signature);
  const person = parsed.kind === 'commit' ? parsed.committer : parsed.tagger;
  if (!person) throw new Refusal('no-date');
  const unarmored = unarmor(parsed.signature, { strict });

  if (unarmored.format === 'ssh') {
    const signature = parseSshSignature(unarmored.bytes, roots.signers.keys);
    verifySshSignature(signature, parsed.payload, {
      requireUserVerification: options.requireUserVerification === true,
    });
    findings.fingerprint = signature.key.fingerprint;
    return judgeSshSigner(signature, roots, person.seconds, clock);
  }
  return judgeOpenPgp(roots.keyring, {
    signature: unarmored.bytes,
    payload: parsed.payload,
    dated: person.seconds,
    ...clock,
    revoked: roots.revocations.openpgp,
  }).then((answer) => outcomeOfAnswer(answer, findings));
}

function outcomeOfAnswer(answer: OpenPgpAnswer, findings: Findings): Outcome {
  findings.fingerprint = answer.fingerprint;
  return { reason: answer.reason, principal: null, detail: answer.detail };
}

function parseObject(object: RawGitObject, strict: boolean, largestBytes: number): GitCommit | GitTag {
  const { oid, type, bytes } = object;
  if (/^[0-9a-f]{64}$/.test(oid)) throw new Refusal('sha256-repository');
  if (type !== 'commit' && type !== 'tag') throw new Refusal('not-commit-or-tag', type);
  if (bytes.length > largestBytes) throw new Refusal('object-too-large', `${bytes.length} bytes`);
  if (objectId(type, bytes) !== oid) throw new Refusal('oid-mismatch');
  return type === 'commit' ? parseCommit(bytes, { strict }) : parseTag(bytes, { strict });
}

/** After the signature is proved: strength, authority, revocation, then who and when. */
function judgeSshSigner(signature: SshSignature, roots: TrustRoots, dated: number, clock: Clock): Outcome {
  const { key, certificate } = signature;
  const weakness = weaknessOf(key);
  if (weakness !== null) throw new Refusal('weak-key', weakness);
  if (certificate) checkCertificate(certificate);
  refuseRevoked(signature, roots.revocations);
  const lines = findLines(signature, roots.signers);
  if (dated > clock.at + clock.skewSeconds) throw new Refusal('dated-in-future');

  // Any line that makes it valid counts, then any that proves history; else the first line says why not.
  const outcomes = lines.map((line) => judgeLine(line, certificate, dated, clock.at));
  const pick = (verdict: Verdict) => outcomes.find(({ reason }) => REASONS[reason].verdict === verdict);
  return pick('valid') ?? pick('valid-history-only') ?? outcomes[0]!;
}

function refuseRevoked({ key, certificate }: SshSignature, revocations: RevocationList): void {
  if (isKeyRevoked(revocations, key)) throw new Refusal('revoked', key.fingerprint);
  if (!certificate) return;
  if (isKeyRevoked(revocations, certificate.authority))
    throw new Refusal('revoked-authority', certificate.authority.fingerprint);
  if (isCertificateRevoked(revocations, certificate))
    throw new Refusal('revoked-certificate', `serial ${certificate.serial}`);
}

function findLines({ key, certificate }: SshSignature, signers: AllowedSigners): readonly SignerLine[] {
  const id = (certificate ? certificate.authority : key).blob.toString('base64');
  const lines = certificate ? signers.authorities.get(id) : signers.signers.get(id);
  if (lines) return lines;
  const problem = signers.badKeys.get(id);
  if (problem) throw new Refusal('bad-signer-line', `${problem.place}: ${problem.message}`);
  if (certificate) throw new Refusal('unknown-authority', certificate.authority.fingerprint);
  throw new Refusal(signers.authorities.has(id) ? 'authority-key-signed' : 'unknown-key', key.fingerprint);
}

/** One line: does it name somebody, for git, at the date of the object and now? SSH signatures carry no time of their own. */
function judgeLine(line: SignerLine, certificate: SshCertificate | null, dated: number, at: number): Outcome {
  const say = (reason: ReasonCode, principal: string | null = null): Outcome => ({
    reason,
    principal,
    detail: line.place,
  });
  if (!allowsGit(line)) return say('namespace-not-allowed');
  const principal = certificate ? principalOfCertificate(line, certificate.principals) : principalOfLine(line);
  if (principal === null) return say(certificate ? 'principal-mismatch' : 'wildcard-principal');

  const moments = [dated, at];
  const isEarly = moments.some(
    (moment) => moment < (line.validAfter ?? 0) || (certificate && BigInt(Math.floor(moment)) < certificate.validAfter),
  );
  if (isEarly) return say('not-yet-valid');
  const lineExpired = (moment: number) => line.validBefore !== null && moment > line.validBefore;
  const certificateExpired = (moment: number) =>
    certificate !== null && BigInt(Math.floor(moment)) >= certificate.validBefore;
  if (lineExpired(dated) || certificateExpired(dated)) return say('key-expired');
  if (lineExpired(at)) return say('signer-expired-since', principal);
  if (certificateExpired(at)) return say('certificate-expired-since', principal);
  return say('ok', principal);
}
