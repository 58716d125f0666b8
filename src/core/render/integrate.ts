// Integrate: the order that `integrate` edges put between stacks, and the cycles that forbid one.

/** Stack → the stacks that provide for it. Names that are no keys are ignored. */
export type Edges = ReadonlyMap<string, readonly string[]>;

/** The shortest way from `name` back to itself along the edges, `name` first; null when there is none. */
export function cycleThrough(name: string, edges: Edges): readonly string[] | null {
  const cameFrom = new Map<string, string>();
  let round = [name];
  while (round.length > 0) {
    const next: string[] = [];
    for (const from of round)
      for (const to of [...(edges.get(from) ?? [])].sort()) {
        if (to === name) {
          const cycle = [from];
          for (let at = from; at !== name; ) {
            at = cameFrom.get(at) ?? name;
            cycle.unshift(at);
          }
          return cycle;
        }
        if (cameFrom.has(to) || !edges.has(to)) continue;
        cameFrom.set(to, from);
        next.push(to);
      }
    round = next;
  }
  return null;
}

export interface Layering {
  /** Providers before their consumers; names of one layer do not depend on each other. */
  readonly layers: readonly (readonly string[])[];
  /** Member of a cycle → the cycle, member first. Members are in no layer. */
  readonly cycles: ReadonlyMap<string, readonly string[]>;
}

export function layersOf(edges: Edges): Layering {
  const first = peel(edges);
  if (first.left.length === 0) return { layers: first.layers, cycles: new Map() };
  // Left over are the members of cycles and all that depends on them.
  const cycles = new Map<string, readonly string[]>();
  for (const name of first.left) {
    const cycle = cycleThrough(name, edges);
    if (cycle) cycles.set(name, cycle);
  }
  const sound = new Map([...edges].filter(([name]) => !cycles.has(name)));
  return { layers: peel(sound).layers, cycles };
}

function peel(edges: Edges): { readonly layers: string[][]; readonly left: readonly string[] } {
  const waiting = new Map<string, number>();
  const consumers = new Map<string, string[]>();
  for (const [name, providers] of edges) {
    const known = [...new Set(providers)].filter((provider) => edges.has(provider));
    waiting.set(name, known.length);
    for (const provider of known) {
      const list = consumers.get(provider);
      if (list) list.push(name);
      else consumers.set(provider, [name]);
    }
  }
  const layers: string[][] = [];
  let layer = [...waiting].filter(([, count]) => count === 0).map(([name]) => name);
  while (layer.length > 0) {
    layers.push(layer.sort());
    const next: string[] = [];
    for (const name of layer) {
      waiting.delete(name);
      for (const consumer of consumers.get(name) ?? []) {
        const count = (waiting.get(consumer) ?? 0) - 1;
        waiting.set(consumer, count);
        if (count === 0) next.push(consumer);
      }
    }
    layer = next;
  }
  return { layers, left: [...waiting.keys()].sort() };
}

/** `a → b → a`. */
export const formatCycle = (cycle: readonly string[]): string => [...cycle, cycle[0] ?? ''].join(' → ');
