// Random sequences in a random world: whatever fails, is cancelled, hangs, goes away or dies, the services come back to their counts.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { flattened, type HookAction } from '../../src/core/hook/action.ts';
import type { HookState } from '../../src/core/hook/run-state.ts';
import type { Action } from '../../src/core/spec/hooks.ts';
import type { Job } from '../../src/core/spec/job.ts';
import type { HookResult } from '../../src/hooks/run.ts';
import { FakeWorld, type JobScript, RUN } from '../hooks/fake-world.ts';

const RUNS = 1_000;
const SERVICES = ['a', 'b'] as const;

interface Draft {
  readonly action: Action;
  readonly script: JobScript | null;
  readonly yes: readonly Draft[];
  readonly no: readonly Draft[];
}

const script: fc.Arbitrary<JobScript> = fc.record({
  lines: fc.oneof(
    { weight: 6, arbitrary: fc.constant(['working']) },
    { weight: 1, arbitrary: fc.constant([' ::windlass:halt:: ']) },
    { weight: 1, arbitrary: fc.constant(['::windlass:set state=on::', 'say ::windlass:halt:: please']) },
  ),
  exitCode: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(3) }),
  durationMs: fc.constantFrom(0, 50, 900, 5_000, 3_600_000),
});

const common = fc.record(
  {
    on_failure: fc.constantFrom('abort', 'continue'),
    retries: fc.integer({ min: 0, max: 2 }),
    weight: fc.integer({ min: -1, max: 1 }),
    timeout: fc.constantFrom('100ms', '1s', '10s'),
  },
  { requiredKeys: [] },
) as fc.Arbitrary<Partial<Pick<Action, 'on_failure' | 'retries' | 'weight' | 'timeout'>>>;

const leaf = (action: fc.Arbitrary<object>): fc.Arbitrary<Draft> =>
  fc
    .tuple(action, common)
    .map(([own, rest]) => ({ action: { ...own, ...rest } as Action, script: null, yes: [], no: [] }));

const target = fc.oneof(
  fc.integer({ min: 0, max: 3 }),
  fc.constantFrom('ref+hook://previous', 'ref+cluster://node-count'),
);
const job: fc.Arbitrary<Draft> = fc
  .tuple(common, script)
  .map(([rest, told]) => ({ action: { job: 'later', ...rest } as Action, script: told, yes: [], no: [] }));
const simple: fc.Arbitrary<Draft> = fc.oneof(
  { weight: 5, arbitrary: job },
  {
    weight: 5,
    arbitrary: leaf(fc.record({ scale: fc.dictionary(fc.constantFrom(...SERVICES), target, { minKeys: 1 }) })),
  },
  { weight: 1, arbitrary: leaf(fc.constant({ halt: true })) },
  { weight: 1, arbitrary: leaf(fc.constant({ sleep: '5s' })) },
  { weight: 1, arbitrary: leaf(fc.constant({ 'wait-healthy': 'a' })) },
  { weight: 1, arbitrary: leaf(fc.constant({ exec: { service: 'a', command: ['true'] } })) },
  { weight: 1, arbitrary: leaf(fc.constant({ http: { url: 'http://127.0.0.1/' } })) },
  { weight: 1, arbitrary: leaf(fc.constant({ 'wait-healthy': true, retries: 1 })) },
);
const branching: fc.Arbitrary<Draft> = fc
  .tuple(fc.array(simple, { maxLength: 3 }), fc.array(simple, { maxLength: 2 }), common)
  .map(([yes, no, rest]) => ({
    action: { if: { value: 'ref+hook://outputs/state', equals: 'on' }, ...rest } as unknown as Action,
    script: null,
    yes,
    no,
  }));
const drafts = fc.array(fc.oneof({ weight: 6, arbitrary: simple }, { weight: 1, arbitrary: branching }), {
  maxLength: 7,
});

const chaos = fc.record({
  crashes: fc.array(fc.record({ at: fc.integer({ min: 1, max: 40 }), when: fc.constantFrom('before', 'after') }), {
    maxLength: 3,
  }),
  stop: fc.option(
    fc.record({ kind: fc.constantFrom('cancel', 'supersede', 'abort'), at: fc.integer({ min: 1, max: 40 }) }),
    { freq: 3 },
  ),
  outage: fc.option(fc.record({ at: fc.integer({ min: 1, max: 40 }), ms: fc.constantFrom(200, 3_000, 20_000) }), {
    freq: 3,
  }),
  sick: fc.boolean(),
  phase: fc.constantFrom('pre_update', 'post_install'),
});

