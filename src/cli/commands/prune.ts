// `windlass prune`: what left the fleet, what stays behind, and the word that lets it go.
import { type Command, textFlag } from '../command.ts';
import { EXIT, exitOf } from '../exit.ts';
import { formatFault } from '../views/fault.ts';
import { formatLost, formatRemoved, formatStays } from '../views/plan.ts';

export const command: Command = {
  words: ['prune'],
  summary: 'list what left the fleet; with the digest of that list, remove it (volumes never)',
  usage: '[STACK…]',
  example: 'windlass prune --confirm 0123456789abcdef',
  arity: [0, 100],
  drains: true,
  flags: { confirm: { type: 'string', value: 'DIGEST', help: 'the digest that `windlass prune` printed' } },
  async run({ io, json, flags, args, surface, stop, now }) {
    const desk = await surface('state');
    const confirm = textFlag(flags, 'confirm');
    if (confirm !== undefined) {
      const { removed, failures } = await desk.prune(confirm, stop, now, args);
      if (json)
        io.json({
          removed,
          failures: [...failures].map(([stack, { code, message }]) => ({ stack, code, message })),
        });
      else for (const run of removed) io.data(formatRemoved(run));
      for (const [stack, fault] of failures) io.words(formatFault(io.inWords, fault, { stack }));
      if (removed.length + failures.size === 0) io.words('nothing left the fleet');
      const [first] = failures.values();
      return first ? exitOf(first) : EXIT.done;
    }
    const { gone, byRequest, lostHooks, orphans, never } = await desk.prunable(args);
    if (json) {
      io.json({
        removable: gone.removable.map((one) => one.stack),
        kept: gone.kept.map((one) => one.stack),
        byRequest,
        guard: never?.message ?? gone.guard,
        digest: gone.digest,
        lostHooks: Object.fromEntries(lostHooks),
        orphans,
      });
      return EXIT.done;
    }
    for (const one of gone.removable)
      io.data(
        [`- ${one.stack}: containers and networks; volumes stay`, ...formatLost(io, lostHooks.get(one.stack))].join(
          '\n',
        ),
      );
    for (const one of gone.kept) io.data(`  ${formatStays(one.stack, byRequest)}`);
    for (const one of orphans)
      io.data(`  volume ${one.volume} of ${one.stack} is orphaned since ${new Date(one.sinceMs).toISOString()}`);
    if (never) io.words(formatFault(io.inWords, never));
    else if (gone.guard) io.words(`waits: ${gone.guard}`);
    if (gone.removable.length === 0) io.words('nothing left the fleet');
    else if (!never) io.words(`remove them with \`windlass prune ${[...args, '--confirm'].join(' ')} ${gone.digest}\``);
    return EXIT.done;
  },
};
