// `windlass hooks log`: what the actions of a hook phase printed when it last ran. Reads the state only.

import { Fault } from '../../core/fault.ts';
import type { Command } from '../command.ts';
import { EXIT } from '../exit.ts';
import { phaseNamed } from '../phase-named.ts';
import { oneLine } from '../views/table.ts';

export const log: Command = {
  words: ['hooks', 'log'],
  summary: 'print what a hook phase printed when it last ran, or one action of it by its number; secrets redacted',
  usage: 'STACK PHASE [ACTION]',
  example: 'windlass hooks log sso post_update 1',
  arity: [2, 3],
  async run({ io, json, args, surface }) {
    const [stack = '', said = '', action] = args;
    const phase = phaseNamed(said);
    const desk = await surface('state');
    const logs = desk.hookLogs(stack, phase);
    // A name that nobody knows is a mistake, not a stack without a past.
    if (logs.length === 0) await desk.statusOf(stack);
    const chosen = action === undefined ? logs : logs.filter((one) => one.id === action);
    if (action !== undefined && chosen.length === 0)
      throw new Fault('NOT_FOUND', `no action ${action} ran when ${phase} of ${stack} last did`, {
        data: { known: logs.map((one) => one.id) },
      });
    if (json) io.json(chosen);
    else if (chosen.length === 0) io.words(`${phase} of ${stack} has not run`);
    else if (action !== undefined) io.data(chosen[0]?.text ?? '');
    else for (const one of chosen) io.data(`${io.paint('bold', `${one.id} ${oneLine(one.name)}`)}\n${one.text}`);
    return EXIT.done;
  },
};
