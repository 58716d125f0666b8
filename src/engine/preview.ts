// Preview: the contract between the operator and the run, as plain text or as a tree for a terminal. Pure; asks nobody.
import { type Colour, columnsOf, cut, oneLine, pad, paint } from './display.ts';
import type { Preview, ProbeCell, ProbeStatus } from './probe.ts';

/** Changes the words of a preview, never what runs. */
export interface PlanDisplayHints {
  readonly dryRun?: boolean;
  readonly skipPhases?: readonly string[];
  /** Only for the styled form; default true. */
  readonly colour?: boolean;
}

export interface PreviewCounts {
  readonly execute: number;
  readonly satisfied: number;
  readonly notApplicable: number;
  readonly skipped: number;
  readonly errors: number;
}

export function countPreview(preview: Preview): PreviewCounts {
  const counts = { execute: 0, satisfied: 0, notApplicable: 0, skipped: 0, errors: 0 };
  for (const { status } of preview) counts[kindOf(status)]++;
  return counts;
}

function kindOf(status: ProbeStatus): keyof PreviewCounts {
  if (status === 'will execute' || status === 'would execute') return 'execute';
  if (status === 'satisfied') return 'satisfied';
  if (status === 'not applicable') return 'notApplicable';
  return status === 'skipped (phase)' ? 'skipped' : 'errors';
}

const looks: Record<keyof PreviewCounts, Colour> = {
  execute: 'yellow',
  satisfied: 'green',
  notApplicable: 'dim',
  skipped: 'dim',
  errors: 'red',
};

interface Look {
  readonly width: number;
  /** What stands before an entry, and before what hangs below it. */
  branch(last: boolean): readonly [string, string];
  colour(name: Colour, text: string): string;
}

const plain: Look = { width: Number.POSITIVE_INFINITY, branch: () => ['  ', '  '], colour: (_name, text) => text };

/** Phase, target, step and status, indented; further lines of a note follow below their step. */
export const formatPreview = (operation: string, preview: Preview): string => draw(operation, preview, plain);

/** The same as a tree, no line wider than `width` columns. */
export const formatStyledPreview = (
  op: string,
  preview: Preview,
  width: number,
  hints: PlanDisplayHints = {},
): string =>
  draw(op, preview, {
    width,
    branch: (last) => (last ? ['└─ ', '   '] : ['├─ ', '│  ']),
    colour: hints.colour === false ? plain.colour : paint,
  });

function draw(operation: string, preview: Preview, { width, branch, colour }: Look): string {
  const names = nameWidth(preview);
  const lines = [colour('bold', cut(oneLine(operation), width))];
  const phases = groupBy(preview, (cell) => cell.phase);
  for (const [at, [phase, rows]] of phases.entries()) {
    const [twig, bar] = branch(at === phases.length - 1);
    lines.push(cut(twig + oneLine(phase), width));
    const targets = groupBy(rows, (cell) => cell.targetId);
    for (const [below, [target, cells]] of targets.entries()) {
      const [targetTwig, targetBar] = branch(below === targets.length - 1);
      lines.push(cut(bar + targetTwig + oneLine(target), width));
      for (const [under, cell] of cells.entries()) {
        const [cellTwig, cellBar] = branch(under === cells.length - 1);
        const stem = cut(`${bar}${targetBar}${cellTwig}${pad(cell.step, names)}  `, width);
        const status = cut(oneLine(cell.status), width - columnsOf(stem));
        const [first = '', ...more] = noteLines(cell);
        const note = first && cut(`  ${first}`, width - columnsOf(stem) - columnsOf(status));
        lines.push(stem + (status && colour(looks[kindOf(cell.status)], status)) + note);
        for (const line of more) lines.push(cut(`${bar}${targetBar}${cellBar}${' '.repeat(names)}  ${line}`, width));
      }
    }
  }
  return [...lines, colour('dim', cut(summary(preview), width))].join('\n');
}

const nameWidth = (preview: Preview) => preview.reduce((most, cell) => Math.max(most, columnsOf(cell.step)), 0);

const noteLines = (cell: ProbeCell): string[] =>
  (cell.note ?? '')
    .split('\n')
    .map((line) => oneLine(line))
    .filter((line) => line !== '');

/** Neighbours with the same key, in order. */
function groupBy(cells: Preview, key: (cell: ProbeCell) => string): [string, ProbeCell[]][] {
  const groups: [string, ProbeCell[]][] = [];
  for (const cell of cells) {
    const last = groups.at(-1);
    if (last?.[0] === key(cell)) last[1].push(cell);
    else groups.push([key(cell), [cell]]);
  }
  return groups;
}

function summary(preview: Preview): string {
  const counts = countPreview(preview);
  const verb = preview.some((cell) => cell.status === 'would execute') ? 'would execute' : 'will execute';
  const parts = [`${counts.execute} ${verb}`, `${counts.satisfied} satisfied`];
  if (counts.notApplicable > 0) parts.push(`${counts.notApplicable} not applicable`);
  if (counts.skipped > 0) parts.push(`${counts.skipped} skipped`);
  if (counts.errors > 0) parts.push(`${counts.errors} could not be read`);
  return parts.join(', ');
}
