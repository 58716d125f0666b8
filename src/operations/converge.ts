// Converge: carries out the changes that the diff found, each by the smallest call that repairs it. Decides nothing about what differs.
// Order: what is in the way goes first, then what Compose must make, then what only needs starting.
import type { Cause, Change } from '../core/diff/change.ts';
import { CAUSES } from '../core/diff/change.ts';
import { Fault, type FaultCode } from '../core/fault.ts';
import type { DesiredService } from '../core/state/desired.ts';
import type { House } from './house.ts';
import type { Judged } from './survey.ts';

export interface ConvergeContext {
  readonly signal: AbortSignal;
  note(line: string): void;
}

const REFUSALS: Partial<Record<Cause, FaultCode>> = {
  'foreign-project': 'PROJECT_CONFLICT',
  'volume-changed': 'VOLUME_CHANGED',
  'network-unlabelled': 'NETWORK_CONFLICT',
};

/** Causes for which Compose sees no difference by itself. */
const FORCED = new Set<Cause>([
  'network-changed',
  'file-edited',
  'parent-recreated',
  'resources-changed',
  'volume-missing',
  'network-missing',
  'network-altered',
]);
/** Networks that go before anything is started: one that a name is ambiguous with, or that Compose would take for the right one. */
const FIRST = new Set<Cause>(['network-duplicate', 'network-altered']);
/** Of these, only the one container is wrong: with several replicas it alone is taken away and made again. */
const SINGLE = new Set<Cause>(['resources-changed', 'volume-missing']);

/** The Fault of the first change that may not be made; asked before anything is touched. */
export function forbidden(judged: Judged): Fault | null {
  for (const change of judged.diff.changes) {
    if (change.repair !== 'refuse') continue;
    const detail = change.detail ? `: ${change.detail}` : '';
    return new Fault(REFUSALS[change.cause] ?? 'ENGINE_REFUSED', `${change.name}: ${CAUSES[change.cause]}${detail}`, {
      data: { stack: judged.name, name: change.name },
    });
  }
  return null;
}

function refuseForbidden(judged: Judged): void {
  const fault = forbidden(judged);
  if (fault) throw fault;
}

export async function converge(house: House, judged: Judged, ctx: ConvergeContext): Promise<void> {
  refuseForbidden(judged);
  const { runtime } = house;
  const { desired } = judged.resolved;
  const { changes } = judged.diff;
  const { signal } = ctx;
  const say = (change: Change): void =>
    ctx.note(`${change.repair} ${change.name}: ${CAUSES[change.cause]}${change.detail ? ` (${change.detail})` : ''}`);
  const each = async (repair: Change['repair'], act: (change: Change, id: string) => Promise<void>): Promise<void> => {
    for (const change of changes) {
      if (change.repair !== repair || change.id === null) continue;
      signal.throwIfAborted();
      say(change);
      await act(change, change.id);
    }
  };

  await each('remove', (_change, id) => runtime.remove(id, signal));
  await each('unpause', (_change, id) => runtime.unpause(id, signal));
  await each('rename', (change, id) => runtime.rename(id, change.argument, signal));
  await each('disconnect', (change, id) => runtime.disconnect(id, change.argument, signal));
  await each('connect', async (change, id) => {
    if (change.cause === 'alias-lost') await runtime.disconnect(id, change.argument, signal);
    await runtime.connect(id, change.argument, change.aliases, signal);
  });
  await each('update', (change, id) => {
    const service = desired.services.find((one) => one.name === change.service);
    if (!service) throw new Error(`no service ${change.service}`);
    return runtime.update(id, service.resources, signal);
  });
  for (const change of changes) {
    if (change.repair !== 'remove-network' || !FIRST.has(change.cause) || !change.id) continue;
    say(change);
    // A network with a container on it cannot go. Those that need it are made anew below.
    for (const { id, networks } of judged.index.containers.get(desired.project) ?? [])
      if (networks.some((network) => network.id === change.id)) await runtime.disconnect(id, change.id, signal);
    await runtime.removeNetwork(change.id, signal);
  }

  const { services, forced } = await throughCompose(judged, ctx, (id) => runtime.remove(id, signal), say);
  const model = services.size + forced.size > 0 ? await judged.resolved.model(signal) : null;
  if (model) {
    const up = { project: desired.project, projectDir: desired.projectDir, model, signal, note: ctx.note };
    await ownVolumes(house, judged, new Set([...services, ...forced]), up);
    const rest = [...services].filter((name) => !forced.has(name));
    if (forced.size > 0) await runtime.up({ ...up, services: [...forced], forceRecreate: true });
    if (rest.length > 0) await runtime.up({ ...up, services: rest, forceRecreate: false });
  }
  await each('start', async (change, id) => {
    if (services.has(change.service) || forced.has(change.service)) return;
    await runtime.start(id, signal);
  });
  await each('restart', (_change, id) => runtime.restart(id, signal));
  await each('signal', (change, id) => runtime.kill(id, change.argument, signal));
  await each('remove-network', async (change, id) => {
    if (!FIRST.has(change.cause)) await runtime.removeNetwork(id, signal);
  });
}

