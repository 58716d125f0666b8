// Secrets from plan to deploy on a simulated engine with the real vault: who only looks makes nothing, who deploys makes them once.
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { envSecrets } from '../../src/adapters/secrets/env.ts';
import { fileSecrets } from '../../src/adapters/secrets/file.ts';
import { sopsSecrets } from '../../src/adapters/secrets/sops.ts';
import { openWith, recipientOf } from '../../src/adapters/vault/age.ts';
import { type EmbeddedVault, openVault } from '../../src/adapters/vault/embedded.ts';
import { identityFile } from '../../src/adapters/vault/identity.ts';
import { Controller } from '../../src/controller/controller.ts';
import { Fault } from '../../src/core/fault.ts';
import { Workbench } from '../../src/operations/workbench.ts';
import type { Vault } from '../../src/ports/vault.ts';
import { bundledApps } from '../../src/wire.ts';
import { sealSops } from '../adapters/secrets/seal-sops.ts';
import { windlass } from '../cli/fake-terminal.ts';
import { SimHouse } from '../sim/sim-house.ts';

const FLEET = resolve(import.meta.dirname, '../../fixtures/app-fleet');

const houses: { sim: SimHouse; vault: EmbeddedVault }[] = [];
afterEach(() => {
  for (const { sim, vault } of houses.splice(0)) {
    vault.close();
    sim.dispose();
  }
});

interface Desk {
  readonly sim: SimHouse;
  readonly vault: EmbeddedVault;
  /** What Compose was given to bring up. */
  readonly models: readonly string[];
  run(line: string): ReturnType<typeof windlass>;
  made(): readonly string[];
}

function desk(
  files: Readonly<Record<string, string>> | null = null,
  around: (vault: Vault) => Vault = (one) => one,
): Desk {
  const sim = new SimHouse();
  const added: string[] = [];
  const redactor = { add: (value: string) => void added.push(value) };
  const identity = identityFile({ directory: sim.dir, redactor });
  const vault = openVault({ directory: sim.dir, clock: sim.clock, redactor, identity });
  houses.push({ sim, vault });
  const { house } = sim;
  for (const image of ['redis:7', 'postgres:15']) sim.world.addImage(`windlass-test/${image}`);
  const models: string[] = [];
  const runtime = {
    ...house.runtime,
    up: (input: Parameters<typeof house.runtime.up>[0]) => {
      models.push(input.model.text);
      return house.runtime.up(input);
    },
  };
  sim.house = { ...house, runtime, vault: around(vault), settings: { ...house.settings, bundled: bundledApps() } };
  sim.bench = new Workbench(sim.house);
  sim.source.push(files ?? filesOf(FLEET));
  return {
    sim,
    vault,
    models,
    run: (line) =>
      windlass(sim, line.split(' '), {
        redact: (text) => added.reduce((out, one) => out.replaceAll(one, '[redacted]'), text),
      }),
    made: () => readdirSync(sim.dir).filter((name) => /^vault\.db|^age\.key/.test(name)),
  };
}

function filesOf(folder: string): Record<string, string> {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => /\.[a-z]+$/.test(path));
  return Object.fromEntries(paths.map((path) => [path, readFileSync(join(folder, path), 'utf8')]));
}

const containers = (sim: SimHouse): Record<string, string> =>
  Object.fromEntries([...sim.world.engine.containers.values()].map((one) => [one.spec.name, one.id]));

const MINTING = `apiVersion: windlass/v1
kind: Stack
vars: { PASSWORD: "@secret!" }
`;
const SHOP = {
  'stacks/shop/stack.yaml': MINTING,
  'stacks/shop/compose.yaml':
    'services:\n  web:\n    image: windlass-test/busybox:1\n    environment: { PASSWORD: $PASSWORD }\n',
};

describe('who only looks', () => {
  it.each(['plan', 'plan --steps', 'validate', 'diff pg', 'render pg', 'get'])(
    '%s makes no key, no vault and no secret',
    async (line) => {
      const { sim, run, made, vault } = desk();
      const { code, err } = await run(line);
      expect([code, err]).toEqual([line.startsWith('diff') ? 2 : 0, expect.any(String)]);
      expect(made()).toEqual([]);
      expect(await vault.list()).toEqual([]);
      expect(made()).toEqual([]);
      expect(sim.house.store.resolved('pg')).toBeNull();
      expect(sim.world.mutatingCalls()).toEqual([]);
    },
  );

  it('is told which secrets a deploy would make', async () => {
    const { run } = desk();
    expect((await run('plan --steps')).out).toMatch(/mint password of stack\/pg/);
  });

  it('shows no closed reference as if it were a value', async () => {
    const { run } = desk(SHOP);
    const { out } = await run('render shop');
    expect(out).toMatch(/PASSWORD: \(secret\)/);
    expect(out).not.toMatch(/WLREF/);
  });
});

