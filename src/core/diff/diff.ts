// Diff: desired × observed × applied → changes. Pure, and the only judge: deploy, heal, plan and verify all ask it, so that after an
// apply the diff is empty. Every row of the drift matrix is a rule here.
import { createHash } from 'node:crypto';
import type { Applied } from '../state/applied.ts';
import type { Desired, DesiredService, Resources } from '../state/desired.ts';
import { LABELS } from '../state/labels.ts';
import type { ObservedContainer } from '../state/observed.ts';
import type { Cause, Change, FieldChange, Repair, Situation, StackDiff } from './change.ts';
import { imageNamed, type ObservedIndex } from './index-observed.ts';

export interface DiffInput {
  readonly desired: Desired;
  readonly index: ObservedIndex;
  readonly applied: Applied | null;
  readonly adopt: boolean;
  /** A try at this digest is under way or failed: its containers are ours although nothing counts as applied yet. */
  readonly attempted: boolean;
  /** Absolute paths of mounted files that somebody edited since they were written. */
  readonly edited: readonly string[];
}

const RUNNING = new Set(['running', 'restarting', 'paused']);

/** Containers that belong to a project for our purposes: labelled with it and not one-off runs. */
export function projectContainers(index: ObservedIndex, project: string): readonly ObservedContainer[] {
  return (index.containers.get(project) ?? []).filter(
    (container) => !container.oneOff && container.state !== 'removing',
  );
}

/** Windlass made a project when its containers name the stack's project folder, or when it is on record. */
export function isOurs(input: Pick<DiffInput, 'desired' | 'applied' | 'attempted' | 'index'>): boolean {
  if (input.applied || input.attempted) return true;
  return projectContainers(input.index, input.desired.project).every(
    (container) => container.workingDir === input.desired.projectDir,
  );
}

export function diffStack(input: DiffInput): StackDiff {
  const { desired, index } = input;
  const containers = projectContainers(index, desired.project);
  const changes: Change[] = [];
  const warnings: string[] = [];
  const add = (repair: Repair, cause: Cause, rest: Partial<Change> & { name: string }): void => {
    changes.push({
      repair,
      cause,
      service: '',
      id: null,
      detail: '',
      fields: [],
      argument: '',
      aliases: [],
      ...rest,
    });
  };

  if (!isOurs(input)) {
    const foreign = containers.find((container) => container.workingDir !== desired.projectDir);
    if (!input.adopt)
      add('refuse', 'foreign-project', {
        name: desired.project,
        detail: foreign ? `its containers come from ${foreign.workingDir || 'an unknown folder'}` : '',
      });
    else warnings.push(`adopts project ${desired.project}, made in ${foreign?.workingDir || 'an unknown folder'}`);
  }

  refuseVolumes(desired, index, add, warnings);
  const { leaves, takesOver } = leftVolumes(desired, index, containers);
  warnings.push(...leaves, ...takesOver);
  const network = judgeNetworks(desired, index, containers, add, warnings);
  const context: ServiceContext = {
    ...input,
    containers,
    add,
    warnings,
    network,
    recreated: new Set(),
    anew: new Set(),
    kept: new Map(),
  };
  for (const service of inParentOrder(desired.services)) diffService(context, service);
  restartDependents(context, changes);

  const wanted = new Set(desired.services.map((service) => service.name));
  for (const container of containers)
    if (!wanted.has(container.service))
      add('remove', container.configHash === '' ? 'not-by-compose' : 'service-removed', of(container));

  for (const network of desired.networks) {
    if (network.external) continue;
    const id = context.network.idOf.get(network.name);
    for (const guest of index.observed.containers)
      if (guest.project === '' && guest.networks.some((net) => net.id === id && id !== undefined))
        warnings.push(`${guest.name}, which is of no project, is on network ${network.name}`);
  }

  const keys = new Set(desired.networks.filter((one) => !one.external).map((one) => one.name));
  for (const one of index.networks.get(desired.project) ?? []) {
    if (keys.has(one.name)) continue;
    const guest = index.observed.containers.find(
      (container) => container.project !== desired.project && container.networks.some((net) => net.id === one.id),
    );
    if (guest) warnings.push(`network ${one.name} is no longer asked for but ${guest.name} is on it`);
    else add('remove-network', 'network-removed', { name: one.name, id: one.id });
  }

  const touched = new Set(changes.map((change) => change.service));
  return {
    stack: desired.stack,
    situation: situationOf(input, containers, changes),
    changes,
    untouched: desired.services.map((service) => service.name).filter((name) => !touched.has(name)),
    warnings,
    ...(leaves.length > 0 ? { leaves } : {}),
    observedDigest: observedDigest(desired, index, containers),
  };
}

