// Action `sleep`: lets time pass.
import type { ActionOf } from '../../core/hook/action.ts';
import { type ActionContext, done, type Outcome } from '../outcome.ts';

export async function sleep(ctx: ActionContext, action: ActionOf<'sleep'>): Promise<Outcome> {
  await ctx.clock.sleep(action.ms, ctx.signal);
  return done();
}
