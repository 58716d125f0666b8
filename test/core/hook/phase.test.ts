import { expect, it } from 'vitest';
import { contextsOf, type HookPhase, isPre, operationOf, PHASES } from '../../../src/core/hook/phase.ts';

it('knows 22 phases: before and after each of ten operations, post_deployed and test', () => {
  expect(PHASES).toHaveLength(22);
  expect(PHASES.filter((phase) => operationOf(phase) === null)).toEqual(['post_deployed', 'test']);
  expect(PHASES.filter(isPre)).toHaveLength(10);
});

it('lets nothing exec into a stack that may not be there', () => {
  const without = PHASES.filter((phase) => !contextsOf(phase).includes('exec'));
  const expected: HookPhase[] = ['pre_install', 'post_uninstall', 'pre_restore', 'pre_recover', 'pre_rollback'];
  expect([...without].sort()).toEqual([...expected].sort());
  for (const phase of PHASES) expect(contextsOf(phase)).toEqual(expect.arrayContaining(['container', 'http']));
});