async function throughCompose(
  judged: Judged,
  ctx: ConvergeContext,
  remove: (id: string) => Promise<void>,
  say: (change: Change) => void,
): Promise<{ services: Set<string>; forced: Set<string> }> {
  const services = new Set<string>();
  const forced = new Set<string>();
  const byName = new Map(judged.resolved.desired.services.map((service) => [service.name, service]));
  for (const change of judged.diff.changes) {
    if (change.repair !== 'create' && change.repair !== 'recreate') continue;
    say(change);
    const several = (byName.get(change.service)?.replicas ?? 1) > 1;
    if (change.repair === 'recreate' && FORCED.has(change.cause)) {
      if (several && SINGLE.has(change.cause) && change.id) {
        ctx.signal.throwIfAborted();
        await remove(change.id);
        services.add(change.service);
      } else forced.add(change.service);
    } else services.add(change.service);
  }
  for (const name of startsThatWait(judged, byName)) services.add(name);
  return { services, forced };
}

/** Stopped services whose start must wait for another one that is started too: Compose knows how to wait for health and completion. */
function startsThatWait(judged: Judged, byName: ReadonlyMap<string, DesiredService>): string[] {
  const coming = new Set(
    judged.diff.changes
      .filter((change) => change.repair === 'start' || change.repair === 'create' || change.repair === 'recreate')
      .map((change) => change.service),
  );
  const starting = judged.diff.changes.filter((change) => change.repair === 'start').map((change) => change.service);
  const waiting = starting.filter((name) => byName.get(name)?.dependsOn.some((rule) => coming.has(rule.service)));
  const needed = waiting.flatMap((name) => byName.get(name)?.dependsOn.map((rule) => rule.service) ?? []);
  return [...new Set([...waiting, ...needed.filter((name) => starting.includes(name))])];
}

type Up = Omit<Parameters<House['runtime']['up']>[0], 'services' | 'forceRecreate'>;

/** Owner and mode of volumes that are declared with them, once, before the first boot. */
async function ownVolumes(house: House, judged: Judged, services: ReadonlySet<string>, up: Up): Promise<void> {
  const { store, runtime } = house;
  const { desired } = judged.resolved;
  for (const owner of desired.owners) {
    const key = `owned/${owner.volume}`;
    const users = desired.services.filter((service) => service.volumes.includes(owner.volume));
    const user = users.find((service) => services.has(service.name));
    if (!user || store.value(key) !== undefined) continue;
    await runtime.up({ ...up, services: [user.name], forceRecreate: false, noStart: true });
    await runtime.chownVolume(owner.volume, owner, user.image, up.signal);
    store.putValue(key, { mode: owner.mode, uid: owner.uid, gid: owner.gid });
  }
}
