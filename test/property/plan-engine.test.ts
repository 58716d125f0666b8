// Random plans with random failures and cancellations: the contract of the plan engine holds for each of them.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CancelledError } from '../../src/engine/fan-out.ts';
import type { JournalRecord } from '../../src/engine/journal.ts';
import type { Observer } from '../../src/engine/observer.ts';
import { Plan } from '../../src/engine/plan.ts';
import type { CellOutcome, Step } from '../../src/engine/step.ts';

type Method = 'applicable' | 'check' | 'execute' | 'verify';

interface CellPlan {
  readonly applicable: boolean;
  readonly satisfied: boolean;
  readonly failAt: Method | 'journal' | null;
  /** Turns of the event loop that each method takes. */
  readonly turns: number;
}

const cell: fc.Arbitrary<CellPlan> = fc.record({
  applicable: fc.constantFrom(true, true, true, false),
  satisfied: fc.constantFrom(true, false, false),
  failAt: fc.oneof(
    { weight: 8, arbitrary: fc.constant(null) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<Method | 'journal'>('applicable', 'check', 'execute', 'verify', 'journal'),
    },
  ),
  turns: fc.nat(3),
});

const phase = fc
  .record({ targets: fc.integer({ min: 1, max: 6 }), steps: fc.integer({ min: 1, max: 4 }) })
  .chain(({ targets, steps }) =>
    fc.record({
      cells: fc.array(fc.array(cell, { minLength: steps, maxLength: steps }), {
        minLength: targets,
        maxLength: targets,
      }),
      concurrency: fc.integer({ min: 1, max: 5 }),
      barrier: fc.constantFrom('none', 'holds', 'fails'),
      ownVerify: fc.boolean(),
    }),
  );

const scenario = fc.record({
  phases: fc.array(phase, { minLength: 1, maxLength: 3 }),
  /** Aborts at the n-th call of any method. */
  abortAt: fc.option(fc.nat(40)),
  abortBy: fc.constantFrom('signal' as const, 'stop' as const),
  skipFirst: fc.boolean(),
});

type Scenario = typeof scenario extends fc.Arbitrary<infer T> ? T : never;

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** What a target's row must come to when nobody cancels. */
function expected(row: readonly CellPlan[]): { outcomes: CellOutcome[]; calls: Method[][] } {
  const outcomes: CellOutcome[] = [];
  const calls: Method[][] = [];
  for (const { applicable, satisfied, failAt } of row) {
    const made: Method[] = ['applicable'];
    calls.push(made);
    const end = (outcome: CellOutcome) => outcomes.push(outcome);
    if (failAt === 'applicable') end('failed');
    else if (!applicable) end('skipped');
    else {
      made.push('check');
      if (failAt === 'check') end('failed');
      else if (satisfied) end('satisfied');
      else if (failAt === 'journal') end('failed');
      else {
        made.push('execute');
        if (failAt !== 'execute') made.push('verify');
        end(failAt === 'execute' || failAt === 'verify' ? 'failed' : 'done');
      }
    }
    if (outcomes.at(-1) === 'failed') break;
  }
  return { outcomes, calls };
}

