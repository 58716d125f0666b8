// Golden values are labels that Compose 2.40.3 wrote on a real engine, or what its `config --hash` printed.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { hashesOf, hashWithIds, readRaw, toJs, writeRaw } from '../../../src/core/render/config-hash.ts';

const service = (extra: string): string =>
  `{"command": null, "entrypoint": null, "image": "windlass-test/web:1", "init": true, ${extra}"stop_grace_period": "0s"}`;

const project = `{
  "name": "wlt-cw",
  "networks": {"default": {"name": "wlt-cw_default", "ipam": {}}, "outer": {"name": "outer", "external": true}},
  "services": {
    "b": ${service('"networks": {"default": null}, ')},
    "c": {"command": null, "depends_on": {"b": {"condition": "service_started", "restart": true, "required": true}}, "entrypoint": null,
      "image": "windlass-test/web:1", "init": true, "network_mode": "service:b", "stop_grace_period": "0s"},
    "d": {"command": null, "entrypoint": null, "image": "windlass-test/web:1", "init": true, "ipc": "service:c",
      "networks": {"default": null}, "pid": "service:c", "stop_grace_period": "0s", "volumes_from": ["a:ro", "c"]},
    "a": {"command": null, "depends_on": {"b": {"condition": "service_started", "required": true}}, "entrypoint": null,
      "environment": {"A": "1", "B": "x\\u003c\\u0026\\u003e$$y"}, "image": "windlass-test/web:1", "init": true,
      "labels": {"10": "x", "2": "y", "z": "a$$b"}, "networks": {"default": null},
      "ports": [{"mode": "ingress", "host_ip": "127.0.0.1", "target": 8080, "published": "18080", "protocol": "tcp"}],
      "stop_grace_period": "0s",
      "volumes": [{"type": "volume", "source": "data", "target": "/data", "volume": {}},
        {"type": "bind", "source": "/srv/shop/x", "target": "/x", "bind": {"create_host_path": true}}]}
  },
  "volumes": {"data": {"name": "wlt-cw_data"}, "outer": {"name": "outer", "external": true}}
}`;

const idOf = {
  a: 'c6de318d7ae54c796ef955be53fcb8b81b7ba5f9d02d30bf27ebcf2c336eb589',
  b: '7c618c5e11b4744602b5c1737005c6e2d15f482bebe402c3ebc2e4714faae6c3',
  c: 'd8347a8e0697a691a10313e231eba38e76fd0427f9a6a57e8d3e47f8c6e9285a',
};

