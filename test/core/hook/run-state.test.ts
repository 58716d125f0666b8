import { describe, expect, it } from 'vitest';
import type { HookAction } from '../../../src/core/hook/action.ts';
import { type HookRun, jobContainerName } from '../../../src/core/hook/run-state.ts';

const RUN: HookRun = {
  stack: 'shop',
  project: 'shop',
  home: '/state/stacks',
  operation: 'install',
  phase: 'pre_install',
  digest: 'd',
  attempt: 1,
};
const action = { id: '1', kind: 'job', job: { name: 'say' } } as HookAction;

describe('the name of a job container', () => {
  const name = jobContainerName(RUN, action, 1);

  it('is the same for the same try, and begins with what people look for', () => {
    expect(jobContainerName({ ...RUN }, action, 1)).toBe(name);
    expect(name).toMatch(/^shop-pre_install-say-[0-9a-f]{12}$/);
  });

  it.each<[string, Partial<HookRun>]>([
    ['attempt', { attempt: 2 }],
    ['desired state', { digest: 'e' }],
    ['operation', { operation: 'update' }],
    ['controller, for a project of the same name on the same engine', { home: '/other/stacks' }],
  ])('is another one for another %s', (_what, other) => {
    expect(jobContainerName({ ...RUN, ...other }, action, 1)).not.toBe(name);
  });

  it('stays what it was for a run that was begun before runs had a home', () => {
    const { home: _home, ...before } = RUN;
    expect(jobContainerName(before, action, 1)).toBe('shop-pre_install-say-d2759ebdef8e');
  });
});