/** Names each job, so that each has a script of its own. */
function declare(world: FakeWorld, list: readonly Draft[], jobs: Record<string, Partial<Job>>): Action[] {
  return list.map(({ action, script: told, yes, no }) => {
    if ('if' in action)
      // biome-ignore lint/suspicious/noThenProperty: a word of the hook language
      return { ...action, then: declare(world, yes, jobs), else: declare(world, no, jobs) } as Action;
    if (!told) return action;
    const name = `j${Object.keys(jobs).length}`;
    jobs[name] = { service: 'a' };
    world.scripts.set(name, told);
    return { ...action, job: name } as Action;
  });
}

const jobNameOf = (action: HookAction): string | null => (action.kind === 'job' ? action.job.name : null);

function expectSound(world: FakeWorld, before: ReadonlyMap<string, number>, state: HookState): void {
  const { ended, records, actions } = state;
  expect(ended).not.toBeNull();
  expect(ended?.outcome).not.toBe('restoreFailed');
  for (const [service, count] of before) expect(world.counts.get(service), service).toBe(count);
  expect(world.running()).toEqual([]);
  expect(state.changed).toEqual([]);
  // Each action ended once, in the order of the sequence.
  const order = flattened(actions).map((action) => action.id);
  const places = records.map((record) => order.indexOf(record.id));
  expect(places).toEqual([...places].sort((left, right) => left - right));
  expect(new Set(places).size).toBe(places.length);
  // Nothing was begun that is not on record, and nothing is on record after the action that ended the sequence.
  const byName = new Map(flattened(actions).map((action) => [jobNameOf(action), action.id]));
  const recorded = new Set(records.map((record) => record.id));
  for (const line of world.story) {
    const started = /^(j\d+) started$/.exec(line)?.[1];
    if (started !== undefined) expect(recorded.has(byName.get(started) ?? ''), started).toBe(true);
  }
  const byId = new Map(flattened(actions).map((action) => [action.id, action]));
  const last = records.findIndex(
    (record) =>
      record.result === 'halted' ||
      record.result === 'cancelled' ||
      (record.result === 'failed' && byId.get(record.id)?.onFailure === 'abort'),
  );
  if (last >= 0) expect(records.length).toBe(last + 1);
  const final = records[last];
  if (final?.result === 'cancelled') expect(['cancelled', 'superseded']).toContain(ended?.outcome);
  else if (final) expect(ended?.outcome).toBe(final.result);
  // What ended well ended well once.
  for (const action of flattened(actions)) {
    const name = jobNameOf(action);
    if (name === null) continue;
    const good = world.story.filter((line) => line === `${name} ended 0`).length;
    expect(good, name).toBeLessThanOrEqual(1 + (action.retries ?? 0));
    if (action.retries === 0)
      expect(world.story.filter((line) => line === `${name} started`).length, name).toBeLessThanOrEqual(1);
  }
}

it(`brings every service back to its count, and runs nothing after a halt or a failure, in ${RUNS} random runs`, async () => {
  const seen = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(
      drafts,
      chaos,
      fc.record({ a: fc.integer({ min: 0, max: 3 }), b: fc.integer({ min: 0, max: 3 }) }),
      async (list, { crashes, stop, outage, sick, phase }, counts) => {
        const world = new FakeWorld(counts);
        const before = new Map(world.counts);
        if (sick) world.unhealthy = ['a'];
        const jobs: Record<string, Partial<Job>> = {};
        const actions = world.plan(phase as 'pre_update', declare(world, list, jobs), jobs);
        const abort = new AbortController();
        const deaths = [...crashes] as { at: number; when: 'before' | 'after' }[];
        world.restart(deaths.shift() ?? null);
        let handle: ReturnType<FakeWorld['start']> | null = null;
        world.onCall = () => {
          if (outage && world.calls === outage.at) {
            world.reachable = false;
            void world.clock.sleep(outage.ms).then(() => {
              world.reachable = true;
            });
          }
          if (stop && world.calls === stop.at) {
            if (stop.kind === 'abort') abort.abort(new Error('stop now'));
            else if (stop.kind === 'cancel') handle?.cancel();
            else handle?.supersede();
          }
        };
        handle = world.start(actions, { run: { phase: phase as 'pre_update' }, signal: abort.signal });
        let results: readonly HookResult[] | null = await world
          .runOrDie(handle.result)
          .then((result) => (result ? [result] : null));
        while (results === null) {
          world.restart(deaths.shift() ?? null);
          results = await world.runOrDie(world.resume());
        }
        const state = world.journaled().find((one) => one.run.stack === RUN.stack);
        // It died before the first write: nothing happened.
        if (!state) {
          expect(world.story).toEqual([]);
          return;
        }
        expectSound(world, before, state);
        const outcome = state.ended?.outcome ?? '';
        seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
      },
    ),
    { numRuns: RUNS, seed: 42 },
  );
  // The dice show every way out.
  for (const outcome of ['succeeded', 'halted', 'failed', 'cancelled', 'superseded'])
    expect(seen.get(outcome) ?? 0, outcome).toBeGreaterThan(10);
}, 60_000);
