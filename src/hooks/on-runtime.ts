// On runtime: what a hook needs of the world, for one stack on one engine. Services are scaled by stopping and starting their
// containers, so that nothing of them is lost; only what does not exist is made, by Compose.
import { Fault } from '../core/fault.ts';
import type { HttpCall } from '../core/hook/job.ts';
import { fieldOf, type RawEntry, type RawValue, readRaw, writeRaw } from '../core/render/config-hash.ts';
import type { Desired, DesiredService, Model } from '../core/state/desired.ts';
import type { ObservedContainer } from '../core/state/observed.ts';
import type { Clock } from '../ports/clock.ts';
import type { HookPorts, HttpAnswer } from '../ports/hooks.ts';
import type { OneShots } from '../ports/one-shots.ts';
import type { Runtime } from '../ports/runtime.ts';

export interface HookWorld {
  readonly runtime: Runtime;
  readonly oneShots: OneShots;
  http(call: HttpCall, signal: AbortSignal): Promise<HttpAnswer>;
}

export interface HookStack {
  /** The folder that holds the project folders of this controller. */
  readonly home: string;
  /** Of what runs while the hook does: for a pre phase of a change, what is deployed. */
  readonly desired: Desired;
  /** Asked only when a container of a service must be made. */
  model(signal: AbortSignal): Promise<Model>;
  /** What jobs are made from: always what is being deployed, so that a migration brings its own version. */
  readonly jobs: { readonly desired: Desired; model(signal: AbortSignal): Promise<Model> };
  /** Does a service run to its end once? Null = it is not known. */
  isOneShot?(service: string): boolean | null;
  /** Services that are known by their names only. */
  readonly others?: readonly string[];
  /** Opens the closed secrets of values. */
  open(values: Readonly<Record<string, string>>): Promise<Readonly<Record<string, string>>>;
  backup?(reason: string, signal: AbortSignal): Promise<void>;
}

const MARK = 'WINDLASS_HOOK';
const ALIVE = new Set(['running', 'restarting', 'paused']);

export function hookPortsOn(world: HookWorld, stack: HookStack): HookPorts {
  const { runtime, oneShots } = world;
  const { desired } = stack;

  async function containersOf(service: string | null, signal: AbortSignal): Promise<readonly ObservedContainer[]> {
    const { containers } = await runtime.observe({ inspect: 'known', signal });
    return containers
      .filter((one) => one.project === desired.project && !one.oneOff && one.state !== 'removing')
      .filter((one) => service === null || one.service === service)
      .sort((left, right) => left.number - right.number);
  }

  const alive = (containers: readonly ObservedContainer[]) => containers.filter((one) => ALIVE.has(one.state));

  async function runningOf(service: string, signal: AbortSignal): Promise<ObservedContainer> {
    const found = (await containersOf(service, signal)).find((one) => one.state === 'running');
    if (!found) throw new Fault('HOOK_FAILED', `no container of ${service} runs`, { data: { service } });
    return found;
  }

  async function stopSurplus(service: string, count: number, signal: AbortSignal): Promise<void> {
    for (const one of alive(await containersOf(service, signal)).slice(count)) {
      signal.throwIfAborted();
      if (one.state === 'paused') await runtime.unpause(one.id, signal);
      // Waited for to its end: the engine goes on with a stop whose caller has left, and would end what was brought back meanwhile.
      await runtime.stop(one.id, new AbortController().signal);
    }
  }

  /** A misspelled service would be taken for one that is down. */
  function mustKnow(service: string): void {
    if ([desired, stack.jobs.desired].some(({ services }) => services.some((one) => one.name === service))) return;
    if (stack.others?.includes(service)) return;
    throw new Fault('HOOK_FAILED', `the stack has no service ${service}`, { data: { service } });
  }

  async function scale(service: string, count: number, signal: AbortSignal): Promise<void> {
    mustKnow(service);
    const there = await containersOf(service, signal);
    const missing = count - alive(there).length;
    if (missing < 0) return stopSurplus(service, count, signal);
    const idle = there.filter((one) => one.state === 'exited' || one.state === 'created');
    for (const one of idle.slice(0, Math.max(0, missing))) await runtime.start(one.id, signal);
    if (missing <= idle.length) return;
    const known = desired.services.find((one) => one.name === service);
    if (!known) throw new Fault('HOOK_FAILED', `the stack has no service ${service}`, { data: { service } });
    const model = await stack.model(signal);
    await runtime.up({
      project: desired.project,
      projectDir: desired.projectDir,
      model: count > known.replicas ? withReplicas(model, service, count) : model,
      services: [service],
      forceRecreate: false,
      signal,
    });
    // Compose makes as many as the project asks for, which may be more than the hook does.
    await stopSurplus(service, count, signal);
  }

  return {
    async replicas(service, signal) {
      mustKnow(service);
      return alive(await containersOf(service, signal)).length;
    },
    scale,
    async numbers(service, signal) {
      return (await containersOf(service, signal)).map((one) => one.number);
    },
    async removeOthers(service, numbers, signal) {
      for (const one of await containersOf(service, signal))
        if (!ALIVE.has(one.state) && !numbers.includes(one.number)) await runtime.remove(one.id, signal);
    },
    async hasFinished(service, signal) {
      const containers = await containersOf(service, signal);
      const ended = containers.length > 0 && containers.every((one) => one.state === 'exited');
      const isOneShot = stack.isOneShot?.(service) ?? null;
      if (isOneShot !== null) return isOneShot && ended;
      const known = desired.services.find((one) => one.name === service);
      return known !== undefined && hasCompleted(known, containers);
    },
    async unhealthy(services, signal) {
      services?.forEach(mustKnow);
      const containers = await containersOf(null, signal);
      const of = (name: string) => containers.filter((one) => one.service === name);
      const isWell = (name: string) => {
        const running = alive(of(name));
        return (
          running.length > 0 &&
          running.every((one) => one.state === 'running' && (one.health === 'healthy' || one.health === 'none'))
        );
      };
      if (services !== null) return services.filter((name) => !isWell(name));
      return desired.services
        .filter((one) => one.replicas > 0 && !isWell(one.name) && !hasCompleted(one, of(one.name)))
        .map((one) => one.name);
    },

    async startJob({ name, owner, job }, signal) {
      const input = {
        name,
        owner,
        home: stack.home,
        desired: stack.jobs.desired,
        model: await stack.jobs.model(signal),
        service: job.service,
        image: job.image,
        entrypoint: job.entrypoint,
        command: job.command,
        user: job.user,
        workingDir: job.workingDir,
        environment: await stack.open(job.environment),
        networks: job.networks,
        volumes: job.volumes,
        ttlMs: job.ttlMs,
      };
      try {
        await oneShots.start(input, signal);
      } catch (error) {
        const image = error instanceof Fault && error.code === 'IMAGE_MISSING' ? error.data['image'] : undefined;
        if (typeof image !== 'string') throw error;
        await runtime.pull(image, signal);
        await oneShots.start(input, signal);
      }
    },
    watchJob: (name, onLine, signal) => oneShots.watch(name, onLine, signal),
    findJob: (name, signal) => oneShots.find(name, signal),
    killJob: (name, signal) => oneShots.kill(name, signal),
    removeJob: (name, signal) => oneShots.remove(name, signal),

    async exec({ service, command, user, environment, mark }, onLine, signal) {
      const { id } = await runningOf(service, signal);
      const { exitCode, timedOut } = await runtime.exec(id, {
        command,
        ...(user === null ? {} : { user }),
        environment: { ...(await stack.open(environment)), [MARK]: mark },
        signal,
        onLine,
      });
      if (timedOut) signal.throwIfAborted();
      return exitCode;
    },
    async endExec({ service, mark }, signal) {
      for (const { id } of alive(await containersOf(service, signal)))
        await runtime.endMarked(id, `${MARK}=${mark}`, signal);
    },

    async http(call, signal) {
      const { url = call.url, body = '' } = await stack.open({ url: call.url, body: call.body ?? '' });
      const headers = await stack.open(call.headers);
      return world.http({ ...call, url, headers, body: call.body === null ? null : body }, signal);
    },
    backup(reason, signal) {
      if (!stack.backup) throw new Fault('HOOK_FAILED', 'backups are not set up here');
      return stack.backup(reason, signal);
    },
  };
}

