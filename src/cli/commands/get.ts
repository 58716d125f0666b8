// `windlass get`: the conditions of all stacks, or one stack in full.
import type { Command } from '../command.ts';
import { formatStatus, formatStatuses } from '../views/status.ts';

export const command: Command = {
  words: ['get'],
  summary: 'show what is true of the stacks now',
  usage: '[STACK]',
  example: 'windlass get shop',
  arity: [0, 1],
  async run({ io, json, args, surface }) {
    const desk = await surface('state');
    const now = desk.house.clock.nowMs();
    if (args[0] === undefined) {
      const all = desk.status();
      if (json)
        io.json(
          all.map(({ name, conditions, applied, holds }) => ({
            name,
            conditions,
            holds,
            revision: applied?.revision ?? null,
          })),
        );
      else if (all.length > 0) io.data(formatStatuses(io, all, now));
      else io.words('no stack is known yet: run `windlass apply` or `windlass run`');
    } else {
      const one = await desk.statusOf(args[0]);
      const [lastRun] = desk.history(one.name, 1);
      if (json) io.json({ ...one, lastRun: lastRun ?? null });
      else io.data(formatStatus(io, one, lastRun, now));
    }
    if (!desk.controller()) io.words('no controller runs on this state directory: this is what was last seen');
    return 0;
  },
};
