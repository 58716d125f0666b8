import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { overlayOf, render, variablesOf } from '../../../src/core/render/render.ts';
import { encodeToken, findTokens, replaceTokens } from '../../../src/core/render/token.ts';
import type { LoadedStack } from '../../../src/core/spec/loaded.ts';
import { type Files, filesOf, loadFiles } from '../spec/commit.ts';

const root = join(import.meta.dirname, '..', '..', '..');
const app = (body: string): string => `apiVersion: windlass/v1\nkind: App\nversion: "1"\n${body}`;
const stack = (body: string): string => `apiVersion: windlass/v1\nkind: Stack\n${body}`;

function renderOne(
  template: string,
  options: { readonly app?: string; readonly stack?: string; readonly more?: Files } = {},
) {
  const { fleet } = loadFiles({
    'apps/a/app.yaml': app(options.app ?? ''),
    'apps/a/compose.yaml': template,
    'stacks/s.yaml': stack(`app: a\n${options.stack ?? ''}`),
    ...options.more,
  });
  expect([...fleet.broken.values()].flat().map((one) => one.summary)).toEqual([]);
  const rendered = render({ stack: fleet.stacks.get('s') as LoadedStack, fleet: fleet.stacks });
  return {
    ...rendered,
    model: rendered.text === '' ? null : parse(rendered.text),
    words: rendered.diagnostics.map((one) => `${one.place?.file}:${one.place?.line} ${one.code} ${one.summary}`),
  };
}

describe('a token', () => {
  it('hides any ref in letters and digits and gives it back', () => {
    for (const ref of ['ref+vault://a', 'ref+file://ü/$x"\n', 'ref+env://FERLW']) {
      const token = encodeToken(ref);
      expect(token).toMatch(/^[A-Za-z0-9]+$/);
      expect(findTokens(`x${token}y${token}`)).toEqual([ref]);
      expect(replaceTokens(`x${token}y`, (found) => `<${found}>`)).toBe(`x<${ref}>y`);
    }
  });

  it('is not seen in other text', () => {
    expect(findTokens('WLREF FERLW WLREFFERLW WLREFabcFERLW')).toEqual([]);
    expect(replaceTokens('WLREFzzFERLW', () => 'x')).toBe('WLREFzzFERLW');
  });

  it('is replaced by exactly the value, whatever it holds', () => {
    expect(replaceTokens(encodeToken('ref+vault://a'), () => "$& $1 $' \\")).toBe("$& $1 $' \\");
  });
});

