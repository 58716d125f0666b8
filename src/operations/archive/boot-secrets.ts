// Boot secrets: a first boot reads and mints the secrets of its target, so that what its data is made with is what the target reads. On
// record, so that whoever takes up its jobs after a crash finds the same ones.
import type { Store } from '../../ports/store.ts';
import type { Scope, Vault } from '../../ports/vault.ts';

const targetKey = (boot: string): string => `secrets-of/${boot}`;

/** From now on the secrets of the stack `boot` are those of `target`; null: its own again. */
export function putSecretsOf(store: Pick<Store, 'putValue' | 'deleteValue'>, boot: string, target: string | null) {
  if (target === null) store.deleteValue(targetKey(boot));
  else store.putValue(targetKey(boot), target);
}

/** The same vault, as all stacks see it. What people put, remove or list is under its own name. */
export function vaultOfStacks(vault: Vault, store: Pick<Store, 'value'>): Vault {
  const meant = (scope: Scope): Scope => {
    const target = scope.startsWith('stack/') ? store.value(targetKey(scope.slice('stack/'.length))) : undefined;
    return typeof target === 'string' ? `stack/${target}` : scope;
  };
  return {
    find: (key, scopes) => vault.find(key, scopes.map(meant)),
    mark: (key, scopes) => vault.mark(key, scopes.map(meant)),
    mint: (key, scope, policy) => vault.mint(key, meant(scope), policy),
    put: (key, scope, value) => vault.put(key, scope, value),
    remove: (key, scope) => vault.remove(key, scope),
    list: () => vault.list(),
  };
}
