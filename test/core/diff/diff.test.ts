import { describe, expect, it } from 'vitest';
import { type DiffInput, diffStack } from '../../../src/core/diff/diff.ts';
import { formatChange } from '../../../src/core/plan/format.ts';
import type { ContainerDetail, ObservedContainer } from '../../../src/core/state/observed.ts';
import { applied, container, desired, NO_LIMITS, observed, service } from './world.ts';

const diff = (over: Partial<DiffInput> = {}) =>
  diffStack({
    desired: desired(),
    index: observed(),
    applied: applied(),
    adopt: false,
    attempted: false,
    edited: [],
    ...over,
  });
const said = (over: Partial<DiffInput> = {}) =>
  diff(over).changes.map((change) => `${change.repair} ${change.service || change.name}: ${change.cause}`);

const ownNetwork = observed().observed.networks[0]!;
const detailed = (detail: object) => container({ detail: { ...container().detail!, ...detail } });

describe('the drift matrix', () => {
  const rows: readonly [string, Partial<DiffInput>, readonly string[]][] = [
    ['nothing differs', {}, []],
    [
      'a stopped container is started',
      { index: observed([container({ state: 'exited', exitCode: 137 })]) },
      ['start web: stopped'],
    ],
    [
      'a container stopped by hand that exits 0 is started',
      { index: observed([container({ state: 'exited', exitCode: 0, stoppedByHand: true })]) },
      ['start web: stopped'],
    ],
    [
      'a server that ended with 0 while nobody looked is started',
      { index: observed([container({ state: 'exited', exitCode: 0 })]) },
      ['start web: stopped'],
    ],
    [
      'a container that was only created is started',
      { index: observed([container({ state: 'created' })]) },
      ['start web: never-started'],
    ],
    ['a removed container is created', { index: observed([]) }, ['create web: container-missing']],
    ['a paused container is unpaused', { index: observed([container({ state: 'paused' })]) }, ['unpause web: paused']],
    ['an unhealthy container is not touched', { index: observed([container({ health: 'unhealthy' })]) }, []],
    ['a crash loop is not touched', { index: observed([container({ state: 'restarting' })]) }, []],
    [
      'a renamed container gets its name back',
      { index: observed([container({ name: 'mine' })]) },
      ['rename web: renamed'],
    ],
    [
      'an extra network is left',
      {
        index: observed([
          container({
            networks: [
              { name: 'shop_default', id: 'net1' },
              { name: 'other', id: 'net9' },
            ],
          }),
        ]),
      },
      ['disconnect web: connected'],
    ],
    [
      'a detached network is joined again',
      { index: observed([container({ networks: [] })]) },
      ['connect web: disconnected'],
    ],
    [
      'a deleted network makes its services anew',
      { index: observed([container()], { networks: [] }) },
      ['recreate web: network-missing'],
    ],
    [
      'a lost alias is given back',
      { index: observed([detailed({ aliases: { shop_default: ['abc'] } })]) },
      ['connect web: alias-lost'],
    ],
    [
      'a raised limit is set back',
      {
        desired: desired([service({ resources: { ...NO_LIMITS, memoryBytes: 64 } })]),
        index: observed([detailed({ resources: { ...NO_LIMITS, memoryBytes: 128 } })]),
      },
      ['update web: resources-changed'],
    ],
    [
      'a limit that the engine cannot take away makes it anew',
      { index: observed([detailed({ resources: { ...NO_LIMITS, memoryBytes: 128 } })]) },
      ['recreate web: resources-changed'],
    ],
    [
      'a restart policy changed by hand is set back',
      { index: observed([detailed({ resources: { ...NO_LIMITS, restart: 'always' } })]) },
      ['update web: resources-changed'],
    ],
    [
      'a moved tag makes it anew',
      { index: observed([container()], { images: [{ id: 'sha256:two', tags: ['site:1'], digests: [], labels: {} }] }) },
      ['recreate web: image-moved'],
    ],
    ['a deleted tag changes nothing while the container runs', { index: observed([container()], { images: [] }) }, []],
    [
      'a container scaled by hand goes',
      { index: observed([container(), container({ id: 'c2', name: 'shop-web-2', number: 2 })]) },
      ['remove web: scaled-down'],
    ],
    [
      'a service that is no longer asked for goes',
      { index: observed([container(), container({ id: 'c2', name: 'shop-old-1', service: 'old' })]) },
      ['remove old: service-removed'],
    ],
    [
      'a container with our labels that Compose did not make goes',
      { index: observed([container(), container({ id: 'c2', name: 'x', service: 'web', configHash: '' })]) },
      ['remove web: not-by-compose'],
    ],
    [
      'what an interrupted recreate left goes',
      { index: observed([container(), container({ id: 'c2', name: 'abcdefabcdef_shop-web-1', state: 'created' })]) },
      ['remove web: leftover'],
    ],
    [
      'a one-off run is nobody’s drift',
      { index: observed([container(), container({ id: 'c2', name: 'run', oneOff: true })]) },
      [],
    ],
    [
      'a changed network definition makes its services anew',
      {
        desired: desired([service()], {
          networks: [{ key: 'default', name: 'shop_default', external: false, hash: 'n2', internal: false }],
        }),
      },
      ['recreate web: network-changed'],
    ],
    [
      'a network made by hand with the right labels and other options goes, and its services are made anew',
      { index: observed([container()], { networks: [{ ...ownNetwork, internal: true }] }) },
      ['remove-network shop_default: network-altered', 'recreate web: network-altered'],
    ],
    [
      'such a network stays while a stranger is on it',
      {
        index: observed([container(), container({ id: 'c9', name: 'guest', project: 'other' })], {
          networks: [{ ...ownNetwork, internal: true }],
        }),
      },
      [],
    ],
    [
      'a port that nobody listens on makes its container start anew',
      { index: observed([container({ deafPorts: [8080] })]) },
      ['restart web: port-deaf'],
    ],
    [
      'a network made by hand is refused',
      {
        index: observed([], {
          networks: [{ id: 'net1', name: 'shop_default', project: '', key: '', configHash: '', internal: false }],
        }),
        applied: null,
      },
      ['refuse shop_default: network-unlabelled', 'create web: new-service'],
    ],
    [
      'a second network of the same name goes',
      {
        index: observed([container()], {
          networks: [
            ...observed().observed.networks,
            { id: 'net2', name: 'shop_default', project: 'shop', key: 'default', configHash: 'n1', internal: false },
          ],
        }),
      },
      ['remove-network shop_default: network-duplicate'],
    ],
    [
      'a dropped network goes',
      {
        index: observed([container()], {
          networks: [
            ...observed().observed.networks,
            { id: 'net2', name: 'shop_back', project: 'shop', key: 'back', configHash: 'n1', internal: false },
          ],
        }),
      },
      ['remove-network shop_back: network-removed'],
    ],
    [
      'a changed volume is refused',
      {
        desired: desired([service({ volumes: ['shop_data'] })], {
          volumes: [{ key: 'data', name: 'shop_data', external: false, hash: 'v2' }],
        }),
        index: observed(
          [container({ mounts: [{ kind: 'volume', name: 'shop_data', source: '', destination: '/d' }] })],
          { volumes: [{ name: 'shop_data', project: 'shop', key: 'data', configHash: 'v1' }] },
        ),
      },
      ['refuse shop_data: volume-changed'],
    ],
    [
      'a volume made by hand is used as it is',
      {
        desired: desired([service({ volumes: ['shop_data'] })], {
          volumes: [{ key: 'data', name: 'shop_data', external: false, hash: 'v2' }],
        }),
        index: observed(
          [container({ mounts: [{ kind: 'volume', name: 'shop_data', source: '', destination: '/d' }] })],
          { volumes: [{ name: 'shop_data', project: '', key: '', configHash: '' }] },
        ),
      },
      [],
    ],
    [
      'a mounted file that was edited by hand makes its service anew',
      {
        desired: desired([
          service({
            mounts: [{ kind: 'bind', source: '/f', target: '/etc/f', digest: 'd', onChange: { kind: 'recreate' } }],
          }),
        ]),
        edited: ['/f'],
      },
      ['recreate web: file-edited'],
    ],
    [
      'a foreign project is refused',
      { applied: null, index: observed([container({ workingDir: '/home/me' })]) },
      ['refuse shop: foreign-project'],
    ],
    [
      'a foreign project with the same definition is adopted as it is',
      { applied: null, adopt: true, index: observed([container({ workingDir: '/home/me' })]) },
      [],
    ],
    [
      'a changed definition makes it anew',
      { desired: desired([service({ hash: 'h2', fields: { image: 'site:2' } })]) },
      ['recreate web: definition-changed'],
    ],
    [
      'more replicas are created beside the old ones',
      { desired: desired([service({ replicas: 2 })]) },
      ['create web: scaled-up'],
    ],
    [
      'a name that two containers have exchanged is given back to each',
      {
        desired: desired([service(), service({ name: 'db' })]),
        index: observed([container({ name: 'shop-db-1' }), container({ id: 'c2', service: 'db', name: 'shop-web-1' })]),
      },
      ['rename web: renamed', 'rename db: renamed'],
    ],
    ['no replicas are asked for', { desired: desired([service({ replicas: 0 })]) }, ['remove web: scaled-down']],
  ];
  it.each(rows)('%s', (_name, over, expected) => {
    expect(said(over)).toEqual(expected);
  });
});

