// Vault values of an archive: opened in memory, put under the name of the target, and seen by a plan as if they were in the vault already.
import type { Manifest } from '../../core/archive/manifest.ts';
import { Fault } from '../../core/fault.ts';
import type { Clock } from '../../ports/clock.ts';
import type { Scope, Vault } from '../../ports/vault.ts';
import type { House } from '../house.ts';
import { readWhole } from './archive-source.ts';
import { scopeFor } from './made-stack.ts';

export interface VaultValue {
  readonly scope: string;
  readonly key: string;
  readonly value: string;
}

/** In memory only. Throws VAULT_KEY_WRONG when this controller is no recipient. */
export async function openVaultValues(
  { archives, vault, envelope, hide }: House,
  { vault: sealed }: Manifest,
  signal: AbortSignal,
): Promise<readonly VaultValue[]> {
  if (sealed.sealed === null) return [];
  if (!vault || !envelope || !archives)
    throw new Fault('VAULT_UNREACHABLE', 'there is no vault for the secrets of the archive');
  const { digest, sizeBytes } = sealed.sealed;
  const text = (await readWhole(archives.store, digest, sizeBytes, signal)).toString('utf8');
  const invalid = () => new Fault('ARCHIVE_INVALID', 'the sealed secrets of the archive are malformed');
  let values: unknown;
  try {
    values = JSON.parse(await envelope.open(text));
  } catch (error) {
    if (error instanceof Fault) throw error;
    throw invalid();
  }
  const isValue = (one: Partial<VaultValue> | null): one is VaultValue =>
    typeof one?.scope === 'string' &&
    /^(?:(?:stack|group)\/[a-z0-9][a-z0-9_-]{0,62}|fleet)$/.test(one.scope) &&
    typeof one.key === 'string' &&
    typeof one.value === 'string';
  if (!Array.isArray(values) || !values.every(isValue)) throw invalid();
  const named = new Set(sealed.keys.map(({ scope, key }) => `${scope} ${key}`));
  if (values.length !== named.size || !values.every(({ scope, key }) => named.has(`${scope} ${key}`))) throw invalid();
  for (const { value } of values) hide(value);
  return values;
}

export interface VaultWrite {
  readonly scope: Scope;
  readonly key: string;
  readonly value: string;
  /** Of a group or the fleet: only where there is none. */
  readonly isOthers: boolean;
}

export interface VaultBefore {
  readonly scope: Scope;
  readonly key: string;
  readonly value: string | null;
}

/** What belongs to a group or the fleet is others' too and may be another one by now: it is put back only where there is none, and the
 * target gets one of its own. */
export function vaultWrites(values: readonly VaultValue[], stack: string, target: string): readonly VaultWrite[] {
  const own: Scope = `stack/${target}`;
  const writes = values.map(({ scope, key, value }): VaultWrite => {
    const to = scopeFor(scope, stack, target) as Scope;
    return { scope: to, key, value, isOthers: to !== own };
  });
  const hasOwn = new Set(writes.filter((one) => !one.isOthers).map((one) => one.key));
  const copies = writes.filter((one) => one.isOthers && !hasOwn.has(one.key));
  return [...writes, ...copies.map((one) => ({ ...one, scope: own, isOthers: false }))];
}

/** The vault as it will be. Nothing is written; a mark of what is not there yet equals no other. */
export function vaultWith(vault: Vault, writes: readonly VaultWrite[], clock: Clock): Vault {
  const written = (key: string, scope: Scope, isOthers: boolean) =>
    writes.find((one) => one.key === key && one.scope === scope && one.isOthers === isOthers)?.value ?? null;
  const refuse = (): Promise<never> => Promise.reject(new Error('a plan writes nothing into the vault'));
  return {
    async find(key, scopes) {
      for (const scope of scopes) {
        const value = written(key, scope, false) ?? (await vault.find(key, [scope])) ?? written(key, scope, true);
        if (value !== null) return value;
      }
      return null;
    },
    async mark(key, scopes) {
      for (const scope of scopes) {
        if (written(key, scope, false) !== null) return `planned ${clock.id()}`;
        const mark = await vault.mark(key, [scope]);
        if (mark !== null) return mark;
        if (written(key, scope, true) !== null) return `planned ${clock.id()}`;
      }
      return null;
    },
    mint: refuse,
    put: refuse,
    remove: refuse,
    list: () => vault.list(),
  };
}