describe('the render of an app', () => {
  it('sees stack, app, vars and version', () => {
    const { model } = renderOne(
      'services:\n  web:\n    image: "i:{{ version }}"\n    environment: {A: "{{ stack.name }} {{ stack.node }} {{ stack.group }} {{ app.name }} {{ app.version }}", B: {{ vars.b | tojson }}}\n',
      { app: 'vars: {b: {type: list}}\n', stack: 'version: "2"\ngroup: g\nvars: {b: [x, 1]}\n' },
    );
    expect(model.services.web).toEqual({ image: 'i:2', environment: { A: 's local g a 1', B: ['x', 1] } });
  });

  it('adds ports, the app’s own first, and replica counts', () => {
    const { model } = renderOne(
      'services:\n  web: {image: i, ports: ["1:1"], scale: 1}\n  db: {image: d, deploy: {mode: replicated}}\n',
      {
        app: 'ports: {web: ["2:2"]}\n',
        stack: 'ports: {web: ["3:3"]}\nreplicas: {web: 2, db: 0}\n',
      },
    );
    expect(model.services.web).toMatchObject({ ports: ['1:1', '2:2', '3:3'], scale: 2, deploy: { replicas: 2 } });
    expect(model.services.db.deploy).toEqual({ mode: 'replicated', replicas: 0 });
  });

  it('takes out owners, extensions and the project name', () => {
    const { model, owners, extensions } = renderOne(
      'name: other\nservices:\n  web:\n    image: i\n    volumes: ["d:/d:rw:0700:26:26", "d:/e"]\n    x-windlass: {onFileChange: "signal:HUP"}\nvolumes: {d: {}}\n',
    );
    expect(model).toEqual({ services: { web: { image: 'i', volumes: ['d:/d:rw', 'd:/e'] } }, volumes: { d: {} } });
    expect(owners).toEqual([{ volume: 'd', mode: '0700', uid: 26, gid: 26 }]);
    expect(extensions).toEqual({ web: { onFileChange: { kind: 'signal', signal: 'HUP' } } });
  });

  it('keeps secrets closed, wherever they stand, and leaves runtime refs alone', () => {
    const { text, secrets, model } = renderOne(
      'services:\n  web:\n    image: i\n    environment: {A: "{{ vars.p }}", B: "x{{ vars.q }}y", C: "ref+env://HOME", D: "ref+hook://previous", E: "{{ vars.r }}"}\n    command: ["KEY=ref+sops://f#k", "plain"]\n',
      {
        app: 'vars: {p: {secret: true}, q: {default: "@secret(16,hex)!"}, r: {default: "ref+node://ip"}}\n',
        stack: 'group: g\nvars: {p: "ref+vault://smtp"}\n',
      },
    );
    expect(secrets.map(({ ref, key, scopes, policy }) => [ref, key, scopes, policy])).toEqual([
      ['ref+vault://smtp', 'smtp', ['stack/s', 'group/g', 'fleet'], null],
      ['ref+vault://stack/s/q', 'q', ['stack/s'], { length: 16, alphabet: 'hex' }],
      ['ref+env://HOME', 'HOME', [], null],
      ['ref+sops://f#k', 'f#k', [], null],
    ]);
    expect(findTokens(text)).toEqual(['ref+vault://smtp', 'ref+vault://stack/s/q', 'ref+env://HOME', 'ref+sops://f#k']);
    expect(model.services.web.environment).toMatchObject({ D: 'ref+hook://previous', E: 'ref+node://ip' });
    expect(model.services.web.environment.B).toMatch(/^xWLREF[0-9a-f]+FERLWy$/);
  });

  it('doubles `$` in values, so that Compose does not take it for a variable', () => {
    const { model } = renderOne('services: {web: {image: i, command: ["{{ vars.a }}", "$$HOME"]}}\n', {
      app: 'vars: {a: {default: "x$y"}}\n',
    });
    expect(model.services.web.command).toEqual(['x$$y', '$$HOME']);
  });

  it('writes strings in quotes, so that no reader takes them for something else', () => {
    const { text } = renderOne(
      'services: {web: {image: "i", environment: {A: "no", B: "1_000", C: "2001-01-01", D: "0777"}}}\n',
    );
    for (const value of ['"no"', '"1_000"', '"2001-01-01"', '"0777"']) expect(text).toContain(value);
  });

  it.each([
    [
      'a mistake in the template',
      'services:\n  web:\n    image: {{ vars.nope }}\n',
      {},
      /^apps\/a\/compose.yaml:3 TEMPLATE_FAILED .*undefined/,
    ],
    [
      'a result that is no YAML',
      'services:\n  web: "{{ vars.a }}"\n',
      { app: 'vars: {a: {default: "x\\" y"}}\n' },
      /^apps\/a\/compose.yaml:0 TEMPLATE_RESULT_INVALID/,
    ],
    ['a result without services', 'volumes: {}\n', {}, /TEMPLATE_RESULT_INVALID the template gives no Compose file/],
    [
      'ports of an unknown service',
      'services: {web: {image: i}}\n',
      { stack: 'ports: {wep: ["1:1"]}\n' },
      /^stacks\/s.yaml:1 SERVICE_UNKNOWN unknown service `wep`/,
    ],
    [
      'replicas of an unknown service',
      'services: {web: {image: i}}\n',
      { stack: 'replicas: {db: 1}\n' },
      /SERVICE_UNKNOWN/,
    ],
    [
      'a backup of an unknown service',
      'services: {web: {image: i}}\n',
      {
        more: {
          'apps/a/backup.yaml': 'apiVersion: windlass/v1\nkind: Backup\nquiesce: { web: stop, wob: pause }\n',
        },
      },
      /^apps\/a\/backup.yaml:3 SERVICE_UNKNOWN unknown service `wob`/,
    ],
    ['a wrong owner', 'services: {web: {image: i, volumes: ["d:/d:rw:0700"]}}\n', {}, /OWNER_INVALID/],
    ['a wrong extension', 'services: {web: {image: i, x-windlass: {a: 1}}}\n', {}, /SPEC_INVALID unknown key `a`/],
  ] as [string, string, object, RegExp][])('tells %s', (_, template, options, expected) => {
    const { words, text, diagnostics } = renderOne(template, options);
    expect(words[0]).toMatch(expected);
    expect(diagnostics.every((one) => one.stack === 's')).toBe(true);
    expect(text).toBe('');
  });
});

