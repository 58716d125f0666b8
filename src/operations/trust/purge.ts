// Purge: removes volumes of a stack, with the data in them. It asks nobody: whoever calls it has claimed a request for it. A volume is the
// one that was seen only if it was made at the same moment; another of its name is left alone, so that a purge can be finished after a crash.
import { Fault } from '../../core/fault.ts';
import type { Purge } from '../../core/spec/request.ts';
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
  const own = new Set([
    ...observed.volumes.filter((one) => one.project === stack).map((one) => one.name),
    ...orphans(house)
      .filter((one) => one.stack === stack)
      .map((one) => one.volume),
  ]);
  const names = request.volumes === 'all' ? [...own].sort() : request.volumes;
  const foreign = names.find((name) => !own.has(name) && observed.volumes.some((one) => one.name === name));
  if (foreign !== undefined) return { kind: 'wait', why: `the volume ${foreign} does not belong to stack ${stack}` };
  for (const one of observed.containers) {
    const used = one.mounts.find((mount) => mount.kind === 'volume' && names.includes(mount.name));
    if (used)
      return {
        kind: 'wait',
        why: `the volume ${used.name} is used by the container ${one.name}: remove the stack from the fleet first`,
      };
  }
  const volumes: { name: string; createdAt: string }[] = [];
  for (const name of names) {
    const found = await house.payloads.inspectVolume(name, signal);
    if (found) volumes.push({ name, createdAt: found.createdAt });
  }
  return { kind: 'plan', plan: { stack, volumes } };
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
