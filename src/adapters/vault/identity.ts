// Identity: the age key of this controller, from its file or its environment. Reading makes none; making is asked for by name.
import { join } from 'node:path';
import { Fault } from '../../core/fault.ts';
import { createKeyFile, parseIdentity, readKeyFile } from './key-file.ts';

export interface IdentityInput {
  /** The state directory: holds `age.key`, made when it is first needed. */
  readonly directory: string;
  /** Another file, which is never made. */
  readonly file?: string | undefined;
  /** The identity itself instead of a file, from `WINDLASS_AGE_KEY`. */
  readonly key?: string | undefined;
  readonly redactor: { add(value: string): void };
}

export interface IdentityFile {
  /** What people know it by. */
  readonly from: string;
  /** Null when there is none yet. Throws FILES_FAILED when it cannot be trusted or read. */
  read(): string | null;
  readOrMake(): Promise<string>;
  /** An identity that somebody gave; the refusal never repeats it. */
  parse(text: string): string;
}

export function identityFile({ directory, file, key, redactor }: IdentityInput): IdentityFile {
  const path = file ?? join(directory, 'age.key');
  const from = key === undefined ? path : 'WINDLASS_AGE_KEY';
  const known = (identity: string): string => {
    redactor.add(identity);
    return identity;
  };
  const read = (): string | null => {
    const identity = key === undefined ? readKeyFile(path) : parseIdentity(key, from);
    return identity === null ? null : known(identity);
  };
  return {
    from,
    read,
    async readOrMake() {
      const before = read();
      if (before !== null) return before;
      if (file !== undefined)
        throw new Fault(
          'FILES_FAILED',
          `the vault's key ${path} is not there: make it with \`age-keygen -o ${path}\``,
          {
            data: { path },
          },
        );
      const age = await import('age-encryption');
      const fresh = known(await age.generateX25519Identity());
      if (createKeyFile(path, fresh, await age.identityToRecipient(fresh))) return fresh;
      const faster = read();
      if (faster === null) throw new Fault('FILES_FAILED', `the vault's key ${path} vanished`, { data: { path } });
      return faster;
    },
    parse: (text) => known(parseIdentity(text, 'the given key')),
  };
}
