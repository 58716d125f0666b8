// Commands of the vault over a simulated house with the real vault: how secrets come in and go out by hand, and how they never do.
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { generateX25519Identity, identityToRecipient } from 'age-encryption';
import { afterEach, describe, expect, it } from 'vitest';
import { Redactor } from '../../src/adapters/process/redact.ts';
import { ageEnvelope } from '../../src/adapters/vault/age.ts';
import { type EmbeddedVault, openVault } from '../../src/adapters/vault/embedded.ts';
import { identityFile } from '../../src/adapters/vault/identity.ts';
import { readHidden } from '../../src/cli/hidden-input.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import { SimHouse } from '../sim/sim-house.ts';
import { type TerminalOptions, windlass } from './fake-terminal.ts';

const SECRET = 'correct-horse-battery';

const open: { sim: SimHouse; vault: EmbeddedVault }[] = [];
afterEach(() => {
  for (const { sim, vault } of open.splice(0)) {
    vault.close();
    sim.dispose();
  }
});

interface Desk {
  readonly dir: string;
  readonly vault: EmbeddedVault;
  readonly sim: SimHouse;
  run(line: string, options?: TerminalOptions): ReturnType<typeof windlass>;
}

function desk(): Desk {
  const sim = new SimHouse();
  const redactor = new Redactor();
  const identity = identityFile({ directory: sim.dir, redactor });
  const vault = openVault({ directory: sim.dir, clock: sim.clock, redactor, identity });
  open.push({ sim, vault });
  sim.house = { ...sim.house, vault, envelope: ageEnvelope(identity) };
  sim.bench = new Workbench(sim.house);
  return {
    dir: sim.dir,
    vault,
    sim,
    run: (line, options) => windlass(sim, line.split(' '), { redact: (text) => redactor.redact(text), ...options }),
  };
}

describe('vault set', () => {
  it.each([
    ['from a pipe', SECRET],
    ['without the line end of echo', `${SECRET}\n`],
    ['without the line end of another system', `${SECRET}\r\n`],
  ])('takes a value %s', async (_, input) => {
    const { run, vault } = desk();
    const { code, out, err } = await run('vault set smtp --scope stack/shop', { input });
    expect([code, out, err]).toEqual([0, '', expect.stringMatching(/smtp of stack\/shop is made/)]);
    expect(await vault.find('smtp', ['stack/shop'])).toBe(SECRET);
  });

  it('takes a value from a file, byte for byte but its last line end', async () => {
    const { run, vault, dir } = desk();
    const file = join(dir, 'key.pem');
    writeFileSync(file, '-----BEGIN KEY-----\n  ünd\n-----END KEY-----\n\n');
    expect((await run(`vault set tls --from-file ${file}`)).code).toBe(0);
    expect(await vault.find('tls', ['fleet'])).toBe('-----BEGIN KEY-----\n  ünd\n-----END KEY-----\n');
  });

  it('asks a person and does not show what is typed', async () => {
    const { run, vault } = desk();
    const { code, out, err } = await run('vault set smtp', { tty: true, answer: SECRET });
    expect([code, out]).toEqual([0, '']);
    expect(err).toMatch(/Value of smtp \(not shown\): \n/);
    expect(err).not.toContain(SECRET);
    expect(await vault.find('smtp', ['fleet'])).toBe(SECRET);
  });

  it('takes none from the command line, and does not repeat it', async () => {
    const { run, vault } = desk();
    const { code, out, err } = await run(`vault set smtp ${SECRET}`);
    expect([code, err]).toEqual([3, expect.stringMatching(/not taken from the command line[\s\S]*--from-file/)]);
    expect(out + err).not.toContain(SECRET);
    expect(await vault.list()).toEqual([]);
  });

  it.each([
    ['an empty value', '', /empty/],
    ['a value that is only a line end', '\n', /empty/],
    ['a value above 64 KiB', 'x'.repeat(70_000), /larger than/],
  ])('refuses %s and keeps the old one', async (_, input, why) => {
    const { run, vault } = desk();
    await vault.put('smtp', 'fleet', 'before');
    const { code, err } = await run('vault set smtp', { input });
    expect([code, err]).toEqual([3, expect.stringMatching(why)]);
    expect(await vault.find('smtp', ['fleet'])).toBe('before');
  });

  it('refuses bytes that are no text', async () => {
    const { run, dir } = desk();
    writeFileSync(join(dir, 'raw'), Buffer.from([0xff, 0xfe, 0x00]));
    const { code, err } = await run(`vault set smtp --from-file ${join(dir, 'raw')}`);
    expect([code, err]).toEqual([3, expect.stringMatching(/UTF-8[\s\S]*base64/)]);
  });

  it('refuses a file that is not there, and a scope that is none', async () => {
    const { run } = desk();
    expect((await run('vault set smtp --from-file /nowhere/at/all')).code).toBe(3);
    expect(await run('vault set smtp --scope shop', { input: SECRET })).toMatchObject({
      code: 3,
      err: expect.stringMatching(/stack\/NAME, group\/NAME or fleet, not shop/),
    });
  });

  it('says what it did, and that the same value is no change', async () => {
    const { run } = desk();
    expect(JSON.parse((await run('vault set smtp -o json', { input: 'one one' })).out)).toEqual({
      key: 'smtp',
      scope: 'fleet',
      result: 'made',
    });
    expect((await run('vault set smtp', { input: 'two two' })).err).toMatch(/is changed/);
    expect((await run('vault set smtp', { input: 'two two' })).err).toMatch(/has this value already/);
  });

  it('is on record without the value', async () => {
    const { run, sim } = desk();
    await run('vault set smtp --scope stack/shop', { input: SECRET });
    const [event] = sim.house.store.events({ stack: 'shop' });
    expect(event).toMatchObject({ reason: 'SecretSet', message: 'the secret smtp of stack/shop was made by a person' });
  });
});