describe('a service in the namespace of another one', () => {
  const child = service({ name: 'app', hash: 'x', definition: 'd1', parents: ['web'], networks: [] });
  const both = (over: Partial<typeof child> = {}) => desired([{ ...child, ...over }, service()]);
  const inside = (over: Partial<ObservedContainer> = {}, detail: Partial<ContainerDetail> = {}) =>
    container({
      id: 'c2',
      name: 'shop-app-1',
      service: 'app',
      labels: { 'dev.windlass.definition': 'd1' },
      networks: [],
      ...over,
      detail: {
        ...container().detail!,
        aliases: {},
        shares: [{ what: 'network', id: 'c1' }],
        startedAt: '2026-01-01T00:00:02.5Z',
        ...detail,
      },
    });
  const parent = (startedAt: string, over: Partial<ObservedContainer> = {}) =>
    container({ ...over, detail: { ...container().detail!, startedAt } });
  const early = '2026-01-01T00:00:02.123456789Z';
  const late = '2026-01-01T00:00:02.51Z';
  const rows: readonly [string, Partial<DiffInput>, readonly string[]][] = [
    ['is left alone while it shares with what runs', { index: observed([parent(early), inside()]) }, []],
    [
      'is made anew with it',
      {
        desired: desired([child, service({ hash: 'h2', fields: { image: 'site:2' } })]),
        index: observed([parent(early), inside()]),
      },
      ['recreate web: definition-changed', 'recreate app: parent-recreated'],
    ],
    [
      'is made anew when it is missing',
      { index: observed([inside()]) },
      ['create web: container-missing', 'recreate app: parent-recreated'],
    ],
    [
      'is made anew when it shares with one that is gone, of whatever kind',
      { index: observed([parent(early), inside({}, { shares: [{ what: 'volumes', id: 'c0' }] })]) },
      ['recreate app: parent-gone'],
    ],
    [
      'is left alone while nobody looked what it shares',
      { index: observed([parent(early), { ...inside(), detail: null }]) },
      [],
    ],
    [
      'is started anew after one that is started',
      { index: observed([parent(early, { state: 'exited', exitCode: 137 }), inside()]) },
      ['start web: stopped', 'restart app: namespace-lost'],
    ],
    [
      'is started anew when it started before what it shares with',
      { index: observed([parent(late), inside()]) },
      ['restart app: namespace-lost'],
    ],
    [
      'is not started anew for volumes, which outlive a process',
      { index: observed([parent(late), inside({}, { shares: [{ what: 'volumes', id: 'c1' }] })]) },
      [],
    ],
    [
      'is only started when it is down itself',
      { index: observed([parent(late), inside({ state: 'exited', exitCode: 137 })]) },
      ['start app: stopped'],
    ],
    [
      'is not run again when it has done its work',
      {
        desired: both({ oneShot: true }),
        index: observed([
          parent(late),
          inside({ state: 'exited', exitCode: 0 }, { shares: [{ what: 'network', id: 'c0' }] }),
        ]),
      },
      [],
    ],
  ];
  it.each(rows)('%s', (_name, over, expected) => {
    expect(said({ desired: both(), applied: applied(both(), { roles: { web: 'running' } }), ...over })).toEqual(
      expected,
    );
  });
});

