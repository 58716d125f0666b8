// `windlass validate`: every mistake of the newest commit, with its place and its cure. Touches no state of a controller.
import { type Command, textFlag, UsageError } from '../command.ts';
import { EXIT, exitOf } from '../exit.ts';
import { countDiagnostics, formatDiagnostic, inReadingOrder, plural } from '../views/diagnostic.ts';
import { formatFault } from '../views/fault.ts';

export const command: Command = {
  words: ['validate'],
  summary: 'check every document and Compose file: of the commit a local clone has checked out, or of --source',
  usage: '[PATH]',
  example: 'windlass validate .',
  arity: [0, 1],
  async run({ io, json, flags, args, open }) {
    const [path] = args;
    const source = textFlag(flags, 'source');
    if (path !== undefined && source !== undefined) throw new UsageError('either a PATH or --source, not both');
    const instead = path === undefined ? {} : { source: path, ref: textFlag(flags, 'ref') ?? 'HEAD' };
    const { surface: desk } = await open('scratch', instead);
    const { at, diagnostics, faults } = await desk.validate();
    const sorted = inReadingOrder(diagnostics);
    if (json)
      io.json({
        revision: at.revision.commit,
        stacks: at.fleet.stacks.size + at.fleet.broken.size,
        diagnostics: sorted,
        faults: faults.map(({ code, message, help }) => ({ code, message, help })),
      });
    else for (const one of sorted) io.data(`${formatDiagnostic(io, one)}\n`);
    // The same refusal of the world (no engine, no Compose) is said once, not once a stack.
    const said = new Map(faults.map((one) => [`${one.code} ${one.message}`, one]));
    for (const one of said.values()) io.words(formatFault(io.inWords, one));
    io.words(
      `${plural(at.fleet.stacks.size + at.fleet.broken.size, 'stack')}: ${countDiagnostics(diagnostics)}${faults.length > 0 ? `, ${faults.length} could not be checked` : ''}`,
    );
    if (diagnostics.some((one) => one.severity === 'error')) return EXIT.usage;
    const [first] = faults;
    return first ? exitOf(first) : EXIT.done;
  },
};