describe('vault get', () => {
  it('tells that a secret is there, its age and about its length, and not the value', async () => {
    const { run, vault, sim } = desk();
    await vault.put('smtp', 'fleet', SECRET);
    await sim.clock.advance(3 * 3_600_000);
    const { code, out, err } = await run('vault get smtp');
    expect([code, out, err]).toEqual([0, 'smtp of fleet is there: set 3h ago, 16 to 31 characters\n', '']);
    const json = JSON.parse((await run('vault get smtp --scope fleet -o json')).out);
    expect(json).toEqual({
      key: 'smtp',
      scope: 'fleet',
      updatedAtMs: expect.any(Number),
      length: '16 to 31 characters',
    });
  });

  it('with --reveal prints the value and nothing else, though it is redacted everywhere else', async () => {
    const { run, vault, sim } = desk();
    await vault.put('smtp', 'fleet', SECRET);
    expect(await run('vault get smtp --reveal')).toEqual({ code: 0, out: `${SECRET}\n`, err: '' });
    expect(JSON.parse((await run('vault get smtp --reveal -o json')).out).value).toBe(SECRET);
    expect(sim.house.store.events({}).map((one) => one.reason)).toContain('SecretRevealed');
  });

  it.each(['vault get smtp', 'vault get smtp --reveal', 'vault rm smtp --scope fleet --yes'])(
    'of what is not there is a failure with a cure: %s',
    async (line) => {
      const { run, dir } = desk();
      const { code, out, err } = await run(line);
      expect([code, out, err]).toEqual([1, '', expect.stringMatching(/VAULT_SECRET_MISSING[\s\S]*vault set/)]);
      expect(readdirSync(dir)).not.toContain('vault.db');
    },
  );
});

describe('vault list', () => {
  it('shows names only, all or of one scope, and makes no vault', async () => {
    const { run, vault, dir } = desk();
    expect(await run('vault list')).toEqual({ code: 0, out: '', err: 'the vault holds no secret\n' });
    expect(JSON.parse((await run('vault list -o json')).out)).toEqual([]);
    expect(readdirSync(dir)).not.toContain('vault.db');
    await vault.put('smtp', 'fleet', SECRET);
    await vault.put('db', 'stack/shop', SECRET);
    const { out } = await run('vault list');
    expect(out).toMatch(/^SCOPE +KEY +SET\nfleet +smtp .*\nstack\/shop +db /);
    expect(out).not.toContain(SECRET);
    expect(JSON.parse((await run('vault list --scope stack/shop -o json')).out)).toHaveLength(1);
  });
});

