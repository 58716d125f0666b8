// `windlass check` on what a branch makes of trust/, and in clones as the CI of a forge leaves them.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openClone } from '../../src/adapters/git/clone.ts';
import { run } from '../../src/adapters/process/run.ts';
import { openHouse } from '../../src/wire.ts';
import { PROGRAM } from '../program.ts';
import type { SimHouse } from '../sim/sim-house.ts';
import { type Ran, windlass } from './fake-terminal.ts';
import { People } from './trust-people.ts';

const people = new People();
afterAll(() => people.close());

/** In this process, for what starts one takes seconds on a busy machine. */
async function check(folder = people.fleet): Promise<Ran> {
  const house = await openHouse({
    stateDir: mkdtempSync(join(people.folder, 'scratch-')),
    source: { name: 'main', url: people.fleet, ref: 'HEAD' },
    host: 'unix:///nowhere.sock',
  });
  try {
    const sim = { house, run: (work: Promise<number>) => work } as unknown as SimHouse;
    return await windlass(sim, ['check'], { clone: () => openClone({ folder, run, env: people.env }) });
  } finally {
    await house.close();
  }
}

/** As a CI starts it. */
const started = (cwd: string) => {
  const env = { ...people.env, DOCKER_HOST: 'unix:///nowhere.sock', PATH: process.env['PATH'] ?? '' };
  const ran = spawnSync(process.execPath, [PROGRAM, 'check'], { cwd, env, encoding: 'utf8' });
  return { code: ran.status, out: ran.stdout, err: ran.stderr };
};

async function nextVersion(number: number, edit = (text: string) => text): Promise<void> {
  const path = `trust/policy/v${String(number).padStart(4, '0')}.yaml`;
  expect((await people.windlass(['trust', 'policy', 'new'])).code).toBe(0);
  people.commitFile(path, edit(people.read(path)), `Draft version ${number}`);
}

/** Main with version 2 in effect, as it was fetched last. */
let main = '';
beforeAll(async () => {
  await people.begin();
  await nextVersion(2);
  for (const name of ['anna', 'bert'] as const)
    expect((await people.say(name, 'trust', 'policy', 'sign')).code).toBe(0);
  main = people.git('rev-parse', 'HEAD');
  people.git('update-ref', 'refs/remotes/origin/main', main);
}, 60_000);
beforeEach(() => people.git('switch', '-q', '-C', 'branch', main));

const anchor = (text: string) => text.replace(/fleet-[0-9a-f]+/, 'fleet-000000000000000000000000');

