// Runtime on a real engine: lists and primitives through its API, files and `up` through Docker Compose. It decides nothing;
// it says what was done or why not.
import { Fault } from '../../core/fault.ts';
import type { Resources } from '../../core/state/desired.ts';
import type { ContainerDetail, EngineEvent, Observed, ObservedContainer } from '../../core/state/observed.ts';
import type { Clock } from '../../ports/clock.ts';
import type {
  EngineInfo,
  LogLine,
  LogOptions,
  ObserveOptions,
  ResolveInput,
  RunResult,
  Runtime,
  UpInput,
} from '../../ports/runtime.ts';
import type { Run } from '../process/run.ts';
import { type ApiRequest, aborted, openApiClient } from './api-client.ts';
import { readEvents } from './events.ts';
import { type ExecInput, endMarkedIn, execIn } from './exec.ts';
import { type Environment, findHost } from './host.ts';
import { pullImage } from './image-pull.ts';
import { FrameReader, PlainReader } from './lines.ts';
import { deafPorts } from './listening.ts';
import { Memory } from './memory.ts';
import { openCompose } from './plugin.ts';
import {
  type ApiContainer,
  type ApiImage,
  type ApiInspect,
  type ApiNetwork,
  type ApiVolume,
  composeLabel,
  containerOf,
  detailOf,
  imageOf,
  networkOf,
  volumeOf,
} from './reading.ts';
import { registryAuth } from './registry-auth.ts';
import { chownVolumeRoot } from './volume-owner.ts';

export interface RuntimeLimits {
  /** A call that only reads or changes one small thing. */
  readonly callMs: number;
  /** A call that waits for a container's own grace period. */
  readonly stopMs: number;
  readonly resolveMs: number;
  readonly upMs: number;
  readonly buildMs: number;
  /** A list or inspect. */
  readonly answerBytes: number;
  /** A resolved project. */
  readonly modelBytes: number;
  readonly inspectsAtOnce: number;
}

export interface RuntimeOptions {
  /** `unix://…` or `tcp://…`; found as the docker client does when absent. */
  readonly host?: string;
  readonly run: Run;
  readonly clock: Clock;
  /** Where PATH, HOME and the DOCKER_ variables come from; default: this process. */
  readonly environment?: Environment;
  /** For log lines and the engine's words; what Compose says is redacted by `run`. */
  readonly redact?: (text: string) => string;
  readonly limits?: Partial<RuntimeLimits>;
}

const defaultLimits: RuntimeLimits = {
  callMs: 30_000,
  stopMs: 15 * 60_000,
  resolveMs: 60_000,
  upMs: 60 * 60_000,
  buildMs: 60 * 60_000,
  answerBytes: 256 * 1024 * 1024,
  modelBytes: 16 * 1024 * 1024,
  inspectsAtOnce: 8,
};

