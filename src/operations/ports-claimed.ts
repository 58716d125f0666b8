// Published ports: two stacks that want the same one, or a container outside the fleet that has it. Found before anything is touched.
import type { ObservedIndex } from '../core/diff/index-observed.ts';
import { Fault } from '../core/fault.ts';
import type { Desired } from '../core/state/desired.ts';

interface Claimant {
  readonly name: string;
  readonly resolved: { readonly desired: Desired };
}

const everywhere = new Set(['', '0.0.0.0', '::']);
const overlap = (a: string, b: string): boolean => a === b || everywhere.has(a) || everywhere.has(b);

/** Stack → the fault that names both sides. The stack that already runs with a port keeps it; else the first by name. */
export function clashesOf(stacks: readonly Claimant[], index: ObservedIndex): ReadonlyMap<string, Fault> {
  interface Claim {
    readonly hostIp: string;
    readonly holder: string;
    readonly project: string;
  }
  const taken = new Map<string, Claim[]>();
  const projects = new Set(stacks.map((stack) => stack.resolved.desired.project));
  for (const container of index.observed.containers) {
    if (container.state !== 'running' && container.state !== 'paused') continue;
    for (const port of container.ports) {
      if (port.published === 0) continue;
      const key = `${port.published}/${port.protocol}`;
      const holder = projects.has(container.project) ? `stack ${container.project}` : `container ${container.name}`;
      (taken.get(key) ?? taken.set(key, []).get(key)!).push({
        hostIp: port.hostIp,
        holder,
        project: container.project,
      });
    }
  }
  const clashes = new Map<string, Fault>();
  for (const stack of [...stacks].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const { desired } = stack.resolved;
    for (const service of desired.services) {
      if (service.replicas === 0) continue;
      for (const port of service.ports) {
        if (port.published === 0) continue;
        const key = `${port.published}/${port.protocol}`;
        const claims = taken.get(key) ?? taken.set(key, []).get(key)!;
        const other = claims.find((claim) => claim.project !== desired.project && overlap(claim.hostIp, port.hostIp));
        if (other && !clashes.has(stack.name))
          clashes.set(
            stack.name,
            new Fault('PORT_TAKEN', `stack ${stack.name} wants port ${key}, which ${other.holder} has`, {
              data: { port: port.published, protocol: port.protocol, service: service.name, holder: other.holder },
            }),
          );
        if (!other) claims.push({ hostIp: port.hostIp, holder: `stack ${stack.name}`, project: desired.project });
      }
    }
  }
  return clashes;
}
