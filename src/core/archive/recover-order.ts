// Recover order: which stacks of a group are recovered under which names, from which archives, and in which order: providers before their
// consumers. Pure; what is not of the group is left to whoever plans.
import { Fault } from '../fault.ts';
import { formatCycle, layersOf } from '../render/integrate.ts';

export interface RecoverEdge {
  readonly consumer: string;
  readonly plug: string;
  readonly provider: string;
}

export interface RecoverInput {
  readonly members: readonly { readonly stack: string; readonly archive: string }[];
  readonly edges: readonly RecoverEdge[];
  /** Those of the members that are wanted. */
  readonly stacks: readonly string[];
  readonly rename?: Readonly<Record<string, string>>;
  /** Plugs that stay unconnected in the whole group. */
  readonly skipIntegration?: readonly string[];
}

export interface RecoverNode {
  readonly stack: string;
  /** The name under which it is recovered. */
  readonly target: string;
  readonly archive: string;
  /** Plug → target of the provider that is recovered with it. Other plugs stay as the archive says. */
  readonly integrate: Readonly<Record<string, string>>;
  /** Targets that must be there before it. Sorted, each once. */
  readonly needs: readonly string[];
}

/** Layers in the order of work, each sorted by target. Throws NOT_FOUND, USAGE, or ARCHIVE_INVALID for a cycle. */
export function recoverOrder(input: RecoverInput): readonly (readonly RecoverNode[])[] {
  const { rename = {}, skipIntegration = [], stacks } = input;
  const archives = new Map(input.members.map(({ stack, archive }) => [stack, archive]));
  const wanted = new Set(stacks);
  const target = (stack: string): string => (Object.hasOwn(rename, stack) ? (rename[stack] ?? stack) : stack);
  for (const stack of stacks)
    if (!archives.has(stack)) throw new Fault('NOT_FOUND', `the archive holds no stack ${stack}`, { data: { stack } });
  for (const stack of Object.keys(rename))
    if (!wanted.has(stack))
      throw new Fault('USAGE', `\`rename\` names the stack ${stack}, which is not recovered`, { data: { stack } });
  const targets = new Map<string, string>();
  for (const stack of stacks) {
    const other = targets.get(target(stack));
    if (other !== undefined)
      throw new Fault('USAGE', `${other} and ${stack} would both be recovered as ${target(stack)}`);
    targets.set(target(stack), stack);
  }

  const nodes = new Map<string, RecoverNode>();
  for (const stack of stacks) {
    const inside = input.edges.filter(
      (edge) => edge.consumer === stack && wanted.has(edge.provider) && !skipIntegration.includes(edge.plug),
    );
    nodes.set(target(stack), {
      stack,
      target: target(stack),
      archive: archives.get(stack) ?? '',
      integrate: Object.fromEntries(inside.map(({ plug, provider }) => [plug, target(provider)])),
      needs: [...new Set(inside.map(({ provider }) => target(provider)))].sort(),
    });
  }
  const { layers, cycles } = layersOf(new Map([...nodes].map(([name, { needs }]) => [name, needs])));
  const [cycle] = [...cycles.values()];
  if (cycle)
    throw new Fault(
      'ARCHIVE_INVALID',
      `the stacks integrate each other in a circle, so none can be the first: ${formatCycle(cycle)}; leave a plug out with \`skipIntegration\``,
      { data: { cycle: [...cycle] } },
    );
  return layers.map((layer) => layer.flatMap((name) => nodes.get(name) ?? []));
}