/** Throws ENGINE_UNREACHABLE when the address cannot be made out; whether an engine answers there is seen at the first call. */
export function openRuntime(options: RuntimeOptions): Runtime {
  const { run, clock } = options;
  const environment = options.environment ?? process.env;
  const limits = { ...defaultLimits, ...options.limits };
  const redact = options.redact ?? ((text: string) => text);
  const host =
    options.host === undefined
      ? findHost(environment)
      : { ...findHost({ ...environment, DOCKER_HOST: options.host }), url: options.host };
  const isLocal = host.url.startsWith('unix://');
  const client = openApiClient(
    host,
    { deadlineMs: limits.callMs, maxBytes: limits.answerBytes, maxSockets: limits.inspectsAtOnce + 8 },
    redact,
  );
  const compose = openCompose({ run, environment, host: host.url, limits });
  const memory = new Memory(() => clock.nowMs());
  let owners: { readonly network: ReadonlyMap<string, string>; readonly volume: ReadonlyMap<string, string> } = {
    network: new Map(),
    volume: new Map(),
  };
  let identity: { readonly id: string; readonly name: string; readonly api: string; readonly version: string } | null =
    null;

  async function identify(signal: AbortSignal | undefined) {
    const { api, engine } = await client.version();
    const { ID, Name } = await client.json<{ ID?: string; Name?: string }>({ method: 'GET', path: '/info', signal });
    identity = { id: ID ?? '', name: Name ?? '', api, version: engine };
    return identity;
  }

  const path = (id: string, rest = '') => `/containers/${encodeURIComponent(id)}${rest}`;

  /** Changes one container; what is remembered of it is void before and after. */
  async function change(id: string, request: ApiRequest): Promise<void> {
    memory.forget(id);
    try {
      await memory.asOurs(id, () => client.send(request));
    } finally {
      memory.forget(id);
    }
  }

  async function inspect(id: string, signal: AbortSignal | undefined): Promise<ApiInspect | null> {
    try {
      return await client.json<ApiInspect>({ method: 'GET', path: path(id, '/json'), signal });
    } catch (error) {
      if (isGone(error)) return null;
      throw error;
    }
  }

  async function observe(input: ObserveOptions): Promise<Observed> {
    const { signal } = input;
    const atMs = clock.nowMs();
    const list = <T>(listPath: string, query?: ApiRequest['query']) =>
      client.json<T>({ method: 'GET', path: listPath, signal, ...(query ? { query } : {}) });
    const [engine, containers, networks, volumes, images] = await allOf([
      identity ?? identify(signal),
      list<readonly ApiContainer[]>('/containers/json', { all: 1 }),
      list<readonly ApiNetwork[]>('/networks'),
      list<{ readonly Volumes?: readonly ApiVolume[] | null }>('/volumes'),
      list<readonly ApiImage[]>('/images/json'),
    ]).catch((error: unknown) => {
      // Another engine may answer at this address next time.
      if (error instanceof Fault && error.code === 'ENGINE_UNREACHABLE') identity = null;
      throw error;
    });
    const observedNetworks = networks.map(networkOf);
    const observedVolumes = (volumes.Volumes ?? []).map(volumeOf);
    owners = {
      network: new Map(observedNetworks.map((network) => [network.id, network.project])),
      volume: new Map(observedVolumes.map((volume) => [volume.name, volume.project])),
    };
    memory.saw(new Map(containers.map((api) => [api.Id, api.Labels?.[composeLabel.project] ?? ''])));

    const wanted = typeof input.inspect === 'string' ? null : new Set(input.inspect);
    const missing = containers.filter(
      (api) =>
        input.inspect !== 'known' &&
        memory.detail(api.Id) === null &&
        (wanted === null || wanted.has(api.Labels?.[composeLabel.project] ?? '')),
    );
    const fresh = new Map<string, ContainerDetail | null>();
    await eachOf(missing, limits.inspectsAtOnce, async (api) => {
      const ticket = memory.ticket(api.Id);
      const found = await inspect(api.Id, signal).catch((error: unknown) => {
        // One that does not answer is one whose detail is not known; the engine as a whole has just answered.
        if (error instanceof Fault && error.code === 'ENGINE_TIMEOUT') return undefined;
        throw error;
      });
      if (found === undefined) return;
      const detail = found === null ? null : detailOf(found);
      fresh.set(api.Id, detail);
      if (detail !== null) memory.remember(api.Id, ticket, detail);
    });

    const deaf = isLocal
      ? await deafPorts(containers, networks, () => list<readonly ApiContainer[]>('/containers/json'))
      : new Map<string, readonly number[]>();
    const observed: ObservedContainer[] = [];
    for (const api of containers) {
      const inspected = fresh.get(api.Id);
      // Listed, and gone a moment later.
      if (inspected === null) continue;
      observed.push(
        containerOf(api, memory.stoppedByHand(api.Id), inspected ?? memory.detail(api.Id), deaf.get(api.Id)),
      );
    }
    return {
      engineId: engine.id,
      atMs,
      containers: observed,
      networks: observedNetworks,
      volumes: observedVolumes,
      images: images.map(imageOf),
    };
  }

  async function composed(
    input: { readonly project: string; readonly signal: AbortSignal },
    work: () => Promise<void>,
  ): Promise<void> {
    memory.forgetProject(input.project);
    try {
      await memory.asOurs(input.project, work);
    } finally {
      memory.forgetProject(input.project);
    }
  }

  async function removeContainer(id: string, signal: AbortSignal): Promise<void> {
    // First within its own grace period; what cannot be stopped (paused, dead) is removed by force.
    try {
      await change(id, {
        method: 'POST',
        path: path(id, '/stop'),
        accept: [304, 404],
        deadlineMs: limits.stopMs,
        signal,
      });
    } catch (error) {
      if (!(error instanceof Fault) || error.code !== 'ENGINE_REFUSED') throw error;
    }
    try {
      await change(id, { method: 'DELETE', path: path(id), query: { force: true, v: false }, accept: [404], signal });
    } catch (error) {
      if (!(error instanceof Fault) || !/already in progress/.test(error.message)) throw error;
      await waitUntilGone(id, signal);
    }
  }

  // The engine answers a stop a moment before its lists show it.
  async function waitUntilStopped(id: string, signal: AbortSignal): Promise<void> {
    const query = { all: 1, filters: JSON.stringify({ id: [id] }) };
    const untilMs = clock.nowMs() + limits.callMs;
    for (;;) {
      const found = await client.json<readonly ApiContainer[]>({
        method: 'GET',
        path: '/containers/json',
        query,
        signal,
      });
      if (!found.some((api) => ['running', 'paused', 'restarting'].includes(api.State))) return;
      if (clock.nowMs() > untilMs) throw new Fault('ENGINE_TIMEOUT', `container ${id} was told to stop and still runs`);
      await clock.sleep(50, signal);
    }
  }

  async function waitUntilGone(id: string, signal: AbortSignal): Promise<void> {
    const untilMs = clock.nowMs() + limits.callMs;
    while ((await inspect(id, signal)) !== null) {
      if (clock.nowMs() > untilMs) throw new Fault('ENGINE_TIMEOUT', `the removal of container ${id} does not end`);
      await clock.sleep(100, signal);
    }
  }

  async function removeNetwork(id: string, signal: AbortSignal): Promise<void> {
    await client.send({ method: 'DELETE', path: `/networks/${encodeURIComponent(id)}`, accept: [404], signal });
  }

  async function down(project: string, signal: AbortSignal): Promise<void> {
    await composed({ project, signal }, async () => {
      const failure = await compose.down(project, signal).then(
        () => null,
        (error: unknown) => error,
      );
      if (signal.aborted) throw aborted(signal);
      if (failure instanceof Fault && failure.code === 'ENGINE_UNREACHABLE') throw failure;
      // Compose does not see containers without a hash, and is content with a network that is still in use.
      const query = { filters: JSON.stringify({ label: [`${composeLabel.project}=${project}`] }) };
      const containers = await client.json<readonly ApiContainer[]>({
        method: 'GET',
        path: '/containers/json',
        query: { ...query, all: 1 },
        signal,
      });
      for (const { Id } of containers) await removeContainer(Id, signal);
      const networks = await client.json<readonly ApiNetwork[]>({ method: 'GET', path: '/networks', query, signal });
      for (const { Id } of networks) await removeNetwork(Id, signal);
    });
  }

  async function update(id: string, resources: Resources, signal: AbortSignal): Promise<void> {
    const before = await client.json<ApiInspect>({ method: 'GET', path: path(id, '/json'), signal });
    const now = detailOf(before).resources;
    // The engine reads zero as "leave it as it is".
    const lifted = (['memoryBytes', 'memoryReservationBytes', 'nanoCpus', 'cpuShares', 'cpuset'] as const).filter(
      (field) => !resources[field] && now[field],
    );
    if (lifted.length > 0) {
      throw new Fault(
        'ENGINE_REFUSED',
        `the engine cannot lift a limit of a container that exists: ${lifted.join(', ')}`,
        {
          data: { reason: 'recreate', container: id, fields: lifted },
        },
      );
    }
    const [policy = 'no', tries = '0'] = resources.restart.split(':');
    await change(id, {
      method: 'POST',
      path: path(id, '/update'),
      body: {
        Memory: resources.memoryBytes,
        MemoryReservation: resources.memoryReservationBytes,
        // Memory may not pass the swap limit, which is twice the memory unless it was lifted.
        ...(resources.memoryBytes > 0
          ? { MemorySwap: before.HostConfig?.MemorySwap === -1 ? -1 : 2 * resources.memoryBytes }
          : {}),
        NanoCpus: resources.nanoCpus,
        CpuShares: resources.cpuShares,
        CpusetCpus: resources.cpuset,
        PidsLimit: resources.pidsLimit > 0 ? resources.pidsLimit : now.pidsLimit > 0 ? -1 : undefined,
        RestartPolicy: { Name: policy, MaximumRetryCount: policy === 'on-failure' ? Number(tries) : 0 },
      },
      signal,
    });
  }

  async function* logs(id: string, input: LogOptions): AsyncGenerator<LogLine> {
    const { signal } = input;
    const about = await client.json<ApiInspect>({ method: 'GET', path: path(id, '/json'), signal });
    const reader = about.Config?.Tty ? new PlainReader() : new FrameReader();
    const body = await client.stream({
      method: 'GET',
      path: path(id, '/logs'),
      query: {
        stdout: true,
        stderr: true,
        tail: Math.max(0, Math.floor(input.tail)),
        since: input.sinceMs === undefined ? undefined : (input.sinceMs / 1000).toFixed(3),
        follow: input.follow ?? false,
      },
      signal,
    });
    const told = (line: LogLine): LogLine => ({ stream: line.stream, text: redact(line.text) });
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) for (const line of reader.push(chunk)) yield told(line);
      for (const line of reader.flush()) yield told(line);
    } catch (error) {
      if (signal?.aborted) return;
      throw new Fault('ENGINE_UNREACHABLE', 'the engine was lost while reading a log', { cause: error });
    } finally {
      body.destroy();
    }
  }

  return {
    async info(signal): Promise<EngineInfo> {
      const [engine, composeVersion] = await allOf([identify(signal), compose.version(signal)]);
      return { id: engine.id, name: engine.name, version: engine.version, apiVersion: engine.api, composeVersion };
    },
    observe,
    events: (signal): AsyncIterable<EngineEvent> =>
      readEvents(
        client,
        memory,
        (kind, id) => owners[kind].get(id) ?? '',
        () => clock.nowMs(),
        signal,
      ),
    resolve: (input: ResolveInput) => compose.resolve(input),
    up: (input: UpInput) => composed(input, () => compose.up(input)),
    stopServices: (input) => composed(input, () => compose.stop(input)),
    down,
    build: (input) => compose.build(input),
    async pull(image, signal) {
      await pullImage(client, image, await registryAuth(image, environment, run, signal), signal);
    },
    start: (id, signal) =>
      change(id, { method: 'POST', path: path(id, '/start'), accept: [304], deadlineMs: limits.stopMs, signal }),
    async stop(id, signal) {
      await change(id, { method: 'POST', path: path(id, '/stop'), accept: [304], deadlineMs: limits.stopMs, signal });
      await waitUntilStopped(id, signal);
    },
    restart: (id, signal) =>
      change(id, { method: 'POST', path: path(id, '/restart'), deadlineMs: limits.stopMs, signal }),
    kill: (id, signalName, signal) =>
      change(id, { method: 'POST', path: path(id, '/kill'), query: { signal: signalName }, signal }),
    pause: (id, signal) => change(id, { method: 'POST', path: path(id, '/pause'), signal }),
    unpause: (id, signal) => change(id, { method: 'POST', path: path(id, '/unpause'), signal }),
    rename: (id, name, signal) => change(id, { method: 'POST', path: path(id, '/rename'), query: { name }, signal }),
    remove: removeContainer,
    update,
    async connect(id, network, aliases, signal) {
      const body = { Container: id, EndpointConfig: { Aliases: aliases } };
      await change(id, { method: 'POST', path: `/networks/${encodeURIComponent(network)}/connect`, body, signal });
    },
    async disconnect(id, network, signal) {
      const body = { Container: id, Force: false };
      await change(id, { method: 'POST', path: `/networks/${encodeURIComponent(network)}/disconnect`, body, signal });
    },
    removeNetwork,
    async removeVolume(name, signal) {
      await client.send({ method: 'DELETE', path: `/volumes/${encodeURIComponent(name)}`, accept: [404], signal });
    },
    chownVolume: (volume, owner, image, signal) => chownVolumeRoot(client, volume, owner, image, signal),
    logs,
    exec: (id, input: ExecInput): Promise<RunResult> => execIn(client, clock, id, input),
    endMarked: (id, mark, signal) => endMarkedIn(client, clock, id, mark, signal),
    async close() {
      client.close();
    },
  };
}

function isGone(error: unknown): boolean {
  return error instanceof Fault && error.data['status'] === 404;
}

/** Like Promise.all, and waits for the rest to end before it throws: no call outlives its caller. */
async function allOf<const T extends readonly unknown[] | []>(
  work: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  const results: readonly PromiseSettledResult<unknown>[] = await Promise.allSettled(work);
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  }) as never;
}

/** At most `atOnce` at a time; the first failure stops new ones and is thrown when all have ended. */
async function eachOf<T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  const failures: unknown[] = [];
  const worker = async () => {
    while (next < items.length && failures.length === 0) {
      const item = items[next]!;
      next += 1;
      await work(item).catch((error: unknown) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, worker));
  if (failures.length > 0) throw failures[0];
}