describe('who wants to know what is declared', () => {
  const ELSEWHERE = {
    'stacks/shop/stack.yaml':
      'apiVersion: windlass/v1\nkind: Stack\nvars: { PASSWORD: "ref+vault://smtp", TOKEN: "ref+env://HOME" }\n',
    'stacks/shop/compose.yaml': `services:
  web:
    image: windlass-test/busybox:1
    environment: { PASSWORD: $PASSWORD }
configs:
  one: { content: "token: $TOKEN" }
`,
  };

  it('needs no vault and no secret: validate and render', async () => {
    const { sim, run, made } = desk(ELSEWHERE);
    sim.house = { ...sim.house, vault: null };
    expect((await run('validate')).code).toBe(0);
    const { code, out } = await run('render shop');
    expect([code, out]).toEqual([0, expect.stringMatching(/PASSWORD: \(secret\)/)]);
    expect(out).not.toMatch(/WLREF/);
    expect(made()).toEqual([]);
  });

  it('leaves nothing behind that a plan takes for an answer', async () => {
    const { sim, vault, models } = desk(SHOP);
    const at = await sim.bench.reader.read(await sim.source.fetch());
    const [stack] = at.fleet.stacks.values();
    if (!stack) throw new Error('no stack');
    const closed = await sim.bench.resolver.resolve(stack, at, undefined, { closed: true });
    expect(closed.unminted).toHaveLength(1);
    await expect(closed.model()).rejects.toMatchObject({ code: 'VAULT_SECRET_MISSING' });
    await vault.put('PASSWORD', 'stack/shop', 'set before the deploy');
    await sim.apply();
    expect(models.at(-1)).toContain('set before the deploy');
    const again = await sim.bench.resolver.resolve(stack, at, undefined, { closed: true });
    expect(again.unminted).toEqual([]);
  });
});

describe('who deploys', () => {
  it('makes each secret once, for provider and consumer the same, and the second plan is empty', async () => {
    const { run, vault, made, models } = desk();
    const { code, err } = await run('apply --yes');
    expect([code, err]).toEqual([0, expect.any(String)]);
    expect(made()).toContain('age.key');
    const names = (await vault.list()).map(({ scope, key }) => `${scope} ${key}`);
    expect(names).toContain('stack/pg password');
    expect(models.length).toBeGreaterThan(3);
    expect(models.join()).not.toContain('WLREF');
    const { code: second, out } = await run('plan --detailed-exitcode');
    expect([second, out]).toEqual([0, expect.any(String)]);
    expect((await vault.list()).map(({ scope, key }) => `${scope} ${key}`)).toEqual(names);
  });

  it('accepts a plan that was saved before they were made', async () => {
    const { run, sim, made } = desk();
    const file = join(sim.dir, 'plan.json');
    expect((await run(`plan --out ${file}`)).code).toBe(0);
    expect(made()).toEqual([]);
    const { code, err } = await run(`apply --yes ${file}`);
    expect([code, err]).toEqual([0, expect.any(String)]);
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
  });

  it('accepts it also when somebody else has made one of them meanwhile', async () => {
    const { run, sim, vault } = desk(SHOP);
    const file = join(sim.dir, 'plan.json');
    expect((await run(`plan --out ${file}`)).code).toBe(0);
    const value = await vault.mint('PASSWORD', 'stack/shop', { length: 32, alphabet: 'alnum' });
    expect((await run(`apply --yes ${file}`)).code).toBe(0);
    expect(await vault.find('PASSWORD', ['stack/shop'])).toBe(value);
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
  });

  it('a reference that stays closed never reaches the engine', async () => {
    const { run, models, vault } = desk(SHOP);
    await run('apply --yes');
    expect(models).toEqual([expect.stringContaining((await vault.find('PASSWORD', ['stack/shop'])) ?? '?')]);
    expect(models[0]).not.toContain('WLREF');
  });

  it('what nobody said yes to makes nothing', async () => {
    const { run, made } = desk(SHOP);
    expect((await run('apply')).code).toBe(3);
    expect(made()).toEqual([]);
  });
});

