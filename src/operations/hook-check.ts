// Hook check: what hooks and jobs name, held against what the stack turned out to be once Compose resolved it. Before anything is changed.
import { flattened, type HookAction } from '../core/hook/action.ts';
import type { ContainerJob } from '../core/hook/job.ts';
import { mountOf } from '../core/hook/mount.ts';
import type { HookPhase } from '../core/hook/phase.ts';
import { renderHooks } from '../core/render/hooks.ts';
import type { Diagnostic } from '../core/spec/diagnostic.ts';
import type { LoadedStack } from '../core/spec/loaded.ts';
import { didYouMean, listed } from '../core/spec/suggest.ts';
import type { Applied } from '../core/state/applied.ts';
import type { Desired } from '../core/state/desired.ts';
import type { FleetAt } from './fleet-at.ts';

const known = new WeakMap<
  Desired,
  { readonly stack: LoadedStack; readonly atMs: number; readonly found: readonly Diagnostic[] }
>();

/** Every phase, whichever is due: a rollback or an uninstall is no time to find it out. */
export function hookDiagnostics(
  stack: LoadedStack,
  at: FleetAt,
  desired: Desired,
  applied: Applied | null,
): readonly Diagnostic[] {
  const phases = Object.keys(stack.hooks) as HookPhase[];
  if (phases.length === 0) return [];
  const before = known.get(desired);
  const atMs = applied?.atMs ?? 0;
  if (before?.stack === stack && before.atMs === atMs) return before.found;
  const found = phases.flatMap((phase) => {
    const { actions, diagnostics } = renderHooks(stack, at.fleet.stacks, phase);
    return [
      ...diagnostics,
      ...flattened(actions).flatMap((action) => mistakesOf(stack, phase, action, desired, applied)),
    ];
  });
  known.set(desired, { stack, atMs, found });
  return found;
}

function mistakesOf(
  stack: LoadedStack,
  phase: HookPhase,
  action: HookAction,
  desired: Desired,
  applied: Applied | null,
): readonly Diagnostic[] {
  const found: Diagnostic[] = [];
  const wrong = (code: string, summary: string, detail: string, help?: { readonly help?: string }): void => {
    const where = `${phase}, action ${action.id} (${action.name}): ${summary}`;
    found.push({ severity: 'error', code, summary: where, detail, ...help, place: stack.place, stack: stack.name });
  };
  const services = desired.services.map((one) => one.name);
  const mustKnow = (service: string, alive: readonly string[]): void => {
    if (!alive.includes(service))
      wrong(
        'SERVICE_UNKNOWN',
        `unknown service \`${service}\``,
        `expected one of ${listed(alive)}`,
        didYouMean(service, alive),
      );
  };
  // What runs before a change finds what is deployed.
  const deployed = phase.startsWith('pre_') ? (applied?.desired.services.map((one) => one.name) ?? []) : [];
  const either = [...new Set([...services, ...deployed])];
  switch (action.kind) {
    case 'scale':
      for (const [service, target] of Object.entries(action.targets)) {
        mustKnow(service, either);
        if (typeof target === 'number' && target > 0 && isOneShot(service, desired, applied) === true)
          wrong(
            'ONE_SHOT_SCALED',
            `\`${service}\` runs to its end once: scaled to ${target} it would run again`,
            'expected 0, "ref+hook://previous" or a service that keeps running',
            { help: 'write what is to run again as a job' },
          );
      }
      break;
    case 'wait-healthy':
      for (const service of action.services ?? []) mustKnow(service, either);
      break;
    case 'exec':
      mustKnow(action.service, either);
      break;
    case 'job':
      if (action.job.context === 'exec') mustKnow(action.job.service, either);
      // Made from what is deployed next, whatever runs now.
      if (action.job.context === 'container') {
        if (action.job.service !== null) mustKnow(action.job.service, services);
        namesOf(action.job, desired, wrong);
      }
      break;
    default:
  }
  return found;
}

/** Said so, or seen to have ended well when it was deployed; null = neither is known. */
export function isOneShot(service: string, desired: Desired, applied: Applied | null): boolean | null {
  const said = desired.services.find((one) => one.name === service)?.oneShot ?? null;
  const role = applied && Object.hasOwn(applied.roles, service) ? applied.roles[service] : undefined;
  return said ?? (role === undefined ? null : role === 'completed');
}

function namesOf(
  job: ContainerJob,
  desired: Desired,
  wrong: (code: string, summary: string, detail: string, help?: { readonly help?: string }) => void,
): void {
  const networks = desired.networks.map((one) => one.key);
  for (const network of job.networks ?? [])
    if (!networks.includes(network))
      wrong(
        'NETWORK_UNKNOWN',
        `unknown network \`${network}\``,
        `expected one of ${listed(networks)}`,
        didYouMean(network, networks),
      );
  const volumes = desired.volumes.map((one) => one.key);
  for (const text of job.volumes ?? []) {
    const mount = mountOf(text);
    if (mount?.kind === 'volume' && mount.source !== '' && !volumes.includes(mount.source))
      wrong(
        'VOLUME_UNKNOWN',
        `unknown volume \`${mount.source}\``,
        `expected one of ${listed(volumes)}`,
        didYouMean(mount.source, volumes),
      );
  }
}