function situationOf(
  { desired, applied }: DiffInput,
  containers: readonly ObservedContainer[],
  changes: readonly Change[],
): Situation {
  if (!applied)
    return containers.length === 0 && changes.length > 0 ? 'install' : changes.length > 0 ? 'update' : 'same';
  if (applied.desired.digest === desired.digest || sameInOtherWords(applied.desired, desired))
    return changes.length > 0 ? 'drift' : 'same';
  if (changes.length === 0) return 'same';
  return applied.desired.digestUnscaled === desired.digestUnscaled ? 'scale' : 'update';
}

/** Another Compose version or hash recipe words the same project differently: that is no change of the desired state. */
function sameInOtherWords(before: Desired, after: Desired): boolean {
  if (before.composeVersion === after.composeVersion && before.recipe === after.recipe) return false;
  if (before.services.length !== after.services.length) return false;
  return after.services.every((service) => {
    const old = before.services.find((one) => one.name === service.name);
    return old !== undefined && old.replicas === service.replicas && fieldChanges(old, service).length === 0;
  });
}

function observedDigest(desired: Desired, index: ObservedIndex, containers: readonly ObservedContainer[]): string {
  const seen = containers
    .map((one) => [one.id, one.name, one.state, one.configHash, one.imageId, one.networks.map((net) => net.id)])
    .sort();
  const images = desired.services.map((service) => imageNamed(index, service.image)?.id ?? '');
  return createHash('sha256')
    .update(JSON.stringify([seen, images]))
    .digest('hex');
}

const of = (container: ObservedContainer) => ({
  service: container.service,
  id: container.id,
  name: container.name,
});

/** No refusal: it may be there when its turn comes, as one that another stack makes. */
const missing = (kind: 'network' | 'volume', name: string): string =>
  `the external ${kind} ${name} is not there; no container is made before it is: docker ${kind} create ${name}`;

type Add = (repair: Repair, cause: Cause, rest: Partial<Change> & { name: string }) => void;

function refuseVolumes(desired: Desired, index: ObservedIndex, add: Add, warnings: string[]): void {
  const used = new Set(desired.services.flatMap((service) => service.volumes));
  for (const volume of desired.volumes) {
    if (volume.external) {
      if (used.has(volume.name) && !index.volumes.has(volume.name)) warnings.push(missing('volume', volume.name));
      continue;
    }
    const there = index.volumes.get(volume.name);
    if (!there) continue;
    if (there.project !== desired.project) {
      warnings.push(`volume ${volume.name} was not made by this project and is used as it is`);
      continue;
    }
    if (there.configHash !== '' && volume.hash !== '' && there.configHash !== volume.hash)
      add('refuse', 'volume-changed', { name: volume.name });
  }
}

/**
 * Where a service has a volume of this stack now and is to have another one: another name is how a changed volume is asked for, so it is
 * not refused, but nobody loses sight of data unseen. A generation is made by a restore, which tells of it itself.
 */
