// Action `halt`: the rest of the sequence is skipped and the phase succeeds.
import type { ActionOf } from '../../core/hook/action.ts';
import { type ActionContext, halted, type Outcome } from '../outcome.ts';

export const halt = async (_ctx: ActionContext, action: ActionOf<'halt'>): Promise<Outcome> => halted(action.reason);
