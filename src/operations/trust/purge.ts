// Purge: removes volumes of a stack, with the data in them. It asks nobody: whoever calls it has claimed a request for it. A volume is the
// one that was seen only if it was made at the same moment; another of its name is left alone, so that a purge can be finished after a crash.
import { Fault } from '../../core/fault.ts';
import type { Purge } from '../../core/spec/request.ts';
import type { ObservedVolume } from '../../core/state/observed.ts';
import { canonicalJson, sha256 } from '../../engine/digest.ts';
import type { House } from '../house.ts';
import type { Look } from '../look.ts';
import { orphans } from '../uninstall.ts';

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

/** Reads only. */
export async function planPurge(house: House, look: Look, request: Purge, signal: AbortSignal): Promise<PurgeFacts> {
  if (!house.payloads) throw new Fault('USAGE', 'volumes cannot be reached on this engine');
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
  for (const one of observed.containers) {
    const used = one.mounts.find((mount) => mount.kind === 'volume' && names.has(mount.name));
    if (used)
      return {
        kind: 'wait',
        why: `the volume ${used.name} is used by the container ${one.name}: remove the stack from the fleet first`,
      };
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
  }
  return plan.volumes.map((one) => one.name);
}
