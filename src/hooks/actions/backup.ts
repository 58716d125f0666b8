// Action `backup`: makes an archive of the stack through the primitive: no backup hooks fire.
import type { ActionOf } from '../../core/hook/action.ts';
import { type ActionContext, done, type Outcome } from '../outcome.ts';

export async function backup(ctx: ActionContext, action: ActionOf<'backup'>): Promise<Outcome> {
  await ctx.ports.backup(action.reason, ctx.signal);
  return done();
}
