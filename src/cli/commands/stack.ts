// `windlass stack start|stop|restart|scale`: what a person does to a stack by hand, so that the controller knows of it.
import { type Command, UsageError } from '../command.ts';
import { plural } from '../views/diagnostic.ts';

const byHand = (act: 'start' | 'stop' | 'restart', summary: string): Command => ({
  words: ['stack', act],
  summary,
  usage: 'STACK',
  example: `windlass stack ${act} shop`,
  arity: [1, 1],
  drains: true,
  async run({ io, json, args, surface, now }) {
    const stack = args[0] ?? '';
    const done = await (await surface('state')).byHand(stack, act, now);
    if (json) io.json({ stack, act, containers: done });
    else for (const name of done) io.data(name);
    io.words(done.length === 0 ? 'there was nothing to do' : plural(done.length, 'container'));
    return 0;
  },
});

export const stop = byHand('stop', 'stop a stack; it stays stopped until `windlass stack start`');
export const start = byHand('start', 'start a stopped stack');
export const restart = byHand('restart', 'restart the running containers of a stack, one after the other');

const MOST = 1_000;

export const scale: Command = {
  words: ['stack', 'scale'],
  summary: 'run another number of containers of a suspended stack; `resume` brings the declared count back',
  usage: 'STACK SERVICE=N…',
  example: 'windlass stack scale shop web=3',
  arity: [2, 100],
  drains: true,
  async run({ io, json, args, surface, now }) {
    const [stack = '', ...pairs] = args;
    const wanted = new Map<string, number>();
    for (const pair of pairs) {
      const [, service, count] = /^([^=]+)=(\d{1,4})$/.exec(pair) ?? [];
      if (service === undefined || count === undefined || Number(count) > MOST)
        throw new UsageError(`say SERVICE=N, for example web=3 (at most ${MOST}), not ${pair}`);
      wanted.set(service, Number(count));
    }
    const done = await (await surface('state')).scale(stack, wanted, now);
    if (json) io.json({ stack, scaled: done });
    else for (const one of done) io.data(`${one.service}: ${one.before} → ${one.after}`);
    return 0;
  },
};
