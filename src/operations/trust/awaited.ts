// Awaited: stacks that an authorised request is about to bring back from an archive, or that one failed to. Where nothing is deployed yet,
// nothing is to be deployed empty before its data is there or a person has decided.
import { asFault } from '../../core/fault.ts';
import type { Request } from '../../core/spec/request.ts';
import { type Awaited, NONE_AWAITED } from '../hold-now.ts';
import type { House } from '../house.ts';
import { lookAtTrust } from './look.ts';
import { broughtBack, type RequestWork } from './request-work.ts';

/** What a request is about to do, on record from before its claim until its end. */
export const intentKey = (id: string): string => `request-intent/${id}`;

/** Throws nothing: what cannot be read may name any stack. */
export async function awaitedStacks(house: House, tip: string): Promise<Awaited> {
  if (!house.trust?.anchor) return NONE_AWAITED;
  const stacks = new Map<string, string>();
  try {
    const { requests, ledger } = await lookAtTrust(house, tip);
    for (const { id, evaluation } of requests)
      if (evaluation.request !== null && (evaluation.state === 'ready' || evaluation.state === 'scheduled'))
        for (const stack of targetsOf(evaluation.request)) stacks.set(stack, id);
    // Under way, or cut: its statements are spent, so they no longer make it ready.
    for (const { id, state } of ledger.snapshots()) {
      const work = house.store.value(intentKey(id)) as RequestWork | undefined;
      if (work !== undefined && (state === 'claimed' || state === 'executing'))
        for (const stack of broughtBack(work)) stacks.set(stack, id);
    }
    return { stacks, unknown: null };
  } catch (error) {
    return { stacks, unknown: house.redact(asFault(error, 'GIT_UNREACHABLE').message) };
  }
}

export function targetsOf(request: Request): readonly string[] {
  if (request.kind === 'Recover') return request.stacks.map((name) => request.rename?.[name] ?? name);
  if (request.kind === 'Purge') return [];
  return [request.target ?? request.stack];
}

/** Of a request that did not end well: what it was to bring back is not made empty in its place until a person says so. */
export function holdUnrestored({ store, clock }: House, request: string, stacks: readonly string[]): void {
  for (const stack of stacks) {
    if (store.applied(stack) !== null || store.attempt(stack) !== null) continue;
    const reason = `the request ${request} did not bring it back from its archive; \`windlass resume ${stack}\` deploys it without that data`;
    store.putHold(stack, { kind: 'held', reason, sinceMs: clock.nowMs(), untilMs: 0, service: '' });
  }
}
