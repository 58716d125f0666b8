// `ref+sops://path#key`: a value of a SOPS file in the repository, at the commit that is judged. Needs no program; opens with age keys only.
import { Fault } from '../../core/fault.ts';
import type { SecretProvider } from '../../ports/secret-providers.ts';
import { escapeStep, readSops, SopsError } from './sops-file.ts';

const MAX_FILE_BYTES = 1024 * 1024;
/** Opened files kept in memory, by object id. */
const FILES_KEPT = 32;

export interface SopsSecretsInput {
  blob(oid: string, maxBytes: number): Promise<Uint8Array>;
  /** The identity of this controller; null when it has none yet. */
  identity(): string | null;
  /** Null when `identity` is not meant. */
  open(identity: string, sealed: string): Promise<Uint8Array | null>;
  recipientOf(identity: string): Promise<string>;
  readonly redactor: { add(value: string): void };
}

export function sopsSecrets(input: SopsSecretsInput): SecretProvider {
  const opened = new Map<string, ReadonlyMap<string, string | null>>();

  const valuesOf = async (path: string, oid: string): Promise<ReadonlyMap<string, string | null>> => {
    const known = opened.get(oid);
    if (known) return known;
    const refuse = (why: string): Fault =>
      new Fault('SECRET_REFUSED', `the SOPS file ${path}: ${why}`, { data: { path } });
    try {
      const bytes = await input.blob(oid, MAX_FILE_BYTES);
      const file = readSops(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
      const values = file.open(await dataKeyOf(path, file.keys));
      opened.set(oid, values);
      const [oldest] = opened.keys();
      if (opened.size > FILES_KEPT && oldest !== undefined) opened.delete(oldest);
      return values;
    } catch (error) {
      if (error instanceof SopsError) throw refuse(error.message);
      if (error instanceof TypeError) throw refuse('it is not UTF-8 text');
      throw error;
    }
  };

  const dataKeyOf = async (path: string, keys: ReturnType<typeof readSops>['keys']): Promise<Uint8Array> => {
    const identity = input.identity();
    const own = identity === null ? null : await input.recipientOf(identity);
    // The named recipient first; a file may name it otherwise, so all are tried.
    const sorted = [...keys].sort((a, b) => Number(b.recipient === own) - Number(a.recipient === own));
    if (identity !== null)
      for (const { sealed } of sorted) {
        let key: Uint8Array | null;
        try {
          key = await input.open(identity, sealed);
        } catch {
          throw new SopsError('the data key for one of its age recipients is damaged');
        }
        if (key !== null) return key;
      }
    throw new Fault(
      'VAULT_KEY_WRONG',
      `the SOPS file ${path} is not encrypted to this controller${own === null ? ', which has no key yet: `windlass vault key` makes one' : ` (${own})`}; add its recipient with \`sops updatekeys\``,
      { data: { path, recipients: keys.map((one) => one.recipient) } },
    );
  };

  const split = (ref: string): { readonly path: string; readonly pointer: string } => {
    const at = ref.indexOf('#');
    const [path, key] = at < 0 ? [ref, ''] : [ref.slice(0, at), ref.slice(at + 1)];
    if (path === '' || key === '')
      throw new Fault(
        'SECRET_REFUSED',
        `ref+sops://${ref.slice(0, 200)} names no value: write ref+sops://PATH#KEY, or #/a/b for a nested one`,
      );
    return { path, pointer: key.startsWith('/') ? key : `/${escapeStep(key)}` };
  };

  return {
    async mark(ref, at) {
      const { path, pointer } = split(ref);
      const entry = at.entries.find((one) => one.path === path);
      return entry ? `${entry.oid}#${pointer}` : null;
    },
    async read(ref, at) {
      const { path, pointer } = split(ref);
      const entry = at.entries.find((one) => one.path === path);
      if (!entry) return null;
      if (entry.mode === '120000' || entry.mode === '160000')
        throw new Fault('SECRET_REFUSED', `the SOPS file ${path} is no regular file of the repository`, {
          data: { path },
        });
      const values = await valuesOf(path, entry.oid);
      const value = values.get(pointer);
      if (value === undefined)
        throw new Fault('SECRET_MISSING', `the SOPS file ${path} holds no value ${pointer}`, {
          data: { path, known: [...values.keys()].slice(0, 20) },
        });
      if (value === null)
        throw new Fault('SECRET_REFUSED', `${pointer} of the SOPS file ${path} is not encrypted: encrypt it first`, {
          data: { path },
        });
      if (value === '')
        throw new Fault('SECRET_REFUSED', `${pointer} of the SOPS file ${path} is empty`, { data: { path } });
      input.redactor.add(value);
      return value;
    },
  };
}
