// `windlass unlock`: breaks leases whose owner is gone.
import type { Command } from '../command.ts';

export const command: Command = {
  words: ['unlock'],
  summary: 'list the leases, or break the one of a stack whose owner is gone',
  usage: '[STACK]',
  example: 'windlass unlock shop',
  arity: [0, 1],
  async run({ io, json, args, surface }) {
    const { store, clock } = (await surface()).house;
    const leases = store.leases();
    const stack = args[0];
    if (stack === undefined) {
      if (json) io.json(leases);
      else
        for (const one of leases)
          io.data(`${one.name}  ${one.owner}  ${one.expiresAtMs > clock.nowMs() ? 'held' : 'expired'}`);
      if (leases.length === 0) io.words('nothing is locked');
      return 0;
    }
    store.breakLease(`stack/${stack}`);
    io.words(`${stack} is unlocked`);
    return 0;
  },
};
