// View of stacks: one row each, or one stack in full.

import type { Condition, ConditionType } from '../../core/status/condition.ts';
import type { RunRecord } from '../../core/status/event.ts';
import { formatAge, formatConditions } from '../../core/status/format-condition.ts';
import type { StackStatus } from '../../surface.ts';
import type { Painter } from '../io.ts';
import { formatHold } from './plan.ts';
import { formatSize } from './size.ts';
import { formatTable, oneLine } from './table.ts';

const of = (status: StackStatus, type: ConditionType): Condition | undefined =>
  status.conditions.find((one) => one.type === type);

const READY = 1;
const STYLES = { True: 'green', False: 'red', Unknown: 'yellow' } as const;

export function formatStatuses(
  io: Painter & { readonly width: number },
  statuses: readonly StackStatus[],
  nowMs: number,
): string {
  const rows = statuses.map((one) => {
    const ready = of(one, 'Ready');
    return [
      one.name,
      ready?.status ?? 'Unknown',
      ready?.reason ?? 'Unknown',
      one.applied?.revision.slice(0, 7) ?? '-',
      of(one, 'Healthy')?.status ?? '-',
      of(one, 'Drifted')?.status ?? '-',
      ready ? formatAge(nowMs - ready.sinceMs) : '-',
      ready?.message ?? '',
    ];
  });
  return formatTable(
    ['NAME', 'READY', 'REASON', 'REVISION', 'HEALTHY', 'DRIFTED', 'AGE', 'MESSAGE'],
    rows,
    io.width,
    (cell, column, row) =>
      column === READY ? io.paint(STYLES[row[READY] as keyof typeof STYLES] ?? 'yellow', cell) : cell,
  );
}

export function formatStatus(io: Painter, one: StackStatus, lastRun: RunRecord | undefined, nowMs: number): string {
  const rows: [string, string][] = [['stack', io.paint('bold', one.name)]];
  if (one.applied) {
    rows.push(['deployed', `${one.applied.revision.slice(0, 12)}, ${formatAge(nowMs - one.applied.atMs)} ago`]);
    for (const service of one.applied.desired.services)
      rows.push([
        'service',
        // What is deployed, not how it is: that is for the conditions below.
        `${service.name}  ${service.image}  ×${service.replicas}${one.applied.roles[service.name] === 'completed' ? '  one-shot' : ''}`,
      ]);
  } else rows.push(['deployed', 'never']);
  if (one.attempt) {
    const { count, revision, lastFault } = one.attempt;
    rows.push([
      'attempt',
      `${count} at ${revision.slice(0, 12)}${lastFault ? `: ${lastFault.code} ${oneLine(lastFault.message)}` : ''}`,
    ]);
  }
  if (one.backup) rows.push(...formatBackup(io, one.backup, nowMs));
  if (one.drill) rows.push(...formatDrill(io, one.drill, nowMs));
  for (const hold of one.holds) rows.push(['hold', formatHold(hold)]);
  if (lastRun)
    rows.push([
      'last run',
      `${lastRun.operation} ${lastRun.outcome}${lastRun.message ? `: ${oneLine(lastRun.message)}` : ''}`,
    ]);
  return [
    ...rows.map(([key, text]) => `${key.padEnd(9)} ${text}`),
    ...(one.conditions.length > 0 ? ['', formatConditions(one.conditions, nowMs)] : []),
  ].join('\n');
}

export const formatTook = (ms: number): string => (ms < 10_000 ? `${(ms / 1000).toFixed(1)}s` : formatAge(ms));

function formatDrill(
  io: Painter,
  { schedule, nextMs, last, verified }: NonNullable<StackStatus['drill']>,
  nowMs: number,
): [string, string][] {
  const rows: [string, string][] = [];
  if (last) {
    const text = `${last.archive.slice(0, 12) || 'no archive'}, ${last.outcome} ${formatAge(nowMs - last.atMs)} ago, took ${formatTook(last.durationMs)}: ${oneLine(last.message)}`;
    rows.push(['drill', last.outcome === 'verified' ? text : io.paint('red', text)]);
  } else rows.push(['drill', io.paint('yellow', 'none yet')]);
  if (verified && verified.archive !== last?.archive)
    rows.push(['verified', `${verified.archive.slice(0, 12)}, ${formatAge(nowMs - verified.atMs)} ago`]);
  if (schedule !== null)
    rows.push([
      'drills',
      `${schedule} UTC${nextMs === null ? '' : `, next ${new Date(nextMs).toISOString().slice(0, 16)}Z`}`,
    ]);
  return rows;
}

function formatBackup(
  io: Painter,
  { schedule, nextMs, last, failing }: NonNullable<StackStatus['backup']>,
  nowMs: number,
): [string, string][] {
  const rows: [string, string][] = [];
  if (last)
    rows.push([
      'backup',
      `${last.archive.slice(0, 12)}, ${formatAge(nowMs - last.atMs)} ago, ${formatSize(last.sizeBytes)}, took ${formatTook(last.durationMs)}, ${last.readAtMs === null ? '' : `read again ${formatAge(nowMs - last.readAtMs)} ago, `}${last.verifiedAtMs === null ? 'never verified' : `verified ${formatAge(nowMs - last.verifiedAtMs)} ago`}`,
    ]);
  else rows.push(['backup', io.paint('yellow', 'none yet')]);
  if (schedule !== null)
    rows.push([
      'schedule',
      `${schedule} UTC${nextMs === null ? '' : `, next ${new Date(nextMs).toISOString().slice(0, 16)}Z`}`,
    ]);
  if (failing)
    rows.push([
      'failing',
      io.paint(
        'red',
        `${failing.failures} tr${failing.failures === 1 ? 'y' : 'ies'} for ${formatAge(nowMs - failing.sinceMs)}: ${failing.code} ${oneLine(failing.message)}`,
      ),
    ]);
  return rows;
}
