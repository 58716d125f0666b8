import { describe, expect, it } from 'vitest';
import { FakeWorld } from './fake-world.ts';

describe('a hook run', () => {
  it('performs its actions in order and brings services back', async () => {
    const world = new FakeWorld({ app: 2 });
    const actions = world.plan('post_install', [{ job: 'check' }, { scale: { app: 0 } }, { job: 'work' }], {
      check: {},
      work: {},
    });
    const result = await world.run(world.start(actions).result);
    expect(result.outcome).toBe('succeeded');
    expect(world.story).toEqual(['check started', 'check ended 0', 'app 0', 'work started', 'work ended 0', 'app 2']);
  });
});
