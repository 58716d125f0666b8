// Published ports and container names: two that want the same one, or a container outside the fleet that has it. Found before anything is
// touched.
// What a stack has that leaves the fleet in the same plan is free: it goes right before who takes it over comes.
import type { ObservedIndex } from '../core/diff/index-observed.ts';
import { Fault } from '../core/fault.ts';
import type { Applied } from '../core/state/applied.ts';
import type { Desired, PublishedPort as Port } from '../core/state/desired.ts';

interface Claimant {
  readonly name: string;
  readonly resolved: { readonly desired: Desired };
}

interface Claim {
  readonly hostIp: string;
  readonly holder: string;
  readonly project: string;
}

/** Stacks that are gone from the fleet: those that this plan takes away, and all of which something may still be there. */
export interface Leaving {
  readonly now: readonly Applied[];
  readonly all: readonly Applied[];
}

export const NONE_LEAVING: Leaving = { now: [], all: [] };

const everywhere = new Set(['', '0.0.0.0', '::']);
const overlap = (a: string, b: string): boolean => a === b || everywhere.has(a) || everywhere.has(b);
const keyOf = ({ published, protocol }: Pick<Port, 'published' | 'protocol'>): string => `${published}/${protocol}`;

function wantedPorts({ services }: Desired): readonly { readonly port: Port; readonly service: string }[] {
  return services
    .filter(({ replicas }) => replicas > 0)
    .flatMap(({ name, ports }) => ports.map((port) => ({ port, service: name })))
    .filter(({ port }) => port.published !== 0);
}

function claimsOf(index: ObservedIndex, holderOf: (project: string, container: string) => string) {
  const taken = new Map<string, Claim[]>();
  for (const { state, ports, project, name } of index.observed.containers) {
    if (state !== 'running' && state !== 'paused') continue;
    for (const port of ports)
      if (port.published !== 0) {
        const key = keyOf(port);
        const claim = { hostIp: port.hostIp, holder: holderOf(project, name), project };
        (taken.get(key) ?? taken.set(key, []).get(key)!).push(claim);
      }
  }
  return taken;
}

/** What no engine can give: a port for each of several replicas, or for two services at once. */
export function ownClash({ name, resolved: { desired } }: Claimant): Fault | null {
  const taken = new Map<string, string>();
  for (const { name: service, ports, replicas, networks, oneShot } of desired.services) {
    // In the network of the host or of another container nothing is published, and what ends gives its port back.
    if (replicas === 0 || networks.length === 0 || oneShot === true) continue;
    for (const port of ports) {
      if (port.published === 0) continue;
      const { published, protocol } = port;
      const refuse = (why: string): Fault =>
        new Fault('PORT_TAKEN', `stack ${name} wants port ${keyOf(port)} ${why}`, {
          data: { port: published, protocol, service, holder: `stack ${name}` },
        });
      if (replicas > 1) return refuse(`for each of ${replicas} replicas of ${service}`);
      const key = `${port.hostIp} ${keyOf(port)}`;
      const other = taken.get(key);
      if (other !== undefined && other !== service) return refuse(`for ${other} and for ${service}`);
      taken.set(key, service);
    }
  }
  return null;
}

const wantedNames = ({ services }: Desired): readonly { readonly name: string; readonly service: string }[] =>
  services.flatMap(({ replicas, containerName, name }) =>
    replicas > 0 && containerName !== null ? [{ name: containerName, service: name }] : [],
  );

/** Stack → the fault that names who else has or wants the `container_name` of a service of it. Whoever has it keeps it. */
function nameClashes(stacks: readonly Claimant[], index: ObservedIndex, leaving: Leaving): Map<string, Fault> {
  interface Clash {
    readonly name: string;
    readonly service: string;
    readonly holder: string;
    readonly project: string;
    readonly givenUpBy: string | null;
  }
  if (stacks.every((stack) => wantedNames(stack.resolved.desired).length === 0)) return new Map();
  const byProject = new Map(stacks.map((stack) => [stack.resolved.desired.project, stack]));
  const left = new Set(leaving.all.map((one) => one.project));
  const goes = new Set(leaving.now.map((one) => one.project));
  const holders = new Map<string, Omit<Clash, 'name' | 'service'>>();
  for (const { name, project } of index.observed.containers) {
    if (goes.has(project)) continue;
    const stack = byProject.get(project);
    const isGivenUp = stack && !wantedNames(stack.resolved.desired).some((one) => one.name === name);
    const holder = stack || left.has(project) ? `stack ${stack?.name ?? project}` : `container ${name}`;
    holders.set(name, { project, holder, givenUpBy: isGivenUp ? stack.name : null });
  }
  const clashes = new Map<string, Clash>();
  for (const stack of [...stacks].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const { project } = stack.resolved.desired;
    for (const { name, service } of wantedNames(stack.resolved.desired)) {
      const other = holders.get(name);
      if (other === undefined) holders.set(name, { project, holder: `stack ${stack.name}`, givenUpBy: null });
      else if (other.project !== project && !clashes.has(stack.name))
        clashes.set(stack.name, { name, service, ...other });
    }
  }
  return new Map(
    [...clashes].map(([stack, { name, service, holder, project }]): [string, Fault] => {
      const why = whyTaken(stack, clashes, left.has(project), 'take another container name');
      const message = `stack ${stack} wants the container name ${name}, which ${holder} has${why}`;
      return [stack, new Fault('NAME_TAKEN', message, { data: { name, service, holder } })];
    }),
  );
}

