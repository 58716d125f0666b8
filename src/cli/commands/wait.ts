// `windlass wait`: until a condition of a stack is true.
import { CONDITION_TYPES } from '../../core/status/condition.ts';
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
    const said = textFlag(flags, 'for') ?? 'Ready';
    const type = CONDITION_TYPES.find((one) => one.toLowerCase() === said.toLowerCase());
    if (!type) throw new UsageError(`--for takes one of ${CONDITION_TYPES.join(', ')}, not ${said}`);
    const wanted = textFlag(flags, 'revision');
    if (wanted !== undefined && !/^(head|[0-9a-f]{4,40})$/.test(wanted))
      throw new UsageError(`--revision takes a commit id or \`head\`, not ${wanted}`);
    const timeoutMs = durationFlag(flags, 'timeout', 5 * 60_000);
    const stack = args[0] ?? '';
    const desk = await surface('state');
    // A name that nobody knows would be waited for in vain.
    await desk.statusOf(stack);
    if (!desk.controller()) io.words('no controller runs on this state directory (yet)');
    const revision = wanted === 'head' ? (await desk.fleet()).revision.commit : (wanted ?? null);
    const found = await desk.wait(stack, type, timeoutMs, revision, stop);
    if (found) {
      if (json) io.json(found);
      else io.data(`${stack}: ${type} ${found.reason}`);
      return EXIT.done;
    }
    const status = await desk.statusOf(stack);
    if (json) io.json(status.conditions.find((one) => one.type === type) ?? null);
    io.words(`${stack} is not ${type}`);
    io.words(formatStatus(io.inWords, status, desk.history(stack, 1)[0], desk.house.clock.nowMs()));
    return EXIT.failed;
  },
};
