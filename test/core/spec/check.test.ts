import { describe, expect, it } from 'vitest';
import { checkText } from '../../../src/core/spec/check.ts';
import type { Kind } from '../../../src/core/spec/kind.ts';

const told = (kind: Kind, body: string, head = `apiVersion: windlass/v1\nkind: ${kind}\n`): string[] =>
  checkText(kind, 'x.yaml', head + body).diagnostics.map((one) =>
    [`${one.place?.line}:${one.place?.column} ${one.summary}`, one.detail ?? '', one.help ?? ''].join(' | '),
  );
const first = (kind: Kind, body: string): string => told(kind, body)[0] ?? 'nothing';

describe('a Stack that is right', () => {
  it('is the document itself', () => {
    const text = `apiVersion: windlass/v1
kind: Stack
name: sso
app: keycloak
version: "26.0"
group: identity
vars: { adminPassword: "@secret!", hostname: sso.example.org, smtp: "ref+vault://smtp-password" }
integrate: { database: pg }
ports: { web: ["8443:8443"] }
replicas: { web: 2 }
node: edge-1
runtime: compose
suspend: { reason: "moving house", until: 2026-12-01T00:00:00Z }
drift: heal
prune: true
onFailure: hold
backup: { schedule: "0 3 * * *", keep: { last: 7, daily: 14, weekly: 8 } }
windows: [ { allow: "0 22 * * *", duration: 4h, timezone: Europe/Berlin } ]
timeout: 10m
hooks:
  post_install: &reconcile
    - job: keycloak-init
    - scale: { keycloak: 0 }
    - job: keycloak-bootstrap-admin
    - scale: { keycloak: "ref+hook://previous" }
    - { wait-healthy: keycloak, timeout: 2m, on_failure: continue, weight: -5, retries: 2, once: revision }
    - if: { value: "ref+hook://outputs/NAME", equals: "yes" }
      then: [ { halt: "done" } ]
      else: [ { exec: { service: keycloak, command: [ls] } }, { sleep: 5s }, { backup: true } ]
    - http: { url: "https://example.org/hook", method: POST, status: [200, 204] }
  post_update: *reconcile
`;
    const checked = checkText('Stack', 'x.yaml', text);
    expect(checked.diagnostics).toEqual([]);
    expect(checked.value?.integrate).toEqual({ database: 'pg' });
  });
});

describe('a wrong document is told at its place, with what was expected and what was meant', () => {
  it.each([
    [
      'an unknown key',
      'replica: {web: 2}\n',
      /^3:1 unknown key `replica` \| expected one of .*replicas.* \| did you mean `replicas`\?$/,
    ],
    ['the same key in another spelling', 'on_failure: hold\n', /did you mean `onFailure`\?$/],
    [
      'an unknown word',
      'drift: heel\n',
      /^3:8 wrong value for `drift` \| expected one of heal, warn, off; found the string "heel" \| did you mean `heal`\?$/,
    ],
    [
      'a number for a string',
      'version: 26.0\n',
      /^3:10 wrong type for `version` \| expected a string .*; found 26 \| write it in quotes: "26"$/,
    ],
    ['a word for a boolean', 'prune: yes\n', /write `true` or `false`$/],
    [
      'a string for a list',
      'ports: {web: "80:80"}\n',
      /^3:14 wrong type for `ports.web` \| expected a list; .* \| write it as a list: \["80:80"\]$/,
    ],
    ['a name that is none', 'vars: {a-b: 1}\n', /^3:8 `a-b` in `vars` is no valid name \| expected an identifier/],
    ['a wrong duration', 'timeout: 10 minutes\n', /expected a duration such as/],
    [
      'an unknown phase',
      'hooks: {post_instal: []}\n',
      /^3:9 unknown key `post_instal` in `hooks` .* did you mean `post_install`\?$/,
    ],
    [
      'plain strings as actions',
      'hooks: {post_install: [warm-up]}\n',
      /^3:24 a plain string is no action: "warm-up" .* a list of plain strings is not accepted; write `- job: warm-up`$/,
    ],
    [
      'an action in quotes',
      'hooks: {post_install: ["job: j", "wait-healthy: true"]}\n',
      /^3:24 a plain string is no action: "job: j" \| expected a map such as `job: j` \| .* write `- job: j`, without quotes$/m,
    ],
    [
      'an unknown action',
      'hooks: {post_install: [{scael: {a: 1}}]}\n',
      /^3:25 unknown action `scael` \| expected one of job, .* \| did you mean `scale`\?$/,
    ],
    ['an action without a verb', 'hooks: {post_install: [{timeout: 5m}]}\n', /^3:24 an item without an action/],
    [
      'two actions in one item',
      'hooks: {post_install: [{job: a, scale: {b: 1}}]}\n',
      /^3:33 several actions in one item: `scale` beside `job`/,
    ],
    [
      'an unknown key of an action',
      'hooks: {post_install: [{job: a, on_failur: abort}]}\n',
      /^3:33 unknown key `on_failur` .* did you mean `on_failure`\?$/,
    ],
    [
      'an unknown policy word',
      'hooks: {post_install: [{job: a, on_failure: retry}]}\n',
      /^3:45 wrong value for `hooks.post_install\[0\].on_failure` \| expected one of abort, continue/,
    ],
    [
      'a weight that is no integer',
      'hooks: {post_install: [{job: a, weight: 1.5}]}\n',
      /^3:41 wrong type .* expected an integer/,
    ],
    ['a negative count', 'hooks: {post_install: [{scale: {a: -1}}]}\n', /^3:36 wrong value .* found -1/],
    [
      'a scale by a secret',
      'hooks: {post_install: [{scale: {a: "ref+vault://x"}}]}\n',
      /^3:36 wrong value .* a replica count or a runtime ref/,
    ],
    [
      'a mistake inside `then`',
      'hooks: {post_install: [{if: {value: x, equals: 1}, then: [{jobb: a}]}]}\n',
      /^3:60 unknown action `jobb` .* did you mean `job`\?$/,
    ],
    [
      'two conditions in one',
      'hooks: {post_install: [{if: {value: x, equals: 1, empty: true}, then: []}]}\n',
      /^3:29 wrong size of/,
    ],
    [
      'an unknown ref scheme',
      'vars: {a: "ref+valt://x"}\n',
      /^3:11 unknown ref scheme `valt` .* did you mean `vault`\?$/,
    ],
    ['a ref without a path', 'vars: {a: "ref+vault://"}\n', /has no path/],
    ['a secret that is too short', 'vars: {a: "@secret(3)!"}\n', /^3:11 wrong secret .* expected a length from 8/],
    ['a secret of another alphabet', 'vars: {a: "@secret(32,emoji)!"}\n', /expected the alphabet alnum, hex, ascii/],
  ])('%s', (_, body, expected) => expect(first('Stack', body)).toMatch(expected));

  it.each([
    ['no apiVersion', 'kind: Stack\n', /`apiVersion` is missing/],
    [
      'another version',
      'apiVersion: windlass/v2\nkind: Stack\n',
      /^1:13 unknown apiVersion "windlass\/v2" \| expected `apiVersion: windlass\/v1`/,
    ],
    ['an unknown kind', 'apiVersion: windlass/v1\nkind: Stak\n', /^2:7 unknown kind "Stak" .* did you mean `Stack`\?$/],
    ['another kind', 'apiVersion: windlass/v1\nkind: App\n', /^2:7 kind App in a place for Stack/],
    ['a Compose file', 'services: {}\n', /this looks like a Compose file: put it into a folder of its own/],
    ['a list', '- a\n', /^1:1 the document is not a map/],
  ])('%s', (_, text, expected) => expect(told('Stack', text, '')[0]).toMatch(expected));

  it('collects all mistakes, in the order of their places', () => {
    const lines = told('Stack', 'drift: no\nprune: 1\nnode: UP\nextra: 1\n');
    expect(lines.map((line) => line.slice(0, 3))).toEqual(['3:8', '4:8', '5:7', '6:1']);
  });

  it('tells a mistake once when an alias repeats it', () => {
    expect(told('Stack', 'hooks:\n  pre_update: &a [{jobb: x}]\n  post_update: *a\n')).toHaveLength(1);
  });

  it('bounds what it tells of a document that is wrong everywhere', () => {
    const body = `hooks:\n  pre_update:\n${'    - x\n'.repeat(4_000)}`;
    expect(told('Stack', body).length).toBeLessThanOrEqual(110);
  });
});