function leftVolumes(desired: Desired, index: ObservedIndex, containers: readonly ObservedContainer[]) {
  const leaves = new Set<string>();
  const takesOver = new Set<string>();
  const external = new Set(desired.volumes.filter((volume) => volume.external).map((volume) => volume.name));
  const isGeneration = ({ key, name }: Desired['volumes'][number]): boolean => {
    const prefix = `${desired.project}_${key}_g`;
    return name.startsWith(prefix) && /^\d+$/.test(name.slice(prefix.length));
  };
  const made = new Set(desired.volumes.filter(isGeneration).map((volume) => volume.name));
  for (const service of desired.services)
    for (const container of containers) {
      if (container.service !== service.name) continue;
      for (const mount of container.mounts) {
        const wanted = service.volumeAt?.[mount.destination];
        if (mount.kind !== 'volume' || wanted === undefined || wanted === mount.name || made.has(wanted)) continue;
        if (index.volumes.get(mount.name)?.project !== desired.project) continue;
        const left = `volume ${mount.name} with the data of ${service.name} (${mount.destination}) is left`;
        if (index.volumes.has(wanted) || external.has(wanted))
          takesOver.add(`${left}; ${service.name} gets volume ${wanted} as it is`);
        else leaves.add(`${left}; ${service.name} gets the empty volume ${wanted}`);
      }
    }
  return { leaves: [...leaves], takesOver: [...takesOver] };
}

interface NetworkVerdict {
  /** Names of networks that Compose must make anew: every attached service is recreated, or its aliases are lost. */
  readonly changed: ReadonlySet<string>;
  /** Of networks that bear the right hash but are not what it says: Compose sees no difference. */
  readonly altered: ReadonlySet<string>;
  readonly idOf: ReadonlyMap<string, string>;
}

function judgeNetworks(
  desired: Desired,
  index: ObservedIndex,
  containers: readonly ObservedContainer[],
  add: Add,
  warnings: string[],
): NetworkVerdict {
  const changed = new Set<string>();
  const altered = new Set<string>();
  const idOf = new Map<string, string>();
  const used = new Set(desired.services.flatMap((service) => service.networks.map((network) => network.name)));
  for (const network of desired.networks) {
    const there = index.networksByName.get(network.name) ?? [];
    const attached = (id: string) => containers.filter((one) => one.networks.some((net) => net.id === id)).length;
    const [best, ...others] = [...there].sort((a, b) => attached(b.id) - attached(a.id));
    if (!best) {
      if (network.external && used.has(network.name)) warnings.push(missing('network', network.name));
      continue;
    }
    idOf.set(network.name, best.id);
    if (network.external || !used.has(network.name)) continue;
    for (const other of others)
      add('remove-network', 'network-duplicate', { name: other.name, id: other.id, detail: other.id.slice(0, 12) });
    if (best.project !== desired.project)
      add('refuse', 'network-unlabelled', { name: network.name, detail: 'remove it, or declare it as external' });
    else if (best.configHash !== '' && network.hash !== '' && best.configHash !== network.hash)
      changed.add(network.name);
    else if (best.internal !== network.internal) {
      const guest = index.observed.containers.find(
        (one) => one.project !== desired.project && one.networks.some((net) => net.id === best.id),
      );
      if (guest)
        warnings.push(`network ${network.name} was made by hand with other options, but ${guest.name} is on it`);
      else {
        altered.add(network.name);
        add('remove-network', 'network-altered', { name: network.name, id: best.id });
      }
    }
  }
  return { changed, altered, idOf };
}

/** Does it declare what Compose, and nobody else, runs in it after a start or before a stop? */
export const hasComposeHooks = (service: DesiredService): boolean =>
  Object.keys(service.fields).some((path) => /^(post_start|pre_stop)\./.test(path));

/** Parents before those that share their namespaces. */
export function inParentOrder(services: readonly DesiredService[]): readonly DesiredService[] {
  const byName = new Map(services.map((service) => [service.name, service]));
  const done = new Set<string>();
  const order: DesiredService[] = [];
  const visit = (service: DesiredService): void => {
    if (done.has(service.name)) return;
    done.add(service.name);
    for (const parent of service.parents) {
      const found = byName.get(parent);
      if (found) visit(found);
    }
    order.push(service);
  };
  services.forEach(visit);
  return order;
}

