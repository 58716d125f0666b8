// View of hooks: the sequence of each phase as it would run, closed secrets as their refs.
import { describe, flattened, type HookAction } from '../../core/hook/action.ts';
import type { HookPhase } from '../../core/hook/phase.ts';
import { replaceTokens } from '../../core/render/token.ts';
import { formatDuration } from '../../core/spec/duration.ts';
import type { HookRecord, RunRecord } from '../../core/status/event.ts';
import type { Painter } from '../io.ts';
import { formatTable, oneLine } from './table.ts';

export interface Sequence {
  readonly phase: HookPhase;
  readonly actions: readonly HookAction[];
}

/** Plain data with every closed secret written as its ref. */
export function told<T>(value: T): T {
  if (typeof value === 'string') return replaceTokens(value, (ref) => ref) as T;
  if (Array.isArray(value)) return value.map(told) as T;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, told(one)])) as T;
}

export function formatSequences(io: Painter & { readonly width: number }, sequences: readonly Sequence[]): string {
  return sequences
    .map(({ phase, actions }) => {
      const rows = flattened(told(actions)).map((action) => [
        action.id,
        whatOf(action),
        formatDuration(action.timeoutMs),
        oddities(action).join(', '),
      ]);
      return `${io.paint('bold', phase)}\n${formatTable(['#', 'ACTION', 'TIMEOUT', ''], rows, io.width)}`;
    })
    .join('\n\n');
}

/** How one phase of a run ended, in one cell. */
export const formatHook = ({ phase, outcome, message, changed }: HookRecord): string =>
  [
    `${phase} ${outcome}${outcome === 'succeeded' && message !== '' ? ` (${message})` : ''}`,
    ...(changed ?? []).map((one) => `${phase}: ${one}`),
  ].join('; ');

const TAIL_LINES = 5;

/** Below the runs of a stack: the last lines of each action that failed, '' when none did. The kept log is of a phase's newest run only. */
export function formatFailedHooks(io: Painter, stack: string, runs: readonly RunRecord[]): string {
  const lines: string[] = [];
  const told = new Set<string>();
  for (const run of runs)
    for (const hook of run.hooks ?? []) {
      const isNewest = !told.has(hook.phase);
      told.add(hook.phase);
      const failed = hook.actions.filter((one) => one.result === 'failed');
      if (failed.length === 0) continue;
      lines.push('', `${new Date(hook.startedAtMs).toISOString().slice(0, 19)} ${io.paint('bold', hook.phase)}`);
      for (const one of failed) {
        lines.push(`  ${oneLine(one.name)}: ${oneLine(one.message)}`);
        for (const line of one.tail.slice(-TAIL_LINES)) lines.push(`  ${io.paint('dim', '|')} ${oneLine(line)}`);
      }
      if (isNewest) lines.push(`  all of it: windlass hooks log ${stack} ${hook.phase}`);
    }
  return lines.length === 0 ? '' : `\n${lines.join('\n')}`;
}

/** Its given name first when it has one of its own. */
function whatOf(action: HookAction): string {
  const does = describe(action);
  return action.name === does ? does : `${action.name}: ${does}`;
}

/** Where it differs from what an action is by default. */
function oddities(action: HookAction): readonly string[] {
  return [
    ...(action.kind === 'job' ? [whereOf(action.job)] : []),
    ...(action.weight === 0 ? [] : [`weight ${action.weight}`]),
    ...(action.retries === 0 ? [] : [action.retries === 1 ? '1 retry' : `${action.retries} retries`]),
    ...(action.onFailure === 'continue' ? ['goes on after a failure'] : []),
    ...(action.once === null ? [] : ['once for each desired state']),
  ];
}

function whereOf(job: Extract<HookAction, { kind: 'job' }>['job']): string {
  switch (job.context) {
    case 'http':
      return `${job.call.method} ${job.call.url}`;
    case 'exec':
      return `in ${job.service}`;
    case 'container':
      return job.service === null ? `container of ${job.image}` : `container like ${job.service}`;
  }
}
