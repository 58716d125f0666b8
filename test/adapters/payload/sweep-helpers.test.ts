import { describe, expect, it } from 'vitest';
import { removeOwnerHelpers, sweepHelpers } from '../../../src/adapters/payload/sweep-helpers.ts';

const never = new AbortController().signal;
const helper = (id: string, owner?: string) => ({
  Id: id,
  Names: [`/windlass-payload-${id}`],
  Labels: { 'dev.windlass.helper': 'payload', ...(owner === undefined ? {} : { 'dev.windlass.helper-owner': owner }) },
});

/** An engine that answers each list with `found`. */
function engine(found: readonly object[]) {
  const asked: unknown[] = [];
  const removed: string[] = [];
  const client = {
    json: async ({ query }: { query: { filters: string } }) => {
      asked.push(JSON.parse(query.filters));
      return found;
    },
    send: async ({ method, path, query }: { method: string; path: string; query: object }) => {
      expect([method, query]).toEqual(['DELETE', { force: true, v: false }]);
      removed.push(path);
      return { status: 204 };
    },
  };
  return { client: client as unknown as Parameters<typeof sweepHelpers>[0], asked, removed };
}

describe('helpers that were left', () => {
  it('go when their process has ended; one that may live, or names no owner, stays', async () => {
    const { client, removed } = engine([helper('a', 'here:1'), helper('b', 'here:2'), helper('c')]);
    expect(await sweepHelpers(client, (owner) => owner === 'here:1', never)).toEqual(['windlass-payload-a']);
    expect(removed).toEqual(['/containers/a']);
  });

  it('of setting an owner go with their volume, only those that were never started', async () => {
    const { client, asked, removed } = engine([helper('a')]);
    await removeOwnerHelpers(client, 'shop_data_g1', never);
    expect(asked).toEqual([
      { volume: ['shop_data_g1'], label: ['dev.windlass.helper=volume-owner'], status: ['created'] },
    ]);
    expect(removed).toEqual(['/containers/a']);
  });
});
