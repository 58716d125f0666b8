import { describe, expect, test } from 'vitest';
import { refusal } from '../../../src/adapters/compose/refusal.ts';

describe('words of the engine and of Compose', () => {
  test('are the same at each try: the id of an endpoint is left out', () => {
    const said = (id: string) =>
      `driver failed programming external connectivity on endpoint a-1 (${id}): Bind for 0.0.0.0:80 failed: port is already allocated`;
    expect(refusal(said('b2e8'.repeat(16)), 'COMPOSE_FAILED').message).toBe(
      'driver failed programming external connectivity on endpoint a-1: Bind for 0.0.0.0:80 failed: port is already allocated',
    );
  });

  test.each([
    ['No such image: nope:1', 'IMAGE_MISSING', { image: 'nope:1' }],
    [
      'pull access denied for nope, repository does not exist or may require docker login',
      'IMAGE_MISSING',
      { image: 'nope' },
    ],
    ['manifest for nope:1 not found: manifest unknown: manifest unknown', 'IMAGE_MISSING', { image: 'nope:1' }],
    [
      'driver failed programming external connectivity on endpoint a-1 (b2e89a): Error starting userland proxy: listen tcp4 127.0.0.1:18099: bind: address already in use',
      'PORT_TAKEN',
      { port: 18099, hostIp: '127.0.0.1', protocol: 'tcp' },
    ],
    [
      'driver failed programming external connectivity on endpoint c-1 (6d69): Bind for 127.0.0.1:18099 failed: port is already allocated',
      'PORT_TAKEN',
      { port: 18099, hostIp: '127.0.0.1' },
    ],
    [
      'failed to bind host port 0.0.0.0:8080/tcp: address already in use',
      'PORT_TAKEN',
      { port: 8080, hostIp: '0.0.0.0' },
    ],
    [
      'failed to bind host port for 0.0.0.0:8080:172.17.0.2:80/tcp: address already in use',
      'PORT_TAKEN',
      { port: 8080 },
    ],
    ['ports are not available: exposing port TCP 0.0.0.0:80 -> 127.0.0.1:0', 'PORT_TAKEN', { port: 80 }],
    [
      'network p_hand was found but has incorrect label com.docker.compose.network set to "" (expected: "hand")',
      'NETWORK_CONFLICT',
      { network: 'p_hand' },
    ],
    ['network p_default is ambiguous (2 matches found on name)', 'NETWORK_CONFLICT', { network: 'p_default' }],
    ['dependency failed to start: container p-g-1 is unhealthy', 'SERVICE_UNHEALTHY', { container: 'p-g-1' }],
    ['dependency failed to start: container p-g-1 exited (3)', 'SERVICE_CRASHED', { container: 'p-g-1', exitCode: 3 }],
    ['service "k" didn\'t complete successfully: exit 7', 'ONE_SHOT_FAILED', { service: 'k', exitCode: 7 }],
    ['cannot start a paused container, try unpause instead', 'ENGINE_REFUSED', { reason: 'paused' }],
    [
      'Conflict. The container name "/p-o-1" is already in use by container "e2cff4".',
      'ENGINE_REFUSED',
      { reason: 'name-taken', name: 'p-o-1', container: 'e2cff4' },
    ],
    [
      'invalid mount config for type "bind": bind source path does not exist: /nonexistent/x',
      'ENGINE_REFUSED',
      { reason: 'mount-missing', path: '/nonexistent/x' },
    ],
    ["can't set healthcheck.start_interval as feature require Docker Engine v25 or later", 'ENGINE_TOO_OLD', {}],
    ['client version 1.41 is too old. Minimum supported API version is 1.44', 'ENGINE_TOO_OLD', {}],
    ['Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?', 'ENGINE_UNREACHABLE', {}],
    [
      'could not find an available, non-overlapping IPv4 address pool among the defaults',
      'ENGINE_REFUSED',
      { reason: 'address-pool' },
    ],
    ['something that nobody knows', 'COMPOSE_FAILED', {}],
  ])('%s', (message, code, data) => {
    const fault = refusal(message, 'COMPOSE_FAILED', { status: 500 });
    expect(fault).toMatchObject({ code, message, data: { status: 500, ...data } });
  });
});
