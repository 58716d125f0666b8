// `windlass events`: what happened, oldest first; `--follow` goes on until it is stopped.
import type { StackEvent } from '../../core/status/event.ts';
import { type Command, countFlag } from '../command.ts';
import { oneLine } from '../views/table.ts';

const POLL_MS = 200;
const STYLES = { info: 'dim', warning: 'yellow', error: 'red' } as const;

export const command: Command = {
  words: ['events'],
  summary: 'list what happened to the stacks; as JSON with --follow: one object a line',
  usage: '[STACK]',
  example: 'windlass events --follow',
  arity: [0, 1],
  flags: {
    follow: { type: 'boolean', short: 'f', help: 'go on with new ones' },
    limit: { type: 'string', value: '50', help: 'how many of the newest' },
  },
  async run({ io, json, flags, args, surface, stop }) {
    const limit = countFlag(flags, 'limit', 50);
    const desk = await surface('state');
    const filter = args[0] === undefined ? {} : { stack: args[0] };
    const follow = flags['follow'] === true;
    const say = (event: StackEvent): void => {
      if (json) io.jsonLine(event);
      else {
        const when = new Date(event.atMs).toISOString();
        const level = io.paint(STYLES[event.level], event.level.padEnd(7));
        io.data(`${when} ${level} ${event.stack} ${event.reason} ${oneLine(event.message)}`.trimEnd());
      }
    };
    const known = desk.events({ ...filter, limit });
    if (known.length === 0 && args[0] !== undefined) await desk.statusOf(args[0]);
    if (json && !follow) io.json(known);
    else for (const event of known) say(event);
    let last = known.at(-1)?.seq ?? 0;
    while (follow && !stop.aborted) {
      await desk.house.clock.sleep(POLL_MS, stop).catch(() => {});
      if (stop.aborted) break;
      for (const event of desk.events({ ...filter, afterSeq: last })) {
        last = event.seq;
        say(event);
      }
    }
    return 0;
  },
};
