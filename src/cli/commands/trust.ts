// `windlass trust accept`: a person takes a rewritten branch for good, or a signed tip with unsigned commits below it.
import { type Command, UsageError } from '../command.ts';

export const accept: Command = {
  words: ['trust', 'accept'],
  summary:
    'accept a tip that does not descend from the last accepted commit, or (trust.deploy: all) a signed one above unsigned commits, after a look at what they brought',
  usage: 'TIP',
  example: 'windlass trust accept 4be1c2d0c7f1',
  arity: [1, 1],
  async run({ io, json, args, surface }) {
    const said = args[0] ?? '';
    if (!/^[0-9a-f]{12,40}$/.test(said)) throw new UsageError('name the tip by at least 12 hex digits');
    const tip = await (await surface('state')).accept(said);
    if (json) io.json({ accepted: tip });
    io.words(`${tip.slice(0, 12)} is accepted`);
    return 0;
  },
};
