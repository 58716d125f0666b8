// `windlass trace`: from a container back to the commit that asked for it.
import type { Command } from '../command.ts';
import { formatTable } from '../views/table.ts';

export const command: Command = {
  words: ['trace'],
  summary: 'container → service → stack → commit → signer',
  usage: 'STACK|CONTAINER',
  example: 'windlass trace shop-web-1',
  arity: [1, 1],
  async run({ io, json, args, surface }) {
    const traced = await (await surface('state')).trace(args[0] ?? '');
    if (json) io.json(traced);
    else
      io.data(
        formatTable(
          ['CONTAINER', 'SERVICE', 'STACK', 'IMAGE', 'COMMIT', 'SIGNER', 'AUTHOR', 'SUBJECT'],
          traced.map((one) => [
            one.container,
            one.service,
            one.stack || '(not ours)',
            one.image,
            one.revision.slice(0, 12) || '-',
            one.signer ?? '-',
            one.author || '-',
            one.subject,
          ]),
          io.width,
        ),
      );
    return 0;
  },
};