describe('a service that depends with restart', () => {
  const web = service({ dependsOn: [{ service: 'db', condition: 'service_started', restart: true }] });
  const db = service({ name: 'db' });
  const all = desired([db, web]);
  const there = (over: Partial<ObservedContainer> = {}) =>
    observed([container(), container({ id: 'c2', name: 'shop-db-1', service: 'db', ...over })]);
  const changed = desired([service({ name: 'db', hash: 'h2', fields: { image: 'site:2' } }), web]);
  it('is started anew with what is made anew', () =>
    expect(said({ desired: changed, applied: applied(all), index: there() })).toEqual([
      'recreate db: definition-changed',
      'restart web: dependency-anew',
    ]));
  it('is started anew with what is started anew', () =>
    expect(said({ desired: all, applied: applied(all), index: there({ deafPorts: [80] }) })).toEqual([
      'restart db: port-deaf',
      'restart web: dependency-anew',
    ]));
  it('is left alone when it died and is started again', () =>
    expect(said({ desired: all, applied: applied(all), index: there({ state: 'exited', exitCode: 1 }) })).toEqual([
      'start db: stopped',
    ]));
  it('is left alone without restart', () =>
    expect(
      said({
        desired: { ...changed, services: [changed.services[0]!, service()] },
        applied: applied(all),
        index: there(),
      }),
    ).toEqual(['recreate db: definition-changed']));
  it('is named with what it depends on', () =>
    expect(
      diff({ desired: changed, applied: applied(all), index: there() })
        .changes.map(formatChange)
        .at(-1),
    ).toBe('restart web (shop-web-1): a service is made anew on which it depends with restart (db)'));
});

