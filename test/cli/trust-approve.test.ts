// Approvals, rejections and withdrawals that people sign in their own clone.
import { writeFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { People, type PersonName } from './trust-people.ts';

const asked = new People();
let people: People;
const ID = 'purge-shop';
beforeAll(async () => {
  await asked.begin();
  await asked.say('anna', 'request', 'purge', 'shop', '--volumes', 'pgdata', '--reason', 'closed', '--id', ID);
});
beforeEach(() => {
  people = new People(asked);
});
afterEach(() => people.close());
afterAll(() => asked.close());

const approve = (name: PersonName, ...more: readonly string[]) => people.say(name, 'approve', ID, ...more);

describe('windlass approve', () => {
  it('makes an empty signed commit with one parent that counts and that git verifies', async () => {
    const parent = people.git('rev-parse', 'HEAD');
    const { code, json } = await approve('bert');
    expect([code, json['counts'], json['principal']]).toEqual([0, true, 'bert']);
    expect(json).toMatchObject({ state: 'awaitingApprovals', missing: 1, mayStillSign: ['cleo'] });
    expect(people.git('rev-parse', 'HEAD^@')).toBe(parent);
    expect(people.git('rev-parse', 'HEAD^{tree}')).toBe(people.git('rev-parse', `${parent}^{tree}`));
    expect(people.tryGit('verify-commit', 'HEAD')).toBe(0);
  });

  it('is ready when as many people approved as the rule asks for', async () => {
    await approve('bert');
    const { code, json } = await approve('cleo');
    expect([code, json['state'], json['missing']]).toEqual([0, 'ready', 0]);
  });

  it('shows environment, fleet, the whole file and its whole hash before it asks', async () => {
    people.be('bert');
    const before = people.git('rev-parse', 'HEAD');
    const { code, err } = await people.windlass(['approve', ID], { tty: true, answer: 'n' });
    for (const line of people.read(`requests/${ID}.yaml`).trim().split('\n')) expect(err).toContain(line);
    expect(err).toMatch(/sha256 {3}[0-9a-f]{64}/);
    expect(err).toMatch(/env {6}production/);
    expect(err).toMatch(/fleet {4}fleet-[0-9a-f]{24}/);
    expect(err).toMatch(/asked by anna/);
    expect(err).toMatch(/removed with all data in them, for good/);
    expect(code).toBe(4);
    expect(people.git('rev-parse', 'HEAD')).toBe(before);
  });

  it('speaks of the committed file, and warns of one that was edited in the work tree', async () => {
    const { json: clean } = await approve('bert');
    writeFileSync(people.at(`requests/${ID}.yaml`), people.read(`requests/${ID}.yaml`).replace('pgdata', 'other'));
    const { code, json, err } = await approve('cleo');
    expect(err).toMatch(/the file in the work tree differs; what is signed is the one shown here, of HEAD/);
    expect(err).not.toMatch(/other/);
    expect([code, json['sha256'], json['state']]).toEqual([0, clean['sha256'], 'ready']);
    expect(people.read(`requests/${ID}.yaml`)).toMatch(/other/);
  });

  it('does not count for whoever asked, and says so before and after, exit 5', async () => {
    const { code, json, err } = await approve('anna');
    expect(err).toMatch(/warning: anna asked for this, and the rule does not let requesters approve/);
    expect(err).toMatch(/will not count: requester-may-not-approve/);
    expect([code, json['counts']]).toEqual([5, false]);
  });

  it('does not count with a key that the policy does not name', async () => {
    const stranger = await approve('mallory');
    expect([stranger.code, (stranger.json['lacks'] as { reason: string }).reason]).toEqual([5, 'unknown-key']);
    expect(stranger.err).toMatch(/warning: the policy names nobody with this key/);
  });

  it('a second time counts once, and is no mistake: a controller whose memory is younger needs it', async () => {
    const first = await approve('bert');
    for (const again of [await approve('bert'), await approve('bert', '--tag')]) {
      expect([again.code, again.json['counts'], again.json['missing']]).toEqual([0, true, first.json['missing']]);
      expect(again.err).toMatch(/bert approved it already/);
      expect(again.err).toMatch(/signed by bert: .*counts where the older one does not/);
      expect(again.err).not.toMatch(/will not count|undo/);
    }
  });

  it('does not count when nobody whose signature counts asked for the file', async () => {
    people.commitFile('requests/unsigned.yaml', people.read(`requests/${ID}.yaml`).replace('"closed"', '"another"'));
    const { code, json, err } = await people.say('bert', 'approve', 'unsigned');
    expect(err).toMatch(/warning: request-unsigned/);
    expect([code, (json['lacks'] as { reason: string }).reason]).toEqual([5, 'nobody-asks']);
    expect(err).toMatch(/whoever asked signs and pushes it[\s\S]*git fetch --tags/);
  });

  it('shows a character that nobody would see, and says when the hint was changed since it was made', async () => {
    people.commitFile('requests/odd.yaml', people.read(`requests/${ID}.yaml`).replace('"closed"', '"clo\u202esed"'));
    expect((await people.say('bert', 'approve', 'odd')).err).toMatch(/reason: "clo\\u\{202e\}sed"/);
    expect((await people.say('bert', 'approve', ID)).err).not.toMatch(/anchor\.yaml was changed/);
    people.commitFile('trust/anchor.yaml', people.read('trust/anchor.yaml').replace('"production"', '"elsewhere"'));
    expect((await people.say('cleo', 'approve', ID)).err).toMatch(
      /anchor\.yaml was changed by [0-9a-f]{12}: compare it/,
    );
  });

  it('leaves out what is staged', async () => {
    writeFileSync(people.at('staged.txt'), 'mine');
    people.git('add', 'staged.txt');
    await approve('bert');
    expect(people.git('show', '--name-only', '--format=', 'HEAD')).toBe('');
    expect(people.git('status', '--porcelain')).toBe('A  staged.txt');
  });

  it('lives at most as long as the request and the rule, or as was said', async () => {
    const { json } = await approve('bert');
    const [, expires] = /expires: "([^"]+)"/.exec(people.read(`requests/${ID}.yaml`)) ?? [];
    expect(json['expires']).toBe(expires);
    const { json: short } = await approve('cleo', '--expires', '1h');
    expect(Date.parse(String(short['expires']))).toBeLessThanOrEqual(Date.now() + 3_600_000);
    expect(short['counts']).toBe(true);
  });

  it('by a tag is an annotated signed one on the commit that holds the file, and moves no branch', async () => {
    const holder = people.git('rev-parse', 'HEAD');
    people.commitFile('README.md', 'later\n');
    const head = people.git('rev-parse', 'HEAD');
    const { code, json } = await approve('bert', '--tag');
    expect([code, json['counts']]).toEqual([0, true]);
    expect(json['tag']).toMatch(/^windlass\/approve\/purge-shop\/[0-9a-f]{4}$/);
    expect(people.git('rev-parse', `${json['tag']}^{commit}`)).toBe(holder);
    expect(people.git('cat-file', '-t', String(json['tag']))).toBe('tag');
    expect(people.tryGit('verify-tag', String(json['tag']))).toBe(0);
    expect(people.git('rev-parse', 'HEAD')).toBe(head);
  });

  it('by a tag cures what a squash lost: request and approvals', async () => {
    const main = people.git('rev-parse', `HEAD~1`);
    await approve('bert');
    people.git('checkout', '-q', '-b', 'squashed', main);
    people.git('merge', '-q', '--squash', 'main');
    people.git('commit', '-q', '-m', 'Ask for purge (#1)');
    const lost = await approve('cleo', '--tag');
    expect([lost.code, lost.err.includes('request-unsigned')]).toEqual([5, true]);
    people.git('tag', '-d', String(lost.json['tag']));
    const again = await people.say('anna', 'request', 'sign', ID, '--tag');
    expect([again.code, again.json['state'], again.json['missing']]).toEqual([0, 'awaitingApprovals', 2]);
    await approve('bert', '--tag');
    const { code, json } = await approve('cleo', '--tag');
    expect([code, json['state']]).toEqual([0, 'ready']);
  });

  it('before anybody asks does not count yet, says until when the request may be dated, and counts as soon as it is there', async () => {
    people.commitFile('requests/lost.yaml', people.read(`requests/${ID}.yaml`).replace('"closed"', '"lost"'));
    const early = await people.say('bert', 'approve', 'lost', '--tag');
    const { reason, untilMs } = early.json['lacks'] as { reason: string; untilMs: number };
    expect([early.code, early.json['counts'], reason]).toEqual([5, false, 'nobody-asks']);
    const waitsMs = untilMs - Date.now();
    expect([waitsMs > 4 * 60_000, waitsMs <= 5 * 60_000]).toEqual([true, true]);
    expect(early.err).toMatch(
      /bert and does not count yet: nobody-asks\n {2}help +it counts as soon as whoever asks has signed/,
    );
    expect(early.err).toMatch(/git push origin refs\/tags\/windlass\/approve\/lost/);
    expect(early.err).not.toMatch(/will not count|git tag -d/);
    const { json } = await people.say('anna', 'request', 'sign', 'lost', '--tag');
    expect([json['state'], json['missing'], json['mayStillSign']]).toEqual(['awaitingApprovals', 1, ['cleo']]);
  });

  it('before anybody asks will not count when it lives too long, whoever asks later', async () => {
    people.commitFile('requests/lost.yaml', people.read(`requests/${ID}.yaml`).replace('"closed"', '"lost"'));
    const { code, json, err } = await people.say('bert', 'approve', 'lost', '--tag', '--expires', '90d');
    expect([code, json['lacks']]).toEqual([5, expect.objectContaining({ reason: 'statement-lifetime' })]);
    expect(err).toMatch(/will not count: statement-lifetime[\s\S]*git tag -d/);
  });

  it('is not stopped by a commit with words of a statement that is larger than any statement', async () => {
    const words = people.file('words');
    writeFileSync(words, `large\n\n${'x'.repeat(2 * 1024 * 1024)}\n\nWindlass-Type: approve\n`);
    people.git('commit', '-q', '--allow-empty', '--no-gpg-sign', '-F', words);
    expect((await approve('bert')).code).toBe(0);
  });

  it('works with HEAD detached only by a tag', async () => {
    people.git('checkout', '-q', '--detach');
    const { code, err } = await approve('bert');
    expect([code, /HEAD is detached[\s\S]*--tag/.test(err)]).toEqual([3, true]);
    expect((await approve('bert', '--tag')).code).toBe(0);
  });

  it('signs with an OpenPGP key', async () => {
    const { fingerprint, armored } = people.gpgKey('dora');
    people.git('rm', '-rq', 'trust', 'requests');
    people.git('commit', '-q', '-m', 'Begin anew');
    people.be('anna');
    await people.windlass([
      'trust',
      'init',
      '--threshold',
      '1',
      '--admin',
      `dora=${armored}`,
      '--admin',
      `anna=${people.file('anna.pub')}`,
    ]);
    await people.say('anna', 'request', 'purge', 'shop', '--volumes', 'all', '--reason', 'x', '--id', ID);
    people.git('config', 'gpg.format', 'openpgp');
    people.git('config', 'user.signingkey', fingerprint);
    for (const more of [[], ['--tag']]) {
      const { code, json } = await people.windlass(['approve', ID, '--yes', '-o', 'json', ...more]);
      // The second says the same again, which is no mistake.
      expect([code, json['principal'], json['state']]).toEqual([0, 'dora', 'ready']);
    }
    expect(people.tryGit('verify-commit', 'HEAD')).toBe(0);
  });

  it('of a request that is elsewhere names those that are here', async () => {
    const { code, err } = await people.say('bert', 'approve', 'purge-other');
    expect([
      code,
      /holds no requests\/purge-other\.yaml\n {2}there {4}purge-shop\n {2}help {5}git fetch/.test(err),
    ]).toEqual([3, true]);
    writeFileSync(people.at('requests/draft.yaml'), 'x');
    expect((await people.say('bert', 'approve', 'draft')).err).toMatch(
      /in the work tree only; what is not committed cannot be signed/,
    );
    expect((await people.say('bert', 'approve', '../x')).code).toBe(3);
  });

  it('refuses a request file that is a link, or not valid', async () => {
    people.sh('ln', '-s', 'purge-shop.yaml', people.at('requests/link.yaml'));
    people.git('add', 'requests/link.yaml');
    people.git('commit', '-q', '-m', 'Link');
    expect((await people.say('bert', 'approve', 'link')).code).toBe(3);
    people.commitFile('requests/bad.yaml', 'apiVersion: windlass/v1\nkind: Purge\nstak: shop\n');
    const { code, err } = await people.say('bert', 'approve', 'bad');
    expect([code, /SPEC_INVALID/.test(err)]).toEqual([3, true]);
  });
});

