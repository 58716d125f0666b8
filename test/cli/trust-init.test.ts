// Trust init: the first policy and the anchor, in the clone of a person.
import { writeFileSync } from 'node:fs';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readAnchorHint } from '../../src/core/state/trust/anchor-hint.ts';
import { readPolicy, sha256Of } from '../../src/core/state/trust/policy-file.ts';
import { People } from './trust-people.ts';

const fresh = new People();
let people: People;
beforeEach(() => {
  people = new People(fresh);
});
afterEach(() => people.close());
afterAll(() => fresh.close());

const admin = (name: string) => ['--admin', `${name}=${people.file(`${name}.pub`)}`];
const start = () => people.commitFile('README.md', 'a fleet\n');
const policy = () => {
  const { version, diagnostics } = readPolicy({
    path: 'trust/policy/v0001.yaml',
    bytes: Buffer.from(people.read('trust/policy/v0001.yaml')),
  });
  expect(diagnostics).toEqual([]);
  return version!.policy;
};

describe('windlass trust init', () => {
  it('commits a valid policy that names every admin for every operation', async () => {
    start();
    const { code } = await people.say('anna', 'trust', 'init', ...admin('anna'), ...admin('bert'), ...admin('cleo'));
    expect(code).toBe(0);
    const { principals, admins, rules } = policy();
    expect(Object.keys(principals)).toEqual(['anna', 'bert', 'cleo']);
    expect(admins).toEqual({ members: ['anna', 'bert', 'cleo'], threshold: 2 });
    expect(rules.map((rule) => rule.operation)).toEqual(['restore', 'recover', 'clone', 'move', 'purge', 'deploy']);
    for (const rule of rules) expect(rule.stacks).toEqual(['*']);
    expect(rules.every((rule) => rule.requesterMayApprove === undefined)).toBe(true);
    expect(people.git('status', '--porcelain')).toBe('');
  });

  it('prints the block for the controller, with HEAD at the time as genesis and the hash of the committed file', async () => {
    start();
    const genesis = people.git('rev-parse', 'HEAD');
    people.be('anna');
    const { out, err } = await people.windlass(['trust', 'init', ...admin('anna'), ...admin('bert')]);
    const blob = people.sh('git', '-C', people.fleet, 'cat-file', 'blob', 'HEAD:trust/policy/v0001.yaml');
    expect(out).toBe(
      [
        'trust:',
        '  deploy: none',
        '  anchor:',
        `    fleet: "${policy().fleet}"`,
        '    ref: "refs/heads/main"',
        '    environment: "production"',
        `    genesis: "${genesis}"`,
        `    policy: "${sha256Of(Buffer.from(`${blob}\n`))}"`,
        '',
      ].join('\n'),
    );
    expect(err).toMatch(/windlass\.yaml on the host of the controller, never into this repository/);
    expect(err).toMatch(/start it before the first request/);
    expect(readAnchorHint(Buffer.from(people.read('trust/anchor.yaml')))).toMatchObject({ hint: { genesis } });
  });

  it('signs its commit when the person’s git signs, in a way that git verifies', async () => {
    start();
    const { json } = await people.say('anna', 'trust', 'init', ...admin('anna'), ...admin('bert'));
    expect(json['signed']).toBe(true);
    expect(people.tryGit('verify-commit', 'HEAD')).toBe(0);
  });

  it('commits unsigned when the person’s git does not sign', async () => {
    start();
    const { code, json } = await people.windlass(['trust', 'init', ...admin('anna'), '-o', 'json']);
    expect([code, json['signed']]).toEqual([0, false]);
    expect(people.tryGit('verify-commit', 'HEAD')).not.toBe(0);
  });

  it('takes an OpenPGP key, and several keys of one person', async () => {
    start();
    const { armored } = people.gpgKey('dora');
    const { code, err } = await people.say(
      'anna',
      'trust',
      'init',
      ...admin('anna'),
      ...['--admin', `anna=${people.file('bert.pub')}`],
      '--admin',
      `dora=${armored}`,
    );
    expect([code, err.includes('error')]).toEqual([0, false]);
    expect(policy().principals['anna']?.ssh).toHaveLength(2);
    expect(policy().principals['dora']?.openpgp).toHaveLength(1);
  });

  it('lets whoever asks approve only where there are too few people, and says so', async () => {
    start();
    people.be('anna');
    const { code, err } = await people.windlass(['trust', 'init', ...admin('anna')]);
    expect(code).toBe(0);
    expect(err).toMatch(/whoever asks may also approve/);
    expect(
      policy()
        .rules.slice(0, 5)
        .every((rule) => rule.requesterMayApprove === true),
    ).toBe(true);
  });

  it('takes another environment and ref', async () => {
    start();
    const { json } = await people.say(
      'anna',
      'trust',
      'init',
      ...admin('anna'),
      '--environment',
      'staging',
      '--ref',
      'live',
    );
    expect(json['trust']).toMatchObject({ deploy: 'none', anchor: { environment: 'staging', ref: 'refs/heads/live' } });
  });

  it('leaves out of its commit what the person has staged', async () => {
    start();
    writeFileSync(people.at('staged.txt'), 'mine');
    people.git('add', 'staged.txt');
    await people.say('anna', 'trust', 'init', ...admin('anna'));
    expect(people.git('show', '--name-only', '--format=', 'HEAD').split('\n')).toEqual([
      'trust/anchor.yaml',
      'trust/policy/v0001.yaml',
    ]);
    expect(people.git('status', '--porcelain')).toBe('A  staged.txt');
  });

  it('runs no hook of the clone', async () => {
    start();
    writeFileSync(people.at('.git/hooks/post-commit'), '#!/bin/sh\ntouch ran\n', { mode: 0o755 });
    writeFileSync(people.at('.git/hooks/reference-transaction'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
    expect((await people.say('anna', 'trust', 'init', ...admin('anna'))).code).toBe(0);
    expect(people.git('status', '--porcelain')).toBe('');
  });

  it.each([
    ['no admin', () => [], /name at least one admin/],
    ['a file that is not there', () => ['--admin', 'anna=/no/such.pub'], /cannot be read: ENOENT/],
    ['a secret key', () => ['--admin', `anna=${people.file('anna')}`], /secret key; give the public half/],
    ['a name with blanks', () => ['--admin', `Anna B=${people.file('anna.pub')}`], /NAME=KEY-FILE/],
    [
      'a key under two names',
      () => [...admin('anna'), '--admin', `bert=${people.file('anna.pub')}`],
      /is also a key of/,
    ],
    ['a threshold beyond the admins', () => [...admin('anna'), '--threshold', '2'], /--threshold takes 1 to 1/],
    ['a ref with a blank', () => [...admin('anna'), '--ref', 'a b'], /is no branch/],
  ])('refuses %s, exit 3, and commits nothing', async (_, argv, words) => {
    start();
    const before = people.git('rev-parse', 'HEAD');
    const { code, err } = await people.windlass(['trust', 'init', ...argv()]);
    expect(err).toMatch(words);
    expect(code).toBe(3);
    expect(people.git('rev-parse', 'HEAD')).toBe(before);
    expect(people.git('status', '--porcelain')).toBe('');
  });

  it('refuses a fleet that has a policy', async () => {
    await people.begin();
    const { code, err } = await people.say('anna', 'trust', 'init', ...admin('anna'));
    expect([code, /has a policy[\s\S]*windlass trust policy new/.test(err)]).toEqual([3, true]);
  });

  it('refuses a clone where something of trust is not committed', async () => {
    start();
    people.sh('mkdir', '-p', people.at('trust'));
    writeFileSync(people.at('trust/anchor.yaml'), 'mine\n');
    const { code, err } = await people.say('anna', 'trust', 'init', ...admin('anna'));
    expect([code, /trust\/anchor\.yaml differs from HEAD/.test(err)]).toEqual([3, true]);
    expect(people.read('trust/anchor.yaml')).toBe('mine\n');
  });

  it('refuses a clone without a commit, a detached HEAD, a folder that is no clone, and a merge under way', async () => {
    expect((await people.say('anna', 'trust', 'init', ...admin('anna'))).err).toMatch(/no commit yet/);
    start();
    people.git('checkout', '-q', '--detach');
    expect((await people.say('anna', 'trust', 'init', ...admin('anna'))).err).toMatch(
      /HEAD is detached[\s\S]*git switch/,
    );
    people.git('checkout', '-q', 'main');
    people.git('update-ref', 'MERGE_HEAD', 'HEAD');
    expect((await people.say('anna', 'trust', 'init', ...admin('anna'))).err).toMatch(/under way/);
    people.git('update-ref', '-d', 'MERGE_HEAD');
    people.sh('rm', '-rf', people.at('.git'));
    const { code, err } = await people.windlass(['trust', 'init', ...admin('anna')]);
    expect([code, /no work tree of git/.test(err)]).toEqual([3, true]);
  });

  it('refuses a folder of trust that is a link out of the clone', async () => {
    start();
    people.sh('mkdir', people.file('elsewhere'));
    people.sh('ln', '-s', people.file('elsewhere'), people.at('trust'));
    people.git('add', 'trust');
    people.git('commit', '-q', '-m', 'Link');
    const { code, err } = await people.say('anna', 'trust', 'init', ...admin('anna'));
    expect([code, /trust is a link/.test(err)]).toEqual([3, true]);
    expect(people.sh('ls', people.file('elsewhere'))).toBe('');
  });

  it('says what to tell git when git does not know who commits', async () => {
    start();
    people.git('config', '--unset', 'user.name');
    people.git('config', '--unset', 'user.email');
    people.git('config', 'user.useConfigOnly', 'true');
    const { code, err } = await people.windlass(['trust', 'init', ...admin('anna')]);
    expect(code).not.toBe(0);
    expect(err).toMatch(/git config user\.name/);
  });
});
