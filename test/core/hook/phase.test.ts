import { expect, it } from 'vitest';
import { type HookPhase, isPre, PHASES } from '../../../src/core/hook/phase.ts';
import { misplaced, OPERATIONS } from '../../../src/core/spec/hooks.ts';

it('knows 22 phases: before and after each of ten operations, post_deployed and test', () => {
  const around = OPERATIONS.flatMap((operation) => [`pre_${operation}`, `post_${operation}`]);
  expect(PHASES).toEqual([...around, 'post_deployed', 'test']);
  expect(PHASES).toHaveLength(22);
  expect(PHASES.filter(isPre)).toHaveLength(10);
});

it('lets nothing exec into a stack that may not be there', () => {
  const without = PHASES.filter((phase) => misplaced(phase, 'job', 'exec') !== null);
  const expected: HookPhase[] = ['pre_install', 'post_uninstall', 'pre_restore', 'pre_recover', 'pre_rollback'];
  expect([...without].sort()).toEqual([...expected].sort());
  expect(PHASES.filter((phase) => misplaced(phase, 'exec', null) !== null)).toEqual(without);
  for (const context of ['container', 'http'])
    for (const phase of PHASES) expect(misplaced(phase, 'job', context), phase).toBeNull();
});
