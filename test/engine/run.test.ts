import { describe, expect, test } from 'vitest';
import { CancelledError } from '../../src/engine/fan-out.ts';
import type { Observer } from '../../src/engine/observer.ts';
import { RunOptionsError } from '../../src/engine/options.ts';
import { Plan } from '../../src/engine/plan.ts';
import { BarrierError } from '../../src/engine/run.ts';
import { NoopStep } from '../../src/engine/step.ts';
import { errorOf, gate, planOf, settle, step, targets } from './fixture.ts';

const twoPhases = (log: string[], first: Parameters<typeof step>[2] = {}, ids = ['a', 'b']) => {
  const plan = new Plan('test');
  plan
    .addPhase('one')
    .addTargets(...targets(...ids))
    .addStep(step('s', log, first));
  plan
    .addPhase('two')
    .addTargets(...targets('z'))
    .addStep(step('t', log));
  return plan;
};

describe('order', () => {
  test('a phase starts only after every target of the one before has ended', async () => {
    const log: string[] = [];
    const slow = gate();
    const running = twoPhases(log, { execute: (_ctx, target) => (target.id === 'a' ? slow.promise : undefined) })
      .build()
      .execute();
    await settle();
    expect(log).toContain('b s execute');
    expect(log.some((line) => line.startsWith('z'))).toBe(false);
    slow.resolve();
    await running;
    expect(log).toContain('z t execute');
  });

  test('steps of a target run one after the other', async () => {
    const log: string[] = [];
    await planOf([step('one', log), step('two', log)])
      .build()
      .execute();
    expect(log.map((line) => line.split(' ')[1])).toEqual([...Array(4).fill('one'), ...Array(4).fill('two')]);
  });

  test('at most `concurrency` targets are in flight, each in a slot of its own', async () => {
    const held = new Map<number, string>();
    const slots = new Set<number>();
    let most = 0;
    const observer: Observer = {
      onTargetStart(_phase, id, slot) {
        expect(held.has(slot)).toBe(false);
        held.set(slot, id);
        slots.add(slot);
        most = Math.max(most, held.size);
      },
      onTargetEnd(_phase, id, slot) {
        expect(held.get(slot)).toBe(id);
        held.delete(slot);
      },
    };
    const ids = Array.from({ length: 20 }, (_, at) => `t${at}`);
    await planOf([step('s', [], { execute: () => settle() })], ids, 3)
      .build()
      .execute({ progress: observer });
    expect(most).toBe(3);
    expect([...slots].sort()).toEqual([0, 1, 2]);
  });

  test('cells are answered in the order of the plan, whatever ended first', async () => {
    const { cells } = await planOf(
      [step('s', [], { execute: (_c, t) => (t.id === 'a' ? settle() : undefined) })],
      ['a', 'b'],
    )
      .build()
      .execute();
    expect(cells.map((cell) => cell.targetId)).toEqual(['a', 'b']);
  });
});

describe('failure', () => {
  test('peers, started or not, run to completion when one target fails, and later phases do not run', async () => {
    const log: string[] = [];
    const plan = twoPhases(
      log,
      {
        execute(_ctx, target) {
          if (target.id === 'a') throw new Error('a broke');
        },
      },
      ['a', 'b', 'c'],
    );
    plan.phases[0]!.concurrency = 1;
    expect((await errorOf(plan.build().execute())).message).toBe('a broke');
    expect(log.filter((line) => line.endsWith('execute'))).toEqual(['a s execute', 'b s execute', 'c s execute']);
  });

  test('the first target error by time of completion wins', async () => {
    const late = gate();
    const running = planOf(
      [
        step('s', [], {
          async execute(_ctx, target) {
            if (target.id === 'a') await late.promise;
            throw new Error(target.id);
          },
        }),
      ],
      ['a', 'b'],
    )
      .build()
      .run();
    await settle();
    late.resolve();
    const { error, cells } = await running;
    expect(error?.message).toBe('b');
    expect(cells.map((cell) => cell.error?.message)).toEqual(['a', 'b']);
  });
});

describe('a barrier', () => {
  test('sees the results of its phase, and its error is the error of the phase', async () => {
    const log: string[] = [];
    const plan = twoPhases(log);
    const cause = new Error('1 of 2');
    plan.phases[0]!.barrier = {
      name: 'quorum',
      evaluate(ctx, phase, results) {
        log.push(`barrier ${phase} ${results.map((result) => result.targetId)} ${ctx.slot} ${ctx.fresh}`);
        throw cause;
      },
    };
    const error = await errorOf(plan.build().execute());
    expect(error).toBeInstanceOf(BarrierError);
    expect(error.message).toBe('barrier "quorum": 1 of 2');
    expect(error.cause).toBe(cause);
    expect(log.at(-1)).toBe('barrier one a,b -1 true');
  });

  test('lets the next phase run when it holds', async () => {
    const log: string[] = [];
    const plan = twoPhases(log);
    plan.phases[0]!.barrier = { name: 'ok', evaluate: async () => {} };
    await plan.build().execute();
    expect(log).toContain('z t execute');
  });

  test('is not asked when a target failed', async () => {
    let asked = 0;
    const plan = planOf([step('s', [], { check: () => Promise.reject(new Error('no')) })]);
    plan.phases[0]!.barrier = { name: 'b', evaluate: () => void asked++ };
    await errorOf(plan.build().execute());
    expect(asked).toBe(0);
  });

  test('may trust cached readings when its phase changed nothing', async () => {
    let fresh: boolean | undefined;
    const plan = planOf([new NoopStep('n')]);
    plan.phases[0]!.barrier = {
      name: 'b',
      evaluate(ctx) {
        fresh = ctx.fresh;
      },
    };
    await plan.build().execute();
    expect(fresh).toBe(false);
  });
});

