// Awaited: stacks that an authorised request is about to bring back from an archive, or that one failed to, or no longer will. Where nothing is
// deployed yet, nothing is to be deployed empty before its data is there or a person has decided.
import { asFault } from '../../core/fault.ts';
import type { Request } from '../../core/spec/request.ts';
import type { RequestEvaluation } from '../../core/state/trust/evaluate-request.ts';
import { unrestoredHold } from '../by-request.ts';
import { type Awaited, NONE_AWAITED } from '../hold-now.ts';
import type { House } from '../house.ts';
import { lookAtTrust } from './look.ts';
import { broughtBack, type RequestWork } from './request-work.ts';

/** What a request is about to do, on record from before its claim until its end. */
export const intentKey = (id: string): string => `request-intent/${id}`;

/** Stacks that an authorised request was seen to bring back, on record until it did or a hold says that it did not. */
const AWAITED = 'request-awaited/';

/** Throws nothing: what cannot be read may name any stack. Writes nothing. */
export async function awaitedStacks(house: House, tip: string): Promise<Awaited> {
  if (!house.trust?.anchor) return NONE_AWAITED;
  const stacks = new Map<string, string>();
  const lost = new Map<string, string>();
  try {
    const { requests, ledger } = await lookAtTrust(house, tip);
    for (const { id, evaluation } of requests)
      if (evaluation.request !== null && isAuthorised(evaluation))
        for (const stack of targetsOf(evaluation.request)) stacks.set(stack, id);
    // Under way, or cut: its statements are spent, so they no longer make it ready.
    for (const { id, state } of ledger.snapshots()) {
      const work = house.store.value(intentKey(id)) as RequestWork | undefined;
      if (work !== undefined && (state === 'claimed' || state === 'executing'))
        for (const stack of broughtBack(work)) stacks.set(stack, id);
    }
    for (const [key, names] of house.store.values(AWAITED)) {
      const id = key.slice(AWAITED.length);
      // What it did is known, and what it failed to do is held already.
      if (ledger.snapshot(id)?.state === 'succeeded' || house.store.value(intentKey(id)) !== undefined) continue;
      for (const stack of names as readonly string[]) if (!stacks.has(stack)) lost.set(stack, id);
    }
    return { stacks, lost, unknown: null };
  } catch (error) {
    return { stacks, lost: new Map(), unknown: house.redact(asFault(error, 'GIT_UNREACHABLE').message) };
  }
}

/** Also one that only a copy of its file holds: it runs as soon as that is gone, and whoever made the copy needed no key. */
const isAuthorised = ({ state, reason, requester, missing }: RequestEvaluation): boolean =>
  state === 'ready' || state === 'scheduled' || (reason === 'request-copied' && requester !== null && missing === 0);

/** Writes down which requests are awaited, and holds what the others no longer bring back: at no moment may git bring that up empty. */
export function settleAwaited(house: House, { stacks, lost, unknown }: Awaited): void {
  const { store } = house;
  if (unknown !== null) return;
  const byRequest = (found: ReadonlyMap<string, string>): ReadonlyMap<string, readonly string[]> =>
    Map.groupBy([...found.keys()], (stack) => found.get(stack) ?? '');
  const awaited = byRequest(stacks);
  for (const [id, names] of byRequest(lost)) holdUnrestored(house, id, names);
  for (const key of store.values(AWAITED).keys()) if (!awaited.has(key.slice(AWAITED.length))) store.deleteValue(key);
  for (const [id, names] of awaited) {
    const before = store.value(`${AWAITED}${id}`) as readonly string[] | undefined;
    // Looked at often, and written down once.
    if (before?.join() !== [...names].sort().join()) store.putValue(`${AWAITED}${id}`, [...names].sort());
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
    store.putHold(stack, unrestoredHold(request, stack, clock.nowMs()));
  }
}
