// Policy words: a rule as a sentence, and what changes from one policy version to the next. It judges nothing.
import type { Policy, PolicyRule } from '../../spec/policy.ts';
import { parseKeyLine } from './allowed-signers.ts';
import { fingerprintV4, readKeyring } from './openpgp-packet.ts';
import { openPgpKeys } from './policy-file.ts';

export interface PolicyChange {
  readonly sign: '+' | '-' | '~';
  readonly text: string;
}

/** `restore of *: asked for by anna; 2 of bert, cleo approve; lives at most 7d` */
export function ruleInWords(rule: PolicyRule): string {
  const { operation, stacks, requesters, approvers = [], threshold = 0 } = rule;
  const what = `${operation} of ${stacks.join(', ')}`;
  if (operation === 'deploy') return `${what}: signed by one of ${requesters.join(', ')}`;
  return [
    `${what}: asked for by ${requesters.join(', ')}`,
    `${threshold} of ${approvers.join(', ')} approve${rule.requesterMayApprove === true ? ', whoever asks included' : ''}`,
    ...(rule.maxLifetime === undefined ? [] : [`lives at most ${rule.maxLifetime}`]),
    ...(rule.minDelay === undefined ? [] : [`runs ${rule.minDelay} after the last approval`]),
  ].join('; ');
}

/** Each key of a principal, as `ssh SHA256:…` or `openpgp 40 hex`. */
export function keysInWords(policy: Policy, principal: string): readonly string[] {
  const ssh = (policy.principals[principal]?.ssh ?? []).map((line) => `ssh ${parseKeyLine(line).fingerprint}`);
  const openpgp = openPgpKeys(policy, principal).flatMap((armored) =>
    readKeyring(Buffer.from(armored, 'latin1')).blocks.map(
      ({ primary }) => `openpgp ${fingerprintV4(primary).toUpperCase()}`,
    ),
  );
  return [...ssh, ...openpgp];
}

/** In the order of the file; empty when only comments differ. */
export function policyChanges(before: Policy, after: Policy): readonly PolicyChange[] {
  return [...peopleChanges(before, after), ...adminChanges(before, after), ...ruleChanges(before, after)];
}

function peopleChanges(before: Policy, after: Policy): PolicyChange[] {
  const names = [...new Set([...Object.keys(before.principals), ...Object.keys(after.principals)])].sort();
  return names.flatMap((name): PolicyChange[] => {
    const had = Object.hasOwn(before.principals, name) ? keysInWords(before, name) : null;
    const has = Object.hasOwn(after.principals, name) ? keysInWords(after, name) : null;
    if (had === null) return [{ sign: '+', text: `principal ${name} with ${(has ?? []).join(', ')}` }];
    if (has === null) return [{ sign: '-', text: `principal ${name} with ${had.join(', ')}` }];
    return [
      ...lacking(had, has).map((key) => ({ sign: '+' as const, text: `key of ${name}: ${key}` })),
      ...lacking(has, had).map((key) => ({ sign: '-' as const, text: `key of ${name}: ${key}` })),
    ];
  });
}

function adminChanges({ admins: before }: Policy, { admins: after }: Policy): PolicyChange[] {
  return [
    ...lacking(before.members, after.members).map((name) => ({ sign: '+' as const, text: `admin ${name}` })),
    ...lacking(after.members, before.members).map((name) => ({ sign: '-' as const, text: `admin ${name}` })),
    ...(before.threshold === after.threshold
      ? []
      : [{ sign: '~' as const, text: `admins who must sign a version: ${before.threshold} → ${after.threshold}` }]),
  ];
}

function ruleChanges(before: Policy, after: Policy): PolicyChange[] {
  const had = before.rules.map(ruleInWords);
  const has = after.rules.map(ruleInWords);
  const kept = (list: readonly string[], other: readonly string[]) =>
    list.filter((one) => other.includes(one)).join('\n');
  return [
    ...lacking(had, has).map((text) => ({ sign: '+' as const, text: `rule ${has.indexOf(text) + 1}: ${text}` })),
    ...lacking(has, had).map((text) => ({ sign: '-' as const, text: `rule ${had.indexOf(text) + 1}: ${text}` })),
    ...(kept(had, has) === kept(has, had)
      ? []
      : [{ sign: '~' as const, text: 'the order of the rules: the first that fits holds' }]),
  ];
}

/** What `list` has and `of` lacks. */
const lacking = (of: readonly string[], list: readonly string[]): string[] => list.filter((one) => !of.includes(one));
