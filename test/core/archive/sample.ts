// Sample: one manifest that uses every field, for the tests of whatever reads or stores manifests.
import { createHash } from 'node:crypto';
import type { GroupManifest, Manifest } from '../../../src/core/archive/manifest.ts';
import type { PayloadRecord } from '../../../src/core/archive/payload.ts';

const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');

export const blobOf = (text: string) => ({ digest: digestOf(text), sizeBytes: Buffer.byteLength(text) });

export function payloadOf(name: string, content: string): PayloadRecord {
  return {
    kind: 'volume',
    name,
    format: 'tar+zstd',
    plainDigest: digestOf(`plain ${content}`),
    plainBytes: 1024,
    blob: blobOf(content),
    entries: { count: 2, digest: digestOf(`entries ${content}`) },
    root: { uid: 999, gid: 999, mode: '0700' },
    way: 'host-path',
    notCaptured: [],
  };
}

export const SECRET_TEXT = 'age-encryption.org/v1 sealed';
export const FILE_TEXT = 'listen: 80\n';
export const APP_TEXT = 'apiVersion: windlass/v1\nkind: App\nversion: "26.0"\n';
export const VOLUME_TEXT = 'zstd of a tar';

/** Blobs that `sampleManifest()` names. */
export const SAMPLE_TEXTS = [SECRET_TEXT, FILE_TEXT, APP_TEXT, VOLUME_TEXT] as const;

export function sampleManifest(change: Partial<Manifest> = {}): Manifest {
  const { payloads = [payloadOf('data', VOLUME_TEXT)] } = change;
  return {
    format: 'windlass-archive',
    version: 1,
    madeAtMs: 1_790_000_000_000,
    purpose: 'backup',
    stack: 'sso',
    project: 'sso',
    group: 'identity',
    node: 'local',
    runtime: 'compose',
    revision: { source: 'fleet', ref: 'refs/heads/main', commit: '4be1c2d'.padEnd(40, '0') },
    spec: { app: 'keycloak', version: '26.0', hooks: { post_install: [{ job: 'init', weight: -5 }] }, ratio: 0.5 },
    layout: { kind: 'app' },
    app: {
      name: 'keycloak',
      version: '26.0',
      catalog: { origin: 'fleet', directory: 'apps/keycloak' },
      source: [{ path: 'app.yaml', mode: '100644', blob: blobOf(APP_TEXT) }],
    },
    vars: {
      hostname: { kind: 'plain', value: 'sso.example.org' },
      adminPassword: { kind: 'secret', scope: 'stack/sso', key: 'adminPassword' },
      smtp: { kind: 'ref', ref: 'ref+vault://smtp-password' },
    },
    ports: { web: ['8443:8443'] },
    replicas: { web: 2 },
    integrate: { database: { provider: 'pg', app: 'postgres' } },
    files: [{ path: 'files/nginx.conf', mode: '100644', blob: blobOf(FILE_TEXT) }],
    images: [{ service: 'web', reference: 'keycloak:26.0', digest: null, imageId: `sha256:${digestOf('image')}` }],
    volumes: payloads
      .filter(({ kind }) => kind === 'volume')
      .map(({ name }) => ({
        key: name,
        name: `sso_${name}`,
        external: false,
        driver: 'local',
        driverOpts: {},
        labels: {},
        payload: name,
      })),
    owners: [{ volume: 'data', mode: '0700', uid: 999, gid: 999 }],
    vault: {
      keys: [{ scope: 'stack/sso', key: 'adminPassword' }],
      sealed: blobOf(SECRET_TEXT),
      recipients: ['age1example'],
    },
    boot: { kind: 'double', why: 'its `restore` jobs rebuild data' },
    restoreJobs: ['replay-db'],
    quiesced: [{ service: 'web', how: 'stop' }],
    payloads: [...payloads],
    notCaptured: [],
    engine: { version: '28.5.2', apiVersion: '1.51', composeVersion: '2.40.3' },
    windlass: '0.1.0',
    ...change,
  };
}

export function sampleGroup(members: GroupManifest['members'], change: Partial<GroupManifest> = {}): GroupManifest {
  return {
    format: 'windlass-group',
    version: 1,
    madeAtMs: 1_790_000_000_000,
    group: 'identity',
    members,
    edges: [],
    windlass: '0.1.0',
    ...change,
  };
}
