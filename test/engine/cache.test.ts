import { describe, expect, test } from 'vitest';
import { PlanCache, planKey } from '../../src/engine/cache.ts';
import { errorOf, gate, planOf, settle, step } from './fixture.ts';

const hosts = planKey<string>('host');
const exists = planKey<boolean>('exists');

describe('the plan cache', () => {
  test('keeps a typed value per key and per part of a key', () => {
    const cache = new PlanCache();
    cache.set(hosts.at('a'), 'edge-1');
    expect(cache.get(hosts.at('a'))).toBe('edge-1');
    expect(cache.get(hosts.at('b'))).toBeUndefined();
    expect(cache.get(hosts)).toBeUndefined();
    cache.forget(hosts.at('a'));
    expect(cache.get(hosts.at('a'))).toBeUndefined();
  });

  test('tells false from not known', () => {
    const cache = new PlanCache();
    expect(cache.bool(exists.at('a'))).toBeUndefined();
    cache.set(exists.at('a'), false);
    expect(cache.bool(exists.at('a'))).toBe(false);
  });

  test('never mixes up two keys, though their names or parts be alike', () => {
    const cache = new PlanCache();
    cache.set(planKey<number>('same'), 1);
    expect(cache.get(planKey<number>('same'))).toBeUndefined();
    const key = planKey<number>('k');
    cache.set(key.at('a').at('b'), 1);
    expect(cache.get(key.at('a"b'))).toBeUndefined();
    expect(cache.get(key.at('a/b'))).toBeUndefined();
  });

  test('is not reached by a raw name', () => {
    // @ts-expect-error a key comes from planKey
    new PlanCache().get('host');
    // @ts-expect-error a key knows what it holds
    new PlanCache().set(hosts, 7);
  });

  test('loads once for all who ask meanwhile, and keeps the value', async () => {
    const cache = new PlanCache();
    let loads = 0;
    const load = async () => `load ${++loads}`;
    const asked = { fresh: false };
    expect(await Promise.all([cache.read(hosts, asked, load), cache.read(hosts, asked, load)])).toEqual([
      'load 1',
      'load 1',
    ]);
    expect(await cache.read(hosts, asked, load)).toBe('load 1');
  });

  test('loads anew for a fresh look, which others then share', async () => {
    const cache = new PlanCache();
    cache.set(hosts, 'old');
    expect(await cache.read(hosts, { fresh: true }, () => 'new')).toBe('new');
    expect(cache.get(hosts)).toBe('new');
  });

  test('keeps neither a failed load nor the value it was to replace', async () => {
    const cache = new PlanCache();
    cache.set(hosts, 'old');
    await errorOf(
      cache.read(hosts, { fresh: true }, () => {
        throw new Error('down');
      }),
    );
    expect(cache.get(hosts)).toBeUndefined();
    expect(await cache.read(hosts, { fresh: false }, () => 'up')).toBe('up');
  });

  test('does not let a slow load overwrite what was set or forgotten meanwhile', async () => {
    const cache = new PlanCache();
    const slow = gate();
    const loading = cache.read(hosts, { fresh: false }, async () => {
      await slow.promise;
      return 'stale';
    });
    cache.set(hosts, 'set');
    slow.resolve();
    expect(await loading).toBe('stale');
    expect(cache.get(hosts)).toBe('set');
  });

  test('is shared by probe and execute, so that both look once', async () => {
    let looks = 0;
    const plan = planOf([
      step('s', [], {
        check: (ctx) =>
          ctx.cache.read(exists.at('a'), ctx, () => {
            looks++;
            return true;
          }),
      }),
    ]).build();
    const cache = new PlanCache();
    await plan.probe({ cache });
    await plan.execute({ cache });
    expect(looks).toBe(1);
  });
});

describe('what is registered for closing', () => {
  test('is closed in reverse, exactly once, all of it even when one fails', async () => {
    const cache = new PlanCache();
    const closed: string[] = [];
    cache.registerCloser(() => closed.push('first'));
    cache.registerCloser(() => {
      closed.push('second');
      throw new Error('stuck');
    });
    cache.registerCloser({ close: async () => closed.push('third') });
    const [errors] = await Promise.all([cache.close(), cache.close()]);
    await cache.close();
    expect(closed).toEqual(['third', 'second', 'first']);
    expect(errors.map((error) => error.message)).toEqual(['stuck']);
  });

  test('too late is closed at once', async () => {
    const cache = new PlanCache();
    await cache.close();
    let closed = 0;
    cache.registerCloser(() => closed++);
    await settle();
    expect(closed).toBe(1);
  });

  test.each(['ok', 'error'] as const)('is closed at the end of a run that ends with %s', async (how) => {
    const closed: string[] = [];
    const plan = planOf([
      step('s', [], {
        execute(ctx) {
          ctx.cache.registerCloser(() => closed.push('closed'));
          if (how === 'error') throw new Error('boom');
        },
      }),
    ]).build();
    const { error } = await plan.run();
    expect(error?.message).toBe(how === 'error' ? 'boom' : undefined);
    expect(closed).toEqual(['closed']);
  });

  test('and cannot be closed fails a run that was well, and does not hide the error of one that was not', async () => {
    const failing = (boom?: Error) =>
      planOf([
        step('s', [], {
          execute(ctx) {
            ctx.cache.registerCloser(() => Promise.reject(new Error('stuck')));
            if (boom) throw boom;
          },
        }),
      ])
        .build()
        .run();
    const { error } = await failing();
    expect(error).toBeInstanceOf(AggregateError);
    expect((error as AggregateError).errors.map((inner: Error) => inner.message)).toEqual(['stuck']);
    expect((await failing(new Error('boom'))).error?.message).toBe('boom');
  });

  test('by a probe alone is closed by it, unless the cache was given to it', async () => {
    let closed = 0;
    const plan = planOf([
      step('s', [], {
        check(ctx) {
          ctx.cache.registerCloser(() => closed++);
          return true;
        },
      }),
    ]).build();
    await plan.probe();
    expect(closed).toBe(1);
    const cache = new PlanCache();
    await plan.describe({}, { cache });
    expect(closed).toBe(1);
    await plan.execute({ cache, dryRun: true });
    expect(closed).toBe(3);
  });
});
