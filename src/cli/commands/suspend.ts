// `windlass suspend`: leave a stack as it is until it is resumed.
import { type Command, textFlag, UsageError } from '../command.ts';

export const command: Command = {
  words: ['suspend'],
  summary: 'leave a stack as it is: no deploy, no heal',
  usage: 'STACK',
  example: 'windlass suspend shop --reason "moving house" --until 2030-01-01',
  arity: [1, 1],
  flags: {
    reason: { type: 'string', value: 'TEXT', help: 'shown to everybody who wonders' },
    until: { type: 'string', value: 'TIME', help: 'an ISO time; without it until `windlass resume`' },
  },
  async run({ io, flags, args, surface }) {
    const desk = await surface();
    const stack = args[0] ?? '';
    await desk.statusOf(stack);
    const until = textFlag(flags, 'until');
    const untilMs = until === undefined ? 0 : Date.parse(until);
    if (Number.isNaN(untilMs))
      throw new UsageError(`--until takes an ISO time such as 2030-01-31T12:00:00Z, not ${until}`);
    if (until !== undefined && untilMs <= desk.house.clock.nowMs())
      throw new UsageError(`--until ${until} is in the past`);
    desk.hold(stack, { kind: 'suspended', reason: textFlag(flags, 'reason') ?? '', untilMs });
    await desk.nudge(stack, false, 10_000);
    io.words(`${stack} is suspended${until ? ` until ${until}` : ''}`);
    return 0;
  },
};
