// Builders for diff tests: one stack `shop` with a service `web`, as desired, observed and applied; each test bends one thing.
import { indexObserved } from '../../../src/core/diff/index-observed.ts';
import type { Applied } from '../../../src/core/state/applied.ts';
import type { Desired, DesiredService } from '../../../src/core/state/desired.ts';
import type { Observed, ObservedContainer } from '../../../src/core/state/observed.ts';

export const NO_LIMITS = {
  memoryBytes: 0,
  memoryReservationBytes: 0,
  nanoCpus: 0,
  cpuShares: 0,
  cpuset: '',
  pidsLimit: 0,
  restart: 'no',
} as const;

export const service = (over: Partial<DesiredService> = {}): DesiredService => ({
  name: 'web',
  hash: 'h1',
  definition: null,
  parents: [],
  image: 'site:1',
  pullPolicy: 'missing',
  build: null,
  replicas: 1,
  containerName: null,
  resources: { ...NO_LIMITS },
  hasHealthcheck: false,
  oneShot: null,
  networks: [{ name: 'shop_default', aliases: ['web'] }],
  volumes: [],
  mounts: [],
  ports: [],
  dependsOn: [],
  fields: { image: 'site:1' },
  ...over,
});

export const desired = (services: readonly DesiredService[] = [service()], over: Partial<Desired> = {}): Desired => ({
  stack: 'shop',
  project: 'shop',
  projectDir: '/state/stacks/shop/tree',
  revision: 'r1',
  inputDigest: 'i1',
  digest: JSON.stringify(services.map((one) => [one.hash, one.replicas])),
  digestUnscaled: JSON.stringify(services.map((one) => one.hash)),
  composeVersion: '2.40.3',
  recipe: 1,
  services,
  networks: [{ key: 'default', name: 'shop_default', external: false, hash: 'n1', internal: false }],
  volumes: [],
  owners: [],
  ...over,
});

export const container = (over: Partial<ObservedContainer> = {}): ObservedContainer => ({
  id: 'c1',
  name: 'shop-web-1',
  project: 'shop',
  service: 'web',
  number: 1,
  oneOff: false,
  configHash: 'h1',
  state: 'running',
  health: 'none',
  exitCode: null,
  image: 'site:1',
  imageId: 'sha256:one',
  workingDir: '/state/stacks/shop/tree',
  labels: {},
  networks: [{ name: 'shop_default', id: 'net1' }],
  mounts: [],
  createdAtMs: 0,
  ports: [],
  deafPorts: [],
  stoppedByHand: false,
  detail: {
    resources: { ...NO_LIMITS },
    aliases: { shop_default: ['web', 'shop-web-1'] },
    shares: [],
    startedAt: '',
    finishedAt: '',
    restartCount: 0,
    oomKilled: false,
    error: '',
  },
  ...over,
});

export const observed = (containers: readonly ObservedContainer[] = [container()], over: Partial<Observed> = {}) =>
  indexObserved({
    engineId: 'e',
    atMs: 0,
    containers,
    networks: [
      { id: 'net1', name: 'shop_default', project: 'shop', key: 'default', configHash: 'n1', internal: false },
    ],
    volumes: [],
    images: [{ id: 'sha256:one', tags: ['site:1'], digests: [], labels: {} }],
    ...over,
  });

export const applied = (of: Desired = desired(), over: Partial<Applied> = {}): Applied => ({
  stack: 'shop',
  project: 'shop',
  desired: of,
  source: 'main',
  revision: 'r1',
  atMs: 0,
  imageIds: {},
  roles: { web: 'running' },
  prune: true,
  ...over,
});
