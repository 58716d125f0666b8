import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Place } from '../../../src/core/spec/diagnostic.ts';
import type { LoadedStack } from '../../../src/core/spec/loaded.ts';
import { type Content, type Files, filesOf, loadFiles, words } from './commit.ts';

const root = join(import.meta.dirname, '..', '..', '..');
const compose = 'services:\n  web:\n    image: web\n';
const stack = (body: string): string => `apiVersion: windlass/v1\nkind: Stack\n${body}`;
const app = (body: string): string => `apiVersion: windlass/v1\nkind: App\nversion: "1"\n${body}`;
const fleet = (body: string): string => `apiVersion: windlass/v1\nkind: Fleet\n${body}`;

const namesOf = (files: Files): string[] => [...loadFiles(files).fleet.stacks.keys()].sort();
function only(files: Files, name?: string): LoadedStack {
  const { fleet: loaded } = loadFiles(files);
  expect([...loaded.broken.values()].flat().concat(loaded.diagnostics)).toEqual([]);
  const found = name === undefined ? [...loaded.stacks.values()][0] : loaded.stacks.get(name);
  if (!found) throw new Error(`no stack ${name} among ${[...loaded.stacks.keys()].join(', ')}`);
  return found;
}
const filesIn = (loaded: LoadedStack): string[] => loaded.files.map((entry) => entry.path);

describe('an existing repository of Compose files', () => {
  it('works without any file of Windlass: root, folders, stacks, services, apps', () => {
    expect(
      namesOf({
        'compose.yaml': compose,
        'blog/docker-compose.yml': compose,
        'stacks/shop/compose.yml': compose,
        'services/mail/docker-compose.yaml': compose,
        'apps/wiki/compose.yaml': compose,
        'apps/catalogued/app.yaml': app(''),
        'apps/catalogued/compose.yaml': compose,
        'deep/er/down/compose.yaml': compose,
        '.github/compose.yaml': compose,
        'docs/README.md': '# no project',
      }),
    ).toEqual(['blog', 'mail', 'root', 'shop', 'wiki']);
  });

  it('of docker/awesome-compose loads in full', () => {
    const copy = filesOf(join(root, 'fixtures', 'awesome-compose'));
    const { fleet: loaded } = loadFiles(copy);
    expect([...loaded.broken.values()].flat()).toEqual([]);
    expect(loaded.diagnostics).toEqual([]);
    expect(loaded.stacks.size).toBe(39);
    const original = join(root, '..', 'shared', 'data', 'awesome-compose');
    if (existsSync(original)) expect(loadFiles(filesOf(original)).fleet.stacks.size).toBe(39);
  });

  it('of the fixture loads in full', () => {
    const { fleet: loaded } = loadFiles(filesOf(join(root, 'fixtures', 'compose-fleet')));
    expect([...loaded.broken.values()].flat()).toEqual([]);
    expect(loaded.diagnostics).toEqual([]);
    expect(loaded.stacks.size).toBe(10);
    expect(loaded.stacks.get('profiled')?.layout).toMatchObject({ profiles: ['monitoring'] });
    expect(filesIn(loaded.stacks.get('extended') as LoadedStack)).toEqual([
      'common/base.env',
      'common/base.yaml',
      'extended/compose.yaml',
    ]);
  });

  it('has the settings that nobody gave', () => {
    expect(only({ 'a/compose.yaml': compose })).toMatchObject({
      name: 'a',
      place: { file: 'a/compose.yaml', line: 1, column: 1 },
      layout: { kind: 'compose', directory: 'a', files: ['a/compose.yaml'], profiles: [] },
      group: null,
      node: 'local',
      runtime: 'compose',
      drift: 'heal',
      prune: true,
      adopt: false,
      onFailure: 'hold',
      timeoutMs: null,
      windows: [],
      suspend: null,
    });
  });
});

