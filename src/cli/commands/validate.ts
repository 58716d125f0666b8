// `windlass validate`: every mistake of the newest commit, with its place and its cure.
import type { Command } from '../command.ts';
import { EXIT, formatFault } from '../exit.ts';
import { formatDiagnostic } from '../views/diagnostic.ts';

export const command: Command = {
  words: ['validate'],
  summary: 'check every document and Compose file of the newest commit',
  usage: '',
  example: 'windlass validate --source .',
  arity: [0, 0],
  async run({ io, json, surface }) {
    const desk = await surface();
    const { at, diagnostics, faults } = await desk.validate();
    const errors = diagnostics.filter((one) => one.severity === 'error').length;
    if (json)
      io.json({
        revision: at.revision.commit,
        diagnostics,
        faults: faults.map((one) => ({ code: one.code, message: one.message })),
      });
    else {
      for (const one of diagnostics) io.data(`${desk.house.redact(formatDiagnostic(io, one))}\n`);
      for (const one of faults) io.words(desk.house.redact(formatFault(io, one)));
      io.words(
        `${at.fleet.stacks.size + at.fleet.broken.size} stacks: ${errors} errors, ${diagnostics.length - errors} warnings`,
      );
    }
    return errors > 0 ? EXIT.usage : faults.length > 0 ? EXIT.failed : EXIT.done;
  },
};
