// Hooks of a stack: which phases a deploy of it has still to run, and with which actions. Decides and tells; runs nothing.
import { createHash } from 'node:crypto';
import { describe, type HookAction } from '../core/hook/action.ts';
import type { HookPhase } from '../core/hook/phase.ts';
import { type DuePhases, deployOperation, deployPhases } from '../core/hook/situation.ts';
import type { SecretRef } from '../core/render/context.ts';
import { renderHooks } from '../core/render/hooks.ts';
import { backupOf as readBackup } from '../core/render/render.ts';
import type { Backup } from '../core/spec/backup.ts';
import type { LoadedStack } from '../core/spec/loaded.ts';
import type { Attempt } from '../core/state/applied.ts';
import type { FleetAt } from './fleet-at.ts';
import { InvalidStack } from './resolve.ts';
import type { Judged } from './survey.ts';

/** `attempt`: the one on record; that of another desired state is none. */
function factsOf(judged: Judged, attempt: Attempt | null) {
  const { digest } = judged.resolved.desired;
  const same = attempt?.digest === digest ? attempt : null;
  // A first deploy that never ended well is still the first, whatever it asks for now.
  const isFirst = judged.applied === null && attempt?.operation === 'install';
  // In place once it is recorded: then what differs is drift.
  const isInPlace = attempt === null && judged.applied?.desired.digest === digest;
  return {
    situation: judged.diff.situation,
    isRollback: judged.insteadOf !== null && !isInPlace,
    begun: same?.operation ?? (isFirst ? 'install' : null),
    completedPhases: (same?.completedPhases ?? []) as readonly HookPhase[],
  };
}

export const operationOf = (judged: Judged, attempt: Attempt | null): NonNullable<Attempt['operation']> =>
  deployOperation(factsOf(judged, attempt));

export const dueOf = (judged: Judged, attempt: Attempt | null): DuePhases => deployPhases(factsOf(judged, attempt));

/** Throws InvalidStack for a mistake in a job or a template of it. */
export function actionsOf(
  stack: LoadedStack,
  at: FleetAt,
  phase: HookPhase,
): { readonly actions: readonly HookAction[]; readonly secrets: readonly SecretRef[] } {
  const { diagnostics, ...rendered } = renderHooks(stack, at.fleet.stacks, phase);
  if (diagnostics.length > 0) throw new InvalidStack(diagnostics);
  return rendered;
}

const digests = new WeakMap<LoadedStack, string>();

/** Of all that runs around operations, backup.yaml with it; '' = it has none. */
export function hooksDigestOf(stack: LoadedStack): string {
  const known = digests.get(stack);
  if (known !== undefined) return known;
  const backup = stack.layout.kind === 'app' ? stack.layout.app.texts['backup.yaml'] : undefined;
  const none = Object.keys(stack.hooks).length === 0 && backup === undefined;
  const digest = none
    ? ''
    : createHash('sha256')
        .update(JSON.stringify([stack.hooks, stack.jobs, ...(backup === undefined ? [] : [backup])]))
        .digest('hex');
  digests.set(stack, digest);
  return digest;
}

/** What the app says of its own backup; null when it says nothing. Throws InvalidStack. */
export function backupOf(stack: LoadedStack): Backup | null {
  const said = stack.layout.kind === 'app' ? readBackup(stack.layout.app) : null;
  if (said?.value === null) throw new InvalidStack(said.diagnostics);
  return said?.value ?? null;
}

export interface HookPreview {
  readonly phase: HookPhase;
  readonly when: 'before' | 'after';
  readonly actions: readonly string[];
}

/** What a deploy would run, in its order; phases without actions are left out. */
export function previewHooks(judged: Judged): readonly HookPreview[] {
  return previewPhases(judged.stack, judged.at, dueOf(judged, judged.attempt));
}

/** Throws InvalidStack. */
export function previewPhases(stack: LoadedStack, at: FleetAt, due: DuePhases): readonly HookPreview[] {
  const preview = (when: 'before' | 'after') => (phase: HookPhase) => ({
    phase,
    when,
    actions: actionsOf(stack, at, phase).actions.map(describe),
  });
  return [...due.before.map(preview('before')), ...due.after.map(preview('after'))].filter(
    (one) => one.actions.length > 0,
  );
}