interface ServiceContext extends DiffInput {
  readonly containers: readonly ObservedContainer[];
  readonly add: Add;
  readonly warnings: string[];
  readonly network: NetworkVerdict;
  /** Services that get new containers in this pass. */
  readonly recreated: Set<string>;
  /** Services of which a container is started or restarted in this pass. */
  readonly anew: Set<string>;
  /** The containers that count, by service. */
  readonly kept: Map<string, readonly ObservedContainer[]>;
}

function diffService(context: ServiceContext, service: DesiredService): void {
  const { add, applied, desired, index, warnings } = context;
  for (const name of service.strangers ?? [])
    if (strangerNamed(index, name) === undefined)
      warnings.push(
        `the container ${name}, whose namespace ${service.name} shares, is not there; it cannot start before it is`,
      );
  const mine = context.containers.filter((container) => container.service === service.name);
  for (const container of mine) if (container.configHash === '') add('remove', 'not-by-compose', of(container));
  const known = mine.filter((container) => container.configHash !== '');
  const { kept, leftovers, surplus } = chooseReplicas(context, service, known);
  for (const container of leftovers) add('remove', 'leftover', of(container));
  for (const container of surplus) add('remove', 'scaled-down', of(container));

  context.kept.set(service.name, kept);
  const before = applied?.desired.services.find((one) => one.name === service.name);
  let anew = false;
  for (const container of kept) {
    const reason = recreateReason(context, service, container, before);
    if (reason) {
      anew = true;
      add('recreate', reason.cause, { ...of(container), detail: reason.detail ?? '', fields: reason.fields ?? [] });
    } else repair(context, service, container, before);
  }

  const missing = service.replicas - kept.length;
  if (missing > 0) {
    if (kept.length === 0) anew = true;
    const cause: Cause =
      kept.length > 0 && before && before.replicas < service.replicas
        ? 'scaled-up'
        : before && before.replicas > 0
          ? 'container-missing'
          : before
            ? 'scaled-up'
            : 'new-service';
    // Compose numbers new replicas after the highest one there is.
    const last = Math.max(0, ...kept.map((container) => container.number));
    for (let added = 1; added <= missing; added++)
      add('create', cause, { service: service.name, name: containerName(desired, service, last + added) });
  }
  if (anew) context.recreated.add(service.name);
}

function chooseReplicas(context: ServiceContext, service: DesiredService, known: readonly ObservedContainer[]) {
  const score = (one: ObservedContainer): number =>
    (RUNNING.has(one.state) ? 4 : 0) +
    (hashEquals(service, one) ? 2 : 0) +
    (one.name === containerName(context.desired, service, one.number) ? 1 : 0);
  const byNumber = new Map<number, ObservedContainer>();
  const leftovers: ObservedContainer[] = [];
  for (const one of [...known].sort((a, b) => score(b) - score(a))) {
    if (byNumber.has(one.number)) leftovers.push(one);
    else byNumber.set(one.number, one);
  }
  const ordered = [...byNumber.values()].sort((a, b) => a.number - b.number);
  return {
    kept: ordered.slice(0, service.replicas),
    surplus: ordered.slice(service.replicas),
    leftovers,
  };
}

export function containerName(desired: Desired, service: DesiredService, number: number): string {
  return service.containerName ?? `${desired.project}-${service.name}-${number}`;
}

function hashEquals(service: DesiredService, container: ObservedContainer): boolean {
  if (service.parents.length > 0) {
    // Compose hashes the ids of the parents' containers: compare our own label, the parents are compared by themselves.
    const label = container.labels[LABELS.definition];
    return service.definition === null ? true : label === service.definition;
  }
  return container.configHash === service.hash;
}

