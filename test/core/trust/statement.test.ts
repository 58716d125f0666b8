// Statement: the eight trailers, their one place and their one form; and who is proved to have signed.
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { AUTHORITY, helpOf } from '../../../src/core/state/trust/authority.ts';
import type { RawGitObject } from '../../../src/core/state/trust/judge.ts';
import type { PolicyVersion } from '../../../src/core/state/trust/policy-file.ts';
import { type PolicySigners, signersOf } from '../../../src/core/state/trust/policy-signers.ts';
import { REASONS } from '../../../src/core/state/trust/reason.ts';
import {
  formatStatement,
  parseStatement,
  parseTrailers,
  reasonOf,
  type StatementClaims,
  verifyStatement,
} from '../../../src/core/state/trust/statement.ts';
import { DAY, ENVIRONMENT, FLEET, keys, NOW, policyOf, REF, type SaidMore, SKEW, say } from './court.ts';
import { AT, commitPayload, handSign, insertHeader, insertSignature, objectId, signatureHeader } from './material.ts';

const claims: StatementClaims = {
  type: 'approve',
  fleet: FLEET,
  ref: REF,
  environment: ENVIRONMENT,
  subject: 'a'.repeat(64),
  policy: 'b'.repeat(64),
  expiresMs: NOW + DAY,
  nonce: 'c'.repeat(32),
};
const message = formatStatement({ ...claims, title: 'Approve the restore of shop' });
const trailers = message.split('\n\n')[1]!;
const told = (text: string | Buffer): string => {
  const parsed = parseTrailers(Buffer.from(text as string));
  return parsed.kind === 'refused' ? parsed.reason : parsed.kind;
};

