// How soon a killed container is being healed: from the kill to the first call that repairs it.
import { Controller } from '../src/controller/controller.ts';
import { BenchFleet, docker } from './fleet.ts';
import { median, type Row, round } from './rig.ts';

const RUNS = 5;

export async function benchHeal(): Promise<readonly Row[]> {
  const fleet = new BenchFleet(RUNS);
  try {
    const opened = await fleet.open();
    let began = 0;
    const starts: number[] = [];
    let heard: (() => void) | null = null;
    const house = {
      ...opened,
      runtime: new Proxy(opened.runtime, {
        get(target, key, receiver) {
          const value = Reflect.get(target, key, receiver);
          if (key !== 'start') return value;
          return (...args: Parameters<typeof target.start>) => {
            if (began > 0) {
              starts.push(performance.now() - began);
              began = 0;
              heard?.();
            }
            return target.start(...args);
          };
        },
      }),
    };
    const controller = new Controller({ house, pollMs: 3_600_000, intervalMs: 3_600_000, log: () => {} });
    await controller.start();
    const ready = (): boolean =>
      fleet.names.every((name) =>
        house.store.conditions(name).some((one) => one.type === 'Ready' && one.status === 'True'),
      );
    while (!ready()) await new Promise((resolve) => setTimeout(resolve, 100));
    // One kill a stack: a second heal of the same stack would wait on purpose.
    for (const name of fleet.names) {
      const started = new Promise<void>((resolve) => {
        heard = resolve;
      });
      docker('kill', `${name}-web-1`);
      began = performance.now();
      await started;
      await new Promise((resolve) => setTimeout(resolve, 3_000));
    }
    await controller.stop();
    return [
      {
        bench: 'kill-to-heal',
        stacks: RUNS,
        oursMs: round(median(starts)),
        peer: '',
        peerMs: null,
        ratio: null,
        budgetMs: 500,
        note: `docker kill returned → the engine is asked to start it; median of ${starts.length}`,
      },
    ];
  } finally {
    await fleet.dispose();
  }
}