describe('what has ended well', () => {
  const oneShot = service({ name: 'web', oneShot: true });
  it('is not run again when some service waits for its completion', () => {
    expect(
      said({ desired: desired([oneShot]), index: observed([container({ state: 'exited', exitCode: 0 })]) }),
    ).toEqual([]);
  });
  it('is run again when it failed', () => {
    expect(
      said({ desired: desired([oneShot]), index: observed([container({ state: 'exited', exitCode: 7 })]) }),
    ).toEqual(['start web: one-shot-failed']);
  });
  it('is not drift for a sidecar that says restart: no', () => {
    const sidecar = service({ fields: { image: 'site:1', restart: 'no' } });
    expect(
      said({ desired: desired([sidecar]), index: observed([container({ state: 'exited', exitCode: 0 })]) }),
    ).toEqual([]);
  });
  it('is not drift when it had completed when the deploy settled', () => {
    expect(
      said({
        applied: applied(desired(), { roles: { web: 'completed' } }),
        index: observed([container({ state: 'exited', exitCode: 0 })]),
      }),
    ).toEqual([]);
  });
  it('keeps its network for a finished container that lost it', () => {
    expect(
      said({
        desired: desired([oneShot]),
        index: observed([container({ state: 'exited', exitCode: 0 })], { networks: [] }),
      }),
    ).toEqual([]);
  });
});

