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
  /** Of a value that came from a group or the fleet, which holds another one by now. */
  readonly copyOf?: Scope;
}

/** What the vault holds before anything of the archive is put into it. */
export interface VaultBefore {
  readonly scope: Scope;
  readonly key: string;
  readonly value: string | null;
  /** What is put where a group or the fleet had none: another one that is found there later is a person's. */
  readonly written?: string;
  /** Nothing is written there, so nothing is to be brought back. */
  readonly isSpared?: boolean;
}

/** What is taken out of an archive, for whom. */
export interface VaultContent {
  readonly values: readonly VaultValue[];
  readonly stack: string;
  readonly target: string;
  /** Its secrets hide those of the fleet. */
  readonly group: string | null;
}

/** What belongs to a group or the fleet is others' too. It is put back where there is none, and left alone where it is the same: whoever
 * changes it later reaches the target as well. Where the target would read another value, it gets a copy of its own. */
export async function vaultWrites(
  { values, stack, target, group }: VaultContent,
  find: (key: string, scope: Scope) => Promise<string | null>,
): Promise<{ readonly writes: readonly VaultWrite[]; readonly before: readonly VaultBefore[] }> {
  const own: Scope = `stack/${target}`;
  const placed = values.map((one) => ({ ...one, scope: scopeFor(one.scope, stack, target) as Scope }));
  const writes: VaultWrite[] = placed.filter((one) => one.scope === own).map((one) => ({ ...one, isOthers: false }));
  const hasOwn = new Set(writes.map((one) => one.key));
  const before: VaultBefore[] = [];
  const look = async (key: string, scope: Scope): Promise<string | null> => {
    const known = before.find((one) => one.key === key && one.scope === scope);
    if (known) return known.value;
    const value = await find(key, scope);
    before.push({ scope, key, value });
    return value;
  };
  for (const { key } of writes) await look(key, own);
  for (const { scope, key, value } of placed.filter((one) => one.scope !== own)) {
    const there = await look(key, scope);
    if (there === null) writes.push({ scope, key, value, isOthers: true });
    if (hasOwn.has(key)) continue;
    const nearer: readonly Scope[] = scope === 'fleet' && group !== null ? [own, `group/${group}`] : [own];
    const found: (string | null)[] = [];
    for (const one of nearer) found.push(await look(key, one));
    const read = [...found, there].find((one) => one !== null) ?? value;
    if (read !== value) writes.push({ scope: own, key, value, isOthers: false, copyOf: scope });
  }
  const noted = (one: VaultBefore): VaultBefore => {
    const write = writes.find(({ scope, key }) => scope === one.scope && key === one.key);
    if (write === undefined) return { ...one, isSpared: true };
    return write.isOthers ? { ...one, written: write.value } : one;
  };
  return { writes, before: before.map(noted) };
}

/** For people. */
export const copiesTold = (
  writes: readonly VaultWrite[],
): readonly { readonly item: string; readonly state: string }[] =>
  writes.flatMap(({ key, copyOf, scope }) =>
    copyOf === undefined
      ? []
      : [
          {
            item: `secret ${key}`,
            state: `came from ${copyOf}; another value is read there by now, so ${scope} has a copy of its own, which a change in ${copyOf} does not reach`,
          },
        ],
  );

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