describe('vault rm', () => {
  it('removes for good what was confirmed', async () => {
    const { run, vault } = desk();
    await vault.put('smtp', 'fleet', SECRET);
    expect((await run('vault rm smtp --scope fleet --yes -o json')).code).toBe(0);
    expect(await vault.list()).toEqual([]);
  });

  it('without a yes removes nothing', async () => {
    const { run, vault } = desk();
    await vault.put('smtp', 'fleet', SECRET);
    expect((await run('vault rm smtp --scope fleet')).code).toBe(3);
    expect((await run('vault rm smtp --scope fleet', { tty: true, answer: 'n' })).code).toBe(4);
    expect((await run('vault rm smtp --yes')).err).toMatch(/whose secret/);
    expect(await vault.list()).toHaveLength(1);
  });
});

describe('vault export and import', () => {
  it('bring all secrets into another vault, closed on the way', async () => {
    const here = desk();
    const there = desk();
    await here.vault.put('smtp', 'fleet', SECRET);
    await here.vault.put('db', 'stack/shop', 'odd "value"\n€');
    const recipient = (await there.run('vault key')).out.trim();
    expect(recipient).toMatch(/^age1[0-9a-z]{58}$/);
    const { code, out, err } = await here.run(`vault export --recipient ${recipient}`);
    expect([code, err]).toEqual([0, '2 secrets exported for 1 recipient\n']);
    expect(out).toMatch(/^-----BEGIN AGE ENCRYPTED FILE-----\n[\s\S]*-----END AGE ENCRYPTED FILE-----\n$/);
    const file = join(there.dir, 'in.age');
    writeFileSync(file, out);
    const taken = await there.run(`vault import ${file} -o json`);
    expect([taken.code, JSON.parse(taken.out).made]).toEqual([
      0,
      expect.arrayContaining([{ key: 'db', scope: 'stack/shop' }]),
    ]);
    expect(await there.vault.find('db', ['stack/shop'])).toBe('odd "value"\n€');
    expect(JSON.parse((await there.run(`vault import ${file} -o json`)).out)).toMatchObject({
      made: [],
      changed: [],
      kept: [],
    });
  });

  it('never replace another value without being told to', async () => {
    const { run, vault, dir } = desk();
    await vault.put('smtp', 'fleet', SECRET);
    const recipient = (await run('vault key')).out.trim();
    const file = join(dir, 'out.age');
    expect((await run(`vault export --recipient ${recipient} --out ${file}`)).code).toBe(0);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(file, 'utf8')).not.toContain(SECRET);
    await vault.put('smtp', 'fleet', 'newer value');
    const { code, err } = await run(`vault import ${file}`);
    expect([code, err]).toEqual([1, expect.stringMatching(/kept smtp of fleet[\s\S]*--overwrite/)]);
    expect(await vault.find('smtp', ['fleet'])).toBe('newer value');
    expect((await run(`vault import ${file} --overwrite`)).code).toBe(0);
    expect(await vault.find('smtp', ['fleet'])).toBe(SECRET);
  });

  it('open with a key of a person, too', async () => {
    const { run, vault, dir } = desk();
    const identity = await generateX25519Identity();
    await vault.put('smtp', 'fleet', SECRET);
    const { out } = await run(`vault export --recipient ${await identityToRecipient(identity)}`);
    const [file, key] = [join(dir, 'out.age'), join(dir, 'mine.key')];
    writeFileSync(file, out);
    writeFileSync(key, `# mine\n${identity}\n`);
    await vault.remove('smtp', 'fleet');
    expect((await run(`vault import ${file}`)).err).toMatch(/VAULT_KEY_WRONG/);
    expect((await run(`vault import ${file} --identity ${key}`)).code).toBe(0);
    expect(await vault.find('smtp', ['fleet'])).toBe(SECRET);
  });

  it('overwrite no file, and need a recipient that is one', async () => {
    const { run, dir } = desk();
    const file = join(dir, 'there');
    writeFileSync(file, 'mine');
    const recipient = (await run('vault key')).out.trim();
    expect((await run(`vault export --recipient ${recipient} --out ${file}`)).err).toMatch(/is there already/);
    expect(readFileSync(file, 'utf8')).toBe('mine');
    expect((await run('vault export')).err).toMatch(/who shall be able/);
    const secret = await generateX25519Identity();
    const wrong = await run(`vault export --recipient ${secret}`);
    expect([wrong.code, wrong.err]).toEqual([3, expect.stringMatching(/not a secret key/)]);
    expect(wrong.err).not.toContain(secret);
    expect((await run(`vault export --recipient age1${'q'.repeat(58)}`)).code).toBe(1);
  });

  it.each([
    ['no age file', 'hello'],
    ['an empty file', ''],
    ['a cut age file', '-----BEGIN AGE ENCRYPTED FILE-----\nYWdlLWVuY3J5cHRpb24ub3Jn\n'],
  ])('refuse %s and take nothing in', async (_, text) => {
    const { run, vault, dir } = desk();
    await run('vault key');
    writeFileSync(join(dir, 'in'), text);
    expect((await run(`vault import ${join(dir, 'in')}`)).code).toBe(1);
    expect(await vault.list()).toEqual([]);
  });

  it.each([
    ['something else', '{"hello":1}'],
    ['no JSON', SECRET],
    ['null', 'null'],
    ['an empty value', '{"windlass":"vault","version":1,"secrets":[{"key":"a","scope":"fleet","value":""}]}'],
    ['a later version', '{"windlass":"vault","version":2,"secrets":[]}'],
  ])('refuse an age file with %s, without repeating it', async (_, text) => {
    const { run, vault, dir, sim } = desk();
    const { envelope } = sim.house;
    const recipient = (await run('vault key')).out.trim();
    writeFileSync(join(dir, 'in'), (await envelope?.seal([recipient], text)) ?? '');
    const { code, out, err } = await run(`vault import ${join(dir, 'in')}`);
    expect([code, err]).toEqual([1, expect.stringMatching(/SECRET_REFUSED/)]);
    expect(out + err).not.toContain(SECRET);
    expect(await vault.list()).toEqual([]);
  });
});

