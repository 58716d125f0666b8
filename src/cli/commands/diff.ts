// `windlass diff`: one stack, desired against observed, every field.
import { formatStackDiff } from '../../core/plan/format.ts';
import type { Command } from '../command.ts';
import { EXIT, formatFault } from '../exit.ts';
import { formatDiagnostic } from '../views/diagnostic.ts';

export const command: Command = {
  words: ['diff'],
  summary: 'compare one stack with what runs; exits with 2 when it differs',
  usage: 'STACK',
  example: 'windlass diff shop',
  arity: [1, 1],
  async run({ io, json, args, surface }) {
    const desk = await surface();
    const one = await desk.diff(args[0] ?? '');
    if (one.kind === 'invalid') {
      for (const diagnostic of one.diagnostics) io.words(desk.house.redact(formatDiagnostic(io, diagnostic)));
      return EXIT.usage;
    }
    const diff = one.kind === 'judged' ? one.diff : one.judged?.diff;
    if (diff) {
      if (json) io.json(diff);
      else io.data(desk.house.redact(formatStackDiff(diff).join('\n')));
    }
    if (one.kind === 'refused') {
      io.words(desk.house.redact(formatFault(io, one.fault, { stack: one.name })));
      return EXIT.failed;
    }
    return one.diff.changes.length > 0 ? EXIT.changes : EXIT.done;
  },
};
