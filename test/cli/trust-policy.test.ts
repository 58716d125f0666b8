// The next version of a policy: drafted, edited and signed by admins in their own clones.
import { writeFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readPolicy, sha256Of } from '../../src/core/state/trust/policy-file.ts';
import { People } from './trust-people.ts';

const SECOND = 'trust/policy/v0002.yaml';
const begun = new People();
let people: People;
beforeAll(() => begun.begin());
beforeEach(() => {
  people = new People(begun);
});
afterEach(() => people.close());
afterAll(() => begun.close());

const draft = async (edit: (text: string) => string = (text) => text) => {
  expect((await people.windlass(['trust', 'policy', 'new'])).code).toBe(0);
  writeFileSync(people.at(SECOND), edit(people.read(SECOND)));
};
const sign = (name: 'anna' | 'bert' | 'cleo' | 'mallory', ...more: readonly string[]) =>
  people.say(name, 'trust', 'policy', 'sign', ...more);
const moreApprovals = (text: string) =>
  text
    .replace(/(operation: purge[\s\S]*?threshold: )2/, '$13')
    .replace(
      'approvers: [anna, bert, cleo]\n    threshold: 3',
      'approvers: [anna, bert, cleo]\n    requesterMayApprove: true\n    threshold: 3',
    );

describe('windlass trust policy new', () => {
  it('writes the next version with its number and the hash of the one before, and keeps the rest with its comments', async () => {
    const { out, err } = await people.windlass(['trust', 'policy', 'new']);
    expect(out).toBe(`${SECOND}\n`);
    expect(err).toMatch(/edit trust\/policy\/v0002\.yaml[\s\S]*windlass trust policy sign 2, by 2 of anna, bert, cleo/);
    const first = people.read('trust/policy/v0001.yaml');
    expect(people.read(SECOND)).toBe(
      first.replace('version: 1\n', `version: 2\nprevious: "${sha256Of(Buffer.from(first))}"\n`),
    );
    expect(people.git('status', '--porcelain')).toBe(`?? ${SECOND}`);
  });

  it('follows a version that is written in another form', async () => {
    await draft((text) => JSON.stringify(readPolicy({ path: SECOND, bytes: Buffer.from(text) }).version!.policy));
    await sign('anna');
    await sign('bert');
    expect((await people.windlass(['trust', 'policy', 'new'])).code).toBe(0);
    const bytes = Buffer.from(people.read('trust/policy/v0003.yaml'));
    const { version } = readPolicy({ path: 'trust/policy/v0003.yaml', bytes });
    expect(version?.policy).toMatchObject({ version: 3, previous: sha256Of(Buffer.from(people.read(SECOND))) });
  });

  it('never replaces a draft, nor drafts beyond a version that waits', async () => {
    await draft((text) => `${text}# mine\n`);
    expect((await people.windlass(['trust', 'policy', 'new'])).err).toMatch(/v0002\.yaml is there already/);
    expect(people.read(SECOND)).toMatch(/# mine/);
    await sign('anna');
    const { code, err } = await people.windlass(['trust', 'policy', 'new']);
    expect([code, /version 2 is there and not in effect/.test(err)]).toEqual([3, true]);
  });
});

describe('windlass trust policy sign', () => {
  it('commits the draft with the first signature, and takes effect with enough of them', async () => {
    await draft(moreApprovals);
    const first = await sign('anna');
    expect([first.code, first.json['inEffect'], first.json['missing'], first.json['mayStillSign']]).toEqual([
      0,
      false,
      1,
      ['bert', 'cleo'],
    ]);
    expect(people.git('show', '--name-only', '--format=', 'HEAD')).toBe(SECOND);
    expect(people.git('status', '--porcelain')).toBe('');
    const second = await sign('bert', '2');
    expect([second.code, second.json['inEffect']]).toEqual([0, true]);
    expect(people.git('show', '--name-only', '--format=', 'HEAD')).toBe('');
    for (const rev of ['HEAD', 'HEAD~1']) expect(people.tryGit('verify-commit', rev)).toBe(0);
    expect((await sign('cleo', '2')).err).toMatch(/version 2 is in effect already/);
  });

  it('warns who signs by a commit what takes their own key away, and nobody else', async () => {
    people.sshKey('anna2');
    await draft((text) =>
      text.replace(people.publicKey('anna').split(' ')[1] ?? '', people.publicKey('anna2').split(' ')[1] ?? ''),
    );
    const warning = /version 2 does not name your key any more[\s\S]*--tag/;
    people.be('anna');
    expect((await people.windlass(['trust', 'policy', 'sign'], { tty: true, answer: 'n' })).err).toMatch(warning);
    people.be('bert');
    expect((await people.windlass(['trust', 'policy', 'sign'], { tty: true, answer: 'n' })).err).not.toMatch(warning);
  });

  it('shows the difference in words before it asks', async () => {
    people.sshKey('dora');
    await draft((text) =>
      moreApprovals(text).replace('principals:\n', `principals:\n  dora:\n    ssh: ["${people.publicKey('dora')}"]\n`),
    );
    people.be('anna');
    const { code, err } = await people.windlass(['trust', 'policy', 'sign'], { tty: true, answer: 'n' });
    expect(err).toMatch(/\+.* principal dora with ssh SHA256:/);
    expect(err).toMatch(/\+.* rule 5: purge of \*: .*3 of anna, bert, cleo approve, whoever asks included/);
    expect(err).toMatch(/-.* rule 5: purge of \*: .*2 of anna, bert, cleo approve;/);
    expect(code).toBe(4);
    expect(people.git('status', '--porcelain')).toBe(`?? ${SECOND}`);
  });

  it('makes requests name the version in effect, and not one that waits', async () => {
    await draft(moreApprovals);
    await sign('anna');
    const ask = async (reason: string) => {
      const asked = ['request', 'purge', 'shop', '--volumes', 'all', '--reason', reason];
      const { code, err } = await people.say('anna', ...asked);
      expect(code, err).toBe(0);
      return err;
    };
    expect(await ask('before')).toMatch(/policy {3}version 1[\s\S]*version 2 has no effect: policy-unsigned/);
    await sign('bert');
    expect(await ask('after')).toMatch(/policy {3}version 2/);
  });

  it('by a tag counts where a merge lost the commit', async () => {
    await draft(moreApprovals);
    await sign('anna');
    const { code, json } = await sign('bert', '--tag');
    expect([code, json['inEffect']]).toEqual([0, true]);
    expect(people.tryGit('verify-tag', String(json['tag']))).toBe(0);
  });

  it('lets a new admin sign with the key that only the new version names', async () => {
    people.sshKey('dora');
    await draft((text) =>
      text
        .replace('principals:\n', `principals:\n  dora:\n    ssh: ["${people.publicKey('dora')}"]\n`)
        .replace('members: [anna, bert, cleo]', 'members: [anna, dora]'),
    );
    await sign('anna');
    await sign('bert');
    people.git('config', 'user.signingkey', people.file('dora.pub'));
    const { code, json } = await people.windlass(['trust', 'policy', 'sign', '2', '--yes', '-o', 'json']);
    expect([code, json['principal'], json['inEffect']]).toEqual([0, 'dora', true]);
  });

  it('does not count when no admin signs, and says so, exit 5', async () => {
    await draft(moreApprovals);
    const { code, json, err } = await sign('mallory');
    expect([code, json['inEffect']]).toEqual([5, false]);
    expect(err).toMatch(/will not count: unknown-key/);
  });

  it.each([
    ['an invalid draft', (text: string) => text.replace('threshold: 2', 'threshold: 9'), /can never be met/],
    [
      'another fleet',
      (text: string) => text.replace(/fleet: ".*"/, 'fleet: "fleet-another"'),
      /written for another fleet/,
    ],
    [
      'a wrong back hash',
      (text: string) => text.replace(/previous: "../, 'previous: "ff'),
      /does not follow version 1/,
    ],
  ])('refuses %s, exit 3, and commits nothing', async (_, edit, words) => {
    await draft(edit);
    const before = people.git('rev-parse', 'HEAD');
    const { code, err } = await sign('anna');
    expect(err).toMatch(words);
    expect(code).toBe(3);
    expect(people.git('rev-parse', 'HEAD')).toBe(before);
  });

  it('refuses a version that was edited since it was committed, one that is not next, and one that is not there', async () => {
    expect((await sign('anna')).err).toMatch(
      /there is no trust\/policy\/v0002\.yaml\n {2}help {5}windlass trust policy new/,
    );
    expect((await sign('anna', '1')).err).toMatch(/needs no signatures/);
    expect((await sign('anna', '3')).err).toMatch(/version 2 comes first/);
    await draft(moreApprovals);
    await sign('anna');
    writeFileSync(people.at(SECOND), `${people.read(SECOND)}# more\n`);
    const { code, err } = await sign('bert');
    expect([code, /changed since it was committed[\s\S]*git restore/.test(err)]).toEqual([3, true]);
  });

  it('stays in effect in a clone after its signatures have expired', async () => {
    await draft(moreApprovals);
    await sign('anna', '--expires', '3s');
    expect((await sign('bert', '--expires', '3s')).json['inEffect']).toBe(true);
    await new Promise((resolve) => setTimeout(resolve, 3_500));
    const { err } = await people.say('anna', 'request', 'purge', 'shop', '--volumes', 'all', '--reason', 'x');
    expect(err).toMatch(/policy {3}version 2/);
  });

  it('says what there is to say for wrong words', async () => {
    expect((await people.windlass(['trust', 'policy', 'sing'])).err).toMatch(
      /policy new, or windlass trust policy sign/,
    );
    expect((await people.windlass(['trust', 'policy', 'sign', 'v2'])).err).toMatch(/by its number/);
  });
});
