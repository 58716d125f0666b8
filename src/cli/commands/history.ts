// `windlass history`: the runs of a stack, newest first.
import type { RunRecord } from '../../core/status/event.ts';
import { formatAge } from '../../core/status/format-condition.ts';
import { type Command, countFlag } from '../command.ts';
import { plural } from '../views/diagnostic.ts';
import { formatFailedHooks, formatHook } from '../views/hooks.ts';
import { formatTable, oneLine } from '../views/table.ts';

export const command: Command = {
  words: ['history'],
  summary: 'list what was done to a stack (or all), newest first',
  usage: '[STACK]',
  example: 'windlass history shop --limit 5',
  arity: [0, 1],
  flags: { limit: { type: 'string', value: '20', help: 'how many rows' } },
  async run({ io, json, flags, args, surface }) {
    const limit = countFlag(flags, 'limit', 20);
    const desk = await surface('state');
    const runs = desk.history(args[0], limit);
    // A name that nobody knows is a mistake, not a stack without a past.
    if (runs.length === 0 && args[0] !== undefined) await desk.statusOf(args[0]);
    if (json) io.json(runs);
    else if (runs.length === 0) io.words('nothing was done yet');
    else
      io.data(
        formatTable(
          ['WHEN', 'STACK', 'OPERATION', 'REVISION', 'OUTCOME', 'TOOK', 'TRIGGER', 'CHANGES'],
          runs.map((run) => [
            new Date(run.startedAtMs).toISOString().slice(0, 19),
            run.stack,
            run.operation,
            run.revision.slice(0, 7),
            run.outcome,
            run.endedAtMs > 0 ? formatAge(run.endedAtMs - run.startedAtMs) : '-',
            run.trigger,
            [run.message || plural(run.changes.length, 'change'), ...(run.hooks ?? []).map(formatHook)].join('; '),
          ]),
          io.width,
        ) +
          // Of many stacks it would be much to read.
          (args[0] === undefined ? '' : `${formatPlans(runs)}${formatFailedHooks(io, args[0], runs)}`),
      );
    return 0;
  },
};

/** What people decided about: its plan said what becomes of data. */
function formatPlans(runs: readonly RunRecord[]): string {
  const lines: string[] = [];
  for (const { startedAtMs, operation, trigger, changes } of runs)
    if (trigger.startsWith('request ') && changes.length > 0) {
      lines.push('', `${new Date(startedAtMs).toISOString().slice(0, 19)} ${operation} by the ${trigger}`);
      lines.push(...changes.map((line) => `  ${oneLine(line)}`));
    }
  return lines.length === 0 ? '' : `\n${lines.join('\n')}`;
}
