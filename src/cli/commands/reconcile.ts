// `windlass reconcile`: asks the running controller to look now, or does one pass itself when none runs.
import type { Surface } from '../../surface.ts';
import { type Command, type CommandContext, durationFlag, UsageError } from '../command.ts';
import { EXIT, exitOf } from '../exit.ts';
import { progressOf } from '../progress.ts';
import { formatFault } from '../views/fault.ts';
import { formatPlan, leftOutExit } from '../views/plan.ts';
import { oneLine } from '../views/table.ts';

export const command: Command = {
  words: ['reconcile'],
  summary:
    'have the controller fetch and judge the requests now, and look at a stack or at all; where none runs, do one pass from here',
  usage: 'STACK | --all',
  example: 'windlass reconcile shop --wait',
  arity: [0, 1],
  drains: true,
  flags: {
    all: { type: 'boolean', help: 'every stack' },
    wait: { type: 'boolean', help: 'until it is Ready at the newest commit' },
    timeout: { type: 'string', value: '5m', help: 'how long to wait' },
  },
  async run(context) {
    const { io, json, flags, args, surface } = context;
    const stack = args[0] ?? '';
    if (stack === '' && !flags['all']) throw new UsageError('name a stack, or give --all');
    if (stack !== '' && flags['all']) throw new UsageError('either a stack or --all, not both');
    const timeoutMs = durationFlag(flags, 'timeout', 5 * 60_000);
    const desk = await surface('state');
    if (stack !== '') await desk.statusOf(stack);
    if (!(await desk.nudge(stack, true, Math.min(timeoutMs, 30_000)))) return onePass(context, desk, stack);
    io.words('the controller looks');
    if (!flags['wait']) {
      if (json) io.json({ by: 'controller', stacks: stack === '' ? [] : [stack] });
      return EXIT.done;
    }
    return waitForAll(context, desk, stack, timeoutMs);
  },
};

async function waitForAll(
  { io, json, stop }: CommandContext,
  desk: Surface,
  stack: string,
  timeoutMs: number,
): Promise<number> {
  // Nothing becomes ready at a commit that is not accepted.
  const denied = await desk.deniedTip();
  if (denied) throw denied;
  const { fleet, revision } = await desk.fleet();
  const names = stack === '' ? [...fleet.stacks.keys()] : [stack];
  const end = desk.house.clock.nowMs() + timeoutMs;
  const late: string[] = [];
  for (const name of names) {
    const left = Math.max(0, end - desk.house.clock.nowMs());
    if (!(await desk.wait(name, 'Ready', left, revision.commit, stop))) late.push(name);
  }
  const ready = names.filter((name) => !late.includes(name));
  if (json) io.json({ by: 'controller', revision: revision.commit, ready, notReady: late });
  else if (ready.length > 0) io.data(ready.map((name) => `${name}: Ready`).join('\n'));
  for (const name of late) io.words(`${name} is not Ready; \`windlass get ${name}\` says why`);
  return late.length > 0 ? EXIT.failed : EXIT.done;
}

async function onePass({ io, json, stop, now }: CommandContext, desk: Surface, stack: string): Promise<number> {
  io.words('no controller runs on this state directory: one pass from here');
  const view = await desk.plan(stack === '' ? [] : [stack], { prune: false });
  // A pass from here uninstalls nothing: that is for an apply, which asks.
  const shown = { ...view, gone: { ...view.gone, removable: [], guard: null } };
  io.words(formatPlan(io.inWords, shown));
  if (!view.denied) desk.settleLeftOut(shown);
  const progress = await progressOf(io, 'people');
  const note = (line: string): void => io.words(oneLine(line));
  const result = await desk.apply(shown, { signal: now, stop, progress, trigger: 'cli', prune: false, note });
  for (const [name, fault] of result.failures) io.words(formatFault(io.inWords, fault, { stack: name }));
  if (json) io.json({ by: 'this process', revision: view.at.revision.commit, runs: result.outcome?.runs ?? [] });
  const [first] = result.failures.values();
  return first ? exitOf(first) : leftOutExit(shown);
}