/** When the stack can have what another one has: after that was deployed, or never while each waits for the next, and the last for the first.
 * Who has it now keeps it until then: Compose would take the containers of the stack away before it finds that it cannot make the new ones. */
function whyTaken(
  stack: string,
  clashes: ReadonlyMap<string, { readonly givenUpBy: string | null }>,
  hasLeft: boolean,
  firstStep: string,
): string {
  const giver = clashes.get(stack)?.givenUpBy ?? null;
  if (giver === null) return hasLeft ? '; that stack left the fleet and is not taken away yet' : '';
  const seen = new Set<string>();
  let next: string | null = giver;
  while (next !== null && next !== stack && !seen.has(next)) {
    seen.add(next);
    next = clashes.get(next)?.givenUpBy ?? null;
  }
  return next === stack
    ? `; ${giver} waits in its turn for what ${stack} has: let one of them ${firstStep} in a commit of its own first, then swap`
    : `; ${giver} gives it up in this commit: ${stack} can be deployed after it`;
}

/** Stack → the fault that names both sides. The stack that already runs with a port keeps it; else the first by name. */
export function clashesOf(
  stacks: readonly Claimant[],
  index: ObservedIndex,
  leaving: Leaving = NONE_LEAVING,
): ReadonlyMap<string, Fault> {
  const byProject = new Map(stacks.map((stack) => [stack.resolved.desired.project, stack]));
  const left = new Set(leaving.all.map((one) => one.project));
  const goes = new Set(leaving.now.map((one) => one.project));
  const taken = claimsOf(index, (project, container) =>
    byProject.has(project) || left.has(project) ? `stack ${project}` : `container ${container}`,
  );
  interface Clash {
    readonly key: string;
    readonly service: string;
    readonly port: Port;
    readonly other: Claim;
    /** The stack that has the port now and asks for it no more. */
    readonly givenUpBy: string | null;
  }
  const clashes = new Map<string, Clash>();
  for (const stack of [...stacks].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const { desired } = stack.resolved;
    for (const { port, service } of wantedPorts(desired)) {
      const key = keyOf(port);
      const claims = taken.get(key) ?? taken.set(key, []).get(key)!;
      const other = claims.find(
        (claim) => claim.project !== desired.project && !goes.has(claim.project) && overlap(claim.hostIp, port.hostIp),
      );
      if (other && !clashes.has(stack.name)) {
        const holder = byProject.get(other.project);
        const isGivenUp = holder && !wantedPorts(holder.resolved.desired).some((one) => keyOf(one.port) === key);
        clashes.set(stack.name, { key, service, port, other, givenUpBy: isGivenUp ? holder.name : null });
      }
      if (!other) claims.push({ hostIp: port.hostIp, holder: `stack ${stack.name}`, project: desired.project });
    }
  }
  const own = stacks.flatMap((stack): [string, Fault][] => {
    const fault = ownClash(stack);
    return fault ? [[stack.name, fault]] : [];
  });
  return new Map([
    ...nameClashes(stacks, index, leaving),
    ...[...clashes].map(([name, { key, service, port, other }]): [string, Fault] => {
      const why = whyTaken(name, clashes, left.has(other.project), 'publish a free port');
      const message = `stack ${name} wants port ${key}, which ${other.holder} has${why}`;
      const { published, protocol } = port;
      return [
        name,
        new Fault('PORT_TAKEN', message, { data: { port: published, protocol, service, holder: other.holder } }),
      ];
    }),
    ...own,
  ]);
}

export interface Succession {
  /** Who leaves. */
  readonly leaver: Applied;
  /** What `by` takes over of it: `port 8080/tcp`, `container name proxy`. */
  readonly what: string;
  readonly by: string;
}

/** Which of those that leave have ports or container names of which these stacks: they go right before those come, and stay when those cannot. */
export function successionsOf(
  stacks: readonly Claimant[],
  index: ObservedIndex,
  leaving: readonly Applied[],
): readonly Succession[] {
  if (leaving.length === 0) return [];
  const taken = claimsOf(index, (project) => project);
  return leaving.flatMap((leaver) => {
    const names = new Set((index.containers.get(leaver.project) ?? []).map((one) => one.name));
    for (const { name, resolved } of stacks) {
      for (const { port } of wantedPorts(resolved.desired)) {
        const claims = taken.get(keyOf(port)) ?? [];
        if (claims.some((claim) => claim.project === leaver.project && overlap(claim.hostIp, port.hostIp)))
          return [{ leaver, what: `port ${keyOf(port)}`, by: name }];
      }
      const wanted = wantedNames(resolved.desired).find((one) => names.has(one.name));
      if (wanted) return [{ leaver, what: `container name ${wanted.name}`, by: name }];
    }
    return [];
  });
}
