// Vault desk: what a person does with the vault by hand. Values come out of it in two ways only: revealed one by one, or sealed all together.
import { Fault } from '../core/fault.ts';
import type { Envelope, Scope, Vault } from '../ports/vault.ts';
import type { House } from './house.ts';

export interface SecretName {
  readonly key: string;
  readonly scope: Scope;
}

export interface SecretAbout extends SecretName {
  readonly updatedAtMs: number;
  /** Not the length itself: it would tell a part of the value. */
  readonly length: string;
}

export interface Imported {
  readonly made: readonly SecretName[];
  readonly same: readonly SecretName[];
  readonly changed: readonly SecretName[];
  /** There with another value, and left. */
  readonly kept: readonly SecretName[];
}

/** Inside the age file. */
interface Exported {
  readonly windlass: 'vault';
  readonly version: 1;
  readonly exportedAtMs: number;
  readonly secrets: readonly (SecretName & { readonly value: string })[];
}

/** The pseudo stack of events that concern no stack alone. */
const FLEET = '@fleet';

export class VaultDesk {
  readonly #house: House;

  constructor(house: House) {
    this.#house = house;
  }

  list(): ReturnType<Vault['list']> {
    return this.#vault.list();
  }

  /** Throws VAULT_SECRET_MISSING. */
  async about({ key, scope }: SecretName): Promise<SecretAbout> {
    const value = await this.#value({ key, scope });
    const listed = (await this.#vault.list()).find((one) => one.key === key && one.scope === scope);
    return { key, scope, updatedAtMs: listed?.updatedAtMs ?? 0, length: lengthClass(value) };
  }

  /** In clear, and on record that somebody looked. Throws VAULT_SECRET_MISSING. */
  async reveal(name: SecretName): Promise<string> {
    const value = await this.#value(name);
    this.#record(name.scope, 'SecretRevealed', `${say(name)} was shown to a person`);
    return value;
  }

  async set({ key, scope }: SecretName, value: string): Promise<'made' | 'changed' | 'same'> {
    const before = await this.#vault.find(key, [scope]);
    if (before === value) return 'same';
    await this.#vault.put(key, scope, value);
    const done = before === null ? 'made' : 'changed';
    this.#record(scope, 'SecretSet', `${say({ key, scope })} was ${done} by a person`);
    return done;
  }

  /** Throws VAULT_SECRET_MISSING. */
  async remove({ key, scope }: SecretName): Promise<void> {
    if (!(await this.#vault.remove(key, scope))) throw missing({ key, scope });
    this.#record(scope, 'SecretRemoved', `${say({ key, scope })} was removed by a person`);
  }

  /** To seal something for this controller. */
  recipient(): Promise<string> {
    return this.#envelope.recipient();
  }

  /** All secrets, sealed to `recipients`; armored text. */
  async export(recipients: readonly string[]): Promise<{ readonly sealed: string; readonly count: number }> {
    const secrets = [];
    for (const { key, scope } of await this.#vault.list())
      secrets.push({ key, scope, value: await this.#value({ key, scope }) });
    const text = { windlass: 'vault', version: 1, exportedAtMs: this.#house.clock.nowMs(), secrets } satisfies Exported;
    const sealed = await this.#envelope.seal(recipients, JSON.stringify(text));
    this.#record('fleet', 'SecretsExported', `${secrets.length} secrets were exported to ${recipients.join(', ')}`);
    return { sealed, count: secrets.length };
  }

  /** Makes what is not there. What is there with another value is left, unless `overwrite`. */
  async import(
    sealed: string,
    options: { readonly identity?: string; readonly overwrite: boolean },
  ): Promise<Imported> {
    const secrets = exportedIn(await this.#envelope.open(sealed, options.identity));
    const done = {
      made: [] as SecretName[],
      same: [] as SecretName[],
      changed: [] as SecretName[],
      kept: [] as SecretName[],
    };
    for (const { key, scope, value } of secrets) {
      const before = await this.#vault.find(key, [scope]);
      const outcome =
        before === null ? 'made' : before === value ? 'same' : options.overwrite ? ('changed' as const) : 'kept';
      if (outcome === 'made' || outcome === 'changed') await this.#vault.put(key, scope, value);
      done[outcome].push({ key, scope });
    }
    const { made, changed } = done;
    if (made.length + changed.length > 0)
      this.#record(
        'fleet',
        'SecretsImported',
        `${made.length} secrets were made and ${changed.length} changed by an import`,
      );
    return done;
  }

  get #vault(): Vault {
    const { vault } = this.#house;
    if (!vault) throw new Fault('VAULT_UNREACHABLE', 'there is no vault');
    return vault;
  }

  get #envelope(): Envelope {
    const { envelope } = this.#house;
    if (!envelope) throw new Fault('VAULT_UNREACHABLE', 'there is no key to seal with');
    return envelope;
  }

  async #value(name: SecretName): Promise<string> {
    const value = await this.#vault.find(name.key, [name.scope]);
    if (value === null) throw missing(name);
    return value;
  }

  #record(scope: Scope, reason: string, message: string): void {
    const { store, clock } = this.#house;
    const stack = scope.startsWith('stack/') ? scope.slice('stack/'.length) : FLEET;
    store.appendEvent({ atMs: clock.nowMs(), stack, level: 'info', reason, message, revision: '' });
  }
}

const say = ({ key, scope }: SecretName): string => `the secret ${key} of ${scope}`;

function missing({ key, scope }: SecretName): Fault {
  return new Fault('VAULT_SECRET_MISSING', `the vault holds no secret ${key} of ${scope}`, { data: { key, scope } });
}

function lengthClass(value: string): string {
  const from = [64, 32, 16, 8].find((least) => value.length >= least);
  if (from === undefined) return 'under 8 characters';
  return from === 64 ? '64 characters or more' : `${from} to ${from * 2 - 1} characters`;
}

/** Throws SECRET_REFUSED; nothing was written then. Never repeats what it read. */
function exportedIn(text: string): Exported['secrets'] {
  let read: Partial<Exported> | null = null;
  try {
    read = JSON.parse(text) as Partial<Exported> | null;
  } catch {
    // said below
  }
  const { secrets } = read ?? {};
  const isOne = (one: Partial<Exported['secrets'][number]> | null): boolean =>
    typeof one?.key === 'string' && typeof one.scope === 'string' && typeof one.value === 'string' && one.value !== '';
  if (read?.windlass !== 'vault' || read.version !== 1 || !Array.isArray(secrets) || !secrets.every(isOne))
    throw new Fault('SECRET_REFUSED', 'the file holds no export of `windlass vault export`');
  return secrets;
}
