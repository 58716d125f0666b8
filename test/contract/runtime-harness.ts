// The two worlds on which the duties of a Runtime are checked, and what a person can do to each behind its back.
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RealClock } from '../../src/adapters/clock/real-clock.ts';
import { type ApiClient, openApiClient } from '../../src/adapters/compose/api-client.ts';
import { findHost } from '../../src/adapters/compose/host.ts';
import { openRuntime } from '../../src/adapters/compose/runtime.ts';
import { run } from '../../src/adapters/process/run.ts';
import { openSimRuntime } from '../../src/adapters/sim/runtime.ts';
import { SimWorld } from '../../src/adapters/sim/world.ts';
import type { Runtime } from '../../src/ports/runtime.ts';

export const testLabel = { 'dev.windlass.test': '1' };

/** All by id. */
export interface Person {
  kill(id: string): Promise<void>;
  stop(id: string): Promise<void>;
  pause(id: string): Promise<void>;
  rename(id: string, name: string): Promise<void>;
  remove(id: string): Promise<void>;
  disconnect(id: string, network: string): Promise<void>;
  connect(id: string, network: string): Promise<void>;
  /** 128 MiB of memory, and this restart policy. */
  update(id: string, restart: string): Promise<void>;
  makeNetwork(name: string): Promise<void>;
  /** A running container with these labels; returns its id. */
  makeContainer(name: string, labels: Readonly<Record<string, string>>): Promise<string>;
  volumeOwner(volume: string, id: string, path: string): Promise<string>;
}

export interface World {
  readonly name: string;
  readonly runtime: Runtime;
  readonly person: Person;
  /** A runtime whose engine does not answer. */
  lost(): Runtime;
  /** A fresh project name and its folder. */
  project(): { readonly project: string; readonly directory: string };
  close(): Promise<void>;
}