describe('the situation', () => {
  it('is install when nothing of it is there', () =>
    expect(diff({ applied: null, index: observed([]) }).situation).toBe('install'));
  it('is drift when only the engine differs', () => expect(diff({ index: observed([]) }).situation).toBe('drift'));
  it('is update when the desired state changed', () =>
    expect(diff({ desired: desired([service({ hash: 'h2' })]) }).situation).toBe('update'));
  it('is scale when only replica counts changed', () =>
    expect(diff({ desired: desired([service({ replicas: 3 })]) }).situation).toBe('scale'));
  it('is same when nothing differs', () => expect(diff().situation).toBe('same'));
});

describe('another Compose version', () => {
  it('re-baselines a service that is worded the same, and deploys nothing', () => {
    const after = desired([service({ hash: 'other' })], { composeVersion: '2.41.0' });
    expect(diff({ desired: after })).toMatchObject({ changes: [], situation: 'same' });
  });
  it('still sees a definition that changed meanwhile', () => {
    const after = desired([service({ hash: 'other', fields: { image: 'site:2' } })], { composeVersion: '2.41.0' });
    expect(said({ desired: after })).toEqual(['recreate web: definition-changed']);
  });
});

describe('the words of a change', () => {
  it('name the key that changed, old → new, and mask what may be secret', () => {
    const before = desired([service({ fields: { image: 'site:1', 'environment.DB_PASSWORD': '~aa' } })]);
    const after = desired([service({ hash: 'h2', fields: { image: 'site:2', 'environment.DB_PASSWORD': '~bb' } })]);
    const [change] = diff({ desired: after, applied: applied(before) }).changes;
    expect(formatChange(change!)).toBe(
      'recreate web (shop-web-1): its definition changed (environment.DB_PASSWORD: (secret) → (secret), image: site:1 → site:2)',
    );
  });
  it('name the mounted file that changed', () => {
    const mount = (digest: string) =>
      ({ kind: 'bind', source: '/f', target: '/etc/f', digest, onChange: { kind: 'recreate' } }) as const;
    const before = desired([service({ mounts: [mount('1')] })]);
    const after = desired([service({ hash: 'h2', mounts: [mount('2')] })]);
    const [change] = diff({ desired: after, applied: applied(before) }).changes;
    expect(formatChange(change!)).toBe('recreate web (shop-web-1): a mounted file changed (/etc/f)');
  });
});

describe('a service in the namespace of a container of another stack', () => {
  const web = service({ strangers: ['vpn'], networks: [] });
  const holder = (over: Partial<ObservedContainer> = {}, startedAt = '2026-01-01T00:00:01Z') =>
    container({
      ...{ id: 'v1', name: 'vpn', project: 'edge', service: 'vpn' },
      ...over,
      detail: { ...container().detail!, startedAt },
    });
  const inside = (over: Partial<ObservedContainer> = {}, id = 'v1') =>
    container({
      networks: [],
      ...over,
      detail: {
        ...container().detail!,
        ...{ aliases: {}, shares: [{ what: 'network', id }], startedAt: '2026-01-01T00:00:02Z' },
      },
    });
  const ABSENT = 'the container vpn, whose namespace web shares, is not there; it cannot start before it is';
  const rows: readonly [string, readonly ObservedContainer[], readonly string[], readonly string[]][] = [
    ['is left alone while that runs', [holder(), inside()], [], []],
    [
      'is made anew when another one bears the name',
      [holder({ id: 'v2' }), inside()],
      ['recreate web: parent-gone'],
      [],
    ],
    [
      'and not only started when it is down by then',
      [holder({ id: 'v2' }), inside({ state: 'exited', exitCode: 137 })],
      ['recreate web: parent-gone'],
      [],
    ],
    [
      'is started anew after that was',
      [holder({}, '2026-01-01T00:00:03Z'), inside()],
      ['restart web: namespace-lost'],
      [],
    ],
    ['has nothing to join while none bears the name', [inside()], [], [ABSENT]],
  ];
  it.each(rows)('%s', (_name, containers, changes, warnings) => {
    const over = { desired: desired([web]), applied: applied(desired([web])), index: observed(containers) };
    expect(said(over)).toEqual(changes);
    expect(diff({ ...over }).warnings).toEqual(warnings);
  });

  it('may name it by its id', () => {
    const id = 'v1'.repeat(32);
    const over = (shared: string) => {
      const asked = desired([{ ...web, strangers: [id.slice(0, 12)] }]);
      return { desired: asked, applied: applied(asked), index: observed([holder({ id }), inside({}, shared)]) };
    };
    expect([said(over(id)), said(over('v0'))]).toEqual([[], ['recreate web: parent-gone']]);
  });
});

