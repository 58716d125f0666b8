import { describe, expect, test } from 'vitest';
import { multiplex, type Observer } from '../../src/engine/observer.ts';
import { silentObserver } from '../../src/engine/observers/silent.ts';
import { planOf, settle, step } from './fixture.ts';

const recording = (seen: string[]): Observer => ({
  onRunStart: (operation, phases) => void seen.push(`run ${operation} ${JSON.stringify(phases)}`),
  onPhaseStart: (...words) => void seen.push(`phase ${words.join(' ')}`),
  onTargetStart: (...words) => void seen.push(`target ${words.join(' ')}`),
  onStepStart: (...words) => void seen.push(`step ${words.join(' ')}`),
  onNote: (...words) => void seen.push(`note ${words.join(' ')}`),
  onStepEnd: (phase, target, name, slot, outcome) =>
    void seen.push(`step end ${phase} ${target} ${name} ${slot} ${outcome}`),
  onTargetEnd: (phase, target, slot, error) =>
    void seen.push(`target end ${phase} ${target} ${slot} ${error?.message}`),
  onPhaseEnd: (index, total, phase, error) => void seen.push(`phase end ${index} ${total} ${phase} ${error?.message}`),
  onRunEnd: (error) => void seen.push(`run end ${error?.message}`),
});

const plan = () =>
  planOf([
    step('s', [], {
      execute(ctx) {
        ctx.note('pulling');
        throw new Error('boom');
      },
    }),
  ]).build();

const whole = [
  'run test [{"name":"only","targets":1,"steps":1,"concurrency":4}]',
  'phase 0 1 only',
  'target only a 0',
  'step only a s 0',
  'note only a s 0 pulling',
  'step end only a s 0 failed',
  'target end only a 0 boom',
  'phase end 0 1 only boom',
  'run end boom',
];

describe('observers', () => {
  test('see the whole run, in order', async () => {
    const seen: string[] = [];
    await plan().run({ progress: recording(seen) });
    expect(seen).toEqual(whole);
  });

  test('that throw or reject break neither the run nor each other', async () => {
    const seen: string[] = [];
    const thrower = new Proxy({} as Observer, {
      get: () => () => {
        throw new Error('watcher');
      },
    });
    const rejecter = new Proxy({} as Observer, { get: () => () => Promise.reject(new Error('watcher')) });
    const { error } = await plan().run({
      progress: multiplex(thrower, rejecter, undefined, recording(seen), silentObserver),
    });
    await settle();
    expect(error?.message).toBe('boom');
    expect(seen).toEqual(whole);
  });

  test('are called as methods of themselves', async () => {
    class Counting implements Observer {
      count = 0;
      onStepEnd() {
        this.count++;
      }
    }
    const counting = new Counting();
    await plan().run({ progress: counting });
    expect(counting.count).toBe(1);
  });

  test('hear the notes of a barrier', async () => {
    const seen: string[] = [];
    const waiting = planOf([step('s')]);
    waiting.phases[0]!.barrier = { name: 'ready', evaluate: (ctx) => ctx.note('1 of 2') };
    await waiting.build().execute({ progress: recording(seen) });
    expect(seen).toContain('note only * ready -1 1 of 2');
  });
});
