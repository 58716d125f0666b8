// `windlass plan`: what would happen, and nothing else happens.
import { writeFile } from 'node:fs/promises';
import { type Command, textFlag } from '../command.ts';
import { EXIT } from '../exit.ts';
import { errorExit, formatPlan, hasChanges, planJson } from '../views/plan.ts';

export const command: Command = {
  words: ['plan'],
  summary: 'show what a deploy of the newest commit would do',
  usage: '[STACK…]',
  example: 'windlass plan --detailed-exitcode --source https://git.example.org/fleet.git',
  arity: [0, 10_000],
  flags: {
    out: { type: 'string', value: 'FILE', help: 'save the plan for `windlass apply FILE`' },
    'detailed-exitcode': {
      type: 'boolean',
      help: 'exit with 2 when an apply would do anything, be it only to finish or to remember a deploy',
    },
    steps: { type: 'boolean', help: 'also show every step of every stack' },
  },
  async run({ io, json, flags, args, surface }) {
    const desk = await surface();
    const view = await desk.plan(args);
    if (json) io.json(planJson(view));
    else io.data(formatPlan(io, view));
    if (flags['steps'] && view.work.length > 0) {
      const steps = `\n${await desk.steps(view)}`;
      if (json) io.words(steps);
      else io.data(steps);
    }
    const out = textFlag(flags, 'out');
    if (out !== undefined) {
      await writeFile(out, `${JSON.stringify(desk.savePlan(view, args), null, 2)}\n`, { mode: 0o600 });
      io.words(`saved to ${out}; apply it with \`windlass apply ${out}\``);
    }
    const error = errorExit(view);
    if (error !== EXIT.done) return error;
    // What is to be finished or remembered goes through a whole deploy: it waits, writes files and may run hooks.
    const acts = view.work.length > 0 || hasChanges(view);
    return flags['detailed-exitcode'] && acts ? EXIT.changes : EXIT.done;
  },
};
