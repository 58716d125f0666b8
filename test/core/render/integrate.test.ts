import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cycleThrough, formatCycle, layersOf } from '../../../src/core/render/integrate.ts';

const edgesOf = (edges: Record<string, string[]>) => new Map(Object.entries(edges));

describe('layers', () => {
  it('put providers before their consumers', () => {
    expect(layersOf(edgesOf({ web: ['db', 'cache'], db: [], cache: ['db'], alone: [] })).layers).toEqual([
      ['alone', 'db'],
      ['cache'],
      ['web'],
    ]);
  });

  it('ignore providers that are not there, and a provider named twice', () => {
    expect(layersOf(edgesOf({ a: ['gone', 'b', 'b'], b: [] })).layers).toEqual([['b'], ['a']]);
  });

  it('leave out the members of cycles alone', () => {
    const { layers, cycles } = layersOf(edgesOf({ a: ['b'], b: ['a'], onTop: ['a'], below: [], self: ['self'] }));
    expect(layers).toEqual([['below', 'onTop']]);
    expect([...cycles]).toEqual([
      ['a', ['a', 'b']],
      ['b', ['b', 'a']],
      ['self', ['self']],
    ]);
  });

  it('hold every name once, each after its providers, in every graph', () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    fc.assert(
      fc.property(fc.array(fc.subarray(names), { minLength: names.length, maxLength: names.length }), (providers) => {
        const edges = new Map(names.map((name, index) => [name, providers[index] ?? []]));
        const { layers, cycles } = layersOf(edges);
        expect([...layers.flat(), ...cycles.keys()].sort()).toEqual(names);
        const level = new Map(layers.flatMap((layer, index) => layer.map((name) => [name, index] as const)));
        for (const [name, at] of level)
          for (const provider of edges.get(name) ?? []) expect(level.get(provider) ?? -1).toBeLessThan(at);
        for (const [name, cycle] of cycles) {
          expect(cycle[0]).toBe(name);
          for (const [index, member] of cycle.entries())
            expect(edges.get(member)).toContain(cycle[(index + 1) % cycle.length]);
        }
      }),
      { numRuns: 200 },
    );
  });

  it('are found in long chains', () => {
    const chain = new Map(
      Array.from({ length: 2_000 }, (_, index) => [`s${index}`, index === 0 ? [] : [`s${index - 1}`]]),
    );
    expect(layersOf(chain).layers).toHaveLength(2_000);
  });
});

it('a cycle is the shortest way back, and is printed with its start at both ends', () => {
  const cycle = cycleThrough('a', edgesOf({ a: ['b', 'c'], b: ['c'], c: ['a'] }));
  expect(formatCycle(cycle ?? [])).toBe('a → c → a');
  expect(cycleThrough('a', edgesOf({ a: ['b'], b: [] }))).toBeNull();
});
