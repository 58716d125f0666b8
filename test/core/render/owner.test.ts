import { describe, expect, it } from 'vitest';
import { disown, mergeOwners } from '../../../src/core/render/owner.ts';

describe('the ownership suffix', () => {
  it.each([
    ['data:/data:rw:0700:26:27', 'data:/data:rw', { volume: 'data', mode: '0700', uid: 26, gid: 27 }],
    ['data:/data:ro,z:750:0:0', 'data:/data:ro,z', { volume: 'data', mode: '0750', uid: 0, gid: 0 }],
  ])('is taken off %j', (volume, kept, owner) =>
    expect(disown('s', [volume])).toEqual({ volumes: [kept], owners: [owner], mistakes: [] }),
  );

  it('is taken out of the long syntax', () => {
    const said = {
      type: 'volume',
      source: 'data',
      target: '/data',
      'x-windlass-owner': { mode: '0700', uid: 26, gid: 26 },
    };
    expect(disown('s', [said])).toEqual({
      volumes: [{ type: 'volume', source: 'data', target: '/data' }],
      owners: [{ volume: 'data', mode: '0700', uid: 26, gid: 26 }],
      mistakes: [],
    });
  });

  it.each(['data:/data', 'data:/data:ro', './conf:/conf:ro', '/data', { type: 'bind', source: '.', target: '/x' }])(
    'is not looked for in %j',
    (volume) => expect(disown('s', [volume])).toEqual({ volumes: [volume], owners: [], mistakes: [] }),
  );

  it.each([
    ['data:/data:rw:0700', /wrong volume/],
    ['data:/data:rw:0700:26', /wrong volume/],
    ['data:/data:rw:0900:26:26', /wrong owner/],
    ['data:/data:rw:0700:-1:26', /wrong owner/],
    ['data:/data:rw:0700:26:99999999999', /wrong owner/],
    ['data:/data:rw:0700:postgres:postgres', /wrong owner/],
    ['./data:/data:rw:0700:26:26', /cannot have an owner/],
    [
      { type: 'bind', source: '/x', target: '/x', 'x-windlass-owner': { mode: '0700', uid: 1, gid: 1 } },
      /cannot have an owner/,
    ],
    [{ type: 'volume', source: 'd', target: '/x', 'x-windlass-owner': { mode: 700, uid: 1, gid: 1 } }, /wrong owner/],
    [{ type: 'volume', source: 'd', target: '/x', 'x-windlass-owner': 'me' }, /wrong owner/],
  ])('is refused in %j', (volume, wrong) => expect(disown('s', [volume]).mistakes[0]?.summary).toMatch(wrong));

  it('may be repeated, not contradicted', () => {
    const owner = { volume: 'data', mode: '0700', uid: 1, gid: 1 };
    expect(mergeOwners([owner, { ...owner }])).toEqual({ owners: [owner], mistakes: [] });
    expect(mergeOwners([owner, { ...owner, uid: 2 }]).mistakes).toHaveLength(1);
  });
});
