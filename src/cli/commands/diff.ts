// `windlass diff`: one stack, desired against observed, every field.
import { formatStackDiff } from '../../core/plan/format.ts';
import type { Command } from '../command.ts';
import { EXIT, exitOf } from '../exit.ts';
import { formatDiagnostic, inReadingOrder } from '../views/diagnostic.ts';
import { formatFault } from '../views/fault.ts';
import { paintMarks } from '../views/plan.ts';

export const command: Command = {
  words: ['diff'],
  summary: 'compare one stack with what runs; exits with 2 when it differs',
  usage: 'STACK',
  example: 'windlass diff shop',
  arity: [1, 1],
  async run({ io, json, args, surface }) {
    const desk = await surface('state');
    const one = await desk.diff(args[0] ?? '');
    if (one.kind === 'invalid') {
      if (json) io.json({ stack: one.name, diagnostics: one.diagnostics });
      for (const diagnostic of inReadingOrder(one.diagnostics)) io.words(formatDiagnostic(io.inWords, diagnostic));
      return EXIT.usage;
    }
    const diff = one.kind === 'judged' ? one.diff : one.judged?.diff;
    if (diff) {
      if (json) io.json(diff);
      else io.data(paintMarks(io, formatStackDiff(diff)).join('\n'));
    }
    if (one.kind === 'refused') {
      io.words(formatFault(io.inWords, one.fault, { stack: one.name }));
      return exitOf(one.fault);
    }
    return one.diff.changes.length > 0 ? EXIT.changes : EXIT.done;
  },
};
