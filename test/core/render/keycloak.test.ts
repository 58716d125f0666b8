// The bundled app keycloak as it is written: what Compose is given, and what the jobs of its sequence are.
import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { HookPhase } from '../../../src/core/hook/phase.ts';
import { renderHooks } from '../../../src/core/render/hooks.ts';
import { render } from '../../../src/core/render/render.ts';
import { replaceTokens } from '../../../src/core/render/token.ts';
import type { LoadedStack } from '../../../src/core/spec/loaded.ts';
import { filesOf, loadFiles } from '../spec/commit.ts';

const APPS = resolve(import.meta.dirname, '../../../apps');
const bundled = filesOf(APPS);
const stack = (body: string): string => `apiVersion: windlass/v1\nkind: Stack\n${body}`;

function load(vars = '{}') {
  const { fleet } = loadFiles(
    {
      'stacks/pg.yaml': stack('app: postgres\n'),
      'stacks/sso.yaml': stack(`app: keycloak\nvars: ${vars}\nintegrate: {database: pg}\n`),
    },
    { bundled },
  );
  expect([...fleet.broken.values()].flat().map((one) => one.summary)).toEqual([]);
  const sso = fleet.stacks.get('sso') as LoadedStack;
  const shown = replaceTokens(render({ stack: sso, fleet: fleet.stacks }).text, (ref) => `<${ref}>`);
  const sequence = (phase: HookPhase) => renderHooks(sso, fleet.stacks, phase);
  return { model: parse(shown), sequence };
}

describe('the bundled app keycloak', () => {
  it('runs the real Keycloak on the database of its plug, with both passwords from the vault', () => {
    const { keycloak } = load().model.services;
    expect(keycloak.image).toBe('quay.io/keycloak/keycloak:26.3');
    expect(keycloak.environment).toMatchObject({
      KC_DB_URL: 'jdbc:postgresql://pg:5432/app',
      KC_DB_PASSWORD: '<ref+vault://stack/pg/password>',
      KC_BOOTSTRAP_ADMIN_USERNAME: 'admin',
      KC_BOOTSTRAP_ADMIN_PASSWORD: '<ref+vault://stack/sso/adminPassword>',
      KC_HOSTNAME_STRICT: 'false',
    });
    expect(load().model.networks.database).toEqual({ name: 'pg_default', external: true });
  });

  it('takes another image and a public address', () => {
    const { keycloak } = load('{image: "example.org/kc:1", hostname: "https://login.example.org"}').model.services;
    expect(keycloak.image).toBe('example.org/kc:1');
    expect(keycloak.environment).toMatchObject({ KC_HOSTNAME: 'https://login.example.org' });
    expect(keycloak.environment).not.toHaveProperty('KC_HOSTNAME_STRICT');
  });

  it.each<HookPhase>(['post_install', 'post_update', 'post_restore'])('puts the administrator right in %s', (phase) => {
    const { actions, diagnostics } = load().sequence(phase);
    expect(diagnostics).toEqual([]);
    expect(actions.map((action) => action.name)).toEqual([
      'job keycloak-init',
      'scale keycloak to 0',
      'job keycloak-bootstrap-admin',
      'scale keycloak to ref+hook://previous',
      'job keycloak-recover-admin',
    ]);
    expect(actions.filter((action) => action.onFailure !== 'abort')).toEqual([]);
  });

  it('gives no password as an argument, where every user of the host could read it, and writes correct shell', () => {
    const jobs = load()
      .sequence('post_install')
      .actions.flatMap((action) => (action.kind === 'job' && action.job.context === 'container' ? [action.job] : []));
    expect(jobs).toHaveLength(3);
    for (const { command } of jobs) {
      const script = command?.at(-1) ?? '';
      expect(script).not.toMatch(/--(?:new-)?password\b(?!:env)| -p /);
      execFileSync('/bin/sh', ['-n'], { input: script });
    }
  });

  it('lets each job reach no more than it needs', () => {
    const networks = load()
      .sequence('post_install')
      .actions.flatMap((action) =>
        action.kind === 'job' && action.job.context === 'container' ? [[action.job.name, action.job.networks]] : [],
      );
    expect(Object.fromEntries(networks)).toEqual({
      'keycloak-init': ['default'],
      'keycloak-bootstrap-admin': ['database'],
      'keycloak-recover-admin': ['default'],
    });
  });
});