describe('which files make up a project', () => {
  const layoutOf = (files: Files) => {
    const { layout } = only(files);
    if (layout.kind !== 'compose') throw new Error('not a plain project');
    return layout;
  };

  it('is chosen in the order of Compose', () => {
    const all = ['compose.yaml', 'compose.yml', 'docker-compose.yml', 'docker-compose.yaml'];
    for (const [index, name] of all.entries())
      expect(layoutOf(Object.fromEntries(all.slice(index).map((one) => [`a/${one}`, compose]))).files).toEqual([
        `a/${name}`,
      ]);
  });

  it('is warned of where several files are there: which one is used, and which not', () => {
    const { warnings } = only({ 'a/compose.yaml': compose, 'a/docker-compose.yml': compose });
    expect(warnings).toMatchObject([
      {
        code: 'COMPOSE_FILE_UNUSED',
        summary: 'a/compose.yaml is used, and a/docker-compose.yml beside it is not',
        place: { file: 'a/compose.yaml' },
      },
    ]);
    expect(only({ 'a/compose.yaml': compose, 'a/compose.override.yaml': compose }).warnings).toEqual([]);
  });

  it('has the override as second file', () => {
    expect(layoutOf({ 'a/compose.yaml': compose, 'a/compose.override.yaml': compose }).files[1]).toBe(
      'a/compose.override.yaml',
    );
    expect(layoutOf({ 'a/docker-compose.yml': compose, 'a/docker-compose.override.yml': compose }).files[1]).toBe(
      'a/docker-compose.override.yml',
    );
  });

  it('is what COMPOSE_FILE says, and no override then; COMPOSE_PROFILES too', () => {
    const layout = layoutOf({
      'a/compose.yaml': compose,
      'a/compose.override.yaml': compose,
      'a/prod.yaml': compose,
      'a/.env': 'COMPOSE_FILE=compose.yaml:prod.yaml\nCOMPOSE_PROFILES=x,y\n',
    });
    expect(layout).toEqual({
      kind: 'compose',
      directory: 'a',
      files: ['a/compose.yaml', 'a/prod.yaml'],
      profiles: ['x', 'y'],
    });
  });

  it('may begin in another folder, which is then the project folder, and keeps the variables of its own', () => {
    const loaded = only({
      'a/.env': 'COMPOSE_FILE=../base/main.yaml:extra.yaml\nX=1\n',
      'a/extra.yaml': compose,
      'base/main.yaml': compose,
    });
    expect(loaded.layout).toMatchObject({ directory: 'base', files: ['base/main.yaml', 'a/extra.yaml'] });
    expect(loaded.vars).toMatchObject({ X: '1' });
    expect(filesIn(loaded)).toEqual(['a/.env', 'a/extra.yaml', 'base/main.yaml']);
  });

  it('may be named by COMPOSE_FILE alone', () => {
    expect(layoutOf({ 'a/.env': 'COMPOSE_FILE=prod.yml', 'a/prod.yml': compose }).files).toEqual(['a/prod.yml']);
    expect(namesOf({ 'a/.env': 'X=1' })).toEqual([]);
  });

  it('must lie in the repository', () => {
    const { fleet: loaded } = loadFiles({ 'a/.env': 'COMPOSE_FILE=../../x.yaml', 'a/compose.yaml': compose });
    expect(words(loaded, 'a')[0]).toContain('PATH_OUTSIDE');
  });
});

describe('the name of a stack', () => {
  it.each([
    ['its folder', { 'a/compose.yaml': compose }, 'a'],
    ['its folder as Compose spells it', { '_My App.v2/compose.yaml': compose }, 'myappv2'],
    ['`name:` of the Compose file', { 'a/compose.yaml': `name: shop\n${compose}` }, 'shop'],
    [
      '`name:` of the last file',
      { 'a/compose.yaml': `name: shop\n${compose}`, 'a/compose.override.yaml': 'name: store\n' },
      'store',
    ],
    ['its folder when `name:` has a variable', { 'a/compose.yaml': `name: \${X:-shop}\n${compose}` }, 'a'],
    [
      'COMPOSE_PROJECT_NAME',
      { 'a/compose.yaml': `name: shop\n${compose}`, 'a/.env': 'COMPOSE_PROJECT_NAME=env' },
      'env',
    ],
    [
      '`name:` of its stack.yaml',
      { 'a/compose.yaml': `name: shop\n${compose}`, 'a/stack.yaml': stack('name: mine\n') },
      'mine',
    ],
    ['`root` at the root', { 'compose.yaml': compose }, 'root'],
    ['the name of the fleet at the root', { 'compose.yaml': compose, 'fleet.yaml': fleet('name: acme\n') }, 'acme'],
    [
      'its file',
      { 'stacks/pg.yaml': stack('app: db\n'), 'apps/db/app.yaml': app(''), 'apps/db/compose.yaml': compose },
      'pg',
    ],
  ] as [string, Files, string][])('is %s', (_, files, expected) => expect(namesOf(files)).toEqual([expected]));

  it('given twice breaks both, and each names both files', () => {
    const { fleet: loaded } = loadFiles({
      'a/compose.yaml': compose,
      'b/compose.yaml': `name: a\n${compose}`,
      'c/compose.yaml': compose,
    });
    expect([...loaded.stacks.keys()]).toEqual(['c']);
    expect(loaded.broken.get('a')?.map((one) => one.detail)).toEqual(
      Array(2).fill('by a/compose.yaml and b/compose.yaml'),
    );
  });

  it('that is none breaks the stack', () => {
    const { fleet: loaded } = loadFiles({
      'a/compose.yaml': `name: Shop!\n${compose}`,
      [`${'b'.repeat(70)}/compose.yaml`]: compose,
    });
    expect(loaded.stacks.size).toBe(0);
    expect([...loaded.broken.values()].flat().map((one) => one.code)).toEqual(['NAME_INVALID', 'NAME_INVALID']);
  });
});

