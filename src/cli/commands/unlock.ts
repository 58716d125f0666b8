// `windlass unlock`: breaks leases whose owner is gone.
import { type Command, UsageError } from '../command.ts';
import { formatTable } from '../views/table.ts';

export const command: Command = {
  words: ['unlock'],
  summary: 'list the leases, or break the one of a stack whose owner is gone',
  usage: '[STACK]',
  example: 'windlass unlock shop',
  arity: [0, 1],
  flags: { force: { type: 'boolean', help: 'also when its owner may still be at work' } },
  async run({ io, json, flags, args, surface }) {
    const [stack] = args;
    if (stack === undefined && flags['force']) throw new UsageError('--force is for one stack: name it');
    const desk = await surface('state');
    if (stack !== undefined) {
      const broken = desk.unlock(stack, flags['force'] === true);
      if (json) io.json({ stack, unlocked: broken });
      io.words(broken ? `${stack} is unlocked` : `${stack} was not locked`);
      return 0;
    }
    const { store, clock, settings } = desk.house;
    const leases = store.leases().map((one) => ({
      ...one,
      state: one.expiresAtMs <= clock.nowMs() ? 'expired' : settings.hasEnded(one.owner) ? 'owner has ended' : 'held',
    }));
    if (json) io.json(leases);
    else if (leases.length === 0) io.words('nothing is locked');
    else
      io.data(
        formatTable(
          ['LEASE', 'OWNER', 'STATE'],
          leases.map((one) => [one.name, one.owner, one.state]),
          io.width,
        ),
      );
    return 0;
  },
};