describe('a value that changes', () => {
  it('is a change of what is desired, and is deployed', async () => {
    const { run, vault } = desk(SHOP);
    expect((await run('apply --yes')).code).toBe(0);
    await vault.put('PASSWORD', 'stack/shop', 'chosen by a person');
    const { code, out } = await run('plan --detailed-exitcode');
    expect([code, out]).toEqual([2, expect.stringMatching(/recreate web/)]);
    expect(out).not.toContain('chosen by a person');
    expect((await run('apply --yes')).code).toBe(0);
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
  });

  it('is seen by a process that still knows the old one', async () => {
    const { sim, run, vault } = desk(SHOP);
    await run('apply --yes');
    const before = (await sim.survey())[0];
    await vault.put('PASSWORD', 'stack/shop', 'chosen by a person');
    const after = (await sim.survey())[0];
    if (before?.kind !== 'judged' || after?.kind !== 'judged') throw new Error('not judged');
    expect(after.resolved.desired.digest).not.toBe(before.resolved.desired.digest);
    expect((await after.resolved.model()).text).toContain('chosen by a person');
  });
});

describe('a value that Compose puts into a container as a file', () => {
  const BY_VALUE = {
    'stacks/shop/stack.yaml': 'apiVersion: windlass/v1\nkind: Stack\nvars: { T: "ref+vault://key" }\n',
  };
  const PLAIN = (value: string) => ({ 'stacks/shop/.env': `T=${value}\n` });
  const shop = (definition: string, rest = '') => ({
    'stacks/shop/compose.yaml': `services:
  peer:
    image: windlass-test/busybox:1
  web:
    image: windlass-test/busybox:1
    ${definition.startsWith('secrets') ? 'secrets' : 'configs'}: [one]
    ${rest}
${definition}
`,
  });
  const CASES = [
    ['a secret by environment', shop('secrets: { one: { environment: T } }'), '/run/secrets/one'],
    ['a config by environment', shop('configs: { one: { environment: T } }'), '/one'],
    ['a config with it inside', shop('configs: { one: { content: "pw=$T" } }'), '/one'],
    [
      'a secret of a service in the network of another',
      shop('secrets: { one: { environment: T } }', 'network_mode: "service:peer"'),
      '/run/secrets/one',
    ],
  ] as const;

  it.each(CASES)('%s from the vault is deployed again when it changes, and never told', async (_, compose, target) => {
    const { sim, run, vault, models } = desk({ ...BY_VALUE, ...compose });
    await vault.put('key', 'stack/shop', 'first value');
    expect((await run('apply --yes')).code).toBe(0);
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
    const before = containers(sim);
    await vault.put('key', 'stack/shop', 'second value');
    const { code, out } = await run('plan --detailed-exitcode');
    expect([code, out]).toEqual([2, expect.stringMatching(/recreate web/)]);
    expect(out).toContain(target);
    expect(out).not.toContain('second value');
    expect((await run('apply --yes')).code).toBe(0);
    const after = containers(sim);
    expect(after['shop-peer-1']).toBe(before['shop-peer-1']);
    expect(after['shop-web-1']).not.toBe(before['shop-web-1']);
    const labels = [...sim.world.engine.containers.values()].map(({ spec }) => JSON.stringify(spec.labels)).join();
    const digests = [...models.join().matchAll(/"dev\.windlass\.content":"([^"]*)"/g)].map(([, digest]) => digest);
    expect(new Set(digests).size).toBe(2);
    for (const value of ['first value', 'second value']) {
      expect(labels).not.toContain(value);
      expect(digests).not.toContain(createHash('sha256').update(value).digest('hex'));
      expect(JSON.stringify(sim.house.store.resolved('shop'))).not.toContain(value);
    }
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
  });

  it.each(CASES)('%s from a plain file is deployed by a commit that changes that alone', async (_, compose, target) => {
    const { sim, run } = desk({ ...PLAIN('first'), ...compose });
    expect((await run('apply --yes')).code).toBe(0);
    const before = containers(sim);
    sim.source.push(PLAIN('second'));
    const { code, out } = await run('plan --detailed-exitcode');
    expect([code, out]).toEqual([2, expect.stringMatching(/recreate web/)]);
    expect(out).toContain(target);
    expect((await run('apply --yes')).code).toBe(0);
    expect(containers(sim)['shop-web-1']).not.toBe(before['shop-web-1']);
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
  });

  it('a variable of the service in the network of another is one too', async () => {
    const { run, vault } = desk({
      ...BY_VALUE,
      'stacks/shop/compose.yaml': `services:
  peer: { image: "windlass-test/busybox:1" }
  web: { image: "windlass-test/busybox:1", network_mode: "service:peer", environment: { PASSWORD: $T } }
`,
    });
    await vault.put('key', 'stack/shop', 'first value');
    expect((await run('apply --yes')).code).toBe(0);
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
    await vault.put('key', 'stack/shop', 'second value');
    expect((await run('plan')).out).toMatch(/recreate web/);
    expect((await run('apply --yes')).code).toBe(0);
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
  });

  it('a stack whose value stays is left alone by a change of another one', async () => {
    const { sim, run, vault } = desk({ ...BY_VALUE, ...CASES[0][1] });
    await vault.put('key', 'stack/shop', 'first value');
    expect((await run('apply --yes')).code).toBe(0);
    const before = containers(sim);
    await vault.put('other', 'stack/shop', 'second value');
    sim.source.push({ 'stacks/shop/.env': 'ELSE=1\n' });
    await run('apply --yes');
    expect(containers(sim)).toEqual(before);
  });
});

