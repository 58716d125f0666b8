import { describe, expect, it } from 'vitest';
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
    ['an unknown scheme', '  post_install:\n    - scale: { web: "ref+hooks://previous" }', /ref\+hooks/, 6],
  ])('%s', (_what, text, words, line) => {
    const { diagnostics } = checkText('Stack', 'stacks/sso.yaml', `${head}${text}\n`);
    const [first] = diagnostics.filter((one) => one.severity === 'error');
    expect(`${first?.summary} ${first?.detail}`).toMatch(words);
    expect(first?.place?.file).toBe('stacks/sso.yaml');
    expect(first?.place?.line).toBe(line);
    expect(first?.place?.column).toBeGreaterThan(0);
  });
});
