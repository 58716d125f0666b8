// Things that the engine's tests share: a clock moved by hand, and steps that write down what was asked of them.
import type { Clock } from '../../src/engine/clock.ts';
import { Plan } from '../../src/engine/plan.ts';
import type { Step, Target } from '../../src/engine/step.ts';

/** Lets everything that is ready run, without real time. */
export const settle = async () => {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
};

export class HandClock implements Clock {
  #now = 0;
  #timers: { readonly at: number; readonly run: () => void }[] = [];

  now() {
    return this.#now;
  }

  get waiting() {
    return this.#timers.length;
  }

  setTimeout(run: () => void, ms: number) {
    const timer = { at: this.#now + ms, run };
    this.#timers.push(timer);
    return {
      cancel: () => {
        this.#timers = this.#timers.filter((other) => other !== timer);
      },
    };
  }

  async advance(ms: number) {
    const until = this.#now + ms;
    await settle();
    for (;;) {
      const due = this.#timers.filter((timer) => timer.at <= until).sort((a, b) => a.at - b.at)[0];
      if (!due) break;
      this.#now = due.at;
      this.#timers = this.#timers.filter((timer) => timer !== due);
      due.run();
      await settle();
    }
    this.#now = until;
  }
}

/** A step whose targets become satisfied by execute; every call is written to `log`. */
export function step(name: string, log: string[] = [], over: Partial<Step> = {}): Step {
  const done = new Set<string>();
  const say = (method: string, id: string) => log.push(`${id} ${name} ${method}`);
  return {
    name,
    touches: 'runtime',
    ...over,
    applicable(ctx, target) {
      say('applicable', target.id);
      return over.applicable ? over.applicable(ctx, target) : true;
    },
    check(ctx, target) {
      say('check', target.id);
      return over.check ? over.check(ctx, target) : done.has(target.id);
    },
    execute(ctx, target) {
      say('execute', target.id);
      done.add(target.id);
      return over.execute?.(ctx, target);
    },
    ...(over.verify && {
      verify(ctx, target) {
        say('verify', target.id);
        return over.verify?.(ctx, target);
      },
    }),
  } satisfies Step;
}

export const targets = (...ids: string[]): Target[] => ids.map((id) => ({ id, payload: null }));

/** A plan of one phase named `only`. */
export function planOf(steps: readonly Step[], ids: readonly string[] = ['a'], concurrency = 4): Plan {
  const plan = new Plan('test');
  const phase = plan
    .addPhase('only')
    .addTargets(...targets(...ids))
    .addStep(...steps);
  phase.concurrency = concurrency;
  return plan;
}

/** A promise that is settled from outside. */
export const gate = () => Promise.withResolvers<void>();

export async function errorOf(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    return error as Error;
  }
  throw new Error('it was expected to reject');
}