describe('a vault that does not answer', () => {
  it('leaves what runs alone, and says so', async () => {
    let down = false;
    const { sim, run } = desk(SHOP, (vault) => ({
      ...vault,
      mark: async (key, scopes) => {
        if (down) throw new Fault('VAULT_UNREACHABLE', 'the vault does not answer');
        return vault.mark(key, scopes);
      },
    }));
    await run('apply --yes');
    sim.world.clearCalls();
    down = true;
    const { out, err } = await run('plan');
    expect(out + err).toMatch(/VAULT_UNREACHABLE/);
    expect(sim.world.mutatingCalls()).toEqual([]);
    down = false;
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
  });
});

describe('secrets from elsewhere', () => {
  const COMPOSE = {
    'stacks/shop/compose.yaml':
      'services:\n  web:\n    image: windlass-test/busybox:1\n    environment: { PASSWORD: $PASSWORD }\n',
  };
  const stackWith = (ref: string) => ({
    ...COMPOSE,
    'stacks/shop/stack.yaml': `apiVersion: windlass/v1\nkind: Stack\nvars: { PASSWORD: "${ref}" }\n`,
  });

  /** The providers as they are wired, over the simulated house. */
  function withProviders(files: Record<string, string>, env: Record<string, string> = {}) {
    const one = desk(files);
    const { sim } = one;
    const redactor = { add: () => {} };
    const identity = identityFile({ directory: sim.dir, redactor });
    mkdirSync(join(sim.dir, 'secrets'));
    sim.house = {
      ...sim.house,
      providers: {
        env: envSecrets({ env, allowed: [], redactor }),
        file: fileSecrets({ directory: join(sim.dir, 'secrets'), redactor }),
        sops: sopsSecrets({
          blob: (oid, most) => sim.source.blob(oid, most),
          identity: () => identity.read(),
          open: (own, sealed) => openWith([own], sealed),
          recipientOf,
          redactor,
        }),
      },
    };
    sim.bench = new Workbench(sim.house);
    return { ...one, identity };
  }

  it('a variable of the controller reaches the container, and its change is deployed', async () => {
    const env = { WINDLASS_SECRET_SMTP: 'first value' };
    const { run, models } = withProviders(stackWith('ref+env://WINDLASS_SECRET_SMTP'), env);
    expect((await run('apply --yes')).code).toBe(0);
    expect(models.at(-1)).toContain('first value');
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
    env.WINDLASS_SECRET_SMTP = 'second value';
    expect((await run('apply --yes')).code).toBe(0);
    expect(models.at(-1)).toContain('second value');
  });

  it('a variable that may not be read stops its stack with the cure, and no other', async () => {
    const { run, sim } = withProviders(
      {
        ...stackWith('ref+env://HOME'),
        'stacks/blog/compose.yaml': COMPOSE['stacks/shop/compose.yaml'].replace(' $PASSWORD', ' x'),
      },
      { HOME: '/root' },
    );
    const { code, out, err } = await run('apply --yes');
    expect([code, out + err]).toEqual([1, expect.stringMatching(/SECRET_REFUSED[\s\S]*WINDLASS_SECRET_HOME/)]);
    expect([...sim.world.engine.containers.values()].map((one) => one.spec.name)).toEqual(['blog-web-1']);
  });

  it('a file of the controller reaches the container, and its change is deployed', async () => {
    const { run, models, sim } = withProviders(stackWith('ref+file://smtp'));
    const { out } = await run('plan');
    expect(out).toMatch(/no value for the secret reference/);
    // What is looked for elsewhere is not set in the vault.
    expect(out).toMatch(/put the value where the reference names it/);
    expect(out).not.toMatch(/vault set/);
    writeFileSync(join(sim.dir, 'secrets/smtp'), 'first value\n');
    expect((await run('apply --yes')).code).toBe(0);
    expect(models.at(-1)).toContain('first value"');
    writeFileSync(join(sim.dir, 'secrets/smtp'), 'second value\n');
    expect((await run('plan --detailed-exitcode')).code).toBe(2);
  });

  it('a value of a SOPS file is the one of the commit that is judged', async () => {
    const { run, models, sim, identity } = withProviders(stackWith('ref+sops://secrets/shop.yaml#smtp'));
    const recipients = [await recipientOf(await identity.readOrMake())];
    const push = async (smtp: string) =>
      sim.source.push({ 'secrets/shop.yaml': (await sealSops({ smtp }, { recipients })).text });
    await push('first value');
    expect((await run('apply --yes')).code).toBe(0);
    expect(models.at(-1)).toContain('first value');
    await push('second value');
    const { code, out } = await run('plan --detailed-exitcode');
    expect([code, out]).toEqual([2, expect.stringMatching(/recreate web/)]);
    expect((await run('apply --yes')).code).toBe(0);
    expect(models.at(-1)).toContain('second value');
    expect((await run('plan --detailed-exitcode')).code).toBe(0);
  });
});