describe('one bad stack never stops the others, and is never taken for gone', () => {
  const good = { 'good/compose.yaml': compose };
  it.each([
    ['YAML', { 'bad/compose.yaml': 'services:\n  web: [\n' }, 'bad', /^bad\/compose.yaml:3:1 YAML_INVALID/],
    [
      'a key given twice',
      { 'bad/compose.yaml': 'services:\n  web: {}\n  web: {}\n' },
      'bad',
      /^bad\/compose.yaml:3:3 YAML_DUPLICATE_KEY/,
    ],
    ['a list', { 'bad/compose.yaml': '- a\n' }, 'bad', /COMPOSE_INVALID/],
    ['nothing', { 'bad/compose.yaml': '# empty\n' }, 'bad', /DOCUMENT_EMPTY/],
    [
      'too much text',
      { 'bad/compose.yaml': { refused: 'too-large' } },
      'bad',
      /TEXT_UNREADABLE bad\/compose.yaml cannot be read: it is larger/,
    ],
    ['no text', { 'bad/compose.yaml': { refused: 'not-utf8' } }, 'bad', /TEXT_UNREADABLE/],
    ['a submodule for a file', { 'bad/compose.yaml': { submodule: true } }, 'bad', /TEXT_UNREADABLE/],
    [
      'a wrong document',
      { 'stacks/bad.yaml': stack('app: x\ndrift: on\n') },
      'bad',
      /^stacks\/bad.yaml:4:8 SPEC_INVALID/,
    ],
    ['a Compose file for a document', { 'stacks/bad.yaml': compose }, 'bad', /API_VERSION_UNKNOWN/],
    ['a link for a document', { 'stacks/bad.yaml': { link: '../x' } }, 'bad', /TEXT_UNREADABLE/],
    [
      'an unknown app',
      {
        'stacks/bad.yaml': stack('app: postgre\n'),
        'apps/postgres/app.yaml': app(''),
        'apps/postgres/compose.yaml': compose,
      },
      'bad',
      /^stacks\/bad.yaml:3:6 APP_UNKNOWN/,
    ],
    ['neither app nor project', { 'stacks/bad.yaml': stack('') }, 'bad', /STACK_EMPTY/],
    [
      'both',
      { 'stacks/bad/stack.yaml': stack('app: x\n'), 'stacks/bad/compose.yaml': compose },
      'bad',
      /^stacks\/bad\/stack.yaml:3:1 STACK_AMBIGUOUS/,
    ],
    [
      'a missing include',
      { 'bad/compose.yaml': 'include:\n  - other.yaml\n' },
      'bad',
      /^bad\/compose.yaml:2:5 REFERENCE_MISSING/,
    ],
    [
      'an include outside',
      { 'bad/compose.yaml': 'include: [../../x.yaml]\n' },
      'bad',
      /^bad\/compose.yaml:1:11 PATH_OUTSIDE/,
    ],
    [
      'an env_file outside',
      { 'bad/compose.yaml': 'services: {a: {env_file: [/etc/x]}}\n' },
      'bad',
      /^bad\/compose.yaml:1:27 PATH_OUTSIDE/,
    ],
    [
      'a mount that would reach the state directory',
      { 'bad/compose.yaml': 'services: {a: {volumes: ["../../vault:/v"]}}\n' },
      'bad',
      /PATH_OUTSIDE/,
    ],
    [
      'an unknown key for Windlass',
      { 'bad/compose.yaml': 'services: {a: {x-windlass: {onFilChange: restart}}}\n' },
      'bad',
      /^bad\/compose.yaml:1:29 SPEC_INVALID/,
    ],
    [
      'an unknown service',
      { 'bad/compose.yaml': compose, 'bad/stack.yaml': stack('replicas: {wep: 2}\n') },
      'bad',
      /^bad\/stack.yaml:3:12 SERVICE_UNKNOWN/,
    ],
    [
      'an unknown job',
      { 'bad/compose.yaml': compose, 'bad/stack.yaml': stack('hooks: {post_update: [{job: warm}]}\n') },
      'bad',
      /^bad\/stack.yaml:3:29 JOB_UNKNOWN/,
    ],
    [
      'an exec before the install',
      {
        'bad/compose.yaml': compose,
        'bad/stack.yaml': stack('hooks: {pre_install: [{exec: {service: web, command: a}}]}\n'),
      },
      'bad',
      /^bad\/stack.yaml:3:24 HOOK_MISPLACED/,
    ],
    [
      'an unknown time zone',
      {
        'bad/compose.yaml': compose,
        'bad/stack.yaml': stack('windows: [{allow: "0 1 * * *", duration: 1h, timezone: Europe/Brelin}]\n'),
      },
      'bad',
      /TIMEZONE_UNKNOWN/,
    ],
    [
      'an unknown provider',
      { 'bad/compose.yaml': compose, 'bad/stack.yaml': stack('integrate: {db: god}\n') },
      'bad',
      /^bad\/stack.yaml:3:17 PROVIDER_UNKNOWN/,
    ],
  ] as [string, Record<string, Content>, string, RegExp][])('%s', (_, files, name, expected) => {
    const { fleet: loaded } = loadFiles({ ...good, ...files });
    expect([...loaded.stacks.keys()]).toEqual(['good']);
    expect([...loaded.broken.keys()]).toEqual([name]);
    expect(words(loaded, name).join('\n')).toMatch(expected);
    expect(loaded.broken.get(name)?.every((one) => one.stack === name)).toBe(true);
  });

  it('says that nothing may be removed while a name is not certain', () => {
    const certain = (files: Files) => !loadFiles(files).fleet.diagnostics.some((one) => one.severity === 'error');
    expect(certain({ 'a/compose.yaml': 'services: [' })).toBe(false);
    expect(certain({ 'a/compose.yaml': { refused: 'too-large' } })).toBe(false);
    expect(certain({ 'stacks/a.yaml': 'name: [' })).toBe(false);
    // The name is given where it can be read.
    expect(certain({ 'a/compose.yaml': 'services: [', 'a/stack.yaml': stack('name: shop\n') })).toBe(true);
    expect(certain({ 'stacks/a.yaml': stack('app: x\nfoo: 1\n') })).toBe(true);
    expect(certain({ 'a/compose.yaml': 'services: {a: {x-windlass: 1}}' })).toBe(true);
  });

  it('keeps the name of a stack whose file has a mistake in it', () => {
    const { fleet: loaded } = loadFiles({ 'a/compose.yaml': 'name: shop\nservices: [\n' });
    expect([...loaded.broken.keys()]).toEqual(['shop']);
  });

  it('changes nothing at all when the fleet document is wrong', () => {
    const { fleet: loaded } = loadFiles({ ...good, 'fleet.yaml': fleet('defaults: {drfit: warn}\n') });
    expect(loaded.stacks.size).toBe(0);
    expect(loaded.broken.get('good')?.[0]?.code).toBe('FLEET_INVALID');
    expect(words(loaded)).toEqual(['fleet.yaml:3:12 SPEC_INVALID unknown key `drfit` in `defaults`']);
  });
});

