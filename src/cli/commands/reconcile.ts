// `windlass reconcile`: asks the running controller to look now, or does one pass itself when none runs.
import { lineObserver } from '../../engine/observers/line.ts';
import { type Command, durationFlag, UsageError } from '../command.ts';
import { EXIT, exitOf, formatFault } from '../exit.ts';

export const command: Command = {
  words: ['reconcile'],
  summary: 'have a stack (or all) looked at now',
  usage: '[STACK]',
  example: 'windlass reconcile shop --wait',
  arity: [0, 1],
  flags: {
    all: { type: 'boolean', help: 'every stack' },
    wait: { type: 'boolean', help: 'until it is Ready at the newest commit' },
    timeout: { type: 'string', value: '5m', help: 'how long to wait' },
  },
  async run({ io, flags, args, surface, stop, now }) {
    const desk = await surface();
    const stack = args[0] ?? '';
    if (stack === '' && !flags['all']) throw new UsageError('name a stack, or give --all');
    const timeoutMs = durationFlag(flags, 'timeout', 5 * 60_000);
    if (await desk.nudge(stack, true, Math.min(timeoutMs, 30_000))) {
      io.words('the controller looks');
      if (!flags['wait']) return EXIT.done;
      const { fleet, revision } = await desk.fleet();
      const names = stack === '' ? [...fleet.stacks.keys()] : [stack];
      for (const name of names)
        if (!(await desk.wait(name, 'Ready', timeoutMs, revision.commit, stop))) {
          io.words(`${name} is not Ready in time; \`windlass get ${name}\` says why`);
          return EXIT.failed;
        }
      io.data(names.map((name) => `${name}: Ready`).join('\n'));
      return EXIT.done;
    }
    io.words('no controller runs on this state directory: one pass from here');
    const view = await desk.plan(stack === '' ? [] : [stack]);
    const progress = lineObserver({ write: (line) => io.words(desk.house.redact(line).trimEnd()) });
    const result = await desk.apply(view, { signal: now, stop, progress, trigger: 'cli', prune: false });
    for (const [name, fault] of result.failures) io.words(desk.house.redact(formatFault(io, fault, { stack: name })));
    for (const one of view.surveyed)
      if (one.kind === 'refused') io.words(desk.house.redact(formatFault(io, one.fault, { stack: one.name })));
    const [first] = result.failures.values();
    if (first) return exitOf(first);
    return view.surveyed.every((one) => one.kind === 'judged') ? EXIT.done : EXIT.failed;
  },
};
