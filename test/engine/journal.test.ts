import { describe, expect, test } from 'vitest';
import { JournalError, type JournalRecord } from '../../src/engine/journal.ts';
import { gate, HandClock, planOf, settle, step } from './fixture.ts';

const journal = (log: (string | JournalRecord)[]) => ({
  async record(entry: JournalRecord) {
    await settle(); // durable only after a while
    log.push(`${entry.target} ${entry.step} ${entry.event} ${entry.outcome}`);
  },
});

describe('the journal', () => {
  test('has the start before execute and the end after verify', async () => {
    const log: string[] = [];
    await planOf([step('s', log, { check: () => false, verify() {} })])
      .build()
      .execute({ journal: journal(log) });
    expect(log).toEqual([
      'a s applicable',
      'a s check',
      'a s start started',
      'a s execute',
      'a s verify',
      'a s end done',
    ]);
  });

  test('is told the plan, the phase, the time and the error', async () => {
    const entries: JournalRecord[] = [];
    const plan = planOf([step('s', [], { execute: () => Promise.reject(new Error('boom')) })]).build();
    await plan.run({
      planId: 'run-7',
      clock: new HandClock(),
      journal: { record: (entry) => void entries.push(entry) },
    });
    const where = { plan: 'run-7', phase: 'only', target: 'a', step: 's', at: 0 };
    expect(entries).toEqual([
      { ...where, event: 'start', outcome: 'started' },
      { ...where, event: 'end', outcome: 'failed', error: 'boom' },
    ]);
  });

  test('says nothing of cells that change nothing', async () => {
    const log: string[] = [];
    await planOf([step('s', [], { check: () => true }), step('t', [], { applicable: () => false })])
      .build()
      .execute({ journal: journal(log) });
    expect(log).toEqual([]);
  });

  test('says nothing of a cell that was cancelled while it checked', async () => {
    const log: string[] = [];
    const abort = new AbortController();
    const check = () => {
      abort.abort();
      return false;
    };
    await planOf([step('s', [], { check })])
      .build()
      .run({ signal: abort.signal, journal: journal(log) });
    expect(log).toEqual([]);
  });

  test('that fails at the start keeps the cell from executing', async () => {
    const log: string[] = [];
    const cause = new Error('disk full');
    const { error } = await planOf([step('s', log)])
      .build()
      .run({ journal: { record: () => Promise.reject(cause) } });
    expect(error).toBeInstanceOf(JournalError);
    expect(error?.message).toBe('the journal did not take the start of s on a: disk full');
    expect(error?.cause).toBe(cause);
    expect(log).not.toContain('a s execute');
  });

  test('that fails at the end stops the target, and does not hide the error of the work', async () => {
    const failsAtEnd = {
      record(entry: JournalRecord) {
        if (entry.event === 'end') throw new Error('disk full');
      },
    };
    const log: string[] = [];
    const { error } = await planOf([step('s', log), step('t', log)])
      .build()
      .run({ journal: failsAtEnd });
    expect(error).toBeInstanceOf(JournalError);
    expect(log.some((line) => line.startsWith('a t'))).toBe(false);
    const broken = planOf([step('s', [], { execute: () => Promise.reject(new Error('boom')) })]).build();
    expect((await broken.run({ journal: failsAtEnd })).error?.message).toBe('boom');
  });

  test('learns that work past its deadline may still run', async () => {
    const log: string[] = [];
    const clock = new HandClock();
    const ended = planOf([step('s', [], { deadlineMs: 5, execute: () => gate().promise })])
      .build()
      .run({ clock, graceMs: 5, journal: journal(log) });
    for (let turn = 0; turn < 3; turn++) await settle(); // the start is written, and execute runs
    await clock.advance(20);
    await settle();
    await ended;
    expect(log).toEqual(['a s start started', 'a s end unknown']);
  });

  test('that was writing when the run was cancelled ends with cancelled, and nothing was executed', async () => {
    const log: string[] = [];
    const abort = new AbortController();
    const told = journal(log);
    await planOf([step('s', log)])
      .build()
      .run({
        signal: abort.signal,
        journal: {
          record(entry) {
            abort.abort();
            return told.record(entry);
          },
        },
      });
    expect(log).toEqual(['a s applicable', 'a s check', 'a s start started', 'a s end cancelled']);
  });
});
