// Drill vault: secrets of a rehearsal, in memory alone. It knows nothing but what the archive held, so that a drill proves that the archive is
// enough, and nothing that it mints is ever anybody's secret.
import { Fault } from '../../core/fault.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Scope, Vault } from '../../ports/vault.ts';

export function drillVault(clock: Clock, hide: (value: string) => void): Vault {
  const held = new Map<string, { readonly value: string; readonly mark: string; readonly atMs: number }>();
  const at = (key: string, scope: Scope): string => `${scope} ${key}`;
  const first = (key: string, scopes: readonly Scope[]) =>
    scopes.map((scope) => held.get(at(key, scope))).find((one) => one !== undefined) ?? null;
  const put = (key: string, scope: Scope, value: string): void => {
    hide(value);
    held.set(at(key, scope), { value, mark: `drill ${clock.id()}`, atMs: clock.nowMs() });
  };
  return {
    find: async (key, scopes) => first(key, scopes)?.value ?? null,
    mark: async (key, scopes) => first(key, scopes)?.mark ?? null,
    // What would be minted by a restore was not in the archive: its data would be sealed with a secret that is lost.
    mint: async (key, scope) => {
      const known = held.get(at(key, scope));
      if (known) return known.value;
      throw new Fault('VAULT_SECRET_MISSING', `the archive does not hold the secret ${key} of ${scope}`);
    },
    put: async (key, scope, value) => put(key, scope, value),
    remove: async (key, scope) => held.delete(at(key, scope)),
    list: async () =>
      [...held].map(([name, { atMs }]) => {
        const [scope = '', key = ''] = name.split(' ');
        return { key, scope: scope as Scope, updatedAtMs: atMs };
      }),
  };
}
