// Purge: removes volumes of a stack, with the data in them. It asks nobody: whoever calls it has claimed a request for it. A volume is the
// one that was seen only if it was made at the same moment; another of its name is left alone, so that a purge can be finished after a crash.
import { Fault } from '../../core/fault.ts';
import type { LoadedFleet } from '../../core/spec/loaded.ts';
import type { Purge } from '../../core/spec/request.ts';
import type { Observed, ObservedVolume } from '../../core/state/observed.ts';
import { canonicalJson, sha256 } from '../../engine/digest.ts';
import { forgetKept, forgetVolumes } from '../archive/generations.ts';
import { liveFleet } from '../archive/plan-restore.ts';
import { forgetByRequest, wasMade } from '../by-request.ts';
import { everDeployed, leftOf } from '../gone.ts';
import type { House } from '../house.ts';
import { Look } from '../look.ts';
import { orphans } from '../uninstall.ts';
import { Workbench } from '../workbench.ts';

export interface PurgePlan {
  readonly stack: string;
  readonly volumes: readonly { readonly name: string; readonly createdAt: string }[];
}

export const purgeDigest = (plan: PurgePlan): string =>
  sha256(canonicalJson({ operation: 'purge', stack: plan.stack, volumes: plan.volumes }));

export type PurgeFacts =
  | { readonly kind: 'plan'; readonly plan: PurgePlan }
  /** Nothing may be done now; the request is not spent. */
  | { readonly kind: 'wait'; readonly why: string };

type Asked =
  | { readonly kind: 'names'; readonly names: ReadonlySet<string>; readonly observed: Observed }
  | { readonly kind: 'wait'; readonly why: string };

/** Which volumes of the engine it means, whatever uses them now. Reads only. */
export async function volumesAsked(house: House, look: Look, request: Purge): Promise<Asked> {
  const { observed } = await look.fresh('known');
  const { stack } = request;
  const orphaned = new Set(orphans(house).flatMap((one) => (one.stack === stack ? [one.volume] : [])));
  const own = observed.volumes.filter((one) => one.project === stack || orphaned.has(one.name));
  const names = new Set<string>();
  for (const asked of request.volumes === 'all' ? own.map((one) => one.name) : request.volumes) {
    const found = named(asked, own);
    // Nothing is spent by a slip of the pen: the request would be gone, and the data still there.
    if (found.length === 0)
      return {
        kind: 'wait',
        why: notOwn(
          asked,
          stack,
          own,
          observed.volumes.some((one) => one.name === asked),
        ),
      };
    const [first] = found;
    if (found.some((one) => one.key !== first?.key))
      return {
        kind: 'wait',
        why: `${asked} is the name of one volume of stack ${stack} and the Compose key of another: ${list(found)}`,
      };
    for (const { name } of found) names.add(name);
  }
  if (names.size === 0) return { kind: 'wait', why: `the engine holds no volume of stack ${stack}` };
  return { kind: 'names', names, observed };
}

/** Reads only. */
export async function planPurge(house: House, look: Look, request: Purge, signal: AbortSignal): Promise<PurgeFacts> {
  if (!house.payloads) throw new Fault('USAGE', 'volumes cannot be reached on this engine');
  const asked = await volumesAsked(house, look, request);
  if (asked.kind === 'wait') return asked;
  const { stack } = request;
  const { names, observed } = asked;
  for (const one of observed.containers) {
    const used = one.mounts.find((mount) => mount.kind === 'volume' && names.has(mount.name));
    if (used) {
      const fleet = one.project === stack ? await fleetOf(house) : null;
      const isLeft = fleet !== null && leftOf(fleet, everDeployed(house.store)).some((left) => left.stack === stack);
      const first = isLeft
        ? `\`windlass prune ${stack}\` takes its containers away`
        : 'remove the stack from the fleet';
      return { kind: 'wait', why: `the volume ${used.name} is used by the container ${one.name}: ${first} first` };
    }
  }
  const volumes: { name: string; createdAt: string }[] = [];
  for (const name of [...names].sort()) {
    const found = await house.payloads.inspectVolume(name, signal);
    if (found) volumes.push({ name, createdAt: found.createdAt });
  }
  return { kind: 'plan', plan: { stack, volumes } };
}

/** The volumes that a request means by one word: the name of the engine, or the key of the Compose file, which stands for every generation
 * that restores have made of it. */
const named = (asked: string, own: readonly ObservedVolume[]): readonly ObservedVolume[] =>
  own.filter((one) => one.name === asked || one.key === asked);

const list = (volumes: readonly ObservedVolume[]): string =>
  volumes
    .map(({ name, key }) => (key === '' || key === name ? name : `${key} (${name})`))
    .sort()
    .join(', ');

function notOwn(asked: string, stack: string, own: readonly ObservedVolume[], isForeign: boolean): string {
  if (isForeign) return `the volume ${asked} does not belong to stack ${stack}`;
  const there = own.length === 0 ? 'the engine holds none of it' : `it has ${list(own)}`;
  return `stack ${stack} has no volume ${asked}; ${there}`;
}

/** A second call finishes what the first left. Names of the volumes that are gone now. */
export async function purge(house: House, plan: PurgePlan, signal: AbortSignal): Promise<readonly string[]> {
  const { payloads, store } = house;
  if (!payloads) throw new Fault('USAGE', 'volumes cannot be reached on this engine');
  for (const { name, createdAt } of plan.volumes) {
    signal.throwIfAborted();
    const found = await payloads.inspectVolume(name, signal);
    if (found !== null && found.createdAt !== createdAt)
      throw new Fault('PLAN_STALE', `the volume ${name} is another one than the approved one`, {
        data: { volume: name },
      });
    if (found !== null) await payloads.removeVolume(name, signal);
    store.deleteValue(`orphaned/${name}`);
    forgetKept(store, name);
  }
  await forgetEmptied(house, plan.stack);
  return plan.volumes.map((one) => one.name);
}

/** Of what git does not declare, nothing is to come up empty once the last of it is gone. */
async function forgetEmptied(house: House, stack: string): Promise<void> {
  const { store } = house;
  const fleet = await fleetOf(house);
  if (fleet === null || fleet.stacks.has(stack) || fleet.broken.has(stack)) return;
  const record = everDeployed(store).find((one) => one.stack === stack);
  const project = record?.project ?? stack;
  const { observed } = await new Look(house.runtime).fresh('known');
  if ([...observed.containers, ...observed.volumes].some((one) => one.project === project)) return;
  if (record === undefined) forgetVolumes(store, stack);
  else if (wasMade(store, record)) forgetByRequest(store, stack, true);
}

/** Null while it cannot be read: then it is not known what is declared. */
async function fleetOf(house: House): Promise<LoadedFleet | null> {
  const live = await liveFleet(new Workbench(house)).catch(() => null);
  const isWhole = live?.fleet.diagnostics.every((one) => one.severity !== 'error');
  return live !== null && isWhole === true ? live.fleet : null;
}
