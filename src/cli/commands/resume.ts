// `windlass resume`: ends suspend, stop, hold and rollback of a stack.
import type { Command } from '../command.ts';

export const command: Command = {
  words: ['resume'],
  summary: 'end a suspend, a stop, a hold or a rollback',
  usage: 'STACK',
  example: 'windlass resume shop',
  arity: [1, 1],
  async run({ io, json, args, surface }) {
    const desk = await surface('state');
    const stack = args[0] ?? '';
    await desk.statusOf(stack);
    const lifted = desk.release(stack);
    await desk.tell(stack);
    if (json) io.json({ stack, lifted });
    io.words(
      lifted.length > 0
        ? `${stack} is no longer ${lifted.map((hold) => hold.kind).join(', ')}`
        : `${stack} follows git`,
    );
    return 0;
  },
};
