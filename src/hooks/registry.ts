// Registry of the actions: what runs for each kind, and what is left of a try that a dead controller had begun.
import { ACTION_KINDS, type ActionKind, type ActionOf, type HookAction } from '../core/hook/action.ts';
import { backup } from './actions/backup.ts';
import { exec } from './actions/exec.ts';
import { halt } from './actions/halt.ts';
import { http } from './actions/http.ts';
import { branch } from './actions/if.ts';
import { job } from './actions/job.ts';
import { scale } from './actions/scale.ts';
import { sleep } from './actions/sleep.ts';
import { waitHealthy } from './actions/wait-healthy.ts';
import type { ActionContext, Outcome } from './outcome.ts';

type Run<Kind extends ActionKind> = (ctx: ActionContext, action: ActionOf<Kind>) => Promise<Outcome>;

const RUNS: { readonly [Kind in ActionKind]: Run<Kind> } = {
  job,
  scale,
  halt,
  'wait-healthy': waitHealthy,
  exec,
  http,
  backup,
  if: branch,
  sleep,
};

/** What the compiler checks a sequence against. */
export const ACTORS: readonly string[] = ACTION_KINDS;

export function runAction(ctx: ActionContext, action: HookAction): Promise<Outcome> {
  return (RUNS[action.kind] as Run<ActionKind>)(ctx, action as ActionOf<ActionKind>);
}

/** What a try may have left running in the world, and whether doing it again from its beginning is harmless. */
export type LeftoverKind = 'nothing' | 'container' | 'exec' | 'unknown';

export function leftoverOf(action: HookAction): LeftoverKind {
  const kind = action.kind === 'job' ? action.job.context : action.kind;
  switch (kind) {
    case 'container':
      return 'container';
    case 'exec':
      return 'exec';
    case 'http':
    case 'backup':
      // Whether the request was carried out nobody can tell.
      return 'unknown';
    default:
      return 'nothing';
  }
}
