// `windlass plan`: what would happen, and nothing else happens.
import { writeFile } from 'node:fs/promises';
import type { Command } from '../command.ts';
import { textFlag } from '../command.ts';
import { EXIT } from '../exit.ts';
import { formatPlan, hasChanges, hasErrors, planJson } from '../views/plan.ts';

export const command: Command = {
  words: ['plan'],
  summary: 'show what a deploy of the newest commit would do',
  usage: '[STACK…]',
  example: 'windlass plan --detailed-exitcode',
  arity: [0, 10_000],
  flags: {
    out: { type: 'string', value: 'FILE', help: 'save the plan for `windlass apply FILE`' },
    'detailed-exitcode': { type: 'boolean', help: 'exit with 2 when there are changes' },
  },
  async run({ io, json, flags, args, surface }) {
    const desk = await surface();
    const view = await desk.plan(args);
    if (json) io.data(desk.house.redact(JSON.stringify(planJson(view), null, 2)));
    else io.data(desk.house.redact(formatPlan(io, view)));
    const out = textFlag(flags, 'out');
    if (out !== undefined) {
      await writeFile(out, `${JSON.stringify(desk.savePlan(view, args), null, 2)}\n`, { mode: 0o600 });
      io.words(`saved to ${out}; apply it with \`windlass apply ${out}\``);
    }
    if (hasErrors(view)) return EXIT.failed;
    return flags['detailed-exitcode'] && hasChanges(view) ? EXIT.changes : EXIT.done;
  },
};
