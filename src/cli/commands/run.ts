// `windlass run`: the controller, until it is told to stop.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Fault } from '../../core/fault.ts';
import { type Command, durationFlag, UsageError } from '../command.ts';
import { oneLine } from '../views/table.ts';

const POLL_MS = 60_000;
const INTERVAL_MS = 5 * 60_000;
const LEAST_MS = 1_000;

/** How often it is looked whether a burst of work left the heap large. */
export const HEAP_LOOK_MS = 30_000;
const SLACK = 1.5;
const FADE = 0.7;

/**
 * By default V8 lets its heap grow by the size of the machine, and keeps what a burst of work took. A controller that runs for months takes
 * what it needs, not what there is.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--heap-growing-percent=30');
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as NodeJS.GCFunction;
  let needed = 0;
  setInterval(async () => {
    // What was needed in the middle of a burst is forgotten little by little.
    needed *= FADE;
    // Of all memory: what V8 keeps in its pools, and what lies outside of its heap, is several times the heap after a burst.
    if (process.memoryUsage.rss() <= needed * SLACK) return;
    await collect({ type: 'major', execution: 'async', flavor: 'last-resort' });
    needed = process.memoryUsage.rss();
  }, HEAP_LOOK_MS).unref();
}

export const command: Command = {
  words: ['run'],
  summary: 'watch the source and the engine and keep every stack as the newest commit asks',
  usage: '',
  example: 'windlass run --source https://git.example.org/fleet.git',
  arity: [0, 0],
  outputs: [],
  drains: true,
  flags: {
    poll: { type: 'string', value: '60s', help: 'how often the source is asked' },
    interval: { type: 'string', value: '5m', help: 'how often everything is compared' },
  },
  async run({ io, flags, open, stop, now }) {
    for (const name of ['poll', 'interval'])
      if (durationFlag(flags, name, LEAST_MS) < LEAST_MS) throw new UsageError(`--${name} is at least 1s`);
    keepHeapSmall();
    const { surface: desk, pollMs = POLL_MS, intervalMs = INTERVAL_MS } = await open();
    const other = desk.controller();
    if (other) throw new Fault('LOCK_HELD', `a controller runs on this state directory already: ${other.owner}`);
    const log = (line: string): void => io.words(`${new Date(desk.house.clock.nowMs()).toISOString()} ${line}`);
    const controller = desk.newController({
      pollMs: durationFlag(flags, 'poll', pollMs),
      intervalMs: durationFlag(flags, 'interval', intervalMs),
      log,
      // Of a deploy the log tells what its hooks do: that may take long.
      progress: (stack) => ({
        onNote: (_phase, _target, step, _slot, line) => {
          if (step.endsWith('-hooks')) log(`${stack}: ${oneLine(line)}`);
        },
      }),
    });
    log(`watching ${desk.house.source.spec.url} ${desk.house.source.spec.ref}`);
    await controller.start();
    log('ready');
    const hurry = (): void => controller.hurry();
    now.addEventListener('abort', hurry, { once: true });
    if (now.aborted) hurry();
    if (!stop.aborted)
      await new Promise<void>((resolve) => stop.addEventListener('abort', () => resolve(), { once: true }));
    log('stopping: what runs is finished; a second signal leaves at once');
    await controller.stop();
    log('stopped; `windlass run` goes on where this ended');
    return 0;
  },
};
