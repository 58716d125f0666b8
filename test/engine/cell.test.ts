import { describe, expect, test } from 'vitest';
import { VerifyError } from '../../src/engine/cell.ts';
import { NoopStep, type StepContext } from '../../src/engine/step.ts';
import { planOf, settle, step } from './fixture.ts';

const run = (over: Parameters<typeof step>[2] = {}) => {
  const log: string[] = [];
  return planOf([step('s', log, over), step('next', log, { check: () => true })])
    .build()
    .run()
    .then((outcome) => ({ ...outcome, log: log.map((line) => line.slice(2)) }));
};

describe('a cell', () => {
  test('walks applicable, check, execute, and by default check again', async () => {
    const { log, cells } = await run();
    expect(log.slice(0, 4)).toEqual(['s applicable', 's check', 's execute', 's check']);
    expect(cells[0]).toMatchObject({ outcome: 'done', executed: true, skipped: false, satisfied: false });
  });

  test('that is not applicable is skipped without a check', async () => {
    const { log, cells } = await run({ applicable: () => false });
    expect(log[0]).toBe('s applicable');
    expect(log[1]).toBe('next applicable');
    expect(cells[0]).toMatchObject({ outcome: 'skipped', skipped: true, executed: false });
  });

  test('that is satisfied is neither executed nor verified, and keeps its note and detail', async () => {
    const { log, cells } = await run({
      check: () => ({ satisfied: true, note: 'as it was', detail: { replicas: 2 } }),
      verify() {},
    });
    expect(log.slice(0, 3)).toEqual(['s applicable', 's check', 'next applicable']);
    expect(cells[0]).toMatchObject({
      outcome: 'satisfied',
      satisfied: true,
      note: 'as it was',
      detail: { replicas: 2 },
    });
  });

  test('asks its own verify instead of check when the step has one', async () => {
    const { log } = await run({ check: () => false, verify() {} });
    expect(log.slice(0, 4)).toEqual(['s applicable', 's check', 's execute', 's verify']);
  });

  test('checks with a cached look before execute, and with a fresh one after', async () => {
    const fresh: boolean[] = [];
    await run({
      check: (ctx) => {
        fresh.push(ctx.fresh);
        return fresh.length > 1;
      },
    });
    expect(fresh).toEqual([false, true]);
  });

  test('fails when the state is not there after execute', async () => {
    const { error } = await run({ check: () => ({ satisfied: false, note: '1 of 2 healthy' }) });
    expect(error).toBeInstanceOf(VerifyError);
    expect(error?.message).toBe('s on a is not satisfied after its execute: 1 of 2 healthy');
  });

  test.each([
    ['false', false],
    ['unsatisfied', { satisfied: false }],
  ])('fails when its verify answers %s', async (_name, answer) => {
    const { error } = await run({ check: () => false, verify: () => answer });
    expect(error).toBeInstanceOf(VerifyError);
  });

  test.each(['applicable', 'check', 'execute', 'verify'] as const)(
    'stops its target when %s throws, with that very error',
    async (method) => {
      const boom = new Error('boom');
      const { error, log, cells } = await run({
        check: () => false,
        [method]() {
          throw boom;
        },
      });
      expect(error).toBe(boom);
      expect(log.at(-1)).toBe(`s ${method}`);
      expect(cells).toHaveLength(1);
      expect(cells[0]).toMatchObject({
        outcome: 'failed',
        error: boom,
        executed: method === 'execute' || method === 'verify',
      });
    },
  );

  test('makes an error of whatever was thrown, even of nothing', async () => {
    for (const thrown of [undefined, 'text', Object.create(null)]) {
      const { error } = await run({
        execute() {
          throw thrown;
        },
      });
      expect(error).toBeInstanceOf(Error);
    }
  });

  test('gives its step the phase, the slot, the time and a voice, which falls silent when the cell has ended', async () => {
    let kept: StepContext | undefined;
    const notes: string[] = [];
    const plan = planOf([
      step('s', [], {
        execute(ctx) {
          kept = ctx;
          ctx.note('half way');
        },
      }),
    ]);
    await plan
      .build()
      .execute({ progress: { onNote: (_phase, _target, _step, _slot, line) => void notes.push(line) } });
    kept?.note('too late');
    await settle();
    expect(notes).toEqual(['half way']);
    expect(kept).toMatchObject({ phase: 'only', slot: 0, fresh: false });
    expect(kept?.now()).toBeGreaterThan(0);
  });

  test('of the noop step is always satisfied', async () => {
    const { cells } = await planOf([new NoopStep('placeholder')])
      .build()
      .execute();
    expect(cells.map((cell) => cell.outcome)).toEqual(['satisfied']);
  });
});