describe('vault key', () => {
  it('makes the key once and prints its public half only', async () => {
    const { run, dir } = desk();
    const first = await run('vault key');
    expect(JSON.parse((await run('vault key -o json')).out).recipient).toBe(first.out.trim());
    expect(readFileSync(join(dir, 'age.key'), 'utf8')).toContain(first.out.trim());
    expect(first.out).not.toContain('SECRET');
  });

  it('refuses a key that others can read', async () => {
    const { run, dir } = desk();
    rmSync(join(dir, 'age.key'), { force: true });
    mkdirSync(join(dir, 'age.key'));
    expect((await run('vault key')).code).toBe(1);
  });
});

describe('hidden input', () => {
  const typed = async (keys: string, chunks = 1): Promise<string> => {
    const raw: boolean[] = [];
    const input = Object.assign(new PassThrough(), { isTTY: true, setRawMode: (on: boolean) => void raw.push(on) });
    const said: string[] = [];
    const work = readHidden(input as unknown as NodeJS.ReadStream, (text) => void said.push(text), {
      question: '? ',
      maxBytes: 100,
      signal: new AbortController().signal,
    });
    const bytes = Buffer.from(keys);
    const size = Math.ceil(bytes.length / chunks);
    for (let at = 0; at < bytes.length; at += size) input.write(bytes.subarray(at, at + size));
    try {
      return (await work).toString('utf8');
    } finally {
      expect(raw).toEqual([true, false]);
      expect(said).toEqual(['? ', '\n']);
    }
  };

  it.each([
    ['ends at Return', 'abc\rdef', 'abc'],
    ['ends at a line feed', 'abc\n', 'abc'],
    ['ends at Ctrl-D', 'abc\u0004', 'abc'],
    ['takes back what Backspace takes back', 'abx\u007fc\r', 'abc'],
    ['takes back a whole character', 'ab€\u007fc\r', 'abc'],
    ['has nothing to take back at the beginning', '\u007f\u007fabc\r', 'abc'],
  ])('%s', async (_, keys, value) => {
    expect(await typed(keys)).toBe(value);
    expect(await typed(keys, keys.length)).toBe(value);
  });

  it('is given up by Ctrl-C, and the terminal echoes again', async () => {
    await expect(typed('abc\u0003')).rejects.toMatchObject({ code: 'CANCELLED' });
  });

  it('is bounded', async () => {
    await expect(typed('x'.repeat(200))).rejects.toMatchObject({ code: 'USAGE' });
  });
});
