// What all benchmarks share: a scratch fleet, numbers and one JSON row a figure.
export interface Row {
  readonly bench: string;
  readonly stacks: number;
  readonly oursMs: number;
  readonly peer: string;
  readonly peerMs: number | null;
  readonly ratio: number | null;
  readonly budgetMs: number | null;
  readonly note: string;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

export const round = (ms: number): number => Math.round(ms * 10) / 10;
