// Request work: what each kind of request does, behind one shape. It asks nobody: whoever calls it has claimed the request.
import type { Request } from '../../core/spec/request.ts';
import type { Workbench } from '../workbench.ts';
import { type PurgePlan, planPurge, purge } from './purge.ts';

/** Plain JSON without a secret: on record before the first change, so that it can be finished after a crash. */
export type RequestWork = { readonly operation: 'purge'; readonly plan: PurgePlan };

export type WorkPlan =
  | { readonly kind: 'plan'; readonly work: RequestWork }
  /** Nothing may be done now; the request is not spent. */
  | { readonly kind: 'wait'; readonly why: string };

/** Reads only. */
export async function planWork(bench: Workbench, request: Request, signal: AbortSignal): Promise<WorkPlan> {
  if (request.kind !== 'Purge')
    return { kind: 'wait', why: `${request.kind.toLowerCase()} is not carried out by this version` };
  const facts = await planPurge(bench.house, bench.look, request, signal);
  return facts.kind === 'wait' ? facts : { kind: 'plan', work: { operation: 'purge', plan: facts.plan } };
}

/** Whose leases it needs. */
export const stacksOf = ({ plan }: RequestWork): readonly string[] => [plan.stack];

/** For the preview and the record of the run. */
export const changesOf = ({ plan }: RequestWork): readonly string[] =>
  plan.volumes.map((one) => `remove the volume ${one.name} and its data`);

/** With the leases held. A second call finishes what the first left. What was done, in words. */
export async function doWork(bench: Workbench, work: RequestWork, signal: AbortSignal): Promise<string> {
  const gone = await purge(bench.house, work.plan, signal);
  return gone.length === 0 ? 'there was nothing to remove' : `removed ${gone.join(', ')}`;
}
