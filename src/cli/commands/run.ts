// `windlass run`: the controller, until it is told to stop.
import { Fault } from '../../core/fault.ts';
import { type Command, durationFlag } from '../command.ts';

const POLL_MS = 60_000;
const INTERVAL_MS = 5 * 60_000;

export const command: Command = {
  words: ['run'],
  summary: 'watch the source and the engine and keep every stack as the newest commit asks',
  usage: '',
  example: 'windlass run --source https://git.example.org/fleet.git',
  arity: [0, 0],
  flags: {
    poll: { type: 'string', value: '60s', help: 'how often the source is asked' },
    interval: { type: 'string', value: '5m', help: 'how often everything is compared' },
  },
  async run({ io, flags, surface, stop, now }) {
    const desk = await surface();
    const other = desk.controller();
    if (other) throw new Fault('LOCK_HELD', `a controller runs on this state directory already: ${other.owner}`);
    const log = (line: string): void =>
      io.words(`${new Date(desk.house.clock.nowMs()).toISOString()} ${desk.house.redact(line)}`);
    const controller = desk.newController({
      pollMs: durationFlag(flags, 'poll', POLL_MS),
      intervalMs: durationFlag(flags, 'interval', INTERVAL_MS),
      log,
    });
    log(`watching ${desk.house.source.spec.url} ${desk.house.source.spec.ref}`);
    await controller.start();
    log('ready');
    now.addEventListener('abort', () => controller.hurry(), { once: true });
    if (!stop.aborted)
      await new Promise<void>((resolve) => stop.addEventListener('abort', () => resolve(), { once: true }));
    log('stopping: what runs is finished; a second signal leaves at once');
    await controller.stop();
    log('stopped; `windlass run` goes on where this ended');
    return 0;
  },
};