describe('what belongs to a project', () => {
  it('is all of its folder and what its files point to elsewhere', () => {
    const loaded = only(
      {
        'stacks/a/compose.yaml': `
include:
  - ../../parts/log/log.yaml
services:
  web:
    extends: { file: ../../common/base.yaml, service: base }
    build: { context: ../../src/web, dockerfile: ../docker/web.Dockerfile, additional_contexts: { lib: ../../lib } }
    env_file: [../../env/a.env, { path: ../../env/missing.env, required: false }]
    volumes:
      - ../../static:/www:ro
      - { type: bind, source: ../../one.txt, target: /one }
      - data:/data
      - /etc/localtime:/etc/localtime
      - \${DATA_DIR:-/srv}/x:/x
      - ../../tree/\${WHICH}/conf:/conf
configs: { c: { file: ../../conf/c.conf } }
secrets: { s: { file: ../../conf/s.txt } }
volumes: { data: {} }
`,
        'stacks/a/src/main.c': '',
        'parts/log/log.yaml': 'services: {log: {image: log, env_file: log.env, volumes: ["./d:/d"]}}',
        'parts/log/.env': 'A=1',
        'parts/log/log.env': '',
        'parts/log/d/x': '',
        'parts/log/unused': '',
        'common/base.yaml': 'services: {base: {image: b, env_file: base.env}, other: {image: o, env_file: other.env}}',
        'common/base.env': '',
        'common/other.env': '',
        'src/web/index.html': '',
        'src/docker/web.Dockerfile': '',
        'src/other/x': '',
        'lib/l.c': '',
        'env/a.env': '',
        'env/b.env': '',
        'static/a.css': '',
        'one.txt': '',
        'two.txt': '',
        'tree/p/conf/x': '',
        'tree/q/conf/x': '',
        'conf/c.conf': '',
        'conf/s.txt': '',
        'conf/t.txt': '',
      },
      'a',
    );
    expect(filesIn(loaded)).toEqual([
      'common/base.env',
      'common/base.yaml',
      'conf/c.conf',
      'conf/s.txt',
      'env/a.env',
      'lib/l.c',
      'one.txt',
      'parts/log/.env',
      'parts/log/d/x',
      'parts/log/log.env',
      'parts/log/log.yaml',
      'src/docker/web.Dockerfile',
      'src/web/index.html',
      'stacks/a/compose.yaml',
      'stacks/a/src/main.c',
      'static/a.css',
      'tree/p/conf/x',
      'tree/q/conf/x',
    ]);
  });

  it('includes what its links point to', () => {
    const loaded = only({
      'a/compose.yaml': { link: '../shared/compose.yaml' },
      'a/conf': { link: '../shared/conf' },
      'shared/compose.yaml': 'name: linked\nservices: {web: {image: x, env_file: conf/e.env}}',
      'shared/conf/e.env': '',
      'shared/unused': '',
      'fleet.yaml': fleet('discover: [a]\n'),
    });
    expect(loaded.name).toBe('linked');
    expect(filesIn(loaded)).toEqual(['a/compose.yaml', 'a/conf', 'shared/compose.yaml', 'shared/conf/e.env']);
  });

  it('is not a stack of its own when another project includes it, even while that one has a mistake', () => {
    const part = { 'db/compose.yaml': 'services: {db: {image: d}}' };
    const { fleet: loaded } = loadFiles({ 'compose.yaml': `include: [db/compose.yaml]\n${compose}`, ...part });
    expect([...loaded.stacks.keys()]).toEqual(['root']);
    expect(loaded.diagnostics.map((one) => `${one.severity} ${one.code}`)).toEqual(['warning PROJECT_INCLUDED']);
    const broken = loadFiles({ 'compose.yaml': `include: [db/compose.yaml]\nservices: [\n`, ...part }).fleet;
    expect([[...broken.stacks.keys()], [...broken.broken.keys()]]).toEqual([[], ['root']]);
    const said = loadFiles({
      'compose.yaml': `include: [db/compose.yaml]\n${compose}`,
      ...part,
      'db/stack.yaml': stack(''),
    }).fleet;
    expect([...said.stacks.keys()].sort()).toEqual(['db', 'root']);
  });

  it('ends when includes go round', () => {
    const { fleet: loaded } = loadFiles({
      'a/compose.yaml': 'include: [../b/compose.yaml]',
      'b/compose.yaml': 'include: [../a/compose.yaml]',
    });
    expect([...loaded.stacks.keys()].sort()).toEqual(['a', 'b']);
  });

  it('warns of a reference to a secret that its containers would get as text', () => {
    const services = `services:
  a: { image: i, environment: { PW: "ref+vault://pw", PLAIN: x } }
  b: { image: i, environment: ["PW=@secret!", "URL=see ref+vault://pw"] }
`;
    const { fleet: loaded } = loadFiles({ 'compose.yaml': services });
    expect([...loaded.stacks.keys()]).toEqual(['root']);
    expect(
      loaded.stacks.get('root')?.warnings.map((one) => `${one.code} ${one.place?.line}:${one.place?.column}`),
    ).toEqual(['SECRET_NOT_OPENED 2:37', 'SECRET_NOT_OPENED 3:32']);
  });

  it('is told apart by its digest', () => {
    const base = {
      'a/compose.yaml': 'services: {web: {image: x, env_file: ../env/a.env}}',
      'a/deep/er/file': '1',
      'env/a.env': '1',
      'env/b.env': '1',
      'README.md': '1',
    };
    const digest = (files: Files) => only({ ...base, ...files }, 'a').sourceDigest;
    const before = digest({});
    expect(digest({ 'README.md': '2', 'env/b.env': '2', 'other/compose.yaml': compose })).toBe(before);
    for (const files of [
      { 'a/deep/er/file': '2' },
      { 'env/a.env': '2' },
      { 'a/new': '' },
      { 'a/stack.yaml': stack('vars: {A: "1"}\n') },
    ])
      expect(digest(files as Files)).not.toBe(before);
  });

  it('says to Windlass how changed files are taken up', () => {
    const loaded = only({
      'a/compose.yaml': `services:
  a: { image: x, x-windlass: { onFileChange: "signal:HUP" } }
  b: { image: x, x-windlass: { onFileChange: ignore, oneShot: true } }
`,
    });
    expect(loaded.extensions).toEqual({
      a: { onFileChange: { kind: 'signal', signal: 'HUP' } },
      b: { onFileChange: { kind: 'ignore' }, oneShot: true },
    });
  });
});

