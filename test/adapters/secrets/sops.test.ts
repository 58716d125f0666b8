import { createHash } from 'node:crypto';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { sopsSecrets } from '../../../src/adapters/secrets/sops.ts';
import { openWith, recipientOf } from '../../../src/adapters/vault/age.ts';
import type { Listing } from '../../../src/core/state/listing.ts';
import { type Clear, type SealOptions, sealSops, sealValue } from './seal-sops.ts';

let identity: string;
let recipient: string;
let other: string;
beforeAll(async () => {
  identity = await generateX25519Identity();
  recipient = await identityToRecipient(identity);
  other = await identityToRecipient(await generateX25519Identity());
});

const CLEAR = {
  smtp: 'correct-horse-battery',
  port: 587,
  ratio: 0.25,
  tls: true,
  none: null,
  empty: '',
  nested: { 'a/b': 'first nested', list: ['item zero', 'item one'] },
  10: 'a key that is a number',
  region_unencrypted: 'eu-central',
  small_unencrypted: 0.0000025,
  big_unencrypted: 1.5e24,
} satisfies Record<string, Clear>;

let redacted: string[];
let reads: number;
beforeEach(() => {
  redacted = [];
  reads = 0;
});

/** A repository of one file. */
function repository(
  text: string | Uint8Array,
  own: string | null = identity,
  mode: '100644' | '120000' | '160000' = '100644',
) {
  const bytes = Buffer.from(text as string);
  const oid = createHash('sha1').update(bytes).digest('hex');
  const at: Listing = { commit: 'c', entries: [{ path: 'secrets/shop.enc.yaml', mode, oid }], trees: new Map() };
  const provider = sopsSecrets({
    blob: async () => {
      reads++;
      return bytes;
    },
    identity: () => own,
    open: (key, sealed) => openWith([key], sealed),
    recipientOf,
    redactor: { add: (value) => void redacted.push(value) },
  });
  return {
    read: (key: string) => provider.read(`secrets/shop.enc.yaml${key}`, at),
    mark: (key: string) => provider.mark?.(`secrets/shop.enc.yaml${key}`, at),
    provider,
    at,
  };
}

const sealed = async (options: Partial<SealOptions> = {}, clear: Record<string, Clear> = CLEAR): Promise<string> =>
  (await sealSops(clear, { recipients: [recipient], ...options })).text;

describe.each(['yaml', 'json'] as const)('a %s file', (format) => {
  it.each([
    ['#smtp', 'correct-horse-battery'],
    ['#port', '587'],
    ['#ratio', '0.25'],
    ['#tls', 'true'],
    ['#10', 'a key that is a number'],
    ['#/nested/a~1b', 'first nested'],
    ['#/nested/list/1', 'item one'],
  ])('gives the value at %s', async (key, value) => {
    expect(await repository(await sealed({ format })).read(key)).toBe(value);
    expect(redacted).toEqual([value]);
  });

  it('whose MAC covers its sealed values only is read, too', async () => {
    expect(await repository(await sealed({ format, onlySealed: true })).read('#smtp')).toBe(CLEAR.smtp);
  });

  it('for several recipients is opened by each of them', async () => {
    const text = await sealed({ format, recipients: [other, recipient] });
    expect(await repository(text).read('#smtp')).toBe(CLEAR.smtp);
  });
});

it('a comment, sealed or not, is no value', async () => {
  const text = `# hello\n#ENC[AES256_GCM,data:AAAA,iv:AAAA,tag:AAAA,type:comment]\n${await sealed()}`;
  expect(await repository(text).read('#smtp')).toBe(CLEAR.smtp);
});

it('a file is opened once for all its values', async () => {
  const { read } = repository(await sealed());
  await Promise.all([read('#smtp')]);
  await read('#port');
  expect(reads).toBe(1);
});