function recreateReason(
  context: ServiceContext,
  service: DesiredService,
  container: ObservedContainer,
  before: DesiredService | undefined,
): { cause: Cause; detail?: string; fields?: readonly FieldChange[] } | null {
  const { applied, desired, index, network, recreated, edited } = context;
  if (!hashEquals(service, container)) {
    const fields = before ? fieldChanges(before, service) : [];
    // Same words under another recipe or Compose version, and the container is what was made then: re-baseline, do not recreate.
    const reworded =
      applied !== null &&
      before !== undefined &&
      container.configHash === before.hash &&
      sameInOtherWords(applied.desired, desired);
    if (!reworded) {
      if (before?.build && service.build && before.build.digest !== service.build.digest)
        return { cause: 'build-changed', detail: service.build.context, fields };
      const files = changedMounts(before, service);
      if (before && fields.length === 0 && files.length > 0)
        return { cause: 'content-changed', detail: files.join(', ') };
      if (before && fields.length > 0)
        return { cause: 'definition-changed', detail: files.length > 0 ? `and ${files.join(', ')}` : '', fields };
      return { cause: 'definition-foreign' };
    }
  }
  const touched = service.mounts.filter(
    (mount) =>
      mount.onChange.kind !== 'ignore' &&
      edited.some((path) => path === mount.source || path.startsWith(`${mount.source}/`)),
  );
  if (touched.length > 0) return { cause: 'file-edited', detail: touched.map((mount) => mount.target).join(', ') };
  const named = imageNamed(index, service.image);
  if (named && named.id !== container.imageId)
    return { cause: 'image-moved', detail: `${shortId(container.imageId)} → ${shortId(named.id)}` };
  if (service.parents.length > 0 && !isFinished(context, service, container, before)) {
    const parent = service.parents.find((name) => recreated.has(name));
    if (parent) return { cause: 'parent-recreated', detail: parent };
    const gone = service.parents.find((name) => isCutOff(context, container, name));
    if (gone) return { cause: 'parent-gone', detail: gone };
  }
  const stranger = service.strangers?.find((name) => isLeftBy(index, container, name));
  if (stranger && !isFinished(context, service, container, before)) return { cause: 'parent-gone', detail: stranger };
  const changedNetwork = service.networks.find((one) => network.changed.has(one.name));
  if (changedNetwork) return { cause: 'network-changed', detail: changedNetwork.name };
  const altered = service.networks.find((one) => network.altered.has(one.name));
  if (altered && !isFinished(context, service, container, before))
    return { cause: 'network-altered', detail: altered.name };
  const lost = service.networks.find((one) => !network.idOf.has(one.name));
  if (lost && !isFinished(context, service, container, before)) return { cause: 'network-missing', detail: lost.name };
  const mounted = new Set(container.mounts.filter((mount) => mount.kind === 'volume').map((mount) => mount.name));
  const volume = service.volumes.find((name) => !mounted.has(name));
  if (volume) return { cause: 'volume-missing', detail: volume };
  const detail = container.detail;
  if (detail) {
    const unlimited = cannotBeUndone(service.resources, detail.resources);
    if (unlimited) return { cause: 'resources-changed', detail: unlimited };
  }
  return null;
}

/** Was it made to share with a container that is none of that service any more? The engine goes on without a word. */
function isCutOff({ kept }: ServiceContext, { detail }: ObservedContainer, parent: string): boolean {
  const there = kept.get(parent) ?? [];
  if (!detail || there.length === 0) return false;
  return !there.some((one) => detail.shares.some(({ id }) => id === one.id));
}

/** Who bears the name of a container that is not of the stack; a Compose file may also give its id. */
const strangerNamed = ({ observed }: ObservedIndex, name: string): ObservedContainer | undefined =>
  observed.containers.find((one) => one.name === name) ??
  observed.containers.find((one) => name.length >= 12 && one.id.startsWith(name));

/** Was it made to share with a container that bore this name, which another one bears now? While none does, there is nothing to join. */
function isLeftBy(index: ObservedIndex, { detail }: ObservedContainer, name: string): boolean {
  const there = strangerNamed(index, name);
  return there !== undefined && detail !== null && !detail.shares.some(({ id }) => id === there.id);
}

