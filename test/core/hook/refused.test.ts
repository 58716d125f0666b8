import { describe, expect, it } from 'vitest';
import { hookMistakes } from '../../../src/core/spec/catalog.ts';
import { checkText } from '../../../src/core/spec/check.ts';

const head = 'apiVersion: windlass/v1\nkind: Stack\nname: sso\nhooks:\n';

describe('L32: what is no hook is refused at load, with its place', () => {
  it.each([
    ['an unknown phase', '  pre_instal: []', /pre_instal/, 5],
    ['an unknown action', '  post_install:\n    - jbo: check', /jbo/, 6],
    ['an unknown key', '  post_install:\n    - job: check\n      timout: 5s', /timout/, 7],
    ['an unknown policy', '  post_install:\n    - job: check\n      on_failure: ignore', /ignore|on_failure/, 7],
    ['a weight that is no integer', '  post_install:\n    - job: check\n      weight: 1.5', /1\.5|weight/, 7],
    ['a list of plain strings', '  post_install:\n    - check', /check/, 6],
    ['two actions in one', '  post_install:\n    - job: check\n      scale: { web: 0 }', /scale|job/, 7],
    ['an unknown scheme', '  post_install:\n    - scale: { web: "ref+hooks://previous" }', /scheme `hooks`.*vault/, 6],
    [
      'a key that a scheme does not know',
      '  test:\n    - scale: { web: "ref+hook://prevous" }',
      /prevous.*outputs\/NAME/,
      6,
    ],
    [
      'a key of another scheme',
      '  test:\n    - if: { value: "ref+node://host", equals: a }\n      then: [{ halt: true }]',
      /"host".*mesh-ip/,
      6,
    ],
    ['no time at all', '  test:\n    - halt: true\n      timeout: 0s', /timeout.*above zero/, 7],
    [
      'a header of two lines',
      '  test:\n    - http: { url: "http://a/", headers: { A: "b\\r\\nC: d" } }',
      /headers\.A.*control/,
      6,
    ],
    [
      'a quote that is not closed',
      '  test:\n    - exec: { service: web, command: "echo \'a" }',
      /cannot be run.*' is not closed/,
      6,
    ],
    ['a URL that is none', '  test:\n    - http: { url: "http://[::::1" }', /^nobody can be asked/, 6],
    ['a service that is called like the prototype', '  test:\n    - scale: { __proto__: 0 }', /__proto__/, 6],
    ['a scale of nothing', '  test:\n    - scale: {}', /wrong size.*scale/, 6],
    ['a NUL in a name', '  test:\n    - halt: true\n      name: "a\\0b"', /name.*control/, 7],
    ['a NUL in a command', '  test:\n    - exec: { service: web, command: ["a\\0b"] }', /command.*NUL/, 6],
    [
      'a NUL in a variable',
      '  test:\n    - exec: { service: web, command: a, environment: { A: "\\0" } }',
      /environment\.A.*NUL/,
      6,
    ],
    ['no number', '  test:\n    - halt: true\n      weight: .nan', /weight.*not finite/, 7],
    ['a number beyond all', '  test:\n    - halt: true\n      retries: 1e400', /retries.*not finite/, 7],
    [
      'two conditions',
      '  test:\n    - if: { value: a, equals: b, empty: true }\n      then: [{ halt: true }]',
      /if.*one of `equals`/,
      6,
    ],
    ['a condition without a way', '  test:\n    - if: { value: a, equals: b }', /`then` is missing beside `if`/, 6],
    ['an empty way', '  test:\n    - if: { value: a, equals: b }\n      then: []', /then/, 7],
  ])('%s', (_what, text, words, line) => {
    const checked = checkText('Stack', 'stacks/sso.yaml', `${head}${text}\n`);
    const errors = checked.diagnostics.filter((one) => one.severity === 'error');
    const [first, ...more] =
      errors.length > 0 || !checked.value ? errors : hookMistakes(checked.value.hooks, new Set(), new Map(), checked);
    expect(more).toEqual([]);
    expect(`${first?.summary} ${first?.detail}`).toMatch(words);
    expect(first?.place?.file).toBe('stacks/sso.yaml');
    expect(first?.place?.line).toBe(line);
    expect(first?.place?.column).toBeGreaterThan(0);
  });
});

describe('what is no job is refused at load, with its place', () => {
  const job = 'apiVersion: windlass/v1\nkind: Job\nservice: web\n';
  it.each([
    ['a mount of four parts', `${job}volumes: ["a:/a", "b:/b:ro:z"]`, /"b:\/b:ro:z" is no mount/, 4],
    ['a mount to nowhere', `${job}volumes: ["a:b"]`, /"a:b" is no mount/, 4],
    ['a quote that is not closed', `${job}command: "echo 'a"`, /command.*cannot be run/, 4],
    ['no word at all', `${job}entrypoint: " "`, /entrypoint.*cannot be run/, 4],
    ['a NUL in a script', `${job}script: "echo \\0"`, /script.*NUL/, 4],
    ['no time at all', `${job}timeout: 0h0m`, /timeout.*above zero/, 4],
    [
      'a URL that is none',
      'apiVersion: windlass/v1\nkind: Job\ncontext: http\nhttp: { url: "http://[::::1" }',
      /nobody can be asked/,
      4,
    ],
  ])('%s', (_what, text, words, line) => {
    const [first, ...more] = checkText('Job', 'say.job.yaml', `${text}\n`).diagnostics;
    expect(`${first?.summary} ${first?.detail}`).toMatch(words);
    expect([first?.place?.line, more]).toEqual([line, []]);
  });

  it('a URL with a template in it, whatever spaces that has, is left to the render', () => {
    const text =
      'apiVersion: windlass/v1\nkind: Job\ncontext: http\nhttp: { url: "https://{{ vars.host }}/{{vars.path}}?a={b}" }\n';
    expect(checkText('Job', 'say.job.yaml', text).diagnostics).toEqual([]);
    const braces = `http://${'{{'.repeat(900)}`;
    const started = performance.now();
    expect(checkText('Job', 'say.job.yaml', text.replace(/https:[^"]*/, braces)).diagnostics).toHaveLength(1);
    expect(performance.now() - started).toBeLessThan(1_000);
  });
});
