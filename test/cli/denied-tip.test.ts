// A newest commit that the controller does not accept: `requests` and `doctor` say so, whatever a request would be worth by itself.
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { AnchorHint } from '../../src/core/state/trust/anchor-hint.ts';
import { openHouse } from '../../src/wire.ts';
import type { SimHouse } from '../sim/sim-house.ts';
import { type Ran, windlass } from './fake-terminal.ts';
import { People } from './trust-people.ts';

const people = new People();
afterAll(() => people.close());
let hint: AnchorHint;

beforeAll(async () => {
  people.commitFile('stacks/shop/compose.yaml', 'services: { web: { image: "nginx:1" } }\n', 'Begin');
  const admins = (['anna', 'bert', 'cleo'] as const).flatMap((name) => [
    '--admin',
    `${name}=${people.file(`${name}.pub`)}`,
  ]);
  const { json } = await people.say('anna', 'trust', 'init', ...admins, '--threshold', '1');
  hint = (json['trust'] as { anchor: AnchorHint }).anchor;
  expect((await controller('none', 'trust', 'accept', people.git('rev-parse', 'HEAD'))).code).toBe(0);
  await people.say('anna', 'request', 'purge', 'shop', '--volumes', 'all', '--reason', 'closed', '--id', 'one');
  await people.say('bert', 'approve', 'one');
});

/** As on its host, without an engine. */
async function controller(deploy: 'none' | 'head' | 'all', ...argv: readonly string[]): Promise<Ran> {
  const { fleet, ref, environment, genesis, policy } = hint;
  const house = await openHouse({
    stateDir: join(people.folder, 'state'),
    source: { name: 'main', url: people.fleet, ref: 'main' },
    host: 'unix:///nowhere.sock',
    trust: {
      deploy,
      anchor: {
        ...{ fleetId: fleet, ref, environment, genesis, policySha256: policy },
        ...{ clockSkewMs: 5 * 60_000, maxLifetimeMs: 7 * 24 * 3_600_000 },
      },
    },
  });
  try {
    return await windlass({ house, run: (work: Promise<number>) => work } as unknown as SimHouse, argv);
  } finally {
    await house.close();
  }
}

/** The lines of `doctor` about trust. */
const doctorOn = async (deploy: 'none' | 'head' | 'all'): Promise<string> =>
  /^(?:ok {2}|FAIL) trust .*(?:\n {5}.*)*/m.exec((await controller(deploy, 'doctor')).out)?.[0] ?? '';

it('says nothing of a commit that is accepted', async () => {
  expect(await controller('head', 'requests', 'one')).toMatchObject({
    code: 0,
    err: '',
    out: expect.stringMatching(/ready/),
  });
  expect(await doctorOn('head')).toMatch(/^ok/);
});

it('tells with each list and each request that nothing runs, and the cure, which works', async () => {
  people.git('-c', 'commit.gpgsign=false', 'commit', '-q', '--allow-empty', '-m', 'Merge pull request #1');
  const tip = people.git('rev-parse', 'HEAD').slice(0, 12);
  for (const more of [[], ['one']]) {
    const { code, out, err } = await controller('head', 'requests', ...more);
    expect([code, out]).toEqual([0, expect.stringMatching(/ready/)]);
    expect(err).toMatch(new RegExp(`not accepted \\(NotVerified: commit ${tip} .*no request runs until it is`));
    expect(err).toMatch(/help {5}somebody whom a `deploy` rule of the policy names .*git commit -S --allow-empty/);
  }
  expect(await doctorOn('head')).toMatch(
    /^FAIL trust .*not accepted \(NotVerified: [\s\S]*help: .*git commit -S --allow-empty/,
  );
  // An empty commit on top would not make the others signed.
  expect(await doctorOn('all')).toMatch(/^FAIL trust [\s\S]*help: every commit must be signed/);
  expect((await controller('none', 'requests')).err).toBe('');

  people.be('cleo');
  people.git('commit', '-q', '-S', '--allow-empty', '-m', 'Accept');
  expect((await controller('head', 'requests', 'one')).err).toBe('');
  expect(await doctorOn('head')).toMatch(/^ok/);
}, 60_000);

it('tells of a branch that was rewritten', async () => {
  expect((await controller('none', 'trust', 'accept', people.git('rev-parse', 'HEAD'))).code).toBe(0);
  people.git('commit', '-q', '--amend', '--allow-empty', '-m', 'Rewritten');
  expect((await controller('none', 'requests')).err).toMatch(/HistoryRewritten: .*windlass trust accept TIP/s);
  expect(await doctorOn('none')).toMatch(/^FAIL trust .*rewritten/);
}, 60_000);

it('doctor sends nobody to doctor', async () => {
  const { out } = await controller('none', 'doctor');
  expect(out).toMatch(/FAIL engine/);
  expect(out).not.toContain('windlass doctor');
});
