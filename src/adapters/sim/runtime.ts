// Runtime on a simulated world: the same duties, the same Faults, nothing real. Every call is written down in the world and may be
// made to fail or to be the last one of its process.
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { Fault } from '../../core/fault.ts';
import { readRaw, toJs } from '../../core/render/config-hash.ts';
import type { ContainerDetail, EngineEvent } from '../../core/state/observed.ts';
import type { LogLine, Runtime } from '../../ports/runtime.ts';
import { aborted } from '../compose/api-client.ts';
import { Memory } from '../compose/memory.ts';
import { composeLabel } from '../compose/reading.ts';
import { readScript } from './behaviour.ts';
import { simulateDown, simulateStop, simulateUp } from './converge.ts';
import { isAlive, type SimContainer, type SimEvent } from './engine.ts';
import { imageOfService, invalid, readEnvFile, resolveProject } from './project.ts';
import { CrashError, imageIdOf, type SimWorld } from './world.ts';

const everything = (action: string, atMs: number): EngineEvent => ({
  kind: 'container',
  action,
  id: '',
  project: '',
  service: '',
  atMs,
  exitCode: null,
});

export function openSimRuntime(world: SimWorld): Runtime {
  const { engine, clock } = world;
  const memory = new Memory(() => clock.nowMs(), 0);
  const closing = new AbortController();
  let isDead = false;

  function die(): never {
    isDead = true;
    closing.abort();
    throw new CrashError('the simulated process died here');
  }

  async function call<T>(
    about: {
      readonly method: keyof Runtime;
      readonly mutating: boolean;
      readonly target: string;
      readonly signal?: AbortSignal | undefined;
      readonly needsEngine?: boolean;
    },
    effect: (half: boolean) => T | Promise<T>,
  ): Promise<T> {
    // Real calls never end in the turn that made them.
    await Promise.resolve();
    if (isDead) throw new CrashError('the simulated process is dead');
    const { call: entry, trap } = world.enter(about.method, about.mutating, about.target);
    try {
      if (trap?.kind === 'crash' && trap.when === 'before') die();
      if (about.signal?.aborted) throw aborted(about.signal);
      if (trap?.kind === 'fault') throw trap.fault;
      if (about.needsEngine !== false && !world.isReachable) throw unreachable();
      const result = await effect(trap?.kind === 'crash' && trap.when === 'during');
      if (trap?.kind === 'crash') die();
      entry.outcome = 'done';
      return result;
    } catch (error) {
      entry.outcome = error instanceof CrashError ? 'crash' : 'fault';
      if (about.signal?.aborted && !(error instanceof Fault) && !(error instanceof CrashError))
        throw aborted(about.signal);
      throw error;
    }
  }

  /** A mutating call about one container. */
  function change(
    method: keyof Runtime,
    id: string,
    signal: AbortSignal,
    effect: (container: SimContainer) => void,
  ): Promise<void> {
    return call({ method, mutating: true, target: id, signal }, () =>
      memory.asOurs(id, async () => {
        memory.forget(id);
        effect(engine.container(id));
      }),
    );
  }

  async function* events(signal: AbortSignal): AsyncGenerator<EngineEvent> {
    await call({ method: 'events', mutating: false, target: '', signal }, () => {});
    const queue: EngineEvent[] = [everything('connected', clock.nowMs())];
    let wake = () => {};
    let ended: 'outage' | 'asked' | null = null;
    const end = (reason: 'outage' | 'asked') => {
      if (ended !== null) return;
      ended = reason;
      memory.streamClosed();
      wake();
    };
    const listener = (event: SimEvent) => {
      memory.happened(
        {
          kind: event.kind,
          action: event.action,
          containerId: event.containerId,
          signal: event.signal,
          atMs: event.atMs,
        },
        event.project,
      );
      const { kind, action, id, project, service, atMs, exitCode } = event;
      queue.push({ kind, action, id, project, service, atMs, exitCode });
      wake();
    };
    memory.streamOpened();
    engine.listeners.add(listener);
    const forgetOutage = world.onOutage(() => end('outage'));
    const stops = [signal, closing.signal];
    const onAbort = () => end('asked');
    for (const stop of stops) stop.addEventListener('abort', onAbort, { once: true });
    if (stops.some((stop) => stop.aborted)) end('asked');
    try {
      for (;;) {
        const event = queue.shift();
        if (event !== undefined) {
          yield event;
          continue;
        }
        if (ended !== null) break;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    } finally {
      end('asked');
      engine.listeners.delete(listener);
      forgetOutage();
      for (const stop of stops) stop.removeEventListener('abort', onAbort);
    }
    if (isDead) throw new CrashError('the simulated process is dead');
    if ((ended as string | null) === 'outage') throw unreachable();
  }

  async function* logs(id: string, input: Parameters<Runtime['logs']>[1]): AsyncGenerator<LogLine> {
    const container = await call({ method: 'logs', mutating: false, target: id, signal: input.signal }, () =>
      engine.container(id),
    );
    const since = container.logs.filter(({ atMs }) => input.sinceMs === undefined || atMs >= input.sinceMs);
    let last = since.at(-1);
    for (const { line } of input.tail > 0 ? since.slice(-input.tail) : []) yield line;
    if (!input.follow) return;
    for (;;) {
      engine.settle();
      const from = last === undefined ? 0 : container.logs.indexOf(last) + 1;
      for (const entry of container.logs.slice(from)) {
        last = entry;
        yield entry.line;
      }
      if (!isAlive(container) || input.signal?.aborted || closing.signal.aborted) return;
      if (!world.isReachable) throw unreachable();
      await clock.sleep(50, input.signal).catch(() => {});
    }
  }

  return {
    info: (signal) =>
      call({ method: 'info', mutating: false, target: '', signal }, () => ({
        id: engine.id,
        name: 'simulated',
        version: '26.1.5',
        apiVersion: '1.45',
        composeVersion: world.composeVersion,
      })),

    observe: (options) =>
      call({ method: 'observe', mutating: false, target: String(options.inspect), signal: options.signal }, () => {
        const wanted = typeof options.inspect === 'string' ? null : new Set(options.inspect);
        const all = [...engine.containers.values()];
        const projectOf = (container: SimContainer) => container.spec.labels[composeLabel.project] ?? '';
        memory.saw(new Map(all.map((container) => [container.id, projectOf(container)])));
        const tags = new Map<string, string[]>();
        for (const [tag, id] of engine.tags) tags.set(id, [...(tags.get(id) ?? []), tag]);
        return {
          engineId: engine.id,
          atMs: clock.nowMs(),
          containers: all.map((container) => {
            let detail: ContainerDetail | null = memory.detail(container.id);
            if (
              detail === null &&
              options.inspect !== 'known' &&
              (wanted === null || wanted.has(projectOf(container)))
            ) {
              detail = engine.detail(container);
              memory.remember(container.id, memory.ticket(container.id), detail);
            }
            return engine.observed(container, memory.stoppedByHand(container.id), detail);
          }),
          networks: [...engine.networks.values()].map(({ id, name, labels, internal }) => ({
            id,
            name,
            project: labels[composeLabel.project] ?? '',
            key: labels[composeLabel.network] ?? '',
            configHash: labels[composeLabel.configHash] ?? '',
            internal,
          })),
          volumes: [...engine.volumes.values()].map(({ name, labels }) => ({
            name,
            project: labels[composeLabel.project] ?? '',
            key: labels[composeLabel.volume] ?? '',
            configHash: labels[composeLabel.configHash] ?? '',
          })),
          images: [...engine.images.values()].map(({ id, digests, labels }) => ({
            id,
            tags: tags.get(id) ?? [],
            digests,
            labels,
          })),
        };
      }),

    events,

    resolve: (input) =>
      call(
        { method: 'resolve', mutating: false, target: input.project, signal: input.signal, needsEngine: false },
        () => {
          const texts =
            input.text === undefined
              ? input.files.map((path) => {
                  const text = world.readFile(path);
                  if (text === null) throw invalid(`open ${path}: no such file or directory`);
                  return { name: path.replace(`${input.directory}/`, ''), text };
                })
              : [{ name: '-', text: input.text }];
          const overrides = (input.overrides ?? []).map((text, index) => ({
            name: `override-${index + 1}.json`,
            text,
          }));
          const dotEnv = world.readFile(join(input.directory, '.env'));
          return resolveProject({
            project: input.project,
            directory: input.directory,
            texts: [...texts, ...overrides],
            profiles: input.profiles,
            variables: {
              ...(dotEnv === null ? {} : readEnvFile(dotEnv)),
              COMPOSE_PROJECT_NAME: input.project,
              ...input.environment,
            },
            readFile: world.readFile,
          });
        },
      ),

    up: (input) =>
      call(
        { method: 'up', mutating: true, target: `${input.project}: ${input.services.join(' ')}`, signal: input.signal },
        (half) =>
          memory.asOurs(input.project, async () => {
            memory.forgetProject(input.project);
            try {
              if (input.services.length > 0) await simulateUp(engine, clock, input, half);
            } finally {
              memory.forgetProject(input.project);
            }
          }),
      ),

    stopServices: (input) =>
      call(
        {
          method: 'stopServices',
          mutating: true,
          target: `${input.project}: ${input.services.join(' ')}`,
          signal: input.signal,
        },
        () =>
          memory.asOurs(input.project, async () => {
            memory.forgetProject(input.project);
            simulateStop(engine, input.project, input.services);
          }),
      ),

    down: (project, signal) =>
      call({ method: 'down', mutating: true, target: project, signal }, () =>
        memory.asOurs(project, async () => simulateDown(engine, project)),
      ),

    build: (input) =>
      call(
        {
          method: 'build',
          mutating: true,
          target: `${input.project}: ${input.services.join(' ')}`,
          signal: input.signal,
        },
        () => {
          const model = toJs(readRaw(input.model.text)) as {
            services?: Record<string, { build?: { labels?: Record<string, string> } }>;
          };
          for (const name of input.services) {
            const service = model.services?.[name];
            if (service === undefined) throw new Fault('BUILD_FAILED', `no such service: ${name}`);
            if (service.build === undefined) continue;
            const reference = imageOfService(input.project, name, service);
            const content = createHash('sha256').update(JSON.stringify(service.build)).digest('hex');
            world.addImage(reference, { version: content, labels: service.build.labels ?? {} });
            input.note?.(`${name} Built`);
          }
        },
      ),

    pull: (image, signal) =>
      call({ method: 'pull', mutating: true, target: image, signal }, () => {
        const id = world.registry.get(image);
        if (id === undefined)
          throw new Fault('IMAGE_MISSING', `${image} cannot be pulled: manifest unknown`, { data: { image } });
        if (engine.imageId(image) !== id)
          engine.addImage({ id, digests: [`${image}@${imageIdOf(image, id)}`], labels: {}, behaviour: null }, image);
      }),

    start: (id, signal) => change('start', id, signal, (container) => engine.start(container)),
    stop: (id, signal) => change('stop', id, signal, (container) => engine.stop(container)),
    restart: (id, signal) =>
      change('restart', id, signal, (container) => {
        engine.stop(container);
        engine.start(container);
      }),
    kill: (id, signalName, signal) => change('kill', id, signal, (container) => engine.kill(container, signalName)),
    pause: (id, signal) => change('pause', id, signal, (container) => engine.pause(container)),
    unpause: (id, signal) => change('unpause', id, signal, (container) => engine.unpause(container)),
    rename: (id, name, signal) => change('rename', id, signal, (container) => engine.rename(container, name)),
    remove: (id, signal) =>
      call({ method: 'remove', mutating: true, target: id, signal }, () =>
        memory.asOurs(id, async () => {
          const container = engine.containers.get(id);
          if (container !== undefined) engine.remove(container);
        }),
      ),
    update: (id, resources, signal) =>
      change('update', id, signal, (container) => {
        const fields = (['memoryBytes', 'memoryReservationBytes', 'nanoCpus', 'cpuShares', 'cpuset'] as const).filter(
          (field) => !resources[field] && container.resources[field],
        );
        if (fields.length > 0) {
          throw new Fault(
            'ENGINE_REFUSED',
            `the engine cannot lift a limit of a container that exists: ${fields.join(', ')}`,
            {
              data: { reason: 'recreate', container: id, fields },
            },
          );
        }
        engine.update(container, resources);
      }),
    connect: (id, network, aliases, signal) =>
      change('connect', id, signal, (container) => engine.connect(container, engine.network(network), aliases)),
    disconnect: (id, network, signal) =>
      change('disconnect', id, signal, (container) => engine.disconnect(container, network)),
    removeNetwork: (id, signal) =>
      call({ method: 'removeNetwork', mutating: true, target: id, signal }, () => engine.removeNetwork(id)),
    removeVolume: (name, signal) =>
      call({ method: 'removeVolume', mutating: true, target: name, signal }, () => engine.removeVolume(name)),
    chownVolume: (volume, owner, image, signal) =>
      call({ method: 'chownVolume', mutating: true, target: volume, signal }, () => {
        const found = engine.volumes.get(volume);
        if (found === undefined)
          throw new Fault('ENGINE_REFUSED', `get ${volume}: no such volume`, { data: { status: 404 } });
        if (engine.imageId(image) === null)
          throw new Fault('IMAGE_MISSING', `No such image: ${image}`, { data: { image } });
        found.owner = { mode: owner.mode, uid: owner.uid, gid: owner.gid };
      }),

    logs,

    exec: (id, input) =>
      call({ method: 'exec', mutating: true, target: id }, async () => {
        if (input.signal.aborted) return { exitCode: -1, timedOut: true };
        const container = engine.container(id);
        if (container.state !== 'running') {
          throw new Fault('ENGINE_REFUSED', `container ${id} is not running`, { data: { status: 409 } });
        }
        const answer = world.execAnswer(container, input.command) ?? answerOf(input.command);
        const untilMs = clock.nowMs() + (answer.durationMs ?? 0);
        for (const line of answer.lines ?? []) input.onLine(line);
        while (clock.nowMs() < untilMs) {
          if (container.state !== 'running') return { exitCode: 137, timedOut: false };
          const isOver = await clock.sleep(Math.min(untilMs - clock.nowMs(), 1000), input.signal).then(
            () => false,
            () => true,
          );
          if (isOver) return { exitCode: 137, timedOut: true };
        }
        return { exitCode: answer.exitCode, timedOut: false };
      }),
    // Commands of the simulated world end with the process that began them.
    endMarked: (id, _mark, signal) => call({ method: 'endMarked', mutating: true, target: id, signal }, () => {}),

    async close() {
      closing.abort();
    },
  };
}

function answerOf(command: readonly string[]) {
  const script = readScript(command);
  const [program = ''] = command;
  if (script.end === null && program.startsWith('/')) {
    return {
      exitCode: 127,
      lines: [{ stream: 'stderr', text: `exec: "${program}": no such file or directory` } as const],
    };
  }
  return {
    exitCode: script.end?.code ?? 0,
    lines: script.lines.map(({ line }) => line),
    durationMs: script.end?.atMs ?? 0,
  };
}

function unreachable(): Fault {
  return new Fault('ENGINE_UNREACHABLE', 'the simulated engine cannot be reached', { data: { host: 'sim' } });
}