describe('what is refused in a folder, for that stack alone', () => {
  it.each([
    ['an absolute link', { 'bad/l': { link: '/etc/passwd' } }],
    ['a link that leaves', { 'bad/l': { link: '../../etc' } }],
    ['a link that goes up behind a name', { 'bad/l': { link: 'x/../../../etc' } }],
    ['a link to nothing', { 'bad/l': { link: '' } }],
    ['a link with a backslash', { 'bad/l': { link: '..\\x' } }],
    ['a submodule', { 'bad/vendor': { submodule: true } }],
    ["git's own folder", { 'bad/.git/config': '' }],
    ["git's own folder in other letters", { 'bad/sub/.GiT/config': '' }],
    ["git's short name", { 'bad/git~1': '' }],
    ["git's name with a dot behind", { 'bad/.git.': '' }],
    ['a way up', { 'bad/../x': '' }],
    ['a backslash', { 'bad/a\\b': '' }],
    ['a control character', { 'bad/a\nb': '' }],
    ['names that differ in case', { 'bad/Readme': '', 'bad/README': '' }],
    ['folders that differ in case', { 'bad/a/x': '', 'bad/A/y': '' }],
  ] as [string, Record<string, Content>][])('%s', (_, files) => {
    const { fleet: loaded } = loadFiles({ 'good/compose.yaml': compose, 'bad/compose.yaml': compose, ...files });
    expect([...loaded.stacks.keys()]).toEqual(['good']);
    expect([...new Set(loaded.broken.get('bad')?.map((one) => one.code))]).toEqual(['TREE_REFUSED']);
    expect(loaded.broken.get('bad')?.[0]?.place?.file.startsWith('bad/')).toBe(true);
  });

  it.each([
    ['a link', { 'bad/l': { link: '../lib/x' } }, { file: 'bad/l', line: 0, column: 0 }],
    [
      'a link to a link',
      { 'bad/l': { link: '../lib/m' }, 'lib/m': { link: 'x' } },
      { file: 'bad/l', line: 0, column: 0 },
    ],
    [
      'a mount',
      { 'bad/compose.yaml': 'services:\n  web:\n    image: i\n    volumes: [../lib:/lib]\n' },
      { file: 'bad/compose.yaml', line: 4, column: 15 },
    ],
  ] as [string, Record<string, Content>, Place][])('what lies elsewhere, at %s that leads there', (_, files, place) => {
    const { fleet: loaded } = loadFiles({ 'bad/compose.yaml': compose, 'lib/x': { submodule: true }, ...files });
    expect(loaded.broken.get('bad')).toMatchObject([{ code: 'TREE_REFUSED', place }]);
    expect(loaded.broken.get('bad')?.[0]?.summary).toContain('"lib/x" is refused');
    expect(loaded.broken.get('bad')?.[0]?.detail).toContain(`${place.file} leads there`);
  });

  it('but not links that stay inside', () => {
    expect(filesIn(only({ 'a/compose.yaml': compose, 'a/x/l': { link: '../y' }, 'a/y': '' }))).toHaveLength(3);
  });
});

