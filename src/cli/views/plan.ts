// View of a plan: what would happen to each stack, unchanged ones as a count, a summary and the digest.
import type { Change } from '../../core/diff/change.ts';
import { formatStackDiff } from '../../core/plan/format.ts';
import { formatRevision } from '../../core/state/revision.ts';
import type { PlanView } from '../../surface.ts';
import { formatFault } from '../exit.ts';
import type { Io } from '../io.ts';
import { formatDiagnostic } from './diagnostic.ts';

export function countChanges(view: PlanView): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const one of view.work)
    for (const change of one.diff.changes) counts[wordOf(change)] = (counts[wordOf(change)] ?? 0) + 1;
  if (view.gone.removable.length > 0) counts['uninstall'] = view.gone.removable.length;
  return counts;
}

const wordOf = (change: Change): string =>
  change.repair === 'remove-network'
    ? 'remove'
    : change.repair === 'connect' || change.repair === 'disconnect'
      ? 'reconnect'
      : change.repair;

export function hasErrors(view: PlanView): boolean {
  return (
    view.surveyed.some((one) => one.kind !== 'judged') ||
    view.at.fleet.diagnostics.some((one) => one.severity === 'error')
  );
}

export function hasChanges(view: PlanView): boolean {
  return view.work.some((one) => one.diff.changes.length > 0) || view.gone.removable.length > 0;
}

export function formatPlan(io: Io, view: PlanView): string {
  const lines: string[] = [`revision ${formatRevision(view.at.revision)}  ${view.at.revision.subject}`, ''];
  for (const one of view.at.fleet.diagnostics) lines.push(formatDiagnostic(io, one), '');
  let same = 0;
  for (const one of [...view.surveyed].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    if (one.kind === 'invalid')
      for (const diagnostic of one.diagnostics) lines.push(formatDiagnostic(io, diagnostic), '');
    else if (one.kind === 'refused') {
      if (one.judged) lines.push(...paintMarks(io, formatStackDiff(one.judged.diff)));
      lines.push(formatFault(io, one.fault, { stack: one.name }), '');
    } else if (one.diff.changes.length === 0 && one.diff.warnings.length === 0) {
      same++;
      if (view.work.includes(one))
        lines.push(
          `${io.paint('bold', one.name)}: ${one.attempt ? 'finish the last deploy (wait until it is stable)' : 'runs as asked for; only to be remembered'}`,
          '',
        );
    } else lines.push(...paintMarks(io, formatStackDiff(one.diff)), '');
  }
  for (const one of view.gone.removable)
    lines.push(
      `${io.paint('bold', one.stack)}: left the fleet`,
      `  ${io.paint('red', '-')} uninstall: containers and networks; volumes stay`,
      '',
    );
  for (const one of view.gone.kept) lines.push(`${one.stack}: left the fleet; stays because of prune: false`, '');
  if (view.gone.guard)
    lines.push(
      io.paint('yellow', `prune waits: ${view.gone.guard}; \`windlass prune --confirm ${view.gone.digest}\``),
      '',
    );
  if (same > 0) lines.push(`${same} in sync`);
  const counts = Object.entries(countChanges(view)).map(([word, count]) => `${count} to ${word}`);
  lines.push(
    counts.length > 0
      ? `Plan: ${counts.join(', ')}${view.digest ? `; digest ${view.digest}` : ''}`
      : 'Plan: nothing to do',
  );
  return lines.join('\n');
}

function paintMarks(io: Io, lines: readonly string[]): string[] {
  return lines.map((line, index) => {
    if (index === 0) return line.replace(/^[^:]+/, (name) => io.paint('bold', name));
    const style = { '+': 'green', '-': 'red', '~': 'yellow', '!': 'red' }[line[2] ?? ''] as
      | 'green'
      | 'red'
      | 'yellow'
      | undefined;
    return style ? `  ${io.paint(style, line[2] ?? '')}${line.slice(3)}` : line;
  });
}

/** For machines: no secrets, stable names. */
export function planJson(view: PlanView): unknown {
  return {
    windlass: 'plan-view',
    version: 1,
    revision: view.at.revision.commit,
    digest: view.digest,
    counts: countChanges(view),
    stacks: view.surveyed.map((one) => {
      if (one.kind === 'invalid') return { stack: one.name, state: 'invalid', diagnostics: one.diagnostics };
      if (one.kind === 'refused')
        return {
          stack: one.name,
          state: 'refused',
          code: one.fault.code,
          message: one.fault.message,
          changes: one.judged?.diff.changes ?? [],
        };
      const { situation, changes, untouched, warnings } = one.diff;
      return { stack: one.name, state: situation, changes, untouched, warnings, desired: one.resolved.desired.digest };
    }),
    uninstall: view.gone.removable.map((one) => one.stack),
    kept: view.gone.kept.map((one) => one.stack),
    guard: view.gone.guard,
    pruneDigest: view.gone.digest,
    diagnostics: view.at.fleet.diagnostics,
  };
}
