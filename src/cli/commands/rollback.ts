// `windlass rollback`: back to what was deployed before, until git asks for something new.
import { formatStackDiff } from '../../core/plan/format.ts';
import { type Command, textFlag, UsageError } from '../command.ts';
import { EXIT, exitOf } from '../exit.ts';
import { progressOf } from '../progress.ts';
import { formatFault } from '../views/fault.ts';
import { formatPhases, paintMarks } from '../views/plan.ts';
import { oneLine } from '../views/table.ts';

export const command: Command = {
  words: ['rollback'],
  summary:
    'go back to what was deployed last, or before that when the newest is deployed, until the stack changes in git',
  usage: 'STACK',
  example: 'windlass rollback shop --yes',
  arity: [1, 1],
  drains: true,
  flags: {
    to: { type: 'string', value: 'COMMIT', help: 'this commit (40 hex) instead' },
    yes: { type: 'boolean', short: 'y', help: 'do not ask' },
  },
  async run({ io, json, flags, args, surface, stop, now }) {
    const stack = args[0] ?? '';
    const said = textFlag(flags, 'to');
    if (said !== undefined && !/^[0-9a-f]{40}$/.test(said))
      throw new UsageError(`--to takes a full commit id of 40 hex digits, not ${said}`);
    const desk = await surface('state');
    const { from, isUndeployed, at, one, hooks } = await desk.previewRollback(stack, said);
    const { commit, subject } = at.revision;
    const newest = `${from.revision.commit.slice(0, 12)}  ${oneLine(from.revision.subject)}`;
    io.words(`from    ${newest}${isUndeployed ? ', which was not deployed: the stack stays as it was before' : ''}`);
    io.words(`back to ${commit.slice(0, 12)}  ${oneLine(subject)}`);
    if (one.kind === 'refused') throw one.fault;
    if (one.kind === 'judged')
      io.words([...paintMarks(io.inWords, formatStackDiff(one.diff)), ...formatPhases(io.inWords, hooks)].join('\n'));
    if (!flags['yes']) {
      if (!io.interactive)
        throw new UsageError('nobody is there to say yes\n  help     read the preview above, then give --yes');
      if (!(await io.confirm(`Take ${stack} back?`, stop))) {
        const { DeclinedError } = await import('../../engine/pipeline.ts');
        throw new DeclinedError();
      }
    }
    await desk.rollback(stack, commit);
    const after = `it follows git again when it changes there, or after \`windlass resume ${stack}\``;
    if (await desk.tell(stack)) {
      if (json) io.json({ stack, to: commit, by: 'controller' });
      io.words(`the controller takes ${stack} back to ${commit.slice(0, 12)}; ${after}`);
      return EXIT.done;
    }
    const view = await desk.plan([stack]);
    const progress = await progressOf(io, 'people');
    const { outcome, failures } = await desk.apply(view, {
      signal: now,
      stop,
      progress,
      trigger: 'rollback',
      prune: false,
      note: (line) => io.words(oneLine(line)),
    });
    for (const [name, fault] of failures) io.words(formatFault(io.inWords, fault, { stack: name }));
    if (json) io.json({ stack, to: commit, by: 'this process', runs: outcome?.runs ?? [] });
    const [first] = failures.values();
    if (first) return exitOf(first);
    const hold = view.held.get(stack);
    io.words(
      hold
        ? `${stack} is ${hold.kind}: it goes back to ${commit.slice(0, 12)} after \`windlass resume\``
        : `${stack} is back at ${commit.slice(0, 12)}; ${after}`,
    );
    return EXIT.done;
  },
};
