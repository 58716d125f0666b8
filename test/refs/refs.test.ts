import { describe, expect, it } from 'vitest';
import { Fault } from '../../src/core/fault.ts';
import { cluster } from '../../src/refs/cluster.ts';
import { dns } from '../../src/refs/dns.ts';
import { hook } from '../../src/refs/hook.ts';
import { node } from '../../src/refs/node.ts';
import { createRefs, type RefContext } from '../../src/refs/registry.ts';
import { stack } from '../../src/refs/stack.ts';

const refs = createRefs({
  hook,
  node: node(async () => ({ ip: '192.0.2.7', id: 'n1', 'mesh-ip': null })),
  cluster: cluster(() => ({ 'node-count': 3 })),
  dns: dns(async (name, kind) => (name === 'db.example.org' ? [`${kind}-2`, `${kind}-1`] : [])),
  stack: stack({
    knows: (name) => name === 'pg' || name === 'new',
    revision: (name) => (name === 'pg' ? 'abc123' : null),
    containerId: async (_name, service) => (service === 'db' ? 'c0ffee' : null),
  }),
});
const inHook: RefContext = {
  stack: 'sso',
  service: 'keycloak',
  hook: {
    previous: (service) => (service === 'keycloak' ? 2 : null),
    output: (name) => (name === 'STATE' ? 'diverged' : null),
  },
};

describe('a runtime ref', () => {
  it.each([
    ['ref+hook://previous', '2'],
    ['ref+hook://outputs/STATE', 'diverged'],
    ['ref+hook://outputs/never-set', ''],
    ['ref+node://ip', '192.0.2.7'],
    ['ref+node://id', 'n1'],
    ['ref+node://mesh-ip', ''],
    ['ref+node://internal-ip', ''],
    ['ref+node://hostname', ''],
    ['ref+cluster://node-count', '3'],
    ['ref+cluster://leader-ip', ''],
    ['ref+dns://db.example.org/a', 'a-1,a-2'],
    ['ref+dns://db.example.org/aaaa', 'aaaa-1,aaaa-2'],
    ['ref+dns://_ldap._tcp.example.org/srv', ''],
    ['ref+stack://pg/revision', 'abc123'],
    ['ref+stack://new/revision', ''],
    ['ref+stack://pg/service/db/container-id', 'c0ffee'],
    ['ref+stack://pg/service/web/container-id', ''],
  ])('%s is %j', async (text, value) => expect(await refs.resolve(text, inHook)).toBe(value));

  it.each([
    'plain',
    '',
    'see ref+hook://previous',
    'ref+hook://previous and more',
    'ref+vault://admin-password',
    'ref+sops://x',
    'ref+env://HOME',
    'ref+file://x',
  ])('%j passes untouched', async (text) => expect(await refs.resolve(text, inHook)).toBe(text));

  it.each([
    ['ref+hook://prevous', /unknown key.*previous/],
    ['ref+hook://outputs/', /unknown key/],
    ['ref+hook://', /unknown key/],
    ['ref+node://IP', /unknown key.*did you mean `ip`/],
    ['ref+node://mesh_ip', /unknown key.*did you mean `mesh-ip`/],
    ['ref+cluster://leader', /unknown key/],
    ['ref+nodes://ip', /unknown scheme.*did you mean `node`/],
    ['ref+Hook://previous', /unknown scheme/],
    ['ref+dns://db.example.org/mx', /unknown key/],
    ['ref+dns://db.example.org', /unknown key/],
    ['ref+dns://a;b/a', /no host name/],
    ['ref+stack://nobody/revision', /no stack nobody/],
    ['ref+stack://pg/commit', /unknown key/],
  ])('%s fails loudly', async (text, message) => {
    const failure = await refs.resolve(text, inHook).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(Fault);
    expect((failure as Fault).message).toMatch(message);
  });

  it('of a hook has no meaning outside of one', async () =>
    await expect(refs.resolve('ref+hook://previous', { ...inHook, hook: null })).rejects.toThrow(
      /only inside of a hook/,
    ));

  it('`previous` is the count of the service in context, "" when the run did not touch it', async () => {
    expect(await refs.resolve('ref+hook://previous', { ...inHook, service: 'web' })).toBe('');
    expect(await refs.resolve('ref+hook://previous', { ...inHook, service: null })).toBe('');
  });
});
