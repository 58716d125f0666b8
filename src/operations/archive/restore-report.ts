// Restore report: the restored stack beside what its archive says, field by field, in words and without a secret. Reads only, changes nothing.
import type { Manifest } from '../../core/archive/manifest.ts';
import { projectContainers } from '../../core/diff/diff.ts';
import { parseMint } from '../../core/spec/ref.ts';
import type { VolumeOwner } from '../../core/state/desired.ts';
import { canonicalJson } from '../../engine/digest.ts';
import type { Judged } from '../survey.ts';
import type { Workbench } from '../workbench.ts';
import { scopeFor, varOf } from './made-stack.ts';
import type { RestorePlan } from './plan-restore.ts';
import { openVaultValues } from './vault-values.ts';

export interface RestoreReport {
  readonly same: number;
  /** `field: what the archive says → what is`. */
  readonly differing: readonly string[];
}

export async function reportRestore(
  bench: Workbench,
  plan: RestorePlan,
  manifest: Manifest,
  { stack, resolved }: Judged,
  signal: AbortSignal,
): Promise<RestoreReport> {
  const { house } = bench;
  let same = 0;
  const differing: string[] = [];
  const compare = (field: string, before: unknown, now: unknown, shown = true): void => {
    const [left, right] = [before ?? null, now ?? null].map((one) => canonicalJson(one)) as [string, string];
    if (left === right) same++;
    else differing.push(shown ? `${field}: ${left} → ${right}` : `${field}: another value`);
  };
  const each = (
    what: string,
    before: Readonly<Record<string, unknown>>,
    now: Readonly<Record<string, unknown>>,
  ): void => {
    for (const key of new Set([...Object.keys(before), ...Object.keys(now)]))
      compare(`${what} ${key}`, before[key], now[key]);
  };
  each('ports', manifest.ports, { ...stack.ports, ...plan.made.ports });
  each('replicas', manifest.replicas, stack.replicas);
  each(
    'plug',
    Object.fromEntries(Object.entries(manifest.integrate).map(([plug, { provider }]) => [plug, provider])),
    stack.integrate,
  );
  for (const name of new Set([...Object.keys(manifest.vars), ...Object.keys(stack.vars)])) {
    const [one, now] = [manifest.vars[name], stack.vars[name]];
    if (one === undefined) differing.push(`var ${name}: not in the archive`);
    else if (one.kind === 'secret' && isMinted(now)) differing.push(`var ${name}: minted anew`);
    else compare(`var ${name}`, varOf(one, manifest, plan.target), now, false);
  }
  if (manifest.app && stack.layout.kind === 'app') compare('app', manifest.app.version, stack.layout.app.version);
  const containers = projectContainers(await bench.look.fresh('known'), resolved.desired.project);
  for (const { service, reference, imageId } of manifest.images) {
    const running = containers.filter((one) => one.service === service);
    if (imageId === null) continue;
    for (const one of running) compare(`image ${reference} of ${one.name}`, imageId, one.imageId);
  }
  // By key: the name in the engine is that of a generation.
  const owners = (list: readonly VolumeOwner[], volumes: readonly { readonly key: string; readonly name: string }[]) =>
    Object.fromEntries(
      list.map(({ volume, mode, uid, gid }) => [
        volumes.find((one) => one.name === volume)?.key ?? volume,
        { mode, uid, gid },
      ]),
    );
  each(
    'owner of',
    owners(manifest.owners, manifest.volumes),
    owners(resolved.desired.owners, resolved.desired.volumes),
  );
  if (house.vault && plan.vaultKeys.length > 0)
    for (const { scope, key, value } of await openVaultValues(house, manifest, signal)) {
      const at = scopeFor(scope, plan.stack, plan.target) as Parameters<typeof house.vault.find>[1][number];
      compare(`secret ${key} of ${at}`, value, await house.vault.find(key, [at]), false);
    }
  // Each was read again after it was written, and found to be what was captured.
  same += plan.volumes.filter((one) => one.payload !== null).length + plan.folders.length;
  return { same, differing };
}

const isMinted = (value: unknown): boolean => typeof value === 'string' && parseMint(value) !== null;

export const formatReport = ({ same, differing }: RestoreReport): string =>
  `${same} fields are the same${differing.length === 0 ? ', none differs' : `; ${differing.length} differ: ${differing.join('; ')}`}`;