describe('windlass reject', () => {
  it('stops the request when an approver signs it, and an approval is refused afterwards', async () => {
    const { code, json } = await people.say('cleo', 'reject', ID, '--reason', 'not yet');
    expect([code, json['counts'], json['state']]).toEqual([0, true, 'rejected']);
    expect(people.git('log', '-1', '--format=%B')).toMatch(
      /^Reject purge-shop\n\nReason: not yet\n\nWindlass-Type: reject/,
    );
    const head = people.git('rev-parse', 'HEAD');
    const late = await approve('bert');
    expect([late.code, late.json['refused']]).toEqual([5, 'rejected-by-approver']);
    expect(people.git('rev-parse', 'HEAD')).toBe(head);
  });

  it('does not count when a stranger signs it', async () => {
    const { code, json } = await people.say('mallory', 'reject', ID);
    expect([code, json['state']]).toEqual([5, 'awaitingApprovals']);
  });
});

describe('windlass withdraw', () => {
  it('ends the request when whoever asked signs it', async () => {
    const { code, json } = await people.say('anna', 'withdraw', ID);
    expect([code, json['state']]).toEqual([0, 'withdrawn']);
  });

  it('takes back an approval, and nothing else', async () => {
    await approve('bert');
    const { code, json } = await people.say('bert', 'withdraw', ID);
    expect([code, json['state'], json['missing'], json['mayStillSign']]).toEqual([
      0,
      'awaitingApprovals',
      2,
      ['bert', 'cleo'],
    ]);
  });

  it('does not count for somebody who neither asked nor approved', async () => {
    const { code, json, err } = await people.say('cleo', 'withdraw', ID);
    expect(err).toMatch(/cleo neither asked for this nor approved it/);
    expect([code, (json['lacks'] as { reason: string }).reason]).toEqual([5, 'nothing-to-withdraw']);
  });
});

describe('windlass request sign', () => {
  it('asks again by a commit for a file whose signature was lost', async () => {
    people.commitFile('requests/lost.yaml', people.read(`requests/${ID}.yaml`).replace('"closed"', '"lost"'));
    const { code, json } = await people.say('anna', 'request', 'sign', 'lost');
    expect([code, json['counts'], json['missing']]).toEqual([0, true, 2]);
    expect(people.tryGit('verify-commit', 'HEAD')).toBe(0);
  });

  it('a second time of the same person counts once, and is no mistake: a controller whose memory is younger needs it', async () => {
    const { code, json, err } = await people.say('anna', 'request', 'sign', ID, '--tag');
    expect([code, json['counts']]).toEqual([0, true]);
    expect(err).toMatch(/signed by anna: .*counts where the older one does not/);
    expect(err).not.toMatch(/will not count|undo/);
  });

  it('says that a second signature of another person changes nothing, and does not count it', async () => {
    const { code, json, err } = await people.say('bert', 'request', 'sign', ID);
    expect(err).toMatch(/warning: anna asks already/);
    expect([code, (json['lacks'] as { reason: string }).reason]).toEqual([5, 'not-the-requester']);
  });
});
