// Mermaid: a compiled sequence as the text of a state diagram.
import type { ChartTransition, Statechart } from './chart.ts';

export function mermaidOf(chart: Statechart): string {
  const lines = ['stateDiagram-v2', `  [*] --> ${chart.initial}`];
  for (const [name, state] of Object.entries(chart.states)) {
    if (state.description !== name) lines.push(`  ${name}: ${plain(state.description)}`);
    const edges = new Map<string, string[]>();
    for (const transition of state.invoke?.onDone ?? []) {
      if (transition.target === undefined) continue;
      const labels = edges.get(transition.target) ?? [];
      edges.set(transition.target, [...labels, labelOf(transition)]);
    }
    for (const [target, labels] of edges) {
      const label = [...new Set(labels.filter((one) => one !== ''))].join(', ');
      lines.push(`  ${name} --> ${target}${label === '' ? '' : `: ${label}`}`);
    }
    if (state.type === 'final') lines.push(`  ${name} --> [*]`);
  }
  return `${lines.join('\n')}\n`;
}

function labelOf({ guard, actions }: ChartTransition): string {
  const ending = actions?.find((action) => action.type === 'setEnding')?.params?.['as'];
  if (!guard) return ending ?? '';
  const { is, as } = guard.params ?? {};
  return ending ?? is ?? as ?? '';
}

/** Mermaid ends a description at a line end and reads `:`, `;` and `#` itself. */
const plain = (text: string): string =>
  text
    .replace(/\s+/g, ' ')
    .replace(/[#;:<>"{}]/g, (found) => `#${found.charCodeAt(0)};`)
    .slice(0, 400);
