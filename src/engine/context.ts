// Context: what all cells of one run or probe share, and what of it a step is given.
import { PlanCache } from './cache.ts';
import { type Clock, systemClock } from './clock.ts';
import { DEFAULT_GRACE_MS } from './deadline.ts';
import type { ProbeOptions } from './options.ts';
import type { StepContext } from './step.ts';

export interface Shared {
  readonly signal: AbortSignal;
  readonly cache: PlanCache;
  readonly clock: Clock;
  readonly graceMs: number;
  /** Somebody said stop: nothing new may start. */
  halted(): boolean;
  /** Why. */
  reason(): unknown;
}

export function sharedFrom({ signal = new AbortController().signal, stop, ...options }: ProbeOptions): Shared {
  return {
    signal,
    cache: options.cache ?? new PlanCache(),
    clock: options.clock ?? systemClock,
    graceMs: options.graceMs ?? DEFAULT_GRACE_MS,
    halted: () => signal.aborted || stop?.aborted === true,
    reason: () => (signal.aborted ? signal.reason : stop?.reason),
  };
}

export const contextFor = (
  { cache, clock }: Shared,
  own: Pick<StepContext, 'signal' | 'phase' | 'slot'> & Partial<Pick<StepContext, 'fresh' | 'note'>>,
): StepContext => ({ fresh: false, note() {}, cache, now: () => clock.now(), ...own });