describe('integrated stacks', () => {
  const provider = {
    'apps/pg/app.yaml': app(
      'vars: {user: {default: u}, pw: {secret: true}, shared: {default: "ref+vault://k"}}\nprovides: {pg: {host: "{{ stack.name }}", port: 5432, user: "{{ vars.user }}", password: "{{ vars.pw }}", shared: "{{ vars.shared }}"}}\n',
    ),
    'apps/pg/compose.yaml': 'services: {db: {image: d}}\n',
    'stacks/main.yaml': stack('app: pg\n'),
  };
  const consumer = {
    app: 'plugs: {db: {interface: pg}, cache: {interface: redis, optional: true}}\n',
    stack: 'integrate: {db: main}\n',
    more: provider,
  };

  it('read what their provider provides, with its secrets closed under its own name', () => {
    const { model, secrets } = renderOne(
      'services: {web: {image: i, command: ["{{ plugs.db.host }}:{{ plugs.db.port }}", "{{ plugs.db.network }}", "{{ plugs.db.stack }}", "{{ plugs.db.password }}", "{{ plugs.db.shared }}", "{% if plugs.cache %}c{% else %}none{% endif %}"]}}\n',
      consumer,
    );
    expect(model.services.web.command.slice(0, 3)).toEqual(['main:5432', 'main_default', 'main']);
    expect(model.services.web.command.slice(3, 5)).toEqual([
      encodeToken('ref+vault://stack/main/pw'),
      encodeToken('ref+vault://of/main/k'),
    ]);
    expect(model.services.web.command[5]).toBe('none');
    expect(secrets.map(({ key, scopes, policy }) => [key, scopes, policy?.length ?? null])).toEqual([
      ['pw', ['stack/main'], 32],
      ['k', ['stack/main', 'fleet'], null],
    ]);
  });

  it('are told of a provider that is gone by the time of the render', () => {
    const { fleet } = loadFiles({
      ...provider,
      'apps/a/app.yaml': app(consumer.app),
      'apps/a/compose.yaml': 'services: {web: {image: i}}',
      'stacks/s.yaml': stack(`app: a\n${consumer.stack}`),
    });
    const one = fleet.stacks.get('s') as LoadedStack;
    expect(render({ stack: one, fleet: new Map([['s', one]]) }).diagnostics.map((wrong) => wrong.code)).toEqual([
      'PROVIDER_INVALID',
    ]);
  });
});

describe('a plain project with a Stack document', () => {
  const of = (body: string) =>
    loadFiles({ 'a/compose.yaml': 'services: {web: {image: i}}', 'a/stack.yaml': stack(body) }).fleet.stacks.get(
      'a',
    ) as LoadedStack;

  it('gets ports and replicas by an override', () => {
    expect(JSON.parse(overlayOf(of('ports: {web: ["1:1"]}\nreplicas: {web: 3}\n')) ?? '')).toEqual({
      services: { web: { ports: ['1:1'], scale: 3, deploy: { replicas: 3 } } },
    });
    expect(overlayOf(of('drift: warn\n'))).toBeNull();
  });

  it('gets its variables with secrets closed', () => {
    const { variables, secrets } = variablesOf(of('vars: {A: x$y, B: 1, P: "@secret!"}\n'));
    expect(variables).toEqual({ A: 'x$y', B: '1', P: encodeToken('ref+vault://stack/a/P') });
    expect(secrets.map((secret) => secret.key)).toEqual(['P']);
  });
});

describe('the bundled apps', () => {
  it('render in the sample fleet', () => {
    const { fleet } = loadFiles(filesOf(join(root, 'fixtures', 'app-fleet')), { bundled: filesOf(join(root, 'apps')) });
    expect([...fleet.broken.values()].flat()).toEqual([]);
    expect(fleet.layers).toEqual([
      ['cache', 'pg'],
      ['front', 'greeter'],
    ]);
    const rendered = new Map(
      [...fleet.stacks].map(([name, one]) => [name, render({ stack: one, fleet: fleet.stacks })]),
    );
    expect([...rendered.values()].flatMap((one) => one.diagnostics)).toEqual([]);
    expect(parse(rendered.get('front')?.text ?? '').services.web.environment.CACHE_URL).toMatch(
      /^redis:\/\/:WLREF\w+FERLW@cache:6379$/,
    );
    const mine = { mode: '0700', uid: 999, gid: 999 };
    expect(rendered.get('pg')?.owners).toEqual([
      { volume: 'data', ...mine },
      { volume: 'dump', ...mine },
    ]);
  });

  it.each(['files', 'whoami', 'postgres', 'redis'])('%s renders with nothing said', (name) => {
    const { fleet } = loadFiles(
      { 'stacks/one.yaml': stack(`app: ${name}\n`) },
      { bundled: filesOf(join(root, 'apps')) },
    );
    const one = fleet.stacks.get('one') as LoadedStack;
    expect(render({ stack: one, fleet: fleet.stacks }).diagnostics).toEqual([]);
  });
});
