// Vault: the secret store. Values leave it only into memory; everything that goes out of the process is redacted by value.

/** Where a secret belongs; looked up in the order stack, group, fleet. */
export type Scope = `stack/${string}` | `group/${string}` | 'fleet';

export interface SecretPolicy {
  readonly length: number;
  readonly alphabet: 'alnum' | 'hex' | 'ascii';
}

export interface Vault {
  /** The first value found in `scopes`; null when there is none. Throws when the vault cannot be asked. */
  find(key: string, scopes: readonly Scope[]): Promise<string | null>;
  /** Find-or-create in `scope`: two callers at once get the same value. */
  mint(key: string, scope: Scope, policy: SecretPolicy): Promise<string>;
  put(key: string, scope: Scope, value: string): Promise<void>;
  /** Names the value that `find` would give without opening it: another mark = it may be another value. Null when there is none. */
  mark(key: string, scopes: readonly Scope[]): Promise<string | null>;
  remove(key: string, scope: Scope): Promise<boolean>;
  /** Names only. */
  list(): Promise<readonly { readonly key: string; readonly scope: Scope; readonly updatedAtMs: number }[]>;
}

/** Seals text to age recipients, so that secrets can leave and come back closed. */
export interface Envelope {
  /** To seal something for this controller. Makes its key when there is none. */
  recipient(): Promise<string>;
  /** Armored text. */
  seal(recipients: readonly string[], text: string): Promise<string>;
  /** With the key of this controller, or with `identity`. Throws VAULT_KEY_WRONG, SECRET_REFUSED. */
  open(sealed: string, identity?: string): Promise<string>;
}
