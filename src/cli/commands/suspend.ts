// `windlass suspend`: leave a stack as it is until it is resumed.
import { parseDuration } from '../../core/spec/duration.ts';
import { type Command, textFlag, UsageError } from '../command.ts';

const REASON_LENGTH = 500;

export const command: Command = {
  words: ['suspend'],
  summary: 'leave a stack as it is: no deploy, no heal',
  usage: 'STACK',
  example: 'windlass suspend shop --reason "moving house" --until 2h',
  arity: [1, 1],
  flags: {
    reason: { type: 'string', value: 'TEXT', help: 'shown to everybody who wonders' },
    until: {
      type: 'string',
      value: 'TIME',
      help: 'an ISO time or a duration from now; default: until `windlass resume`',
    },
  },
  async run({ io, json, flags, args, surface }) {
    const reason = textFlag(flags, 'reason') ?? '';
    if (reason.length > REASON_LENGTH) throw new UsageError(`--reason takes at most ${REASON_LENGTH} characters`);
    const desk = await surface('state');
    const stack = args[0] ?? '';
    const untilMs = untilOf(textFlag(flags, 'until'), desk.house.clock.nowMs());
    await desk.statusOf(stack);
    desk.hold(stack, { kind: 'suspended', reason, untilMs });
    await desk.tell(stack);
    if (json) io.json({ stack, reason, untilMs });
    io.words(`${stack} is suspended${untilMs > 0 ? ` until ${new Date(untilMs).toISOString()}` : ''}`);
    const underWay = desk.underWay(stack);
    if (underWay)
      io.words(
        `  a ${underWay.operation} of it is under way: while it runs the hooks before its change, these end after their current action, what they scaled is brought back and nothing is changed; later than that, it runs to its end`,
      );
    return 0;
  },
};

/** 0 = without end. A time without a zone is one of this machine. */
function untilOf(text: string | undefined, nowMs: number): number {
  if (text === undefined) return 0;
  const ms = parseDuration(text);
  const untilMs = ms === null ? (/^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN) : nowMs + ms;
  if (!Number.isFinite(untilMs))
    throw new UsageError(
      `--until takes an ISO time such as 2030-01-31T12:00:00Z or a duration such as 2h, not ${text}`,
    );
  if (untilMs <= nowMs) throw new UsageError(`--until ${text} is in the past`);
  return untilMs;
}
