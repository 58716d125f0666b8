// `windlass logs`: the log lines of a stack's containers, redacted.
import { type Command, countFlag } from '../command.ts';

export const command: Command = {
  words: ['logs'],
  summary: 'print the log of a stack, or of one of its services; as JSON: one object a line',
  usage: 'STACK [SERVICE]',
  example: 'windlass logs shop web --tail 100',
  arity: [1, 2],
  flags: {
    tail: { type: 'string', value: '50', help: 'how many lines of each container' },
    follow: { type: 'boolean', short: 'f', help: 'go on with new lines' },
  },
  async run({ io, json, flags, args, surface, stop }) {
    const options = { tail: countFlag(flags, 'tail', 50), follow: flags['follow'] === true, signal: stop };
    const desk = await surface('state');
    await desk.logs(args[0] ?? '', args[1], options, (container, line) =>
      json ? io.jsonLine({ container, line }) : io.data(`${io.paint('cyan', container)} | ${line}`),
    );
    return 0;
  },
};