describe('windlass check of a branch', () => {
  it('says nothing of trust/ where that is left alone', async () => {
    people.commitFile('stacks/blog/compose.yaml', 'services: { web: { image: "nginx:1" } }\n');
    expect(await check()).toMatchObject({ code: 0, out: '2 stacks, 0 errors; 0 requests\n' });
  });

  it.each<[string, () => void, RegExp]>([
    [
      'an edit of the version in effect',
      () => people.commitFile('trust/policy/v0002.yaml', people.read('trust/policy/v0002.yaml').replaceAll('7d', '8d')),
      /- \*\*trust\/policy\/v0002\.yaml\*\* is altered, and is in effect[^\n]*\n {2}refused: put it back/,
    ],
    [
      'an edit of the version that the anchor names',
      () => people.commitFile('trust/policy/v0001.yaml', `${people.read('trust/policy/v0001.yaml')}# mine\n`),
      /v0001\.yaml\*\* is altered/,
    ],
    [
      'the removal of trust/',
      () => {
        people.git('rm', '-q', '-r', 'trust');
        people.git('commit', '-q', '-m', 'Away');
      },
      /- \*\*trust\/anchor\.yaml\*\* is removed[\s\S]*v0001\.yaml\*\* is removed[\s\S]*v0002\.yaml\*\* is removed/,
    ],
    [
      'another fleet in the anchor',
      () => people.commitFile('trust/anchor.yaml', anchor(people.read('trust/anchor.yaml'))),
      /- \*\*trust\/anchor\.yaml\*\* names another anchor than before[^\n]*\n {2}refused: the anchor is never changed/,
    ],
    [
      'another branch in the anchor, though no remote has that',
      () =>
        people.commitFile('trust/anchor.yaml', people.read('trust/anchor.yaml').replace('heads/main', 'heads/mine')),
      /names another anchor/,
    ],
    [
      'a version that does not follow the one in effect',
      () => {
        const text = people.read('trust/policy/v0002.yaml').replace('version: 2', 'version: 3');
        people.commitFile('trust/policy/v0003.yaml', text);
      },
      /v0003\.yaml\*\* is ignored: policy-back-hash/,
    ],
  ])('refuses %s', async (_, edit, says) => {
    edit();
    // Another commit on top hides nothing.
    people.commitFile('README.md', 'words\n');
    const { code, out } = await check();
    expect([code, out]).toEqual([5, expect.stringMatching(says)]);
    expect(out).toContain(`trust/ against origin/main (${main.slice(0, 12)}):\n`);
  });

  it('tells who must sign a next version, and refuses nothing', async () => {
    await nextVersion(3);
    const { code, out } = await check();
    expect(out).toMatch(
      /v0003\.yaml\*\* is not in effect until 2 of anna, bert, cleo sign it: `windlass trust policy sign 3`/,
    );
    expect(code).toBe(0);
    await people.say('anna', 'trust', 'policy', 'sign');
    await people.say('cleo', 'trust', 'policy', 'sign');
    expect(await check()).toMatchObject({ code: 0, out: expect.stringMatching(/v0003\.yaml\*\* has all signatures/) });
  }, 60_000);

  it('takes what came into main since the branch was made for no change of the branch', async () => {
    people.git('switch', '-q', '-C', 'branch', `${main}~3`);
    people.commitFile('README.md', 'words\n');
    expect(await check()).toMatchObject({ code: 0, out: expect.not.stringMatching(/trust\//) });
  });

  it('compares main itself with the commit before', async () => {
    people.commitFile('trust/policy/v0002.yaml', `${people.read('trust/policy/v0002.yaml')}# mine\n`);
    people.git('update-ref', 'refs/remotes/origin/main', 'HEAD');
    try {
      expect(await check()).toMatchObject({
        code: 5,
        out: expect.stringMatching(/against the commit before .*[\s\S]*altered/),
      });
    } finally {
      people.git('update-ref', 'refs/remotes/origin/main', main);
    }
  });
});

describe('windlass check in the clone of a CI', () => {
  it('takes a detached HEAD as it is', () => {
    people.commitFile('trust/anchor.yaml', anchor(people.read('trust/anchor.yaml')));
    people.git('checkout', '-q', '--detach');
    expect(started(people.fleet)).toMatchObject({ code: 5, out: expect.stringMatching(/against origin\/main/) });
  }, 60_000);

  it('does not take a clone that git refuses to read for none', async () => {
    const folder = people.file('refused');
    mkdirSync(folder);
    writeFileSync(join(folder, '.git'), 'gitdir: /nowhere\n');
    const { code, err } = await check(folder);
    expect(code).not.toBe(0);
    expect(err).toMatch(/error\[CLONE_REFUSED\]: git does not read the clone around .*\n(?:.*\n)*? {2}\| fatal: /);
  });

  it('does not take a base that git fails to read for one where nothing was trusted', async () => {
    people.commitFile('trust/policy/v0003.yaml', 'of main alone\n');
    const tree = people.git('rev-parse', 'HEAD:trust/policy');
    people.git('update-ref', 'refs/remotes/origin/main', 'HEAD');
    people.git('reset', '-q', '--hard', main);
    people.commitFile('trust/policy/v0002.yaml', `${people.read('trust/policy/v0002.yaml')}# mine\n`);
    const path = people.at(`.git/objects/${tree.slice(0, 2)}/${tree.slice(2)}`);
    renameSync(path, `${path}-away`);
    try {
      const { code, err } = await check();
      expect([code, err]).toEqual([3, expect.stringMatching(/error\[CLONE_REFUSED\]: git ls-tree failed/)]);
    } finally {
      renameSync(`${path}-away`, path);
      people.git('update-ref', 'refs/remotes/origin/main', main);
    }
  });

  it('finds the clone from a folder below its top', () => {
    expect(started(people.at('stacks/shop'))).toMatchObject({ code: 0, out: '1 stack, 0 errors; 0 requests\n' });
  }, 60_000);

  it('has one line for a shallow clone', () => {
    people.sh('git', 'clone', '-q', '--depth', '1', `file://${people.fleet}`, people.file('shallow'));
    const { code, err } = started(people.file('shallow'));
    expect([code, err.match(/help/g)?.length]).toEqual([3, 1]);
    expect(err).toMatch(/this clone is shallow: .*\n {2}help {5}git fetch --unshallow\n/);
  }, 60_000);
});
