import { describe, expect, test } from 'vitest';
import { DeadlineError } from '../../src/engine/deadline.ts';
import type { Step } from '../../src/engine/step.ts';
import { gate, HandClock, planOf, settle, step } from './fixture.ts';

const start = (over: Partial<Step>, options: object = {}) => {
  const clock = new HandClock();
  const log: string[] = [];
  const plan = planOf([step('slow', log, { deadlineMs: 1_000, ...over }), step('next', log)]).build();
  return { clock, log, ended: plan.run({ clock, ...options }) };
};

describe('a deadline', () => {
  test('ends the work through its own signal, and says that it has ended', async () => {
    const { clock, log, ended } = start({
      execute: (ctx) =>
        new Promise((_resolve, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason))),
    });
    await clock.advance(1_000);
    const { error, cells } = await ended;
    expect(error).toBeInstanceOf(DeadlineError);
    expect(error).toMatchObject({ step: 'slow', targetId: 'a', deadlineMs: 1_000, workEnded: true });
    expect(error?.message).toBe('slow on a passed its deadline of 1000 ms; its work has ended');
    expect(error?.cause).toMatchObject({ name: 'TimeoutError' });
    expect(cells).toHaveLength(1);
    expect(log.at(-1)).toBe('a slow execute');
    expect(clock.waiting).toBe(0);
  });

  test('waits the grace for work that is slow to end, even when it ends well', async () => {
    const work = gate();
    const { clock, log, ended } = start({ execute: () => work.promise });
    await clock.advance(5_999);
    work.resolve();
    expect((await ended).error).toMatchObject({ workEnded: true });
    expect(log).not.toContain('a slow verify');
    expect(clock.waiting).toBe(0);
  });

  test('is passed also by the last method that ends well within the grace', async () => {
    const work = gate();
    const { clock, ended } = start({ check: () => false, verify: () => work.promise });
    await clock.advance(1_000);
    work.resolve();
    expect((await ended).error).toMatchObject({ name: 'DeadlineError', workEnded: true });
  });

  test('stops waiting after the grace, says that the work may still run, and lets its late end do no harm', async () => {
    const work = gate();
    const notes: string[] = [];
    const { clock, ended } = start(
      {
        async execute(ctx) {
          await work.promise;
          ctx.note('late');
          throw new Error('late');
        },
      },
      { progress: { onNote: (...words: unknown[]) => void notes.push(String(words.at(-1))) } },
    );
    await clock.advance(5_999);
    let over = false;
    void ended.then(() => {
      over = true;
    });
    await settle();
    expect(over).toBe(false);
    await clock.advance(1);
    const { error } = await ended;
    expect(error).toMatchObject({ workEnded: false });
    expect(error?.message).toBe('slow on a passed its deadline of 1000 ms; its work is not known to have ended');
    work.resolve();
    await settle();
    expect(notes).toEqual([]);
    expect(clock.waiting).toBe(0);
  });

  test('has a grace that can be set', async () => {
    const { clock, ended } = start({ execute: () => gate().promise }, { graceMs: 10 });
    await clock.advance(1_010);
    expect((await ended).error).toMatchObject({ workEnded: false });
  });

  test.each(['applicable', 'check', 'verify'] as const)('covers %s as well', async (method) => {
    const { clock, ended } = start({ check: () => false, [method]: () => gate().promise });
    await clock.advance(6_000);
    expect((await ended).error).toBeInstanceOf(DeadlineError);
  });

  test('is for the whole cell, not for each of its methods', async () => {
    const wait = (clock: HandClock) => new Promise<void>((resolve) => void clock.setTimeout(resolve, 600));
    const clock = new HandClock();
    const ended = planOf([
      step('s', [], {
        deadlineMs: 1_000,
        async check() {
          await wait(clock);
          return false;
        },
        execute: () => wait(clock),
      }),
    ])
      .build()
      .run({ clock });
    await clock.advance(2_000);
    expect((await ended).error).toMatchObject({ workEnded: true });
  });

  test('that passes while the journal writes keeps execute from starting', async () => {
    const written = gate();
    const { clock, log, ended } = start({}, { journal: { record: () => written.promise } });
    await clock.advance(1_000);
    written.resolve();
    const { error, cells } = await ended;
    expect(error).toBeInstanceOf(DeadlineError);
    expect(cells[0]?.executed).toBe(false);
    expect(log).not.toContain('a slow execute');
  });

  test('lets peers go on', async () => {
    const clock = new HandClock();
    const ended = planOf(
      [step('s', [], { deadlineMs: 10, execute: (_ctx, target) => (target.id === 'a' ? gate().promise : undefined) })],
      ['a', 'b', 'c'],
      1,
    )
      .build()
      .run({ clock, graceMs: 1 });
    await clock.advance(11);
    expect((await ended).cells.map((cell) => cell.outcome)).toEqual(['failed', 'done', 'done']);
  });

  test('in a probe becomes the status', async () => {
    const clock = new HandClock();
    const probing = planOf([step('s', [], { deadlineMs: 10, check: () => gate().promise as never })])
      .build()
      .probe({ clock, graceMs: 1 });
    await clock.advance(11);
    expect((await probing)[0]?.status).toMatch(/^check: s on a passed its deadline of 10 ms/);
    expect(clock.waiting).toBe(0);
  });

  test('still passes on the cancellation of the run', async () => {
    const abort = new AbortController();
    let reason: unknown;
    const { ended } = start(
      {
        execute: (ctx) =>
          new Promise((resolve) => {
            ctx.signal.addEventListener('abort', () => {
              reason = ctx.signal.reason;
              resolve();
            });
          }),
      },
      { signal: abort.signal },
    );
    await settle();
    abort.abort('stop');
    await ended;
    expect(reason).toBe('stop');
  });

  test('leaves no listener on the signal of the run, and warns of none', async () => {
    const warnings: Error[] = [];
    const warn = (warning: Error) => warnings.push(warning);
    process.on('warning', warn);
    const abort = new AbortController();
    let added = 0;
    const { addEventListener, removeEventListener } = abort.signal;
    abort.signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
      added++;
      addEventListener.apply(abort.signal, args);
    };
    abort.signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
      added--;
      removeEventListener.apply(abort.signal, args);
    };
    const ids = Array.from({ length: 40 }, (_, at) => `t${at}`);
    await planOf([step('s', [], { deadlineMs: 1_000, execute: () => settle() })], ids, 40)
      .build()
      .execute({ signal: abort.signal });
    await settle();
    process.off('warning', warn);
    expect(added).toBe(0);
    expect(warnings).toEqual([]);
  });

  test('longer than the longest timer of the platform does not pass at once', async () => {
    const { error } = await planOf([step('s', [], { deadlineMs: 2 ** 40, execute: () => settle() })])
      .build()
      .run();
    expect(error).toBeUndefined();
  });
});

test('a run leaves no timer behind', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  const ids = Array.from({ length: 50 }, (_, at) => `t${at}`);
  await planOf([step('s', [], { deadlineMs: 60_000 })], ids)
    .build()
    .execute();
  expect(timers() - before).toBeLessThan(10); // the test runner has some of its own
});
