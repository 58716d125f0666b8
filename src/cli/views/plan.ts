// View of a plan: what would happen to each stack, unchanged ones as a count, a summary and the digest.
import type { Change } from '../../core/diff/change.ts';
import { formatStackDiff } from '../../core/plan/format.ts';
import type { Hold } from '../../core/state/applied.ts';
import { formatRevision } from '../../core/state/revision.ts';
import type { RunRecord } from '../../core/status/event.ts';
import type { PlanView, Succession } from '../../surface.ts';
import { EXIT, exitOf } from '../exit.ts';
import type { Painter } from '../io.ts';
import { formatDiagnostic, inReadingOrder, plural } from './diagnostic.ts';
import { formatFault } from './fault.ts';
import { oneLine } from './table.ts';

const WORDS = [
  'create',
  'recreate',
  'start',
  'restart',
  'signal',
  'unpause',
  'rename',
  'reconnect',
  'update',
  'remove',
  'uninstall',
];

const wordOf = (change: Change): string =>
  change.repair === 'remove-network'
    ? 'remove'
    : change.repair === 'connect' || change.repair === 'disconnect'
      ? 'reconnect'
      : change.repair;

/** Word of a change → how many of them; in the order in which they are shown. */
export function countChanges(view: PlanView): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  const add = (word: string, count: number): void => {
    if (count > 0) counts.set(word, (counts.get(word) ?? 0) + count);
  };
  for (const one of view.work) for (const change of one.diff.changes) add(wordOf(change), 1);
  const stays = view.successions.filter(({ by }) => !isWork(view, by)).length;
  add('uninstall', view.gone.guard === null ? view.gone.removable.length - stays : 0);
  return new Map([...counts].sort(([a], [b]) => WORDS.indexOf(a) - WORDS.indexOf(b)));
}

const isWork = ({ work }: PlanView, stack: string): boolean => work.some(({ name }) => name === stack);

/** Changes something that runs; without it a plan has at most things to remember. */
export function hasChanges(view: PlanView): boolean {
  return countChanges(view).size > 0 || view.left.size > 0;
}

/** The exit code of what a plan cannot do: 0 when it can do all. A mistake in a declaration comes before a refusal of the world. */
export function errorExit(view: PlanView): number {
  if (view.denied) return exitOf(view.denied);
  if (isInvalid(view)) return EXIT.usage;
  const refused = view.surveyed.find((one) => one.kind === 'refused');
  return refused?.kind === 'refused' ? exitOf(refused.fault) : EXIT.done;
}

/** The same after an apply: it did the rest, so a stack that it had to leave out is a failure like any other. */
export function leftOutExit(view: PlanView): number {
  return isInvalid(view) ? EXIT.failed : errorExit(view);
}

const isInvalid = (view: PlanView): boolean =>
  view.surveyed.some((one) => one.kind === 'invalid') ||
  view.at.fleet.diagnostics.some((one) => one.severity === 'error');

export function formatPlan(io: Painter, view: PlanView): string {
  const lines: string[] = [`revision ${formatRevision(view.at.revision)}  ${oneLine(view.at.revision.subject)}`, ''];
  for (const one of inReadingOrder(view.at.fleet.diagnostics)) lines.push(formatDiagnostic(io, one), '');
  let same = 0;
  for (const one of [...view.surveyed].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const hold = view.held.get(one.name);
    if (one.kind === 'invalid')
      for (const diagnostic of inReadingOrder(one.diagnostics)) lines.push(formatDiagnostic(io, diagnostic), '');
    else if (one.kind === 'refused') {
      if (one.judged) lines.push(...paintMarks(io, formatStackDiff(one.judged.diff)));
      lines.push(formatFault(io, one.fault, { stack: one.name }), '');
    } else if (one.diff.changes.length === 0 && one.diff.warnings.length === 0) {
      same++;
      if (view.work.includes(one) && one.attempt)
        lines.push(
          `${io.paint('bold', one.name)}: finish the last deploy (wait until it is stable)`,
          ...formatHooks(io, view, one.name),
          '',
        );
    } else
      lines.push(
        ...paintMarks(io, formatStackDiff(one.diff)),
        ...formatHooks(io, view, one.name),
        ...(hold ? [`    ${io.paint('yellow', formatHold(hold))}; it is left as it is`] : []),
        '',
      );
  }
  for (const [stack, what] of view.left)
    lines.push(
      `${io.paint('bold', stack)}: ${what.join(', ')}`,
      `    ${io.paint('cyan', 'first')} this is brought to its end, and every service back to its count`,
      '',
    );
  for (const one of view.gone.removable)
    lines.push(
      `${io.paint('bold', one.stack)}: left the fleet`,
      view.gone.guard === null
        ? `  ${io.paint('red', '-')} uninstall: containers and networks; volumes stay${formatSuccession(view, one.stack)}`
        : '    waits for a word: see below',
      ...formatHooks(io, view, one.stack),
      ...formatLost(io, view.lostHooks.get(one.stack)),
      '',
    );
  for (const one of view.gone.kept) lines.push(formatStays(one.stack, view.byRequest), '');
  if (view.gone.guard)
    lines.push(
      io.paint('yellow', `prune waits: ${view.gone.guard}; \`windlass prune --confirm ${view.gone.digest}\``),
      '',
    );
  if (view.denied) lines.push(formatFault(io, view.denied), '');
  if (view.surveyed.length === 0 && view.gone.removable.length === 0)
    lines.push(
      'no stack was found: a Compose file at the root, in a folder of it, or in stacks/*, services/*, apps/* would be one',
      '',
    );
  if (same > 0) lines.push(`${same} in sync`);
  lines.push(formatSummary(view));
  return lines.join('\n');
}