describe('instances of apps', () => {
  const catalog = {
    'apps/pg/app.yaml': app(
      `vars: {size: {type: integer, default: 1, maximum: 9}, mode: {enum: [fast, safe], default: safe}, host: {required: true, pattern: "[a-z.]+"}, key: {secret: true}}
plugs: {up: {interface: pg, optional: true}}
provides: {pg: {host: "{{ stack.name }}"}}
hooks: {post_install: [{job: init}]}
`,
    ),
    'apps/pg/compose.yaml': compose,
    'apps/pg/init.job.yaml': 'apiVersion: windlass/v1\nkind: Job\nservice: web\ncommand: a\n',
    'apps/pg/files/a.conf': '',
    'apps/pg/notes.txt': '',
  };
  const load = (body: string, more: Files = {}) =>
    loadFiles({ ...catalog, 'stacks/db.yaml': stack(`app: pg\n${body}`), ...more }).fleet;

  it('have their variables, files, jobs and hooks', () => {
    const loaded = load('version: "2"\nvars: {host: a.b}\nhooks: {post_install: [{sleep: 1s}]}\n').stacks.get('db');
    expect(loaded?.vars).toEqual({ size: 1, mode: 'safe', host: 'a.b', key: '@secret!' });
    expect(loaded?.files.map((entry) => entry.path)).toEqual(['apps/pg/files/a.conf']);
    expect(loaded?.hooks).toEqual({ post_install: [{ job: 'init' }, { sleep: '1s' }] });
    expect(loaded?.layout).toMatchObject({
      kind: 'app',
      app: { name: 'pg', version: '2', origin: 'fleet', directory: 'apps/pg' },
    });
    expect(loaded?.layout.kind === 'app' && Object.keys(loaded.layout.app.texts)).toEqual(['init.job.yaml']);
  });

  it.each([
    ['a missing variable', '', /VAR_MISSING the variable `host` is missing/],
    ['an unknown variable', 'vars: {host: a, hots: b}\n', /^stacks\/db.yaml:4:17 VAR_UNKNOWN/],
    ['a wrong type', 'vars: {host: a, size: big}\n', /^stacks\/db.yaml:4:23 VAR_INVALID/],
    ['too large a number', 'vars: {host: a, size: 10}\n', /VAR_INVALID/],
    ['a word that is not in the list', 'vars: {host: a, mode: quick}\n', /VAR_INVALID/],
    ['text that does not match', 'vars: {host: A}\n', /VAR_INVALID/],
    ['an unknown plug', 'vars: {host: a}\nintegrate: {dwn: db}\n', /^stacks\/db.yaml:5:13 PLUG_UNKNOWN/],
    [
      'a provider that does not provide',
      'vars: {host: a}\nintegrate: {up: plain}\n',
      /^stacks\/db.yaml:5:17 INTERFACE_NOT_PROVIDED/,
    ],
  ])('are refused for %s', (_, body, expected) => {
    const loaded = load(body, { 'plain/compose.yaml': compose });
    expect(words(loaded, 'db').join('\n')).toMatch(expected);
  });

  it('warn of a secret in clear', () => {
    expect(
      load('vars: {host: a, key: hunter2}\n')
        .stacks.get('db')
        ?.warnings.map((one) => one.code),
    ).toEqual(['SECRET_IN_CLEAR']);
    expect(load('vars: {host: a, key: "ref+vault://k"}\n').stacks.get('db')?.warnings).toEqual([]);
  });

  it('are broken with their app, and an app that nobody uses is only warned of', () => {
    const loaded = load('vars: {host: a}\n', {
      'apps/pg/app.yaml': app('vers: 1\n'),
      'apps/x/app.yaml': app('plug: 1\n'),
      'apps/x/compose.yaml': compose,
    });
    expect(words(loaded, 'db')[0]).toMatch(/^apps\/pg\/app.yaml:4:1 SPEC_INVALID/);
    expect(loaded.diagnostics.map((one) => `${one.severity} ${one.place?.file}`)).toEqual(['warning apps/x/app.yaml']);
  });

  it('are broken by a backup.yaml that names jobs that there are not, or is wrong in itself', () => {
    const files = (body: string): Files => ({
      'apps/w/app.yaml': app(''),
      'apps/w/compose.yaml': compose,
      'apps/w/dump.job.yaml': 'apiVersion: windlass/v1\nkind: Job\nservice: web\ncommand: dump\n',
      'apps/w/backup.yaml': `apiVersion: windlass/v1\nkind: Backup\n${body}`,
      'stacks/w.yaml': stack('app: w\n'),
    });
    const said = (body: string): readonly string[] => words(loadFiles(files(body)).fleet, 'w');
    expect(said('dump: [dump]\nquiesce: { whatever: stop }\n')).toEqual([]);
    expect(said('dump: [dumb]\n')).toEqual(['apps/w/backup.yaml:3:8 JOB_UNKNOWN unknown job `dumb`']);
    expect(said('keep: { last: 0 }\n')).toEqual([expect.stringMatching(/^apps\/w\/backup.yaml:3:15 SPEC_INVALID/)]);
  });

  it('use the bundled catalog, and the own app of the same name before it', () => {
    const bundled = {
      'web/app.yaml': app('description: bundled\n'),
      'web/compose.yaml': compose,
      'web/files/x': 'text',
    };
    const files = { 'stacks/w.yaml': stack('app: web\n') };
    const originOf = (more: Files) => loadFiles({ ...files, ...more }, { bundled }).fleet.stacks.get('w')?.layout;
    expect(originOf({})).toMatchObject({ app: { origin: 'bundled', texts: { 'files/x': 'text' } } });
    expect(originOf({ 'apps/web/app.yaml': app(''), 'apps/web/compose.yaml': compose })).toMatchObject({
      app: { origin: 'fleet' },
    });
  });

  it('change their digest with what they are rendered from, and only with that', () => {
    const digest = (body: string, more: Files = {}) => load(body, more).stacks.get('db')?.sourceDigest;
    const before = digest('vars: {host: a}\n');
    expect(before).toHaveLength(64);
    expect(digest('vars: {host: a}\ndrift: warn\nprune: false\n', { 'README.md': 'x', 'apps/pg/notes.txt': 'x' })).toBe(
      before,
    );
    expect(digest('vars: {host: b}\n')).not.toBe(before);
    expect(digest('vars: {host: a}\nreplicas: {web: 2}\n')).not.toBe(before);
    expect(digest('vars: {host: a}\n', { 'apps/pg/compose.yaml': `${compose}#` })).not.toBe(before);
    expect(digest('vars: {host: a}\n', { 'apps/pg/files/a.conf': 'x' })).not.toBe(before);
  });
});

