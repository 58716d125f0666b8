// Hook check: what hooks and jobs name, held against what the stack turned out to be once Compose resolved it. Before anything is changed.
import { flattened, type HookAction } from '../core/hook/action.ts';
import type { ContainerJob } from '../core/hook/job.ts';
import { mountOf } from '../core/hook/mount.ts';
import { type HookPhase, isPre } from '../core/hook/phase.ts';
import { renderHooks, renderMistakes } from '../core/render/hooks.ts';
import { unknownService } from '../core/spec/catalog.ts';
import { sorted } from '../core/spec/check.ts';
import type { Diagnostic } from '../core/spec/diagnostic.ts';
import type { LoadedStack } from '../core/spec/loaded.ts';
import { didYouMean, listed } from '../core/spec/suggest.ts';
import type { Applied } from '../core/state/applied.ts';
import type { Desired } from '../core/state/desired.ts';
import type { FleetAt } from './fleet-at.ts';
import { placeOf, type Spot } from './hook-place.ts';
import type { House } from './house.ts';

const known = new WeakMap<
  Desired,
  { readonly stack: LoadedStack; readonly atMs: number; readonly found: readonly Diagnostic[] }
>();

/** What is wrong, and what to look up for its place. */
type Wrong = Omit<Diagnostic, 'place' | 'stack'> & { readonly spot: Spot };

/** Every phase, whichever is due: a rollback or an uninstall is no time to find it out. */
export async function hookDiagnostics(
  house: House,
  stack: LoadedStack,
  at: FleetAt,
  desired: Desired,
): Promise<readonly Diagnostic[]> {
  if (Object.keys(stack.hooks).length === 0) return [];
  const applied = house.store.applied(stack.name);
  const before = known.get(desired);
  const atMs = applied?.atMs ?? 0;
  if (before?.stack === stack && before.atMs === atMs) return before.found;
  const found = [
    ...renderMistakes(stack, at.fleet.stacks),
    ...(await unfitNames(house, stack, at, desired, { applied })),
  ];
  known.set(desired, { stack, atMs, found });
  return found;
}

/** The same for who knows the declaration only (`applied` null = what is deployed is not known), without what rendering the hooks says.
 * What runs before a change may then name what only the deployed stack has: a warning. */
export async function unfitNames(
  house: Pick<House, 'source' | 'settings'>,
  stack: LoadedStack,
  at: FleetAt,
  desired: Desired,
  deployed: { readonly applied: Applied | null } | null,
): Promise<readonly Diagnostic[]> {
  const applied = deployed?.applied ?? null;
  const found = (Object.keys(stack.hooks) as HookPhase[]).flatMap((phase) =>
    flattened(renderHooks(stack, at.fleet.stacks, phase).actions).flatMap((action) =>
      mistakesOf(phase, action, desired, applied, deployed === null && isPre(phase) ? 'warning' : 'error').map(
        (one) => ({ ...one, where: `${phase}, action ${action.id} (${action.name})` }),
      ),
    ),
  );
  const placed = found.map(async ({ spot, where, ...one }): Promise<Diagnostic> => {
    const place = await placeOf(house, stack, at, spot);
    return place === null
      ? { ...one, summary: `${where}: ${one.summary}`, place: stack.place, stack: stack.name }
      : { ...one, place, stack: stack.name };
  });
  // A job of several phases is wrong once.
  return sorted(await Promise.all(placed));
}

function mistakesOf(
  phase: HookPhase,
  action: HookAction,
  desired: Desired,
  applied: Applied | null,
  severity: Diagnostic['severity'],
): readonly Wrong[] {
  const found: Wrong[] = [];
  const services = desired.services.map((one) => one.name);
  const mustKnow = (service: string, alive: readonly string[], spot: Spot, as: Diagnostic['severity']): void => {
    if (!alive.includes(service)) found.push({ ...unknownService(service, alive, undefined, as), spot });
  };
  const here = (path: Spot['path'], of: Spot['of'] = 'value'): Spot => ({
    in: 'action',
    phase,
    id: action.id,
    path,
    of,
  });
  // What runs before a change finds what is deployed.
  const deployed = isPre(phase) ? (applied?.desired.services.map((one) => one.name) ?? []) : [];
  const either = [...new Set([...services, ...deployed])];
  switch (action.kind) {
    case 'scale':
      for (const [service, target] of Object.entries(action.targets)) {
        const spot = here(['scale', service], 'key');
        mustKnow(service, either, spot, severity);
        if (typeof target === 'number' && target > 0 && isOneShot(service, desired, applied) === true)
          found.push({
            severity: 'error',
            code: 'ONE_SHOT_SCALED',
            summary: `\`${service}\` runs to its end once: scaled to ${target} it would run again`,
            detail: 'expected 0, "ref+hook://previous" or a service that keeps running',
            help: 'write what is to run again as a job',
            spot,
          });
      }
      break;
    case 'wait-healthy':
      // One service may stand there without a list: then its place is that of the whole.
      for (const [at, service] of (action.services ?? []).entries())
        mustKnow(service, either, here(['wait-healthy', at]), severity);
      break;
    case 'exec':
      mustKnow(action.service, either, here(['exec', 'service']), severity);
      break;
    case 'job': {
      const { job } = action;
      const spot: Spot = { in: 'job', job: job.name, path: ['service'], of: 'value' };
      if (job.context === 'exec') mustKnow(job.service, either, spot, severity);
      // Made from what is deployed next, whatever runs now.
      if (job.context === 'container') {
        if (job.service !== null) mustKnow(job.service, services, spot, 'error');
        found.push(...unknownParts(job, desired));
      }
      break;
    }
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

/** Networks and volumes of the project that a job asks for and that there are not. */
function unknownParts(job: ContainerJob, desired: Desired): readonly Wrong[] {
  const found: Wrong[] = [];
  const mustKnow = (what: 'network' | 'volume', name: string, there: readonly string[], at: number): void => {
    if (there.includes(name)) return;
    found.push({
      severity: 'error',
      code: what === 'network' ? 'NETWORK_UNKNOWN' : 'VOLUME_UNKNOWN',
      summary: `unknown ${what} \`${name}\``,
      detail: there.length > 0 ? `expected one of ${listed(there)}` : `the project declares no ${what}s`,
      ...didYouMean(name, there),
      spot: { in: 'job', job: job.name, path: [`${what}s`, at], of: 'value' },
    });
  };
  const networks = desired.networks.map((one) => one.key);
  for (const [at, network] of (job.networks ?? []).entries()) mustKnow('network', network, networks, at);
  const volumes = desired.volumes.map((one) => one.key);
  for (const [at, text] of (job.volumes ?? []).entries()) {
    const mount = mountOf(text);
    if (mount?.kind === 'volume' && mount.source !== '') mustKnow('volume', mount.source, volumes, at);
  }
  return found;
}
