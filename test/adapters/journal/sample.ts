// Sample: an applied record of ordinary size.
import type { Applied } from '../../../src/core/state/applied.ts';

export function sampleApplied(stack: string, services = 2, revision = 'a'.repeat(40)): Applied {
  const names = Array.from({ length: services }, (_, at) => `service-${at}`);
  return {
    stack,
    project: stack,
    source: 'fleet',
    revision,
    atMs: 1,
    imageIds: Object.fromEntries(names.map((name) => [name, `sha256:${'1'.repeat(64)}`])),
    roles: Object.fromEntries(names.map((name) => [name, 'running' as const])),
    prune: true,
    desired: {
      stack,
      project: stack,
      projectDir: `/state/projects/${stack}`,
      revision,
      inputDigest: '2'.repeat(64),
      digest: '3'.repeat(64),
      services: names.map((name) => ({
        name,
        hash: '4'.repeat(64),
        definition: null,
        parents: [],
        image: 'registry.example/team/image:1.2.3',
        pullPolicy: 'missing',
        build: null,
        replicas: 1,
        containerName: null,
        resources: {
          memoryBytes: 0,
          memoryReservationBytes: 0,
          nanoCpus: 0,
          cpuShares: 0,
          cpuset: '',
          pidsLimit: 0,
          restart: 'always',
        },
        hasHealthcheck: true,
        oneShot: null,
        networks: [{ name: `${stack}_default`, aliases: [name] }],
        volumes: [`${stack}_data`],
        mounts: [
          {
            kind: 'bind',
            source: `/state/projects/${stack}/app.conf`,
            target: '/etc/app.conf',
            digest: '5'.repeat(64),
            onChange: { kind: 'recreate' },
          },
        ],
        ports: [{ hostIp: '', published: 8080, target: 80, protocol: 'tcp' }],
        dependsOn: [],
        fields: Object.fromEntries(
          Array.from({ length: 30 }, (_, at) => [`environment.VARIABLE_${at}`, `value ${at}`]),
        ),
      })),
      networks: [{ key: 'default', name: `${stack}_default`, external: false, hash: '6'.repeat(64) }],
      volumes: [{ key: 'data', name: `${stack}_data`, external: false, hash: '7'.repeat(64) }],
    } as unknown as Applied['desired'],
  };
}
