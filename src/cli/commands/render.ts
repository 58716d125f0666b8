// `windlass render`: what Compose is given for a stack, secrets masked.
import type { Command } from '../command.ts';

export const command: Command = {
  words: ['render'],
  summary: 'print the resolved Compose project of a stack, secrets masked',
  usage: 'STACK',
  example: 'windlass render shop -o json',
  arity: [1, 1],
  async run({ io, json, args, surface }) {
    const model = await (await surface('state')).render(args[0] ?? '');
    if (json) io.json(model);
    else {
      const { stringify } = await import('yaml');
      io.data(stringify(model).trimEnd());
    }
    return 0;
  },
};