describe('hashes', () => {
  const hashes = hashesOf(project);

  test.each([
    [
      'escapes, doubled dollars and keys that look like numbers',
      'a',
      '258973a6dd8b534746806b26b6bbbdc1fe4aacd574abbd84224d9fd508c7492d',
    ],
    ['a plain service', 'b', '8e0a3ff4baf1820b6c04d7742a6cd07d94fee065f9513a31393b2a185012642f'],
    ['a shared namespace, before ids', 'c', '333dedb5540b55a15b3d89d2b50c0d30584be12dfe7edc713d6ccc80b36b68e5'],
    ['shared volumes, before ids', 'd', '33821c5aa83dcb5b9bd2923c5db8ab303cfb8299944d103d05bbe74b5a39f0d6'],
  ])('%s', (_what, name, hash) => {
    expect(hashes.services.get(name)?.hash).toBe(hash);
  });

  test('ids of the parents make the label of a service that shares something with them', () => {
    const ids = new Map(Object.entries(idOf));
    expect(hashes.services.get('c')).toMatchObject({ needsIds: true, parents: ['b'] });
    expect(hashWithIds(hashes.services.get('c')!, ids)).toBe(
      'bc97cde74957ef5c5b21214640272e36b27130a9d3ae4b4cb4be66c311380db2',
    );
    expect(hashes.services.get('d')).toMatchObject({ needsIds: true, parents: ['c', 'a'] });
    expect(hashWithIds(hashes.services.get('d')!, ids)).toBe(
      '9583e9807b402d11bd0bdee8b0748b2ae851b2042e015b7feb774af199dae67d',
    );
    expect(hashWithIds(hashes.services.get('b')!, new Map())).toBe(hashes.services.get('b')?.hash);
  });

  test('there is no label while a parent has no container', () => {
    expect(hashWithIds(hashes.services.get('d')!, new Map([['a', idOf.a]]))).toBeNull();
  });

  test('networks and volumes have theirs, external ones have none', () => {
    expect(Object.fromEntries(hashes.networks)).toEqual({
      default: '4c5bed628f84f76a84b47e9b6ca5912c776a4d5b9d805caab455898df4c29181',
      outer: '',
    });
    expect(Object.fromEntries(hashes.volumes)).toEqual({
      data: '7dadcbe2617dbdc9617f2bf4f5dae1825d3bb263d545e8749945de8887d04eff',
      outer: '',
    });
  });

  test.each([
    ['build', '"build": {"context": "/x"}, '],
    ['pull_policy', '"pull_policy": "always", '],
    ['scale', '"scale": 3, '],
    ['depends_on', '"depends_on": {"x": {}}, '],
    ['profiles', '"profiles": ["p"], '],
  ])('%s does not count', (_field, extra) => {
    const of = (text: string) => hashesOf(`{"services": {"s": ${text}}}`).services.get('s')?.hash;
    expect(of(service(extra))).toBe(of(service('')));
  });

  test('replicas do not count, the rest of deploy does', () => {
    const of = (deploy: string) =>
      hashesOf(`{"services": {"s": ${service(`"deploy": ${deploy}, `)}}}`).services.get('s');
    expect(of('{"replicas": 2, "resources": {}, "placement": {}}')?.hash).toBe(
      of('{"replicas": 3, "resources": {}, "placement": {}}')?.hash,
    );
    expect(of('{"replicas": 2, "mode": "global"}')?.hash).not.toBe(of('{"replicas": 2}')?.hash);
    expect(of('{"replicas": 2}')?.text).toContain('"deploy":{}');
  });

  test('a foreign container as a source of volumes loses its access mode', () => {
    const { services } = hashesOf(`{"services": {"s": ${service('"volumes_from": ["container:other:ro"], ')}}}`);
    expect(services.get('s')).toMatchObject({ needsIds: false, parents: [] });
    const plain = hashesOf(`{"services": {"s": ${service('"volumes_from": ["other"], ')}}}`).services.get('s')!;
    expect(services.get('s')?.hash).toBe(plain.hash);
  });

  test.each([
    '',
    '{',
    '[1,]',
    '{"a" 1}',
    '{"a":1}x',
    '{"a":01}',
    '{"a":tru}',
    '"\n"',
    '{"services',
    '[]',
    '['.repeat(5000),
  ])('what is not the JSON of a project is refused: %#', (text) => {
    expect(() => hashesOf(text)).toThrow(expect.objectContaining({ code: 'COMPOSE_FAILED' }));
  });
});

describe('raw JSON', () => {
  test('reads what JSON.parse reads and writes it back as it was spelled', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), (text) => {
        const raw = readRaw(text);
        expect(toJs(raw)).toEqual(JSON.parse(text));
        expect(writeRaw(raw)).toBe(text);
      }),
    );
  });

  test('keeps the order of keys and the spelling of scalars', () => {
    const text = '{"10":1.50,"2":"\\u003c","b":[1e3,null,true],"a":{},"__proto__":"x"}';
    expect(writeRaw(readRaw(` ${text.replaceAll(',', ' ,\n')} `))).toBe(text);
    expect(Object.keys(toJs(readRaw(text)) as object)).toContain('__proto__');
  });

  test('a repeated key is kept as often as it stands there', () => {
    expect(writeRaw(readRaw('{"a":1,"a":2}'))).toBe('{"a":1,"a":2}');
  });
});