describe('other kinds', () => {
  it.each([
    ['Fleet', 'discover: ["*/", "!old/"]\ndefaults: {drift: warn, prune: false}\ngroups: {data: [pg, "redis-*"]}\n'],
    [
      'App',
      'version: "1"\nvars: {a: {type: integer, default: 3}}\nplugs: {db: {interface: postgres, optional: true}}\nprovides: {http: {port: 80}}\n',
    ],
    ['Job', 'service: web\ncommand: [a, b]\ndelete_policy: [succeeded, failed]\nttl: 1h\n'],
    ['Job', 'context: http\nhttp: {url: "http://127.0.0.1/x"}\n'],
    [
      'Controller',
      'state: /var/lib/windlass\nsources: [{url: "ssh://git@example.org/fleet.git", ref: main}]\nnodes: {local: {host: "unix:///var/run/docker.sock"}}\nreconcile: {interval: 5m, concurrency: 4, pruneLimit: 30, settle: 10s}\napi: {listen: "127.0.0.1:8470"}\n',
    ],
    ...['/srv/restic', './restic', 'sftp:backup@host:/srv/r', 'rest:https://host:8000/', 's3:https://host/bucket'].map(
      (at) => ['Controller', `archives: {restic: {repository: "${at}", passwordFile: ./password}}\n`] as const,
    ),
    ['Stack', 'backup: {restic: ["**"]}\n'],
    ['Backup', 'restic: [media, ./uploads]\n'],
  ] as const)('%s may say %j', (kind, body) => expect(told(kind, body)).toEqual([]));

  it.each([
    [
      'Job',
      'context: exec\nimage: x\nttl: 1h\n',
      [
        /needs `service`/,
        /needs `command` or `script`/,
        /`image` means nothing in an exec job/,
        /`ttl` means nothing in an exec job/,
      ],
    ],
    ['Job', 'service: a\ncommand: b\nscript: c\n', [/both `command` and `script`/]],
    ['App', 'version: 16\n', [/write it in quotes: "16"/]],
    ['Job', 'service: a\ntimeout: 5\n', [/write it with its unit: 5s$/]],
    ['App', 'version: "1"\nhooks: {test: [{sleep: 10}]}\n', [/write it with its unit: 10s$/]],
    ['Fleet', 'discover: [/abs]\n', [/expected a glob/]],
    ['Controller', 'reconcile: {pruneLimit: "30%"}\n', [/expected an integer/]],
    [
      'Controller',
      'archives: {restic: {repository: "rest:https://me:secret@host/", passwordFile: ./password}}\n',
      [/without a password in it/],
    ],
    ['Controller', 'archives: {restic: {repository: /srv/restic}}\n', [/passwordFile/]],
  ] as const)('%s may not say %j', (kind, body, expected) => {
    const lines = told(kind, body);
    for (const [index, pattern] of expected.entries()) expect(lines[index]).toMatch(pattern);
    expect(lines).toHaveLength(expected.length);
  });
});
