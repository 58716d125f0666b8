// Names in hooks and jobs of plain stacks: what the Compose files beside them declare is known, so a wrong one is found at load.
import { describe, expect, it } from 'vitest';
import type { Diagnostic } from '../../../src/core/spec/diagnostic.ts';
import { loadFiles } from './commit.ts';

const compose = 'services:\n  web:\n    image: web\n  worker:\n    image: worker\n';
const job = (more: string): string => `apiVersion: windlass/v1\nkind: Job\n${more}`;

function found(hooks: string, more: Record<string, string> = {}): readonly Diagnostic[] {
  const { fleet } = loadFiles({
    'shop/compose.yaml': compose,
    'shop/stack.yaml': `apiVersion: windlass/v1\nkind: Stack\nhooks:\n${hooks}\n`,
    ...more,
  });
  return [...(fleet.broken.get('shop') ?? fleet.stacks.get('shop')?.warnings ?? [])];
}
const said = (list: readonly Diagnostic[]): string[] =>
  list.map(
    ({ severity, code, place, help }) =>
      `${severity} ${code} ${place?.file}:${place?.line}:${place?.column} ${help ?? ''}`,
  );

describe('a service that the stack does not have is refused with its place', () => {
  it.each([
    ['of a scale', '  test: [{ scale: { web: 0, wrker: 0 } }]', '4:29'],
    ['of an exec', '  test: [{ exec: { service: wrker, command: a } }]', '4:29'],
    ['that is waited for', '  test: [{ wait-healthy: wrker }]', '4:26'],
    ['of a list that is waited for', '  test: [{ wait-healthy: [web, wrker] }]', '4:32'],
    ['in a branch', '  test: [{ if: { value: a, equals: a }, then: [{ scale: { wrker: 0 } }] }]', '4:59'],
  ])('%s', (_what, hooks, at) => {
    expect(said(found(hooks))).toEqual([`error SERVICE_UNKNOWN shop/stack.yaml:${at} did you mean \`worker\`?`]);
  });

  it('of a job, in the file of the job', () => {
    const list = found('  test: [{ job: say }]', { 'shop/say.job.yaml': job('service: wrker\n') });
    expect(said(list)).toEqual(['error SERVICE_UNKNOWN shop/say.job.yaml:3:10 did you mean `worker`?']);
  });

  it('before a change only warned of: what is deployed may have it still', () => {
    expect(said(found('  pre_update: [{ scale: { legacy: 0 } }]'))).toEqual([
      'warning SERVICE_UNKNOWN shop/stack.yaml:4:27 ',
    ]);
  });

  it('not where an included file may have it', () => {
    const more = { 'shop/compose.yaml': `include: ["oci://example.org/more"]\n${compose}` };
    const list = found('  test: [{ scale: { other: 0 } }]', more);
    expect(list.map((one) => one.code)).toEqual(['REFERENCE_REMOTE']);
  });
});

it('a job that calls itself otherwise than its file is refused', () => {
  const list = found('  test: [{ job: say }]', { 'shop/say.job.yaml': job('name: other\nservice: web\n') });
  expect(said(list)).toEqual(['error NAME_MISMATCH shop/say.job.yaml:3:7 ']);
});
