// Action `scale`: brings services to replica counts, one after the other. Drives the primitive: no hooks fire.
import type { ActionOf } from '../../core/hook/action.ts';
import { type ActionContext, done, type Outcome } from '../outcome.ts';

export async function scale(ctx: ActionContext, action: ActionOf<'scale'>): Promise<Outcome> {
  for (const [service, target] of Object.entries(action.targets)) await ctx.scale(service, target, ctx.signal);
  return done();
}
