// An encoder of the SOPS format for tests, written from its description: data key, sealed values, MAC. The reader is not its author.
import { createCipheriv, createHash, randomBytes } from 'node:crypto';
import { armor, Encrypter } from 'age-encryption';
import { stringify } from 'yaml';

export type Clear = string | number | boolean | null | readonly Clear[] | { readonly [key: string]: Clear };

export interface SealOptions {
  readonly recipients: readonly string[];
  /** Keys that end so stay in clear. */
  readonly clearSuffix?: string;
  readonly onlySealed?: boolean;
  readonly format?: 'yaml' | 'json';
  /** Beside what SOPS writes. */
  readonly more?: Readonly<Record<string, unknown>>;
}

export interface Sealed {
  readonly text: string;
  readonly dataKey: Buffer;
}

const kindOf = (value: string | number | boolean): string =>
  typeof value === 'string' ? 'str' : typeof value === 'boolean' ? 'bool' : Number.isInteger(value) ? 'int' : 'float';

const bytesOf = (value: string | number | boolean): string =>
  typeof value === 'boolean'
    ? value
      ? 'True'
      : 'False'
    : typeof value === 'number'
      ? value.toLocaleString('en', { useGrouping: false, maximumFractionDigits: 20 })
      : value;

export function sealValue(text: string, kind: string, key: Uint8Array, about: string): string {
  if (text === '') return '';
  const iv = randomBytes(32);
  const cipher = createCipheriv('aes-256-gcm', key, iv);
  cipher.setAAD(Buffer.from(about));
  const data = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  const [d, i, t] = [data, iv, cipher.getAuthTag()].map((part) => part.toString('base64'));
  return `ENC[AES256_GCM,data:${d},iv:${i},tag:${t},type:${kind}]`;
}

export async function sealSops(clear: { readonly [key: string]: Clear }, options: SealOptions): Promise<Sealed> {
  const { recipients, clearSuffix = '_unencrypted', onlySealed = false, format = 'yaml' } = options;
  const dataKey = randomBytes(32);
  const hash = createHash('sha512');
  if (onlySealed) hash.update(createHash('sha256').update('sops').digest());
  const walk = (value: Clear, path: readonly string[]): unknown => {
    if (value === null) return null;
    if (Array.isArray(value)) return value.map((item: Clear) => walk(item, path));
    if (typeof value === 'object')
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, walk(item as Clear, [...path, key])]));
    const one = value as string | number | boolean;
    const inClear = path.some((step) => step.endsWith(clearSuffix));
    if (!onlySealed || !inClear) hash.update(bytesOf(one));
    return inClear ? one : sealValue(bytesOf(one), kindOf(one), dataKey, `${path.join(':')}:`);
  };
  const body = walk(clear, []) as object;
  const lastmodified = '2026-11-30T08:00:00Z';
  const age = await Promise.all(
    recipients.map(async (recipient) => {
      const encrypter = new Encrypter();
      encrypter.addRecipient(recipient);
      return { recipient, enc: armor.encode(await encrypter.encrypt(dataKey)) };
    }),
  );
  const mac = sealValue(hash.digest('hex').toUpperCase(), 'str', dataKey, lastmodified);
  const sops = {
    age,
    lastmodified,
    mac,
    unencrypted_suffix: clearSuffix,
    ...(onlySealed ? { mac_only_encrypted: true } : {}),
    version: '3.11.0',
    ...options.more,
  };
  const whole = { ...body, sops };
  return { text: format === 'json' ? JSON.stringify(whole, null, '\t') : stringify(whole), dataKey };
}
