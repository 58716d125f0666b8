// Action `job`: runs a declared job in its context.
import type { ActionOf } from '../../core/hook/action.ts';
import { runJob } from '../job.ts';
import type { ActionContext, Outcome } from '../outcome.ts';

export const job = (ctx: ActionContext, action: ActionOf<'job'>): Promise<Outcome> => runJob(ctx, action.job);
