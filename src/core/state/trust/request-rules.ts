// Request rules: which rules of a policy hold for a request, whom they let ask, whose approvals count and how long it may live.
import { operationOf, type Request, touchedStacks } from '../../spec/request.ts';
import type { PolicyVersion } from './policy-file.ts';
import { type HoldingRule, longestLifeMs, ruleFor } from './policy-rule.ts';

export interface RequestRules {
  /** Each once, in the order of the policy. */
  readonly holding: readonly HoldingRule[];
  /** Stacks that the request touches and that no rule names for its operation: one is enough to refuse it. */
  readonly without: readonly string[];
  /** Those whom every rule lets ask. */
  readonly requesters: readonly string[];
  /** Those whose approval counts for some rule. */
  readonly approvers: readonly string[];
  /** How many approvals the rule that asks for most asks for. */
  readonly threshold: number;
  /** From when it is asked for. */
  readonly mostMs: number;
}

export function rulesFor(request: Request, { policy }: Pick<PolicyVersion, 'policy'>, mostMs: number): RequestRules {
  const found = touchedStacks(request).map((stack) => ({ stack, rule: ruleFor(policy, operationOf(request), stack) }));
  const byIndex = new Map(found.flatMap(({ rule }) => (rule === null ? [] : [[rule.index, rule] as const])));
  const holding = [...byIndex.values()].sort((a, b) => a.index - b.index);
  const [first] = holding;
  return {
    holding,
    without: found.flatMap(({ stack, rule }) => (rule === null ? [stack] : [])),
    requesters: (first?.rule.requesters ?? []).filter((name) =>
      holding.every(({ rule }) => rule.requesters.includes(name)),
    ),
    approvers: [...new Set(holding.flatMap(({ rule }) => rule.approvers ?? []))],
    threshold: Math.max(0, ...holding.map(({ rule }) => rule.threshold ?? 0)),
    mostMs: Math.min(mostMs, ...holding.map(({ rule }) => longestLifeMs(rule, mostMs))),
  };
}