/** A one-shot that has done its work needs no health. */
function hasCompleted(service: DesiredService, containers: readonly ObservedContainer[]): boolean {
  if (service.oneShot === false || service.hasHealthcheck) return false;
  return containers.length > 0 && containers.every((one) => one.state === 'exited' && one.exitCode === 0);
}

/** On the raw text: Compose hashes how values are spelled. Counts themselves are not hashed. */
function withReplicas(model: Model, service: string, count: number): Model {
  const raw: RawValue = { kind: 'scalar', raw: String(count) };
  const root = readRaw(model.text);
  const definition = fieldOf(fieldOf(root, 'services'), service);
  if (definition === undefined) throw new Fault('HOOK_FAILED', `the stack has no service ${service}`);
  const counted =
    fieldOf(definition, 'deploy') === undefined
      ? withField(definition, 'scale', raw)
      : withField(definition, 'deploy', withField(fieldOf(definition, 'deploy')!, 'replicas', raw));
  const services = withField(fieldOf(root, 'services')!, service, counted);
  return { ...model, text: writeRaw(withField(root, 'services', services)) };
}

function withField(value: RawValue, key: string, field: RawValue): RawValue {
  if (value.kind !== 'object') throw new Error(`${key} belongs to an object`);
  const entry: RawEntry = { key, rawKey: JSON.stringify(key), value: field };
  const at = value.entries.findIndex((one) => one.key === key);
  const entries = at < 0 ? [...value.entries, entry] : value.entries.with(at, { ...value.entries[at]!, value: field });
  return { ...value, entries };
}

/** Removes job containers of projects below `home` whose time after their end is over. For whoever looks at the engine now and then. */
export async function sweepJobs(
  { oneShots, clock }: Pick<HookWorld, 'oneShots'> & { readonly clock: Pick<Clock, 'nowMs'> },
  home: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const removed: string[] = [];
  const failures: unknown[] = [];
  // One that cannot be removed keeps none of the others.
  for (const name of await oneShots.expired(home, clock.nowMs(), signal))
    await oneShots.remove(name, signal).then(
      () => removed.push(name),
      (error: unknown) => failures.push(error),
    );
  if (failures.length > 0) throw failures[0];
  return removed;
}
