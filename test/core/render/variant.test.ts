// A variant of a resolved project changes what it names, and no spelling beside it.
import { describe, expect, it } from 'vitest';
import { hashesOf } from '../../../src/core/render/config-hash.ts';
import { portsOverride, withGeneration, withoutPorts } from '../../../src/core/render/variant.ts';

const TEXT = JSON.stringify({
  name: 'shop',
  services: {
    web: {
      container_name: 'web',
      image: 'a',
      ports: [{ target: 80, published: '80' }],
      volumes: [
        { type: 'volume', source: 'data', target: '/data' },
        { type: 'bind', source: '/tree/stacks/shop/conf', target: '/conf' },
        { type: 'bind', source: '/tree/stacks/shop/conf/deeper', target: '/deeper' },
      ],
    },
    side: { image: 'a', environment: { PORTS: '$$5', RATIO: 1e3 }, ports: [{ target: 81, published: '81' }] },
  },
  volumes: { data: { name: 'shop_data', labels: { a: 'b' } }, cache: { name: 'shop_cache' } },
}).replace('1000', '1e3');

describe('a generation', () => {
  const moved = withGeneration(
    TEXT,
    { volumes: { data: 'shop_data_g2', gone: 'x' }, folders: { 'stacks/shop/conf': '.generation-2/stacks/shop/conf' } },
    '/tree',
  );

  it('names other volumes and folders, exactly those', () => {
    const read = JSON.parse(moved);
    expect(read.volumes).toEqual({ data: { name: 'shop_data_g2', labels: { a: 'b' } }, cache: { name: 'shop_cache' } });
    expect(read.services.web.volumes.map((one: { source: string }) => one.source)).toEqual([
      'data',
      '/tree/.generation-2/stacks/shop/conf',
      '/tree/stacks/shop/conf/deeper',
    ]);
    expect(moved).toContain('"RATIO":1e3');
  });

  it('leaves the hash of what it does not touch, and changes the others', () => {
    const [before, after] = [hashesOf(TEXT), hashesOf(moved)];
    expect(after.services.get('side')).toEqual(before.services.get('side'));
    expect(after.volumes.get('cache')).toBe(before.volumes.get('cache'));
    expect(after.volumes.get('data')).not.toBe(before.volumes.get('data'));
  });

  it('that is empty is the very text', () => {
    expect(withGeneration(TEXT, { volumes: {}, folders: {} }, '/tree')).toBe(TEXT);
  });
});

describe('ports of a variant', () => {
  it('take the place of those of the service that is named', () => {
    const variant = { ports: { web: ['8080:80'] } };
    const bare = JSON.parse(withoutPorts(TEXT, variant)!);
    expect(bare.services.web.ports).toBeUndefined();
    expect(bare.services.web.container_name).toBe('web');
    expect(bare.services.side.ports).toHaveLength(1);
    expect(portsOverride(variant)).toBe('{"services":{"web":{"ports":["8080:80"]}}}');
  });

  it('are none, and no container has a name of its own, where it is isolated', () => {
    const bare = JSON.parse(withoutPorts(TEXT, { isolated: true })!);
    expect(bare.services.web.ports ?? bare.services.side.ports ?? bare.services.web.container_name).toBeUndefined();
    expect(portsOverride({ isolated: true })).toBeNull();
  });

  it('stay where nothing is asked for', () => {
    expect(withoutPorts(TEXT, {})).toBeNull();
    expect(portsOverride({})).toBeNull();
  });
});
