// What the steps of one deploy share: the house, how to look again, and what each stack was judged to be.

import { Fault } from '../core/fault.ts';
import type { HookRecord } from '../core/status/event.ts';
import { planKey } from '../engine/cache.ts';
import type { StepContext } from '../engine/step.ts';
import type { House } from './house.ts';
import type { Judged } from './survey.ts';
import type { Workbench } from './workbench.ts';

/** Payload of a deploy target: plain JSON, so that a plan can be stored and printed. */
export interface DeployTarget {
  readonly stack: string;
  readonly revision: string;
  /** Digest of what is desired. */
  readonly desired: string;
  /** Digest of what was observed when the plan was made. */
  readonly observed: string;
}

export interface DeployRun {
  readonly id: string;
  readonly house: House;
  readonly bench: Workbench;
  /** As planned, then as its secrets were minted. */
  readonly judged: Map<string, Judged>;
  /** Taken while a stack changes the engine, given back while it settles: a wait never holds a worker that another stack needs. */
  readonly worker: { acquire(signal: AbortSignal): Promise<() => void> } | null;
  /** Stack → aborted when a newer revision takes the place of this one. */
  readonly superseded?: ReadonlyMap<string, AbortSignal>;
  /** Stack → what this very deploy failed with when the controller died in one of its hooks: it ends so, and begins nothing. */
  readonly cut?: ReadonlyMap<string, Fault>;
  /** Takes away what leaves the fleet and has a port that this stack takes over: last thing before its containers are made. */
  readonly makeRoom?: (judged: Judged, ctx: Pick<StepContext, 'signal' | 'note'>) => Promise<void>;
  /** A hook phase ended, well or not: into the record of the run. */
  hookEnded(stack: string, hook: HookRecord): void;
}

/** The Fault of a run that a newer revision took the place of, or that a person wanted to stop. */
export const supersededFault = (why = 'a newer revision arrived'): Fault =>
  new Fault('CANCELLED', why, { data: { outcome: 'superseded' } });

const judgedNow = planKey<Judged>('judged');

/** From now on the run works on this. */
export function setJudged(run: DeployRun, ctx: Pick<StepContext, 'cache'>, judged: Judged): void {
  run.judged.set(judged.name, judged);
  ctx.cache.set(judgedNow.at(judged.name), judged);
}

/** The stack as last seen in this run; looks again when the context is fresh. */
export async function judgedOf(
  run: DeployRun,
  ctx: Pick<StepContext, 'cache' | 'fresh'>,
  stack: string,
): Promise<Judged> {
  const planned = run.judged.get(stack);
  if (!planned) throw new Fault('NOT_FOUND', `there is no stack ${stack} in this plan`);
  const key = judgedNow.at(stack);
  if (!ctx.fresh) return ctx.cache.get(key) ?? planned;
  const judged = await run.bench.surveyor.again(
    planned,
    await run.bench.look.fresh([planned.resolved.desired.project]),
  );
  ctx.cache.set(key, judged);
  return judged;
}
