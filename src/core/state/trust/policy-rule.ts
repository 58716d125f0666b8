// Policy rule: which rule of a policy holds for an operation on a stack. Ordered: the first that names both. None means refuse.
import { parseDuration } from '../../spec/duration.ts';
import { matchGlobs } from '../../spec/glob.ts';
import type { Policy, PolicyRule, RuledOperation } from '../../spec/policy.ts';

export interface HoldingRule {
  /** Its place in the policy, from 0. */
  readonly index: number;
  readonly rule: PolicyRule;
}

/** The first rule for this operation whose globs name this stack; null when nothing allows it. */
export function ruleFor(policy: Policy, operation: RuledOperation, stack: string): HoldingRule | null {
  const index = policy.rules.findIndex((rule) => rule.operation === operation && matchGlobs(rule.stacks, stack));
  const rule = policy.rules[index];
  return rule === undefined ? null : { index, rule };
}

/** Who may sign deploys of a stack; nobody when no rule names it. */
export const deploySigners = (policy: Policy, stack: string): readonly string[] =>
  ruleFor(policy, 'deploy', stack)?.rule.requesters ?? [];

/** The longest life that a rule allows, at most `most`; 0, so that nothing lives, when its text cannot be read. */
export const longestLifeMs = (rule: PolicyRule, most: number): number =>
  Math.min(most, rule.maxLifetime === undefined ? most : (parseDuration(rule.maxLifetime) ?? 0));

/** The delay of a rule; endless when its text cannot be read. */
export const delayMs = (rule: PolicyRule): number =>
  rule.minDelay === undefined ? 0 : (parseDuration(rule.minDelay) ?? Number.POSITIVE_INFINITY);
