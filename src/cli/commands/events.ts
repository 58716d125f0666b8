// `windlass events`: what happened, oldest first; `--follow` goes on until it is stopped.
import type { StackEvent } from '../../core/status/event.ts';
import { type Command, countFlag } from '../command.ts';

export const command: Command = {
  words: ['events'],
  summary: 'list what happened to the stacks',
  usage: '[STACK]',
  example: 'windlass events --follow',
  arity: [0, 1],
  flags: {
    follow: { type: 'boolean', short: 'f', help: 'go on with new ones' },
    limit: { type: 'string', value: '50', help: 'how many of the newest' },
  },
  async run({ io, json, flags, args, surface, stop }) {
    const desk = await surface();
    const filter = args[0] === undefined ? {} : { stack: args[0] };
    const say = (event: StackEvent): void => {
      if (json) io.data(JSON.stringify(event));
      else
        io.data(
          `${new Date(event.atMs).toISOString()} ${event.level.padEnd(7)} ${event.stack} ${event.reason} ${event.message}`.trimEnd(),
        );
    };
    let last = 0;
    for (const event of desk.events({ ...filter, limit: countFlag(flags, 'limit', 50) })) {
      last = event.seq;
      say(event);
    }
    while (flags['follow'] && !stop.aborted) {
      await desk.house.clock.sleep(200, stop).catch(() => {});
      for (const event of desk.events({ ...filter, afterSeq: last })) {
        last = event.seq;
        say(event);
      }
    }
    return 0;
  },
};
