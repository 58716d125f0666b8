// `windlass explain`: what a code or a reason means, and what to do.

import { CAUSES, type Cause } from '../../core/diff/change.ts';
import { FAULTS, type FaultCode } from '../../core/fault.ts';
import { REASONS } from '../../core/status/condition.ts';
import { FAULT_REASONS } from '../../core/status/fault-reason.ts';
import { type Command, UsageError } from '../command.ts';

const RETRIES = {
  retry: 'it is tried again by itself, with growing pauses',
  wait: 'it goes on by itself when what it waits for is there',
  person: 'somebody has to act',
};

export const command: Command = {
  words: ['explain'],
  summary: 'explain an error code, a cause of a change or a reason of a condition',
  usage: 'CODE',
  example: 'windlass explain VOLUME_CHANGED',
  arity: [1, 1],
  async run({ io, args }) {
    const word = (args[0] ?? '').replace(/^error\[|\]$/g, '');
    const code = word.toUpperCase().replaceAll('-', '_') as FaultCode;
    if (code in FAULTS) {
      io.data(
        `${code}: ${FAULTS[code].help}\n${RETRIES[FAULTS[code].retry]}; the stack is then ${FAULT_REASONS[code]}`,
      );
      return 0;
    }
    if (word in CAUSES) {
      io.data(`${word}: ${CAUSES[word as Cause]}`);
      return 0;
    }
    const codes = Object.entries(FAULT_REASONS).filter(([, reason]) => reason.toLowerCase() === word.toLowerCase());
    if (codes.length > 0) {
      for (const [fault] of codes) io.data(`${word} comes from ${fault}: ${FAULTS[fault as FaultCode].help}`);
      return 0;
    }
    const reason = REASONS.find((one) => one.toLowerCase() === word.toLowerCase());
    if (reason) {
      io.data(`${reason}: a reason of a condition; \`windlass get STACK\` shows its message`);
      return 0;
    }
    throw new UsageError(`there is no code ${word}; codes: ${Object.keys(FAULTS).join(', ')}`);
  },
};
