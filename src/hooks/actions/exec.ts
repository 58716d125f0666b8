// Action `exec`: one command in a running container of a service.
import type { ActionOf } from '../../core/hook/action.ts';
import { runExec } from '../job.ts';
import type { ActionContext, Outcome } from '../outcome.ts';

export const exec = (ctx: ActionContext, action: ActionOf<'exec'>): Promise<Outcome> => runExec(ctx, action);
