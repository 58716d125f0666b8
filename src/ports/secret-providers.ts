// Secret providers: where the values of `ref+env`, `ref+file` and `ref+sops` come from. They only read; what is minted is the vault's.
import type { Listing } from '../core/state/listing.ts';

export interface SecretProvider {
  /** The value at `path`, as the ref spells it after `://`. Null when there is none; throws a Fault with the cure when it may not be read. */
  read(path: string, at: Listing): Promise<string | null>;
  /** A mark that is another one when the value may have changed; not a secret. Without it the value itself is compared, hashed. */
  mark?(path: string, at: Listing): Promise<string | null>;
}

export type SecretProviders = Readonly<Partial<Record<'env' | 'file' | 'sops', SecretProvider>>>;