/** When it goes, where that is not at the end. */
function formatSuccession(view: PlanView, stack: string): string {
  const one = view.successions.find(({ leaver }) => leaver.stack === stack);
  if (one === undefined) return '';
  return isWork(view, one.by)
    ? `; right before ${one.by} comes, which takes its ${one.what} over`
    : `; not before ${one.by} can be deployed, which takes its ${one.what} over`;
}

export const formatStays = (stack: string, byRequest: readonly string[]): string =>
  byRequest.includes(stack)
    ? `${stack}: lives by a request, git does not declare it; stays until \`windlass prune ${stack}\` takes its containers away`
    : `${stack}: left the fleet; stays because of prune: false, until \`windlass prune ${stack}\` takes its containers away`;

export const formatKept = ({ leaver, by, what }: Succession): string =>
  `left ${leaver.stack} running: ${by}, which takes its ${what} over, was not deployed`;

/** In the order in which they run, around the change. */
export const formatPhases = (io: Painter, hooks: NonNullable<ReturnType<PlanView['hooks']['get']>>): string[] =>
  hooks.flatMap(({ phase, when, actions }) => [
    `    ${io.paint('cyan', `hook ${phase}`)} ${when} the change`,
    ...actions.map((action, index) => `      ${index + 1}. ${oneLine(action)}`),
  ]);

const formatHooks = (io: Painter, view: PlanView, stack: string): string[] =>
  formatPhases(io, view.hooks.get(stack) ?? []);

export const formatLost = (io: Painter, lost: string | undefined): string[] =>
  lost === undefined ? [] : [`    ${io.paint('yellow', oneLine(lost))}`];

export const formatRemoved = ({ stack, message }: RunRecord): string =>
  `uninstalled ${stack}; its volumes stay${message === '' ? '' : `; ${oneLine(message)}`}`;

function formatSummary(view: PlanView): string {
  const parts = [...countChanges(view)].map(([word, count]) => `${count} to ${word}`);
  if (view.left.size > 0) parts.push(`${plural(view.left.size, 'interrupted stack')} to finish`);
  const quiet = view.work.filter((one) => one.diff.changes.length === 0);
  const finish = quiet.filter((one) => one.attempt !== null).length;
  if (finish > 0) parts.push(`${plural(finish, 'deploy')} to finish`);
  if (quiet.length > finish) parts.push(`${plural(quiet.length - finish, 'stack')} to remember`);
  const held = view.surveyed.filter((one) => one.kind === 'judged' && view.held.has(one.name)).length;
  if (held > 0) parts.push(`${held} held`);
  const stopped = view.surveyed.filter((one) => one.kind !== 'judged').length;
  if (stopped > 0) parts.push(`${stopped} with errors`);
  return `Plan: ${parts.length > 0 ? parts.join(', ') : 'nothing to do'}${view.digest ? `; digest ${view.digest}` : ''}`;
}

/** Stack → why it was not even tried. */
export function leftOutJson(view: PlanView): Record<string, unknown> {
  return Object.fromEntries(
    view.surveyed.flatMap((one): [string, unknown][] =>
      one.kind === 'invalid'
        ? [[one.name, { code: 'INVALID_SPEC', diagnostics: one.diagnostics }]]
        : one.kind === 'refused'
          ? [[one.name, { code: one.fault.code, message: one.fault.message }]]
          : [],
    ),
  );
}

export function formatHold(hold: Hold): string {
  const until = hold.untilMs > 0 ? ` until ${new Date(hold.untilMs).toISOString()}` : '';
  return `${hold.kind}${until}${hold.reason ? `: ${oneLine(hold.reason)}` : ''}`;
}

/** The stack's name in bold, marks in their colours. */
export function paintMarks(io: Painter, lines: readonly string[]): string[] {
  return lines.map((line, index) => {
    const text = line.replaceAll(/[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g, ' ');
    if (index === 0) return text.replace(/^[^:]+/, (name) => io.paint('bold', name));
    const mark = /^ {2}([+~!-]) /.exec(text)?.[1];
    const style = { '+': 'green', '-': 'red', '~': 'yellow', '!': 'red' }[mark ?? ''] as
      | 'green'
      | 'red'
      | 'yellow'
      | undefined;
    return style && mark ? `  ${io.paint(style, mark)}${text.slice(3)}` : text;
  });
}

/** For machines: no secrets, stable names. */
export function planJson(view: PlanView): unknown {
  const names = new Set(view.gone.removable.map((one) => one.stack));
  return {
    windlass: 'plan-view',
    version: 1,
    revision: view.at.revision.commit,
    digest: view.digest,
    counts: Object.fromEntries(countChanges(view)),
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
      const hold = view.held.get(one.name);
      return {
        stack: one.name,
        state: situation,
        changes,
        untouched,
        warnings,
        desired: one.resolved.desired.digest,
        hooks: view.hooks.get(one.name) ?? [],
        ...(hold ? { held: hold } : {}),
      };
    }),
    interrupted: Object.fromEntries(view.left),
    uninstall: [...names],
    uninstallBefore: Object.fromEntries(
      view.successions.map(({ leaver, by, what }) => [leaver.stack, { stack: by, takes: what }]),
    ),
    uninstallHooks: Object.fromEntries([...names].map((stack) => [stack, view.hooks.get(stack) ?? []])),
    lostHooks: Object.fromEntries([...view.lostHooks].filter(([stack]) => names.has(stack))),
    kept: view.gone.kept.map((one) => one.stack),
    byRequest: view.byRequest,
    guard: view.gone.guard,
    pruneDigest: view.gone.digest,
    refused: view.denied ? { code: view.denied.code, message: view.denied.message } : null,
    diagnostics: view.at.fleet.diagnostics,
  };
}