/** The parent whose start ended the namespace that this container is in: a namespace lives as long as the process that it was made for. */
function lostNamespace(
  { index, kept, anew }: ServiceContext,
  service: DesiredService,
  { detail }: ObservedContainer,
): string | undefined {
  const shared = new Set(detail?.shares.flatMap(({ what, id }) => (what === 'volumes' ? [] : [id])));
  const isLost = (one: ObservedContainer | undefined): boolean =>
    one?.state === 'running' && shared.has(one.id) && isLater(one.detail?.startedAt, detail?.startedAt);
  return (
    service.parents.find((name) =>
      kept.get(name)?.some((one) => isLost(one) || (anew.has(name) && shared.has(one.id))),
    ) ?? service.strangers?.find((name) => isLost(strangerNamed(index, name)))
  );
}

/** Of two times as the engine writes them: with as many digits of a second as it takes. */
function isLater(time: string | undefined, than: string | undefined): boolean {
  if (!time || !than) return false;
  const digits = (text: string): string =>
    text
      .replace(/Z$/, '')
      .replace(/^[^.]*$/, '$&.')
      .padEnd(30, '0');
  return digits(time) > digits(than);
}

/** As Compose does it: who depends with restart is started anew with what is made anew, not with what died and was started again. */
function restartDependents({ desired, kept, add }: ServiceContext, changes: readonly Change[]): void {
  const touched = new Set(
    changes.filter(({ repair }) => /^(create|recreate|start|restart)$/.test(repair)).map(({ service }) => service),
  );
  const remade = new Set(
    changes.filter(({ repair }) => repair === 'recreate' || repair === 'restart').map(({ service }) => service),
  );
  for (const service of desired.services) {
    const rule = service.dependsOn.find((one) => one.restart && remade.has(one.service));
    if (!rule || touched.has(service.name)) continue;
    for (const container of kept.get(service.name) ?? [])
      if (RUNNING.has(container.state)) add('restart', 'dependency-anew', { ...of(container), detail: rule.service });
  }
}

const shortId = (id: string): string => id.replace(/^sha256:/, '').slice(0, 12);

function changedMounts(before: DesiredService | undefined, after: DesiredService): string[] {
  if (!before) return [];
  const old = new Map(before.mounts.map((mount) => [mount.target, mount.digest]));
  return after.mounts
    .filter((mount) => mount.onChange.kind === 'recreate' && old.get(mount.target) !== mount.digest)
    .map((mount) => mount.target);
}

export function fieldChanges(before: DesiredService, after: DesiredService): FieldChange[] {
  const changes: FieldChange[] = [];
  const shown = (value: string | undefined): string | null =>
    value === undefined ? null : value.startsWith('~') ? '(secret)' : value;
  for (const path of [...new Set([...Object.keys(before.fields), ...Object.keys(after.fields)])].sort()) {
    if (path === 'deploy.replicas') continue;
    if (before.fields[path] !== after.fields[path])
      changes.push({ path, before: shown(before.fields[path]), after: shown(after.fields[path]) });
  }
  return changes;
}

/** Limits that the engine can only raise or set, never take away: then a new container is the repair. */
function cannotBeUndone(want: Resources, have: Resources): string | null {
  if (want.memoryBytes === 0 && have.memoryBytes !== 0) return `memory ${have.memoryBytes} → unlimited`;
  if (want.memoryReservationBytes === 0 && have.memoryReservationBytes !== 0)
    return `memory reservation ${have.memoryReservationBytes} → none`;
  if (want.nanoCpus === 0 && have.nanoCpus !== 0) return `cpus ${have.nanoCpus / 1e9} → unlimited`;
  if (want.cpuset === '' && have.cpuset !== '') return `cpuset ${have.cpuset} → all`;
  if (want.pidsLimit === 0 && have.pidsLimit > 0) return `pids ${have.pidsLimit} → unlimited`;
  if (want.cpuShares === 0 && have.cpuShares !== 0) return `cpu shares ${have.cpuShares} → default`;
  return null;
}

function resourceChanges(want: Resources, have: Resources): string[] {
  return (Object.keys(want) as (keyof Resources)[])
    .filter((key) => want[key] !== have[key])
    .map((key) => `${key} ${have[key]} → ${want[key]}`);
}

