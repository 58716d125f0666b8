// What people sign in a clone, as a controller of the same fleet judges it from its own configuration.
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { PROGRAM } from '../program.ts';
import { People } from './trust-people.ts';

const exec = promisify(execFile);
const people = new People();
afterAll(() => people.close());

beforeAll(async () => {
  people.commitFile('stacks/shop/compose.yaml', 'services: { web: { image: "nginx:1" } }\n', 'Begin');
  people.be('anna');
  const admins = (['anna', 'bert', 'cleo'] as const).flatMap((name) => [
    '--admin',
    `${name}=${people.file(`${name}.pub`)}`,
  ]);
  const { out } = await people.windlass(['trust', 'init', ...admins]);
  writeFileSync(people.file('windlass.yaml'), `apiVersion: windlass/v1\nkind: Controller\n${out}`);
});

async function controller(...argv: readonly string[]): Promise<Record<string, unknown>> {
  const flags = [
    '--config',
    people.file('windlass.yaml'),
    '--source',
    people.fleet,
    '--state',
    join(people.folder, 'state'),
  ];
  const { stdout } = await exec(process.execPath, [PROGRAM, ...argv, ...flags, '-o', 'json'], { env: people.env });
  return JSON.parse(stdout) as Record<string, unknown>;
}

it('the controller takes the printed block, and finds a request ready by a commit and a tag', async () => {
  // What is signed before a controller has accepted anything counts for nothing.
  await controller('trust', 'accept', people.git('rev-parse', 'HEAD'));
  const asked = await people.say(
    'anna',
    'request',
    'purge',
    'shop',
    '--volumes',
    'all',
    '--reason',
    'closed',
    '--id',
    'one',
  );
  expect(asked.code).toBe(0);
  expect(await controller('requests', 'one')).toMatchObject({ evaluation: { state: 'awaitingApprovals', missing: 2 } });
  await people.say('bert', 'approve', 'one');
  await people.say('cleo', 'approve', 'one', '--tag');
  expect(await controller('requests', 'one')).toMatchObject({
    evaluation: { state: 'ready', requester: { principal: 'anna' }, subject: asked.json['sha256'] },
  });
}, 60_000);

it('the program itself works in the clone around it, with the environment of its user', async () => {
  await people.say('anna', 'request', 'purge', 'shop', '--volumes', 'all', '--reason', 'again', '--id', 'two');
  people.be('bert');
  // What points git to another repository is not handed on.
  const env = { ...people.env, GIT_DIR: '/nowhere', GIT_AUTHOR_DATE: '2001-01-01T00:00:00Z' };
  const { stdout } = await exec(process.execPath, [PROGRAM, 'approve', 'two', '--yes', '-o', 'json'], {
    env,
    cwd: people.fleet,
  });
  expect(JSON.parse(stdout)).toMatchObject({ id: 'two', principal: 'bert', counts: true, missing: 1 });
  expect(people.tryGit('verify-commit', 'HEAD')).toBe(0);
}, 60_000);
