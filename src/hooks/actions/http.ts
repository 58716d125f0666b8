// Action `http`: one request.
import type { ActionOf } from '../../core/hook/action.ts';
import { runHttp } from '../job.ts';
import type { ActionContext, Outcome } from '../outcome.ts';

export const http = (ctx: ActionContext, action: ActionOf<'http'>): Promise<Outcome> => runHttp(ctx, action.call);
