// `windlass wait`: until a condition of a stack is true.
import { CONDITION_TYPES, type ConditionType } from '../../core/status/condition.ts';
import { type Command, durationFlag, textFlag, UsageError } from '../command.ts';
import { EXIT } from '../exit.ts';
import { formatStatus } from '../views/status.ts';

export const command: Command = {
  words: ['wait'],
  summary: 'wait until a condition of a stack is true; exits with 1 at the end of the time',
  usage: 'STACK',
  example: 'windlass wait shop --for Ready --timeout 2m',
  arity: [1, 1],
  flags: {
    for: { type: 'string', value: 'CONDITION', help: `one of ${CONDITION_TYPES.join(', ')}; default Ready` },
    timeout: { type: 'string', value: '5m', help: 'how long at most' },
    revision: {
      type: 'string',
      value: 'COMMIT',
      help: 'and the condition speaks of this commit; `head` = the newest one',
    },
  },
  async run({ io, json, flags, args, surface, stop }) {
    const desk = await surface();
    const type = (textFlag(flags, 'for') ?? 'Ready') as ConditionType;
    if (!CONDITION_TYPES.includes(type))
      throw new UsageError(`--for takes one of ${CONDITION_TYPES.join(', ')}, not ${type}`);
    const stack = args[0] ?? '';
    const wanted = textFlag(flags, 'revision');
    const revision = wanted === 'head' ? (await desk.fleet()).revision.commit : (wanted ?? null);
    const found = await desk.wait(stack, type, durationFlag(flags, 'timeout', 5 * 60_000), revision, stop);
    if (found) {
      if (json) io.json(found);
      else io.data(`${stack}: ${type} ${found.reason}`);
      return EXIT.done;
    }
    const status = await desk.statusOf(stack);
    io.words(`${stack} is not ${type} in time`);
    io.words(formatStatus(io, status, desk.history(stack, 1)[0], desk.house.clock.nowMs()));
    return EXIT.failed;
  },
};