function projects() {
  const root = mkdtempSync(join(tmpdir(), 'wlt-contract-'));
  const names: string[] = [];
  return {
    names,
    make() {
      const project = `wlt-${randomBytes(4).toString('hex')}`;
      const directory = join(root, project);
      mkdirSync(directory);
      names.push(project);
      return { project, directory };
    },
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}

export function simWorld(): World {
  const clock = new RealClock();
  const world = new SimWorld({ clock, seed: 'contract' });
  const runtime = openSimRuntime(world);
  const { make, remove } = projects();
  const none = {
    memoryBytes: 0,
    memoryReservationBytes: 0,
    nanoCpus: 0,
    cpuShares: 0,
    cpuset: '',
    pidsLimit: 0,
    restart: 'no',
  };
  return {
    name: 'simulated world',
    runtime,
    person: {
      kill: async (id) => world.kill(id),
      stop: async (id) => world.stop(id),
      pause: async (id) => world.pause(id),
      rename: async (id, name) => world.rename(id, name),
      remove: async (id) => world.remove(id),
      disconnect: async (id, network) => world.disconnect(id, network),
      connect: async (id, network) => world.connect(id, network),
      update: async (id, restart) => world.update(id, { ...none, memoryBytes: 128 * 2 ** 20, restart }),
      makeNetwork: async (name) => void world.engine.addNetwork({ name, internal: false, labels: testLabel }),
      makeContainer: async (name, labels) => world.addForeign(name, { labels: { ...labels, ...testLabel } }),
      volumeOwner: async (volume) => {
        const owner = world.engine.volumes.get(volume)?.owner;
        return `${owner?.uid} ${owner?.gid} ${Number.parseInt(owner?.mode ?? '0', 8).toString(8)}`;
      },
    },
    lost() {
      const other = new SimWorld({ clock, seed: 'lost' });
      other.setReachable(false);
      return openSimRuntime(other);
    },
    project: make,
    async close() {
      await runtime.close();
      remove();
    },
  };
}

export function realWorld(): World {
  const clock = new RealClock();
  const runtime = openRuntime({ run, clock });
  const client: ApiClient = openApiClient(findHost(process.env), {
    deadlineMs: 30_000,
    maxBytes: 16 * 2 ** 20,
    maxSockets: 4,
  });
  const { names, make, remove } = projects();
  const opened: Runtime[] = [];
  const post = async (path: string, query: Record<string, string> = {}, body?: unknown) => {
    await client.send({ method: 'POST', path, query, body });
  };
  return {
    name: 'real engine',
    runtime,
    person: {
      kill: (id) => post(`/containers/${id}/kill`),
      stop: (id) => post(`/containers/${id}/stop`),
      pause: (id) => post(`/containers/${id}/pause`),
      rename: (id, name) => post(`/containers/${id}/rename`, { name }),
      remove: async (id) =>
        void (await client.send({ method: 'DELETE', path: `/containers/${id}`, query: { force: 1 } })),
      disconnect: (id, network) => post(`/networks/${network}/disconnect`, {}, { Container: id }),
      connect: (id, network) => post(`/networks/${network}/connect`, {}, { Container: id }),
      update: (id, restart) =>
        post(
          `/containers/${id}/update`,
          {},
          { Memory: 128 * 2 ** 20, MemorySwap: 256 * 2 ** 20, RestartPolicy: { Name: restart } },
        ),
      makeNetwork: (name) => post('/networks/create', {}, { Name: name, Labels: testLabel }),
      async makeContainer(name, labels) {
        const { Id } = await client.json<{ Id: string }>({
          method: 'POST',
          path: '/containers/create',
          query: { name },
          body: {
            Image: 'windlass-test/busybox:1',
            Cmd: ['sleep', '1000'],
            StopTimeout: 0,
            Labels: { ...labels, ...testLabel },
            HostConfig: { Init: true, NetworkMode: 'none' },
          },
        });
        await post(`/containers/${Id}/start`);
        return Id;
      },
      async volumeOwner(_volume, id, path) {
        let said = '';
        await runtime.exec(id, {
          command: ['stat', '-c', '%u %g %a', path],
          signal: AbortSignal.timeout(10_000),
          onLine: (line) => {
            said += line.text;
          },
        });
        return said;
      },
    },
    lost() {
      const other = openRuntime({ run, clock, host: 'unix:///nonexistent/windlass-test.sock' });
      opened.push(other);
      return other;
    },
    project: make,
    async close() {
      await sweep(client, names);
      await Promise.all([runtime, ...opened].map((each) => each.close()));
      client.close();
      remove();
    },
  };
}

/** By id, and only what belongs to these projects. */
async function sweep(client: ApiClient, names: readonly string[]): Promise<void> {
  type Listed = { Id: string; Name: string; Names?: string[]; Labels?: Record<string, string> | null };
  const isOurs = (item: Listed) =>
    names.includes(item.Labels?.['com.docker.compose.project'] ?? '') ||
    (item.Labels?.['dev.windlass.test'] === '1' &&
      names.some((name) => [item.Name, ...(item.Names ?? [])].some((own) => own?.includes(name))));
  const filters = JSON.stringify({ label: ['dev.windlass.test=1'] });
  const list = (path: string) => client.json<Listed[]>({ method: 'GET', path, query: { all: 1, filters } });
  await Promise.all(
    (await list('/containers/json'))
      .filter(isOurs)
      .map(({ Id }) =>
        client.send({ method: 'DELETE', path: `/containers/${Id}`, query: { force: 1, v: 1 }, accept: [404, 409] }),
      ),
  );
  for (const { Id } of (await list('/networks')).filter(isOurs))
    await client.send({ method: 'DELETE', path: `/networks/${Id}`, accept: [404] });
  const { Volumes } = await client.json<{ Volumes: Listed[] | null }>({
    method: 'GET',
    path: '/volumes',
    query: { filters },
  });
  for (const { Name } of (Volumes ?? []).filter(isOurs))
    await client.send({ method: 'DELETE', path: `/volumes/${Name}`, accept: [404] });
  for (const { Id } of (await list('/images/json')).filter((image) =>
    names.includes(image.Labels?.['dev.windlass.project'] ?? ''),
  )) {
    await client.send({ method: 'DELETE', path: `/images/${Id}`, query: { force: 1 }, accept: [404] });
  }
}