describe('the controller', () => {
  it('leaves a stack Unknown whose vault does not answer, touches nothing, and goes on when it does', async () => {
    let down = false;
    const { sim } = desk(SHOP, (vault) => ({
      ...vault,
      mark: async (key, scopes) => {
        if (down) throw new Fault('VAULT_UNREACHABLE', 'the vault does not answer');
        return vault.mark(key, scopes);
      },
    }));
    const controller = new Controller({ house: sim.house, pollMs: 60_000, intervalMs: 5_000, log: () => {} });
    const ready = () => sim.house.store.conditions('shop').find((one) => one.type === 'Ready');
    const until = async (status: string) => {
      for (let step = 0; step < 400 && ready()?.status !== status; step++) await sim.run(sim.clock.sleep(500));
      return ready();
    };
    await sim.run(controller.start());
    expect(await until('True')).toMatchObject({ status: 'True' });
    sim.world.clearCalls();
    down = true;
    expect(await until('Unknown')).toMatchObject({ status: 'Unknown', message: expect.stringMatching(/vault/) });
    await sim.run(sim.clock.sleep(60_000));
    expect(sim.world.mutatingCalls()).toEqual([]);
    down = false;
    expect(await until('True')).toMatchObject({ status: 'True' });
    expect(sim.world.mutatingCalls()).toEqual([]);
    await sim.run(controller.stop());
  });

  it('does not take a revision back because the vault could not make its secret', async () => {
    let down = false;
    const { sim } = desk(
      {
        ...SHOP,
        'stacks/shop/stack.yaml':
          'apiVersion: windlass/v1\nkind: Stack\nonFailure: rollback\nvars: { PASSWORD: plain }\n',
      },
      (vault) => ({
        ...vault,
        mint: async (key, scope, policy) => {
          if (down) throw new Fault('VAULT_UNREACHABLE', 'the vault does not answer');
          return vault.mint(key, scope, policy);
        },
      }),
    );
    const controller = new Controller({ house: sim.house, pollMs: 1_000, intervalMs: 5_000, log: () => {} });
    const ready = () => sim.house.store.conditions('shop').find((one) => one.type === 'Ready');
    const until = async (status: string, revision: string) => {
      const isIt = () => ready()?.status === status && ready()?.revision === revision && ready()?.message !== 'in work';
      for (let step = 0; step < 400 && !isIt(); step++) await sim.run(sim.clock.sleep(500));
      return ready();
    };
    await sim.run(controller.start());
    expect(await until('True', sim.source.head ?? '')).toMatchObject({ status: 'True' });
    down = true;
    sim.world.clearCalls();
    const next = sim.source.push({ 'stacks/shop/stack.yaml': MINTING });
    expect(await until('Unknown', next)).toMatchObject({ status: 'Unknown', message: expect.stringMatching(/vault/) });
    await sim.run(sim.clock.sleep(30_000));
    expect(sim.house.store.value('refused/shop')).toBeUndefined();
    expect(sim.world.mutatingCalls()).toEqual([]);
    down = false;
    expect(await until('True', next)).toMatchObject({ status: 'True', revision: next });
    await sim.run(controller.stop());
  });
});
