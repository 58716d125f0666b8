// Secrets on the real engine, through the CLI as a user types it: made by the deploy and by nothing else, in the container and nowhere else.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sealSops } from '../adapters/secrets/seal-sops.ts';
import { containersOf, docker, Fleet, inspect } from './fleet.ts';

const STACK = 'wlt-secrets';
const FROM_ENV = 'from-the-environment-4711';
const FROM_SOPS = 'from-the-repository-4712';
// All that Compose spells in a way of its own.
const BY_A_PERSON = 'set-by-a-person &<>\u2028\u2029$x"\'\\ é';

describe('a stack with secrets', () => {
  let fleet: Fleet;
  const plan = (): string => join(fleet.dir, 'plan.json');
  const vaultFiles = (): readonly string[] =>
    ['vault.db', 'age.key'].filter((name) => existsSync(join(fleet.state, name)));
  const environment = (): Record<string, string> => {
    const { [`${STACK}-app-1`]: id = '' } = containersOf(STACK);
    const { Env } = inspect(id)['Config'] as { Env: readonly string[] };
    return Object.fromEntries(Env.map((line) => line.split(/=(.*)/s).slice(0, 2) as [string, string]));
  };
  const inFile = (): string => docker('exec', `${STACK}-reader-1`, 'cat', '/run/secrets/password');
  /** Files below the state directory that hold `value` in clear. */
  const holding = (value: string): readonly string[] =>
    readdirSync(fleet.state, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((file) => readFileSync(file).includes(value));

  beforeAll(async () => {
    fleet = new Fleet();
    fleet.owns(STACK);
    fleet.removeLeftovers();
    process.env['WINDLASS_SECRET_TOKEN'] = FROM_ENV;
    fleet.push({
      [`stacks/${STACK}/stack.yaml`]: `apiVersion: windlass/v1
kind: Stack
vars: { PASSWORD: "@secret(40,alnum)!", TOKEN: "ref+env://WINDLASS_SECRET_TOKEN" }
`,
      [`stacks/${STACK}/compose.yaml`]: `services:
  app:
    image: windlass-test/busybox:1
    command: sleep 1d
    network_mode: none
    stop_grace_period: 0s
    environment: { PASSWORD: $PASSWORD, TOKEN: $TOKEN }
  reader:
    image: windlass-test/busybox:1
    command: sleep 1d
    network_mode: none
    stop_grace_period: 0s
    secrets: [password]
secrets: { password: { environment: PASSWORD } }
`,
    });
  });
  afterAll(async () => {
    delete process.env['WINDLASS_SECRET_TOKEN'];
    await fleet.dispose();
  });

  it('is planned, rendered, validated and compared without a vault and without a key', async () => {
    const planned = await fleet.windlass('plan', '--steps', '--out', plan());
    expect(planned.code, planned.err).toBe(0);
    expect(planned.out).toMatch(/mint PASSWORD of stack\/wlt-secrets/);
    for (const verb of [['validate'], ['render', STACK], ['diff', STACK], ['get']]) {
      const { out, err } = await fleet.windlass(...verb);
      expect(out + err).not.toMatch(/WLREF|from-the/);
    }
    expect(vaultFiles()).toEqual([]);
  });

  it('is deployed from the plan that was saved before its secrets were made, and its second plan is empty', async () => {
    const applied = await fleet.windlass('apply', plan(), '--yes');
    expect(applied.code, applied.err).toBe(0);
    expect(vaultFiles()).toEqual(['vault.db', 'age.key']);
    const shown = await fleet.windlass('vault', 'get', 'PASSWORD', '--scope', `stack/${STACK}`, '--reveal');
    const password = shown.out.trimEnd();
    expect(password).toMatch(/^[A-Za-z0-9]{40}$/);
    expect(environment()).toMatchObject({ PASSWORD: password, TOKEN: FROM_ENV });
    expect(inFile()).toBe(password);
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
    expect(applied.out + applied.err).not.toMatch(new RegExp(`${password}|${FROM_ENV}`));
    expect([...holding(password), ...holding(FROM_ENV)]).toEqual([]);
  });

  it('is deployed again when a person sets another value, and keeps the value out of sight', async () => {
    const file = join(fleet.dir, 'value');
    writeFileSync(file, `${BY_A_PERSON}\n`);
    const set = await fleet.windlass('vault', 'set', 'PASSWORD', '--scope', `stack/${STACK}`, '--from-file', file);
    expect(set.code, set.err).toBe(0);
    const planned = await fleet.windlass('plan', '--detailed-exitcode');
    expect([planned.code, planned.out]).toEqual([
      2,
      expect.stringMatching(/recreate app[\s\S]*recreate reader .*password/),
    ]);
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code, applied.err).toBe(0);
    expect([environment()['PASSWORD'], inFile()]).toEqual([BY_A_PERSON, BY_A_PERSON]);
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
    expect(set.out + set.err + planned.out + applied.out + applied.err).not.toContain('set-by-a-person');
    for (const one of [BY_A_PERSON, 'set-by-a-person']) expect(holding(one)).toEqual([]);
  });

  it('takes a value from a SOPS file of the commit that is deployed', async () => {
    const recipient = (await fleet.windlass('vault', 'key')).out.trim();
    fleet.push({
      'secrets/app.enc.yaml': (await sealSops({ token: FROM_SOPS }, { recipients: [recipient] })).text,
      [`stacks/${STACK}/stack.yaml`]: `apiVersion: windlass/v1
kind: Stack
vars: { PASSWORD: "@secret(40,alnum)!", TOKEN: "ref+sops://secrets/app.enc.yaml#token" }
`,
    });
    const applied = await fleet.windlass('apply', '--yes');
    expect(applied.code, applied.err).toBe(0);
    expect(environment()).toMatchObject({ PASSWORD: BY_A_PERSON, TOKEN: FROM_SOPS });
    expect((await fleet.windlass('plan', '--detailed-exitcode')).code).toBe(0);
    expect(holding(FROM_SOPS)).toEqual([]);
    expect(docker('ps', '-aq', '--filter', `label=com.docker.compose.project=${STACK}`).split('\n')).toHaveLength(2);
  });
});