/** Has this one-shot (or a sidecar that ends by itself) done its work? Ordered: first sentence that holds. */
export function isFinished(
  context: Pick<DiffInput, 'applied'>,
  service: DesiredService,
  container: ObservedContainer,
  before: DesiredService | undefined,
): boolean {
  if (container.state !== 'exited' || container.exitCode !== 0) return false;
  if (!/^(no|on-failure)/.test(service.resources.restart)) return false;
  if (service.oneShot !== null) return service.oneShot;
  if (container.stoppedByHand) return false;
  if (service.fields['restart'] === 'no') return true;
  if (before && before.hash === service.hash && context.applied?.roles[service.name] === 'completed') return true;
  // Not told anywhere, and nobody was seen stopping it: what ended well by itself without a restart policy is done.
  return context.applied?.roles[service.name] !== 'running';
}

function repair(
  context: ServiceContext,
  service: DesiredService,
  container: ObservedContainer,
  before: DesiredService | undefined,
): void {
  const { desired, network } = context;
  const add: Add = (kind, cause, rest) => {
    if (kind === 'start' || kind === 'restart') context.anew.add(service.name);
    context.add(kind, cause, rest);
  };
  const it = of(container);
  const name = containerName(desired, service, container.number);
  if (container.name !== name)
    add('rename', 'renamed', { ...it, detail: `${container.name} → ${name}`, argument: name });

  const finished = isFinished(context, service, container, before);
  if (container.state === 'paused') add('unpause', 'paused', it);
  if (!finished) {
    for (const one of service.networks) {
      const id = network.idOf.get(one.name);
      if (!container.networks.some((net) => net.name === one.name && (net.id === id || net.id === '')))
        add('connect', 'disconnected', { ...it, detail: one.name, argument: one.name, aliases: one.aliases });
    }
    if (service.networks.length > 0)
      for (const net of container.networks)
        if (!service.networks.some((one) => one.name === net.name))
          add('disconnect', 'connected', { ...it, detail: net.name, argument: net.id || net.name });
  }
  const detail = container.detail;
  if (detail && !finished) {
    for (const one of service.networks) {
      const aliases = detail.aliases[one.name];
      if (!aliases || !container.networks.some((net) => net.name === one.name)) continue;
      const lost = one.aliases.filter((alias) => !aliases.includes(alias));
      if (lost.length > 0)
        add('connect', 'alias-lost', {
          ...it,
          detail: `${lost.join(', ')} on ${one.name}`,
          argument: one.name,
          aliases: one.aliases,
        });
    }
    const differing = resourceChanges(service.resources, detail.resources);
    if (differing.length > 0) add('update', 'resources-changed', { ...it, detail: differing.join(', ') });
  }
  // One that the engine itself starts again joins anew.
  const lost =
    container.state === 'running' || container.state === 'paused'
      ? lostNamespace(context, service, container)
      : undefined;
  if ((container.state === 'exited' || container.state === 'dead') && !finished) {
    const failedOneShot = service.oneShot === true && container.exitCode !== 0;
    add('start', failedOneShot ? 'one-shot-failed' : 'stopped', {
      ...it,
      detail: `exit code ${container.exitCode ?? '?'}`,
    });
  } else if (container.state === 'created') add('start', 'never-started', it);
  else if (container.deafPorts.length > 0)
    add('restart', 'port-deaf', { ...it, detail: container.deafPorts.join(', ') });
  else if (lost !== undefined) add('restart', 'namespace-lost', { ...it, detail: lost });
  else if (before && before.hash === service.hash) {
    const old = new Map(before.mounts.map((mount) => [mount.target, mount.digest]));
    for (const mount of service.mounts) {
      if (old.get(mount.target) === mount.digest) continue;
      if (mount.onChange.kind === 'restart') add('restart', 'content-changed', { ...it, detail: mount.target });
      if (mount.onChange.kind === 'signal')
        add('signal', 'content-changed', { ...it, detail: mount.target, argument: mount.onChange.signal });
    }
  }
}
