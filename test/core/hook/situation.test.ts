import { describe, expect, it } from 'vitest';
import type { Situation } from '../../../src/core/diff/change.ts';
import type { HookPhase } from '../../../src/core/hook/phase.ts';
import { deployPhases, type OtherOperation, operationPhases } from '../../../src/core/hook/situation.ts';

describe('which hooks a deploy runs', () => {
  it.each<[string, Situation, HookPhase[], string]>([
    ['first deploy', 'install', [], 'pre_install | post_install post_deployed'],
    ['changed desired state', 'update', [], 'pre_update | post_update post_deployed'],
    ['only replicas changed', 'scale', [], 'pre_scale | post_scale'],
    ['no-op', 'same', [], ' | '],
    ['drift healed', 'drift', [], ' | '],
    ['retry of an update whose pre phase is done', 'update', ['pre_update'], ' | post_update post_deployed'],
    [
      'retry of half an install, which looks like an update',
      'update',
      ['pre_install'],
      ' | post_install post_deployed',
    ],
    ['retry of an install of which nothing is there yet', 'install', ['pre_install'], ' | post_install post_deployed'],
    ['retry before any phase was done', 'update', [], 'pre_update | post_update post_deployed'],
    ['crash between converge and post phase', 'same', ['pre_update'], ' | post_update post_deployed'],
    ['crash between two post phases', 'same', ['pre_install', 'post_install'], ' | post_deployed'],
    ['crash before the record', 'same', ['pre_update', 'post_update', 'post_deployed'], ' | '],
    ['crash after a scale', 'same', ['pre_scale'], ' | post_scale'],
    ['drift in the middle of a retry', 'drift', ['pre_update'], ' | post_update post_deployed'],
  ])('%s', (_what, situation, completedPhases, expected) => {
    const { before, after } = deployPhases({ situation, completedPhases });
    expect(`${before.join(' ')} | ${after.join(' ')}`).toBe(expected);
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
