// `windlass apply`: shows the plan, asks, and carries it out. A saved plan is refused when what it saw has moved.
import { readFile, stat } from 'node:fs/promises';
import type { Fault } from '../../core/fault.ts';
import type { SavedPlan } from '../../surface.ts';
import { type Command, listFlag, textFlag, UsageError } from '../command.ts';
import { EXIT, exitOf } from '../exit.ts';
import { progressOf } from '../progress.ts';
import { plural } from '../views/diagnostic.ts';
import { formatFault } from '../views/fault.ts';
import {
  errorExit,
  formatKept,
  formatPlan,
  formatRemoved,
  hasChanges,
  leftOutExit,
  leftOutJson,
} from '../views/plan.ts';
import { oneLine } from '../views/table.ts';

const PLAN_BYTES = 1024 * 1024;

export const command: Command = {
  words: ['apply'],
  summary: 'deploy the newest commit, or a saved plan',
  usage: '[PLAN-FILE]',
  example: 'windlass apply --yes --source https://git.example.org/fleet.git',
  arity: [0, 1],
  outputs: ['json', 'ndjson'],
  drains: true,
  flags: {
    stack: { type: 'string', value: 'NAME', multiple: true, help: 'only this stack; may be given several times' },
    yes: { type: 'boolean', short: 'y', help: 'do not ask' },
    'without-data': {
      type: 'boolean',
      help: 'also make stacks empty whose data an authorised request has yet to bring from an archive',
    },
    'no-prune': { type: 'boolean', help: 'leave the stacks that left the fleet alone' },
  },
  async run({ io, json, flags, args, surface, stop, now }) {
    const stacks = listFlag(flags, 'stack');
    const [file] = args;
    if (file !== undefined && stacks.length > 0)
      throw new UsageError('a saved plan names its stacks itself: leave --stack out');
    const saved = file === undefined ? null : await readPlan(file);
    const desk = await surface();
    const ndjson = textFlag(flags, 'output') === 'ndjson';
    const withoutData = flags['without-data'] === true;
    const wanted = { withoutData, prune: !flags['no-prune'] };
    const planned = saved ? await desk.again(saved, wanted) : await desk.plan(stacks, wanted);
    const view = flags['no-prune'] ? { ...planned, gone: { ...planned.gone, removable: [] } } : planned;
    // Machines get what was done as data; the plan is then for the person who looks on.
    if (json || ndjson) io.words(formatPlan(io.inWords, view));
    else io.data(formatPlan(io, view));
    if (view.denied) return errorExit(view);
    if (hasChanges(view) && !flags['yes']) {
      if (!io.interactive)
        throw new UsageError('nobody is there to say yes\n  help     read the plan above, then give --yes');
      if (!(await io.confirm('Do it?', stop))) {
        const { DeclinedError } = await import('../../engine/pipeline.ts');
        throw new DeclinedError();
      }
    }
    desk.settleLeftOut(view);
    if (view.work.length === 0 && !hasChanges(view)) {
      await desk.take(view);
      if (json) io.json({ runs: [], removed: [], failures: {}, leftOut: leftOutJson(view) });
      return leftOutExit(view);
    }

    const progress = await progressOf(io, ndjson ? 'ndjson' : 'people');
    const prune = !flags['no-prune'];
    const note = (line: string): void => io.words(oneLine(line));
    const result = await desk.apply(view, { signal: now, stop, progress, trigger: 'cli', prune, withoutData, note });
    const failed = [...result.failures].filter(([, fault]) => fault.code !== 'CANCELLED');
    for (const [name, fault] of failed) io.words(formatFault(io.inWords, fault, { stack: name }));
    for (const run of result.removed) io.words(formatRemoved(run));
    for (const one of result.kept) io.words(formatKept(one));
    const runs = result.outcome?.runs ?? [];
    const done = runs.filter((run) => run.outcome === 'succeeded').length;
    const later = result.outcome?.notBegun ?? [];
    const isCancelled = ([name, { code }]: [string, Fault]) => code === 'CANCELLED' && !later.includes(name);
    const cancelled = [...result.failures].filter(isCancelled).length;
    const going = view.gone.guard === null && prune ? view.gone.removable : [];
    const staying = going.filter(
      ({ stack }) =>
        !result.failures.has(stack) &&
        !result.removed.some((run) => run.stack === stack) &&
        !result.kept.some(({ leaver }) => leaver.stack === stack),
    ).length;
    if (json)
      io.json({
        runs,
        removed: result.removed,
        kept: result.kept.map(({ leaver, by, what }) => ({ stack: leaver.stack, until: by, takes: what })),
        failures: Object.fromEntries(
          [...result.failures].map(([name, { code, message, data }]) => [name, { code, message, data }]),
        ),
        leftOut: leftOutJson(view),
      });
    io.words(
      [
        `${done} deployed`,
        ...(result.removed.length > 0 ? [`${result.removed.length} uninstalled`] : []),
        ...(failed.length > 0 ? [`${failed.length} failed`] : []),
        ...(cancelled > 0 ? [`${cancelled} cancelled`] : []),
        ...(later.length > 0 ? [`${plural(later.length, 'stack')} not begun`] : []),
        ...(staying > 0 ? [`${plural(staying, 'stack')} not uninstalled`] : []),
      ].join(', '),
    );
    const [first] = failed;
    if (first) return exitOf(first[1]);
    if (cancelled + later.length + staying > 0) return EXIT.failed;
    return leftOutExit(view);
  },
};

async function readPlan(file: string): Promise<SavedPlan> {
  let text: string;
  try {
    if ((await stat(file)).size > PLAN_BYTES) throw new UsageError(`${file} is too large for a plan`);
    text = await readFile(file, 'utf8');
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(
      `the plan ${file} cannot be read: ${error instanceof Error ? error.message : String(error)}\n  help     make one with \`windlass plan --out ${file}\`; to apply one stack: --stack NAME`,
    );
  }
  try {
    const plan = JSON.parse(text) as SavedPlan;
    if (
      plan.windlass === 'plan' &&
      plan.version === 1 &&
      typeof plan.digest === 'string' &&
      typeof plan.prune === 'string' &&
      typeof plan.revision === 'string' &&
      Array.isArray(plan.stacks)
    )
      return plan;
  } catch {
    // said below
  }
  throw new UsageError(`${file} is not a plan that \`windlass plan --out\` wrote`);
}
