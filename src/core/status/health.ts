// Health: is what runs what "running well" means for this stack? Pure; asked again and again while a deploy settles and in every pass.

import { isFinished } from '../diff/diff.ts';
import type { Applied } from '../state/applied.ts';
import type { Desired, DesiredService } from '../state/desired.ts';
import type { ObservedContainer } from '../state/observed.ts';

export interface Problem {
  readonly service: string;
  readonly containerId: string | null;
  readonly code: 'SERVICE_UNHEALTHY' | 'SERVICE_CRASHED' | 'ONE_SHOT_FAILED' | 'SETTLE_TIMEOUT';
  readonly message: string;
}

export interface Health {
  /** `failed`: a problem that waiting does not cure; `waiting`: starting or not there yet. */
  readonly state: 'healthy' | 'waiting' | 'failed';
  readonly problems: readonly Problem[];
  readonly roles: Readonly<Record<string, 'running' | 'completed'>>;
}

/** What ended of more than there are to be, or beside another one of its number, is to be removed, and says nothing of how the service is. */
function countedOf(service: DesiredService, containers: readonly ObservedContainer[]): readonly ObservedContainer[] {
  const ended = (one: ObservedContainer): boolean => one.state === 'exited' || one.state === 'dead';
  const all = containers.filter((one) => one.service === service.name && one.configHash !== '');
  const alive = new Set(all.filter((one) => !ended(one)).map((one) => one.number));
  return all
    .filter((one) => !ended(one) || !alive.has(one.number))
    .sort((left, right) => left.number - right.number)
    .filter((one, index) => index < service.replicas || !ended(one));
}

/** `restarts` says how often each container restarted since the deploy began (id → count). */
export function healthOf(
  desired: Desired,
  containers: readonly ObservedContainer[],
  applied: Applied | null,
  restarts: ReadonlyMap<string, number> = new Map(),
): Health {
  const problems: Problem[] = [];
  const roles: Record<string, 'running' | 'completed'> = {};
  let failed = false;
  const problem = (
    service: DesiredService,
    one: ObservedContainer | null,
    code: Problem['code'],
    message: string,
    fatal: boolean,
  ) => {
    problems.push({
      service: service.name,
      containerId: one?.id ?? null,
      code,
      message: `service ${service.name} ${message}`,
    });
    failed ||= fatal;
  };
  for (const service of desired.services) {
    const mine = countedOf(service, containers);
    if (mine.length < service.replicas)
      problem(service, null, 'SETTLE_TIMEOUT', `has ${mine.length} of ${service.replicas} containers`, false);
    const before = applied?.desired.services.find((one) => one.name === service.name);
    for (const one of mine) {
      if (isFinished({ applied }, service, one, before)) {
        roles[service.name] = 'completed';
        continue;
      }
      roles[service.name] = 'running';
      const code = one.exitCode ?? '?';
      if (one.state === 'exited' || one.state === 'dead') {
        if (service.oneShot === true) problem(service, one, 'ONE_SHOT_FAILED', `ended with exit code ${code}`, true);
        else problem(service, one, 'SERVICE_CRASHED', `ended with exit code ${code}`, true);
      } else if (one.state === 'restarting') problem(service, one, 'SERVICE_CRASHED', 'restarts again and again', true);
      else if ((restarts.get(one.id) ?? 0) > 0) problem(service, one, 'SERVICE_CRASHED', 'restarted by itself', true);
      else if (one.state !== 'running') problem(service, one, 'SETTLE_TIMEOUT', `is ${one.state}`, false);
      else if (one.health === 'unhealthy') problem(service, one, 'SERVICE_UNHEALTHY', 'is unhealthy', true);
      else if (one.health === 'starting') problem(service, one, 'SERVICE_UNHEALTHY', 'is still starting', false);
    }
  }
  return { state: failed ? 'failed' : problems.length > 0 ? 'waiting' : 'healthy', problems, roles };
}
