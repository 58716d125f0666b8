import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { describe, expect, it } from 'vitest';
import { deafPorts, portsIn } from '../../../src/adapters/compose/listening.ts';
import type { ApiContainer, ApiNetwork } from '../../../src/adapters/compose/reading.ts';

const own = Object.values(networkInterfaces()).flat()[0]!.address;
const here: readonly ApiNetwork[] = [{ Id: 'n', Name: 'bridge', IPAM: { Config: [{ Gateway: own }] } }];
const elsewhere: readonly ApiNetwork[] = [{ Id: 'n', Name: 'bridge', IPAM: { Config: [{ Gateway: '203.0.113.1' }] } }];
const publishing = (Id: string, ...ports: readonly number[]): ApiContainer => ({
  Id,
  Names: [`/${Id}`],
  Image: 'i',
  ImageID: 'i',
  Created: 0,
  Labels: {},
  State: 'running',
  Status: 'Up',
  Ports: ports.map((PublicPort) => ({ PublicPort, PrivatePort: 80, Type: 'tcp' })),
});

/** With a port that is heard and one that nobody listens on. */
async function withPorts(work: (heard: number, deaf: number) => Promise<void>): Promise<void> {
  const listen = async () => {
    const server = createServer();
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    return { server, port: (server.address() as { port: number }).port };
  };
  const [one, other] = [await listen(), await listen()];
  await new Promise((done) => other.server.close(done));
  try {
    await work(one.port, other.port);
  } finally {
    await new Promise((done) => one.server.close(done));
  }
}

describe('published ports that nobody listens on', () => {
  it('are told of a container that still runs on the second look', () =>
    withPorts(async (heard, deaf) => {
      const all = [publishing('a', heard), publishing('b', heard, deaf)];
      expect(await deafPorts(all, here, async () => all)).toEqual(new Map([['b', [deaf]]]));
    }));

  it('are not told of one that ended in between', () =>
    withPorts(async (heard, deaf) => {
      const all = [publishing('a', heard), publishing('b', deaf)];
      expect(await deafPorts(all, here, async () => [publishing('a', heard)])).toEqual(new Map());
    }));

  it('are not told when none of the ports of the engine is heard: it may publish without listening', () =>
    withPorts(async (_heard, deaf) => {
      const all = [publishing('a', deaf), publishing('b', deaf)];
      expect(await deafPorts(all, here, async () => all)).toEqual(new Map());
    }));

  it('are not told when the bridges of the engine are not those of this host', () =>
    withPorts(async (heard, deaf) => {
      const all = [publishing('a', heard), publishing('b', deaf)];
      expect(await deafPorts(all, elsewhere, async () => all)).toEqual(new Map());
    }));

  it('cost no second list call while all are heard', () =>
    withPorts(async (heard) => {
      const all = [publishing('a', heard)];
      const again = () => Promise.reject(new Error('asked again'));
      expect(await deafPorts(all, here, again)).toEqual(new Map());
    }));
});

it('reads the listeners of a table of the kernel, whatever else is in it', () => {
  const table = `  sl  local_address rem_address   st tx_queue
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000
   1: 0100007F:1F91 0100007F:9C40 01 00000000:00000000
   2: 00000000000000000000000000000000:01BB 00000000000000000000000000000000:0000 0A 00000000:00000000
`;
  expect(portsIn(table)).toEqual([8080, 443]);
});