describe('the order between stacks', () => {
  const node = (providers: Record<string, string>) => stack(`integrate: ${JSON.stringify(providers)}\n`);
  const fleetOf = (edges: Record<string, Record<string, string>>) =>
    loadFiles(
      Object.fromEntries(
        Object.entries(edges).flatMap(([name, providers]) => [
          [`${name}/compose.yaml`, compose],
          [`${name}/stack.yaml`, node(providers)],
        ]),
      ),
    ).fleet;

  it('is layers of the integration graph', () => {
    expect(fleetOf({ a: { x: 'b', y: 'c' }, b: { x: 'd' }, c: {}, d: {} }).layers).toEqual([['c', 'd'], ['b'], ['a']]);
  });

  it('is refused with the cycle printed, for its members alone', () => {
    const loaded = fleetOf({ a: { x: 'b' }, b: { x: 'c' }, c: { x: 'a' }, d: { x: 'a' }, e: { x: 'e' }, f: {} });
    expect([...loaded.broken].map(([name, [one]]) => [name, one?.summary])).toEqual([
      ['a', 'the stack depends on itself: a → b → c → a'],
      ['b', 'the stack depends on itself: b → c → a → b'],
      ['c', 'the stack depends on itself: c → a → b → c'],
      ['e', 'the stack depends on itself: e → e'],
    ]);
    expect(loaded.layers).toEqual([['d', 'f']]);
    expect(loaded.broken.get('a')?.[0]?.place).toMatchObject({ file: 'a/stack.yaml', line: 3 });
  });
});

