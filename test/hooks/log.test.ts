import { describe, expect, it } from 'vitest';
import { REDACTED, Redactor } from '../../src/adapters/process/redact.ts';
import { ActionLog } from '../../src/hooks/log.ts';
import { at } from './fake-world.ts';

function logOf(lines: Iterable<string>): ActionLog {
  const redactor = new Redactor();
  redactor.add('correct-horse');
  const log = new ActionLog((text) => redactor.redact(text));
  for (const line of lines) log.take(at(line));
  return log;
}

describe('a secret that a job prints over two lines', () => {
  it('is in neither of them, nor in the last lines of the record', () => {
    const log = logOf(['it is corr', 'ect-horse', 'done']);
    expect(log.text()).toBe(`it is ${REDACTED}\n\ndone`);
    expect(log.tail()).toEqual([`it is ${REDACTED}`, '', 'done']);
  });

  it('is hidden wherever lines are left out around it', () => {
    for (let place = 990; place < 1_010; place++)
      for (const length of [2_500, 3_004, 5_001]) {
        const lines = Array.from({ length }, (_, index) => `line ${index}`);
        for (const from of [place, length - place]) lines.splice(from, 2, 'corr', 'ect-horse');
        expect(logOf(lines).text(), `at ${place} of ${length}`).not.toMatch(/corr|horse/);
      }
  });

  it('is hidden when it becomes known only afterwards', () => {
    const redactor = new Redactor();
    const log = new ActionLog((text) => redactor.redact(text));
    log.take(at('the password is correct-horse'));
    redactor.add('correct-horse');
    expect(log.text()).toBe(`the password is ${REDACTED}`);
  });
});

it('keeps the lines of a note that has several', () => {
  const log = logOf([]);
  log.note('one\ntwo');
  expect(log.tail()).toEqual(['one', 'two']);
});