describe('the message of a statement', () => {
  it('is written and read alike', () => {
    expect(message).toBe(`Approve the restore of shop

Windlass-Type: approve
Windlass-Fleet: fleet-4b1d2c
Windlass-Ref: refs/heads/main
Windlass-Environment: production
Windlass-Subject: sha256:${'a'.repeat(64)}
Windlass-Policy: sha256:${'b'.repeat(64)}
Windlass-Expires: 2026-11-02T12:00:00Z
Windlass-Nonce: ${'c'.repeat(32)}
`);
    expect(parseTrailers(Buffer.from(message))).toEqual({ kind: 'claims', claims });
  });

  it('may have a body, and trailers of other tools beside its own', () => {
    const long = formatStatement({ ...claims, title: 'Approve', body: 'I looked at the plan.\n\nTwice.\n' });
    expect(told(long)).toBe('claims');
    expect(told(message.replace(/\n$/, '\nSigned-off-by: Anna <anna@example.com>\nChange-Id: I123\n'))).toBe('claims');
  });

  it('is none of ours without such a trailer', () => {
    for (const text of [
      '',
      'Fix a typo\n',
      'Use windlass-cli\n',
      'windlass-fleet\n',
      'T\n\nSigned-off-by: A <a@b.c>\n',
    ])
      expect(told(text)).toBe('none');
    expect(told(Buffer.from([0xff, 0x0a]))).toBe('none');
  });

  const swap = (from: string | RegExp, to: string) => message.replace(from, () => to);
  it.each<readonly [string, string, string]>([
    [
      'a trailer twice',
      swap('Windlass-Type: approve', 'Windlass-Type: approve\nWindlass-Type: reject'),
      'trailer-duplicated',
    ],
    [
      'a trailer twice alike',
      swap('Windlass-Type: approve', 'Windlass-Type: approve\nWindlass-Type: approve'),
      'trailer-duplicated',
    ],
    ['a whole second set in the body', swap('Approve', `Approve\n\n${trailers}\n\nApprove`), 'trailers-not-last'],
    ['one forged in the body', swap('shop\n', 'shop\n\nWindlass-Type: reject\n'), 'trailers-not-last'],
    ['one quoted in the body', swap('shop\n', 'shop\n\n> Windlass-Type: reject\n'), 'trailers-not-last'],
    ['one in other case in the body', swap('shop\n', 'shop\n\nWINDLASS-TYPE: reject\n'), 'trailers-not-last'],
    ['one in the title', swap('Approve the restore of shop', 'Windlass-Type: approve'), 'trailers-not-last'],
    ['no title', `${trailers}`, 'trailers-not-last'],
    ['text below the trailers', `${message}\nOne more thing.\n`, 'trailers-not-last'],
    ['a blank line at the end', `${message}\n`, 'trailers-not-last'],
    ['a line among them that is no trailer', swap('Windlass-Ref', 'and so on\nWindlass-Ref'), 'trailers-not-last'],
    ['a continuation line', swap('Windlass-Ref', '  more\nWindlass-Ref'), 'trailers-not-last'],
    ['an unknown one', swap('Windlass-Ref', 'Windlass-Force: yes\nWindlass-Ref'), 'trailer-unknown'],
    ['one in other case', swap('Windlass-Ref', 'windlass-ref'), 'trailer-malformed'],
    ['an indented one', swap('Windlass-Ref', ' Windlass-Ref'), 'trailer-malformed'],
    ['one without a blank', swap('Type: approve', 'Type:approve'), 'trailer-malformed'],
    ['two blanks', swap('Type: approve', 'Type:  approve'), 'trailer-malformed'],
    ['a blank behind', swap('Type: approve', 'Type: approve '), 'trailer-malformed'],
    ['an unknown type', swap('Type: approve', 'Type: force'), 'trailer-malformed'],
    ['a type in other case', swap('Type: approve', 'Type: Approve'), 'trailer-malformed'],
    ['a short ref', swap('refs/heads/main', 'main'), 'trailer-malformed'],
    ['a subject of another hash', swap('Subject: sha256', 'Subject: sha1'), 'trailer-malformed'],
    ['a short subject', swap('a'.repeat(64), 'a'.repeat(63)), 'trailer-malformed'],
    ['an upper-case subject', swap('a'.repeat(64), 'A'.repeat(64)), 'trailer-malformed'],
    ['a time of another zone', swap('12:00:00Z', '12:00:00+01:00'), 'trailer-malformed'],
    ['a day that does not exist', swap('2026-11-02', '2026-02-30'), 'trailer-malformed'],
    ['a short nonce', swap('c'.repeat(32), 'c'.repeat(31)), 'trailer-malformed'],
    ['no line break at the end', message.slice(0, -1), 'message-form'],
    ['line breaks of another system', message.replaceAll('\n', '\r\n'), 'message-form'],
    ['a trailer hidden behind a carriage return', swap('shop\n', 'shop\rWindlass-Type: reject\n'), 'message-form'],
    ['a trailer hidden behind a line separator', swap('shop\n', 'shop\u2028Windlass-Type: reject\n'), 'message-form'],
    ['text that runs backwards', swap('shop', '\u202eshop'), 'message-form'],
    ['a letter that is not seen', swap('production', 'pro\u200bduction'), 'message-form'],
    ['a soft hyphen', swap('production', 'pro\u00adduction'), 'message-form'],
    ['a word joiner', swap('production', 'pro\u2060duction'), 'message-form'],
    ['a letter that shows as a blank', swap('production', 'pro\u3164duction'), 'message-form'],
    ['a tag letter', swap('production', 'pro\u{e0061}duction'), 'message-form'],
    ['an escape sequence', swap('shop', '\u001b[2Kshop'), 'message-form'],
    ...['Type', 'Fleet', 'Ref', 'Environment', 'Subject', 'Policy', 'Expires', 'Nonce'].map(
      (key): readonly [string, string, string] => [
        `no ${key}`,
        message.replace(new RegExp(`Windlass-${key}: .*\n`), ''),
        'trailer-missing',
      ],
    ),
  ])('is refused with %s', (_, text, reason) => {
    expect(told(text)).toBe(reason);
  });

  it('is refused when it is no UTF-8', () => {
    expect(told(Buffer.concat([Buffer.from([0xff]), Buffer.from(message)]))).toBe('message-form');
  });

  it('is never written in a form that would not be read alike', () => {
    for (const bent of [
      { title: '' },
      { title: 'two\nlines' },
      { title: 'Windlass-Type: reject' },
      { body: 'Windlass-Type: reject' },
      { ref: 'main' },
      { environment: ' x' },
      { environment: 'a\nWindlass-Type: reject' },
      { nonce: 'short' },
      { subject: 'sha256:' },
      { expiresMs: NOW + 1 },
      { expiresMs: Number.NaN },
    ])
      expect(() => formatStatement({ ...claims, title: 'Approve', ...bent }), JSON.stringify(bent)).toThrow();
  });

  it('is read or refused whatever it is, and only whole sets are read', () => {
    const line = fc.constantFrom(...message.split('\n'), '', 'Signed-off-by: x', '> Windlass-Type: reject', ' ');
    fc.assert(
      fc.property(fc.array(line, { maxLength: 16 }), (lines) => {
        const parsed = parseTrailers(Buffer.from(`${lines.join('\n')}\n`));
        if (parsed.kind === 'claims')
          for (const one of trailers.trimEnd().split('\n'))
            expect(lines.filter((text) => text === one)).toHaveLength(1);
      }),
    );
  });
});

