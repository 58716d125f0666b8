// View of stacks: one row each, or one stack in full.

import type { Condition, ConditionType } from '../../core/status/condition.ts';
import type { RunRecord } from '../../core/status/event.ts';
import { formatAge, formatConditions } from '../../core/status/format-condition.ts';
import type { StackStatus } from '../../surface.ts';
import type { Io } from '../io.ts';
import { formatTable } from './table.ts';

const of = (status: StackStatus, type: ConditionType): Condition | undefined =>
  status.conditions.find((one) => one.type === type);

export function formatStatuses(io: Io, statuses: readonly StackStatus[], nowMs: number): string {
  if (statuses.length === 0) return 'no stack is known yet: run `windlass apply` or `windlass run`';
  const rows = statuses.map((one) => {
    const ready = of(one, 'Ready');
    return [
      one.name,
      ready?.status ?? 'Unknown',
      ready?.reason ?? '',
      one.applied?.revision.slice(0, 7) ?? '-',
      of(one, 'Healthy')?.status ?? '-',
      of(one, 'Drifted')?.status ?? '-',
      ready ? formatAge(nowMs - ready.sinceMs) : '-',
      ready?.message.split('\n')[0] ?? '',
    ];
  });
  return formatTable(['NAME', 'READY', 'REASON', 'REVISION', 'HEALTHY', 'DRIFTED', 'AGE', 'MESSAGE'], rows, io.width);
}

export function formatStatus(io: Io, one: StackStatus, lastRun: RunRecord | undefined, nowMs: number): string {
  const lines = [`stack     ${io.paint('bold', one.name)}`];
  if (one.applied) {
    lines.push(`deployed  ${one.applied.revision.slice(0, 12)}, ${formatAge(nowMs - one.applied.atMs)} ago`);
    for (const service of one.applied.desired.services)
      lines.push(
        `service   ${service.name}  ${service.image}  ×${service.replicas}  ${one.applied.roles[service.name] ?? ''}`.trimEnd(),
      );
  } else lines.push('deployed  never');
  if (one.attempt)
    lines.push(
      `attempt   ${one.attempt.count} at ${one.attempt.revision.slice(0, 12)}${one.attempt.lastFault ? `: ${one.attempt.lastFault.code} ${one.attempt.lastFault.message}` : ''}`,
    );
  for (const hold of one.holds)
    lines.push(
      `hold      ${hold.kind}${hold.reason ? `: ${hold.reason}` : ''}${hold.untilMs > 0 ? ` until ${new Date(hold.untilMs).toISOString()}` : ''}`,
    );
  if (lastRun)
    lines.push(`last run  ${lastRun.operation} ${lastRun.outcome}${lastRun.message ? `: ${lastRun.message}` : ''}`);
  if (one.conditions.length > 0) lines.push('', formatConditions(one.conditions, nowMs));
  return lines.join('\n');
}
