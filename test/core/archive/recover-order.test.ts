// The order of a recover: providers first, names rewritten everywhere, and what cannot be ordered is refused.
import { describe, expect, it } from 'vitest';
import { type RecoverInput, recoverOrder } from '../../../src/core/archive/recover-order.ts';

const GROUP: RecoverInput = {
  members: [
    { stack: 'site', archive: 'c' },
    { stack: 'pg', archive: 'a' },
    { stack: 'api', archive: 'b' },
    { stack: 'mail', archive: 'd' },
  ],
  edges: [
    { consumer: 'site', plug: 'backend', provider: 'api' },
    { consumer: 'site', plug: 'sso', provider: 'keycloak' },
    { consumer: 'api', plug: 'db', provider: 'pg' },
    { consumer: 'api', plug: 'replica', provider: 'pg' },
  ],
  stacks: ['site', 'pg', 'api', 'mail'],
};
const named = (input: RecoverInput) => recoverOrder(input).map((layer) => layer.map((one) => one.target));

describe('the order of a recover', () => {
  for (const [what, change, expected] of [
    ['puts providers before their consumers, and equals by name', {}, [['mail', 'pg'], ['api'], ['site']]],
    ['leaves out what is not wanted', { stacks: ['site', 'api'] }, [['api'], ['site']]],
    ['drops the edges of a skipped plug', { skipIntegration: ['backend'] }, [['mail', 'pg', 'site'], ['api']]],
    [
      'needs both plugs of a provider gone to drop it',
      { skipIntegration: ['db'] },
      [['mail', 'pg'], ['api'], ['site']],
    ],
    ['sorts by the new names', { rename: { pg: 'a', mail: 'z' } }, [['a', 'z'], ['api'], ['site']]],
  ] as const)
    it(what, () => expect(named({ ...GROUP, ...change })).toEqual(expected));

  it('rewrites the provider of every consumer of a renamed stack, and leaves others as the archive says', () => {
    const nodes = recoverOrder({ ...GROUP, rename: { pg: 'pg2' } }).flat();
    expect(nodes.find((one) => one.stack === 'api')).toEqual({
      stack: 'api',
      target: 'api',
      archive: 'b',
      integrate: { db: 'pg2', replica: 'pg2' },
      needs: ['pg2'],
    });
    expect(nodes.find((one) => one.stack === 'site')).toMatchObject({ integrate: { backend: 'api' }, needs: ['api'] });
  });

  it('swaps two names without confusing them', () => {
    const nodes = recoverOrder({ ...GROUP, rename: { pg: 'mail', mail: 'pg' } }).flat();
    expect(nodes.find((one) => one.stack === 'api')?.needs).toEqual(['mail']);
    expect(nodes.find((one) => one.target === 'mail')?.archive).toBe('a');
  });

  const circle = [...GROUP.edges, { consumer: 'pg', plug: 'ui', provider: 'site' }];
  for (const [what, change, code, words] of [
    ['a circle', { edges: circle }, 'ARCHIVE_INVALID', /in a circle.*(api → pg → site → api)/],
    ['a stack that the archive does not hold', { stacks: ['pg', 'blog'] }, 'NOT_FOUND', /no stack blog/],
    ['a new name for what is not recovered', { stacks: ['pg'], rename: { api: 'b' } }, 'USAGE', /stack api/],
    ['two of one name', { rename: { pg: 'api' } }, 'USAGE', /both be recovered as api/],
  ] as const)
    it(`refuses ${what}`, () => {
      let thrown: unknown;
      try {
        recoverOrder({ ...GROUP, ...change });
      } catch (error) {
        thrown = error;
      }
      expect(thrown).toMatchObject({ code });
      expect(String(thrown)).toMatch(words);
    });

  it('orders what a skipped plug cuts out of a circle', () => {
    expect(named({ ...GROUP, edges: circle, skipIntegration: ['ui'] })).toEqual([['mail', 'pg'], ['api'], ['site']]);
  });
});
