// Opens the secret references of one stack, in memory, at the moment of a resolve. Find-or-create for what the app asks to be minted.
import { Fault } from '../core/fault.ts';
import type { SecretRef } from '../core/render/render.ts';
import type { LoadedStack } from '../core/spec/loaded.ts';
import type { Scope } from '../ports/vault.ts';
import type { House } from './house.ts';

/** Ref → value. Throws when one cannot be had: a secret is never replaced by an empty string. */
export async function openSecrets(
  house: Pick<House, 'vault'>,
  stack: LoadedStack,
  minted: readonly SecretRef[],
  refs: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const values = new Map<string, string>();
  const policies = new Map(minted.map((secret) => [secret.ref, secret]));
  for (const ref of new Set(refs)) {
    const match = /^ref\+([a-z][a-z0-9-]*):\/\/(.+)$/.exec(ref);
    if (match?.[1] !== 'vault') throw new Fault('USAGE', `no provider for the secret reference ${ref}`);
    if (!house.vault) throw new Fault('VAULT_UNREACHABLE', 'there is no vault');
    const { scopes, key } = scopedKey(match[2] ?? '', stack);
    const policy = policies.get(ref)?.policy;
    const found = await house.vault.find(key, scopes);
    const value = found ?? (policy ? await house.vault.mint(key, scopes[0] ?? 'fleet', policy) : null);
    if (value === null)
      throw new Fault('VAULT_SECRET_MISSING', `the vault holds no secret ${key} for stack ${stack.name}`, {
        data: { key },
      });
    values.set(ref, value);
  }
  return values;
}

/** `stack/<name>/<key>`, `group/<name>/<key>` and `fleet/<key>` name one scope; a bare key is looked up in stack, group, fleet. */
function scopedKey(path: string, stack: LoadedStack): { scopes: readonly Scope[]; key: string } {
  const scoped = /^(stack|group)\/([^/]+)\/(.+)$/.exec(path);
  if (scoped) return { scopes: [`${scoped[1]}/${scoped[2]}` as Scope], key: scoped[3] ?? '' };
  if (path.startsWith('fleet/')) return { scopes: ['fleet'], key: path.slice('fleet/'.length) };
  const group: Scope[] = stack.group ? [`group/${stack.group}`] : [];
  return { scopes: [`stack/${stack.name}`, ...group, 'fleet'], key: path };
}
