// Opens the secret references of one stack, in memory, at the moment of a resolve. Makes a value only for who deploys: everybody else
// is told what is still to be minted, and the reference stays closed.
import { createHash } from 'node:crypto';
import { Fault } from '../core/fault.ts';
import type { SecretRef } from '../core/render/render.ts';
import type { Listing } from '../core/state/listing.ts';
import type { SecretProvider } from '../ports/secret-providers.ts';
import type { House } from './house.ts';

export interface OpenedSecrets {
  /** Ref → value. A ref that is still to be minted has none. */
  readonly values: ReadonlyMap<string, string>;
  readonly unminted: readonly SecretRef[];
}

/** Ref → what names its value without telling it; null = still to be minted. */
export type SecretMarks = Readonly<Record<string, string | null>>;

type Vaults = Pick<House, 'vault' | 'providers'>;

/** Throws when a value cannot be had: a secret is never replaced by an empty string. */
export async function openSecrets(
  house: Vaults,
  at: Listing,
  secrets: readonly SecretRef[],
  options: { readonly mint: boolean },
): Promise<OpenedSecrets> {
  const values = new Map<string, string>();
  const unminted: SecretRef[] = [];
  for (const secret of secrets) {
    const { ref, key, scopes, policy } = secret;
    let value: string | null;
    if (secret.scheme === 'vault') {
      const vault = vaultOf(house);
      value = await vault.find(key, scopes);
      if (value === null && policy !== null) {
        if (!options.mint) {
          unminted.push(secret);
          continue;
        }
        value = await vault.mint(key, scopes[0] ?? 'fleet', policy);
      }
    } else value = await providerOf(house, secret).read(key, at);
    if (value === null) throw missing(secret);
    values.set(ref, value);
  }
  return { values, unminted };
}

/** Throws like `openSecrets`, but opens nothing that has a mark. */
export async function markSecrets(
  house: Vaults,
  at: Listing,
  secrets: readonly SecretRef[],
  salt: string,
): Promise<SecretMarks> {
  const marks: Record<string, string | null> = {};
  for (const secret of secrets) {
    const { ref, key, scopes } = secret;
    if (secret.scheme === 'vault') marks[ref] = await vaultOf(house).mark(key, scopes);
    else {
      const provider = providerOf(house, secret);
      if (provider.mark) marks[ref] = await provider.mark(key, at);
      else {
        const value = await provider.read(key, at);
        marks[ref] = value === null ? null : createHash('sha256').update(`${salt}\0${value}`).digest('hex');
      }
    }
    if (marks[ref] === null && secret.policy === null) throw missing(secret);
  }
  return marks;
}

function vaultOf(house: Vaults): NonNullable<House['vault']> {
  if (!house.vault) throw new Fault('VAULT_UNREACHABLE', 'there is no vault');
  return house.vault;
}

function providerOf(house: Vaults, { scheme, ref, stack }: SecretRef): SecretProvider {
  const provider = house.providers?.[scheme as 'env'];
  if (!provider) throw new Fault('USAGE', `there is no provider for the secret reference ${ref} of stack ${stack}`);
  return provider;
}

function missing({ scheme, ref, key, stack }: SecretRef): Fault {
  return new Fault(
    scheme === 'vault' ? 'VAULT_SECRET_MISSING' : 'SECRET_MISSING',
    scheme === 'vault'
      ? `the vault holds no secret ${key} for stack ${stack}`
      : `there is no value for the secret reference ${ref} of stack ${stack}`,
    { data: { key } },
  );
}
