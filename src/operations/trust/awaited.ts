// Awaited: stacks that an authorised request is about to bring back from an archive. Where nothing is deployed yet, nothing is to be deployed
// empty before its data is there. Reads only.
import type { Request } from '../../core/spec/request.ts';
import type { House } from '../house.ts';
import { lookAtTrust } from './look.ts';

/** Stack → the request that waits for nothing but its turn or its time. */
export async function awaitedStacks(house: House, tip: string): Promise<ReadonlyMap<string, string>> {
  const awaited = new Map<string, string>();
  const { requests } = await lookAtTrust(house, tip);
  for (const { id, evaluation } of requests)
    if (evaluation.request !== null && (evaluation.state === 'ready' || evaluation.state === 'scheduled'))
      for (const stack of targetsOf(evaluation.request)) awaited.set(stack, id);
  return awaited;
}

function targetsOf(request: Request): readonly string[] {
  if (request.kind === 'Recover') return request.stacks.map((name) => request.rename?.[name] ?? name);
  if (request.kind === 'Purge') return [];
  return [request.target ?? request.stack];
}
