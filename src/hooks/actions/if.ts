// Action `if`: looks at a value and says which branch the sequence takes; the branches are states of the machine.
import type { ActionOf, ConditionTest } from '../../core/hook/action.ts';
import { type ActionContext, done, type Outcome } from '../outcome.ts';

export async function branch(ctx: ActionContext, action: ActionOf<'if'>): Promise<Outcome> {
  const value = await ctx.resolve(action.value, null);
  return { ...done(), branch: holds(action.test, value) ? 'yes' : 'no' };
}

function holds(test: ConditionTest, value: string): boolean {
  switch (test.kind) {
    case 'equals':
      return value === test.to;
    case 'not-equals':
      return value !== test.to;
    case 'in':
      return test.list.includes(value);
    case 'empty':
      return (value === '') === test.expected;
  }
}
