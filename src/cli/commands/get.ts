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
    const desk = await surface();
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
      else io.data(formatStatuses(io, all, now));
      return 0;
    }
    const one = await desk.statusOf(args[0]);
    if (json) io.json(one);
    else io.data(formatStatus(io, one, desk.history(one.name, 1)[0], now));
    return 0;
  },
};
