// `windlass rollback`: back to what was deployed before, until git asks for something new.
import { lineObserver } from '../../engine/observers/line.ts';
import { DeclinedError } from '../../engine/pipeline.ts';
import { type Command, textFlag, UsageError } from '../command.ts';
import { EXIT, exitOf, formatFault } from '../exit.ts';
import { formatPlan } from '../views/plan.ts';

export const command: Command = {
  words: ['rollback'],
  summary: 'go back to the revision deployed before, until the stack changes in git',
  usage: 'STACK',
  example: 'windlass rollback shop --yes',
  arity: [1, 1],
  flags: {
    to: { type: 'string', value: 'COMMIT', help: 'this commit (40 hex) instead' },
    yes: { type: 'boolean', short: 'y', help: 'do not ask' },
  },
  async run({ io, flags, args, surface, stop, now }) {
    const desk = await surface();
    const stack = args[0] ?? '';
    if (!flags['yes'] && !io.interactive) throw new UsageError('nobody is there to say yes: give --yes');
    if (
      !flags['yes'] &&
      !(await io.confirm(`Take ${stack} back to ${textFlag(flags, 'to') ?? 'what was deployed before'}?`, stop))
    )
      throw new DeclinedError();
    const { to } = await desk.rollback(stack, textFlag(flags, 'to'));
    if (await desk.nudge(stack, false, 10_000)) {
      io.words(`the controller takes ${stack} back to ${to.slice(0, 12)}`);
      return EXIT.done;
    }
    const view = await desk.plan([stack]);
    io.data(desk.house.redact(formatPlan(io, view)));
    const progress = lineObserver({ write: (line) => io.words(desk.house.redact(line).trimEnd()) });
    const { failures } = await desk.apply(view, { signal: now, stop, progress, trigger: 'rollback', prune: false });
    for (const [name, fault] of failures) io.words(desk.house.redact(formatFault(io, fault, { stack: name })));
    const [first] = failures.values();
    if (first) return exitOf(first);
    io.words(
      `${stack} is back at ${to.slice(0, 12)}; it follows git again when it changes there, or after \`windlass resume ${stack}\``,
    );
    return EXIT.done;
  },
};
