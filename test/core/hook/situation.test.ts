import { describe, expect, it } from 'vitest';
import type { Situation } from '../../../src/core/diff/change.ts';
import type { HookPhase } from '../../../src/core/hook/phase.ts';
import {
  type DeployFacts,
  deployPhases,
  type OtherOperation,
  operationPhases,
} from '../../../src/core/hook/situation.ts';

type Begun = DeployFacts['begun'];

describe('which hooks a deploy runs', () => {
  it.each<[string, Situation, Begun, HookPhase[], string]>([
    ['first deploy', 'install', null, [], 'pre_install | post_install post_deployed'],
    ['changed desired state', 'update', null, [], 'pre_update | post_update post_deployed'],
    ['only replicas changed', 'scale', null, [], 'pre_scale | post_scale'],
    ['no-op', 'same', null, [], ' | '],
    ['drift healed', 'drift', null, [], ' | '],
    ['retry of a heal that looks like an update', 'update', 'heal', [], ' | '],
    ['retry of an update whose pre phase is done', 'update', 'update', ['pre_update'], ' | post_update post_deployed'],
    [
      'retry of half an install, which looks like an update',
      'update',
      'install',
      ['pre_install'],
      ' | post_install post_deployed',
    ],
    [
      'retry of an install of which nothing is there yet',
      'install',
      'install',
      ['pre_install'],
      ' | post_install post_deployed',
    ],
    ['retry before any phase was done', 'update', 'update', [], 'pre_update | post_update post_deployed'],
    ['crash between converge and post phase', 'same', 'update', ['pre_update'], ' | post_update post_deployed'],
    ['crash between two post phases', 'same', 'install', ['pre_install', 'post_install'], ' | post_deployed'],
    ['crash before the record', 'same', 'update', ['pre_update', 'post_update', 'post_deployed'], ' | '],
    ['crash after a scale', 'same', 'scale', ['pre_scale'], ' | post_scale'],
    ['drift in the middle of a retry', 'drift', 'update', ['pre_update'], ' | post_update post_deployed'],
    ['retry of a rollback that looks like drift', 'drift', 'rollback', ['pre_rollback'], ' | post_rollback'],
  ])('%s', (_what, situation, begun, completedPhases, expected) => {
    const { before, after } = deployPhases({ situation, isRollback: false, begun, completedPhases });
    expect(`${before.join(' ')} | ${after.join(' ')}`).toBe(expected);
  });

  it('a rollback runs its own, whatever its differences look like', () => {
    for (const situation of ['update', 'scale', 'drift', 'same'] as const)
      expect(deployPhases({ situation, isRollback: true, begun: null, completedPhases: [] })).toEqual({
        before: ['pre_rollback'],
        after: ['post_rollback'],
      });
  });
});

describe('which hooks other operations run', () => {
  it.each<[OtherOperation, string]>([
    ['uninstall', 'pre_uninstall | post_uninstall'],
    ['scale', 'pre_scale | post_scale'],
    ['backup', 'pre_backup | post_backup'],
    ['restore', 'pre_restore | post_restore post_deployed'],
    ['recover', 'pre_recover | post_recover'],
    ['clone', 'pre_clone | post_clone'],
    ['move', 'pre_move | post_move'],
    ['rollback', 'pre_rollback | post_rollback'],
    ['test', ' | test'],
  ])('%s', (operation, expected) => {
    const { before, after } = operationPhases(operation);
    expect(`${before.join(' ')} | ${after.join(' ')}`).toBe(expected);
  });
});
