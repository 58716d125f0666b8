// Converge: carries out the changes that the diff found, each by the smallest call that repairs it. Decides nothing about what differs.
// Order: what is in the way goes first, then what Compose must make, then what only needs starting.
import type { Cause, Change } from '../core/diff/change.ts';
import { CAUSES } from '../core/diff/change.ts';
import { containerName, hasComposeHooks, projectContainers } from '../core/diff/diff.ts';
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
  'parent-gone',
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
  await clearNames(house, judged, ctx);
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

  const { services, forced, first } = await throughCompose(judged, ctx, (id) => runtime.remove(id, signal), say);
  const upOf = async (): Promise<Up> => {
    const model = await judged.resolved.model(signal);
    return { project: desired.project, projectDir: desired.projectDir, model, signal, note: ctx.note };
  };
  const hooked = new Set(desired.services.filter(hasComposeHooks).map((service) => service.name));
  const { dependents, awaited } = dependentsOf(judged, new Set([...services, ...forced]));
  if (services.size + forced.size > 0) {
    const up = await upOf();
    await ownVolumes(house, judged, new Set([...services, ...forced]), up);
    // First, as Compose does: what was stopped is seen to differ when we die before it is started again.
    for (const change of dependents) {
      signal.throwIfAborted();
      say(change);
      if (hooked.has(change.service)) await runtime.stopServices({ ...up, services: [change.service] });
      else if (change.id) await runtime.stop(change.id, signal);
    }
    const rest = new Set([...services].filter((name) => !forced.has(name)));
    for (const name of [...dependents.map((change) => change.service), ...awaited]) rest.add(name);
    if (first.length > 0) await runtime.up({ ...up, services: first, forceRecreate: false });
    if (forced.size > 0) await runtime.up({ ...up, services: [...forced], forceRecreate: true });
    if (rest.size > 0) await runtime.up({ ...up, services: [...rest], forceRecreate: false });
  }
  await each('start', async (change, id) => {
    if (services.has(change.service) || forced.has(change.service)) return;
    await runtime.start(id, signal);
  });
  const restarted = new Set<string>();
  for (const change of changes) {
    if (change.repair !== 'restart' || !change.id || dependents.includes(change) || restarted.has(change.service))
      continue;
    signal.throwIfAborted();
    say(change);
    if (hooked.has(change.service)) {
      restarted.add(change.service);
      const up = { ...(await upOf()), services: [change.service] };
      await runtime.stopServices(up);
      await runtime.up({ ...up, forceRecreate: false });
    } else await runtime.restart(change.id, signal);
  }
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
): Promise<{ services: Set<string>; forced: Set<string>; first: readonly string[] }> {
  const services = new Set<string>();
  const forced = new Set<string>();
  const byName = new Map(judged.resolved.desired.services.map((service) => [service.name, service]));
  for (const change of judged.diff.changes) {
    const service = byName.get(change.service);
    // Only Compose knows what it is to run after a start.
    if (change.repair === 'start' && service && hasComposeHooks(service)) services.add(change.service);
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
  // What is made can only join a container that runs.
  const first = new Set<string>();
  for (const name of [...services, ...forced])
    for (const parent of byName.get(name)?.parents ?? [])
      if (judged.diff.changes.some((change) => change.service === parent && change.repair === 'start'))
        first.add(parent);
  for (const name of first) services.add(name);
  // The id of its parent is in the hash: Compose sees by itself that it must be made anew, and does so after the parent.
  for (const name of forced) {
    const follows = byName
      .get(name)
      ?.parents.some((parent) => byName.get(parent)?.replicas === 1 && services.has(parent) && isMade(judged, parent));
    if (follows && forced.delete(name)) services.add(name);
  }
  return { services, forced, first: [...first].filter((name) => !forced.has(name)) };
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

const isMade = (judged: Judged, service: string): boolean =>
  judged.diff.changes.some(
    (change) => change.service === service && (change.repair === 'create' || change.repair === 'recreate'),
  );

/** Of those that are started anew with what they depend on: the ones whose dependency goes through Compose, and what they wait for. */
function dependentsOf(
  { diff, resolved }: Judged,
  made: ReadonlySet<string>,
): { dependents: readonly Change[]; awaited: ReadonlySet<string> } {
  const awaited = new Set<string>();
  const dependents = diff.changes.filter((change) => {
    if (change.cause !== 'dependency-anew') return false;
    const service = resolved.desired.services.find((one) => one.name === change.service);
    const rules = service?.dependsOn.filter((rule) => rule.restart && made.has(rule.service)) ?? [];
    for (const rule of rules) awaited.add(rule.service);
    return rules.length > 0;
  });
  return { dependents, awaited };
}

/** A name that one of our own containers of this stack has and another is to get: whoever has it gets one in between. */
async function clearNames(house: House, judged: Judged, ctx: ConvergeContext): Promise<void> {
  const { desired } = judged.resolved;
  const { changes } = judged.diff;
  const gone = new Set(changes.filter((change) => change.repair === 'remove').map((change) => change.id));
  const there = projectContainers(judged.index, desired.project).filter((one) => !gone.has(one.id));
  const moved = new Set<string>();
  for (const change of changes) {
    const service = desired.services.find((one) => one.name === change.service);
    const own = there.find((one) => one.id === change.id);
    const wanted =
      change.repair === 'rename'
        ? change.argument
        : change.repair === 'recreate' && service && own
          ? containerName(desired, service, own.number)
          : change.repair === 'create'
            ? change.name
            : null;
    const holder = there.find((one) => one.name === wanted && one.id !== change.id && !moved.has(one.id));
    if (!holder) continue;
    ctx.signal.throwIfAborted();
    moved.add(holder.id);
    await house.runtime.rename(holder.id, `${holder.id.slice(0, 12)}_${holder.name}`, ctx.signal);
  }
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
