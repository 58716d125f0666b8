// `ref+env://NAME`: a variable of the controller's environment. Only what is named for it: everything else there is none of a fleet's business.
import { Fault } from '../../core/fault.ts';
import type { SecretProvider } from '../../ports/secret-providers.ts';

export const ENV_PREFIX = 'WINDLASS_SECRET_';

/** Open the vault itself, so no list can name them. */
const NEVER = new Set(['WINDLASS_AGE_KEY', 'WINDLASS_VAULT_TOKEN']);

export interface EnvSecretsInput {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Names beside those with the prefix. */
  readonly allowed: readonly string[];
  readonly redactor: { add(value: string): void };
}

export function envSecrets({ env, allowed, redactor }: EnvSecretsInput): SecretProvider {
  return {
    async read(name) {
      if (!/^[A-Za-z_][A-Za-z0-9_]{0,199}$/.test(name))
        throw new Fault('SECRET_REFUSED', `ref+env://${name.slice(0, 80)} names no variable: letters, digits and _`);
      if (NEVER.has(name) || !(name.startsWith(ENV_PREFIX) || allowed.includes(name)))
        throw new Fault(
          'SECRET_REFUSED',
          `ref+env://${name} may not be read: ${
            NEVER.has(name)
              ? 'it opens the vault'
              : `call the variable ${ENV_PREFIX}${name}, or list ${name} under secrets.environment in windlass.yaml`
          }`,
          { data: { name } },
        );
      const value = env[name];
      if (value === undefined || value === '') return null;
      redactor.add(value);
      return value;
    },
  };
}
