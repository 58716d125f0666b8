// The keycloak sequence, killed before and after every call and every journal write.
import { describe, expect, it } from 'vitest';
import type { HookResult } from '../../src/hooks/run.ts';
import { FakeWorld } from './fake-world.ts';

const SEQUENCE = [
  { job: 'check' },
  { scale: { keycloak: 0 } },
  { job: 'bootstrap' },
  { scale: { keycloak: 'ref+hook://previous' } },
  { job: 'recover' },
];

/** The server refuses a bootstrap while it runs, and a recovery while it does not. */
function keycloak(): FakeWorld {
  const world = new FakeWorld({ keycloak: 2, db: 1 });
  const needs = (count: number) => (one: FakeWorld) => ({ exitCode: one.counts.get('keycloak') === count ? 0 : 9 });
  world.scripts.set('check', { lines: ['401 Unauthorized'] });
  world.scripts.set('bootstrap', needs(0));
  world.scripts.set('recover', needs(2));
  return world;
}

const plan = (world: FakeWorld, retries = 0) =>
  world.plan(
    'post_install',
    SEQUENCE.map((action) => ({ ...action, retries })),
    { check: { service: 'keycloak' }, bootstrap: { service: 'keycloak' }, recover: { service: 'keycloak' } },
  );

async function callsOf(retries: number): Promise<number> {
  const world = keycloak();
  const result = await world.run(world.start(plan(world, retries)).result);
  expect(result.outcome).toBe('succeeded');
  expect(world.counts.get('keycloak')).toBe(2);
  return world.process.calls;
}

const ended = (world: FakeWorld, job: string) => world.story.filter((line) => line === `${job} ended 0`).length;

function expectSound(world: FakeWorld, [result]: readonly HookResult[]): void {
  expect(world.counts.get('keycloak')).toBe(2);
  expect(world.counts.get('db')).toBe(1);
  expect(world.running()).toEqual([]);
  for (const job of ['check', 'bootstrap', 'recover']) expect(ended(world, job), job).toBeLessThanOrEqual(1);
  const [state] = world.journaled();
  expect(state).toEqual(result?.state);
  // It died before anything was written, and before anything was done.
  if (!state) return;
  // The record says what happened.
  expect(state.ended).not.toBeNull();
  expect(['succeeded', 'failed']).toContain(state.ended?.outcome);
  if (state.ended?.outcome === 'failed') expect(state.ended.message).toMatch(/the controller died while it ran/);
  else for (const job of ['check', 'bootstrap', 'recover']) expect(ended(world, job), job).toBe(1);
  for (const record of state.records) expect(record.endedAtMs).toBeGreaterThan(0);
  expect(new Set(state.records.map((record) => record.id)).size).toBe(state.records.length);
}

describe('L28: a crash of the controller in the keycloak sequence', async () => {
  for (const retries of [0, 1]) {
    const calls = await callsOf(retries);
    it(`is survived at each of ${2 * calls} points with ${retries} retries`, async () => {
      expect(2 * calls).toBeGreaterThanOrEqual(60);
      for (let at = 1; at <= calls; at++)
        for (const when of ['before', 'after'] as const) {
          const world = keycloak();
          world.restart({ at, when });
          await world.runOrDie(world.start(plan(world, retries)).result);
          expect(world.process.dead, `call ${at}`).toBe(true);
          // The controller is away for a while.
          await world.clock.advance(at % 2 === 0 ? 10 : 60_000);
          world.restart();
          expectSound(world, await world.run(world.resume()));
          if (retries > 0 && world.journaled().length > 0)
            expect(world.journaled()[0]?.ended?.outcome, `${when} call ${at}`).toBe('succeeded');
        }
    });
  }

  it('is survived when the controller dies again while it resumes, at any point', async () => {
    const calls = await callsOf(0);
    for (let at = 1; at <= calls; at += 2)
      for (let again = 1; again <= 12; again++) {
        const world = keycloak();
        world.restart({ at, when: again % 2 === 0 ? 'before' : 'after' });
        await world.runOrDie(world.start(plan(world)).result);
        world.restart({ at: again, when: at % 2 === 0 ? 'before' : 'after' });
        await world.runOrDie(world.resume());
        world.restart();
        const results = await world.run(world.resume());
        expect(world.counts.get('keycloak')).toBe(2);
        expect(world.running()).toEqual([]);
        for (const job of ['check', 'bootstrap', 'recover']) expect(ended(world, job)).toBeLessThanOrEqual(1);
        for (const result of results) expect(['succeeded', 'failed']).toContain(result.outcome);
      }
  });
});
