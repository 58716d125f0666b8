// What a restore takes the place of, as those who decide about its request see it. How requests are judged is tested elsewhere: it is told here.
import { afterEach, describe, expect, it, vi } from 'vitest';
import { openLedger } from '../../src/adapters/journal/ledger.ts';
import { encodeGroup } from '../../src/core/archive/manifest.ts';
import type { Request } from '../../src/core/spec/request.ts';
import { formatDiscard } from '../../src/operations/archive/discards.ts';
import { windlass } from '../cli/fake-terminal.ts';
import { RestoreWorld } from './restore-world.ts';

const told = vi.hoisted(() => ({ look: (): unknown => ({}) }));
vi.mock('../../src/operations/trust/look.ts', () => ({ lookAtTrust: async () => told.look() }));

const COMPOSE =
  'services: { web: { image: "windlass-test/busybox:1", volumes: ["data:/data", "cache:/cache"] } }\nvolumes: { data: {}, cache: {} }\n';

describe('a request', () => {
  const ends: (() => void)[] = [];
  afterEach(() => {
    for (const end of ends.splice(0).reverse()) end();
  });

  async function asked(ask: (archive: string, group: string) => Record<string, unknown>): Promise<RestoreWorld> {
    const world = new RestoreWorld();
    ends.push(() => world.dispose());
    const tip = world.sim.source.push({ 'stacks/shop/compose.yaml': COMPOSE });
    await world.sim.apply();
    const archive = await world.archive('shop', { volumes: { data: 'old' }, left: ['cache'] });
    const members = [{ stack: 'shop', archive }];
    const { bytes } = encodeGroup({
      format: 'windlass-group',
      version: 1,
      madeAtMs: 1,
      group: 'g',
      members,
      edges: [],
      windlass: '0.0.0',
    });
    const group = await world.archives.putManifest(bytes, 'signed\n');
    const ledger = openLedger({ directory: world.sim.dir, fleet: 'f' });
    ends.push(() => ledger.close());
    const trust = { deploy: 'none' as const, anchor: {} as never, ledger, files: async () => ({}) };
    world.sim.house = { ...world.sim.house, trust };
    const request = { apiVersion: 'windlass/v1', reason: 'r', expires: '2030-01-01T00:00:00Z', ...ask(archive, group) };
    const evaluation = {
      state: 'awaitingApprovals',
      reason: 'approvals-missing',
      detail: '',
      request: request as Request,
      subject: 's',
      requester: null,
      approvals: [],
      missing: 1,
      mayStillSign: ['ann'],
      ignored: [],
      nonces: ['n'],
    };
    told.look = () => ({
      requests: [{ id: 'back', path: 'requests/back.yaml', bytes: new Uint8Array(), evaluation }],
      misnamed: [],
      passedOver: 0,
      there: new Set(['back']),
      objects: new Map(),
      chain: { effective: null },
      ledger,
      tip,
    });
    return world;
  }
  const DISCARDED =
    /discards {3}volume shop_data \(up to 3\.0 MiB\) is replaced; what was written to it since \d{4}-\d\d-\d\d \d\d:\d\d is discarded/;

  it.each([
    ['of a restore', (archive: string) => ({ kind: 'Restore', stack: 'shop', archive })],
    ['of a recover', (_: string, archive: string) => ({ kind: 'Recover', stacks: ['shop'], archive })],
  ])('%s shows before it runs which data it discards, how much at most, and since when', async (_, ask) => {
    const world = await asked(ask);
    const { out } = await windlass(world.sim, ['requests', 'back']);
    expect(out).toMatch(DISCARDED);
    expect(out).not.toMatch(/shop_cache/);
    const { discards } = JSON.parse((await windlass(world.sim, ['requests', 'back', '-o', 'json'])).out);
    expect(discards).toEqual([
      {
        kind: 'volume',
        name: 'shop_data',
        stack: 'shop',
        sizeBytesAtMost: 3 * 1024 * 1024,
        sinceMs: expect.any(Number),
      },
    ]);
  });

  it('under another name discards nothing, and of an archive that is not there nothing can be told', async () => {
    const beside = await asked((archive) => ({ kind: 'Restore', stack: 'shop', target: 'other', archive }));
    expect((await windlass(beside.sim, ['requests', 'back'])).out).not.toMatch(/discards/);
    const lost = await asked(() => ({ kind: 'Restore', stack: 'shop', archive: 'a'.repeat(64) }));
    const { discards } = JSON.parse((await windlass(lost.sim, ['requests', 'back', '-o', 'json'])).out);
    expect(discards).toBeNull();
    // Nothing said would sound like nothing lost.
    expect((await windlass(lost.sim, ['requests', 'back'])).out).toMatch(/^ {2}discards {3}cannot be told/m);
  });

  it('that ran is told in the history of its stack with all that its plan said', async () => {
    const world = await asked((archive) => ({ kind: 'Restore', stack: 'shop', archive }));
    const changes = [
      'restore shop from 0123',
      'volume shop_data is replaced; what was written to it since 1 is discarded',
    ];
    const run = { id: 'r', stack: 'shop', operation: 'restore' as const, trigger: 'request back', revision: 'abc' };
    const more = { digest: '', startedAtMs: 1, endedAtMs: 2, outcome: 'succeeded' as const, message: '', changes };
    world.sim.house.store.putRun({ ...run, ...more });
    const { out } = await windlass(world.sim, ['history', 'shop']);
    for (const line of changes) expect(out).toContain(`\n  ${line}\n`);
    expect((await windlass(world.sim, ['history'])).out).toMatch(/2 changes/);
  });
});

describe('what is discarded', () => {
  it.each([
    [0, '0 B'],
    [12, '12 B'],
    [10_240, '10.0 KiB'],
    [3 * 1024 ** 2, '3.0 MiB'],
    [1.5 * 1024 ** 3, '1.5 GiB'],
  ])('of %s bytes is told as up to %s', (sizeBytesAtMost, size) => {
    const one = { kind: 'volume' as const, name: 'shop_data', stack: 'shop', sizeBytesAtMost, sinceMs: null };
    expect(formatDiscard(one)).toBe(`volume shop_data (up to ${size}) is removed with all that is in it`);
  });
});
