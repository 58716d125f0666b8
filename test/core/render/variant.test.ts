// A variant of a resolved project changes what it names, and no spelling beside it.
import { describe, expect, it } from 'vitest';
import { hashesOf } from '../../../src/core/render/config-hash.ts';
import { enclose, portsOverride, withGeneration, withoutPorts } from '../../../src/core/render/variant.ts';

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
    expect(portsOverride(TEXT, variant)).toBe('{"services":{"web":{"ports":["8080:80"]}}}');
  });

  it('are none, and no container has a name of its own, where it is isolated', () => {
    const bare = JSON.parse(withoutPorts(TEXT, { isolated: true })!);
    expect(bare.services.web.ports ?? bare.services.side.ports ?? bare.services.web.container_name).toBeUndefined();
    expect(portsOverride(TEXT, { isolated: true })).toBeNull();
  });

  it('stay where nothing is asked for', () => {
    expect(withoutPorts(TEXT, {})).toBeNull();
    expect(portsOverride(TEXT, {})).toBeNull();
  });

  it('that are a number alone are another host port for the one that is published, at its address', () => {
    const of = (ports: readonly object[], given: readonly string[]) =>
      JSON.parse(portsOverride(JSON.stringify({ services: { web: { ports } } }), { ports: { web: given } })!).services
        .web.ports;
    const one = { mode: 'ingress', host_ip: '::1', target: 5432, published: '25432', protocol: 'tcp' };
    expect(of([one], ['25433'])).toEqual([{ ...one, published: '25433' }]);
    expect(of([one], ['25433:1'])).toEqual(['25433:1']);
    expect(of([one, one], ['25433'])).toEqual(['25433']);
    expect(of([], ['25433'])).toEqual(['25433']);
  });
});

describe('an enclosed project', () => {
  const OPEN = JSON.stringify({
    name: 'shop-drill',
    services: {
      web: {
        image: 'web:1',
        build: { context: '/scratch/web' },
        container_name: 'web',
        ports: [{ target: 80, published: '80' }],
        labels: { 'traefik.enable': 'true' },
        logging: { driver: 'gelf' },
        privileged: true,
        pid: 'host',
        devices: ['/dev/sda'],
        environment: { RATIO: '1' },
        networks: { proxy: { ipv4_address: '10.9.8.7', aliases: ['web'] }, database: null },
        volumes: [
          { type: 'volume', source: 'data', target: '/data' },
          { type: 'bind', source: '/scratch/conf', target: '/conf' },
          { type: 'bind', source: '/scratch/../etc', target: '/etc/host' },
          { type: 'bind', source: '/scratchpad', target: '/pad' },
          { type: 'bind', source: '/var/run/docker.sock', target: '/var/run/docker.sock' },
        ],
      },
      metrics: { image: 'metrics:1', network_mode: 'host' },
      side: { image: 'side:1', network_mode: 'service:web' },
    },
    networks: {
      proxy: { name: 'proxy', external: true, ipam: { config: [{ subnet: '10.9.8.0/24' }] } },
      database: { name: 'pg-drill_default', external: true },
    },
    volumes: {
      data: { name: 'precious', external: true },
      nas: { name: 'nas', driver_opts: { type: 'nfs', device: ':/export' } },
    },
  });
  const shut = JSON.parse(enclose(OPEN, ['pg-drill'], '/scratch'));

  it('has networks of its own without a way out, but for those of the projects that it is enclosed with', () => {
    expect(shut.networks).toEqual({
      proxy: { name: 'shop-drill_proxy', internal: true },
      database: { name: 'pg-drill_default', external: true },
      default: { name: 'shop-drill_default', internal: true },
    });
    expect(shut.services.web.networks).toEqual({ proxy: { aliases: ['web'] }, database: null });
    expect(shut.services.metrics.network_mode).toBeUndefined();
    expect(shut.services.side.network_mode).toBe('service:web');
  });

  it('mounts no volume of another name, and no folder outside of its files', () => {
    expect(shut.volumes).toEqual({ data: { name: 'shop-drill_data' }, nas: { name: 'shop-drill_nas' } });
    expect(shut.services.web.volumes.map((one: { target: string }) => one.target)).toEqual(['/data', '/conf']);
  });

  it('is not found by what watches containers, and has nothing of the host', () => {
    expect(Object.keys(shut.services.web).sort()).toEqual(['build', 'environment', 'networks', 'volumes']);
  });
});
