// `windlass check` as the CI of a pull request runs it: in a clone, without an engine.
import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openClone } from '../../src/adapters/git/clone.ts';
import { run } from '../../src/adapters/process/run.ts';
import { CloneDesk } from '../../src/surface/clone-desk.ts';
import { PROGRAM } from '../program.ts';
import { People } from './trust-people.ts';

describe('windlass check', () => {
  let people: People;
  const check = (...more: string[]) => {
    const env = { ...people.env, DOCKER_HOST: 'unix:///nowhere.sock', PATH: process.env['PATH'] ?? '' };
    const ran = spawnSync(process.execPath, [PROGRAM, 'check', ...more], { cwd: people.fleet, env, encoding: 'utf8' });
    return { code: ran.status, out: ran.stdout, err: ran.stderr };
  };
  beforeAll(async () => {
    people = new People();
    await people.begin();
  });
  afterAll(() => people.close());

  it('is content with what is right, and needs no engine', () => {
    expect(check()).toMatchObject({ code: 0, out: '1 stack, 0 errors; 0 requests\n' });
  });

  it('names the approvals that are missing and ends with 5 until they are there', async () => {
    await people.say('anna', 'request', 'purge', 'shop', '--volumes', 'all', '--reason', 'closed', '--id', 'one');
    expect(check()).toMatchObject({
      code: 5,
      out: expect.stringMatching(/missing 2 of bert, cleo: `windlass approve one`/),
    });
    await people.say('bert', 'approve', 'one');
    await people.say('cleo', 'approve', 'one');
    const { code, out } = check('-o', 'json');
    expect([code, JSON.parse(out).requests]).toEqual([
      0,
      [expect.objectContaining({ id: 'one', state: 'ready', asked: 'anna', approved: ['bert', 'cleo'] })],
    ]);
  }, 60_000);

  it('refuses, exit 5, two requests of the same bytes that stand side by side: neither runs until one is removed', async () => {
    people.commitFile('requests/before-one.yaml', people.read('requests/one.yaml'));
    const { code, out } = check();
    expect(code).toBe(5);
    expect(out).toMatch(/\*\*before-one\*\*: refused, request-copied: the same bytes as requests\/one\.yaml/);
    expect(out).toMatch(/\*\*one\*\*: refused, request-copied: the same bytes as requests\/before-one\.yaml/);
    expect(out).toMatch(/until all but one are removed/);
    for (const id of ['one', 'before-one']) {
      const said = await people.say('bert', 'approve', id);
      expect([said.code, said.json['refused']]).toEqual([5, 'request-copied']);
    }
  }, 60_000);

  it('warns of a request whose bytes stood under another name before, for that may have run', () => {
    people.git('rm', '-q', 'requests/one.yaml');
    people.git('commit', '-q', '-m', 'It ran');
    const { code, out } = check();
    expect(code).toBe(0);
    expect(out).toMatch(/\*\*before-one\*\*: ready[\s\S]*warning: requests\/one\.yaml held these very bytes before/);
  });

  const doubts = async (id: string): Promise<string> => {
    const desk = new CloneDesk(await openClone({ folder: people.fleet, run, env: people.env }));
    return (await desk.evaluate(await desk.authority(), id))?.doubts.join('\n') ?? 'no such request';
  };

  it('warns of a name that was removed and is there again', async () => {
    const text = people.read('requests/before-one.yaml');
    people.git('rm', '-q', 'requests/before-one.yaml');
    people.git('commit', '-q', '-m', 'It ran');
    people.commitFile('requests/one.yaml', text);
    expect(await doubts('one')).toMatch(/requests\/one\.yaml was removed and is there again[\s\S]*request-claimed/);
    people.git('rm', '-q', 'requests/one.yaml');
    people.git('commit', '-q', '-m', 'Tidy');
  });

  it('warns of a name that was approved with other words, and of no new one', async () => {
    await people.say('anna', 'request', 'purge', 'shop', '--volumes', 'all', '--reason', 'two', '--id', 'two');
    expect(await doubts('two')).toBe('');
    await people.say('bert', 'approve', 'two');
    people.commitFile('requests/two.yaml', people.read('requests/two.yaml').replace('two', 'three'));
    expect(await doubts('two')).toMatch(
      /requests\/two\.yaml was approved with other words before[\s\S]*request-claimed/,
    );
    people.git('rm', '-q', 'requests/two.yaml');
    people.git('commit', '-q', '-m', 'Tidy');
  });

  it('says that nobody reads a request whose name is none', () => {
    people.commitFile('requests/old/Two.yml', 'kind: Purge\n');
    expect(check()).toMatchObject({
      code: 3,
      err: expect.stringMatching(/requests\/old\/Two\.yml is no path of a request/),
    });
    people.git('rm', '-q', 'requests/old/Two.yml');
    people.git('commit', '-q', '-m', 'Tidy');
  });

  it('tells what is declared wrongly with its place, and ends with 3', () => {
    people.commitFile('stacks/bad/stack.yaml', 'apiVersion: windlass/v1\nkind: Stack\nnonsense: 1\n');
    expect(check()).toMatchObject({ code: 3, err: expect.stringMatching(/stacks\/bad\/stack\.yaml:3:1/) });
  });
});