describe('what is external and not there', () => {
  const lacking = (kind: string, name: string) =>
    `the external ${kind} ${name} is not there; no container is made before it is: docker ${kind} create ${name}`;
  const wanted = (networks: readonly string[], volumes: readonly string[]) =>
    desired([service({ networks: networks.map((name) => ({ name, aliases: [] })), volumes })], {
      networks: [{ key: 'edge', name: 'edge', external: true, hash: '', internal: false }],
      volumes: [{ key: 'data', name: 'media', external: true, hash: '' }],
    });
  const there = {
    networks: [{ id: 'n', name: 'edge', project: '', key: '', configHash: '', internal: false }],
    volumes: [{ name: 'media', project: '', key: '', configHash: '' }],
  };
  it.each([
    [
      'a network and a volume',
      wanted(['edge'], ['media']),
      { networks: [] },
      [lacking('volume', 'media'), lacking('network', 'edge')],
    ],
    ['neither when both are there', wanted(['edge'], ['media']), there, []],
    ['nor what no service uses', wanted([], []), { networks: [] }, []],
  ])('is told before the deploy, and refuses none: %s', (_, asked, world, warnings) => {
    const found = diff({ desired: asked, index: observed([], world), applied: null });
    expect(found.warnings).toEqual(warnings);
    expect(found.changes.map((one) => one.repair)).toEqual(['create']);
  });
});

describe('a service that gets another volume in the place of one with data', () => {
  const volume = (key: string, name: string, external = false) => ({ key, name, external, hash: external ? '' : 'v' });
  const there = (name: string, project = 'shop') => ({ name, project, key: 'data', configHash: 'v' });
  const seen = (wanted: ReturnType<typeof volume>, volumes: readonly ReturnType<typeof there>[]) =>
    diff({
      desired: desired([service({ volumes: [wanted.name], volumeAt: { '/d': wanted.name } })], { volumes: [wanted] }),
      index: observed([container({ mounts: [{ kind: 'volume', name: 'one', source: '', destination: '/d' }] })], {
        volumes,
      }),
    });
  const EMPTY = 'volume one with the data of web (/d) is left; web gets the empty volume two';
  const AS_IT_IS = 'volume one with the data of web (/d) is left; web gets volume two as it is';

  it.each([
    ['another name', volume('data', 'two'), [there('one')], [EMPTY], [EMPTY]],
    ['another name that is there', volume('data', 'two'), [there('one'), there('two')], [AS_IT_IS], []],
    ['an external one', volume('data', 'two', true), [there('one'), there('two', '')], [AS_IT_IS], []],
    ['the same', volume('data', 'one'), [there('one')], [], []],
    ['one that is not of this stack before', volume('data', 'two'), [there('one', '')], [], []],
    ['the generation of a restore', volume('data', 'shop_data_g2'), [there('one')], [], []],
  ])('is told of it, and never refused: %s', (_, wanted, volumes, warnings, leaves) => {
    const found = seen(wanted, volumes);
    expect(found.warnings).toEqual(warnings);
    expect(found.leaves ?? []).toEqual(leaves);
    expect(found.changes.map((one) => one.repair)).not.toContain('refuse');
  });
});
