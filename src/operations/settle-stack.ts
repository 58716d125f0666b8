// Settle stack: the one place where the outcome of a pass over a stack becomes conditions and at most one event, whoever made the pass.
import type { Hold } from '../core/state/applied.ts';
import type { StackEvent } from '../core/status/event.ts';
import { isSilent } from '../core/status/fault-reason.ts';
import { recentHeals } from '../core/status/heal.ts';
import { type ComeBack, type Outcome, settle, type Verification } from '../core/status/settle.ts';
import type { House } from './house.ts';
import type { Judged } from './survey.ts';

export interface SettledStack {
  readonly comeBack: ComeBack;
  readonly event: StackEvent | null;
}

export const healsOf = ({ store }: House, stack: string): readonly number[] =>
  (store.value(`heals/${stack}`) as number[] | null) ?? [];

/** What is to be said of a stack that nothing is done to: it is held, it has drifted and is left so, or it is in sync. */
export function untouchedOutcome({ stack, diff }: Judged, hold: Hold | null): Outcome {
  if (hold) return { kind: hold.kind, reason: hold.reason, untilMs: hold.untilMs };
  const changes = diff.changes.length;
  if (changes > 0) return { kind: 'drift-found', policy: stack.drift === 'off' ? 'off' : 'warn', changes };
  return { kind: 'in-sync' };
}

/** `newest`: the newest verified revision, for a stack that was not judged. The conditions speak of the commit that was judged, since a
 * newer one may have come meanwhile; a rolled back stack's speak of the one that was refused. */
export function settleStack(
  house: House,
  stack: string,
  pass: {
    readonly judged: Judged | null;
    readonly newest: string;
    /** What is known of the newest commit's signatures; default: none is asked for. */
    readonly verified?: Verification;
    readonly outcome: Outcome;
    readonly failures: number;
  },
): SettledStack {
  const { store, clock, redact } = house;
  const { judged, outcome } = pass;
  const nowMs = clock.nowMs();
  const revision = judged?.insteadOf?.revision ?? judged?.at.revision.commit ?? pass.newest;
  const settled = settle({
    nowMs,
    previous: store.conditions(stack),
    revision,
    appliedRevision: store.applied(stack)?.revision ?? '',
    rolledBack: judged?.insteadOf?.reason ?? null,
    verified: pass.verified ?? { kind: 'disabled' },
    // Without its secrets nothing is known of what a stack should be: it did not fail.
    outcome: outcome.kind === 'failed' && isSilent(outcome.fault.code) ? { ...outcome, kind: 'unknown' } : outcome,
    health: judged
      ? { state: judged.health.state, detail: judged.health.problems.map((one) => one.message).join('; ') }
      : null,
    ...(judged?.diff.situation === 'drift' ? { drift: judged.diff.changes.length } : {}),
    failures: pass.failures,
    recentHeals: recentHeals(healsOf(house, stack), nowMs).length,
  });
  store.putConditions(stack, settled.conditions);
  if (!settled.event) return { comeBack: settled.comeBack, event: null };
  const message = redact(settled.event.message);
  return {
    comeBack: settled.comeBack,
    event: store.appendEvent({ ...settled.event, message, atMs: nowMs, stack, revision }),
  };
}
