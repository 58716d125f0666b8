// `windlass stack start|stop|restart|scale`: what a person does to a stack by hand, so that the controller knows of it.
import { Fault } from '../../core/fault.ts';
import { type Command, UsageError } from '../command.ts';

const byHand = (act: 'start' | 'stop' | 'restart', summary: string): Command => ({
  words: ['stack', act],
  summary,
  usage: 'STACK',
  example: `windlass stack ${act} shop`,
  arity: [1, 1],
  async run({ io, args, surface, now }) {
    const done = await (await surface()).byHand(args[0] ?? '', act, now);
    for (const name of done) io.data(name);
    io.words(done.length === 0 ? 'there was nothing to do' : `${done.length} containers`);
    return 0;
  },
});

export const stop = byHand('stop', 'stop a stack; it stays stopped until `windlass stack start`');
export const start = byHand('start', 'start a stopped stack');
export const restart = byHand('restart', 'restart the running containers of a stack, one after the other');

export const scale: Command = {
  words: ['stack', 'scale'],
  summary: 'say where replicas are declared: a count set by hand would be drift',
  usage: 'STACK SERVICE=N',
  example: 'windlass stack scale shop web=3',
  arity: [2, 2],
  async run({ args }) {
    const [stack, pair = ''] = args;
    const [service, count] = pair.split('=');
    if (!service || !/^\d+$/.test(count ?? '')) throw new UsageError(`say SERVICE=N, for example web=3, not ${pair}`);
    throw new Fault(
      'USAGE',
      `the replicas of ${stack} are declared in git, and any other count is healed at once: set \`replicas: { ${service}: ${count} }\` in its stack.yaml (or deploy.replicas in its Compose file) and push`,
    );
  },
};