describe('an object', () => {
  let policy: PolicyVersion;
  let signers: PolicySigners;
  beforeAll(async () => {
    policy = policyOf();
    signers = await signersOf(policy, new Uint8Array());
  });
  const verify = async (object: RawGitObject) => {
    const reading = await verifyStatement(object, signers, new Date(NOW), SKEW);
    if (reading.kind === 'statement') return `${reading.statement.principal} ${reading.statement.type}`;
    return reading.kind === 'refused' ? reading.reason : reading.kind;
  };
  const anna = (more: SaidMore = {}) => say('anna', 'approve', 'a'.repeat(64), 'b'.repeat(64), more);

  it('is a statement of whose key signed it, whatever its author lines say', async () => {
    expect(await verify(anna())).toBe('anna approve');
    expect(await verify(anna({ key: keys.cleo }))).toBe('cleo approve');
    expect(await verify(anna({ asTag: true }))).toBe('anna approve');
  });

  it('has the digest of its signed payload as its id', async () => {
    const object = anna();
    const reading = await verifyStatement(object, signers, new Date(NOW), SKEW);
    expect(reading).toMatchObject({
      kind: 'statement',
      judgedBy: policy.sha256,
      judgedAtMs: NOW,
      statement: { oid: object.oid, carrier: 'commit', fleet: FLEET, ref: REF },
    });
    expect(reading.kind === 'statement' && reading.statement.id).toMatch(/^[0-9a-f]{64}$/);
  });

  it.each<readonly [string, string, () => RawGitObject]>([
    ['unsigned', 'no-signature', () => anna({ isUnsigned: true })],
    ['unsigned tag', 'no-signature', () => anna({ isUnsigned: true, asTag: true })],
    ['of a stranger', 'unknown-key', () => anna({ key: keys.mallory })],
    ['a merge', 'not-single-parent', () => anna({ parents: ['1'.repeat(40), '2'.repeat(40)] })],
    ['a root', 'not-single-parent', () => anna({ parents: [] })],
    ['a merge without trailers', 'none', () => anna({ parents: [], message: 'Merge windlass-branch\n' })],
    ['a tree', 'none', () => ({ ...anna(), type: 'tree' })],
    ['an ordinary signed commit', 'none', () => anna({ message: 'Deploy shop 2\n' })],
    ['under another id', 'oid-mismatch', () => ({ ...anna(), oid: 'f'.repeat(40) })],
    ['of the future', 'dated-in-future', () => anna({ datedMs: NOW + SKEW + 1000 })],
    [
      'with forged trailers in its body',
      'trailers-not-last',
      () => anna({ message: `Approve\n\n${trailers}\nThanks\n` }),
    ],
    [
      'altered after it was signed',
      'bad-signature',
      () => {
        const bytes = Buffer.from(
          Buffer.from(anna().bytes).toString('latin1').replace('says approve', 'says Approve'),
          'latin1',
        );
        return { oid: objectId('commit', bytes), type: 'commit', bytes };
      },
    ],
    [
      'signed for another purpose than git',
      'wrong-namespace',
      () => {
        const payload = commitPayload({ message, dated: NOW / 1000 });
        const bytes = insertSignature(payload, handSign(keys.anna, payload, { namespace: 'file' }));
        return { oid: objectId('commit', bytes), type: 'commit', bytes };
      },
    ],
    [
      'with two signatures',
      'several-signatures',
      () => {
        const bytes = insertHeader(Buffer.from(anna().bytes), signatureHeader(handSign(keys.bert, commitPayload())));
        return { oid: objectId('commit', bytes), type: 'commit', bytes };
      },
    ],
    [
      'whose trailers stand in a header',
      'none',
      () => {
        const payload = commitPayload({
          extra: `note ${trailers.trimEnd().split('\n').join('\n ')}\n`,
          dated: NOW / 1000,
        });
        const bytes = insertSignature(payload, handSign(keys.anna, payload));
        return { oid: objectId('commit', bytes), type: 'commit', bytes };
      },
    ],
    ['too large', 'object-too-large', () => anna({ message: `Approve\n\n${'x\n'.repeat(600_000)}\n${trailers}` })],
  ])('%s is %s', async (_, expected, make) => {
    expect(await verify(make())).toBe(expected);
  });

  it('keeps what an unsigned one would say, to explain with', async () => {
    const reading = await verifyStatement(anna({ isUnsigned: true }), signers, new Date(NOW), SKEW);
    expect(reading).toMatchObject({
      kind: 'refused',
      reason: 'no-signature',
      claims: { type: 'approve', subject: 'a'.repeat(64) },
    });
  });

  it('is refused, never thrown at, whatever it is', async () => {
    expect(await verifyStatement({ oid: 1, type: 'commit', bytes: null } as never, signers, AT, SKEW)).toMatchObject({
      kind: 'refused',
      reason: 'internal-error',
    });
    expect(parseStatement({ type: 'commit', bytes: Buffer.from('Windlass-Type: approve') })).toMatchObject({
      kind: 'refused',
      reason: 'malformed-object',
    });
    const genuine = Buffer.from(anna().bytes);
    await fc.assert(
      fc.asyncProperty(fc.nat(genuine.length - 1), fc.nat(255), async (at, byte) => {
        const bytes = Buffer.from(genuine);
        if (bytes[at] === byte) return;
        bytes[at] = byte;
        const reading = await verifyStatement(
          { oid: objectId('commit', bytes), type: 'commit', bytes },
          signers,
          new Date(NOW),
          SKEW,
        );
        expect(reading.kind).not.toBe('statement');
      }),
      { numRuns: 300 },
    );
  });

  it('needs signers that are whole', async () => {
    const hollow = { policy: { ...policy.policy, principals: { anna: { ssh: ['no key'] } } }, sha256: policy.sha256 };
    const none = await signersOf(hollow, new Uint8Array());
    expect(await verifyStatement(anna(), none, new Date(NOW), SKEW)).toMatchObject({
      kind: 'refused',
      reason: 'bad-allowed-signers',
    });
  });
});

describe('the reason that a signer gives', () => {
  const said = (reason: string): string | null => {
    const body = `Reason: ${reason}`;
    const bytes = commitPayload({ message: formatStatement({ ...claims, title: 'Approve', body }) });
    return reasonOf({ type: 'commit', bytes });
  };

  it('is told on one line', () => {
    expect(said('not yet,\n  the audit \n\truns')).toBe('not yet, the audit runs');
    expect(said('')).toBe('');
  });

  it('is found at once, however many blanks stand in it', () => {
    const startedAtMs = Date.now();
    expect(said(`a${' '.repeat(900_000)}b`)).toBe(`a${' '.repeat(499)}…`);
    expect(Date.now() - startedAtMs).toBeLessThan(2_000);
  });
});

describe('the table of authority', () => {
  it('has one sentence of help for each code, and shares none with the table of signatures', () => {
    for (const [code, { help }] of Object.entries(AUTHORITY)) {
      expect([code, help.endsWith('.') && help.length > 20]).toEqual([code, true]);
      expect(Object.keys(REASONS)).not.toContain(code);
    }
    expect(helpOf('revoked')).toBe(REASONS.revoked.help);
    expect(helpOf('other-ref')).toBe(AUTHORITY['other-ref'].help);
  });
});
