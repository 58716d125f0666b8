// Opens the secret references of one stack, in memory, at the moment of a resolve. Find-or-create for what the app asks to be minted.
import { Fault } from '../core/fault.ts';
import type { SecretRef } from '../core/render/render.ts';
import type { LoadedStack } from '../core/spec/loaded.ts';
import type { House } from './house.ts';

/** Ref → value. Throws when one cannot be had: a secret is never replaced by an empty string. */
export async function openSecrets(
  house: Pick<House, 'vault'>,
  stack: LoadedStack,
  secrets: readonly SecretRef[],
  refs: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const values = new Map<string, string>();
  const byRef = new Map(secrets.map((secret) => [secret.ref, secret]));
  for (const ref of new Set(refs)) {
    const secret = byRef.get(ref);
    if (secret?.scheme !== 'vault')
      throw new Fault('USAGE', `there is no provider for the secret reference ${ref} of stack ${stack.name}`);
    if (!house.vault) throw new Fault('VAULT_UNREACHABLE', 'there is no vault');
    const { key, scopes, policy } = secret;
    const found = await house.vault.find(key, scopes);
    const value = found ?? (policy ? await house.vault.mint(key, scopes[0] ?? 'fleet', policy) : null);
    if (value === null)
      throw new Fault('VAULT_SECRET_MISSING', `the vault holds no secret ${key} for stack ${secret.stack}`, {
        data: { key },
      });
    values.set(ref, value);
  }
  return values;
}
