// `windlass hooks run` and `windlass stack test`: a person runs a hook phase of a stack as it is deployed.
import type { HookPhase } from '../../core/hook/phase.ts';
import { formatAge } from '../../core/status/format-condition.ts';
import type { Command, CommandContext } from '../command.ts';
import { EXIT } from '../exit.ts';
import { phaseNamed } from '../phase-named.ts';
import { oneLine } from '../views/table.ts';

async function runPhase({ io, json, surface, now }: CommandContext, stack: string, phase: HookPhase): Promise<number> {
  const desk = await surface();
  const record = await desk.runHooks(stack, phase, now, (line) => io.words(oneLine(line)));
  if (json) io.json(record);
  else if (record === null) io.words(`no hook runs in ${phase} for ${stack}`);
  else {
    for (const action of record.actions)
      io.data(
        `${action.name}: ${action.result} in ${formatAge(action.durationMs)}${action.message ? `: ${oneLine(action.message)}` : ''}`,
      );
    for (const one of record.changed ?? []) io.words(`${phase} of ${stack}: ${oneLine(one)}`);
    io.words(`${phase} of ${stack}: ${record.outcome}${record.message === '' ? '' : ` (${oneLine(record.message)})`}`);
  }
  return EXIT.done;
}

export const run: Command = {
  words: ['hooks', 'run'],
  summary: 'run one hook phase of a stack now, as it is deployed; the record is in `windlass history`',
  usage: 'STACK PHASE',
  example: 'windlass hooks run sso post_update',
  arity: [2, 2],
  drains: true,
  async run(context) {
    const [stack = '', said = ''] = context.args;
    return runPhase(context, stack, phaseNamed(said));
  },
};

export const test: Command = {
  words: ['stack', 'test'],
  summary: 'run the `test` hooks of a stack; exits with 1 when one fails',
  usage: 'STACK',
  example: 'windlass stack test shop',
  arity: [1, 1],
  drains: true,
  run: (context) => runPhase(context, context.args[0] ?? '', 'test'),
};
