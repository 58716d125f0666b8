// One-shots on a simulated engine: the same duties, containers that follow the words of their commands.
import { Fault } from '../../core/fault.ts';
import type { OneShots } from '../../ports/one-shots.ts';
import type { LogLine } from '../../ports/runtime.ts';
import { aborted } from '../compose/api-client.ts';
import { isBelow, jobLabels, oneShotSpec } from '../compose/one-shot-spec.ts';
import { composeLabel } from '../compose/reading.ts';
import { isAlive, type SimContainer } from './engine.ts';
import type { SimWorld } from './world.ts';

const pollMs = 50;
const noLimits = {
  memoryBytes: 0,
  memoryReservationBytes: 0,
  nanoCpus: 0,
  cpuShares: 0,
  cpuset: '',
  pidsLimit: 0,
  restart: 'no',
};

export function openSimOneShots(world: SimWorld): OneShots {
  const { engine, clock } = world;

  async function reach(signal: AbortSignal): Promise<void> {
    await Promise.resolve();
    if (signal.aborted) throw aborted(signal);
    if (!world.isReachable) throw new Fault('ENGINE_UNREACHABLE', 'the simulated engine cannot be reached');
    engine.settle();
  }

  const named = (name: string): SimContainer | undefined =>
    engine.containers.get(name) ?? [...engine.containers.values()].find((container) => container.name === name);

  return {
    async start(input, signal) {
      await reach(signal);
      if (named(input.name)) return;
      for (const one of [...engine.containers.values()])
        if (
          one.spec.labels[jobLabels.owner] === input.owner &&
          one.spec.labels[composeLabel.project] === input.desired.project &&
          isBelow(input.home, one.spec.labels)
        )
          engine.remove(one);
      const spec = oneShotSpec(input);
      const imageId = engine.imageId(spec.image);
      if (imageId === null)
        throw new Fault('IMAGE_MISSING', `No such image: ${spec.image}`, { data: { image: spec.image } });
      const project = { [composeLabel.project]: input.desired.project };
      const networks = spec.networks.map((key) => {
        const name = spec.project.networks[key].name ?? `${input.desired.project}_${key}`;
        const hash = input.desired.networks.find((one) => one.key === key)?.hash ?? '';
        const labels = { ...project, [composeLabel.network]: key, [composeLabel.configHash]: hash };
        const network =
          engine.networkNamed(name) ??
          engine.addNetwork({ name, internal: spec.project.networks[key].internal === true, labels });
        return { name, id: network.id, aliases: [spec.name] };
      });
      for (const { key, source } of spec.mounts) {
        if (key === null || engine.volumes.has(source)) continue;
        const hash = input.desired.volumes.find((one) => one.key === key)?.hash ?? '';
        engine.addVolume(source, { ...project, [composeLabel.volume]: key, [composeLabel.configHash]: hash });
      }
      const container = engine.create({
        name: spec.name,
        image: spec.image,
        imageId,
        labels: spec.labels,
        command: [...(spec.entrypoint ?? []), ...(spec.command ?? [])],
        networks,
        mounts: spec.mounts.map(({ kind, source, target }) => ({
          kind,
          name: kind === 'volume' ? source : '',
          source: kind === 'bind' ? source : '',
          destination: target,
        })),
        ports: [],
        resources: noLimits,
        hasHealthcheck: false,
      });
      engine.start(container);
    },

    async watch(name, onLine, signal) {
      await reach(signal);
      let told = 0;
      for (;;) {
        const container = named(name);
        if (!container) throw new Fault('ENGINE_REFUSED', `No such container: ${name}`, { data: { status: 404 } });
        const lines: readonly { readonly line: LogLine }[] = container.logs;
        for (; told < lines.length; told++) onLine(lines[told]!.line);
        if (!isAlive(container)) return container.exitCode ?? -1;
        await clock.sleep(pollMs, signal).catch(() => {
          throw aborted(signal);
        });
        await reach(signal);
      }
    },

    async find(name, signal) {
      await reach(signal);
      const container = named(name);
      if (!container) return { kind: 'absent' };
      if (isAlive(container)) return { kind: 'running' };
      return container.state === 'created'
        ? { kind: 'created' }
        : { kind: 'ended', exitCode: container.exitCode ?? -1 };
    },

    async kill(name, signal) {
      await reach(signal);
      const container = named(name);
      if (container && isAlive(container)) engine.stop(container);
    },

    async remove(name, signal) {
      await reach(signal);
      const container = named(name);
      if (container) engine.remove(container);
    },

    async expired(home, nowMs, signal) {
      await reach(signal);
      return [...engine.containers.values()]
        .filter((one) => jobLabels.ttl in one.spec.labels && isBelow(home, one.spec.labels))
        .filter((one) => !isAlive(one) && one.state !== 'created')
        .filter((one) => one.finishedAtMs + Number(one.spec.labels[jobLabels.ttl]) <= nowMs)
        .map((one) => one.id);
    },

    close() {},
  };
}
