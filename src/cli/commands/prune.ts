// `windlass prune`: what left the fleet, what stays behind, and the word that lets it go.

import { Fault } from '../../core/fault.ts';
import { type Command, textFlag } from '../command.ts';
import { EXIT } from '../exit.ts';

export const command: Command = {
  words: ['prune'],
  summary: 'list what left the fleet; with the digest of that list, remove it (volumes never)',
  usage: '',
  example: 'windlass prune --confirm 0123456789abcdef',
  arity: [0, 0],
  flags: { confirm: { type: 'string', value: 'DIGEST', help: 'the digest that `windlass prune` printed' } },
  async run({ io, json, flags, surface, now }) {
    const desk = await surface();
    const { gone, orphans } = await desk.prunable();
    const confirm = textFlag(flags, 'confirm');
    if (confirm === undefined) {
      if (json)
        io.json({
          removable: gone.removable.map((one) => one.stack),
          kept: gone.kept.map((one) => one.stack),
          guard: gone.guard,
          digest: gone.digest,
          orphans,
        });
      else {
        for (const one of gone.removable) io.data(`- ${one.stack}: containers and networks; volumes stay`);
        for (const one of gone.kept) io.data(`  ${one.stack}: stays because of prune: false`);
        for (const one of orphans)
          io.data(`  volume ${one.volume} of ${one.stack} is orphaned since ${new Date(one.sinceMs).toISOString()}`);
        if (gone.guard) io.words(`waits: ${gone.guard}`);
        io.words(
          gone.removable.length > 0
            ? `remove them with \`windlass prune --confirm ${gone.digest}\``
            : 'nothing left the fleet',
        );
      }
      return EXIT.done;
    }
    if (gone.removable.length === 0) {
      io.words('nothing left the fleet');
      return EXIT.done;
    }
    if (confirm !== gone.digest) throw new Fault('PLAN_STALE', `the list is another one now: ${gone.digest}`);
    for (const run of await desk.prune(gone, now)) io.data(`uninstalled ${run.stack}; its volumes stay`);
    return EXIT.done;
  },
};