describe.each(['signal', 'stop'] as const)('cancellation by %s', (how) => {
  test('lets running cells finish, starts nothing new, and says what finished', async () => {
    const log: string[] = [];
    const work = gate();
    const abort = new AbortController();
    let seen: AbortSignal | undefined;
    const plan = planOf(
      [
        step('one', log, {
          execute(ctx) {
            seen = ctx.signal;
            return work.promise;
          },
        }),
        step('two', log),
      ],
      ['a', 'b'],
      1,
    );
    const running = errorOf(plan.build().execute({ [how]: abort.signal }));
    await settle();
    abort.abort(new Error('Ctrl-C'));
    await settle();
    expect(seen?.aborted).toBe(how === 'signal');
    work.resolve();
    const error = (await running) as CancelledError;
    expect(error).toBeInstanceOf(CancelledError);
    expect(error.finished.map((cell) => `${cell.targetId} ${cell.step} ${cell.outcome}`)).toEqual(['a one done']);
    expect(error).toMatchObject({
      failed: [],
      remaining: 3,
      message: 'cancelled: 1 cells finished, 0 failed, 3 not done',
    });
    expect((error.cause as Error).message).toBe('Ctrl-C');
    expect(log).toEqual(['a one applicable', 'a one check', 'a one execute', 'a one check']);
  });

  test('before the start runs nothing', async () => {
    const log: string[] = [];
    const error = await errorOf(
      planOf([step('s', log)])
        .build()
        .execute({ [how]: AbortSignal.abort() }),
    );
    expect(error).toBeInstanceOf(CancelledError);
    expect(log).toEqual([]);
  });

  test('during a check keeps execute from starting', async () => {
    const log: string[] = [];
    const abort = new AbortController();
    const ended: string[] = [];
    const plan = planOf([
      step('s', log, {
        check() {
          abort.abort();
          return false;
        },
      }),
    ]);
    const { error, cells } = await plan
      .build()
      .run({ [how]: abort.signal, progress: { onTargetEnd: (_p, id, _s, e) => void ended.push(`${id} ${e?.name}`) } });
    expect(error).toBeInstanceOf(CancelledError);
    expect(cells[0]).toMatchObject({ outcome: 'cancelled', executed: false });
    expect(log).not.toContain('a s execute');
    expect(ended).toEqual(['a CancelledError']);
  });

  test('keeps a barrier and later phases from starting', async () => {
    const log: string[] = [];
    const abort = new AbortController();
    const plan = twoPhases(log, { execute: () => abort.abort() }, ['a']);
    plan.phases[0]!.barrier = { name: 'b', evaluate: () => void log.push('barrier') };
    await errorOf(plan.build().execute({ [how]: abort.signal }));
    expect(log.at(-1)).toBe('a s check');
  });

  test('keeps the error of a target that failed on the way', async () => {
    const abort = new AbortController();
    const boom = new Error('boom');
    const plan = planOf([
      step('s', [], {
        execute() {
          abort.abort();
          throw boom;
        },
      }),
    ]);
    const error = (await errorOf(plan.build().execute({ [how]: abort.signal }))) as CancelledError;
    expect(error).toBeInstanceOf(CancelledError);
    expect(error.cause).toBe(boom);
    expect(error.failed).toHaveLength(1);
  });
});

describe('options of a run', () => {
  test('a skipped phase is neither probed nor executed and has no events', async () => {
    const log: string[] = [];
    const phases: string[] = [];
    const plan = twoPhases(log);
    await plan.build().execute({
      skipPhases: ['one'],
      progress: { onPhaseStart: (at, of, name) => void phases.push(`${at}/${of} ${name}`) },
    });
    expect(log.every((line) => line.startsWith('z'))).toBe(true);
    expect(phases).toEqual(['1/2 two']);
  });

  test('a phase to skip that does not exist is refused before anything runs, and the cache is closed', async () => {
    const log: string[] = [];
    const error = await errorOf(
      twoPhases(log)
        .build()
        .execute({ skipPhases: ['on'] }),
    );
    expect(error).toBeInstanceOf(RunOptionsError);
    expect(error.message).toBe('skip_phases: no phase is called "on"; there are "one", "two"');
    expect(log).toEqual([]);
  });

  test('a dry run probes and neither executes nor verifies', async () => {
    const log: string[] = [];
    const { preview, cells } = await planOf([step('s', log, { verify() {} })])
      .build()
      .execute({ dryRun: true });
    expect(log).toEqual(['a s applicable', 'a s check']);
    expect(preview?.map((cell) => cell.status)).toEqual(['would execute']);
    expect(cells).toEqual([]);
  });
});
