// An existing repository of ten plain Compose projects, unchanged: multi-file, include, extends, profiles, env_file, configs, secrets, build.
// And the 39 public projects of awesome-compose: validate, render and plan (their images cannot be had here).
import { cpSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containersOf, docker, Fleet, mutationsDuring } from './fleet.ts';

const FIXTURES = resolve(import.meta.dirname, '../../fixtures');

describe('a repository of ten Compose projects', () => {
  let fleet: Fleet;
  let projects: readonly string[];
  /** Other suites use the same engine, so only what these projects own counts. */
  const containers = (): Record<string, string> => Object.assign({}, ...projects.map(containersOf));
  const ownMutations = async (work: () => Promise<unknown>): Promise<readonly string[]> => {
    const own = new Set(Object.keys(containers()));
    return (await mutationsDuring(work)).filter((line) => {
      const name = line.split(' ').at(-1) ?? '';
      return (
        own.has(name) || projects.some((project) => name.startsWith(`${project}-`) || name.startsWith(`${project}_`))
      );
    });
  };
  beforeAll(async () => {
    fleet = new Fleet();
    cpSync(join(FIXTURES, 'compose-fleet'), fleet.clone, { recursive: true });
    fleet.push({}, 'Ten projects');
    const planned = JSON.parse((await fleet.windlass('plan', '-o', 'json')).out) as { stacks: { stack: string }[] };
    projects = planned.stacks.map((one) => one.stack);
    fleet.owns(...projects);
    fleet.removeLeftovers();
    expect(planned.stacks.length).toBeGreaterThanOrEqual(10);
  });
  afterAll(() => fleet.dispose());

  it('is deployed as it is', async () => {
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code, applied.err).toBe(0);
  });

  it('has an empty second plan, and a second apply makes no mutating call', async () => {
    const plan = await fleet.windlass('plan', '--detailed-exitcode');
    expect(plan.code, plan.out).toBe(0);
    expect(await ownMutations(() => fleet.windlass('apply', '--yes'))).toEqual([]);
    // The same look does see a mutation when there is one.
    const [name = ''] = Object.keys(containers());
    const seen = await ownMutations(
      async () => docker('rename', name, `${name}-x`) + docker('rename', `${name}-x`, name),
    );
    expect(seen).not.toEqual([]);
  });

  it('gets exactly one container made anew when one mounted file changes, and the preview says why', async () => {
    const before = containers();
    const mount = 'included/cache/cache.conf';
    fleet.push({ [mount]: `${readFileSync(join(fleet.clone, mount), 'utf8')}\n` }, 'Edit one mounted file');
    const plan = await fleet.windlass('plan', '--detailed-exitcode');
    expect(plan.code, plan.out + plan.err).toBe(2);
    expect(plan.out).toMatch(/~ recreate .*a mounted file changed/);
    expect(plan.out).toMatch(/Plan: 1 to recreate/);
    expect((await fleet.windlass('apply', '--yes')).code).toBe(0);
    const after = containers();
    expect(Object.keys(after).sort()).toEqual(Object.keys(before).sort());
    expect(Object.keys(after).filter((name) => after[name] !== before[name])).toHaveLength(1);
  });
});

describe('the 39 projects of awesome-compose', () => {
  let fleet: Fleet;
  beforeAll(() => {
    fleet = new Fleet();
    cpSync(join(FIXTURES, 'awesome-compose'), fleet.clone, { recursive: true });
    fleet.push({}, 'Public projects');
  });
  afterAll(() => fleet.dispose());

  it('validate', async () => {
    const validated = await fleet.windlass('validate');
    expect(validated.err).toMatch(/39 stacks: 0 errors/);
    expect(validated.code).toBe(0);
  });

  it('render and plan, and ports that several want are named', async () => {
    const plan = JSON.parse((await fleet.windlass('plan', '-o', 'json')).out) as {
      stacks: { state: string; code?: string }[];
    };
    expect(plan.stacks).toHaveLength(39);
    expect(plan.stacks.filter((one) => one.state === 'install').length).toBeGreaterThan(10);
    for (const one of plan.stacks) expect(['install', 'refused'].includes(one.state)).toBe(true);
    for (const one of plan.stacks) if (one.state === 'refused') expect(one.code).toBe('PORT_TAKEN');
    expect((await fleet.windlass('render', 'wordpress-mysql')).out).toMatch(/MYSQL_PASSWORD: \(secret\)/);
  });
});