async function play(given: Scenario) {
  const abort = new AbortController();
  const problems: string[] = [];
  const must = (holds: boolean, rule: string) => {
    if (!holds) problems.push(rule);
  };
  const calls = new Map<string, Method[]>(); // by phase/target/step
  const running = new Map<string, number>(); // target → step in flight
  const slots = new Map<number, string>();
  const journal: string[] = [];
  const registered: number[] = [];
  const closed: number[] = [];
  const barriers: string[] = [];
  const failed: string[] = []; // phase/target in the order in which they failed
  let count = 0;

  const plan = new Plan('random');
  given.phases.forEach((shape, p) => {
    const steps = shape.cells[0]!.map((_, s): Step<number> => {
      const called = async (method: Method, t: number) => {
        const key = `${p}/${t}/${s}`;
        const made = calls.get(key) ?? [];
        calls.set(key, made);
        if (method === 'applicable') {
          must(!abort.signal.aborted, 'no cell starts after an abort');
          must(!running.has(`${p}/${t}`), 'steps of a target never overlap');
          running.set(`${p}/${t}`, s);
        }
        if (method === 'execute') must(!abort.signal.aborted, 'no execute starts after an abort');
        must(running.get(`${p}/${t}`) === s, 'a method runs within its own cell');
        made.push(method);
        if (count++ === given.abortAt) abort.abort(new Error('stop'));
        const { turns, failAt } = shape.cells[t]![s]!;
        for (let i = 0; i < turns; i++) await turn();
        if (failAt === method) throw new Error(`${p}/${t}/${s} ${method}`);
      };
      const ask = async (fresh: boolean, t: number) => {
        await called(fresh ? 'verify' : 'check', t);
        return fresh || shape.cells[t]![s]!.satisfied;
      };
      return {
        name: `s${s}`,
        touches: 'runtime',
        applicable: async (_ctx, { payload }) => {
          await called('applicable', payload);
          return shape.cells[payload]![s]!.applicable;
        },
        check: (ctx, { payload }) => ask(ctx.fresh, payload),
        async execute(ctx, { payload }) {
          const mine = registered.push(registered.length) - 1;
          ctx.cache.registerCloser(() => {
            closed.push(mine);
            if (mine % 2) throw new Error('closer');
          });
          must(ctx.slot >= 0 && ctx.slot < shape.concurrency, 'a slot is within the concurrency');
          must(slots.get(ctx.slot) === `t${payload}`, 'a cell runs in the slot of its target');
          await called('execute', payload);
        },
        ...(shape.ownVerify && { verify: (_ctx, { payload }) => called('verify', payload) }),
      } satisfies Step<number> as Step<number>;
    });
    const built = plan.addPhase(`p${p}`);
    built.addTargets(...shape.cells.map((_, t) => ({ id: `t${t}`, payload: t }))).addStep(...(steps as Step[]));
    built.concurrency = shape.concurrency;
    if (shape.barrier === 'none') return;
    built.barrier = {
      name: 'b',
      evaluate(_ctx, name, results) {
        must(!abort.signal.aborted, 'no barrier starts after an abort');
        must(
          results.every((result) => !result.error),
          'a barrier is asked only when no target failed',
        );
        must(running.size === 0, 'a barrier is asked only after all targets ended');
        barriers.push(name);
        if (shape.barrier === 'fails') throw new Error('not enough');
      },
    };
  });

  const progress: Observer = {
    onTargetStart(name, id, slot) {
      must(!slots.has(slot), 'a slot holds one target at a time');
      slots.set(slot, id);
      must(slots.size <= given.phases[Number(name.slice(1))]!.concurrency, 'targets in flight are bounded');
    },
    onTargetEnd: (_name, _id, slot) => void slots.delete(slot),
    onStepEnd(name, id, _step, _slot, outcome) {
      running.delete(`${name.slice(1)}/${id.slice(1)}`);
      if (outcome === 'failed') failed.push(`${name}/${id}`);
    },
  };
  const where = (entry: JournalRecord) => `${entry.phase.slice(1)}/${entry.target.slice(1)}/${entry.step.slice(1)}`;
  const outcome = await plan.build().run({
    [given.abortBy]: abort.signal,
    progress,
    skipPhases: given.skipFirst ? ['p0'] : [],
    journal: {
      async record(entry) {
        const [p, t, s] = where(entry).split('/').map(Number) as [number, number, number];
        if (given.phases[p]!.cells[t]![s]!.failAt === 'journal') throw new Error('journal');
        if (entry.event === 'start')
          must(!calls.get(where(entry))!.includes('execute'), 'the start is recorded before execute');
        await turn();
        journal.push(`${where(entry)} ${entry.event}`);
      },
    },
  });
  return { outcome, calls, problems, journal, registered, closed, barriers, failed, aborted: abort.signal.aborted };
}

test('any plan keeps the contract, whatever fails and whenever it is cancelled', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async (given) => {
      const seen = await play(given);
      const { outcome, calls } = seen;
      expect(seen.problems).toEqual([]);

      for (const [key, made] of calls) {
        const [p, t, s] = key.split('/').map(Number) as [number, number, number];
        const result = outcome.cells.find(
          (one) => one.phase === `p${p}` && one.targetId === `t${t}` && one.step === `s${s}`,
        )!;
        const { failAt } = given.phases[p]!.cells[t]![s]!;
        expect(made.includes('verify')).toBe(made.includes('execute') && failAt !== 'execute');
        expect(result.executed).toBe(made.includes('execute'));
        if (made.includes('execute')) {
          expect(made.indexOf('check')).toBeLessThan(made.indexOf('execute'));
          expect(given.phases[p]!.cells[t]![s]!.satisfied).toBe(false);
          expect(seen.journal.filter((line) => line.startsWith(`${key} `))).toEqual([`${key} start`, `${key} end`]);
        }
      }

      expect(seen.closed).toEqual([...seen.registered].reverse());

      if (seen.aborted) {
        expect(outcome.error).toBeInstanceOf(CancelledError);
        const { finished, failed, remaining } = outcome.error as CancelledError;
        const wanted = given.phases.slice(given.skipFirst ? 1 : 0).flatMap((shape) => shape.cells.flat());
        expect(finished.length + failed.length + remaining).toBe(wanted.length);
        return;
      }

      // nobody cancelled: everything about the run is known beforehand
      const cells: string[] = [];
      const barriers: string[] = [];
      let error: string | undefined;
      for (const [p, shape] of given.phases.entries()) {
        if ((p === 0 && given.skipFirst) || error !== undefined) continue;
        for (const [t, row] of shape.cells.entries()) {
          const { outcomes, calls: wanted } = expected(row);
          outcomes.forEach((one, s) => void cells.push(`${p}/${t}/${s} ${one}`));
          wanted.forEach((made, s) => void expect(calls.get(`${p}/${t}/${s}`)).toEqual(made));
        }
        const first = seen.failed.find((line) => line.startsWith(`p${p}/`));
        if (first)
          error = outcome.cells.find((one) => `${one.phase}/${one.targetId}` === first && one.error)!.error!.message;
        else if (shape.barrier !== 'none') barriers.push(`p${p}`);
        if (!first && shape.barrier === 'fails') error = 'barrier "b": not enough';
      }
      expect(
        outcome.cells.map(
          (one) => `${one.phase.slice(1)}/${one.targetId.slice(1)}/${one.step.slice(1)} ${one.outcome}`,
        ),
      ).toEqual(cells);
      expect(calls.size).toBe(cells.length);
      expect(seen.barriers).toEqual(barriers);
      if (error === undefined && seen.closed.length > 1) expect(outcome.error).toBeInstanceOf(AggregateError);
      else expect(outcome.error?.message).toBe(error);
    }),
    { numRuns: 400 },
  );
}, 60_000);