describe('refusing', () => {
  const refused = async (text: string | Uint8Array, why: RegExp, key = '#smtp', mode?: '120000' | '160000') => {
    const error = await repository(text, identity, mode)
      .read(key)
      .catch((thrown: Error & { code?: string }) => thrown);
    expect(error).toMatchObject({ code: 'SECRET_REFUSED', message: expect.stringMatching(why) });
    // Nothing of what was read gets into the words.
    expect(String((error as Error).stack)).not.toContain(CLEAR.smtp);
    expect(redacted).toEqual([]);
  };

  it('a value that is in the file in clear', async () => {
    await refused(await sealed(), /is not encrypted: encrypt it first/, '#region_unencrypted');
  });

  it('an empty value', async () => {
    await refused(await sealed({}, { smtp: 'x', empty: '' }), /is not encrypted|is empty/, '#empty');
  });

  it('every value of a file of which one was changed without sops', async () => {
    await refused((await sealed()).replace('eu-central', 'eu-west'), /MAC does not fit/);
  });

  it('every value of a file of which one was removed', async () => {
    await refused((await sealed()).replace(/^port: .*\n/m, ''), /MAC does not fit/);
  });

  it('every value of a file to which one was added', async () => {
    await refused(`more_unencrypted: hello\n${await sealed()}`, /MAC does not fit/);
  });

  it('values that were put in another order', async () => {
    const two = await sealed({}, { a: 'one', b: 'two' });
    const [a, b, ...rest] = two.split('\n');
    await refused([b, a, ...rest].join('\n'), /MAC does not fit/, '#a');
  });

  it('a value that was moved to another key', async () => {
    const text = await sealed();
    const value = /^smtp: (.*)$/m.exec(text)?.[1] ?? '';
    await refused(text.replace(/^port: .*$/m, `port: ${value}`), /\/port cannot be opened: it was moved/);
  });

  it('a value whose tag was cut', async () => {
    const text = await sealed();
    await refused(text.replace(/(smtp: .*tag:)[A-Za-z0-9+/]{22}==/, '$1AAAAAA=='), /is no sealed value/);
  });

  it('a value in clear where a sealed one was, when only sealed ones count', async () => {
    const text = await sealed({ onlySealed: true });
    await refused(text.replace(/^port: .*$/m, 'port: 25'), /MAC does not fit/);
  });

  it('a MAC of another file', async () => {
    const [one, two] = [await sealed(), await sealed()];
    const mac = /^ {2}mac: .*$/m.exec(two)?.[0] ?? '';
    await refused(one.replace(/^ {2}mac: .*$/m, mac), /the MAC cannot be opened/);
  });

  it('another time of change than the MAC was made at', async () => {
    await refused((await sealed()).replace('2026-11-30T08', '2026-11-30T09'), /the MAC cannot be opened/);
  });

  it.each([
    ['several key groups', { key_groups: [{ age: [] }, { age: [] }] }, /several key groups/],
    ['rules by comments', { encrypted_comment_regex: 'secret' }, /encrypted_comment_regex/],
    ['no MAC', { mac: null }, /has no MAC/],
    ['no age recipient', { age: [] }, /not encrypted to any age recipient/],
    ['a damaged list of recipients', { age: [{ recipient: 'age1x' }] }, /is damaged/],
    ['a damaged data key', { age: [{ recipient: 'age1x', enc: 'hello' }] }, /is damaged/],
  ])('a file with %s', async (_, more, why) => {
    await refused(await sealed({ more }), why);
  });

  it.each([
    ['that is not encrypted', 'smtp: correct-horse-battery\n', /has no `sops` part/],
    ['that is no YAML', 'smtp: [correct-horse-battery\n', /no valid YAML/],
    ['that is no map', '- a\n', /is no map/],
    ['that is empty', '', /no valid YAML|is no map/],
    ['of two documents', 'a: 1\n---\nb: 2\n', /several YAML documents/],
    ['of bytes', Buffer.from([0xff, 0xfe]), /not UTF-8/],
  ])('a file %s', async (_, text, why) => {
    await refused(text, why);
  });

  it('a file with an alias, which could be one of many', async () => {
    const bomb = `a: &a [x, x]\nb: &b [*a, *a]\n${await sealed()}`;
    await refused(bomb, /alias/);
  });

  it('a value of an unknown type', async () => {
    const { dataKey, text } = await sealSops({ smtp: 'x' }, { recipients: [recipient] });
    const value = sealValue('v', 'thing', dataKey, 'smtp:');
    await refused(text.replace(/^smtp: .*$/m, `smtp: ${value}`), /unknown type thing/);
  });

  it.each(['', '#'])('a ref without a key: %j', async (key) => {
    await refused(await sealed(), /names no value/, key);
  });

  it.each(['120000', '160000'] as const)('a file of mode %s', async (mode) => {
    await refused(await sealed(), /no regular file/, '#smtp', mode);
  });
});

describe('a file for somebody else', () => {
  it('is named with those it is for, and the cure', async () => {
    const text = await sealed({ recipients: [other] });
    await expect(repository(text).read('#smtp')).rejects.toMatchObject({
      code: 'VAULT_KEY_WRONG',
      message: expect.stringMatching(
        new RegExp(`not encrypted to this controller \\(${recipient}\\).*sops updatekeys`),
      ),
      data: { recipients: [other] },
    });
  });

  it('is named also by a controller without a key, which makes none', async () => {
    await expect(repository(await sealed(), null).read('#smtp')).rejects.toThrow(/windlass vault key/);
  });
});

it('what is not there is missing: file and value', async () => {
  const { provider, at, read } = repository(await sealed());
  expect(await provider.read('secrets/other.yaml#smtp', at)).toBeNull();
  expect(await provider.mark?.('secrets/other.yaml#smtp', at)).toBeNull();
  await expect(read('#imap')).rejects.toMatchObject({ code: 'SECRET_MISSING' });
});

it('its mark is that of the file at the commit, and opens nothing', async () => {
  const one = repository(await sealed());
  const two = repository(await sealed());
  expect(await one.mark('#smtp')).toBe(await one.mark('#smtp'));
  expect(await one.mark('#smtp')).not.toBe(await one.mark('#port'));
  expect(await one.mark('#smtp')).not.toBe(await two.mark('#smtp'));
  expect(reads).toBe(0);
});
