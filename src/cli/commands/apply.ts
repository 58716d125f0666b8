// `windlass apply`: shows the plan, asks, and carries it out. A saved plan is refused when what it saw has moved.
import { readFile, stat } from 'node:fs/promises';
import { Fault } from '../../core/fault.ts';
import { lineObserver } from '../../engine/observers/line.ts';
import { liveObserver } from '../../engine/observers/live.ts';
import { ndjsonObserver } from '../../engine/observers/ndjson.ts';
import { DeclinedError } from '../../engine/pipeline.ts';
import type { SavedPlan } from '../../surface.ts';
import { type Command, textFlag, UsageError } from '../command.ts';
import { EXIT, exitOf, formatFault } from '../exit.ts';
import { formatPlan, hasChanges, hasErrors } from '../views/plan.ts';

const PLAN_BYTES = 1024 * 1024;

export const command: Command = {
  words: ['apply'],
  summary: 'deploy the newest commit, or a saved plan',
  usage: '[PLAN-FILE]',
  example: 'windlass apply --yes',
  arity: [0, 1],
  flags: {
    stack: { type: 'string', value: 'NAME', multiple: true, help: 'only this stack; may be given several times' },
    yes: { type: 'boolean', short: 'y', help: 'do not ask' },
    'no-prune': { type: 'boolean', help: 'leave the stacks that left the fleet alone' },
  },
  async run({ io, json, flags, args, surface, stop, now }) {
    const desk = await surface();
    const stacks = Array.isArray(flags['stack']) ? (flags['stack'] as string[]) : [];
    const file = args[0];
    if (file !== undefined && stacks.length > 0)
      throw new UsageError('a saved plan names its stacks itself: leave --stack out');
    const ndjson = textFlag(flags, 'output') === 'ndjson';
    const view = file === undefined ? await desk.plan(stacks) : await desk.again(await readPlan(file));
    if (!ndjson && !json) io.data(desk.house.redact(formatPlan(io, view)));
    if (view.work.length === 0 && (flags['no-prune'] || !hasChanges(view)))
      return hasErrors(view) ? EXIT.failed : EXIT.done;
    if (!flags['yes']) {
      if (!io.interactive) throw new UsageError('nobody is there to say yes: give --yes');
      if (!(await io.confirm('Do it?', stop))) throw new DeclinedError();
    }
    const progress = ndjson
      ? ndjsonObserver({ write: (line) => io.data(desk.house.redact(line).trimEnd()) })
      : io.errStream.isTTY
        ? liveObserver({ stream: io.errStream })
        : lineObserver({ write: (line) => io.words(desk.house.redact(line).trimEnd()) });
    const result = await desk.apply(view, { signal: now, stop, progress, trigger: 'cli', prune: !flags['no-prune'] });
    for (const [name, fault] of result.failures) io.words(desk.house.redact(formatFault(io, fault, { stack: name })));
    for (const run of result.removed) io.words(`uninstalled ${run.stack}; its volumes stay`);
    const done = result.outcome?.runs.filter((run) => run.outcome === 'succeeded').length ?? 0;
    const held = view.work.length - (result.outcome?.runs.length ?? 0) - 0;
    if (json)
      io.json({
        runs: result.outcome?.runs ?? [],
        removed: result.removed,
        failures: Object.fromEntries(
          [...result.failures].map(([name, fault]) => [name, { code: fault.code, message: fault.message }]),
        ),
      });
    else
      io.words(
        `${done} deployed${result.failures.size > 0 ? `, ${result.failures.size} failed` : ''}${held > 0 && result.failures.size === 0 ? `, ${held} held back` : ''}`,
      );
    const [first] = result.failures.values();
    if (first) return exitOf(first);
    return hasErrors(view) ? EXIT.failed : EXIT.done;
  },
};

async function readPlan(file: string): Promise<SavedPlan> {
  let text: string;
  try {
    if ((await stat(file)).size > PLAN_BYTES) throw new UsageError(`${file} is too large for a plan`);
    text = await readFile(file, 'utf8');
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`the plan ${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
  try {
    const plan = JSON.parse(text) as SavedPlan;
    if (plan.windlass === 'plan' && plan.version === 1 && typeof plan.digest === 'string' && Array.isArray(plan.stacks))
      return plan;
  } catch {
    // said below
  }
  throw new Fault('USAGE', `${file} is not a plan that \`windlass plan --out\` wrote`);
}