describe('the fleet document', () => {
  it('says where projects are, what holds for all, and who belongs together', () => {
    const { fleet: loaded } = loadFiles({
      'fleet.yaml': fleet(
        'discover: ["teams/**", "!teams/old"]\ndefaults: {drift: warn, timeout: 1h, node: edge}\ngroups: {web: ["shop-*", blgo]}\n',
      ),
      'teams/a/shop-a/compose.yaml': compose,
      'teams/old/compose.yaml': compose,
      'top/compose.yaml': compose,
      'stacks/blog/compose.yaml': compose,
      'stacks/blog/stack.yaml': stack('drift: heal\ngroup: text\n'),
    });
    expect(
      Object.fromEntries(
        [...loaded.stacks].map(([name, one]) => [name, [one.drift, one.timeoutMs, one.node, one.group]]),
      ),
    ).toEqual({
      blog: ['heal', 3_600_000, 'edge', 'text'],
      'shop-a': ['warn', 3_600_000, 'edge', 'web'],
    });
    expect(loaded.diagnostics.map((one) => [one.severity, one.help])).toEqual([['warning', 'did you mean `blog`?']]);
  });

  it('is warned of an empty stack.yaml, which says nothing', () => {
    const { fleet: loaded } = loadFiles({ 'a/compose.yaml': compose, 'a/stack.yaml': '# later\n' });
    expect([...loaded.stacks.keys()]).toEqual(['a']);
    expect(loaded.diagnostics).toMatchObject([
      {
        severity: 'warning',
        code: 'DOCUMENT_EMPTY',
        place: { file: 'a/stack.yaml' },
        help: 'it says nothing: remove it',
      },
    ]);
  });

  it("leaves another tool's stack.yaml alone", () => {
    expect(namesOf({ 'stack.yaml': 'resolver: lts-22.0\n', 'compose.yaml': compose })).toEqual(['root']);
  });

  it('pairs stacks/NAME.yaml with the project in stacks/NAME', () => {
    const loaded = only({
      'stacks/a.yaml': stack('vars: {X: 1}\nreplicas: {web: 2}\n'),
      'stacks/a/compose.yaml': compose,
    });
    expect(loaded).toMatchObject({
      name: 'a',
      vars: { X: 1 },
      replicas: { web: 2 },
      place: { file: 'stacks/a.yaml' },
      layout: { kind: 'compose', directory: 'stacks/a' },
    });
  });
});

describe('a thousand stacks', () => {
  const many: Record<string, string> = {};
  for (let index = 0; index < 1_000; index++) {
    many[`stacks/s${index}/compose.yaml`] =
      `services:\n  web:\n    image: web:${index}\n    env_file: ../../common.env\n    ports: ["80:80"]\n    depends_on: [db]\n  db:\n    image: db\n    volumes: ["data:/data", "./init:/init:ro"]\nvolumes:\n  data: {}\n`;
    many[`stacks/s${index}/init/a.sql`] = '';
  }
  many['common.env'] = 'A=1';
  many['README.md'] = '1';

  it('load in one batch and in little time, and again only what changed', () => {
    const cache = new Map<string, unknown>();
    const start = performance.now();
    const first = loadFiles(many, { cache });
    expect(performance.now() - start).toBeLessThan(6_000);
    expect([first.fleet.stacks.size, first.batches]).toEqual([1_000, 1]);

    const readme = loadFiles({ ...many, 'README.md': '2' }, { cache });
    expect(readme.asked).toEqual([]);
    expect(readme.fleet.stacks.get('s7')?.sourceDigest).toBe(first.fleet.stacks.get('s7')?.sourceDigest);

    const one = loadFiles({ ...many, 'stacks/s5/init/a.sql': 'x' }, { cache });
    expect(one.asked).toEqual(['stacks/s5/compose.yaml']);
    const changed = [...one.fleet.stacks].filter(
      ([name, loaded]) => loaded.sourceDigest !== first.fleet.stacks.get(name)?.sourceDigest,
    );
    expect(changed.map(([name]) => name)).toEqual(['s5']);

    const outside = loadFiles({ ...many, 'common.env': 'A=2' }, { cache });
    expect(outside.asked).toHaveLength(1_000);
    expect(cache.size).toBeLessThan(3_000);
  });
});
