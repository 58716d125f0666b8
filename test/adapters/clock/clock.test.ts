import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { RealClock } from '../../../src/adapters/clock/real-clock.ts';
import { SimulatedClock } from '../../../src/adapters/clock/simulated-clock.ts';

describe('the real clock', () => {
  const clock = new RealClock();

  test('ids are 32 hex and never the same', () => {
    const ids = new Set(Array.from({ length: 100 }, () => clock.id()));
    expect(ids.size).toBe(100);
    for (const id of ids) expect(id).toMatch(/^[0-9a-f]{32}$/);
  });

  test('chance is in [0, 1)', () => {
    for (let at = 0; at < 100; at += 1) {
      const value = clock.random();
      expect(value >= 0 && value < 1).toBe(true);
    }
  });

  test('a sleep ends early with the reason of its signal', async () => {
    const controller = new AbortController();
    const sleep = clock.sleep(60_000, controller.signal);
    controller.abort(new Error('wake up'));
    await expect(sleep).rejects.toThrow('wake up');
    await expect(clock.sleep(1, controller.signal)).rejects.toThrow('wake up');
  });

  test('a sleep longer than a timer can hold does not end at once', async () => {
    const controller = new AbortController();
    const sleep = clock.sleep(2 ** 33, controller.signal);
    await clock.sleep(20);
    controller.abort(new Error('still asleep'));
    await expect(sleep).rejects.toThrow('still asleep');
  });

  test('a background sleep does not keep the process alive', () => {
    const module = JSON.stringify(join(import.meta.dirname, '../../../src/adapters/clock/real-clock.ts'));
    const text = `import { RealClock } from ${module}; void new RealClock().sleep(60_000, undefined, true);`;
    const { status } = spawnSync(process.execPath, ['--input-type=module', '-e', text], { timeout: 10_000 });
    expect(status).toBe(0);
  });
});

describe('the simulated clock', () => {
  test('time stands still until it is advanced', async () => {
    const clock = new SimulatedClock({ startMs: 1_000 });
    let isAwake = false;
    void clock.sleep(500).then(() => {
      isAwake = true;
    });
    await clock.advance(499);
    expect([clock.nowMs(), isAwake, clock.sleeping]).toEqual([1_499, false, 1]);
    await clock.advance(1);
    expect([clock.nowMs(), isAwake, clock.sleeping]).toEqual([1_500, true, 0]);
  });

  test('sleepers wake in the order of their time, each at its own moment, also those that sleep again', async () => {
    const clock = new SimulatedClock({ startMs: 0 });
    const story: string[] = [];
    const sleeper = async (name: string, ms: number, times: number): Promise<void> => {
      for (let at = 0; at < times; at += 1) {
        await clock.sleep(ms);
        story.push(`${name} ${clock.nowMs()}`);
      }
    };
    void sleeper('a', 30, 3);
    void sleeper('b', 40, 2);
    await clock.advance(85);
    expect(story).toEqual(['a 30', 'b 40', 'a 60', 'b 80']);
    expect(clock.nextWakeMs()).toBe(90);
  });

  test('an aborted sleeper is gone, also after the wall clock was set', async () => {
    const clock = new SimulatedClock();
    const controller = new AbortController();
    const sleep = clock.sleep(100, controller.signal);
    clock.jump(0);
    controller.abort(new Error('no'));
    await expect(sleep).rejects.toThrow('no');
    expect(clock.sleeping).toBe(0);
  });

  test('setting the wall clock wakes nobody', async () => {
    const clock = new SimulatedClock({ startMs: 1_000_000 });
    let isAwake = false;
    void clock.sleep(100).then(() => {
      isAwake = true;
    });
    clock.jump(0);
    await clock.advance(99);
    expect(isAwake).toBe(false);
    await clock.advance(1);
    expect([isAwake, clock.nowMs()]).toEqual([true, 100]);
  });

  test('the same seed gives the same ids and the same chance, and drawing ids does not shift chance', () => {
    const first = new SimulatedClock({ seed: 7 });
    const second = new SimulatedClock({ seed: 7 });
    const drawn = [first.id(), first.random(), first.id(), first.random()];
    const chance = [second.random(), second.random()];
    expect([drawn[1], drawn[3]]).toEqual(chance);
    expect([drawn[0], drawn[2]]).toEqual([second.id(), second.id()]);
    expect(new SimulatedClock({ seed: 8 }).random()).not.toBe(chance[0]);
    expect(drawn[0]).toMatch(/^[0-9a-f]{32}$/);
  });
});
