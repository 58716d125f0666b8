// Statements that git itself makes, with the signing set-up of its user: read from its own store, and lost by what loses signatures.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { RawGitObject } from '../../../src/core/state/trust/judge.ts';
import { type PolicySigners, signersOf } from '../../../src/core/state/trust/policy-signers.ts';
import { formatStatement, type StatementClaims, verifyStatement } from '../../../src/core/state/trust/statement.ts';
import { DAY, ENVIRONMENT, FLEET, nonce, policyOf, principals, REF, requestBytes, SKEW, sha256Of } from './court.ts';
import { Material } from './material.ts';

const m = new Material();
afterAll(() => m.close());
const now = new Date();
const bytes = requestBytes();
let repository: string;
let signers: PolicySigners;
let claims: StatementClaims;

const git = (...args: readonly string[]): string =>
  m.git('-C', repository, '-c', 'user.name=A', '-c', 'user.email=a@example.com', ...args);
/** Of git, for one person's key. */
const signing = (key: string) => ['-c', 'gpg.format=ssh', '-c', `user.signingkey=${m.file(key)}`] as const;

beforeAll(async () => {
  repository = m.file('fleet');
  m.git('init', '-q', '-b', 'main', repository);
  const policy = policyOf({
    principals: { ...principals, anna: { ssh: [m.sshKey('anna')] }, bert: { ssh: [m.sshKey('bert', '-t', 'ecdsa')] } },
  });
  signers = await signersOf(policy, new Uint8Array());
  claims = {
    type: 'request',
    fleet: FLEET,
    ref: REF,
    environment: ENVIRONMENT,
    subject: sha256Of(bytes),
    policy: policy.sha256,
    expiresMs: Math.floor(now.getTime() / 1000) * 1000 + DAY,
    nonce: nonce(),
  };
  git('commit', '-q', '--allow-empty', '-m', 'Begin');
  m.write('fleet/request.yaml', bytes);
  git('add', 'request.yaml');
  writeFileSync(
    m.file('message'),
    formatStatement({ ...claims, title: 'Ask for the restore of shop', body: 'See the incident.' }),
  );
  git(...signing('anna'), 'commit', '-q', '-S', '-F', m.file('message'));
});

function read(rev: string): RawGitObject {
  const oid = git('rev-parse', rev);
  const type = git('cat-file', '-t', oid);
  return { oid, type, bytes: m.run('git', ['-C', join(repository), 'cat-file', type, oid]) };
}
const verify = async (rev: string) => {
  const reading = await verifyStatement(read(rev), signers, now, SKEW);
  if (reading.kind === 'statement') return `${reading.statement.principal} ${reading.statement.type}`;
  return reading.kind === 'refused' ? reading.reason : reading.kind;
};

it('a commit by git is a statement', async () => {
  expect(await verify('HEAD')).toBe('anna request');
  expect(await verifyStatement(read('HEAD'), signers, now, SKEW)).toMatchObject({ statement: claims });
  expect(await verify('HEAD^')).toBe('none');
});

it('an empty commit, and an annotated tag, approve', async () => {
  const approval = formatStatement({
    ...claims,
    type: 'approve',
    nonce: nonce(),
    title: 'Approve the restore of shop',
  });
  writeFileSync(m.file('approval'), approval);
  git(...signing('bert'), 'commit', '-q', '--allow-empty', '-S', '-F', m.file('approval'));
  expect(await verify('HEAD')).toBe('bert approve');
  git(...signing('bert'), 'tag', '-s', '-F', m.file('approval'), 'approval-1', 'HEAD^');
  expect(await verify('approval-1')).toBe('bert approve');
});

it('a cherry-pick, an amended commit and a squash lose the signature, and say so', async () => {
  const statement = git('rev-parse', 'HEAD^');
  git('checkout', '-q', '-b', 'other', `${statement}^`);
  git('commit', '-q', '--allow-empty', '-m', 'Go on');
  git('cherry-pick', statement);
  expect(await verify('HEAD')).toBe('no-signature');
  git(...signing('bert'), 'commit', '-q', '--amend', '-S', '--no-edit');
  // Whoever signs it anew asks for it: the identity is that of the key.
  expect(await verify('HEAD')).toBe('bert request');
  const squashed = `Restore shop (#12)\n\n* ${formatStatement({ ...claims, title: 'Ask' })}\nCo-authored-by: A <a@example.com>\n`;
  git('commit', '-q', '--allow-empty', '-m', squashed);
  expect(await verify('HEAD')).toBe('trailers-not-last');
});

it('a true merge keeps the statements that it brings, and is none itself', async () => {
  git('checkout', '-q', 'main');
  git(...signing('anna'), 'merge', '-q', '-S', '-X', 'ours', '--no-ff', '-F', m.file('message'), 'other');
  expect(await verify('HEAD')).toBe('not-single-parent');
  expect(await verify('HEAD^')).toBe('bert approve');
});
